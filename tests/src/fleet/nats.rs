//! A real NATS server, and a client of a few lines.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use super::program::{Program, free_port, server};
use crate::DEADLINE;

/// A NATS server with `JetStream`.
#[derive(Debug)]
pub struct Nats {
    folder: TempDir,
    /// Where it listens.
    pub port: u16,
    program: Option<Program>,
}

impl Nats {
    /// Starts a server; `more` is added to its configuration.
    pub fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (port, store) = (free_port(), folder.path().join("js"));
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\", sync_interval: always }}\n{more}\n",
            store.display()
        );
        fs::write(folder.path().join("nats.conf"), text).expect("a configuration");
        let mut nats = Self {
            folder,
            port,
            program: None,
        };
        nats.restart();
        nats
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.program = None;
    }

    /// Starts it again, on the same port and with the same streams.
    pub fn restart(&mut self) {
        self.kill();
        let mut command = Command::new(server("nats-server"));
        command.arg("-c").arg(self.folder.path().join("nats.conf"));
        let mut program = Program::start(command);
        program.wait_for("Server is ready");
        self.program = Some(program);
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// A connection without credentials.
    pub fn wire(&self) -> Wire {
        Wire::open(self.port, "{\"verbose\":false}").expect("a connection")
    }

    /// The state of a stream: its messages, and those of its consumer that nobody has acked.
    pub fn left(&self) -> (u64, u64) {
        let mut wire = self.wire();
        let stream = wire.ask("$JS.API.STREAM.INFO.KILN_JOBS", "");
        let consumer = wire.ask("$JS.API.CONSUMER.INFO.KILN_JOBS.kiln", "");
        let count = |value: &Value| value.as_u64().expect("a count");
        (
            count(&stream["state"]["messages"]),
            count(&consumer["num_ack_pending"]),
        )
    }

    /// Results of jobs that no host could do.
    pub fn dead(&self) -> u64 {
        let stream = self.wire().ask("$JS.API.STREAM.INFO.KILN_DEAD", "");
        stream["state"]["messages"].as_u64().expect("a count")
    }

    /// Waits until no message is left.
    pub fn wait_empty(&self) {
        let until = Instant::now() + DEADLINE;
        while self.left() != (0, 0) {
            assert!(
                Instant::now() < until,
                "messages are left: {:?}",
                self.left()
            );
            std::thread::yield_now();
        }
    }
}

/// NATS by hand.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Wire {
    /// Connects; `connect` is the JSON of CONNECT.
    ///
    /// # Errors
    /// The server closes the connection.
    pub fn open(port: u16, connect: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let lines = BufReader::new(stream.try_clone()?);
        let mut wire = Self { stream, lines };
        write!(wire.stream, "CONNECT {connect}\r\nPING\r\n")?;
        while wire.line()? != "PONG" {}
        Ok(wire)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// Publishes, and waits until the server has it.
    pub fn publish(&mut self, subject: &str, text: &str) {
        let length = text.len();
        write!(self.stream, "PUB {subject} {length}\r\n{text}\r\nPING\r\n").expect("sent");
        while self.line().expect("an answer") != "PONG" {}
    }

    /// Sends a command; returns what the server says until it has taken it.
    pub fn command(&mut self, text: &str) -> Vec<String> {
        write!(self.stream, "{text}\r\nPING\r\n").expect("sent");
        let mut said = Vec::new();
        loop {
            match self.line().expect("an answer").as_str() {
                "PONG" => return said,
                line => said.push(line.to_owned()),
            }
        }
    }

    /// A request, and its answer as JSON.
    pub fn ask(&mut self, subject: &str, text: &str) -> Value {
        let length = text.len();
        let sub = "SUB _INBOX.test 1\r\n";
        write!(
            self.stream,
            "{sub}PUB {subject} _INBOX.test {length}\r\n{text}\r\n"
        )
        .expect("sent");
        loop {
            let line = self.line().expect("an answer");
            if !line.starts_with("MSG ") && !line.starts_with("HMSG ") {
                continue;
            }
            let size = line.rsplit(' ').next().expect("a size");
            let mut body = vec![0; size.parse::<usize>().expect("a size") + 2];
            self.lines.read_exact(&mut body).expect("a body");
            write!(self.stream, "UNSUB 1\r\n").expect("sent");
            return serde_json::from_slice(&body).unwrap_or(Value::Null);
        }
    }
}
