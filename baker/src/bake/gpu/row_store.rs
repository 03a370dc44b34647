//! Rows on the device, in pools of fixed size. Resident pools keep their rows. Streamed pools are redrawn for each
//! pass, because the budget is full.
//!
//! | module | what it does |
//! |---|---|
//! | `sizes`, `pool` | the size of a pool, and its buffers |
//! | `filling`, `open`, `maker` | tiles → pools: the device appends rows, the host fills two pools alternately |
//! | `row_bins` | sorts the rows of a full pool into bins |
//! | `bound`, `seams` | bind groups for passes; the rows of seam constraints |
//! | `store` | all pools of a job |
//! | `complete`, `visit` | finishes the pools once all views are added; runs passes over them |
//! | `forecast` | the decisions of `open` without a device |
//!
//! Results do not depend on the order of rows within a pool, or on which pool they are in: sums across rows are integer
//! sums.

mod bound;
mod complete;
mod filling;
mod forecast;
mod maker;
mod open;
mod pool;
pub(super) mod row_bins;
pub(super) mod seams;
mod sizes;
mod store;
mod visit;

pub(super) use forecast::{Forecast, Tile, TilePart};
pub(super) use maker::PoolMaker;
pub(super) use open::Filling;
#[cfg(test)]
pub(super) use pool::COUNTERS;
pub(super) use pool::{
    BLOCK_BYTES, BUFFERS, blocks, pool_buffers, rows_layout, shared, view_blocks, visited,
};
pub(super) use row_bins::{Boxes, Ground};
pub(super) use sizes::{memory, pool_words};
pub(super) use store::RowStore;
pub(super) use visit::{Visit, Which};

#[cfg(test)]
mod tests;
