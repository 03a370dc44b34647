//! The files of the pipeline cache: one for each key, `<64 hexadecimal digits>.pipelines`, in a folder of the user's
//! own.
//!
//! ```text
//!  "KILNPIPE" │ version u32 │ length u64 │ key 32 │ SHA-256 of version, length, key and pipelines 32 │ pipelines
//! ```
//!
//! A driver trusts what it is given, so a file is used only if nobody else can have written it: a regular file, not a
//! link, owned by this user, of mode 0600, in a folder that nobody else may write. Length, key and checksum must be
//! right, too. A file gets its name when it is complete. Nothing is synced: what a power cut leaves fails the checksum.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use proto::blob::{Blob, BlobError};
use proto::limits::MAX_PIPELINES_BYTES;
use sha2::{Digest as _, Sha256};

use crate::host::pipelines::Key;
use crate::process::reserve::lend;

/// Files beyond this number are removed, oldest first: they are of past builds and drivers.
pub const KEPT: usize = 16;
/// An incomplete file of this age will never be completed.
const STALE: Duration = Duration::from_secs(3600);

const MAGIC: [u8; 8] = *b"KILNPIPE";
const VERSION: u32 = 1;
const HEADER: usize = 8 + 4 + 8 + 32 + 32;
const SUFFIX: &str = ".pipelines";
const UNFINISHED: &str = ".unfinished";

/// Why a file is not used, or not written.
#[derive(Debug, thiserror::Error)]
pub enum Doubt {
    /// A system call failed.
    #[error("{what}")]
    Os {
        /// Which call.
        what: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Somebody else can have written it, or it is not a regular file.
    #[error("the {what} is {why}")]
    Foreign {
        /// Folder or file.
        what: &'static str,
        /// Why it is not trusted.
        why: &'static str,
    },
    /// Its contents differ from what was written.
    #[error("the file {0}")]
    Damaged(&'static str),
    /// Too large to be cached.
    #[error("{0} bytes of pipelines are more than {MAX_PIPELINES_BYTES}")]
    TooLarge(u64),
    /// Shared memory failed.
    #[error(transparent)]
    Blob(#[from] BlobError),
}

fn os<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Doubt {
    move |error| Doubt::Os {
        what,
        source: error.into(),
    }
}

/// The folder of the cache; see the head of this file.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder at this path; the first file creates it.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The cached pipelines, sealed; `None` if there is no file.
    ///
    /// # Errors
    /// Why the file must not be used.
    pub fn load(&self, key: &Key) -> Result<Option<Blob>, Doubt> {
        let Some(folder) = self.open()? else {
            return Ok(None);
        };
        // Non-blocking, so as not to wait for a pipe that nobody writes.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let opened = lend(|| {
            let opened = openat(&folder, &*name(key), flags, Mode::empty());
            opened.map_err(io::Error::from)
        });
        let file = match opened {
            Ok(file) => File::from(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.raw_os_error() == Some(Errno::ELOOP as i32) => {
                return Err(foreign("file", "a link"));
            }
            Err(error) => return Err(os("open")(error)),
        };
        let metadata = file.metadata().map_err(os("stat"))?;
        if !metadata.is_file() {
            return Err(foreign("file", "no regular file"));
        }
        if metadata.uid() != geteuid().as_raw() {
            return Err(foreign("file", "another user's"));
        }
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(foreign("file", "open to others"));
        }
        if metadata.len() > HEADER as u64 + MAX_PIPELINES_BYTES {
            return Err(Doubt::TooLarge(metadata.len()));
        }
        let mut bytes = Vec::new();
        let mut bounded = file.take(HEADER as u64 + MAX_PIPELINES_BYTES);
        bounded.read_to_end(&mut bytes).map_err(os("read"))?;
        let pipelines = unpack(key, &bytes)?;
        let blob = lend(|| Blob::create("kiln-pipelines", pipelines.len() as u64))?;
        let written = blob.file().write_all_at(pipelines, 0);
        written.map_err(os("write to memory"))?;
        blob.seal_written()?;
        Ok(Some(blob))
    }

    /// Replaces the pipelines of this key and removes old files.
    ///
    /// # Errors
    /// Why they are not cached.
    pub fn store(&self, key: &Key, pipelines: &Blob) -> Result<(), Doubt> {
        if pipelines.len() > MAX_PIPELINES_BYTES {
            return Err(Doubt::TooLarge(pipelines.len()));
        }
        let mut bytes = Vec::with_capacity(pipelines.len() as usize);
        let read = pipelines.reader().read_to_end(&mut bytes);
        read.map_err(os("read of memory"))?;
        if let Err(error) = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
        {
            return Err(os("mkdir")(error));
        }
        let folder = self.open()?.ok_or(Doubt::Foreign {
            what: "folder",
            why: "gone",
        })?;
        let unfinished = format!(
            ".{:016x}{UNFINISHED}",
            RandomState::new().hash_one(key.bytes())
        );
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = lend(|| {
            let made = openat(
                &folder,
                &*unfinished,
                flags,
                Mode::from_bits_truncate(0o600),
            );
            made.map_err(io::Error::from)
        });
        let mut file = File::from(file.map_err(os("open"))?);
        let named = file
            .write_all(&header(key, &bytes))
            .and_then(|()| file.write_all(&bytes))
            .map_err(os("write"))
            .and_then(|()| {
                let renamed = renameat(&folder, &*unfinished, &folder, &*name(key));
                renamed.map_err(os("rename"))
            });
        if named.is_err() {
            discard(&folder, OsStr::new(&unfinished));
        }
        named?;
        self.sweep(&folder, SystemTime::now());
        Ok(())
    }

