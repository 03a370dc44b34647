//! One job, carried out: what [`Life`] decides is done here, and what comes of it goes back to [`Life`].
//!
//! ```text
//!  processes ─ packets, deaths ─► hear ─┐                    ┌─► spawn, kill, discard
//!  clock     ─ stalls, deadline ─► tick ─┼─► Life::step ─► act ┼─► stage, name
//!  signals   ─ cancel ───────────────────┘                    └─► finish
//! ```
//!
//! Prepare and bake start together, so that bake opens its device while prepare decodes; encode starts when bake is done.

mod act;

mod bury;

mod commit;

pub mod compare;

mod hear;

mod kept;

mod lend;

mod spare;

mod spawn;

mod spec;

mod tick;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use proto::job::{Device, Product};
use proto::message::{AdapterInfo, Failure, Role, Table, ToChild};
use proto::sandbox::Sandbox;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use self::lend::Loan;
use self::spawn::{Held, Pass};
use crate::cgroup::Group;
use crate::child::{self, Child, ChildId, Launcher};
use crate::error::JobError;
use crate::event::{Event, Listener};
use crate::feed::{Feed, Parcel};
use crate::host::Host;
use crate::ladder::Rung;
use crate::life::{self, Life, Outcome};
use crate::output::Given;
use crate::procfs::Share;
use crate::report::Report;
use crate::stock::Stock;
use crate::verdict::Kill;
use crate::watch::{TICK, Watch};

pub use commit::Batch;
pub use kept::{Inputs, Kept};
pub use spare::{Key, Spares};
pub use spec::{MapTargets, Spec, rejected};

/// Events that may wait for the job; a full queue makes the children wait.
const EVENTS: usize = 256;

/// What tells a job to end before its time.
#[derive(Clone, Debug)]
pub enum Order {
    /// The caller does not want it any more, and said so by a signal or in words.
    Cancel(Option<nix::sys::signal::Signal>),
    /// The supervisor leaves.
    Drain,
}

/// A process and what is known of it.
#[derive(Debug)]
struct Running {
    child: Child,
    number: u32,
    watch: Watch,
    feed: Feed,
    /// Pipelines that are kept between processes.
    loan: Loan,
    /// The adapter that it opened.
    adapter: Option<AdapterInfo>,
    /// What it said of its sandbox, at each of its stages.
    accounts: Vec<Sandbox>,
    answered: Option<Answer>,
    kill: Option<Kill>,
    /// Bounds its memory, and tells whether that killed it.
    group: Option<Group>,
    /// Time on a processor when it was last looked at.
    share: Share,
}

#[derive(Debug)]
enum Answer {
    Done,
    Failed(Failure),
}

struct Job<'a> {
    spec: &'a Spec,
    host: &'a Host,
    listener: &'a mut dyn Listener,
    launcher: Launcher<'a>,
    /// To every child's task.
    events: mpsc::Sender<(ChildId, child::Event)>,
    life: Life,
    stock: Stock,
    running: Vec<Running>,
    /// Starts that were put off for a time.
    delayed: Vec<(Instant, Role)>,
    /// Starts that the gate put off.
    held: Vec<Held>,
    /// Decided, and not done yet.
    todo: VecDeque<life::Action>,
    staging: Option<JoinHandle<Result<Batch, Box<JobError>>>>,
    staged: Option<Batch>,
    children: u32,
    starts: HashMap<Role, u32>,
    started: Instant,
    /// What the role at fault left, by role: completes the error.
    evidence: HashMap<Role, bury::Evidence>,
    outcome: Option<Outcome>,
    /// What its processes were handed.
    given: Given,
    report: Report,
}

