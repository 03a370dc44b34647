//! Runs one job, or a list of jobs several at once, each with its own listener.
//!
//! The first signal ends what runs and stops anything new from beginning. Jobs that had not begun are reported as
//! unfinished.

use std::collections::{HashMap, VecDeque};
use std::num::NonZero;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use proto::exit;
use proto::message::Code;
use tokio::sync::mpsc;
use tokio::task::{self, JoinSet, LocalSet};

use crate::error::JobError;
use crate::event::{Event, Listener};
use crate::host::Host;
use crate::job::compare::{Compared, Comparison, compared};
use crate::job::{self, Kind, Order, Spec};
use crate::output::Given;
use crate::process::procfs::Holdings;
use crate::report::Report;
use crate::signals::Signals;

/// Open folders per job: the mesh's and the views'.
const FOLDERS: usize = 2;
/// A worker has at least this many threads, if there are enough cores.
const LEAST_THREADS: usize = 4;
/// Orders that may queue for one job.
const ORDERS: usize = 4;

/// Runs one job; a signal ends it.
pub async fn one(spec: &Spec, listener: &mut dyn Listener) -> Report {
    alone(Kind::Bake(spec), spec.pipelines.clone(), listener).await
}

/// Compares, and writes the sheet; a signal ends it.
///
/// # Errors
/// Why there are no figures, with the exit code.
pub async fn compare(
    comparison: &Comparison,
    listener: &mut dyn Listener,
) -> Result<Compared, Box<JobError>> {
    compared(alone(Kind::Compare(comparison), None, listener).await)
}

async fn alone(kind: Kind<'_>, pipelines: Option<PathBuf>, listener: &mut dyn Listener) -> Report {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return not_begun(kind, listener, error),
    };
    // A single job needs no spare processes.
    let host = Host::new(kind.memory_limit(), 0, 1).pipelines(pipelines);
    let (orders, received) = mpsc::channel(ORDERS);
    let forward = async {
        loop {
            let signal = signals.any().await;
            // A full queue already holds such an order.
            drop(orders.try_send(Order::Cancel(Some(signal))));
        }
    };
    let report = tokio::select! {
        report = job::run(kind, &host, listener, received) => report,
        () = forward => unreachable!("signals never end"),
    };
    host.vault().settle().await;
    report
}

/// Threads of each worker when `parallel` jobs run at once; `None` for all cores. The threads of all jobs together then
/// hardly exceed the cores, which would otherwise spend time waking each other. This makes eight jobs on 16 cores and
/// an H200 a fifth faster.
fn threads(cores: usize, parallel: usize) -> Option<usize> {
    (parallel > 1).then(|| (cores / parallel).max(LEAST_THREADS).min(cores))
}

/// How a list of jobs is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Jobs at once, at most.
    pub parallel: usize,
    /// Warm processes without a job.
    pub spares: usize,
    /// Bakes at work at once on each adapter.
    pub bakes: usize,
    /// Bound of each worker's memory in bytes.
    pub memory_limit: Option<u64>,
    /// Folder of the pipeline cache.
    pub pipelines: Option<PathBuf>,
}

/// How a list of jobs ended.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    /// Jobs whose results are in place.
    pub done: usize,
    /// All others.
    pub failed: usize,
    /// Of all together.
    pub time: Duration,
    /// The exit code of the first that failed.
    pub code: u8,
}

/// Runs a list of jobs. `listener` makes the listener of a job from its name.
pub async fn all(
    mut specs: Vec<Spec>,
    plan: Plan,
    listener: impl Fn(&str) -> Box<dyn Listener>,
) -> Sum {
    let began = Instant::now();
    let folders = FOLDERS * specs.len();
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    for spec in &mut specs {
        spec.threads = threads(cores, plan.parallel);
    }
    let mut list = List {
        waiting: specs.into(),
        sum: Sum {
            done: 0,
            failed: 0,
            time: Duration::ZERO,
            code: exit::OK,
        },
        ended: None,
        listener,
    };
    let signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            list.give_up(|| error.clone());
            return list.sum;
        }
    };
    let host = Host::new(plan.memory_limit, plan.spares, plan.bakes).pipelines(plan.pipelines);
    let host = Rc::new(host);
    let mut before = Holdings::count(host.parked());
    // Each job holds the folders of its inputs until its end.
    before.open_fds = before.open_fds.saturating_sub(folders);
    (list.listener)("").event(&Event::Host(&before));
    let local = LocalSet::new();
    local
        .run_until(list.work(&host, signals, plan.parallel))
        .await;
    host.end_spares().await;
    (list.listener)("").event(&Event::Host(&Holdings::count(host.parked())));
    let ended = list.ended;
    list.give_up(|| ended.map_or_else(JobError::unfinished, JobError::cancelled));
    Sum {
        time: began.elapsed(),
        ..list.sum
    }
}

