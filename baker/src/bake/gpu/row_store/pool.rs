//! The buffers of a pool, the unit of the row store, and those that all pools share.

use proto::table::View;

use crate::bake::gpu::device::{Device, GpuError};
use crate::bake::gpu::layout::{Patch, Pool, Row, Visited};
use crate::bake::gpu::memory::{Buffer, Held, Maker, OnDevice, STORAGE, UNIFORM, write};
use crate::bake::gpu::shaders::{bind_layout, rows};
use crate::bake::gpu::tiles::Tiles;
use crate::bake::solve::backend::BLOCK;

/// For each value of a byte, its value in the space of the fit and its squared slope.
pub(crate) type ToneTable = [[f32; 2]; 256];

/// Number of counters of a pool (`footprint.wgsl`, `row_bins.wgsl`).
pub(crate) const COUNTERS: usize = 16;
pub(super) const NOTHING: [u32; COUNTERS] = [0; COUNTERS];

/// Number of a pool's buffers.
pub(crate) const BUFFERS: usize = 6;

/// Bytes of a block's sums.
pub(crate) const BLOCK_BYTES: u64 = 8;

#[derive(Debug)]
pub(crate) struct PoolBuffers {
    pub(crate) patches: Buffer,
    pub(crate) rows: Buffer,
    pub(crate) words: Buffer,
    pub(super) trust: Buffer,
    pub(super) row_bins: Buffer,
    pub(crate) counters: Buffer,
    /// Capacity.
    pub(super) room: Pool,
    /// Bind group for the footprints that write into it.
    pub(crate) drawn: wgpu::BindGroup,
}

/// The capacity of every pool.
#[derive(Debug)]
pub(crate) struct Mould {
    pub(super) room: Pool,
    /// The same on the device.
    pub(super) full: Buffer,
}

impl Mould {
    /// Makes an empty pool for tiles of `tiles`.
    pub(crate) fn buffers(&self, on: OnDevice<'_>, tiles: &Tiles) -> Result<PoolBuffers, GpuError> {
        Ok(self.pool(on.device, tiles, pool_buffers(&on, self.room)?))
    }

    pub(super) fn pool(
        &self,
        device: &Device,
        tiles: &Tiles,
        buffers: [Buffer; BUFFERS],
    ) -> PoolBuffers {
        let [patches, rows, words, trust, row_bins, counters] = buffers;
        write(device, &counters, &NOTHING);
        let drawn = tiles.bind(device, [&counters, &self.full, &patches, &rows, &words]);
        PoolBuffers {
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

/// Empty buffers of a pool: patches, rows, words, trust (row weights), row bins (patches of bins), counters.
pub(crate) fn pool_buffers<M: Maker>(
    make: &M,
    room: Pool,
) -> Result<[Held<M::Buffer>; BUFFERS], GpuError> {
    let of = |label: &str, count: u32, size: usize| {
        make.buffer(label, u64::from(count) * size as u64, STORAGE)
    };
    Ok([
        of("patches", room.patches, size_of::<Patch>())?,
        of("rows", room.rows, size_of::<Row>())?,
        of("words", room.words, 4)?,
        of("trust", room.rows, 4)?,
        of("row_bins", room.row_bins(), size_of::<Patch>())?,
        of("counters", 1, size_of_val(&NOTHING))?,
    ])
}

/// Buffers shared by all pools: the tones of colours, and a pool's capacity.
pub(crate) fn shared<M: Maker>(make: &M) -> Result<[Held<M::Buffer>; 2], GpuError> {
    Ok([
        make.buffer("tones", size_of::<ToneTable>() as u64, UNIFORM)?,
        make.buffer("room", size_of::<Pool>() as u64, UNIFORM)?,
    ])
}

/// Buffer for the patches of a pool that passes visit.
pub(crate) fn visited<M: Maker>(make: &M) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer("visited", size_of::<Visited>() as u64, UNIFORM)
}

/// Buffer for the sums of `count` blocks.
pub(crate) fn blocks<M: Maker>(make: &M, count: u64) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer("blocks", count * BLOCK_BYTES, STORAGE)
}

/// Blocks of a view, across and down.
pub(crate) fn view_blocks(view: &View) -> [u32; 2] {
    [view.width, view.height].map(|edge| edge.div_ceil(BLOCK))
}

/// Layout of the bind group of a pool of rows.
pub(crate) fn rows_layout(device: &Device) -> wgpu::BindGroupLayout {
    bind_layout(&device.device, "rows", &rows())
}
