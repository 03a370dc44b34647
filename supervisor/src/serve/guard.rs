//! Decides whether a request may pass.
//!
//! Over the Unix socket, this user, root and the allowed users may. Over TCP, a request must carry the token, and come by
//! a name and from a page that [`super::site`] knows. The page's own files need no token: they contain nothing of a job.
//! Neither does `/livez`, which tells nothing, and which a container's health check asks by an address.

use axum::http::{HeaderMap, HeaderName, Method, Request, header};

use super::listen::Peer;
use super::page;
use super::problem::{Code, Problem};
use super::site::Sites;
use super::slots::Sitter;

/// Who may use the sidecar.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Allowed users besides this one and root.
    pub uids: Vec<u32>,
    /// The token for TCP.
    pub token: Option<String>,
    /// The names and pages for TCP.
    pub sites: Sites,
}

impl Guard {
    /// Checks a request.
    ///
    /// # Errors
    /// The reason for refusing it.
    pub fn check<B>(&self, peer: &Peer, request: &Request<B>) -> Result<(), Problem> {
        match peer {
            Peer::Unix(uid) => self.check_user(*uid),
            Peer::Tcp(_) => {
                let headers = request.headers();
                if !is_livez(request) {
                    self.sites.check(headers)?;
                }
                if self.is_open(request) {
                    return Ok(());
                }
                self.check_token(headers)
            }
        }
    }

    /// Whether a request is answered without the token.
    pub fn is_open<B>(&self, request: &Request<B>) -> bool {
        page::is_public(request.method(), request.uri().path())
            || is_livez(request)
            || self.sites.is_preflight(request)
    }

    /// Classifies a peer before its first request.
    pub fn sitter(&self, peer: &Peer) -> Sitter {
        match peer {
            Peer::Unix(_) if peer.rules() => Sitter::Owner,
            Peer::Unix(uid) if self.uids.contains(uid) => Sitter::User(*uid),
            Peer::Unix(uid) => Sitter::Stranger(*uid),
            Peer::Tcp(address) => Sitter::Caller(*address),
        }
    }

    fn check_user(&self, uid: u32) -> Result<(), Problem> {
        if Peer::Unix(uid).rules() || self.uids.contains(&uid) {
            return Ok(());
        }
        let detail = format!("user {uid} may not use this sidecar; --allow-uid {uid} would let it");
        Err(Problem::new(Code::Forbidden, detail))
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let bearer =
            text(headers, header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let shown = bearer.or_else(|| cookie(text(headers, header::COOKIE)?));
        match (&self.token, shown) {
            (Some(token), Some(shown)) if same(token.as_bytes(), shown.as_bytes()) => Ok(()),
            _ => Err(Problem::new(
                Code::Unauthorized,
                "send Authorization: Bearer TOKEN, with what is in the token file",
            )),
        }
    }
}

fn is_livez<B>(request: &Request<B>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD) && request.uri().path() == "/livez"
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The token from a cookie.
fn cookie(header: &str) -> Option<&str> {
    let mut pairs = header
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(name, _)| *name == "kiln_token")
        .map(|(_, value)| value)
}

