//! The part of a mesh made of some triangles, with the vertices they use.

use meshopt::optimize_vertex_cache;
use proto::table::Mesh;

/// Returns a mesh of these triangles, with vertices in the order of first use, and the former index of each vertex.
/// Unused vertices are dropped.
pub(super) fn part(mesh: &Mesh, triangles: impl IntoIterator<Item = [u32; 3]>) -> (Mesh, Vec<u32>) {
    let mut places = vec![u32::MAX; mesh.positions.len()];
    let mut from: Vec<u32> = Vec::new();
    let mut place = |vertex: u32| {
        let place = &mut places[vertex as usize];
        if *place == u32::MAX {
            *place = from.len() as u32;
            from.push(vertex);
        }
        *place
    };
    let triangles = triangles.into_iter().map(|corners| corners.map(&mut place));
    let triangles = triangles.collect();
    let of = |vertex: &u32| *vertex as usize;
    let part = Mesh {
        positions: from.iter().map(|v| mesh.positions[of(v)]).collect(),
        normals: from.iter().map(|v| mesh.normals[of(v)]).collect(),
        uvs: from.iter().map(|v| mesh.uvs[of(v)]).collect(),
        surface_vertices: from.iter().map(|v| mesh.surface_vertices[of(v)]).collect(),
        triangles,
        charts: mesh.charts,
    };
    (part, from)
}

/// Sorts triangles and vertices into the order that compresses and draws best. Returns the former index of each vertex.
pub(super) fn order(mesh: &Mesh) -> (Mesh, Vec<u32>) {
    let vertices = mesh.positions.len();
    let indices = optimize_vertex_cache(mesh.triangles.as_flattened(), vertices);
    part(mesh, indices.as_chunks::<3>().0.iter().copied())
}
