//! What tiles come to → how many pools they fill, and whose rows stay: the decisions of `open.rs`, without a device.
//!
//! It guesses, settles and begins the next pool as the pools do, by the same bounds, so that the number of pools is theirs
//! wherever the figures of the tiles are.

use super::super::device::GpuError;
use super::super::layout;
use super::super::memory::{Budget, Held, Maker};
use super::open::{AT_FIRST, guess, learnt, stays};
use super::pool_buffers;
use super::sizes::bytes_of;
use proto::plan::RowsHeld;

/// A tile as it will be.
#[derive(Clone, Copy, Debug)]
pub(in crate::bake::gpu) struct Tile {
    /// Position of its view.
    pub(in crate::bake::gpu) view: u32,
    /// Pixels whose alpha lets them count.
    pub(in crate::bake::gpu) counting: u32,
    /// What they come to.
    pub(in crate::bake::gpu) holds: layout::Pool,
}

/// Pools of a job that is not carried out.
#[derive(Debug)]
pub(in crate::bake::gpu) struct Forecast<B> {
    room: layout::Pool,
    reserve: u64,
    per_pixel: f32,
    /// Of pools whose rows stay.
    pub(in crate::bake::gpu) kept: Vec<[Held<B>; 6]>,
    /// Of the one in which rows are drawn again.
    pub(in crate::bake::gpu) scratch: Option<[Held<B>; 6]>,
    /// Pools in all, those that share the scratch buffers each by itself.
    pub(in crate::bake::gpu) pools: u32,
    open: Option<Open>,
    held: RowsHeld,
    last_redrawn: Option<u32>,
}

#[derive(Debug, Default)]
struct Open {
    certain: layout::Pool,
    guessed: layout::Pool,
    pixels: u64,
    since: Vec<Tile>,
}

impl<B> Forecast<B> {
    /// Nothing yet, of pools with this room and `reserve` bytes to be left.
    pub(in crate::bake::gpu) fn new(room: layout::Pool, reserve: u64) -> Self {
        Self {
            room,
            reserve,
            per_pixel: AT_FIRST,
            kept: Vec::new(),
            scratch: None,
            pools: 0,
            open: None,
            held: RowsHeld::default(),
            last_redrawn: None,
        }
    }

    /// Adds a tile; tiles come view by view.
    pub(in crate::bake::gpu) fn add<M: Maker<Buffer = B>>(
        &mut self,
        make: &M,
        budget: &Budget,
        tile: Tile,
    ) -> Result<(), GpuError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.start(make, budget)?,
        };
        let fits = |open: &Open, per_pixel: f32| {
            let all = open.certain.plus(open.guessed);
            all.plus(guess(tile.counting, per_pixel)).within(self.room)
        };
        let mut full = !fits(&open, self.per_pixel);
        if full && !open.since.is_empty() {
            open = self.settle(make, budget, open)?;
            let all = open.certain.plus(guess(tile.counting, self.per_pixel));
            full = !all.within(self.room);
        }
        if full && open.certain.rows > 0 {
            open = self.start(make, budget)?;
        }
        open.guessed = open.guessed.plus(guess(tile.counting, self.per_pixel));
        open.since.push(tile);
        self.open = Some(open);
        Ok(())
    }

    /// All tiles are in: what became of the rows of so many views.
    pub(in crate::bake::gpu) fn complete<M: Maker<Buffer = B>>(
        &mut self,
        make: &M,
        budget: &Budget,
        views: u32,
    ) -> Result<RowsHeld, GpuError> {
        if let Some(open) = self.open.take() {
            self.settle(make, budget, open)?;
        }
        self.held.views = views;
        Ok(self.held)
    }

    fn start<M: Maker<Buffer = B>>(&mut self, make: &M, budget: &Budget) -> Result<Open, GpuError> {
        self.pools += 1;
        if self.scratch.is_none() {
            let stays = stays(budget, bytes_of(self.room), self.reserve);
            let buffers = pool_buffers(make, self.room)?;
            match stays {
                true => self.kept.push(buffers),
                false => self.scratch = Some(buffers),
            }
        }
        Ok(Open::default())
    }

    /// What did not fit goes into the next pools.
    fn settle<M: Maker<Buffer = B>>(
        &mut self,
        make: &M,
        budget: &Budget,
        mut open: Open,
    ) -> Result<Open, GpuError> {
        open.guessed = layout::Pool::default();
        for tile in std::mem::take(&mut open.since) {
            if !open.certain.plus(tile.holds).within(self.room) && open.certain.rows > 0 {
                open = self.start(make, budget)?;
            }
            open.certain = open.certain.plus(tile.holds);
            open.pixels += u64::from(tile.counting);
            self.enter(tile);
        }
        if open.pixels > 0 {
            self.per_pixel = learnt(open.certain.entries, open.pixels);
        }
        Ok(open)
    }

    fn enter(&mut self, tile: Tile) {
        let rows = u64::from(tile.holds.rows);
        self.held.rows += rows;
        if self.scratch.is_none() {
            self.held.kept += rows;
        } else if rows > 0 && self.last_redrawn.replace(tile.view) != Some(tile.view) {
            self.held.views_redrawn += 1;
        }
    }
}
