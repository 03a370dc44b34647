//! Rows on the device: pools that stay, and pools that are drawn again for every pass because the budget is full.
//!
//! The device appends tiles to a pool and counts what they came to (`open.rs`), of two pools in turn (`filling.rs`); a pool that is
//! full is one that passes visit (`visit.rs`), once its rows are in order (`plots.rs`) and bound (`bound.rs`).
//!
//! The order of rows within a pool and which pool they are in make no difference to any result: what crosses rows is summed
//! in integers.

mod bound;
mod filling;
mod forecast;
mod maker;
mod open;
pub(super) mod plots;
pub(super) mod seams;
mod sizes;
mod visit;

use std::collections::BTreeSet;
use std::sync::Arc;

use proto::plan::RowsHeld;
use proto::table::View;

use super::device::{Device, GpuError};
use super::layout;
use super::memory::{Budget, Buffer, Held, Maker, OnDevice, STORAGE, UNIFORM, write};
use super::shaders::ROWS;
use super::stage::{Compiled, bind_layout};
use super::tiles::{Tiles, Work};
use crate::bake::backend::BLOCK;
use crate::bake::rows::Rows;
use bound::Bound;
use filling::Ends;
pub(super) use forecast::{Forecast, Tile, TilePart};
pub(super) use maker::PoolMaker;
pub(super) use open::Filling;
use open::Open;
pub(super) use plots::{Boxes, Ground};
use plots::{Plots, Plotted};
pub(super) use sizes::memory;
pub(super) use sizes::{bytes_of, pool_words, room};
pub(super) use visit::{Visit, Which};

/// For each byte of a colour, its value and its squared slope.
pub(super) type Tones = [[f32; 2]; 256];

/// What the device counts of a pool, see footprint.wgsl and plots.wgsl.
pub(super) const COUNTERS: usize = 16;
/// At its start.
const NOTHING: [u32; COUNTERS] = [0; COUNTERS];

/// Where rows are written and read.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) patches: Buffer,
    pub(super) rows: Buffer,
    pub(super) words: Buffer,
    trust: Buffer,
    plots: Buffer,
    pub(super) counters: Buffer,
    /// What there is room for.
    room: layout::Pool,
    /// What the footprints' stage binds to write here.
    pub(super) drawn: wgpu::BindGroup,
}

/// A pool that is complete.
#[derive(Debug)]
struct Filled {
    counts: layout::Pool,
    subset: Subset,
    boxes: Boxes,
    buffers: Arc<Buffers>,
    /// Tiles to draw again for every pass; none where the rows stay.
    works: Vec<Work>,
    /// Its rows with a box; made when all views are in.
    plotted: Option<Plotted>,
    /// Rows that touch each texel were counted.
    counted: bool,
    /// All, and those of the subset.
    bound: Option<[Bound; 2]>,
}

/// What of a pool is of the subset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Subset {
    patches: u32,
    rows: u32,
}

/// What pools are made like.
#[derive(Debug)]
pub(super) struct Mould {
    room: layout::Pool,
    /// The same on the device.
    full: Buffer,
}

/// All rows of a job.
#[derive(Debug)]
pub(super) struct Pools {
    layout: wgpu::BindGroupLayout,
    plots: Plots,
    tones: Buffer,
    mould: Arc<Mould>,
    ends: Ends<Open>,
    /// Of pools whose views were forgotten, or that were made before there were any, to be filled.
    spare: Vec<Arc<Buffers>>,
    pixels: Vec<Filled>,
    seams: Vec<seams::Seams>,
    /// What rows are drawn again into.
    scratch: Option<Arc<Buffers>>,
    /// Of all views; made when all are in.
    blocks: Option<Buffer>,
    view_blocks: Vec<[u32; 2]>,
    /// There will be so many of their blocks.
    pub(super) awaited: u64,
    /// Of the rows of pixels, only those of the subset are visited.
    pub(super) narrowed: bool,
}

/// Buffers of a pool.
pub(super) const BUFFERS: usize = 6;

/// The buffers of a pool, with nothing in them yet: patches, rows, words, trust, plots, counters.
pub(super) fn pool_buffers<M: Maker>(
    make: &M,
    room: layout::Pool,
) -> Result<[Held<M::Buffer>; BUFFERS], GpuError> {
    let of = |label: &str, count: u32, size: usize| {
        make.buffer(label, u64::from(count) * size as u64, STORAGE)
    };
    Ok([
        of("patches", room.patches, size_of::<layout::Patch>())?,
        of("rows", room.rows, size_of::<layout::Row>())?,
        of("words", room.words, 4)?,
        of("trust", room.rows, 4)?,
        of("plots", sizes::plots(room), size_of::<layout::Patch>())?,
        of("counters", 1, size_of_val(&NOTHING))?,
    ])
}