/// Runs the job to its end and tells how it went. The report holds the error, if there is one. `orders` ends it early.
pub async fn run(
    spec: &Spec,
    host: &Host,
    listener: &mut dyn Listener,
    mut orders: mpsc::Receiver<Order>,
) -> Report {
    let (events, mut received) = mpsc::channel(EVENTS);
    let rung = Rung {
        device: match spec.product {
            Product::Texture => spec.device.clone(),
            // They are the processor's work, and no adapter is opened for nothing.
            Product::VertexColours => Device::Cpu,
        },
        product: spec.product,
        ..Rung::default()
    };
    // Outlives the job, whose end it tells the others.
    let pass = Pass {
        host,
        job: Arc::clone(&spec.name),
    };
    let mut job = Job {
        spec,
        host,
        listener,
        launcher: Launcher {
            program: &spec.baker,
            log_filter: &spec.log_filter,
            threads: spec.threads,
            sandbox: spec.sandbox,
            address_space: host.memory_limit(),
            job: Arc::clone(&spec.name),
        },
        events,
        life: Life::new(rung, spec.fallback).dry(spec.dry_run),
        stock: Stock::new(spec.atlas_size())
            .with_maps(spec.maps.is_some())
            .with_rejected(spec.rejected.is_some())
            .with_dry_run(spec.dry_run)
            .with_container(spec.form.container, spec.form.pages),
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
        report: Report::new(spec),
    };
    job.step(life::Event::Begin);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while job.outcome.is_none() {
        // Every arm only waits, so each is safe to cancel. Orders and clock go first: no flood outruns them.
        tokio::select! {
            biased;
            Some(order) = orders.recv() => job.order(&order),
            now = ticks.tick() => job.tick(now.into_std()),
            () = host.changed() => job.again(),
            staged = written(&mut job.staging) => job.staged(staged),
            Some((id, event)) = received.recv() => job.hear(id, event),
        }
    }
    let report = job.close();
    drop(pass);
    report
}

/// The files that another thread writes.
async fn written(
    staging: &mut Option<JoinHandle<Result<Batch, Box<JobError>>>>,
) -> Result<Batch, Box<JobError>> {
    match staging {
        Some(handle) => commit::joined(handle.await),
        None => std::future::pending().await,
    }
}

impl Job<'_> {
    /// Tells what happened, and does what is to be done about it. What comes of that is told in turn, and done after it.
    fn step(&mut self, event: life::Event) {
        let outermost = self.todo.is_empty();
        // Stays at the front for as long as it is being done, so that a step within it knows.
        self.todo.extend(self.life.step(event));
        if outermost {
            while let Some(action) = self.todo.front().cloned() {
                self.act(action);
                self.todo.pop_front();
            }
        }
    }

    /// Asks again for what others may have left.
    fn again(&mut self) {
        self.knock();
        self.feed();
    }

    fn order(&mut self, order: &Order) {
        match order {
            Order::Cancel(signal) => {
                let error = signal.map_or_else(JobError::withdrawn, JobError::cancelled);
                self.step(life::Event::Stop(error));
            }
            Order::Drain => self.step(life::Event::Drain),
        }
    }

    fn staged(&mut self, result: Result<Batch, Box<JobError>>) {
        self.staging = None;
        let result = result.map(|batch| self.staged = Some(batch));
        self.step(life::Event::Staged(result));
    }

    /// Enters the outcome and tells it.
    fn close(self) -> Report {
        let Self {
            spec,
            listener,
            mut report,
            started,
            outcome,
            mut evidence,
            given,
            ..
        } = self;
        let error = match outcome {
            Some(Outcome::Done) | None => None,
            Some(Outcome::Failed(mut error, role)) => {
                if let Some(evidence) = role.and_then(|role| evidence.remove(&role)) {
                    evidence.complete(&mut error);
                }
                Some(error)
            }
            Some(Outcome::Unfinished) => Some(JobError::unfinished()),
        };
        report.close(started.elapsed(), error);
        if report.error.is_none() {
            listener.event(&Event::Done(&report));
        } else {
            if let Some(target) = &spec.report {
                report.leave(target, &given);
            }
            listener.event(&Event::Failed(&report));
        }
        report
    }
}

impl Running {
    /// Tells it that a file of its is sealed, which it reads back now.
    fn sealed(&self, table: Table) -> Result<(), String> {
        let parcel = Parcel {
            message: ToChild::Sealed { table },
            fds: Vec::new(),
        };
        let sent = self.child.send(parcel);
        sent.then_some(()).ok_or("its queue is full".to_owned())
    }

    /// Kills the process, for the first reason that comes up.
    fn kill(&mut self, why: Kill, listener: &mut dyn Listener) {
        if self.kill.is_some() {
            return;
        }
        listener.event(&Event::Killing {
            role: self.child.role,
            attempt: self.number,
            why: why.word(),
        });
        match why {
            // It does not know where it is stuck: its stacks tell.
            Kill::Stall { .. } => self.child.abort(),
            _ => self.child.kill(),
        }
        self.kill = Some(why);
    }
}
