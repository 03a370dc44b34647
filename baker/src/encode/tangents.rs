//! Mesh → mesh with vertex tangents (`MikkTSpace`), so that every viewer decodes a normal map in the same way.
//!
//! In glTF v points down while its normal maps have +Y up, so tangents are made with v flipped. The bitangent,
//! cross(normal, tangent) · w, then points up in the picture. A vertex whose corners need several tangents is split.

use std::collections::HashMap;

use bevy_mikktspace::{Geometry, TangentSpace, generate_tangents};
use proto::table::Mesh;

use super::glb::unit;
use crate::worker::progress::unit as work;

struct Corners<'a> {
    mesh: &'a Mesh,
    tangents: Vec<[[f32; 4]; 3]>,
}

impl Corners<'_> {
    fn vertex(&self, face: usize, corner: usize) -> usize {
        self.mesh.triangles[face][corner] as usize
    }
}

impl Geometry for Corners<'_> {
    fn num_faces(&self) -> usize {
        self.mesh.triangles.len()
    }

    fn num_vertices_of_face(&self, _: usize) -> usize {
        3
    }

    fn position(&self, face: usize, corner: usize) -> [f32; 3] {
        self.mesh.positions[self.vertex(face, corner)]
    }

    fn normal(&self, face: usize, corner: usize) -> [f32; 3] {
        unit(self.mesh.normals[self.vertex(face, corner)])
    }

    fn tex_coord(&self, face: usize, corner: usize) -> [f32; 2] {
        let [u, v] = self.mesh.uvs[self.vertex(face, corner)];
        [u, 1.0 - v]
    }

    fn set_tangent(&mut self, tangent: Option<TangentSpace>, face: usize, corner: usize) {
        let normal = self.normal(face, corner);
        let [x, y, z, w] = tangent.map_or([0.0, 0.0, 0.0, 1.0], |found| found.tangent_encoded());
        let [x, y, z] = across(normal, [x, y, z]);
        self.tangents[face][corner] = [x, y, z, w];
    }
}

/// The component of `tangent` orthogonal to the normal, normalised. Any orthogonal direction where there is none.
fn across(normal: [f32; 3], tangent: [f32; 3]) -> [f32; 3] {
    let least = (0..3).min_by(|&a, &b| normal[a].abs().total_cmp(&normal[b].abs()));
    let mut axis = [0.0; 3];
    axis[least.unwrap_or(0)] = 1.0;
    for candidate in [tangent, axis] {
        let along: f32 = (0..3).map(|k| candidate[k] * normal[k]).sum();
        let across: [f32; 3] = std::array::from_fn(|k| candidate[k] - along * normal[k]);
        let length = across.iter().map(|x| x * x).sum::<f32>().sqrt();
        if length > 1e-3 {
            return across.map(|x| x / length);
        }
    }
    axis
}

