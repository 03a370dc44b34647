//! A Unix socket between `kiln` and its sidecar that passes requests and answers on, and cuts connections where a test
//! wants it. Also a fake sidecar that answers with whatever bytes a test wants.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::DEADLINE;

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Not at all.
    Never,
    /// Once this many bytes have been sent to the sidecar.
    AfterSent(usize),
    /// After the sidecar has answered, before any of the answer is passed back.
    BeforeAnswer,
    /// Once this many bytes of the answer have been passed back.
    AfterAnswered(usize),
}

/// The relay, with one request per connection; see the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Relay(Arc<(Mutex<Vec<String>>, Condvar)>);

impl Relay {
    /// Listens at `socket` and passes connections on to `sidecar`. `cut` gets a request's first line, and its number
    /// (from 1) among those with the same method and the same folder of the path.
    pub fn start(
        socket: &Path,
        sidecar: &Path,
        cut: impl Fn(&str, usize) -> Cut + Send + Sync + 'static,
    ) -> Self {
        let listener = UnixListener::bind(socket).expect("a socket");
        let (relay, sidecar) = (Self::default(), sidecar.to_path_buf());
        let seen = relay.clone();
        let cut = Arc::new(cut);
        let counts: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (seen, sidecar) = (seen.clone(), sidecar.clone());
                let (cut, counts) = (Arc::clone(&cut), Arc::clone(&counts));
                std::thread::spawn(move || {
                    // If one side closes, only this connection ends.
                    drop(pass(client, &sidecar, &seen, |line| {
                        let key = kind(line);
                        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                        let count = counts.entry(key).or_default();
                        *count += 1;
                        let cut = cut(line, *count);
                        seen.see(line);
                        cut
                    }));
                });
            }
        });
        relay
    }

    /// The first lines of all requests so far, and of the answers that were passed on completely.
    pub fn seen(&self) -> Vec<String> {
        self.lines().clone()
    }

    /// Waits for a request or an answer.
    pub fn wait_for(&self, wanted: impl Fn(&str) -> bool) {
        let until = Instant::now() + DEADLINE;
        let mut lines = self.lines();
        while !lines.iter().any(|line| wanted(line)) {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it did not come: {lines:#?}");
            let waited = self.0.1.wait_timeout(lines, left);
            lines = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn see(&self, line: &str) {
        self.lines().push(line.to_owned());
        self.0.1.notify_all();
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of `GET /v1/jobs/0/artifacts/model.glb HTTP/1.1`, `GET artifacts`.
fn kind(line: &str) -> String {
    let mut words = line.split(' ');
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    let folder = path.rsplit('/').nth(1).unwrap_or_default();
    format!("{method} {folder}")
}

fn pass(
    mut client: UnixStream,
    sidecar: &Path,
    seen: &Relay,
    cut: impl Fn(&str) -> Cut,
) -> io::Result<()> {
    let head = head(&mut client)?;
    let cut = cut(first_line(&head));
    let mut server = UnixStream::connect(sidecar)?;
    server.write_all(&head)?;
    let (mut up_from, mut up_to) = (client.try_clone()?, server.try_clone()?);
    let limit = match cut {
        Cut::AfterSent(bytes) => Some(bytes),
        Cut::Never | Cut::BeforeAnswer | Cut::AfterAnswered(_) => None,
    };
    let up = std::thread::spawn(move || {
        drop(copy(&mut up_from, &mut up_to, limit));
        if limit.is_some() {
            drop(up_to.shutdown(Shutdown::Both));
        } else {
            drop(up_to.shutdown(Shutdown::Write));
        }
    });
    match cut {
        Cut::BeforeAnswer => {
            let mut byte = [0];
            server.read_exact(&mut byte)?;
        }
        Cut::AfterAnswered(bytes) => copy(&mut server, &mut client, Some(bytes))?,
        Cut::AfterSent(_) => copy(&mut server, &mut client, None)?,
        Cut::Never => {
            let head = self::head(&mut server)?;
            client.write_all(&head)?;
            seen.see(first_line(&head));
            copy(&mut server, &mut client, None)?;
        }
    }
    client.shutdown(Shutdown::Both)?;
    drop(up.join());
    Ok(())
}

/// Copies at most `limit` bytes.
fn copy(from: &mut UnixStream, to: &mut UnixStream, limit: Option<usize>) -> io::Result<()> {
    let mut left = limit.unwrap_or(usize::MAX);
    let mut chunk = vec![0; 16 << 10];
    while left > 0 {
        let most = left.min(chunk.len());
        let count = from.read(&mut chunk[..most])?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&chunk[..count])?;
        left -= count;
    }
    Ok(())
}

fn head(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(head)
}

fn first_line(head: &[u8]) -> &str {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    std::str::from_utf8(line).unwrap_or_default()
}

/// Listens at `socket` and answers each request with the bytes that `answer` returns for its first line.
pub fn fake(
    socket: &Path,
    answer: impl Fn(&str) -> Vec<u8> + Send + 'static,
) -> std::thread::JoinHandle<()> {
    let listener = UnixListener::bind(socket).expect("a socket");
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            if let Ok(head) = head(&mut client) {
                // The caller may close before it has read everything.
                drop(client.write_all(&answer(first_line(&head))));
            }
        }
    })
}
