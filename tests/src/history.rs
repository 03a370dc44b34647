//! The history of a torture as JSON lines: `torture` writes it, `history` checks it.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::Hasher;
use std::io;
use std::path::Path;

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use proto::message::Role;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a job must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// Its faults are forgiven, so it succeeds.
    Done,
    /// Its faults are not forgiven, so it fails.
    Failed,
    /// Chance decides; both are within the rules.
    Either,
}

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum Line {
    /// A supervisor was started.
    Round {
        round: u64,
        /// `saboteurs`, `workers` or `supervisor`: which processes get the faults.
        kind: String,
    },
    /// A job was handed to it.
    Accepted {
        /// Its name, unique in the history.
        job: String,
        expect: Expect,
        /// [`digest`] of the correct result.
        golden: String,
    },
    /// Something was done to a worker, or a worker did it to itself.
    Fault {
        job: String,
        role: Role,
        /// Counted from 1 for each role.
        attempt: u32,
        fault: String,
        /// [`now_us`], before it was done.
        at_us: u64,
    },
    /// The supervisor printed a line about a job: `started`, `working`, `killing`, `ended` or `retry`.
    Told { job: String, event: Value },
    /// The supervisor's last line about a job.
    Terminal { job: String, event: Value },
    /// What lies at the result's place after the supervisor has ended.
    Output {
        job: String,
        /// [`digest`] of the file; `None` without a file.
        digest: Option<String>,
        temporary: Vec<String>,
    },
    /// The supervisor ended.
    Ended {
        exit: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// Whether the torture itself killed it.
        killed: bool,
        /// Number of workers that were still running.
        workers_left: u64,
        /// Time from its end until the last worker was gone, in microseconds.
        workers_gone_us: u64,
        /// What it reported to hold before the first and after the last job.
        holds: Vec<Value>,
    },
}

/// The machine's monotonic clock, which all processes share, in microseconds.
pub fn now_us() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    u64::try_from(time.num_microseconds()).expect("after the start of the machine")
}

/// A hash that tells files apart; not safe against attackers.
pub fn digest(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("{:016x}-{}", hasher.finish(), bytes.len())
}

/// [`digest`] of a file; `None` without a file.
///
/// # Errors
/// The file exists but cannot be read.
pub fn digest_of(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(digest(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
