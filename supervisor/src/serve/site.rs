//! `Host` and `Origin` of a request by TCP → whether it comes from a page that may use the sidecar, and what other sites'
//! pages may read (CORS).
//!
//! Browsers state a page's origin, and the name that they looked up. So a name that an attacker lets point at this machine
//! (DNS rebinding), and a request from another site's page, are seen. The token is checked beside this, not instead.

use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};

use super::problem::{Code, Problem};

/// Methods and headers of all routes, for a page on another site, and headers of answers that it may read.
const CORS: [(HeaderName, &str); 3] = [
    (
        header::ACCESS_CONTROL_ALLOW_METHODS,
        "GET, HEAD, POST, PUT, DELETE",
    ),
    (
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        "authorization, content-type, idempotency-key, if-match, if-none-match, if-range, last-event-id, prefer, range",
    ),
    (
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        "content-disposition, content-range, etag, idempotency-replayed, location, retry-after",
    ),
];

/// Scheme, host and port, as a browser writes them: `https://kiln.example.org`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.strip_suffix('/').unwrap_or(text).to_ascii_lowercase();
        let (scheme, host) = lower.split_once("://").unwrap_or_default();
        let port = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => return Err("must begin with http:// or https://".to_owned()),
        };
        let host = host.strip_suffix(port).unwrap_or(host);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        if host.is_empty() || !host.bytes().all(plain) {
            let message = "must be a scheme and a host, with a port if need be, and no path: https://kiln.example.org";
            return Err(message.to_owned());
        }
        Ok(Self(format!("{scheme}://{host}")))
    }
}

impl Origin {
    /// As a URL without a slash at its end.
    pub fn url(&self) -> &str {
        &self.0
    }

    /// Whether a `Host` header names it. The port is the proxy's, which passes it on or not.
    fn is_at(&self, host: &str) -> bool {
        let own = self.0.split_once("://").map_or("", |(_, host)| host);
        name_of(host).eq_ignore_ascii_case(name_of(own))
    }
}

/// The sites whose pages may use the sidecar, beside those of this machine.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    /// Where a proxy shows this sidecar to browsers.
    pub public: Option<Origin>,
    /// Others whose pages may ask.
    pub others: Vec<Origin>,
}

impl Sites {
    /// Checks the name under which a request comes, and the page that it comes from.
    ///
    /// # Errors
    /// Another machine's name, or another site's page; or two pages, of which others may believe the second.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if headers.get_all(header::ORIGIN).iter().nth(1).is_some() {
            return Err(Problem::new(Code::Forbidden, "Origin comes once"));
        }
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        let host = host.unwrap_or_default();
        let ours = is_ours(host);
        if !ours && !(self.public.as_ref()).is_some_and(|public| public.is_at(host)) {
            let detail = "the Host header is not of this machine (127.0.0.1, [::1] or localhost); --public-url names another";
            return Err(Problem::new(Code::Forbidden, detail));
        }
        let Some(origin) = headers.get(header::ORIGIN) else {
            return Ok(());
        };
        let own = ours && origin.as_bytes() == format!("http://{host}").as_bytes();
        let mut known = self.public.iter().chain(&self.others);
        if own || known.any(|known| known.0.as_bytes() == origin.as_bytes()) {
            return Ok(());
        }
        let detail = "not from the page of another site; --cors-origin lets one in";
        Err(Problem::new(Code::Forbidden, detail))
    }

    /// Whether a browser asks, without the token, if it may ask with it.
    pub fn is_preflight<B>(&self, request: &Request<B>) -> bool {
        let headers = request.headers();
        *request.method() == Method::OPTIONS
            && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
            && self.other(headers).is_some()
    }

    /// The other site from whose page a request comes, if it may ask.
    pub fn other(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        let mut others = self.others.iter();
        let known = others.any(|known| known.0.as_bytes() == origin.as_bytes());
        known.then(|| origin.clone())
    }

    /// Headers that let a page on `other` read an answer.
    pub fn allow(&self, other: Option<HeaderValue>, headers: &mut HeaderMap) {
        if !self.others.is_empty() {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
        if let Some(origin) = other {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            for (name, value) in CORS {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
    }
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether a host names this machine, with or without a port.
fn is_ours(host: &str) -> bool {
    matches!(name_of(host), "127.0.0.1" | "[::1]" | "localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        text.parse().expect("an origin")
    }

    fn checked(sites: &Sites, host: &str, from: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a value"));
        if let Some(from) = from {
            headers.insert(header::ORIGIN, from.parse().expect("a value"));
        }
        sites.check(&headers).is_ok()
    }

    #[test]
    fn a_site_is_a_scheme_a_host_and_a_port() {
        for (text, url) in [
            ("https://kiln.example.org", "https://kiln.example.org"),
            ("HTTPS://Kiln.Example.org:443/", "https://kiln.example.org"),
            ("http://10.0.0.5:8080", "http://10.0.0.5:8080"),
            ("http://[2001:db8::1]:80", "http://[2001:db8::1]"),
        ] {
            assert_eq!(origin(text).url(), url);
        }
        for wrong in [
            "",
            "*",
            "null",
            "kiln.example.org",
            "ftp://kiln.example.org",
            "https://",
            "https://kiln.example.org/kiln",
            "https://user@kiln.example.org",
        ] {
            assert!(wrong.parse::<Origin>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn two_pages_are_none() {
        let sites = Sites {
            others: vec![origin("https://app.example.org")],
            ..Sites::default()
        };
        let one = [("host", "localhost"), ("origin", "https://app.example.org")];
        for more in [None, Some(("origin", "null"))] {
            let mut headers = HeaderMap::new();
            for (name, value) in one.into_iter().chain(more) {
                headers.append(name, HeaderValue::from_static(value));
            }
            assert_eq!(sites.check(&headers).is_ok(), more.is_none(), "{more:?}");
        }
    }

    #[test]
    fn a_public_name_is_one_more_name_and_no_other_machine_has_it() {
        let (none, some) = (
            Sites::default(),
            Sites {
                public: Some(origin("https://kiln.example.org:8443")),
                others: vec![origin("https://app.example.org")],
            },
        );
        let (here, there) = ("127.0.0.1:8017", "kiln.example.org");
        for (host, from, without, with) in [
            (here, None, true, true),
            (here, Some("http://127.0.0.1:8017"), true, true),
            (here, Some("http://localhost:8017"), false, false),
            (there, None, false, true),
            ("Kiln.example.org:443", None, false, true),
            ("kiln.example.org.evil.org", None, false, false),
            ("kiln.example.org:8443", None, false, true),
            // Most proxies pass the name on without the port, some not at all.
            (there, Some("https://kiln.example.org:8443"), false, true),
            (here, Some("https://kiln.example.org:8443"), false, true),
            (there, Some("https://kiln.example.org"), false, false),
            (there, Some("http://kiln.example.org:8443"), false, false),
            (there, Some("https://app.example.org"), false, true),
            (there, Some("https://evil.example.org"), false, false),
            (there, Some("null"), false, false),
            ("app.example.org", None, false, false),
            (
                "evil.example.org",
                Some("https://kiln.example.org:8443"),
                false,
                false,
            ),
        ] {
            assert_eq!(checked(&none, host, from), without, "{host} {from:?}");
            assert_eq!(checked(&some, host, from), with, "{host} {from:?}");
        }
    }
}
