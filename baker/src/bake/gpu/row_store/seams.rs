//! The rows of seam constraints, packed on the host in the format that the device uses for pixels: patches of rows, and
//! the texels that they touch.

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;

use super::bound::{Binding, Bound};
use crate::bake::gpu::device::GpuError;
use crate::bake::gpu::layout::{self, LISTED_MOST, PATCH_TEXELS, Pool, SEAM, Visited};
use crate::bake::gpu::memory::{Buffer, Held, Maker, OnDevice, STORAGE, write};
use crate::bake::model::rows::Rows;

/// Largest number of rows of a pool of seams.
const ROWS: usize = 1 << 18;
/// Rows that one task packs.
const AT_ONCE: usize = 1 << 12;

#[derive(Debug)]
pub(super) struct SeamPool {
    pub(super) counts: Pool,
    pub(super) counted: bool,
    pub(super) bound: Option<Bound>,
    /// Patches, rows, words and row weights.
    buffers: [Buffer; 4],
}

impl SeamPool {
    pub(super) fn bind(&self, binding: &Binding<'_>) -> Result<Bound, GpuError> {
        let all = Visited {
            patches: self.counts.patches,
            first: self.counts.patches,
            ..Visited::default()
        };
        let [patches, rows, words, trust] = &self.buffers;
        // Placeholders: seams have no bins.
        let (order, row_bins) = (words, patches);
        let parts = [patches, rows, words, trust, order, row_bins];
        binding.bind(all, self.counts.rows, parts)
    }
}

/// Rows in the device's format.
#[derive(Debug, Default)]
pub(crate) struct PackedSeams {
    pub(super) patches: Vec<layout::Patch>,
    pub(super) rows: Vec<layout::Row>,
    /// For each patch its list of texels and its entries.
    pub(super) words: Vec<u32>,
}

impl PackedSeams {
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
pub(super) fn pack(seams: &Rows, rows: Range<usize>) -> PackedSeams {
    let mut packed = PackedSeams::default();
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
pub(crate) fn parts(seams: &Rows) -> impl Iterator<Item = PackedSeams> {
    pieces(0..seams.len(), ROWS).map(|pool| {
        let some: Vec<Range<usize>> = pieces(pool, AT_ONCE).collect();
        let packed: Vec<PackedSeams> = (some.into_par_iter())
            .map(|rows| pack(seams, rows))
            .collect();
        let mut all = PackedSeams::default();
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
pub(crate) fn buffers<M: Maker>(
    make: &M,
    packed: &PackedSeams,
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
pub(super) fn upload(on: OnDevice<'_>, seams: &Rows) -> Result<Vec<SeamPool>, GpuError> {
    let mut pools = Vec::new();
    for packed in parts(seams) {
        let buffers = buffers(&on, &packed)?;
        write(on.device, &buffers[0], &packed.patches);
        write(on.device, &buffers[1], &packed.rows);
        write(on.device, &buffers[2], &packed.words);
        pools.push(SeamPool {
            counts: Pool {
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
