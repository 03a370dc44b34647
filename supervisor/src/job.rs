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
pub use kept::Kept;
pub use spare::{Key, Spares};
pub use spec::{MapTargets, Spec, rejected};

/// Events that may queue for the job; a full queue makes the children wait.
const EVENTS: usize = 256;

/// An order that ends a job early.
#[derive(Clone, Debug)]
pub enum Order {
    /// The caller no longer wants the job: by a signal, or by a request (`None`).
    Cancel(Option<nix::sys::signal::Signal>),
    /// The supervisor exits.
    Drain,
}

/// A process and what is known of it.
#[derive(Debug)]
struct Running {
    child: Child,
    number: u32,
    watch: Watch,
    feed: Feed,
    /// The pipelines that it was given and offers.
    loan: Loan,
    /// The adapter that it opened.
    adapter: Option<AdapterInfo>,
    /// What it reported of its sandbox, at each of its stages.
    accounts: Vec<Sandbox>,
    answered: Option<Answer>,
    kill: Option<Kill>,
    /// Its control group, which bounds its memory and tells whether that bound killed it.
    group: Option<Group>,
    /// Processor time at the last check.
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
    /// Goes to every child's task.
    events: mpsc::Sender<(ChildId, child::Event)>,
    life: Life,
    stock: Stock,
    running: Vec<Running>,
    /// Starts that wait for their delay.
    delayed: Vec<(Instant, Role)>,
    /// Starts that the gate holds back.
    held: Vec<Held>,
    /// Actions that are decided and not done yet.
    todo: VecDeque<life::Action>,
    staging: Option<JoinHandle<Result<Batch, Box<JobError>>>>,
    staged: Option<Batch>,
    children: u32,
    starts: HashMap<Role, u32>,
    started: Instant,
    /// What the role at fault left behind; it completes the error.
    evidence: HashMap<Role, bury::Evidence>,
    outcome: Option<Outcome>,
    /// The files that its processes were handed.
    given: Given,
    report: Report,
}

/// Runs the job to its end. The report holds the error, if there is one. `orders` ends it early.
pub async fn run(
    spec: &Spec,
    host: &Host,
    listener: &mut dyn Listener,
    mut orders: mpsc::Receiver<Order>,
) -> Report {
    let (events, mut received) = mpsc::channel(EVENTS);
    let rung = Rung {
        device: match spec.options.product() {
            Product::Texture => spec.options.device(),
            // The processor makes vertex colours, so no adapter is opened.
            Product::VertexColours => Device::Cpu,
        },
        product: spec.options.product(),
        ..Rung::default()
    };
    // Outlives `job`, and tells the other jobs when it ends.
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
        life: Life::new(rung, spec.options.fallback).dry(spec.dry_run),
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
        // Every arm only waits, so each is safe to cancel. Orders and the clock come first, so no flood of packets
        // delays them.
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

/// The files that another thread is writing.
async fn written(
    staging: &mut Option<JoinHandle<Result<Batch, Box<JobError>>>>,
) -> Result<Batch, Box<JobError>> {
    match staging {
        Some(handle) => commit::joined(handle.await),
        None => std::future::pending().await,
    }
}

impl Job<'_> {
    /// Gives an event to [`Life`] and carries out the actions. Their results are events of their own, handled after
    /// them.
    fn step(&mut self, event: life::Event) {
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

    /// Records the outcome and reports it.
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
            // The process does not know where it is stuck, but its stacks do.
            Kill::Stall { .. } => self.child.abort(),
            _ => self.child.kill(),
        }
        self.kill = Some(why);
    }
}
