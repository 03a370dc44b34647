//! Commits requests. One thread owns the database and makes all waiting writes one transaction, so that many requests
//! share one fsync. No write is answered before it.
//!
//! ```text
//!  take all that waits → reads: answered at once, from committed data
//!                      → writes: BEGIN → each in its own savepoint → COMMIT (fsync) → remove files without a row
//!                        → answers → checkpoint, if the WAL has grown
//! ```
//!
//! A refused write changes nothing and does not affect the others. If the disk fails, the transaction is undone and
//! each of its writes fails. The next transaction is tried normally. After a failed fsync `SQLite` rewrites the WAL's
//! frames before it syncs again.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::clock::Time;
use super::digest::Digest;
use super::error::StoreError;
use super::id::{Ids, JobId};
use super::limits::Limits;
use super::marks::Marks;
use super::place::Place;
use super::schema::failed;

/// Most waiting requests; further callers wait.
const WAITING: usize = 1024;
/// Most writes in one transaction, so that the first need not wait too long.
const BATCH: usize = 256;
/// Writes between checkpoints: some 16 MiB of WAL, which the next open reads within tens of milliseconds.
const CHECKPOINT: usize = 512;

/// State that the thread and the handles share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) place: Place,
    pub(super) marks: Marks,
    pub(super) limits: Limits,
    pub(super) time: Time,
    /// Whether the last write succeeded.
    pub(super) healthy: AtomicBool,
    /// When the last probe succeeded.
    pub(super) probed: Mutex<Option<Instant>>,
    /// Blobs whose files must stay, with or without a row: an upload is about to add one.
    pins: Mutex<HashMap<Digest, u32>>,
}

impl Shared {
    pub(super) fn new(place: Place, marks: Marks, limits: Limits, time: Time) -> Self {
        Self {
            place,
            marks,
            limits,
            time,
            healthy: AtomicBool::new(true),
            probed: Mutex::default(),
            pins: Mutex::default(),
        }
    }

    fn pins(&self) -> MutexGuard<'_, HashMap<Digest, u32>> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_pinned(&self, digest: Digest) -> bool {
        self.pins().contains_key(&digest)
    }
}

/// Keeps a blob's file from being removed.
#[derive(Debug)]
pub(super) struct Pin {
    shared: Arc<Shared>,
    digest: Digest,
}

impl Pin {
    pub(super) fn new(shared: &Arc<Shared>, digest: Digest) -> Self {
        *shared.pins().entry(digest).or_default() += 1;
        Self {
            shared: Arc::clone(shared),
            digest,
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.shared.pins();
        if let Some(count) = pins.get_mut(&self.digest) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&self.digest);
            }
        }
    }
}

/// What a write works with.
pub(super) struct Desk<'a> {
    pub(super) db: &'a Connection,
    pub(super) shared: &'a Shared,
    pub(super) ids: &'a mut Ids,
    /// Files that no row refers to once this is committed.
    pub(super) strays: &'a mut Vec<Stray>,
}

/// A file that no row refers to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stray {
    /// The folder of a job.
    Job(JobId),
    /// The inputs of a job that has ended.
    Inputs(JobId),
    /// The file of a blob.
    Blob(Digest),
    /// A damaged file of a blob, if it still has this inode.
    Damaged(Digest, u64),
}

