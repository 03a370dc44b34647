//! What the sidecar keeps on disk: accepted jobs, their uploads and their results, across kill -9 and power cuts.
//!
//! ```text
//!  STORE/            0700, no other access
//!    lock            flock: one process at a time
//!    store.sqlite    WAL, synchronous=FULL: what is true
//!    spool/          uploads under way; emptied at open
//!    blobs/ab/ab…    uploads by their SHA-256, read-only
//!    jobs/ID/        results of a job, and input/NAME: hard links to its blobs
//! ```
//!
//! Invariants: an answer is given after the commit that it tells of is synced; a file is synced and has its name before a
//! row tells of it, and loses its name after no row does; so after any end of the process rows are right, and what files
//! are too many is removed at the next open. A job has one terminal state, for ever. Nothing here knows of HTTP.
//!
//! One thread owns the database ([`writer`]): what waits is one transaction. A request whose future is dropped may have
//! been carried out: whoever must know (of an accepted job, say) awaits it in a task of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::Connection;

pub use self::digest::{BadDigest, Digest};
pub use self::error::{Bound, Fault, StoreError};
pub use self::id::{BadId, JobId};
pub use self::job::{Accepted, Artifact, End, Job, NewJob, Outcome, Page, Queue, State};
pub use self::limits::{Limits, Space};
pub use self::upload::{Blob, Upload};

use self::place::Place;
use self::upload::blocking;
use self::writer::{Desk, Shared, Writer, now_ms};

mod blobs;
mod digest;
mod error;
mod expire;
mod hex;
mod id;
mod job;
mod jobs;
mod limits;
mod names;
mod place;
mod recover;
mod schema;
mod upload;
mod writer;

/// What was found at open, and what was put right.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Jobs that wait, in the order of their acceptance.
    pub queued: Vec<Job>,
    /// How many of them ran when the process ended.
    pub restarted: u64,
    /// Jobs of any state.
    pub stored: u64,
    /// Half uploads that were removed.
    pub uploads: u64,
    /// Job folders of no job, or of one that starts anew, that were removed.
    pub folders: u64,
    /// Blobs without a row that were removed.
    pub stray_blobs: u64,
    /// Rows of blobs that are not there that were removed.
    pub lost_blobs: u64,
}

/// What was removed by [`Store::expire`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Jobs, with their results.
    pub jobs: Vec<JobId>,
    /// How many uploads.
    pub blobs: u64,
    /// Bytes of both.
    pub bytes: u64,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
    writer: Writer,
}

impl Store {
    /// Opens the store in `folder`, or makes it there, and puts right what a sudden end left. `now_ms` is the time.
    ///
    /// # Errors
    /// Another process has it; it is damaged or newer; the folder is open to others or holds other things; the disk fails.
    pub fn open(
        folder: &Path,
        limits: Limits,
        now_ms: i64,
    ) -> Result<(Self, Recovered), StoreError> {
        let (place, lock) = Place::take(folder)?;
        let latest_ms = now_ms.saturating_add(limits.keep_ms);
        let (db, (recovered, ids)) =
            schema::open(&place, |db| recover::recover(db, &place, latest_ms))?;
        let shared = Arc::new(Shared::new(place, limits));
        let writer = Writer::start(db, lock, Arc::clone(&shared), ids)?;
        Ok((Self { shared, writer }, recovered))
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.shared.place.root()
    }

