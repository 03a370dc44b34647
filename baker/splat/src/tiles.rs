//! Ellipses → for each tile of the picture those that may touch it, nearest first.

use std::ops::Range;

use rayon::prelude::*;

use crate::ellipse::{Ellipse, LEVELS};
use crate::order::Slabs;
use crate::project::Seen;
use crate::work::did;

/// Edge of a tile, in pixels.
pub const TILE: usize = 16;

/// Least number of ellipses a slab.
const SLAB: usize = 1 << 15;
/// Ellipses that are fetched at once.
const BATCH: usize = 32;
/// Most entries of the lists of a band, unless one row of tiles has more.
const MOST_ENTRIES: u64 = 1 << 25;
/// Pixels added to either end of an interval, for what rounding takes off.
pub const SLACK: f32 = 1.0 / 64.0;

/// Rows of tiles whose lists are in memory together. Splats that cover the whole picture would fill any memory at once.
pub(crate) fn bands(seen: &Seen, [across, down]: [usize; 2]) -> Vec<Range<usize>> {
    bands_of(seen, [across, down], MOST_ENTRIES)
}

fn bands_of(seen: &Seen, [across, down]: [usize; 2], most: u64) -> Vec<Range<usize>> {
    // How many more entries each row has than the one before, at most.
    let mut more = vec![0_i64; down + 1];
    let chunks = (0..seen.chunks()).flat_map(|chunk| {
        did(seen.chunk(chunk).count());
        seen.chunk(chunk)
    });
    for (_, ellipse) in chunks {
        let [x, y] = ellipse.centre;
        let [wide, high] = ellipse.reach;
        let rows = range(y - high, y + high, down);
        if !rows.is_empty() {
            let columns = range(x - wide, x + wide, across).len() as i64;
            more[rows.start] += columns;
            more[rows.end] -= columns;
        }
    }
    let (mut bands, mut first, mut sum, mut of_row) = (Vec::new(), 0, 0, 0_i64);
    for (row, more) in more.into_iter().enumerate().take(down) {
        of_row += more;
        let entries = of_row.unsigned_abs();
        if sum + entries > most && row > first {
            bands.push(first..row);
            (first, sum) = (row, 0);
        }
        sum += entries;
    }
    bands.push(first..down);
    bands
}

/// Lists of ellipses by tile, row by row, of a band of rows and one slab of depths.
pub(crate) struct Tiles {
    /// First entry of each tile's list, and the end of the last.
    starts: Vec<u32>,
    /// Indices of ellipses.
    entries: Vec<u32>,
}

impl Tiles {
    /// Lists for each slab, nearest first, of a band of rows of `across` tiles.
    pub(crate) fn new(seen: &Seen, across: usize, rows: &Range<usize>) -> Vec<Self> {
        // A slab has more ellipses than there are tiles, or the lists would outgrow the entries.
        let slabs = Slabs::new(seen, SLAB.max(2 * across * rows.len()));
        (0..slabs.count())
            .into_par_iter()
            .map(|slab| Self::of_slab(seen, &slabs.sorted(slab), across, rows))
            .collect()
    }

    fn of_slab(seen: &Seen, order: &[u32], across: usize, rows: &Range<usize>) -> Self {
        let mut starts = vec![0; across * rows.len() + 1];
        let mut pairs = Vec::with_capacity(4 * order.len());
        let mut ellipses = [Ellipse::NONE; BATCH];
        for order in order.chunks(BATCH) {
            seen.copy(order, &mut ellipses);
            for (&index, ellipse) in order.iter().zip(&ellipses) {
                touched(ellipse, across, rows, |tile| {
                    starts[tile + 1] += 1;
                    pairs.push((tile as u32, index));
                });
            }
        }
        did(order.len() + pairs.len());
        for tile in 1..starts.len() {
            starts[tile] += starts[tile - 1];
        }
        let mut next = starts.clone();
        let mut entries = vec![0; pairs.len()];
        for (tile, index) in pairs {
            let next = &mut next[tile as usize];
            entries[*next as usize] = index;
            *next += 1;
        }
        Self { starts, entries }
    }

    /// The list of one tile of the band.
    #[inline(always)]
    pub(crate) fn of(&self, tile: usize) -> &[u32] {
        &self.entries[self.starts[tile] as usize..self.starts[tile + 1] as usize]
    }
}

