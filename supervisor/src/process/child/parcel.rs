//! What is sent to a process: one message, and the descriptors that go with it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use proto::blob::Blob;
use proto::message::ToChild;

/// What goes with a packet. Shared, so that queued packets hold no second copy.
#[derive(Clone, Debug)]
pub enum Handed {
    /// An opened input file.
    File(Arc<OwnedFd>),
    /// A table.
    Blob(Arc<Blob>),
}

impl AsFd for Handed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::File(file) => file.as_fd(),
            Self::Blob(blob) => blob.as_fd(),
        }
    }
}

/// One packet on its way to a child.
#[derive(Debug)]
pub struct Parcel {
    /// The message.
    pub message: ToChild,
    /// Its descriptors, in the order that the message documents.
    pub fds: Vec<Handed>,
}

impl Parcel {
    /// A message without descriptors.
    pub fn bare(message: ToChild) -> Self {
        let fds = Vec::new();
        Self { message, fds }
    }

    /// A message with these tables.
    pub fn with<'a>(message: ToChild, tables: impl IntoIterator<Item = &'a Arc<Blob>>) -> Self {
        let tables = tables.into_iter().map(Arc::clone);
        let fds = tables.map(Handed::Blob).collect();
        Self { message, fds }
    }
}
