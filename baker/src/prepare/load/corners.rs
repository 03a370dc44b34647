//! Converts texture coordinates per corner to texture coordinates per vertex, by splitting vertices at seams.

use std::collections::HashMap;

use super::RawMesh;

/// Splits `positions` so that each vertex has one texture coordinate. Every corner must name an existing position.
pub(super) fn unify(
    positions: &[[f32; 3]],
    triangles: &[[u32; 3]],
    corner_uvs: &[[[f32; 2]; 3]],
) -> RawMesh {
    let mut places: HashMap<(u32, [u32; 2]), u32> = HashMap::with_capacity(positions.len());
    let mut mesh = RawMesh {
        positions: Vec::new(),
        uvs: Err(super::NoUvs::Absent),
        triangles: Vec::new(),
    };
    let mut uvs = Vec::new();
    for (corners, corner_uvs) in triangles.iter().zip(corner_uvs) {
        let split = std::array::from_fn(|k| {
            let (point, uv) = (corners[k], corner_uvs[k]);
            *places
                .entry((point, uv.map(f32::to_bits)))
                .or_insert_with(|| {
                    mesh.positions.push(positions[point as usize]);
                    uvs.push(uv);
                    mesh.positions.len() as u32 - 1
                })
        });
        mesh.triangles.push(split);
    }
    mesh.uvs = Ok(uvs);
    mesh
}
