//! A folder that was handed over as a descriptor → bytes of the regular files beneath it, and of nothing else.
//!
//! Names come from untrusted files. The kernel resolves them (`openat2`, `RESOLVE_BENEATH`), so neither `..`, nor an
//! absolute name, nor a symbolic link leaves the folder, whatever another process renames meanwhile. Symbolic links that
//! stay beneath are followed. A name is bytes of a path: percent-decoding of URIs is the caller's matter.
//! Opening never waits (a pipe without a writer), and only what `fstat` calls a regular file is read.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use proto::message::Code;

/// The kernel answers `EAGAIN` when a rename races with the resolution of `..`; it asks to try again.
const RESOLVE_ATTEMPTS: usize = 16;

/// Why a file of a folder is not read. The name is the caller's to add.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The empty name.
    #[error("the file name is empty")]
    EmptyName,
    /// A name with a NUL character.
    #[error("the file name contains a NUL character")]
    NulInName,
    /// The name, or a symbolic link on its way, leaves the folder.
    #[error("lies outside its folder")]
    Outside,
    /// Nothing of this name.
    #[error("no such file")]
    Missing,
    /// A directory, device, pipe or socket.
    #[error("is {0}, not a regular file")]
    NotAFile(&'static str),
    /// Larger than the caller's bound.
    #[error("has {size} bytes, more than the {limit} that are taken")]
    TooLarge {
        /// Size of the file in bytes.
        size: u64,
        /// The bound in bytes.
        limit: u64,
    },
    /// The memory for its content is not to be had.
    #[error("there is no memory for its {0} bytes")]
    Memory(u64),
    /// The system refuses for another reason.
    #[error("cannot be read ({0})")]
    Io(#[from] io::Error),
}

impl FolderError {
    /// The code under which a user is told.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::EmptyName | Self::NulInName => Code::InvalidAsset,
            Self::Outside | Self::Missing | Self::NotAFile(_) | Self::Io(_) => Code::MissingInput,
            Self::TooLarge { .. } => Code::LimitExceeded,
            Self::Memory(_) => Code::OutOfHostMemory,
        }
    }
}

/// Where bytes by name come from: a [`Folder`], or memory for whoever tries a reader alone.
pub trait Files {
    /// Reads the file `name` if it has at most `limit` bytes.
    ///
    /// # Errors
    /// The first reason not to.
    fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, FolderError>;
}

impl Files for Folder {
    fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, FolderError> {
        Self::read(self, name, limit)
    }
}

/// A folder, and everything beneath it.
#[derive(Debug)]
pub struct Folder {
    root: OwnedFd,
}

impl Folder {
    /// The folder that `root`, an open directory, stands for.
    #[must_use]
    pub fn new(root: OwnedFd) -> Self {
        Self { root }
    }

    /// Reads the regular file `name` beneath the folder if it has at most `limit` bytes.
    ///
    /// # Errors
    /// The first reason not to.
    pub fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, FolderError> {
        let mut file = File::from(self.open(name)?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(FolderError::NotAFile(kind(&metadata)));
        }
        let size = metadata.len();
        if size > limit {
            return Err(FolderError::TooLarge { size, limit });
        }
        let mut bytes = Vec::new();
        let capacity =
            usize::try_from(size).map_err(|_beyond_address_space| FolderError::Memory(size))?;
        bytes
            .try_reserve_exact(capacity)
            .map_err(|_refused| FolderError::Memory(size))?;
        // The file may grow while it is read: one byte more than allowed shows it.
        let read = (&mut file)
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)? as u64;
        if read > limit {
            return Err(FolderError::TooLarge { size: read, limit });
        }
        Ok(bytes)
    }

    fn open(&self, name: &str) -> Result<OwnedFd, FolderError> {
        if name.is_empty() {
            return Err(FolderError::EmptyName);
        }
        if name.contains('\0') {
            return Err(FolderError::NulInName);
        }
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        for _ in 0..RESOLVE_ATTEMPTS {
            return match openat2(&self.root, name, how) {
                Ok(fd) => Ok(fd),
                Err(Errno::EAGAIN | Errno::EINTR) => continue,
                Err(Errno::EXDEV) => Err(FolderError::Outside),
                Err(Errno::ENOENT | Errno::ENOTDIR) => Err(FolderError::Missing),
                // A device without a driver, or a socket.
                Err(Errno::ENXIO | Errno::ENODEV) => {
                    Err(FolderError::NotAFile("a device or socket"))
                }
                Err(errno) => Err(FolderError::Io(errno.into())),
            };
        }
        Err(FolderError::Io(Errno::EAGAIN.into()))
    }
}

fn kind(metadata: &std::fs::Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else {
        "a device or socket"
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    /// `secret` beside the folder, `inner` in it, and every way to name something else.
    fn folder() -> (tempfile::TempDir, Folder) {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(outer.path().join("secret"), b"secret").unwrap();
        std::fs::write(root.join("inner"), b"inner").unwrap();
        symlink("../inner", root.join("sub/stays")).unwrap();
        symlink("../../secret", root.join("sub/leaves")).unwrap();
        symlink(outer.path().join("secret"), root.join("absolute")).unwrap();
        mkfifo(&root.join("pipe"), Mode::S_IRWXU).unwrap();
        let fd = File::open(&root).unwrap().into();
        (outer, Folder::new(fd))
    }

    #[test]
    fn files_beneath_are_read() {
        let (_guard, folder) = folder();
        for name in ["inner", "./inner", "sub/../inner", "sub/stays"] {
            assert_eq!(folder.read(name, 5).unwrap(), b"inner", "{name}");
        }
    }

    #[test]
    fn nothing_outside_is_opened() {
        let (guard, folder) = folder();
        let absolute = guard.path().join("secret").to_str().unwrap().to_owned();
        for name in [
            "../secret",
            "sub/../../secret",
            "sub/leaves",
            "absolute",
            "/etc/passwd",
            "/",
            &absolute,
        ] {
            let error = folder.read(name, 1 << 20).unwrap_err();
            assert!(matches!(error, FolderError::Outside), "{name}: {error}");
        }
    }

    #[test]
    fn only_regular_files_of_bounded_size_are_read() {
        let (_guard, folder) = folder();
        let error = |name: &str, limit| folder.read(name, limit).unwrap_err().to_string();
        assert_eq!(error("", 9), "the file name is empty");
        assert_eq!(error("a\0b", 9), "the file name contains a NUL character");
        assert_eq!(error("absent", 9), "no such file");
        assert_eq!(error("inner/child", 9), "no such file");
        assert_eq!(error("sub", 9), "is a directory, not a regular file");
        assert_eq!(error(".", 9), "is a directory, not a regular file");
        assert_eq!(error("pipe", 9), "is a pipe, not a regular file");
        assert_eq!(
            error("inner", 4),
            "has 5 bytes, more than the 4 that are taken"
        );
        assert!(matches!(
            folder.read(&"x".repeat(5000), 9),
            Err(FolderError::Io(_))
        ));
    }
}
