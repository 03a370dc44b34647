//! Decides whether a request may pass.
//!
//! Over the Unix socket, this user, root and the allowed users may. Over TCP, a request must carry the token, address
//! this machine by name, and not come from another site's page. That stops DNS rebinding and cross-site requests, since
//! browsers state a page's origin. The page's own files need no token: they contain nothing of a job.

use axum::http::{HeaderMap, HeaderName, Request, header};

use super::listen::Peer;
use super::page;
use super::problem::{Code, Problem};
use super::slots::Sitter;

/// Who may use the sidecar.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Allowed users besides this one and root.
    pub uids: Vec<u32>,
    /// The token for TCP.
    pub token: Option<String>,
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
                check_site(headers)?;
                if page::is_public(request.method(), request.uri().path()) {
                    return Ok(());
                }
                self.check_token(headers)
            }
        }
    }

    /// Classifies a peer before its first request.
    #[must_use]
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

/// Refuses other machines' names and other sites' pages.
fn check_site(headers: &HeaderMap) -> Result<(), Problem> {
    let host = text(headers, header::HOST).unwrap_or_default();
    if !is_ours(host) {
        let detail = "the Host header is not of this machine: 127.0.0.1, [::1] or localhost";
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let origin = headers.get(header::ORIGIN);
    if origin.is_some_and(|origin| origin.as_bytes() != format!("http://{host}").as_bytes()) {
        return Err(Problem::new(
            Code::Forbidden,
            "not from the page of another site",
        ));
    }
    Ok(())
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

/// Whether a host names this machine, with or without a port.
fn is_ours(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "127.0.0.1" | "[::1]" | "localhost")
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
        for path in ["/v1/jobs", "/metrics", "/livez", "/page"] {
            assert_eq!(ask("GET", path, &[host]), Err(Code::Unauthorized));
        }
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
            token: None,
        };
        let check = |uid| guard.check(&Peer::Unix(uid), &request).is_ok();
        assert!(check(Uid::current().as_raw()) && check(0) && check(4242));
        assert!(!check(4243));
    }
}
