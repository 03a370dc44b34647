//! Statistics of the atlas (survey): a mesh and its textures → figures of the unwrap, and of how visible its seams are.
//!
//! | module | purpose |
//! |---|---|
//! | `texels` | texture coordinates → the triangle of each texel |
//! | `seams` | mesh → edges that the unwrap cuts, charts |
//! | `mips` | texels → mip levels in linear light, with bilinear lookup |
//!
//! A bake's report and `kiln compare` share it, so the figures of Kiln's meshes and of others are comparable.

mod mips;
mod seams;
mod texels;

use std::collections::HashMap;

use kiln_raster::vector::{cross, sub};
use proto::message::AtlasFigures;
use proto::table::Mesh;
use rayon::prelude::*;

use crate::image::render::Textures;
use crate::worker::progress::{Ticker, ticked, ticking, unit};

pub use mips::LEVELS;
pub(crate) use texels::{NOTHING, cover};

use mips::Chain;
use seams::{Pair, Seams};

/// Lookups per texel of a seam's longer side. More would find nothing new, since neighbouring lookups share texels.
const LOOKUPS: f64 = 2.0;
/// Largest number of lookups of one edge, however long it is in the texture.
const MOST_LOOKUPS: f64 = 4096.0;
/// Length of all seams together, in texels, up to which they are looked at in every place: only charts that lie upon each other have
/// more.
const MOST_LENGTH: f64 = 4_194_304.0;

/// Computes the figures. `owners` holds, for each image, the triangle of each of its texels, see [`cover`].
pub fn survey(mesh: &Mesh, textures: Textures<'_>, owners: &[Vec<u32>]) -> AtlasFigures {
    let seams = Seams::find(mesh, &textures);
    unit();
    let texels: usize = owners.iter().map(Vec::len).sum();
    let owned: usize = owners
        .iter()
        .map(|owners| {
            let owned = ticking(owners.par_iter()).filter(|&&owner| owner != NOTHING);
            owned.count()
        })
        .sum();
    unit();
    AtlasFigures {
        seam_residual: residual(mesh, &textures, &seams),
        seam_length: seam_length(mesh, &seams) as f32,
        charts: seams.charts,
        used: (owned as f64 / texels.max(1) as f64) as f32,
        density_spread: density_spread(mesh, &textures) as f32,
    }
}

/// Mean difference of the two sides of seams at each mip level, in 8-bit steps, weighted by length on the surface.
fn residual(mesh: &Mesh, textures: &Textures<'_>, seams: &Seams) -> [f32; LEVELS] {
    if seams.pairs.is_empty() {
        return [0.0; LEVELS];
    }
    let chains: Vec<Chain> = textures
        .images
        .iter()
        .map(|&image| Chain::new(image))
        .collect();
    unit();
    let (mut sums, mut weights) = ([0.0_f64; LEVELS], 0.0_f64);
    // Summed in the order of the seams: the same figures whatever the number of threads.
    let ends_of = |pair: &Pair| {
        pair.sides.map(|side| {
            let image = textures.number(side.triangle as usize);
            (image, side.ends.map(|end| mesh.uvs[end as usize]))
        })
    };
    let longest = |pair: &Pair| {
        let of_side = |(image, [a, b]): (usize, [[f32; 2]; 2])| {
            let [width, height] = chains[image].size();
            let across = f64::from(b[0] - a[0]) * width as f64;
            let down = f64::from(b[1] - a[1]) * height as f64;
            across.hypot(down)
        };
        ends_of(pair).map(of_side).into_iter().fold(0.0, f64::max)
    };
    let whole: f64 = ticked(seams.pairs.iter()).map(longest).sum();
    let share = (MOST_LENGTH / whole).min(1.0);
    let parts: Vec<([f64; LEVELS], f64)> = seams
        .pairs
        .par_iter()
        .map(|pair| {
            let length = pair.length(mesh);
            let (ends, longest) = (ends_of(pair), longest(pair));
            let lookups = (longest * LOOKUPS * share).ceil().clamp(1.0, MOST_LOOKUPS);
            Ticker::default().did(LEVELS * lookups as usize);
            let mut sum = [0.0_f64; LEVELS];
            for k in 0..lookups as usize {
                let share = ((k as f64 + 0.5) / lookups) as f32;
                for (level, sum) in sum.iter_mut().enumerate() {
                    let [one, other] = ends.map(|(image, [a, b])| {
                        let at = [0, 1].map(|axis| a[axis] + share * (b[axis] - a[axis]));
                        chains[image].display(level, at)
                    });
                    let off: f32 = (0..3).map(|c| (one[c] - other[c]).abs()).sum();
                    *sum += f64::from(off) / 3.0;
                }
            }
            (sum.map(|sum| sum / lookups * length), length)
        })
        .collect();
    for (part, weight) in parts {
        weights += weight;
        for (sum, part) in sums.iter_mut().zip(part) {
            *sum += part;
        }
    }
    unit();
    sums.map(|sum| (sum / weights.max(f64::MIN_POSITIVE) * 255.0) as f32)
}

