//! Charts in their places → the flat mesh: vertices split at chart borders, with normals of the whole surface.
//!
//! Normals are summed over the points of the surface, not over the split vertices, so no seam shows in the shading. Each
//! triangle weighs by its angle at the point (Thürmer and Wüthrich 1998), which does not depend on how the surface is cut.

use proto::table::Mesh;

use super::Piece;
use super::pack::Atlas;
use crate::prepare::clean::CleanMesh;

/// Puts the mesh together. Triangles keep the order of the surface; vertices come chart by chart.
pub(super) fn assemble(surface: &CleanMesh, pieces: &[Piece], atlas: &Atlas) -> Mesh {
    let normals = point_normals(&surface.positions, &surface.triangles);
    let mut mesh = Mesh {
        triangles: vec![[0; 3]; surface.triangles.len()],
        charts: u32::try_from(pieces.len()).unwrap_or(u32::MAX),
        ..Mesh::default()
    };
    for (piece, uvs) in pieces.iter().zip(&atlas.uvs) {
        let first = mesh.positions.len() as u32;
        for (&point, uv) in piece.points.iter().zip(uvs) {
            mesh.positions.push(surface.positions[point as usize]);
            mesh.normals.push(normals[point as usize]);
            mesh.uvs.push(uv.map(|x| x as f32));
            mesh.surface_vertices.push(point);
        }
        for (&face, corners) in piece.faces.iter().zip(&piece.chart.triangles) {
            mesh.triangles[face as usize] = corners.map(|corner| first + corner);
        }
    }
    mesh
}

/// Unit normals of the points: the mean of the triangles around, weighted by angle.
pub(super) fn point_normals(positions: &[[f32; 3]], triangles: &[[u32; 3]]) -> Vec<[f32; 3]> {
    let mut sums = vec![[0.0f64; 3]; positions.len()];
    let mut fallback = vec![[0.0f32; 3]; positions.len()];
    for corners in triangles {
        let places = corners.map(|point| positions[point as usize].map(f64::from));
        let Some(normal) = unit(cross(sub(places[1], places[0]), sub(places[2], places[0]))) else { continue };
        for k in 0..3 {
            let (to_next, to_last) = (sub(places[(k + 1) % 3], places[k]), sub(places[(k + 2) % 3], places[k]));
            let (Some(to_next), Some(to_last)) = (unit(to_next), unit(to_last)) else { continue };
            let cosine: f64 = (0..3).map(|axis| to_next[axis] * to_last[axis]).sum();
            let angle = cosine.clamp(-1.0, 1.0).acos();
            let point = corners[k] as usize;
            for axis in 0..3 {
                sums[point][axis] += normal[axis] * angle;
            }
            fallback[point] = normal.map(|x| x as f32);
        }
    }
    // Two sides that cancel leave rounding, no direction: then the last triangle's normal stands.
    sums.into_iter()
        .zip(fallback)
        .map(|(sum, fallback)| {
            let long = sum.iter().map(|x| x * x).sum::<f64>() > 1e-12;
            match unit(sum).filter(|_| long) {
                Some(normal) => normal.map(|x| x as f32),
                None if fallback == [0.0; 3] => [0.0, 1.0, 0.0],
                None => fallback,
            }
        })
        .collect()
}

pub(super) fn sub(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

pub(super) fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// The vector at length one; none for a vector without length.
pub(super) fn unit(v: [f64; 3]) -> Option<[f64; 3]> {
    // Scaled first: squares of very small or large numbers leave f64 only far beyond our bounds, but cost nothing to avoid.
    let largest = v.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    if !(largest > 0.0 && largest.is_finite()) {
        return None;
    }
    let scaled = v.map(|x| x / largest);
    let length = scaled.iter().map(|x| x * x).sum::<f64>().sqrt();
    Some(scaled.map(|x| x / length))
}
