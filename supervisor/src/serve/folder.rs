//! The folder of the socket. It is opened and checked once, then used by its descriptor, so that renaming it cannot
//! make the sidecar touch another folder.
//!
//! The default folder must belong to this user alone. A folder named with `--socket` may belong to others, such as one
//! that a group shares. It is refused if everybody may replace files in it, since then nobody can tell whose socket it
//! is.

use std::fs::DirBuilder;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, fstatat, mkdirat};
use nix::unistd::{Uid, UnlinkatFlags, unlinkat};

use super::listen::default_socket;

/// The socket's name in a private folder, before it moves to its place.
const HIDDEN: &str = "s";

/// An open folder for a socket.
#[derive(Debug)]
pub struct Folder {
    folder: OwnedFd,
    /// The socket's file name.
    name: String,
}

/// Why a folder may not hold a socket.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unsafe(String);

impl Unsafe {
    /// Whether an error has this cause.
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// Identifies a socket's file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    device: u64,
    inode: u64,
    /// Seconds and nanoseconds. Needed, since inode numbers are reused.
    modified: (i64, i64),
}

impl Folder {
    /// Opens the folder of the socket at `path`; creates it, for this user alone, if missing.
    ///
    /// # Errors
    /// The folder may not hold a socket, or the system refuses.
    pub fn make(path: &Path) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(parent(path))?;
        Self::open(path)
    }

    /// Opens the folder of the socket at `path`.
    ///
    /// # Errors
    /// The folder is missing or may not hold a socket.
    pub fn open(path: &Path) -> io::Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| io::Error::other("it is no name of a socket"))?;
        let own = path == default_socket();
        let folder = open_folder(AT_FDCWD, parent(path), own)?;
        let stat = fstat(&folder)?;
        if let Some(why) = fault(&stat, own.then(Uid::current)) {
            let shown = parent(path).display();
            let why = format!("its folder {shown} {why}");
            return Err(io::Error::other(Unsafe(why)));
        }
        Ok(Self {
            folder,
            name: name.to_owned(),
        })
    }

    /// Listens, and replaces a socket that nobody listens on. Returns `None` if somebody does.
    ///
    /// # Errors
    /// Another file is there, or the system refuses.
    pub fn listen(&self) -> io::Result<Option<(UnixListener, Made)>> {
        match self.stat() {
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno.into()),
            Ok(stat) if kind(&stat) != SFlag::S_IFSOCK => {
                return Err(io::Error::other("it is there and is no socket"));
            }
            Ok(_) if UnixStream::connect(self.place(&self.name)).is_ok() => return Ok(None),
            Ok(_) => unlinkat(&self.folder, self.name.as_str(), UnlinkatFlags::NoRemoveDir)?,
        }
        // Nobody may connect between bind and chmod, so the socket is made in a private folder.
        let private = format!(".kiln-{:016x}", RandomState::new().hash_one(&self.name));
        mkdirat(&self.folder, private.as_str(), Mode::S_IRWXU)?;
        let bound = self.bind(&private);
        unlinkat(&self.folder, private.as_str(), UnlinkatFlags::RemoveDir)?;
        bound.map(Some)
    }

    fn bind(&self, private: &str) -> io::Result<(UnixListener, Made)> {
        let inner = open_folder(&self.folder, Path::new(private), true)?;
        if fault(&fstat(&inner)?, Some(Uid::current())).is_some() {
            return Err(io::Error::other("somebody else works in its folder"));
        }
        let listener = UnixListener::bind(place(&inner, HIDDEN))?;
        let owner_only = Mode::S_IRUSR | Mode::S_IWUSR;
        let made = fchmodat(&inner, HIDDEN, owner_only, FchmodatFlags::FollowSymlink)
            .and_then(|()| fstatat(&inner, HIDDEN, AtFlags::AT_SYMLINK_NOFOLLOW))
            .and_then(|stat| {
                renameat(&inner, HIDDEN, &self.folder, self.name.as_str())?;
                Ok(Made::of(&stat))
            });
        // So that its folder can be removed.
        if made.is_err()
            && let Err(errno) = unlinkat(&inner, HIDDEN, UnlinkatFlags::NoRemoveDir)
        {
            tracing::debug!(%errno, "a hidden socket stays");
        }
        Ok((listener, made?))
    }

    /// Removes the socket, if it is still the same file.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove(&self, made: Made) -> io::Result<()> {
        if self.stat().is_ok_and(|stat| Made::of(&stat) == made) {
            unlinkat(&self.folder, self.name.as_str(), UnlinkatFlags::NoRemoveDir)?;
        }
        Ok(())
    }

    fn stat(&self) -> Result<FileStat, Errno> {
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
        fstatat(&self.folder, self.name.as_str(), flags)
    }

    fn place(&self, name: &str) -> PathBuf {
        place(&self.folder, name)
    }
}

impl Made {
    fn of(stat: &FileStat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        }
    }
}

