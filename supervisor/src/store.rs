//! What the sidecar keeps on disk: accepted jobs, their uploads and their results, across kill -9 and power cuts.
//!
//! ```text
//!  STORE/            0700, no other access
//!    lock            flock: one process at a time
//!    store.sqlite    WAL, synchronous=FULL: what is true
//!    spool/          uploads under way, and damaged ones set aside; emptied at open
//!    blobs/ab/ab…    uploads by their SHA-256, read-only
//!    jobs/ID/        results of a job, and until its end input/NAME: hard links to its blobs
//! ```
//!
//! Invariants: an answer is given after the commit that it tells of is synced; a file is synced and has its name before a
//! row tells of it, and loses its name after no row does; so after any end of the process rows are right, and what files
//! are too many is removed at the next open. A job has one terminal state, for ever. Nothing here knows of HTTP.
//!
//! One thread owns the database ([`writer`]): what waits is one transaction. A request whose future is dropped may have
//! been carried out: whoever must know (of an accepted job, say) awaits it in a task of its own.

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

/// What was found at open, and what was put right.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Jobs that wait, in the order of their acceptance.
    pub queued: Vec<Waiting>,
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
    /// Rows of blobs that are not there, or are cut short, that were removed.
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
    /// Opens the store in `folder`, or makes it there, and puts right what a sudden end left.
    ///
    /// # Errors
    /// Another process has it; it is damaged or newer; the folder is open to others or holds other things; the disk fails.
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
            let done = desk.db.execute(text, [desk.shared.time.now().ms]);
            done.map(|_rows| ()).map_err(|error| schema::failed(&error))
        };
        self.writer.write(work).await?;
        let probed = self.shared.probed.lock();
        *probed.unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(())
    }

    /// For how long no [`Store::probe`] has come through.
    #[must_use]
    pub fn unproved(&self) -> Option<Duration> {
        let probed = self.shared.probed.lock();
        let probed = *probed.unwrap_or_else(PoisonError::into_inner);
        probed.map(|at| at.elapsed())
    }

    /// Whether its folder and its files are still where they were, and can be written as far as the file system tells:
    /// cheap, and without a write.
    ///
    /// # Errors
    /// [`StoreError::Lost`].
    pub fn check(&self) -> Result<(), StoreError> {
        self.shared.marks.check()
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
        let work = move |desk: &mut Desk<'_>| jobs::begin(desk, id, desk.shared.time.now());
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
        let work = move |desk: &mut Desk<'_>| {
            let now = desk.shared.time.now();
            jobs::finish(desk, id, &end, now)
        };
        Ok(self.shown(self.writer.write(work).await?))
    }

    /// A job.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Gone`]; the disk fails.
    pub async fn get(&self, id: JobId) -> Result<Job, StoreError> {
        let job = self.writer.read(move |db, _| jobs::get(db, id)).await?;
        Ok(self.shown(job))
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

    /// The model of a job was handed out: from now on it is kept no longer than others.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn fetched(&self, id: JobId) -> Result<(), StoreError> {
        let work = move |desk: &mut Desk<'_>| jobs::fetched(desk, id);
        self.writer.write(work).await
    }

    /// Its end in the wall clock's time.
    fn shown(&self, job: Job) -> Job {
        let expires_ms = job.expires_ms.map(|ms| self.shared.time.shown(ms));
        Job { expires_ms, ..job }
    }

    /// Removes a job that does not run, with its results; gives the state that it had. Its id is known as gone from then on,
    /// and its idempotency key is free.
    ///
    /// # Errors
    /// There is no such job, or it runs; the disk fails.
    pub async fn forget(&self, id: JobId) -> Result<State, StoreError> {
        let work = move |desk: &mut Desk<'_>| {
            let now = desk.shared.time.now();
            jobs::forget(desk, id, now)
        };
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

    /// Makes the input folder of a job anew, with its blobs under their names, and gives its path. It goes when the job ends.
    /// The files are hard links, and copies where the file system has no more of those.
    ///
    /// # Errors
    /// There is no such job; blobs are not there any more, or are cut short; the disk fails.
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
        let Some(kept) = found else { return Ok(None) };
        // A row is not enough: without its file the bytes must be sent again.
        let shared = Arc::clone(&self.shared);
        let sizes =
            blocking(move || Ok(blobs::sizes(&shared.place, std::iter::once(digest)))).await?;
        if sizes.get(&digest) != Some(&kept.bytes) {
            tracing::error!(%digest, "the file of an upload is gone or cut short: it must be sent again");
            return Ok(None);
        }
        // Most of the time that it would be kept unused is still to come: no write is needed for that.
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
