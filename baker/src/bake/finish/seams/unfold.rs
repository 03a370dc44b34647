//! Fills the gutter near seams: the face on the other side is unfolded over the shared edge into the plane of this
//! chart, and the gutter takes the colour that the texture has there. Gutter whose unfolded place misses the chart
//! beyond stays unfilled.

use std::ops::Range;

use rayon::prelude::*;

use crate::bake::finish::seams::side::{Charted, SHORTEST, SeamSide};
use crate::bake::model::atlas::NO_CHART;
use crate::worker::progress::{Ticker, ticked, ticking};

/// Depth of the unfolded gutter in texels: half of the weight and more of a lookup at mip 3 lies within it.
const DEPTH: f64 = 8.0;
/// The same, and more than rounding moves it by.
const REACH: f64 = DEPTH + 0.01;
/// Rows of texels that are one piece of work.
const BAND: usize = 16;
const NONE: u32 = u32::MAX;

/// Fills texels that have a seam in `nearest`, and gives them weight 1.
pub(super) fn fill(
    texels: &mut [[f32; 4]],
    charts: &[u32],
    size: usize,
    seams: &[[SeamSide; 2]],
    nearest: &[u32],
) {
    let source = Charted {
        texels,
        charts,
        size,
    };
    let filled: Vec<[f32; 4]> = ticking(nearest.par_iter())
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
    ticking(texels.par_iter_mut())
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
    seams: &[[SeamSide; 2]],
) -> Vec<u32> {
    let mut nearest = vec![NONE; charts.len()];
    let of_bands = of_bands(size, seams);
    // Bands of rows, each for itself: a texel meets the seams in the same order.
    let band = |(band, (nearest, numbers)): (usize, (&mut [u32], Vec<u32>))| {
        let first = band * BAND;
        let rows = first..first + nearest.len() / size;
        let mut least = vec![DEPTH as f32; nearest.len()];
        let mut ticker = Ticker::default();
        for number in numbers {
            let [side, beyond] = sides(seams, number);
            let around = around(side, size);
            let within = around.start.max(rows.start)..around.end.min(rows.end);
            for row in within {
                let columns = reached(side, row, size);
                ticker.did(columns.len());
                for column in columns {
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
        .par_chunks_mut((BAND * size).max(1))
        .zip(of_bands)
        .enumerate()
        .for_each(band);
    nearest
}

/// The sides that may reach each band of rows, by their numbers.
fn of_bands(size: usize, seams: &[[SeamSide; 2]]) -> Vec<Vec<u32>> {
    let mut bands = vec![Vec::new(); size.div_ceil(BAND)];
    for number in ticked(0..2 * seams.len() as u32) {
        let [side, beyond] = sides(seams, number);
        let rows = around(side, size);
        if rows.is_empty() || side.length() < SHORTEST || beyond.length() < SHORTEST {
            continue;
        }
        for band in &mut bands[rows.start / BAND..=(rows.end - 1) / BAND] {
            band.push(number);
        }
    }
    bands
}

/// Rows that a side may reach.
fn around(side: &SeamSide, size: usize) -> Range<usize> {
    let [a, b] = side.ends.map(|end| end[1]);
    let first = (a.min(b) - DEPTH).max(0.0) as usize;
    first..((a.max(b) + DEPTH).ceil().clamp(0.0, size as f64) as usize)
}

/// Columns of a row that a side may reach: those beside the part of it that is as near to the row.
fn reached(side: &SeamSide, row: usize, size: usize) -> Range<usize> {
    let [a, b] = side.ends;
    let y = row as f64 + 0.5;
    // Where along the side it enters and leaves the rows that are as near; all of it, where it is level.
    let rise = b[1] - a[1];
    let shares = [y - REACH, y + REACH].map(|at| (at - a[1]) / rise);
    let [low, high] = match rise.abs() > REACH {
        true => [shares[0].min(shares[1]), shares[0].max(shares[1])].map(|x| x.clamp(0.0, 1.0)),
        false => [0.0, 1.0],
    };
    let [one, other] = [low, high].map(|share| side.at(share)[0]);
    let first = (one.min(other) - REACH).max(0.0) as usize;
    first..((one.max(other) + REACH).ceil().clamp(0.0, size as f64) as usize)
}

fn sides(seams: &[[SeamSide; 2]], number: u32) -> [&SeamSide; 2] {
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
fn unfolded(side: &SeamSide, beyond: &SeamSide, point: [f64; 2]) -> ([f64; 2], f32) {
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
