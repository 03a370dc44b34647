//! Ellipses → for each tile of the picture those that may touch it, nearest first.

use rayon::prelude::*;

use crate::project::Ellipse;

/// Edge of a tile, in pixels.
pub(crate) const TILE: usize = 16;

/// Lists of ellipses by tile, row by row.
pub(crate) struct Tiles {
    /// First entry of each tile's list, and the end of the last.
    starts: Vec<usize>,
    /// Indices of ellipses.
    entries: Vec<u32>,
    /// Tiles across.
    pub(crate) columns: usize,
}

impl Tiles {
    /// Sorts by depth, ties in the given order.
    pub(crate) fn new(ellipses: &[Ellipse], [width, height]: [u32; 2]) -> Self {
        let size = [width, height].map(|edge| (edge as usize).div_ceil(TILE));
        // Depths are positive, so that their bits sort as they do.
        let mut order: Vec<(u32, u32)> = (0_u32..)
            .zip(ellipses)
            .map(|(index, ellipse)| (ellipse.depth.to_bits(), index))
            .collect();
        order.par_sort_unstable();
        let mut starts = vec![0; size[0] * size[1] + 1];
        for ellipse in ellipses {
            touched(ellipse, size, |tile| starts[tile + 1] += 1);
        }
        for tile in 1..starts.len() {
            starts[tile] += starts[tile - 1];
        }
        let mut next = starts.clone();
        let mut entries = vec![0; starts.last().copied().unwrap_or(0)];
        for (_, index) in order {
            touched(&ellipses[index as usize], size, |tile| {
                entries[next[tile]] = index;
                next[tile] += 1;
            });
        }
        Self {
            starts,
            entries,
            columns: size[0],
        }
    }

    /// The list of one tile.
    pub(crate) fn of(&self, tile: usize) -> &[u32] {
        &self.entries[self.starts[tile]..self.starts[tile + 1]]
    }
}

/// Calls `each` with the tiles that an ellipse's box touches.
fn touched(ellipse: &Ellipse, [columns, rows]: [usize; 2], mut each: impl FnMut(usize)) {
    let range = |k: usize, count: usize| {
        let tile = |at: f32| (at / TILE as f32).clamp(0.0, count as f32) as usize;
        let first = tile(ellipse.centre[k] - ellipse.reach[k]);
        let last = tile(ellipse.centre[k] + ellipse.reach[k]);
        first..(last + 1).min(count)
    };
    for row in range(1, rows) {
        for column in range(0, columns) {
            each(row * columns + column);
        }
    }
}
