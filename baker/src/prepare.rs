//! Prepare.

use std::os::fd::OwnedFd;

use proto::job::PrepareJob;
use proto::message::{Failure, PrepareSummary};

use crate::session::Session;

pub mod folder;
pub(crate) mod picture;
pub(crate) mod transforms;
pub(crate) mod views;

pub mod load;

pub mod clean;

pub mod unwrap;

/// Runs the role.
///
/// # Errors
/// What the user is told.
pub fn run(
    _session: &Session,
    _job: &PrepareJob,
    _fds: Vec<OwnedFd>,
) -> Result<PrepareSummary, Failure> {
    Err(crate::run::internal(&std::io::Error::other(
        "being written",
    )))
}
