//! Rows on the device: pools that stay, and pools that are drawn again for every pass because the budget is full.
//!
//! The device appends tiles to a pool and counts what they came to (`open.rs`), of two pools in turn (`filling.rs`); a pool that is
//! full is one that passes visit, once its rows are in order (`plots.rs`).
//!
//! The order of rows within a pool and which pool they are in make no difference to any result: what crosses rows is summed
//! in integers.

mod filling;
mod forecast;
mod maker;
mod open;
pub(super) mod plots;
pub(super) mod seams;
mod sizes;

use std::collections::BTreeSet;
use std::sync::Arc;

use proto::plan::RowsHeld;
use proto::table::View;

use super::batch::Batch;
use super::device::{Device, GpuError};
use super::layout;
use super::memory::{Budget, Buffer, Held, Maker, OnDevice, Question, STORAGE, UNIFORM, write};
use super::shaders::ROWS;
use super::stage::{Compiled, bind, bind_layout};
use super::tiles::{Tiles, Work};
use crate::bake::backend::BLOCK;
use crate::bake::rows::Rows;
use filling::Ends;
pub(super) use forecast::{Forecast, Tile, TilePart};
pub(super) use maker::PoolMaker;
pub(super) use open::Filling;
use open::Open;
pub(super) use plots::{Boxes, Ground};
use plots::{Plots, Plotted};
pub(super) use sizes::memory;
pub(super) use sizes::{bytes_of, pool_words, room};

/// Words after which a batch of commands is sent: about a tenth of a second of the slowest real GPUs.
const BATCH_WORDS: u64 = 32 << 20;

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

/// What passes bind, and what they visit.
#[derive(Debug)]
struct Bound {
    group: wgpu::BindGroup,
    visited: layout::Visited,
    rows: u32,
    _buffer: Buffer,
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

