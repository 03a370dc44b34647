//! Starts accepted jobs in fair turn and runs them; at shutdown, puts running jobs back into the queue.
//!
//! Clients take turns, and each client's jobs start in order of acceptance. Several jobs run at once: while one bakes,
//! the next is prepared.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use proto::message::Code;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinHandle, JoinSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::elsewhere::{AT_ONCE, Elsewhere};
use super::inputs::Roots;
use super::options::Options;
use super::proof::{Goldens, Proof};
use super::queue::Queue;
use super::service::{Command, Service, notify};
use super::work::{Close, Work};
use crate::error::JobError;
use crate::host::Host;
use crate::job::Order;
use crate::store::{Clock, JobId, Limits, Round, Store, StoreError};

/// Interval between removals of expired data.
const SWEEP: Duration = Duration::from_secs(30);
/// Interval between steps of 16 MiB that check uploads, while nothing else runs.
const SCRUB: Duration = Duration::from_secs(1);
/// Interval between passes over all uploads.
const SCRUBBED: Duration = Duration::from_secs(24 * 60 * 60);
/// Delay after a check that failed.
const SCRUB_AGAIN: Duration = Duration::from_secs(60);
/// Interval between looks at who is elsewhere and cannot be reached.
const AWAY: Duration = Duration::from_secs(5);
/// Most pending orders for one job.
const ORDERS: usize = 4;

/// A scheduler that is not running yet.
pub struct Scheduler {
    service: Service,
    commands: mpsc::UnboundedReceiver<Command>,
    queue: Queue,
    host: Rc<Host>,
    elsewhere: Option<Rc<dyn Elsewhere>>,
    goldens: Rc<tokio::sync::Mutex<Goldens>>,
    proving: Option<JoinHandle<()>>,
    probing: Option<JoinHandle<()>>,
}

/// Opens the store and queues the jobs in it.
///
/// # Errors
/// The store is in use, broken, or of a later version.
pub fn open(
    options: &Options,
    elsewhere: Option<Rc<dyn Elsewhere>>,
) -> Result<(Service, Scheduler), Box<JobError>> {
    let limits = Limits {
        queue_jobs: options.queue_jobs,
        client_jobs: options.client_jobs.unwrap_or(u64::MAX),
        queue_bytes: options.queue_bytes,
        keep_ms: i64::try_from(options.keep.as_millis()).unwrap_or(i64::MAX),
        keep_bytes: options.keep_bytes.unwrap_or(u64::MAX),
        ..Limits::default()
    };
    let (store, recovered) = Store::open(&options.store, limits, Clock::default())
        .map_err(|error| JobError::own(Code::OutputError, error.to_string(), ""))?;
    let roots = Roots::open(&options.roots)?;
    let (sender, commands) = mpsc::unbounded_channel();
    let mut queue = Queue::default();
    for job in recovered.queued {
        queue.push(&job.client, job.id);
    }
    let service = Service::new(store, roots, options.clone(), sender);
    let host = Host::new(options.memory_limit, options.spares, options.bakes)
        .nice(i32::from(options.nice))
        .pipelines(options.pipelines.clone());
    let scheduler = Scheduler {
        service: service.clone(),
        commands,
        queue,
        host: Rc::new(host),
        elsewhere,
        goldens: Rc::default(),
        proving: None,
        probing: None,
    };
    Ok((service, scheduler))
}

impl Scheduler {
    /// Runs jobs until told to exit.
    ///
    /// # Errors
    /// A bug that would leave jobs unfinished.
    pub async fn run(mut self) -> Result<(), Box<JobError>> {
        let mut tasks: JoinSet<()> = JoinSet::new();
        let mut running: HashMap<Id, (JobId, mpsc::Sender<Order>)> = HashMap::new();
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ticks = interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let leaving = Rc::new(Cell::new(false));
        let scrubbing = spawn_local(scrub(self.service.clone()));
        loop {
            while !self.service.draining() && running.len() < self.parallel() {
                let Some(id) = self.queue.next() else { break };
                let (orders, received) = mpsc::channel(ORDERS);
                let work = Work {
                    service: self.service.clone(),
                    host: Rc::clone(&self.host),
                    elsewhere: self.elsewhere.clone(),
                    live: self.service.board.place(id),
                    id,
                    leaving: Rc::clone(&leaving),
                };
                let task = tasks.spawn_local(work.run(received));
                running.insert(task.id(), (id, orders));
            }
            self.service.running.store(running.len(), Ordering::Relaxed);
            if running.is_empty() && self.service.draining() {
                self.service.idle.notify_one();
                if leaving.get() {
                    scrubbing.abort();
                    self.host.end_spares().await;
                    if let Err(error) = self.service.store.clone().close().await {
                        tracing::warn!("the store was not closed: {error}");
                    }
                    return Ok(());
                }
            }
            tokio::select! {
                biased;
                _ = ticks.tick() => {
                    self.service.turn();
                    notify(&[sd_notify::NotifyState::Watchdog]);
                    self.look();
                    self.host.tend_spares(Instant::now());
                    self.prove(running.is_empty());
                }
                command = self.commands.recv() => match command {
                    Some(Command::Accepted(client, id)) => self.queue.push(&client, id),
                    Some(Command::Cancel(id)) => self.cancel(id, &running).await,
                    Some(Command::ResetBreakers) => self.host.reset_gate(),
                    Some(Command::Leave) => {
                        leaving.set(true);
                        for (_, orders) in running.values() {
                            drop(orders.try_send(Order::Drain));
                        }
                    }
                    None => {}
                },
                Some(joined) = tasks.join_next_with_id() => {
                    let (task, bug) = match joined {
                        Ok((task, ())) => (task, None),
                        Err(error) => (error.id(), Some(error)),
                    };
                    if let (Some((id, _)), Some(error)) = (running.remove(&task), bug) {
                        // Dropping its handles has ended its processes; other jobs continue.
                        let what = format!("a bug in kiln ended the job: {error}");
                        let error = JobError::own(Code::Internal, what, "please report it");
                        let live = self.service.board.place(id);
                        self.service.close(id, &live, Close::failed(&error)).await;
                    }
                }
                _ = sweep.tick() => {
                    self.service.board.sweep(Instant::now());
                    if let Err(error) = self.service.store.expire().await {
                        tracing::warn!("what has expired stays for now: {error}");
                    }
                }
            }
        }
    }

