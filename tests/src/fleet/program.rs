//! Programs that serve until they are killed.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use nix::sys::signal::Signal;

use crate::{DEADLINE, signal_to};

/// A program of the environment with the servers.
pub(super) fn server(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let path = root
        .expect("the repository")
        .join("target/fleet/bin")
        .join(name);
    assert!(
        path.exists(),
        "{} is not there: ./run.sh test installs it, and tests/fleet/requirements.txt names it",
        path.display()
    );
    path
}

/// Ports below those that systems give to connections: none takes one while its server is away.
const PORTS: std::ops::Range<u32> = 20_000..32_000;

/// A port that nobody has, and that no other call of this process gets.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(97).wrapping_add(count)
            % PORTS.end.abs_diff(PORTS.start);
        let port = u16::try_from(PORTS.start + place).expect("a port");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A program that says on its standard error what it does. Dropping it kills it.
#[derive(Debug)]
pub struct Program {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Program {
    /// Starts a command.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // Reads on when nobody listens any more, so that the program never blocks.
                drop(sender.send(line));
            }
        });
        Self {
            child,
            lines,
            said: Vec::new(),
        }
    }

    /// Waits for a line with these words.
    pub fn wait_for(&mut self, words: &str) {
        let until = Instant::now() + DEADLINE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let found = line.contains(words);
                    self.said.push(line);
                    if found {
                        return;
                    }
                }
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {
                    panic!("{words:?} was not said: {:#?}", self.said)
                }
            }
        }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Sends it a signal, and waits for its end. Returns the exit code.
    pub fn end(mut self, signal: Signal) -> Option<i32> {
        signal_to(self.pid(), signal);
        self.child.wait().expect("reaped").code()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
