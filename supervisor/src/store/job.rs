//! What the store knows of a job: as it is asked for, as it is kept, and how it ends. Times are milliseconds since 1970.

use std::collections::BTreeMap;

use serde::Serialize;

use super::digest::Digest;
use super::id::JobId;

/// Where a job stands, as far as it must survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for its turn.
    Queued,
    /// Workers are at it.
    Running,
    /// Its artifacts are there.
    Succeeded,
    /// It ended with an error.
    Failed,
    /// It was ended by its client.
    Cancelled,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Queued,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// As in the database and in the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// It does not change any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// A job to be accepted.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Who asks: the number of the user id, as text.
    pub client: String,
    /// The client's own name for this request, unique among that client's.
    pub key: String,
    /// Of the canonical spec: tells a repetition from another request under the same key.
    pub spec_digest: Digest,
    /// The spec as accepted: JSON.
    pub spec: String,
    /// Blobs that it needs, by their names in its input folder; none where it names paths.
    pub inputs: BTreeMap<String, Digest>,
    /// Bytes of its inputs that are no blobs.
    pub path_bytes: u64,
}

/// The answer to a job that was not refused. Whatever it says is on the disk.
#[derive(Clone, Debug, PartialEq)]
pub enum Accepted {
    /// It is queued.
    New {
        /// The job.
        job: Box<Job>,
        /// Queued jobs before it.
        position: u64,
    },
    /// The same client has asked for the same before: this is what became of it.
    Replayed(Box<Job>),
    /// The same client has asked for something else under this key.
    KeyReused,
}

/// A job as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name; sorts by the time of acceptance.
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
    /// Where it stands.
    pub state: State,
    /// How often it was begun.
    pub starts: u32,
    /// When it was accepted.
    pub created_ms: i64,
    /// When it was begun last.
    pub started_ms: Option<i64>,
    /// When it reached its end.
    pub finished_ms: Option<i64>,
    /// When it may be forgotten; known at its end. What nobody has fetched is kept as long again.
    pub expires_ms: Option<i64>,
    /// Somebody has fetched its model, or there is none.
    pub fetched: bool,
    /// The error: JSON.
    pub error: Option<String>,
    /// The report: JSON.
    pub report: Option<String>,
    /// Its results, in the order in which they were given.
    pub artifacts: Vec<Artifact>,
}

/// A file in the job's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// Its name in the job's folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Of its bytes.
    #[serde(rename = "sha256")]
    pub digest: Digest,
    /// `model/gltf-binary`, …
    pub media_type: String,
}

/// The one end of a job.
#[derive(Clone, Debug)]
pub struct End {
    /// One of the three terminal ones.
    pub outcome: Outcome,
    /// The error: JSON.
    pub error: Option<String>,
    /// The report: JSON.
    pub report: Option<String>,
    /// Files that lie in the job's folder, whole and synced.
    pub artifacts: Vec<Artifact>,
}

/// How a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Only a running job can.
    Succeeded,
    /// Queued or running.
    Failed,
    /// Queued or running.
    Cancelled,
}

impl Outcome {
    /// The state that it leads to.
    #[must_use]
    pub fn state(self) -> State {
        match self {
            Self::Succeeded => State::Succeeded,
            Self::Failed => State::Failed,
            Self::Cancelled => State::Cancelled,
        }
    }
}

/// A job that waits, as far as that is needed to begin it in its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The job.
    pub id: JobId,
    /// See [`NewJob::client`].
    pub client: String,
    /// How often it was begun.
    pub starts: u32,
}

/// Some of the jobs, the newest first. They are read one by one: all at once would take as much memory as their specs and
/// reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// At most as many as were asked for.
    pub jobs: Vec<JobId>,
    /// Where the next page begins; none after the last.
    pub next: Option<JobId>,
}

/// Jobs that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// How many.
    pub jobs: u64,
    /// Bytes of their inputs.
    pub bytes: u64,
}
