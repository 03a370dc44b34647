//! Processes that a worker has started, which none should → gone when the worker is.
//!
//! In its sandbox the call is a worker's death; before it has entered that, or without one, a driver or a library may start
//! some. They are in the worker's process group, which is killed while the dead worker is not reaped yet, so that the
//! group's number is nobody else's. Who has left the group is nobody's child any more by then, or soon, and becomes this
//! process's ([`adopt`]): a child that was not spawned here is killed.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, getpid};
use tokio::signal::unix;
use tokio::time::sleep;

use crate::process::reserve::{self, lend};

/// For them to end, once they are killed.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two looks at those that are about to end.
const LOOK: Duration = Duration::from_millis(1);

/// Orphans of workers are this process's children, and it has no others but its workers.
static ADOPTS: AtomicBool = AtomicBool::new(false);
/// Children that were spawned here.
static SPAWNED: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// From here on orphans of workers are this process's children.
///
/// Not where others are: of a program that had children before it became `kiln`, and in process 1 of a container, whose
/// children are everybody's orphans. There the process group alone is ended.
pub(crate) fn adopt() {
    let alone = getpid().as_raw() != 1 && children().is_some_and(|children| children.is_empty());
    if !alone {
        tracing::debug!("orphans of workers are not taken in: there are other children");
        return;
    }
    match set_child_subreaper(true) {
        Ok(()) => ADOPTS.store(true, Ordering::Relaxed),
        Err(errno) => tracing::debug!(%errno, "orphans of workers are not taken in"),
    }
}

/// A child that was spawned here; to be dropped once it is reaped.
#[derive(Debug)]
pub(super) struct Spawned(i32);

impl Spawned {
    pub(super) fn new(pid: u32) -> Self {
        let pid = i32::try_from(pid).unwrap_or(0);
        spawned().insert(pid);
        Self(pid)
    }

    /// Waits until it has ended, and leaves it unreaped; `deaths` tells of every child's end since before it was spawned.
    pub(super) async fn ended(pid: i32, mut deaths: unix::Signal) {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        while let Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) =
            waitid(Id::Pid(Pid::from_raw(pid)), flags)
        {
            deaths.recv().await;
        }
    }

    /// Its number.
    pub(super) fn pid(&self) -> i32 {
        self.0
    }

    /// Kills everybody in its process group. It must not be reaped yet.
    pub(super) fn end_group(&self) {
        if self.0 <= 1 {
            return;
        }
        if let Err(errno) = killpg(Pid::from_raw(self.0), Signal::SIGKILL) {
            tracing::debug!(%errno, pid = self.0, "its process group is not killed");
        }
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        spawned().remove(&self.0);
    }
}

/// Kills and reaps children that were not spawned here.
pub(super) async fn end_orphans() {
    if !ADOPTS.load(Ordering::Relaxed) {
        return;
    }
    let until = Instant::now() + PATIENCE;
    let mut told = false;
    loop {
        let strangers = strangers();
        if strangers.is_empty() {
            return;
        }
        if !std::mem::replace(&mut told, true) {
            tracing::warn!(pids = ?strangers, "a worker has started processes, which are killed");
        }
        for stranger in strangers.into_iter().map(Pid::from_raw) {
            // It is not reaped before the next line, so its number is its own.
            let killed = kill(stranger, Signal::SIGKILL);
            let reaped = waitpid(stranger, Some(WaitPidFlag::WNOHANG));
            tracing::debug!(%stranger, ?killed, ?reaped, "an orphan");
        }
        if Instant::now() >= until {
            tracing::warn!("processes that a worker has started do not end");
            return;
        }
        sleep(LOOK).await;
    }
}

fn strangers() -> Vec<i32> {
    let children = children().unwrap_or_default();
    let spawned = spawned();
    let strange = |pid: &i32| !spawned.contains(pid);
    children.into_iter().filter(strange).collect()
}

fn spawned() -> std::sync::MutexGuard<'static, BTreeSet<i32>> {
    SPAWNED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Children of every thread of this process; none where the kernel does not tell.
fn children() -> Option<Vec<i32>> {
    let mut children = Vec::new();
    for thread in lend(|| fs::read_dir("/proc/self/task")).ok()?.flatten() {
        match reserve::read(thread.path().join("children")) {
            Ok(text) => children.extend(
                text.split_whitespace()
                    .filter_map(|pid| pid.parse::<i32>().ok()),
            ),
            // The thread has ended meanwhile.
            Err(_) if !thread.path().exists() => {}
            Err(_) => return None,
        }
    }
    Some(children)
}
