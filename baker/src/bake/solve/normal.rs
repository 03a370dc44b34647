//! The normal matrix `AᵀWA`, which is never formed: the products that conjugate gradients need, and the iteration
//! itself.
//!
//! Texels are four floats of which three count, so that one texel is one 16-byte load.

use proto::job::Blend;
use rayon::prelude::*;

use crate::bake::model::colour::{Observed, observed, slope_squared};
use crate::bake::model::links::neighbours;
use crate::bake::model::plots::{PlotSums, Plots, ShownRow, ViewRows, WeighedRows};
use crate::bake::model::row_cache::RowCache;
use crate::bake::model::rows::Rows;
use crate::bake::solve::backend::{Strength, Ties};
use crate::bake::solve::multilevel::{Hold, Multilevel, Sums, share, sized};
use crate::worker::progress::{Ticker, ticking, unit};

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
    plots: Plots,
    texels: usize,
    size: usize,
    /// Diagonal of `AᵀWA`, links and seam constraints together.
    diagonal: Sums,
    pub(crate) multilevel: Multilevel,
    /// λ of each texel by channel; a link has the mean of its two.
    lambda: Sums,
    /// The seam constraints, and σ of each.
    seams: ViewRows,
    seam_weights: Vec<[f32; 3]>,
    /// If set, texels without a weighted row have no λ, see [`super::backend::Backend::narrow`].
    pub(crate) narrowed: bool,
    /// Vectors of the conjugate gradients, kept since fresh memory costs as much as a pass over it.
    vectors: Vectors,
}

/// See [`conjugate_gradients`].
#[derive(Debug, Default)]
struct Vectors {
    r: Sums,
    z: Sums,
    p: Sums,
    q: Sums,
}

/// Which sum over rows is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Share {
    /// By the entries' weights.
    Plain,
    /// By their squares.
    Squared,
}

impl Normal {
    /// For a texture of so many texels, `size` in a row, with these constraints.
    pub(crate) fn new(texels: usize, size: usize, seams: &Rows) -> Self {
        let plots = Plots::new(size);
        Self {
            plots,
            texels,
            size,
            diagonal: vec![[0.0; 4]; texels],
            multilevel: Multilevel::new(size, texels),
            lambda: vec![[0.0; 4]; texels],
            seams: ViewRows::of_constraints(seams, plots),
            seam_weights: vec![[0.0; 3]; seams.len()],
            narrowed: false,
            vectors: Vectors::default(),
        }
    }

    /// Sets `out` to `Σ_p a · value(p)` for each texel, over rows that read `texels`. If they are `weighed`, rows of weight
    /// 0 add nothing; else all weigh 1.
    fn sum(
        &self,
        (rows, weighed): (&RowCache, bool),
        share: Share,
        texels: &[[f32; 4]],
        out: &mut Sums,
        value: impl Fn(ShownRow) -> [f32; 4] + Sync,
    ) {
        let squared = share == Share::Squared;
        sized(out, self.texels);
        ticking(out.par_iter_mut())
            .with_min_len(1 << 14)
            .for_each(|sum| *sum = [0.0; 4]);
        for group in rows.groups() {
            let weights = &rows.weights[group.views.clone()];
            self.plots.each(out, |plot, lines| {
                let views = group.rows.iter().zip(weights);
                let mut here = views
                    .filter_map(|(rows, weights)| {
                        let weights = weighed.then_some(weights.as_slice());
                        let rows = rows.in_plot(plot)?;
                        Some(WeighedRows { rows, weights })
                    })
                    .peekable();
                if here.peek().is_none() {
                    return;
                }
                let mut sums = PlotSums::new(self.plots, plot, lines, texels);
                here.for_each(|rows| sums.add(rows, squared, texels, &value));
                sums.into_lines(lines);
            });
            unit();
        }
    }

