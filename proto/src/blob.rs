//! Bulk data between processes: a memfd that the supervisor creates, sizes and seals.
//!
//! ```text
//!  supervisor: Blob::create(bytes)   seals GROW, SHRINK      the size cannot change any more: no SIGBUS
//!  child:      BlobFile::open(fd)    checks seals and size   then pwrite through io::Write
//!  supervisor: Blob::seal_written()  seals WRITE, SEAL       no byte can change any more
//!  next child: BlobFile::open(fd)    checks again            then pread through io::Read: a copy, never a mapping
//! ```

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use sha2::Digest as _;

use crate::limits::MAX_BLOB_BYTES;
use crate::message::Sha256;

/// Why memory cannot be shared.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// Larger than [`MAX_BLOB_BYTES`], or empty.
    #[error("a blob of {0} bytes is not within 1 to {MAX_BLOB_BYTES}")]
    Size(u64),
    /// The kernel refused.
    #[error("{what}")]
    Os {
        /// The call.
        what: &'static str,
        /// Its error.
        #[source]
        source: io::Error,
    },
    /// The descriptor can still change size, or is no memfd.
    #[error("file descriptor is not sealed in size")]
    Unsealed,
}

fn os(what: &'static str) -> impl FnOnce(nix::Error) -> BlobError {
    move |errno| BlobError::Os {
        what,
        source: errno.into(),
    }
}

/// The digest of a file's bytes.
pub fn sha256(bytes: &[u8]) -> Sha256 {
    sha2::Sha256::digest(bytes).into()
}

/// The supervisor's end: owns the memory for as long as the job may need it again.
#[derive(Debug)]
pub struct Blob {
    file: File,
    bytes: u64,
}

impl Blob {
    /// Creates zeroed memory of `bytes` bytes, sealed in size. `name` shows in `/proc/PID/fd`.
    ///
    /// # Errors
    /// [`BlobError::Size`] outside the limits; [`BlobError::Os`] without descriptors or memory.
    pub fn create(name: &str, bytes: u64) -> Result<Self, BlobError> {
        if bytes == 0 || bytes > MAX_BLOB_BYTES {
            return Err(BlobError::Size(bytes));
        }
        let name = CString::new(name).unwrap_or_default();
        let fd = memfd_create(
            name.as_c_str(),
            MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING,
        )
        .map_err(os("memfd_create"))?;
        let file = File::from(fd);
        file.set_len(bytes).map_err(|source| BlobError::Os {
            what: "ftruncate",
            source,
        })?;
        let seals = SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).map_err(os("F_ADD_SEALS"))?;
        Ok(Self { file, bytes })
    }

    /// Seals the contents: from here on no byte can change. Fails with EBUSY while a child holds a writable mapping;
    /// Kiln's children never make one.
    ///
    /// # Errors
    /// [`BlobError::Os`].
    pub fn seal_written(&self) -> Result<(), BlobError> {
        let seals = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SEAL;
        insist(|| fcntl(&self.file, FcntlArg::F_ADD_SEALS(seals)).map(drop))
            .map_err(os("F_ADD_SEALS"))
    }

    /// Size in bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Always false: a blob has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// For reads at offsets, also while a child is writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads from the start.
    pub fn reader(&self) -> BlobReader<'_> {
        BlobReader {
            file: &self.file,
            offset: 0,
        }
    }
}

/// Repeats a call that is busy. The kernel refuses a seal while anybody refers to a page, be it itself for a moment: its
/// reclaim, its compaction. It then waits within the call, for some 160 ms (`memfd_wait_for_pins`), which paces the
/// repetition. A writable mapping is refused at once, each time.
fn insist(mut call: impl FnMut() -> nix::Result<()>) -> nix::Result<()> {
    const TRIES: u32 = 8;
    for _ in 1..TRIES {
        match call() {
            Err(Errno::EBUSY) => {}
            result => return result,
        }
    }
    call()
}

