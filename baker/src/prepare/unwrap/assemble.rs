//! Builds the flat mesh from placed charts, with vertices split at chart borders.
//!
//! Normals are those of the surface's points, not of the split vertices, so no seam shows in the shading.

use proto::table::Mesh;

use super::Piece;
use super::pack::Atlas;
use crate::prepare::clean::CleanMesh;
use crate::prepare::normals::point_normals;
use crate::progress::Ticker;

/// Builds the mesh. Triangles keep the order of the surface; vertices come chart by chart.
pub(super) fn assemble(surface: &CleanMesh, pieces: &[Piece], atlas: &Atlas) -> Mesh {
    let normals = point_normals(&surface.positions, &surface.triangles);
    let mut mesh = Mesh {
        triangles: vec![[0; 3]; surface.triangles.len()],
        charts: u32::try_from(pieces.len()).unwrap_or(u32::MAX),
        ..Mesh::default()
    };
    let mut ticker = Ticker::default();
    for (piece, uvs) in pieces.iter().zip(&atlas.uvs) {
        ticker.did(piece.points.len() + piece.faces.len());
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
