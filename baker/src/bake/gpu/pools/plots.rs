//! A pool that is full → its rows with a box in the order of where they begin in the texture, and patches of them (plots.wgsl).
//!
//! Rows that stay are moved to where they are in that order: into buffers beside the pool, and back. Those that are drawn again for
//! every pass are visited by it. How many patches there are is known once the device has made them, so the host asks for all pools at
//! once; rows that are drawn again come to as many each time.

use std::sync::Arc;

use super::{Buffers, COUNTERS, sizes};
use crate::bake::gpu::batch::Batch;
use crate::bake::gpu::device::{Device, GpuError};
use crate::bake::gpu::layout::{
    self, Ordering, PLOT, Patch, RANKS, Row, TEXEL_LANES, texel_groups,
};
use crate::bake::gpu::memory::{Budget, Buffer, Held, Maker, OnDevice, STORAGE, UNIFORM, write};
use crate::bake::gpu::stage::{Compiled, bind};

/// What the device counts of plots begins here among a pool's counters: rows in order, patches of the subset and others, words moved.
const COUNTED: usize = 9;
/// And ends before this.
const COUNTED_TO: usize = 13;
const _: () = assert!(COUNTED_TO <= COUNTERS);

/// Where the plots of a window are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bake::gpu) struct Ground {
    /// Texels in a row, and in all.
    pub(in crate::bake::gpu) size: u32,
    pub(in crate::bake::gpu) texels: u32,
}

impl Ground {
    fn across(self) -> u32 {
        self.size.div_ceil(PLOT)
    }

    fn plots(self) -> u32 {
        self.across() * self.texels.div_ceil(self.size.max(1)).div_ceil(PLOT)
    }

    /// Bytes of what is counted of each plot, of the subset and not, by ranks.
    fn bytes(self) -> u64 {
        2 * 4 * u64::from(RANKS * self.plots())
    }
}

/// What rows are put in order with.
#[derive(Debug)]
pub(super) struct Plots {
    stage: Compiled,
    pub(super) ground: Ground,
    keys: Buffer,
    /// Of the rows of a pool.
    pub(super) order: Buffer,
    /// Where nothing is moved.
    nothing: Buffer,
    /// Where rows and their words are moved, before they are moved back.
    beside: Option<[Buffer; 2]>,
}

/// Rows with a box, and their words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::bake::gpu) struct Boxes {
    pub(in crate::bake::gpu) rows: u32,
    pub(in crate::bake::gpu) words: u32,
}

impl Boxes {
    /// The larger number of each.
    pub(super) fn most(self, other: Self) -> Self {
        Self {
            rows: self.rows.max(other.rows),
            words: self.words.max(other.words),
        }
    }
}

/// The plots of a pool.
#[derive(Debug)]
pub(super) struct Plotted {
    own: wgpu::BindGroup,
    _ordering: Buffer,
    groups: [u32; 2],
    /// Where there are more than the pool has room for.
    more: Option<Buffer>,
    pub(super) room: u32,
    /// Patches of the subset, and others; known once they were counted.
    pub(super) counts: [u32; 2],
}

/// What pools of this room are put in order with: of each plot what is counted, the order, and nothing.
pub(in crate::bake::gpu) fn buffers<M: Maker>(
    make: &M,
    ground: Ground,
    room: layout::Pool,
) -> Result<[Held<M::Buffer>; 3], GpuError> {
    Ok([
        make.buffer("keys", ground.bytes(), STORAGE)?,
        make.buffer("order", u64::from(room.rows) * 4, STORAGE)?,
        make.buffer("nothing", 16, STORAGE)?,
    ])
}

/// What so many rows and words are moved into.
pub(in crate::bake::gpu) fn beside<M: Maker>(
    make: &M,
    most: Boxes,
) -> Result<[Held<M::Buffer>; 2], GpuError> {
    let rows = u64::from(most.rows) * size_of::<Row>() as u64;
    Ok([
        make.buffer("rows beside", rows, STORAGE)?,
        make.buffer("words beside", u64::from(most.words) * 4, STORAGE)?,
    ])
}

/// What one pool is put in order by.
pub(in crate::bake::gpu) fn ordering<M: Maker>(make: &M) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer("ordering", size_of::<Ordering>() as u64, UNIFORM)
}

impl Plots {
    pub(super) fn new(
        device: &Device,
        budget: &Arc<Budget>,
        stage: Compiled,
        ground: Ground,
        room: layout::Pool,
    ) -> Result<Self, GpuError> {
        let [keys, order, nothing] = buffers(&OnDevice { device, budget }, ground, room)?;
        Ok(Self {
            stage,
            ground,
            keys,
            order,
            nothing,
            beside: None,
        })
    }

    /// Those of another window.
    pub(super) fn renew(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        ground: Ground,
    ) -> Result<(), GpuError> {
        if ground.bytes() > self.keys.item.size() {
            let make = OnDevice { device, budget };
            self.keys = make.buffer("keys", ground.bytes(), STORAGE)?;
        }
        self.ground = ground;
        Ok(())
    }

    pub(super) fn into_stage(self) -> Compiled {
        self.stage
    }

    /// Bytes of what rows are moved into, which rows that are drawn again may have instead.
    pub(super) fn beside_bytes(&self) -> u64 {
        self.beside.iter().flatten().map(Held::bytes).sum()
    }

    /// Rows are drawn again.
    pub(super) fn free_beside(&mut self) {
        self.beside = None;
    }

