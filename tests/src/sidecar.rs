//! A real `kiln serve` over a bench's folder, and requests to it: hand-written HTTP/1.1 over its Unix socket.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{Bench, DEADLINE, signal_to};

/// A running sidecar. Dropping it kills it.
#[derive(Debug)]
pub struct Sidecar {
    child: Child,
    socket: PathBuf,
    /// The TCP address where it also listens, if it was told to.
    pub tcp: Option<String>,
}

/// An answer to a request.
#[must_use]
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Header values by lower-case name.
    pub headers: HashMap<String, String>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The code of a problem.
    pub fn code(&self) -> String {
        assert_eq!(
            self.headers["content-type"], "application/problem+json",
            "{self:?}"
        );
        self.json()["code"].as_str().expect("a code").to_owned()
    }

    /// The id of a job that was accepted.
    pub fn id(&self) -> String {
        assert_eq!(self.status, 202, "{self:?}");
        self.json()["id"].as_str().expect("an id").to_owned()
    }

    /// The status, and the code of a problem.
    pub fn problem(&self) -> (u16, String) {
        (self.status, self.code())
    }

    fn read(stream: impl Read) -> io::Result<Self> {
        let mut stream = BufReader::new(stream);
        let (status, headers) = head(&mut stream)?;
        let mut body = Vec::new();
        if headers
            .get("transfer-encoding")
            .is_some_and(|coding| coding == "chunked")
        {
            while let Some(chunk) = chunk(&mut stream)? {
                body.extend(chunk);
            }
        } else if let Some(length) = headers.get("content-length") {
            let length = length.parse().map_err(io::Error::other)?;
            stream.take(length).read_to_end(&mut body)?;
        }
        Ok(Self {
            status,
            headers,
            body,
        })
    }
}

fn head(stream: &mut impl BufRead) -> io::Result<(u16, HashMap<String, String>)> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no status in {line:?}")))?;
    let mut headers = HashMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            return Ok((status, headers));
        };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
}

fn chunk(stream: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let size = usize::from_str_radix(line.trim_end(), 16).map_err(io::Error::other)?;
    let mut bytes = vec![0; size + 2];
    stream.read_exact(&mut bytes)?;
    bytes.truncate(size);
    Ok((size > 0).then_some(bytes))
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Its number.
    pub id: u64,
    /// `state`, `progress`, `log`, `done`.
    pub event: String,
    /// Its content.
    pub data: Value,
}

impl Sidecar {
    /// Starts `kiln serve` over the bench's folder with the bench's worker, and waits until it listens.
    pub fn start(bench: &Bench, more: &[&str]) -> Self {
        let more = [&["--insecure-no-sandbox"], more].concat();
        Self::confined(bench, &more)
    }

    /// As [`Self::start`], with workers in their sandboxes.
    pub fn confined(bench: &Bench, more: &[&str]) -> Self {
        let socket = bench.path("run/kiln.sock");
        let mut command = bench.command(&["serve"]);
        command.arg("--socket").arg(&socket);
        command.arg("--store").arg(bench.path("store"));
        command.arg("--root").arg(bench.path("")).args(more);
        Self::spawn(command, socket)
    }

