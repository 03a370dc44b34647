//! Detects that the store's files were moved or removed: an open database stays writable long after its folder is gone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use nix::sys::statvfs::{FsFlags, statvfs};

use super::error::StoreError;
use crate::input::reason;

/// Paths, each with its device and inode at open.
#[derive(Debug)]
pub(super) struct Marks(Vec<(PathBuf, u64, u64)>);

impl Marks {
    /// Records what these paths lead to now.
    pub(super) fn of(paths: Vec<PathBuf>) -> Result<Self, StoreError> {
        let marks = paths.into_iter().map(|path| {
            let found = fs::symlink_metadata(&path)
                .map_err(|error| StoreError::io("find", &path, &error))?;
            Ok((path, found.dev(), found.ino()))
        });
        marks.collect::<Result<_, _>>().map(Self)
    }

    /// Checks that each path still leads to the same file.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        for (path, device, inode) in &self.0 {
            let shown = path.display();
            let found = fs::symlink_metadata(path)
                .map_err(|error| StoreError::Lost(format!("{shown}: {}", reason(&error))))?;
            if (found.dev(), found.ino()) != (*device, *inode) {
                return Err(StoreError::Lost(format!("{shown} is another file")));
            }
        }
        let Some((folder, ..)) = self.0.first() else {
            return Ok(());
        };
        let shown = folder.display();
        let system = statvfs(folder)
            .map_err(|errno| StoreError::Lost(format!("{shown}: {}", reason(&errno.into()))))?;
        if system.flags().contains(FsFlags::ST_RDONLY) {
            return Err(StoreError::Lost(format!(
                "the file system of {shown} is read-only"
            )));
        }
        Ok(())
    }
}
