//! Applies a role's Landlock rules: no file, no TCP, no outward signal or abstract socket; for bake, its driver's
//! files.
//!
//! Landlock binds the calling thread and those that it starts, so this runs while there is one thread.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};
use proto::message::Role;

use crate::worker::sandbox::named::Named;
use crate::worker::sandbox::paths;

/// The newest version whose rights were tested. Rights of later versions stay allowed.
const TESTED: ABI = ABI::V6;

/// The result.
pub(super) struct Landlocked {
    /// The kernel's version; 0 without Landlock.
    pub(super) abi: u8,
    /// What is missing from full protection; empty if nothing.
    pub(super) missing: String,
}

/// Restricts this thread.
pub(super) fn bind(role: Role) -> Landlocked {
    let (named, devices) = match role {
        Role::Prepare | Role::Encode => (Named::default(), Vec::new()),
        Role::Bake => {
            let mut read = paths::readable();
            let mut named = Named::new(|name| std::env::var_os(name), &read);
            named.read.append(&mut read);
            (named, paths::devices())
        }
    };
    match restrict(&named, &devices) {
        Ok(status) => told(&status),
        Err(error) => Landlocked {
            abi: 0,
            missing: format!("Landlock: {error}"),
        },
    }
}

fn restrict(named: &Named, write: &[PathBuf]) -> Result<RestrictionStatus, RulesetError> {
    let look: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    Ruleset::default()
        .handle_access(AccessFs::from_all(TESTED))?
        .handle_access(AccessNet::from_all(TESTED))?
        .scope(Scope::from_all(TESTED))?
        .create()?
        .add_rules(path_beneath_rules(&named.read, look))?
        .add_rules(path_beneath_rules(&named.list, AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(
            write,
            look | AccessFs::WriteFile | AccessFs::IoctlDev,
        ))?
        .restrict_self()
}

fn told(status: &RestrictionStatus) -> Landlocked {
    let abi = match status.landlock {
        LandlockStatus::Available {
            effective_abi,
            kernel_abi,
        } => kernel_abi.unwrap_or(effective_abi as i32),
        _ => 0,
    };
    let missing = match abi {
        0 => "Landlock: the kernel has none, or was started without it".to_owned(),
        abi if abi < TESTED as i32 => {
            format!(
                "Landlock is of version {abi}, not {}: the system call filters stand in for network, signals and ioctls",
                TESTED as i32
            )
        }
        _ => String::new(),
    };
    Landlocked {
        abi: u8::try_from(abi).unwrap_or(u8::MAX),
        missing,
    }
}
