//! What all jobs of one supervisor share: control groups for their workers, and processes that the kernel does not let die.

use std::cell::RefCell;

use crate::cgroup::{Cgroups, Group, Limits};
use crate::child::Child;

/// See the head of this file. Used on the main thread only.
#[derive(Debug)]
pub struct Host {
    /// Only where a limit was asked for: without one there is nothing to enforce.
    cgroups: Option<Cgroups>,
    memory_limit: Option<u64>,
    parked: RefCell<Vec<Child>>,
}

impl Host {
    /// A host without jobs, each of whose workers may use so many bytes of memory.
    #[must_use]
    pub fn new(memory_limit: Option<u64>) -> Self {
        Self {
            cgroups: memory_limit.map(|limit| {
                Cgroups::find(Limits {
                    memory: Some(limit),
                    pids: None,
                })
            }),
            memory_limit,
            parked: RefCell::default(),
        }
    }

    /// Bound of the address space of workers that use no driver.
    #[must_use]
    pub fn memory_limit(&self) -> Option<u64> {
        self.memory_limit
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
