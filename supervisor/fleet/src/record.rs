//! The JSON of a job's objects in the store, and of a host's heartbeat.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `spec.json`: what to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The job's id: 32 hexadecimal digits that sort by time.
    pub id: String,
    /// When it was submitted, in milliseconds since 1970.
    pub created_ms: u64,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// Size in bytes of each input, by its SHA-256.
    pub blobs: BTreeMap<String, u64>,
    /// The options, as the sidecar takes them.
    pub spec: Value,
}

/// `attempts/K.json`: a host that took the job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// K, from 1.
    pub number: u32,
    /// The host's name.
    pub host: String,
    /// When it took the job, in milliseconds since 1970.
    pub begun_ms: u64,
    /// How often it was back, and took the job up again.
    #[serde(default)]
    pub resumed: u32,
    /// When it gave the job up; `None` while it is at work, and for ever if it died.
    #[serde(default)]
    pub ended_ms: Option<u64>,
    /// Whether it counts against the job: not if the host was full, or left.
    pub counts: bool,
    /// The exit code of the job there.
    #[serde(default)]
    pub exit_code: Option<u8>,
    /// The error as the sidecar tells it.
    #[serde(default)]
    pub error: Option<Value>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Its files are in the store.
    Succeeded,
    /// There are none.
    Failed,
    /// Nobody wanted it any more.
    Cancelled,
}

/// `result.json`: how the job ended, for good.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// How.
    pub state: End,
    /// When, in milliseconds since 1970.
    pub finished_ms: u64,
    /// The attempt whose files count.
    #[serde(default)]
    pub attempt: Option<u32>,
    /// Its host.
    #[serde(default)]
    pub host: Option<String>,
    /// The job as its sidecar showed it at the end.
    pub job: Value,
    /// All hosts that took it.
    pub attempts: Vec<Attempt>,
}

/// A job that a host works on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AtWork {
    /// The job's id.
    pub id: String,
    /// Whose it is.
    pub tenant: String,
    /// When it was taken, in milliseconds since 1970.
    pub since_ms: u64,
}

/// `hosts/HOST.json`: a worker's heartbeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Beat {
    /// The host's name.
    pub host: String,
    /// When this was written, in milliseconds since 1970.
    pub at_ms: u64,
    /// When the worker started.
    pub since_ms: u64,
    /// The build.
    pub version: String,
    /// Jobs that it takes at once.
    pub slots: usize,
    /// Jobs at work that advance.
    pub running: Vec<AtWork>,
    /// Why it takes no jobs; `None` if it does.
    #[serde(default)]
    pub resting: Option<String>,
    /// The adapters of its sidecar.
    #[serde(default)]
    pub adapters: Vec<String>,
    /// Jobs that succeeded here since it started.
    pub succeeded: u64,
    /// Attempts that failed here since it started.
    pub failed: u64,
}

impl Beat {
    /// Longest age of the heartbeat of a host that lives, in milliseconds.
    pub const FRESH_MS: u64 = 90_000;

    /// Whether the host lives, and the job advances there.
    #[must_use]
    pub fn works_on(&self, id: &str, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.at_ms) < Self::FRESH_MS
            && self.running.iter().any(|job| job.id == id)
    }
}
