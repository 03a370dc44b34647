//! Encode.

use std::os::fd::OwnedFd;

use proto::job::EncodeJob;
use proto::message::{EncodeSummary, Failure};

use crate::session::Session;

/// Runs the role.
///
/// # Errors
/// What the user is told.
pub fn run(
    _session: &Session,
    _job: &EncodeJob,
    _fds: Vec<OwnedFd>,
) -> Result<EncodeSummary, Failure> {
    Err(crate::run::internal(&std::io::Error::other(
        "being written",
    )))
}
