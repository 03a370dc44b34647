//! Walks the node tree of a glTF document and collects mesh instances with their transforms.
//!
//! The walk uses its own stack, since a file may nest nodes deeper than a thread's stack allows. A node that is met
//! twice is an error: cycles end, and a diamond of nodes cannot grow into 2⁴⁰ instances.

use gltf::json;
use serde::Deserialize;

use super::Offset;

/// Why the node tree cannot be walked.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SceneError {
    /// An index out of range.
    #[error("{by} names {what} {index} of {count}")]
    NoSuch {
        /// The object that holds the index.
        by: String,
        /// Scene, node or mesh.
        what: &'static str,
        /// The index.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A cycle, or two parents.
    #[error("node {0} is part of a cycle or has two parents")]
    NotATree(usize),
}

/// A column-major affine transform: three axes and an origin.
pub(in crate::prepare) type Transform = [[f64; 3]; 4];

pub(super) const IDENTITY: Transform =
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0; 3]];

#[derive(Clone, Debug, PartialEq)]
pub(in crate::prepare) struct Instance {
    pub(in crate::prepare) mesh: usize,
    /// Its node, which may have a skin, weights and places of its own.
    pub(in crate::prepare) node: Option<usize>,
    pub(in crate::prepare) transform: Transform,
}

pub(in crate::prepare) fn apply(transform: &Transform, point: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|row| {
        transform[0][row] * point[0]
            + transform[1][row] * point[1]
            + transform[2][row] * point[2]
            + transform[3][row]
    })
}

/// Whether the transform flips the winding of triangles.
pub(in crate::prepare) fn mirrors(transform: &Transform) -> bool {
    let [a, b, c, _] = transform;
    let determinant = a[0] * (b[1] * c[2] - b[2] * c[1]) - b[0] * (a[1] * c[2] - a[2] * c[1])
        + c[0] * (a[1] * b[2] - a[2] * b[1]);
    determinant < 0.0
}

pub(super) fn compose(outer: &Transform, inner: &Transform) -> Transform {
    let origin = apply(outer, inner[3]);
    let [x, y, z] = std::array::from_fn(|axis| {
        let turned = apply(outer, inner[axis]);
        std::array::from_fn(|row| turned[row] - outer[3][row])
    });
    [x, y, z, origin]
}

/// The numbers of a node's transform. The `gltf` crate rounds them to f32.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Numbers {
    matrix: Option<[f64; 16]>,
    rotation: Option<[f64; 4]>,
    scale: Option<[f64; 3]>,
    translation: Option<[f64; 3]>,
}

impl From<&json::Node> for Numbers {
    fn from(node: &json::Node) -> Self {
        Self {
            matrix: node.matrix.map(|numbers| numbers.map(f64::from)),
            rotation: node.rotation.map(|rotation| rotation.0.map(f64::from)),
            scale: node.scale.map(|numbers| numbers.map(f64::from)),
            translation: node.translation.map(|numbers| numbers.map(f64::from)),
        }
    }
}

/// The numbers of all nodes as the JSON has them.
fn precise(json: &[u8]) -> Vec<Numbers> {
    #[derive(Deserialize)]
    struct Nodes {
        nodes: Vec<Numbers>,
    }
    serde_json::from_slice(json).map_or_else(|_| Vec::new(), |file: Nodes| file.nodes)
}

pub(super) fn local(numbers: &Numbers) -> Transform {
    if let Some(m) = &numbers.matrix {
        return std::array::from_fn(|column| std::array::from_fn(|row| m[column * 4 + row]));
    }
    of_parts(
        numbers.translation.unwrap_or([0.0; 3]),
        numbers.rotation.unwrap_or([0.0, 0.0, 0.0, 1.0]),
        numbers.scale.unwrap_or([1.0; 3]),
    )
}

