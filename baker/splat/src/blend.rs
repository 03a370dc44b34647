//! A tile and its ellipses, nearest first → colour, alpha and depths of its pixels.
//!
//! Front to back, as in the reference code: alpha is at most 0.99, below 1/255 it counts as nothing, and a pixel is closed
//! by the first splat that would leave less than 10⁻⁴ of its light.

use crate::exp::exp;
use crate::project::{Ellipse, LEAST_ALPHA};
use crate::tiles::TILE;

const MOST_ALPHA: f32 = 0.99;
const CLOSED: f32 = 1e-4;
/// Ellipses between two looks at which rows are closed.
const LOOK: usize = 32;

type Lane = [f32; TILE];

/// A row of a tile, in lists of one number a pixel: the compiler makes vectors of them.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// Red, green, blue.
    pub(crate) colour: [Lane; 3],
    /// What the splats let through.
    pub(crate) through: Lane,
    /// Sum of depths, each by its share of the pixel.
    pub(crate) depth: Lane,
    /// Depth of the splat at which half of the light is used up; 0 where it never is.
    pub(crate) median: Lane,
    /// 1, or 0 once it is closed.
    open: Lane,
}

impl Row {
    const EMPTY: Self = Self {
        colour: [[0.0; TILE]; 3],
        through: [1.0; TILE],
        depth: [0.0; TILE],
        median: [0.0; TILE],
        open: [1.0; TILE],
    };

    /// Adds an ellipse where its alpha counts. `left` and `dy` lead from its centre to the first pixel; columns outside
    /// `columns` lie outside its box.
    #[inline]
    fn add(&mut self, ellipse: &Ellipse, at: [f32; 2], columns: [f32; 2]) {
        let alphas = alphas(ellipse, at, columns);
        let mut shares = [0.0; TILE];
        for k in 0..TILE {
            let (through, alpha) = (self.through[k], alphas[k] * self.open[k]);
            let after = through * (1.0 - alpha);
            let open = if after < CLOSED { 0.0 } else { self.open[k] };
            shares[k] = alpha * through * open;
            let halves = (through > 0.5) & (after <= 0.5) & (open > 0.0);
            self.median[k] = if halves {
                ellipse.depth
            } else {
                self.median[k]
            };
            self.through[k] = if open > 0.0 { after } else { through };
            self.open[k] = open;
        }
        for (lane, colour) in self.colour.iter_mut().zip(ellipse.colour) {
            for k in 0..TILE {
                lane[k] += shares[k] * colour;
            }
        }
        for k in 0..TILE {
            self.depth[k] += shares[k] * ellipse.depth;
        }
    }

    fn is_closed(&self) -> bool {
        self.open.iter().all(|&open| open == 0.0)
    }
}

/// Alpha of an ellipse along a row, 0 where it does not count.
#[inline]
fn alphas(ellipse: &Ellipse, [left, dy]: [f32; 2], columns: [f32; 2]) -> Lane {
    let [xx, xy, yy] = ellipse.conic;
    let mut alphas = [0.0; TILE];
    for k in 0..TILE {
        let column = k as f32;
        let dx = left + column;
        let power = -0.5 * (xx * dx * dx + yy * dy * dy) - xy * dx * dy;
        let alpha = (ellipse.opacity * exp(power)).min(MOST_ALPHA);
        let counts = (power <= 0.0)
            & (alpha >= LEAST_ALPHA)
            & (column >= columns[0])
            & (column <= columns[1]);
        alphas[k] = if counts { alpha } else { 0.0 };
    }
    alphas
}

/// Blends the ellipses of the tile whose first pixel is `corner`.
pub(crate) fn blend<'a>(
    corner: [usize; 2],
    ellipses: impl Iterator<Item = &'a Ellipse>,
) -> [Row; TILE] {
    let mut rows = [Row::EMPTY; TILE];
    let mut closed = [false; TILE];
    for (number, ellipse) in ellipses.enumerate() {
        // Looked at now and then, since most tiles never close.
        if number % LOOK == LOOK - 1 {
            for (closed, row) in closed.iter_mut().zip(&rows) {
                *closed = row.is_closed();
            }
            if closed.iter().all(|&closed| closed) {
                break;
            }
        }
        let [left, top] = [0, 1].map(|k| corner[k] as f32 + 0.5 - ellipse.centre[k]);
        let bounds = |k: usize, start: f32| [-start - ellipse.reach[k], ellipse.reach[k] - start];
        let (columns, [first, last]) = (bounds(0, left), bounds(1, top));
        let first = first.ceil().clamp(0.0, TILE as f32) as usize;
        let end = (last.floor() + 1.0).clamp(0.0, TILE as f32) as usize;
        for (k, row) in rows.iter_mut().enumerate().take(end).skip(first) {
            if !closed[k] {
                row.add(ellipse, [left, top + k as f32], columns);
            }
        }
    }
    rows
}
