//! Fills the gutter near seams: the face on the other side is unfolded over the shared edge into the plane of this
//! chart, and the gutter takes the colour that the texture has there. Gutter whose unfolded place misses the chart
//! beyond stays unfilled.

use rayon::prelude::*;

use super::{Charted, NO_CHART, SHORTEST, Side};

/// Depth of the unfolded gutter in texels: half of the weight and more of a lookup at mip 3 lies within it.
const DEPTH: f64 = 8.0;
/// Rows of texels in one unit of work.
const BAND: usize = 16;
const NONE: u32 = u32::MAX;

/// Fills texels that have a seam in `nearest`, and gives them weight 1.
pub(super) fn fill(
    texels: &mut [[f32; 4]],
    charts: &[u32],
    size: usize,
    seams: &[[Side; 2]],
    nearest: &[u32],
) {
    let source = Charted {
        texels,
        charts,
        size,
    };
    let filled: Vec<[f32; 4]> = nearest
        .par_iter()
        .enumerate()
        .with_min_len(1 << 10)
        .map(|(texel, &number)| match number {
            NONE => source.texels[texel],
            number => {
                let [side, beyond] = sides(seams, number);
                let at = unfolded(side, beyond, centre(texel, size)).0;
                let [r, g, b] = source.lookup(at);
                [r, g, b, 1.0]
            }
        })
        .collect();
    texels
        .par_iter_mut()
        .zip(filled)
        .with_min_len(1 << 14)
        .for_each(|(texel, filled)| *texel = filled);
}

/// For each unknown texel, the nearest side of a seam whose unfolded place there has a chart: twice the number of the
/// seam, plus 1 for its second side. Of equally near ones the first.
pub(super) fn nearest(
    known: impl Fn(usize) -> bool + Sync,
    charts: &[u32],
    size: usize,
    seams: &[[Side; 2]],
) -> Vec<u32> {
    let mut nearest = vec![NONE; charts.len()];
    // Bands of rows are independent: a texel meets the seams in the same order in any case.
    let band = |(band, nearest): (usize, &mut [u32])| {
        let first = band * BAND;
        let rows = first..first + nearest.len() / size;
        let mut least = vec![DEPTH as f32; nearest.len()];
        for number in 0..2 * seams.len() as u32 {
            let [side, beyond] = sides(seams, number);
            let range = |axis: usize| {
                let [a, b] = side.ends.map(|end| end[axis]);
                let first = (a.min(b) - DEPTH).max(0.0) as usize;
                first..((a.max(b) + DEPTH).ceil().clamp(0.0, size as f64) as usize)
            };
            let around = range(1);
            let within = around.start.max(rows.start)..around.end.min(rows.end);
            if within.is_empty() || side.length() < SHORTEST || beyond.length() < SHORTEST {
                continue;
            }
            for row in within {
                for column in range(0) {
                    let texel = row * size + column;
                    if known(texel) {
                        continue;
                    }
                    let (at, distance) = unfolded(side, beyond, centre(texel, size));
                    let place = texel - first * size;
                    if distance >= least[place] || distance.is_nan() {
                        continue;
                    }
                    let within = at.iter().all(|x| (0.0..size as f64).contains(x));
                    if within && charts[at[1] as usize * size + at[0] as usize] == beyond.chart {
                        nearest[place] = number;
                        least[place] = distance;
                    }
                }
            }
        }
    };
    nearest
        .par_chunks_mut(BAND * size)
        .enumerate()
        .for_each(band);
    nearest
}

fn sides(seams: &[[Side; 2]], number: u32) -> [&Side; 2] {
    let [one, other] = &seams[number as usize / 2];
    if number.is_multiple_of(2) {
        [one, other]
    } else {
        [other, one]
    }
}

fn centre(texel: usize, size: usize) -> [f64; 2] {
    [(texel % size) as f64 + 0.5, (texel / size) as f64 + 0.5]
}

/// Where a point outside of `side` lies on the chart `beyond`, and its distance from the side; infinite inside.
fn unfolded(side: &Side, beyond: &Side, point: [f64; 2]) -> ([f64; 2], f32) {
    let [a, b] = side.ends;
    let along = [b[0] - a[0], b[1] - a[1]];
    let from = [point[0] - a[0], point[1] - a[1]];
    let length = side.length();
    let share = (from[0] * along[0] + from[1] * along[1]) / (length * length);
    let out = -(from[0] * side.inward[0] + from[1] * side.inward[1]);
    let past = (share - share.clamp(0.0, 1.0)) * length;
    let distance = if out > 0.0 {
        out.hypot(past)
    } else {
        f64::INFINITY
    };
    let depth = out * beyond.length() / length;
    let foot = beyond.at(share);
    let at = [0, 1].map(|axis| foot[axis] + depth * beyond.inward[axis]);
    (at, distance as f32)
}

impl Charted<'_> {
    /// Bilinear over texels that have a weight: some beside a chart's border have none.
    fn lookup(&self, at: [f64; 2]) -> [f32; 3] {
        let [x, y] = at.map(|x| x - 0.5);
        let (fx, fy) = (x - x.floor(), y - y.floor());
        let clamp = |x: f64| x.clamp(0.0, (self.size - 1) as f64) as usize;
        let (mut sum, mut weights) = ([0.0; 3], 0.0);
        for (row, wy) in [(y.floor(), 1.0 - fy), (y.floor() + 1.0, fy)] {
            for (column, wx) in [(x.floor(), 1.0 - fx), (x.floor() + 1.0, fx)] {
                let index = clamp(row) * self.size + clamp(column);
                let texel = self.texels[index];
                let known = texel[3] > 0.0 || self.charts[index] != NO_CHART;
                let weight = if known { (wx * wy) as f32 } else { 0.0 };
                for channel in 0..3 {
                    sum[channel] += weight * texel[channel];
                }
                weights += weight;
            }
        }
        sum.map(|value| value / weights.max(f32::MIN_POSITIVE))
    }
}

#[cfg(test)]
mod tests;
