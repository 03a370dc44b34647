//! Writes results as files, each whole or not at all.
//!
//! ```text
//!  stage    create (no name) → write → fsync                    nothing visible yet
//!  commit   link .kiln-….part → exchange with the target        for every file, the GLB last
//!           → fsync of the folders → unlink of the old files    only now are the old files lost
//! ```
//!
//! A file that would replace one of the job's inputs is refused before the first exchange ([`Given`]).
//!
//! If anything fails before the folders are synced, every exchange is undone, so a failed job changes nothing. A failed
//! fsync is never repeated on the same file: the kernel has dropped the pages, and the second call would succeed. kill
//! -9 or a power cut leaves each target whole, old or new, and at most a part, which the next run removes.
//!
//! Folders that a user names and that are missing are made with the first file in them ([`Target::anywhere`]): a command
//! that is refused makes none but for its report, and a job that fails while it writes leaves at most empty ones.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use proto::message::Code;
use proto::place;

use crate::error::JobError;
use crate::failpoint::at;
use crate::input::reason;
use crate::process::reserve::lend;

use self::part::Part;

mod given;
mod part;

pub use self::given::{FileId, Given, named_twice};

const CHUNK: usize = 256 * 1024;
/// Attempts at a target that others keep creating and removing.
const SWAPS: u32 = 8;

/// A checked, writable place for a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    path: PathBuf,
    folder: PathBuf,
    /// The folder is made with the file, if it is missing.
    make: bool,
    /// The file that it replaces.
    old: Option<FileId>,
}

impl Target {
    /// Checks, before any work, that `path` can be created or replaced in a folder that is there.
    ///
    /// # Errors
    /// One line that says what prevents it.
    pub fn check(path: &Path) -> Result<Self, Box<JobError>> {
        Self::checked(path, false)
    }

    /// As [`Self::check`], but folders that are missing are made when the file is written.
    ///
    /// # Errors
    /// One line that says what prevents it.
    pub fn anywhere(path: &Path) -> Result<Self, Box<JobError>> {
        Self::checked(path, true)
    }

    fn checked(path: &Path, make: bool) -> Result<Self, Box<JobError>> {
        let old = fs::metadata(path);
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let there = match make {
            true => nearest(&folder),
            false => folder.as_path(),
        };
        // Tries each name, since otherwise a file would be written first.
        let mut names = path.strip_prefix(there).unwrap_or(path).components();
        let long = names.any(|name| {
            let error = fs::symlink_metadata(there.join(name)).err();
            error.is_some_and(|error| error.kind() == io::ErrorKind::InvalidFilename)
        });
        let fail = |code: Code, why: &str| {
            let message = format!("cannot write {}: {why}", path.display());
            let hint = match code {
                Code::IoError => "nothing has been done yet",
                _ if long => "choose a shorter name: nothing has been done yet",
                _ => "name a place that can be written: nothing has been done yet",
            };
            JobError::own(code, message, hint)
        };
        if path.file_name().is_none() {
            return Err(fail(Code::OutputError, "it has no file name"));
        }
        if long {
            return Err(fail(Code::OutputError, "the name is too long"));
        }
        let old = old.ok();
        if old.as_ref().is_some_and(|metadata| !metadata.is_file()) {
            return Err(fail(Code::OutputError, "it exists and is not a file"));
        }
        part::sweep(there);
        Part::create(there).map_err(|error| {
            let why = format!("{}: {}", there.display(), reason(&error));
            fail(code(&error), &why)
        })?;
        Ok(Self {
            path: path.to_path_buf(),
            folder,
            make,
            old: old.as_ref().map(FileId::from),
        })
    }

    /// The path as the user wrote it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the target pointed to this file when it was checked.
    pub fn replaces(&self, file: FileId) -> bool {
        self.old == Some(file)
    }

    /// Checks that the target replaces no input.
    ///
    /// # Errors
    /// It would replace one.
    pub fn spares(&self, given: &Given) -> Result<(), Box<JobError>> {
        if given.is_empty() {
            return Ok(());
        }
        match FileId::at(&self.path) {
            Ok(Some(file)) if given.holds(file) => Err(named_twice(&self.path)),
            Ok(_) => Ok(()),
            Err(error) => Err(self.error(&error)),
        }
    }

