//! What views say of places on the surface → how each is exposed, relative to the others.
//!
//! ```text
//!   log y_i(t) = log g_i + log T(t)      y: mean of view i over cell t of a grid on the texture; T: what is there
//! ```
//!
//! T is eliminated, `(D − R diag(1/Σw) Rᵀ) log g = b`, and the rest is reweighted (Geman-McClure). The system leaves a factor
//! of all views open; the mean of log g is 0. One shot: alternating with the texture took four rounds for a worse result.

use proto::table::View;
use rayon::prelude::*;

use crate::bake::colour::decode;
use crate::bake::footprint::texel_coords;
use crate::bake::raster::{NOTHING, Projected, raster};
use crate::bake::scene::Scene;
use crate::progress::unit;

/// Cells along an edge of the texture, at most and at least.
const FINEST: f64 = 256.0;
const COARSEST: f64 = 16.0;
/// Pixels of a view for each cell of the whole texture, of which it sees a part: about four in each that it does see.
const PIXELS: f64 = 1.2;
/// Pixels that a cell must have in a view.
const LEAST_PIXELS: f32 = 2.0;
/// Bytes that are neither saturated nor so dark that rounding is felt.
const USABLE: std::ops::RangeInclusive<u8> = 12..=250;
/// Least cosine between the surface's normal and the ray: grazing pixels mix too much.
const LEAST_COSINE: f64 = 0.35;
/// Rows of pixels in one piece of work.
const BAND: u32 = 32;
const REWEIGHTINGS: u32 = 8;
/// Scales at which a residual has lost most of its weight.
const SCALES: f64 = 3.0;
/// Products of views, over all cells, that one assembly may take: beyond it, cells are left out evenly.
const MOST_PRODUCTS: usize = 30_000_000;
/// A view that shares fewer cells with others is not compared.
const LEAST_CELLS: usize = 32;

/// Cells that a view sees, and the mean log of its light there.
pub(super) type Sample = (u32, f32);

/// Cells along an edge of the texture, as fine as the views can fill.
pub(super) fn grid(views: &[View]) -> usize {
    let opaque = |view: &View| view.pixels.iter().filter(|pixel| pixel[3] == 255).count();
    let mean = views.iter().map(opaque).sum::<usize>() as f64 / views.len().max(1) as f64;
    (mean / PIXELS).sqrt().clamp(COARSEST, FINEST) as usize
}

/// What a view says of the cells of a grid.
pub(super) fn samples(scene: &Scene, view: &View, grid: usize) -> Vec<Sample> {
    let camera = scene.camera(&view.camera);
    let projected = Projected::of_scene(scene, &camera, view.width, view.height);
    let log: [f32; 256] = std::array::from_fn(|byte| decode(byte as f32 / 255.0).max(1e-6).ln());
    // The camera's place: -Rᵀ t.
    let eye: [f64; 3] = std::array::from_fn(|axis| {
        -(0..3)
            .map(|k| camera.rotation[k][axis] * camera.translation[k])
            .sum::<f64>()
    });
    let bands = projected.bands(view.height, BAND);
    let found: Vec<Vec<Sample>> = bands
        .par_iter()
        .enumerate()
        .map(|(band, triangles)| {
            let first = band as u32 * BAND;
            let end = (first + BAND).min(view.height);
            let hits = raster(&projected, triangles, view.width, first, end, 1);
            let mut found = Vec::new();
            for row in first.max(1)..end.min(view.height - 1) {
                for column in 1..view.width.saturating_sub(1) {
                    let triangle = hits.triangles[((row - first) * view.width + column) as usize];
                    if triangle == NOTHING || !faces(scene, triangle, eye) {
                        continue;
                    }
                    let Some(light) = light(view, column, row, &log) else {
                        continue;
                    };
                    let (x, y) = (f64::from(column) + 0.5, f64::from(row) + 0.5);
                    let at = texel_coords(scene, &projected, triangle, x, y);
                    let cell = at
                        .map(|at| ((at / scene.size as f32 * grid as f32) as usize).min(grid - 1));
                    found.push(((cell[1] * grid + cell[0]) as u32, light));
                }
            }
            unit();
            found
        })
        .collect();
    let mut sums = vec![[0.0_f32; 2]; grid * grid];
    for (cell, light) in found.into_iter().flatten() {
        let sum = &mut sums[cell as usize];
        sum[0] += light;
        sum[1] += 1.0;
    }
    (0..)
        .zip(sums)
        .filter(|(_, [_, count])| *count >= LEAST_PIXELS)
        .map(|(cell, [sum, count])| (cell, sum / count))
        .collect()
}

