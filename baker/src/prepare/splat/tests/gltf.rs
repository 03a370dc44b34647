//! glTFs of splats written here: against the PLY of the same splats, under nodes that move them, and broken.

use kiln_splat::{Filter, View, draw};
use proto::splats::SplatOptions;
use serde_json::{Value, json};

use super::*;
use crate::prepare::load::{self, Wanted};
use crate::worker::progress::Silent;

/// A glTF, before it is written.
#[derive(Clone)]
struct Gltf {
    json: Value,
    bin: Vec<u8>,
}

const STYLE: &str = "/meshes/0/primitives/0/extensions/KHR_gaussian_splatting";
const ATTRIBUTES: &str = "/meshes/0/primitives/0/attributes";

impl Gltf {
    /// A mesh without primitives, and a node of it.
    fn new() -> Self {
        let json = json!({
            "asset": {"version": "2.0"},
            "extensionsUsed": ["KHR_gaussian_splatting"],
            "extensionsRequired": ["KHR_gaussian_splatting"],
            "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}],
            "meshes": [{"primitives": []}],
            "accessors": [], "bufferViews": [], "buffers": [{"byteLength": 0}],
        });
        Self {
            json,
            bin: Vec::new(),
        }
    }

    fn of(all: &[Raw], degree: usize) -> Self {
        let mut file = Self::new();
        file.add(all, degree);
        file
    }

    fn list(&mut self, name: &str) -> &mut Vec<Value> {
        self.json[name].as_array_mut().expect("a list")
    }

    /// An accessor of these bytes; returns its number.
    fn accessor(&mut self, kind: (&str, u32), count: usize, bytes: &[u8]) -> usize {
        let view = json!({"buffer": 0, "byteOffset": self.bin.len(), "byteLength": bytes.len()});
        self.bin.extend(bytes);
        self.bin.resize(self.bin.len().next_multiple_of(4), 0);
        self.json["buffers"][0]["byteLength"] = json!(self.bin.len());
        self.list("bufferViews").push(view);
        let number = self.list("accessors").len();
        self.list("accessors").push(json!({
            "bufferView": number, "type": kind.0, "componentType": kind.1, "normalized": kind.1 != 5126, "count": count,
        }));
        number
    }

    fn floats(&mut self, kind: &str, rows: &[Vec<f32>]) -> usize {
        let bytes: Vec<u8> = rows
            .iter()
            .flatten()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        self.accessor((kind, 5126), rows.len(), &bytes)
    }

    /// A primitive of splats.
    fn add(&mut self, all: &[Raw], degree: usize) {
        let rows =
            |of: &dyn Fn(&Raw) -> Vec<f32>| -> Vec<Vec<f32>> { all.iter().map(of).collect() };
        let rotations = rows(&|raw| {
            let [w, x, y, z] = unit(raw.rotation);
            vec![x, y, z, w]
        });
        let mut lists = vec![
            (
                "POSITION".to_owned(),
                "VEC3",
                rows(&|raw| raw.position.to_vec()),
            ),
            (named("ROTATION"), "VEC4", rotations),
            (
                named("SCALE"),
                "VEC3",
                rows(&|raw| raw.logs.map(f32::exp).to_vec()),
            ),
            (
                named("OPACITY"),
                "SCALAR",
                rows(&|raw| vec![1.0 / (1.0 + (-raw.logit).exp())]),
            ),
            (
                named("SH_DEGREE_0_COEF_0"),
                "VEC3",
                rows(&|raw| raw.constant.to_vec()),
            ),
        ];
        for l in 1..=degree {
            for n in 0..=2 * l {
                let k = l * l - 1 + n;
                let each = coefficients(degree);
                let of = |raw: &Raw| [0, 1, 2].map(|c| raw.harmonics[c * each + k]).to_vec();
                lists.push((named(&format!("SH_DEGREE_{l}_COEF_{n}")), "VEC3", rows(&of)));
            }
        }
        let mut attributes = json!({});
        for (name, kind, rows) in lists {
            attributes[name] = json!(self.floats(kind, &rows));
        }
        let style = json!({"kernel": "ellipse", "colorSpace": "srgb_rec709_display"});
        let primitive = json!({"mode": 0, "attributes": attributes, "extensions": {"KHR_gaussian_splatting": style}});
        let primitives = self.json["meshes"][0]["primitives"].as_array_mut();
        primitives.expect("a list").push(primitive);
    }