/// The transform of a translation, a unit quaternion (x, y, z, w) and a scale.
pub(super) fn of_parts(
    translation: [f64; 3],
    [x, y, z, w]: [f64; 4],
    scale: [f64; 3],
) -> Transform {
    let axes = [
        [
            1.0 - 2.0 * (y * y + z * z),
            2.0 * (x * y + z * w),
            2.0 * (x * z - y * w),
        ],
        [
            2.0 * (x * y - z * w),
            1.0 - 2.0 * (x * x + z * z),
            2.0 * (y * z + x * w),
        ],
        [
            2.0 * (x * z + y * w),
            2.0 * (y * z - x * w),
            1.0 - 2.0 * (x * x + y * y),
        ],
    ];
    let [a, b, c] = std::array::from_fn(|axis| axes[axis].map(|value| value * scale[axis]));
    [a, b, c, translation]
}

/// The instances of the default scene. Falls back to the first scene, without scenes to all nodes, and without nodes to
/// every mesh once.
///
/// Their places are less `offset`. Only where there is one are the numbers of `json` read in full: elsewhere they stay
/// those of the crate, and so do the bytes of all that is made of them.
pub(in crate::prepare) fn instances_at(
    root: &json::Root,
    json: &[u8],
    offset: &Offset,
) -> Result<Vec<Instance>, SceneError> {
    if *offset == Offset::default() {
        return instances(root, &[]);
    }
    let mut instances = instances(root, &precise(json))?;
    for instance in &mut instances {
        let origin = &mut instance.transform[3];
        *origin = std::array::from_fn(|k| origin[k] - offset[k]);
    }
    Ok(instances)
}

fn instances(root: &json::Root, precise: &[Numbers]) -> Result<Vec<Instance>, SceneError> {
    let nodes = root.nodes.len();
    let mut stack: Vec<(usize, Transform)> = roots(root)?
        .into_iter()
        .rev()
        .map(|node| (node, IDENTITY))
        .collect();
    if nodes == 0 && root.scenes.is_empty() {
        let place = |mesh| Instance {
            mesh,
            node: None,
            transform: IDENTITY,
        };
        return Ok((0..root.meshes.len()).map(place).collect());
    }
    let mut met = vec![false; nodes];
    let mut instances = Vec::new();
    while let Some((index, outer)) = stack.pop() {
        // Cannot fail: roots were checked, and children are checked below.
        let (Some(node), Some(met)) = (root.nodes.get(index), met.get_mut(index)) else {
            continue;
        };
        if std::mem::replace(met, true) {
            return Err(SceneError::NotATree(index));
        }
        let numbers = precise.get(index).copied();
        let transform = compose(&outer, &local(&numbers.unwrap_or_else(|| node.into())));
        if let Some(mesh) = node.mesh.map(|mesh| mesh.value()) {
            let count = root.meshes.len();
            if mesh >= count {
                return Err(SceneError::NoSuch {
                    by: format!("node {index}"),
                    what: "mesh",
                    index: mesh,
                    count,
                });
            }
            instances.push(Instance {
                mesh,
                node: Some(index),
                transform,
            });
        }
        for child in node.children.iter().flatten().rev() {
            check_node(|| format!("node {index}"), child.value(), nodes)?;
            stack.push((child.value(), transform));
        }
    }
    Ok(instances)
}

fn check_node(by: impl Fn() -> String, index: usize, count: usize) -> Result<usize, SceneError> {
    if index < count {
        Ok(index)
    } else {
        Err(SceneError::NoSuch {
            by: by(),
            what: "node",
            index,
            count,
        })
    }
}

/// The one root of the default scene, if there is one.
pub(super) fn only_root(root: &json::Root) -> Option<usize> {
    match roots(root).ok()?.as_slice() {
        &[only] => Some(only),
        _ => None,
    }
}

