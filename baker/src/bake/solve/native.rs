//! The processor as an adapter: plain Rust over the same rows, without a driver.
//!
//! It serves `--device cpu` and the software fallback, and is the reference for the GPU stages. Every run gives the
//! same bytes: each lane sums its own chunks in order into its own texture, and lanes are added in order.

use std::borrow::Cow;

use proto::job::{Blend, Memory};
use proto::message::AdapterInfo;
use proto::plan::RowsHeld;
use proto::table::View;
use rayon::prelude::*;

use crate::bake::model::colour::{observed, to_display};
use crate::bake::model::row_cache::{RowBudget, RowCache};
use crate::bake::model::rows::Rows;
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::{
    BINS, BLOCK, Backend, BackendError, Belief, CONSENSUS_POWER, RowMemory, Strength, Ties,
    ViewResiduals, alpha_weight, bin_of, robust_weight,
};
use crate::bake::solve::normal::{CHUNKS_A_TICK, LeastSquares, Normal, conjugate_gradients};
use crate::worker::progress::{ticking, unit};

/// Memory of all lanes' textures: more lanes than this allows cost more than they gain.
const LANE_BYTES: usize = 512 << 20;

/// Number of textures of sums that are filled side by side.
fn lanes(texels: usize) -> usize {
    rayon::current_num_threads()
        .min(LANE_BYTES / (texels * size_of::<[f32; 4]>()))
        .max(1)
}

/// Numbers for each texel beside the lanes and the texels: diagonal, λ, shares of the coarse levels and two thirds of a
/// number for their cells, and r, p, q and twice z of the solver.
const SOLVER_PLANES: usize = 9;

/// Memory of a texture of so many texels, in bytes: the texels, and what [`Normal`] and its solver hold of each.
#[must_use]
pub fn texture_bytes(texels: usize) -> u64 {
    let planes = 1 + SOLVER_PLANES + lanes(texels);
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
    /// Whether only the rows of the subset count.
    narrowed: bool,
}

impl Native {
    /// An adapter without views; `taps` is the s of s×s.
    #[must_use]
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
        let lanes = lanes(texels);
        Self {
            blend,
            texels: vec![[0.0; 4]; texels],
            ties,
            normal: Normal::new(texels, scene.size as usize, lanes),
            cache: RowCache::new(scene, taps, budget),
            narrowed: false,
        }
    }

    /// The window whose subset counts, if narrowed.
    fn subset(&self) -> Option<&Window> {
        self.narrowed.then(|| self.cache.window())
    }
}