    /// How many jobs run at once: while one bakes on an adapter, the next is prepared.
    fn parallel(&self) -> usize {
        let parallel = self.service.options.parallel;
        parallel.unwrap_or_else(|| match &self.elsewhere {
            Some(_) => AT_ONCE,
            None => 2 * self.host.fleet().adapters(),
        })
    }

    /// Updates what the API shows, and probes a store whose disk failed.
    fn look(&mut self) {
        *(self.service.adapters.lock()).unwrap_or_else(PoisonError::into_inner) =
            self.host.fleet().seen();
        let parked = self.host.parked();
        self.service.unkillable.store(parked, Ordering::Relaxed);
        let resting = self.host.gate().resting(Instant::now());
        *(self.service.breakers.lock()).unwrap_or_else(PoisonError::into_inner) = resting;
        if !self.service.store.healthy() && is_over(self.probing.as_ref()) {
            let service = self.service.clone();
            self.probing = Some(spawn_local(async move {
                if let Err(error) = service.store.probe().await {
                    tracing::warn!("the store cannot be written: {error}");
                }
            }));
        }
    }

    /// Runs the self-test if it is due: at the start, after a doubtful failure, and after long idle time.
    fn prove(&mut self, at_rest: bool) {
        let proof = self.service.proof();
        let doubtful = self.service.doubtful.load(Ordering::Relaxed);
        // Who is elsewhere may be back at any time.
        let away = self.elsewhere.is_some()
            && proof.outcome.as_ref().is_some_and(Result::is_err)
            && proof.at.is_some_and(|at| at.elapsed() >= AWAY);
        let due =
            doubtful || away || proof.at.is_none() || (at_rest && proof.is_due(Instant::now()));
        if !due || self.service.draining() || !is_over(self.proving.as_ref()) {
            return;
        }
        self.service.doubtful.store(false, Ordering::Relaxed);
        let (service, host, goldens) = (
            self.service.clone(),
            Rc::clone(&self.host),
            Rc::clone(&self.goldens),
        );
        let elsewhere = self.elsewhere.clone();
        self.proving = Some(spawn_local(async move {
            let proof = match elsewhere {
                Some(others) => Proof::of(others.prove()).await,
                None => {
                    let mut goldens = goldens.lock().await;
                    Proof::of(goldens.bake(&service.options, &host)).await
                }
            };
            *service.proof.lock().unwrap_or_else(PoisonError::into_inner) = proof;
        }));
    }

    async fn cancel(&mut self, id: JobId, running: &HashMap<Id, (JobId, mpsc::Sender<Order>)>) {
        if let Some((_, orders)) = running.values().find(|(running, _)| *running == id) {
            // A full channel holds only such orders.
            drop(orders.try_send(Order::Cancel(None)));
        } else if self.queue.remove(id) {
            let live = self.service.board.place(id);
            self.service
                .close(id, &live, Close::failed(&JobError::withdrawn()))
                .await;
        }
    }
}

/// Checks uploads for damage while no job runs.
async fn scrub(service: Service) {
    let mut round = Round::default();
    loop {
        sleep(SCRUB).await;
        if service.running() > 0 || service.draining() {
            continue;
        }
        match service.store.scrub(&mut round).await {
            Ok(true) => {}
            Ok(false) => sleep(SCRUBBED).await,
            Err(StoreError::Closed) => return,
            Err(error) => {
                tracing::warn!("uploads are not looked through: {error}");
                sleep(SCRUB_AGAIN).await;
            }
        }
    }
}

fn is_over(task: Option<&JoinHandle<()>>) -> bool {
    task.is_none_or(JoinHandle::is_finished)
}
