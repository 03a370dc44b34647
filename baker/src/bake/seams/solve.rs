//! Rows → the smallest change of the texels that may move which makes both sides of the seams agree: conjugate gradients
//! over all levels at once.
//!
//! Every sum is a gather in a fixed order, so the result has the same bits whatever the number of threads.

use std::borrow::Cow;

use proto::job::Blend;
use rayon::prelude::*;

use super::super::colour::{self, Space};
use super::hierarchy::{Hierarchy, NONE};
use super::lookups::{Lookups, Seen};
use super::rows::{Row, Tap, levels, rows};
use super::{Charted, NO_CHART, Side};
use crate::laps::{timed, timed_in_pool};
use crate::progress::unit;

/// Anchor of a texel that is observed as well as the mean, for each texel's length of seam among the texels of charts: what
/// is weighed is the mean difference along all seams against the mean error of all texels. On the statue's set 500 and 1000
/// leave 1.1 and 1.3 steps of 255 at mip 0, and the latter has 0.01 dB more; on the splats', 1.4 and 1.8.
const FIRM: f32 = 500.0;
/// Anchor of a chart's texels that no pixel observes: they are smooth, and should stay so.
const UNSEEN: f32 = 0.05;
/// Anchor of the gutter: 2e-5 gives 2.5 steps at mip 3 on the statue's set and 8e-5 3.0, but the less it is the more of the
/// gutter turns black or white.
const GUTTER: f32 = 5e-5;
/// What a lookup in a coarser mip counts beside one in the texture itself: the gutter is free to follow all the same, but
/// charts of a few texels are not spoilt for mips in which they cannot be told apart. On the helmet's set 0.02, 0.06 and 0.2
/// leave 1.0, 1.0 and 1.1 steps at mip 0, and 1.6, 1.4 and 1.3 at mip 1.
const COARSE: f32 = 0.06;
/// τ: what being off the colour of the charts counts beside a difference of the sides.
const PULL: f32 = 0.3;
/// Texels that are summed one after the other, once for all and in every iteration.
const BLOCK: usize = 1 << 16;
const PIECE: usize = 1 << 14;
/// Iterations. Texels that reach black or full light stay there in the second round.
const ROUNDS: [u32; 2] = [12, 6];

/// What is known of the least squares before the texels are.
#[derive(Debug)]
pub(super) struct Agreement {
    rows: Vec<Vec<Row>>,
    anchors: Vec<f32>,
    system: System,
}

impl Agreement {
    /// None without seams. See [`super::Mending::new`].
    pub(super) fn new(
        seams: &[[Side; 2]],
        charts: &[u32],
        observed: &[f32],
        size: usize,
        space: Space,
    ) -> Option<Self> {
        if seams.is_empty() {
            return None;
        }
        let of_level = |level| {
            let rows = rows(size, seams, level);
            unit();
            rows
        };
        let rows: Vec<Vec<Row>> = timed("lookups", || (0..levels(size)).map(of_level).collect());
        let hierarchy = timed("hierarchy", || Hierarchy::new(charts, size, &rows));
        unit();
        let length: f32 = rows[0].iter().map(|row| row.length).sum();
        let anchors = anchors(&hierarchy.texels, charts, observed, length);
        let system = timed("readers", || System::new(hierarchy, &rows, space));
        unit();
        Some(Self {
            rows,
            anchors,
            system,
        })
    }
}

/// See the head of [`super`]. Texels come and go in linear light.
pub(super) fn agree(texels: &mut [[f32; 4]], charts: &[u32], size: usize, agreement: Agreement) {
    let Agreement {
        mut rows,
        anchors,
        mut system,
    } = agreement;
    let charted = Charted {
        texels,
        charts,
        size,
    };
    timed("targets", || {
        for (level, rows) in rows.iter_mut().enumerate() {
            charted.aim(rows, level);
            unit();
        }
    });
    let start: Vec<[f32; 4]> = gather(&system.hierarchy.texels, texels);
    for (round, iterations) in ROUNDS.into_iter().enumerate() {
        let now = gather(&system.hierarchy.texels, texels);
        let fixed = |value: f32| round > 0 && !(value > 0.0 && value < 1.0);
        let mut residual = timed_in_pool("linearise", || {
            system.linearise(texels, size, &rows, &start, &anchors);
            system.defect(&rows, &start, &now)
        });
        let inverse: Vec<[f32; 4]> = system
            .diagonal()
            .par_iter()
            .zip(&now)
            .map(|(diagonal, now)| {
                std::array::from_fn(|c| {
                    if fixed(now[c]) {
                        0.0
                    } else {
                        1.0 / diagonal[c]
                    }
                })
            })
            .collect();
        let change = timed_in_pool("agree", || {
            system.conjugate_gradients(&mut residual, &inverse, iterations)
        });
        let nodes = &system.hierarchy.levels[0].node_of;
        let moved = texels.par_iter_mut().zip(nodes).with_min_len(1 << 14);
        moved
            .filter(|&(_, &node)| node != NONE)
            .for_each(|(texel, &node)| {
                let (now, change) = (now[node as usize], change[node as usize]);
                for channel in 0..3 {
                    texel[channel] = (now[channel] + change[channel]).clamp(0.0, 1.0);
                }
            });
    }
}

