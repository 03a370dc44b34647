//! Holds spare descriptors. When this process has none left, it releases them one by one to finish accepted work: to
//! write a result and its report, to keep a crash, or to open a small job's files and tables.
//!
//! They are not for new work or work that needs many descriptors; such work is refused first. The reserve is refilled
//! as soon as possible.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use proto::blob::BlobError;

/// Size of the reserve: an ending job needs two for each of its three files, and briefly one more.
const MOST: u64 = 32;
/// Descriptors of one job besides its views, plus the process's own: sockets, tables, folders, files.
const BESIDE: u64 = 64;
/// The reserve takes at most one in this many of the process's descriptors.
const PART: u64 = 8;

static RESERVE: Mutex<Reserve> = Mutex::new(Reserve {
    held: Vec::new(),
    full: 0,
});

struct Reserve {
    held: Vec<OwnedFd>,
    full: usize,
}

/// Fills the reserve for the first time.
pub fn start() {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    let mut reserve = reserve();
    reserve.full = usize::try_from(MOST.min(limit / PART)).unwrap_or(0);
    reserve.fill();
}

/// Refills the reserve as far as possible.
pub fn refill() {
    reserve().fill();
}

/// Runs `work`, which opens something. While it fails for lack of a descriptor, releases one and runs it again.
///
/// # Errors
/// Those of `work`.
pub fn lend<T, E: Shortage>(mut work: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    loop {
        let done = work();
        let short = done.as_ref().err().is_some_and(Shortage::of_descriptors);
        let mut reserve = reserve();
        if short && reserve.held.pop().is_some() {
            tracing::debug!(left = reserve.held.len(), "a descriptor of the reserve");
            continue;
        }
        if !short {
            reserve.fill();
        }
        return done;
    }
}

/// Reads a small file of `/proc` or of a control group as text.
///
/// # Errors
/// The system's error.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    lend(|| fs::read_to_string(path.as_ref()))
}

/// A hint for a shortage of descriptors, as one line.
pub fn need() -> String {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    format!(
        "this process may have {limit} descriptors (ulimit -n): a job needs one for each view, two with --rejected, and {BESIDE} more"
    )
}

/// Classifies an error as a shortage.
pub trait Shortage {
    /// Whether this process, or the whole host, is out of descriptors.
    fn of_descriptors(&self) -> bool;
}

impl Shortage for Errno {
    fn of_descriptors(&self) -> bool {
        matches!(self, Self::EMFILE | Self::ENFILE)
    }
}

impl Shortage for io::Error {
    fn of_descriptors(&self) -> bool {
        let number = self.raw_os_error();
        number.is_some_and(|number| Errno::from_raw(number).of_descriptors())
    }
}

impl Shortage for BlobError {
    fn of_descriptors(&self) -> bool {
        matches!(self, Self::Os { source, .. } if source.of_descriptors())
    }
}

impl Reserve {
    fn fill(&mut self) {
        while self.held.len() < self.full {
            let more = match self.held.last() {
                Some(held) => held.try_clone(),
                None => File::open("/dev/null").map(OwnedFd::from),
            };
            match more {
                Ok(held) => self.held.push(held),
                // Try again later.
                Err(_) => return,
            }
        }
    }
}

fn reserve() -> MutexGuard<'static, Reserve> {
    RESERVE.lock().unwrap_or_else(PoisonError::into_inner)
}
