//! Results → files, each whole or not at all: written beside the target, synced, renamed over it, and the folder synced.
//!
//! A temporary file exists only while its bytes are copied, and is removed on every way out but a kill -9 in that moment.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use proto::message::Code;
use tempfile::{NamedTempFile, TempPath};

use crate::error::JobError;
use crate::failpoint::at;
use crate::input::reason;

/// A place for a result, seen to be writable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    path: PathBuf,
    folder: PathBuf,
}

impl Target {
    /// Checks, before any work, that `path` can be created or replaced.
    ///
    /// # Errors
    /// One line that says what stands in the way.
    pub fn check(path: &Path) -> Result<Self, Box<JobError>> {
        let fail = |why: &str| {
            let message = format!("cannot write {}: {why}", path.display());
            JobError::own(
                Code::OutputError,
                message,
                "the folder must exist and be writable: nothing has been done yet",
            )
        };
        if path.file_name().is_none() {
            return Err(fail("it has no file name"));
        }
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(fail("it exists and is not a file"));
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        // A file without a name, where the file system can: what a crash here leaves behind is nothing.
        tempfile::tempfile_in(&folder)
            .map_err(|error| fail(&format!("{}: {}", folder.display(), reason(&error))))?;
        Ok(Self {
            path: path.to_path_buf(),
            folder,
        })
    }

    /// The path as the user wrote it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies `bytes` to a file beside the target and syncs it. Dropping the result removes the file.
    ///
    /// # Errors
    /// The disk is full, or worse.
    pub fn stage(&self, bytes: &mut impl Read) -> Result<Staged, Box<JobError>> {
        self.write(bytes).map_err(|error| self.error(&error))
    }

    fn write(&self, bytes: &mut impl Read) -> io::Result<Staged> {
        // Mode as any new file has it, less the umask: the result is the user's, not a secret.
        at("stage.create")?;
        let mut file: NamedTempFile = tempfile::Builder::new()
            .prefix(".kiln-")
            .suffix(".part")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(&self.folder)?;
        at("stage.write")?;
        let size = io::copy(bytes, &mut file)?;
        // A failed sync says that bytes are lost; trying again on the same file would say they are not.
        at("stage.sync")?;
        file.as_file().sync_all()?;
        at("stage.synced")?;
        Ok(Staged {
            part: file.into_temp_path(),
            target: self.clone(),
            size,
        })
    }

    fn error(&self, error: &io::Error) -> Box<JobError> {
        let message = format!("cannot write {}: {}", self.path.display(), reason(error));
        JobError::own(
            Code::OutputError,
            message,
            "free some space or choose another place with -o",
        )
    }
}

/// A complete file that waits for its name.
#[derive(Debug)]
pub struct Staged {
    part: TempPath,
    target: Target,
    size: u64,
}

impl Staged {
    /// Gives the file its name, in place of whatever had it.
    ///
    /// # Errors
    /// The system refuses; the old file is then still there.
    pub fn commit(self) -> Result<u64, Box<JobError>> {
        let Self { part, target, size } = self;
        at("commit.rename").map_err(|error| target.error(&error))?;
        part.persist(&target.path)
            .map_err(|error| target.error(&error.error))?;
        // The rename itself must survive a power cut.
        at("commit.sync")
            .and_then(|()| File::open(&target.folder))
            .and_then(|folder| folder.sync_all())
            .or_else(|error| {
                if error.kind() == io::ErrorKind::InvalidInput {
                    Ok(())
                } else {
                    Err(error)
                }
            })
            .map_err(|error| target.error(&error))?;
        at("commit.synced").map_err(|error| target.error(&error))?;
        Ok(size)
    }

    /// Bytes of the file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).expect("folder").count()
    }

    #[test]
    fn a_target_is_replaced_only_by_a_commit() {
        let folder = tempfile::tempdir().expect("temp dir");
        let path = folder.path().join("out.glb");
        fs::write(&path, b"old").expect("file");
        let target = Target::check(&path).expect("writable");
        assert_eq!(entries(folder.path()), 1, "the check leaves nothing");

        let staged = target.stage(&mut &b"new"[..]).expect("room");
        assert_eq!(
            (fs::read(&path).expect("there"), entries(folder.path())),
            (b"old".to_vec(), 2)
        );
        drop(staged);
        assert_eq!(entries(folder.path()), 1, "a dropped file is removed");

        let staged = target.stage(&mut &b"new"[..]).expect("room");
        assert_eq!(staged.commit().expect("renamed"), 3);
        assert_eq!(
            (fs::read(&path).expect("there"), entries(folder.path())),
            (b"new".to_vec(), 1)
        );
    }

    #[test]
    fn a_reader_that_fails_leaves_nothing() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
        }
        let folder = tempfile::tempdir().expect("temp dir");
        let target = Target::check(&folder.path().join("out.glb")).expect("writable");
        let error = target.stage(&mut Broken).expect_err("broken");
        assert!(
            error.message.ends_with("the disk is full"),
            "{}",
            error.message
        );
        assert_eq!(entries(folder.path()), 0);
    }

    #[test]
    fn a_bad_place_is_known_before_any_work() {
        let folder = tempfile::tempdir().expect("temp dir");
        for path in [
            folder.path().join("nowhere/out.glb"),
            folder.path().to_path_buf(),
            PathBuf::from("/"),
        ] {
            assert_eq!(
                Target::check(&path).expect_err("bad").code,
                Code::OutputError,
                "{}",
                path.display()
            );
        }
        assert_eq!(
            Target::check(&PathBuf::from("/proc/out.glb"))
                .expect_err("bad")
                .exit_code,
            73
        );
    }
}