    /// Removes the pipelines of a key.
    ///
    /// # Errors
    /// They may still be there.
    pub fn remove(&self, key: &Key) -> Result<(), Doubt> {
        let Some(folder) = self.open()? else {
            return Ok(());
        };
        match unlinkat(&folder, &*name(key), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(os("unlink")(errno)),
        }
    }

    /// Opens the folder, if it exists and nobody else can have written into it.
    fn open(&self) -> Result<Option<OwnedFd>, Doubt> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = lend(|| open(&self.path, flags, Mode::empty()).map_err(io::Error::from));
        let folder = match opened {
            Ok(folder) => File::from(folder),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // A link is not a directory.
            Err(error) => return Err(os("open of the folder")(error)),
        };
        let metadata = folder.metadata().map_err(os("stat"))?;
        if metadata.uid() != geteuid().as_raw() {
            return Err(foreign("folder", "another user's"));
        }
        if metadata.permissions().mode() & 0o022 != 0 {
            return Err(foreign("folder", "open to others"));
        }
        Ok(Some(folder.into()))
    }

    /// Removes the oldest files, and those that nobody will complete. Best effort.
    fn sweep(&self, folder: &OwnedFd, now: SystemTime) {
        let Ok(entries) = fs::read_dir(&self.path) else {
            return;
        };
        let mut kept = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Ok(written) = entry.metadata().and_then(|metadata| metadata.modified()) else {
                continue;
            };
            let ends = |suffix: &str| OsStr::as_bytes(&name).ends_with(suffix.as_bytes());
            let age = now.duration_since(written).unwrap_or_default();
            if ends(SUFFIX) || (ends(UNFINISHED) && age > STALE) {
                let unfinished = ends(UNFINISHED);
                kept.push((unfinished, age, name));
            }
        }
        // Complete files come first, the newest at the front.
        kept.sort_unstable();
        let complete = kept
            .iter()
            .take_while(|(unfinished, ..)| !unfinished)
            .count();
        for (_, _, name) in kept.iter().skip(complete.min(KEPT)) {
            discard(folder, name);
        }
    }
}

/// Best effort: a file that stays is swept later.
fn discard(folder: &OwnedFd, name: &OsStr) {
    if let Err(errno) = unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
        tracing::debug!(%errno, name = %name.display(), "an old file of pipelines stays");
    }
}

fn foreign(what: &'static str, why: &'static str) -> Doubt {
    Doubt::Foreign { what, why }
}

fn name(key: &Key) -> String {
    format!("{key}{SUFFIX}")
}

fn header(key: &Key, pipelines: &[u8]) -> Vec<u8> {
    let (version, length) = (
        VERSION.to_le_bytes(),
        (pipelines.len() as u64).to_le_bytes(),
    );
    [
        &MAGIC[..],
        &version,
        &length,
        key.bytes(),
        &checksum(key, pipelines),
    ]
    .concat()
}

fn checksum(key: &Key, pipelines: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(VERSION.to_le_bytes());
    hash.update((pipelines.len() as u64).to_le_bytes());
    hash.update(key.bytes());
    hash.update(pipelines);
    hash.finalize().into()
}

/// The pipelines of a file, if it is exactly as it was written for this key.
fn unpack<'a>(key: &Key, bytes: &'a [u8]) -> Result<&'a [u8], Doubt> {
    let (head, pipelines) = bytes
        .split_at_checked(HEADER)
        .ok_or(Doubt::Damaged("is cut short"))?;
    let wanted = header(key, pipelines);
    let differs = |from: usize, to: usize| head.get(from..to) != wanted.get(from..to);
    let why = if differs(0, 8) {
        "is none of pipelines"
    } else if differs(8, 12) {
        "is of another version"
    } else if differs(12, 20) || pipelines.is_empty() {
        "is cut short or has grown"
    } else if differs(20, 52) {
        "is of another adapter, driver or build"
    } else if differs(52, HEADER) {
        "does not pass its checksum"
    } else {
        return Ok(pipelines);
    };
    Err(Doubt::Damaged(why))
}

#[cfg(test)]
mod tests;
