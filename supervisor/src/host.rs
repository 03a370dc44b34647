//! What all jobs of one supervisor share: control groups for their workers, what has failed lately, spare processes, and
//! processes that the kernel does not let die.

use std::cell::{RefCell, RefMut};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::cgroup::{Cgroups, Group, Limits};
use crate::child::Child;
use crate::gate::Gate;
use crate::gate::incident::JobName;
use crate::job::Spares;

/// For spare processes to end, which have no work to leave.
const SPARES_END: Duration = Duration::from_secs(2);

/// See the head of this file. Used on the main thread only.
#[derive(Debug)]
pub struct Host {
    /// Only where a limit was asked for: without one there is nothing to enforce.
    cgroups: Option<Cgroups>,
    memory_limit: Option<u64>,
    parked: RefCell<Vec<Child>>,
    gate: RefCell<Gate>,
    spares: RefCell<Spares>,
    /// Jobs whose bake has been given data.
    baking: RefCell<HashSet<JobName>>,
    slots: usize,
    changed: Notify,
}

impl Host {
    /// A host without jobs, each of whose workers may use so many bytes of memory; with so many warm spares at most, and so
    /// many bakes at once: further jobs are prepared meanwhile.
    #[must_use]
    pub fn new(memory_limit: Option<u64>, spares: usize, slots: usize) -> Self {
        Self {
            cgroups: memory_limit.map(|limit| {
                Cgroups::find(Limits {
                    memory: Some(limit),
                    pids: None,
                })
            }),
            memory_limit,
            parked: RefCell::default(),
            gate: RefCell::default(),
            spares: RefCell::new(Spares::new(spares)),
            baking: RefCell::default(),
            slots,
            changed: Notify::new(),
        }
    }

    /// Bound of the address space of workers that use no driver.
    #[must_use]
    pub fn memory_limit(&self) -> Option<u64> {
        self.memory_limit
    }

    /// What has failed lately. Not to be held across anything else of the host.
    pub fn gate(&self) -> RefMut<'_, Gate> {
        self.gate.borrow_mut()
    }

    /// Everything that failed is tried again, at once.
    pub fn reset_gate(&self) {
        self.gate.borrow_mut().reset();
        self.changed.notify_waiters();
    }

    /// Warm processes without a job. Not to be held across anything else of the host.
    pub fn spares(&self) -> RefMut<'_, Spares> {
        self.spares.borrow_mut()
    }

    /// Takes a place among the bakes for a job, if there is one; it may hold it already.
    #[must_use]
    pub fn slot(&self, job: &JobName) -> bool {
        let mut baking = self.baking.borrow_mut();
        if baking.len() < self.slots {
            baking.insert(Arc::clone(job));
        }
        baking.contains(job)
    }

    /// Gives a job's place to others.
    pub fn leave_slot(&self, job: &JobName) {
        self.baking.borrow_mut().remove(job);
        self.changed.notify_waiters();
    }

    /// Waits until another job left something that this one may wait for.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Sees after the spares: the clock moved.
    pub fn tend_spares(&self, now: Instant) {
        let enter = |pid| self.enter(pid);
        self.spares.borrow_mut().tend(now, enter);
    }

    /// Ends the spares and waits until they are gone, but not for ever.
    pub async fn end_spares(&self) {
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

    /// Puts a freshly spawned worker, which has been given nothing yet, into a group of its own.
    #[must_use]
    pub fn enter(&self, pid: u32) -> Option<Group> {
        self.cgroups.as_ref().map(|groups| groups.enter(pid))
    }

    /// Takes over a process that was killed and is still there. Nobody waits for it; it is reaped when the kernel lets it go.
    pub fn park(&self, child: Child) {
        tracing::error!(
            role = child.role.name(),
            pid = child.pid,
            "cannot be killed: left to the kernel"
        );
        self.parked.borrow_mut().push(child);
    }

    /// How many such processes there are.
    #[must_use]
    pub fn parked(&self) -> usize {
        let mut parked = self.parked.borrow_mut();
        parked.retain(|child| !child.is_over());
        parked.len()
    }
}
