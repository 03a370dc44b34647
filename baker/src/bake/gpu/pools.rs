//! Rows on the device: pools that stay, and pools that are drawn again for every pass because the budget is full.
//!
//! The device appends tiles to a pool and counts what they came to; the host knows how much that is at most, and asks only
//! when the pool may be full. A tile that did not fit is taken back, which is to forget what was counted since, and drawn
//! into the next pool.
//!
//! The order of rows within a pool and which pool they are in make no difference to any result: what crosses rows is summed
//! in integers.

mod seams;

use std::sync::Arc;

use proto::table::View;

use super::batch::Batch;
use super::device::{Device, GpuError};
use super::layout::{self, GROUPS_ACROSS, PATCH_TEXELS, ROW_LANES};
use super::memory::{Budget, Buffer, STORAGE, UNIFORM, buffer, buffer_with, read_as, write};
use super::shaders::ROWS;
use super::stage::{Compiled, bind, bind_layout};
use super::tiles::{Tiles, Work};
use crate::bake::backend::BLOCK;
use crate::bake::rows::Rows;

/// Entries after which a batch of commands is sent: about a tenth of a second of the slowest real GPUs.
const BATCH_ENTRIES: u64 = 64 << 20;
/// Entries of a pool, the largest number that binding and budget allow: the first fills a binding of 128 MiB, and a dispatch
/// over it any GPU.
const SIZES: [u32; 11] = [
    1 << 25,
    1 << 24,
    1 << 23,
    1 << 22,
    1 << 21,
    1 << 20,
    1 << 19,
    1 << 18,
    1 << 17,
    1 << 16,
    1 << 15,
];

/// Room for `entries` and what usually comes with them: a row has nine entries or more where a texel is about a pixel, and a
/// patch of 64 rows touches about a hundred texels. Tiles that are otherwise leave some of it unused.
const fn room(entries: u32) -> layout::Pool {
    layout::Pool {
        patches: entries / 128,
        rows: entries / 6,
        entries,
        texels: entries / 2,
    }
}

const fn bytes_of(room: layout::Pool) -> u64 {
    room.patches as u64 * size_of::<layout::Patch>() as u64
        + room.rows as u64 * (size_of::<layout::Row>() as u64 + 4)
        + (room.entries as u64 + room.texels as u64) * 4
}

/// Entries of pools within `bytes` for all of them: four fit at least, or they are as small as they may be.
pub(super) fn pool_entries(bytes: u64, binding: u64) -> u32 {
    let fits =
        |&entries: &u32| u64::from(entries) * 4 <= binding && bytes_of(room(entries)) <= bytes / 4;
    let smallest = SIZES[SIZES.len() - 1].min(u32::try_from(binding / 4).unwrap_or(u32::MAX));
    SIZES.into_iter().find(fits).unwrap_or(smallest)
}

impl layout::Pool {
    fn plus(self, more: Self) -> Self {
        Self {
            patches: self.patches.saturating_add(more.patches),
            rows: self.rows.saturating_add(more.rows),
            entries: self.entries.saturating_add(more.entries),
            texels: self.texels.saturating_add(more.texels),
        }
    }

    fn within(self, room: Self) -> bool {
        self.patches <= room.patches
            && self.rows <= room.rows
            && self.entries <= room.entries
            && self.texels <= room.texels
    }

    /// What `pixels` of a tile of `size` come to at most, each of `taps`² samples: each sample on texels of its own, each pixel
    /// in a block of its own as long as there are so many.
    pub(super) fn most(pixels: u32, size: [u32; 2], taps: u32) -> Self {
        let row = 4 * taps * taps;
        let entries = pixels.saturating_mul(row);
        let [across, down] = size.map(|edge| edge.div_ceil(BLOCK));
        let few = (PATCH_TEXELS / row).clamp(1, ROW_LANES);
        Self {
            patches: pixels.min(across * down * ROW_LANES.div_ceil(few)),
            rows: pixels,
            entries,
            texels: entries,
        }
    }
}

/// Where rows are written and read.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) patches: Buffer,
    pub(super) rows: Buffer,
    pub(super) entries: Buffer,
    pub(super) touched: Buffer,
    trust: Buffer,
    /// Patches, rows, entries, texels; and whether something did not fit.
    pub(super) counters: Buffer,
    /// What the footprints' stage binds to write here.
    pub(super) drawn: wgpu::BindGroup,
}

