//! All pools of a job.

use std::collections::BTreeSet;
use std::sync::Arc;

use proto::plan::RowsHeld;
use proto::table::View;

use super::bound::{Binding, Bound};
use super::filling::{Ends, FillLevel, FillRates};
use super::pool::{
    BLOCK_BYTES, BUFFERS, COUNTERS, Mould, NOTHING, PoolBuffers, ToneTable, shared, view_blocks,
};
use super::row_bins::{Binned, Boxes, Ground, RowBins};
use super::seams::{SeamPool, upload};
use crate::bake::gpu::device::{Device, GpuError};
use crate::bake::gpu::layout::{Judged, Pool, Visited};
use crate::bake::gpu::memory::{Buffer, OnDevice, Question, write};
use crate::bake::gpu::stage::Compiled;
use crate::bake::gpu::tiles::{TileWork, Tiles, ViewPlace};
use crate::bake::model::rows::Rows;

/// A complete pool.
#[derive(Debug)]
pub(super) struct FilledPool {
    pub(super) counts: Pool,
    pub(super) subset: Subset,
    pub(super) boxes: Boxes,
    pub(super) buffers: Arc<PoolBuffers>,
    /// Tiles to redraw for each pass; empty for a resident pool.
    pub(super) works: Vec<TileWork>,
    /// Its row bins; made once all views are added.
    pub(super) binned: Option<Binned>,
    /// Its rows were counted for each texel.
    pub(super) counted: bool,
    /// For all rows, and for those of the subset.
    pub(super) bound: Option<[Bound; 2]>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Subset {
    pub(super) patches: u32,
    pub(super) rows: u32,
}

/// A pool that tiles are added to.
#[derive(Debug)]
pub(super) struct OpenPool {
    pub(super) buffers: Arc<PoolBuffers>,
    pub(super) streamed: bool,
    pub(super) works: Vec<TileWork>,
    pub(super) level: FillLevel<TileWork>,
    /// The device's last counters.
    pub(super) counted: [u32; COUNTERS],
    /// The pending read-back of counters for the tiles since.
    pub(super) question: Option<Question>,
}

/// All rows of a job.
#[derive(Debug)]
pub(crate) struct RowStore {
    pub(super) layout: wgpu::BindGroupLayout,
    pub(super) row_bins: RowBins,
    pub(super) tones: Buffer,
    pub(super) mould: Arc<Mould>,
    pub(super) ends: Ends<OpenPool>,
    /// Empty pools: left by views that were forgotten, or preallocated.
    pub(super) spare: Vec<Arc<PoolBuffers>>,
    pub(super) pixels: Vec<FilledPool>,
    pub(super) seams: Vec<SeamPool>,
    /// The pool that streamed rows are redrawn into.
    pub(super) scratch: Option<Arc<PoolBuffers>>,
    /// Block sums of all views; made once all are added.
    pub(super) blocks: Option<Buffer>,
    view_blocks: Vec<[u32; 2]>,
    /// Number of blocks that all views will have.
    pub(crate) awaited: u64,
    /// Only the subset's rows of pixels are visited.
    pub(crate) narrowed: bool,
}

impl FilledPool {
    pub(super) fn is_streamed(&self) -> bool {
        !self.works.is_empty()
    }

    /// Draws the rows of a streamed pool once more: other pools have been drawn over it since.
    pub(super) fn redraw(&self, device: &Device, tiles: &Tiles) -> Result<(), GpuError> {
        write(device, &self.buffers.counters, &NOTHING);
        (self.works.iter())
            .try_for_each(|work| tiles.build(device, work, None, &self.buffers.drawn))
    }

