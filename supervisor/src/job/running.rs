//! One worker process and what is known of it: the state that a job and a spare keep, and what they do with it alike.

use std::time::{Duration, Instant};

use proto::limits::MAX_TEXT_BYTES;
use proto::message::{AdapterInfo, Failure, Role, Table, ToChild};
use proto::recorder;
use proto::sandbox::{Sandbox, Stage};

use super::lend::Loan;
use crate::event::{Event, Listener};
use crate::host::ladder::Rung;
use crate::process::cgroup::Group;
use crate::process::child::{Child, Parcel};
use crate::process::dispatcher::{Assignment, Dispatcher};
use crate::process::procfs::{self, Condition, Share};
use crate::process::sandbox::{self, Unsafe};
use crate::process::verdict::Kill;
use crate::process::watch::{STALL_FLOOR, Watch, stall_cap};
use crate::words::printable;

/// Events that may queue for whoever owns the process; a full queue makes the process wait.
pub(super) const EVENTS: usize = 256;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) child: Child,
    pub(super) number: u32,
    pub(super) watch: Watch,
    /// The rung that a bake works on.
    pub(super) rung: Rung,
    pub(super) dispatcher: Dispatcher,
    /// The pipelines that it was given and offers.
    pub(super) loan: Loan,
    /// The adapter that it opened.
    pub(super) adapter: Option<AdapterInfo>,
    /// What it reported of its sandbox, at each of its stages.
    pub(super) accounts: Vec<Sandbox>,
    pub(super) answered: Option<Answer>,
    pub(super) kill: Option<Kill>,
    /// Its control group, which bounds its memory and tells whether that bound killed it.
    pub(super) group: Option<Group>,
    /// Processor time at the last check.
    share: Share,
}

#[derive(Debug)]
pub(super) enum Answer {
    Done,
    Failed(Failure),
}

impl Running {
    /// A process that was just spawned.
    pub(super) fn new(child: Child, rung: Rung, assignment: Assignment, loan: Loan) -> Self {
        Self {
            watch: watch(child.role, None),
            child,
            number: 0,
            rung,
            dispatcher: Dispatcher::new(assignment),
            loan,
            adapter: None,
            accounts: Vec::new(),
            answered: None,
            kill: None,
            group: None,
            share: Share::default(),
        }
    }

    /// Tells it that a file of its is sealed, which it reads back now.
    pub(super) fn sealed(&self, table: Table) -> Result<(), String> {
        self.child.send(Parcel::bare(ToChild::Sealed { table }))
    }

    /// Checks its account of its sandbox against the kernel, before it gets anything; gives the account, made printable.
    pub(super) fn confined(
        &self,
        stage: Stage,
        mut account: Sandbox,
        required: bool,
    ) -> (Sandbox, Result<(), Unsafe>) {
        account.missing = printable(&account.missing, MAX_TEXT_BYTES);
        let checked = match required {
            true => sandbox::check(self.child.role, stage, self.child.pid, &account),
            false => Ok(()),
        };
        (account, checked)
    }

    /// Kills the process, for the first reason that comes up.
    pub(super) fn kill(&mut self, why: Kill, listener: &mut dyn Listener) {
        if self.kill.is_some() {
            return;
        }
        listener.event(&Event::Killing {
            role: self.child.role,
            attempt: self.number,
            why: why.word(),
        });
        match why {
            // The process does not know where it is stuck, but its stacks do.
            Kill::Stall { .. } => self.child.abort(),
            _ => self.child.kill(),
        }
        self.kill = Some(why);
    }

    /// Why the process must be killed, if it must.
    pub(super) fn look(&mut self, now: Instant) -> Option<Kill> {
        match recorder::read_state(self.child.recorder.file()) {
            Ok(Some(state)) => self.watch.recorded(&state),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the flight recorder cannot be read"),
        }
        let mut starved = 0.0;
        if self.watch.suspicious() {
            let share = Share::of(self.child.pid);
            if self.share != Share::default() {
                starved = share.starved_since(&self.share);
            }
            self.share = share;
        }
        // A bake that opens its adapter and compiles is owed nothing yet. Its driver may hang, and otherwise nobody
        // would notice.
        let opening = self.child.role == Role::Bake && !self.dispatcher.compiled();
        let owed = !opening && !self.dispatcher.ended();
        let kill = self.watch.tick(now, owed, starved)?;
        let stall = matches!(kill, Kill::Stall { .. });
        if stall && procfs::condition(self.child.pid) == Condition::Stopped {
            return Some(Kill::Frozen);
        }
        Some(kill)
    }
}

/// A watch on a process of this role, with `silence` in place of what it is usually allowed.
pub(super) fn watch(role: Role, silence: Option<Duration>) -> Watch {
    let floor = silence.unwrap_or(STALL_FLOOR);
    let cap = silence.unwrap_or_else(|| stall_cap(role));
    Watch::new(floor, cap, Instant::now())
}

/// What is wrong, if a worker comes from another build.
pub(super) fn mismatch(version: u32, build_id: &str) -> Option<String> {
    (version != proto::PROTOCOL_VERSION || build_id != proto::BUILD_ID).then(|| {
        format!(
            "kiln-baker is of build {} (protocol {version}), kiln of {} ({})",
            printable(build_id, 80),
            proto::BUILD_ID,
            proto::PROTOCOL_VERSION
        )
    })
}
