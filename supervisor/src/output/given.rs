//! Tracks the files that a job reads, so that no output replaces one.
//!
//! A file is identified by device and inode, whatever its name. Pictures, buffers and a model's cameras are known only
//! once prepare has asked for them, by names of its own.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::stat::fstat;
use proto::message::Code;
use proto::place;

use crate::error::JobError;

/// The identity of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

impl FileId {
    /// The identity of an open file; `None` if the system does not tell.
    pub fn of(file: &impl AsFd) -> Option<Self> {
        let stat = fstat(file).ok()?;
        Some(Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }

    /// The identity of the file at `path`, links followed; `None` if there is no file.
    ///
    /// # Errors
    /// The disk or its server fails.
    pub(super) fn at(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some((&metadata).into())),
            Err(error) if place::is_wrong(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The files that a job reads.
#[derive(Clone, Debug, Default)]
pub struct Given(HashSet<FileId>);

impl Given {
    /// Adds a file.
    pub fn add(&mut self, file: FileId) {
        self.0.insert(file);
    }

    pub(super) fn holds(&self, file: FileId) -> bool {
        self.0.contains(&file)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The error for a file that is both read and written, or written twice.
pub fn named_twice(path: &Path) -> Box<JobError> {
    JobError::own(
        Code::InvalidSpec,
        format!("{} is named twice", path.display()),
        "give each input and output a file of its own",
    )
}
