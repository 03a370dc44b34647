//! Tiles → rows in a pool. The device appends rows and counts them; the host does not wait for the counts
//! (`filling.rs`).
//!
//! If something does not fit, everything since the host last asked is discarded. Those tiles are redrawn one by one,
//! into the next pool if necessary.

use std::sync::Arc;

use super::filling::{Counting, Ends, Fill, FillLevel, FillRates, fitting};
use super::maker::PoolMaker;
use super::pool::{COUNTERS, NOTHING};
use super::row_bins::Boxes;
use super::sizes::stays;
use super::store::{FilledPool, OpenPool, RowStore, Subset};
use crate::bake::gpu::device::GpuError;
use crate::bake::gpu::layout::Pool;
use crate::bake::gpu::memory::{OnDevice, Question, write};
use crate::bake::gpu::tiles::{TileWork, Tiles};
use crate::worker::progress::unit;
use crate::worker::step_times::timed;

/// Fills pools with tiles. Pools are resident as long as the budget keeps `reserve` bytes free, and room for one pool
/// to stream the others in.
#[derive(Debug)]
pub(crate) struct Filling<'a> {
    store: &'a mut RowStore,
    on: OnDevice<'a>,
    tiles: &'a Tiles,
    reserve: u64,
    maker: Option<PoolMaker>,
    /// Pixels that count in the views so far, and the numbers of views so far and still to come.
    pixels: u64,
    views: [usize; 2],
}

/// Share of the expected rows that is certain enough to make a pool for.
const SURELY: f64 = 0.75;

impl Counting for TileWork {
    fn counting(&self) -> u32 {
        self.counting_pixels()
    }

    fn divide(&mut self, fit: impl Fn(u32) -> bool) -> Option<Self> {
        let kept = fitting(self.counting_by_part(), fit);
        (kept > 0).then(|| self.split_off(kept))
    }
}