/// A pending write.
trait Write: Send {
    /// Carries it out. The caller must undo a refused one.
    fn carry_out(&mut self, desk: &mut Desk<'_>) -> Result<(), StoreError>;
    /// Answers the caller; a failure replaces the outcome.
    fn answer(self: Box<Self>, failure: Option<&StoreError>);
}

struct Order<T, F> {
    work: Option<F>,
    outcome: Result<T, StoreError>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Write for Order<T, F>
where
    T: Send,
    F: FnOnce(&mut Desk<'_>) -> Result<T, StoreError> + Send,
{
    fn carry_out(&mut self, desk: &mut Desk<'_>) -> Result<(), StoreError> {
        if let Some(work) = self.work.take() {
            self.outcome = work(desk);
        }
        self.outcome
            .as_ref()
            .map_or_else(|error| Err(error.clone()), |_value| Ok(()))
    }

    fn answer(self: Box<Self>, failure: Option<&StoreError>) {
        let answer = failure.map_or(self.outcome, |failure| Err(failure.clone()));
        if self.reply.send(answer).is_err() {
            tracing::debug!("nobody waits for an answer of the store");
        }
    }
}

type Read = Box<dyn FnOnce(&Connection, &Shared) + Send>;

enum Request {
    Read(Read),
    Write(Box<dyn Write>),
    Close(oneshot::Sender<()>),
}

/// A handle to the thread.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    requests: mpsc::Sender<Request>,
    shared: Arc<Shared>,
}

impl Writer {
    /// Starts the thread. It ends, and releases the lock, when told to or when the last handle is dropped.
    pub(super) fn start(
        db: Connection,
        lock: File,
        shared: Arc<Shared>,
        ids: Ids,
    ) -> Result<Self, StoreError> {
        let (requests, inbox) = mpsc::channel(WAITING);
        let place = shared.place.clone();
        let keeper = Keeper {
            db,
            shared: Arc::clone(&shared),
            ids,
            writes: 0,
        };
        thread::Builder::new()
            .name("store".into())
            .spawn(move || keeper.run(inbox, lock))
            .map_err(|error| StoreError::io("start the thread of", place.root(), &error))?;
        Ok(Self { requests, shared })
    }

    /// Carries out a write; returns once it is synced.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Desk<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let order = Order {
            work: Some(work),
            outcome: Err(StoreError::Closed),
            reply,
        };
        self.send(Request::Write(Box::new(order))).await?;
        answer.await.unwrap_or_else(|_gone| Err(self.ended()))
    }

    /// Reads committed data.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let read = move |db: &Connection, shared: &Shared| {
            if reply.send(work(db, shared)).is_err() {
                tracing::debug!("nobody waits for an answer of the store");
            }
        };
        self.send(Request::Read(Box::new(read))).await?;
        answer.await.unwrap_or_else(|_gone| Err(self.ended()))
    }

    /// Ends the thread after the waiting requests; the lock is then free.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Close(reply)).await?;
        answer.await.map_err(|_gone| self.ended())
    }

    async fn send(&self, request: Request) -> Result<(), StoreError> {
        let sent = self.requests.send(request).await;
        sent.map_err(|_gone| self.ended())
    }

    /// The error of an ended thread. Also marks the store unhealthy: a thread that died by a bug may not have done so
    /// yet.
    fn ended(&self) -> StoreError {
        self.shared.healthy.store(false, Ordering::Relaxed);
        StoreError::Closed
    }
}

/// The thread's state.
struct Keeper {
    db: Connection,
    shared: Arc<Shared>,
    ids: Ids,
    /// Writes since the last checkpoint.
    writes: usize,
}

/// Marks the store unhealthy however the thread ends.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.healthy.store(false, Ordering::Relaxed);
    }
}

impl Keeper {
    fn run(mut self, mut inbox: mpsc::Receiver<Request>, lock: File) {
        let ended = Ended(Arc::clone(&self.shared));
        let mut closers = Vec::new();
        while closers.is_empty()
            && let Some(first) = inbox.blocking_recv()
        {
            let mut writes = Vec::new();
            let mut next = Some(first);
            while let Some(request) = next {
                match request {
                    Request::Read(read) => read(&self.db, &self.shared),
                    Request::Write(write) => writes.push(write),
                    Request::Close(reply) => closers.push(reply),
                }
                let more = writes.len() < BATCH && closers.is_empty();
                next = if more { inbox.try_recv().ok() } else { None };
            }
            if !writes.is_empty() {
                self.write(writes);
            }
        }
        inbox.close();
        if let Err((_db, error)) = self.db.close() {
            tracing::warn!(%error, "the database of the store was not closed in order");
        }
        drop(lock);
        // Everything that is true of a closed store holds before the answer.
        drop(ended);
        for closer in closers {
            if closer.send(()).is_err() {
                tracing::debug!("nobody waits for the end of the store");
            }
        }
    }

