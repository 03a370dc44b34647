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

/// Joins the vertices of each surface point, which share its place and normal. Returns the former index of each vertex.
pub(super) fn joined(mesh: &Mesh) -> (Mesh, Vec<u32>) {
    let points = &mesh.surface_vertices;
    let mut first = vec![u32::MAX; points.len()];
    for (vertex, &point) in (0..).zip(points) {
        let first = &mut first[point as usize];
        *first = vertex.min(*first);
    }
    let corner = |corner: u32| first[points[corner as usize] as usize];
    let triangles = mesh.triangles.iter().map(|corners| corners.map(corner));
    let (mut mesh, from) = part(mesh, triangles);
    mesh.surface_vertices = (0..from.len() as u32).collect();
    (mesh, from)
}

/// Sorts triangles and vertices into the order that compresses and draws best. Returns the former index of each vertex.
pub(super) fn order(mesh: &Mesh) -> (Mesh, Vec<u32>) {
    let vertices = mesh.positions.len();
    let indices = optimize_vertex_cache(mesh.triangles.as_flattened(), vertices);
    part(mesh, indices.as_chunks::<3>().0.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mesh_without_coordinates_has_one_vertex_for_each_point() {
        // Two triangles on either side of a seam: vertices 1 and 2 are 4 and 3 again.
        let place = [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]];
        let points = [0, 1, 2, 2, 1, 3];
        let mesh = Mesh {
            positions: points.map(|point: u32| place[point as usize]).to_vec(),
            normals: vec![[0.0, 0.0, 1.0]; 6],
            uvs: vec![[0.0; 2]; 6],
            surface_vertices: points.to_vec(),
            triangles: vec![[0, 1, 2], [3, 4, 5]],
            charts: 2,
        };
        let (joined, from) = joined(&mesh);
        assert_eq!(joined.triangles, [[0, 1, 2], [2, 1, 3]]);
        assert_eq!((joined.positions, from), (place.to_vec(), vec![0, 1, 2, 5]));
        assert_eq!(joined.surface_vertices, [0, 1, 2, 3]);
    }
}
