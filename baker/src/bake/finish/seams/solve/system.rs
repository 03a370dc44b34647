//! The normal equations of the least squares around the present texels: set up, solved, and the step applied.
//!
//! Its memory is allocated with the lookups, while a device fits: first touching ten such vectors takes longer than the
//! iterations.

use proto::job::Blend;
use rayon::prelude::*;

use crate::bake::finish::seams::hierarchy::{Forest, PIECE};
use crate::bake::finish::seams::lookups::{Lookups, Sides};
use crate::bake::finish::seams::rows::{SeamRow, Tap};
use crate::bake::model::colour::{self, Space};
use crate::bake::solve::normal::{ratio, total};
use crate::worker::progress::{Ticker, ticking, unit};

/// Weight of a lookup in a coarser mip, relative to one in the texture itself. The gutter is free to follow all the
/// same, but charts of a few texels are not spoilt for mips in which they cannot be told apart. On the helmet's set
/// 0.02, 0.06 and 0.2 leave 1.0, 1.0 and 1.1 steps at mip 0, and 1.6, 1.4 and 1.3 at mip 1.
const COARSE: f32 = 0.06;
/// τ: weight of the distance from the charts' colour, relative to a difference of the sides.
const PULL: f32 = 0.3;
/// Rows and texels in one unit of work.
const CHUNK: usize = 1 << 10;

type Colours = Vec<[f32; 4]>;

/// State of the least squares. Arrays over nodes are laid out like the nodes, in pieces.
#[derive(Debug)]
pub(in crate::bake::finish::seams) struct SeamSystem {
    space: Space,
    pub(super) forest: Forest,
    pub(super) lookups: Lookups,
    /// Anchor of each texel that moves, then its start value and its present value.
    firm: Vec<f32>,
    start: Colours,
    now: Colours,
    /// 1 / (a d²) of each of them.
    give: Colours,
    /// d² · length of each row, and τ², which is 0 without a target.
    pub(super) strengths: Colours,
    /// What the rows' sides show, and what the rows give back to the nodes.
    shown: Vec<Sides>,
    given: Vec<Sides>,
    /// Mip levels of the texture, from the second on.
    halves: Vec<Colours>,
    /// a · d² of each node's own texels together. An infinite anchor is stored as 0, here and in `inverse`.
    pub(super) anchors: Colours,
    /// Inverse of the diagonal.
    pub(super) inverse: Colours,
    /// What each node shows of a change.
    mips: Colours,
    pub(super) x: Colours,
    pub(super) r: Colours,
    p: Colours,
    q: Colours,
}

impl SeamSystem {
    pub(in crate::bake::finish::seams) fn new(
        forest: Forest,
        rows: &[Vec<SeamRow>],
        firm: Vec<f32>,
        (size, space): (usize, Space),
    ) -> Self {
        let lookups = Lookups::new(&forest, rows);
        let (nodes, texels, rows) = (forest.len(), forest.texels.len(), lookups.len());
        Self {
            space,
            firm,
            start: touched(texels),
            now: touched(texels),
            give: touched(texels),
            strengths: touched(rows),
            shown: touched(rows),
            given: touched(rows),
            halves: (1..forest.node_of.len())
                .map(|level| touched((size >> level).pow(2)))
                .collect(),
            anchors: touched(nodes),
            inverse: touched(nodes),
            mips: touched(nodes),
            x: touched(nodes),
            r: touched(nodes),
            p: touched(nodes),
            q: touched(nodes),
            forest,
            lookups,
        }
    }