    fn put(&mut self, place: &str, value: Value) {
        let (parent, key) = place.rsplit_once('/').expect("a place");
        let parent = self.json.pointer_mut(parent).expect("its parent");
        match parent.as_array_mut() {
            Some(list) => list[key.parse::<usize>().expect("a number")] = value,
            None => parent[key] = value,
        }
    }

    fn glb(&self) -> Vec<u8> {
        let mut text = self.json.to_string().into_bytes();
        text.resize(text.len().next_multiple_of(4), b' ');
        let total = 12 + 8 + text.len() + 8 + self.bin.len();
        let mut file = b"glTF\x02\0\0\0".to_vec();
        file.extend((total as u32).to_le_bytes());
        for (kind, bytes) in [(b"JSON", &text), (b"BIN\0", &self.bin)] {
            file.extend((bytes.len() as u32).to_le_bytes());
            file.extend(kind);
            file.extend(bytes);
        }
        file
    }

    fn read(&self) -> Splats {
        read_as(&self.glb(), "a.glb")
    }
}

fn named(name: &str) -> String {
    format!("KHR_gaussian_splatting:{name}")
}

fn some(degree: usize) -> Vec<Raw> {
    (0..30).map(|seed| raw(seed, degree)).collect()
}

/// What the PLY of these splats holds.
fn of_ply(all: &[Raw], degree: usize) -> Cloud {
    let rows: Vec<Vec<f32>> = all.iter().map(|raw| row(raw, 3)).collect();
    read_as(
        &ply("binary_little_endian", &names(degree, 3), &rows),
        "a.ply",
    )
    .cloud
}

#[test]
fn a_gltf_has_the_splats_of_its_ply() {
    let plain = Origin::Gltf {
        linear: false,
        solid: false,
    };
    for degree in 0..=3 {
        let all = some(degree);
        let file = Gltf::of(&all, degree);
        let splats = file.read();
        assert_eq!(splats.origin, plain);
        assert_alike(&splats.cloud, &of_ply(&all, degree), 2e-6);
        // As text, with its numbers beside it.
        let mut text = file.clone();
        text.json["buffers"][0]["uri"] = json!("a%20b.bin");
        let beside = Memory(vec![("folder/a b.bin".to_owned(), file.bin.clone())]);
        let text = text.json.to_string();
        for text in [text.clone(), format!("\u{feff} {text}")] {
            let found = read_beside(text.as_bytes(), "folder/a.gltf", &beside);
            assert_eq!(found, Some(Ok(splats.clone())));
        }
        let absent = read(text.as_bytes(), "a.gltf").expect("a glTF");
        let line = absent.expect_err("no numbers").to_string();
        assert!(line.contains("file a b.bin: no such file"), "{line}");
    }
}

#[test]
fn integers_are_shares() {
    let all = some(0);
    let mut file = Gltf::of(&all, 0);
    let signed = |x: f32| ((x * 127.0).round() as i8).to_le_bytes()[0];
    let turns: Vec<u8> = (all.iter())
        .flat_map(|raw| {
            let [w, x, y, z] = unit(raw.rotation);
            [x, y, z, w].map(signed)
        })
        .collect();
    let opacity = |raw: &Raw| bits(1.0 / (1.0 + (-raw.logit).exp()), 16) as u16;
    let opacities: Vec<u8> = all
        .iter()
        .flat_map(|raw| opacity(raw).to_le_bytes())
        .collect();
    let scales: Vec<u8> = (all.iter())
        .flat_map(|raw| raw.logs.map(|log| bits(log.exp(), 16) as u16))
        .flat_map(u16::to_le_bytes)
        .chain([0; 2])
        .collect();
    let turns = file.accessor(("VEC4", 5120), 30, &turns);
    let opacities = file.accessor(("SCALAR", 5123), 30, &opacities);
    let scales = file.accessor(("VEC3", 5123), 30, &scales);
    for (name, accessor) in [
        ("ROTATION", turns),
        ("OPACITY", opacities),
        ("SCALE", scales),
    ] {
        file.put(&format!("{ATTRIBUTES}/{}", named(name)), json!(accessor));
    }
    assert_alike(&file.read().cloud, &of_ply(&all, 0), 0.02);
}

