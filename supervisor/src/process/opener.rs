//! Opens the files that prepare asks for, or says why not. Prepare reads untrusted bytes and can open nothing itself.
//!
//! A name is accepted if the user gave it, or if it has the ending of a buffer or a picture and no hidden part. An
//! attacker who controls prepare beside a mesh in a home folder thus cannot read `~/.ssh`. The kernel resolves the name
//! (`openat2`, `RESOLVE_BENEATH`): neither `..` nor a symbolic link leaves the folder, even if another process renames
//! files meanwhile. Links that stay beneath the folder are followed, and so are those that lead where the job allows it
//! ([`links`]); of others it is said what they are. Where a name is missing, one that differs in case or
//! Unicode form alone is taken for it ([`alike`](alike::alike)). An absolute name, as some tools write it, must lie
//! beneath the folder. Opening never waits for the writer of a pipe. Only what `fstat` calls a regular file is handed
//! down.
//!
//! The work runs on other threads ([`workers`]), with one request of a process at a time. A network file system that is
//! gone blocks a thread, not the supervisor, and the child is told after [`OPEN_DEADLINE_S`].

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use proto::limits::{MAX_NAME_BYTES, MAX_OPENS, OPEN_DEADLINE_S};
use proto::message::{NotAFile, Refusal, Root};
use proto::programs;
use tokio::time::timeout;

use self::alike::alike;
use crate::input::{Beyond, Input, companion, exporter};
use crate::process::reserve::lend;
use crate::process::workers;

/// Endings of files that a mesh or a view may refer to, in lower case. Pictures that prepare does not read are among them,
/// so that it can say what they are.
const ENDINGS: [&str; 31] = [
    "bin", "buf", "buffer", "dat", "data", "glb", "glbin", "gltf", "png", "jpg", "jpeg", "webp",
    "ktx2", "tif", "tiff", "avif", "heic", "heif", "exr", "hdr", "bmp", "gif", "pbm", "pgm", "pnm",
    "ppm", "jxl", "jp2", "qoi", "tga", "dds",
];
/// Tries while a rename races with the resolution of `..`: the kernel then answers `EAGAIN` and asks for a retry.
const RESOLVE_ATTEMPTS: usize = 16;

/// One process's requests so far.
#[derive(Debug, Default)]
pub struct Opener {
    asked: u32,
    waiting: bool,
}

/// An answer on its way to the child.
#[derive(Debug)]
pub struct Opened {
    /// Size in bytes, or why the file is not opened.
    pub outcome: Result<u64, Refusal>,
    /// The file, if there is one.
    pub file: Option<Arc<OwnedFd>>,
}

/// A request that may be put to the file system.
#[derive(Debug)]
pub struct Question {
    /// None if there is no such folder.
    folder: Option<Arc<OwnedFd>>,
    beyond: Option<Beyond>,
    /// The user gave this name.
    named: bool,
    name: String,
    limit: u64,
}

impl Opener {
    /// Accepts a request for a file beneath `input`, the folder that the job has for `root`.
    ///
    /// # Errors
    /// How the child broke the protocol: it asks twice at once, for more than [`MAX_OPENS`] files, or for a folder that its
    /// job does not have.
    pub fn admit(
        &mut self,
        input: Option<&Input>,
        root: Root,
        name: String,
        limit: u64,
    ) -> Result<Question, String> {
        if self.waiting {
            return Err("it asks for a file before it has the last".to_owned());
        }
        self.asked += 1;
        if self.asked > MAX_OPENS {
            return Err(format!("it asks for more than {MAX_OPENS} files"));
        }
        let input = input.ok_or("it asks for a folder that its job does not have")?;
        let pictures = matches!(root, Root::Pictures | Root::Masks);
        let folder = match &input.pictures {
            _ if !pictures => Some(&input.folder),
            Some(pictures) if root == Root::Masks => pictures.masks.as_ref(),
            Some(pictures) => Some(&pictures.folder),
            None if programs::of_name(&input.name).is_some() => {
                (root == Root::Pictures).then_some(&input.folder)
            }
            None => return Err("it asks for pictures of a model, and there is none".to_owned()),
        };
        let named = name == input.name
            || companion(&input.name) == Some(name.as_str())
            || programs::list_of(&input.name).is_some_and(|list| list == name)
            || (root == Root::Views && exporter(&input.name) == name);
        self.waiting = true;
        Ok(Question {
            folder: folder.map(Arc::clone),
            beyond: input.beyond.clone(),
            named: named && !pictures,
            name,
            limit,
        })
    }

    /// The answer has been sent.
    pub fn answered(&mut self) {
        self.waiting = false;
    }
}

impl Question {
    /// Opens the file on another thread.
    pub async fn answer(self) -> Opened {
        let work = workers::run(move || self.open());
        let limit = Duration::from_secs(u64::from(OPEN_DEADLINE_S));
        let answer = match timeout(limit, work).await {
            Ok(Ok(answer)) => answer,
            // The thread panicked: there is nothing to open.
            Ok(Err(_)) => Err(Refusal::Os(Errno::EIO as i32)),
            Err(_) => Err(Refusal::Slow(OPEN_DEADLINE_S)),
        };
        match answer {
            Ok((file, bytes)) => Opened {
                outcome: Ok(bytes),
                file: Some(Arc::new(file)),
            },
            Err(refusal) => Opened {
                outcome: Err(refusal),
                file: None,
            },
        }
    }

