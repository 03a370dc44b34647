//! A patch of the sample's mesh as glTF in every supported encoding, as PLY and as OBJ.

use serde_json::{Value, json};

use super::Seed;
use crate::targets::mesh::load;

const SAMPLE: &[u8] = include_bytes!("../../../data/spot/mesh_uv.glb");
const TRIANGLES: usize = 8;

/// The first few triangles.
struct Patch {
    positions: Vec<[f32; 3]>,
    uvs: Vec<[f32; 2]>,
    corners: Vec<u32>,
}

pub(super) fn add(seeds: &mut Vec<Seed>) {
    let patch = patch();
    for (name, bytes) in gltfs(&patch) {
        seeds.push(("gltf", format!("made-{name}"), bytes));
    }
    for (name, bytes) in plys(&patch) {
        seeds.push(("ply", format!("made-{name}"), bytes));
    }
    seeds.push(("obj", "made-patch".to_owned(), obj(&patch)));
    let odd = "# odd\nmtllib a.mtl\nv 0 0 0\nv 1 0 0 1.0\nv 1 1 \\\n 0\nv 0 1 -0.5e0\nvt 0.5\nvt 0 1 0\nvn 0 0 1\n\
               s off\nf -4/-1/1 2/1 3//1 4 # quad\r\nl 1 2\nf 1/1/1 2/2/1 3/1\n";
    seeds.push(("obj", "made-odd".to_owned(), odd.into()));
}

fn patch() -> Patch {
    let (raw, _) = load(SAMPLE, "sample.glb").expect("the sample is good");
    let uvs = raw.uvs.expect("it has texture coordinates");
    let mut used: Vec<u32> = Vec::new();
    let mut corners = Vec::new();
    for &vertex in raw.triangles.iter().take(TRIANGLES).flatten() {
        let known = used.iter().position(|&known| known == vertex);
        let place = known.unwrap_or_else(|| {
            used.push(vertex);
            used.len() - 1
        });
        corners.push(place as u32);
    }
    Patch {
        positions: used.iter().map(|&v| raw.positions[v as usize]).collect(),
        uvs: used.iter().map(|&v| uvs[v as usize]).collect(),
        corners,
    }
}

fn bytes<const N: usize>(rows: &[[f32; N]]) -> Vec<u8> {
    rows.iter()
        .flatten()
        .flat_map(|x| x.to_le_bytes())
        .collect()
}

fn shorts(numbers: &[u32]) -> Vec<u8> {
    let short = |&number: &u32| (number as u16).to_le_bytes();
    numbers.iter().flat_map(short).collect()
}

/// Each as a whole file.
fn gltfs(patch: &Patch) -> Vec<(&'static str, Vec<u8>)> {
    let (points, corners) = (patch.positions.len(), patch.corners.len());
    let (positions, uvs) = (bytes(&patch.positions), bytes(&patch.uvs));
    let indices = shorts(&patch.corners);
    let accessors = json!([
        {"bufferView": 0, "componentType": 5126, "count": points, "type": "VEC3"},
        {"bufferView": 1, "componentType": 5126, "count": points, "type": "VEC2"},
        {"bufferView": 2, "componentType": 5123, "count": corners, "type": "SCALAR"},
    ]);
    let primitive = json!({"attributes": {"POSITION": 0, "TEXCOORD_0": 1}, "indices": 2});
    let parts: [&[u8]; 3] = [&positions, &uvs, &indices];
    let (views, bin) = pack(&parts);

    let mut plain = document(&primitive, &accessors, &views, bin.len());
    let mut files = vec![("plain.glb", glb(&plain, &bin))];

    plain["buffers"][0]["uri"] = json!(format!(
        "data:application/octet-stream;base64,{}",
        base64(&bin)
    ));
    files.push(("uri.gltf", plain.to_string().into_bytes()));
    plain["buffers"][0]["uri"] = json!("folder%20of/itself.bin");
    files.push(("file.gltf", plain.to_string().into_bytes()));

    let mut strip = document(
        &json!({"attributes": {"POSITION": 0}, "mode": 5}),
        &accessors,
        &views,
        bin.len(),
    );
    strip["nodes"] = json!([
        {"children": [1, 2], "scale": [-1, 1, 1]},
        {"mesh": 0, "matrix": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 5, 0, 0, 1]},
        {"mesh": 0, "rotation": [0, 0, 1, 0], "translation": [0, 1, 0], "skin": 0},
    ]);
    strip["skins"] = json!([{"joints": [0]}]);
    files.push(("strip.glb", glb(&strip, &bin)));

    let mut fan = strip;
    fan["meshes"][0]["primitives"][0]["mode"] = json!(6);
    fan["accessors"][0]["sparse"] = json!({"count": 3,
        "indices": {"bufferView": 2, "componentType": 5123}, "values": {"bufferView": 0}});
    files.push(("sparse.glb", glb(&fan, &bin)));

    files.push(("quantised.glb", quantised(patch)));
    files.push(("meshopt.glb", compressed(patch, &accessors, &primitive)));
    files
}

fn quantised(patch: &Patch) -> Vec<u8> {
    let short = |x: f32| ((x.clamp(-1.0, 1.0) * 32_767.0) as i16).to_le_bytes();
    let place =
        |point: &[f32; 3]| [short(point[0]), short(point[1]), short(point[2]), [0; 2]].concat();
    let positions: Vec<u8> = patch.positions.iter().flat_map(place).collect();
    let indices: Vec<u8> = patch.corners.iter().map(|&corner| corner as u8).collect();
    let accessors = json!([
        {"bufferView": 0, "componentType": 5122, "normalized": true, "count": patch.positions.len(), "type": "VEC3"},
        {"bufferView": 1, "componentType": 5121, "count": indices.len(), "type": "SCALAR"},
    ]);
    let primitive = json!({"attributes": {"POSITION": 0}, "indices": 1});
    let (mut views, bin) = pack(&[&positions, &indices]);
    views[0]["byteStride"] = json!(8);
    let mut file = document(&primitive, &accessors, &views, bin.len());
    file["extensionsRequired"] = json!(["KHR_mesh_quantization"]);
    glb(&file, &bin)
}