impl Fill for Filling<'_> {
    type Tile = TileWork;
    type Pool = OpenPool;

    fn ends(&mut self) -> &mut Ends<OpenPool> {
        &mut self.store.ends
    }

    fn room(&self) -> Pool {
        self.store.mould.room
    }

    fn level(pool: &mut OpenPool) -> &mut FillLevel<TileWork> {
        &mut pool.level
    }

    fn streamed(pool: &OpenPool) -> bool {
        pool.streamed
    }

    fn collect(&mut self) -> Result<(), GpuError> {
        if let Some(maker) = &mut self.maker {
            let made = timed("pools", || maker.take())?;
            self.store.spare.extend(made);
        }
        Ok(())
    }

    fn stays(&self) -> bool {
        let (store, pool) = (&*self.store, self.store.pool_bytes());
        let left = self.on.budget.left() + store.row_bins.beside_bytes();
        store.scratch.is_none()
            && match store.spare.last() {
                Some(_) => left >= pool + self.reserve,
                None => stays(left, pool, self.reserve),
            }
    }

    fn start(&mut self) -> Result<OpenPool, GpuError> {
        self.collect()?;
        let mut stays = self.stays();
        // A streamed pool costs more than fewer spare pools.
        while !stays && self.store.scratch.is_none() && self.store.spare.len() > 1 {
            self.store.spare.pop();
            stays = self.stays();
        }
        let store = &mut *self.store;
        if !stays {
            store.row_bins.free_beside();
        }
        let spare = store.spare.pop();
        let buffers = match store.scratch.as_ref().or(spare.as_ref()) {
            Some(empty) => {
                write(self.on.device, &empty.counters, &NOTHING);
                Arc::clone(empty)
            }
            None => {
                let make = || store.mould.buffers(self.on, self.tiles);
                Arc::new(timed("pools", make)?)
            }
        };
        if !stays {
            store.scratch = Some(Arc::clone(&buffers));
        }
        Ok(OpenPool {
            buffers,
            streamed: !stays,
            works: Vec::new(),
            level: FillLevel::default(),
            counted: NOTHING,
            question: None,
        })
    }

    fn draw(&mut self, tile: &mut TileWork, pool: &OpenPool) -> Result<(), GpuError> {
        let (staged, drawn) = (tile.take_staged(), &pool.buffers.drawn);
        timed("tiles", || {
            (self.tiles).build(self.on.device, tile, staged, drawn)
        })
    }

    fn ask(&mut self, pool: &mut OpenPool) -> Result<(), GpuError> {
        if pool.question.is_none() && !pool.level.since.is_empty() {
            let counters = &pool.buffers.counters;
            pool.question = Some(Question::ask(self.on, counters, COUNTERS)?);
        }
        Ok(())
    }

    fn settle(&mut self, mut pool: OpenPool) -> Result<OpenPool, GpuError> {
        for work in self.answer(&mut pool)? {
            let rest;
            (pool, rest) = self.alone(pool, work)?;
            for part in rest.iter().flat_map(|work| self.tiles.split(work)) {
                let left;
                (pool, left) = self.alone(pool, part)?;
                if !left.is_empty() {
                    // An empty pool holds any tile of that size.
                    let text = "more rows than there can be";
                    return Err(GpuError::refused("footprint", text));
                }
            }
        }
        if pool.level.pixels > 0 {
            self.store.ends.rates = FillRates::learnt(pool.level.certain, pool.level.pixels);
        }
        Ok(pool)
    }

    fn close(&mut self, pool: OpenPool) {
        if pool.level.certain.rows > 0 {
            self.store.pixels.push(FilledPool {
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
    pub(crate) fn new(
        store: &'a mut RowStore,
        on: OnDevice<'a>,
        tiles: &'a Tiles,
        reserve: u64,
    ) -> Self {
        Self {
            store,
            on,
            tiles,
            reserve,
            maker: None,
            pixels: 0,
            views: [0; 2],
        }
    }

    /// Announces `views` views, for which `maker` makes pools.
    pub(crate) fn of_views(self, maker: Option<PoolMaker>, views: usize) -> Self {
        let views = [0, views];
        Self {
            maker,
            views,
            ..self
        }
    }

    /// Draws the tiles of the next `views` views into pools.
    pub(crate) fn add(&mut self, works: Vec<TileWork>, views: usize) -> Result<(), GpuError> {
        let pixels = works.iter().map(|work| u64::from(work.counting_pixels()));
        self.pixels += pixels.sum::<u64>();
        self.views = [self.views[0] + views, self.views[1].saturating_sub(views)];
        for work in works {
            self.place(work)?;
            unit();
        }
        self.preallocate();
        Ok(())
    }

    /// Starts making another pool if one will surely be needed and may be resident.
    fn preallocate(&mut self) {
        let (rates, room) = (self.store.ends.rates, self.store.mould.room);
        let [before, after] = self.views.map(|views| views as f64);
        let pixels = self.pixels as f64 / before * after;
        let sure = rates.known(pixels * SURELY).is_some_and(|[rows, words]| {
            rows > f64::from(room.rows) || words > f64::from(room.words)
        });
        let stays = self.store.spare.is_empty() && self.stays();
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
    fn alone(
        &mut self,
        mut pool: OpenPool,
        work: TileWork,
    ) -> Result<(OpenPool, Vec<TileWork>), GpuError> {
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
    fn answer(&mut self, pool: &mut OpenPool) -> Result<Vec<TileWork>, GpuError> {
        self.ask(pool)?;
        let Some(question) = pool.question.take() else {
            return Ok(Vec::new());
        };
        let counted = timed("asks", || question.answer(self.on.device))?;
        let since = pool.level.take_since();
        if counted[4] != 0 {
            write(self.on.device, &pool.buffers.counters, &pool.counted);
            return Ok(since);
        }
        let holds = Pool {
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
