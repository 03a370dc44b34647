//! The processor as an adapter: plain Rust over the same rows, no driver. It is what `--device cpu` means, the software rung,
//! and the reference that the GPU stages are compared with.
//!
//! Same bytes every run: each lane sums its own chunks in order into its own texture, and lanes are added in order.

use proto::job::Blend;
use proto::message::AdapterInfo;
use proto::table::View;
use rayon::prelude::*;

use super::backend::{
    BLOCK, Backend, BackendError, CONSENSUS_POWER, Strength, Ties, ViewResiduals, alpha_weight,
    bin_of, robust_weight,
};
use super::colour::{Observed, observed, to_display};
use super::footprint::footprints;
use super::normal::Normal;
use super::rows::Rows;
use super::scene::Scene;

/// Memory that the lanes' textures may take together: more lanes than this allows would cost more than they gain.
const LANE_BYTES: usize = 512 << 20;

/// One view's rows.
#[derive(Debug)]
struct Held {
    view: u32,
    width: u32,
    height: u32,
    chunks: Vec<Chunk>,
}

/// Rows and their robust weights.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) rows: Rows,
    pub(super) weights: Vec<f32>,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Native {
    scene: Scene,
    taps: u32,
    blend: Blend,
    held: Vec<Held>,
    texels: Vec<[f32; 4]>,
    ties: Ties,
    normal: Normal,
}

impl Native {
    /// An adapter without views; `taps` is the s of s×s.
    #[must_use]
    pub fn new(scene: Scene, ties: Ties, taps: u32, blend: Blend) -> Self {
        let texels = scene.texels();
        let threads = rayon::current_num_threads();
        let lanes = threads
            .min(LANE_BYTES / (texels * size_of::<[f32; 4]>()))
            .max(1);
        Self {
            taps,
            blend,
            held: Vec::new(),
            texels: vec![[0.0; 4]; texels],
            ties,
            normal: Normal::new(texels, scene.size as usize, lanes),
            scene,
        }
    }
}