/// A camera at the origin, or where a node moves it: `[scale, rotation by columns, translation]`.
fn camera(node: Option<(f32, [[f32; 3]; 3], [f32; 3])>) -> View {
    let (scale, [x, y, z], shift) = node.unwrap_or((
        1.0,
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [0.0; 3],
    ));
    // Points are seen as s · (Rᵀ (p - t) / s + (0, 0, 4)): pictures are the same.
    let rotation = [x, y, z];
    let dot = |row: [f32; 3]| row[0] * shift[0] + row[1] * shift[1] + row[2] * shift[2];
    let [a, b, c] = rotation.map(|row| -dot(row));
    View {
        rotation,
        translation: [a, b, c + 4.0 * scale],
        focal: [60.0; 2],
        centre: [32.0; 2],
        size: [64; 2],
    }
}

#[test]
fn nodes_move_turn_and_scale_centres_axes_and_harmonics() {
    let all: Vec<Raw> = (0..30)
        .map(|seed| {
            let mut raw = raw(seed, 3);
            raw.logs = raw.logs.map(|log| log + 2.0);
            raw.logit += 2.0;
            raw
        })
        .collect();
    let wanted = draw(&of_ply(&all, 3), &camera(None), Filter::Classic(0.3), 3);
    // A turn by the quaternion (x, y, z, w) = (0.48, -0.36, 0, 0.8), of matrix [X Y Z] by columns.
    let (x, y, w) = (0.48_f32, -0.36, 0.8);
    let axes = [
        [1.0 - 2.0 * y * y, 2.0 * x * y, -2.0 * y * w],
        [2.0 * x * y, 1.0 - 2.0 * x * x, 2.0 * x * w],
        [2.0 * y * w, -2.0 * x * w, 1.0 - 2.0 * (x * x + y * y)],
    ];
    let (scale, shift) = (2.5_f32, [3.0_f32, -1.0, 0.5]);
    let matrix: Vec<f32> = (axes.iter())
        .flat_map(|axis| axis.map(|k| k * scale).into_iter().chain([0.0]))
        .chain(shift)
        .chain([1.0])
        .collect();
    let nodes = [
        json!([{"mesh": 0, "matrix": matrix}]),
        json!([{"mesh": 0, "rotation": [x, y, 0, w], "scale": [scale, scale, scale], "translation": shift}]),
        json!([{"translation": shift, "children": [1]}, {"rotation": [x, y, 0, w], "children": [2]},
            {"mesh": 0, "scale": [scale, scale, scale]}]),
    ];
    for nodes in nodes {
        let mut file = Gltf::of(&all, 3);
        file.json["nodes"] = nodes;
        let cloud = file.read().cloud;
        let view = camera(Some((scale, axes, shift)));
        let found = draw(&cloud, &view, Filter::Classic(0.3), 3);
        let pairs = found
            .colour
            .as_flattened()
            .iter()
            .zip(wanted.colour.as_flattened());
        let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 0.01, "{worst} off: {}", file.json["nodes"]);
    }
    assert!(wanted.alpha.iter().filter(|alpha| **alpha > 0.5).count() > 100);
}