/// Splits vertices where necessary. Returns the mesh and a tangent for each vertex.
pub fn tangents(mesh: &Mesh) -> (Mesh, Vec<[f32; 4]>) {
    let mut corners = Corners {
        mesh,
        tangents: vec![[[1.0, 0.0, 0.0, 1.0]; 3]; mesh.triangles.len()],
    };
    // Its error type has no reachable case.
    if let Err(error) = generate_tangents(&mut corners) {
        tracing::warn!(%error, "tangents");
    }
    work();
    let of_corners = corners.tangents;
    let mut split = mesh.clone();
    let mut tangents: Vec<Option<[f32; 4]>> = vec![None; mesh.positions.len()];
    let mut more: HashMap<(u32, [u32; 4]), u32> = HashMap::new();
    for (triangle, of_corners) in split.triangles.iter_mut().zip(of_corners) {
        for (corner, tangent) in triangle.iter_mut().zip(of_corners) {
            let vertex = *corner as usize;
            match tangents[vertex] {
                None => tangents[vertex] = Some(tangent),
                Some(known) if known.map(f32::to_bits) == tangent.map(f32::to_bits) => {}
                Some(_) => {
                    let key = (*corner, tangent.map(f32::to_bits));
                    *corner = *more.entry(key).or_insert_with(|| {
                        split.positions.push(mesh.positions[vertex]);
                        split.normals.push(mesh.normals[vertex]);
                        split.uvs.push(mesh.uvs[vertex]);
                        split.surface_vertices.push(mesh.surface_vertices[vertex]);
                        tangents.push(Some(tangent));
                        tangents.len() as u32 - 1
                    });
                }
            }
        }
    }
    let of_unused = |(vertex, tangent): (usize, Option<[f32; 4]>)| {
        tangent.unwrap_or_else(|| {
            let [x, y, z] = across(unit(split.normals[vertex]), [0.0; 3]);
            [x, y, z, 1.0]
        })
    };
    let tangents = tangents.into_iter().enumerate().map(of_unused).collect();
    (split, tangents)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A square of two triangles in the plane z = 0, seen from +z with an upright picture: u to the right, v down.
    fn square(mirrored: bool) -> Mesh {
        let across = |u: f32| if mirrored { 1.0 - u } else { u };
        let corners = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]];
        Mesh {
            positions: corners.map(|[x, y]| [x, y, 0.0]).to_vec(),
            normals: vec![[0.0, 0.0, 1.0]; 4],
            uvs: corners.map(|[x, y]| [across(x), 1.0 - y]).to_vec(),
            surface_vertices: vec![0, 1, 2, 3],
            triangles: vec![[0, 1, 2], [0, 2, 3]],
            charts: 1,
        }
    }

    fn bitangent(normal: [f32; 3], [x, y, z, w]: [f32; 4]) -> [f32; 3] {
        let [a, b, c] = normal;
        [b * z - c * y, c * x - a * z, a * y - b * x].map(|value| value * w)
    }

    #[test]
    fn the_tangent_points_right_in_the_picture_and_the_bitangent_up() {
        for (mirrored, right) in [(false, 1.0), (true, -1.0)] {
            let (mesh, tangents) = tangents(&square(mirrored));
            assert_eq!((mesh.positions.len(), tangents.len()), (4, 4));
            for tangent in tangents {
                assert_eq!(tangent, [right, 0.0, 0.0, right], "mirrored: {mirrored}");
                assert_eq!(bitangent([0.0, 0.0, 1.0], tangent), [0.0, 1.0, 0.0]);
            }
        }
    }

    #[test]
    fn a_vertex_between_mirrored_faces_is_split_and_nothing_else_changes() {
        // The right half of the square shows what the left one shows, mirrored at the edge between them.
        let mut mesh = square(false);
        mesh.positions.extend([[2.0, 0.0, 0.0], [2.0, 1.0, 0.0]]);
        mesh.normals.extend([[0.0, 0.0, 1.0]; 2]);
        mesh.uvs.extend([[0.0, 1.0], [0.0, 0.0]]);
        mesh.surface_vertices.extend([4, 5]);
        mesh.triangles.extend([[1, 4, 5], [1, 5, 2]]);
        let (split, tangents) = tangents(&mesh);
        assert_eq!(split.positions.len(), 8, "two of six are split");
        for (before, after) in mesh.triangles.iter().zip(&split.triangles) {
            for (before, after) in before.iter().zip(after) {
                let (before, after) = (*before as usize, *after as usize);
                assert_eq!(mesh.positions[before], split.positions[after]);
                assert_eq!(mesh.uvs[before], split.uvs[after]);
                assert_eq!(mesh.surface_vertices[before], split.surface_vertices[after]);
            }
        }
        for (number, triangle) in split.triangles.iter().enumerate() {
            let wanted = if number < 2 { 1.0 } else { -1.0 };
            for &corner in triangle {
                assert_eq!(tangents[corner as usize], [wanted, 0.0, 0.0, wanted]);
            }
        }
    }

    #[test]
    fn without_an_area_in_the_texture_there_is_a_tangent_still() {
        let mut mesh = square(false);
        mesh.uvs = vec![[0.5; 2]; 4];
        mesh.positions.push([9.0; 3]);
        mesh.normals.push([0.0; 3]);
        mesh.uvs.push([0.0; 2]);
        mesh.surface_vertices.push(4);
        let (mesh, tangents) = tangents(&mesh);
        assert_eq!(mesh.positions.len(), tangents.len());
        for (normal, [x, y, z, w]) in mesh.normals.iter().zip(tangents) {
            let normal = unit(*normal);
            let length = x * x + y * y + z * z;
            let along = normal[0] * x + normal[1] * y + normal[2] * z;
            assert!((length - 1.0).abs() < 1e-5 && along.abs() < 1e-5 && w.abs() == 1.0);
        }
    }
}
