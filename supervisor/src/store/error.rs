//! Why the store says no: faults of a request, bounds, and a disk that fails, each a variant, since each is another status.

use std::io;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use super::digest::Digest;
use super::job::State;
use crate::input::reason;

const NO_FILES: &str =
    "it has no room for another file, however many bytes are free (no inodes: df -i)";

/// Digests in one line.
const SHOWN: usize = 16;

/// See the head of this file.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum StoreError {
    /// Another process has the store.
    #[error("the store {} is in use by another kiln: stop it, or choose another folder with --store", .0.display())]
    Busy(PathBuf),
    /// The folder cannot be used as it is.
    #[error("the store {} cannot be used: {why}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What is wrong and how to mend it.
        why: String,
    },
    /// A later version of Kiln has written it.
    #[error("the store {} has schema {found}, this kiln knows {known}: use the newer kiln, or another folder with --store", .folder.display())]
    Newer {
        /// The folder.
        folder: PathBuf,
        /// Schema of the database.
        found: i64,
        /// The last one that is known.
        known: i64,
    },
    /// The database is damaged; it was left as it is.
    #[error("the store {} is damaged ({detail}): nothing was changed; restore it, or choose another folder with --store", .folder.display())]
    Corrupt {
        /// The folder.
        folder: PathBuf,
        /// What was found.
        detail: String,
    },

    /// The queue has its bound.
    #[error("{0}")]
    QueueFull(Bound),
    /// The file system has too little room left for new work.
    #[error("the disk of the store has {free} bytes free, and keeps {kept}")]
    Full {
        /// Bytes that are free.
        free: u64,
        /// Bytes that must stay free.
        kept: u64,
    },
    /// Blobs that a job names and that are not there.
    #[error("not uploaded: {}", list(.0))]
    MissingBlobs(Vec<Digest>),
    /// A file name that is not allowed.
    #[error("file name {name:?}: {why}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// More bytes than a spec may have.
    #[error(
        "the spec, with all its defaults, has more than {limit} bytes: name fewer files, or shorter names"
    )]
    SpecTooLarge {
        /// The bound.
        limit: usize,
    },
    /// More bytes than an upload may have.
    #[error("the upload is larger than {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: u64,
    },
    /// The bytes are not those that were announced.
    #[error("the bytes have SHA-256 {found}, not {expected}")]
    DigestMismatch {
        /// Announced.
        expected: Digest,
        /// Received.
        found: Digest,
    },

    /// No such job.
    #[error("no such job")]
    NotFound,
    /// The job was forgotten or has expired.
    #[error("the job was removed")]
    Gone,
    /// The job's state does not allow this; nothing was changed.
    #[error("the job is {}", .0.word())]
    WrongState(State),
    /// A result that is not in the job's folder as it was said to be.
    #[error("the artifact {name:?} {why}")]
    BadArtifact {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },

    /// The disk fails; the request was not carried out.
    #[error("{what}: {detail}")]
    Disk {
        /// The kind of failure.
        fault: Fault,
        /// What was attempted.
        what: String,
        /// What the system said.
        detail: String,
    },
    /// The store's folder, or something in it, was moved, removed, replaced or made read-only.
    #[error("the store is not there any more: {0}")]
    Lost(String),
    /// The store is closed, or its thread has ended.
    #[error("the store is closed")]
    Closed,
}

/// How a disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No room, or the quota is used up.
    NoSpace,
    /// Reading or writing failed.
    Io,
    /// What was read is not what was written.
    Corrupt,
}

/// Which bound of the queue is reached.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Bound {
    /// [`super::Limits::queue_jobs`].
    #[error("the queue holds {0} jobs already")]
    Jobs(u64),
    /// [`super::Limits::queue_bytes`].
    #[error("the inputs of the queued jobs would exceed {0} bytes")]
    Bytes(u64),
    /// [`super::Limits::client_jobs`].
    #[error("the queue holds {0} jobs of this client already")]
    ClientJobs(u64),
}

impl StoreError {
    /// A failed call on a file.
    pub(super) fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        let fault = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Fault::NoSpace,
            _ => Fault::Io,
        };
        Self::Disk {
            fault,
            what: format!("cannot {what} {}", path.display()),
            detail: match fault {
                Fault::NoSpace if lacks_files(path) => NO_FILES.to_owned(),
                _ => reason(error),
            },
        }
    }

    /// It says something of the disk, not of the request.
    #[must_use]
    pub fn is_disk(&self) -> bool {
        matches!(self, Self::Disk { .. })
    }
}

/// The system has one error for both, and a disk may have bytes enough.
fn lacks_files(path: &Path) -> bool {
    let folder = path.ancestors().find(|folder| folder.is_dir());
    let stat = folder.and_then(|folder| statvfs(folder).ok());
    // Some file systems count none.
    stat.is_some_and(|stat| stat.files() > 0 && stat.files_available() == 0)
}

fn list(digests: &[Digest]) -> String {
    let (shown, more) = digests.split_at(digests.len().min(SHOWN));
    let mut all: Vec<String> = shown.iter().map(Digest::to_string).collect();
    if !more.is_empty() {
        all.push(format!("and {} more", more.len()));
    }
    all.join(", ")
}
