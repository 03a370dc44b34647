//! A real S3 server, and a proxy that spoils what passes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use super::program::{Program, free_port, server};

/// An S3 server of moto, with the bucket `kiln`.
#[derive(Debug)]
pub struct S3 {
    /// Where it listens.
    pub port: u16,
    _program: Program,
}

impl S3 {
    /// Starts it.
    pub fn start() -> Self {
        let port = free_port();
        let mut command = Command::new(server("moto_server"));
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let mut program = Program::start(command);
        program.wait_for("Running on http");
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let ask = "PUT /kiln HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        stream.write_all(ask.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.contains(" 200 "), "{answer}");
        Self {
            port,
            _program: program,
        }
    }
}

/// What a proxy does with an exchange: its number from 1, and the first line of its request.
pub type Spoil = dyn Fn(usize, &str) -> Spoilt + Send + Sync;

/// What becomes of one exchange of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoilt {
    /// As it is.
    Not,
    /// 500, without asking.
    Error,
    /// Half of the answer's bytes.
    Half,
    /// The right length, and one other byte at the end.
    Changed,
}

/// A proxy before an HTTP server, with one exchange a connection.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub port: u16,
    spoilt: Arc<Mutex<Vec<(Spoilt, String)>>>,
}

impl Proxy {
    /// Starts one before this port.
    pub fn start(to: u16, spoil: Box<Spoil>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let spoilt: Arc<Mutex<Vec<(Spoilt, String)>>> = Arc::default();
        let (told, spoil) = (Arc::clone(&spoilt), Arc::new(spoil));
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().map_while(Result::ok).enumerate() {
                let (told, spoil) = (Arc::clone(&told), Arc::clone(&spoil));
                std::thread::spawn(move || {
                    // One side that closes ends this connection alone.
                    drop(pass(client, to, |line| {
                        let what = spoil(number + 1, line);
                        if what != Spoilt::Not {
                            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                            told.push((what, line.to_owned()));
                        }
                        what
                    }));
                });
            }
        });
        Self { port, spoilt }
    }

    /// What was spoilt, and of which requests.
    pub fn spoilt(&self) -> Vec<(Spoilt, String)> {
        let spoilt = self.spoilt.lock().unwrap_or_else(PoisonError::into_inner);
        spoilt.clone()
    }
}

fn message(from: &mut BufReader<TcpStream>, bodiless: bool) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = Vec::new();
        if from.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&line).to_ascii_lowercase();
        if let Some(bytes) = text.strip_prefix("content-length:") {
            length = bytes.trim().parse().map_err(io::Error::other)?;
        }
        let last = line == b"\r\n";
        // Each side closes after one exchange.
        if !text.starts_with("connection:") {
            if last {
                head.extend(b"Connection: close\r\n");
            }
            head.extend(line);
        }
        if last {
            break;
        }
    }
    let mut body = vec![0; if bodiless { 0 } else { length }];
    from.read_exact(&mut body)?;
    Ok((head, body))
}

fn pass(client: TcpStream, to: u16, spoil: impl Fn(&str) -> Spoilt) -> io::Result<()> {
    let mut from = BufReader::new(client.try_clone()?);
    let (head, body) = message(&mut from, false)?;
    let line = String::from_utf8_lossy(&head);
    let line = line.lines().next().unwrap_or_default().to_owned();
    let what = spoil(&line);
    let mut back = client;
    if what == Spoilt::Error {
        back.write_all(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
        return back.shutdown(Shutdown::Write);
    }
    let mut server = TcpStream::connect(("127.0.0.1", to))?;
    server.write_all(&head)?;
    server.write_all(&body)?;
    let (head, mut body) = message(&mut BufReader::new(server), line.starts_with("HEAD "))?;
    match (what, body.last_mut()) {
        (Spoilt::Half, _) => body.truncate(body.len() / 2),
        (Spoilt::Changed, Some(last)) => *last ^= 1,
        _ => {}
    }
    back.write_all(&head)?;
    back.write_all(&body)?;
    back.shutdown(Shutdown::Write)
}
