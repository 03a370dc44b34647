//! A tile and its ellipses, nearest first → colour, alpha and depths of its pixels.
//!
//! Front to back, as in the reference code: alpha is at most 0.99, below 1/255 it counts as nothing, and a pixel is closed
//! by the first splat that would leave less than 10⁻⁴ of its light.

use crate::cover::{ACROSS, BLOCKS, HIGH, WIDE, cover};
use crate::ellipse::{Ellipse, LEVELS};
use crate::exp::exp2;
use crate::lanes::{LANES, Lanes, List};
use crate::project::Seen;

/// Most alpha of a splat.
pub const MOST_ALPHA: f32 = 0.99;
/// A pixel is closed by the first splat that would leave less than this of its light.
pub const CLOSED: f32 = 1e-4;
/// Ellipses between two looks at which blocks are closed.
pub(crate) const LOOK: usize = 32;

/// Columns and rows of a block's pixels, from its first.
const COLUMNS: List = [0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0];
const ROWS: List = [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0];

/// First column and row of each block.
const CORNERS: [[f32; 2]; BLOCKS] = {
    let mut corners = [[0.0; 2]; BLOCKS];
    let mut k = 0;
    while k < BLOCKS {
        corners[k] = [(k % ACROSS * WIDE) as f32, (k / ACROSS * HIGH) as f32];
        k += 1;
    }
    corners
};

/// A block of pixels, row by row, in lists of one number a pixel.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(crate) struct Block {
    /// Red, green, blue.
    pub(crate) colour: [List; 3],
    /// What the splats let through; negative once the pixel is closed.
    pub(crate) through: List,
    /// Sum of depths, each by its share of the pixel.
    pub(crate) depth: List,
    /// Depth of the splat at which half of the light is used up; 0 where it never is.
    pub(crate) median: List,
}

impl Block {
    const EMPTY: Self = Self {
        colour: [[0.0; LANES]; 3],
        through: [1.0; LANES],
        depth: [0.0; LANES],
        median: [0.0; LANES],
    };

    /// Adds a colour and a depth, each in all lanes.
    #[inline(always)]
    fn add<L: Lanes>(&mut self, alphas: L, colour: [L; 3], depth: L) {
        let before = L::of(self.through);
        let through = before.most(L::all(0.0));
        let after = through * (L::all(1.0) - alphas);
        let closes = after.below(L::all(CLOSED));
        let shares = closes.unless(alphas * through);
        let half = L::all(0.5);
        let halves = half.below(through) & after.within(half);
        // A pixel crosses one half once, and its median is 0 before: a choice would become a masked store, which is slow.
        self.median = (L::of(self.median) | (depth & halves)).list();
        self.through = (before | L::all(-0.0)).where_or(closes, after).list();
        for (list, colour) in self.colour.iter_mut().zip(colour) {
            *list = (L::of(*list) + shares * colour).list();
        }
        self.depth = (L::of(self.depth) + shares * depth).list();
    }

    #[inline(always)]
    fn is_closed<L: Lanes>(&self) -> bool {
        L::of(self.through).signs() == (1 << LANES) - 1
    }
}

/// A tile's blocks, row by row, as they are filled.
pub(crate) struct Tile {
    pub(crate) blocks: [Block; BLOCKS],
    /// Bits of those with a pixel that is not closed.
    open: u32,
    /// Its first pixel.
    corner: [usize; 2],
}

impl Tile {
    pub(crate) const fn new(corner: [usize; 2]) -> Self {
        Self {
            blocks: [Block::EMPTY; BLOCKS],
            open: u32::MAX,
            corner,
        }
    }

    /// Blends the ellipses of a list, which lie behind all others before; `ellipses` is space for them. Returns false once
    /// nothing more can show.
    #[inline(always)]
    pub(crate) fn blend<L: Lanes>(
        &mut self,
        list: &[u32],
        seen: &Seen,
        ellipses: &mut [Ellipse; LOOK],
    ) -> bool {
        let corner = self.corner.map(|at| at as f32 + 0.5);
        for list in list.chunks(LOOK) {
            seen.copy(list, ellipses);
            for ellipse in &ellipses[..list.len()] {
                let (left, top) = (corner[0] - ellipse.centre[0], corner[1] - ellipse.centre[1]);
                let mask = cover::<L>(ellipse, left, top) & self.open;
                if ellipse.square < f32::INFINITY {
                    self.add::<L, true>(mask, ellipse, left, top);
                } else {
                    self.add::<L, false>(mask, ellipse, left, top);
                }
            }
            for (k, block) in self.blocks.iter().enumerate() {
                if block.is_closed::<L>() {
                    self.open &= !(1 << k);
                }
            }
            if self.open == 0 {
                return false;
            }
        }
        true
    }

    /// Adds an ellipse to the blocks of a mask.
    #[inline(always)]
    fn add<L: Lanes, const SQUARE: bool>(
        &mut self,
        mut mask: u32,
        ellipse: &Ellipse,
        left: f32,
        top: f32,
    ) {
        let &Ellipse {
            along,
            skew,
            across,
            ..
        } = ellipse;
        let (columns, rows) = (L::of(COLUMNS), L::of(ROWS));
        // s and t of the tile's first pixel, and how much each pixel of a block adds.
        let (s, t) = (along * left + skew * top, across * top);
        let sides = L::all(along) * columns + L::all(skew) * rows;
        let downs = L::all(across) * rows;
        let (level, square) = (L::all(ellipse.level), L::all(ellipse.square));
        let (colour, depth) = (ellipse.colour.map(L::all), L::all(ellipse.depth));
        while mask != 0 {
            let number = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let [x, y] = CORNERS[number];
            let s = L::all(s + (along * x + skew * y)) + sides;
            let t = L::all(t + across * y) + downs;
            let power = (level - s * s) - t * t;
            let mut counts = L::all(-LEVELS).within(power);
            if SQUARE {
                let dx = (L::all(left + x) + columns).abs();
                let dy = (L::all(top + y) + rows).abs();
                counts = counts & dx.most(dy).within(square);
            }
            // Far out, the power has no f32.
            let alphas = exp2(power.most(L::all(-2.0 * LEVELS)));
            let alphas = alphas.least(L::all(MOST_ALPHA)) & counts;
            self.blocks[number].add(alphas, colour, depth);
        }
    }
}