/// A list of jobs at work.
struct List<L> {
    waiting: VecDeque<Spec>,
    sum: Sum,
    /// The signal that keeps what waits from beginning.
    ended: Option<Signal>,
    /// Makes the listener of a job from its name.
    listener: L,
}

impl<L: Fn(&str) -> Box<dyn Listener>> List<L> {
    /// Runs what waits, `parallel` jobs at once, until all is over or a signal comes.
    async fn work(&mut self, host: &Rc<Host>, mut signals: Signals, parallel: usize) {
        let mut jobs: JoinSet<Report> = JoinSet::new();
        let mut running: HashMap<task::Id, (Rc<Spec>, mpsc::Sender<Order>)> = HashMap::new();
        loop {
            while self.ended.is_none() && jobs.len() < parallel {
                let Some(spec) = self.waiting.pop_front().map(Rc::new) else {
                    break;
                };
                let (orders, received) = mpsc::channel(ORDERS);
                let (host, mut listener) = (Rc::clone(host), (self.listener)(&spec.name));
                let theirs = Rc::clone(&spec);
                let task = jobs.spawn_local(async move {
                    job::run(Kind::Bake(&theirs), &host, &mut *listener, received).await
                });
                running.insert(task.id(), (spec, orders));
            }
            tokio::select! {
                biased;
                signal = signals.any() => {
                    self.ended = Some(signal);
                    for (_, orders) in running.values() {
                        drop(orders.try_send(Order::Cancel(Some(signal))));
                    }
                }
                joined = jobs.join_next_with_id() => match joined {
                    Some(Ok((task, report))) => {
                        running.remove(&task);
                        self.enter(report);
                    }
                    // A bug in one job's task affects that job alone: its processes went with its handles.
                    Some(Err(error)) => {
                        let what = format!("a bug in kiln ended the job: {error}");
                        let error_of_job = JobError::own(Code::Internal, what, "please report it");
                        if let Some((spec, _)) = running.remove(&error.id()) {
                            self.not_begun(&spec, error_of_job);
                        }
                    }
                    None => break,
                },
            }
        }
    }

    /// Ends what has not begun.
    fn give_up(&mut self, why: impl Fn() -> Box<JobError>) {
        while let Some(spec) = self.waiting.pop_front() {
            self.not_begun(&spec, why());
        }
    }

    fn not_begun(&mut self, spec: &Spec, error: Box<JobError>) {
        let mut listener = (self.listener)(&spec.name);
        self.enter(not_begun(Kind::Bake(spec), &mut *listener, error));
    }

    fn enter(&mut self, report: Report) {
        let Some(error) = report.error else {
            self.sum.done += 1;
            return;
        };
        self.sum.failed += 1;
        if self.sum.code == exit::OK {
            self.sum.code = error.exit_code;
        }
    }
}

fn not_begun(kind: Kind<'_>, listener: &mut dyn Listener, error: Box<JobError>) -> Report {
    let mut report = kind.report();
    report.close(Duration::ZERO, Some(error));
    kind.close(&report, &Given::default(), listener);
    report
}

#[cfg(test)]
mod tests {
    use super::threads;

    #[test]
    fn workers_beside_each_other_share_the_cores() {
        assert_eq!(threads(16, 1), None, "one has them all");
        assert_eq!(threads(32, 2), Some(16));
        assert_eq!(threads(16, 8), Some(4));
        assert_eq!(threads(16, 64), Some(4));
        assert_eq!(threads(2, 8), Some(2), "there are no more");
    }
}
