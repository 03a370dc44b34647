//! The buffers of a pool → the bind group for passes over its rows.

use crate::bake::gpu::device::GpuError;
use crate::bake::gpu::layout::Visited;
use crate::bake::gpu::memory::{Buffer, OnDevice, write};
use crate::bake::gpu::row_store::pool::visited;
use crate::bake::gpu::row_store::row_bins::Ground;
use crate::bake::gpu::stage::bind_buffers;

#[derive(Debug)]
pub(super) struct Bound {
    pub(super) group: wgpu::BindGroup,
    pub(super) visited: Visited,
    pub(super) rows: u32,
    _buffer: Buffer,
}

/// What the bind groups of all pools share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding<'a> {
    pub(super) on: OnDevice<'a>,
    pub(super) layout: &'a wgpu::BindGroupLayout,
    pub(super) tones: &'a Buffer,
    pub(super) blocks: &'a Buffer,
    pub(super) ground: Ground,
}

impl Binding<'_> {
    /// Binds `parts` (patches, rows, words, row weights, order, patches of bins) for passes over `rows` rows.
    pub(super) fn bind(
        &self,
        visited: Visited,
        rows: u32,
        parts: [&Buffer; 6],
    ) -> Result<Bound, GpuError> {
        let Ground { size, texels } = self.ground;
        let visited = Visited {
            size,
            count: texels,
            ..visited
        };
        let buffer = self::visited(&self.on)?;
        write(self.on.device, &buffer, &[visited]);
        let [patches, of_rows, words, trust, order, row_bins] = parts;
        let (tones, blocks) = (self.tones, self.blocks);
        let all = [
            &buffer, patches, of_rows, words, trust, tones, blocks, order, row_bins,
        ];
        Ok(Bound {
            group: bind_buffers(self.on.device, "rows", self.layout, &all),
            visited,
            rows,
            _buffer: buffer,
        })
    }
}
