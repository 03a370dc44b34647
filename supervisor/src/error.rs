//! How a job fails: everything that a person, a script or an API client needs, in one value.

use std::path::PathBuf;

use proto::exit;
use proto::limits::MAX_TEXT_BYTES;
use proto::message::{AdapterInfo, Code, Phase, Role};
use serde::{Deserialize, Serialize};

use crate::process::verdict::RetryClass;
use crate::words::printable;

/// One process that ran for the job, and how it ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// Its role.
    pub role: Role,
    /// Counted from 1 for each role.
    pub number: u32,
    /// Its process id; 0 where it could not be started.
    pub pid: u32,
    /// `exit 0`, `SIGSEGV`, `stalled`, `protocol violation`, …
    pub ended: String,
    /// Its last phase.
    pub phase: Phase,
    /// Wall time from spawn to end in milliseconds.
    pub ms: f64,
    /// Why it was retried or given up; `None` if it succeeded.
    pub class: Option<RetryClass>,
    /// What was wrong; `None` if it succeeded.
    pub code: Option<Code>,
    /// The adapter that it opened.
    pub device: Option<AdapterInfo>,
    /// Folder that keeps its crash, for `kiln replay`.
    pub crash_folder: Option<PathBuf>,
}

/// A terminal failure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobError {
    /// The cause.
    pub code: Code,
    /// What to expect of a retry.
    pub class: RetryClass,
    /// One line for people: what, where.
    pub message: String,
    /// One line for people: how to fix it; may be empty.
    pub hint: String,
    /// The process at fault; `None` if it was the supervisor or the caller.
    pub role: Option<Role>,
    /// The phase in which the process was.
    pub phase: Option<Phase>,
    /// The signal that ended the process, by name.
    pub signal: Option<String>,
    /// The exit code with which the process ended.
    pub exit: Option<i32>,
    /// The adapter that the process had opened.
    pub device: Option<AdapterInfo>,
    /// Folder that keeps its crash, for `kiln replay`.
    pub crash_folder: Option<PathBuf>,
    /// Every process of the job, in the order in which they ended.
    pub attempts: Vec<Attempt>,
    /// The last lines that the process at fault wrote.
    pub log_tail: Vec<String>,
    /// The exit code of `kiln`.
    pub exit_code: u8,
}

impl JobError {
    /// A failure that no child took part in. Paths in the text may hold any bytes, so it is reduced to one printable
    /// line.
    pub fn own(code: Code, message: impl Into<String>, hint: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            code,
            class: RetryClass::of(code),
            message: printable(&message.into(), MAX_TEXT_BYTES),
            hint: printable(&hint.into(), MAX_TEXT_BYTES),
            role: None,
            phase: None,
            signal: None,
            exit: None,
            device: None,
            crash_folder: None,
            attempts: Vec::new(),
            log_tail: Vec::new(),
            exit_code: exit::of(code),
        })
    }

    /// The supervisor exited before the job was done, and leaves it to a later one.
    pub fn unfinished() -> Box<Self> {
        let message = "not finished: kiln was told to leave";
        let mut error = Self::own(Code::Cancelled, message, "run it again");
        error.class = RetryClass::Victim;
        error
    }

    /// Whether this is [`Self::unfinished`].
    pub fn is_unfinished(&self) -> bool {
        self.code == Code::Cancelled && self.class == RetryClass::Victim
    }

    /// The caller cancelled the job by a request, not by a signal.
    pub fn withdrawn() -> Box<Self> {
        Self::own(Code::Cancelled, "cancelled by the caller", "")
    }

    /// The caller ended the job with this signal.
    pub fn cancelled(signal: nix::sys::signal::Signal) -> Box<Self> {
        let mut error = Self::own(Code::Cancelled, format!("ended by {}", signal.as_str()), "");
        error.signal = Some(signal.as_str().to_owned());
        error.exit_code = u8::try_from(128 + signal as i32).unwrap_or(exit::SIGINT);
        error
    }
}
