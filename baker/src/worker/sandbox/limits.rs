//! Applies a role's resource limits, and removes capabilities, core dumps and tracing from outside.

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use proto::limits::MAX_BLOB_BYTES;
use proto::message::Role;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// Descriptors of prepare and encode: the socket, the recorder, the log, the process's status, one file and one table
/// at a time, and views in encode's queue while it asks for memory (at most three, and held-out ones one by one).
const FEW_FILES: u64 = 64;
/// Descriptors of bake: a Vulkan driver holds some thirty per device.
const DRIVER_FILES: u64 = 512;
/// Largest memfd of a software driver, which holds the memory of its "device".
const DRIVER_FILE_BYTES: u64 = 64 << 30;

/// Lowers a limit permanently; a lower one stays.
fn bound(resource: Resource, limit: u64) -> nix::Result<()> {
    let (_, hard) = getrlimit(resource)?;
    let limit = limit.min(hard);
    setrlimit(resource, limit, limit)
}

/// Sets the limits. Returns those that could not be set, one clause each.
pub(super) fn lower(role: Role, address_space: Option<u64>) -> Vec<String> {
    let mut missing = Vec::new();
    let (files, file_bytes) = match role {
        Role::Prepare | Role::Encode => (FEW_FILES, MAX_BLOB_BYTES),
        Role::Bake => (DRIVER_FILES, DRIVER_FILE_BYTES),
    };
    let mut limits = vec![
        (Resource::RLIMIT_CORE, 0, "core dumps"),
        (Resource::RLIMIT_FSIZE, file_bytes, "file size"),
        (Resource::RLIMIT_NOFILE, files, "open files"),
        (Resource::RLIMIT_MEMLOCK, 0, "locked memory"),
        (Resource::RLIMIT_MSGQUEUE, 0, "message queues"),
    ];
    match (role, address_space) {
        // NVIDIA's driver reserves a multiple of the card's memory as addresses, so a limit would only exclude large
        // cards.
        (Role::Bake, _) | (_, None) => {}
        (Role::Prepare | Role::Encode, Some(bytes)) => {
            limits.push((Resource::RLIMIT_AS, bytes, "address space"));
        }
    }
    if role == Role::Bake {
        // Drivers lock the pages that the adapter reads.
        limits.retain(|(resource, ..)| *resource != Resource::RLIMIT_MEMLOCK);
    }
    for (resource, limit, what) in limits {
        if let Err(errno) = bound(resource, limit) {
            missing.push(format!("limit of {what}: {}", errno.desc()));
        }
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    if let Err(errno) = set_capabilities(None, none) {
        missing.push(format!("capabilities are kept: {errno}"));
    }
    if let Err(errno) = prctl::set_no_new_privs() {
        missing.push(format!("no_new_privs: {}", errno.desc()));
    }
    if let Err(errno) = prctl::set_dumpable(false) {
        missing.push(format!("dumpable: {}", errno.desc()));
    }
    missing
}
