//! The group of one child: created, entered, and read after the child has ended.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::process::cgroup::place::{Controller, Place, Version};
use crate::process::cgroup::{Limits, Parked};
use crate::process::reserve::{self, lend};

/// The largest piece that the kernel charges at once. If it is refused, the peak can stay this far below the limit.
const HUGE_PAGE: u64 = 2 << 20;

/// A child's group in every hierarchy that has one. It is removed when dropped, or once its process has gone.
#[derive(Debug)]
pub struct Group {
    limits: Limits,
    memory: Option<(Version, PathBuf)>,
    folders: Vec<PathBuf>,
    parked: Arc<Parked>,
}

/// Where memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OomScope {
    /// The group reached its own limit.
    Group,
    /// The host or a parent group ran out of memory, and the kernel chose this process.
    Host,
}

/// An OOM kill of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oom {
    /// The most bytes that the group held.
    pub peak_bytes: u64,
    /// Its limit in bytes, if any.
    pub limit: Option<u64>,
    /// Where memory ran out.
    pub scope: OomScope,
}

impl Group {
    pub(super) fn new(limits: Limits, parked: Arc<Parked>) -> Self {
        Self {
            limits,
            memory: None,
            folders: Vec::new(),
            parked,
        }
    }

    /// Creates the group in one hierarchy and moves the process into it.
    pub(super) fn add(&mut self, place: &Place, name: &str, pid: u32) -> Result<(), String> {
        let folder = make(place, name, self.limits)?;
        self.folders.push(folder.clone());
        write(&folder.join("cgroup.procs"), &pid.to_string()).map_err(|error| {
            format!("process {pid} does not enter {}: {error}", folder.display())
        })?;
        if place.controllers.contains(&Controller::Memory) {
            self.memory = Some((place.version, folder));
        }
        Ok(())
    }

    /// Whether the OOM killer ended a process of this group. Call this once the process has ended.
    pub fn oom_killed(&self) -> Option<Oom> {
        let (version, folder) = self.memory.as_ref()?;
        let peak_bytes = self.peak_bytes().unwrap_or(0);
        let (kills, at_limit) = match version {
            Version::V1 => (
                field(folder, "memory.oom_control", "oom_kill")?,
                // Recent kernels do not count in memory.failcnt (6.18: 0 after a kill), so the peak decides, too.
                number(folder, "memory.failcnt").is_some_and(|count| count > 0)
                    || self
                        .limits
                        .memory
                        .is_some_and(|limit| peak_bytes + HUGE_PAGE >= limit),
            ),
            Version::V2 => (
                field(folder, "memory.events", "oom_kill")?,
                field(folder, "memory.events", "oom").is_some_and(|count| count > 0),
            ),
        };
        // Without a limit of its own, memory ran out above.
        let own = at_limit && self.limits.memory.is_some();
        (kills > 0).then_some(Oom {
            peak_bytes,
            limit: self.limits.memory,
            scope: if own { OomScope::Group } else { OomScope::Host },
        })
    }

    /// The most memory that the group has held, including page cache and shared memory that it touched first.
    pub fn peak_bytes(&self) -> Option<u64> {
        let (version, folder) = self.memory.as_ref()?;
        match version {
            Version::V1 => number(folder, "memory.max_usage_in_bytes"),
            // Since Linux 5.19.
            Version::V2 => number(folder, "memory.peak"),
        }
    }

    /// Whether the group counts and bounds the child's memory.
    pub fn counts_memory(&self) -> bool {
        self.memory.is_some()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The group also holds processes that the child started. Version 1 has no such file.
        if let Some((Version::V2, folder)) = &self.memory
            && let Err(error) = lend(|| {
                let mut options = OpenOptions::new();
                options.write(true).open(folder.join("cgroup.kill"))
            })
            .and_then(|mut file| file.write_all(b"1"))
        {
            tracing::debug!(%error, "what is left in a control group is not killed");
        }
        for folder in self.folders.drain(..) {
            self.parked.remove(folder);
        }
    }
}

/// Creates an empty group with its limits.
pub(super) fn make(place: &Place, name: &str, limits: Limits) -> Result<PathBuf, String> {
    let folder = place.folder.join(name);
    fs::create_dir(&folder)
        .or_else(|error| {
            // Names are unique, so this one is from a dead supervisor with our pid: starts afresh.
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(error);
            }
            fs::remove_dir(&folder).and_then(|()| fs::create_dir(&folder))
        })
        .map_err(|error| format!("no group beneath {}: {error}", place.folder.display()))?;
    limit(place, &folder, limits).inspect_err(|_why| {
        if let Err(error) = fs::remove_dir(&folder) {
            tracing::debug!(%error, "a group without limits stays behind");
        }
    })?;
    Ok(folder)
}

fn limit(place: &Place, folder: &Path, limits: Limits) -> Result<(), String> {
    let set = |file: &str, value: &str| {
        write(&folder.join(file), value)
            .map_err(|error| format!("{file} cannot be set in {}: {error}", folder.display()))
    };
    let has = |controller| place.controllers.contains(&controller);
    if let Some(bytes) = limits.memory.filter(|_bytes| has(Controller::Memory)) {
        let bytes = bytes.to_string();
        // Swap would only slow a child before it dies. These files are missing where the kernel does not count swap.
        let (ram, swap, no_swap) = match place.version {
            Version::V1 => (
                "memory.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
                bytes.as_str(),
            ),
            Version::V2 => ("memory.max", "memory.swap.max", "0"),
        };
        set(ram, &bytes)?;
        if let Err(why) = set(swap, no_swap) {
            tracing::debug!("swap is not bounded: {why}");
        }
    }
    if let Some(count) = limits.pids.filter(|_count| has(Controller::Pids)) {
        set("pids.max", &count.to_string())?;
    }
    Ok(())
}

/// Writes a limit. May use the descriptor reserve: a worker must not run without its limits.
fn write(path: &Path, value: &str) -> io::Result<()> {
    lend(|| fs::write(path, value))
}

fn number(folder: &Path, file: &str) -> Option<u64> {
    reserve::read(folder.join(file)).ok()?.trim().parse().ok()
}

/// The value of one `key value` line.
fn field(folder: &Path, file: &str, key: &str) -> Option<u64> {
    let text = reserve::read(folder.join(file)).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(name, _)| *name == key)?.1.trim().parse().ok()
}
