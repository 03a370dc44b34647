//! Keeps the sidecar's accepted jobs, their uploads and their results on disk, across kill -9 and power cuts.
//!
//! ```text
//!  STORE/            0700, no other access
//!    lock            flock: one process at a time
//!    store.sqlite    the database: WAL, synchronous=FULL
//!    spool/          unfinished uploads and damaged blobs; emptied at open
//!    blobs/ab/ab…    uploads by their SHA-256, read-only
//!    jobs/ID/        results of a job; until it ends also input/NAME, hard links to its blobs
//! ```
//!
//! Invariants:
//!
//! - A request is answered only after its commit is synced.
//! - A file is synced and named before a row refers to it. It is removed only after no row refers to it. So rows are
//!   right after any end of the process, and the next open removes surplus files.
//! - A job reaches exactly one terminal state.
//!
//! One thread owns the database ([`writer`]) and commits all waiting writes as one transaction. A request whose future
//! is dropped may still be carried out. A caller that must know the outcome awaits it in a task of its own. Nothing
//! here knows HTTP.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

pub use self::clock::Clock;
pub use self::digest::{BadDigest, Digest};
pub use self::error::{Bound, Fault, StoreError};
pub use self::id::{BadId, JobId};
pub use self::job::{Accepted, Artifact, End, Job, NewJob, Outcome, Page, Queue, State, Waiting};
pub use self::limits::{Limits, SPEC_BYTES, Space};
pub use self::scrub::Round;
pub use self::upload::{Blob, Upload};

use self::place::Place;
use self::upload::blocking;
use self::writer::{Desk, Shared, Writer};

mod blobs;
mod clock;
mod digest;
mod error;
mod expire;
mod hex;
mod id;
mod job;
mod jobs;
mod limits;
mod marks;
mod names;
mod place;
mod recover;
mod rows;

mod schema;
mod scrub;
mod upload;
mod writer;

/// What opening the store found and repaired.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Queued jobs, in the order of acceptance.
    pub queued: Vec<Waiting>,
    /// How many of them were running when the process ended.
    pub restarted: u64,
    /// Jobs in any state.
    pub stored: u64,
    /// Unfinished uploads that were removed.
    pub uploads: u64,
    /// Removed job folders that belonged to no job, or to one that starts afresh.
    pub folders: u64,
    /// Removed blobs that had no row.
    pub stray_blobs: u64,
    /// Removed rows whose blob was missing or truncated.
    pub lost_blobs: u64,
}

/// What [`Store::expire`] removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Jobs, together with their results.
    pub jobs: Vec<JobId>,
    /// Number of uploads.
    pub blobs: u64,
    /// Bytes of results and uploads.
    pub bytes: u64,
}

/// A handle to an open store; see the head of this file.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
    writer: Writer,
}

impl Store {
    /// Opens the store in `folder`, creates it if needed, and repairs what a sudden end left.
    ///
    /// # Errors
    /// Another process has the store open; it is damaged or newer; the folder is accessible to others or holds foreign
    /// files; the disk fails.
    pub fn open(
        folder: &Path,
        limits: Limits,
        clock: Clock,
    ) -> Result<(Self, Recovered), StoreError> {
        let (place, lock) = Place::take(folder)?;
        let (db, (recovered, ids, time)) = schema::open(&place, |db| {
            recover::recover(db, &place, clock, limits.keep_ms)
        })?;
        let marks = place.marks()?;
        let shared = Arc::new(Shared::new(place, marks, limits, time));
        let writer = Writer::start(db, lock, Arc::clone(&shared), ids)?;
        Ok((Self { shared, writer }, recovered))
    }

    /// The store's folder.
    pub fn folder(&self) -> &Path {
        self.shared.place.root()
    }

    /// Whether the last write succeeded.
    pub fn healthy(&self) -> bool {
        self.shared.healthy.load(Ordering::Relaxed)
    }

