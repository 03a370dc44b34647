//! Runs one job, or a list of jobs several at once, each with its own listener.
//!
//! The first signal ends what runs and stops anything new from beginning. Jobs that had not begun are reported as
//! unfinished.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::num::NonZero;
use std::path::PathBuf;
use std::rc::Rc;

use nix::sys::signal::Signal;
use proto::exit;
use proto::message::Code;
use tokio::sync::mpsc;
use tokio::task::{self, JoinSet, LocalSet};

use crate::error::JobError;
use crate::event::{Event, Listener};
use crate::host::Host;
use crate::job::{self, Order, Spec};
use crate::output::Given;
use crate::procfs::Holdings;
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
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return not_begun(spec, listener, error),
    };
    // A single job needs no spare processes.
    let host = Host::new(spec.memory_limit, 0, 1).pipelines(spec.pipelines.clone());
    let (orders, received) = mpsc::channel(ORDERS);
    let forward = async {
        loop {
            let signal = signals.any().await;
            // A full queue already holds such an order.
            drop(orders.try_send(Order::Cancel(Some(signal))));
        }
    };
    let report = tokio::select! {
        report = job::run(spec, &host, listener, received) => report,
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

/// Runs a list of jobs and returns the exit code of the first that failed. At most `parallel` jobs run at once, with
/// `spares` warm processes beside them and at most `bakes` at work on each adapter. Each worker gets `memory_limit`
/// bytes. `pipelines` is the folder of the pipeline cache. `listener` makes the listener of a job from its name.
pub async fn all(
    mut specs: Vec<Spec>,
    parallel: usize,
    (spares, bakes): (usize, usize),
    memory_limit: Option<u64>,
    pipelines: Option<PathBuf>,
    listener: impl Fn(&str) -> Box<dyn Listener>,
) -> u8 {
    let folders = FOLDERS * specs.len();
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    for spec in &mut specs {
        spec.threads = threads(cores, parallel);
    }
    let mut waiting: VecDeque<Spec> = specs.into();
    let mut code = exit::OK;
    let mut enter = |report: Report| {
        if let (exit::OK, Some(error)) = (code, report.error) {
            code = error.exit_code;
        }
    };
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            for spec in waiting {
                enter(not_begun(&spec, &mut *listener(&spec.name), error.clone()));
            }
            return code;
        }
    };
    let host = Rc::new(Host::new(memory_limit, spares, bakes).pipelines(pipelines));
    let running: Rc<RefCell<Vec<mpsc::Sender<Order>>>> = Rc::default();
    let mut ended: Option<Signal> = None;
    let local = LocalSet::new();
    let work = async {
        let mut jobs: JoinSet<Report> = JoinSet::new();
        let mut specs: HashMap<task::Id, Rc<Spec>> = HashMap::new();
        loop {
            while ended.is_none() && jobs.len() < parallel {
                let Some(spec) = waiting.pop_front() else {
                    break;
                };
                let (orders, received) = mpsc::channel(ORDERS);
                running.borrow_mut().retain(|orders| !orders.is_closed());
                running.borrow_mut().push(orders);
                let (host, mut listener) = (Rc::clone(&host), listener(&spec.name));
                let spec = Rc::new(spec);
                let kept = Rc::clone(&spec);
                let task = jobs.spawn_local(async move {
                    job::run(&spec, &host, &mut *listener, received).await
                });
                specs.insert(task.id(), kept);
            }
            tokio::select! {
                biased;
                signal = signals.any() => {
                    ended = Some(signal);
                    for orders in running.borrow().iter() {
                        drop(orders.try_send(Order::Cancel(Some(signal))));
                    }
                }
                joined = jobs.join_next_with_id() => match joined {
                    Some(Ok((task, report))) => {
                        specs.remove(&task);
                        enter(report);
                    }
                    // A bug in one job's task affects that job alone: its processes went with its handles.
                    Some(Err(error)) => {
                        let what = format!("a bug in kiln ended the job: {error}");
                        let error_of_job = JobError::own(Code::Internal, what, "please report it");
                        if let Some(spec) = specs.remove(&error.id()) {
                            enter(not_begun(&spec, &mut *listener(&spec.name), error_of_job));
                        }
                    }
                    None => break,
                },
            }
        }
    };
    let mut before = Holdings::count(host.parked());
    // Each job holds the folders of its inputs until its end.
    before.open_fds = before.open_fds.saturating_sub(folders);
    listener("").event(&Event::Host(&before));
    local.run_until(work).await;
    host.end_spares().await;
    listener("").event(&Event::Host(&Holdings::count(host.parked())));
    for spec in waiting {
        let error = ended.map_or_else(JobError::unfinished, JobError::cancelled);
        enter(not_begun(&spec, &mut *listener(&spec.name), error));
    }
    code
}

fn not_begun(spec: &Spec, listener: &mut dyn Listener, error: Box<JobError>) -> Report {
    let mut report = Report::new(spec);
    report.close(std::time::Duration::ZERO, Some(error));
    if let Some(target) = &spec.report {
        report.leave(target, &Given::default());
    }
    listener.event(&Event::Failed(&report));
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