impl AsFd for Blob {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A child's end.
#[derive(Debug)]
pub struct BlobFile {
    file: File,
    bytes: u64,
}

impl BlobFile {
    /// Takes a received descriptor after checking its seals and size.
    ///
    /// # Errors
    /// [`BlobError::Unsealed`] for anything but a memfd sealed in size; [`BlobError::Size`] outside the limits.
    pub fn open(fd: OwnedFd) -> Result<Self, BlobError> {
        let seals =
            fcntl(&fd, FcntlArg::F_GET_SEALS).map_err(|_not_a_memfd| BlobError::Unsealed)?;
        let seals = SealFlag::from_bits_truncate(seals);
        if !seals.contains(SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK) {
            return Err(BlobError::Unsealed);
        }
        let mut file = File::from(fd);
        // Not by fstat: C libraries turn it into a call that takes a path, which the sandbox forbids.
        let bytes = file
            .seek(SeekFrom::End(0))
            .map_err(|source| BlobError::Os {
                what: "lseek",
                source,
            })?;
        if bytes == 0 || bytes > MAX_BLOB_BYTES {
            return Err(BlobError::Size(bytes));
        }
        Ok(Self { file, bytes })
    }

    /// Size in bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Always false: a blob has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Reads from the start.
    pub fn reader(&self) -> BlobReader<'_> {
        BlobReader {
            file: &self.file,
            offset: 0,
        }
    }

    /// Writes from the start.
    pub fn writer(&self) -> BlobWriter<'_> {
        BlobWriter {
            file: &self.file,
            offset: 0,
        }
    }
}

/// Reads a blob in order, by `pread`.
#[derive(Debug)]
pub struct BlobReader<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for BlobReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// Writes a blob in order, by `pwrite`. The kernel refuses writes past its end, since the size is sealed.
#[derive(Debug)]
pub struct BlobWriter<'a> {
    file: &'a File,
    offset: u64,
}

impl Write for BlobWriter<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.file.write_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_then_frozen() {
        let blob = Blob::create("test", 5).expect("memory");
        let child =
            BlobFile::open(blob.as_fd().try_clone_to_owned().expect("fd")).expect("sealed in size");
        child.writer().write_all(b"kiln!").expect("within the size");
        blob.seal_written().expect("no mapping");
        assert!(
            child.writer().write_all(b"again").is_err(),
            "a frozen blob takes no byte"
        );
        let mut text = String::new();
        blob.reader().read_to_string(&mut text).expect("readable");
        assert_eq!(text, "kiln!");
    }

    #[test]
    fn a_busy_kernel_is_asked_again_and_not_for_ever() {
        let asked = |busy: u32, then: nix::Result<()>| {
            let mut calls = 0;
            let result = insist(|| {
                calls += 1;
                if calls <= busy {
                    Err(Errno::EBUSY)
                } else {
                    then
                }
            });
            (calls, result)
        };
        assert_eq!(asked(0, Ok(())), (1, Ok(())));
        assert_eq!(asked(3, Ok(())), (4, Ok(())));
        assert_eq!(asked(3, Err(Errno::EPERM)), (4, Err(Errno::EPERM)));
        assert_eq!(asked(99, Ok(())), (8, Err(Errno::EBUSY)));
    }

    #[test]
    fn a_digest_is_sha_256() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(sha256(b"abc")[..4], [0xba, 0x78, 0x16, 0xbf]);
    }

    #[test]
    fn size_cannot_change_and_is_bounded() {
        let blob = Blob::create("test", 16).expect("memory");
        let child = BlobFile::open(blob.as_fd().try_clone_to_owned().expect("fd")).expect("sealed");
        assert!(child.writer().write_all(&[0; 17]).is_err(), "past the end");
        assert!(child.file.set_len(4).is_err(), "shrink");
        assert!(child.file.set_len(400).is_err(), "grow");
        assert!(matches!(Blob::create("test", 0), Err(BlobError::Size(0))));
        assert!(matches!(
            Blob::create("test", MAX_BLOB_BYTES + 1),
            Err(BlobError::Size(_))
        ));
    }

    #[test]
    fn anything_but_a_sealed_memfd_is_refused() {
        let file = File::open("/dev/null").expect("there");
        assert!(matches!(
            BlobFile::open(file.into()),
            Err(BlobError::Unsealed)
        ));
        let open = memfd_create(c"test", MFdFlags::MFD_ALLOW_SEALING).expect("memory");
        assert!(matches!(BlobFile::open(open), Err(BlobError::Unsealed)));
    }
}
