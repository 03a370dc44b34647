//! Tests of pool sizes and of the packing of seams; `gpu/tests` checks what the device writes.

use super::filling::FillRates;
use super::seams::{PackedSeams, pack, parts};
use super::sizes::sizes;
use super::store::FilledPool;
use super::*;
use crate::bake::gpu::layout::{
    LISTED_MOST, PATCH_TEXELS, Patch, Pool, Row, SEAM, box_of, entry_parts,
};
use crate::bake::gpu::memory::{OnDevice, read_as};
use crate::bake::gpu::tiles::sure_blocks;
use crate::bake::model::rows::{Entry, Rows};
use crate::bake::solve::backend::BLOCK;

/// The contents of a pool.
#[derive(Debug)]
pub(crate) struct ReadPool {
    /// Rows with a box, in order.
    pub(crate) rows: Vec<Row>,
    /// Patches of the subset, and others.
    pub(crate) row_bins: [Vec<Patch>; 2],
}

impl RowStore {
    pub(crate) fn room(&self) -> Pool {
        self.mould.room
    }

    pub(crate) fn spares(&self) -> usize {
        self.spare.len()
    }

    /// Expects no rows of any tile until the device is asked, so that tests reach overflow.
    pub(crate) fn expect_nothing(&mut self) {
        self.ends.rates = FillRates::NOTHING;
    }

    pub(crate) fn read(&self, on: OnDevice<'_>) -> Vec<ReadPool> {
        let read = |pool: &FilledPool| {
            let (b, binned) = (&pool.buffers, pool.binned.as_ref().expect("in order"));
            let [few, rest] = binned.counts.map(|count| count as usize);
            let room = binned.room as usize;
            let all: Vec<Patch> = read_as(on, binned.patches(b), room).expect("row_bins");
            ReadPool {
                rows: read_as(on, &b.rows, pool.boxes.rows as usize).expect("rows"),
                row_bins: [all[..few].to_vec(), all[room - rest..].to_vec()],
            }
        };
        self.pixels.iter().map(read).collect()
    }
}

/// The most that `blocks` blocks can hold with `taps`² samples a pixel: each sample on texels of its own, and each
/// block partly in the subset.
fn most(blocks: u32, taps: u32) -> Pool {
    let (row, pixels) = (4 * taps * taps, blocks * BLOCK * BLOCK);
    let few = (PATCH_TEXELS / row).clamp(1, LISTED_MOST);
    Pool {
        patches: pixels.min(2 * blocks * LISTED_MOST.div_ceil(few)),
        rows: pixels,
        words: pixels.saturating_mul(2 * row),
    }
}

#[test]
fn an_empty_pool_holds_the_worst_tile() {
    for words in sizes() {
        for taps in 1..=6 {
            let blocks = sure_blocks(taps, words).expect("a block fits any pool");
            let worst = most(blocks, taps);
            assert!(worst.within(Pool::of_words(words)), "{worst:?} of {words}");
        }
    }
}

#[test]
fn pools_are_as_large_as_binding_and_budget_allow() {
    let of =
        |bytes: u64, binding: u64| [true, false].map(|whole| pool_words(bytes, binding, whole));
    assert_eq!(of(8 << 30, 128 << 20), [1 << 25; 2]);
    assert_eq!(of(8 << 30, (128 << 20) - 1), [1 << 24; 2]);
    assert_eq!(
        of(512 << 20, 128 << 20),
        [1 << 24, 1 << 22],
        "of a part, smaller ones"
    );
    assert_eq!(of(0, 128 << 20), [1 << 15; 2], "as small as they may be");
}

/// Rows of eight entries on texels that few of them share, then rows that all share theirs.
fn seams(rows: u32) -> Rows {
    let mut seams = Rows {
        starts: vec![0],
        ..Rows::default()
    };
    for row in 0..rows {
        for k in 0..8 {
            let texel = if row < 120 { row * 8 + k } else { k };
            let weight = if k < 4 { 0.25 } else { -0.25 };
            seams.entries.push(Entry { texel, weight });
        }
        seams.starts.push(seams.entries.len() as u32);
        seams.colours.push([0; 4]);
        seams.pixels.push(0);
    }
    seams
}

/// Checks that `packed` holds the rows from `first` on; returns the first row after it.
fn check_packed(packed: &PackedSeams, seams: &Rows, first: usize) -> usize {
    let mut row = first;
    for patch in &packed.patches {
        let (rows, texels) = (patch.counts & 0xffff, patch.counts >> 16);
        assert!(rows <= LISTED_MOST && texels <= PATCH_TEXELS && patch.kind == SEAM);
        for at in patch.first_row..patch.first_row + rows {
            let Row { start, shape, .. } = packed.rows[at as usize];
            assert!(box_of(shape).is_none());
            let found: Vec<Entry> = (start..start + (shape >> 6))
                .map(|k| {
                    let (weight, place) = entry_parts(packed.words[k as usize]);
                    assert!(place < texels);
                    Entry {
                        texel: packed.words[(patch.first_texel + place) as usize],
                        weight: (weight * 1e6).round() / 1e6,
                    }
                })
                .collect();
            assert_eq!(found, seams.row(row));
            row += 1;
        }
    }
    row
}

#[test]
fn seams_are_packed_in_order_each_texel_once_a_patch() {
    let seams = seams(200);
    let packed = pack(&seams, 3..200);
    assert_eq!(check_packed(&packed, &seams, 3), 200);
    // The first 117 rows fill patches of 32 and leave 21. The other rows share eight texels, and 43 of them join those
    // 21.
    assert_eq!(packed.patches.len(), 5);
}

#[test]
fn many_seams_are_packed_side_by_side_to_the_same_rows() {
    let seams = seams(10_000);
    let pools: Vec<PackedSeams> = parts(&seams).collect();
    let [all] = &pools[..] else {
        panic!("{} pools", pools.len());
    };
    assert_eq!(check_packed(all, &seams, 0), 10_000);
    assert_eq!(all.rows.len(), 10_000);
}
