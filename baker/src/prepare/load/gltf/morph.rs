//! Morph targets at their default weights: what a viewer shows before any animation.
//!
//! The weights of the node precede those of the mesh, and absent ones are zero. A target without weight is not read.

use gltf::json;

use super::GltfError;
use crate::prepare::load::accessor::Elements;
use crate::prepare::load::scene::Instance;

/// Largest number of targets with weight of a primitive. Each costs a look-up for every vertex.
const MOST: usize = 256;

/// Weight and accessor of the targets that move the primitive's positions.
///
/// # Errors
/// More than [`MOST`].
pub(super) fn active(
    root: &json::Root,
    instance: &Instance,
    primitive: &json::mesh::Primitive,
) -> Result<Vec<(f64, usize)>, GltfError> {
    let node = instance.node.and_then(|node| root.nodes.get(node));
    let of_mesh = || root.meshes.get(instance.mesh)?.weights.as_deref();
    let weights = node
        .and_then(|node| node.weights.as_deref())
        .filter(|weights| !weights.is_empty())
        .or_else(of_mesh)
        .unwrap_or_default();
    let targets = primitive.targets.iter().flatten();
    let active: Vec<(f64, usize)> = weights
        .iter()
        .zip(targets)
        .filter(|(weight, _)| **weight != 0.0)
        .filter_map(|(&weight, target)| Some((f64::from(weight), target.positions?.value())))
        .take(MOST + 1)
        .collect();
    match active.len() {
        ..=MOST => Ok(active),
        _ => Err(GltfError::TooLarge {
            what: "morph targets with weight",
            limit: MOST,
        }),
    }
}

/// The position of a vertex with the weighted offsets of all targets added.
pub(super) fn moved(
    targets: &[(f64, Elements<'_>)],
    vertex: usize,
    mut point: [f64; 3],
) -> [f64; 3] {
    for (weight, offsets) in targets {
        for (at, offset) in point.iter_mut().zip(offsets.floats::<3>(vertex)) {
            *at += weight * offset;
        }
    }
    point
}
