//! Bake.

pub mod rows;

use std::os::fd::OwnedFd;

use proto::job::BakeJob;
use proto::message::{Failure, BakeSummary};

use crate::session::Session;

/// Runs the role.
///
/// # Errors
/// What the user is told.
pub fn run(_session: &Session, _job: &BakeJob, _fds: Vec<OwnedFd>) -> Result<BakeSummary, Failure> {
    Err(crate::run::internal(&std::io::Error::other("being written")))
}