/// Multiplies each weight by a power of the mean weight around it: see [`BLOCK`] and [`CONSENSUS_POWER`].
fn apply_consensus(held: &mut Held) {
    let (across, down) = (
        held.width.div_ceil(BLOCK) as usize,
        held.height.div_ceil(BLOCK) as usize,
    );
    let mut blocks = vec![[0.0f32; 2]; across * down];
    let width = held.width;
    let block = |pixel: u32| {
        (
            (pixel % width / BLOCK) as usize,
            (pixel / width / BLOCK) as usize,
        )
    };
    for chunk in &held.chunks {
        for (&pixel, &weight) in chunk.rows.pixels.iter().zip(&chunk.weights) {
            let (x, y) = block(pixel);
            blocks[y * across + x][0] += weight;
            blocks[y * across + x][1] += 1.0;
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
    for chunk in &mut held.chunks {
        for (&pixel, weight) in chunk.rows.pixels.iter().zip(&mut chunk.weights) {
            let (x, y) = block(pixel);
            *weight *= around[y * across + x];
        }
    }
}

/// `A_p x` of row `p`.
pub(super) fn predict(rows: &Rows, row: usize, texels: &[[f32; 4]]) -> [f32; 4] {
    let mut sum = [0.0; 4];
    for entry in rows.row(row) {
        let texel = &texels[entry.texel as usize];
        for channel in 0..4 {
            sum[channel] += entry.weight * texel[channel];
        }
    }
    sum
}

/// Root mean square over the channels of a row's residual in sRGB.
fn residual(predicted: [f32; 4], colour: [u8; 4], blend: Blend) -> f32 {
    let squares: f32 = (0..3)
        .map(|channel| {
            let error = to_display(predicted[channel], blend) - f32::from(colour[channel]) / 255.0;
            error * error
        })
        .sum();
    (squares / 3.0).sqrt()
}

impl Backend for Native {
    fn adapter(&self) -> AdapterInfo {
        AdapterInfo {
            name: format!("processor ({} threads)", rayon::current_num_threads()),
            backend: "native".to_owned(),
            kind: "native".to_owned(),
            driver: String::new(),
        }
    }

    fn add_view(&mut self, view: &View) -> Result<u64, BackendError> {
        let chunks: Vec<Chunk> = footprints(&self.scene, view, self.taps)
            .into_iter()
            .map(|rows| Chunk {
                weights: vec![1.0; rows.len()],
                rows,
            })
            .collect();
        let count = chunks.iter().map(|chunk| chunk.rows.len() as u64).sum();
        self.held.push(Held {
            view: view.index,
            width: view.width,
            height: view.height,
            chunks,
        });
        Ok(count)
    }

    fn average(&mut self) -> Result<(), BackendError> {
        let table = observed(self.blend);
        let chunks = self
            .held
            .iter()
            .flat_map(|held| &held.chunks)
            .collect::<Vec<_>>();
        let sums = self.normal.scatter(&chunks, |chunk, row| {
            let colour = chunk.rows.colours[row];
            [
                table[colour[0] as usize].value,
                table[colour[1] as usize].value,
                table[colour[2] as usize].value,
                1.0,
            ]
        });
        self.texels
            .par_iter_mut()
            .zip(sums)
            .for_each(|(texel, sum)| {
                let weight = sum[3];
                *texel = if weight > 0.0 {
                    [sum[0] / weight, sum[1] / weight, sum[2] / weight, weight]
                } else {
                    [0.0; 4]
                };
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
        let (texels, blend) = (&self.texels, self.blend);
        let of_view = |held: &Held| {
            let mut sum = ViewResiduals {
                view: held.view,
                rows: 0,
                histogram: [0; 256],
                sum_squares: 0.0,
            };
            for Chunk { rows, .. } in &held.chunks {
                for row in 0..rows.len() {
                    let residual = residual(predict(rows, row, texels), rows.colours[row], blend);
                    sum.histogram[bin_of(residual)] += 1;
                    sum.sum_squares += f64::from(residual) * f64::from(residual);
                }
                sum.rows += rows.len() as u64;
            }
            sum
        };
        Ok(self.held.par_iter().map(of_view).collect())
    }

    fn reweight(&mut self, scales: &[f32], strength: Strength) -> Result<(), BackendError> {
        let (texels, blend) = (&self.texels, self.blend);
        self.held
            .par_iter_mut()
            .zip(scales)
            .for_each(|(held, scale)| {
                held.chunks
                    .par_iter_mut()
                    .for_each(|Chunk { rows, weights }| {
                        for (row, weight) in weights.iter_mut().enumerate() {
                            let residual =
                                residual(predict(rows, row, texels), rows.colours[row], blend);
                            *weight = robust_weight(residual, *scale)
                                * alpha_weight(rows.colours[row][3]);
                        }
                    });
                apply_consensus(held);
            });
        let chunks = self
            .held
            .iter()
            .flat_map(|held| &held.chunks)
            .collect::<Vec<_>>();
        self.normal
            .weigh(&chunks, blend, &self.ties, strength, &self.texels);
        Ok(())
    }

    fn solve(&mut self, iterations: u32) -> Result<(), BackendError> {
        let chunks = self
            .held
            .iter()
            .flat_map(|held| &held.chunks)
            .collect::<Vec<_>>();
        let table = observed(self.blend);
        super::normal::conjugate_gradients(
            &mut self.normal,
            &chunks,
            table,
            &self.ties,
            &mut self.texels,
            iterations,
        );
        Ok(())
    }

    fn peak_memory(&self) -> u64 {
        0
    }
}

/// Weight of each channel of a row: robust weight times squared slope.
pub(super) fn channel_weights(chunk: &Chunk, row: usize, table: &[Observed; 256]) -> [f32; 3] {
    let colour = chunk.rows.colours[row];
    std::array::from_fn(|channel| {
        chunk.weights[row] * table[colour[channel] as usize].slope_squared
    })
}
