//! What a glTF calls itself: its credits, and the names that all baked triangles share.

use gltf::json;
use proto::labels::{Label, Labels};
use serde::Deserialize;
use serde_json::Value;

use super::{Part, scene};

/// Reads the labels of a file with these parts. `json` is its text, since the crate's types leave out `extras`.
pub(super) fn of(root: &json::Root, parts: &[Part], json: &[u8]) -> Labels {
    let name = |name: Option<&String>| Label::name(name.map_or("", String::as_str));
    let node = shared(parts, |part| part.node).or_else(|| scene::only_root(root));
    let node = node.and_then(|index| root.nodes.get(index));
    let mesh = shared(parts, |part| Some(part.mesh)).and_then(|index| root.meshes.get(index));
    let material = shared(parts, |part| part.material);
    let material = material.and_then(|index| root.materials.get(index));
    let Extras {
        author,
        license,
        source,
        title,
    } = extras(json);
    let credit = |value: Option<Value>| {
        let text = value.as_ref().and_then(Value::as_str);
        Label::credit(text.unwrap_or_default())
    };
    Labels {
        node: name(node.and_then(|node| node.name.as_ref())),
        mesh: name(mesh.and_then(|mesh| mesh.name.as_ref())),
        material: name(material.and_then(|material| material.name.as_ref())),
        copyright: Label::credit(root.asset.copyright.as_deref().unwrap_or_default()),
        author: credit(author),
        license: credit(license),
        source: credit(source),
        title: credit(title),
    }
}

/// What all parts with triangles have in common.
fn shared(parts: &[Part], of: impl Fn(&Part) -> Option<usize>) -> Option<usize> {
    let mut all = parts.iter().filter(|part| part.triangles > 0).map(of);
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

/// Where Sketchfab and others put whom a model is by.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Extras {
    author: Option<Value>,
    license: Option<Value>,
    source: Option<Value>,
    title: Option<Value>,
}

fn extras(json: &[u8]) -> Extras {
    #[derive(Deserialize)]
    struct Whole {
        asset: Asset,
    }

    #[derive(Deserialize)]
    struct Asset {
        extras: Extras,
    }

    serde_json::from_slice(json)
        .map_or_else(|_| Extras::default(), |whole: Whole| whole.asset.extras)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Labels of a scene with these nodes, whose parts are node, mesh and material.
    fn labels(asset: &str, nodes: &str, parts: &[[Option<usize>; 3]]) -> Labels {
        let text = format!(
            r#"{{"asset":{{"version":"2.0"{asset}}},"scenes":[{{"nodes":[0]}}],"nodes":[{nodes}],
            "meshes":[{{"name":"Shell","primitives":[]}},{{"primitives":[]}}],
            "materials":[{{"name":"Oak\u0000\n"}},{{"name":"Ash"}}]}}"#
        );
        let root = json::deserialize::from_str(&text).expect("glTF");
        let part = |&[node, mesh, material]: &[Option<usize>; 3]| Part {
            triangles: 1,
            node,
            mesh: mesh.expect("each has one"),
            material,
            coloured: false,
        };
        let mut parts: Vec<Part> = parts.iter().map(part).collect();
        // A primitive of no triangles does not count.
        parts.push(Part {
            triangles: 0,
            ..part(&[Some(0), Some(1), None])
        });
        of(&root, &parts, text.as_bytes())
    }

    #[test]
    fn a_name_stays_where_all_triangles_share_it() {
        let nodes = r#"{"name":"Chair","children":[1,2]},{"name":"Seat"},{"name":"Leg"}"#;
        let (a, b) = (Some(0), Some(1));
        for (parts, wanted) in [
            (&[[b, a, a]][..], ["Seat", "Shell", "Oak"]),
            (&[[b, a, a], [b, a, b]], ["Seat", "Shell", ""]),
            // One mesh at two places is an object of the root above both.
            (&[[b, a, b], [Some(2), a, b]], ["Chair", "Shell", "Ash"]),
            (&[[b, a, a], [Some(2), b, None]], ["Chair", "", ""]),
            (&[[Some(9), Some(9), Some(9)]], ["", "", ""]),
        ] {
            let Labels {
                node,
                mesh,
                material,
                ..
            } = labels("", nodes, parts);
            assert_eq!([&node, &mesh, &material].map(Label::text), wanted);
        }
    }

    #[test]
    fn credits_are_text_in_the_asset() {
        let asset =
            r#","copyright":"2015 (C)\nsomebody","extras":{"author":"A","license":7,"more":{}}"#;
        let found = labels(asset, "{}", &[]);
        assert_eq!(found.copyright.text(), "2015 (C) somebody");
        assert_eq!(found.credits().collect::<Vec<_>>(), [("author", "A")]);
        let other = labels(r#","extras":{"title":[1]}"#, "{}", &[]);
        assert_eq!(other, Labels::default());
    }
}
