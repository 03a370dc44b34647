//! A triangle on a grid of texels → for each row, the columns that it may hold.
//!
//! Whoever asks each texel of a triangle's bounding box whether its centre lies within asks some 10⁵ of a needle that holds
//! none: a fan of needles takes minutes. The columns here are few, and hold all texels that such a test accepts, whatever its
//! rounding, so its answers stay the same.

use std::ops::Range;

/// Fewer columns are asked one by one at once.
const FEW: usize = 4;
/// Columns of this many texels are added on each side. The products of a test round by some 10⁻⁸ square texels, and a centre that
/// lies so far beyond an edge which is not flat is off by some 10⁻⁵.
const MARGIN: f64 = 1.0 / 16.0;
/// An edge that rises less than this in texels is flat: where it passes a row is a matter of rounding.
const FLAT: f64 = 1e-4;

/// Of the columns `within`, those whose centres a triangle may hold in this row; corners and centres in texels, centres at ½.
pub fn columns(corners: &[[f64; 2]; 3], row: usize, within: Range<usize>) -> Range<usize> {
    if within.len() <= FEW {
        return within;
    }
    let y = row as f64 + 0.5;
    let (mut first, mut last) = (f64::INFINITY, f64::NEG_INFINITY);
    for side in 0..3 {
        let (a, b) = (corners[side], corners[(side + 1) % 3]);
        let (low, high) = (a[1].min(b[1]), a[1].max(b[1]));
        if high - low < FLAT && y > low - FLAT && y < high + FLAT {
            return within;
        }
        if (low..=high).contains(&y) {
            let x = a[0] + (y - a[1]) / (b[1] - a[1]) * (b[0] - a[0]);
            (first, last) = (first.min(x), last.max(x));
        }
    }
    // Only rounding makes a row of a triangle that no edge passes.
    if first > last {
        return within;
    }
    let start = (first - MARGIN - 0.5).ceil().max(0.0) as usize;
    let end = ((last + MARGIN - 0.5).floor() + 1.0).max(0.0) as usize;
    let start = start.clamp(within.start, within.end);
    start..end.clamp(start, within.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test that the users of this do, of every texel.
    fn holds([a, b, c]: [[f64; 2]; 3], at: [f64; 2]) -> bool {
        let edge = |p: [f64; 2], q: [f64; 2]| {
            (q[0] - p[0]) * (at[1] - p[1]) - (q[1] - p[1]) * (at[0] - p[0])
        };
        let area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
        let inside = [edge(a, b), edge(b, c), edge(c, a)];
        area != 0.0 && inside.iter().all(|value| value * area.signum() >= 0.0)
    }

    #[test]
    fn no_texel_of_any_triangle_is_left_out_and_needles_have_few() {
        const EDGE: usize = 256;
        let mut state = 1_u32;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            f64::from(state) / f64::from(u32::MAX)
        };
        // As far as f32 tells places of a texture apart.
        let place = |x: f64| f64::from((x * EDGE as f64) as f32);
        let (mut asked, mut rows) = (0, 0);
        for number in 0..600 {
            let mut corners = [[0.0; 2]; 3].map(|at: [f64; 2]| at.map(|_| place(random())));
            match number % 4 {
                // A needle, level in one of its edges, and with corners on centres.
                0 => corners[1] = corners[0].map(|x| f64::from((x + 1e-4 * random()) as f32)),
                1 => corners[1][1] = corners[0][1],
                2 => corners = corners.map(|at| at.map(|x| x.floor() + 0.5)),
                _ => {}
            }
            for row in 0..EDGE {
                let found = columns(&corners, row, 0..EDGE);
                for column in (0..EDGE).filter(|column| !found.contains(column)) {
                    let at = [column as f64 + 0.5, row as f64 + 0.5];
                    assert!(!holds(corners, at), "{corners:?} holds {at:?}");
                }
                let spanned = corners.map(|corner| corner[1]);
                let inside = spanned.iter().any(|&y| y < row as f64 + 0.5)
                    && spanned.iter().any(|&y| y > row as f64 + 0.5);
                if number % 4 == 0 && inside {
                    (asked, rows) = (asked + found.len(), rows + 1);
                }
            }
        }
        assert!(rows > 1000 && asked < 3 * rows, "{asked} in {rows} rows");
    }
}
