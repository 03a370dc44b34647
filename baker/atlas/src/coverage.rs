//! Counts the texels that triangles of an atlas cover, and those covered twice.
//!
//! A texel counts for a triangle that contains its centre. A fill rule assigns a centre on a side to one of the two
//! triangles there: with positive orientation, a side takes it if y grows along it, or if y is constant and x grows.
//! Sides are evaluated from their lower end, so both triangles of a side agree bit for bit.

use crate::work::Ticker;

/// Texels whose centres lie in triangles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// In at least one.
    pub covered: u64,
    /// In two or more.
    pub doubly: u64,
}

/// Counts the texels of a square of `size`².
pub fn measure(uvs: &[[f32; 2]], triangles: &[[u32; 3]], size: u32) -> Coverage {
    let words = (size as usize).div_ceil(64);
    let mut once = vec![0u64; words * size as usize];
    let mut twice = once.clone();
    let mut ticker = Ticker::default();
    for triangle in triangles {
        let corners =
            triangle.map(|corner| uvs[corner as usize].map(|x| f64::from(x) * f64::from(size)));
        let asked = for_texels(corners, size, |x, y| {
            let (word, bit) = (y * words + x / 64, 1 << (x % 64));
            twice[word] |= once[word] & bit;
            once[word] |= bit;
        });
        ticker.did(1 + asked);
    }
    let count = |words: &[u64]| words.iter().map(|word| u64::from(word.count_ones())).sum();
    Coverage {
        covered: count(&once),
        doubly: count(&twice),
    }
}

#[cfg(test)]
pub(crate) fn texels(uvs: &[[f32; 2]], triangle: &[u32; 3], size: u32) -> Vec<(usize, usize)> {
    let mut texels = Vec::new();
    let corners =
        triangle.map(|corner| uvs[corner as usize].map(|x| f64::from(x) * f64::from(size)));
    for_texels(corners, size, |x, y| texels.push((x, y)));
    texels
}

type Point = [f64; 2];

/// Visits the texels of a triangle; tells how many were asked.
fn for_texels(mut corners: [Point; 3], size: u32, mut visit: impl FnMut(usize, usize)) -> usize {
    let [a, b, c] = corners;
    let double_area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
    if double_area == 0.0 || double_area.is_nan() {
        return 0;
    }
    if double_area < 0.0 {
        corners.swap(1, 2);
    }
    let range = |axis: usize| {
        let low = corners
            .iter()
            .map(|corner| corner[axis])
            .fold(f64::INFINITY, f64::min);
        let high = corners
            .iter()
            .map(|corner| corner[axis])
            .fold(f64::NEG_INFINITY, f64::max);
        // Casts saturate below zero; the last texel is the square's.
        (low - 0.5).floor() as usize..((high + 0.5).ceil() as usize).min(size as usize)
    };
    let (columns, mut asked) = (range(0), 0);
    for y in range(1) {
        let columns = kiln_raster::columns(&corners, y, columns.clone());
        asked += 1 + columns.len();
        for x in columns {
            let centre = [x as f64 + 0.5, y as f64 + 0.5];
            if (0..3).all(|side| is_inside(corners[side], corners[(side + 1) % 3], centre)) {
                visit(x, y);
            }
        }
    }
    asked
}

/// Whether a point lies to the left of the side from `a` to `b`, or on it where the side takes it.
fn is_inside(a: Point, b: Point, point: Point) -> bool {
    let forward = (a[1], a[0]) < (b[1], b[0]);
    let (low, high) = if forward { (a, b) } else { (b, a) };
    let depth = (high[0] - low[0]) * (point[1] - low[1]) - (high[1] - low[1]) * (point[0] - low[0]);
    if forward { depth >= 0.0 } else { depth < 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_side_is_covered_once() {
        let uvs = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.31, 0.47]];
        let fan = [[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]];
        assert_eq!(
            measure(&uvs, &fan, 64),
            Coverage {
                covered: 4096,
                doubly: 0
            }
        );
        assert_eq!(
            measure(&uvs, &[[0, 1, 2], [0, 2, 3]], 64),
            Coverage {
                covered: 4096,
                doubly: 0
            }
        );
        // Either winding, and both at once.
        assert_eq!(
            measure(&uvs, &[[0, 2, 1], [0, 2, 3]], 64),
            Coverage {
                covered: 4096,
                doubly: 0
            }
        );
        assert_eq!(
            measure(&uvs, &[[0, 2, 1], [0, 1, 2]], 64).doubly,
            measure(&uvs, &[[0, 1, 2]], 64).covered
        );
    }

    #[test]
    fn nothing_and_outside_cover_nothing() {
        let uvs = [
            [0.2, 0.2],
            [0.8, 0.8],
            [0.5, 0.5],
            [-2.0, -2.0],
            [-1.0, -2.0],
            [-2.0, -1.0],
        ];
        assert_eq!(
            measure(&uvs, &[[0, 1, 2], [3, 4, 5]], 32),
            Coverage::default()
        );
    }
}