    /// `Aᵀ value`, of rows that read `texels`; none if they read nothing.
    pub(crate) fn scatter(
        &self,
        rows: &RowCache,
        texels: &[[f32; 4]],
        value: impl Fn(ShownRow) -> [f32; 4] + Sync,
    ) -> Sums {
        let mut sums = Sums::new();
        self.sum((rows, false), Share::Plain, texels, &mut sums, value);
        sums
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
        let mut diagonal = std::mem::take(&mut self.diagonal);
        self.sum((rows, true), Share::Squared, &[], &mut diagonal, |row| {
            let [r, g, b, _] = channel_weights(row, table);
            [r, g, b, row.weight]
        });
        let mean = mean_seen(&diagonal);
        let smoothness = strength.smoothness * mean;
        let ratio = strength.seam / strength.smoothness;
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
        let weights = (0..ties.seams.len()).into_par_iter();
        self.seam_weights = weights
            .map(|row| self.seam_weight(&ties.seams, row, ratio))
            .collect();
        self.add_seams(Share::Squared, &[], &mut diagonal);
        self.diagonal = diagonal;
        let mut multilevel = std::mem::take(&mut self.multilevel);
        let of = |texel: usize| {
            let (lambda, diagonal) = (self.lambda[texel], self.diagonal[texel]);
            std::array::from_fn(|c| share(lambda[c], diagonal[c]))
        };
        multilevel.weigh(of, |texel, shares| self.hold(ties, texel, shares));
        self.multilevel = multilevel;
    }

    /// What holds a texel, by the part of its diagonal from links and the rest, given the shares of all texels.
    fn hold(&self, ties: &Ties, texel: usize, shares: &[[f32; 4]]) -> Hold {
        let links = || neighbours(&ties.links, self.size, texel);
        let link = |other: usize, c: usize| link(self.lambda[texel][c], self.lambda[other][c]);
        let share = shares[texel];
        let [mut mass, mut stiffness] = [[0.0; 3]; 2];
        for c in 0..3 {
            let held = links().map(|other| link(other, c)).sum::<f32>();
            mass[c] = share[c] * (self.diagonal[texel][c] - held).max(0.0);
            for other in links() {
                let (link, there) = (link(other, c), shares[other][c]);
                stiffness[c] += link * share[c] * there;
                mass[c] += 0.5 * link * (share[c] - there).powi(2);
            }
        }
        Hold { mass, stiffness }
    }

    /// σ of a seam constraint: `ratio` of the mean λ over its texels; 0 where one of them has none.
    fn seam_weight(&self, seams: &Rows, row: usize, ratio: f32) -> [f32; 3] {
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
        weights.map(|weight| weight * ratio)
    }

    /// Adds `Σ_s σ b (B_s x)` over the seam constraints to `out`; of their squares `Σ_s σ b²`.
    fn add_seams(&self, share: Share, x: &[[f32; 4]], out: &mut Sums) {
        self.plots.each(out, |plot, lines| {
            let Some(rows) = self.seams.in_plot(plot) else {
                return;
            };
            let mut sums = PlotSums::new(self.plots, plot, lines, x);
            let weights = None;
            let of = |row: ShownRow| {
                let [r, g, b] = self.seam_weights[row.pixel as usize];
                let [x, y, z, _] = match share {
                    Share::Plain => row.predicted,
                    Share::Squared => [1.0; 4],
                };
                [r * x, g * y, b * z, 0.0]
            };
            sums.add(
                WeighedRows { rows, weights },
                share == Share::Squared,
                x,
                of,
            );
            sums.into_lines(lines);
        });
    }

    /// Adds links and seam constraints, as part of the normal matrix, times `x` to `out`.
    fn add_ties(&self, ties: &Ties, x: &[[f32; 4]], out: &mut Sums) {
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
        self.add_seams(Share::Plain, x, out);
    }

