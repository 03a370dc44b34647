//! Gaussian splats as a PLY of the reference code, and as a GLB: round ones, nearly opaque.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::shapes::icosphere;

/// One splat.
#[derive(Clone, Copy, Debug)]
pub struct Splat {
    /// Centre.
    pub at: [f32; 3],
    /// Standard deviation.
    pub scale: f32,
    /// Constant coefficient of each channel: the colour is `0.5 + 0.2821 · constant`.
    pub constant: [f32; 3],
}

/// The bytes of a little-endian PLY with harmonics of a degree, each of them `shine`.
pub fn ply(splats: &[Splat], degree: u32, shine: f32) -> Vec<u8> {
    let rest = 3 * ((degree + 1).pow(2) - 1);
    let mut names = ["x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2"]
        .map(str::to_owned)
        .to_vec();
    names.extend((0..rest).map(|k| format!("f_rest_{k}")));
    let others = "opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3";
    names.extend(others.split(' ').map(str::to_owned));
    let properties: Vec<String> = names
        .iter()
        .map(|name| format!("property float {name}\n"))
        .collect();
    let header = format!(
        "ply\nformat binary_little_endian 1.0\nelement vertex {}\n{}end_header\n",
        splats.len(),
        properties.concat()
    );
    let mut bytes = header.into_bytes();
    for splat in splats {
        let log = splat.scale.ln();
        let shine = (0..rest).map(|_| shine);
        let others = [3.0, log, log, log, 1.0, 0.0, 0.0, 0.0];
        let row = (splat.at.into_iter().chain(splat.constant))
            .chain(shine)
            .chain(others);
        bytes.extend(row.flat_map(f32::to_le_bytes));
    }
    bytes
}

/// The bytes of a GLB with `KHR_gaussian_splatting`, of the same splats as [`ply`] writes without `shine`. Its node has them
/// turned by half about x, and its primitive has them turned back.
pub fn glb(splats: &[Splat]) -> Vec<u8> {
    let opacity = 1.0 / (1.0 + (-3.0_f32).exp());
    let turned = |[x, y, z]: [f32; 3]| [x, -y, -z];
    let lists: [(&str, &str, Vec<f32>); 5] = [
        (
            "POSITION",
            "VEC3",
            splats.iter().flat_map(|splat| turned(splat.at)).collect(),
        ),
        (
            "ROTATION",
            "VEC4",
            [1.0, 0.0, 0.0, 0.0].repeat(splats.len()),
        ),
        (
            "SCALE",
            "VEC3",
            splats.iter().flat_map(|splat| [splat.scale; 3]).collect(),
        ),
        ("OPACITY", "SCALAR", vec![opacity; splats.len()]),
        (
            "SH_DEGREE_0_COEF_0",
            "VEC3",
            splats.iter().flat_map(|splat| splat.constant).collect(),
        ),
    ];
    let mut bin: Vec<u8> = Vec::new();
    let (mut views, mut accessors, mut attributes) = (Vec::new(), Vec::new(), json!({}));
    for (number, (name, kind, numbers)) in lists.into_iter().enumerate() {
        let (at, length) = (bin.len(), 4 * numbers.len());
        views.push(json!({"buffer": 0, "byteOffset": at, "byteLength": length}));
        accessors.push(json!({"bufferView": number, "componentType": 5126, "type": kind, "count": splats.len()}));
        let name = match name {
            "POSITION" => name.to_owned(),
            _ => format!("KHR_gaussian_splatting:{name}"),
        };
        attributes[name] = json!(number);
        bin.extend(numbers.into_iter().flat_map(f32::to_le_bytes));
    }
    let style = json!({"kernel": "ellipse", "colorSpace": "srgb_rec709_display"});
    let primitive = json!({"mode": 0, "attributes": attributes, "extensions": {"KHR_gaussian_splatting": style}});
    let json = json!({
        "asset": {"version": "2.0"}, "extensionsUsed": ["KHR_gaussian_splatting"],
        "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0, "rotation": [1, 0, 0, 0]}],
        "meshes": [{"primitives": [primitive]}], "accessors": accessors, "bufferViews": views,
        "buffers": [{"byteLength": bin.len()}],
    });
    let mut json = json.to_string().into_bytes();
    json.resize(json.len().next_multiple_of(4), b' ');
    let word = |number: usize| (number as u32).to_le_bytes();
    let total = 12 + 8 + json.len() + 8 + bin.len();
    let head = [
        &b"glTF"[..],
        &word(2),
        &word(total),
        &word(json.len()),
        b"JSON",
    ]
    .concat();
    [head, json, word(bin.len()).to_vec(), b"BIN\0".to_vec(), bin].concat()
}

/// Writes a spindle, and splats on it that are coloured by their place, into `folder`. Returns both files.
pub fn write(folder: &Path) -> [PathBuf; 2] {
    let splat = |at: [f32; 3]| Splat {
        at,
        scale: 0.03,
        constant: at.map(|along| 1.5 * (4.0 * along).sin()),
    };
    let spindle = |times: u32| icosphere(times).map(|[x, y, z]| [x, 0.4 * y, 0.3 * z]);
    let splats: Vec<Splat> = spindle(4).positions.into_iter().map(splat).collect();
    let files = ["spindle.ply", "splats.ply"].map(|name| folder.join(name));
    let bytes = [spindle(3).ply(), ply(&splats, 0, 0.0)];
    for (file, bytes) in files.iter().zip(bytes) {
        fs::write(file, bytes).expect("room");
    }
    files
}
