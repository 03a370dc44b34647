//! Two surfaces → how far from the mesh the original is looked for, at each vertex of the mesh.
//!
//! The distance is measured both ways: from each point of the original to the mesh, and from each vertex of the mesh to
//! the original. A vertex takes the largest of its triangles' and its neighbours', since a bump may lie between vertices.

use rayon::prelude::*;

use super::Shape;
use crate::bake::model::hierarchy::Hierarchy;
use crate::bake::model::scene::Scene;
use crate::worker::progress::{ticked, ticking, unit};

/// Distance in scene units beyond which nothing is looked for: a tenth of the radius.
const MOST: f32 = 0.1;
/// Distance that is looked over where the surfaces touch.
const LEAST: f32 = 0.002;
/// What is looked over of a measured distance: a line along a smooth normal is longer than the distance.
const SLACK: f32 = 1.5;

/// Distances in scene units, one for each vertex of the scene.
pub(super) fn of_vertices(scene: &Scene, original: &Shape<'_>) -> Vec<f32> {
    let mesh = Hierarchy::new(&scene.positions, &scene.triangles);
    let from_original: Vec<Option<(u32, f32)>> = ticking(original.positions.par_iter())
        .map(|&point| {
            let nearest = mesh.nearest(point, MOST)?;
            Some((nearest.triangle, nearest.distance))
        })
        .collect();
    unit();
    let from_mesh: Vec<f32> = ticking(scene.positions.par_iter())
        .map(|&point| {
            let nearest = original.hierarchy.nearest(point, MOST);
            nearest.map_or(MOST, |nearest| nearest.distance)
        })
        .collect();
    unit();
    let most = scene.surface_vertices.iter().max();
    let mut apart = vec![0.0_f32; most.map_or(0, |&most| most as usize + 1)];
    let mut raise = |vertex: u32, distance: f32| {
        let point = &mut apart[scene.surface_vertices[vertex as usize] as usize];
        *point = point.max(distance);
    };
    for (vertex, &distance) in (0..).zip(ticked(from_mesh.iter())) {
        raise(vertex, distance);
    }
    for &(triangle, distance) in ticked(from_original.iter()).flatten() {
        for corner in scene.triangles[triangle as usize] {
            raise(corner, distance);
        }
    }
    let mut around = apart.clone();
    for corners in ticked(scene.triangles.iter()) {
        let points = corners.map(|corner| scene.surface_vertices[corner as usize] as usize);
        let most = points
            .map(|point| apart[point])
            .into_iter()
            .fold(0.0, f32::max);
        for point in points {
            around[point] = around[point].max(most);
        }
    }
    let distance = |&point: &u32| (SLACK * around[point as usize]).clamp(LEAST, MOST);
    scene.surface_vertices.iter().map(distance).collect()
}
