//! Gives each child a control group of its own, with limits on memory and processes. The group tells afterwards whether
//! the kernel's OOM killer ended the child.
//!
//! ```text
//!  v1   /sys/fs/cgroup/memory/OWN/kiln-PID-N    memory.limit_in_bytes   memory.oom_control   memory.max_usage_in_bytes
//!       /sys/fs/cgroup/pids/OWN/kiln-PID-N      pids.max
//!  v2   /sys/fs/cgroup/OWN/kiln-PID-N           memory.max   memory.events   memory.peak   pids.max
//! ```
//!
//! All of this is best effort. If groups cannot be created, [`Cgroups::support`] says why and children run without
//! them. Nothing here waits: if a process is still in its group when the handle is dropped, [`Cgroups::sweep`] removes
//! the group later. Groups are created only beneath the supervisor's own group, so limits on the supervisor also bound
//! its children.

mod group;

mod place;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, fs};

pub use self::group::{Group, Oom, OomScope};
pub use self::place::{Controller, Version};

use self::place::{Leaf, Place};

/// Numbers this process's groups.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Limits of a child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory, including shared memory and page cache. `None` only counts.
    pub memory: Option<u64>,
    /// Most threads and processes.
    pub pids: Option<u32>,
}

/// The version of a usable controller, or why there is none.
pub type Support = Result<Version, String>;

/// Creates groups; one per run of the supervisor.
#[derive(Debug)]
pub struct Cgroups {
    limits: Limits,
    memory: Support,
    pids: Support,
    places: Vec<Place>,
    /// The group that the supervisor moved itself into, if version 2 requires that.
    leaf: Option<Leaf>,
    owner: u32,
    parked: Arc<Parked>,
}

impl Cgroups {
    /// Finds where groups can be created, removes those of dead supervisors, and tests by creating one.
    pub fn find(limits: Limits) -> Self {
        let read = |name: &str| {
            fs::read_to_string(name).map_err(|error| format!("{name} cannot be read: {error}"))
        };
        let found = read("/proc/self/cgroup").and_then(|own| {
            let mounts = read("/proc/self/mountinfo")?;
            Ok((own, mounts))
        });
        let owner = std::process::id();
        let groups = match found {
            Ok((own, mounts)) => Self::beneath(&own, &mounts, limits, owner),
            Err(why) => Self::without(limits, owner, &why),
        };
        groups.say();
        groups
    }

    fn without(limits: Limits, owner: u32, why: &str) -> Self {
        Self {
            limits,
            memory: Err(why.to_owned()),
            pids: Err(why.to_owned()),
            places: Vec::new(),
            leaf: None,
            owner,
            parked: Arc::default(),
        }
    }

    /// As [`Self::find`], for given contents of `/proc/self/cgroup` (`own`) and `/proc/self/mountinfo` (`mounts`).
    fn beneath(own: &str, mounts: &str, limits: Limits, owner: u32) -> Self {
        let mut groups = Self::without(limits, owner, "not looked for");
        let (mut places, leaf, why) = place::find(own, mounts, owner);
        groups.leaf = leaf;
        for place in &places {
            sweep_stale(&place.folder);
        }
        let mut support = why;
        // Trying also reveals read-only mounts, foreign owners and limits on depth or number.
        places.retain(|place| {
            let tried = group::make(place, &groups.name(), limits);
            let tried = tried.map(|folder| groups.parked.remove(folder));
            let verdict = tried.map(|()| place.version);
            for controller in &place.controllers {
                support.insert(*controller, verdict.clone());
            }
            verdict.is_ok()
        });
        groups.places = places;
        let mut of = |controller| {
            support
                .remove(&controller)
                .unwrap_or_else(|| Err("not looked for".to_owned()))
        };
        (groups.memory, groups.pids) = (of(Controller::Memory), of(Controller::Pids));
        groups
    }

    /// Whether a controller is usable, and if not, why: one line for people.
    pub fn support(&self, controller: Controller) -> &Support {
        match controller {
            Controller::Memory => &self.memory,
            Controller::Pids => &self.pids,
        }
    }

    /// Puts a freshly spawned process into a new group. Only later allocations count.
    ///
    /// Without support, or if the process has ended, the returned group is an empty handle.
    #[must_use]
    pub fn enter(&self, pid: u32) -> Group {
        let left = self.sweep();
        if left > 0 {
            tracing::debug!(left, "control groups with processes that cannot be killed");
        }
        let mut group = Group::new(self.limits, Arc::clone(&self.parked));
        for place in &self.places {
            if let Err(why) = group.add(place, &self.name(), pid) {
                tracing::warn!(pid, "no control group for a child: {why}");
            }
        }
        group
    }

    /// Tries again to remove groups that still had processes, and returns how many are left.
    #[must_use = "groups that stay belong to processes that cannot be killed"]
    pub fn sweep(&self) -> usize {
        self.parked.sweep()
    }

    fn name(&self) -> String {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("kiln-{}-{number}", self.owner)
    }

    /// Logs once, at start: an explicit limit that cannot be enforced deserves a warning.
    fn say(&self) {
        for (controller, wanted) in [
            (Controller::Memory, self.limits.memory.is_some()),
            (Controller::Pids, self.limits.pids.is_some()),
        ] {
            match self.support(controller) {
                Ok(version) => {
                    tracing::debug!(%controller, %version, "children get control groups");
                }
                Err(why) if wanted => {
                    tracing::warn!(
                        "the limit of {controller} is not enforced by a control group: {why}"
                    );
                }
                Err(why) => {
                    tracing::info!("children run without a control group for {controller}: {why}");
                }
            }
        }
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        let left = self.sweep();
        if left > 0 {
            tracing::warn!(
                left,
                "control groups of processes that cannot be killed stay behind"
            );
        } else if let Some(leaf) = self.leaf.take() {
            leaf.leave();
        }
    }
}

/// Groups that could not be removed yet.
#[derive(Debug, Default)]
struct Parked(Mutex<Vec<PathBuf>>);

impl Parked {
    /// Removes a group now, or remembers it for later.
    fn remove(&self, folder: PathBuf) {
        if !gone(&folder) {
            self.list().push(folder);
        }
    }

    fn sweep(&self) -> usize {
        let mut list = self.list();
        list.retain(|folder| !gone(folder));
        list.len()
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a group's folder, if it has no process.
fn gone(folder: &Path) -> bool {
    match fs::remove_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Removes groups of dead supervisors. The kernel never removes a group with a process. The pid in the name protects a
/// living supervisor's group before its first process.
fn sweep_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix("kiln-")?.split_once('-'))
            .and_then(|(pid, _number)| pid.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        let stale = !Path::new("/proc").join(pid.to_string()).exists();
        if stale && gone(&entry.path()) {
            tracing::debug!(group = ?name, "removed the control group of a dead supervisor");
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
