//! Prints events as one JSON object per line on standard output, for programs.
//!
//! - `started {role, attempt, pid, warm, monotonic_us}`; `warm`: the process was a spare with its adapter open
//! - `held {role, why}`: failures of other jobs delay a start
//! - `working {role, attempt, monotonic_us}`: a process has been given its job
//! - `progress {role, phase, done, total, fraction, eta_s}`
//! - `warning {role, text}`
//! - `killing {role, attempt, why, monotonic_us}`
//! - `ended {role, attempt, pid, ended, monotonic_us}`
//! - `retry {role, code, class, message, step, delay_ms}`
//! - `role_done {role, ms}`
//! - `done {output, report}`; `output` is null for a dry run
//! - `error {code, class, message, hint, role, phase, signal, exit, attempts, log_tail, exit_code}`
//! - `host {holds}`: what the supervisor holds before the first and after the last of many jobs
//! - `sum {done, failed, seconds, exit_code}`: the last line of many jobs
//!
//! The last line of a job is `done` or `error`. With several jobs, each of these lines has `job`, the job's name.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use proto::message::{Phase, Role};
use serde_json::{Value, json};

use crate::error::JobError;
use crate::event::{Event, Listener};
use crate::job::many::Sum;
use crate::print::result;
use crate::process::watch::PhaseState;

/// Least time between two lines about the same phase: ten a second are enough for any eye.
const INTERVAL: Duration = Duration::from_millis(100);

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Json {
    /// The job's name, if there are several jobs.
    job: Option<String>,
    shown: HashMap<(Role, Phase), Instant>,
}

impl Json {
    /// The listener of one of several jobs.
    pub fn of(job: &str) -> Self {
        Self {
            job: Some(job.to_owned()),
            ..Self::default()
        }
    }
}

impl Listener for Json {
    fn event(&mut self, event: &Event<'_>) {
        let Some(mut line) = self.line(event) else {
            return;
        };
        if let (Some(job), Value::Object(line)) = (&self.job, &mut line) {
            line.insert("job".to_owned(), job.as_str().into());
        }
        result(&line.to_string());
    }
}

impl Json {
    /// The line of an event; `None` if it is not shown.
    fn line(&mut self, event: &Event<'_>) -> Option<Value> {
        Some(match event {
            Event::Started {
                role,
                attempt,
                pid,
                warm,
            } => {
                self.shown.retain(|(shown, _), _| shown != role);
                let fields = json!({ "role": role, "attempt": attempt, "pid": pid, "warm": warm });
                timed("started", fields)
            }
            Event::Held { role, why } => json!({ "event": "held", "role": role, "why": why }),
            Event::Progress { role, phase, state } => self.progress(*role, *phase, state)?,
            Event::Warning { role, text } => {
                json!({ "event": "warning", "role": role, "text": text })
            }
            Event::Ended {
                role,
                attempt,
                pid,
                how,
            } => timed(
                "ended",
                json!({ "role": role, "attempt": attempt, "pid": pid, "ended": how }),
            ),
            Event::Killing { role, attempt, why } => timed(
                "killing",
                json!({ "role": role, "attempt": attempt, "why": why }),
            ),
            Event::Host(holdings) => json!({ "event": "host", "holds": holdings }),
            Event::Working { role, attempt } => {
                timed("working", json!({ "role": role, "attempt": attempt }))
            }
            Event::Retry {
                role,
                fault,
                step,
                delay,
            } => json!({
                "event": "retry",
                "role": role,
                "code": fault.code,
                "class": fault.class,
                "message": fault.message,
                "step": step,
                "delay_ms": u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            }),
            Event::RoleDone { role, time } => {
                json!({ "event": "role_done", "role": role, "ms": time.as_secs_f64() * 1e3 })
            }
            Event::Done(report) => {
                let made = report.plan.is_none();
                let output = made.then(|| report.options.output.to_string_lossy());
                json!({ "event": "done", "output": output, "report": report })
            }
            Event::Failed(report) => error_line(report.error.as_deref()?),
        })
    }

    /// The line of a phase's progress, unless the last one was just now.
    fn progress(&mut self, role: Role, phase: Phase, state: &PhaseState) -> Option<Value> {
        let now = Instant::now();
        let complete = state.total > 0 && state.done >= state.total;
        let last = self.shown.get(&(role, phase));
        if last.is_some_and(|last| now.duration_since(*last) < INTERVAL) && !complete {
            return None;
        }
        self.shown.insert((role, phase), now);
        Some(json!({
            "event": "progress",
            "role": role,
            "phase": phase,
            "done": state.done,
            "total": state.total,
            "fraction": state.fraction(),
            "eta_s": state.time_left(now).map(|left| left.as_secs_f64()),
        }))
    }
}

/// A line with the time of the event.
fn timed(event: &str, mut fields: Value) -> Value {
    fields["event"] = event.into();
    fields["monotonic_us"] = json!(monotonic_us());
    fields
}

/// The machine's monotonic clock, which all processes share, so that a reader can compare these times with its own.
fn monotonic_us() -> Option<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?;
    u64::try_from(time.num_microseconds()).ok()
}

/// The last line of many jobs.
pub(super) fn sum_line(sum: &Sum) -> Value {
    json!({
        "event": "sum",
        "done": sum.done,
        "failed": sum.failed,
        "seconds": sum.time.as_secs_f64(),
        "exit_code": sum.code,
    })
}

/// The line of an error, with or without a job.
pub fn error_line(error: &JobError) -> Value {
    let mut line = json!({ "event": "error" });
    if let (Value::Object(line), Ok(Value::Object(fields))) =
        (&mut line, serde_json::to_value(error))
    {
        line.extend(fields);
    }
    line
}