/// What all pools share: the tones of colours, and what a pool has room for.
pub(super) fn shared<M: Maker>(make: &M) -> Result<[Held<M::Buffer>; 2], GpuError> {
    Ok([
        make.buffer("tones", size_of::<Tones>() as u64, UNIFORM)?,
        make.buffer("room", size_of::<layout::Pool>() as u64, UNIFORM)?,
    ])
}

/// What passes visit of a pool.
pub(super) fn visited<M: Maker>(make: &M) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer("visited", size_of::<layout::Visited>() as u64, UNIFORM)
}

/// Bytes of the sums of a block.
pub(super) const BLOCK_BYTES: u64 = 8;

/// Sums of the blocks of all views, of which there are so many.
pub(super) fn blocks<M: Maker>(make: &M, count: u64) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer("blocks", count * BLOCK_BYTES, STORAGE)
}

/// Blocks of a view across and down.
pub(super) fn view_blocks(view: &View) -> [u32; 2] {
    [view.width, view.height].map(|edge| edge.div_ceil(BLOCK))
}

/// Layout of the group that is a pool of rows.
pub(super) fn rows_layout(device: &Device) -> wgpu::BindGroupLayout {
    bind_layout(&device.device, "rows", ROWS)
}

impl Mould {
    /// Makes the buffers of a pool for what is drawn from `tiles`.
    pub(super) fn buffers(
        &self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
    ) -> Result<Buffers, GpuError> {
        let make = OnDevice { device, budget };
        Ok(self.pool(device, tiles, pool_buffers(&make, self.room)?))
    }

    /// A pool of such buffers, with nothing in it.
    fn pool(&self, device: &Device, tiles: &Tiles, buffers: [Buffer; BUFFERS]) -> Buffers {
        let [patches, rows, words, trust, plots, counters] = buffers;
        write(device, &counters, &NOTHING);
        let drawn = tiles.bind(device, [&counters, &self.full, &patches, &rows, &words]);
        Buffers {
            patches,
            rows,
            words,
            trust,
            plots,
            counters,
            room: self.room,
            drawn,
        }
    }
}

impl Pools {
    pub(super) fn new(
        device: &Device,
        budget: &Arc<Budget>,
        (layout, stage): (wgpu::BindGroupLayout, Compiled),
        values: &Tones,
        words: u32,
        ground: Ground,
    ) -> Result<Self, GpuError> {
        let room = room(words);
        let plots = Plots::new(device, budget, stage, ground, room)?;
        let [tones, full] = shared(&OnDevice { device, budget })?;
        write(device, &tones, values);
        write(device, &full, &[room]);
        Ok(Self {
            layout,
            plots,
            tones,
            mould: Arc::new(Mould { room, full }),
            ends: Ends::default(),
            spare: Vec::new(),
            pixels: Vec::new(),
            seams: Vec::new(),
            scratch: None,
            blocks: None,
            view_blocks: Vec::new(),
            awaited: 0,
            narrowed: false,
        })
    }

    /// Fills pools that were made before there was a mesh first.
    pub(super) fn take(&mut self, device: &Device, tiles: &Tiles, pools: Vec<[Buffer; BUFFERS]>) {
        let pool = |buffers| Arc::new(self.mould.pool(device, tiles, buffers));
        self.spare = pools.into_iter().map(pool).collect();
    }

    /// Frees all but the layout of the groups and what was compiled.
    pub(super) fn into_stage(self) -> (wgpu::BindGroupLayout, Compiled) {
        (self.layout, self.plots.into_stage())
    }

    /// For another window from now on; there are no views.
    pub(super) fn renew(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        ground: Ground,
    ) -> Result<(), GpuError> {
        self.ends.rates = Ends::<Open>::default().rates;
        self.narrowed = false;
        self.plots.renew(device, budget, ground)
    }

    /// Frees what is there for rows to come.
    pub(super) fn let_go(&mut self) {
        self.spare.clear();
        self.plots.free_beside();
    }

    /// Whether pools are of so many words.
    pub(super) fn room_is(&self, words: u32) -> bool {
        self.mould.room == room(words)
    }

    /// What a pool has room for: for tests.
    #[cfg(test)]
    pub(super) fn room(&self) -> layout::Pool {
        self.mould.room
    }

    /// Pools that rows to come will be drawn into: for tests.
    #[cfg(test)]
    pub(super) fn spares(&self) -> usize {
        self.spare.len()
    }

    /// Bytes of device memory for one pool.
    pub(super) fn pool_bytes(&self) -> u64 {
        bytes_of(self.mould.room)
    }

    /// Makes room for a view; tiles added from now on are its own. Returns its position and its part of all blocks.
    pub(super) fn add_view(&mut self, view: &View) -> (u32, u32, [u32; 2]) {
        let first = self.view_blocks.iter().map(|[a, d]| a * d).sum();
        let size = view_blocks(view);
        self.view_blocks.push(size);
        self.blocks = None;
        (self.view_blocks.len() as u32 - 1, first, size)
    }

