//! Tells why a system call on a file failed: because of the file's place, which only another name or a person can fix,
//! or because of the disk, which may recover in a moment.

use std::io::{Error, ErrorKind};

use nix::libc::{ELOOP, ENODEV, ENXIO};

/// Whether the file is missing, is not a file, or may not be accessed. Otherwise the disk is full or broken, its server
/// does not answer, or this process is short of something.
pub fn is_wrong(error: &Error) -> bool {
    let kind = matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::DirectoryNotEmpty
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::AlreadyExists
            | ErrorKind::InvalidFilename
            | ErrorKind::InvalidInput
            | ErrorKind::CrossesDevices
            | ErrorKind::ExecutableFileBusy
            | ErrorKind::ResourceBusy
            | ErrorKind::Unsupported
    );
    // These have no stable name in std.
    kind || matches!(error.raw_os_error(), Some(ELOOP | ENODEV | ENXIO))
}

#[cfg(test)]
mod tests {
    use nix::libc;

    use super::*;
    use crate::message::{Code, Refusal};

    #[test]
    fn places_are_wrong_and_disks_fail() {
        for errno in [
            libc::ENOENT,
            libc::EACCES,
            libc::EPERM,
            libc::EROFS,
            libc::EISDIR,
            libc::ENOTDIR,
            libc::ENAMETOOLONG,
            ELOOP,
            libc::EXDEV,
            libc::EOPNOTSUPP,
        ] {
            assert!(is_wrong(&Error::from_raw_os_error(errno)), "{errno}");
        }
        for errno in [
            libc::EIO,
            libc::ENOSPC,
            libc::EDQUOT,
            libc::EFBIG,
            libc::ESTALE,
            libc::ETIMEDOUT,
            libc::EMFILE,
            libc::ENFILE,
            libc::ENOMEM,
        ] {
            assert!(!is_wrong(&Error::from_raw_os_error(errno)), "{errno}");
        }
        assert!(!is_wrong(&ErrorKind::WriteZero.into()));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_called_missing() {
        assert_eq!(Refusal::Os(libc::EIO).code(), Code::IoError);
        assert_eq!(Refusal::Slow(10).code(), Code::IoError);
        assert_eq!(Refusal::Os(libc::EACCES).code(), Code::MissingInput);
    }
}
