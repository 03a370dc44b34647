//! Tiles → rows in a pool: the device appends and counts, and the host does not wait to hear of it.
//!
//! How many entries a tile comes to is known only when it has been drawn; most are far below what it may come to. The host
//! guesses, and asks when the pool should be nearly full, or all views are in. If something did not fit, what was counted
//! since it last asked is forgotten, and those tiles are drawn again one by one, into the next pool where they must be.

use std::sync::Arc;

use super::super::device::{Device, GpuError};
use super::super::layout;
use super::super::memory::{Budget, read_as, write};
use super::super::tiles::{Tiles, Work};
use super::{Buffers, COUNTERS, Filled, NOTHING, Pools, Subset};
use crate::laps::timed;

/// Entries of a pixel that counts before any were: nine where a texel is about a pixel, twelve where its box is larger.
pub(super) const AT_FIRST: f32 = 14.0;
/// Of what pixels came to so far, this much is expected of the next.
const SPARE: f32 = 1.15;

/// What a tile may come to, of so many pixels that count.
pub(super) fn guess(counting: u32, per_pixel: f32) -> layout::Pool {
    layout::Pool {
        rows: counting,
        entries: (counting as f32 * per_pixel) as u32,
        ..layout::Pool::default()
    }
}

/// Entries to be expected of a pixel, where `pixels` came to `entries`.
pub(super) fn learnt(entries: u32, pixels: u64) -> f32 {
    entries as f32 / pixels as f32 * SPARE
}

/// Whether another pool may stay: there is room for one in which the others are drawn again, and `reserve` bytes.
pub(super) fn stays(budget: &Budget, pool_bytes: u64, reserve: u64) -> bool {
    budget.left() >= 2 * pool_bytes + reserve
}

/// The pool that tiles are added to.
#[derive(Debug)]
pub(super) struct Open {
    buffers: Arc<Buffers>,
    streamed: bool,
    works: Vec<Work>,
    /// What is in it, as the device said, and of how many pixels.
    certain: layout::Pool,
    subset: Subset,
    pixels: u64,
    /// Tiles since, and what they may have come to.
    since: Vec<Work>,
    guessed: layout::Pool,
}

