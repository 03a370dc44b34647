//! Tiles → rows in a pool. The device appends rows and counts them; the host does not wait for the counts
//! (`filling.rs`).
//!
//! If something does not fit, everything since the host last asked is discarded. Those tiles are redrawn one by one,
//! into the next pool if necessary.

use std::sync::Arc;

use super::super::device::{Device, GpuError};
use super::super::layout;
use super::super::memory::{Budget, Question, write};
use super::super::tiles::{Tiles, Work};
use super::filling::{Counting, Ends, Fill, Level, Rates, fitting};
use super::maker::PoolMaker;
use super::{Boxes, Buffers, COUNTERS, Filled, NOTHING, RowStore, Subset};
use crate::progress::unit;
use crate::step_times::timed;

/// Whether another pool may be resident with `left` bytes left. There must also be room for one more, in which other
/// rows are streamed or rows are sorted, and for `reserve` bytes.
pub(super) fn stays(left: u64, pool_bytes: u64, reserve: u64) -> bool {
    left >= 2 * pool_bytes + reserve
}

#[derive(Debug)]
pub(super) struct Open {
    buffers: Arc<Buffers>,
    streamed: bool,
    works: Vec<Work>,
    level: Level<Work>,
    /// The device's last counters.
    counted: [u32; COUNTERS],
    /// The pending read-back of counters for the tiles since.
    question: Option<Question>,
}

/// Fills pools with tiles. RowStore are resident as long as the budget keeps `reserve` bytes free, and room for one pool
/// to stream the others in.
#[derive(Debug)]
pub(in crate::bake::gpu) struct Filling<'a> {
    pools: &'a mut RowStore,
    device: &'a Device,
    budget: &'a Arc<Budget>,
    tiles: &'a Tiles,
    reserve: u64,
    maker: Option<PoolMaker>,
    /// Pixels that count in the views so far, and the numbers of views so far and still to come.
    pixels: u64,
    views: [usize; 2],
}

/// Share of the expected rows that is certain enough to make a pool for.
const SURELY: f64 = 0.75;

impl Counting for Work {
    fn counting(&self) -> u32 {
        self.counting_pixels()
    }

    fn divide(&mut self, fit: impl Fn(u32) -> bool) -> Option<Self> {
        let kept = fitting(self.counting_by_part(), fit);
        (kept > 0).then(|| self.split_off(kept))
    }
}

impl Fill for Filling<'_> {
    type Tile = Work;
    type Pool = Open;

    fn ends(&mut self) -> &mut Ends<Open> {
        &mut self.pools.ends
    }

    fn room(&self) -> layout::Pool {
        self.pools.mould.room
    }

    fn level(pool: &mut Open) -> &mut Level<Work> {
        &mut pool.level
    }

    fn streamed(pool: &Open) -> bool {
        pool.streamed
    }

    fn collect(&mut self) -> Result<(), GpuError> {
        if let Some(maker) = &mut self.maker {
            let made = timed("pools", || maker.take())?;
            self.pools.spare.extend(made);
        }
        Ok(())
    }

    fn stays(&self) -> bool {
        let (pools, pool) = (&*self.pools, self.pools.pool_bytes());
        let left = self.budget.left() + pools.row_bins.beside_bytes();
        pools.scratch.is_none()
            && match pools.spare.last() {
                Some(_) => left >= pool + self.reserve,
                None => stays(left, pool, self.reserve),
            }
    }

    fn start(&mut self) -> Result<Open, GpuError> {
        self.collect()?;
        let mut stays = self.stays();
        // A streamed pool costs more than fewer spare pools.
        while !stays && self.pools.scratch.is_none() && self.pools.spare.len() > 1 {
            self.pools.spare.pop();
            stays = self.stays();
        }
        let Self {
            pools,
            device,
            budget,
            tiles,
            ..
        } = self;
        if !stays {
            pools.row_bins.free_beside();
        }
        let spare = pools.spare.pop();
        let buffers = match pools.scratch.as_ref().or(spare.as_ref()) {
            Some(empty) => {
                write(device, &empty.counters, &NOTHING);
                Arc::clone(empty)
            }
            None => {
                let make = || pools.mould.buffers(device, budget, tiles);
                Arc::new(timed("pools", make)?)
            }
        };
        if !stays {
            pools.scratch = Some(Arc::clone(&buffers));
        }
        Ok(Open {
            buffers,
            streamed: !stays,
            works: Vec::new(),
            level: Level::default(),
            counted: NOTHING,
            question: None,
        })
    }

    fn draw(&mut self, tile: &mut Work, pool: &Open) -> Result<(), GpuError> {
        let (staged, drawn) = (tile.take_staged(), &pool.buffers.drawn);
        timed("tiles", || {
            self.tiles.build(self.device, tile, staged, drawn)
        })
    }

    fn ask(&mut self, pool: &mut Open) -> Result<(), GpuError> {
        if pool.question.is_none() && !pool.level.since.is_empty() {
            let counters = &pool.buffers.counters;
            pool.question = Some(Question::ask(self.device, self.budget, counters, COUNTERS)?);
        }
        Ok(())
    }

    fn settle(&mut self, mut pool: Open) -> Result<Open, GpuError> {
        for work in self.answer(&mut pool)? {
            let rest;
            (pool, rest) = self.alone(pool, work)?;
            for part in rest.iter().flat_map(|work| self.tiles.split(work)) {
                let left;
                (pool, left) = self.alone(pool, part)?;
                if !left.is_empty() {
                    // An empty pool holds any tile of that size.
                    return Err(GpuError::Refused {
                        label: "footprint".to_owned(),
                        text: "more rows than there can be".to_owned(),
                    });
                }
            }
        }
        if pool.level.pixels > 0 {
            self.pools.ends.rates = Rates::learnt(pool.level.certain, pool.level.pixels);
        }
        Ok(pool)
    }

    fn close(&mut self, pool: Open) {
        if pool.level.certain.rows > 0 {
            self.pools.pixels.push(Filled {
                counts: pool.level.certain,
                subset: Subset {
                    patches: pool.counted[5],
                    rows: pool.counted[6],
                },
                boxes: Boxes {
                    rows: pool.counted[3],
                    words: pool.counted[8],
                },
                buffers: pool.buffers,
                works: pool.works,
                binned: None,
                counted: false,
                bound: None,
            });
        }
    }
}

