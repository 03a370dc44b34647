//! The processor as an adapter: plain Rust over the same rows, without a driver.
//!
//! It serves `--device cpu` and the software fallback, and is the reference for the GPU stages. Any number of threads
//! gives the same bytes: one thread sums a plot of texels, in the order of views and pixels ([`crate::bake::model::plots`]).

use proto::job::{Blend, Memory};
use proto::message::AdapterInfo;
use proto::plan::RowsHeld;
use proto::table::View;
use rayon::prelude::*;

use crate::bake::model::colour::{observed, to_display};
use crate::bake::model::plots::{PlotRow, PlotRows, Plots, ViewRows};
use crate::bake::model::row_cache::{RowBudget, RowCache};
use crate::bake::model::rows::Rows;
use crate::bake::model::scene::Scene;
use crate::bake::solve::backend::{
    BINS, BLOCK, Backend, BackendError, Belief, CONSENSUS_POWER, RowMemory, Strength, Ties,
    ViewResiduals, alpha_weight, bin_of, robust_weight,
};
use crate::bake::solve::normal::{LeastSquares, Normal, conjugate_gradients};
use crate::worker::progress::{Ticker, ticking};

/// Numbers for each texel beside the texels: diagonal, λ, shares of the coarse levels and two thirds of a number for
/// their cells, and r, z, p and q of the solver.
const SOLVER_PLANES: usize = 8;

/// Bytes of a row's weight and residual, which also rows have that are not stored.
pub const WEIGHED_BYTES: u64 = 2 * size_of::<f32>() as u64;

/// Memory of a texture of so many texels, in bytes: the texels, and what [`Normal`] and its solver hold of each.
pub fn texture_bytes(texels: usize) -> u64 {
    let planes = 1 + SOLVER_PLANES;
    (planes * texels * size_of::<[f32; 4]>()) as u64
}

/// See the head of this file.
#[derive(Debug)]
pub struct Native {
    blend: Blend,
    cache: RowCache,
    texels: Vec<[f32; 4]>,
    ties: Ties,
    normal: Normal,
    /// Residual of each row of each view, in the order of its [`ViewRows`].
    residuals: Vec<Vec<f32>>,
    /// Whether those are of the present texels and rows.
    measured: bool,
    /// Whether only the rows of the subset count.
    narrowed: bool,
}

impl Native {
    /// An adapter without views; `taps` is the s of s×s.
    pub fn new(scene: Scene, ties: Ties, taps: u32, blend: Blend, memory: Memory) -> Self {
        Self::with_budget(scene, ties, taps, blend, RowBudget::of(memory))
    }

    /// [`Self::new`] with another bound on the memory of the rows.
    pub(crate) fn with_budget(
        scene: Scene,
        ties: Ties,
        taps: u32,
        blend: Blend,
        budget: RowBudget,
    ) -> Self {
        let texels = scene.texels();
        Self {
            blend,
            texels: vec![[0.0; 4]; texels],
            normal: Normal::new(texels, scene.size as usize, &ties.seams),
            ties,
            cache: RowCache::new(scene, taps, budget),
            residuals: Vec::new(),
            measured: false,
            narrowed: false,
        }
    }
}

/// The residuals of the rows of one view in one plot.
struct PlotResiduals {
    rows: u64,
    histogram: [u32; BINS],
    sum_squares: f64,
}

/// What residuals are taken against.
#[derive(Clone, Copy)]
struct ResidualPass<'a> {
    plots: Plots,
    texels: &'a [[f32; 4]],
    blend: Blend,
    /// Whether only the rows of the subset count.
    narrowed: bool,
}

impl ResidualPass<'_> {
    /// Sets the residual of each row of one view in one plot.
    fn in_plot(&self, rows: &PlotRows, residuals: &mut [f32]) -> PlotResiduals {
        let mut ticker = Ticker::default();
        ticker.did(rows.len());
        let mut sum = PlotResiduals {
            rows: 0,
            histogram: [0; BINS],
            sum_squares: 0.0,
        };
        let read = rows.read(self.plots, self.texels);
        for (own, row) in residuals.iter_mut().zip(rows.iter()) {
            if self.narrowed && !row.in_subset() {
                continue;
            }
            *own = residual(row.predict(read), row.colour, self.blend);
            if row.is_itself() {
                sum.rows += 1;
                sum.histogram[bin_of(*own)] += 1;
                sum.sum_squares += f64::from(*own) * f64::from(*own);
            }
        }
        sum
    }

    /// The same for all rows of a view, which has this index in the job.
    fn of_view(&self, view: u32, rows: &ViewRows, residuals: &mut Vec<f32>) -> ViewResiduals {
        residuals.resize(rows.len(), 0.0);
        let by_plot: Vec<PlotResiduals> = rows
            .with(residuals)
            .into_par_iter()
            .map(|(rows, residuals)| self.in_plot(rows, residuals))
            .collect();
        let mut sum = ViewResiduals {
            view,
            rows: 0,
            histogram: [0; BINS],
            sum_squares: 0.0,
        };
        for part in by_plot {
            sum.rows += part.rows;
            sum.sum_squares += part.sum_squares;
            for (sum, count) in sum.histogram.iter_mut().zip(part.histogram) {
                *sum += count;
            }
        }
        sum
    }
}

