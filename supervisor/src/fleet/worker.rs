//! `kiln worker`: pulls jobs from the queue while its sidecar is ready and has a slot, and writes a heartbeat into the store.
//!
//! It keeps nothing of a job: whatever ends it, another worker, or this one started again, goes on from the store. SIGTERM
//! drains it: no job is taken any more, running ones end within the grace, and the rest goes to other hosts.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use futures_util::StreamExt;
use kiln_fleet::record::{AtWork, Beat};
use kiln_fleet::{Bucket, FleetError, Queue, ledger, now_ms};
use proto::exit;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{Place, errand};
use crate::remote::client::Later;
use crate::remote::http::Ask;
use crate::remote::{self, Client, RemoteError};
use crate::screen;
use crate::signals::Signals;

/// Between two heartbeats.
const BEAT: Duration = Duration::from_secs(30);
/// Between two attempts at what is away.
const AGAIN: Duration = Duration::from_secs(1);
/// How long an unfit host takes nothing: doubles with each time in a row.
const REST: Duration = Duration::from_secs(30);
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(900);

/// How a worker is run.
#[derive(Debug)]
pub struct Options {
    /// The fleet.
    pub place: Place,
    /// Its sidecar.
    pub sidecar: remote::Place,
    /// How long the sidecar may be away while a job runs.
    pub patience: Duration,
    /// The host's name.
    pub host: String,
    /// Jobs at once; as many as the sidecar runs if `None`.
    pub slots: Option<usize>,
    /// How long running jobs may go on after SIGTERM.
    pub grace: Duration,
    /// Folder for files on their way.
    pub spool: PathBuf,
    /// Copies of the streams, if they are made here.
    pub replicas: usize,
}

/// What a running job is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Go on.
    On,
    /// See whether somebody cancelled you.
    Look,
    /// The host leaves.
    Leave,
}

/// A job at work here.
#[derive(Debug)]
pub(super) struct Running {
    tenant: String,
    since_ms: u64,
    /// When it last advanced.
    pub(super) pulse: Cell<Instant>,
    pub(super) orders: watch::Sender<Order>,
}

/// The state of a worker: nothing that another one would need.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) options: Options,
    pub(super) client: Client,
    pub(super) queue: Queue,
    pub(super) bucket: Bucket,
    pub(super) succeeded: Cell<u64>,
    pub(super) failed: Cell<u64>,
    running: RefCell<BTreeMap<String, Rc<Running>>>,
    /// A job ended.
    freed: Notify,
    leaving: Cell<bool>,
    /// Why the host is unfit, until when, and for how long.
    rest: RefCell<Option<(String, Instant, Duration)>>,
    /// Why nothing is taken at the moment.
    waits: RefCell<Option<String>>,
    slots: Cell<usize>,
    adapters: RefCell<Vec<String>>,
    since_ms: u64,
}

/// Runs a worker until a signal. Returns the exit code.
pub async fn run(options: Options) -> u8 {
    let local = LocalSet::new();
    match local.run_until(serve(options)).await {
        Ok(()) => exit::OK,
        Err(error) => {
            let told = error.report();
            screen::refuse(&told.message, &told.hint);
            told.exit_code
        }
    }
}

async fn serve(options: Options) -> Result<(), RemoteError> {
    let mut signals = Signals::listen()?;
    let bucket = options.place.bucket()?;
    let access = (options.place).access("_INBOX".to_owned(), &options.host);
    let queue = Queue::connect(&access, true).await?;
    let worker = Rc::new(Worker {
        client: Client::new(options.sidecar.clone(), options.patience),
        queue,
        bucket,
        succeeded: Cell::new(0),
        failed: Cell::new(0),
        running: RefCell::default(),
        freed: Notify::new(),
        leaving: Cell::new(false),
        rest: RefCell::default(),
        waits: RefCell::default(),
        slots: Cell::new(options.slots.unwrap_or(1)),
        adapters: RefCell::default(),
        since_ms: now_ms(),
        options,
    });
    let mut around = JoinSet::new();
    around.spawn_local(Rc::clone(&worker).beats());
    around.spawn_local(Rc::clone(&worker).wakes());
    let taking = tokio::task::spawn_local(Rc::clone(&worker).take());
    let mut taking = std::pin::pin!(taking);
    tokio::select! {
        biased;
        _ = signals.any() => {}
        ended = &mut taking => return ended.unwrap_or(Ok(())),
    }
    worker.leaving.set(true);
    screen::say("leaving: takes no job any more");
    tokio::select! {
        biased;
        _ = signals.any() => {}
        () = worker.drain(taking) => {}
    }
    around.abort_all();
    if let Err(error) = ledger::leave(&worker.bucket, &worker.options.host).await {
        tracing::debug!("the heartbeat stays: {error}");
    }
    worker.queue.flush().await;
    Ok(())
}