#[test]
fn all_places_and_primitives_of_the_scene_are_joined() {
    let (first, second) = (some(2), some(0));
    let mut file = Gltf::of(&first, 2);
    file.add(&second, 0);
    file.json["nodes"] =
        json!([{"mesh": 0, "children": [1]}, {"mesh": 0, "translation": [9, 0, 0]}, {"mesh": 0}]);
    let cloud = file.read().cloud;
    assert_eq!((cloud.len(), cloud.degree), (120, 2));
    assert_eq!(cloud.harmonics[30 * 8..][..30 * 8], [[0.0; 3]; 240]);
    assert!((cloud.positions[60][0] - cloud.positions[0][0] - 9.0).abs() < 1e-5);
    // What has no splats is left out, and told where it is solid.
    for (mode, solid) in [(0, false), (1, false), (4, true), (5, true)] {
        let mut file = file.clone();
        let triangle = file.floats(
            "VEC3",
            &[vec![0.0; 3], vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0]],
        );
        let primitive = json!({"mode": mode, "attributes": {"POSITION": triangle}});
        file.json["meshes"][0]["primitives"][1] = primitive;
        let splats = file.read();
        let linear = false;
        assert_eq!(
            (splats.cloud.len(), splats.origin),
            (60, Origin::Gltf { linear, solid })
        );
        // A mesh stays a mesh.
        let files = Memory::default();
        let folder = Folder::new(&files, Root::Mesh);
        let mesh = load::read_bytes(&file.glb(), "a.glb", &folder, Wanted::default(), &Silent);
        assert_eq!(mesh.is_ok_and(|(mesh, _)| mesh.triangles.len() == 2), solid);
        let views = SplatViews::read(&file.glb(), "a.glb", &folder, &SplatOptions::default());
        let surface = views.expect("splats").surface("a.glb", &Silent);
        let line = surface.err().map(|failure| failure.message);
        let refused =
            line.is_some_and(|line| line.starts_with("a.glb: holds triangles beside its splats"));
        assert_eq!(refused, solid);
    }
    // Other glTFs are none of splats.
    for (place, value) in [
        ("/meshes/0/primitives", json!([])),
        ("/scenes/0/nodes", json!([])),
        ("/meshes/0/primitives/0/extensions", json!({})),
    ] {
        let mut file = Gltf::of(&first, 2);
        file.put(place, value);
        assert_eq!(read(&file.glb(), "a.glb"), None, "{place}");
    }
}

#[test]
fn linear_colours_are_encoded_once_they_are_blended() {
    let mut file = Gltf::of(&some(1), 1);
    let files = Memory::default();
    let folder = Folder::new(&files, Root::Views);
    let [display, linear] = ["srgb", "lin"].map(|space| {
        file.put(
            &format!("{STYLE}/colorSpace"),
            json!(format!("{space}_rec709_display")),
        );
        let views = SplatViews::read(&file.glb(), "a.glb", &folder, &SplatOptions::default());
        views.expect("splats").draw(0).pixels
    });
    let mut bright = 0;
    for (display, linear) in display.iter().zip(&linear) {
        assert_eq!(display[3], linear[3]);
        for (light, found) in display.iter().zip(linear).take(3).filter(|(x, _)| **x > 40) {
            let wanted = 255.0 * crate::image::render::srgb::encode(f32::from(*light) / 255.0);
            assert!(
                (f32::from(*found) - wanted).abs() <= 2.0,
                "{found} for {light}"
            );
            bright += 1;
        }
    }
    assert!(bright > 100, "{bright}");
}

/// The line that refuses a file.
fn refusal(bytes: &[u8]) -> String {
    let refused = read(bytes, "a.glb").expect("a glTF of splats");
    let line = refused.expect_err("a refusal").to_string();
    assert!(
        line.len() < 300 && !line.chars().any(char::is_control),
        "{line}"
    );
    line
}

