//! Contents of tiles → the number of pools, and whose rows are resident: the decisions of `filling.rs` without a
//! device, for a dry run.
//!
//! It estimates, settles and begins pools by the same rules and bounds. Where the tiles' counts are right, so is the
//! number of pools.

use proto::plan::RowsHeld;

use super::filling::{Counting, Ends, Fill, FillLevel, FillRates, fitting};
use super::pool::{BUFFERS, pool_buffers};
use super::row_bins::{Boxes, beside};
use super::sizes::stays;
use crate::bake::gpu::device::GpuError;
use crate::bake::gpu::layout::Pool;
use crate::bake::gpu::memory::{Budget, Held, Maker};

#[derive(Clone, Debug)]
pub(crate) struct Tile(pub(crate) Vec<TilePart>);

/// A view's part of a tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TilePart {
    pub(crate) view: u32,
    /// Pixels whose alpha is high enough to count.
    pub(crate) counting: u32,
    /// What they hold in a pool.
    pub(crate) holds: Pool,
}

impl Tile {
    fn holds(&self) -> Pool {
        let parts = self.0.iter().map(|part| part.holds);
        parts.fold(Pool::default(), Pool::plus)
    }
}

impl Counting for Tile {
    fn counting(&self) -> u32 {
        self.0.iter().map(|part| part.counting).sum()
    }

    fn divide(&mut self, fit: impl Fn(u32) -> bool) -> Option<Self> {
        let kept = fitting(self.0.iter().map(|part| part.counting), fit);
        (kept > 0).then(|| Self(self.0.split_off(kept)))
    }
}

/// The row store of a job that is only planned.
#[derive(Debug)]
pub(crate) struct Forecast<'a, M: Maker> {
    make: &'a M,
    budget: &'a Budget,
    room: Pool,
    reserve: u64,
    pub(crate) kept: Vec<[Held<M::Buffer>; BUFFERS]>,
    pub(crate) scratch: Option<[Held<M::Buffer>; BUFFERS]>,
    /// Temporary buffers for sorting, unless the pool for streamed rows serves.
    pub(crate) beside: Option<[Held<M::Buffer>; 2]>,
    /// Number of pools, each streamed one included.
    pub(crate) pools: u32,
    ends: Ends<PlannedPool>,
    /// Largest number of pixels that count in a resident pool.
    most_pixels: u64,
    held: RowsHeld,
    last_redrawn: Option<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct PlannedPool {
    streamed: bool,
    level: FillLevel<Tile>,
}

impl<'a, M: Maker> Forecast<'a, M> {
    pub(crate) fn new(make: &'a M, budget: &'a Budget, room: Pool, reserve: u64) -> Self {
        Self {
            make,
            budget,
            room,
            reserve,
            kept: Vec::new(),
            scratch: None,
            beside: None,
            pools: 0,
            ends: Ends::default(),
            most_pixels: 0,
            held: RowsHeld::default(),
            last_redrawn: None,
        }
    }

    /// Adds a tile; tiles must come view by view.
    pub(crate) fn add(&mut self, tile: Tile) -> Result<(), GpuError> {
        self.place(tile)
    }

    /// Completes the forecast: what becomes of the rows of `views` views. `boxes` estimates the rows with a box for a
    /// number of pixels.
    pub(crate) fn complete(
        &mut self,
        views: u32,
        boxes: impl Fn(u64) -> Boxes,
    ) -> Result<RowsHeld, GpuError> {
        self.finish()?;
        if self.scratch.is_none() && self.most_pixels > 0 {
            self.beside = Some(beside(self.make, boxes(self.most_pixels))?);
        }
        self.held.views = views;
        Ok(self.held)
    }

    fn enter(&mut self, tile: &Tile, streamed: bool) {
        for part in &tile.0 {
            let rows = u64::from(part.holds.rows);
            self.held.rows += rows;
            if !streamed {
                self.held.kept += rows;
            } else if rows > 0 && self.last_redrawn.replace(part.view) != Some(part.view) {
                self.held.views_redrawn += 1;
            }
        }
    }
}

impl<M: Maker> Fill for Forecast<'_, M> {
    type Tile = Tile;
    type Pool = PlannedPool;

    fn ends(&mut self) -> &mut Ends<PlannedPool> {
        &mut self.ends
    }

    fn room(&self) -> Pool {
        self.room
    }

    fn level(pool: &mut PlannedPool) -> &mut FillLevel<Tile> {
        &mut pool.level
    }

    fn streamed(pool: &PlannedPool) -> bool {
        pool.streamed
    }

    fn stays(&self) -> bool {
        self.scratch.is_none() && stays(self.budget.left(), self.room.bytes(), self.reserve)
    }

    fn start(&mut self) -> Result<PlannedPool, GpuError> {
        self.pools += 1;
        let stays = self.stays();
        if self.scratch.is_none() {
            let buffers = pool_buffers(self.make, self.room)?;
            match stays {
                true => self.kept.push(buffers),
                false => self.scratch = Some(buffers),
            }
        }
        Ok(PlannedPool {
            streamed: !stays,
            level: FillLevel::default(),
        })
    }

    fn draw(&mut self, _: &mut Tile, _: &PlannedPool) -> Result<(), GpuError> {
        Ok(())
    }

    fn ask(&mut self, _: &mut PlannedPool) -> Result<(), GpuError> {
        Ok(())
    }

    fn settle(&mut self, mut pool: PlannedPool) -> Result<PlannedPool, GpuError> {
        for tile in pool.level.take_since() {
            let (certain, own) = (pool.level.certain, tile.holds());
            if !certain.plus(own).within(self.room) && certain.rows > 0 {
                pool = self.start()?;
            }
            let holds = pool.level.certain.plus(own);
            pool.level.enter([&tile], holds);
            self.enter(&tile, pool.streamed);
        }
        if pool.level.pixels > 0 {
            self.ends.rates = FillRates::learnt(pool.level.certain, pool.level.pixels);
        }
        Ok(pool)
    }

    fn close(&mut self, pool: PlannedPool) {
        if !pool.streamed {
            self.most_pixels = self.most_pixels.max(pool.level.pixels);
        }
    }
}
