//! Groups triangles into patches of about 1.5 pixels radius, so that visibility can be judged for a mesh of any
//! fineness.
//!
//! If triangles are smaller than pixels, most fall between pixel centres in any one view and would count as unseen. A
//! patch grows over edges from the first free triangle, as far as the radius and the bend of normals allow. A triangle
//! of that size is a patch by itself.

use kiln_raster::vector::{cross, sub, unit};

use super::topology::Topology;
use crate::prepare::clean::CleanMesh;

/// Smallest cosine between normals of a patch and the normal of its first triangle.
const BENT: f64 = 0.5;

/// The patch of each triangle, in the order of their first triangles, and the number of patches.
pub(super) fn patches(mesh: &CleanMesh, topology: &Topology, radius: f64) -> (Vec<u32>, usize) {
    let centre = |triangle: usize| -> [f64; 3] {
        let corners = mesh.triangles[triangle].map(|point| mesh.positions[point as usize]);
        std::array::from_fn(|axis| {
            corners
                .iter()
                .map(|corner| f64::from(corner[axis]))
                .sum::<f64>()
                / 3.0
        })
    };
    let mut patch = vec![u32::MAX; mesh.triangles.len()];
    let mut count = 0;
    let mut open = Vec::new();
    for seed in 0..mesh.triangles.len() {
        if patch[seed] != u32::MAX {
            continue;
        }
        patch[seed] = count;
        let (middle, towards) = (centre(seed), normal(mesh, seed));
        open.push(seed);
        while let Some(triangle) = open.pop() {
            for half in 3 * triangle..3 * triangle + 3 {
                let Some(mate) = topology.mate(half as u32) else {
                    continue;
                };
                let other = mate as usize / 3;
                if patch[other] != u32::MAX {
                    continue;
                }
                let away = sub(centre(other), middle);
                let near = away.iter().map(|x| x * x).sum::<f64>() <= radius * radius;
                // Windings need not agree yet, so the sign is ignored.
                let dot: f64 = (0..3)
                    .map(|axis| normal(mesh, other)[axis] * towards[axis])
                    .sum();
                if near && dot.abs() >= BENT {
                    patch[other] = count;
                    open.push(other);
                }
            }
        }
        count += 1;
    }
    (patch, count as usize)
}

fn normal(mesh: &CleanMesh, triangle: usize) -> [f64; 3] {
    let [a, b, c] =
        mesh.triangles[triangle].map(|point| mesh.positions[point as usize].map(f64::from));
    unit(cross(sub(b, a), sub(c, a))).unwrap_or([0.0; 3])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::unwrap::tests::icosphere;

    #[test]
    fn patches_are_as_large_as_asked_and_no_larger() {
        let sphere = icosphere(5);
        let topology = Topology::new(&sphere.triangles, sphere.positions.len());
        let (patch, count) = patches(&sphere, &topology, 0.1);
        // A sphere of area 4π in discs of about 0.01π, not all of them whole.
        assert!((400..2500).contains(&count), "{count}");
        assert!(patch.iter().all(|&patch| (patch as usize) < count));
        let (alone, all) = patches(&sphere, &topology, 1e-3);
        assert_eq!(all, sphere.triangles.len());
        assert_eq!(alone, (0..all as u32).collect::<Vec<_>>());
    }
}
