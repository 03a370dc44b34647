//! Share of each pixel that a mesh covers: the coverage of [`Cover`] alone, with one bit for each sample instead of a
//! number. The samples between two ends of a triangle's row are set by the word.
//!
//! [`Cover`]: super::outline::Cover

use proto::table::Camera;

use crate::bake::intake::refine::blur::Plane;
use crate::bake::intake::refine::outline::SAMPLES;
use crate::bake::model::raster::Footing;
use crate::bake::model::raster::snapped::{Rect, SampleSink, Small, Snapped};
use crate::worker::progress::unit;

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// Pixels whose samples in a row fit a word.
const TOGETHER: usize = (WORD - 1) / SAMPLES as usize;

/// The samples of a plane that are covered.
struct SampleBits {
    /// Row by row.
    bits: Vec<u64>,
    /// Words of a row, one more than it fills: bits are read across the end of any word.
    words: usize,
}

/// The share of each pixel that the mesh covers, in a plane of this size.
pub(super) fn share(
    positions: &[[f32; 3]],
    triangles: &[[u32; 3]],
    camera: &Camera,
    [width, height]: [usize; 2],
) -> Plane {
    let s = SAMPLES as usize;
    let words = (width * s).div_ceil(WORD) + 1;
    let mut samples = SampleBits {
        bits: vec![0; words * height * s],
        words,
    };
    let size = [width, height].map(|edge| edge as u32);
    Snapped::new(positions, camera, size, SAMPLES).draw(triangles, &mut samples);
    let each = 1.0 / (SAMPLES * SAMPLES) as f32;
    let mut values = vec![0.0; width * height];
    let rows = samples.bits.chunks_exact(words * s);
    for (line, rows) in values.chunks_exact_mut(width).zip(rows) {
        if rows.iter().all(|&word| word == 0) {
            continue;
        }
        for (nth, pixels) in line.chunks_mut(TOGETHER).enumerate() {
            let bits = TOGETHER * s;
            let of_row = |row| samples_at(row, nth * bits, bits);
            let (mut all, mut any) = (u64::MAX, 0);
            for row in rows.chunks_exact(words) {
                let samples = of_row(row);
                (all, any) = (all & samples, any | samples);
            }
            // Most pixels lie wholly inside or outside of the mesh.
            if any == 0 || all == (1 << bits) - 1 {
                pixels.fill(if any == 0 { 0.0 } else { 1.0 });
                continue;
            }
            for (place, value) in pixels.iter_mut().enumerate() {
                let of_row = |row| samples_at(row, nth * bits + place * s, s).count_ones();
                let covered: u32 = rows.chunks_exact(words).map(of_row).sum();
                *value = each * covered as f32;
            }
        }
    }
    unit();
    Plane { width, values }
}

/// `count` samples of a row from `bit` on; `count` is less than a word's bits.
fn samples_at(row: &[u64], bit: usize, count: usize) -> u64 {
    let (word, within) = (bit / WORD, bit % WORD);
    // Two shifts, since a shift by all bits is not allowed.
    let next = row[word + 1] << 1 << (WORD - 1 - within);
    (row[word] >> within | next) & ((1 << count) - 1)
}

impl SampleBits {
    fn row(&mut self, row: usize) -> &mut [u64] {
        &mut self.bits[row * self.words..][..self.words]
    }
}

impl SampleSink for SampleBits {
    /// Most faces lie before or behind others that were drawn.
    fn hides(&self, [columns, rows]: &Rect, _: f32) -> bool {
        let last = columns.end - 1;
        let [from, to] = ends(columns.start, last);
        let (one, other) = (columns.start / WORD, last / WORD);
        rows.clone().all(|row| {
            let row = &self.bits[row * self.words..][..self.words];
            match other - one {
                0 => row[one] & from & to == from & to,
                _ => {
                    row[one] & from == from
                        && row[other] & to == to
                        && row[one + 1..other].iter().all(|&word| word == u64::MAX)
                }
            }
        })
    }

    fn enter_small(&mut self, _: u32, small: &Small) {
        for (row, columns, _) in small.rows() {
            set(self.row(row), columns.start, columns.end - 1);
        }
    }

    fn enter(&mut self, _: u32, footing: &Footing) {
        let height = self.bits.len() / self.words / SAMPLES as usize;
        for span in footing.spans(SAMPLES, [0, height as i32]) {
            let holds = |column: &usize| span.inverse_depth(footing, *column).is_some();
            // Each edge accepts all samples on one side of its zero, so those that all edges accept have no gaps.
            let Some(first) = span.columns.clone().find(holds) else {
                continue;
            };
            let last = (first..span.columns.end).rev().find(holds).unwrap_or(first);
            set(self.row(span.row), first, last);
        }
    }
}

/// Masks of the first and the last word of a range of bits.
fn ends(first: usize, last: usize) -> [u64; 2] {
    [
        u64::MAX << (first % WORD),
        u64::MAX >> (WORD - 1 - last % WORD),
    ]
}

/// Sets a range of a row's bits, ends included.
fn set(row: &mut [u64], first: usize, last: usize) {
    let [from, to] = ends(first, last);
    match (first / WORD, last / WORD) {
        (one, other) if one == other => row[one] |= from & to,
        (one, other) => {
            row[one] |= from;
            row[one + 1..other].fill(u64::MAX);
            row[other] |= to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::fixture::{around, camera, cube, sphere};
    use crate::bake::intake::refine::outline::Cover;

    #[test]
    fn the_share_is_that_of_the_cover() {
        // Wider than some words of samples, faces of one word and of many, and a mesh that the picture cuts.
        for (mesh, size, focal) in [
            (cube(), [61, 47], 50.0),
            (sphere(40, 30), [150, 130], 160.0),
            (cube(), [130, 90], 130.0),
        ] {
            for k in 0..4 {
                let picture = size.map(|edge| edge as u32);
                let camera = camera(around(k, 4, 2.4), focal, picture, [3.0, -2.0]);
                let [width, height] = size;
                let (positions, triangles) = (&mesh.positions, &mesh.triangles);
                let cover = Cover::new(positions, triangles, &camera, width, height);
                let share = share(positions, triangles, &camera, size);
                assert!(share.values.iter().any(|&value| value > 0.3 && value < 0.7));
                // A sample that an edge meets within the grid's thousandth may be on its other side.
                let differ = (share.values.iter().zip(&cover.share.values))
                    .filter(|(found, wanted)| (*found - *wanted).abs() > 1e-6)
                    .count();
                assert!(differ <= 2, "{k}: {differ}");
            }
        }
    }

    #[test]
    fn bits_are_set_from_the_first_to_the_last() {
        for (first, last) in [(0, 0), (5, 63), (63, 64), (3, 190), (64, 127), (130, 130)] {
            let mut row = [0; 4];
            set(&mut row, first, last);
            let all: Vec<usize> = (0..4 * WORD)
                .filter(|bit| row[bit / WORD] >> (bit % WORD) & 1 == 1)
                .collect();
            assert!(all.iter().copied().eq(first..=last), "{first} {last}");
            assert_eq!(samples_at(&row, first, 3), [1, 3, 7][(last - first).min(2)]);
        }
    }
}