/// A short path of a name in an open folder, for calls that take no descriptor. Socket paths must be short.
fn place(folder: &OwnedFd, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

fn parent(path: &Path) -> &Path {
    let parent = path.parent().unwrap_or(path);
    match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    }
}

/// Opens a folder; with `itself`, not through a link.
fn open_folder(at: impl std::os::fd::AsFd, path: &Path, itself: bool) -> io::Result<OwnedFd> {
    let mut flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    flags.set(OFlag::O_NOFOLLOW, itself);
    openat(at, path, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::ENOTDIR if itself => {
            let why = format!("{} is a link or no folder", path.display());
            io::Error::other(Unsafe(why))
        }
        other => other.into(),
    })
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

/// Why a folder may not hold a socket. With `own`, it must be private to that user.
fn fault(stat: &FileStat, own: Option<Uid>) -> Option<String> {
    let mode = stat.st_mode & 0o7777;
    if let Some(own) = own {
        if stat.st_uid != own.as_raw() && stat.st_uid != 0 {
            return Some(format!("is user {}'s, and not this user's", stat.st_uid));
        }
        if mode & 0o022 != 0 {
            return Some(format!("can be written by others (mode {mode:03o})"));
        }
    }
    if mode & 0o002 != 0 && mode & 0o1000 == 0 {
        return Some(format!(
            "lets everybody replace what lies there (mode {mode:03o})"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn stat_of(uid: u32, mode: u32) -> FileStat {
        let mut stat = fstat(fs::File::open("/").expect("there")).expect("a folder");
        (stat.st_uid, stat.st_mode) = (uid, SFlag::S_IFDIR.bits() | mode);
        stat
    }

    #[test]
    fn the_default_folder_is_this_users_or_roots_alone() {
        let own = Some(Uid::from_raw(7));
        for (uid, mode) in [(7, 0o700), (0, 0o700), (7, 0o755), (7, 0o2700)] {
            assert_eq!(fault(&stat_of(uid, mode), own), None, "{uid} {mode:o}");
        }
        for (uid, mode, words) in [
            (8, 0o700, "is user 8's"),
            (8, 0o777, "is user 8's"),
            (7, 0o777, "mode 777"),
            (7, 0o1777, "mode 1777"),
            (7, 0o770, "written by others"),
            (0, 0o722, "written by others"),
        ] {
            let why = fault(&stat_of(uid, mode), own).expect("refused");
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn a_folder_that_is_named_may_be_anothers_but_not_everybodys() {
        for (uid, mode) in [(8, 0o700), (8, 0o2770), (0, 0o1777), (8, 0o755)] {
            assert_eq!(fault(&stat_of(uid, mode), None), None, "{uid} {mode:o}");
        }
        for (uid, mode) in [(7, 0o777), (8, 0o772), (0, 0o707)] {
            let why = fault(&stat_of(uid, mode), None).expect("refused");
            assert!(why.contains("lets everybody replace"), "{why}");
        }
    }

    #[test]
    fn what_is_made_is_removed_wherever_its_folder_is_moved_and_another_stays() {
        let temporary = tempfile::tempdir().expect("a folder");
        let near = temporary.path().join("near");
        let folder = Folder::make(&near.join("k.sock")).expect("made");
        let (listener, made) = folder.listen().expect("room").expect("nobody there");
        assert!(
            folder.listen().expect("a look").is_none(),
            "somebody is there"
        );
        let far = temporary.path().join("far");
        fs::rename(&near, &far).expect("renamed");
        // Does not touch what replaced it.
        fs::create_dir(&near).expect("room");
        fs::write(near.join("k.sock"), "precious").expect("room");
        drop(listener);
        // Created while the socket exists, so that it has another inode.
        fs::write(far.join("other"), "another").expect("room");
        folder.remove(made).expect("removed");
        assert!(!far.join("k.sock").exists());
        assert!(near.join("k.sock").exists());
        fs::rename(far.join("other"), far.join("k.sock")).expect("renamed");
        folder.remove(made).expect("nothing to do");
        assert!(far.join("k.sock").exists());
        folder.listen().expect_err("a file is there");
    }

    #[test]
    fn a_folder_that_everybody_may_change_is_refused_in_words() {
        let temporary = tempfile::tempdir().expect("a folder");
        let shared = temporary.path().join("shared");
        fs::create_dir(&shared).expect("room");
        fs::set_permissions(&shared, Permissions::from_mode(0o777)).expect("ours");
        let refused = Folder::make(&shared.join("k.sock")).expect_err("everybody's");
        assert!(refused.to_string().contains("mode 777"), "{refused}");
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("ours");
        Folder::make(&shared.join("k.sock")).expect("each their own");
        symlink(&shared, temporary.path().join("link")).expect("room");
        Folder::make(&temporary.path().join("link/k.sock")).expect("it was named so");
        let itself = open_folder(AT_FDCWD, &temporary.path().join("link"), true);
        let refused = itself.expect_err("a link").to_string();
        assert!(refused.contains("is a link or no folder"), "{refused}");
    }
}
