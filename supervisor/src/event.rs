//! What happens in a job, as it is told to whoever shows it.

use std::time::Duration;

use proto::message::{Phase, Role};

use crate::ladder::Step;
use crate::procfs::Holdings;
use crate::report::Report;
use crate::verdict::Fault;
use crate::watch::PhaseState;

/// Something happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// A process was started.
    Started {
        /// What it is for.
        role: Role,
        /// Counted from 1 for each role.
        attempt: u32,
        /// Its process id.
        pid: u32,
        /// It had been started before, and has opened its adapter.
        warm: bool,
    },
    /// A process is not started yet.
    Held {
        /// What it is for.
        role: Role,
        /// One printable line.
        why: &'a str,
    },
    /// Work was done.
    Progress {
        /// Whose.
        role: Role,
        /// Which.
        phase: Phase,
        /// How much.
        state: PhaseState,
    },
    /// A worker has a word for the user.
    Warning {
        /// Whose.
        role: Role,
        /// One printable line.
        text: &'a str,
    },
    /// A process ended badly and a fresh one takes its place.
    Retry {
        /// Whose.
        role: Role,
        /// What was wrong.
        fault: &'a Fault,
        /// What is done differently.
        step: Step,
        /// How long until then.
        delay: Duration,
    },
    /// A process is gone, whatever that means for the job.
    Ended {
        /// What it was for.
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
        /// What it is for.
        role: Role,
        /// Counted from 1 for each role.
        attempt: u32,
        /// `stall`, `violation`, …
        why: &'static str,
    },
    /// A process has been given its job.
    Working {
        /// What it is for.
        role: Role,
        /// Counted from 1 for each role.
        attempt: u32,
    },
    /// A role did its work.
    RoleDone {
        /// Whose.
        role: Role,
        /// From its start.
        time: Duration,
    },
    /// What the supervisor itself holds, before the first and after the last of many jobs.
    Host(&'a Holdings),
    /// The results are in place.
    Done(&'a Report),
    /// The job failed; the report holds the error.
    Failed(&'a Report),
}

/// Shows events.
pub trait Listener {
    /// Takes one event.
    fn event(&mut self, event: &Event<'_>);
}