    /// Writes and syncs a dummy row, which shows whether a store that failed has recovered.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn probe(&self) -> Result<(), StoreError> {
        let work = |desk: &mut Desk<'_>| {
            let text = "INSERT OR REPLACE INTO probe (place, at_ms) VALUES (0, ?1)";
            let done = desk.db.execute(text, [desk.shared.time.now().ms]);
            done.map(|_rows| ()).map_err(|error| schema::failed(&error))
        };
        self.writer.write(work).await?;
        let probed = self.shared.probed.lock();
        *probed.unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(())
    }

    /// Time since the last successful [`Store::probe`].
    pub fn unproved(&self) -> Option<Duration> {
        let probed = self.shared.probed.lock();
        let probed = *probed.unwrap_or_else(PoisonError::into_inner);
        probed.map(|at| at.elapsed())
    }

    /// Checks, cheaply and without a write, that the store's folder and files are still in place and look writable.
    ///
    /// # Errors
    /// [`StoreError::Lost`].
    pub fn check(&self) -> Result<(), StoreError> {
        self.shared.marks.check()
    }

    /// Size and free space of the store's file system.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn space(&self) -> Result<Space, StoreError> {
        Space::of(self.folder())
    }

    /// Carries out waiting requests, then closes the database and releases the lock. Other handles find the store
    /// closed.
    ///
    /// # Errors
    /// The store is already closed.
    pub async fn close(self) -> Result<(), StoreError> {
        self.writer.close().await
    }

    /// Queues a job, unless its client asked for it before. Once this returns, the job survives a power cut.
    ///
    /// # Errors
    /// A limit of the queue is reached, space is short, a blob is missing, or a name is bad; the disk fails.
    pub async fn accept(&self, job: NewJob) -> Result<Accepted, StoreError> {
        names::check(&job.inputs)?;
        let limit = self.shared.limits.spec_bytes;
        if job.spec.len() > limit {
            return Err(StoreError::SpecTooLarge { limit });
        }
        let needed: Vec<Digest> = job.inputs.values().copied().collect();
        let shared = Arc::clone(&self.shared);
        let sizes = blocking(move || Ok(blobs::sizes(&shared.place, needed.into_iter()))).await?;
        let work =
            move |desk: &mut Desk<'_>| jobs::accept(desk, &job, &sizes, desk.shared.time.now());
        Ok(match self.writer.write(work).await? {
            Accepted::Replayed(job) => Accepted::Replayed(Box::new(self.shown(*job))),
            other => other,
        })
    }

    /// Whether [`Store::accept`] would take a job of this client under this key, as far as can be told without its
    /// inputs.
    ///
    /// # Errors
    /// A limit of the queue is reached; the disk fails.
    pub async fn admits(&self, client: &str, key: &str) -> Result<(), StoreError> {
        let (client, key) = (client.to_owned(), key.to_owned());
        let work = move |db: &Connection, shared: &Shared| {
            Ok(jobs::admits(db, &shared.limits, &client, &key))
        };
        self.writer.read(work).await?
    }

    /// Marks a queued job as running and counts the start.
    ///
    /// # Errors
    /// The job does not exist or is not queued; the disk fails.
    pub async fn begin(&self, id: JobId) -> Result<Job, StoreError> {
        let work = move |desk: &mut Desk<'_>| jobs::begin(desk, id, desk.shared.time.now());
        self.writer.write(work).await
    }

    /// Puts a running job back into the queue, ahead of all that were accepted after it.
    ///
    /// # Errors
    /// The job does not exist or is not running; the disk fails.
    pub async fn requeue(&self, id: JobId) -> Result<(), StoreError> {
        let work = move |desk: &mut Desk<'_>| jobs::requeue(desk, id);
        self.writer.write(work).await
    }

    /// Ends a job, once and for all. Its artifacts must already be in its folder, synced.
    ///
    /// # Errors
    /// The job does not exist, has ended already, or is to succeed without running; an artifact is missing; the disk
    /// fails. Nothing changes then.
    pub async fn finish(&self, id: JobId, end: End) -> Result<Job, StoreError> {
        let work = move |desk: &mut Desk<'_>| {
            let now = desk.shared.time.now();
            jobs::finish(desk, id, &end, now)
        };
        Ok(self.shown(self.writer.write(work).await?))
    }

    /// Reads a job.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Gone`]; the disk fails.
    pub async fn get(&self, id: JobId) -> Result<Job, StoreError> {
        let job = self.writer.read(move |db, _| jobs::get(db, id)).await?;
        Ok(self.shown(job))
    }

    /// Lists jobs in one state, or in any, newest first, starting below `before`. That job need not exist any more.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn list(
        &self,
        state: Option<State>,
        before: Option<JobId>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.list_of(None, state, before, limit).await
    }

    /// As [`Store::list`], for one client's jobs.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn list_of(
        &self,
        client: Option<String>,
        state: Option<State>,
        before: Option<JobId>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let work = move |db: &Connection, _: &Shared| {
            jobs::list(db, client.as_deref(), state, before, limit)
        };
        self.writer.read(work).await
    }

    /// The number and input size of all queued jobs.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn queue(&self) -> Result<Queue, StoreError> {
        self.writer.read(|db, _| jobs::queue(db)).await
    }

    /// The number of queued jobs before this one; `None` if it is not queued.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn position(&self, id: JobId) -> Result<Option<u64>, StoreError> {
        self.writer.read(move |db, _| jobs::position(db, id)).await
    }

    /// Records that a job's model was fetched: from now on the job gets no extra time.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn fetched(&self, id: JobId) -> Result<(), StoreError> {
        let work = move |desk: &mut Desk<'_>| jobs::fetched(desk, id);
        self.writer.write(work).await
    }

    /// Converts the job's end to wall-clock time.
    fn shown(&self, job: Job) -> Job {
        let expires_ms = job.expires_ms.map(|ms| self.shared.time.shown(ms));
        Job { expires_ms, ..job }
    }

    /// Removes a job that is not running, with its results, and returns its last state. Its id is reported as gone from
    /// then on, and its idempotency key is free.
    ///
    /// # Errors
    /// The job does not exist or is running; the disk fails.
    pub async fn forget(&self, id: JobId) -> Result<State, StoreError> {
        let work = move |desk: &mut Desk<'_>| {
            let now = desk.shared.time.now();
            jobs::forget(desk, id, now)
        };
        self.writer.write(work).await
    }

    /// The folder for a job's results. It is created if needed, and synced.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn job_folder(&self, id: JobId) -> Result<PathBuf, StoreError> {
        let shared = Arc::clone(&self.shared);
        blocking(move || shared.place.make_job(id)).await
    }

    /// The path of an artifact.
    pub fn artifact_path(&self, id: JobId, artifact: &Artifact) -> PathBuf {
        self.shared.place.job(id).join(&artifact.name)
    }

    /// Rebuilds a job's input folder, with its blobs under their names, and returns its path. The folder is removed
    /// when the job ends. Files are hard links, or copies where the file system allows no more links.
    ///
    /// # Errors
    /// The job does not exist; a blob is missing or truncated; the disk fails.
    pub async fn materialise(&self, id: JobId) -> Result<PathBuf, StoreError> {
        let inputs = self.writer.read(move |db, _| jobs::inputs(db, id)).await?;
        let shared = Arc::clone(&self.shared);
        blocking(move || blobs::materialise(&shared.place, id, &inputs)).await
    }

    /// The size of a blob, if it is stored. Asking renews its retention, as a new upload would.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn blob(&self, digest: Digest) -> Result<Option<u64>, StoreError> {
        let found = self
            .writer
            .read(move |db, _| blobs::find(db, digest))
            .await?;
        let Some(kept) = found else { return Ok(None) };
        // A row is not enough: without the file, the client must send the bytes again.
        let shared = Arc::clone(&self.shared);
        let sizes =
            blocking(move || Ok(blobs::sizes(&shared.place, std::iter::once(digest)))).await?;
        if sizes.get(&digest) != Some(&kept.bytes) {
            tracing::error!(%digest, "the file of an upload is gone or cut short: it must be sent again");
            return Ok(None);
        }
        // Most of the retention time is still left, so no write is needed.
        let now = self.shared.time.now();
        if kept.used_ms < now.ms.saturating_sub(self.shared.limits.keep_unused_ms / 4) {
            let work = move |desk: &mut Desk<'_>| match blobs::find(desk.db, digest)? {
                Some(kept) => blobs::keep(desk, digest, kept.bytes, now).map(|()| Some(kept.bytes)),
                None => Ok(None),
            };
            return self.writer.write(work).await;
        }
        Ok(Some(kept.bytes))
    }

    /// The path at which a blob is stored, if it is.
    pub fn blob_path(&self, digest: Digest) -> PathBuf {
        self.shared.place.blob(digest)
    }

    /// Begins an upload. `announced` is its size in bytes, if known.
    ///
    /// # Errors
    /// The upload exceeds its limit; space is short; the disk fails.
    pub async fn upload(&self, announced: Option<u64>) -> Result<Upload, StoreError> {
        Upload::begin(self.writer.clone(), Arc::clone(&self.shared), announced).await
    }

    /// Removes finished jobs and unused uploads past their time. While more than the limit is kept, also removes the
    /// jobs that finished first, with the uploads that only they used, and finally unused uploads.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn expire(&self) -> Result<Expired, StoreError> {
        let mut all = Expired::default();
        loop {
            let work = |desk: &mut Desk<'_>| {
                let now = desk.shared.time.now();
                expire::some(desk, now)
            };
            let some = self.writer.write(work).await?;
            if some.jobs.is_empty() && some.blobs == 0 {
                return Ok(all);
            }
            all.jobs.extend(some.jobs);
            all.blobs += some.blobs;
            all.bytes += some.bytes;
        }
    }
}

#[cfg(test)]
mod tests;