/// A pool that is complete.
#[derive(Debug)]
struct Filled {
    counts: layout::Pool,
    buffers: Arc<Buffers>,
    /// Tiles to draw again for every pass; none where the rows stay.
    works: Vec<Work>,
    /// Rows that touch each texel were counted.
    counted: bool,
    bound: Option<Bound>,
}

/// What passes bind.
#[derive(Debug)]
struct Bound {
    group: wgpu::BindGroup,
    _counts: Buffer,
}

/// The pool that tiles are added to.
#[derive(Debug)]
struct Open {
    buffers: Arc<Buffers>,
    streamed: bool,
    works: Vec<Work>,
    /// What is in it, as the device said, and what may have come since.
    certain: layout::Pool,
    since: layout::Pool,
}

/// All rows of a job.
#[derive(Debug)]
pub(super) struct Pools {
    layout: wgpu::BindGroupLayout,
    room: layout::Pool,
    taps: u32,
    tones: Buffer,
    full: Buffer,
    open: Option<Open>,
    pixels: Vec<Filled>,
    seams: Vec<seams::Seams>,
    /// What rows are drawn again into.
    scratch: Option<Arc<Buffers>>,
    /// Of all views; made when all are in.
    blocks: Option<Buffer>,
    view_blocks: Vec<[u32; 2]>,
}

/// Which rows a pass visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Pixels,
    /// Pixels whose rows stay, and those whose rows are drawn again.
    Held,
    Streamed,
    Seams,
    All,
}

/// One entry point over rows with its own resources.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit<'a> {
    pub(super) stage: &'a Compiled,
    pub(super) entry: &'static str,
    pub(super) own: &'a wgpu::BindGroup,
}

/// Layout of the group that is a pool of rows.
pub(super) fn rows_layout(device: &Device) -> wgpu::BindGroupLayout {
    bind_layout(&device.device, "rows", ROWS)
}

impl Pools {
    pub(super) fn new(
        device: &Device,
        budget: &Arc<Budget>,
        layout: wgpu::BindGroupLayout,
        tones: &[[f32; 2]; 256],
        entries: u32,
        taps: u32,
    ) -> Result<Self, GpuError> {
        let room = room(entries);
        Ok(Self {
            layout,
            room,
            taps,
            tones: buffer_with(device, budget, "tones", tones, UNIFORM)?,
            full: buffer_with(device, budget, "room", &[room], UNIFORM)?,
            open: None,
            pixels: Vec::new(),
            seams: Vec::new(),
            scratch: None,
            blocks: None,
            view_blocks: Vec::new(),
        })
    }

    /// Bytes of device memory for one pool.
    pub(super) fn pool_bytes(&self) -> u64 {
        bytes_of(self.room)
    }

    /// Makes room for a view; tiles added from now on are its own. Returns its position and its part of all blocks.
    pub(super) fn add_view(&mut self, view: &View) -> (u32, u32, [u32; 2]) {
        let first = self.view_blocks.iter().map(|[a, d]| a * d).sum();
        let size = [view.width, view.height].map(|edge| edge.div_ceil(BLOCK));
        self.view_blocks.push(size);
        self.blocks = None;
        (self.view_blocks.len() as u32 - 1, first, size)
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

    /// Makes the buffers of a pool.
    pub(super) fn buffers(
        &self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
    ) -> Result<Buffers, GpuError> {
        let make = |label: &str, count: u32, size: usize| {
            buffer(
                device,
                budget,
                label,
                u64::from(count) * size as u64,
                STORAGE,
            )
        };
        let patches = make("patches", self.room.patches, size_of::<layout::Patch>())?;
        let rows = make("rows", self.room.rows, size_of::<layout::Row>())?;
        let entries = make("entries", self.room.entries, 4)?;
        let touched = make("touched texels", self.room.texels, 4)?;
        let trust = make("trust", self.room.rows, 4)?;
        let counters = buffer_with(device, budget, "counters", &[0u32; 5], STORAGE)?;
        let drawn = tiles.bind(
            device,
            [&counters, &self.full, &patches, &rows, &entries, &touched],
        );
        Ok(Buffers {
            patches,
            rows,
            entries,
            touched,
            trust,
            counters,
            drawn,
        })
    }

    /// Draws a tile of the latest view into a pool. Pools stay as long as the budget has `reserve` bytes left, and room for
    /// one in which the others are drawn again.
    pub(super) fn add(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
        work: Work,
        reserve: u64,
    ) -> Result<(), GpuError> {
        let most = work.most(self.taps);
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.start(device, budget, tiles, reserve)?,
        };
        if !open.certain.plus(open.since).plus(most).within(self.room) {
            open.settle(device, budget)?.or_bust()?;
        }
        tiles.build(device, &work, &open.buffers.drawn)?;
        if open.certain.plus(open.since).plus(most).within(self.room) {
            open.since = open.since.plus(most);
        } else if open.settle(device, budget)? == Fits::No {
            // An empty pool holds any tile.
            self.close(open);
            open = self.start(device, budget, tiles, reserve)?;
            tiles.build(device, &work, &open.buffers.drawn)?;
            open.since = most;
        }
        if open.streamed {
            open.works.push(work);
        }
        self.open = Some(open);
        Ok(())
    }

