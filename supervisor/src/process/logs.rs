//! Re-emits a child's standard error as log events with job, role and pid, and keeps its last lines for errors.
//!
//! Workers write JSON lines; drivers and C++ libraries write anything. All of it is untrusted. A line is cut at
//! [`LINE_BYTES`] and made printable. Lines beyond [`BYTES_PER_SECOND`] are dropped and counted. The pipe is always
//! read, so a chatty child never blocks. After a child has ended, no more is read than the pipe can hold, whoever still
//! writes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use proto::message::Role;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::words::printable;

/// Longer lines are cut: a panic message with its location needs less.
const LINE_BYTES: usize = 8 * 1024;
/// Lines kept for an error.
const TAIL_LINES: usize = 64;
/// Most bytes re-emitted per second, on average: enough for a terminal, and slow growth for a log file.
const BYTES_PER_SECOND: f64 = 256.0 * 1024.0;

/// Time for a dead process's last lines to arrive.
const LAST_LINES: Duration = Duration::from_millis(500);
/// Capacity of a pipe: the most that Linux grants without privileges, sixteen times the default.
const PIPE_BYTES: usize = 1 << 20;

/// The process that wrote a line.
#[derive(Clone, Debug)]
pub struct Source {
    /// The job.
    pub job: Owner,
    /// The role.
    pub role: Role,
    /// The process.
    pub pid: u32,
}

/// The job that a process works for. A spare process gets its job later.
#[derive(Clone, Debug)]
pub struct Owner(Arc<Mutex<Arc<str>>>);

impl Owner {
    /// Starts with this job.
    pub fn new(job: Arc<str>) -> Self {
        Self(Arc::new(Mutex::new(job)))
    }

    /// Changes the job.
    pub fn change(&self, job: Arc<str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = job;
    }

    /// The job's name.
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A child's last lines, readable while it still writes.
#[derive(Clone, Debug, Default)]
pub struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    /// The lines, oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }

    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// The task that reads a child's pipe.
#[derive(Debug)]
pub struct Pump {
    task: JoinHandle<()>,
    over: oneshot::Sender<()>,
}

impl Pump {
    /// Starts reading.
    pub fn start(
        pipe: impl AsyncRead + Unpin + Send + 'static,
        source: Source,
        tail: Tail,
    ) -> Self {
        let (over, heard) = oneshot::channel();
        let task = tokio::spawn(pump(pipe, source, tail, heard));
        Self { task, over }
    }

    /// Reads what is left in the pipe after the child has ended.
    pub async fn finish(self) {
        let abort = self.task.abort_handle();
        if self.over.send(()).is_err() {
            tracing::trace!("a pipe was read to its end");
        }
        if timeout(LAST_LINES, self.task).await.is_err() {
            // Another process holds the pipe open: one that the child started.
            abort.abort();
        }
    }
}

/// Reads `pipe` to its end. Once the child is `over`, reads at most the pipe's capacity.
pub async fn pump(
    mut pipe: impl AsyncRead + Unpin,
    source: Source,
    tail: Tail,
    mut over: oneshot::Receiver<()>,
) {
    let mut chunk = vec![0; 16 * 1024];
    let mut splitter = Splitter::default();
    let mut meter = Meter::new(Instant::now());
    let mut left = None;
    while left != Some(0) {
        let read = tokio::select! {
            biased;
            _ = &mut over, if left.is_none() => {
                left = Some(PIPE_BYTES);
                continue;
            }
            read = pipe.read(&mut chunk) => read,
        };
        let count = match read {
            Ok(0) => break,
            Ok(count) => {
                left = left.map(|left: usize| left.saturating_sub(count));
                count
            }
            Err(error) => {
                tracing::debug!(role = source.role.name(), %error, "standard error of a worker cannot be read");
                break;
            }
        };
        for line in splitter.push(chunk.get(..count).unwrap_or_default()) {
            take(&line, &source, &tail, &mut meter);
        }
        // A flood would keep this task ready for ever: lets other tasks run.
        tokio::task::yield_now().await;
    }
    if let Some(line) = splitter.rest() {
        take(&line, &source, &tail, &mut meter);
    }
    if meter.dropped > 0 {
        let Source { job, role, pid } = &source;
        let job = job.name();
        tracing::warn!(%job, role = role.name(), pid, dropped = meter.dropped, "log lines dropped: too many at once");
    }
}

fn take(line: &[u8], source: &Source, tail: &Tail, meter: &mut Meter) {
    let text = String::from_utf8_lossy(line);
    if text.trim().is_empty() {
        return;
    }
    let (level, text) = read_line(&text);
    if meter.admit(line.len(), Instant::now()) {
        emit(level, &text, source);
    }
    let mark = match level {
        tracing::Level::ERROR => "error: ",
        tracing::Level::WARN => "warning: ",
        _ => "",
    };
    tail.push(format!("{mark}{text}"));
}

/// Parses a worker's JSON line into its level and "message key=value …". Anything else is raw text at debug level.
fn read_line(line: &str) -> (tracing::Level, String) {
    let parsed: Option<Value> = serde_json::from_str(line).ok();
    let Some(Value::Object(object)) = parsed else {
        return (tracing::Level::DEBUG, printable(line, LINE_BYTES));
    };
    let level = object
        .get("level")
        .and_then(Value::as_str)
        .and_then(|level| level.parse().ok());
    let mut text = String::new();
    if let Some(Value::Object(fields)) = object.get("fields") {
        if let Some(message) = fields.get("message").and_then(Value::as_str) {
            text.push_str(message);
        }
        for (key, value) in fields.iter().filter(|(key, _)| *key != "message") {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            text.push_str(&format!(" {key}={value}"));
        }
    } else {
        text.push_str(line);
    }
    (
        level.unwrap_or(tracing::Level::DEBUG),
        printable(text.trim(), LINE_BYTES),
    )
}

fn emit(level: tracing::Level, text: &str, source: &Source) {
    let Source { job, role, pid } = source;
    let job = job.name();
    let role = role.name();
    // A tracing call site has a fixed level, so each level needs its own.
    match level {
        tracing::Level::ERROR => tracing::error!(target: "child", %job, role, pid, "{text}"),
        tracing::Level::WARN => tracing::warn!(target: "child", %job, role, pid, "{text}"),
        tracing::Level::INFO => tracing::info!(target: "child", %job, role, pid, "{text}"),
        tracing::Level::DEBUG => tracing::debug!(target: "child", %job, role, pid, "{text}"),
        tracing::Level::TRACE => tracing::trace!(target: "child", %job, role, pid, "{text}"),
    }
}

/// Splits bytes into lines, of which at most [`LINE_BYTES`] are kept.
#[derive(Debug, Default)]
struct Splitter {
    line: Vec<u8>,
}

impl Splitter {
    fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, whole) = match piece {
                [text @ .., b'\n'] => (text, true),
                text => (text, false),
            };
            let room = LINE_BYTES.saturating_sub(self.line.len()).min(text.len());
            self.line.extend(text.iter().take(room));
            if whole {
                lines.push(std::mem::take(&mut self.line));
            }
        }
        lines
    }

    fn rest(self) -> Option<Vec<u8>> {
        (!self.line.is_empty()).then_some(self.line)
    }
}

