//! A request and who sent it → let through or not.
//!
//! By the Unix socket: this user, root, and who was named. By TCP: who shows the token, under a name of this machine, and not
//! from another site's page (DNS rebinding and cross-site requests: a browser tells where a page comes from).

use axum::http::{HeaderMap, Request, header};
use nix::unistd::Uid;

use super::listen::Peer;
use super::problem::{Code, Problem};

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Users beside this one and root.
    pub uids: Vec<u32>,
    /// For TCP.
    pub token: Option<String>,
}

impl Guard {
    /// Lets the request through.
    ///
    /// # Errors
    /// Why not.
    pub fn check<B>(&self, peer: &Peer, request: &Request<B>) -> Result<(), Problem> {
        match peer {
            Peer::Unix(uid) => self.check_user(*uid),
            Peer::Tcp => self.check_page(request.headers()),
        }
    }

    fn check_user(&self, uid: u32) -> Result<(), Problem> {
        if uid == 0 || uid == Uid::current().as_raw() || self.uids.contains(&uid) {
            return Ok(());
        }
        let detail = format!("user {uid} may not use this sidecar; --allow-uid {uid} would let it");
        Err(Problem::new(Code::Forbidden, detail))
    }

    fn check_page(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(header::HOST).unwrap_or_default();
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
        let bearer = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let shown = bearer.or_else(|| cookie(text(header::COOKIE)?));
        match (&self.token, shown) {
            (Some(token), Some(shown)) if same(token.as_bytes(), shown.as_bytes()) => Ok(()),
            _ => Err(Problem::new(
                Code::Unauthorized,
                "send Authorization: Bearer TOKEN, with what is in the token file",
            )),
        }
    }
}

/// The token that the page keeps.
fn cookie(header: &str) -> Option<&str> {
    let mut pairs = header
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(name, _)| *name == "kiln_token")
        .map(|(_, value)| value)
}

/// A name of this machine, with or without a port.
fn is_ours(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "127.0.0.1" | "[::1]" | "localhost")
}

/// Takes the same time wherever the first difference is.
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
    use super::*;

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
        guard
            .check(&Peer::Tcp, &request)
            .map_err(|problem| problem.code)
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
    fn without_a_token_nobody_comes_in_by_tcp() {
        let request = Request::builder()
            .header("host", "localhost")
            .header("authorization", "Bearer ")
            .body(())
            .expect("a request");
        let problem = Guard::default().check(&Peer::Tcp, &request);
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
