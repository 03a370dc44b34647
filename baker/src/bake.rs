//! Bake.

pub mod plan;
pub mod scene;

pub mod atlas;

pub mod raster;

pub mod rows;

pub mod footprint;

pub mod backend;
pub mod gpu;
pub mod native;
mod normal;

pub mod fill;

pub mod pull_push;

pub mod fit;

pub mod colour;

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
