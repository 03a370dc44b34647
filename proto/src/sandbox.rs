//! The sandbox that a child has entered before it touches data. The child reports it in its packets, and the supervisor
//! checks the report against the live process.
//!
//! A guarantee counts as kept if some layer keeps it. What Landlock of an older kernel cannot do, the system call
//! filters do. Such a child is still `full`, and [`Sandbox::missing`] names the layer that does less than it could.
//!
//! Where there is no Landlock at all (old kernels, gVisor, strict containers), a bake is `no_landlock`: its driver opens what
//! it likes until the adapter is open, and from then on, before any data is there, nothing. The other roles open nothing
//! anyway, and stay `full`.

use serde::{Deserialize, Serialize};

use crate::role::Role;

worded! {
    /// How much of its role's sandbox a process has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Level {
        /// None, on request.
        Off = "off",
        /// At least one guarantee is kept by no layer.
        Partial = "partial",
        /// Every guarantee is kept once data arrives; until then, no layer limits which files a driver opens.
        NoLandlock = "no_landlock",
        /// Every guarantee of the role is kept.
        Full = "full",
    }
}

/// Stages of the sandbox: bake restricts itself once more when its adapter is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// From the start.
    Entered,
    /// Bake: from `Ready` on. The other roles have no such stage.
    Sealed,
}

/// A process's report of its own sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// How much of it is in force.
    pub level: Level,
    /// Version of the kernel's Landlock in use; 0 without Landlock.
    pub landlock_abi: u8,
    /// Number of system call filters in force.
    pub seccomp_filters: u8,
    /// System calls that the allow-list lets through; 0 with a deny-list.
    pub allowed_calls: u16,
    /// One line: which layer is missing or does less than it could, and why. Empty if none is.
    pub missing: String,
}

impl Sandbox {
    /// No sandbox, on request.
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

/// Least number of system call filters of a process of this role and stage. Prepare and encode have four: kill, refuse
/// with `ENOSYS`, refuse with `EACCES`, and allow. Bake has the first three and the one against foreign numbers, and
/// two more once it is sealed.
pub fn filters(role: Role, stage: Stage) -> u8 {
    match (role, stage) {
        (Role::Prepare | Role::Encode, _) | (Role::Bake, Stage::Entered) => 4,
        (Role::Bake, Stage::Sealed) => 6,
    }
}

/// Variables that every role gets.
const VARIABLES: [&str; 6] = [
    "GLIBC_TUNABLES",
    "LD_LIBRARY_PATH",
    "KILN_LOG",
    "RAYON_NUM_THREADS",
    "RUST_BACKTRACE",
    "XDG_RUNTIME_DIR",
];
/// Further ones for bake: drivers need them to find their settings.
const BAKE_VARIABLES: [&str; 2] = ["HOME", "XDG_CACHE_HOME"];
/// Further ones for bake, by prefix: Vulkan loader, Mesa and its llvmpipe, NVIDIA.
const BAKE_PREFIXES: [&str; 6] = ["VK_", "MESA", "LP_", "GALLIUM_", "__GL_", "__NV_"];

/// Whether a process of this role may have the environment variable `name`. The supervisor passes on no other, and a
/// child that finds another refuses to work.
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