    /// Copies `bytes` to a file beside the target and syncs it. Dropping the result removes the file.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn stage(&self, bytes: &mut impl Read) -> Result<Staged, Box<JobError>> {
        self.write(bytes).map_err(|error| self.error(&error))
    }

    /// Begins a file beside the target, to be written in pieces. Dropping it removes the file.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn begin(&self) -> Result<Growing, Box<JobError>> {
        self.create().map_err(|error| self.error(&error))
    }

    fn create(&self) -> io::Result<Growing> {
        at("stage.create")?;
        if self.make {
            make_folder(&self.folder)?;
        }
        Ok(Growing {
            part: Part::create(&self.folder)?,
            target: self.clone(),
            size: 0,
        })
    }

    fn write(&self, bytes: &mut impl Read) -> io::Result<Staged> {
        let mut growing = self.create()?;
        at("stage.write")?;
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = match bytes.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            growing.append(chunk.get(..count).unwrap_or_default())?;
        }
        growing.sync()
    }

    fn error(&self, error: &io::Error) -> Box<JobError> {
        let message = format!("cannot write {}: {}", self.path.display(), reason(error));
        let code = code(error);
        let hint = match code {
            _ if error.kind() == io::ErrorKind::FileTooLarge => {
                "raise that limit, or ask for a smaller texture"
            }
            Code::IoError => "free some space or choose another place with -o",
            _ => "choose another place with -o",
        };
        JobError::own(code, message, hint)
    }
}

/// A file being written.
#[derive(Debug)]
pub struct Growing {
    part: Part,
    target: Target,
    size: u64,
}

impl Growing {
    /// Appends bytes.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Box<JobError>> {
        self.append(bytes)
            .map_err(|error| self.target.error(&error))
    }

    /// Syncs the complete file.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn finish(self) -> Result<Staged, Box<JobError>> {
        let target = self.target.clone();
        self.sync().map_err(|error| target.error(&error))
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.part.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn sync(self) -> io::Result<Staged> {
        at("stage.sync")?;
        self.part.file.sync_all()?;
        at("stage.synced")?;
        Ok(Staged {
            part: self.part,
            target: self.target,
            size: self.size,
        })
    }
}

/// A complete file that waits for its name.
#[derive(Debug)]
pub struct Staged {
    part: Part,
    target: Target,
    size: u64,
}

impl Staged {
    /// Gives the file its name in place of any old file. For callers without inputs.
    ///
    /// # Errors
    /// The system refuses; the old file is then still in place.
    pub fn commit(self) -> Result<u64, Box<JobError>> {
        let size = self.size;
        commit([self], &Given::default()).map(|()| size)
    }

    /// Size of the file.
    pub fn size(&self) -> u64 {
        self.size
    }

    fn swap(mut self) -> Result<Swapped, Box<JobError>> {
        let target = &self.target.path;
        let swap = |name: &Path| -> io::Result<(Old, Option<File>)> {
            for _ in 0..SWAPS {
                // The old file is ours until it is unlinked: the lock keeps it from being swept.
                let lock = part::open_to_lock(target).and_then(|file| {
                    file.try_lock()?;
                    Ok(file)
                });
                match rename(name, target, RenameFlags::RENAME_EXCHANGE) {
                    // A folder has appeared meanwhile, which an exchange would accept.
                    Ok(()) if fs::symlink_metadata(name)?.is_dir() => {
                        rename(name, target, RenameFlags::RENAME_EXCHANGE)?;
                        return Err(io::ErrorKind::IsADirectory.into());
                    }
                    Ok(()) => return Ok((Old::Kept(name.to_path_buf()), lock.ok())),
                    Err(Errno::ENOENT) => match rename(name, target, RenameFlags::RENAME_NOREPLACE)
                    {
                        Ok(()) => return Ok((Old::None, None)),
                        // A file has appeared meanwhile.
                        Err(Errno::EEXIST) => {}
                        Err(errno) => return Err(errno.into()),
                    },
                    // Network file systems and FUSE may only support the plain rename.
                    Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => {
                        let old = if target.exists() {
                            Old::Lost
                        } else {
                            Old::None
                        };
                        fs::rename(name, target)?;
                        return Ok((old, None));
                    }
                    Err(errno) => return Err(errno.into()),
                }
            }
            Err(io::ErrorKind::ResourceBusy.into())
        };
        let (old, lock) = self
            .part
            .link()
            .and_then(|name| swap(&name))
            .map_err(|error| self.target.error(&error))?;
        self.part.renamed();
        Ok(Swapped {
            target: self.target,
            old,
            _lock: lock,
        })
    }
}

