//! Bytes for rows → the size of a pool in words, and what else it holds.

use super::super::layout;
#[cfg(test)]
use super::super::layout::{LISTED_MOST, PATCH_TEXELS};
#[cfg(test)]
use crate::bake::backend::BLOCK;
use crate::bake::backend::RowMemory;

/// Possible words of a pool; the largest that binding and budget allow is taken. The first fills a binding of 128 MiB,
/// and a dispatch over it fills any GPU.
pub(super) const SIZES: [u32; 11] = [
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

/// Capacity of a pool of `words` words. A row with a box has some six words, a patch of other rows hundreds. Other
/// proportions leave part of the pool unused.
pub(in crate::bake::gpu) const fn room(words: u32) -> layout::Pool {
    layout::Pool {
        patches: words / 256,
        rows: words / 6,
        words,
    }
}

/// Initial capacity for patches of bins. Each has hundreds of rows where a texture has no more texels than its views
/// have pixels.
pub(in crate::bake::gpu) const fn row_bins(room: layout::Pool) -> u32 {
    room.rows / 16 + 16
}

pub(in crate::bake::gpu) const fn bytes_of(room: layout::Pool) -> u64 {
    let patches = room.patches as u64 + row_bins(room) as u64;
    // Includes its weight.
    let row = size_of::<layout::Row>() as u64 + 4;
    patches * size_of::<layout::Patch>() as u64 + room.rows as u64 * row + room.words as u64 * 4
}

/// Share of a pool that is filled before the next one is begun.
const FILLED: f64 = 0.9;
/// What `left` bytes mean for rows in pools of this capacity. One pool is set aside for streaming, and `reserve` bytes
/// for passes.
pub(in crate::bake::gpu) fn memory(room: layout::Pool, left: u64, reserve: u64) -> RowMemory {
    let pool = bytes_of(room);
    let each = |count: u32| pool as f64 / f64::from(count) / FILLED;
    RowMemory {
        all: left.saturating_sub(reserve + pool) / pool * pool,
        row: each(room.rows),
        entry: 0.0,
        word: each(room.words),
    }
}

/// Least number of pools that fit, for the whole texture and for a window of it. For a window, one pool lies idle
/// beside the resident ones, and the remainder may be nearly another. With four pools, 384 of 512 MiB were used.
const POOLS: [u64; 2] = [4, 12];

/// Words of a pool within `bytes` for all of them: at least [`POOLS`] fit, or pools have the smallest size.
pub(in crate::bake::gpu) fn pool_words(bytes: u64, binding: u64, whole: bool) -> u32 {
    let pools = POOLS[usize::from(!whole)];
    let fits =
        |&words: &u32| u64::from(words) * 4 <= binding && bytes_of(room(words)) <= bytes / pools;
    let smallest = SIZES[SIZES.len() - 1].min(u32::try_from(binding / 4).unwrap_or(u32::MAX));
    SIZES.into_iter().find(fits).unwrap_or(smallest)
}

impl layout::Pool {
    pub(super) fn plus(self, more: Self) -> Self {
        Self {
            patches: self.patches.saturating_add(more.patches),
            rows: self.rows.saturating_add(more.rows),
            words: self.words.saturating_add(more.words),
        }
    }

    pub(super) fn within(self, room: Self) -> bool {
        self.patches <= room.patches && self.rows <= room.rows && self.words <= room.words
    }

    /// The most that `blocks` blocks can hold with `taps`² samples a pixel: each sample on texels of its own, and each
    /// block partly in the subset.
    #[cfg(test)]
    pub(super) fn most(blocks: u32, taps: u32) -> Self {
        let (row, pixels) = (4 * taps * taps, blocks * BLOCK * BLOCK);
        let few = (PATCH_TEXELS / row).clamp(1, LISTED_MOST);
        Self {
            patches: pixels.min(2 * blocks * LISTED_MOST.div_ceil(few)),
            rows: pixels,
            words: pixels.saturating_mul(2 * row),
        }
    }
}