    /// Sets `out` to `AᵀW (A x − b)`, plus links and seam constraints times `x`. `b` gives the colour that a byte stands
    /// for; where it is 0, this is the normal matrix times `x`.
    fn gradient(
        &self,
        problem: LeastSquares<'_>,
        x: &[[f32; 4]],
        out: &mut Sums,
        b: impl Fn(u8) -> f32 + Sync,
    ) {
        let LeastSquares { rows, ties, blend } = problem;
        let table = observed(blend);
        // All four numbers, of which the last is not used: a processor is slower with three.
        self.sum((rows, true), Share::Plain, x, out, |row| {
            let weights = channel_weights(row, table);
            std::array::from_fn(|c| weights[c] * (row.predicted[c] - b(row.colour[c])))
        });
        self.add_ties(ties, x, out);
    }

    /// Sets `out` to the right-hand side minus the normal matrix times `x`.
    fn defect(&self, problem: LeastSquares<'_>, x: &[[f32; 4]], out: &mut Sums) {
        let table = observed(problem.blend);
        self.gradient(problem, x, out, |byte| table[byte as usize].value);
        ticking(out.par_iter_mut())
            .with_min_len(1 << 12)
            .for_each(|sum| *sum = sum.map(|value| -value));
    }
}

/// Weight of each channel of a row: robust weight times squared slope.
fn channel_weights(row: ShownRow, table: &[Observed; 256]) -> [f32; 4] {
    row.colour
        .map(|byte| row.weight * table[usize::from(byte)].slope_squared)
}

/// λ of a link between two texels: the mean of theirs, and 0 if one has none.
fn link(one: f32, other: f32) -> f32 {
    if one.min(other) == 0.0 {
        return 0.0;
    }
    0.5 * (one + other)
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

/// Mean of what is above 0 of the fourth numbers, in blocks that do not depend on the number of threads; 1 without any.
fn mean_seen(diagonal: &[[f32; 4]]) -> f32 {
    let blocks: Vec<(f64, u64)> = diagonal
        .par_chunks(1 << 14)
        .map(|block| {
            Ticker::default().did(block.len());
            let seen = block.iter().filter(|d| d[3] > 0.0);
            seen.fold((0.0, 0), |(sum, count), d| {
                (sum + f64::from(d[3]), count + 1)
            })
        })
        .collect();
    let add = |a: (f64, u64), b: &(f64, u64)| (a.0 + b.0, a.1 + b.1);
    let (sum, count) = blocks.iter().fold((0.0, 0), add);
    if count > 0 {
        (sum / count as f64) as f32
    } else {
        1.0
    }
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
    let Vectors {
        mut r,
        mut z,
        mut p,
        mut q,
    } = std::mem::take(&mut normal.vectors);
    normal.defect(problem, x, &mut r);
    normal.multilevel.precondition(&r, &normal.diagonal, &mut z);
    sized(&mut p, z.len());
    ticking(p.par_iter_mut())
        .zip(&z)
        .with_min_len(1 << 12)
        .for_each(|(p, z)| *p = *z);
    let mut rz = dot(&r, &z);
    for _ in 0..iterations {
        normal.gradient(problem, &p, &mut q, |_| 0.0);
        let pq = dot(&p, &q);
        unit();
        let alpha = ratio(rz, pq);
        ticking(x.par_iter_mut())
            .zip(r.par_iter_mut().zip(p.par_iter().zip(&q)))
            .with_min_len(1 << 12)
            .for_each(|(x, (r, (p, q)))| {
                for c in 0..3 {
                    x[c] += alpha[c] * p[c];
                    r[c] -= alpha[c] * q[c];
                }
            });
        normal.multilevel.precondition(&r, &normal.diagonal, &mut z);
        let next = dot(&r, &z);
        unit();
        let beta = ratio(next, rz);
        rz = next;
        ticking(p.par_iter_mut())
            .zip(&z)
            .with_min_len(1 << 12)
            .for_each(|(p, z)| {
                for c in 0..3 {
                    p[c] = z[c] + beta[c] * p[c];
                }
            });
    }
    normal.vectors = Vectors { r, z, p, q };
}

#[cfg(test)]
mod tests;
