//! Finds the folders in which groups can be created, per controller, from `/proc/self/cgroup` and
//! `/proc/self/mountinfo`.
//!
//! A controller is in a hierarchy of version 1 or in that of version 2, never in both. Mixed systems have some of each.
//! In version 2 a group with processes cannot delegate its controllers, except the root. So a supervisor that is alone
//! in its group moves into a leaf beneath it. One that shares its group creates none.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use crate::process::cgroup::Support;

/// A kernel controller that bounds children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Controller {
    /// Bytes of memory.
    Memory,
    /// Threads and processes.
    Pids,
}

impl Controller {
    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

const CONTROLLERS: [Controller; 2] = [Controller::Memory, Controller::Pids];

/// A version of the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// One common hierarchy.
    V2,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "cgroup v1",
            Self::V2 => "cgroup v2",
        })
    }
}

/// A folder in which groups are created.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) version: Version,
    pub(super) controllers: Vec<Controller>,
    pub(super) folder: PathBuf,
}

/// The group that the supervisor moved itself into.
#[derive(Debug)]
pub(super) struct Leaf {
    /// Its previous group.
    own: PathBuf,
    leaf: PathBuf,
    pid: u32,
}

impl Leaf {
    /// Undoes the move, so that the group's owner can remove it. Best effort.
    pub(super) fn leave(self) {
        let undone = fs::write(self.own.join("cgroup.subtree_control"), "-memory -pids")
            .and_then(|()| fs::write(self.own.join("cgroup.procs"), self.pid.to_string()))
            .and_then(|()| fs::remove_dir(&self.leaf));
        if let Err(error) = undone {
            tracing::debug!(%error, "the supervisor stays in its own control group");
        }
    }
}

/// All places, the leaf if one was needed, and a reason for each controller without a place.
pub(super) fn find(
    own: &str,
    mounts: &str,
    pid: u32,
) -> (Vec<Place>, Option<Leaf>, HashMap<Controller, Support>) {
    let mut places: Vec<Place> = Vec::new();
    let mut why = HashMap::new();
    for controller in CONTROLLERS {
        match folder_of(controller, own, mounts) {
            // One folder serves both controllers in version 2, and where version 1 mounts them together.
            Ok((version, folder)) => match places.iter_mut().find(|place| place.folder == folder) {
                Some(place) => place.controllers.push(controller),
                None => places.push(Place {
                    version,
                    controllers: vec![controller],
                    folder,
                }),
            },
            Err(reason) => {
                why.insert(controller, Err(reason));
            }
        }
    }
    let mut leaf = None;
    for place in &mut places {
        if place.version != Version::V2 {
            continue;
        }
        let mut granted = Vec::new();
        for controller in place.controllers.drain(..) {
            match delegate(&place.folder, controller, pid, &mut leaf) {
                Ok(()) => granted.push(controller),
                Err(reason) => {
                    why.insert(controller, Err(reason));
                }
            }
        }
        place.controllers = granted;
    }
    places.retain(|place| !place.controllers.is_empty());
    (places, leaf, why)
}

/// The supervisor's own group in the hierarchy that has the controller.
fn folder_of(
    controller: Controller,
    own: &str,
    mounts: &str,
) -> Result<(Version, PathBuf), String> {
    let mut unified = None;
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(names), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if names.split(',').any(|name| name == controller.name()) {
            let folder = seen(mounts, "cgroup", Some(controller.name()), path)?;
            return Ok((Version::V1, folder));
        }
        if number == "0" && names.is_empty() {
            unified = Some(path);
        }
    }
    let path = unified.ok_or_else(|| format!("the kernel has no {controller} controller"))?;
    Ok((Version::V2, seen(mounts, "cgroup2", None, path)?))
}

/// Where a group's path is mounted. A container sees a part of the hierarchy, which mountinfo calls its root.
fn seen(mounts: &str, kind: &str, option: Option<&str>, path: &str) -> Result<PathBuf, String> {
    for line in mounts.lines() {
        // 35 31 0:32 ROOT MOUNT_POINT options - TYPE source SUPER_OPTIONS
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let (left, right): (Vec<_>, Vec<_>) =
            (left.split(' ').collect(), right.split(' ').collect());
        let (Some(root), Some(point)) = (left.get(3), left.get(4)) else {
            continue;
        };
        let options = right.get(2).copied().unwrap_or_default();
        let has = |option| options.split(',').any(|word| word == option);
        if right.first() != Some(&kind) || !option.is_none_or(has) {
            continue;
        }
        let Ok(beneath) = Path::new(path).strip_prefix(unescape(root)) else {
            continue;
        };
        if beneath.components().any(|part| part.as_os_str() == "..") {
            continue;
        }
        return Ok(Path::new(&unescape(point)).join(beneath));
    }
    Err(format!("its {kind} hierarchy is not mounted here"))
}

/// Decodes mountinfo's octal escapes of spaces, tabs, line feeds and backslashes.
fn unescape(text: &str) -> String {
    let escapes = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    escapes
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Version 2: enables a controller for the groups beneath `own`.
fn delegate(
    own: &Path,
    controller: Controller,
    pid: u32,
    leaf: &mut Option<Leaf>,
) -> Result<(), String> {
    let shown = own.display();
    let lists = |file: &str| {
        fs::read_to_string(own.join(file))
            .unwrap_or_default()
            .split_whitespace()
            .any(|word| word == controller.name())
    };
    if !lists("cgroup.controllers") {
        return Err(format!("{shown} was not given the {controller} controller"));
    }
    if lists("cgroup.subtree_control") {
        return Ok(());
    }
    let grant = || fs::write(own.join("cgroup.subtree_control"), format!("+{controller}"));
    let Err(refused) = grant() else { return Ok(()) };
    if leaf.is_some() || refused.kind() != std::io::ErrorKind::ResourceBusy {
        return Err(format!("{shown} is not ours to divide: {refused}"));
    }
    let inside = fs::read_to_string(own.join("cgroup.procs")).unwrap_or_default();
    if inside
        .split_whitespace()
        .any(|other| other != pid.to_string())
    {
        return Err(format!(
            "{shown} holds other processes: start kiln in a group of its own (systemd-run --scope -p Delegate=yes kiln …)"
        ));
    }
    let moved = Leaf {
        own: own.to_path_buf(),
        leaf: own.join(format!("kiln-{pid}-supervisor")),
        pid,
    };
    let done = fs::create_dir(&moved.leaf)
        .and_then(|()| fs::write(moved.leaf.join("cgroup.procs"), pid.to_string()))
        .and_then(|()| grant());
    match done {
        Ok(()) => {
            *leaf = Some(moved);
            Ok(())
        }
        Err(error) => {
            moved.leave();
            Err(format!("{shown} is not ours to divide: {error}"))
        }
    }
}
