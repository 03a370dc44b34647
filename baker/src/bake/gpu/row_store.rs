//! Rows on the device, in pools of fixed size. Resident pools keep their rows. Streamed pools
//! are redrawn for each pass, because the budget is full.
//!
//! The device appends tiles to a pool and counts what they hold (`open.rs`); the host fills two pools alternately
//! (`filling.rs`). A full pool is sorted into bins (`row_bins.rs`) and bound (`bound.rs`); passes then visit it
//! (`visit.rs`).
//!
//! Results do not depend on the order of rows within a pool, or on which pool they are in: sums across rows are integer
//! sums.

mod bound;
mod filling;
mod forecast;
mod maker;
mod open;
pub(super) mod row_bins;
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
use super::shaders::{ROWS, bind_layout};
use super::stage::Compiled;
use super::tiles::{Tiles, Work};
use crate::bake::backend::BLOCK;
use crate::bake::rows::Rows;
use bound::Bound;
use filling::Ends;
pub(super) use forecast::{Forecast, Tile, TilePart};
pub(super) use maker::PoolMaker;
pub(super) use open::Filling;
use open::Open;
use row_bins::{Binned, RowBins};
pub(super) use row_bins::{Boxes, Ground};
pub(super) use sizes::memory;
pub(super) use sizes::{bytes_of, pool_words, room};
pub(super) use visit::{Visit, Which};

/// For each value of a byte, its value in the space of the fit and its squared slope.
pub(super) type Tones = [[f32; 2]; 256];

/// Number of counters of a pool (footprint.wgsl, row_bins.wgsl).
pub(super) const COUNTERS: usize = 16;
const NOTHING: [u32; COUNTERS] = [0; COUNTERS];

#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) patches: Buffer,
    pub(super) rows: Buffer,
    pub(super) words: Buffer,
    trust: Buffer,
    row_bins: Buffer,
    pub(super) counters: Buffer,
    /// Capacity.
    room: layout::Pool,
    /// Bind group for the footprints that write into it.
    pub(super) drawn: wgpu::BindGroup,
}

/// A complete pool.
#[derive(Debug)]
struct Filled {
    counts: layout::Pool,
    subset: Subset,
    boxes: Boxes,
    buffers: Arc<Buffers>,
    /// Tiles to redraw for each pass; empty for a resident pool.
    works: Vec<Work>,
    /// Its row bins; made once all views are added.
    binned: Option<Binned>,
    /// Its rows were counted for each texel.
    counted: bool,
    /// For all rows, and for those of the subset.
    bound: Option<[Bound; 2]>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Subset {
    patches: u32,
    rows: u32,
}

#[derive(Debug)]
pub(super) struct Mould {
    room: layout::Pool,
    /// The same on the device.
    full: Buffer,
}

/// All rows of a job.
#[derive(Debug)]
pub(super) struct RowStore {
    layout: wgpu::BindGroupLayout,
    row_bins: RowBins,
    tones: Buffer,
    mould: Arc<Mould>,
    ends: Ends<Open>,
    /// RowStore to be filled: left by views that were forgotten, or preallocated.
    spare: Vec<Arc<Buffers>>,
    pixels: Vec<Filled>,
    seams: Vec<seams::Seams>,
    /// The pool that streamed rows are redrawn into.
    scratch: Option<Arc<Buffers>>,
    /// Block sums of all views; made once all are added.
    blocks: Option<Buffer>,
    view_blocks: Vec<[u32; 2]>,
    /// Number of blocks that all views will have.
    pub(super) awaited: u64,
    /// Only the subset's rows of pixels are visited.
    pub(super) narrowed: bool,
}

pub(super) const BUFFERS: usize = 6;

/// Empty buffers of a pool: patches, rows, words, trust (row weights), row_bins (patches of bins), counters.
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
        of(
            "row_bins",
            sizes::row_bins(room),
            size_of::<layout::Patch>(),
        )?,
        of("counters", 1, size_of_val(&NOTHING))?,
    ])
}

/// Buffers shared by all pools: the tones of colours, and a pool's capacity.
pub(super) fn shared<M: Maker>(make: &M) -> Result<[Held<M::Buffer>; 2], GpuError> {
    Ok([
        make.buffer("tones", size_of::<Tones>() as u64, UNIFORM)?,
        make.buffer("room", size_of::<layout::Pool>() as u64, UNIFORM)?,
    ])
}

/// Buffer for the patches of a pool that passes visit.
pub(super) fn visited<M: Maker>(make: &M) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer("visited", size_of::<layout::Visited>() as u64, UNIFORM)
}

pub(super) const BLOCK_BYTES: u64 = 8;

pub(super) fn blocks<M: Maker>(make: &M, count: u64) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer("blocks", count * BLOCK_BYTES, STORAGE)
}

pub(super) fn view_blocks(view: &View) -> [u32; 2] {
    [view.width, view.height].map(|edge| edge.div_ceil(BLOCK))
}

pub(super) fn rows_layout(device: &Device) -> wgpu::BindGroupLayout {
    bind_layout(&device.device, "rows", ROWS)
}

impl Mould {
    /// Makes an empty pool for tiles of `tiles`.
    pub(super) fn buffers(
        &self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
    ) -> Result<Buffers, GpuError> {
        let make = OnDevice { device, budget };
        Ok(self.pool(device, tiles, pool_buffers(&make, self.room)?))
    }

    fn pool(&self, device: &Device, tiles: &Tiles, buffers: [Buffer; BUFFERS]) -> Buffers {
        let [patches, rows, words, trust, row_bins, counters] = buffers;
        write(device, &counters, &NOTHING);
        let drawn = tiles.bind(device, [&counters, &self.full, &patches, &rows, &words]);
        Buffers {
            patches,
            rows,
            words,
            trust,
            row_bins,
            counters,
            room: self.room,
            drawn,
        }
    }
}

