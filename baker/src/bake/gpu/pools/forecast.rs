//! What tiles come to → how many pools they fill, and whose rows stay: the decisions of `filling.rs`, without a device.
//!
//! It guesses, settles and begins the next pool as the pools do, by the same bounds, so that the number of pools is theirs
//! wherever the figures of the tiles are.

use super::super::device::GpuError;
use super::super::layout;
use super::super::memory::{Budget, Held, Maker};
use super::filling::{Counting, Ends, Fill, Level, Rates};
use super::open::stays;
use super::pool_buffers;
use super::sizes::bytes_of;
use proto::plan::RowsHeld;

/// A tile as it will be.
#[derive(Clone, Copy, Debug)]
pub(in crate::bake::gpu) struct Tile {
    /// Positions of its first and last view.
    pub(in crate::bake::gpu) views: [u32; 2],
    /// Pixels whose alpha lets them count.
    pub(in crate::bake::gpu) counting: u32,
    /// What they come to.
    pub(in crate::bake::gpu) holds: layout::Pool,
}

impl Counting for Tile {
    fn counting(&self) -> u32 {
        self.counting
    }
}

/// Pools of a job that is not carried out.
#[derive(Debug)]
pub(in crate::bake::gpu) struct Forecast<'a, M: Maker> {
    make: &'a M,
    budget: &'a Budget,
    room: layout::Pool,
    reserve: u64,
    /// Of pools whose rows stay.
    pub(in crate::bake::gpu) kept: Vec<[Held<M::Buffer>; 6]>,
    /// Of the one in which rows are drawn again.
    pub(in crate::bake::gpu) scratch: Option<[Held<M::Buffer>; 6]>,
    /// Pools in all, those that share the scratch buffers each by itself.
    pub(in crate::bake::gpu) pools: u32,
    ends: Ends<Open>,
    held: RowsHeld,
    last_redrawn: Option<u32>,
}

/// A pool that is not complete.
#[derive(Debug, Default)]
pub(in crate::bake::gpu) struct Open {
    streamed: bool,
    level: Level<Tile>,
}

impl<'a, M: Maker> Forecast<'a, M> {
    /// Nothing yet, of pools with this room and `reserve` bytes to be left.
    pub(in crate::bake::gpu) fn new(
        make: &'a M,
        budget: &'a Budget,
        room: layout::Pool,
        reserve: u64,
    ) -> Self {
        Self {
            make,
            budget,
            room,
            reserve,
            kept: Vec::new(),
            scratch: None,
            pools: 0,
            ends: Ends::default(),
            held: RowsHeld::default(),
            last_redrawn: None,
        }
    }

    /// Adds a tile; tiles come view by view.
    pub(in crate::bake::gpu) fn add(&mut self, tile: Tile) -> Result<(), GpuError> {
        self.place(tile)
    }

    /// All tiles are in: what became of the rows of so many views.
    pub(in crate::bake::gpu) fn complete(&mut self, views: u32) -> Result<RowsHeld, GpuError> {
        self.finish()?;
        self.held.views = views;
        Ok(self.held)
    }

    fn enter(&mut self, tile: Tile, streamed: bool) {
        let rows = u64::from(tile.holds.rows);
        self.held.rows += rows;
        if !streamed {
            self.held.kept += rows;
        } else if rows > 0 {
            let [first, last] = tile.views;
            let known = self.last_redrawn.is_some_and(|known| known >= first);
            self.held.views_redrawn += last + 1 - first - u32::from(known);
            self.last_redrawn = Some(last);
        }
    }
}

impl<M: Maker> Fill for Forecast<'_, M> {
    type Tile = Tile;
    type Pool = Open;

    fn ends(&mut self) -> &mut Ends<Open> {
        &mut self.ends
    }

    fn room(&self) -> layout::Pool {
        self.room
    }

    fn level(pool: &mut Open) -> &mut Level<Tile> {
        &mut pool.level
    }

    fn streamed(pool: &Open) -> bool {
        pool.streamed
    }

    fn stays(&self) -> bool {
        self.scratch.is_none() && stays(self.budget, bytes_of(self.room), self.reserve)
    }

    fn start(&mut self) -> Result<Open, GpuError> {
        self.pools += 1;
        let stays = self.stays();
        if self.scratch.is_none() {
            let buffers = pool_buffers(self.make, self.room)?;
            match stays {
                true => self.kept.push(buffers),
                false => self.scratch = Some(buffers),
            }
        }
        Ok(Open {
            streamed: !stays,
            level: Level::default(),
        })
    }

    fn draw(&mut self, _: &mut Tile, _: &Open) -> Result<(), GpuError> {
        Ok(())
    }

    fn ask(&mut self, _: &mut Open) -> Result<(), GpuError> {
        Ok(())
    }

    fn settle(&mut self, mut pool: Open) -> Result<Open, GpuError> {
        for tile in pool.level.take_since() {
            let certain = pool.level.certain;
            if !certain.plus(tile.holds).within(self.room) && certain.rows > 0 {
                pool = self.start()?;
            }
            let holds = pool.level.certain.plus(tile.holds);
            pool.level.enter(&[tile], holds);
            self.enter(tile, pool.streamed);
        }
        if pool.level.pixels > 0 {
            self.ends.rates = Rates::learnt(pool.level.certain, pool.level.pixels);
        }
        Ok(pool)
    }

    fn close(&mut self, _: Open) {}
}