    /// Takes the texels, and computes what the rows see of them.
    pub(super) fn look(&mut self, texels: &[[f32; 4]], size: usize, rows: &[Vec<SeamRow>]) {
        let space = self.space;
        let moving = (self.start.par_chunks_mut(CHUNK))
            .zip(self.now.par_chunks_mut(CHUNK))
            .zip(self.give.par_chunks_mut(CHUNK))
            .zip(self.firm.par_chunks(CHUNK))
            .zip(self.forest.texels.par_chunks(CHUNK));
        moving.for_each(|((((start, now), give), firm), at)| {
            for (k, &texel) in at.iter().enumerate() {
                let [r, g, b, _] = texels[texel as usize];
                start[k] = [r, g, b, 0.0];
                now[k] = start[k];
                let of = |value| 1.0 / (firm[k] * slope_squared(value, space));
                give[k] = [of(r), of(g), of(b), 0.0];
            }
        });
        let mut left = self.shown.as_mut_slice();
        for (level, rows) in rows.iter().enumerate() {
            if level > 0 {
                let (finer, coarser) = self.halves.split_at_mut(level - 1);
                let finer = finer.last().map_or(texels, Vec::as_slice);
                half(finer, size >> (level - 1), &mut coarser[0]);
            }
            let mip = match level {
                0 => texels,
                _ => &self.halves[level - 1],
            };
            let show = |taps: &[Tap; 4]| {
                let mut sum = [0.0; 4];
                for tap in taps {
                    for channel in 0..3 {
                        sum[channel] += tap.weight * mip[tap.texel as usize][channel];
                    }
                }
                sum
            };
            let shown = left.split_off_mut(..rows.len()).unwrap_or_default();
            (ticking(shown.par_iter_mut()).zip(rows).with_min_len(CHUNK))
                .for_each(|(shown, row)| *shown = row.taps.each_ref().map(show));
            unit();
        }
    }

    /// Takes the slopes at the present texels, and what the rows give back there. `again` if the slopes at targets are
    /// known.
    pub(super) fn linearise(&mut self, rows: &[Vec<SeamRow>], again: bool) {
        let space = self.space;
        let (mut strengths, mut given) = (self.strengths.as_mut_slice(), self.given.as_mut_slice());
        let mut shown = self.shown.as_slice();
        for (level, rows) in rows.iter().enumerate() {
            let count = rows.len();
            let strengths = strengths.split_off_mut(..count).unwrap_or_default();
            let given = given.split_off_mut(..count).unwrap_or_default();
            let shown = shown.split_off(..count).unwrap_or_default();
            let rows = ticking(rows.par_iter()).zip(shown);
            let out = ticking(strengths.par_iter_mut()).zip(given);
            let out = out.zip(rows).with_min_len(CHUNK);
            out.for_each(|((strength, given), (row, &[one, other]))| {
                if !again || row.target.is_none() {
                    let mean: [f32; 3] = std::array::from_fn(|c| 0.5 * (one[c] + other[c]));
                    let [r, g, b] = (row.target.unwrap_or(mean)).map(|v| slope_squared(v, space));
                    let count = row.length * if level > 0 { COARSE } else { 1.0 };
                    let pull = row.target.map_or(0.0, |_| PULL * PULL);
                    *strength = [count * r, count * g, count * b, pull];
                }
                let [r, g, b] = row.target.unwrap_or_default();
                let goal = [r, g, b, 0.0];
                let off = [one, other].map(|side| std::array::from_fn(|c| side[c] - goal[c]));
                *given = weighed(off, strength);
            });
        }
    }