impl RowStore {
    pub(super) fn new(
        device: &Device,
        budget: &Arc<Budget>,
        (layout, stage): (wgpu::BindGroupLayout, Compiled),
        values: &Tones,
        words: u32,
        ground: Ground,
    ) -> Result<Self, GpuError> {
        let room = room(words);
        let row_bins = RowBins::new(device, budget, stage, ground, room)?;
        let [tones, full] = shared(&OnDevice { device, budget })?;
        write(device, &tones, values);
        write(device, &full, &[room]);
        Ok(Self {
            layout,
            row_bins,
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

    /// Adds pools that were made before there was a mesh; they are filled first.
    pub(super) fn take(&mut self, device: &Device, tiles: &Tiles, pools: Vec<[Buffer; BUFFERS]>) {
        let pool = |buffers| Arc::new(self.mould.pool(device, tiles, buffers));
        self.spare = pools.into_iter().map(pool).collect();
    }

    /// Frees the buffers and keeps the layout and what was compiled.
    pub(super) fn into_stage(self) -> (wgpu::BindGroupLayout, Compiled) {
        (self.layout, self.row_bins.into_stage())
    }

    /// Switches to another window; there must be no views.
    pub(super) fn renew(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        ground: Ground,
    ) -> Result<(), GpuError> {
        self.ends.rates = Ends::<Open>::default().rates;
        self.narrowed = false;
        self.row_bins.renew(device, budget, ground)
    }

    /// Frees the buffers kept for future rows.
    pub(super) fn let_go(&mut self) {
        self.spare.clear();
        self.row_bins.free_beside();
    }

    pub(super) fn room_is(&self, words: u32) -> bool {
        self.mould.room == room(words)
    }

    #[cfg(test)]
    pub(super) fn room(&self) -> layout::Pool {
        self.mould.room
    }

    #[cfg(test)]
    pub(super) fn spares(&self) -> usize {
        self.spare.len()
    }

    pub(super) fn pool_bytes(&self) -> u64 {
        bytes_of(self.mould.room)
    }

    /// Registers a view; tiles added from now on belong to it. Returns its position, its first block among those of all
    /// views, and its blocks across and down.
    pub(super) fn add_view(&mut self, view: &View) -> (u32, u32, [u32; 2]) {
        let first = self.view_blocks.iter().map(|[a, d]| a * d).sum();
        let size = view_blocks(view);
        self.view_blocks.push(size);
        self.blocks = None;
        (self.view_blocks.len() as u32 - 1, first, size)
    }

    /// Parameters of all views for the residual stage. `of` maps a view's position to 1/c² of the robust loss and its
    /// share.
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

    /// Announces the number of blocks of all views to come, before any view is added.
    pub(super) fn await_blocks(&mut self, blocks: u64) {
        // Spare pools must not take the memory reserved for the blocks.
        if blocks > self.awaited {
            self.spare.clear();
        }
        self.awaited = blocks;
    }

    pub(super) fn blocks(&self) -> u64 {
        self.view_blocks.iter().map(|[a, d]| u64::from(a * d)).sum()
    }

    /// Bytes of the sums of all blocks, present or announced.
    pub(super) fn block_bytes(&self) -> u64 {
        BLOCK_BYTES * self.blocks().max(self.awaited)
    }

    /// Drops all views, none of which may have been visited, and keeps the buffers for their replacements.
    pub(super) fn forget(&mut self) {
        let open = self.ends.take().map(Open::into_buffers);
        let filled = self.pixels.drain(..).map(|pool| pool.buffers);
        // Drops the pool shared by streamed rows: the budget covers the resident ones and one streamed pool.
        let scratch = self.scratch.take();
        let stayed = |buffers: &Arc<Buffers>| {
            (scratch.as_ref()).is_none_or(|scratch| !Arc::ptr_eq(buffers, scratch))
        };
        self.spare.extend(filled.chain(open).filter(stayed));
        self.blocks = None;
        self.view_blocks.clear();
    }

    /// Records that the blocks' sums are set to zero.
    pub(super) fn clear_blocks(&self, encoder: &mut wgpu::CommandEncoder) {
        if let Some(blocks) = &self.blocks {
            encoder.clear_buffer(&blocks.item, 0, None);
        }
    }

    /// Whether some rows are redrawn for each pass.
    pub(super) fn streamed(&self) -> bool {
        self.scratch.is_some()
    }

    /// Numbers of resident and streamed rows; call it once all views are added.
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

    pub(super) fn mould(&self) -> &Arc<Mould> {
        &self.mould
    }

    /// Replaces the seam constraints.
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

#[cfg(test)]
#[derive(Debug)]
pub(super) struct Read {
    /// Rows with a box, in order.
    pub(super) rows: Vec<layout::Row>,
    /// Patches of the subset, and others.
    pub(super) row_bins: [Vec<layout::Patch>; 2],
}

#[cfg(test)]
impl RowStore {
    pub(super) fn read(&self, device: &Device, budget: &Arc<Budget>) -> Vec<Read> {
        use super::memory::read_as;
        let read = |pool: &Filled| {
            let (b, binned) = (&pool.buffers, pool.binned.as_ref().expect("in order"));
            let [few, rest] = binned.counts.map(|count| count as usize);
            let room = binned.room as usize;
            let all: Vec<layout::Patch> =
                read_as(device, budget, binned.patches(b), room).expect("row_bins");
            let row_bins = [all[..few].to_vec(), all[room - rest..].to_vec()];
            let rows = pool.boxes.rows as usize;
            Read {
                rows: read_as(device, budget, &b.rows, rows).expect("rows"),
                row_bins,
            }
        };
        self.pixels.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests;
