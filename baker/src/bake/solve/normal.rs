//! The normal matrix `AᵀWA`, which is never formed: the products that conjugate gradients need, and the iteration
//! itself.
//!
//! Texels are four floats of which three count, so that one texel is one 16-byte load.

use proto::job::Blend;
use rayon::prelude::*;

use crate::bake::model::colour::{observed, slope_squared};
use crate::bake::model::links::neighbours;
use crate::bake::model::row_cache::{Chunk, RowCache};
use crate::bake::model::rows::Rows;
use crate::bake::solve::backend::{Strength, Ties};
use crate::bake::solve::multilevel::{Hold, Multilevel, Sums, share};
use crate::worker::progress::{Ticker, ticking, unit};

/// A lane reports its progress after so many chunks, each of a few pixel rows: one system call for each would be too
/// many.
pub(crate) const CHUNKS_A_TICK: usize = 16;

/// The weighed rows of all views, links and seam constraints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastSquares<'a> {
    pub(crate) rows: &'a RowCache,
    pub(crate) ties: &'a Ties,
    /// What the rows' bytes stand for.
    pub(crate) blend: Blend,
}

/// Scratch memory and diagonal of the normal matrix.
#[derive(Debug)]
pub(crate) struct Normal {
    texels: usize,
    size: usize,
    lanes: Vec<Sums>,
    /// Diagonal of `AᵀWA`, links and seam constraints together.
    diagonal: Sums,
    pub(crate) multilevel: Multilevel,
    /// λ of each texel by channel; a link has the mean of its two.
    lambda: Sums,
    /// σ over λ.
    seam_ratio: f32,
    /// If set, texels without a weighted row have no λ, see [`super::backend::Backend::narrow`].
    pub(crate) narrowed: bool,
}

impl Normal {
    pub(crate) fn new(texels: usize, size: usize, lanes: usize) -> Self {
        Self {
            texels,
            size,
            lanes: vec![vec![[0.0; 4]; texels]; lanes],
            diagonal: vec![[0.0; 4]; texels],
            multilevel: Multilevel::default(),
            lambda: vec![[0.0; 4]; texels],
            seam_ratio: 0.0,
            narrowed: false,
        }
    }

