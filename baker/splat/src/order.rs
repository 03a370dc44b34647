//! Ellipses → slabs of them, from the nearest to the farthest, each sorted by depth.
//!
//! Slabs are cut by depth at ranks of a sample, so that threads sort and list them apart; their number and their bounds
//! depend on the ellipses alone.

use rayon::prelude::*;

use crate::project::Seen;
use crate::work::did;

/// Every such ellipse is in the sample.
const SAMPLE: usize = 61;
/// Bits of a pass of the sort.
const DIGIT: u32 = 10;

/// Depth and index. Depths are positive, so that their bits sort as they do.
type Key = (u32, u32);

/// A chunk's keys, slab by slab.
struct Pieces {
    keys: Vec<Key>,
    /// First key of each slab, and the end of the last.
    starts: Vec<u32>,
}

/// Slabs of about `size` ellipses.
pub(crate) struct Slabs {
    pieces: Vec<Pieces>,
    count: usize,
}

impl Slabs {
    pub(crate) fn new(seen: &Seen, size: usize) -> Self {
        let keys: Vec<Vec<Key>> = (0..seen.chunks())
            .into_par_iter()
            .map(|chunk| {
                let keys = seen
                    .chunk(chunk)
                    .map(|(index, ellipse)| (ellipse.depth.to_bits(), index));
                keys.collect()
            })
            .collect();
        let bounds = bounds(&keys, size);
        let pieces = keys.into_par_iter().map(|keys| Pieces::new(&keys, &bounds));
        Self {
            pieces: pieces.collect(),
            count: bounds.len() + 1,
        }
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Indices of a slab's ellipses, nearest first, ties in the order of the cloud.
    pub(crate) fn sorted(&self, slab: usize) -> Vec<u32> {
        let pieces = self.pieces.iter().map(|pieces| {
            let [from, to] = [0, 1].map(|k| pieces.starts[slab + k] as usize);
            &pieces.keys[from..to]
        });
        let mut keys: Vec<Key> = Vec::with_capacity(pieces.clone().map(<[Key]>::len).sum());
        for piece in pieces {
            keys.extend_from_slice(piece);
        }
        sort(&mut keys);
        did(keys.len());
        keys.into_iter().map(|(_, index)| index).collect()
    }
}

impl Pieces {
    fn new(keys: &[Key], bounds: &[u32]) -> Self {
        did(keys.len());
        let slab = |&(depth, _): &Key| bounds.partition_point(|&bound| bound <= depth);
        let mut starts = vec![0_u32; bounds.len() + 2];
        for key in keys {
            starts[slab(key) + 1] += 1;
        }
        for k in 1..starts.len() {
            starts[k] += starts[k - 1];
        }
        let mut next = starts.clone();
        let mut sorted = vec![(0, 0); keys.len()];
        for key in keys {
            let next = &mut next[slab(key)];
            sorted[*next as usize] = *key;
            *next += 1;
        }
        Self {
            keys: sorted,
            starts,
        }
    }
}

/// First depths of all slabs but the nearest.
fn bounds(keys: &[Vec<Key>], size: usize) -> Vec<u32> {
    let all: usize = keys.iter().map(Vec::len).sum();
    let sample = keys.iter().flatten().step_by(SAMPLE);
    let mut sample: Vec<u32> = sample.map(|&(depth, _)| depth).collect();
    sample.sort_unstable();
    let count = all.div_ceil(size);
    (1..count)
        .map(|k| sample[k * sample.len() / count])
        .collect()
}

/// Sorts by depth and keeps the order of ties: by one digit after the other, from the last.
fn sort(keys: &mut Vec<Key>) {
    const DIGITS: usize = 1 << DIGIT;
    let least = keys.iter().map(|key| key.0).min().unwrap_or(0);
    let most = keys.iter().map(|key| key.0).max().unwrap_or(0);
    let mut other = vec![(0, 0); keys.len()];
    for shift in (0..u32::BITS - (most - least).leading_zeros()).step_by(DIGIT as usize) {
        let digit = |key: &Key| ((key.0 - least) >> shift) as usize % DIGITS;
        let mut next = [0_u32; DIGITS];
        for key in &*keys {
            next[digit(key)] += 1;
        }
        let mut sum = 0;
        for next in &mut next {
            sum += std::mem::replace(next, sum);
        }
        for key in &*keys {
            let next = &mut next[digit(key)];
            other[*next as usize] = *key;
            *next += 1;
        }
        std::mem::swap(keys, &mut other);
    }
}
