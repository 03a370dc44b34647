//! What a child did to itself before it touched data: told in its packets, held by the supervisor against the live process.
//!
//! Each guarantee counts as kept when some layer keeps it. What Landlock of an older kernel cannot do, the system call
//! filters do: such a child is still `full`, and says in [`Sandbox::missing`] which layer carries less than it could.

use serde::{Deserialize, Serialize};

use crate::message::Role;

/// How much of its role's sandbox a process lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// None: it was told so.
    Off,
    /// Some guarantee is kept by no layer.
    Partial,
    /// Every guarantee of the role is kept.
    Full,
}

impl Level {
    /// The word in logs and in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Partial => "partial",
            Self::Full => "full",
        }
    }
}

/// How far a process has come: bake narrows itself once more when its adapter is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// From the start.
    Entered,
    /// Bake: from `Ready` on. The other roles have no such stage: nothing changes for them.
    Sealed,
}

/// A process's account of its own sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// How much of it there is.
    pub level: Level,
    /// Version of the kernel's Landlock in use; 0 where there is none.
    pub landlock_abi: u8,
    /// System call filters in force.
    pub seccomp_filters: u8,
    /// System calls that an allow-list lets through; 0 where bake is not sealed yet.
    pub allowed_calls: u16,
    /// One line: which layer is missing or carries less than it could, and why. Empty where nothing is.
    pub missing: String,
}

impl Sandbox {
    /// No sandbox, because none was wanted.
    #[must_use]
    pub fn off() -> Self {
        Self {
            level: Level::Off,
            landlock_abi: 0,
            seccomp_filters: 0,
            allowed_calls: 0,
            missing: "turned off by --no-sandbox".to_owned(),
        }
    }
}

/// System call filters that a process of this role and stage must have at least: kill, refuse (with `ENOSYS` and with
/// `EACCES`) and allow for prepare and encode; the first three and the one against foreign numbers for bake, and two more
/// once it is sealed.
#[must_use]
pub fn filters(role: Role, stage: Stage) -> u8 {
    match (role, stage) {
        (Role::Prepare | Role::Encode, _) | (Role::Bake, Stage::Entered) => 4,
        (Role::Bake, Stage::Sealed) => 6,
    }
}

/// Names of variables that every role gets.
const VARIABLES: [&str; 6] = [
    "GLIBC_TUNABLES",
    "LD_LIBRARY_PATH",
    "KILN_LOG",
    "RAYON_NUM_THREADS",
    "RUST_BACKTRACE",
    "XDG_RUNTIME_DIR",
];
/// Further ones for bake: drivers find their settings with them.
const BAKE_VARIABLES: [&str; 2] = ["HOME", "XDG_CACHE_HOME"];
/// Further ones for bake, by their beginning: Vulkan loader, Mesa and its llvmpipe, NVIDIA.
const BAKE_PREFIXES: [&str; 6] = ["VK_", "MESA", "LP_", "GALLIUM_", "__GL_", "__NV_"];

/// Whether a process of this role may have the environment variable `name`: the supervisor passes no other on, and a child
/// that finds another refuses to work.
#[must_use]
pub fn passes(role: Role, name: &str) -> bool {
    #[cfg(feature = "failpoints")]
    if name == crate::failpoint::VARIABLE {
        return true;
    }
    VARIABLES.contains(&name)
        || (role == Role::Bake
            && (BAKE_VARIABLES.contains(&name)
                || BAKE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))))
}
