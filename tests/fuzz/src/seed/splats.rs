//! Files of four splats, for the target [`splats`].
//!
//! [`splats`]: crate::targets::splats

use serde_json::json;

use super::Seed;
use super::mesh::{base64, document, glb, pack};

pub(super) fn add(seeds: &mut Vec<Seed>) {
    let mut add = |name: &str, form: u8, file: &[u8]| {
        let name = match name.starts_with("refused") {
            true => name.to_owned(),
            false => format!("made-{name}"),
        };
        seeds.push(("splats", name, [&[form], file].concat()));
    };
    for (name, degree) in [("plain", 0_usize), ("shiny", 1)] {
        add(name, 0, &binary(degree));
    }
    add("text", 0, text().as_bytes());
    add("packed", 0, &packed());
    add("dense", 2, &dense());
    add("spz-4", 1, &spz(None));
    add("refused-bomb.spz", 1, &spz(Some(bomb())));
    let (mut json, bin) = gltf();
    add("khr.glb", 5, &glb(&json, &bin));
    let uri = format!("data:application/octet-stream;base64,{}", base64(&bin));
    json["buffers"][0]["uri"] = json!(uri);
    json["nodes"] = json!([{"mesh": 0, "rotation": [0, 0.6, 0, 0.8], "scale": [2, 2, 2]}]);
    add("khr.gltf", 6, json.to_string().as_bytes());
    json["nodes"] = json!([{"mesh": 0, "scale": [-1, 1, 1]}]);
    add("refused-mirrored.gltf", 6, json.to_string().as_bytes());
}

/// Place of splat `k` along an axis.
fn along(k: usize, axis: usize) -> f32 {
    ((k * 7 + axis * 3) % 5) as f32 - 2.0
}

fn header(format: &str, rest: usize) -> String {
    let mut names = ["x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2"]
        .map(str::to_owned)
        .to_vec();
    names.extend((0..rest).map(|k| format!("f_rest_{k}")));
    let others = "opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3";
    names.extend(others.split(' ').map(str::to_owned));
    let names: Vec<String> = names
        .iter()
        .map(|name| format!("property float {name}\n"))
        .collect();
    format!(
        "ply\nformat {format} 1.0\nelement vertex 4\n{}end_header\n",
        names.concat()
    )
}

fn row(k: usize, rest: usize) -> Vec<f32> {
    let mut row: Vec<f32> = (0..3).map(|axis| along(k, axis)).collect();
    row.extend((0..3 + rest).map(|n| along(k, n) / 4.0));
    row.extend([1.5, -1.0, -2.0, -3.0, 1.0, 0.5, 0.25, 0.0]);
    row
}

fn binary(degree: usize) -> Vec<u8> {
    let rest = 3 * ((degree + 1).pow(2) - 1);
    let mut file = header("binary_little_endian", rest).into_bytes();
    file.extend((0..4).flat_map(|k| row(k, rest)).flat_map(f32::to_le_bytes));
    file
}

fn text() -> String {
    let rows = (0..4).map(|k| {
        let numbers: Vec<String> = row(k, 0).iter().map(f32::to_string).collect();
        numbers.join(" ") + "\n"
    });
    header("ascii", 0) + &rows.collect::<String>()
}

/// One chunk of `PlayCanvas`' compressed layout.
fn packed() -> Vec<u8> {
    let mut header = "ply\nformat binary_little_endian 1.0\nelement chunk 1\n".to_owned();
    for bound in ["min", "max"] {
        for name in ["x", "y", "z", "scale_x", "scale_y", "scale_z"] {
            header += &format!("property float {bound}_{name}\n");
        }
    }
    header += "element vertex 4\n";
    for name in ["position", "rotation", "scale", "color"] {
        header += &format!("property uint packed_{name}\n");
    }
    let mut file = (header + "end_header\n").into_bytes();
    let chunk = [
        -1.0_f32, -1.0, -1.0, -4.0, -4.0, -4.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0,
    ];
    file.extend(chunk.into_iter().flat_map(f32::to_le_bytes));
    let words = (0..16_u32).map(|k| k.wrapping_mul(0x9e37_79b9) | 0xff);
    file.extend(words.flat_map(u32::to_le_bytes));
    file
}