    /// Rows are to be moved, so many at most.
    pub(super) fn make_beside(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        most: Boxes,
    ) -> Result<(), GpuError> {
        let room = (self.beside.as_ref()).map_or([0; 2], |beside| {
            beside.each_ref().map(|buffer| buffer.item.size())
        });
        let rows = u64::from(most.rows) * size_of::<Row>() as u64;
        if room[0] < rows || room[1] < u64::from(most.words) * 4 {
            self.beside = None;
            self.beside = Some(beside(&OnDevice { device, budget }, most)?);
        }
        Ok(())
    }

    /// What puts the rows of a pool with `boxes` in order; `to` of a pool whose rows stay is where they are moved, or there is a buffer
    /// for that.
    pub(super) fn of(
        &self,
        device: &Device,
        budget: &Arc<Budget>,
        buffers: &Buffers,
        boxes: Boxes,
        (to, more): (Option<[&Buffer; 2]>, Option<(Buffer, u32)>),
    ) -> Result<Plotted, GpuError> {
        let plots = self.ground.plots();
        let groups = [boxes.rows, 2 * plots].map(texel_groups);
        let [row_stride, plot_stride] = groups.map(|groups| groups * TEXEL_LANES);
        let (more, room) = match more {
            Some((more, room)) => (Some(more), room),
            None => (None, sizes::plots(buffers.room)),
        };
        let own = Ordering {
            rows: boxes.rows,
            plots,
            across: self.ground.across(),
            size: self.ground.size,
            room,
            row_stride,
            plot_stride,
        };
        let ordering = ordering(&OnDevice { device, budget })?;
        write(device, &ordering, &[own]);
        let [new_rows, new_words] = to.unwrap_or([&self.nothing; 2]);
        let bound = [
            &ordering,
            &buffers.rows,
            &self.keys,
            &buffers.counters,
            more.as_ref().unwrap_or(&buffers.plots),
            &self.order,
            &buffers.words,
            new_rows,
            new_words,
        ];
        let bound = bound.map(|buffer| buffer.item.as_entire_binding());
        Ok(Plotted {
            own: bind(device, "plots", &self.stage.layout, &bound),
            _ordering: ordering,
            groups,
            more,
            room,
            counts: [0; 2],
        })
    }

    /// Where rows of pools that stay are moved: the place of those that are drawn again, if there are such.
    pub(super) fn to<'a>(&'a self, scratch: Option<&'a Arc<Buffers>>) -> Option<[&'a Buffer; 2]> {
        let beside = self.beside.as_ref().map(|beside| beside.each_ref());
        scratch
            .map(|scratch| [&scratch.rows, &scratch.words])
            .or(beside)
    }

    /// Records what puts a pool in order.
    pub(super) fn put_in_order(
        &self,
        batch: &mut Batch<'_>,
        buffers: &Buffers,
        plotted: &Plotted,
    ) -> Result<(), GpuError> {
        let encoder = batch.encoder();
        encoder.clear_buffer(&self.keys.item, 0, Some(self.ground.bytes()));
        let [from, to] = [COUNTED, COUNTED_TO].map(|word| (word * size_of::<u32>()) as u64);
        encoder.clear_buffer(&buffers.counters.item, from, Some(to - from));
        let [rows, plots] = plotted.groups;
        for (entry, groups) in [
            ("count_boxes", rows),
            ("lay_out", plots),
            ("put_in_order", rows),
        ] {
            self.dispatch(batch, entry, plotted, groups)?;
        }
        Ok(())
    }

    /// Records that rows with a box are moved to where they are in order.
    pub(super) fn move_rows(
        &self,
        batch: &mut Batch<'_>,
        buffers: &Buffers,
        plotted: &Plotted,
        boxes: Boxes,
        [rows, words]: [&Buffer; 2],
    ) -> Result<(), GpuError> {
        self.dispatch(batch, "move_rows", plotted, plotted.groups[0])?;
        let row_bytes = u64::from(boxes.rows) * size_of::<Row>() as u64;
        let word_bytes = u64::from(boxes.words) * 4;
        let encoder = batch.encoder();
        for (from, to, bytes) in [
            (rows, &buffers.rows, row_bytes),
            (words, &buffers.words, word_bytes),
        ] {
            encoder.copy_buffer_to_buffer(&from.item, 0, &to.item, 0, Some(bytes));
        }
        Ok(())
    }

    fn dispatch(
        &self,
        batch: &mut Batch<'_>,
        entry: &'static str,
        plotted: &Plotted,
        groups: u32,
    ) -> Result<(), GpuError> {
        let own = &plotted.own;
        (self.stage).dispatch(batch, entry, own, [groups, 1], groups)
    }
}

impl Plotted {
    /// Where they are.
    pub(super) fn patches<'a>(&'a self, buffers: &'a Buffers) -> &'a Buffer {
        self.more.as_ref().unwrap_or(&buffers.plots)
    }

    /// Takes what the device counted; where there are more than there is room for, how many.
    pub(super) fn take(&mut self, counted: &[u32]) -> Option<u32> {
        self.counts = [counted[COUNTED + 1], counted[COUNTED + 2]];
        let wanted = self.counts.iter().sum();
        (wanted > self.room).then_some(wanted)
    }
}

/// Room for so many patches of plots.
pub(super) fn more<M: Maker>(make: &M, count: u32) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer(
        "plots",
        u64::from(count) * size_of::<Patch>() as u64,
        STORAGE,
    )
}