#[test]
fn what_is_meant_otherwise_is_refused_in_one_line() {
    let whole = Gltf::of(&some(2), 2);
    let scaled = |by: [f64; 3]| json!({"mesh": 0, "scale": by});
    let places = json!({"mesh": 0, "extensions": {"EXT_mesh_gpu_instancing": {"attributes": {}}}});
    let sheared =
        json!({"mesh": 0, "matrix": [1, 0, 0, 0, 0.6, 0.8, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]});
    let packed =
        json!({"extensions": {"KHR_gaussian_splatting_compression_spz_2": {"bufferView": 0}}});
    let of_primitive = "mesh 0, primitive 0";
    let style = |key: &str| format!("{STYLE}/{key}");
    let attribute = |name: &str| format!("{ATTRIBUTES}/{}", named(name));
    let long = format!("\u{1}{}", "x".repeat(10_000));
    let changes = [
        (
            style("kernel"),
            json!("box"),
            ": has the kernel box: ellipse is read",
        ),
        (style("kernel"), json!(long), ": has the kernel \u{fffd}xxx"),
        (
            style("kernel"),
            json!(null),
            ": KHR_gaussian_splatting has no kernel",
        ),
        (
            style("colorSpace"),
            json!("aces"),
            ": has the colorSpace aces: srgb_rec709_display and",
        ),
        (
            style("colorSpace"),
            json!(null),
            ": KHR_gaussian_splatting has no colorSpace",
        ),
        (
            style("projection"),
            json!("fish"),
            ": has the projection fish: perspective is read",
        ),
        (
            "/meshes/0/primitives/0/mode".to_owned(),
            json!(4),
            ": its splats are no points",
        ),
        (
            "/meshes/0/primitives/0/indices".to_owned(),
            json!(0),
            ": its splats have indices",
        ),
        (
            "/meshes/0/primitives/0/targets".to_owned(),
            json!([{}]),
            ": its splats have indices or morph",
        ),
        (
            attribute("ROTATION"),
            json!(99),
            ": accessor 99 of 13 is used",
        ),
        (
            attribute("ROTATION"),
            json!(0),
            ": accessor 0 is VEC3 of floats, where VEC4",
        ),
        (
            attribute("OPACITY"),
            json!(0),
            ": accessor 0 is VEC3 of floats, where SCALAR",
        ),
        (
            "/accessors/2/count".to_owned(),
            json!(29),
            " has 29 KHR_gaussian_splatting:SCALE for 30 vertices",
        ),
        (
            "/accessors/0/count".to_owned(),
            json!(9_000_000_000_u64),
            ": accessor 0 reaches past the end",
        ),
        (
            "/bufferViews/0/byteOffset".to_owned(),
            json!(u64::MAX),
            ": accessor 0: buffer view 0 reaches past",
        ),
        (
            "/buffers/0/byteLength".to_owned(),
            json!(1_u64 << 40),
            ": accessor 0: buffer 0 ends early",
        ),
    ];
    for (place, value, wanted) in changes {
        let mut file = whole.clone();
        file.put(&place, value);
        let line = refusal(&file.glb());
        assert!(
            line.starts_with(&format!("{of_primitive}{wanted}")),
            "{line} for {wanted}"
        );
    }
    for name in [
        "ROTATION",
        "SCALE",
        "OPACITY",
        "SH_DEGREE_0_COEF_0",
        "SH_DEGREE_1_COEF_0",
        "SH_DEGREE_2_COEF_4",
    ] {
        let mut file = whole.clone();
        let attributes = file
            .json
            .pointer_mut(ATTRIBUTES)
            .and_then(Value::as_object_mut);
        attributes.expect("attributes").remove(&named(name));
        let line = refusal(&file.glb());
        let wanted = match name.starts_with("SH_DEGREE_0") || !name.starts_with("SH") {
            true => format!("{of_primitive} has no {}", named(name)),
            false => format!(
                "{of_primitive}: has a part of the coefficients of degree {}",
                &name[10..11]
            ),
        };
        assert!(line.starts_with(&wanted), "{line}");
    }
    let even = "node 0 mirrors, shears or stretches its splats";
    for (node, wanted) in [
        (scaled([1.0, 1.0, -1.0]), even),
        (scaled([-1.0; 3]), even),
        (scaled([1.0, 1.0, 1.01]), even),
        (scaled([0.0; 3]), even),
        (scaled([1e300; 3]), even),
        (sheared, even),
        (
            places,
            "node 0 has splats with a skin or EXT_mesh_gpu_instancing",
        ),
    ] {
        let mut file = whole.clone();
        file.json["nodes"][0] = node;
        let line = refusal(&file.glb());
        assert!(line.starts_with(wanted), "{line}");
    }
    // Packed splats have no bytes of their own; where they have, those are read.
    let mut file = whole.clone();
    file.put(&style("extensions"), packed["extensions"].clone());
    assert_eq!(file.read().cloud.len(), 30);
    file.json["accessors"][0] = json!({"componentType": 5126, "count": 30, "type": "VEC3"});
    let line = refusal(&file.glb());
    assert!(
        line.contains("are packed (KHR_gaussian_splatting_compression_spz_2)"),
        "{line}"
    );
    let mut file = whole.clone();
    file.json["extensionsRequired"] = json!(["KHR_draco_mesh_compression"]);
    assert!(refusal(&file.glb()).starts_with("requires the extension KHR_draco"));
    file.json["extensionsRequired"] = json!(["\u{1b}[2J"]);
    assert!(refusal(&file.glb()).starts_with("requires the extension \u{fffd}[2J"));
    let mut file = Gltf::of(&some(0), 0);
    file.add(&some(0), 0);
    file.put(
        "/meshes/0/primitives/1/extensions/KHR_gaussian_splatting/colorSpace",
        json!("lin_rec709_display"),
    );
    assert!(refusal(&file.glb()).starts_with("mesh 0, primitive 1: has another colorSpace"));
}