    /// Starts solving from the present texels; those that reached black or full light stay if `fixed`. Returns `r · z`.
    pub(super) fn begin(&mut self, fixed: bool) -> [f64; 3] {
        let Self {
            forest,
            lookups,
            strengths,
            given,
            start,
            now,
            give,
            ..
        } = self;
        let given = given.as_flattened();
        let nodes = (self.anchors.par_chunks_mut(PIECE))
            .zip(self.inverse.par_chunks_mut(PIECE))
            .zip(self.x.par_chunks_mut(PIECE))
            .zip(self.r.par_chunks_mut(PIECE))
            .zip(self.p.par_chunks_mut(PIECE))
            .zip(self.q.par_chunks_mut(PIECE))
            .zip(forest.above.par_chunks(PIECE))
            .enumerate();
        let pieces = nodes.map(
            |(piece, ((((((anchors, inverse), x), r), p), diagonal), above))| {
                gather(lookups, given, piece, above, r);
                let mut product = [0.0; 3];
                diagonal[0] = [0.0; 4];
                for place in 0..above.len() {
                    let node = piece * PIECE + place;
                    (x[place], p[place]) = ([0.0; 4], [0.0; 4]);
                    let (mut gives, mut moved) = ([0.0_f32; 4], [0.0_f32; 4]);
                    for texel in forest.own[node] as usize..forest.own[node + 1] as usize {
                        for c in 0..3 {
                            if free(now[texel][c], fixed) {
                                gives[c] += give[texel][c];
                                moved[c] += now[texel][c] - start[texel][c];
                            }
                        }
                    }
                    let share = forest.share(node);
                    // A mip texel's weight of its child is a quarter, here squared. This neglects rows that read a node
                    // through several of their taps.
                    let mut sum = diagonal[usize::from(above[place])].map(|x| x / 16.0);
                    for reader in lookups.readers_of(node) {
                        let strength = strengths[reader.side as usize / 2];
                        let square = reader.weight * reader.weight * (1.0 + 0.25 * strength[3]);
                        for c in 0..3 {
                            sum[c] += square * strength[c];
                        }
                    }
                    diagonal[place] = sum;
                    for c in 0..4 {
                        let some = gives[c] > 0.0;
                        anchors[place][c] = if some {
                            1.0 / (share * share * gives[c])
                        } else {
                            0.0
                        };
                        inverse[place][c] = if some {
                            1.0 / (sum[c] + anchors[place][c])
                        } else {
                            0.0
                        };
                        r[place][c] = -r[place][c] - anchors[place][c] * share * moved[c];
                    }
                    add_product(&mut product, &r[place], &scaled(&r[place], &inverse[place]));
                }
                product
            },
        );
        total(&pieces.collect::<Vec<_>>())
    }

    /// The normal matrix times `p`, into `q`; returns `p · q`.
    pub(super) fn apply(&mut self) -> [f64; 3] {
        let (lookups, mips) = (&self.lookups, &self.mips);
        let rows = ticking(self.given.par_iter_mut())
            .zip(&self.strengths)
            .enumerate();
        rows.with_min_len(CHUNK)
            .for_each(|(row, (given, strength))| {
                *given = weighed(lookups.see(row, mips), strength);
            });
        let given = self.given.as_flattened();
        let nodes = (self.q.par_chunks_mut(PIECE))
            .zip(self.p.par_chunks(PIECE))
            .zip(self.anchors.par_chunks(PIECE))
            .zip(self.forest.above.par_chunks(PIECE))
            .enumerate();
        let pieces = nodes.map(|(piece, (((q, p), anchors), above))| {
            gather(lookups, given, piece, above, q);
            let mut product = [0.0; 3];
            for (q, (p, anchor)) in q.iter_mut().zip(p.iter().zip(anchors)) {
                for c in 0..4 {
                    q[c] += anchor[c] * p[c];
                }
                add_product(&mut product, p, q);
            }
            product
        });
        total(&pieces.collect::<Vec<_>>())
    }

    /// p = z + β p, and what the nodes show of it.
    pub(super) fn turn(&mut self, beta: [f32; 3]) {
        let [b0, b1, b2] = beta;
        let beta = [b0, b1, b2, 0.0];
        let nodes = (self.p.par_chunks_mut(PIECE))
            .zip(self.mips.par_chunks_mut(PIECE))
            .zip(self.r.par_chunks(PIECE))
            .zip(self.inverse.par_chunks(PIECE))
            .zip(self.forest.above.par_chunks(PIECE));
        nodes.for_each(|((((p, mips), r), inverse), above)| {
            for (p, (r, inverse)) in p.iter_mut().zip(r.iter().zip(inverse)) {
                for c in 0..4 {
                    p[c] = r[c] * inverse[c] + beta[c] * p[c];
                }
            }
            mips.copy_from_slice(p);
            add_up(mips, above);
        });
    }

