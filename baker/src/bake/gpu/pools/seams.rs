//! The seams' rows, packed on the host as the device packs those of pixels: patches of rows and the texels that they touch.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Bound;
use crate::bake::gpu::device::{Device, GpuError};
use crate::bake::gpu::layout::{self, PATCH_TEXELS, ROW_LANES, SEAM};
use crate::bake::gpu::memory::{Budget, Buffer, Held, Maker, OnDevice, STORAGE, write};
use crate::bake::rows::Rows;

/// Rows of a pool of seams at most.
const ROWS: usize = 1 << 18;

/// A pool of seams.
#[derive(Debug)]
pub(super) struct Seams {
    pub(super) counts: layout::Pool,
    pub(super) counted: bool,
    pub(super) bound: Option<Bound>,
    buffers: [Buffer; 5],
}

impl Seams {
    /// Patches, rows, entries, touched texels and trust.
    pub(super) fn parts(&self) -> [&Buffer; 5] {
        self.buffers.each_ref()
    }
}

/// Rows as the device reads them.
#[derive(Debug, Default)]
pub(in crate::bake::gpu) struct Packed {
    pub(super) patches: Vec<layout::Patch>,
    pub(super) rows: Vec<layout::Row>,
    pub(super) entries: Vec<u32>,
    pub(super) touched: Vec<u32>,
}

/// Packs `rows` of `seams`, which stay in order. A row has fewer entries than a patch may have texels.
pub(super) fn pack(seams: &Rows, rows: std::ops::Range<usize>) -> Packed {
    let mut packed = Packed::default();
    let mut next = rows.start;
    while next < rows.end {
        let mut places: BTreeMap<u32, u32> = BTreeMap::new();
        let mut patch = layout::Patch {
            first_row: packed.rows.len() as u32,
            first_entry: packed.entries.len() as u32,
            first_texel: packed.touched.len() as u32,
            counts: 0,
            view: SEAM,
            first_block: 0,
            blocks: 0,
            block: 0,
        };
        let mut count = 0;
        while next < rows.end && count < ROW_LANES {
            let row = seams.row(next);
            if places.len() + row.len() > PATCH_TEXELS as usize {
                break;
            }
            let start = packed.entries.len() as u32 - patch.first_entry;
            for entry in row {
                let place = *places.entry(entry.texel).or_insert_with(|| {
                    packed.touched.push(entry.texel);
                    packed.touched.len() as u32 - 1 - patch.first_texel
                });
                packed.entries.push(layout::entry(entry.weight, place));
            }
            packed.rows.push(layout::Row {
                span: (start << 14) | row.len() as u32,
                colour: 0,
            });
            count += 1;
            next += 1;
        }
        patch.counts = count | (places.len() as u32) << 16;
        packed.patches.push(patch);
    }
    packed
}

/// All seams, packed pool by pool.
pub(in crate::bake::gpu) fn parts(seams: &Rows) -> impl Iterator<Item = Packed> {
    let starts = (0..seams.len()).step_by(ROWS);
    starts.map(|from| pack(seams, from..(from + ROWS).min(seams.len())))
}

/// The buffers of a pool of seams, with nothing in them yet: patches, rows, entries, touched texels, trust.
pub(in crate::bake::gpu) fn buffers<M: Maker>(
    make: &M,
    packed: &Packed,
) -> Result<[Held<M::Buffer>; 5], GpuError> {
    let of = |bytes: usize| make.buffer("seams", bytes as u64, STORAGE);
    Ok([
        of(size_of_val(packed.patches.as_slice()))?,
        of(size_of_val(packed.rows.as_slice()))?,
        of(size_of_val(packed.entries.as_slice()))?,
        of(size_of_val(packed.touched.as_slice()))?,
        of(packed.rows.len() * 12)?,
    ])
}

/// All seams on the device.
pub(super) fn pools(
    device: &Device,
    budget: &Arc<Budget>,
    seams: &Rows,
) -> Result<Vec<Seams>, GpuError> {
    let mut pools = Vec::new();
    for packed in parts(seams) {
        let buffers = buffers(&OnDevice { device, budget }, &packed)?;
        write(device, &buffers[0], &packed.patches);
        write(device, &buffers[1], &packed.rows);
        write(device, &buffers[2], &packed.entries);
        write(device, &buffers[3], &packed.touched);
        pools.push(Seams {
            counts: layout::Pool {
                patches: packed.patches.len() as u32,
                rows: packed.rows.len() as u32,
                entries: packed.entries.len() as u32,
                texels: packed.touched.len() as u32,
            },
            counted: false,
            bound: None,
            buffers,
        });
    }
    Ok(pools)
}
