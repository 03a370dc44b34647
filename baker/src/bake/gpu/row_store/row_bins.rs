//! A full pool → its rows with a box, sorted by the bin where their box begins, and patches over
//! them (`row_bins.wgsl`).
//!
//! Resident rows are moved into that order through a second set of buffers. Streamed rows are visited through an index.
//! The number of patches is known only after the device has made them, so the host asks for all pools at once. Streamed
//! rows have the same number each time.

use std::sync::Arc;

use super::pool::{COUNTERS, PoolBuffers};
use crate::bake::gpu::batch::Batch;
use crate::bake::gpu::device::GpuError;
use crate::bake::gpu::layout::{
    Ordering, Patch, Pool, RANKS, ROW_BIN, Row, TEXEL_LANES, texel_groups,
};
use crate::bake::gpu::memory::{Buffer, Held, Maker, OnDevice, STORAGE, UNIFORM, write};
use crate::bake::gpu::stage::{Compiled, bind_buffers};

/// First of the bins' counters among a pool's counters: rows in order, patches of the subset and others, words moved.
const COUNTED: usize = 9;
/// Past the last of them.
const COUNTED_TO: usize = 13;
const _: () = assert!(COUNTED_TO <= COUNTERS);

/// The grid of a window's bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ground {
    /// Texels in a row, and in all.
    pub(crate) size: u32,
    pub(crate) texels: u32,
}

impl Ground {
    fn across(self) -> u32 {
        self.size.div_ceil(ROW_BIN)
    }

    fn row_bins(self) -> u32 {
        self.across() * self.texels.div_ceil(self.size.max(1)).div_ceil(ROW_BIN)
    }

    /// Bytes of the counters of each bin, for the subset and for others, and by ranks.
    fn bytes(self) -> u64 {
        2 * 4 * u64::from(RANKS * self.row_bins())
    }
}

/// Pipelines and buffers that sort rows into bins.
#[derive(Debug)]
pub(super) struct RowBins {
    stage: Compiled,
    pub(super) ground: Ground,
    keys: Buffer,
    /// Order of a pool's rows.
    pub(super) order: Buffer,
    /// Bound where no rows move.
    nothing: Buffer,
    /// Temporary buffers through which rows and their words are moved.
    beside: Option<[Buffer; 2]>,
}

/// Numbers of rows with a box, and of their words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Boxes {
    pub(crate) rows: u32,
    pub(crate) words: u32,
}

impl Boxes {
    pub(super) fn most(self, other: Self) -> Self {
        Self {
            rows: self.rows.max(other.rows),
            words: self.words.max(other.words),
        }
    }

    /// Of the rows, and of the words.
    fn bytes(self) -> [u64; 2] {
        let row = size_of::<Row>() as u64;
        [u64::from(self.rows) * row, u64::from(self.words) * 4]
    }
}

/// A larger buffer for the patches of a pool, and its capacity.
pub(super) type MoreRoom = (Buffer, u32);

#[derive(Debug)]
pub(super) struct Binned {
    own: wgpu::BindGroup,
    _ordering: Buffer,
    groups: [u32; 2],
    /// A larger buffer, where the pool has too little room for the patches.
    more: Option<Buffer>,
    pub(super) room: u32,
    /// Patches of the subset, and others; known after they were counted.
    pub(super) counts: [u32; 2],
}

/// Buffers to sort pools of this capacity: the counters of bins, the order, and a small buffer that is
/// bound where no rows move.
pub(crate) fn buffers<M: Maker>(
    make: &M,
    ground: Ground,
    room: Pool,
) -> Result<[Held<M::Buffer>; 3], GpuError> {
    Ok([
        make.buffer("keys", ground.bytes(), STORAGE)?,
        make.buffer("order", u64::from(room.rows) * 4, STORAGE)?,
        make.buffer("nothing", 16, STORAGE)?,
    ])
}

pub(crate) fn beside<M: Maker>(make: &M, most: Boxes) -> Result<[Held<M::Buffer>; 2], GpuError> {
    let [rows, words] = most.bytes();
    Ok([
        make.buffer("rows beside", rows, STORAGE)?,
        make.buffer("words beside", words, STORAGE)?,
    ])
}

pub(crate) fn ordering<M: Maker>(make: &M) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer("ordering", size_of::<Ordering>() as u64, UNIFORM)
}

impl RowBins {
    pub(super) fn new(
        on: OnDevice<'_>,
        stage: Compiled,
        ground: Ground,
        room: Pool,
    ) -> Result<Self, GpuError> {
        let [keys, order, nothing] = buffers(&on, ground, room)?;
        Ok(Self {
            stage,
            ground,
            keys,
            order,
            nothing,
            beside: None,
        })
    }

    pub(super) fn renew(&mut self, on: OnDevice<'_>, ground: Ground) -> Result<(), GpuError> {
        if ground.bytes() > self.keys.item.size() {
            self.keys = on.buffer("keys", ground.bytes(), STORAGE)?;
        }
        self.ground = ground;
        Ok(())
    }

    pub(super) fn into_stage(self) -> Compiled {
        self.stage
    }

