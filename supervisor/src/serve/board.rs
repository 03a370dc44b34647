//! The live state and recent events of jobs, for requests and for resumable event streams.
//!
//! The store holds what must not be lost. The board holds the rest in memory: phase, progress, warnings and the latest
//! events. A job leaves the board an hour after its end.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use proto::limits::MAX_WARNINGS;
use proto::message::{Phase, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::event::{Event, Listener};
use crate::store::JobId;
use crate::words;

/// Most events kept per job. One job makes some hundreds.
const EVENTS: usize = 1000;
/// Most bytes of events kept per job.
const EVENT_BYTES: usize = 256 << 10;
/// Most bytes of events of all ended jobs.
const OVER_BYTES: usize = 32 << 20;
/// Least time between two progress events of a job.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long an ended job's events are kept.
const KEPT: Duration = Duration::from_secs(3600);

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Accepted but not started.
    Queued,
    /// Reads mesh and views.
    Preparing,
    /// Fits the texture.
    Baking,
    /// Makes the files.
    Encoding,
    /// A process failed and another replaces it.
    Retrying,
    /// The result is available.
    Succeeded,
    /// The job ended without a result.
    Failed,
    /// The client cancelled it.
    Cancelled,
}

impl State {
    /// Whether the state is final.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// One event of a stream.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Rises by one with each event of a job.
    pub seq: u64,
    /// `state`, `progress`, `log` or `done`.
    pub kind: &'static str,
    /// JSON.
    pub data: Arc<str>,
}

/// The current state of a job.
#[derive(Clone, Debug)]
pub struct Now {
    /// Its state.
    pub state: State,
    /// Its current phase.
    pub phase: Option<Phase>,
    /// 0 to 1; never falls.
    pub progress: f64,
    /// Warnings so far.
    pub warnings: Vec<(Role, String)>,
}

#[derive(Debug)]
struct Inner {
    now: Now,
    /// Roles that have finished.
    done: Vec<Role>,
    entries: VecDeque<Entry>,
    /// Bytes of the entries.
    bytes: usize,
    next: u64,
    told: Option<Instant>,
    over: Option<Instant>,
}

/// One job on the board.
#[derive(Debug)]
pub struct Live {
    inner: Mutex<Inner>,
    /// Carries the number of the next event.
    changed: watch::Sender<u64>,
}

/// All jobs with live state; see the head of this file.
#[derive(Debug, Default)]
pub struct Board {
    jobs: Mutex<HashMap<JobId, Arc<Live>>>,
}

impl Board {
    /// The job's entry, created if missing.
    pub fn place(&self, id: JobId) -> Arc<Live> {
        let mut jobs = self.jobs();
        let live = jobs.entry(id).or_insert_with(|| {
            Arc::new(Live {
                inner: Mutex::new(Inner {
                    now: Now {
                        state: State::Queued,
                        phase: None,
                        progress: 0.0,
                        warnings: Vec::new(),
                    },
                    done: Vec::new(),
                    entries: VecDeque::new(),
                    bytes: 0,
                    next: 1,
                    told: None,
                    over: None,
                }),
                changed: watch::channel(1).0,
            })
        });
        Arc::clone(live)
    }

    /// The job's entry, if it has one.
    pub fn find(&self, id: JobId) -> Option<Arc<Live>> {
        self.jobs().get(&id).map(Arc::clone)
    }

    /// Removes a job.
    pub fn remove(&self, id: JobId) {
        self.jobs().remove(&id);
    }