    /// The last write came through.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.shared.healthy.load(Ordering::Relaxed)
    }

    /// Writes and syncs something of no meaning, so that a store that failed can be seen to be well again.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn probe(&self) -> Result<(), StoreError> {
        let work = |desk: &mut Desk<'_>| {
            let text = "INSERT OR REPLACE INTO probe (place, at_ms) VALUES (0, ?1)";
            let done = desk.db.execute(text, [now_ms()]);
            done.map(|_rows| ()).map_err(|error| schema::failed(&error))
        };
        self.writer.write(work).await
    }

    /// Room of its file system.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn space(&self) -> Result<Space, StoreError> {
        Space::of(self.folder())
    }

    /// Carries out what waits, and closes the database and the lock. Other handles find the store closed.
    ///
    /// # Errors
    /// It was closed before.
    pub async fn close(self) -> Result<(), StoreError> {
        self.writer.close().await
    }

    /// Queues a job, unless its client has asked for it before. Once this answers, the job outlives a power cut.
    ///
    /// # Errors
    /// A bound of the queue, too little room, blobs that are not there, a bad name; the disk fails.
    pub async fn accept(&self, job: NewJob) -> Result<Accepted, StoreError> {
        names::check(&job.inputs)?;
        let work = move |desk: &mut Desk<'_>| jobs::accept(desk, &job, now_ms());
        self.writer.write(work).await
    }

    /// Whether [`Store::accept`] would take a job of this client under this key, as far as can be told before its inputs are
    /// there.
    ///
    /// # Errors
    /// A bound of the queue is reached; the disk fails.
    pub async fn admits(&self, client: &str, key: &str) -> Result<(), StoreError> {
        let (client, key) = (client.to_owned(), key.to_owned());
        let work = move |db: &Connection, shared: &Shared| {
            Ok(jobs::admits(db, &shared.limits, &client, &key))
        };
        self.writer.read(work).await?
    }

    /// A queued job runs from now on; its starts count one more.
    ///
    /// # Errors
    /// There is no such job, or it is not queued; the disk fails.
    pub async fn begin(&self, id: JobId) -> Result<Job, StoreError> {
        let work = move |desk: &mut Desk<'_>| jobs::begin(desk, id, now_ms());
        self.writer.write(work).await
    }

    /// A running job waits again, before all that were accepted after it.
    ///
    /// # Errors
    /// There is no such job, or it does not run; the disk fails.
    pub async fn requeue(&self, id: JobId) -> Result<(), StoreError> {
        let work = move |desk: &mut Desk<'_>| jobs::requeue(desk, id);
        self.writer.write(work).await
    }

    /// A job reaches its end: its only one. Its artifacts lie in its folder already, synced.
    ///
    /// # Errors
    /// There is no such job; it has an end already, or is to succeed and does not run; an artifact is not there; the disk
    /// fails. Nothing is changed then.
    pub async fn finish(&self, id: JobId, end: End) -> Result<Job, StoreError> {
        let work = move |desk: &mut Desk<'_>| jobs::finish(desk, id, &end, now_ms());
        self.writer.write(work).await
    }

    /// A job.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Gone`]; the disk fails.
    pub async fn get(&self, id: JobId) -> Result<Job, StoreError> {
        self.writer.read(move |db, _| jobs::get(db, id)).await
    }

    /// Jobs in one state, or in any, the newest first; those older than `before`, which need not exist any more.
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

    /// [`Store::list`] of one client's jobs.
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

    /// What waits.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn queue(&self) -> Result<Queue, StoreError> {
        self.writer.read(|db, _| jobs::queue(db)).await
    }

    /// Queued jobs before this one; none if it does not wait.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn position(&self, id: JobId) -> Result<Option<u64>, StoreError> {
        self.writer.read(move |db, _| jobs::position(db, id)).await
    }

    /// Removes a job that does not run, with its results; gives the state that it had. Its id is known as gone from then on,
    /// and its idempotency key is free.
    ///
    /// # Errors
    /// There is no such job, or it runs; the disk fails.
    pub async fn forget(&self, id: JobId) -> Result<State, StoreError> {
        let work = move |desk: &mut Desk<'_>| jobs::forget(desk, id, now_ms());
        self.writer.write(work).await
    }

    /// The folder of a job, for its results. It is made if need be, and outlives a power cut.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn job_folder(&self, id: JobId) -> Result<PathBuf, StoreError> {
        let shared = Arc::clone(&self.shared);
        blocking(move || shared.place.make_job(id)).await
    }

    /// Where an artifact of a job lies.
    #[must_use]
    pub fn artifact_path(&self, id: JobId, artifact: &Artifact) -> PathBuf {
        self.shared.place.job(id).join(&artifact.name)
    }

    /// Makes the input folder of a job anew, with its blobs as hard links under their names, and gives its path.
    ///
    /// # Errors
    /// There is no such job; a blob is not there any more; the disk fails.
    pub async fn materialise(&self, id: JobId) -> Result<PathBuf, StoreError> {
        let inputs = self.writer.read(move |db, _| jobs::inputs(db, id)).await?;
        let shared = Arc::clone(&self.shared);
        blocking(move || blobs::materialise(&shared.place, id, &inputs)).await
    }

    /// The size of a blob, if it is there. It is kept for a while from now on, as if it had been uploaded again.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn blob(&self, digest: Digest) -> Result<Option<u64>, StoreError> {
        let found = self
            .writer
            .read(move |db, _| blobs::find(db, digest))
            .await?;
        // Most of the time that it would be kept unused is still to come: no write is needed for that.
        let fresh = now_ms().saturating_sub(self.shared.limits.keep_unused_ms / 4);
        match found {
            Some(kept) if kept.used_ms < fresh => {
                let work = move |desk: &mut Desk<'_>| blobs::touch(desk, digest, now_ms());
                self.writer.write(work).await
            }
            found => Ok(found.map(|kept| kept.bytes)),
        }
    }

    /// Where a blob lies, if it is there.
    #[must_use]
    pub fn blob_path(&self, digest: Digest) -> PathBuf {
        self.shared.place.blob(digest)
    }

    /// Begins an upload; `announced` is its size, where that is known.
    ///
    /// # Errors
    /// It is larger than an upload may be; too little room; the disk fails.
    pub async fn upload(&self, announced: Option<u64>) -> Result<Upload, StoreError> {
        Upload::begin(self.writer.clone(), Arc::clone(&self.shared), announced).await
    }

    /// Removes finished jobs that are past their time and uploads that nobody has used for long; then, as long as more is
    /// kept than may be, the jobs that finished first with what only they used, and at last unused uploads.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn expire(&self, now_ms: i64) -> Result<Expired, StoreError> {
        let mut all = Expired::default();
        loop {
            let work = move |desk: &mut Desk<'_>| expire::some(desk, now_ms);
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