impl Worker {
    /// Takes jobs until it leaves.
    async fn take(self: Rc<Self>) -> Result<(), RemoteError> {
        let consumer = loop {
            match self.queue.prepare(self.options.replicas).await {
                Ok(consumer) => break consumer,
                Err(FleetError::Unreachable(why)) => self.wait(&why).await,
                Err(error) => return Err(error.into()),
            }
            if self.leaving.get() {
                return Ok(());
            }
        };
        let mut told = false;
        while !self.leaving.get() {
            if let Some(why) = self.unready().await {
                told = false;
                self.wait(&why).await;
                continue;
            }
            if !std::mem::replace(&mut told, true) {
                *self.waits.borrow_mut() = None;
                self.welcome();
            }
            let pulled = match self.queue.pull(&consumer).await {
                Ok(pulled) => pulled,
                Err(error) => {
                    self.wait(&error.to_string()).await;
                    continue;
                }
            };
            if self.waits.take().is_some() {
                self.welcome();
            }
            let Some(delivery) = pulled else { continue };
            if self.running.borrow().contains_key(&delivery.id) {
                // The queue lost sight of the job, as after a cut; the errand that has it acks it.
                continue;
            }
            if self.leaving.get() {
                drop(delivery.later(Duration::ZERO).await);
                break;
            }
            let running = Rc::new(Running {
                tenant: delivery.tenant.clone(),
                since_ms: now_ms(),
                pulse: Cell::new(Instant::now()),
                orders: watch::Sender::new(Order::On),
            });
            let id = delivery.id.clone();
            (self.running.borrow_mut()).insert(id.clone(), Rc::clone(&running));
            let worker = Rc::clone(&self);
            tokio::task::spawn_local(async move {
                errand::run(&worker, &delivery, &running).await;
                worker.running.borrow_mut().remove(&id);
                worker.freed.notify_waiters();
            });
        }
        Ok(())
    }

    /// Waits for a slot, and returns what else stands in the way of a job.
    async fn unready(&self) -> Option<String> {
        loop {
            let freed = self.freed.notified();
            if self.running.borrow().len() < self.slots.get() {
                break;
            }
            freed.await;
        }
        let resting = self.rest.borrow().clone();
        if let Some((why, until, _)) = resting
            && Instant::now() < until
        {
            return Some(why);
        }
        let ask = Ask::new(Method::GET, "/readyz");
        let answer = self
            .client
            .once(&ask, Some(StatusCode::SERVICE_UNAVAILABLE));
        let answer = timeout(AGAIN * 5, answer).await;
        let told: Result<Value, String> = match answer {
            Err(_) => Err("it does not answer".to_owned()),
            Ok(Err(error)) => Err(error.report().message),
            Ok(Ok(answer)) => answer.json().await.map_err(|error| error.report().message),
        };
        match told {
            Ok(ready) if ready["ready"] == true => {
                if self.adapters.borrow().is_empty() {
                    self.look().await;
                }
                None
            }
            Ok(ready) => Some(format!("the sidecar is not ready: {}", ready["reasons"])),
            Err(why) => Some(format!("the sidecar: {why}")),
        }
    }

    /// What the sidecar can do.
    async fn look(&self) {
        let ask = Ask::new(Method::GET, "/v1/capabilities");
        let told: Result<Value, _> = self.client.json(&ask, Later::Tell).await;
        let told = match told {
            Ok(told) => told,
            Err(error) => {
                tracing::warn!("capabilities: {}", error.report().message);
                return;
            }
        };
        let adapters: Vec<String> = told["adapters"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|adapter| {
                let name = adapter["name"].as_str().unwrap_or_default();
                crate::words::printable(name, 80)
            })
            .collect();
        if self.options.slots.is_none() {
            let number = |key: &str| told[key].as_u64().and_then(|n| usize::try_from(n).ok());
            let bakes = number("bakes").unwrap_or(1) * adapters.len().max(1);
            self.slots.set(number("parallel").unwrap_or(bakes).max(1));
        }
        *self.adapters.borrow_mut() = adapters;
    }

