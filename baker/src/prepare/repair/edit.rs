//! Rebuilds a surface from edited triangles: drops unused points and renumbers the rest.

use crate::prepare::clean::{self, CleanMesh};

/// Keeps the triangles for which `stays` holds.
pub(super) fn keep(mesh: &CleanMesh, stays: impl Fn(usize) -> bool) -> CleanMesh {
    let kept: Vec<usize> = (0..mesh.triangles.len()).filter(|&t| stays(t)).collect();
    rebuild(
        mesh,
        kept.iter().map(|&t| mesh.triangles[t]).collect(),
        mesh.corner_uvs
            .as_ref()
            .map(|uvs| kept.iter().map(|&t| uvs[t]).collect()),
    )
}

/// A surface of these triangles over the mesh's points. Keeps the counts of the file.
pub(super) fn rebuild(
    mesh: &CleanMesh,
    mut triangles: Vec<[u32; 3]>,
    corner_uvs: Option<Vec<[[f32; 2]; 3]>>,
) -> CleanMesh {
    let mut numbers = vec![u32::MAX; mesh.positions.len()];
    let mut positions = Vec::with_capacity(mesh.positions.len());
    for corner in triangles.as_flattened_mut() {
        let number = &mut numbers[*corner as usize];
        if *number == u32::MAX {
            *number = positions.len() as u32;
            positions.push(mesh.positions[*corner as usize]);
        }
        *corner = *number;
    }
    CleanMesh {
        radius: clean::diagonal(positions.iter().copied()) / 2.0,
        positions,
        triangles,
        corner_uvs,
        counts: mesh.counts,
    }
}

/// Reverses the winding of a triangle.
pub(super) fn flip(mesh: &mut CleanMesh, triangle: usize) {
    mesh.triangles[triangle].swap(1, 2);
    if let Some(uvs) = &mut mesh.corner_uvs {
        uvs[triangle].swap(1, 2);
    }
}