/// Mean log light of a pixel that is opaque, with all around it, and usable in all channels.
fn light(view: &View, column: u32, row: u32, log: &[f32; 256]) -> Option<f32> {
    let pixel = |column: u32, row: u32| view.pixels[(row * view.width + column) as usize];
    let opaque = (row - 1..=row + 1)
        .all(|row| (column - 1..=column + 1).all(|column| pixel(column, row)[3] == 255));
    let [r, g, b, _] = pixel(column, row);
    let usable = opaque && [r, g, b].iter().all(|byte| USABLE.contains(byte));
    usable.then(|| {
        [r, g, b]
            .iter()
            .map(|&byte| log[byte as usize])
            .sum::<f32>()
            / 3.0
    })
}

fn faces(scene: &Scene, triangle: u32, eye: [f64; 3]) -> bool {
    let [a, b, c] = scene.triangles[triangle as usize]
        .map(|corner| scene.positions[corner as usize].map(f64::from));
    let minus = |a: [f64; 3], b: [f64; 3]| [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let (u, v, ray) = (minus(b, a), minus(c, a), minus(eye, a));
    let normal = [
        u[1] * v[2] - u[2] * v[1],
        u[2] * v[0] - u[0] * v[2],
        u[0] * v[1] - u[1] * v[0],
    ];
    dot(normal, ray).powi(2) >= LEAST_COSINE.powi(2) * dot(normal, normal) * dot(ray, ray)
}

/// How the views are exposed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Exposures {
    /// Log gain of each view; none where it shares too little with others.
    pub(super) logs: Vec<Option<f64>>,
    /// Median deviation of a view from the others at a place, in log light, as they came and with the gains divided out.
    pub(super) deviation: [f64; 2],
}

/// What one view says of one cell.
#[derive(Clone, Copy, Debug)]
struct Word {
    view: u32,
    light: f64,
}

/// Solves for the gains; none where fewer than two views overlap.
pub(super) fn solve(views: &[Vec<Sample>]) -> Option<Exposures> {
    let cells = cells(views);
    let mut shared = vec![0; views.len()];
    for word in cells.iter().flatten() {
        shared[word.view as usize] += 1;
    }
    let compared = shared.iter().filter(|&&count| count >= LEAST_CELLS).count();
    if compared < 2 {
        return None;
    }
    let mut gains = vec![0.0; views.len()];
    let mut weights: Vec<Vec<f64>> = cells.iter().map(|cell| vec![1.0; cell.len()]).collect();
    for _ in 0..REWEIGHTINGS {
        gains = balanced(&cells, &weights, views.len());
        let residuals: Vec<Vec<f64>> = cells
            .iter()
            .zip(&weights)
            .map(|(cell, weights)| residuals(cell, weights, &gains))
            .collect();
        let scale = SCALES * 1.4826 * median(&residuals).max(1e-4);
        for (weights, residuals) in weights.iter_mut().zip(residuals) {
            for (weight, residual) in weights.iter_mut().zip(residuals) {
                *weight = (1.0 + (residual / scale).powi(2)).powi(-2);
            }
        }
        unit();
    }
    let counts = |view: usize| shared[view] >= LEAST_CELLS;
    let of: Vec<f64> = (0..views.len())
        .filter(|&view| counts(view))
        .map(|view| gains[view])
        .collect();
    let mean = of.iter().sum::<f64>() / of.len() as f64;
    let deviation = [vec![0.0; views.len()], gains.clone()].map(|gains| {
        let residuals: Vec<Vec<f64>> = cells
            .iter()
            .map(|cell| residuals(cell, &vec![1.0; cell.len()], &gains))
            .collect();
        median(&residuals)
    });
    Some(Exposures {
        logs: (0..views.len())
            .map(|view| counts(view).then(|| gains[view] - mean))
            .collect(),
        deviation,
    })
}

