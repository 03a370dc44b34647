//! Splats → the closed surface of the object that they show.
//!
//! Views from all around say at which depth half of the light is used up ([`crate::Picture::median`]). A coarse volume finds
//! where the object is, since floaters reach farther than it does. A fine one around that gives the surface. Its small parts
//! are left out, and the steps of its voxels are smoothed (Taubin, "A signal processing approach to fair surface design",
//! 1995).

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::cloud::Cloud;
use crate::draw::draw;
use crate::surface::Surface;
use crate::view::{Filter, View};
use crate::volume::{DepthMap, Volume};
use crate::work::ticked;

/// How much farther the coarse volume reaches.
const FARTHER: f32 = 1.5;
/// Voxels along the coarse volume, views of it, and their edge in pixels.
const COARSE: (usize, usize, u32) = (80, 24, 160);
/// Pixels a voxel, along an axis, of the views of the fine volume.
const PIXELS: f32 = 2.0;
/// Tangent of half the field of view, and its sine.
const HALF_FIELD: [f32; 2] = [0.363_970_23, 0.342_020_14];
/// Views that are drawn at once: each alone does not keep many processors busy, and takes some 50 MiB.
const AT_ONCE: usize = 4;
/// Least area of a part, as a share of the largest.
const PART: f64 = 0.02;
/// Passes of smoothing, each with a step inwards and one outwards.
const PASSES: usize = 4;
const STEPS: [f32; 2] = [0.5, -0.53];

/// How fine a surface is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fineness {
    /// Voxels along the longest side.
    pub voxels: usize,
    /// Views of it.
    pub views: usize,
}

/// A surface, and what is not of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extracted {
    /// The surface.
    pub surface: Surface,
    /// Parts that were too small.
    pub left_out: usize,
}