/// Multiplies each row's weight by the neighbourhood weight: a power of the mean weight around it, see [`BLOCK`] and
/// [`CONSENSUS_POWER`]. `rows` gives the pixel of each, and whether it enters the mean.
pub(crate) fn apply_consensus<I: Iterator<Item = (u32, bool)>>(
    [width, height]: [u32; 2],
    rows: impl Fn() -> I,
    weights: &mut [f32],
) {
    let (across, down) = (
        width.div_ceil(BLOCK) as usize,
        height.div_ceil(BLOCK) as usize,
    );
    let block = |pixel: u32| {
        let (x, y) = (pixel % width / BLOCK, pixel / width / BLOCK);
        y as usize * across + x as usize
    };
    let mut blocks = vec![[0.0f32; 2]; across * down];
    for ((pixel, enters), &weight) in rows().zip(&*weights) {
        if enters {
            let sum = &mut blocks[block(pixel)];
            sum[0] += weight;
            sum[1] += 1.0;
        }
    }
    let around: Vec<f32> = (0..across * down)
        .map(|index| {
            let (x, y) = (index % across, index / across);
            let mut sum = [0.0; 2];
            for row in y.saturating_sub(1)..(y + 2).min(down) {
                for column in x.saturating_sub(1)..(x + 2).min(across) {
                    sum[0] += blocks[row * across + column][0];
                    sum[1] += blocks[row * across + column][1];
                }
            }
            if sum[1] > 0.0 {
                (sum[0] / sum[1]).powi(CONSENSUS_POWER)
            } else {
                1.0
            }
        })
        .collect();
    for ((pixel, _), weight) in rows().zip(weights) {
        *weight *= around[block(pixel)];
    }
}

/// Root mean square over the channels of a row's residual in sRGB.
pub(crate) fn residual(predicted: [f32; 4], colour: [u8; 4], blend: Blend) -> f32 {
    let squares: f32 = (0..3)
        .map(|channel| {
            let error = to_display(predicted[channel], blend) - f32::from(colour[channel]) / 255.0;
            error * error
        })
        .sum();
    (squares / 3.0).sqrt()
}

/// Mean over the channels of a row's absolute difference in sRGB.
fn deviation(predicted: [f32; 4], colour: [u8; 4], blend: Blend) -> f32 {
    let sum: f32 = (0..3)
        .map(|channel| {
            let shown = to_display(predicted[channel], blend);
            (shown - f32::from(colour[channel]) / 255.0).abs()
        })
        .sum();
    sum / 3.0
}

/// The processor, as the report names it.
pub fn adapter() -> AdapterInfo {
    AdapterInfo {
        name: format!("processor ({} threads)", rayon::current_num_threads()),
        backend: "native".to_owned(),
        kind: "native".to_owned(),
        driver: String::new(),
    }
}

impl Backend for Native {
    fn adapter(&self) -> AdapterInfo {
        adapter()
    }

    fn row_memory(&self, _: usize) -> RowMemory {
        self.cache.budget().memory()
    }

    fn overflows(&self) -> bool {
        self.cache.overflows()
    }

    fn add_view(&mut self, view: &View) -> Result<(), BackendError> {
        self.cache.add(view);
        self.measured = false;
        Ok(())
    }

    fn forget(&mut self) -> Result<(), BackendError> {
        self.cache.forget();
        self.residuals.clear();
        self.measured = false;
        Ok(())
    }

    fn average(&mut self) -> Result<(), BackendError> {
        let table = observed(self.blend);
        let sums = self.normal.scatter(&self.cache, &[], |row| {
            let colour = row.colour;
            [
                table[colour[0] as usize].value,
                table[colour[1] as usize].value,
                table[colour[2] as usize].value,
                1.0,
            ]
        });
        ticking(self.texels.par_iter_mut())
            .zip(sums)
            .for_each(|(texel, sum)| {
                let weight = sum[3];
                if weight > 0.0 {
                    *texel = [sum[0] / weight, sum[1] / weight, sum[2] / weight, weight];
                } else {
                    texel[3] = 0.0;
                }
            });
        self.measured = false;
        Ok(())
    }

