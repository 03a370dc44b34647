//! One job's life in order: spawn → feed → watch → judge → reap → commit.
//!
//! Prepare and bake start together, so that bake opens its device while prepare decodes; encode starts when bake is done.
//! Every decision about a dead process is [`crate::verdict::judge`]'s. All children are reaped before [`bake`] returns.

mod commit;

mod spec;

mod hear;

mod bury;

mod signals;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto::message::{Code, Phase, Role};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::child::{self, Child, ChildId, Launcher};
use crate::error::JobError;
use crate::event::{Event, Listener};
use crate::feed::Feed;
use crate::report::Report;
use crate::stock::Stock;
use crate::verdict::{Ending, Kill};
use crate::watch::{TICK, Watch, stall_limit};
use crate::words;

use self::signals::Signals;

pub use spec::Spec;

/// Events that may wait for the job; a full queue makes the children wait.
const EVENTS: usize = 256;
/// After the kill of every child: reaping one takes milliseconds, unless the kernel itself is stuck on its device.
const REAP: Duration = Duration::from_secs(3);

/// A process and what is known of it.
#[derive(Debug)]
struct Running {
    child: Child,
    number: u32,
    watch: Watch,
    feed: Feed,
    answered: Option<Answer>,
    kill: Option<Kill>,
}

#[derive(Debug)]
enum Answer {
    Done,
    Failed(proto::message::Failure),
}

struct Job<'a> {
    spec: &'a Spec,
    listener: &'a mut dyn Listener,
    launcher: Launcher<'a>,
    /// To every child's task.
    events: mpsc::Sender<(ChildId, child::Event)>,
    stock: Stock,
    running: Vec<Running>,
    /// Fresh processes that wait for their time.
    delayed: Vec<(Instant, Role)>,
    starts: HashMap<Role, u32>,
    deaths: HashMap<Role, u32>,
    retries: u32,
    started: Instant,
    finished: bool,
    error: Option<Box<JobError>>,
    report: Report,
}

/// Runs the job to its end and tells how it went. The report holds the error, if there is one.
pub async fn bake(spec: &Spec, listener: &mut dyn Listener) -> Report {
    let (events, mut received) = mpsc::channel(EVENTS);
    let name: Arc<str> = format!("{:08x}", std::process::id()).into();
    let mut job = Job {
        spec,
        listener,
        launcher: Launcher {
            program: &spec.baker,
            log_filter: &spec.log_filter,
            job: name,
        },
        events,
        stock: Stock::new(spec.texture_size),
        running: Vec::new(),
        delayed: Vec::new(),
        starts: HashMap::new(),
        deaths: HashMap::new(),
        retries: 0,
        started: Instant::now(),
        finished: false,
        error: None,
        report: Report::new(spec),
    };
    match Signals::listen() {
        Ok(mut signals) => {
            job.work(&mut received, &mut signals).await;
            job.end(&mut received, &mut signals).await;
            if job.error.is_none() {
                let staged = commit::stage(spec, &job.stock, &mut job.report, job.started).await;
                // Staging runs on another thread and cannot be stopped half-way; nothing has its name yet.
                let cancelled = timeout(Duration::ZERO, signals.any()).await.ok();
                job.error = match (staged, cancelled) {
                    (_, Some(signal)) => Some(JobError::cancelled(signal)),
                    (Err(error), None) => Some(error),
                    (Ok(staged), None) => staged.commit().err(),
                };
            }
        }
        Err(error) => {
            job.error = Some(JobError::own(
                Code::Internal,
                format!("no signal handler: {error}"),
                "",
            ));
        }
    }
    let Job {
        error,
        mut report,
        started,
        listener,
        ..
    } = job;
    report.close(started.elapsed(), error);
    match report.error {
        None => listener.event(&Event::Done(&report)),
        Some(_) => {
            commit::failure_report(spec, &report);
            listener.event(&Event::Failed(&report));
        }
    }
    report
}