    fn open(&self) -> Result<(OwnedFd, u64), Refusal> {
        let folder = self.folder.as_deref().ok_or(Refusal::Missing)?;
        let name = self.relative(folder)?;
        self.check_name(&name)?;
        let mut opened = self.beneath(folder, &name);
        if let Err(Refusal::Missing) = opened {
            opened = match self.beyond.as_ref().filter(|beyond| !beyond.served) {
                Some(beyond) => self.beneath(&beyond.folder, &name),
                None => opened,
            };
        }
        let told = (self.beyond.as_ref()).is_none_or(|beyond| !beyond.served);
        let opened = opened.map_err(|refusal| match refusal {
            Refusal::Missing | Refusal::Outside => {
                links::describe(folder, &name, told).unwrap_or(refusal)
            }
            refusal => refusal,
        });
        let file = File::from(opened?);
        let metadata = file.metadata().map_err(|error| os(&error))?;
        if !metadata.is_file() {
            return Err(Refusal::NotAFile(kind(&metadata)));
        }
        let size = metadata.len();
        if size > self.limit {
            return Err(Refusal::TooLarge {
                size,
                limit: self.limit,
            });
        }
        Ok((file.into(), size))
    }

    /// Opens the name, or one alike, beneath `folder` or where its links may lead.
    fn beneath(&self, folder: &OwnedFd, name: &str) -> Result<OwnedFd, Refusal> {
        let beyond = self.beyond.as_ref();
        let open = |name: &str| match beneath(folder, name) {
            Err(Refusal::Outside) => {
                links::follow(folder, name, beyond, self.named).ok_or(Refusal::Outside)
            }
            opened => opened,
        };
        match open(name) {
            Err(Refusal::Missing) => {
                let other = alike(folder, name).ok_or(Refusal::Missing)?;
                self.check_name(&other)?;
                open(&other)
            }
            opened => opened,
        }
    }

    /// The name relative to the folder; an absolute name must lie beneath it.
    fn relative(&self, folder: &OwnedFd) -> Result<Cow<'_, str>, Refusal> {
        let name = self.name.as_str();
        if name.is_empty() {
            return Err(Refusal::EmptyName);
        }
        if name.contains('\0') {
            return Err(Refusal::NulInName);
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(Refusal::Os(Errno::ENAMETOOLONG as i32));
        }
        let path = Path::new(name);
        if !path.is_absolute() {
            return Ok(Cow::Borrowed(name));
        }
        // The parent alone is resolved here. The kernel judges the file itself, which may be missing or a link.
        let inside = || {
            let folder = links::path_of(folder)?;
            let file = path.parent()?.canonicalize().ok()?.join(path.file_name()?);
            let inside = file.strip_prefix(folder).ok()?;
            inside.to_str().map(str::to_owned)
        };
        inside().map(Cow::Owned).ok_or(Refusal::Outside)
    }

    fn check_name(&self, name: &str) -> Result<(), Refusal> {
        if leaves(name) {
            return Err(Refusal::Outside);
        }
        let hidden = |part: &str| part.starts_with('.') && part != "." && part != "..";
        let ending = name
            .rsplit_once('.')
            .map(|(_, end)| end.to_ascii_lowercase());
        let listed = ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()));
        if self.named || (listed && !name.split('/').any(hidden)) {
            Ok(())
        } else {
            Err(Refusal::Unlisted)
        }
    }
}

/// Whether the name alone, regardless of links, goes above its folder. Checked before the ending, as the likelier
/// mistake.
fn leaves(name: &str) -> bool {
    let mut depth = 0_i32;
    name.split('/').any(|part| {
        depth += match part {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth < 0
    })
}

fn beneath(folder: &impl AsFd, name: &str) -> Result<OwnedFd, Refusal> {
    resolved(folder, name, ResolveFlag::RESOLVE_NO_MAGICLINKS)
}

/// Opens a name that the kernel resolves beneath the folder, under more rules.
fn resolved(folder: &impl AsFd, name: &str, more: ResolveFlag) -> Result<OwnedFd, Refusal> {
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
        .resolve(ResolveFlag::RESOLVE_BENEATH | more);
    for _ in 0..RESOLVE_ATTEMPTS {
        return match lend(|| openat2(folder, name, how)) {
            Ok(fd) => Ok(fd),
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            Err(Errno::EXDEV) => Err(Refusal::Outside),
            Err(Errno::ENOENT | Errno::ENOTDIR) => Err(Refusal::Missing),
            // A device without a driver, or a socket.
            Err(Errno::ENXIO | Errno::ENODEV) => Err(Refusal::NotAFile(NotAFile::Device)),
            Err(errno) => Err(Refusal::Os(errno as i32)),
        };
    }
    Err(Refusal::Os(Errno::EAGAIN as i32))
}

fn os(error: &std::io::Error) -> Refusal {
    Refusal::Os(error.raw_os_error().unwrap_or(Errno::EIO as i32))
}

fn kind(metadata: &Metadata) -> NotAFile {
    let kind = metadata.file_type();
    if kind.is_dir() {
        NotAFile::Directory
    } else if kind.is_fifo() {
        NotAFile::Pipe
    } else {
        NotAFile::Device
    }
}

mod alike;
mod links;
#[cfg(test)]
mod tests;
