//! What all jobs of one supervisor share: control groups for workers, recent failures, spare processes, and processes
//! that the kernel does not let die.

pub mod fleet;
pub mod gate;
pub mod ladder;
pub mod nodes;
pub mod pipelines;

use std::cell::{RefCell, RefMut};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, setpriority_process};
use tokio::sync::watch;

use crate::host::fleet::Fleet;
use crate::host::gate::Gate;
use crate::host::gate::incident::JobName;
use crate::host::pipelines::Vault;
use crate::job::Spares;
use crate::process::cgroup::{Cgroups, Group, Limits};
use crate::process::child::Child;

/// How long spare processes may take to exit; they have no work to finish.
const SPARES_END: Duration = Duration::from_secs(2);

/// The state that jobs share; see the head of this file. Used on the main thread only.
#[derive(Debug)]
pub struct Host {
    /// Only with a memory limit: otherwise there is nothing to enforce.
    cgroups: Option<Cgroups>,
    memory_limit: Option<u64>,
    /// Added to the niceness of workers.
    nice: i32,
    parked: RefCell<Vec<Child>>,
    gate: RefCell<Gate>,
    spares: RefCell<Spares>,
    fleet: RefCell<Fleet>,
    vault: Vault,
    changed: watch::Sender<()>,
}

impl Host {
    /// A host without jobs. `memory_limit` bounds each worker, in bytes. `spares` is the number of warm processes.
    /// `slots` bakes may run at once on each adapter; further jobs are prepared meanwhile.
    pub fn new(memory_limit: Option<u64>, spares: usize, slots: usize) -> Self {
        Self {
            cgroups: memory_limit.map(|limit| {
                Cgroups::find(Limits {
                    memory: Some(limit),
                    pids: None,
                })
            }),
            memory_limit,
            nice: 0,
            parked: RefCell::default(),
            gate: RefCell::default(),
            spares: RefCell::new(Spares::new(spares)),
            fleet: RefCell::new(Fleet::new(slots)),
            vault: Vault::default(),
            changed: watch::Sender::default(),
        }
    }

    /// Sets the niceness of workers, so that this process and the program that it serves run first.
    #[must_use]
    pub fn nice(self, nice: i32) -> Self {
        Self { nice, ..self }
    }

    /// Sets the folder of the pipeline cache; `None` caches nothing.
    #[must_use]
    pub fn pipelines(self, folder: Option<PathBuf>) -> Self {
        let vault = Vault::new(folder);
        self.spares.borrow_mut().keep(vault.clone());
        Self { vault, ..self }
    }

    /// The pipeline cache: what drivers compiled for earlier processes.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// Bound in bytes of the address space of workers that use no driver.
    pub fn memory_limit(&self) -> Option<u64> {
        self.memory_limit
    }

    /// The record of recent failures. Do not hold it across any other use of the host.
    pub fn gate(&self) -> RefMut<'_, Gate> {
        self.gate.borrow_mut()
    }

    /// Forgets all failures: everything is tried again at once.
    pub fn reset_gate(&self) {
        self.gate.borrow_mut().reset();
        self.changed.send_replace(());
    }

    /// Warm processes without a job. Do not hold them across any other use of the host.
    pub fn spares(&self) -> RefMut<'_, Spares> {
        self.spares.borrow_mut()
    }

    /// Which bake runs on which adapter. Do not hold it across any other use of the host.
    pub fn fleet(&self) -> RefMut<'_, Fleet> {
        self.fleet.borrow_mut()
    }

    /// Frees the slot of a job's bake for others.
    pub fn leave_slot(&self, job: &JobName) {
        self.fleet.borrow_mut().leave(job);
        self.changed.send_replace(());
    }

    /// Tells from now on when a job frees something that another may wait for. What is freed while its owner is at other
    /// work is told as soon as it listens again: a wake-up that is lost would leave a job waiting for ever.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Lets the spares react to the clock.
    pub fn tend_spares(&self, now: Instant) {
        let enter = |pid| self.enter(pid);
        self.spares.borrow_mut().tend(now, enter);
    }

    /// Ends the spares. Waits, for a bounded time, until they are gone and the pipeline cache is written.
    pub async fn end_spares(&self) {
        self.vault.settle().await;
        let spares = self.spares.borrow_mut().empty();
        let gone = async {
            for spare in spares {
                spare.end().await;
            }
        };
        if tokio::time::timeout(SPARES_END, gone).await.is_err() {
            tracing::warn!("a spare process does not end");
        }
    }

    /// Puts a freshly spawned worker, which has been given nothing yet, into a control group of its own and lowers its
    /// priority.
    #[must_use]
    pub fn enter(&self, pid: u32) -> Option<Group> {
        if self.nice > 0
            && let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw)
            && let Err(error) = setpriority_process(Some(pid), self.nice)
        {
            tracing::debug!(pid = pid.as_raw_nonzero(), %error, "keeps its priority");
        }
        self.cgroups.as_ref().map(|groups| groups.enter(pid))
    }

    /// Takes over a process that was killed but is still there. Nothing waits for it; it is reaped when the kernel lets
    /// it go.
    pub fn park(&self, child: Child) {
        tracing::error!(
            role = child.role.name(),
            pid = child.pid,
            "cannot be killed: left to the kernel"
        );
        self.parked.borrow_mut().push(child);
    }

    /// How many such processes are still there.
    pub fn parked(&self) -> usize {
        let mut parked = self.parked.borrow_mut();
        parked.retain(|child| !child.is_over());
        parked.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_while_nobody_listens_is_told_later() {
        let host = Host::new(None, 0, 1);
        let mut changes = host.changes();
        assert!(!changes.has_changed().expect("the host is there"));
        for free in [
            |host: &Host| host.leave_slot(&"a job".into()),
            Host::reset_gate,
        ] {
            {
                // A wait that is given up for something else, as a job's is for its clock.
                let mut wait = Box::pin(changes.changed());
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                assert!(wait.as_mut().poll(&mut context).is_pending());
                free(&host);
            }
            assert!(changes.has_changed().expect("the host is there"));
            changes.mark_unchanged();
        }
    }
}