fn compressed(patch: &Patch, accessors: &Value, primitive: &Value) -> Vec<u8> {
    let vertices = meshopt::encode_vertex_buffer(&patch.positions).expect("it encodes");
    let uvs = meshopt::encode_vertex_buffer(&patch.uvs).expect("it encodes");
    let indices = meshopt::encode_index_buffer(&patch.corners, patch.positions.len());
    let indices = indices.expect("it encodes");
    let parts: [&[u8]; 3] = [&vertices, &uvs, &indices];
    let (packed, bin) = pack(&parts);
    let count = patch.positions.len();
    let kinds = [
        ("ATTRIBUTES", 12, count),
        ("ATTRIBUTES", 8, count),
        ("TRIANGLES", 4, patch.corners.len()),
    ];
    let view = |(part, (mode, stride, count)): (&Value, (&str, usize, usize))| {
        json!({"buffer": 1, "byteLength": count * stride, "extensions": {"EXT_meshopt_compression": {
            "buffer": 0, "byteOffset": part["byteOffset"], "byteLength": part["byteLength"],
            "mode": mode, "byteStride": stride, "count": count}}})
    };
    let views: Vec<Value> = packed
        .as_array()
        .into_iter()
        .flatten()
        .zip(kinds)
        .map(view)
        .collect();
    let mut accessors = accessors.clone();
    accessors[2]["componentType"] = json!(5125);
    let mut file = document(primitive, &accessors, &json!(views), bin.len());
    file["extensionsRequired"] = json!(["EXT_meshopt_compression"]);
    // The target of decompression; it has no bytes of its own.
    file["buffers"] = json!([{"byteLength": bin.len()}, {"byteLength": 1 << 20}]);
    glb(&file, &bin)
}

/// Buffer views of the concatenated parts, and the binary chunk.
pub(super) fn pack(parts: &[&[u8]]) -> (Value, Vec<u8>) {
    let mut bin = Vec::new();
    let mut views = Vec::new();
    for part in parts {
        views.push(json!({"buffer": 0, "byteOffset": bin.len(), "byteLength": part.len()}));
        bin.extend_from_slice(part);
        bin.resize(bin.len().next_multiple_of(4), 0);
    }
    (json!(views), bin)
}

pub(super) fn document(primitive: &Value, accessors: &Value, views: &Value, size: usize) -> Value {
    json!({
        "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [primitive]}], "accessors": accessors, "bufferViews": views,
        "buffers": [{"byteLength": size}],
    })
}

pub(super) fn glb(document: &Value, bin: &[u8]) -> Vec<u8> {
    let mut json = document.to_string().into_bytes();
    json.resize(json.len().next_multiple_of(4), b' ');
    let word = |number: usize| (number as u32).to_le_bytes();
    [
        b"glTF",
        &word(2)[..],
        &word(12 + 8 + json.len() + 8 + bin.len()),
        &word(json.len()),
        b"JSON",
        &json,
        &word(bin.len()),
        b"BIN\0",
        bin,
    ]
    .concat()
}

pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..=group.len() {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(char::from(letter));
        }
    }
    text
}

fn plys(patch: &Patch) -> Vec<(&'static str, Vec<u8>)> {
    let mut binary = format!(
        "ply\nformat binary_little_endian 1.0\ncomment a patch\nelement vertex {}\nproperty float x\nproperty float y\n\
         property float z\nproperty float s\nproperty float t\nelement face {}\nproperty list uchar int vertex_indices\nend_header\n",
        patch.positions.len(),
        patch.corners.len() / 3
    )
    .into_bytes();
    for (position, uv) in patch.positions.iter().zip(&patch.uvs) {
        binary.extend(position.iter().chain(uv).flat_map(|x| x.to_le_bytes()));
    }
    for corners in patch.corners.chunks(3) {
        binary.push(3);
        binary.extend(corners.iter().flat_map(|corner| corner.to_le_bytes()));
    }
    let ascii = "ply\r\nformat ascii 1.0\r\nelement vertex 4\r\nproperty double x\r\nproperty short y\r\nproperty float z\r\n\
         element odd 1\r\nproperty list uint8 float64 values\r\nelement face 2\r\nproperty list uchar uint vertex_index\r\n\
         property list uchar float texcoord\r\nend_header\r\n0 0 0\r\n1 0 0\r\n1 1 0.5\r\n0 1 0\r\n2 1.5 2\r\n\
         4 0 1 2 3 8 0 0 1 0 1 1 0 1\r\n3 0 2 1 6 0 0 1 1 1 0\r\n";
    vec![("binary", binary), ("ascii", ascii.into())]
}

fn obj(patch: &Patch) -> Vec<u8> {
    let mut file = String::new();
    for [x, y, z] in &patch.positions {
        file += &format!("v {x} {y} {z}\n");
    }
    for [u, v] in &patch.uvs {
        file += &format!("vt {u} {v}\n");
    }
    for corners in patch.corners.chunks(3) {
        let corner = |k: usize| format!("{0}/{0}", corners[k] + 1);
        file += &format!("f {} {} {}\n", corner(0), corner(1), corner(2));
    }
    file.into_bytes()
}
