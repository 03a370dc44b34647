//! The store's folder: private, checked, locked, and laid out as in the head of [`super`].

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::digest::Digest;
use super::error::StoreError;
use super::id::JobId;
use super::marks::Marks;
use crate::input::reason;
use crate::output::sync_folder;

const DATABASE: &str = "store.sqlite";
const LOCK: &str = "lock";
/// How long to wait for a process that is ending to release the lock.
const PATIENCE: Duration = Duration::from_millis(500);

/// The store's folder, with the paths in it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    root: PathBuf,
}

impl Place {
    /// Creates or checks the folder and takes its lock. The caller holds the lock for as long as it works there.
    pub(super) fn take(folder: &Path) -> Result<(Self, File), StoreError> {
        let refuse = |why: String| StoreError::Folder {
            folder: folder.to_path_buf(),
            why,
        };
        let io = |error: io::Error| refuse(reason(&error));
        match fs::metadata(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut builder = DirBuilder::new();
                builder.mode(0o700).recursive(true);
                builder.create(folder).map_err(io)?;
                if let Some(parent) = folder.parent().filter(|path| path.is_dir()) {
                    sync_folder(parent).map_err(io)?;
                }
            }
            Err(error) => return Err(io(error)),
            Ok(metadata) if !metadata.is_dir() => return Err(refuse("it is not a folder".into())),
            Ok(metadata) => {
                let mode = metadata.permissions().mode() & 0o777;
                if mode & 0o077 != 0 {
                    let why = format!("others may enter it (mode {mode:03o}): chmod 700 it");
                    return Err(refuse(why));
                }
                if is_foreign(folder).map_err(io)? {
                    let why = "it holds other files: choose an empty folder";
                    return Err(refuse(why.into()));
                }
            }
        }
        let place = Self {
            root: folder.to_path_buf(),
        };
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(folder.join(LOCK))
            .map_err(io)?;
        let start = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                // If a process is killed while it spawns another, the child holds the lock until its exec.
                Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => {
                    thread::sleep(PATIENCE / 50);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Busy(folder.to_path_buf()));
                }
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
        }
        place.lay_out().map_err(io)?;
        Ok((place, lock))
    }

    /// The files that must stay in place.
    pub(super) fn marks(&self) -> Result<Marks, StoreError> {
        let root = self.root.clone();
        let lock = self.root.join(LOCK);
        Marks::of(vec![
            root,
            lock,
            self.database(),
            self.spool(),
            self.blobs(),
            self.jobs(),
        ])
    }

    fn lay_out(&self) -> io::Result<()> {
        let mut new = make(&self.spool())? | make(&self.jobs())?;
        new |= make(&self.blobs())?;
        // All at once, so that an upload has one folder to sync, not two.
        let mut branches = false;
        for byte in 0..=u8::MAX {
            branches |= make(&self.blobs().join(format!("{byte:02x}")))?;
        }
        if branches {
            sync_folder(&self.blobs())?;
        }
        if new {
            sync_folder(&self.root)?;
        }
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn database(&self) -> PathBuf {
        self.root.join(DATABASE)
    }

    pub(super) fn spool(&self) -> PathBuf {
        self.root.join("spool")
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    pub(super) fn blob(&self, digest: Digest) -> PathBuf {
        let name = digest.to_string();
        let mut path = self.blobs();
        path.extend([name.get(..2).unwrap_or_default(), &name]);
        path
    }

    /// Where a damaged blob is kept until the next open.
    pub(super) fn aside(&self, digest: Digest) -> PathBuf {
        self.spool().join(format!("{digest}.damaged"))
    }

    pub(super) fn jobs(&self) -> PathBuf {
        self.root.join("jobs")
    }

    pub(super) fn job(&self, id: JobId) -> PathBuf {
        self.jobs().join(id.to_string())
    }

    pub(super) fn input(&self, id: JobId) -> PathBuf {
        self.job(id).join("input")
    }

    /// Creates the folder of a job, if needed, and syncs its name.
    pub(super) fn make_job(&self, id: JobId) -> Result<PathBuf, StoreError> {
        let path = self.job(id);
        make(&path)
            // Also if it existed: its creator may have died before the sync.
            .and_then(|_new| sync_folder(&self.jobs()))
            .map_err(|error| StoreError::io("make", &path, &error))?;
        Ok(path)
    }
}

/// Creates a folder with access for this user alone; `false` if it exists.
pub(super) fn make(path: &Path) -> io::Result<bool> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the folder holds files but no store.
fn is_foreign(folder: &Path) -> io::Result<bool> {
    let mut other = false;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if name == LOCK || name == DATABASE {
            return Ok(false);
        }
        // A fresh file system has this at its root.
        other |= name != "lost+found";
    }
    Ok(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_folder_is_ours_alone_and_its_lock_is_taken_once() {
        let root = tempfile::tempdir().expect("temp dir");
        let folder = root.path().join("a/b");
        let (place, lock) = Place::take(&folder).expect("a place");
        for path in [
            folder.as_path(),
            &place.jobs(),
            &place.spool(),
            &place.blobs().join("ff"),
        ] {
            let mode = fs::metadata(path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", path.display());
        }
        let error = Place::take(&folder).expect_err("taken");
        assert_eq!(error, StoreError::Busy(folder.clone()));
        let line = error.to_string();
        assert!(
            line.contains("in use by another kiln") && !line.contains('\n'),
            "{line}"
        );
        drop(lock);
        Place::take(&folder).expect("free again");
    }

    #[test]
    fn a_folder_of_others_is_left_as_it_is() {
        let root = tempfile::tempdir().expect("temp dir");
        let refused = |path: &Path, why: &str| {
            let line = Place::take(path).expect_err("refused").to_string();
            assert!(line.contains(why), "{line}");
        };
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o700)).expect("ours");
        fs::write(root.path().join("thesis.txt"), "x").expect("file");
        refused(root.path(), "holds other files");
        refused(&root.path().join("thesis.txt"), "not a folder");
        let open = root.path().join("open");
        fs::create_dir(&open).expect("folder");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("ours");
        refused(&open, "mode 755");
        assert_eq!(fs::read_dir(&open).expect("there").count(), 0);
        fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).expect("ours");
        Place::take(&open).expect("ours alone now");
    }
}
