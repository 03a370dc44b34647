//! Locks a fresh process in: it can reach only its socket, its log and, for bake, its adapter. Every role does this
//! first, while it has one thread, since Landlock and seccomp bind a thread and those that it starts later.
//!
//! | layer | prepare, encode | bake |
//! |---|---|---|
//! | environment, descriptors | listed variables, 0 to 2 | same |
//! | `limits` | no capabilities, `no_new_privs`, not dumpable, no core, few files, address space | same, without address space |
//! | `files` (Landlock) | no file, no TCP, no outward signal or abstract socket | driver files read-only (in users' folders only named files), device nodes |
//! | `filter` (seccomp) | allow-list from the start | a wide allow-list, then [`seal_gpu`]: a narrow one for all threads |
//!
//! Without Landlock, a bake opens its adapter as it likes, and the seal then leaves it no way to open a file
//! ([`Level::NoLandlock`]). What the kernel cannot provide is always reported ([`Sandbox::missing`]). The supervisor decides
//! what it accepts.

mod calls;
mod files;
mod filter;
mod limits;
mod named;
mod paths;
mod surroundings;

use std::io;
use std::sync::OnceLock;

use proto::message::Role;
use proto::sandbox::{Level, Sandbox};

pub use self::filter::{FilterError, allowed_calls};

/// Why a role does not start.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The environment was not cleared.
    #[error("unknown environment variables: {0}; kiln-baker is started by kiln, which clears them")]
    Variables(String),
    /// `/proc` is missing, or one of the standard descriptors is closed.
    #[error("the open descriptors cannot be checked")]
    Descriptors(#[source] io::Error),
    /// Our own lists are wrong.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

/// The sandbox options of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether to enter it at all.
    pub enabled: bool,
    /// Limit of the address space in bytes, for prepare and encode.
    pub address_space: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            enabled: true,
            address_space: None,
        }
    }
}

/// Set by [`enter`], for [`seal_gpu`].
static ENTERED: OnceLock<(Role, Sandbox)> = OnceLock::new();

/// Refuses an environment that was not cleared, and closes descriptors that nobody handed down. Call this before
/// opening any file.
///
/// # Errors
/// [`SandboxError::Variables`] or [`SandboxError::Descriptors`].
pub fn check_surroundings(role: Role, options: &Options) -> Result<(), SandboxError> {
    if !options.enabled {
        return Ok(());
    }
    let closed = surroundings::check(role)?;
    if !closed.is_empty() {
        tracing::warn!(?closed, "descriptors that nobody handed down were closed");
    }
    Ok(())
}

/// Gives up everything that the role does not need. Call this once, while there is one thread.
///
/// # Errors
/// [`SandboxError::Filter`]: our own lists are wrong. What the kernel refuses is in the returned account.
pub fn enter(role: Role, options: &Options) -> Result<Sandbox, SandboxError> {
    if !options.enabled {
        return Ok(Sandbox::off());
    }
    let filters = filter::start(role)?;
    let mut open = limits::lower(role, options.address_space);
    let landlock = files::bind(role);
    // Prepare and encode have no call left that Landlock would check.
    let landlocked = landlock.abi > 0 || role != Role::Bake;
    let seccomp_filters = bound(filter::bind(&filters), &mut open);
    let sandbox = Sandbox {
        level: level(&open, landlocked),
        landlock_abi: landlock.abi,
        seccomp_filters,
        allowed_calls: match role {
            Role::Prepare | Role::Encode if seccomp_filters > 0 => allowed_calls(role),
            _ => 0,
        },
        missing: told(open.into_iter().chain([landlock.missing])),
    };
    Ok(ENTERED.get_or_init(|| (role, sandbox)).1.clone())
}

/// Restricts bake to what it needs with an open adapter, on all threads including the driver's. Changes nothing without
/// a sandbox or in another role.
///
/// # Errors
/// [`SandboxError::Filter`], as [`enter`].
pub fn seal_gpu() -> Result<Sandbox, SandboxError> {
    let Some((role, entered)) = ENTERED.get() else {
        return Ok(Sandbox::off());
    };
    if *role != Role::Bake {
        return Ok(entered.clone());
    }
    let landlocked = entered.landlock_abi > 0;
    let filters = filter::seal(landlocked)?;
    let mut open = Vec::new();
    let added = bound(filter::bind_all_threads(&filters), &mut open);
    let missing = std::iter::once(entered.missing.clone());
    Ok(Sandbox {
        level: entered.level.min(level(&open, true)),
        seccomp_filters: entered.seccomp_filters + added,
        allowed_calls: match added {
            0 => 0,
            // The calls that it is refused are not allowed.
            _ => allowed_calls(*role) - u16::from(!landlocked),
        },
        missing: told(missing.chain(open)),
        ..entered.clone()
    })
}

fn bound(result: Result<u8, FilterError>, open: &mut Vec<String>) -> u8 {
    result.unwrap_or_else(|error| {
        open.push(error.to_string());
        0
    })
}

fn level(open: &[String], landlocked: bool) -> Level {
    match (open.is_empty(), landlocked) {
        (false, _) => Level::Partial,
        (true, false) => Level::NoLandlock,
        (true, true) => Level::Full,
    }
}

fn told(clauses: impl Iterator<Item = String>) -> String {
    let clauses: Vec<String> = clauses.filter(|clause| !clause.is_empty()).collect();
    clauses.join("; ")
}