    fn read_texels(&mut self) -> Result<Vec<[f32; 4]>, BackendError> {
        Ok(self.texels.par_iter().copied().collect())
    }

    fn write_texels(&mut self, texels: &[[f32; 4]]) -> Result<(), BackendError> {
        (self.texels.par_iter_mut().zip(texels))
            .with_min_len(1 << 14)
            .for_each(|(own, texel)| *own = *texel);
        self.measured = false;
        Ok(())
    }

    fn residuals(&mut self) -> Result<Vec<ViewResiduals>, BackendError> {
        let cache = &self.cache;
        self.residuals.resize_with(cache.weights.len(), Vec::new);
        let shown = ResidualPass {
            plots: cache.plots(),
            texels: &self.texels,
            blend: self.blend,
            narrowed: self.narrowed,
        };
        let mut found = Vec::new();
        for group in cache.groups() {
            let residuals = self.residuals[group.views.clone()].par_iter_mut();
            let views = group.views.into_par_iter().zip(&group.rows).zip(residuals);
            found.par_extend(views.map(|((view, rows), residuals)| {
                shown.of_view(cache.index(view), rows, residuals)
            }));
        }
        self.measured = true;
        Ok(found)
    }

    fn reweight(&mut self, beliefs: &[Belief], strength: Strength) -> Result<(), BackendError> {
        if !self.measured {
            self.residuals()?;
        }
        let mut weights = std::mem::take(&mut self.cache.weights);
        let (cache, residuals) = (&self.cache, &self.residuals);
        let enters = |row: PlotRow<'_>| !self.narrowed || row.in_subset();
        for group in cache.groups() {
            let views = group.views.clone();
            weights[views.clone()]
                .par_iter_mut()
                .zip(&beliefs[views.clone()])
                .zip(&group.rows)
                .zip(views)
                .for_each(|(((weights, &Belief { scale, share }), rows), view)| {
                    let mut ticker = Ticker::default();
                    ticker.did(rows.len());
                    let own = weights.iter_mut().zip(&residuals[view]);
                    for ((weight, &residual), row) in own.zip(rows.iter()) {
                        *weight = match enters(row) {
                            true => robust_weight(residual, scale),
                            false => 0.0,
                        };
                    }
                    let pixels = || {
                        let of = |row: PlotRow<'_>| (row.pixel(), row.is_itself() && enters(row));
                        rows.iter().map(of)
                    };
                    apply_consensus(cache.size(view), pixels, weights);
                    for (weight, row) in weights.iter_mut().zip(rows.iter()) {
                        *weight *= share * alpha_weight(row.colour[3]);
                    }
                });
        }
        self.cache.weights = weights;
        let problem = LeastSquares {
            rows: &self.cache,
            ties: &self.ties,
            blend: self.blend,
        };
        self.normal.weigh(problem, strength, &self.texels);
        Ok(())
    }

    fn narrow(&mut self, subset: bool) -> Result<(), BackendError> {
        self.narrowed = subset;
        self.measured = false;
        self.normal.narrowed = subset;
        Ok(())
    }

    fn solve(&mut self, iterations: u32) -> Result<(), BackendError> {
        let problem = LeastSquares {
            rows: &self.cache,
            ties: &self.ties,
            blend: self.blend,
        };
        conjugate_gradients(&mut self.normal, problem, &mut self.texels, iterations);
        self.measured = false;
        Ok(())
    }

    fn deviations(&mut self) -> Result<Vec<f32>, BackendError> {
        let sums = self.normal.scatter(&self.cache, &self.texels, |row| {
            let colour = row.colour;
            let weight = alpha_weight(colour[3]);
            let off = deviation(row.predicted, colour, self.blend);
            [weight * off, weight, 0.0, 0.0]
        });
        let mean = |[off, weight, ..]: [f32; 4]| if weight > 0.0 { off / weight } else { -1.0 };
        Ok(sums.into_par_iter().map(mean).collect())
    }

    fn reset(
        &mut self,
        scene: &Scene,
        ties: &Ties,
        taps: u32,
        blend: Blend,
    ) -> Result<(), BackendError> {
        let budget = self.cache.budget();
        // Freed first: two at once would need twice the memory.
        self.cache = RowCache::new(scene.clone(), taps, RowBudget::new(0));
        self.normal = Normal::new(0, 0, &Rows::default());
        self.residuals = Vec::new();
        self.texels = Vec::new();
        *self = Self::with_budget(scene.clone(), ties.clone(), taps, blend, budget);
        Ok(())
    }

    fn rows_held(&self) -> RowsHeld {
        self.cache.rows_held()
    }

    fn peak_memory(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests;