    /// x += α p, r −= α q; returns `r · z`.
    fn advance(&mut self, alpha: [f32; 3]) -> [f64; 3] {
        let [a0, a1, a2] = alpha;
        let alpha = [a0, a1, a2, 0.0];
        let nodes = (self.x.par_chunks_mut(PIECE))
            .zip(self.r.par_chunks_mut(PIECE))
            .zip(self.p.par_chunks(PIECE))
            .zip(self.q.par_chunks(PIECE))
            .zip(self.inverse.par_chunks(PIECE));
        let pieces = nodes.map(|((((x, r), p), q), inverse)| {
            let mut product = [0.0; 3];
            let read = p.iter().zip(q).zip(inverse);
            for ((x, r), ((p, q), inverse)) in x.iter_mut().zip(r).zip(read) {
                for c in 0..4 {
                    x[c] += alpha[c] * p[c];
                    r[c] -= alpha[c] * q[c];
                }
                add_product(&mut product, r, &scaled(r, inverse));
            }
            product
        });
        total(&pieces.collect::<Vec<_>>())
    }

    /// Saad, "Iterative Methods for Sparse Linear Systems", 2003, algorithm 9.1, with the channels side by side. z = r
    /// / D is computed where it is read. `rz` is `r · z`.
    pub(super) fn conjugate_gradients(&mut self, mut rz: [f64; 3], iterations: u32) {
        let mut beta = [0.0; 3];
        for _ in 0..iterations {
            self.turn(beta);
            let pq = self.apply();
            let next = self.advance(ratio(rz, pq));
            beta = ratio(next, rz);
            rz = next;
            unit();
        }
    }

    /// Moves the texels by `x`, clamped to black and full light, and updates what the rows see.
    pub(super) fn step(&mut self, fixed: bool) {
        let forest = &self.forest;
        let ends = (0..forest.len()).step_by(PIECE).map(|first| {
            let end = (first + PIECE).min(forest.len());
            (forest.own[end] - forest.own[first]) as usize
        });
        let nodes = (cut(&mut self.now, ends).into_par_iter())
            .zip(self.mips.par_chunks_mut(PIECE))
            .zip(self.x.par_chunks(PIECE))
            .zip(self.anchors.par_chunks(PIECE))
            .zip(forest.above.par_chunks(PIECE))
            .enumerate();
        let give = &self.give;
        nodes.for_each(|(piece, ((((now, mips), x), anchors), above))| {
            let first = forest.own[piece * PIECE] as usize;
            for place in 0..above.len() {
                let node = piece * PIECE + place;
                let share = forest.share(node);
                let mut moved = [0.0; 4];
                for texel in forest.own[node] as usize..forest.own[node + 1] as usize {
                    let now = &mut now[texel - first];
                    for c in 0..3 {
                        if !free(now[c], fixed) {
                            continue;
                        }
                        let part = give[texel][c] * share * anchors[place][c];
                        let to = (now[c] + part * x[place][c]).clamp(0.0, 1.0);
                        moved[c] += share * (to - now[c]);
                        now[c] = to;
                    }
                }
                mips[place] = moved;
            }
            add_up(mips, above);
        });
        let (lookups, mips) = (&self.lookups, &self.mips);
        let rows = ticking(self.shown.par_iter_mut())
            .enumerate()
            .with_min_len(CHUNK);
        rows.for_each(|(row, shown)| {
            for (shown, more) in
                (shown.as_flattened_mut().iter_mut()).zip(lookups.see(row, mips).as_flattened())
            {
                *shown += more;
            }
        });
    }

    /// Writes the moved texels.
    pub(super) fn write(&self, texels: &mut [[f32; 4]], size: usize) {
        let Forest { bands, rows, .. } = &self.forest;
        let mut first = 0;
        let ranges: Vec<_> = (bands.iter())
            .map(|count| {
                first += count;
                first - count..first
            })
            .collect();
        let length = size * rows;
        let bands = texels.par_chunks_mut(length).zip(ranges).enumerate();
        bands.for_each(|(band, (texels, range))| {
            let at = &self.forest.texels[range.clone()];
            for (&texel, &[r, g, b, _]) in at.iter().zip(&self.now[range]) {
                texels[texel as usize - band * length][..3].copy_from_slice(&[r, g, b]);
            }
        });
    }
}