impl Pools {
    /// Draws a tile of the latest view into a pool. Pools stay as long as the budget has `reserve` bytes left, and room for
    /// one in which the others are drawn again.
    pub(in crate::bake::gpu) fn add(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
        work: Work,
        reserve: u64,
    ) -> Result<(), GpuError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.start(device, budget, tiles, reserve)?,
        };
        let guess = self.guess(&work);
        if !open.expected().plus(guess).within(self.room) && !open.since.is_empty() {
            open = self.settle(device, budget, tiles, open, reserve)?;
        }
        if !open.expected().plus(guess).within(self.room) && open.certain.rows > 0 {
            self.close(open);
            open = self.start(device, budget, tiles, reserve)?;
        }
        timed("tiles", || tiles.build(device, &work, &open.buffers.drawn))?;
        open.guessed = open.guessed.plus(guess);
        open.since.push(work);
        self.open = Some(open);
        Ok(())
    }

    /// Expects nothing of any tile, until the device is asked: for tests of what does not fit.
    #[cfg(test)]
    pub(in crate::bake::gpu) fn expect_nothing(&mut self) {
        self.per_pixel = 0.0;
    }

    fn guess(&self, work: &Work) -> layout::Pool {
        guess(work.counting(), self.per_pixel)
    }

    fn start(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
        reserve: u64,
    ) -> Result<Open, GpuError> {
        let (spare, pool) = (self.spare.pop(), self.pool_bytes());
        let stays = self.scratch.is_none()
            && match &spare {
                Some(_) => budget.left() >= pool + reserve,
                None => stays(budget, pool, reserve),
            };
        let buffers = match self.scratch.as_ref().or(spare.as_ref()) {
            Some(empty) => {
                write(device, &empty.counters, &NOTHING);
                Arc::clone(empty)
            }
            None => Arc::new(timed("pools", || self.buffers(device, budget, tiles))?),
        };
        if !stays {
            self.scratch = Some(Arc::clone(&buffers));
        }
        Ok(Open {
            buffers,
            streamed: !stays,
            works: Vec::new(),
            certain: layout::Pool::default(),
            subset: Subset::default(),
            pixels: 0,
            since: Vec::new(),
            guessed: layout::Pool::default(),
        })
    }

    pub(super) fn close(&mut self, open: Open) {
        if open.certain.rows > 0 {
            self.pixels.push(Filled {
                counts: open.certain,
                subset: open.subset,
                buffers: open.buffers,
                works: open.works,
                counted: false,
                bound: None,
            });
        }
    }

    /// Makes certain of the tiles since; what did not fit is in the pool that is open after it.
    pub(super) fn settle(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
        mut open: Open,
        reserve: u64,
    ) -> Result<Open, GpuError> {
        for work in open.ask(device, budget)? {
            let rest;
            (open, rest) = self.alone(device, budget, tiles, open, work, reserve)?;
            for part in rest.iter().flat_map(|work| tiles.split(work)) {
                let left;
                (open, left) = self.alone(device, budget, tiles, open, part, reserve)?;
                if !left.is_empty() {
                    // An empty pool holds any tile of that size.
                    return Err(GpuError::Refused {
                        label: "footprint".to_owned(),
                        text: "more rows than there can be".to_owned(),
                    });
                }
            }
        }
        if open.pixels > 0 {
            self.per_pixel = learnt(open.certain.entries, open.pixels);
        }
        Ok(open)
    }

    /// Draws a tile by itself, into the next pool if it must be; returns the pool, and the tile where not even an empty one holds it.
    fn alone(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
        mut open: Open,
        work: Work,
        reserve: u64,
    ) -> Result<(Open, Vec<Work>), GpuError> {
        tiles.build(device, &work, &open.buffers.drawn)?;
        open.since.push(work);
        let mut rest = open.ask(device, budget)?;
        if !rest.is_empty() && open.certain.rows > 0 {
            self.close(open);
            open = self.start(device, budget, tiles, reserve)?;
            for work in rest {
                tiles.build(device, &work, &open.buffers.drawn)?;
                open.since.push(work);
            }
            rest = open.ask(device, budget)?;
        }
        Ok((open, rest))
    }
}

impl Open {
    pub(super) fn into_buffers(self) -> Arc<Buffers> {
        self.buffers
    }

    fn expected(&self) -> layout::Pool {
        self.certain.plus(self.guessed)
    }

    /// Asks the device what is in the pool. If something did not fit, the pool holds what it held when last asked, and the tiles
    /// since are returned.
    fn ask(&mut self, device: &Device, budget: &Arc<Budget>) -> Result<Vec<Work>, GpuError> {
        self.guessed = layout::Pool::default();
        let counters = &self.buffers.counters;
        let counted: Vec<u32> = timed("asks", || read_as(device, budget, counters, COUNTERS))?;
        let since = std::mem::take(&mut self.since);
        if counted[4] != 0 {
            let layout::Pool {
                patches,
                rows,
                entries,
                texels,
            } = self.certain;
            let Subset {
                patches: few,
                rows: of_few,
            } = self.subset;
            let counted = [
                patches,
                rows,
                entries,
                texels,
                0,
                few,
                of_few,
                patches - few,
            ];
            write(device, counters, &counted);
            return Ok(since);
        }
        self.certain = layout::Pool {
            patches: counted[0],
            rows: counted[1],
            entries: counted[2],
            texels: counted[3],
        };
        self.subset = Subset {
            patches: counted[5],
            rows: counted[6],
        };
        self.pixels += since
            .iter()
            .map(|work| u64::from(work.counting()))
            .sum::<u64>();
        if self.streamed {
            self.works.extend(since);
        }
        Ok(Vec::new())
    }
}
