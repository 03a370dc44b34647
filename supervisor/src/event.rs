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
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum Event<'a> {
    /// A process was started.
    Started {
        role: Role,
        /// Counted from 1 for each role.
        attempt: u32,
        pid: u32,
        /// It was started earlier, as a spare, and has opened its adapter.
        warm: bool,
    },
    /// A process must wait before it starts.
    Held {
        role: Role,
        /// Why, in one printable line.
        why: &'a str,
    },
    /// Work was done.
    Progress {
        role: Role,
        phase: Phase,
        state: PhaseState,
    },
    /// A worker warns the user.
    Warning { role: Role, text: &'a str },
    /// A process failed and a fresh one takes its place.
    Retry {
        role: Role,
        fault: &'a Fault,
        step: Step,
        delay: Duration,
    },
    /// A process has ended, whatever that means for the job.
    Ended {
        role: Role,
        /// Counted from 1 for each role.
        attempt: u32,
        pid: u32,
        how: &'a str,
    },
    /// A process is about to be killed.
    Killing {
        role: Role,
        /// Counted from 1 for each role.
        attempt: u32,
        why: &'static str,
    },
    /// A process has been given its job.
    Working {
        role: Role,
        /// Counted from 1 for each role.
        attempt: u32,
    },
    /// A role has completed its work.
    RoleDone { role: Role, time: Duration },
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