/// Square of d(sRGB)/d(light); 1 where the values are not light.
fn slope_squared(value: f32, space: Space) -> f32 {
    match space {
        Space::Colour(_) => colour::slope_squared(value, Blend::Linear),
        Space::Data | Space::Direction => 1.0,
    }
}

/// Zeros in memory that has been written to: memory that is only reserved is allocated when first touched.
fn touched<T: Copy + Default + Send>(count: usize) -> Vec<T> {
    let zeros = ticking((0..count).into_par_iter()).with_min_len(1 << 14);
    zeros.map(|_| T::default()).collect()
}

/// Whether a texel of this value may move.
fn free(value: f32, fixed: bool) -> bool {
    !fixed || (value > 0.0 && value < 1.0)
}

/// What a row gives back to either side, from what the sides show.
fn weighed([one, other]: Sides, strength: &[f32; 4]) -> Sides {
    // The fourth channel shows nothing.
    let pull = 0.25 * strength[3];
    let difference: [f32; 4] = std::array::from_fn(|c| strength[c] * (one[c] - other[c]));
    let mean: [f32; 4] = std::array::from_fn(|c| pull * strength[c] * (one[c] + other[c]));
    [
        std::array::from_fn(|c| mean[c] + difference[c]),
        std::array::from_fn(|c| mean[c] - difference[c]),
    ]
}

/// What the rows give to the nodes of a piece, and to those above them.
fn gather(
    lookups: &Lookups,
    given: &[[f32; 4]],
    piece: usize,
    above: &[u16],
    sums: &mut [[f32; 4]],
) {
    sums[0] = [0.0; 4];
    let mut ticker = Ticker::default();
    for place in 1..above.len() {
        // A mip texel is a quarter of each child.
        let mut sum = sums[usize::from(above[place])].map(|value| 0.25 * value);
        let readers = lookups.readers_of(piece * PIECE + place);
        ticker.did(1 + readers.len());
        for reader in readers {
            let given = &given[reader.side as usize];
            for c in 0..4 {
                sum[c] += reader.weight * given[c];
            }
        }
        sums[place] = sum;
    }
}

/// What the nodes of a piece show, from what each moves by itself.
fn add_up(mips: &mut [[f32; 4]], above: &[u16]) {
    for place in (1..above.len()).rev() {
        let child = mips[place];
        let mip = &mut mips[usize::from(above[place])];
        for c in 0..4 {
            mip[c] += 0.25 * child[c];
        }
    }
}

fn scaled(a: &[f32; 4], b: &[f32; 4]) -> [f32; 4] {
    std::array::from_fn(|c| a[c] * b[c])
}

fn add_product(sum: &mut [f64; 3], a: &[f32; 4], b: &[f32; 4]) {
    for c in 0..3 {
        sum[c] += f64::from(a[c]) * f64::from(b[c]);
    }
}

/// Subdomains of a slice of these lengths.
fn cut<T>(mut all: &mut [T], lengths: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    lengths
        .map(|length| all.split_off_mut(..length).unwrap_or_default())
        .collect()
}

/// The next mip level of a square of `edge` texels.
fn half(texels: &[[f32; 4]], edge: usize, mip: &mut [[f32; 4]]) {
    let coarse = edge / 2;
    let places = ticking(mip.par_iter_mut())
        .enumerate()
        .with_min_len(1 << 12);
    places.for_each(|(k, to)| {
        let first = k / coarse * 2 * edge + k % coarse * 2;
        let mut sum = [0.0; 4];
        for texel in [first, first + 1, first + edge, first + edge + 1] {
            for channel in 0..3 {
                sum[channel] += 0.25 * texels[texel][channel];
            }
        }
        *to = sum;
    });
}

#[cfg(test)]
mod tests;