fn gather(at: &[u32], texels: &[[f32; 4]]) -> Vec<[f32; 4]> {
    at.par_iter().map(|&texel| texels[texel as usize]).collect()
}

/// How firmly each texel stays: by the square of the weight that observes it, as the diagonal of the fit goes with the
/// squares of its shares.
fn anchors(at: &[u32], charts: &[u32], observed: &[f32], length: f32) -> Vec<f32> {
    // In blocks of texels: the same bits on any number of threads.
    let blocks = observed.par_chunks(BLOCK).zip(charts.par_chunks(BLOCK));
    let of_block = |(observed, charts): (&[f32], &[u32])| {
        let mut sums = (0.0, 0u64, 0u64);
        for (&weight, &chart) in observed.iter().zip(charts) {
            if chart != NO_CHART {
                sums.2 += 1;
                if weight > 0.0 {
                    sums = (sums.0 + f64::from(weight), sums.1 + 1, sums.2);
                }
            }
        }
        sums
    };
    let blocks: Vec<(f64, u64, u64)> = blocks.map(of_block).collect();
    let (sum, count, charted) =
        (blocks.into_iter()).fold((0.0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
    let mean = (sum / count.max(1) as f64).max(f64::MIN_POSITIVE) as f32;
    let firm = FIRM * length / charted.max(1) as f32;
    let anchor = |&texel: &u32| {
        let texel = texel as usize;
        let least = if charts[texel] == NO_CHART {
            GUTTER
        } else {
            UNSEEN
        };
        least + firm * (observed[texel] / mean).min(1.0).powi(2)
    };
    at.par_iter().map(anchor).collect()
}

#[derive(Debug)]
struct System {
    space: Space,
    hierarchy: Hierarchy,
    lookups: Vec<Lookups>,
    /// a · d² of each texel.
    anchors: Vec<[f32; 4]>,
    /// Mips of what moves, and their sums on the way back.
    mips: Vec<Vec<[f32; 4]>>,
    seen: Vec<Vec<Seen>>,
}

impl System {
    fn new(hierarchy: Hierarchy, rows: &[Vec<Row>], space: Space) -> Self {
        let lookups: Vec<Lookups> = hierarchy
            .levels
            .iter()
            .zip(rows)
            .map(|(level, rows)| Lookups::new(level, rows))
            .collect();
        let mips = lookups
            .iter()
            .map(|lookups| vec![[0.0; 4]; lookups.starts.len() - 1])
            .collect();
        let seen = rows
            .iter()
            .map(|rows| vec![Seen::default(); rows.len()])
            .collect();
        Self {
            space,
            hierarchy,
            lookups,
            anchors: Vec::new(),
            mips,
            seen,
        }
    }

    /// Takes the slopes at the present texels, and what the rows see of them.
    fn linearise(
        &mut self,
        texels: &[[f32; 4]],
        size: usize,
        rows: &[Vec<Row>],
        start: &[[f32; 4]],
        anchors: &[f32],
    ) {
        let space = self.space;
        self.anchors = start
            .par_iter()
            .zip(anchors)
            .map(|(start, anchor)| start.map(|value| anchor * slope_squared(value, space)))
            .collect();
        let mut mip = Cow::Borrowed(texels);
        for (level, rows) in rows.iter().enumerate() {
            if level > 0 {
                mip = Cow::Owned(half(&mip, size >> (level - 1)));
            }
            let shown = |taps: &[Tap; 4]| {
                let mut sum = [0.0; 4];
                for tap in taps {
                    for channel in 0..3 {
                        sum[channel] += tap.weight * mip[tap.texel as usize][channel];
                    }
                }
                sum
            };
            let see = |row: &Row| {
                let [one, other] = row.taps.each_ref().map(shown);
                Seen {
                    difference: std::array::from_fn(|c| one[c] - other[c]),
                    mean: std::array::from_fn(|c| 0.5 * (one[c] + other[c])),
                }
            };
            let lookups = &mut self.lookups[level];
            self.seen[level] = rows.par_iter().map(see).collect();
            (lookups.strengths, lookups.pulls) = rows
                .par_iter()
                .zip(&self.seen[level])
                .map(|(row, seen)| {
                    let [r, g, b, _] = seen.mean;
                    let colour = row.target.unwrap_or([r, g, b]);
                    let [r, g, b] = colour.map(|value| slope_squared(value, space));
                    let count = row.length * if level > 0 { COARSE } else { 1.0 };
                    let strength = [r, g, b, 0.0].map(|slope| count * slope);
                    (strength, row.target.map_or(0.0, |_| PULL * PULL))
                })
                .unzip();
            unit();
        }
    }

    /// Minus the gradient at the present texels, of which `linearise` has noted what the rows see.
    fn defect(&mut self, rows: &[Vec<Row>], start: &[[f32; 4]], now: &[[f32; 4]]) -> Vec<[f32; 4]> {
        for (seen, rows) in self.seen.iter_mut().zip(rows) {
            seen.par_iter_mut().zip(rows).for_each(|(seen, row)| {
                for (mean, target) in seen.mean.iter_mut().zip(row.target.unwrap_or_default()) {
                    *mean -= target;
                }
            });
        }
        let moved: Vec<[f32; 4]> = now
            .par_iter()
            .zip(start)
            .map(|(now, start)| std::array::from_fn(|c| now[c] - start[c]))
            .collect();
        let mut gradient = vec![[0.0; 4]; moved.len()];
        self.scatter(&moved, &mut gradient);
        gradient
            .par_iter_mut()
            .for_each(|sum| *sum = sum.map(|value| -value));
        gradient
    }

    /// The normal matrix times a change of the texels, into `product`; returns `change · product`.
    fn apply(&mut self, change: &[[f32; 4]], product: &mut [[f32; 4]]) -> [f64; 3] {
        let pieces = self.mips[0].par_chunks_mut(PIECE);
        (pieces.zip(change.par_chunks(PIECE))).for_each(|(to, from)| to.copy_from_slice(from));
        for level in 1..self.mips.len() {
            let (finer, coarser) = self.mips.split_at_mut(level);
            let finer = &finer[level - 1];
            let children = &self.hierarchy.levels[level].children;
            coarser[0]
                .par_iter_mut()
                .enumerate()
                .with_min_len(1 << 12)
                .for_each(|(node, sum)| {
                    let range = children[node] as usize..children[node + 1] as usize;
                    *sum = [0.0; 4];
                    for child in &finer[range] {
                        for channel in 0..3 {
                            sum[channel] += 0.25 * child[channel];
                        }
                    }
                });
        }
        for ((lookups, mips), seen) in self.lookups.iter().zip(&self.mips).zip(&mut self.seen) {
            lookups.see(mips, seen);
        }
        self.scatter(change, product)
    }

    /// What the rows see, brought back to the texels, and the anchors' part of `change`, into `sums`; returns `change · sums`.
    fn scatter(&mut self, change: &[[f32; 4]], sums: &mut [[f32; 4]]) -> [f64; 3] {
        for (lookups, seen) in self.lookups.iter().zip(&mut self.seen) {
            lookups.weigh(seen);
        }
        for level in (0..self.mips.len()).rev() {
            let lookups = &self.lookups[level];
            let (finer, coarser) = self.mips.split_at_mut(level + 1);
            let parents = &self.hierarchy.levels[level].parents;
            let (above, seen) = (coarser.first(), &self.seen[level]);
            finer[level]
                .par_iter_mut()
                .enumerate()
                .with_min_len(1 << 12)
                .for_each(|(node, sum)| {
                    *sum = match above {
                        // A mip is a quarter of each child.
                        Some(above) => above[parents[node] as usize].map(|value| 0.25 * value),
                        None => [0.0; 4],
                    };
                    lookups.add_back(node, seen, sum);
                });
        }
        let pieces = sums
            .par_chunks_mut(PIECE)
            .zip(self.mips[0].par_chunks(PIECE));
        let held = self.anchors.par_chunks(PIECE).zip(change.par_chunks(PIECE));
        let pieces = pieces.zip(held).map(|((sums, parts), (anchors, change))| {
            let mut product = [0.0; 3];
            let texels = parts.iter().zip(anchors).zip(change);
            for (to, ((part, anchor), change)) in sums.iter_mut().zip(texels) {
                *to = std::array::from_fn(|c| part[c] + anchor[c] * change[c]);
                add_product(&mut product, change, to);
            }
            product
        });
        total(pieces.collect())
    }

    /// The diagonal of the normal matrix, but for rows that read a texel through several of their taps.
    fn diagonal(&self) -> Vec<[f32; 4]> {
        let mut above: Vec<[f32; 4]> = Vec::new();
        for level in (0..self.mips.len()).rev() {
            let lookups = &self.lookups[level];
            let parents = &self.hierarchy.levels[level].parents;
            let squares = |node: usize| {
                // A mip's share of its child is a quarter, squared.
                let mut sum = parents
                    .get(node)
                    .map_or([0.0; 4], |&up| above[up as usize].map(|x| x / 16.0));
                for (row, weight, _) in lookups.readers_of(node) {
                    let square = weight * weight * (1.0 + 0.25 * lookups.pulls[row]);
                    for channel in 0..3 {
                        sum[channel] += square * lookups.strengths[row][channel];
                    }
                }
                sum
            };
            above = (0..self.mips[level].len())
                .into_par_iter()
                .map(squares)
                .collect();
        }
        let both =
            |(sum, anchor): (&[f32; 4], &[f32; 4])| std::array::from_fn(|c| sum[c] + anchor[c]);
        above.par_iter().zip(&self.anchors).map(both).collect()
    }

    /// Saad, "Iterative Methods for Sparse Linear Systems", 2003, algorithm 9.1, the channels side by side.
    fn conjugate_gradients(
        &mut self,
        r: &mut [[f32; 4]],
        inverse: &[[f32; 4]],
        iterations: u32,
    ) -> Vec<[f32; 4]> {
        let ratio = |one: [f64; 3], other: [f64; 3]| -> [f32; 3] {
            std::array::from_fn(|c| {
                if other[c] > 0.0 {
                    (one[c] / other[c]) as f32
                } else {
                    0.0
                }
            })
        };
        let mut x = vec![[0.0_f32; 4]; r.len()];
        let (mut p, mut q) = (x.clone(), x.clone());
        let mut z = x.clone();
        let mut rz = advance([&mut x, r, &mut z], [&p, &q, inverse], [0.0; 3]);
        p.copy_from_slice(&z);
        for _ in 0..iterations {
            let alpha = ratio(rz, self.apply(&p, &mut q));
            let next = advance([&mut x, r, &mut z], [&p, &q, inverse], alpha);
            let beta = ratio(next, rz);
            rz = next;
            p.par_iter_mut()
                .zip(&z)
                .with_min_len(1 << 12)
                .for_each(|(p, z)| {
                    for c in 0..3 {
                        p[c] = z[c] + beta[c] * p[c];
                    }
                });
            unit();
        }
        x
    }
}

/// x += α p, r −= α q, z = r / D, in one pass over memory; returns r · z.
fn advance(
    [x, r, z]: [&mut [[f32; 4]]; 3],
    [p, q, inverse]: [&[[f32; 4]]; 3],
    alpha: [f32; 3],
) -> [f64; 3] {
    let changed = x
        .par_chunks_mut(PIECE)
        .zip(r.par_chunks_mut(PIECE))
        .zip(z.par_chunks_mut(PIECE));
    let read = p
        .par_chunks(PIECE)
        .zip(q.par_chunks(PIECE))
        .zip(inverse.par_chunks(PIECE));
    let pieces = changed.zip(read).map(|(((x, r), z), ((p, q), inverse))| {
        let mut product = [0.0; 3];
        for at in 0..x.len() {
            for c in 0..3 {
                x[at][c] += alpha[c] * p[at][c];
                r[at][c] -= alpha[c] * q[at][c];
                z[at][c] = r[at][c] * inverse[at][c];
            }
            add_product(&mut product, &r[at], &z[at]);
        }
        product
    });
    total(pieces.collect())
}

fn add_product(sum: &mut [f64; 3], a: &[f32; 4], b: &[f32; 4]) {
    for c in 0..3 {
        sum[c] += f64::from(a[c]) * f64::from(b[c]);
    }
}

/// In the order of the pieces: the same bits on any number of threads.
fn total(pieces: Vec<[f64; 3]>) -> [f64; 3] {
    let add = |sum: [f64; 3], piece: [f64; 3]| std::array::from_fn(|c| sum[c] + piece[c]);
    pieces.into_iter().fold([0.0; 3], add)
}

/// Square of d(sRGB)/d(light), and of nothing where there is no light.
fn slope_squared(value: f32, space: Space) -> f32 {
    match space {
        Space::Colour(_) => colour::slope_squared(value, Blend::Linear),
        Space::Data | Space::Direction => 1.0,
    }
}

/// The next mip level of a square of `edge` texels.
fn half(texels: &[[f32; 4]], edge: usize) -> Vec<[f32; 4]> {
    let coarse = edge / 2;
    (0..coarse * coarse)
        .into_par_iter()
        .map(|k| {
            let first = k / coarse * 2 * edge + k % coarse * 2;
            let mut sum = [0.0; 4];
            for texel in [first, first + 1, first + edge, first + edge + 1] {
                for channel in 0..3 {
                    sum[channel] += 0.25 * texels[texel][channel];
                }
            }
            sum
        })
        .collect()
}

#[cfg(test)]
mod tests;
