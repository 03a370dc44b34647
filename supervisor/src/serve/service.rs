//! What the API and the scheduler share: the store, the board, and what is true of the sidecar at this moment.

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
use crate::gate::Rest;
use crate::store::{Job, JobId, Store};

/// What the API shares with the scheduler.
#[derive(Clone)]
pub struct Service(Arc<Shared>);

/// See [`Service`].
pub struct Shared {
    /// What must not be lost.
    pub store: Store,
    /// What happens now.
    pub board: Board,
    /// Where inputs may lie.
    pub roots: Roots,
    /// What the command line said.
    pub options: Options,
    /// What has happened, in numbers.
    pub metrics: Metrics,
    commands: mpsc::UnboundedSender<Command>,
    draining: AtomicBool,
    pub(super) running: AtomicUsize,
    pub(super) unkillable: AtomicUsize,
    /// Every one that a bake has opened.
    pub(super) adapters: Mutex<Vec<AdapterInfo>>,
    pub(super) proof: Mutex<Proof>,
    /// A job failed for a reason that may be ours.
    pub(super) doubtful: AtomicBool,
    pub(super) idle: Notify,
    asked_to_leave: Notify,
    /// What fails again and again, and is not tried for a while.
    pub(super) breakers: Mutex<Vec<Rest>>,
    /// When the scheduler's loop last turned, in milliseconds since `started`.
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
    /// Nobody wants it any more.
    Cancel(JobId),
    /// What failed again and again is tried again.
    ResetBreakers,
    /// What runs is put back.
    Leave,
}

impl Service {
    /// Over an open store; what it is told goes to `commands`.
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
    /// A job is in the store: it will be begun.
    pub fn accepted(&self, job: &Job) {
        let live = self.board.place(job.id);
        live.enter(State::Queued, &json!({ "state": State::Queued }));
        self.send(Command::Accepted(job.client.clone(), job.id));
    }

    /// Ends a job that nobody wants any more.
    pub fn cancel(&self, id: JobId) {
        self.send(Command::Cancel(id));
    }

    /// From here on no job is accepted or begun.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        if self.running.load(Ordering::Relaxed) == 0 {
            self.idle.notify_one();
        }
    }

    /// Whether the sidecar is about to leave.
    pub fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Waits until nothing runs any more. Only the one who drains asks.
    pub async fn idle(&self) {
        self.idle.notified().await;
    }

    /// Takes an order to leave once what runs is over.
    pub fn ask_to_leave(&self) {
        self.drain();
        self.asked_to_leave.notify_one();
    }

    /// Waits for such an order. Only the one who drains asks.
    pub async fn asked_to_leave(&self) {
        self.asked_to_leave.notified().await;
    }

    /// Something may be amiss: the self-test is due.
    pub fn doubt(&self) {
        self.doubtful.store(true, Ordering::Relaxed);
    }

    /// What fails again and again, and is not tried for a while.
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

    /// Has all of that tried again.
    pub fn reset_breakers(&self) {
        self.send(Command::ResetBreakers);
    }

    /// Puts back what runs, and ends the scheduler.
    pub fn leave(&self) {
        self.send(Command::Leave);
    }

    /// Jobs at work.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Processes that were killed and are still there.
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

    /// For how long the scheduler's loop has not turned.
    pub fn silent(&self) -> Duration {
        let turned = Duration::from_millis(self.turned.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(turned)
    }

    /// The scheduler's loop has turned.
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