/// Compares in a time that does not depend on where the first difference is.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .fold(0, |sum, (left, right)| sum | (left ^ right))
            == 0
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use nix::unistd::Uid;

    use super::*;

    const TCP: Peer = Peer::Tcp(IpAddr::V4(Ipv4Addr::LOCALHOST));

    fn by_tcp(headers: &[(&str, &str)]) -> Result<(), Code> {
        let guard = Guard {
            uids: Vec::new(),
            token: Some("secret".to_owned()),
            sites: Sites::default(),
        };
        let mut request = Request::builder().uri("/v1/jobs");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("a request");
        guard.check(&TCP, &request).map_err(|problem| problem.code)
    }

    #[test]
    fn by_tcp_the_token_the_host_and_the_origin_must_be_right() {
        let token = ("authorization", "Bearer secret");
        let host = ("host", "127.0.0.1:8017");
        assert_eq!(by_tcp(&[host, token]), Ok(()));
        assert_eq!(by_tcp(&[("host", "localhost"), token]), Ok(()));
        assert_eq!(by_tcp(&[("host", "[::1]:8017"), token]), Ok(()));
        assert_eq!(
            by_tcp(&[host, ("cookie", "a=b; kiln_token=secret")]),
            Ok(())
        );
        assert_eq!(
            by_tcp(&[host, token, ("origin", "http://127.0.0.1:8017")]),
            Ok(())
        );
        assert_eq!(by_tcp(&[host]), Err(Code::Unauthorized));
        assert_eq!(
            by_tcp(&[host, ("authorization", "Bearer secres")]),
            Err(Code::Unauthorized)
        );
        assert_eq!(by_tcp(&[token]), Err(Code::Forbidden));
        assert_eq!(
            by_tcp(&[("host", "evil.example:8017"), token]),
            Err(Code::Forbidden)
        );
        assert_eq!(
            by_tcp(&[("host", "127.0.0.1.evil.example"), token]),
            Err(Code::Forbidden)
        );
        for origin in ["http://evil.example", "null", "http://localhost:8017"] {
            assert_eq!(
                by_tcp(&[host, token, ("origin", origin)]),
                Err(Code::Forbidden)
            );
        }
    }

    #[test]
    fn the_files_of_the_page_need_no_token_but_the_right_host_and_origin() {
        let guard = Guard {
            uids: Vec::new(),
            token: Some("secret".to_owned()),
            sites: Sites::default(),
        };
        let ask = |method: &str, path: &str, headers: &[(&str, &str)]| {
            let mut request = Request::builder().method(method).uri(path);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let request = request.body(()).expect("a request");
            let checked = guard.check(&TCP, &request);
            checked.map_err(|problem| problem.code)
        };
        let host = ("host", "127.0.0.1:8017");
        for path in ["/", "/page/page-ABC.js", "/?x=1"] {
            assert_eq!(ask("GET", path, &[host]), Ok(()));
            assert_eq!(ask("HEAD", path, &[host]), Ok(()));
            assert_eq!(ask("POST", path, &[host]), Err(Code::Unauthorized));
            let evil = ("host", "evil.example:8017");
            assert_eq!(ask("GET", path, &[evil]), Err(Code::Forbidden));
            let foreign = ("origin", "http://evil.example");
            assert_eq!(ask("GET", path, &[host, foreign]), Err(Code::Forbidden));
            let own = ("origin", "http://127.0.0.1:8017");
            assert_eq!(ask("GET", path, &[host, own]), Ok(()));
        }
        for path in ["/v1/jobs", "/metrics", "/readyz", "/livez/", "/page"] {
            assert_eq!(ask("GET", path, &[host]), Err(Code::Unauthorized));
        }
        // A health check asks by the container's address.
        for host in [&[host][..], &[("host", "10.1.2.3:8017")], &[]] {
            assert_eq!(ask("GET", "/livez", host), Ok(()));
        }
        assert_eq!(ask("POST", "/livez", &[host]), Err(Code::Unauthorized));
    }

    #[test]
    fn a_browser_of_a_listed_site_asks_first_and_shows_the_token_then() {
        let guard = Guard {
            token: Some("secret".to_owned()),
            sites: Sites {
                public: None,
                others: vec!["https://app.example.org".parse().expect("an origin")],
            },
            ..Guard::default()
        };
        let ask = |method: &str, origin: &str, asks: &str| {
            let request = Request::builder().method(method).uri("/v1/jobs");
            let request = request.header("host", "localhost").header("origin", origin);
            let request = request.header(asks, "POST").body(()).expect("a request");
            guard.check(&TCP, &request).map_err(|problem| problem.code)
        };
        let (app, asks) = ("https://app.example.org", "access-control-request-method");
        assert_eq!(ask("OPTIONS", app, asks), Ok(()));
        assert_eq!(ask("OPTIONS", app, "x-other"), Err(Code::Unauthorized));
        assert_eq!(ask("POST", app, asks), Err(Code::Unauthorized));
        let evil = ask("OPTIONS", "https://evil.example.org", asks);
        assert_eq!(evil, Err(Code::Forbidden));
        let own = ask("OPTIONS", "http://localhost", asks);
        assert_eq!(own, Err(Code::Unauthorized));
    }

    #[test]
    fn without_a_token_nobody_comes_in_by_tcp() {
        let request = Request::builder()
            .uri("/v1/jobs")
            .header("host", "localhost")
            .header("authorization", "Bearer ")
            .body(())
            .expect("a request");
        let problem = Guard::default().check(&TCP, &request);
        assert_eq!(problem.expect_err("no token").code, Code::Unauthorized);
    }

    #[test]
    fn by_the_unix_socket_the_user_counts() {
        let request = Request::builder().body(()).expect("a request");
        let guard = Guard {
            uids: vec![4242],
            ..Guard::default()
        };
        let check = |uid| guard.check(&Peer::Unix(uid), &request).is_ok();
        assert!(check(Uid::current().as_raw()) && check(0) && check(4242));
        assert!(!check(4243));
    }
}
