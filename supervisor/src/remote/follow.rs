//! Turns a remote job's event stream into the events of a bake, until the job is over.
//!
//! A stream that breaks off is continued where it stopped (`Last-Event-ID`). A restarted sidecar counts from the start,
//! and the job starts over.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use axum::http::{HeaderName, Method, StatusCode, header};
use proto::message::{Code, Phase, Role};
use serde::Deserialize;

use super::client::Client;
use super::error::RemoteError;
use super::http::Ask;
use super::jobs::Job;
use super::sse::{self, ServerEvent};
use crate::event::{Event, Listener};
use crate::host::ladder::Step;
use crate::process::verdict::{Fault, RetryClass};
use crate::process::watch::PhaseState;
use crate::store::JobId;
use crate::words::printable;

/// The sidecar sends a comment every 15 s, so a stream that is silent for longer is dead.
const SILENCE: Duration = Duration::from_secs(45);
/// Longest line for people, in bytes.
const LINE: usize = 4096;

impl Client {
    /// Reports the events of a job, and returns the job once it is over, however it ended.
    ///
    /// # Errors
    /// There is no such job, or the sidecar is away for too long.
    pub async fn follow(&self, id: JobId, listener: &mut dyn Listener) -> Result<Job, RemoteError> {
        let job = self.job(id).await?;
        let mut teller = Teller::new(listener);
        if let Some(before @ 1..) = job.known.position {
            let why = format!("{before} jobs are before it");
            teller.held(Role::Prepare, &why);
        }
        self.relay(id, &mut |event| teller.take(event)).await
    }

    /// Gives each event of a job to `each`, and returns the job once it is over, however it ended.
    ///
    /// # Errors
    /// There is no such job, the sidecar is away for too long, or `each` fails.
    pub async fn relay(
        &self,
        id: JobId,
        each: &mut dyn FnMut(&ServerEvent) -> Result<(), RemoteError>,
    ) -> Result<Job, RemoteError> {
        let (mut pauses, mut last) = (self.pauses(), 0);
        loop {
            let from = last;
            let mut take = |event: &ServerEvent| {
                pauses.reset();
                last = event.id;
                each(event)
            };
            match self.stream(id, from, &mut take).await {
                Ok(true) => {}
                // The stream ended in order, but before the job: the sidecar exits, and another may start.
                Ok(false) => {
                    let why = "the sidecar closed the stream and did not come back".to_owned();
                    let absent = false;
                    pauses
                        .after(RemoteError::Unreachable { why, absent })
                        .await?;
                    continue;
                }
                Err(error) => {
                    pauses.after(error).await?;
                    continue;
                }
            }
            let job = self.job(id).await?;
            if job.known.state.is_over() {
                return Ok(job);
            }
        }
    }

