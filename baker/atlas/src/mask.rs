//! Rasterises a chart at one scale and rotation to the cells that it touches, as spans by row.
//!
//! Conservative: the mask contains every cell that a triangle touches, so charts whose masks are apart are apart. The
//! grid is the packer's: a cell is a texel of textures up to 1024² and a block of texels above.

use kiln_raster::touched;

use crate::bits::{fill, next};
use crate::piece::{Chart, turned};
use crate::work::Ticker;

/// Growth of each triangle in cells: far more than rounding the final coordinates to f32 can move them.
const SLACK: f64 = 1e-3;

/// The cells of a chart, with its lowest at the origin.
#[derive(Clone, Debug, Default)]
pub(super) struct Mask {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Row `r` has the spans `spans[row_start[r]..row_start[r + 1]]`.
    row_start: Vec<u32>,
    /// First cell and length.
    spans: Vec<[u32; 2]>,
    /// Rows in the order of testing: ends, middle, quarters and so on, since neighbouring rows mostly collide alike.
    pub(super) order: Vec<u32>,
    /// Length of each row's longest span. A page row with no free run of that length needs no test.
    pub(super) longest: Vec<u32>,
    /// Offset that puts the lowest cell of the rotated and scaled coordinates at the origin.
    pub(super) shift: [f64; 2],
}

impl Mask {
    /// The masks of a chart, rotated by the unit vector `turn` and by one, two and three quarter turns more, and scaled
    /// to cells. None where one is larger than `limit` cells.
    ///
    /// The chart is rasterised once. A quarter turn moves whole cells, so the others follow from the first.
    pub(super) fn quarters(
        chart: &Chart,
        turn: [f64; 2],
        scale: f64,
        limit: usize,
    ) -> [Option<Self>; 4] {
        let Some(first) = Self::new(chart, turn, scale, limit) else {
            return [const { None }; 4];
        };
        let second = first.quarter();
        let [third, fourth] = [&first, &second].map(Self::half);
        [first, second, third, fourth].map(Some)
    }

    /// Rasterises a chart, rotated by the unit vector `turn` and scaled to cells. None if it is larger than `limit`
    /// cells.
    pub(super) fn new(chart: &Chart, turn: [f64; 2], scale: f64, limit: usize) -> Option<Self> {
        let points: Vec<[f64; 2]> = chart
            .uvs
            .iter()
            .map(|&uv| turned(uv, turn, scale))
            .collect();
        let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        for point in &points {
            for axis in 0..2 {
                low[axis] = low[axis].min(point[axis]);
                high[axis] = high[axis].max(point[axis]);
            }
        }
        let shift = [SLACK - low[0], SLACK - low[1]];
        let [width, height] = [0, 1].map(|axis| (high[axis] + shift[axis] + SLACK).ceil());
        // Written so that NaN, and a chart without points, fail.
        if !((1.0..=limit as f64).contains(&width) && (1.0..=limit as f64).contains(&height)) {
            return None;
        }
        let mut bits = Bits::new(width as usize, height as usize);
        let mut ticker = Ticker::default();
        for triangle in &chart.triangles {
            let corners = triangle.map(|corner| {
                let point = points[corner as usize];
                [point[0] + shift[0], point[1] + shift[1]]
            });
            bits.fill_triangle(corners);
            // A triangle costs as much as the rows that it touches.
            let rows = corners.map(|corner| corner[1]);
            let [low, high] = [
                rows.iter().copied().reduce(f64::min),
                rows.iter().copied().reduce(f64::max),
            ];
            ticker.did(1 + (high.unwrap_or(0.0) - low.unwrap_or(0.0)) as usize);
        }
        Some(bits.into_mask(shift))
    }

    /// The mask after a quarter turn, which takes x to y and y to −x.
    fn quarter(&self) -> Self {
        let mut bits = Bits::new(self.height, self.width);
        for row in 0..self.height {
            let column = self.height - 1 - row;
            let (word, bit) = (column / 64, 1 << (column % 64));
            for &[start, length] in self.row(row) {
                let rows = start as usize..(start + length) as usize;
                for row in rows {
                    bits.bits[row * bits.words + word] |= bit;
                }
            }
        }
        bits.into_mask([self.height as f64 - self.shift[1], self.shift[0]])
    }

    /// The mask after half a turn.
    fn half(&self) -> Self {
        let mut mask = Self {
            width: self.width,
            height: self.height,
            row_start: Vec::with_capacity(self.row_start.len()),
            spans: Vec::with_capacity(self.spans.len()),
            order: self.order.clone(),
            longest: self.longest.iter().rev().copied().collect(),
            shift: [
                self.width as f64 - self.shift[0],
                self.height as f64 - self.shift[1],
            ],
        };
        mask.row_start.push(0);
        for row in (0..self.height).rev() {
            let spans = self.row(row).iter().rev();
            mask.spans
                .extend(spans.map(|&[start, length]| [self.width as u32 - start - length, length]));
            mask.row_start.push(mask.spans.len() as u32);
        }
        mask
    }

    pub(super) fn row(&self, row: usize) -> &[[u32; 2]] {
        &self.spans[self.row_start[row] as usize..self.row_start[row + 1] as usize]
    }
}

