//! Runs `kiln`: a test can wait for its lines, and gets an [`Outcome`] at its end.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{DEADLINE, signal_to};

/// A running `kiln`; dropping it kills it.
#[must_use]
#[derive(Debug)]
pub struct Run {
    child: Child,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    outcome: Outcome,
}

/// How a run ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal, if one ended it.
    pub signal: Option<i32>,
    /// Lines of standard output.
    pub stdout: Vec<String>,
    /// Standard error.
    pub stderr: String,
    /// Standard output as JSON, with `--json`.
    pub events: Vec<Value>,
}

impl Outcome {
    /// Asserts the exit code; on failure shows all that kiln printed.
    pub fn assert_code(&self, code: i32) {
        let Self { stdout, stderr, .. } = self;
        assert_eq!(self.code, Some(code), "{stdout:#?}\n{stderr}");
    }

    /// The report of a job that succeeded.
    pub fn report(&self) -> Value {
        self.assert_code(0);
        self.one("done")["report"].clone()
    }

    /// The message of a job that failed with this exit code.
    pub fn refusal(&self, code: i32) -> String {
        self.assert_code(code);
        self.one("error")["message"]
            .as_str()
            .expect("text")
            .to_owned()
    }

    /// Asserts that the supervisor held as much after its last job as before its first.
    pub fn assert_nothing_held(&self) {
        let holds = self.all("host");
        for key in ["open_fds", "memfds", "children", "parked"] {
            assert_eq!(holds[0]["holds"][key], holds[1]["holds"][key], "{key}");
        }
    }

    /// All events of a kind.
    pub fn all(&self, kind: &str) -> Vec<&Value> {
        self.events
            .iter()
            .filter(|event| event["event"] == kind)
            .collect()
    }

    /// The only event of a kind.
    pub fn one(&self, kind: &str) -> &Value {
        let found = self.all(kind);
        assert_eq!(
            found.len(),
            1,
            "{kind} events in {:#?}\n{}",
            self.stdout,
            self.stderr
        );
        found[0]
    }

    /// The attempts of a role as `(ended, class)`.
    pub fn attempts(&self, role: &str) -> Vec<(String, String)> {
        let last = self.events.last().expect("an event");
        let attempts = if last["event"] == "done" {
            &last["report"]["attempts"]
        } else {
            &last["attempts"]
        };
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        let attempts = attempts.as_array().expect("attempts");
        let attempts = attempts.iter().filter(|attempt| attempt["role"] == role);
        attempts
            .map(|attempt| (text(&attempt["ended"]), text(&attempt["class"])))
            .collect()
    }
}

impl Run {
    /// Starts the command.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kiln starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut stderr = child.stderr.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).expect("a pipe");
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self {
            child,
            lines,
            errors: Some(errors),
            outcome: Outcome::default(),
        }
    }

    fn next(&mut self, until: Instant) -> Option<&Value> {
        match self
            .lines
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            Ok(line) => {
                let event = serde_json::from_str(&line).unwrap_or(Value::Null);
                self.outcome.stdout.push(line);
                self.outcome.events.push(event);
                self.outcome.events.last()
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                let seen = std::mem::take(&mut self.outcome.stdout);
                self.send(Signal::SIGKILL);
                panic!("kiln did not come so far in time: {seen:#?}");
            }
        }
    }

    /// Waits for an event and returns it.
    pub fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + DEADLINE;
        loop {
            match self.next(until) {
                Some(event) if wanted(event) => return event.clone(),
                Some(_) => {}
                None => panic!("kiln ended first: {:#?}", self.outcome.stdout),
            }
        }
    }

    /// Waits for the first progress of a role, and returns the worker's process id.
    pub fn wait_progress(&mut self, role: &str) -> i32 {
        self.wait_for(|event| event["event"] == "progress" && event["role"] == role);
        let started = self.outcome.events.iter().rev();
        let mut started =
            started.filter(|event| event["event"] == "started" && event["role"] == role);
        let pid = started
            .next()
            .and_then(|event| event["pid"].as_i64())
            .expect("a process id");
        i32::try_from(pid).expect("a process id")
    }

    /// Process id of `kiln`.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Sends a signal to `kiln`.
    pub fn send(&self, signal: Signal) {
        signal_to(self.pid(), signal);
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Outcome {
        let until = Instant::now() + DEADLINE;
        while self.next(until).is_some() {}
        let status = self.child.wait().expect("reaped");
        let mut outcome = std::mem::take(&mut self.outcome);
        (outcome.code, outcome.signal) = (status.code(), status.signal());
        if let Some(errors) = self.errors.take() {
            outcome.stderr = errors.join().expect("read");
        }
        outcome
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.child.kill().and_then(|()| self.child.wait()).is_err() {
            // It has ended already, which is all that matters.
        }
    }
}