    /// Binds all rows, and those of the subset, through the index `order`; none before they are sorted.
    pub(super) fn bind(
        &self,
        binding: &Binding<'_>,
        order: &Buffer,
    ) -> Result<Option<[Bound; 2]>, GpuError> {
        let Some(binned) = &self.binned else {
            return Ok(None);
        };
        let (b, row_bins) = (&self.buffers, binned.patches(&self.buffers));
        let parts = [&b.patches, &b.rows, &b.words, &b.trust, order, row_bins];
        let (counts, subset) = (self.counts, self.subset);
        let [of_subset, others] = binned.counts;
        let all = Visited {
            patches: counts.patches,
            first: subset.patches,
            gap: b.room.patches - counts.patches,
            row_bins: of_subset + others,
            first_row_bins: of_subset,
            row_bins_gap: binned.room - of_subset - others,
            ordered: u32::from(self.is_streamed()),
            ..Visited::default()
        };
        let few = Visited {
            patches: subset.patches,
            row_bins: of_subset,
            ..all
        };
        Ok(Some([
            binding.bind(all, counts.rows, parts)?,
            binding.bind(few, subset.rows, parts)?,
        ]))
    }
}

impl RowStore {
    /// Makes an empty store of pools of `words` words, for rows over `ground`.
    pub(crate) fn new(
        on: OnDevice<'_>,
        (layout, stage): (wgpu::BindGroupLayout, Compiled),
        values: &ToneTable,
        words: u32,
        ground: Ground,
    ) -> Result<Self, GpuError> {
        let room = Pool::of_words(words);
        let row_bins = RowBins::new(on, stage, ground, room)?;
        let [tones, full] = shared(&on)?;
        write(on.device, &tones, values);
        write(on.device, &full, &[room]);
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
    pub(crate) fn take(&mut self, device: &Device, tiles: &Tiles, pools: Vec<[Buffer; BUFFERS]>) {
        let pool = |buffers| Arc::new(self.mould.pool(device, tiles, buffers));
        self.spare = pools.into_iter().map(pool).collect();
    }

    /// Frees the buffers and keeps the layout and what was compiled.
    pub(crate) fn into_stage(self) -> (wgpu::BindGroupLayout, Compiled) {
        (self.layout, self.row_bins.into_stage())
    }

    /// Switches to another window; there must be no views.
    pub(crate) fn renew(&mut self, on: OnDevice<'_>, ground: Ground) -> Result<(), GpuError> {
        self.ends.rates = FillRates::default();
        self.narrowed = false;
        self.row_bins.renew(on, ground)
    }

    /// Frees the buffers kept for future rows.
    pub(crate) fn let_go(&mut self) {
        self.spare.clear();
        self.row_bins.free_beside();
    }

    pub(crate) fn room_is(&self, words: u32) -> bool {
        self.mould.room == Pool::of_words(words)
    }

    pub(crate) fn pool_bytes(&self) -> u64 {
        self.mould.room.bytes()
    }

    /// Registers a view; tiles added from now on belong to it. Returns its position, its first block among those of all
    /// views, and its blocks across and down.
    pub(crate) fn add_view(&mut self, view: &View) -> ViewPlace {
        let first = self.view_blocks.iter().map(|[a, d]| a * d).sum();
        let size = view_blocks(view);
        self.view_blocks.push(size);
        self.blocks = None;
        (self.view_blocks.len() as u32 - 1, first, size)
    }

    /// Parameters of all views for the residual stage. `of` maps a view's position to 1/c² of the robust loss and its
    /// share.
    pub(crate) fn judged(&self, of: impl Fn(usize) -> [f32; 2]) -> Vec<Judged> {
        let mut first_block = 0;
        let views = self.view_blocks.iter().enumerate();
        let judged = views.map(|(view, &[across, down])| {
            let [scale, share] = of(view);
            let judged = Judged {
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
    pub(crate) fn await_blocks(&mut self, blocks: u64) {
        // Spare pools must not take the memory reserved for the blocks.
        if blocks > self.awaited {
            self.spare.clear();
        }
        self.awaited = blocks;
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.view_blocks.iter().map(|[a, d]| u64::from(a * d)).sum()
    }

    /// Bytes of the sums of all blocks, present or announced.
    pub(crate) fn block_bytes(&self) -> u64 {
        BLOCK_BYTES * self.blocks().max(self.awaited)
    }

    /// Drops all views, none of which may have been visited, and keeps the buffers for their replacements.
    pub(crate) fn forget(&mut self) {
        let open = self.ends.take().map(|pool| pool.buffers);
        let filled = self.pixels.drain(..).map(|pool| pool.buffers);
        // Drops the pool shared by streamed rows: the budget covers the resident ones and one streamed pool.
        let scratch = self.scratch.take();
        let stayed = |buffers: &Arc<PoolBuffers>| {
            (scratch.as_ref()).is_none_or(|scratch| !Arc::ptr_eq(buffers, scratch))
        };
        self.spare.extend(filled.chain(open).filter(stayed));
        self.blocks = None;
        self.view_blocks.clear();
    }

    /// Records that the blocks' sums are set to zero.
    pub(crate) fn clear_blocks(&self, encoder: &mut wgpu::CommandEncoder) {
        if let Some(blocks) = &self.blocks {
            encoder.clear_buffer(&blocks.item, 0, None);
        }
    }

    /// Whether some rows are redrawn for each pass.
    pub(crate) fn streamed(&self) -> bool {
        self.scratch.is_some()
    }

    /// Numbers of resident and streamed rows; call it once all views are added.
    pub(crate) fn held(&self) -> RowsHeld {
        let of = |pool: &FilledPool| u64::from(pool.counts.rows);
        let kept = |pool: &&FilledPool| !pool.is_streamed();
        let redrawn = self.pixels.iter().flat_map(|pool| &pool.works);
        let views: BTreeSet<u32> = redrawn.flat_map(TileWork::views).collect();
        RowsHeld {
            rows: self.pixels.iter().map(of).sum(),
            kept: self.pixels.iter().filter(kept).map(of).sum(),
            views: self.view_blocks.len() as u32,
            views_redrawn: views.len() as u32,
            left_out: 0,
            parts: 0,
        }
    }

    pub(crate) fn mould(&self) -> &Arc<Mould> {
        &self.mould
    }

    /// Replaces the seam constraints.
    pub(crate) fn set_seams(&mut self, on: OnDevice<'_>, rows: &Rows) -> Result<(), GpuError> {
        self.seams.clear();
        self.seams = upload(on, rows)?;
        Ok(())
    }
}
