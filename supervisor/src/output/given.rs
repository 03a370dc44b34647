//! Files that a job was given to read → none of its outputs takes the place of one.
//!
//! A file is known by device and inode, whatever its name: pictures of views, buffers and a model's cameras are known only
//! once prepare has asked for them, and by names of its own.

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

/// Which file it is.
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
    /// What is open; none where the system does not tell.
    pub fn of(file: &impl AsFd) -> Option<Self> {
        let stat = fstat(file).ok()?;
        Some(Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }

    /// What lies at `path`, links followed; none where nothing does.
    ///
    /// # Errors
    /// The disk or its server is at fault.
    pub(super) fn at(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some((&metadata).into())),
            Err(error) if place::is_wrong(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Given(HashSet<FileId>);

impl Given {
    /// This one, too.
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

/// The error of a file that is to be read and written, or written twice.
#[must_use]
pub fn named_twice(path: &Path) -> Box<JobError> {
    JobError::own(
        Code::InvalidSpec,
        format!("{} is named twice", path.display()),
        "give each input and output a file of its own",
    )
}
