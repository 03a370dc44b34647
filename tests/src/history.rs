//! What happened in a torture, line by line, as one program writes it and another checks it: `torture` → JSON lines → `history`.

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
    /// Its faults are forgiven.
    Done,
    /// They are not.
    Failed,
    /// Chance decides; either way by the rules.
    Either,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Line {
    /// A supervisor is started.
    Round {
        /// Counted from 0.
        round: u64,
        /// `saboteurs`, `workers` or `supervisor`: who gets the faults.
        kind: String,
    },
    /// A job is handed to it.
    Accepted {
        /// Its name, unique in the history.
        job: String,
        /// How it must end.
        expect: Expect,
        /// [`digest`] of the right result.
        golden: String,
    },
    /// Something was done to a worker, or a worker did it to itself.
    Fault {
        /// Whose job.
        job: String,
        /// What it was for.
        role: Role,
        /// Counted from 1 for each role.
        attempt: u32,
        /// What.
        fault: String,
        /// [`now_us`], before it was done.
        at_us: u64,
    },
    /// A line of the supervisor's about a job: `started`, `working`, `killing`, `ended`, `retry`.
    Told {
        /// Whose.
        job: String,
        /// The line.
        event: Value,
    },
    /// The supervisor's last word about a job.
    Terminal {
        /// Whose.
        job: String,
        /// `done` or `error`.
        event: Value,
    },
    /// What lies where the result should be, after the supervisor's end.
    Output {
        /// Whose.
        job: String,
        /// [`digest`] of the file; none where there is none.
        digest: Option<String>,
        /// Temporary files beside it.
        temporary: Vec<String>,
    },
    /// The supervisor's end.
    Ended {
        /// Its exit code.
        exit: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// It was killed by the torture itself.
        killed: bool,
        /// Workers that were still there.
        workers_left: u64,
        /// From its end until the last worker was gone, in microseconds.
        workers_gone_us: u64,
        /// What it held before the first and after the last job, by its own word.
        holds: Vec<Value>,
    },
}

/// The machine's clock of uptime, which every process shares, in microseconds.
///
/// # Panics
/// Without such a clock.
#[must_use]
pub fn now_us() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    u64::try_from(time.num_microseconds()).expect("after the start of the machine")
}

/// Tells files apart; not made for attackers.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("{:016x}-{}", hasher.finish(), bytes.len())
}

/// [`digest`] of a file; none where there is none.
///
/// # Errors
/// The file is there and cannot be read.
pub fn digest_of(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(digest(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
