//! Skins in their rest pose: the joints stand as their nodes do, without animation.
//!
//! A vertex is moved by the weighted mean of its joints' matrices, each the joint's global transform times its inverse
//! bind matrix (glTF 2.0, 3.7.3.3). They place it in the world, so the transform of the mesh's own node does not apply.
//! Weights are divided by their sum, which quantisation leaves near one. A vertex without weight follows its first
//! joint, as common viewers have it.

use std::collections::HashMap;

use gltf::json;

use super::GltfError;
use crate::prepare::load::accessor::{self, Elements, Use};
use crate::prepare::load::buffers::Buffers;
use crate::prepare::load::scene::{self, SceneError, Transform};

/// The joint matrices of the skins in use, by skin.
#[derive(Debug, Default)]
pub(super) struct Skins {
    /// Global transforms of all nodes, once a skin is read.
    globals: Vec<Option<Transform>>,
    matrices: HashMap<usize, Vec<Transform>>,
}

impl Skins {
    /// Reads the joint matrices of a skin, unless that is done.
    ///
    /// # Errors
    /// The skin or one of its joints is not there, or its matrices cannot be read.
    pub(super) fn load(
        &mut self,
        root: &json::Root,
        buffers: &mut Buffers<'_>,
        skin: usize,
    ) -> Result<(), GltfError> {
        if self.matrices.contains_key(&skin) {
            return Ok(());
        }
        let missing = |by: String, what, index, count| SceneError::NoSuch {
            by,
            what,
            index,
            count,
        };
        let count = root.skins.len();
        let json = root
            .skins
            .get(skin)
            .ok_or_else(|| missing("a node".to_owned(), "skin", skin, count))?;
        if self.globals.is_empty() {
            self.globals = globals(root);
        }
        let wrap = |error| GltfError::Skin { skin, error };
        let inverse = json.inverse_bind_matrices.map(|index| index.value());
        if let Some(index) = inverse {
            accessor::load(root, buffers, index).map_err(wrap)?;
        }
        let open = |index| Elements::open(root, buffers, index, Use::Matrix);
        let inverse = inverse.map(open).transpose().map_err(wrap)?;
        let joints = json.joints.len();
        if let Some(count) = inverse.as_ref().map(Elements::count)
            && count < joints
        {
            return Err(GltfError::Binds {
                skin,
                count,
                joints,
            });
        }
        let matrix = |(number, joint): (usize, &json::Index<json::Node>)| {
            let (node, nodes) = (joint.value(), self.globals.len());
            let Some(global) = self.globals.get(node) else {
                return Err(missing(format!("skin {skin}"), "node", node, nodes));
            };
            let global = global.as_ref().ok_or(SceneError::NotATree(node))?;
            Ok(match &inverse {
                Some(inverse) => scene::compose(global, &affine(inverse.floats(number))),
                None => *global,
            })
        };
        let matrices = json.joints.iter().enumerate().map(matrix);
        let matrices = matrices.collect::<Result<_, SceneError>>()?;
        self.matrices.insert(skin, matrices);
        Ok(())
    }

    /// The matrices of a skin that is loaded.
    pub(super) fn matrices(&self, skin: usize) -> &[Transform] {
        self.matrices.get(&skin).map_or(&[], Vec::as_slice)
    }
}

/// A column-major 4×4 matrix without its last row.
fn affine(m: [f64; 16]) -> Transform {
    std::array::from_fn(|column| std::array::from_fn(|row| m[column * 4 + row]))
}

/// The global transform of each node of any scene or none. Nodes on a cycle have none.
fn globals(root: &json::Root) -> Vec<Option<Transform>> {
    let children = |node: &json::Node| -> Vec<usize> {
        let children = node.children.iter().flatten();
        children.map(|child| child.value()).collect()
    };
    let mut is_child = vec![false; root.nodes.len()];
    for child in root.nodes.iter().flat_map(children) {
        if let Some(is_child) = is_child.get_mut(child) {
            *is_child = true;
        }
    }
    let mut stack: Vec<(usize, Transform)> = (0..root.nodes.len())
        .filter(|&node| !is_child[node])
        .map(|node| (node, scene::IDENTITY))
        .collect();
    let mut globals = vec![None; root.nodes.len()];
    while let Some((index, outer)) = stack.pop() {
        if let (Some(node), Some(global @ None)) = (root.nodes.get(index), globals.get_mut(index)) {
            let transform = scene::compose(&outer, &scene::local(&node.into()));
            *global = Some(transform);
            stack.extend(children(node).into_iter().map(|child| (child, transform)));
        }
    }
    globals
}

/// The joints and weights of a primitive's vertices.
pub(super) struct Bones<'a> {
    /// Joints and weights, each by fours.
    pub(super) sets: Vec<[Elements<'a>; 2]>,
    pub(super) matrices: &'a [Transform],
}

impl Bones<'_> {
    /// The transform of a vertex into the world.
    ///
    /// # Errors
    /// The number of a joint that is not there.
    pub(super) fn at(&self, vertex: usize) -> Result<Transform, u32> {
        let weights = |[_, weights]: &[Elements<'_>; 2]| weights.floats::<4>(vertex);
        // No comparison holds with NaN, which then counts as zero.
        let all: f64 = self.sets.iter().flat_map(weights).map(|x| x.max(0.0)).sum();
        let mut blend = [[0.0; 3]; 4];
        for (number, set) in self.sets.iter().enumerate() {
            let joints = set[0].whole::<4>(vertex);
            for (k, (joint, weight)) in joints.into_iter().zip(weights(set)).enumerate() {
                let weight = match all > 0.0 {
                    true => weight.max(0.0) / all,
                    false => f64::from(u8::from(number == 0 && k == 0)),
                };
                if weight > 0.0 {
                    let matrix = self.matrices.get(joint as usize).ok_or(joint)?;
                    for (sum, column) in blend.iter_mut().zip(matrix) {
                        for (sum, value) in sum.iter_mut().zip(column) {
                            *sum += weight * value;
                        }
                    }
                }
            }
        }
        Ok(blend)
    }

    /// Whether some joint flips the winding of triangles.
    pub(super) fn mirror(&self) -> bool {
        self.matrices.iter().any(scene::mirrors)
    }
}