fn dense() -> Vec<u8> {
    let splat = |k: usize| {
        let floats = (0..3).map(|axis| along(k, axis)).chain([0.3, 0.2, 0.1]);
        let mut bytes: Vec<u8> = floats.flat_map(f32::to_le_bytes).collect();
        bytes.extend([200, 100, 50, 220, 255, 128, 100, 90]);
        bytes
    };
    (0..4).flat_map(splat).collect()
}

/// A Zstandard frame of 32 KiB that unpacks to a gibibyte: blocks that repeat one byte.
fn bomb() -> Vec<u8> {
    const BLOCKS: usize = 1 << 13;
    let block = |k: usize| {
        let is_last = u32::from(k + 1 == BLOCKS);
        let [a, b, c, _] = (1_u32 << 20 | 1 << 1 | is_last).to_le_bytes();
        [a, b, c, 7]
    };
    let head = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    head.into_iter()
        .chain((0..BLOCKS).flat_map(block))
        .collect()
}

/// Version 4, of degree 1: each list in a Zstandard frame of one raw block, or the first in this one.
fn spz(first: Option<Vec<u8>>) -> Vec<u8> {
    let list = |width: usize| -> Vec<u8> { (0..4 * width).map(|k| (k * 37 % 251) as u8).collect() };
    let lists = [9, 1, 3, 3, 4, 9].map(list);
    let frame = |list: &Vec<u8>| {
        let length = list.len() as u8;
        let size = u32::from(length) << 3 | 1;
        let head = [0x28, 0xb5, 0x2f, 0xfd, 0x20, length];
        [&head[..], &size.to_le_bytes()[..3], list].concat()
    };
    let mut frames: Vec<Vec<u8>> = lists.iter().map(frame).collect();
    if let Some(first) = first {
        frames[0] = first;
    }
    let mut file = b"NGSP\x04\0\0\0\x04\0\0\0\x01\x0c\x01\x06\x20\0\0\0".to_vec();
    file.resize(32, 0);
    for (frame, list) in frames.iter().zip(&lists) {
        let sizes = [frame.len() as u64, list.len() as u64];
        file.extend(sizes.map(u64::to_le_bytes).concat());
    }
    file.extend(frames.concat());
    file
}

/// `KHR_gaussian_splatting` of degree 1; coefficients share an accessor.
fn gltf() -> (serde_json::Value, Vec<u8>) {
    let rows = |width: usize, start: f32| -> Vec<u8> {
        let numbers = (0..4 * width).map(|k| start + along(k, 1) / 8.0);
        numbers.flat_map(f32::to_le_bytes).collect()
    };
    let turns: Vec<u8> = [3_i8, 40, -80, 88]
        .repeat(4)
        .into_iter()
        .flat_map(i8::to_le_bytes)
        .collect();
    let parts = [rows(3, 0.0), turns, rows(3, 0.5), vec![200; 4]];
    let (views, bin) = pack(&[&parts[0], &parts[1], &parts[2], &parts[3]]);
    let accessors = json!([
        {"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3"},
        {"bufferView": 1, "componentType": 5120, "normalized": true, "count": 4, "type": "VEC4"},
        {"bufferView": 2, "componentType": 5126, "count": 4, "type": "VEC3"},
        {"bufferView": 3, "componentType": 5121, "normalized": true, "count": 4, "type": "SCALAR"},
    ]);
    let named = |name: &str| format!("KHR_gaussian_splatting:{name}");
    let primitive = json!({
        "mode": 0,
        "attributes": {
            "POSITION": 0, named("ROTATION"): 1, named("SCALE"): 2, named("OPACITY"): 3,
            named("SH_DEGREE_0_COEF_0"): 0, named("SH_DEGREE_1_COEF_0"): 0,
            named("SH_DEGREE_1_COEF_1"): 2, named("SH_DEGREE_1_COEF_2"): 0,
        },
        "extensions": {"KHR_gaussian_splatting": {"kernel": "ellipse", "colorSpace": "srgb_rec709_display"}},
    });
    let mut json = document(&primitive, &accessors, &views, bin.len());
    json["extensionsUsed"] = json!(["KHR_gaussian_splatting"]);
    (json, bin)
}
