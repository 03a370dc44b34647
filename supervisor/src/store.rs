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

pub use self::digest::{BadDigest, Digest};
pub use self::error::{Bound, Fault, StoreError};
pub use self::id::{BadId, JobId};
pub use self::job::{Accepted, Artifact, End, Job, NewJob, Outcome, Page, Queue, State};
pub use self::limits::{Limits, Space};
pub use self::upload::{Blob, Upload};

mod digest;
mod error;
mod hex;
mod id;
mod job;
mod limits;
mod upload;

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
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
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
        let _ = (folder, limits, now_ms);
        Err(StoreError::Closed)
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.inner.folder
    }

    /// The last write came through.
    #[must_use]
    pub fn healthy(&self) -> bool {
        false
    }

    /// Writes and syncs something of no meaning, so that a store that failed can be seen to be well again.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn probe(&self) -> Result<(), StoreError> {
        Err(StoreError::Closed)
    }

    /// Room of its file system.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn space(&self) -> Result<Space, StoreError> {
        Space::of(&self.inner.folder)
    }

    /// Carries out what waits, and closes the database and the lock. Other handles find the store closed.
    ///
    /// # Errors
    /// It was closed before.
    pub async fn close(self) -> Result<(), StoreError> {
        Err(StoreError::Closed)
    }

    /// Queues a job, unless its client has asked for it before. Once this answers, the job outlives a power cut.
    ///
    /// # Errors
    /// A bound of the queue, too little room, blobs that are not there, a bad name; the disk fails.
    pub async fn accept(&self, job: NewJob) -> Result<Accepted, StoreError> {
        let _ = job;
        Err(StoreError::Closed)
    }

    /// A queued job runs from now on; its starts count one more.
    ///
    /// # Errors
    /// There is no such job, or it is not queued; the disk fails.
    pub async fn begin(&self, id: JobId) -> Result<Job, StoreError> {
        let _ = id;
        Err(StoreError::Closed)
    }

    /// A running job waits again, before all that were accepted after it.
    ///
    /// # Errors
    /// There is no such job, or it does not run; the disk fails.
    pub async fn requeue(&self, id: JobId) -> Result<(), StoreError> {
        let _ = id;
        Err(StoreError::Closed)
    }

    /// A job reaches its end: its only one. Its artifacts lie in its folder already, synced.
    ///
    /// # Errors
    /// There is no such job; it has an end already, or is to succeed and does not run; an artifact is not there; the disk
    /// fails. Nothing is changed then.
    pub async fn finish(&self, id: JobId, end: End) -> Result<Job, StoreError> {
        let _ = (id, end);
        Err(StoreError::Closed)
    }

    /// A job.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Gone`]; the disk fails.
    pub async fn get(&self, id: JobId) -> Result<Job, StoreError> {
        let _ = id;
        Err(StoreError::Closed)
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
        let _ = (state, before, limit);
        Err(StoreError::Closed)
    }

    /// What waits.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn queue(&self) -> Result<Queue, StoreError> {
        Err(StoreError::Closed)
    }

    /// Queued jobs before this one; none if it does not wait.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn position(&self, id: JobId) -> Result<Option<u64>, StoreError> {
        let _ = id;
        Err(StoreError::Closed)
    }

    /// Removes a job that does not run, with its results; gives the state that it had. Its id is known as gone from then on,
    /// and its idempotency key is free.
    ///
    /// # Errors
    /// There is no such job, or it runs; the disk fails.
    pub async fn forget(&self, id: JobId) -> Result<State, StoreError> {
        let _ = id;
        Err(StoreError::Closed)
    }

    /// The folder of a job, for its results. It is made if need be, and outlives a power cut.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn job_folder(&self, id: JobId) -> Result<PathBuf, StoreError> {
        let _ = id;
        Err(StoreError::Closed)
    }

    /// Where an artifact of a job lies.
    #[must_use]
    pub fn artifact_path(&self, id: JobId, artifact: &Artifact) -> PathBuf {
        let _ = (id, artifact);
        PathBuf::new()
    }

    /// Makes the input folder of a job anew, with its blobs as hard links under their names, and gives its path.
    ///
    /// # Errors
    /// There is no such job; a blob is not there any more; the disk fails.
    pub async fn materialise(&self, id: JobId) -> Result<PathBuf, StoreError> {
        let _ = id;
        Err(StoreError::Closed)
    }

    /// The size of a blob, if it is there. It is kept for a while from now on, as if it had been uploaded again.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn blob(&self, digest: Digest) -> Result<Option<u64>, StoreError> {
        let _ = digest;
        Err(StoreError::Closed)
    }

    /// Where a blob lies, if it is there.
    #[must_use]
    pub fn blob_path(&self, digest: Digest) -> PathBuf {
        let _ = digest;
        PathBuf::new()
    }

    /// Begins an upload; `announced` is its size, where that is known.
    ///
    /// # Errors
    /// It is larger than an upload may be; too little room; the disk fails.
    pub async fn upload(&self, announced: Option<u64>) -> Result<Upload, StoreError> {
        let _ = announced;
        Err(StoreError::Closed)
    }

    /// Removes finished jobs that are past their time and uploads that nobody has used for long; then, as long as more is
    /// kept than may be, the jobs that finished first with what only they used, and at last unused uploads.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn expire(&self, now_ms: i64) -> Result<Expired, StoreError> {
        let _ = now_ms;
        Err(StoreError::Closed)
    }
}