/// A token bucket that holds one second's bytes.
#[derive(Debug)]
struct Meter {
    level: f64,
    last: Instant,
    dropped: u64,
}

impl Meter {
    fn new(now: Instant) -> Self {
        Self {
            level: BYTES_PER_SECOND,
            last: now,
            dropped: 0,
        }
    }

    fn admit(&mut self, bytes: usize, now: Instant) -> bool {
        let earned = now.duration_since(self.last).as_secs_f64() * BYTES_PER_SECOND;
        self.level = (self.level + earned).min(BYTES_PER_SECOND);
        self.last = now;
        let cost = bytes as f64;
        if self.level < cost {
            self.dropped += 1;
            return false;
        }
        self.level -= cost;
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::repeat;

    use super::*;

    #[tokio::test]
    async fn what_others_write_after_the_end_is_not_read_for_ever() {
        let source = Source {
            job: Owner::new("a".into()),
            role: Role::Bake,
            pid: 1,
        };
        let (over, heard) = oneshot::channel();
        let tail = Tail::default();
        over.send(()).expect("a pump");
        // Never ends and never waits.
        pump(repeat(b'\n'), source, tail.clone(), heard).await;
        assert!(tail.lines().is_empty());
    }

    #[test]
    fn lines_are_cut_and_put_together() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.push(b"one\ntw"), [b"one".to_vec()]);
        assert_eq!(splitter.push(b"o\n"), [b"two".to_vec()]);
        assert!(splitter.push(&vec![b'x'; 3 * LINE_BYTES]).is_empty());
        let lines = splitter.push(b"yy\nend");
        assert_eq!(lines[0].len(), LINE_BYTES);
        assert_eq!(splitter.rest(), Some(b"end".to_vec()));
    }

    #[test]
    fn a_json_line_becomes_its_message_and_fields() {
        let line =
            r#"{"level":"WARN","fields":{"message":"odd","view":7,"why":"x"},"target":"baker"}"#;
        assert_eq!(
            read_line(line),
            (tracing::Level::WARN, "odd view=7 why=x".to_owned())
        );
        assert_eq!(read_line("Segmentation\x07").1, "Segmentation\u{fffd}");
        assert_eq!(read_line("[1]").0, tracing::Level::DEBUG);
    }

    #[test]
    fn a_flood_is_dropped_and_counted() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        let admitted = (0..1000).filter(|_| meter.admit(1024, start)).count();
        assert_eq!((admitted, meter.dropped), (256, 744));
        assert!(meter.admit(1024, start + Duration::from_millis(100)));
    }

    #[test]
    fn the_tail_keeps_the_last_lines() {
        let tail = Tail::default();
        for k in 0..100 {
            tail.push(k.to_string());
        }
        let lines = tail.lines();
        assert_eq!(
            (lines.len(), lines[0].as_str(), lines[63].as_str()),
            (64, "36", "99")
        );
    }
}