fn roots(root: &json::Root) -> Result<Vec<usize>, SceneError> {
    let nodes = root.nodes.len();
    let scene = root.scene.map_or(0, |scene| scene.value());
    if let Some(json) = root.scenes.get(scene) {
        return json
            .nodes
            .iter()
            .map(|node| check_node(|| format!("scene {scene}"), node.value(), nodes))
            .collect();
    }
    if root.scene.is_some() {
        let count = root.scenes.len();
        return Err(SceneError::NoSuch {
            by: "the file".to_owned(),
            what: "scene",
            index: scene,
            count,
        });
    }
    let mut is_child = vec![false; nodes];
    for (index, node) in root.nodes.iter().enumerate() {
        for child in node.children.iter().flatten() {
            is_child[check_node(|| format!("node {index}"), child.value(), nodes)?] = true;
        }
    }
    Ok((0..nodes).filter(|&node| !is_child[node]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(text: &str) -> Result<Vec<Instance>, SceneError> {
        let text =
            format!(r#"{{"asset":{{"version":"2.0"}},"meshes":[{{"primitives":[]}}],{text}}}"#);
        instances(&json::deserialize::from_str(&text).unwrap(), &[])
    }

    #[test]
    fn transforms_compose_from_the_root_down() {
        let found = walk(
            r#""scene":0,"scenes":[{"nodes":[0]}],"nodes":[
                {"children":[1],"translation":[1,2,3],"rotation":[0,0,0.70710678,0.70710678]},
                {"mesh":0,"matrix":[2,0,0,0, 0,2,0,0, 0,0,-2,0, 10,0,0,1]}]"#,
        )
        .unwrap();
        // 90° about z maps x to y.
        let point = apply(&found[0].transform, [1.0, 0.0, 1.0]);
        for (value, wanted) in point.into_iter().zip([1.0, 14.0, 1.0]) {
            assert!((value - wanted).abs() < 1e-6, "{point:?}");
        }
        assert!(mirrors(&found[0].transform));
        assert!(!mirrors(&IDENTITY));
    }

    #[test]
    fn the_default_scene_is_taken_or_what_there_is() {
        let nodes = r#""nodes":[{"mesh":0},{"mesh":0,"children":[2]},{"mesh":0}]"#;
        let count = |scenes: &str| walk(&format!("{scenes}{nodes}")).unwrap().len();
        assert_eq!(
            count(r#""scene":1,"scenes":[{"nodes":[0]},{"nodes":[1]}],"#),
            2
        );
        assert_eq!(count(r#""scenes":[{"nodes":[0]},{"nodes":[1]}],"#), 1);
        assert_eq!(count(""), 3);
        assert_eq!(walk(r#""nodes":[]"#).unwrap().len(), 1);
    }

    #[test]
    fn what_is_not_a_tree_is_refused() {
        let error = |nodes: &str| {
            walk(&format!(
                r#""scene":0,"scenes":[{{"nodes":[0]}}],"nodes":[{nodes}]"#
            ))
            .unwrap_err()
        };
        assert_eq!(error(r#"{"children":[0]}"#), SceneError::NotATree(0));
        assert_eq!(
            error(r#"{"children":[1]},{"children":[0]}"#),
            SceneError::NotATree(0)
        );
        assert_eq!(error(r#"{"children":[1,1]},{}"#), SceneError::NotATree(1));
        assert_eq!(
            error(r#"{"children":[7]}"#).to_string(),
            "node 0 names node 7 of 1"
        );
        assert_eq!(
            error(r#"{"mesh":3}"#).to_string(),
            "node 0 names mesh 3 of 1"
        );
        assert_eq!(
            walk(r#""scene":2,"scenes":[]"#).unwrap_err().to_string(),
            "the file names scene 2 of 0"
        );
    }

    #[test]
    fn depth_costs_no_stack() {
        let nodes: Vec<String> = (1..200_000)
            .map(|child| format!(r#"{{"children":[{child}]}}"#))
            .collect();
        let text = format!(r#""nodes":[{},{{"mesh":0}}]"#, nodes.join(","));
        assert_eq!(walk(&text).unwrap().len(), 1);
    }
}