    fn start(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
        reserve: u64,
    ) -> Result<Open, GpuError> {
        let stays = self.scratch.is_none() && budget.left() >= 2 * self.pool_bytes() + reserve;
        let buffers = match &self.scratch {
            Some(scratch) => {
                write(device, &scratch.counters, &[0u32; 5]);
                Arc::clone(scratch)
            }
            None => Arc::new(self.buffers(device, budget, tiles)?),
        };
        if !stays {
            self.scratch = Some(Arc::clone(&buffers));
        }
        Ok(Open {
            buffers,
            streamed: !stays,
            works: Vec::new(),
            certain: layout::Pool::default(),
            since: layout::Pool::default(),
        })
    }

    fn close(&mut self, open: Open) {
        if open.certain.rows > 0 {
            self.pixels.push(Filled {
                counts: open.certain,
                buffers: open.buffers,
                works: open.works,
                counted: false,
                bound: None,
            });
        }
    }

    /// All views are in, for now: makes what passes over them bind, and lets `first` visit the rows that it has not.
    pub(super) fn complete(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
        first: Visit<'_>,
    ) -> Result<(), GpuError> {
        if let Some(mut open) = self.open.take() {
            open.settle(device, budget)?.or_bust()?;
            self.close(open);
        }
        if self.blocks.is_none() {
            let blocks: u64 = self.view_blocks.iter().map(|[a, d]| u64::from(a * d)).sum();
            let blocks = buffer(device, budget, "blocks", blocks * 8, STORAGE)?;
            for pool in &mut self.pixels {
                pool.bound = None;
            }
            for seams in &mut self.seams {
                seams.bound = None;
            }
            self.blocks = Some(blocks);
        }
        let Some(blocks) = &self.blocks else {
            return Ok(());
        };
        let bound = |counts: layout::Pool, parts: [&Buffer; 5]| -> Result<Bound, GpuError> {
            let counts = buffer_with(device, budget, "pool", &[counts], UNIFORM)?;
            let [patches, rows, entries, touched, trust] = parts;
            let all = [
                &counts,
                patches,
                rows,
                entries,
                touched,
                trust,
                &self.tones,
                blocks,
            ];
            let group = bind(
                device,
                "rows",
                &self.layout,
                &all.map(|buffer| buffer.item.as_entire_binding()),
            );
            Ok(Bound {
                group,
                _counts: counts,
            })
        };
        for pool in &mut self.pixels {
            if pool.bound.is_none() {
                let b = &pool.buffers;
                let parts = [&b.patches, &b.rows, &b.entries, &b.touched, &b.trust];
                pool.bound = Some(bound(pool.counts, parts)?);
            }
        }
        for seams in &mut self.seams {
            if seams.bound.is_none() {
                seams.bound = Some(bound(seams.counts, seams.parts())?);
            }
        }
        let mut batch = Batch::new(device, first.entry);
        for pool in &self.pixels {
            if !pool.counted {
                self.visit_pool(&mut batch, tiles, pool, &[first], None)?;
            }
        }
        for seams in &self.seams {
            if !seams.counted {
                dispatch(&mut batch, seams.counts, seams.bound.as_ref(), &[first])?;
            }
        }
        for pool in &mut self.pixels {
            pool.counted = true;
        }
        for seams in &mut self.seams {
            seams.counted = true;
        }
        batch.send()
    }