    /// Reads the events after `last`. Returns whether the stream says that the job is over.
    async fn stream(
        &self,
        id: JobId,
        last: u64,
        take: &mut impl FnMut(&ServerEvent) -> Result<(), RemoteError>,
    ) -> Result<bool, RemoteError> {
        let mut ask = Ask::new(Method::GET, format!("/v1/jobs/{id}/events"))
            .with(header::ACCEPT, "text/event-stream");
        if last > 0 {
            let name = HeaderName::from_static("last-event-id");
            ask = ask.with(name, last.to_string());
        }
        let mut answer = self.once(&ask, None).await?;
        if answer.status == StatusCode::NO_CONTENT {
            return Ok(true);
        }
        let mut parser = sse::Parser::default();
        while let Some(bytes) = answer.chunk(SILENCE).await? {
            let events = parser
                .push(&bytes)
                .map_err(|error| RemoteError::Garbled(error.to_string()))?;
            for event in events {
                take(&event)?;
                if event.kind == "done" {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// The fields that an event may have; see the sidecar's `serve/board.rs`.
#[derive(Deserialize)]
struct Data {
    role: Option<Role>,
    phase: Option<Phase>,
    #[serde(default)]
    done: u64,
    #[serde(default)]
    total: u64,
    #[serde(default)]
    text: String,
    kind: Option<String>,
    #[serde(default)]
    requeued: bool,
    code: Option<Code>,
    class: Option<RetryClass>,
    message: Option<String>,
    step: Option<Step>,
    delay_ms: Option<u64>,
    why: Option<String>,
    ms: Option<f64>,
}

/// Events of a job as they come → what a listener of a bake is told.
pub(crate) struct Teller<'a> {
    listener: &'a mut dyn Listener,
    /// The number of the last event.
    last: u64,
    /// When each phase was first reported.
    since: HashMap<(Role, Phase), Instant>,
    /// Roles at work.
    open: HashSet<Role>,
}

impl<'a> Teller<'a> {
    /// Nothing has been told yet.
    pub(crate) fn new(listener: &'a mut dyn Listener) -> Self {
        Self {
            listener,
            last: 0,
            since: HashMap::new(),
            open: HashSet::new(),
        }
    }

    /// Tells one event.
    ///
    /// # Errors
    /// It is not understood.
    pub(crate) fn take(&mut self, event: &ServerEvent) -> Result<(), RemoteError> {
        if event.id <= self.last && self.last > 0 {
            self.again("the sidecar was restarted");
        }
        self.last = event.id;
        if !matches!(event.kind.as_str(), "state" | "progress" | "log") {
            return Ok(());
        }
        let data: Data = serde_json::from_str(&event.data)
            .map_err(|error| RemoteError::Garbled(format!("an event: {error}")))?;
        if event.kind == "state" {
            if data.requeued {
                self.again("the sidecar leaves");
            }
            return Ok(());
        }
        let Some(role) = data.role else {
            return Ok(());
        };
        if event.kind == "progress" {
            self.progress(role, &data);
            return Ok(());
        }
        let text = printable(&data.text, LINE);
        match data.kind.as_deref() {
            Some("held") => {
                let why = data.why.as_deref().unwrap_or(&data.text);
                self.held(role, &printable(why, LINE));
            }
            Some("role_done") => {
                self.close(role);
                let seconds = data.ms.unwrap_or_default() / 1e3;
                let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
                self.listener.event(&Event::RoleDone { role, time });
            }
            Some("retry") => {
                let code = data.code.unwrap_or(Code::Internal);
                let fault = Fault {
                    code,
                    class: data.class.unwrap_or(RetryClass::of(code)),
                    message: printable(data.message.as_deref().unwrap_or(&data.text), LINE),
                    hint: String::new(),
                };
                let delay = Duration::from_millis(data.delay_ms.unwrap_or_default());
                self.retry(role, &fault, data.step.unwrap_or(Step::SamePlan), delay);
            }
            // `warning`, or a kind of another version: the text is enough.
            _ => self.listener.event(&Event::Warning { role, text: &text }),
        }
        Ok(())
    }

    fn progress(&mut self, role: Role, data: &Data) {
        let Some(phase) = data.phase else { return };
        self.open.insert(role);
        let since = self.since.entry((role, phase)).or_insert_with(Instant::now);
        let state = PhaseState {
            since: *since,
            done: data.done,
            total: data.total,
        };
        self.listener.event(&Event::Progress { role, phase, state });
    }

    fn held(&mut self, role: Role, why: &str) {
        self.listener.event(&Event::Held { role, why });
    }

    fn close(&mut self, role: Role) {
        self.since.retain(|(open, _), _| *open != role);
        self.open.remove(&role);
    }

    fn retry(&mut self, role: Role, fault: &Fault, step: Step, delay: Duration) {
        self.close(role);
        self.listener.event(&Event::Retry {
            role,
            fault,
            step,
            delay,
        });
    }

    /// Reports that the job starts over.
    fn again(&mut self, why: &str) {
        let fault = Fault {
            code: Code::Cancelled,
            class: RetryClass::Victim,
            message: why.to_owned(),
            hint: String::new(),
        };
        for role in [Role::Prepare, Role::Bake, Role::Encode] {
            if self.open.contains(&role) {
                self.retry(role, &fault, Step::SamePlan, Duration::ZERO);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Lines(Vec<String>);

    impl Listener for Lines {
        fn event(&mut self, event: &Event<'_>) {
            self.0.push(match event {
                Event::Progress { role, phase, state } => {
                    format!("{} {phase:?} {}/{}", role.name(), state.done, state.total)
                }
                Event::Retry {
                    role, fault, step, ..
                } => format!("{} {} {step:?}", role.name(), fault.message),
                Event::Warning { role, text } => format!("{} warns {text}", role.name()),
                Event::RoleDone { role, time } => format!("{} done {time:?}", role.name()),
                other => format!("{other:?}"),
            });
        }
    }

    #[test]
    fn a_sidecars_events_become_those_of_a_bake() {
        let mut lines = Lines::default();
        let mut teller = Teller::new(&mut lines);
        let mut take = |id, kind: &str, data: &str| {
            let (kind, data) = (kind.to_owned(), data.to_owned());
            teller.take(&ServerEvent { id, kind, data })
        };
        let fit = r#"{"role": "bake", "phase": "fit", "done": 1, "total": 4, "progress": 0.4}"#;
        take(1, "state", r#"{"state": "preparing"}"#).expect("a state");
        take(2, "progress", fit).expect("progress");
        let warning = r#"{"role": "bake", "text": "a\u001bb", "kind": "warning"}"#;
        take(3, "log", warning).expect("a warning");
        let retry = r#"{"role": "bake", "text": "", "kind": "retry", "code": "worker_crashed", "message": "died",
            "step": "smaller_plan", "delay_ms": 0}"#;
        take(4, "log", retry).expect("a retry");
        take(5, "progress", fit).expect("progress");
        // The event numbers start over.
        take(1, "progress", fit).expect("progress");
        let done = r#"{"role": "bake", "text": "", "kind": "role_done", "ms": 1500.0}"#;
        take(2, "log", done).expect("an end");
        take(3, "done", "whatever it is").expect("read elsewhere");
        assert_eq!(
            take(4, "log", "no JSON").map_err(|error| error.report().exit_code),
            Err(76)
        );
        assert_eq!(
            lines.0,
            [
                "bake Fit 1/4",
                "bake warns a\u{fffd}b",
                "bake died SmallerPlan",
                "bake Fit 1/4",
                "bake the sidecar was restarted SamePlan",
                "bake Fit 1/4",
                "bake done 1.5s",
            ]
        );
    }
}
