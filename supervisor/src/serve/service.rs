//! State shared by the API and the scheduler: the store, the board, and the sidecar's own condition.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use proto::message::AdapterInfo;
use serde_json::json;
use tokio::sync::{Notify, mpsc};

use super::board::{Board, State};
use super::inputs::Roots;
use super::metrics::Metrics;
use super::options::Options;
use super::proof::Proof;
use crate::host::gate::Rest;
use crate::store::{Job, JobId, Store};

/// A handle to [`Shared`].
#[derive(Clone)]
pub struct Service(Arc<Shared>);

/// State shared by the API and the scheduler.
pub struct Shared {
    /// Durable state.
    pub store: Store,
    /// Live state of jobs.
    pub board: Board,
    /// Folders that inputs may be in.
    pub roots: Roots,
    /// The command line's options.
    pub options: Options,
    /// Counters.
    pub metrics: Metrics,
    commands: mpsc::UnboundedSender<Command>,
    draining: AtomicBool,
    pub(super) running: AtomicUsize,
    pub(super) unkillable: AtomicUsize,
    /// Every adapter that a bake has opened.
    pub(super) adapters: Mutex<Vec<AdapterInfo>>,
    pub(super) proof: Mutex<Proof>,
    /// A job failed for a reason that may be the sidecar's.
    pub(super) doubtful: AtomicBool,
    pub(super) idle: Notify,
    asked_to_leave: Notify,
    /// Open circuit breakers.
    pub(super) breakers: Mutex<Vec<Rest>>,
    /// When the scheduler's loop last ran, in milliseconds since `started`.
    turned: AtomicU64,
    started: Instant,
}

impl std::ops::Deref for Service {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

pub(super) enum Command {
    /// A job was accepted.
    Accepted(String, JobId),
    /// The client cancelled a job.
    Cancel(JobId),
    /// Reset the circuit breakers.
    ResetBreakers,
    /// Put running jobs back and exit.
    Leave,
}

impl Service {
    /// Wraps an open store. The scheduler receives `commands`.
    pub(super) fn new(
        store: Store,
        roots: Roots,
        options: Options,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        Self(Arc::new(Shared {
            store,
            board: Board::default(),
            roots,
            options,
            metrics: Metrics::default(),
            commands,
            draining: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            unkillable: AtomicUsize::new(0),
            adapters: Mutex::default(),
            proof: Mutex::default(),
            doubtful: AtomicBool::new(false),
            idle: Notify::new(),
            asked_to_leave: Notify::new(),
            breakers: Mutex::default(),
            turned: AtomicU64::new(0),
            started: Instant::now(),
        }))
    }
}

impl Shared {
    /// Announces a job that was stored, so that it will be started.
    pub fn accepted(&self, job: &Job) {
        let live = self.board.place(job.id);
        live.enter(State::Queued, &json!({ "state": State::Queued }));
        self.send(Command::Accepted(job.client.clone(), job.id));
    }

    /// Cancels a job.
    pub fn cancel(&self, id: JobId) {
        self.send(Command::Cancel(id));
    }

    /// From now on, accepts and starts no job.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        if self.running.load(Ordering::Relaxed) == 0 {
            self.idle.notify_one();
        }
    }

    /// Whether the sidecar is shutting down.
    pub fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Waits until no job runs. Only the caller that drains uses this.
    pub async fn idle(&self) {
        self.idle.notified().await;
    }

    /// Requests an exit after the running jobs.
    pub fn ask_to_leave(&self) {
        self.drain();
        self.asked_to_leave.notify_one();
    }

    /// Waits for such a request. Only the caller that drains uses this.
    pub async fn asked_to_leave(&self) {
        self.asked_to_leave.notified().await;
    }

    /// Makes the self-test due, since something may be wrong.
    pub fn doubt(&self) {
        self.doubtful.store(true, Ordering::Relaxed);
    }

    /// Open circuit breakers.
    pub fn breakers(&self) -> Vec<Rest> {
        self.breakers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Every adapter that a bake has opened.
    pub fn adapters(&self) -> Vec<AdapterInfo> {
        self.adapters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Resets the circuit breakers.
    pub fn reset_breakers(&self) {
        self.send(Command::ResetBreakers);
    }

    /// Puts running jobs back and ends the scheduler.
    pub fn leave(&self) {
        self.send(Command::Leave);
    }

    /// Number of running jobs.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Number of killed processes that still exist.
    pub fn unkillable(&self) -> usize {
        self.unkillable.load(Ordering::Relaxed)
    }

    /// The latest self-test.
    pub fn proof(&self) -> Proof {
        self.proof
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Time since the scheduler's loop last ran.
    pub fn silent(&self) -> Duration {
        let turned = Duration::from_millis(self.turned.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(turned)
    }

    /// Records that the scheduler's loop ran.
    pub(super) fn turn(&self) {
        let ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.turned.store(ms, Ordering::Relaxed);
    }

    fn send(&self, command: Command) {
        if self.commands.send(command).is_err() {
            tracing::debug!("the scheduler has left");
        }
    }
}

/// Tells systemd, if it started this.
pub(super) fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd is not told");
    }
}