struct Bits {
    width: usize,
    height: usize,
    words: usize,
    bits: Vec<u64>,
}

impl Bits {
    fn new(width: usize, height: usize) -> Self {
        let words = width.div_ceil(64);
        Self {
            width,
            height,
            words,
            bits: vec![0; words * height],
        }
    }

    fn fill_triangle(&mut self, corners: [[f64; 2]; 3]) {
        for (row, from, to) in touched(corners, [self.width, self.height], SLACK) {
            let words = &mut self.bits[row * self.words..(row + 1) * self.words];
            fill(words, from, to + 1);
        }
    }

    fn into_mask(self, shift: [f64; 2]) -> Mask {
        let mut mask = Mask {
            width: self.width,
            height: self.height,
            row_start: vec![0],
            shift,
            ..Mask::default()
        };
        for row in 0..self.height {
            let words = &self.bits[row * self.words..(row + 1) * self.words];
            let (mut cell, mut longest) = (0, 0);
            loop {
                let start = next(words, cell, true);
                if start == 64 * self.words {
                    break;
                }
                cell = next(words, start, false);
                let length = (cell - start) as u32;
                mask.spans.push([start as u32, length]);
                longest = longest.max(length);
            }
            mask.longest.push(longest);
            mask.row_start.push(mask.spans.len() as u32);
        }
        mask.order = coarse_to_fine(self.height);
        mask
    }
}

/// `0..count`, in the order of bisection.
fn coarse_to_fine(count: usize) -> Vec<u32> {
    let mut order = Vec::with_capacity(count);
    let mut step = count.next_power_of_two();
    order.push(0);
    while step > 1 {
        order.extend((step / 2..count).step_by(step).map(|row| row as u32));
        step /= 2;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(mask: &Mask) -> Vec<(usize, usize)> {
        let row = |row: usize| {
            mask.row(row)
                .iter()
                .flat_map(move |&[at, length]| (at..at + length).map(move |x| (x as usize, row)))
        };
        (0..mask.height).flat_map(row).collect()
    }

    #[test]
    fn every_touched_cell_is_in_the_mask() {
        let chart = Chart {
            uvs: vec![[0.0, 0.0], [7.3, 0.2], [1.1, 5.7]],
            triangles: vec![[0, 1, 2]],
        };
        for turn in [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]] {
            let mask = Mask::new(&chart, turn, 1.7, 100).unwrap();
            let found = cells(&mask);
            for i in 0..200 {
                for j in 0..200 - i {
                    let (s, t) = (f64::from(i) / 200.0, f64::from(j) / 200.0);
                    let uv = [7.3 * s + 1.1 * t, 0.2 * s + 5.7 * t];
                    let point = turned(uv, turn, 1.7);
                    let cell = (
                        (point[0] + mask.shift[0]) as usize,
                        (point[1] + mask.shift[1]) as usize,
                    );
                    assert!(found.contains(&cell), "{cell:?}");
                }
            }
            // Its area plus a border of at most one cell.
            assert!(
                (found.len() as f64) < 1.7f64.powi(2) * 20.7 + 1.5 * 1.7 * 22.0,
                "{}",
                found.len()
            );
        }
        assert!(Mask::new(&chart, [1.0, 0.0], 100.0, 100).is_none());
        assert!(Mask::new(&chart, [f64::NAN, 0.0], 1.0, 100).is_none());
    }

    #[test]
    fn quarter_turns_move_whole_cells() {
        let chart = Chart {
            uvs: vec![
                [0.0, 0.0],
                [17.3, 0.2],
                [1.1, 5.7],
                [14.0, 9.0],
                [15.0, 2.0],
            ],
            triangles: vec![[0, 1, 2], [1, 3, 4]],
        };
        let (mut turn, scale) = ([0.6, 0.8], 3.3);
        for mask in Mask::quarters(&chart, turn, scale, 100) {
            let mask = mask.unwrap();
            let alone = Mask::new(&chart, turn, scale, 100).unwrap();
            assert_eq!([mask.width, mask.height], [alone.width, alone.height]);
            let found = cells(&mask);
            for corners in &chart.triangles {
                for i in 0..=100 {
                    for j in 0..=100 - i {
                        let shares = [f64::from(i), f64::from(j), f64::from(100 - i - j)];
                        let mut uv = [0.0; 2];
                        for (share, &corner) in shares.iter().zip(corners) {
                            for axis in 0..2 {
                                uv[axis] += share / 100.0 * chart.uvs[corner as usize][axis];
                            }
                        }
                        let point = turned(uv, turn, scale);
                        let cell = [0, 1].map(|axis| (point[axis] + mask.shift[axis]) as usize);
                        assert!(found.contains(&(cell[0], cell[1])), "{cell:?}");
                    }
                }
            }
            let longest = |row: usize| mask.row(row).iter().map(|span| span[1]).max();
            let all: Vec<u32> = (0..mask.height).filter_map(longest).collect();
            assert_eq!(mask.longest, all);
            turn = [-turn[1], turn[0]];
        }
    }

    #[test]
    fn rows_are_tested_once_each() {
        for count in [1, 2, 3, 7, 64, 65] {
            let mut order = coarse_to_fine(count);
            order.sort_unstable();
            assert_eq!(order, (0..count as u32).collect::<Vec<_>>());
        }
    }
}