/// Finds the surface; none where the splats show nothing solid, or are too small for where they lie. `tell` hears how many views are done, and of how many;
/// threads call it.
pub fn extract(
    cloud: &Cloud,
    filter: Filter,
    fineness: Fineness,
    tell: &(dyn Fn(usize, usize) + Sync),
) -> Option<Extracted> {
    if cloud.is_empty() {
        return None;
    }
    let (voxels, views, edge) = COARSE;
    let (done, total) = (AtomicUsize::new(0), views + fineness.views);
    let draw = |view: View| {
        let seen = see(cloud, filter, view);
        tell(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        seen
    };
    let (centre, radius) = cloud.ball();
    let (centre, reach) = (centre.map(|x| x as f32), FARTHER * radius as f32);
    let [low, high] = [-reach, reach].map(|reach| centre.map(|x| x + reach));
    let mut coarse = Volume::new(low, high, voxels)?;
    add(&mut coarse, views, |k| {
        draw(view_of(k, views, centre, reach, edge))
    });
    let found = largest(Surface::of(&coarse)).0;
    let mut corners = [[f32::INFINITY; 3], [f32::NEG_INFINITY; 3]];
    for at in &found.positions {
        for k in 0..3 {
            corners[0][k] = corners[0][k].min(at[k] - coarse.edge());
            corners[1][k] = corners[1][k].max(at[k] + coarse.edge());
        }
    }
    let mut fine = Volume::new(corners[0], corners[1], fineness.voxels)?;
    let side: [f32; 3] = std::array::from_fn(|k| corners[1][k] - corners[0][k]);
    let centre = std::array::from_fn(|k| (corners[0][k] + corners[1][k]) / 2.0);
    let reach = side.iter().map(|side| side * side).sum::<f32>().sqrt() / 2.0;
    let edge = (PIXELS * 2.0 * reach / fine.edge()).clamp(64.0, 2048.0) as u32;
    add(&mut fine, fineness.views, |k| {
        draw(view_of(k, fineness.views, centre, reach, edge))
    });
    let (mut surface, left_out) = largest(Surface::of(&fine));
    smooth(&mut surface);
    (!surface.triangles.is_empty()).then_some(Extracted { surface, left_out })
}

/// Adds views to a volume, some at once, in their order.
fn add(volume: &mut Volume, count: usize, draw: impl Fn(usize) -> DepthMap + Sync) {
    for first in (0..count).step_by(AT_ONCE) {
        let some = first..count.min(first + AT_ONCE);
        let seen: Vec<DepthMap> = some.into_par_iter().map(&draw).collect();
        volume.add(&seen);
    }
}

/// What a view shows, its filter widened to the picture.
fn see(cloud: &Cloud, filter: Filter, view: View) -> DepthMap {
    let shown = draw(cloud, &view, filter.widened(view.size[0]), 0);
    DepthMap::new(view, &shown.alpha, &shown.median)
}

/// Direction `k` of `count`, evenly spread over a sphere (Fibonacci lattice).
pub fn around(k: usize, count: usize) -> [f64; 3] {
    let y = 1.0 - (2.0 * k as f64 + 1.0) / count as f64;
    let across = (1.0 - y * y).max(0.0).sqrt();
    let golden = std::f64::consts::PI * (3.0 - 5.0_f64.sqrt());
    let (sin, cos) = (golden * k as f64).sin_cos();
    [across * cos, y, across * sin]
}

/// View `k` of `count` from all around a ball, which fills its picture.
fn view_of(k: usize, count: usize, centre: [f32; 3], radius: f32, edge: u32) -> View {
    let [x, y, z] = around(k, count).map(|x| x as f32);
    let ahead = [-x, -y, -z];
    let across = x.hypot(z).max(f32::MIN_POSITIVE);
    let right = [-z / across, 0.0, x / across];
    let down = [
        ahead[1] * right[2] - ahead[2] * right[1],
        ahead[2] * right[0] - ahead[0] * right[2],
        ahead[0] * right[1] - ahead[1] * right[0],
    ];
    let rotation = [right, down, ahead];
    let distance = radius / HALF_FIELD[1];
    let translation = [0, 1, 2].map(|row: usize| {
        let along: f32 = (0..3).map(|k| rotation[row][k] * centre[k]).sum();
        if row == 2 { distance - along } else { -along }
    });
    View {
        rotation,
        translation,
        focal: [edge as f32 / 2.0 / HALF_FIELD[0]; 2],
        centre: [edge as f32 / 2.0; 2],
        size: [edge; 2],
    }
}

/// The surface without its small parts, and how many those are.
fn largest(surface: Surface) -> (Surface, usize) {
    let mut parent: Vec<u32> = (0..surface.positions.len() as u32).collect();
    fn root(parent: &mut [u32], mut at: u32) -> u32 {
        while parent[at as usize] != at {
            parent[at as usize] = parent[parent[at as usize] as usize];
            at = parent[at as usize];
        }
        at
    }
    for [a, b, c] in ticked(&surface.triangles) {
        for other in [b, c] {
            let [one, two] = [*a, *other].map(|at| root(&mut parent, at));
            parent[one.max(two) as usize] = one.min(two);
        }
    }
    let mut areas = vec![0.0_f64; surface.positions.len()];
    for triangle in ticked(&surface.triangles) {
        areas[root(&mut parent, triangle[0]) as usize] += area(&surface, *triangle);
    }
    let most = areas.iter().copied().fold(0.0, f64::max);
    let left_out = areas
        .iter()
        .filter(|area| **area > 0.0 && **area < PART * most)
        .count();
    let mut numbers = vec![u32::MAX; surface.positions.len()];
    let mut kept = Surface::default();
    for triangle in ticked(&surface.triangles) {
        if areas[root(&mut parent, triangle[0]) as usize] < PART * most {
            continue;
        }
        kept.triangles.push(triangle.map(|corner| {
            let number = &mut numbers[corner as usize];
            if *number == u32::MAX {
                *number = kept.positions.len() as u32;
                kept.positions.push(surface.positions[corner as usize]);
            }
            *number
        }));
    }
    (kept, left_out)
}

fn area(surface: &Surface, triangle: [u32; 3]) -> f64 {
    let [a, b, c] = triangle.map(|corner| surface.positions[corner as usize].map(f64::from));
    let [u, v]: [[f64; 3]; 2] = [b, c].map(|to| std::array::from_fn(|k| to[k] - a[k]));
    let across = [
        u[1] * v[2] - u[2] * v[1],
        u[2] * v[0] - u[0] * v[2],
        u[0] * v[1] - u[1] * v[0],
    ];
    across.iter().map(|x| x * x).sum::<f64>().sqrt() / 2.0
}

/// Takes the steps of voxels away, and keeps the volume.
fn smooth(surface: &mut Surface) {
    let count = surface.positions.len();
    for _ in 0..PASSES {
        for step in STEPS {
            let mut sums = vec![([0.0_f32; 3], 0_u32); count];
            for triangle in ticked(&surface.triangles) {
                for k in 0..3 {
                    // In a closed surface each neighbour comes once as the next corner.
                    let next = surface.positions[triangle[(k + 1) % 3] as usize];
                    let (sum, number) = &mut sums[triangle[k] as usize];
                    *sum = std::array::from_fn(|k| sum[k] + next[k]);
                    *number += 1;
                }
            }
            for (at, (sum, number)) in surface.positions.iter_mut().zip(sums) {
                if number > 0 {
                    let share = step / number as f32;
                    *at = std::array::from_fn(|k| at[k] + share * (sum[k] - number as f32 * at[k]));
                }
            }
        }
    }
}
