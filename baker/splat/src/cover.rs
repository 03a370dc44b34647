//! Which blocks of a tile an ellipse touches.
//!
//! A tile's blocks are [`WIDE`] × [`HIGH`] pixels. Bit `row · ACROSS + column` of a mask stands for a block.

use crate::ellipse::{Ellipse, LEVELS};
use crate::exp::ROUND;
use crate::lanes::{LANES, Lanes, List};
use crate::tiles::TILE;

/// Width of a block in pixels.
pub(crate) const WIDE: usize = 4;
/// Height of a block in pixels.
pub(crate) const HIGH: usize = 2;
/// Blocks across a tile.
pub(crate) const ACROSS: usize = TILE / WIDE;
/// Blocks of a tile.
pub(crate) const BLOCKS: usize = ACROSS * TILE / HIGH;

/// Pixels added to either end of an interval, for what rounding takes off.
const SLACK: f32 = 1.0 / 64.0;

const ROWS: List = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
/// First bit of each row, as integers.
const PLACES: List = {
    let mut places = [0.0; LANES];
    let mut k = 0;
    while k < LANES {
        places[k] = f32::from_bits((k / HIGH * ACROSS) as u32);
        k += 1;
    }
    places
};

const _: () = assert!(BLOCKS == 32 && WIDE == 4);

/// The blocks with a pixel where alpha counts, and seldom one more. `left` and `top` lead from the centre to the tile's first
/// pixel.
#[inline(always)]
pub(crate) fn cover<L: Lanes>(ellipse: &Ellipse, left: f32, top: f32) -> u32 {
    let last = (TILE - 1) as f32;
    let [first, end] = [-left - ellipse.square, ellipse.square - left].map(L::all);
    // Beyond the tile either way, there is none.
    let first = first.most(L::all(0.0));
    let end = end.least(L::all(last));
    let most = L::all(ellipse.level + LEVELS);
    let mut mask = L::all(0.0);
    for half in 0..TILE / LANES {
        let dy = L::of(ROWS) + L::all(top + (half * LANES) as f32);
        let t = L::all(ellipse.across) * dy;
        let rest = most - t * t;
        // The nearest integer to a number ± ½ is the first or last pixel inside.
        let wide = rest.most(L::all(0.0)).root() * L::all(ellipse.width) - L::all(0.5 - SLACK);
        let middle = L::all(ellipse.slope) * dy - L::all(left);
        let from = (middle - wide).most(first).least(L::all(last + 1.0));
        let to = (middle + wide).least(end).most(L::all(-1.0));
        let (from, to) = (from + L::all(ROUND), to + L::all(ROUND));
        let hit =
            L::all(0.0).within(rest) & from.within(to) & dy.abs().within(L::all(ellipse.square));
        // The bits from one to the other; the difference wraps where the last is the highest.
        let place = L::of(PLACES).plus(L::bits((half * LANES / HIGH * ACROSS) as u32));
        let shift = |column: L| column.minus(L::all(ROUND)).down::<2>().plus(place);
        let bits = L::bits(2)
            .up_by(shift(to))
            .minus(L::bits(1).up_by(shift(from)));
        mask = mask | (bits & hit);
    }
    mask.any()
}
