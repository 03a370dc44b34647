//! A mesh, some of its triangles in some order → the mesh of these alone, with the vertices that they use.

use proto::table::Mesh;

/// A mesh of these triangles alone, its vertices in the order in which they come, and the number that each of them had. A vertex
/// that no triangle uses is left behind.
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
