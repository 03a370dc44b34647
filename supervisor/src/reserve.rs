//! Spare descriptors that this process gives up one by one when it has none left, so that it can still end accepted
//! work well: write a result and its report, keep a crash, open a small job's files and tables.
//!
//! They are not for work that is new or that hoards descriptors: such work is refused first. The reserve fills itself
//! again as soon as there is room.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use proto::blob::BlobError;

/// The most that are held: a job that ends needs two for each of its three files, and one more for a moment.
const MOST: u64 = 32;
/// Of one job beside its views, with what this process holds by itself: sockets, tables, folders, files.
const BESIDE: u64 = 64;
/// Of all descriptors that this process may have, at most this part is held.
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

/// Fills the reserve again, as far as there is room.
pub fn refill() {
    reserve().fill();
}

/// Runs `work`, which opens something. While it fails for lack of a descriptor, gives up one of the reserve and runs it
/// again.
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

/// Reads a small file as text, of `/proc` or of a control group.
///
/// # Errors
/// The system's error.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    lend(|| fs::read_to_string(path.as_ref()))
}

/// What helps where descriptors are short: one line for people.
#[must_use]
pub fn need() -> String {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    format!(
        "this process may have {limit} descriptors (ulimit -n): a job needs one for each view, two with --rejected, and {BESIDE} more"
    )
}

/// Tells what an error is for want of.
pub trait Shortage {
    /// This process, or the whole host, has no descriptor left.
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