    /// Runs a command that serves at `socket`, and waits until it listens.
    pub fn spawn(mut command: Command, socket: PathBuf) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kiln starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped"));
        let (mut said, mut tcp) = (String::new(), None);
        loop {
            let mut line = String::new();
            let count = lines.read_line(&mut line).expect("a pipe");
            assert!(count > 0, "kiln serve ended: {said}");
            said.push_str(&line);
            tcp = tcp.or_else(|| {
                let (_, address) = line.trim_end().split_once("listens at http://")?;
                Some(address.to_owned())
            });
            if line.contains("serves") {
                break;
            }
        }
        // Drains the pipe, so that the sidecar never blocks on it.
        std::thread::spawn(move || io::copy(&mut lines, &mut io::sink()));
        Self { child, socket, tcp }
    }

    /// Sends a request and reads the answer.
    ///
    /// # Errors
    /// The connection breaks off.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        Answer::read(self.open(method, path, headers, body)?)
    }

    /// Sends a request and reads the answer.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.try_send(method, path, headers, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// `GET`.
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], &[])
    }

    /// Submits a job as JSON, with an idempotency key.
    pub fn submit(&self, key: &str, spec: &Value) -> Answer {
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", key),
        ];
        self.send("POST", "/v1/jobs", &headers, spec.to_string().as_bytes())
    }

    /// Uploads a file; gives its name and the status.
    pub fn put(&self, bytes: &[u8]) -> (String, u16) {
        let name = sha256(bytes);
        let answer = self.send("PUT", &format!("/v1/blobs/{name}"), &[], bytes);
        (name, answer.status)
    }

    /// Waits until a job bakes.
    pub fn wait_baking(&self, id: &str) {
        let events = self.events(id, None, |told| told.data["state"] == "baking");
        assert_eq!(events.last().expect("events").data["state"], "baking");
    }

    fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        ask(&stream, "kiln", method, path, headers, body)?;
        Ok(stream)
    }

    /// Sends a request by TCP with this token, and reads the answer.
    pub fn send_by_tcp(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let place = self.tcp.as_deref().expect("it was told to listen");
        self.send_to(place, token, method, path, headers, body)
    }

    /// As [`Self::send_by_tcp`], by this name of the sidecar.
    pub fn send_to(
        &self,
        host: &str,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let place = self.tcp.as_deref().expect("it was told to listen");
        let stream = TcpStream::connect(place).expect("a connection");
        stream
            .set_read_timeout(Some(DEADLINE))
            .expect("a connection");
        let bearer = format!("Bearer {token}");
        let headers = [headers, &[("authorization", &bearer)]].concat();
        ask(&stream, host, method, path, &headers, body).expect("sent");
        Answer::read(stream).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Reads a job's events until `enough` returns true, or until their end.
    pub fn events(
        &self,
        id: &str,
        after: Option<u64>,
        mut enough: impl FnMut(&Told) -> bool,
    ) -> Vec<Told> {
        let after = after.map(|after| after.to_string());
        let headers: Vec<(&str, &str)> = after
            .iter()
            .map(|after| ("last-event-id", after.as_str()))
            .collect();
        let stream = self.open("GET", &format!("/v1/jobs/{id}/events"), &headers, &[]);
        let mut stream = BufReader::new(stream.expect("a connection"));
        let (status, _) = head(&mut stream).expect("an answer");
        assert_eq!(status, 200);
        let (mut text, mut events) = (String::new(), Vec::new());
        while let Some(chunk) = chunk(&mut stream).expect("a chunk") {
            text.push_str(std::str::from_utf8(&chunk).expect("text"));
            while let Some((one, rest)) = text.split_once("\n\n") {
                let told = parse(one);
                text = rest.to_owned();
                if let Some(told) = told {
                    let last = enough(&told);
                    events.push(told);
                    if last {
                        return events;
                    }
                }
            }
        }
        events
    }

    /// Waits for the end of a job, and returns the job.
    pub fn finished(&self, id: &str) -> Value {
        let events = self.events(id, None, |told| told.event == "done");
        assert!(events.last().is_some_and(|told| told.event == "done"));
        self.get(&format!("/v1/jobs/{id}")).json()
    }

    /// Process id of `kiln serve`.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Waits for its end, which something else causes.
    pub fn ended(mut self) -> ExitStatus {
        self.child.wait().expect("reaped")
    }

    /// Sends it a signal and waits for its end.
    pub fn end(mut self, signal: Signal) -> ExitStatus {
        signal_to(self.pid(), signal);
        self.child.wait().expect("reaped")
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn ask(
    mut stream: impl Write,
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<()> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes())?;
    // The answer may come before everything was sent; the rest is then refused.
    match stream.write_all(body) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

fn parse(text: &str) -> Option<Told> {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    Some(Told {
        id: field("id")?.parse().expect("a number"),
        event: field("event")?.to_owned(),
        data: serde_json::from_str(field("data")?).expect("JSON"),
    })
}

/// Writes a token to a file, and returns it with the flags that make `kiln serve` listen by TCP for it.
pub fn tcp_flags(bench: &Bench) -> (&'static str, [String; 4]) {
    let token = "0123456789abcdef0123456789abcdef";
    let path = bench.path("token");
    fs::write(&path, token).expect("room");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
    let file = path.to_str().expect("text").to_owned();
    let flags = [
        "--tcp".into(),
        "127.0.0.1:0".into(),
        "--token-file".into(),
        file,
    ];
    (token, flags)
}

/// The spec of a job with the bench's own inputs, named by path.
pub fn by_path(folder: &Path) -> Value {
    json!({
        "mesh": {"path": folder.join("mesh.glb")},
        "views": {"path": folder.join("transforms.json")},
        "texture_size": 256,
    })
}

/// SHA-256 in hex.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
