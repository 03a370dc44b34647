//! Implements [`Files`] without a supervisor: one file in memory, in a folder with every other file that a mesh asks
//! for.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use baker::worker::folder::{Files, FolderError};
use nix::sys::memfd::{MFdFlags, memfd_create};
use proto::message::{Refusal, Root};

/// The contents of every other file.
const OTHER: [u8; 4096] = [0; 4096];

/// The file `name`. Every other file is full of zeros, except those that the supervisor never opens.
#[derive(Debug)]
pub struct One<'a> {
    /// Name of the file.
    pub name: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

impl Files for One<'_> {
    fn open(&self, _root: Root, name: &str, limit: u64) -> Result<(OwnedFd, u64), FolderError> {
        judge(name)?;
        let bytes = if name == self.name {
            self.bytes
        } else {
            &OTHER[..]
        };
        opened(bytes, limit)
    }
}

/// Refuses what the supervisor never opens.
pub(crate) fn judge(name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::EmptyName);
    }
    if name.contains('\0') {
        return Err(Refusal::NulInName);
    }
    if name.starts_with('/') || name.split('/').any(|part| part == "..") {
        return Err(Refusal::Outside);
    }
    if name.starts_with("missing") {
        return Err(Refusal::Missing);
    }
    Ok(())
}

/// A file with these bytes, if there are no more than `limit`.
pub(crate) fn opened(bytes: &[u8], limit: u64) -> Result<(OwnedFd, u64), FolderError> {
    let size = bytes.len() as u64;
    if size > limit {
        return Err(Refusal::TooLarge { size, limit }.into());
    }
    let mut file = File::from(memfd_create("file", MFdFlags::MFD_CLOEXEC).expect("memory"));
    file.write_all(bytes)?;
    Ok((file.into(), size))
}

#[cfg(test)]
mod tests {
    use baker::worker::folder::Folder;

    use super::*;

    #[test]
    fn files_are_read_and_refused_as_the_supervisor_does() {
        let files = One {
            name: "a.glb",
            bytes: b"abc",
        };
        let folder = Folder::new(&files, Root::Mesh);
        assert_eq!(folder.read("a.glb", 3).expect("there"), b"abc");
        assert_eq!(folder.read("b.bin", 4096).expect("zeros"), OTHER);
        for name in ["", "/a.glb", "x/../a.glb", "a\0", "missing.bin"] {
            assert!(folder.read(name, 9).is_err(), "{name:?}");
        }
        assert!(folder.read("a.glb", 2).is_err(), "larger than the limit");
    }
}
