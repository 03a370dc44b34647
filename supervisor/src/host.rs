//! What all jobs of one supervisor share: processes that the kernel does not let die, and how many jobs run at once.

use std::cell::RefCell;

use crate::child::Child;

/// See the head of this file. Used on the main thread only.
#[derive(Debug, Default)]
pub struct Host {
    parked: RefCell<Vec<Child>>,
}

impl Host {
    /// A host without jobs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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