    /// Bytes of the temporary buffers, which streamed rows may take instead.
    pub(super) fn beside_bytes(&self) -> u64 {
        self.beside.iter().flatten().map(Held::bytes).sum()
    }

    pub(super) fn free_beside(&mut self) {
        self.beside = None;
    }

    /// Makes temporary buffers for up to `most` rows and words.
    pub(super) fn make_beside(&mut self, on: OnDevice<'_>, most: Boxes) -> Result<(), GpuError> {
        let room = (self.beside.as_ref()).map_or([0; 2], |beside| {
            beside.each_ref().map(|buffer| buffer.item.size())
        });
        let [rows, words] = most.bytes();
        if room[0] < rows || room[1] < words {
            self.beside = None;
            self.beside = Some(beside(&on, most)?);
        }
        Ok(())
    }

    /// Prepares sorting a pool with `boxes`. `to` are the buffers through which resident rows move.
    pub(super) fn of(
        &self,
        on: OnDevice<'_>,
        buffers: &PoolBuffers,
        boxes: Boxes,
        to: Option<[&Buffer; 2]>,
        more: Option<MoreRoom>,
    ) -> Result<Binned, GpuError> {
        let row_bins = self.ground.row_bins();
        let groups = [boxes.rows, 2 * row_bins].map(texel_groups);
        let [row_stride, row_bin_stride] = groups.map(|groups| groups * TEXEL_LANES);
        let (more, room) = match more {
            Some((more, room)) => (Some(more), room),
            None => (None, buffers.room.row_bins()),
        };
        let own = Ordering {
            rows: boxes.rows,
            row_bins,
            across: self.ground.across(),
            size: self.ground.size,
            room,
            row_stride,
            row_bin_stride,
        };
        let ordering = ordering(&on)?;
        write(on.device, &ordering, &[own]);
        let [new_rows, new_words] = to.unwrap_or([&self.nothing; 2]);
        let bound = [
            &ordering,
            &buffers.rows,
            &self.keys,
            &buffers.counters,
            more.as_ref().unwrap_or(&buffers.row_bins),
            &self.order,
            &buffers.words,
            new_rows,
            new_words,
        ];
        Ok(Binned {
            own: bind_buffers(on.device, "row_bins", &self.stage.layout, &bound),
            _ordering: ordering,
            groups,
            more,
            room,
            counts: [0; 2],
        })
    }

    /// Buffers through which resident rows move: those for streamed rows, if there are any.
    pub(super) fn to<'a>(
        &'a self,
        scratch: Option<&'a Arc<PoolBuffers>>,
    ) -> Option<[&'a Buffer; 2]> {
        let beside = self.beside.as_ref().map(|beside| beside.each_ref());
        scratch
            .map(|scratch| [&scratch.rows, &scratch.words])
            .or(beside)
    }

    pub(super) fn put_in_order(
        &self,
        batch: &mut Batch<'_>,
        buffers: &PoolBuffers,
        binned: &Binned,
    ) -> Result<(), GpuError> {
        let encoder = batch.encoder();
        encoder.clear_buffer(&self.keys.item, 0, Some(self.ground.bytes()));
        let [from, to] = [COUNTED, COUNTED_TO].map(|word| (word * size_of::<u32>()) as u64);
        encoder.clear_buffer(&buffers.counters.item, from, Some(to - from));
        let [rows, row_bins] = binned.groups;
        for (entry, groups) in [
            ("count_boxes", rows),
            ("lay_out", row_bins),
            ("put_in_order", rows),
        ] {
            (self.stage).dispatch_line(batch, entry, &binned.own, groups)?;
        }
        Ok(())
    }

    pub(super) fn move_rows(
        &self,
        batch: &mut Batch<'_>,
        buffers: &PoolBuffers,
        binned: &Binned,
        boxes: Boxes,
        [rows, words]: [&Buffer; 2],
    ) -> Result<(), GpuError> {
        let groups = binned.groups[0];
        (self.stage).dispatch_line(batch, "move_rows", &binned.own, groups)?;
        let [row_bytes, word_bytes] = boxes.bytes();
        let encoder = batch.encoder();
        for (from, to, bytes) in [
            (rows, &buffers.rows, row_bytes),
            (words, &buffers.words, word_bytes),
        ] {
            encoder.copy_buffer_to_buffer(&from.item, 0, &to.item, 0, Some(bytes));
        }
        Ok(())
    }
}

impl Binned {
    pub(super) fn patches<'a>(&'a self, buffers: &'a PoolBuffers) -> &'a Buffer {
        self.more.as_ref().unwrap_or(&buffers.row_bins)
    }

    /// Takes the device's counters; returns the number of patches if they exceed the room.
    pub(super) fn take(&mut self, counted: &[u32]) -> Option<u32> {
        self.counts = [counted[COUNTED + 1], counted[COUNTED + 2]];
        let wanted = self.counts.iter().sum();
        (wanted > self.room).then_some(wanted)
    }
}

pub(super) fn more<M: Maker>(make: &M, count: u32) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer(
        "row_bins",
        u64::from(count) * size_of::<Patch>() as u64,
        STORAGE,
    )
}