/// What is said of each cell that two views or more see, thinned out where there are very many words.
fn cells(views: &[Vec<Sample>]) -> Vec<Vec<Word>> {
    let most = views.iter().flatten().map(|&(cell, _)| cell).max();
    let mut cells: Vec<Vec<Word>> = vec![Vec::new(); most.map_or(0, |cell| cell as usize + 1)];
    for (view, samples) in (0..).zip(views) {
        for &(cell, light) in samples {
            let light = f64::from(light);
            cells[cell as usize].push(Word { view, light });
        }
    }
    cells.retain(|cell| cell.len() >= 2);
    let products: usize = cells.iter().map(|cell| cell.len().pow(2)).sum();
    let stride = products.div_ceil(MOST_PRODUCTS).max(1);
    cells.into_iter().step_by(stride).collect()
}

/// Each word's distance from what all say of its cell.
fn residuals(cell: &[Word], weights: &[f64], gains: &[f64]) -> Vec<f64> {
    let own = |word: &Word| word.light - gains[word.view as usize];
    let sum: f64 = weights.iter().sum();
    let mean = cell
        .iter()
        .zip(weights)
        .map(|(word, weight)| weight * own(word))
        .sum::<f64>()
        / sum.max(f64::MIN_POSITIVE);
    cell.iter().map(|word| own(word) - mean).collect()
}

fn median(of: &[Vec<f64>]) -> f64 {
    let mut sizes: Vec<f64> = of.iter().flatten().map(|value| value.abs()).collect();
    if sizes.is_empty() {
        return 0.0;
    }
    let middle = sizes.len() / 2;
    *sizes.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// The gains that balance all cells at these weights, by conjugate gradients from 0: what the system leaves open stays 0.
fn balanced(cells: &[Vec<Word>], weights: &[Vec<f64>], views: usize) -> Vec<f64> {
    let mut matrix = vec![0.0; views * views];
    let mut right = vec![0.0; views];
    for (cell, weights) in cells.iter().zip(weights) {
        let sum: f64 = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let said = cell.iter().zip(weights);
        let mean = said.map(|(word, weight)| weight * word.light).sum::<f64>() / sum;
        for (word, &weight) in cell.iter().zip(weights) {
            let view = word.view as usize;
            right[view] += weight * (word.light - mean);
            let row = &mut matrix[view * views..(view + 1) * views];
            row[view] += weight;
            for (other, &by) in cell.iter().zip(weights) {
                row[other.view as usize] -= weight * by / sum;
            }
        }
    }
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut x = vec![0.0; views];
    let mut residual = right;
    let mut direction = residual.clone();
    let mut size = dot(&residual, &residual);
    let enough = 1e-20 * size;
    for _ in 0..views.min(200) {
        if size <= enough {
            break;
        }
        let product: Vec<f64> = matrix
            .par_chunks_exact(views)
            .map(|row| dot(row, &direction))
            .collect();
        let step = size / dot(&direction, &product);
        if !step.is_finite() {
            break;
        }
        for view in 0..views {
            x[view] += step * direction[view];
            residual[view] -= step * product[view];
        }
        let next = dot(&residual, &residual);
        for view in 0..views {
            direction[view] = residual[view] + next / size * direction[view];
        }
        size = next;
    }
    x
}

#[cfg(test)]
mod tests;