    /// Keeps no more pools for rows to come than leave so many bytes.
    pub(super) fn leave(&mut self, budget: &Budget, bytes: u64) {
        while budget.left() < bytes && self.spare.pop().is_some() {}
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

    /// All views are in, for now: makes what passes over them bind, and lets `first` visit the rows that it has not. `reserve`
    /// is as in [`Filling`].
    pub(super) fn complete(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
        first: Visit<'_>,
        reserve: u64,
    ) -> Result<(), GpuError> {
        Filling::new(self, device, budget, tiles, reserve).complete()?;
        self.spare.clear();
        self.put_in_order(device, budget, tiles)?;
        if self.blocks.is_none() {
            let count = self.view_blocks.iter().map(|[a, d]| u64::from(a * d)).sum();
            let blocks = blocks(&OnDevice { device, budget }, count)?;
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
        let Ground { size, texels } = self.plots.ground;
        let bound = |visited: layout::Visited, of_rows, parts: [&Buffer; 6]| {
            let buffer = self::visited(&OnDevice { device, budget })?;
            let visited = layout::Visited {
                size,
                count: texels,
                ..visited
            };
            write(device, &buffer, &[visited]);
            let [patches, rows, words, trust, order, plots] = parts;
            let all = [
                &buffer,
                patches,
                rows,
                words,
                trust,
                &self.tones,
                blocks,
                order,
                plots,
            ];
            let group = bind(
                device,
                "rows",
                &self.layout,
                &all.map(|buffer| buffer.item.as_entire_binding()),
            );
            Ok::<_, GpuError>(Bound {
                group,
                visited,
                rows: of_rows,
                _buffer: buffer,
            })
        };
        for pool in &mut self.pixels {
            if let (None, Some(plotted)) = (&pool.bound, &pool.plotted) {
                let b = &pool.buffers;
                let plots = plotted.patches(b);
                let order = &self.plots.order;
                let parts = [&b.patches, &b.rows, &b.words, &b.trust, order, plots];
                let (counts, subset) = (pool.counts, pool.subset);
                let [of_subset, others] = plotted.counts;
                let all = layout::Visited {
                    patches: counts.patches,
                    first: subset.patches,
                    gap: self.mould.room.patches - counts.patches,
                    plots: of_subset + others,
                    first_plots: of_subset,
                    plots_gap: plotted.room - of_subset - others,
                    ordered: u32::from(!pool.works.is_empty()),
                    ..layout::Visited::default()
                };
                let few = layout::Visited {
                    patches: subset.patches,
                    plots: of_subset,
                    ..all
                };
                pool.bound = Some([
                    bound(all, counts.rows, parts)?,
                    bound(few, subset.rows, parts)?,
                ]);
            }
        }
        for seams in &mut self.seams {
            if seams.bound.is_none() {
                let all = layout::Visited {
                    patches: seams.counts.patches,
                    first: seams.counts.patches,
                    ..layout::Visited::default()
                };
                let [patches, rows, words, trust] = seams.parts();
                // Of which it has none.
                let (order, plots) = (words, patches);
                let parts = [patches, rows, words, trust, order, plots];
                seams.bound = Some(bound(all, seams.counts.rows, parts)?);
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

    /// Puts the rows of pools in order that are not yet.
    fn put_in_order(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
    ) -> Result<(), GpuError> {
        if self.scratch.is_none() {
            let todo = self.pixels.iter().filter(|pool| pool.plotted.is_none());
            let most = todo.map(|pool| pool.boxes).reduce(Boxes::most);
            if let Some(most) = most {
                self.plots.make_beside(device, budget, most)?;
            }
        }
        let (plots, scratch) = (&self.plots, self.scratch.as_ref());
        let mut todo: Vec<(&mut Filled, Option<(Buffer, u32)>)> = (self.pixels.iter_mut())
            .filter(|pool| pool.plotted.is_none())
            .map(|pool| (pool, None))
            .collect();
        while !todo.is_empty() {
            let mut asked = Vec::new();
            for (pool, more) in todo {
                let mut batch = Batch::new(device, "plots");
                let buffers = &pool.buffers;
                let to = plots.to(scratch).filter(|_| pool.works.is_empty());
                let plotted = plots.of(device, budget, buffers, pool.boxes, (to, more))?;
                // Others of such have been drawn over it since.
                if !pool.works.is_empty() {
                    write(device, &buffers.counters, &NOTHING);
                    for work in &pool.works {
                        tiles.build(device, work, None, &buffers.drawn)?;
                    }
                }
                plots.put_in_order(&mut batch, buffers, &plotted)?;
                if let Some(to) = to {
                    plots.move_rows(&mut batch, buffers, &plotted, pool.boxes, to)?;
                }
                batch.send()?;
                let question = Question::ask(device, budget, &buffers.counters, COUNTERS)?;
                asked.push((pool, plotted, question));
            }
            todo = Vec::new();
            for (pool, mut plotted, question) in asked {
                let wanted = plotted.take(&question.answer(device)?);
                pool.plotted = Some(plotted);
                if let Some(wanted) = wanted {
                    let more = plots::more(&OnDevice { device, budget }, wanted)?;
                    todo.push((pool, Some((more, wanted))));
                }
            }
        }
        Ok(())
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
        let bound = (pool.bound.as_ref()).map(|[all, few]| if self.narrowed { few } else { all });
        if pool.works.is_empty() {
            return dispatch(batch, pool.counts, bound, visits);
        }
        batch.send()?;
        write(batch.device, &pool.buffers.counters, &NOTHING);
        for work in &pool.works {
            tiles.build(batch.device, work, None, &pool.buffers.drawn)?;
        }
        if let Some(plotted) = &pool.plotted {
            (self.plots).put_in_order(batch, &pool.buffers, plotted)?;
        }
        if let Some(again) = again {
            dispatch(batch, pool.counts, bound, &[again])?;
        }
        dispatch(batch, pool.counts, bound, visits)?;
        batch.send()?;
        // A pass over hundreds of such pools takes long: each is told of as it is done, and only one lies in the queue.
        batch.device.wait()
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

/// Records visits of those patches of a pool that `bound` says; `counts` is all of it.
fn dispatch(
    batch: &mut Batch<'_>,
    counts: layout::Pool,
    bound: Option<&Bound>,
    visits: &[Visit<'_>],
) -> Result<(), GpuError> {
    let Some(bound) = bound else {
        return Ok(());
    };
    let patches = [bound.visited.patches, bound.visited.plots];
    if patches == [0; 2] {
        return Ok(());
    }
    let words = u64::from(counts.words) * u64::from(bound.rows) / u64::from(counts.rows.max(1));
    for visit in visits {
        let Visit { stage, entry, own } = visit;
        stage.dispatch_rows(batch, entry, own, &bound.group, patches, bound.rows)?;
        batch.words += words;
        if batch.words >= BATCH_WORDS {
            batch.send()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