    fn welcome(&self) {
        let (host, slots) = (&self.options.host, self.slots.get());
        screen::say(&format!("{host} takes jobs, {slots} at once"));
    }

    /// Tells once why nothing is taken, and waits a moment.
    async fn wait(&self, why: &str) {
        let known = self.waits.replace(Some(why.to_owned()));
        if known.as_deref() != Some(why) {
            screen::say(&format!("takes no job for now: {why}"));
        }
        sleep(AGAIN).await;
    }

    /// This host failed at what another one may do: it takes nothing for a while.
    pub(super) fn rest(&self, why: &str) {
        let mut rest = self.rest.borrow_mut();
        let last = rest.as_ref().map_or(Duration::ZERO, |(_, _, last)| *last);
        let time = (last * 2).clamp(REST, LONGEST_REST);
        *rest = Some((why.to_owned(), Instant::now() + time, time));
        drop(rest);
        self.waits.replace(Some(why.to_owned()));
        let seconds = time.as_secs();
        screen::say(&format!("takes no job for {seconds} s: {why}"));
    }

    /// A job was done: the host is fit.
    pub(super) fn fit(&self) {
        *self.rest.borrow_mut() = None;
    }

    /// Ends what is at work. The last pull ends by itself meanwhile, and what it brings goes back.
    async fn drain(&self, taking: impl Future) {
        let end = Instant::now() + self.options.grace;
        let work = async {
            drop(timeout_at(end, self.over()).await);
            for running in self.running.borrow().values() {
                running.orders.send_replace(Order::Leave);
            }
            self.over().await;
        };
        tokio::join!(taking, work);
    }

    /// Waits until nothing is at work.
    async fn over(&self) {
        loop {
            let freed = self.freed.notified();
            if self.running.borrow().is_empty() {
                return;
            }
            freed.await;
        }
    }

    #[expect(clippy::infinite_loop, reason = "it is aborted when the worker leaves")]
    async fn beats(self: Rc<Self>) {
        loop {
            if let Err(error) = ledger::beat(&self.bucket, &self.beat()).await {
                tracing::warn!("no heartbeat: {error}");
            }
            sleep(BEAT).await;
        }
    }

    fn beat(&self) -> Beat {
        let now = Instant::now();
        let running = self.running.borrow();
        let advancing = running
            .iter()
            .filter(|(_, running)| now - running.pulse.get() < BEAT);
        Beat {
            host: self.options.host.clone(),
            at_ms: now_ms(),
            since_ms: self.since_ms,
            version: proto::BUILD_ID.to_owned(),
            slots: self.slots.get(),
            running: advancing
                .map(|(id, running)| AtWork {
                    id: id.clone(),
                    tenant: running.tenant.clone(),
                    since_ms: running.since_ms,
                })
                .collect(),
            resting: self.waits.borrow().clone(),
            adapters: self.adapters.borrow().clone(),
            succeeded: self.succeeded.get(),
            failed: self.failed.get(),
        }
    }

    /// Passes wake-ups on to the jobs that they are for.
    #[expect(clippy::infinite_loop, reason = "it is aborted when the worker leaves")]
    async fn wakes(self: Rc<Self>) {
        loop {
            let mut wakes = match self.queue.wakes().await {
                Ok(wakes) => wakes,
                Err(error) => {
                    tracing::debug!("no wake-ups: {error}");
                    sleep(AGAIN).await;
                    continue;
                }
            };
            while let Some(message) = wakes.next().await {
                let id = message.subject.rsplit('.').next().unwrap_or_default();
                if let Some(running) = self.running.borrow().get(id) {
                    running.orders.send_if_modified(|order| {
                        // Who leaves ends the job anyway.
                        let ends = *order == Order::Leave;
                        *order = if ends { Order::Leave } else { Order::Look };
                        !ends
                    });
                }
            }
        }
    }
}