/// Multiplies each row's weight by the neighbourhood weight: a power of the mean weight around it, see [`BLOCK`] and
/// [`CONSENSUS_POWER`]. With the `subset` of a window, only its rows enter the mean.
pub(crate) fn apply_consensus(
    [width, height]: [u32; 2],
    chunks: &[Rows],
    subset: Option<&Window>,
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
    let pixels = || chunks.iter().flat_map(|rows| &rows.pixels);
    let mut blocks = vec![[0.0f32; 2]; across * down];
    let exist = chunks.iter().flat_map(|rows| {
        (0..rows.len())
            .map(move |row| subset.is_none_or(|window| window.row_in_subset(rows.row(row))))
    });
    for ((&pixel, &weight), exists) in pixels().zip(&*weights).zip(exist) {
        if !exists {
            continue;
        }
        let sum = &mut blocks[block(pixel)];
        sum[0] += weight;
        sum[1] += 1.0;
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
    for (&pixel, weight) in pixels().zip(weights) {
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
#[must_use]
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
        Ok(())
    }

    fn forget(&mut self) -> Result<(), BackendError> {
        self.cache.forget();
        Ok(())
    }

    fn average(&mut self) -> Result<(), BackendError> {
        let table = observed(self.blend);
        let sums = self.normal.scatter(&self.cache, |chunk, row| {
            let colour = chunk.rows.colours[row];
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
        Ok(())
    }

    fn read_texels(&mut self) -> Result<Vec<[f32; 4]>, BackendError> {
        Ok(self.texels.clone())
    }

    fn write_texels(&mut self, texels: &[[f32; 4]]) -> Result<(), BackendError> {
        self.texels.copy_from_slice(texels);
        Ok(())
    }

    fn residuals(&mut self) -> Result<Vec<ViewResiduals>, BackendError> {
        let (texels, blend, subset) = (&self.texels, self.blend, self.subset());
        let mut residuals = Vec::new();
        for group in self.cache.groups() {
            let of_view = |(view, chunks): (usize, &Cow<'_, [Rows]>)| {
                let mut sum = ViewResiduals {
                    view: self.cache.index(view),
                    rows: 0,
                    histogram: [0; BINS],
                    sum_squares: 0.0,
                };
                for (place, rows) in chunks.iter().enumerate() {
                    if place % CHUNKS_A_TICK == CHUNKS_A_TICK - 1 {
                        unit();
                    }
                    for row in 0..rows.len() {
                        if subset.is_some_and(|window| !window.row_in_subset(rows.row(row))) {
                            continue;
                        }
                        sum.rows += 1;
                        let residual =
                            residual(rows.predict(row, texels), rows.colours[row], blend);
                        sum.histogram[bin_of(residual)] += 1;
                        sum.sum_squares += f64::from(residual) * f64::from(residual);
                    }
                }
                sum
            };
            residuals.par_extend(group.views.into_par_iter().zip(&group.rows).map(of_view));
        }
        Ok(residuals)
    }

    fn reweight(&mut self, beliefs: &[Belief], strength: Strength) -> Result<(), BackendError> {
        let mut weights = std::mem::take(&mut self.cache.weights);
        let (texels, blend, cache) = (&self.texels, self.blend, &self.cache);
        let subset = self.subset();
        for group in cache.groups() {
            let views = group.views.clone();
            weights[views.clone()]
                .par_iter_mut()
                .zip(&beliefs[views.clone()])
                .zip(&group.rows)
                .zip(views)
                .for_each(|(((weights, &Belief { scale, share }), chunks), view)| {
                    let mut rest = weights.as_mut_slice();
                    for (place, rows) in chunks.iter().enumerate() {
                        if place % CHUNKS_A_TICK == CHUNKS_A_TICK - 1 {
                            unit();
                        }
                        let (of_chunk, after) = rest.split_at_mut(rows.len());
                        rest = after;
                        ticking(of_chunk.par_iter_mut())
                            .enumerate()
                            .with_min_len(1 << 10)
                            .for_each(|(row, weight)| {
                                if subset.is_some_and(|window| !window.row_in_subset(rows.row(row)))
                                {
                                    *weight = 0.0;
                                    return;
                                }
                                let sum = rows.predict(row, texels);
                                let residual = residual(sum, rows.colours[row], blend);
                                *weight = robust_weight(residual, scale);
                            });
                    }
                    apply_consensus(cache.size(view), chunks, subset, weights);
                    let colours = chunks.iter().flat_map(|rows| &rows.colours);
                    for (weight, colour) in weights.iter_mut().zip(colours) {
                        *weight *= share * alpha_weight(colour[3]);
                    }
                });
        }
        self.cache.weights = weights;
        let problem = LeastSquares {
            rows: &self.cache,
            ties: &self.ties,
            blend,
        };
        self.normal.weigh(problem, strength, &self.texels);
        Ok(())
    }

    fn narrow(&mut self, subset: bool) -> Result<(), BackendError> {
        self.narrowed = subset;
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
        Ok(())
    }

    fn deviations(&mut self) -> Result<Vec<f32>, BackendError> {
        let (texels, blend) = (&self.texels, self.blend);
        let sums = self.normal.scatter(&self.cache, |chunk, row| {
            let colour = chunk.rows.colours[row];
            let weight = alpha_weight(colour[3]);
            let off = deviation(chunk.rows.predict(row, texels), colour, blend);
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
        self.normal = Normal::new(0, 0, 0);
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