    fn write(&mut self, mut writes: Vec<Box<dyn Write>>) {
        let mut strays = Vec::new();
        let done = self.commit(&mut writes, &mut strays);
        match &done {
            Ok(_) => remove(&self.shared, &strays),
            Err(error) => {
                tracing::error!(%error, requests = writes.len(), "the store cannot write");
            }
        }
        let well = matches!(done, Ok(true));
        self.shared.healthy.store(well, Ordering::Relaxed);
        self.writes += writes.len();
        for write in writes {
            write.answer(done.as_ref().err());
        }
        if self.writes >= CHECKPOINT {
            self.checkpoint();
        }
    }

    /// Commits a batch. Returns whether no write met a failing disk, although the others could be carried out.
    fn commit(
        &mut self,
        writes: &mut [Box<dyn Write>],
        strays: &mut Vec<Stray>,
    ) -> Result<bool, StoreError> {
        let sql = |error: rusqlite::Error| failed(&error);
        let mut well = true;
        // Rolls back when dropped without a commit.
        let mut batch = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(sql)?;
        for write in writes {
            let mut own = Vec::new();
            let step = batch.savepoint().map_err(sql)?;
            let mut desk = Desk {
                db: &step,
                shared: &self.shared,
                ids: &mut self.ids,
                strays: &mut own,
            };
            match write.carry_out(&mut desk) {
                Ok(()) => {
                    step.commit().map_err(sql)?;
                    strays.append(&mut own);
                }
                // SQLite has rolled back the whole transaction, as it does when the disk is at fault.
                Err(error) if step.is_autocommit() => return Err(error),
                Err(error) => {
                    step.finish().map_err(sql)?;
                    well &= !error.is_disk();
                }
            }
        }
        batch.commit().map_err(sql)?;
        Ok(well)
    }

    fn checkpoint(&mut self) {
        self.writes = 0;
        let done = self
            .db
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
                row.get::<_, i64>(0)
            });
        // Answered writes are in the WAL and stay there.
        if let Err(error) = done {
            tracing::error!(%error, "the store cannot carry over its WAL");
            self.shared.healthy.store(false, Ordering::Relaxed);
        }
    }
}

/// Removes files that no row refers to. The next open removes what cannot be removed now.
pub(super) fn remove(shared: &Shared, strays: &[Stray]) {
    for stray in strays {
        let (path, done) = match *stray {
            Stray::Job(id) => {
                let path = shared.place.job(id);
                let done = fs::remove_dir_all(&path);
                (path, done)
            }
            Stray::Inputs(id) => {
                let path = shared.place.input(id);
                let done = fs::remove_dir_all(&path);
                (path, done)
            }
            Stray::Damaged(digest, inode) => {
                let path = shared.place.blob(digest);
                // Held, so that no upload stores intact bytes there meanwhile.
                let pins = shared.pins();
                let there = fs::symlink_metadata(&path);
                if pins.contains_key(&digest) || there.is_ok_and(|there| there.ino() != inode) {
                    continue;
                }
                let done = fs::rename(&path, shared.place.aside(digest));
                drop(pins);
                (path, done)
            }
            Stray::Blob(digest) => {
                let path = shared.place.blob(digest);
                // Held, so that an upload of these bytes finds the file permanently, or not at all.
                let pins = shared.pins();
                if pins.contains_key(&digest) {
                    continue;
                }
                let done = fs::remove_file(&path);
                drop(pins);
                (path, done)
            }
        };
        match done {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "cannot be removed");
            }
            _ => {}
        }
    }
}