/// In diagonals of the bounding box.
fn seam_length(mesh: &Mesh, seams: &Seams) -> f64 {
    let mut ends = [[f32::INFINITY; 3], [f32::NEG_INFINITY; 3]];
    for &corner in mesh.triangles.as_flattened() {
        for (axis, &x) in mesh.positions[corner as usize].iter().enumerate() {
            ends[0][axis] = ends[0][axis].min(x);
            ends[1][axis] = ends[1][axis].max(x);
        }
    }
    let diagonal = distance(ends[0], ends[1]);
    let length: f64 = seams.pairs.iter().map(|pair| pair.length(mesh)).sum();
    if diagonal > 0.0 {
        length / diagonal
    } else {
        0.0
    }
}

/// The 95th percentile of texel density (texels per length) over the 5th, by surface area.
fn density_spread(mesh: &Mesh, textures: &Textures<'_>) -> f64 {
    let mut all: Vec<(f64, f64)> = Vec::with_capacity(mesh.triangles.len());
    for (number, triangle) in mesh.triangles.iter().enumerate() {
        let [a, b, c] = triangle.map(|corner| mesh.positions[corner as usize].map(f64::from));
        let normal = cross(sub(b, a), sub(c, a));
        let area = normal.iter().map(|x| x * x).sum::<f64>().sqrt() / 2.0;
        let [a, b, c] = triangle.map(|corner| mesh.uvs[corner as usize].map(f64::from));
        let twice = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
        let [width, height] = textures.images[textures.number(number)].size();
        let texels = twice.abs() / 2.0 * (width * height) as f64;
        if area > 0.0 {
            all.push(((texels / area).sqrt(), area));
        }
    }
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let total: f64 = all.iter().map(|(_, area)| area).sum();
    let quantile = |share: f64| {
        let mut below = 0.0;
        let found = all.iter().find(|(_, area)| {
            below += area;
            below >= share * total
        });
        found.map_or(0.0, |(density, _)| *density)
    };
    let (low, high) = (quantile(0.05), quantile(0.95));
    if low > 0.0 { high / low } else { 0.0 }
}

/// For each vertex the first one at the same position: they are one point of the surface.
pub(crate) fn weld(positions: &[[f32; 3]]) -> Vec<u32> {
    let mut first: HashMap<[u32; 3], u32> = HashMap::with_capacity(positions.len());
    let point = |(number, position): (usize, &[f32; 3])| {
        // -0 counts as 0.
        let key = position.map(|x| (x + 0.0).to_bits());
        *first.entry(key).or_insert(number as u32)
    };
    positions.iter().enumerate().map(point).collect()
}

pub(crate) fn distance(a: [f32; 3], b: [f32; 3]) -> f64 {
    let squares = (0..3).map(|k| (f64::from(a[k]) - f64::from(b[k])).powi(2));
    squares.sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests;
