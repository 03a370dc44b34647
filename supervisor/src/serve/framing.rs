//! Refuses a request that two readers may take for two different ones: by where it ends, or by which host it names.
//!
//! A proxy and Kiln that disagree on a request's end let its sender hide a second one behind it (RFC 9112, 11.2). hyper
//! refuses lengths that differ or are no number, folded lines, a space before a colon, a last coding other than chunked,
//! and a coding in HTTP/1.0. It takes a request with both a length and a coding, drops the length and closes the connection:
//! allowed (RFC 9112, 6.1), and refused here. Since nothing tells such a request from others then, [`Heads`] reads along.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, Request, Version, header};

use super::problem::{Code, Problem};

/// The number, from 1, of the first request of a connection with a length and a coding; 0 while there is none.
#[derive(Clone, Debug, Default)]
pub struct Doubled(Arc<AtomicU64>);

/// Marks a request that came with both.
#[derive(Clone, Copy, Debug)]
pub struct Double;

impl Doubled {
    /// The mark of the request of this number, whose head has come.
    #[must_use]
    pub fn mark(&self, number: u64) -> Option<Double> {
        (self.0.load(Ordering::Relaxed) == number).then_some(Double)
    }
}

/// Follows a connection's bytes from head to head, as far as lengths tell where the next one begins. A request with a coding is
/// a connection's last one ([`is_last`]), so nothing comes after it.
///
/// hyper judges what the bytes mean. What it refuses ends the connection, so it does not matter what is made of that here.
#[derive(Debug, Default)]
pub struct Heads {
    next: Next,
    count: u64,
    doubled: Doubled,
}

#[derive(Debug)]
enum Next {
    Head(Head),
    Body(u64),
    Nothing,
}

impl Default for Next {
    fn default() -> Self {
        Self::Head(Head::default())
    }
}

#[derive(Debug, Default)]
struct Head {
    /// What has come of a line; hyper bounds it as it bounds the head.
    line: Vec<u8>,
    /// The request line has come.
    begun: bool,
    length: Option<u64>,
    coded: bool,
}

impl Head {
    /// Reads the line that has come, and says whether the head ends with it.
    fn ends(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        let line = line.trim_ascii();
        if line.is_empty() {
            // Empty lines before a request are skipped.
            return self.begun;
        }
        self.begun = true;
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(0));
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.coded = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let digits = std::str::from_utf8(&value[1..]).unwrap_or_default();
            self.length = Some(digits.trim().parse().unwrap_or(0));
        }
        false
    }
}

impl Heads {
    /// Follows a connection, and tells `doubled` of the request.
    #[must_use]
    pub fn new(doubled: Doubled) -> Self {
        Self {
            doubled,
            ..Self::default()
        }
    }

    /// Reads the next bytes of the connection.
    pub fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match &mut self.next {
                Next::Nothing => return,
                Next::Body(left) => {
                    let taken =
                        usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    *left -= taken as u64;
                    bytes = &bytes[taken..];
                    if *left == 0 {
                        self.next = Next::default();
                    }
                }
                Next::Head(head) => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    head.line.extend(&bytes[..end.unwrap_or(bytes.len())]);
                    bytes = &bytes[end.map_or(bytes.len(), |end| end + 1)..];
                    if end.is_none() || !head.ends() {
                        continue;
                    }
                    self.count += 1;
                    self.next = match (head.coded, head.length) {
                        (false, None | Some(0)) => Next::default(),
                        (false, Some(length)) => Next::Body(length),
                        (true, length) => {
                            if length.is_some() {
                                self.doubled.0.store(self.count, Ordering::Relaxed);
                            }
                            Next::Nothing
                        }
                    };
                }
            }
        }
    }
}

/// Whether the connection ends with the answer, since the request has a coding.
#[must_use]
pub fn is_last(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING)
}

/// Checks what hyper has let pass; see the head of this file.
///
/// # Errors
/// What may be read in two ways.
pub fn check<B>(request: &Request<B>) -> Result<(), Problem> {
    let headers = request.headers();
    let coding = headers.get_all(header::TRANSFER_ENCODING);
    let other =
        |coding: &axum::http::HeaderValue| !coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    let hosts = headers.get_all(header::HOST);
    let host = hosts.iter().next();
    // A proxy may go by either (RFC 9112, 3.2.2).
    let named = request
        .uri()
        .authority()
        .map(|named| named.as_str().as_bytes());
    let elsewhere =
        |named: &[u8]| !host.is_some_and(|host| host.as_bytes().eq_ignore_ascii_case(named));
    let wrong = if request.extensions().get::<Double>().is_some() {
        "Content-Length and Transfer-Encoding exclude each other"
    } else if coding.iter().any(other) || coding.iter().nth(1).is_some() {
        "chunked is the one Transfer-Encoding that is taken, once"
    } else if hosts.iter().nth(1).is_some()
        || (host.is_none() && request.version() == Version::HTTP_11)
    {
        "a request has one Host"
    } else if named.is_some_and(elsewhere) {
        "the request's target names another host than Host does"
    } else {
        return Ok(());
    };
    Err(Problem::new(Code::InvalidRequest, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_with_both_is_found_however_its_bytes_come() {
        let plain = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        let body =
            "POST / HTTP/1.1\r\nContent-Length:  29\r\n\r\nX\n\nTransfer-Encoding: chunked\n\n";
        let empty = "\r\n\nPUT / HTTP/1.1\ncontent-length: 0\n\n";
        let coded = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
        let both = "POST / HTTP/1.1\r\nTRANSFER-ENCODING: chunked\r\ncontent-length: 1\r\n\r\n";
        let turned = "POST / HTTP/1.1\ncontent-length: x\nTransfer-Encoding:chunked\n\n";
        for (requests, found) in [
            (&[plain, body, empty, plain][..], 0),
            (&[plain, coded, both], 0),
            (&[both], 1),
            (&[turned, both], 1),
            (&[plain, body, empty, both], 4),
            (&[empty, body, turned], 3),
        ] {
            let bytes = requests.concat();
            for step in [1, 2, 7, bytes.len()] {
                let doubled = Doubled::default();
                let mut heads = Heads::new(doubled.clone());
                bytes
                    .as_bytes()
                    .chunks(step)
                    .for_each(|part| heads.read(part));
                for number in 1..9 {
                    let marked = doubled.mark(number).is_some();
                    assert_eq!(marked, number == found, "{bytes:?} by {step}");
                }
            }
        }
    }
}