impl<'a> Filling<'a> {
    /// Fills pools without knowing of further views.
    pub(in crate::bake::gpu) fn new(
        pools: &'a mut RowStore,
        device: &'a Device,
        budget: &'a Arc<Budget>,
        tiles: &'a Tiles,
        reserve: u64,
    ) -> Self {
        Self {
            pools,
            device,
            budget,
            tiles,
            reserve,
            maker: None,
            pixels: 0,
            views: [0; 2],
        }
    }

    /// Announces `views` views, for which `maker` makes pools.
    pub(in crate::bake::gpu) fn of_views(self, maker: Option<PoolMaker>, views: usize) -> Self {
        let views = [0, views];
        Self {
            maker,
            views,
            ..self
        }
    }

    /// Draws the tiles of the next `views` views into pools.
    pub(in crate::bake::gpu) fn add(
        &mut self,
        works: Vec<Work>,
        views: usize,
    ) -> Result<(), GpuError> {
        let pixels = works.iter().map(|work| u64::from(work.counting_pixels()));
        self.pixels += pixels.sum::<u64>();
        self.views = [self.views[0] + views, self.views[1].saturating_sub(views)];
        for work in works {
            self.place(work)?;
            unit();
        }
        self.foresee();
        Ok(())
    }

    /// Starts making another pool if one will surely be needed and may be resident.
    fn foresee(&mut self) {
        let (rates, room) = (self.pools.ends.rates, self.pools.mould.room);
        let [before, after] = self.views.map(|views| views as f64);
        let pixels = self.pixels as f64 / before * after;
        let sure = rates.known(pixels * SURELY).is_some_and(|[rows, words]| {
            rows > f64::from(room.rows) || words > f64::from(room.words)
        });
        let stays = self.pools.spare.is_empty() && self.stays();
        if let Some(maker) = &mut self.maker
            && sure
            && stays
            && !maker.is_at_work()
        {
            maker.begin_one();
        }
    }

    pub(super) fn complete(&mut self) -> Result<(), GpuError> {
        self.finish()
    }

    /// Draws a tile by itself, into the next pool if necessary. Returns the pool, and the tile if not even an empty
    /// pool holds it.
    fn alone(&mut self, mut pool: Open, work: Work) -> Result<(Open, Vec<Work>), GpuError> {
        let mut works = vec![work];
        loop {
            for mut work in works {
                self.draw(&mut work, &pool)?;
                pool.level.since.push(work);
            }
            works = self.answer(&mut pool)?;
            if works.is_empty() || pool.level.certain.rows == 0 {
                return Ok((pool, works));
            }
            self.close(pool);
            pool = self.start()?;
        }
    }

    /// Reads the counters of a pool. If something did not fit, resets the pool to the last known counters and returns
    /// the tiles drawn since.
    fn answer(&mut self, pool: &mut Open) -> Result<Vec<Work>, GpuError> {
        self.ask(pool)?;
        let Some(question) = pool.question.take() else {
            return Ok(Vec::new());
        };
        let counted = timed("asks", || question.answer(self.device))?;
        let since = pool.level.take_since();
        if counted[4] != 0 {
            write(self.device, &pool.buffers.counters, &pool.counted);
            return Ok(since);
        }
        let holds = layout::Pool {
            patches: counted[0],
            rows: counted[1],
            words: counted[2],
        };
        pool.level.enter(&since, holds);
        pool.counted.copy_from_slice(&counted);
        if pool.streamed {
            pool.works.extend(since);
        }
        Ok(Vec::new())
    }
}

impl RowStore {
    /// Expects no rows of any tile until the device is asked, so that tests reach overflow.
    #[cfg(test)]
    pub(in crate::bake::gpu) fn expect_nothing(&mut self) {
        self.ends.rates = Rates::nothing();
    }
}

impl Open {
    pub(super) fn into_buffers(self) -> Arc<Buffers> {
        self.buffers
    }
}
