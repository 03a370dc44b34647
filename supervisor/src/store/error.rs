//! Errors of the store: bad requests, reached limits, and failing disks. Each has a variant, since each maps to its own
//! HTTP status.

use std::io;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use super::digest::Digest;
use super::job::State;
use crate::input::reason;

const NO_FILES: &str =
    "it has no room for another file, however many bytes are free (no inodes: df -i)";

/// The most digests in one message.
const SHOWN: usize = 16;

/// Why the store did not carry out a request.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[expect(missing_docs, reason = "its messages say what the fields are")]
pub enum StoreError {
    /// Another process has the store open.
    #[error("the store {} is in use by another kiln: stop it, or choose another folder with --store", .0.display())]
    Busy(PathBuf),
    /// The folder cannot be used as it is.
    #[error("the store {} cannot be used: {why}", .folder.display())]
    Folder {
        folder: PathBuf,
        /// What is wrong, and how to fix it.
        why: String,
    },
    /// A later version of Kiln wrote the store.
    #[error("the store {} has schema {found}, this kiln knows {known}: use the newer kiln, or another folder with --store", .folder.display())]
    Newer {
        folder: PathBuf,
        /// Schema version of the database.
        found: i64,
        /// The latest known schema version.
        known: i64,
    },
    /// The database is damaged; it was left unchanged.
    #[error("the store {} is damaged ({detail}): nothing was changed; restore it, or choose another folder with --store", .folder.display())]
    Corrupt { folder: PathBuf, detail: String },

    /// A limit of the queue is reached.
    #[error("{0}")]
    QueueFull(Bound),
    /// The file system has too little space for new work.
    #[error("the disk of the store has {free} bytes free, and keeps {kept}")]
    Full {
        free: u64,
        /// Bytes that must stay free.
        kept: u64,
    },
    /// A job names blobs that are not stored.
    #[error("not uploaded: {}", list(.0))]
    MissingBlobs(Vec<Digest>),
    /// A file name that is not allowed.
    #[error("file name {name:?}: {why}")]
    BadName {
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The spec is too large.
    #[error(
        "the spec, with all its defaults, has more than {limit} bytes: name fewer files, or shorter names"
    )]
    SpecTooLarge { limit: usize },
    /// The upload is too large.
    #[error("the upload is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    /// The bytes do not match the announced digest.
    #[error("the bytes have SHA-256 {found}, not {expected}")]
    DigestMismatch { expected: Digest, found: Digest },

    /// The job does not exist.
    #[error("no such job")]
    NotFound,
    /// The job was forgotten or has expired.
    #[error("the job was removed")]
    Gone,
    /// The job's state does not allow this; nothing changed.
    #[error("the job is {}", .0.name())]
    WrongState(State),
    /// A result is missing from the job's folder, or differs from its description.
    #[error("the artifact {name:?} {why}")]
    BadArtifact { name: String, why: String },

    /// The disk failed; the request was not carried out.
    #[error("{what}: {detail}")]
    Disk {
        fault: Fault,
        what: String,
        detail: String,
    },
    /// The store's folder, or something in it, was moved, removed, replaced or made read-only.
    #[error("the store is not there any more: {0}")]
    Lost(String),
    /// The store is closed, or its thread has ended.
    #[error("the store is closed")]
    Closed,
}

/// How a disk failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No space is left, or the quota is used up.
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
    /// The error of a failed call on a file.
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

    /// Whether the disk is at fault, not the request.
    pub fn is_disk(&self) -> bool {
        matches!(self, Self::Disk { .. })
    }
}

/// Whether inodes, not bytes, are used up: the system has one error for both.
fn lacks_files(path: &Path) -> bool {
    let folder = path.ancestors().find(|folder| folder.is_dir());
    let stat = folder.and_then(|folder| statvfs(folder).ok());
    // Some file systems report no inodes at all.
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
