//! Reads files beneath a folder that the supervisor holds.
//!
//! Prepare opens nothing. It asks for each file by name, and the supervisor decides (`supervisor/src/opener.rs`):
//! beneath the folder, of a kind used by meshes and views, a regular file, within the size limit. The answer is a
//! descriptor for reading. A name is a path in bytes; percent-decoding of URIs is left to the caller.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use nix::libc::ENAMETOOLONG;
use proto::limits::MAX_NAME_BYTES;
use proto::message::{Code, Refusal, Root};

use crate::worker::progress::unit;

/// Bytes of one read.
const PIECE: usize = 16 << 20;

/// Why a file is not read. The caller adds the name.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The supervisor refuses to open it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Not enough memory for its content.
    #[error("there is no memory for its {0} bytes")]
    Memory(u64),
    /// Reading the opened file failed.
    #[error("cannot be read ({0})")]
    Io(#[from] io::Error),
    /// The session with the supervisor failed.
    #[error(transparent)]
    Session(Box<dyn std::error::Error + Send + Sync>),
}

impl FolderError {
    /// The code reported to the user.
    pub fn code(&self) -> Code {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Io(_) => Code::IoError,
            Self::Memory(_) => Code::OutOfHostMemory,
            Self::Session(_) => Code::Internal,
        }
    }

    /// The code for a file that another file names, not the user: if it is missing or unreadable, the data are bad.
    pub(crate) fn code_of_named(&self) -> Code {
        match self.code() {
            Code::MissingInput => Code::InvalidAsset,
            code => code,
        }
    }
}

/// Opens files beneath a root.
pub trait Files: std::fmt::Debug + Sync {
    /// Opens the regular file `name` beneath `root` if it has at most `limit` bytes. Returns descriptor and size.
    ///
    /// # Errors
    /// The first reason not to.
    fn open(&self, root: Root, name: &str, limit: u64) -> Result<(OwnedFd, u64), FolderError>;
}

/// A folder, and everything beneath it.
#[derive(Clone, Copy, Debug)]
pub struct Folder<'a> {
    files: &'a dyn Files,
    root: Root,
}

impl<'a> Folder<'a> {
    /// The folder `root` of `files`.
    pub fn new(files: &'a dyn Files, root: Root) -> Self {
        Self { files, root }
    }

    /// Another root of the same files.
    pub fn beside(&self, root: Root) -> Self {
        Self { root, ..*self }
    }

    /// Opens the regular file `name` beneath the folder if it has at most `limit` bytes.
    ///
    /// # Errors
    /// The first reason not to.
    pub fn open(&self, name: &str, limit: u64) -> Result<Opened, FolderError> {
        if name.len() > MAX_NAME_BYTES {
            // Longer than any path, and perhaps than a packet.
            return Err(Refusal::Os(ENAMETOOLONG).into());
        }
        let (fd, size) = self.files.open(self.root, name, limit)?;
        Ok(Opened {
            file: File::from(fd),
            size,
        })
    }

    /// Reads the regular file `name` beneath the folder if it has at most `limit` bytes.
    ///
    /// # Errors
    /// The first reason not to.
    pub fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, FolderError> {
        self.open(name, limit)?.read(limit)
    }
}

/// An opened file, readable from many threads at once.
#[derive(Debug)]
pub struct Opened {
    file: File,
    size: u64,
}

impl Opened {
    /// Its size when it was opened.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads the whole file if it has at most `limit` bytes.
    ///
    /// # Errors
    /// The first reason not to.
    pub fn read(&self, limit: u64) -> Result<Vec<u8>, FolderError> {
        let size = self.size;
        if size > limit {
            return Err(Refusal::TooLarge { size, limit }.into());
        }
        let mut bytes = Vec::new();
        let capacity =
            usize::try_from(size).map_err(|_beyond_address_space| FolderError::Memory(size))?;
        bytes
            .try_reserve_exact(capacity)
            .map_err(|_refused| FolderError::Memory(size))?;
        bytes.resize(capacity, 0);
        let read = fill(&self.file, &mut bytes, 0)?;
        bytes.truncate(read);
        if read == capacity && self.file.read_at(&mut [0], size)? > 0 {
            // It grew, nobody knows by how much.
            let size = size.saturating_add(1);
            if size > limit {
                return Err(Refusal::TooLarge { size, limit }.into());
            }
            return Err(io::Error::other("it grows while it is read").into());
        }
        Ok(bytes)
    }

