//! Checks before anything else that the process was started as the supervisor starts it: only listed variables, only
//! the standard three descriptors.

use std::io;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::close;
use proto::message::Role;
use proto::sandbox::passes;

use crate::worker::sandbox::SandboxError;

/// Refuses unlisted variables. Closes and returns other descriptors.
pub(super) fn check(role: Role) -> Result<Vec<i32>, SandboxError> {
    let foreign: Vec<String> = std::env::vars_os()
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .filter(|name| !passes(role, name))
        .collect();
    if !foreign.is_empty() {
        return Err(SandboxError::Variables(foreign.join(", ")));
    }
    close_foreign().map_err(SandboxError::Descriptors)
}

fn close_foreign() -> io::Result<Vec<i32>> {
    let mut closed = Vec::new();
    let listed: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in listed {
        // The listing's own descriptor is among them and closed by now.
        match close(number) {
            Ok(()) => closed.push(number),
            Err(Errno::EBADF) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // If one of the three were missing, the next opened file would take its number.
    fcntl(io::stdin(), FcntlArg::F_GETFD)?;
    fcntl(io::stdout(), FcntlArg::F_GETFD)?;
    fcntl(io::stderr(), FcntlArg::F_GETFD)?;
    Ok(closed)
}