/// Names all files, in this order, or none. Refuses to replace an input.
///
/// # Errors
/// The system refuses, or an old file is an input; the old files are then still in place.
pub fn commit(files: impl IntoIterator<Item = Staged>, given: &Given) -> Result<(), Box<JobError>> {
    let files: Vec<Staged> = files.into_iter().collect();
    (files.iter()).try_for_each(|file| file.target.spares(given))?;
    let mut swapped: Vec<Swapped> = Vec::new();
    let done: Result<(), Box<JobError>> = files.into_iter().try_for_each(|file| {
        at("commit.rename").map_err(|error| file.target.error(&error))?;
        swapped.push(file.swap()?);
        Ok(())
    });
    // The renames themselves must survive a power cut.
    let done = done.and_then(|()| {
        let mut synced: Vec<&Path> = Vec::new();
        for Swapped { target, .. } in &swapped {
            if !synced.contains(&target.folder.as_path()) {
                at("commit.sync")
                    .and_then(|()| sync_folder(&target.folder))
                    .and_then(|()| at("commit.synced"))
                    .map_err(|error| target.error(&error))?;
                synced.push(&target.folder);
            }
        }
        Ok(())
    });
    match done {
        Ok(()) => {
            for file in swapped {
                file.keep();
            }
            Ok(())
        }
        Err(mut error) => {
            for file in swapped.into_iter().rev() {
                let path = file.target.path.clone();
                if !file.undo() {
                    error.message.push_str(&format!(
                        "; {} is complete and new nevertheless",
                        path.display()
                    ));
                }
            }
            Err(error)
        }
    }
}

/// What the new file replaced.
#[derive(Debug)]
enum Old {
    None,
    /// A file, which now has this name.
    Kept(PathBuf),
    /// A file that is lost, since the file system supports no exchange.
    Lost,
}

/// A file that was named, and can still be undone.
#[derive(Debug)]
struct Swapped {
    target: Target,
    old: Old,
    _lock: Option<File>,
}

impl Swapped {
    /// Unlinks the old file.
    fn keep(self) {
        if let Old::Kept(name) = &self.old {
            part::remove(name);
        }
    }

    /// Puts the old file back; `false` if that fails.
    fn undo(self) -> bool {
        let path = &self.target.path;
        match &self.old {
            Old::None => fs::remove_file(path).is_ok(),
            Old::Lost => false,
            // The new file has no other name, so this removes it.
            Old::Kept(name) => fs::rename(name, path).is_ok(),
        }
    }
}

/// The code of an error: the place is wrong, or the disk is full or fails.
fn code(error: &io::Error) -> Code {
    match place::is_wrong(error) {
        true => Code::OutputError,
        false => Code::IoError,
    }
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> nix::Result<()> {
    renameat2(AT_FDCWD, from, AT_FDCWD, to, flags)
}

/// Of a folder and those above it, the first that is there; the folder itself where a name above it is `..`, which has no
/// meaning in a folder that is missing.
fn nearest(folder: &Path) -> &Path {
    let missing = |folder: &&Path| {
        let found = fs::symlink_metadata(match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        });
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let there = folder.ancestors().find(|folder| !missing(folder));
    let there = there.unwrap_or(folder);
    let rest = folder.strip_prefix(there).unwrap_or(folder);
    match rest.components().any(|name| name == Component::ParentDir) {
        true => folder,
        false if there.as_os_str().is_empty() => Path::new("."),
        false => there,
    }
}

/// Makes a folder, with those above it that are missing. Each survives a power cut.
///
/// # Errors
/// The system refuses.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    let there = nearest(folder);
    let rest = folder.strip_prefix(there).unwrap_or(folder);
    let mut above = there.to_path_buf();
    for name in rest.components() {
        let made = above.join(name);
        match fs::create_dir(&made) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => sync_folder(&above)?,
        }
        above = made;
    }
    Ok(())
}

/// Makes names in a folder survive a power cut.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    match lend(|| File::open(folder))?.sync_all() {
        // File systems that cannot sync folders do not need it.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
