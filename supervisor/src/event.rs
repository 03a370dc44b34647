//! The events of a job, as shown to the user.

use std::time::Duration;

use proto::message::{Phase, Role};

use crate::host::ladder::Step;
use crate::process::procfs::Holdings;
use crate::process::verdict::Fault;
use crate::process::watch::PhaseState;
use crate::report::Report;

/// Something that happened in a job.
#[derive(Debug)]
pub enum Event<'a> {
    /// A process was started.
    Started {
        /// Its role.
        role: Role,
        /// Counted from 1 for each role.
        attempt: u32,
        /// Its process id.
        pid: u32,
        /// It was started earlier, as a spare, and has opened its adapter.
        warm: bool,
    },
    /// A process must wait before it starts.
    Held {
        /// Its role.
        role: Role,
        /// Why, in one printable line.
        why: &'a str,
    },
    /// Work was done.
    Progress {
        /// Whose work.
        role: Role,
        /// The phase.
        phase: Phase,
        /// How far it is.
        state: PhaseState,
    },
    /// A worker warns the user.
    Warning {
        /// The worker's role.
        role: Role,
        /// One printable line.
        text: &'a str,
    },
    /// A process failed and a fresh one takes its place.
    Retry {
        /// Its role.
        role: Role,
        /// What was wrong.
        fault: &'a Fault,
        /// What the retry changes.
        step: Step,
        /// The delay before it.
        delay: Duration,
    },
    /// A process has ended, whatever that means for the job.
    Ended {
        /// Its role.
        role: Role,
        /// Counted from 1 for each role.
        attempt: u32,
        /// Its process id.
        pid: u32,
        /// `exit 0`, `SIGSEGV`, …
        how: &'a str,
    },
    /// A process is about to be killed.
    Killing {
        /// Its role.
        role: Role,
        /// Counted from 1 for each role.
        attempt: u32,
        /// `stall`, `violation`, …
        why: &'static str,
    },
    /// A process has been given its job.
    Working {
        /// Its role.
        role: Role,
        /// Counted from 1 for each role.
        attempt: u32,
    },
    /// A role has completed its work.
    RoleDone {
        /// Which role.
        role: Role,
        /// Time since its start.
        time: Duration,
    },
    /// What the supervisor itself holds; sent before the first and after the last of many jobs.
    Host(&'a Holdings),
    /// The results are in place.
    Done(&'a Report),
    /// The job failed; the report holds the error.
    Failed(&'a Report),
}

/// Shows events to the user.
pub trait Listener {
    /// Takes one event.
    fn event(&mut self, event: &Event<'_>);
}