    /// Removes jobs that ended long ago, and the earliest ended ones while their events exceed [`OVER_BYTES`].
    pub fn sweep(&self, now: Instant) {
        let mut jobs = self.jobs();
        let mut over = Vec::new();
        jobs.retain(|id, live| {
            let inner = live.inner();
            let Some(ended) = inner.over else { return true };
            over.push((ended, *id, inner.bytes));
            now.saturating_duration_since(ended) < KEPT
        });
        over.sort_unstable_by_key(|(ended, ..)| std::cmp::Reverse(*ended));
        let mut bytes = 0;
        for (_, id, more) in over {
            bytes += more;
            if bytes > OVER_BYTES {
                jobs.remove(&id);
            }
        }
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, Arc<Live>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    /// The current state.
    pub fn now(&self) -> Now {
        self.inner().now.clone()
    }

    /// Events after `seq`, oldest first.
    pub fn after(&self, seq: u64) -> Vec<Entry> {
        let inner = self.inner();
        let later = inner.entries.iter().filter(|entry| entry.seq > seq);
        later.cloned().collect()
    }

    /// Carries the number of the next event; changes with each event.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Waits for a final state.
    pub async fn ended(&self) {
        let mut changes = self.changes();
        // Fails without a sender only, which is in this entry.
        drop(changes.wait_for(|_| self.now().state.is_over()).await);
    }

    /// Enters a final state and emits it. The store has the whole job.
    pub fn over(&self, id: JobId, state: State) {
        self.enter(state, &json!({ "id": id, "state": state }));
    }

    /// Enters a state and emits it: as `done` if it is final, as `state` otherwise.
    pub fn enter(&self, state: State, data: &Value) {
        {
            let mut inner = self.inner();
            inner.now.state = state;
            if state.is_over() {
                inner.over = Some(Instant::now());
            }
            if state == State::Succeeded {
                inner.now.progress = 1.0;
            }
        }
        self.tell(if state.is_over() { "done" } else { "state" }, data);
    }

    /// Resets progress and warnings for a fresh start.
    pub fn restart(&self) {
        let mut inner = self.inner();
        inner.done.clear();
        inner.now.warnings.clear();
        (inner.now.progress, inner.now.phase) = (0.0, None);
    }

    fn tell(&self, kind: &'static str, data: &Value) {
        let mut inner = self.inner();
        let seq = inner.next;
        inner.next += 1;
        let data: Arc<str> = data.to_string().into();
        inner.bytes += data.len();
        inner.entries.push_back(Entry { seq, kind, data });
        while inner.entries.len() > EVENTS || inner.bytes > EVENT_BYTES {
            // The newest event always fits: a worker's line has at most 4 KiB.
            let Some(first) = inner.entries.pop_front() else {
                break;
            };
            inner.bytes -= first.data.len();
        }
        drop(inner);
        self.changed.send_replace(seq + 1);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The listener of a running job; writes on the board.
#[derive(Debug)]
pub struct Writer(pub Arc<Live>);

impl Writer {
    fn enter(&self, state: State) {
        if self.0.now().state != state {
            self.0.enter(state, &json!({ "state": state }));
        }
    }

    /// The state of a job whose processes all work.
    fn working(&self) -> State {
        let inner = self.0.inner();
        match (
            inner.done.contains(&Role::Prepare),
            inner.done.contains(&Role::Bake),
        ) {
            (_, true) => State::Encoding,
            (true, false) => State::Baking,
            (false, false) => State::Preparing,
        }
    }

    /// Emits one line for people. `more` has the same for programs, including its `kind`.
    fn log(&self, role: Role, text: &str, mut more: Value) {
        (more["role"], more["text"]) = (json!(role), text.into());
        self.0.tell("log", &more);
    }
}

impl Listener for Writer {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { .. } => {
                if self.0.now().state == State::Queued {
                    self.enter(State::Preparing);
                }
            }
            Event::Working { .. } => self.enter(self.working()),
            Event::Progress { role, phase, state } => {
                let mut inner = self.0.inner();
                let (from, to) = span(*phase);
                let share = from + (to - from) * state.fraction().unwrap_or(0.0);
                inner.now.progress = inner.now.progress.max(share);
                // Bake opens its device while prepare decodes; of the two, the job waits for prepare.
                if *role != Role::Bake || inner.done.contains(&Role::Prepare) {
                    inner.now.phase = Some(*phase);
                }
                let now = Instant::now();
                let complete = state.total > 0 && state.done >= state.total;
                let fresh = inner.told.is_some_and(|told| now - told < INTERVAL);
                if fresh && !complete {
                    return;
                }
                inner.told = Some(now);
                let progress = inner.now.progress;
                drop(inner);
                let data = json!({
                    "role": role,
                    "phase": phase,
                    "done": state.done,
                    "total": state.total,
                    "fraction": state.fraction(),
                    "eta_s": state.time_left(now).map(|left| left.as_secs_f64()),
                    "progress": progress,
                });
                self.0.tell("progress", &data);
            }
            Event::Warning { role, text } => {
                let mut inner = self.0.inner();
                if inner.now.warnings.len() < MAX_WARNINGS {
                    inner.now.warnings.push((*role, (*text).to_owned()));
                }
                drop(inner);
                self.log(*role, text, json!({ "kind": "warning" }));
            }
            Event::Retry {
                role,
                fault,
                step,
                delay,
            } => {
                self.enter(State::Retrying);
                let text = format!("{}: trying again {}", fault.message, step.describe());
                let more = json!({
                    "kind": "retry",
                    "code": fault.code,
                    "class": fault.class,
                    "message": fault.message,
                    "step": step,
                    "delay_ms": u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                });
                self.log(*role, &text, more);
            }
            Event::Held { role, why } => {
                let more = json!({ "kind": "held", "why": why });
                self.log(*role, &format!("waits: {why}"), more);
            }
            Event::RoleDone { role, time } => {
                self.0.inner().done.push(*role);
                let more = json!({ "kind": "role_done", "ms": time.as_secs_f64() * 1e3 });
                self.log(*role, &format!("done in {}", words::span(*time)), more);
                self.enter(self.working());
            }
            // Emitted once the store has the end.
            Event::Done(_) | Event::Failed(_) => {}
            Event::Ended { .. } | Event::Killing { .. } | Event::Host(_) => {}
        }
    }
}

/// The start and end of a phase in a job's progress: average shares of the time for a 1024² texture from 40 views.
fn span(phase: Phase) -> (f64, f64) {
    match phase {
        Phase::Start | Phase::LoadMesh => (0.0, 0.02),
        // Only of splats alone; it then takes longer than all that follows in prepare.
        Phase::Surface => (0.0, 0.2),
        Phase::Clean => (0.02, 0.03),
        // Only if requested; it then takes as long as decoding views.
        Phase::Repair => (0.03, 0.05),
        Phase::Simplify => (0.05, 0.06),
        Phase::Unwrap => (0.06, 0.12),
        Phase::DecodeViews => (0.12, 0.2),
        // Runs beside the phases of prepare and must not get ahead of them.
        Phase::OpenDevice => (0.0, 0.1),
        // Views arrive while they are refined.
        Phase::Refine => (0.1, 0.22),
        Phase::Raster => (0.22, 0.3),
        Phase::Init => (0.3, 0.35),
        Phase::Fit => (0.35, 0.9),
        Phase::Gutter => (0.9, 0.92),
        // Only if requested.
        Phase::Detail => (0.92, 0.93),
        Phase::Png => (0.93, 0.96),
        Phase::Glb => (0.96, 0.97),
        Phase::Measure => (0.97, 0.98),
        Phase::Preview => (0.98, 0.99),
        Phase::Commit => (0.99, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::watch::PhaseState;

    fn id(number: u8) -> JobId {
        format!("{number:032x}").parse().expect("an id")
    }

    fn progress(writer: &mut Writer, role: Role, phase: Phase, done: u64) {
        let state = PhaseState {
            since: Instant::now(),
            done,
            total: 10,
        };
        writer.event(&Event::Progress { role, phase, state });
    }

    fn started(role: Role) -> Event<'static> {
        Event::Started {
            role,
            attempt: 1,
            pid: 1,
            warm: false,
        }
    }

    #[test]
    fn a_jobs_states_follow_its_roles_and_its_progress_never_falls() {
        let board = Board::default();
        let live = board.place(id(1));
        let mut writer = Writer(Arc::clone(&live));
        assert_eq!(live.now().state, State::Queued);
        writer.event(&started(Role::Prepare));
        progress(&mut writer, Role::Prepare, Phase::DecodeViews, 10);
        assert_eq!(
            (live.now().state, live.now().progress),
            (State::Preparing, 0.2)
        );
        progress(&mut writer, Role::Bake, Phase::OpenDevice, 10);
        assert_eq!(
            (live.now().phase, live.now().progress),
            (Some(Phase::DecodeViews), 0.2)
        );
        let time = Duration::from_secs(1);
        writer.event(&Event::RoleDone {
            role: Role::Prepare,
            time,
        });
        assert_eq!(live.now().state, State::Baking);
        progress(&mut writer, Role::Bake, Phase::Fit, 5);
        writer.event(&Event::RoleDone {
            role: Role::Bake,
            time,
        });
        assert_eq!(live.now().state, State::Encoding);
        live.enter(State::Succeeded, &json!({}));
        assert_eq!(live.now().progress, 1.0);
        assert_eq!(live.after(0).last().expect("an event").kind, "done");
    }

    #[test]
    fn events_are_numbered_and_can_be_taken_up_where_they_were_left() {
        let live = Board::default().place(id(1));
        for k in 0..EVENTS + 10 {
            live.tell("log", &json!(k));
        }
        let all = live.after(0);
        assert_eq!((all.len(), all[0].seq), (EVENTS, 11));
        let rest = live.after(1005);
        let numbers: Vec<u64> = rest.iter().map(|entry| entry.seq).collect();
        assert_eq!(numbers, [1006, 1007, 1008, 1009, 1010]);
        assert_eq!(*live.changes().borrow(), 1011);
    }

    #[test]
    fn progress_is_told_ten_times_a_second_at_most() {
        let live = Board::default().place(id(1));
        let mut writer = Writer(Arc::clone(&live));
        let began = Instant::now();
        for done in 0..10 {
            progress(&mut writer, Role::Prepare, Phase::DecodeViews, done);
        }
        let told = live.after(0).len();
        let most = 1 + began.elapsed().as_millis() / INTERVAL.as_millis();
        assert!(told >= 1 && told as u128 <= most, "{told} of {most}");
        progress(&mut writer, Role::Prepare, Phase::DecodeViews, 10);
        assert_eq!(
            live.after(0).len(),
            told + 1,
            "the end of a phase is told anyway"
        );
    }

    #[test]
    fn what_a_board_keeps_is_bounded_in_bytes() {
        let board = Board::default();
        let long = "x".repeat(4096);
        let kept = |live: &Live| {
            let entries = live.after(0);
            let bytes: usize = entries.iter().map(|entry| entry.data.len()).sum();
            assert_eq!(bytes, live.inner().bytes);
            assert!(bytes <= EVENT_BYTES, "{bytes}");
            entries
        };
        for job in 0..200 {
            let live = board.place(id(job));
            let mut writer = Writer(Arc::clone(&live));
            let role = Role::Prepare;
            for _ in 0..100 {
                writer.event(&Event::Warning { role, text: &long });
            }
            assert_eq!(live.now().warnings.len(), MAX_WARNINGS);
            let entries = kept(&live);
            let last = entries.last().expect("some").seq;
            assert_eq!(
                (entries.len(), last),
                (EVENT_BYTES / entries[0].data.len(), 100)
            );
            live.over(id(job), State::Succeeded);
            assert_eq!(kept(&live).last().expect("some").kind, "done");
        }
        board.sweep(Instant::now());
        let left: Vec<u8> = (0..200)
            .filter(|job| board.find(id(*job)).is_some())
            .collect();
        let all: usize = left
            .iter()
            .map(|job| kept(&board.place(id(*job))).len())
            .sum();
        assert!(
            (OVER_BYTES / 2..=OVER_BYTES).contains(&(all * long.len())),
            "{all}"
        );
        assert_eq!(left.last(), Some(&199), "those that ended last stay");
    }

    #[tokio::test]
    async fn who_waits_for_a_job_is_told_at_its_end_and_not_before() {
        let live = Board::default().place(id(1));
        let mut waiting = Box::pin(live.ended());
        let mut is_over = async || {
            tokio::select! {
                biased;
                () = &mut waiting => true,
                () = tokio::task::yield_now() => false,
            }
        };
        assert!(!is_over().await);
        live.enter(State::Baking, &json!({}));
        assert!(!is_over().await);
        live.over(id(1), State::Failed);
        assert!(is_over().await);
        live.ended().await;
    }

    #[test]
    fn what_ended_long_ago_leaves_the_board() {
        let board = Board::default();
        board.place(id(1));
        board.place(id(2)).enter(State::Failed, &json!({}));
        board.sweep(Instant::now());
        assert!(board.find(id(2)).is_some());
        board.sweep(Instant::now() + KEPT);
        assert!(board.find(id(2)).is_none() && board.find(id(1)).is_some());
    }
}
