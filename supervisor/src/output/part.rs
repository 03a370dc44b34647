//! A file being written. It has no name until it is complete, so it is never taken for a result.
//!
//! It is created with `O_TMPFILE`, so an end of this process before completion leaves nothing. Where the file system
//! does not support that, the file has a name from the start. Names are `.kiln-<16 hexadecimal digits>.part` and are
//! never reused. The file is locked (flock) for as long as its process lives. So an unlocked part belongs to a dead
//! process, in whatever container or on whatever host it ran, and [`sweep`] removes it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::linkat;

use crate::process::reserve::lend;

const PREFIX: &str = ".kiln-";
const SUFFIX: &str = ".part";
/// Attempts to find an unused name.
const NAMES: u32 = 8;
/// The usual mode of new files, less the umask: the result is the user's and no secret.
const MODE: u32 = 0o666;

/// A file being written; see the head of this file. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct Part {
    /// The file; its lock shows that this process lives.
    pub(super) file: File,
    folder: PathBuf,
    name: Option<PathBuf>,
}

impl Part {
    /// Creates an empty file in `folder`.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        // If a file without a name fails for any reason, the attempt with a name gives the better error.
        match Self::unnamed(folder) {
            Ok(part) => Ok(part),
            Err(_) => Self::named(folder),
        }
    }

    fn unnamed(folder: &Path) -> io::Result<Self> {
        let flags = (OFlag::O_TMPFILE | OFlag::O_CLOEXEC).bits();
        let mut options = OpenOptions::new();
        options.write(true).mode(MODE).custom_flags(flags);
        let file = lend(|| options.open(folder))?;
        // Without /proc it could never be named.
        fs::symlink_metadata(link_of(&file))?;
        lock(&file)?;
        Ok(Self {
            file,
            folder: folder.to_path_buf(),
            name: None,
        })
    }

    fn named(folder: &Path) -> io::Result<Self> {
        with_new_name(folder, |name| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(MODE);
            let file = lend(|| options.open(name))?;
            let part = Self {
                file,
                folder: folder.to_path_buf(),
                name: Some(name.to_path_buf()),
            };
            lock(&part.file)?;
            // Another process may have swept it before it was locked.
            match fs::symlink_metadata(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(io::ErrorKind::AlreadyExists.into())
                }
                other => other.map(|_there| part),
            }
        })
    }

    /// Gives the complete file its first name.
    pub(super) fn link(&mut self) -> io::Result<PathBuf> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let own = link_of(&self.file);
        let name = with_new_name(&self.folder, |name| {
            let follow = AtFlags::AT_SYMLINK_FOLLOW;
            linkat(AT_FDCWD, &own, AT_FDCWD, name, follow)?;
            Ok(name.to_path_buf())
        })?;
        self.name = Some(name.clone());
        Ok(name)
    }

    /// The name now belongs to another file, or to none: this part must not remove it.
    pub(super) fn renamed(&mut self) {
        self.name = None;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            remove(name);
        }
    }
}

/// Removes a part. If that fails, the next run sweeps it.
pub(super) fn remove(name: &Path) {
    if let Err(error) = fs::remove_file(name) {
        tracing::debug!(name = %name.display(), %error, "a temporary file stays behind");
    }
}

fn link_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Takes the lock that shows that this process lives. On a file system without locks, parts are never swept.
fn lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(TryLockError::Error(error)) => {
            tracing::debug!(%error, "no lock for a temporary file");
            Ok(())
        }
    }
}

fn with_new_name<T>(
    folder: &Path,
    mut attempt: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..NAMES {
        // The system seeds each state differently.
        let random = RandomState::new().hash_one(std::process::id());
        match attempt(&folder.join(format!("{PREFIX}{random:016x}{SUFFIX}"))) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            other => return other,
        }
    }
    Err(last)
}

fn is_part(name: &str) -> bool {
    let middle = name
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix(SUFFIX));
    middle.is_some_and(|middle| {
        middle.len() == 16 && middle.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Removes parts of dead processes in `folder`. Best effort.
pub(super) fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(is_part) {
            continue;
        }
        let path = entry.path();
        // Locked until the file is removed, so that only one of two sweepers acts.
        let Ok(file) = open_to_lock(&path) else {
            continue;
        };
        if file.try_lock().is_ok() {
            tracing::debug!(path = %path.display(), "removing what a run that was killed left");
            remove(&path);
        }
    }
}

/// Opens a regular file to lock it, not to read it.
pub(super) fn open_to_lock(path: &Path) -> io::Result<File> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags);
    let file = lend(|| options.open(path))?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}