    /// All views, each judged by what `of` says of its position: 1/c² of the robust loss, and its share.
    pub(super) fn judged(&self, of: impl Fn(usize) -> [f32; 2]) -> Vec<layout::Judged> {
        let mut first_block = 0;
        let views = self.view_blocks.iter().enumerate();
        let judged = views.map(|(view, &[across, down])| {
            let [scale, share] = of(view);
            let judged = layout::Judged {
                scale,
                share,
                first_block,
                blocks: across | down << 16,
            };
            first_block += across * down;
            judged
        });
        judged.collect()
    }

    /// There will be so many blocks, and no view before all is begun anew.
    pub(super) fn await_blocks(&mut self, blocks: u64) {
        // They must not take what is reserved for those.
        if blocks > self.awaited {
            self.spare.clear();
        }
        self.awaited = blocks;
    }

    /// Of all views so far.
    pub(super) fn blocks(&self) -> u64 {
        self.view_blocks.iter().map(|[a, d]| u64::from(a * d)).sum()
    }

    /// Bytes of the sums of all blocks that there are or will be.
    pub(super) fn block_bytes(&self) -> u64 {
        BLOCK_BYTES * self.blocks().max(self.awaited)
    }

    /// Lets go of all views, none of which has been visited, and keeps the buffers for those that come instead.
    pub(super) fn forget(&mut self) {
        let open = self.ends.take().map(Open::into_buffers);
        let filled = self.pixels.drain(..).map(|pool| pool.buffers);
        // Not those that others were to be drawn into again: there is room for all that stayed, and for one such.
        let scratch = self.scratch.take();
        let stayed = |buffers: &Arc<Buffers>| {
            (scratch.as_ref()).is_none_or(|scratch| !Arc::ptr_eq(buffers, scratch))
        };
        self.spare.extend(filled.chain(open).filter(stayed));
        self.blocks = None;
        self.view_blocks.clear();
    }

    /// Records that blocks are to be empty.
    pub(super) fn clear_blocks(&self, encoder: &mut wgpu::CommandEncoder) {
        if let Some(blocks) = &self.blocks {
            encoder.clear_buffer(&blocks.item, 0, None);
        }
    }

    /// Some rows are drawn again for every pass.
    pub(super) fn streamed(&self) -> bool {
        self.scratch.is_some()
    }

    /// What is kept of the rows of pixels, and what is drawn again; once all views are in.
    pub(super) fn held(&self) -> RowsHeld {
        let of = |pool: &Filled| u64::from(pool.counts.rows);
        let kept = |pool: &&Filled| pool.works.is_empty();
        let redrawn = self.pixels.iter().flat_map(|pool| &pool.works);
        let views: BTreeSet<u32> = redrawn.flat_map(Work::views).collect();
        RowsHeld {
            rows: self.pixels.iter().map(of).sum(),
            kept: self.pixels.iter().filter(kept).map(of).sum(),
            views: self.view_blocks.len() as u32,
            views_redrawn: views.len() as u32,
            left_out: 0,
            parts: 0,
        }
    }

    /// What pools are made like.
    pub(super) fn mould(&self) -> &Arc<Mould> {
        &self.mould
    }

    /// Adds the seams.
    pub(super) fn add_seams(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        rows: &Rows,
    ) -> Result<(), GpuError> {
        self.seams.clear();
        self.seams = seams::pools(device, budget, rows)?;
        Ok(())
    }
}

/// What is in a pool, read back: for tests.
#[cfg(test)]
#[derive(Debug)]
pub(super) struct Read {
    /// With a box, in order.
    pub(super) rows: Vec<layout::Row>,
    /// Patches of the subset, and others.
    pub(super) plots: [Vec<layout::Patch>; 2],
}

#[cfg(test)]
impl Pools {
    /// All pools of pixels, once passes have visited them.
    pub(super) fn read(&self, device: &Device, budget: &Arc<Budget>) -> Vec<Read> {
        use super::memory::read_as;
        let read = |pool: &Filled| {
            let (b, plotted) = (&pool.buffers, pool.plotted.as_ref().expect("in order"));
            let [few, rest] = plotted.counts.map(|count| count as usize);
            let room = plotted.room as usize;
            let all: Vec<layout::Patch> =
                read_as(device, budget, plotted.patches(b), room).expect("plots");
            let plots = [all[..few].to_vec(), all[room - rest..].to_vec()];
            let rows = pool.boxes.rows as usize;
            Read {
                rows: read_as(device, budget, &b.rows, rows).expect("rows"),
                plots,
            }
        };
        self.pixels.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests;
