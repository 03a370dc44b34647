//! Requests → commits: one thread owns the database, and whatever waits when it is free becomes one transaction, so that
//! many requests share one fsync. None is answered before it.
//!
//! ```text
//!  take all that waits → reads: answered at once, from what is committed
//!                      → writes: BEGIN → each in a savepoint of its own → COMMIT (fsync) → files that no row tells of are
//!                        removed → answers → checkpoint, if the WAL has grown
//! ```
//!
//! A write that is refused changes nothing and costs the others nothing. If the disk fails, the transaction is undone and
//! each of its writes fails; the next one is tried as if nothing had been. After a failed fsync `SQLite` writes the frames of
//! the WAL anew before it syncs again.

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

/// Requests that wait, before who asks has to.
const WAITING: usize = 1024;
/// Writes of one transaction, so that the first need not wait for too many.
const BATCH: usize = 256;
/// Writes between checkpoints: some 16 MiB of WAL, which a later open reads within tens of milliseconds.
const CHECKPOINT: usize = 512;

/// What the thread and the handles share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) place: Place,
    pub(super) marks: Marks,
    pub(super) limits: Limits,
    pub(super) time: Time,
    /// The last write came through.
    pub(super) healthy: AtomicBool,
    /// When the last probe came through.
    pub(super) probed: Mutex<Option<Instant>>,
    /// Blobs whose files must stay, row or not: uploads of these bytes are about to get a row.
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

/// Keeps the file of a blob from being removed.
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
    /// Files that no row tells of once this is committed.
    pub(super) strays: &'a mut Vec<Stray>,
}

/// Files that no row tells of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stray {
    /// The folder of a job.
    Job(JobId),
    /// The inputs of a job that is over.
    Inputs(JobId),
    /// The file of a blob.
    Blob(Digest),
    /// The file of a blob with other bytes than its name says, if it is this inode.
    Damaged(Digest, u64),
}

/// A write on its way: work → outcome → answer.
trait Write: Send {
    /// Carries it out; what a refused one did must be undone.
    fn carry_out(&mut self, desk: &mut Desk<'_>) -> Result<(), StoreError>;
    /// Tells who asked; a failure stands in for the outcome.
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

/// The way to the thread.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    requests: mpsc::Sender<Request>,
    shared: Arc<Shared>,
}

impl Writer {
    /// Starts the thread. It ends, and lets go of the lock, when it is told to or the last handle is gone.
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

    /// Carries out a write; answers once it is synced.
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

    /// Reads what is committed.
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

    /// Ends the thread after what waits; the lock is free then.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Close(reply)).await?;
        answer.await.map_err(|_gone| self.ended())
    }

    async fn send(&self, request: Request) -> Result<(), StoreError> {
        let sent = self.requests.send(request).await;
        sent.map_err(|_gone| self.ended())
    }

    /// The thread has ended, and whoever learns so finds the store unwell: also if a bug ended it, and it has yet to say so.
    fn ended(&self) -> StoreError {
        self.shared.healthy.store(false, Ordering::Relaxed);
        StoreError::Closed
    }
}

/// The thread.
struct Keeper {
    db: Connection,
    shared: Arc<Shared>,
    ids: Ids,
    /// Since the last checkpoint.
    writes: usize,
}

/// However the thread ends, a store without it is not well.
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
        // All that is true of a closed store is true before the answer.
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

    /// Whether no write met a failing disk, if the others could be carried out nevertheless.
    fn commit(
        &mut self,
        writes: &mut [Box<dyn Write>],
        strays: &mut Vec<Stray>,
    ) -> Result<bool, StoreError> {
        let sql = |error: rusqlite::Error| failed(&error);
        let mut well = true;
        // Undone when it is dropped without a commit.
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
                // SQLite has undone the whole transaction, as it does where the disk is at fault.
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
        // What was answered is in the WAL, and stays there.
        if let Err(error) = done {
            tracing::error!(%error, "the store cannot carry over its WAL");
            self.shared.healthy.store(false, Ordering::Relaxed);
        }
    }
}

/// Removes files that no row tells of. What cannot be removed now is removed at the next open.
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
                // Held, so that no upload puts whole bytes there meanwhile.
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
                // Held, so that an upload of these bytes finds the file there for good, or not at all.
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
