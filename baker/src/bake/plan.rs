//! What is decided before the fit: quality, adapter, the window of the texture that fits its memory, and the dry run,
//! which stops here.
//!
//! | module | input → output |
//! |---|---|
//! | `quality` | quality → taps, rounds, smoothness |
//! | `warm` | what was asked for → an open adapter, before any data comes |
//! | `artist` | that adapter, splats → who draws their views |
//! | `opening` | that adapter, the views seen so far, the mesh → the adapter of the job |
//! | `window` | texture → the part of it that an adapter works on |
//! | `dry_run` | mesh and views → forecast of memory and time |

pub(crate) mod artist;
pub mod dry_run;
pub(crate) mod opening;
pub mod quality;
pub mod warm;
pub mod window;

use proto::job::{BakeJob, Blend};

use self::quality::Plan;

/// What is asked of a bake.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(super) plan: &'a Plan,
    pub(super) blend: Blend,
    pub(super) job: &'a BakeJob,
}
