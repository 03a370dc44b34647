//! The places of a mesh that its node repeats (`EXT_mesh_gpu_instancing`).
//!
//! Translations, rotations and scales come from accessors of one length; absent ones are identities. They act below
//! the node's own transform. Places are read one at a time, so a long list takes no memory before the bound on
//! triangles holds it.

use gltf::json;

use super::GltfError;
use crate::prepare::load::accessor::{AccessorError, Elements, Use};
use crate::prepare::load::buffers::Buffers;
use crate::prepare::load::scene::{self, Transform};

/// The extension.
const NAME: &str = "EXT_mesh_gpu_instancing";
/// Its attributes, and what each is read as.
const PARTS: [(&str, Use); 3] = [
    ("TRANSLATION", Use::Position),
    ("ROTATION", Use::Four),
    ("SCALE", Use::Position),
];

/// The accessors of a node's translations, rotations and scales; none where the node is not repeated.
///
/// # Errors
/// An attribute that is no index.
pub(super) fn accessors(
    root: &json::Root,
    node: Option<usize>,
) -> Result<[Option<usize>; 3], GltfError> {
    let mut found = [None; 3];
    let json = node.and_then(|node| root.nodes.get(node)?.extensions.as_ref()?.others.get(NAME));
    let (Some(node), Some(json)) = (node, json) else {
        return Ok(found);
    };
    for (found, (name, _)) in found.iter_mut().zip(PARTS) {
        if let Some(value) = json.get("attributes").and_then(|all| all.get(name)) {
            let index = value.as_u64().and_then(|index| usize::try_from(index).ok());
            *found = Some(index.ok_or_else(|| GltfError::Instances {
                node,
                what: format!("{name} names no accessor"),
            })?);
        }
    }
    Ok(found)
}

/// Where a mesh stands: once as its node does, or at each place of a list.
pub(super) struct Places<'a> {
    count: usize,
    parts: [Option<Elements<'a>>; 3],
    of_node: Transform,
}

impl<'a> Places<'a> {
    /// Opens the accessors of [`accessors`], whose views must be loaded.
    ///
    /// # Errors
    /// One cannot be read, or they differ in length.
    pub(super) fn open(
        root: &'a json::Root,
        buffers: &'a Buffers<'_>,
        (node, of_node): (Option<usize>, Transform),
        accessors: [Option<usize>; 3],
    ) -> Result<Self, GltfError> {
        let wrong = |what| GltfError::Instances {
            node: node.unwrap_or_default(),
            what,
        };
        let mut parts = [None; 3];
        for ((part, index), (_, purpose)) in parts.iter_mut().zip(accessors).zip(PARTS) {
            let open = |index| Elements::open(root, buffers, index, purpose);
            let opened = index.map(open).transpose();
            *part = opened.map_err(|error: AccessorError| wrong(error.to_string()))?;
        }
        let mut counts = parts.iter().flatten().map(Elements::count);
        let count = counts.next().unwrap_or(1);
        if let Some(other) = counts.find(|&other| other != count) {
            return Err(wrong(format!(
                "its attributes have {count} and {other} elements, and must have as many"
            )));
        }
        Ok(Self {
            count,
            parts,
            of_node,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Place `number` in the world.
    pub(super) fn at(&self, number: usize) -> Transform {
        let [translation, rotation, scale] = &self.parts;
        if self.parts.iter().all(Option::is_none) {
            return self.of_node;
        }
        let translation = translation.map_or([0.0; 3], |all| all.floats(number));
        let scale = scale.map_or([1.0; 3], |all| all.floats(number));
        let rotation = rotation.map_or([0.0, 0.0, 0.0, 1.0], |all| all.floats::<4>(number));
        // Integers give quaternions that are not quite of unit length.
        let length = rotation.iter().map(|x| x * x).sum::<f64>().sqrt();
        let rotation = match length > 0.0 {
            true => rotation.map(|x| x / length),
            false => [0.0, 0.0, 0.0, 1.0],
        };
        scene::compose(
            &self.of_node,
            &scene::of_parts(translation, rotation, scale),
        )
    }
}