    /// Fills the buffer from byte `at` on. Returns the number of bytes, fewer only at the end of the file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, FolderError> {
        Ok(fill(&self.file, buffer, at)?)
    }
}

/// Reads from `start` until the buffer is full or the file ends. Returns the number of bytes.
fn fill(file: &File, buffer: &mut [u8], start: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        let end = buffer.len().min(read + PIECE);
        match file.read_at(&mut buffer[read..end], start.saturating_add(read as u64)) {
            Ok(0) => break,
            Ok(count) => {
                read += count;
                unit();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// For tests: a folder opened by this process, without the supervisor's checks.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Local(pub(crate) std::path::PathBuf);

#[cfg(test)]
impl Files for Local {
    fn open(&self, root: Root, name: &str, limit: u64) -> Result<(OwnedFd, u64), FolderError> {
        if root == Root::Masks {
            return Err(Refusal::Missing.into());
        }
        if name.starts_with('/') || name.split('/').any(|part| part == "..") {
            return Err(Refusal::Outside.into());
        }
        if name.is_empty() {
            return Err(Refusal::EmptyName.into());
        }
        let file = File::open(self.0.join(name)).map_err(|_absent| Refusal::Missing)?;
        if file.metadata()?.is_dir() {
            // It has no listed ending.
            return Err(Refusal::Unlisted.into());
        }
        let size = file.metadata()?.len();
        if size > limit {
            return Err(Refusal::TooLarge { size, limit }.into());
        }
        Ok((file.into(), size))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::thread;

    use proto::channel::Channel;
    use proto::message::{FromChild, ToChild};

    use super::*;
    use crate::worker::session::Session;

    /// Answers a request for `n.bin` with a file of n bytes of value n, and `none` with a refusal. Sends a stray
    /// `EndOfViews` before each answer.
    fn supervise(channel: &Channel) {
        while let Ok(FromChild::Open { name, limit, .. }) = channel.receive() {
            channel
                .send(&ToChild::EndOfViews { count: 0 }, &[])
                .unwrap();
            let number: Option<u8> = name.strip_suffix(".bin").and_then(|n| n.parse().ok());
            let Some(number) = number else {
                let outcome = Err(Refusal::Unlisted);
                channel.send(&ToChild::Opened { outcome }, &[]).unwrap();
                continue;
            };
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![number; usize::from(number)]).unwrap();
            // States a size one byte too small where the limit is one byte too small.
            let outcome = Ok(limit.min(u64::from(number)));
            channel
                .send(&ToChild::Opened { outcome }, &[file.as_fd()])
                .unwrap();
        }
    }

    fn with_session(test: impl FnOnce(&Session)) {
        let (ours, theirs) = Channel::pair().unwrap();
        let supervisor = thread::spawn(move || supervise(&ours));
        let session = Session::over(theirs);
        test(&session);
        drop(session);
        supervisor.join().unwrap();
    }

    #[test]
    fn every_thread_gets_the_file_that_it_asked_for() {
        with_session(|session| {
            thread::scope(|scope| {
                for thread in 0..8_u8 {
                    scope.spawn(move || {
                        let folder = Folder::new(session, Root::Views);
                        for number in (1..100).map(|n| n + thread) {
                            let bytes = folder.read(&format!("{number}.bin"), 200).unwrap();
                            assert_eq!(bytes, vec![number; usize::from(number)]);
                        }
                    });
                }
            });
        });
    }

    #[test]
    fn refusals_keep_their_words_and_growth_is_noticed() {
        with_session(|session| {
            let folder = Folder::new(session, Root::Mesh);
            let error = folder.read("none", 9).unwrap_err();
            assert_eq!(
                error.to_string(),
                "is not a file of a mesh or a view, going by its name"
            );
            let error = folder.read("7.bin", 6).unwrap_err();
            assert_eq!(
                error.to_string(),
                "has 7 bytes, more than the 6 that are taken"
            );
            let error = folder.read(&"x".repeat(5000), 9).unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with("cannot be read (File name too long")
            );
        });
    }
}