    /// Adds the seams.
    pub(super) fn add_seams(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        rows: &Rows,
    ) -> Result<(), GpuError> {
        self.seams = seams::pools(device, budget, rows)?;
        Ok(())
    }

    /// Runs `visits` over the rows of `which`. Rows that are drawn again are first visited by `again`, which restores their
    /// weights.
    pub(super) fn visit(
        &self,
        batch: &mut Batch<'_>,
        tiles: &Tiles,
        visits: &[Visit<'_>],
        which: Which,
        again: Option<Visit<'_>>,
    ) -> Result<(), GpuError> {
        for pool in &self.pixels {
            let streamed = !pool.works.is_empty();
            let wanted = match which {
                Which::Pixels | Which::All => true,
                Which::Held => !streamed,
                Which::Streamed => streamed,
                Which::Seams => false,
            };
            if wanted {
                self.visit_pool(batch, tiles, pool, visits, again)?;
            }
        }
        if matches!(which, Which::Seams | Which::All) {
            for seams in &self.seams {
                dispatch(batch, seams.counts, seams.bound.as_ref(), visits)?;
            }
        }
        Ok(())
    }

    fn visit_pool(
        &self,
        batch: &mut Batch<'_>,
        tiles: &Tiles,
        pool: &Filled,
        visits: &[Visit<'_>],
        again: Option<Visit<'_>>,
    ) -> Result<(), GpuError> {
        if pool.works.is_empty() {
            return dispatch(batch, pool.counts, pool.bound.as_ref(), visits);
        }
        batch.send()?;
        write(batch.device, &pool.buffers.counters, &[0u32; 5]);
        for work in &pool.works {
            tiles.build(batch.device, work, &pool.buffers.drawn)?;
        }
        if let Some(again) = again {
            dispatch(batch, pool.counts, pool.bound.as_ref(), &[again])?;
        }
        dispatch(batch, pool.counts, pool.bound.as_ref(), visits)?;
        batch.send()?;
        // A pass over hundreds of such pools takes long: each is told of as it is done, and only one lies in the queue.
        batch.device.wait()
    }
}

/// Whether the tiles since a pool was last asked did fit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fits {
    Yes,
    No,
}

impl Fits {
    /// Tiles that must fit, by what they come to at most.
    fn or_bust(self) -> Result<(), GpuError> {
        match self {
            Self::Yes => Ok(()),
            Self::No => Err(GpuError::Refused {
                label: "footprint".to_owned(),
                text: "more rows than there can be".to_owned(),
            }),
        }
    }
}

impl Open {
    /// Asks the device what is in the pool. If something did not fit, it then holds what it held when last asked.
    fn settle(&mut self, device: &Device, budget: &Arc<Budget>) -> Result<Fits, GpuError> {
        let counters = &self.buffers.counters;
        let counted: Vec<u32> = read_as(device, budget, counters, 5)?;
        let fits = counted[4] == 0;
        if fits {
            self.certain = layout::Pool {
                patches: counted[0],
                rows: counted[1],
                entries: counted[2],
                texels: counted[3],
            };
        } else {
            let layout::Pool {
                patches,
                rows,
                entries,
                texels,
            } = self.certain;
            write(device, counters, &[patches, rows, entries, texels, 0]);
        }
        self.since = layout::Pool::default();
        Ok(if fits { Fits::Yes } else { Fits::No })
    }
}

/// Records visits of all patches of a pool.
fn dispatch(
    batch: &mut Batch<'_>,
    counts: layout::Pool,
    bound: Option<&Bound>,
    visits: &[Visit<'_>],
) -> Result<(), GpuError> {
    let Some(bound) = bound else {
        return Ok(());
    };
    let groups = [
        counts.patches.min(GROUPS_ACROSS),
        counts.patches.div_ceil(GROUPS_ACROSS),
    ];
    for visit in visits {
        visit.stage.dispatch(
            batch,
            visit.entry,
            visit.own,
            Some(&bound.group),
            groups,
            counts.rows,
        )?;
        batch.entries += u64::from(counts.entries);
        if batch.entries >= BATCH_ENTRIES {
            batch.send()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
