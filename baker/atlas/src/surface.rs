//! Measures of a surface.

use std::collections::HashMap;

use kiln_raster::vector::{cross, sub};

use crate::work::ticked;

/// Area of all triangles.
pub fn surface_area(positions: &[[f32; 3]], triangles: &[[u32; 3]]) -> f64 {
    let double = |corners: &[u32; 3]| {
        let [a, b, c] = corners.map(|point| positions[point as usize].map(f64::from));
        cross(sub(b, a), sub(c, a))
            .iter()
            .map(|x| x * x)
            .sum::<f64>()
            .sqrt()
    };
    ticked(triangles.iter()).map(double).sum::<f64>() / 2.0
}

/// Number of triangles of each edge, in no particular order.
pub fn edges(triangles: &[[u32; 3]]) -> impl Iterator<Item = usize> {
    let mut edges: Vec<u64> = Vec::with_capacity(triangles.len() * 3);
    for [a, b, c] in ticked(triangles.iter()) {
        edges.extend(
            [(a, b), (b, c), (c, a)]
                .map(|(a, b)| u64::from(*a.min(b)) << 32 | u64::from(*a.max(b))),
        );
    }
    edges.sort_unstable();
    let mut at = 0;
    std::iter::from_fn(move || {
        let edge = edges.get(at)?;
        let count = edges[at..]
            .iter()
            .take_while(|other| *other == edge)
            .count();
        at += count;
        Some(count)
    })
}

/// The unit sphere of 20 · 4^level triangles, wound outwards: for tests and benchmarks.
pub fn icosphere(level: u32) -> (Vec<[f32; 3]>, Vec<[u32; 3]>) {
    let t = f32::midpoint(1.0, 5f32.sqrt());
    let mut positions: Vec<[f32; 3]> = Vec::new();
    for (a, b) in [(-1.0, t), (1.0, t), (-1.0, -t), (1.0, -t)] {
        positions.extend([[a, b, 0.0], [0.0, a, b], [b, 0.0, a]]);
    }
    let length = |p: [f32; 3]| p.iter().map(|x| x * x).sum::<f32>().sqrt();
    // All triples whose sides have the icosahedron's length, wound outwards.
    let near = |a: usize, b: usize| {
        (length(std::array::from_fn(|k| positions[a][k] - positions[b][k])) - 2.0).abs() < 1e-3
    };
    let mut triangles: Vec<[u32; 3]> = Vec::new();
    for a in 0..12 {
        for b in a + 1..12 {
            for c in b + 1..12 {
                if near(a, b) && near(b, c) && near(c, a) {
                    let [p, q, r] = [a, b, c].map(|i| positions[i].map(f64::from));
                    let n = cross(sub(q, p), sub(r, p));
                    let outward = n[0] * p[0] + n[1] * p[1] + n[2] * p[2] > 0.0;
                    let [a, b, c] = [a, b, c].map(|i| i as u32);
                    triangles.push(if outward { [a, b, c] } else { [a, c, b] });
                }
            }
        }
    }
    for _ in 0..level {
        let mut middles: HashMap<(u32, u32), u32> = HashMap::new();
        let mut finer = Vec::new();
        for [a, b, c] in triangles {
            let mut middle = |a: u32, b: u32| {
                *middles.entry((a.min(b), a.max(b))).or_insert_with(|| {
                    let (p, q) = (positions[a as usize], positions[b as usize]);
                    positions.push(std::array::from_fn(|k| f32::midpoint(p[k], q[k])));
                    positions.len() as u32 - 1
                })
            };
            let (ab, bc, ca) = (middle(a, b), middle(b, c), middle(c, a));
            finer.extend([[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]);
        }
        triangles = finer;
    }
    let positions = positions
        .into_iter()
        .map(|p| p.map(|x| x / length(p)))
        .collect();
    (positions, triangles)
}