    /// `Σ_p a · value(p)` for each texel, with a² for a if `square`; a row without a value adds nothing.
    fn sum(
        &mut self,
        rows: &RowCache,
        square: bool,
        value: impl Fn(Chunk<'_>, usize) -> Option<[f32; 4]> + Sync,
    ) -> Sums {
        let count = self.lanes.len();
        ticking(self.lanes.par_iter_mut()).for_each(|sums| sums.fill([0.0; 4]));
        let mut before = 0;
        for group in rows.groups() {
            let chunks = group.chunks(&rows.weights);
            ticking(self.lanes.par_iter_mut())
                .enumerate()
                .for_each(|(lane, sums)| {
                    // Lane l takes chunks l, l + count, … of all chunks, however they are grouped.
                    let skipped = (lane + count - before % count) % count;
                    let own = chunks.iter().skip(skipped).step_by(count);
                    for (place, &chunk) in own.enumerate() {
                        if place % CHUNKS_A_TICK == CHUNKS_A_TICK - 1 {
                            unit();
                        }
                        for row in 0..chunk.rows.len() {
                            let Some(value) = value(chunk, row) else {
                                continue;
                            };
                            for entry in chunk.rows.row(row) {
                                let share = if square {
                                    entry.weight * entry.weight
                                } else {
                                    entry.weight
                                };
                                let sum = &mut sums[entry.texel as usize];
                                for channel in 0..4 {
                                    sum[channel] += share * value[channel];
                                }
                            }
                        }
                    }
                });
            before += chunks.len();
            unit();
        }
        let lanes = &self.lanes;
        let sums = ticking((0..self.texels).into_par_iter())
            .with_min_len(1 << 14)
            .map(|texel| {
                let mut total = lanes[0][texel];
                for lane in &lanes[1..] {
                    for channel in 0..4 {
                        total[channel] += lane[texel][channel];
                    }
                }
                total
            })
            .collect();
        unit();
        sums
    }

    /// `Aᵀ value`.
    pub(crate) fn scatter(
        &mut self,
        rows: &RowCache,
        value: impl Fn(Chunk<'_>, usize) -> [f32; 4] + Sync,
    ) -> Sums {
        self.sum(rows, false, |chunk, row| Some(value(chunk, row)))
    }

    /// Takes new row weights: computes the diagonal, and the weights of links and seam constraints relative to it. λ
    /// and σ carry the squared slope of the sRGB encoding at the texel's present colour, since the error is judged
    /// where it is seen.
    pub(crate) fn weigh(
        &mut self,
        problem: LeastSquares<'_>,
        strength: Strength,
        texels: &[[f32; 4]],
    ) {
        let LeastSquares { rows, ties, blend } = problem;
        let table = observed(blend);
        let mut diagonal = self.sum(rows, true, |chunk, row| {
            let [r, g, b] = chunk.channel_weights(row, table);
            counts(chunk, row).then_some([r, g, b, chunk.weights[row]])
        });
        let (sum, count) = ticking(diagonal.par_iter())
            .with_min_len(1 << 14)
            .map(|d| (f64::from(d[3]), u64::from(d[3] > 0.0)))
            .reduce(|| (0.0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        let mean = if count > 0 {
            (sum / count as f64) as f32
        } else {
            1.0
        };
        let smoothness = strength.smoothness * mean;
        self.seam_ratio = strength.seam / strength.smoothness;
        let narrowed = self.narrowed;
        ticking(self.lambda.par_iter_mut())
            .zip(texels)
            .zip(&diagonal)
            .for_each(|((lambda, texel), d)| {
                let strength = if narrowed && d[3] == 0.0 {
                    0.0
                } else {
                    smoothness
                };
                *lambda = texel.map(|value| strength * slope_squared(value, blend));
            });
        let (size, lambda) = (self.size, &self.lambda);
        ticking(diagonal.par_iter_mut())
            .enumerate()
            .for_each(|(texel, d)| {
                for other in neighbours(&ties.links, size, texel) {
                    for channel in 0..3 {
                        d[channel] += link(lambda[texel][channel], lambda[other][channel]);
                    }
                }
            });
        let seams = &ties.seams;
        for row in 0..seams.len() {
            let weight = self.seam_weights(seams, row);
            for entry in seams.row(row) {
                for channel in 0..3 {
                    diagonal[entry.texel as usize][channel] +=
                        weight[channel] * entry.weight * entry.weight;
                }
            }
        }
        self.diagonal = diagonal;
        self.multilevel = Multilevel::new(size, self.texels, self.holds(ties));
    }

    /// What holds each texel: the part of its diagonal from links, and the rest.
    fn holds(&self, ties: &Ties) -> impl Fn(usize) -> Hold + Sync {
        let (size, lambda, diagonal) = (self.size, &self.lambda, &self.diagonal);
        let links = move |texel: usize| neighbours(&ties.links, size, texel);
        let link = move |one: usize, other: usize, c: usize| link(lambda[one][c], lambda[other][c]);
        let cache = move |texel: usize| -> [[f32; 2]; 3] {
            std::array::from_fn(|c| {
                let ties = links(texel).map(|other| link(texel, other, c)).sum::<f32>();
                [ties, (diagonal[texel][c] - ties).max(0.0)]
            })
        };
        let shares: Vec<[f32; 3]> = ticking((0..self.texels).into_par_iter())
            .with_min_len(1 << 10)
            .map(|texel| std::array::from_fn(|c| share(lambda[texel][c], diagonal[texel][c])))
            .collect();
        move |texel| {
            let share = shares[texel];
            let [mut mass, mut stiffness] = [[0.0; 3]; 2];
            for (c, [_, rows]) in cache(texel).into_iter().enumerate() {
                mass[c] = share[c] * rows;
                for other in links(texel) {
                    let (link, there) = (link(texel, other, c), shares[other][c]);
                    stiffness[c] += link * share[c] * there;
                    mass[c] += 0.5 * link * (share[c] - there).powi(2);
                }
            }
            Hold {
                share,
                mass,
                stiffness,
            }
        }
    }

    /// σ of a seam constraint: the mean over its texels; 0 where one of them has no λ.
    fn seam_weights(&self, seams: &Rows, row: usize) -> [f32; 3] {
        let mut weights = [0.0; 3];
        for entry in seams.row(row) {
            let lambda = self.lambda[entry.texel as usize];
            if lambda[0] == 0.0 {
                return [0.0; 3];
            }
            for channel in 0..3 {
                weights[channel] += 0.5 * entry.weight.abs() * lambda[channel];
            }
        }
        weights.map(|weight| weight * self.seam_ratio)
    }

    /// Adds links and seam constraints, as part of the normal matrix, times `x` to `out`.
    fn add_ties(&self, ties: &Ties, x: &[[f32; 4]], out: &mut [[f32; 4]]) {
        ticking(out.par_iter_mut())
            .enumerate()
            .with_min_len(1 << 12)
            .for_each(|(texel, sum)| {
                for other in neighbours(&ties.links, self.size, texel) {
                    for channel in 0..3 {
                        let lambda = link(self.lambda[texel][channel], self.lambda[other][channel]);
                        sum[channel] += lambda * (x[texel][channel] - x[other][channel]);
                    }
                }
            });
        let seams = &ties.seams;
        for row in 0..seams.len() {
            let difference = seams.predict(row, x);
            let weight = self.seam_weights(seams, row);
            for entry in seams.row(row) {
                for channel in 0..3 {
                    out[entry.texel as usize][channel] +=
                        weight[channel] * entry.weight * difference[channel];
                }
            }
        }
    }

    /// `AᵀW (A x − b)`, plus links and seam constraints times `x`. `b` gives the colour that a byte stands for; where it is
    /// 0, this is the normal matrix times `x`.
    fn gradient(
        &mut self,
        problem: LeastSquares<'_>,
        x: &[[f32; 4]],
        b: impl Fn(u8) -> f32 + Sync,
    ) -> Sums {
        let LeastSquares { rows, ties, blend } = problem;
        let table = observed(blend);
        let mut out = self.sum(rows, false, |chunk, row| {
            if !counts(chunk, row) {
                return None;
            }
            let weights = chunk.channel_weights(row, table);
            let predicted = chunk.rows.predict(row, x);
            let colour = chunk.rows.colours[row];
            let value =
                |channel: usize| weights[channel] * (predicted[channel] - b(colour[channel]));
            Some([value(0), value(1), value(2), 0.0])
        });
        self.add_ties(ties, x, &mut out);
        out
    }

    /// Right-hand side minus normal matrix times `x`.
    fn defect(&mut self, problem: LeastSquares<'_>, x: &[[f32; 4]]) -> Sums {
        let table = observed(problem.blend);
        let mut out = self.gradient(problem, x, |byte| table[byte as usize].value);
        ticking(out.par_iter_mut()).for_each(|sum| *sum = sum.map(|value| -value));
        out
    }
}

/// λ of a link between two texels: the mean of theirs, and 0 if one has none.
fn link(one: f32, other: f32) -> f32 {
    if one.min(other) == 0.0 {
        return 0.0;
    }
    0.5 * (one + other)
}

/// Whether a row has any weight: whole views have none while they judge λ.
fn counts(chunk: Chunk<'_>, row: usize) -> bool {
    chunk.weights[row] != 0.0
}

/// `Σ a · b` by channel, in blocks that do not depend on the number of threads.
fn dot(a: &[[f32; 4]], b: &[[f32; 4]]) -> [f64; 3] {
    let blocks: Vec<[f64; 3]> = a
        .par_chunks(1 << 14)
        .zip(b.par_chunks(1 << 14))
        .map(|(a, b)| {
            Ticker::default().did(a.len());
            let mut sum = [0.0; 3];
            for (a, b) in a.iter().zip(b) {
                for channel in 0..3 {
                    sum[channel] += f64::from(a[channel]) * f64::from(b[channel]);
                }
            }
            sum
        })
        .collect();
    total(&blocks)
}

/// Sum of these by channel, in their order.
pub(crate) fn total(sums: &[[f64; 3]]) -> [f64; 3] {
    let add = |sum: [f64; 3], more: &[f64; 3]| std::array::from_fn(|c| sum[c] + more[c]);
    sums.iter().fold([0.0; 3], add)
}

/// `one / other` by channel; 0 where the latter is not above 0.
pub(crate) fn ratio(one: [f64; 3], other: [f64; 3]) -> [f32; 3] {
    std::array::from_fn(|c| match other[c] > 0.0 {
        true => (one[c] / other[c]) as f32,
        false => 0.0,
    })
}

/// Preconditioned conjugate gradients, with the diagonal and coarse levels as preconditioner ([`super::multilevel`]; Saad,
/// "Iterative Methods for Sparse Linear Systems", 2003, algorithm 9.1). The three channels run side by side, each with
/// its own coefficients.
pub(crate) fn conjugate_gradients(
    normal: &mut Normal,
    problem: LeastSquares<'_>,
    x: &mut [[f32; 4]],
    iterations: u32,
) {
    let mut r = normal.defect(problem, x);
    let mut z = normal.multilevel.precondition(&r, &normal.diagonal);
    let mut p = z.clone();
    let mut rz = dot(&r, &z);
    for _ in 0..iterations {
        let q = normal.gradient(problem, &p, |_| 0.0);
        let pq = dot(&p, &q);
        unit();
        let alpha = ratio(rz, pq);
        ticking(x.par_iter_mut()).zip(&p).for_each(|(x, p)| {
            for c in 0..3 {
                x[c] += alpha[c] * p[c];
            }
        });
        ticking(r.par_iter_mut()).zip(&q).for_each(|(r, q)| {
            for c in 0..3 {
                r[c] -= alpha[c] * q[c];
            }
        });
        z = normal.multilevel.precondition(&r, &normal.diagonal);
        let next = dot(&r, &z);
        unit();
        let beta = ratio(next, rz);
        rz = next;
        ticking(p.par_iter_mut()).zip(&z).for_each(|(p, z)| {
            for c in 0..3 {
                p[c] = z[c] + beta[c] * p[c];
            }
        });
    }
}

#[cfg(test)]
mod tests;
