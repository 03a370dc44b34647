//! Pixel mask: how many pixels of each block of a view have a row, after decimation.

use std::collections::HashMap;

use proto::table::View;
use rayon::prelude::*;

/// Edge in pixels of the blocks by which neighbourhood weights are averaged. Occluders and highlights are connected
/// regions: a pixel among outliers is an outlier too, even if few other views contradict it.
pub const BLOCK: u32 = 8;

/// All pixels of a block.
pub(crate) const ALL: u8 = (BLOCK * BLOCK) as u8;

/// For each view, how many pixels of each of its blocks ([`BLOCK`]) have a row.
#[derive(Clone, Debug, Default)]
pub struct PixelMask {
    /// By the index of a view, line by line.
    blocks: HashMap<u32, Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewMask<'a> {
    view: u32,
    levels: &'a [u8],
    /// Blocks in a line.
    across: u32,
}

impl FromIterator<(u32, Vec<u8>)> for PixelMask {
    fn from_iter<I: IntoIterator<Item = (u32, Vec<u8>)>>(views: I) -> Self {
        let blocks = views.into_iter().collect();
        Self { blocks }
    }
}

impl PixelMask {
    /// The mask of a view; none if it keeps all its pixels.
    pub(crate) fn of(&self, view: &View) -> Option<ViewMask<'_>> {
        Some(ViewMask {
            view: view.index,
            levels: self.blocks.get(&view.index)?,
            across: view.width.div_ceil(BLOCK),
        })
    }

    /// Clears the alpha of a view's pixels that are to have no row.
    pub(crate) fn decimate(&self, view: &mut View) {
        let mut pixels = std::mem::take(&mut view.pixels);
        if let Some(mask) = self.of(view) {
            let width = view.width as usize;
            let lines = pixels.par_chunks_mut(width * BLOCK as usize).enumerate();
            lines.for_each(|(line, pixels)| {
                for (row, pixels) in (line as u32 * BLOCK..).zip(pixels.chunks_mut(width)) {
                    mask.mask_row([0, row], pixels);
                }
            });
        }
        view.pixels = pixels;
    }
}

impl ViewMask<'_> {
    fn level(self, [x, y]: [u32; 2]) -> u8 {
        self.levels[(y / BLOCK * self.across + x / BLOCK) as usize]
    }

    /// Whether any pixel of the block around this one has a row.
    pub(crate) fn any(self, x: u32, y: u32) -> bool {
        self.level([x, y]) > 0
    }

    /// Clears the alpha of pixels without a row, in a run of one row that starts at a block's left edge.
    pub(crate) fn mask_row(self, [left, row]: [u32; 2], pixels: &mut [[u8; 4]]) {
        let blocks = pixels.chunks_mut(BLOCK as usize);
        for (first, pixels) in (left..).step_by(BLOCK as usize).zip(blocks) {
            let level = self.level([first, row]);
            if level == ALL {
                continue;
            }
            let turn = hash([self.view, row / BLOCK, first / BLOCK]);
            let [right, down] = [turn % BLOCK, turn / BLOCK % BLOCK];
            for (x, pixel) in (0..).zip(pixels) {
                if order([x + right, row + down]) >= level {
                    pixel[3] = 0;
                }
            }
        }
    }
}

/// Rank of each pixel of a block, line by line: Bayer's order, in which the first n are evenly spread for every n.
const ORDER: [[u8; BLOCK as usize]; BLOCK as usize] = {
    let mut all = [[0; BLOCK as usize]; BLOCK as usize];
    let mut at = 0;
    while at < ALL {
        let [x, y] = [at % BLOCK as u8, at / BLOCK as u8];
        let (mut order, mut bit) = (0, 0);
        while bit < BLOCK.ilog2() {
            let [x, y] = [x >> bit & 1, y >> bit & 1];
            order = order << 2 | (x ^ y) << 1 | y;
            bit += 1;
        }
        all[y as usize][x as usize] = order;
        at += 1;
    }
    all
};

fn order([x, y]: [u32; 2]) -> u8 {
    ORDER[(y % BLOCK) as usize][(x % BLOCK) as usize]
}

/// Hash of three numbers (`lowbias32` of Chris Wellons, "Prospecting for Hash Functions", 2018).
pub(crate) fn hash(numbers: [u32; 3]) -> u32 {
    numbers.iter().fold(0, |hash: u32, &number| {
        let mut x = hash.wrapping_mul(31).wrapping_add(number ^ 0x9E37_79B9);
        x = (x ^ x >> 16).wrapping_mul(0x7FEB_352D);
        x = (x ^ x >> 15).wrapping_mul(0x846C_A68B);
        x ^ x >> 16
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::fixture::{blank_view, camera};

    #[test]
    fn the_first_pixels_of_a_block_lie_evenly() {
        let mut places: Vec<(u8, [u32; 2])> = (0..BLOCK * BLOCK)
            .map(|at| [at % BLOCK, at / BLOCK])
            .map(|at| (order(at), at))
            .collect();
        places.sort_unstable();
        assert!(places.iter().map(|(order, _)| *order).eq(0..ALL));
        for (count, apart) in [(4, 4), (16, 2)] {
            let mut first: Vec<[u32; 2]> = places[..count].iter().map(|(_, at)| *at).collect();
            first.sort_unstable();
            let even = |at: &[u32; 2]| at.iter().all(|at| at.is_multiple_of(apart));
            assert!(first.iter().all(even), "{first:?}");
        }
    }

    #[test]
    fn a_block_keeps_as_many_pixels_as_its_level_says() {
        let size = [20, 17];
        let pixels = vec![[9, 8, 7, 200]; 20 * 17];
        let mut view = blank_view(
            3,
            camera([0.0, 0.0, 3.0], 4.0, size, [0.0; 2]),
            size,
            pixels,
        );
        let levels = vec![64, 0, 7, 31, 64, 64, 5, 0, 64];
        let mask: PixelMask = [(3, levels.clone())].into_iter().collect();
        let stays = |view: &View, x: u32, y: u32| {
            let inside = x < view.width && y < view.height;
            inside && view.pixels[(y * view.width + x) as usize][3] > 0
        };
        let all = view.clone();
        mask.decimate(&mut view);
        for (block, &level) in (0..).zip(&levels) {
            let [left, top] = [block % 3 * BLOCK, block / 3 * BLOCK];
            let of = |view: &View| {
                let at = (0..BLOCK * BLOCK).map(|at| [left + at % BLOCK, top + at / BLOCK]);
                at.filter(|&[x, y]| stays(view, x, y)).count()
            };
            match block % 3 < 2 && block / 3 < 2 {
                true => assert_eq!(of(&view), level as usize, "block {block}"),
                // Cut by the border.
                false => assert!(of(&view) <= of(&all).min(level as usize), "block {block}"),
            }
            let some = mask.of(&view).expect("known");
            assert_eq!(some.any(left + 3, top + 5), level > 0);
        }
        assert!(view.pixels.iter().all(|pixel| pixel[..3] == [9, 8, 7]));
        view.index = 4;
        let before = view.clone();
        mask.decimate(&mut view);
        assert!(mask.of(&view).is_none() && view == before, "a stranger");
    }
}
