//! A small file that is read whole, without waiting for a writer that may never come.
//!
//! A pipe is opened without blocking. Where somebody has it open for writing, or wrote to it and left, its bytes are read to
//! their end, as of `<(…)` in a shell. Where nobody has, opening it in the usual way would wait for ever.

use std::fs::{Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::{ELOOP, ENXIO};

use super::reason;

/// Who chose the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// The user, by its name: it may be a link, or a pipe.
    ByUser,
    /// Its folder, which may be another's: it must be a regular file.
    ByFolder,
}

/// Reads a file of at most `most` bytes. Its metadata are those of what was read.
///
/// # Errors
/// Why not, in a few words.
pub fn whole(path: &Path, most: u64, chosen: Chosen) -> Result<(Vec<u8>, Metadata), String> {
    let mut flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    flags.set(OFlag::O_NOFOLLOW, chosen == Chosen::ByFolder);
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(flags.bits()).open(path);
    let mut file = opened.map_err(|error| match error.raw_os_error() {
        Some(ELOOP) if chosen == Chosen::ByFolder => "is a link, not a file".to_owned(),
        Some(ENXIO) => "is a socket or a device, not a file".to_owned(),
        _ => reason(&error),
    })?;
    let metadata = file.metadata().map_err(|error| reason(&error))?;
    let piped = metadata.file_type().is_fifo() && chosen == Chosen::ByUser;
    if !metadata.is_file() && !piped {
        return Err("is not a file".to_owned());
    }
    let mut bytes = vec![0; usize::from(piped)];
    if piped {
        match file.read(&mut bytes) {
            Ok(0) => return Err("is a pipe that nobody writes to".to_owned()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => bytes.clear(),
            Err(error) => return Err(reason(&error)),
        }
        // A writer is there; from here on it is waited for.
        fcntl(&file, FcntlArg::F_SETFL(OFlag::empty())).map_err(|errno| reason(&errno.into()))?;
    }
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| reason(&error))?;
    match bytes.len() as u64 > most {
        true => Err(format!("has more than {most} bytes")),
        false => Ok((bytes, metadata)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    fn told(path: &Path, chosen: Chosen) -> Result<Vec<u8>, String> {
        whole(path, 4, chosen).map(|(bytes, _)| bytes)
    }

    #[test]
    fn what_is_no_file_is_told_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        mkfifo(&at("pipe"), Mode::S_IRWXU).expect("a pipe");
        let _socket = UnixListener::bind(at("socket")).expect("a socket");
        fs::write(at("file"), "four").expect("room");
        fs::write(at("large"), "large").expect("room");
        for (link, target) in [("link", "file"), ("piped", "pipe"), ("self", "self")] {
            symlink(target, at(link)).expect("a link");
        }
        for (name, by_user, by_folder) in [
            ("file", "", ""),
            ("link", "", "is a link"),
            ("pipe", "nobody writes", "is not a file"),
            ("piped", "nobody writes", "is a link"),
            ("self", "symbolic links", "is a link"),
            ("large", "more than 4 bytes", "more than 4 bytes"),
            ("socket", "is a socket", "is a socket"),
            ("none", "no such file", "no such file"),
            ("", "is not a file", "is not a file"),
            ("/dev/zero", "is not a file", "is not a file"),
            ("/dev/null", "is not a file", "is not a file"),
        ] {
            for (chosen, wanted) in [(Chosen::ByUser, by_user), (Chosen::ByFolder, by_folder)] {
                match (told(&at(name), chosen), wanted) {
                    (Ok(bytes), "") => assert_eq!(bytes, b"four"),
                    (Err(why), some) if !some.is_empty() => {
                        assert!(why.contains(some), "{name} {chosen:?}: {why}");
                    }
                    other => panic!("{name} {chosen:?}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn a_pipe_with_a_writer_is_read_to_its_end() {
        // As a shell makes `<(…)`: it has no name but this process's.
        let pipe = || {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
            (reader, writer, path)
        };
        let (_reader, mut writer, path) = pipe();
        writer.write_all(b"left").expect("room");
        drop(writer);
        assert_eq!(told(&path, Chosen::ByUser).expect("bytes"), b"left");
        let (_reader, writer, path) = pipe();
        drop(writer);
        let nothing = told(&path, Chosen::ByUser).expect_err("no bytes");
        assert!(nothing.contains("nobody"), "{nothing}");

        // A writer that has opened it, and may write before or after it is read.
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        mkfifo(&path, Mode::S_IRWXU).expect("a pipe");
        let mut waiting = File::options();
        waiting.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
        for (text, wanted) in [("late", Ok(())), ("large", Err("more than 4 bytes"))] {
            // A reader all along: without one the writer could not open it, nor write.
            let there = waiting.open(&path).expect("a reader");
            let mut writer = File::options().write(true).open(&path).expect("a writer");
            let writer = std::thread::spawn(move || {
                writer.write_all(text.as_bytes()).expect("a reader");
            });
            let bytes = told(&path, Chosen::ByUser);
            writer.join().expect("it wrote");
            drop(there);
            match wanted {
                Ok(()) => assert_eq!(bytes.expect("bytes"), text.as_bytes()),
                Err(why) => assert!(bytes.expect_err("too many").contains(why)),
            }
        }
    }
}
