//! What the store knows of a job: its request, its record and its end. Times are milliseconds since 1970.

use std::collections::BTreeMap;

use serde::Serialize;

use super::digest::Digest;
use super::id::JobId;

proto::worded! {
    /// The state of a job, as far as it must survive a power cut.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
    pub enum State {
        /// Waits for its turn.
        Queued = "queued",
        /// Workers are running.
        Running = "running",
        /// Its artifacts are available.
        Succeeded = "succeeded",
        /// It ended with an error.
        Failed = "failed",
        /// Its client ended it.
        Cancelled = "cancelled",
    }
}

impl State {
    /// Whether the state is final.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// A request for a job.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// The requester's user id, as text.
    pub client: String,
    /// The idempotency key, unique per client.
    pub key: String,
    /// Digest of the canonical spec. It tells a repeated request from another one under the same key.
    pub spec_digest: Digest,
    /// The spec as accepted: JSON.
    pub spec: String,
    /// The blobs it needs, by their names in its input folder; empty where the spec names paths.
    pub inputs: BTreeMap<String, Digest>,
    /// Bytes of inputs that are not blobs.
    pub path_bytes: u64,
}

/// The answer to an accepted request. Everything it states is on disk.
#[derive(Clone, Debug, PartialEq)]
pub enum Accepted {
    /// It is queued.
    New {
        /// The job.
        job: Box<Job>,
        /// Queued jobs before it.
        position: u64,
    },
    /// The same client made the same request before; this is its job.
    Replayed(Box<Job>),
    /// The same client made another request under this key.
    KeyReused,
}

/// A stored job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its id; ids sort by the time of acceptance.
    pub id: JobId,
    /// See [`NewJob::client`].
    pub client: String,
    /// See [`NewJob::key`].
    pub key: String,
    /// See [`NewJob::spec_digest`].
    pub spec_digest: Digest,
    /// See [`NewJob::spec`].
    pub spec: String,
    /// Bytes of all its inputs, wherever they lie.
    pub input_bytes: u64,
    /// Its state.
    pub state: State,
    /// How many times it was started.
    pub starts: u32,
    /// When it was accepted.
    pub created_ms: i64,
    /// When it was last started.
    pub started_ms: Option<i64>,
    /// When it ended.
    pub finished_ms: Option<i64>,
    /// When it may be removed; set at its end. A result that nobody fetched is kept twice as long.
    pub expires_ms: Option<i64>,
    /// Its model was fetched, or there is none.
    pub fetched: bool,
    /// The error: JSON.
    pub error: Option<String>,
    /// The report: JSON.
    pub report: Option<String>,
    /// Its results, in the order given.
    pub artifacts: Vec<Artifact>,
}

/// A file in the job's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// Its name in the job's folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Digest of its bytes.
    #[serde(rename = "sha256")]
    pub digest: Digest,
    /// `model/gltf-binary`, …
    pub media_type: String,
}

/// The end of a job.
#[derive(Clone, Debug)]
pub struct End {
    /// The terminal state to enter.
    pub outcome: Outcome,
    /// The error: JSON.
    pub error: Option<String>,
    /// The report: JSON.
    pub report: Option<String>,
    /// Files in the job's folder, complete and synced.
    pub artifacts: Vec<Artifact>,
}

/// How a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Only a running job can succeed.
    Succeeded,
    /// A queued or running job can fail.
    Failed,
    /// A queued or running job can be cancelled.
    Cancelled,
}

impl Outcome {
    /// The corresponding state.
    pub fn state(self) -> State {
        match self {
            Self::Succeeded => State::Succeeded,
            Self::Failed => State::Failed,
            Self::Cancelled => State::Cancelled,
        }
    }
}

/// A queued job, as far as scheduling needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The job.
    pub id: JobId,
    /// See [`NewJob::client`].
    pub client: String,
    /// How many times it was started.
    pub starts: u32,
}

/// One page of jobs, newest first. Only ids: all specs and reports at once would take too much memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// At most as many ids as requested.
    pub jobs: Vec<JobId>,
    /// Where the next page begins; `None` after the last page.
    pub next: Option<JobId>,
}

/// The queued jobs in total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Number of jobs.
    pub jobs: u64,
    /// Bytes of their inputs.
    pub bytes: u64,
}