#[test]
fn a_hostile_gltf_takes_neither_memory_nor_the_process() {
    let all = some(1);
    let whole = Gltf::of(&all, 1);
    let bytes = whole.glb();
    for end in 0..bytes.len() {
        assert!(
            read(&bytes[..end], "a.glb").is_some_and(|read| read.is_err()),
            "{end}"
        );
    }
    assert!(read(b"<html>", "a.gltf").is_some_and(|read| read.is_err()));
    // Numbers without a meaning: a centre, a scale, an opacity and a rotation.
    let mut file = whole.clone();
    let put = |file: &mut Gltf, accessor: usize, at: usize, number: f32| {
        let start = file.json["bufferViews"][accessor]["byteOffset"]
            .as_u64()
            .expect("a number");
        file.bin[start as usize + at..][..4].copy_from_slice(&number.to_le_bytes());
    };
    put(&mut file, 0, 0, f32::NAN);
    put(&mut file, 2, 12, -1.0);
    put(&mut file, 3, 8, 1.5);
    put(&mut file, 5, 36, f32::INFINITY);
    (0..4).for_each(|k| put(&mut file, 1, 4 * 16 + 4 * k, 0.0));
    let splats = file.read();
    assert_eq!((splats.cloud.len(), splats.dropped.meaningless), (25, 5));
    file.bin.fill(0xff);
    assert_eq!(read(&file.glb(), "a.glb"), Some(Err(SplatError::Empty(30))));
    // Many nodes place few splats, and many splats have no bytes.
    let mut file = whole.clone();
    let count = 300_000;
    file.json["nodes"] = json!(vec![json!({"mesh": 0}); count]);
    file.json["scenes"][0]["nodes"] = json!((0..count).collect::<Vec<_>>());
    let line = refusal(&file.glb());
    assert!(
        line.starts_with("has 8388630 splats, more than the 8388608"),
        "{line}"
    );
    let mut file = whole.clone();
    for accessor in file.list("accessors") {
        accessor["count"] = json!(100_000_000);
        accessor
            .as_object_mut()
            .expect("an accessor")
            .remove("bufferView");
    }
    assert!(
        refusal(&file.glb()).contains("accessor 0 has 100000000 elements and no bytes for them")
    );
    let mut file = whole;
    file.json["nodes"] = json!([{"mesh": 0, "children": [0]}]);
    assert!(refusal(&file.glb()).starts_with("node 0 is part of a cycle"));
}