impl Job<'_> {
    /// Until the result is there, or cannot be.
    async fn work(
        &mut self,
        received: &mut mpsc::Receiver<(ChildId, child::Event)>,
        signals: &mut Signals,
    ) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.spawn(Role::Prepare);
        self.spawn(Role::Bake);
        while !self.finished && self.error.is_none() {
            // Every arm only waits, so each is safe to cancel. Signals and clock go first: no flood outruns them.
            tokio::select! {
                biased;
                signal = signals.any() => self.error = Some(JobError::cancelled(signal)),
                now = ticks.tick() => self.tick(now.into_std()),
                Some((id, event)) = received.recv() => self.hear(id, event),
            }
        }
    }

    /// Sees every child off: those that gave their answer may end by themselves, the others are killed.
    async fn end(
        &mut self,
        received: &mut mpsc::Receiver<(ChildId, child::Event)>,
        signals: &mut Signals,
    ) {
        let mut ticks = interval(TICK);
        let mut give_up: Option<Instant> = None;
        while !self.running.is_empty() {
            if self.error.is_some() && give_up.is_none() {
                give_up = Some(Instant::now() + REAP);
                for running in &mut self.running {
                    running.kill(Kill::JobOver);
                }
            }
            if give_up.is_some_and(|time| Instant::now() >= time) {
                for Running { child, .. } in self.running.drain(..) {
                    tracing::error!(
                        role = child.role.name(),
                        pid = child.pid,
                        "cannot be reaped: left to the kernel"
                    );
                }
                break;
            }
            tokio::select! {
                biased;
                signal = signals.any() => if self.error.is_none() { self.error = Some(JobError::cancelled(signal)) },
                now = ticks.tick() => self.tick(now.into_std()),
                Some((id, event)) = received.recv() => self.hear(id, event),
            }
        }
    }

    fn spawn(&mut self, role: Role) {
        let number = self.starts.entry(role).or_default();
        *number += 1;
        let number = *number;
        let id = ChildId(self.starts.values().sum());
        match self.launcher.spawn(id, role, self.events.clone()) {
            Ok(child) => {
                self.listener.event(&Event::Started {
                    role,
                    attempt: number,
                    pid: child.pid,
                });
                let limit = self.spec.stall.unwrap_or_else(|| stall_limit(role));
                let watch = Watch::new(limit, Instant::now());
                let feed = Feed::default();
                self.running.push(Running {
                    child,
                    number,
                    watch,
                    feed,
                    answered: None,
                    kill: None,
                });
            }
            Err(exit) => {
                let ending = Ending {
                    role,
                    phase: Phase::Start,
                    hello: false,
                    done: false,
                    failure: None,
                    kill: None,
                    exit,
                };
                self.buried(&ending, number, 0, Duration::ZERO, Vec::new());
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        for running in &mut self.running {
            let owed = !running.feed.ended();
            if let Some(kill) = running.watch.tick(now, owed) {
                running.kill(kill);
            }
        }
        if self.error.is_some() || self.finished {
            return;
        }
        let due: Vec<Role> = self
            .delayed
            .extract_if(.., |(time, _)| *time <= now)
            .map(|(_, role)| role)
            .collect();
        for role in due {
            self.spawn(role);
        }
        if now.duration_since(self.started) >= self.spec.timeout {
            self.error = Some(self.deadline());
        }
    }

    fn deadline(&self) -> Box<JobError> {
        let limit = words::span(self.spec.timeout);
        let hint = "--timeout SECONDS allows more; --quality draft needs less";
        let Some(running) = self
            .running
            .iter()
            .find(|running| running.answered.is_none())
        else {
            return JobError::own(
                Code::DeadlineExceeded,
                format!("not finished within {limit}"),
                hint,
            );
        };
        let (role, phase) = (running.child.role, running.watch.phase());
        let message = format!(
            "not finished within {limit}: {} was still {}",
            role.name(),
            words::doing(phase)
        );
        let mut error = JobError::own(Code::DeadlineExceeded, message, hint);
        (error.role, error.phase) = (Some(role), Some(phase));
        error.log_tail = running.child.tail.lines();
        error
    }
}

impl Running {
    /// Kills the process, for the first reason that comes up.
    fn kill(&mut self, why: Kill) {
        if self.kill.is_none() {
            self.kill = Some(why);
            self.child.kill();
        }
    }
}
