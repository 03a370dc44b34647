//! Bytes for rows → the size of a pool in words, and the memory that pools of this size leave for rows.

use crate::bake::gpu::layout::Pool;
use crate::bake::solve::backend::RowMemory;

/// Possible words of a pool: the largest that binding and budget allow is taken. The first fills a binding of 128 MiB,
/// and a dispatch over it fills any GPU.
pub(super) fn sizes() -> impl Iterator<Item = u32> {
    (15..=25).rev().map(|log| 1 << log)
}

/// Share of a pool that is filled before the next one is begun.
const FILLED: f64 = 0.9;

/// What `left` bytes mean for rows in pools of this capacity. One pool is set aside for streaming, and `reserve` bytes
/// for passes.
pub(crate) fn memory(room: Pool, left: u64, reserve: u64) -> RowMemory {
    let pool = room.bytes();
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
pub(crate) fn pool_words(bytes: u64, binding: u64, whole: bool) -> u32 {
    let pools = POOLS[usize::from(!whole)];
    let fits = |&words: &u32| {
        u64::from(words) * 4 <= binding && Pool::of_words(words).bytes() <= bytes / pools
    };
    let smallest = |least: u32| least.min(u32::try_from(binding / 4).unwrap_or(u32::MAX));
    (sizes().find(fits)).unwrap_or_else(|| sizes().last().map_or(0, smallest))
}

/// Whether another pool may be resident with `left` bytes left. There must also be room for one more, in which other
/// rows are streamed or rows are sorted, and for `reserve` bytes.
pub(super) fn stays(left: u64, pool_bytes: u64, reserve: u64) -> bool {
    left >= 2 * pool_bytes + reserve
}
