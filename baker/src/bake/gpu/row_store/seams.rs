//! The rows of seam constraints, packed on the host in the format that the device uses for pixels: patches of rows, and
//! the texels that they touch.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::Bound;
use crate::bake::gpu::device::{Device, GpuError};
use crate::bake::gpu::layout::{self, LISTED_MOST, PATCH_TEXELS, SEAM};
use crate::bake::gpu::memory::{Budget, Buffer, Held, Maker, OnDevice, STORAGE, write};
use crate::bake::rows::Rows;

/// Largest number of rows of a pool of seams.
const ROWS: usize = 1 << 18;
/// Rows that one task packs.
const AT_ONCE: usize = 1 << 12;

#[derive(Debug)]
pub(super) struct Seams {
    pub(super) counts: layout::Pool,
    pub(super) counted: bool,
    pub(super) bound: Option<Bound>,
    buffers: [Buffer; 4],
}

impl Seams {
    /// Patches, rows, words and row weights.
    pub(super) fn parts(&self) -> [&Buffer; 4] {
        self.buffers.each_ref()
    }
}

/// Rows in the device's format.
#[derive(Debug, Default)]
pub(in crate::bake::gpu) struct Packed {
    pub(super) patches: Vec<layout::Patch>,
    pub(super) rows: Vec<layout::Row>,
    /// For each patch its list of texels and its entries.
    pub(super) words: Vec<u32>,
}

impl Packed {
    fn append(&mut self, some: Self) {
        let (rows, words) = (self.rows.len() as u32, self.words.len() as u32);
        let patches = some.patches.into_iter().map(|patch| layout::Patch {
            first_row: patch.first_row + rows,
            first_texel: patch.first_texel + words,
            ..patch
        });
        self.patches.extend(patches);
        let all = some.rows.into_iter().map(|row| layout::Row {
            start: row.start + words,
            ..row
        });
        self.rows.extend(all);
        self.words.extend(some.words);
    }
}

/// Packs `rows` of `seams` in their order. A row must have fewer entries than a patch may have texels.
pub(super) fn pack(seams: &Rows, rows: Range<usize>) -> Packed {
    let mut packed = Packed::default();
    let mut next = rows.start;
    while next < rows.end {
        let mut places: BTreeMap<u32, u32> = BTreeMap::new();
        let mut touched: Vec<u32> = Vec::new();
        let first_row = packed.rows.len() as u32;
        let mut count = 0;
        while next < rows.end && count < LISTED_MOST {
            let row = seams.row(next);
            if places.len() + row.len() > PATCH_TEXELS as usize {
                break;
            }
            let start = packed.words.len() as u32;
            for entry in row {
                let place = *places.entry(entry.texel).or_insert_with(|| {
                    touched.push(entry.texel);
                    touched.len() as u32 - 1
                });
                packed.words.push(layout::entry(entry.weight, place));
            }
            packed.rows.push(layout::Row {
                start,
                shape: layout::listed_shape(row.len() as u32),
                colour: 0,
                place: 0,
            });
            count += 1;
            next += 1;
        }
        packed.patches.push(layout::Patch {
            first_row,
            first_texel: packed.words.len() as u32,
            counts: count | (touched.len() as u32) << 16,
            kind: SEAM,
        });
        packed.words.extend(touched);
    }
    packed
}

/// All seams, packed pool by pool.
pub(in crate::bake::gpu) fn parts(seams: &Rows) -> impl Iterator<Item = Packed> {
    pieces(0..seams.len(), ROWS).map(|pool| {
        let some: Vec<Range<usize>> = pieces(pool, AT_ONCE).collect();
        let packed: Vec<Packed> = (some.into_par_iter())
            .map(|rows| pack(seams, rows))
            .collect();
        let mut all = Packed::default();
        packed.into_iter().for_each(|some| all.append(some));
        all
    })
}

fn pieces(all: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> {
    let Range { start, end } = all;
    let starts = (start..end).step_by(length);
    starts.map(move |from| from..(from + length).min(end))
}

/// The buffers of a pool of seams, still empty: patches, rows, words, trust (row weights).
pub(in crate::bake::gpu) fn buffers<M: Maker>(
    make: &M,
    packed: &Packed,
) -> Result<[Held<M::Buffer>; 4], GpuError> {
    let of = |bytes: usize| make.buffer("seams", bytes as u64, STORAGE);
    Ok([
        of(size_of_val(packed.patches.as_slice()))?,
        of(size_of_val(packed.rows.as_slice()))?,
        of(size_of_val(packed.words.as_slice()))?,
        of(packed.rows.len() * 12)?,
    ])
}

/// Uploads all seams.
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
        write(device, &buffers[2], &packed.words);
        pools.push(Seams {
            counts: layout::Pool {
                patches: packed.patches.len() as u32,
                rows: packed.rows.len() as u32,
                words: packed.words.len() as u32,
            },
            counted: false,
            bound: None,
            buffers,
        });
    }
    Ok(pools)
}
