//! Runs one job: carries out what [`Life`] decides, and feeds the results back to [`Life`].
//!
//! ```text
//!  processes ─ packets, deaths ─► hear ─┐                    ┌─► spawn, kill, discard
//!  clock     ─ stalls, deadline ─► tick ─┼─► Life::step ─► act ┼─► stage, name
//!  signals   ─ cancel ───────────────────┘                    └─► finish
//! ```
//!
//! Prepare and bake start together, so that bake opens its device while prepare decodes. Encode starts when bake is
//! done.

pub mod crash;
pub mod life;
pub mod many;

mod act;

mod bury;

mod commit;

pub mod compare;

mod hear;

mod kept;

mod kind;

mod lend;

mod running;

mod spare;

mod spawn;

mod spec;

mod tick;

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use proto::message::{AdapterInfo, Phase, Role};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use self::commit::Staging;
use self::running::{EVENTS, Running};
use crate::error::JobError;
use crate::event::Listener;
use crate::host::Host;
use crate::host::ladder::Rung;
use crate::job::life::{Life, Outcome};
use crate::output::Given;
use crate::process::child::{ChildEvent, ChildId, Launcher};
use crate::process::table_store::TableStore;
use crate::process::verdict::Exit;
use crate::process::watch::TICK;
use crate::report::Report;

pub use commit::Batch;
pub use kept::Kept;
pub use kind::Kind;
pub use spare::{Key, Spares};
pub use spec::{MapTargets, Spec, rejected};

/// An order that ends a job early.
#[derive(Clone, Debug)]
pub enum Order {
    /// The caller no longer wants the job: by a signal, or by a request (`None`).
    Cancel(Option<nix::sys::signal::Signal>),
    /// The supervisor exits.
    Drain,
}

struct Job<'a> {
    kind: Kind<'a>,
    name: Arc<str>,
    host: &'a Host,
    listener: &'a mut dyn Listener,
    launcher: Launcher<'a>,
    /// Goes to every child's task.
    events: mpsc::Sender<(ChildId, ChildEvent)>,
    life: Life,
    tables: TableStore,
    running: Vec<Running>,
    /// Starts that wait for their delay.
    delayed: Vec<(Instant, Role)>,
    /// Starts that the gate holds back.
    held: Vec<Held>,
    /// Actions that are decided and not done yet.
    todo: VecDeque<life::Action>,
    staging: Option<Staging>,
    staged: Option<Batch>,
    children: u32,
    starts: HashMap<Role, u32>,
    started: Instant,
    /// What the role at fault left behind; it completes the error.
    evidence: HashMap<Role, Evidence>,
    outcome: Option<Outcome>,
    /// The files that its processes were handed.
    given: Given,
    report: Report,
}

/// A start that the gate holds back.
#[derive(Debug)]
struct Held {
    role: Role,
    rung: Rung,
    why: String,
}

/// What completes an error about a role.
#[derive(Debug)]
struct Evidence {
    phase: Phase,
    exit: Exit,
    adapter: Option<AdapterInfo>,
    tail: Vec<String>,
    crash: Option<PathBuf>,
}

/// The job's entry at the gate. It is cleared when the job ends, however it ends.
#[derive(Debug)]
struct Pass<'a> {
    host: &'a Host,
    job: Arc<str>,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.host.gate().over(&self.job, Instant::now());
        self.host.leave_slot(&self.job);
    }
}

/// Runs the job to its end. The report holds the error, if there is one. `orders` ends it early.
pub async fn run(
    kind: Kind<'_>,
    host: &Host,
    listener: &mut dyn Listener,
    mut orders: mpsc::Receiver<Order>,
) -> Report {
    let (events, mut received) = mpsc::channel(EVENTS);
    // Outlives `job`, and tells the other jobs when it ends.
    let pass = Pass {
        host,
        job: kind.name(),
    };
    let mut job = Job {
        kind,
        name: kind.name(),
        host,
        listener,
        launcher: kind.launcher(host.memory_limit()),
        events,
        life: kind.life(),
        tables: kind.tables(),
        running: Vec::new(),
        delayed: Vec::new(),
        held: Vec::new(),
        todo: VecDeque::new(),
        staging: None,
        staged: None,
        children: 0,
        starts: HashMap::new(),
        started: Instant::now(),
        evidence: HashMap::new(),
        outcome: None,
        given: Given::default(),
        report: kind.report(),
    };
    let mut changes = host.changes();
    job.step(life::JobEvent::Begin);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while job.outcome.is_none() {
        // Every arm only waits, so each is safe to cancel. Orders and the clock come first, so no flood of packets
        // delays them.
        tokio::select! {
            biased;
            Some(order) = orders.recv() => job.order(&order),
            now = ticks.tick() => job.tick(now.into_std()),
            Ok(()) = changes.changed() => job.retry_waits(),
            staged = written(&mut job.staging) => job.staged(staged),
            Some((id, event)) = received.recv() => job.hear(id, event),
        }
    }
    let report = job.close();
    drop(pass);
    report
}

/// The files that another thread is writing.
async fn written(staging: &mut Option<Staging>) -> Result<Batch, Box<JobError>> {
    match staging {
        Some(staging) => commit::written(staging).await,
        None => std::future::pending().await,
    }
}

impl Job<'_> {
    /// Gives an event to [`Life`] and carries out the actions. Their results are events of their own, handled after
    /// them.
    fn step(&mut self, event: life::JobEvent) {
        let outermost = self.todo.is_empty();
        // An action stays at the front while it is carried out, so that a nested step knows of it.
        self.todo.extend(self.life.step(event));
        if outermost {
            while let Some(action) = self.todo.front().cloned() {
                self.act(action);
                self.todo.pop_front();
            }
        }
    }

    /// Tries again to get what other jobs may have freed.
    fn retry_waits(&mut self) {
        self.knock();
        self.dispatch();
    }

    fn order(&mut self, order: &Order) {
        match order {
            Order::Cancel(signal) => {
                let error = signal.map_or_else(JobError::withdrawn, JobError::cancelled);
                self.step(life::JobEvent::Stop(error));
            }
            Order::Drain => self.step(life::JobEvent::Drain),
        }
    }

    fn staged(&mut self, result: Result<Batch, Box<JobError>>) {
        self.staging = None;
        let result = result.map(|batch| self.staged = Some(batch));
        self.step(life::JobEvent::Staged(result));
    }

    /// Records the outcome and reports it.
    fn close(mut self) -> Report {
        let error = match self.outcome.take() {
            Some(Outcome::Done) | None => None,
            Some(Outcome::Failed(mut error, role)) => {
                if let Some(evidence) = role.and_then(|role| self.evidence.remove(&role)) {
                    evidence.complete(&mut error);
                }
                Some(error)
            }
            Some(Outcome::Unfinished) => Some(JobError::unfinished()),
        };
        self.report.close(self.started.elapsed(), error);
        self.kind.close(&self.report, &self.given, self.listener);
        self.report
    }
}

impl Evidence {
    fn complete(self, error: &mut JobError) {
        error.phase = Some(self.phase);
        error.signal = self.exit.signal_name();
        error.exit = self.exit.code();
        error.device = self.adapter;
        error.log_tail = self.tail;
        error.crash_folder = self.crash;
    }
}