/// Calls `each` with the tiles of a band that have a pixel's centre in an ellipse, and seldom with one more.
#[inline]
fn touched(ellipse: &Ellipse, across: usize, band: &Range<usize>, mut each: impl FnMut(usize)) {
    let [x, y] = ellipse.centre;
    let [wide, high] = ellipse.reach;
    let rows = range(y - high, y + high, usize::MAX);
    let all = range(x - wide, x + wide, across);
    let corners = rows.len() > 1 && all.len() > 1;
    for row in rows.start.max(band.start)..rows.end.min(band.end) {
        let columns = if corners {
            let top = (row * TILE) as f32 + 0.5 - y;
            let [from, to] = interval(ellipse, top.max(-high), (top + (TILE - 1) as f32).min(high));
            range(x + from.max(-wide), x + to.min(wide), across)
        } else {
            all.clone()
        };
        for column in columns {
            each((row - band.start) * across + column);
        }
    }
}

/// Tiles with a pixel's centre from `from` to `to`.
#[inline]
fn range(from: f32, to: f32, count: usize) -> Range<usize> {
    const EDGE: f32 = TILE as f32;
    // A pixel's centre is half a pixel behind its place: the first one inside is less than half a pixel behind `from`.
    let first = (from + (0.5 - SLACK)) / EDGE;
    let last = (to - (0.5 - SLACK)) / EDGE;
    let end = if last < 0.0 { 0 } else { last as usize + 1 };
    first.max(0.0) as usize..end.min(count)
}

/// Least and greatest dx of an ellipse in rows whose dy is from `top` to `bottom`.
#[inline]
fn interval(ellipse: &Ellipse, top: f32, bottom: f32) -> [f32; 2] {
    let half = |dy: f32| {
        let t = ellipse.across * dy;
        (ellipse.level + LEVELS - t * t).max(0.0).sqrt() * ellipse.width
    };
    let [left, right] = [-ellipse.lean, ellipse.lean].map(|dy| dy.max(top).min(bottom));
    [
        ellipse.slope * left - half(left) - SLACK,
        ellipse.slope * right + half(right) + SLACK,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{Cloud, Splat};
    use crate::machine::Machine;
    use crate::project::project;
    use crate::view::{Filter, View};

    #[test]
    fn lists_of_bands_are_those_of_the_whole() {
        let mut cloud = Cloud::new(0);
        for k in 0..400_u32 {
            let turn = |by: u32| (k * by % 97) as f32 / 48.5 - 1.0;
            let splat = Splat {
                position: [turn(17), turn(29), turn(71)],
                scales: [0.02 + 0.5 * turn(13).abs(); 3],
                rotation: [1.0, 0.0, 0.0, 0.0],
                opacity: 0.8,
                constant: [0.0; 3],
            };
            assert!(cloud.push(&splat, &[]));
        }
        let view = View {
            rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            translation: [0.0, 0.0, 3.0],
            focal: [150.0; 2],
            centre: [100.0; 2],
            size: [200; 2],
        };
        let seen = project(&cloud, &view, Filter::Classic(0.3), 0, Machine::this());
        let size = [200_usize.div_ceil(TILE); 2];
        let lists = |bands: &[Range<usize>]| {
            let mut lists: Vec<Vec<u32>> = Vec::new();
            for band in bands {
                let slabs = Tiles::new(&seen, size[0], band);
                for tile in 0..size[0] * band.len() {
                    lists.push(
                        slabs
                            .iter()
                            .flat_map(|slab| slab.of(tile))
                            .copied()
                            .collect(),
                    );
                }
            }
            lists
        };
        let whole = lists(&bands(&seen, size));
        assert!(whole.iter().any(|list| list.len() > 100));
        let few = bands_of(&seen, size, 2000);
        assert!(few.len() > 3 && few.len() < size[1], "{few:?}");
        let rows = bands_of(&seen, size, 0);
        assert_eq!(rows.len(), size[1]);
        for bands in [few, rows] {
            assert_eq!(bands.first().map(|band| band.start), Some(0));
            assert_eq!(bands.last().map(|band| band.end), Some(size[1]));
            assert!(lists(&bands) == whole, "{bands:?}");
        }
    }
}
