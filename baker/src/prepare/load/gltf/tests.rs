//! Documents built by hand: one for each thing that glTF allows or a hostile file tries.

use proto::message::Code;

use crate::prepare::load::tests::read_files;
use crate::prepare::load::{LoadError, NoUvs, RawMesh};

/// A document in the making: bytes of its one buffer, its views and accessors.
#[derive(Default)]
struct Document {
    bytes: Vec<u8>,
    views: Vec<String>,
    accessors: Vec<String>,
    /// Further top-level members, each with a leading comma.
    more: String,
}

impl Document {
    /// Adds a view and returns its index.
    fn view(&mut self, bytes: &[u8], more: &str) -> usize {
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
        let (offset, length) = (self.bytes.len(), bytes.len());
        self.bytes.extend(bytes);
        self.views.push(format!(
            r#"{{"buffer":0,"byteOffset":{offset},"byteLength":{length}{more}}}"#
        ));
        self.views.len() - 1
    }

    fn accessor(&mut self, component: u32, kind: &str, count: u64, more: &str) -> usize {
        self.accessors.push(format!(
            r#"{{"componentType":{component},"type":"{kind}","count":{count}{more}}}"#
        ));
        self.accessors.len() - 1
    }

    /// Adds a view and an accessor over all of it.
    fn array(&mut self, bytes: &[u8], component: u32, kind: &str, count: u64) -> usize {
        let view = self.view(bytes, "");
        self.accessor(component, kind, count, &format!(r#","bufferView":{view}"#))
    }

    fn floats(&mut self, kind: &str, rows: &[&[f32]]) -> usize {
        let bytes: Vec<u8> = rows
            .iter()
            .flat_map(|row| row.iter().flat_map(|x| x.to_le_bytes()))
            .collect();
        self.array(&bytes, 5126, kind, rows.len() as u64)
    }

    fn json(&self, nodes: &str, primitives: &str, uri: &str) -> String {
        format!(
            r#"{{"asset":{{"version":"2.0"}},"scene":0,"scenes":[{{"nodes":[0]}}],"nodes":[{nodes}],"meshes":[{{"primitives":[{primitives}]}}],
            "buffers":[{{"byteLength":{}{uri}}}],"bufferViews":[{}],"accessors":[{}]{}}}"#,
            self.bytes.len(),
            self.views.join(","),
            self.accessors.join(","),
            self.more
        )
    }

    fn read(&self, nodes: &str, primitives: &str) -> Result<RawMesh, LoadError> {
        let json = self.json(nodes, primitives, r#","uri":"a%20buffer.bin""#);
        read_files(
            &[("a.gltf", json.as_bytes()), ("a buffer.bin", &self.bytes)],
            true,
        )
    }

    fn error(&self, primitives: &str) -> String {
        self.read(r#"{"mesh":0}"#, primitives)
            .unwrap_err()
            .failure("a.gltf")
            .message
    }
}

const SQUARE: [&[f32]; 4] = [
    &[0.0, 0.0, 0.0],
    &[1.0, 0.0, 0.0],
    &[1.0, 1.0, 0.0],
    &[0.0, 1.0, 0.0],
];

/// Has the square's positions as accessor 0.
fn square() -> Document {
    let mut document = Document::default();
    document.floats("VEC3", &SQUARE);
    document
}

fn triangles(document: &Document, primitive: &str) -> Vec<[u32; 3]> {
    document.read(r#"{"mesh":0}"#, primitive).unwrap().triangles
}

#[test]
fn every_index_type_list_strip_and_fan_is_read() {
    let mut document = square();
    let bytes = document.array(&[0, 1, 2, 0, 2, 3], 5121, "SCALAR", 6);
    let shorts = document.array(
        &[0u16, 1, 3, 2].map(u16::to_le_bytes).concat(),
        5123,
        "SCALAR",
        4,
    );
    let ints = document.array(
        &[0u32, 1, 2, 3].map(u32::to_le_bytes).concat(),
        5125,
        "SCALAR",
        4,
    );
    let primitive = |indices: usize, mode: u32| {
        format!(r#"{{"attributes":{{"POSITION":0}},"indices":{indices},"mode":{mode}}}"#)
    };
    // Vertices are numbered by first use.
    assert_eq!(
        triangles(&document, &primitive(bytes, 4)),
        [[0, 1, 2], [0, 2, 3]]
    );
    let strip = document
        .read(r#"{"mesh":0}"#, &primitive(shorts, 5))
        .unwrap();
    assert_eq!(strip.triangles, [[0, 1, 2], [1, 3, 2]]);
    assert_eq!(strip.positions[3], [1.0, 1.0, 0.0]);
    assert_eq!(
        triangles(&document, &primitive(ints, 6)),
        [[0, 1, 2], [0, 2, 3]]
    );
    assert_eq!(
        triangles(&document, r#"{"attributes":{"POSITION":0},"mode":6}"#),
        [[0, 1, 2], [0, 2, 3]]
    );
    assert_eq!(
        document.error(r#"{"attributes":{"POSITION":0}}"#),
        "a.gltf: mesh 0, primitive 0 has 4 indices, no multiple of 3"
    );
}

#[test]
fn primitives_are_merged_and_points_left_out() {
    let document = square();
    let fan = r#"{"attributes":{"POSITION":0},"mode":6}"#;
    let points = r#"{"attributes":{"POSITION":0},"mode":0}"#;
    let mesh = document
        .read(r#"{"mesh":0}"#, &format!("{fan},{points},{fan}"))
        .unwrap();
    assert_eq!((mesh.triangles.len(), mesh.positions.len()), (4, 8));
    assert_eq!(mesh.uvs, Err(NoUvs::Absent));
    assert_eq!(
        document.error(points),
        "a.gltf: the file has no triangles (1 primitives of points or lines)"
    );
}

#[test]
fn mirrored_nodes_keep_the_winding_outward() {
    let document = square();
    let fan = r#"{"attributes":{"POSITION":0},"mode":6}"#;
    let nodes =
        r#"{"children":[1,2]},{"mesh":0},{"mesh":0,"scale":[-2,1,1],"translation":[0,0,5]}"#;
    let mesh = document.read(nodes, fan).unwrap();
    assert_eq!(mesh.triangles.len(), 4);
    let area = |[a, b, c]: [u32; 3]| {
        let [a, b, c] = [a, b, c].map(|i| mesh.positions[i as usize]);
        (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    };
    assert!(mesh.triangles.iter().all(|&triangle| area(triangle) > 0.0));
    assert!(
        mesh.positions[4..]
            .iter()
            .all(|p| p[2] == 5.0 && p[0] <= 0.0)
    );
}

#[test]
fn quantised_and_interleaved_attributes_are_read() {
    let mut document = Document::default();
    // Positions as normalised 16-bit, texture coordinates as 8-bit, in one view of 12 bytes stride.
    let mut bytes = Vec::new();
    for (position, uv) in [
        ([0i16, 0, 0], [0u8, 255]),
        ([32767, 0, -32768], [255, 255]),
        ([0, 32767, 0], [0, 0]),
    ] {
        bytes.extend(position.map(i16::to_le_bytes).concat());
        bytes.extend([0, 0, uv[0], uv[1], 0, 0]);
    }
    let view = document.view(&bytes, r#","byteStride":12"#);
    document.accessor(
        5122,
        "VEC3",
        3,
        &format!(r#","bufferView":{view},"normalized":true"#),
    );
    document.accessor(
        5121,
        "VEC2",
        3,
        &format!(r#","bufferView":{view},"byteOffset":8,"normalized":true"#),
    );
    document.more = r#","extensionsRequired":["KHR_mesh_quantization"]"#.to_owned();
    let mesh = document
        .read(
            r#"{"mesh":0,"scale":[3,3,3]}"#,
            r#"{"attributes":{"POSITION":0,"TEXCOORD_0":1}}"#,
        )
        .unwrap();
    assert_eq!(
        mesh.positions,
        [[0.0, 0.0, 0.0], [3.0, 0.0, -3.0], [0.0, 3.0, 0.0]]
    );
    assert_eq!(mesh.uvs.unwrap(), [[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]);
}

#[test]
fn sparse_accessors_replace_elements() {
    let mut document = square();
    let indices = document.view(&[1, 0, 2, 0], "");
    let values = document.view(
        &[9.0f32, 0.0, 0.0, 9.0, 9.0, 0.0]
            .map(f32::to_le_bytes)
            .concat(),
        "",
    );
    let sparse = |base: &str, second: u64| {
        format!(
            r#"{base},"sparse":{{"count":{second},"indices":{{"bufferView":{indices},"componentType":5123}},"values":{{"bufferView":{values}}}}}"#
        )
    };
    let over = document.accessor(5126, "VEC3", 4, &sparse(r#","bufferView":0"#, 2));
    let zeros = document.accessor(5126, "VEC3", 3, &sparse("", 2));
    let beyond = document.accessor(5126, "VEC3", 2, &sparse("", 2));
    let long = document.accessor(5126, "VEC3", 3, &sparse("", 3));
    let read = |accessor: usize| {
        document.read(
            r#"{"mesh":0}"#,
            &format!(r#"{{"attributes":{{"POSITION":{accessor}}},"mode":6}}"#),
        )
    };
    let error = |accessor| read(accessor).unwrap_err().failure("a").message;
    assert_eq!(
        read(over).unwrap().positions,
        [[0.0; 3], [9.0, 0.0, 0.0], [9.0, 9.0, 0.0], [0.0, 1.0, 0.0]]
    );
    assert_eq!(
        read(zeros).unwrap().positions,
        [[0.0; 3], [9.0, 0.0, 0.0], [9.0, 9.0, 0.0]]
    );
    assert!(
        error(beyond).contains("sparse index 1 of accessor 3 is 2: out of order or not below 2")
    );
    assert!(
        error(long)
            .contains("accessor 4 reaches past the end of buffer view 1 (needs 6 bytes, has 4)")
    );
}

#[test]
fn buffers_come_from_beside_the_file_or_from_within() {
    let document = square();
    let fan = r#"{"attributes":{"POSITION":0},"mode":6}"#;
    let read = |uri: &str| {
        let json = document.json(r#"{"mesh":0}"#, fan, &format!(r#","uri":"{uri}""#));
        read_files(&[("a.gltf", json.as_bytes())], false)
    };
    let error = |uri: &str| read(uri).unwrap_err().failure("a.gltf");
    assert!(
        error("../../../etc/passwd")
            .message
            .contains("lies outside its folder")
    );
    assert!(
        error("%2e%2e/x")
            .message
            .contains("lies outside its folder")
    );
    assert!(
        error("/etc/passwd")
            .message
            .contains("lies outside its folder")
    );
    assert_eq!(
        error("http://localhost/x.bin").code,
        Code::UnsupportedFeature
    );
    assert_eq!(error("file:///etc/passwd").code, Code::UnsupportedFeature);
    // The user named the mesh; files that the mesh names are data.
    let absent = error("absent.bin");
    assert_eq!(absent.code, Code::InvalidAsset);
    assert!(absent.message.contains("a.gltf: ") && absent.message.contains("absent.bin: no such"));
    assert!(
        error("data:application/octet-stream;base64,AAAA")
            .message
            .contains("buffer 0 ends early (needs 48 bytes, has 3)")
    );
    assert!(
        error("data:;base64,A*")
            .message
            .contains("not valid base64")
    );
    let zeros = format!("data:;base64,{}", "A".repeat(64));
    assert_eq!(read(&zeros).unwrap().positions, [[0.0; 3]; 4]);
}

#[test]
fn compressed_views_are_decoded() {
    let vertices = [[0.0f32, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];
    let encoded = meshopt::encode_vertex_buffer(&vertices).unwrap();
    let mut document = Document::default();
    let length = encoded.len();
    document.view(
        &encoded,
        &format!(
            r#","extensions":{{"EXT_meshopt_compression":{{"buffer":0,"byteLength":{length},"byteStride":12,"count":3,"mode":"ATTRIBUTES"}}}}"#
        ),
    );
    document.accessor(5126, "VEC3", 3, r#","bufferView":0"#);
    document.accessor(5126, "VEC3", 4, r#","bufferView":0"#);
    let mesh = document
        .read(r#"{"mesh":0}"#, r#"{"attributes":{"POSITION":0}}"#)
        .unwrap();
    assert_eq!(mesh.positions, vertices);
    assert!(
        document
            .error(r#"{"attributes":{"POSITION":1},"mode":6}"#)
            .contains("(needs 48 bytes, has 36)")
    );
}

#[test]
fn texture_coordinates_follow_the_material_or_are_told_missing() {
    let mut document = square();
    document.floats("VEC2", &[&[0.0, 0.0][..]; 4]);
    document.floats("VEC2", &[&[0.5, 0.25][..]; 4]);
    document.more = r#","images":[{"uri":"none.png"}],"textures":[{"source":0}],"materials":[
        {"pbrMetallicRoughness":{"baseColorTexture":{"index":0,"texCoord":1}}},
        {"pbrMetallicRoughness":{"baseColorTexture":{"index":0,"extensions":{"KHR_texture_transform":{"scale":[2,2],"offset":[0.25,0],"texCoord":1}}}}}]"#
        .to_owned();
    let uvs = |more: &str| {
        let primitive = |more: &str| {
            format!(
                r#"{{"attributes":{{"POSITION":0,"TEXCOORD_0":1,"TEXCOORD_1":2}},"mode":6{more}}}"#
            )
        };
        document
            .read(r#"{"mesh":0}"#, &primitive(more))
            .unwrap()
            .uvs
    };
    assert_eq!(uvs("").unwrap()[0], [0.0, 0.0]);
    assert_eq!(uvs(r#","material":0"#).unwrap()[0], [0.5, 0.25]);
    assert_eq!(uvs(r#","material":1"#).unwrap()[0], [1.25, 0.5]);
    let both = r#""attributes":{"POSITION":0,"TEXCOORD_0":1,"TEXCOORD_1":2},"mode":6"#;
    let two = format!(r#"{{{both},"material":0}},{{{both}}}"#);
    assert_eq!(
        document.read(r#"{"mesh":0}"#, &two).unwrap().uvs,
        Err(NoUvs::Sets(0, 1))
    );
    let same = format!(r#"{{{both},"material":0}},{{{both},"material":0}}"#);
    assert!(document.read(r#"{"mesh":0}"#, &same).unwrap().uvs.is_ok());
    let two = r#"{"attributes":{"POSITION":0,"TEXCOORD_0":1},"mode":6},{"attributes":{"POSITION":0},"mode":6}"#;
    assert_eq!(
        document.read(r#"{"mesh":0}"#, two).unwrap().uvs,
        Err(NoUvs::PartlyAbsent)
    );
}

#[test]
fn hostile_numbers_are_named_before_memory_is_taken() {
    let mut document = square();
    let huge = document.accessor(5126, "VEC3", 1 << 62, r#","bufferView":0"#);
    let unbacked = document.accessor(5126, "VEC3", 1 << 40, "");
    let offset = document.accessor(
        5126,
        "VEC3",
        1,
        r#","bufferView":0,"byteOffset":9007199254740992"#,
    );
    let scalar = document.accessor(5121, "SCALAR", 4, r#","bufferView":0"#);
    let no_view = document.accessor(5126, "VEC3", 4, r#","bufferView":7"#);
    let narrow = document.view(&[0; 48], r#","byteStride":4"#);
    let narrow = document.accessor(5126, "VEC3", 3, &format!(r#","bufferView":{narrow}"#));
    document
        .views
        .push(r#"{"buffer":0,"byteOffset":18446744073709551612,"byteLength":8}"#.to_owned());
    let wraps = document.accessor(
        5126,
        "VEC3",
        1,
        &format!(r#","bufferView":{}"#, document.views.len() - 1),
    );
    let error = |accessor: usize| {
        document.error(&format!(
            r#"{{"attributes":{{"POSITION":{accessor}}},"mode":6}}"#
        ))
    };
    assert!(error(huge).contains(&format!(
        "accessor 1 reaches past the end of buffer view 0 (needs {} bytes, has 48)",
        u64::MAX
    )));
    assert!(
        error(unbacked).contains("accessor 2 has 1099511627776 elements and no bytes for them")
    );
    assert!(error(offset).contains("(needs 9007199254741004 bytes, has 48)"));
    assert!(error(scalar).contains("accessor 4 is SCALAR of unsigned 8-bit integers, where VEC3"));
    assert!(error(no_view).contains("buffer view 7 of 3 is used"));
    assert!(error(narrow).contains("byteStride 4, less than the 12 bytes"));
    assert!(error(wraps).contains("buffer view 2 reaches past the end of buffer 0"));
    assert!(error(99).contains("accessor 99 of 8 is used"));
    let index = r#"{"attributes":{"POSITION":0},"indices":4,"mode":4}"#;
    assert!(
        document
            .error(index)
            .contains("4 indices, no multiple of 3")
    );
    assert_eq!(
        document.error(r#"{"attributes":{},"mode":4}"#),
        "a.gltf: mesh 0, primitive 0 has no POSITION"
    );
}

/// A square whose corners 0 and 1 follow joint 0 and the others joint 1, as accessors 1 and 2.
fn skinned(joint: u8, weight: f32) -> Document {
    let mut document = square();
    document.array(
        &[[0, 9, 9, 9], [0; 4], [joint, 0, 0, 0], [joint, 0, 0, 0]].concat(),
        5121,
        "VEC4",
        4,
    );
    document.floats("VEC4", &[&[weight, 0.0, 0.0, 0.0][..]; 4]);
    document
}

const SKINNED: &str = r#"{"attributes":{"POSITION":0,"JOINTS_0":1,"WEIGHTS_0":2},"mode":6}"#;

#[test]
fn morph_targets_count_at_their_default_weights() {
    let mut document = square();
    document.floats("VEC3", &[&[0.0, 0.0, 2.0][..]; 4]);
    let index = document.view(&[2, 0], "");
    let bytes: Vec<u8> = [1.0f32, 0.0, 0.0].map(f32::to_le_bytes).concat();
    let value = document.view(&bytes, "");
    document.accessor(5126, "VEC3", 4, &format!(r#","sparse":{{"count":1,"indices":{{"bufferView":{index},"componentType":5123}},"values":{{"bufferView":{value}}}}}"#));
    document.floats("VEC3", &[&[0.0; 3][..]; 3]);
    let shape = |weights: &str, targets: &str| {
        let json = document.json(
            &format!(r#"{{"mesh":0{weights}}}"#),
            &format!(r#"{{"attributes":{{"POSITION":0}},"mode":6,"targets":[{targets}]}}"#),
            r#","uri":"b.bin""#,
        );
        let json = json.replace(r#""meshes":[{"#, r#""meshes":[{"weights":[0.5],"#);
        let files: [(&str, &[u8]); 2] = [("a.gltf", json.as_bytes()), ("b.bin", &document.bytes)];
        read_files(&files, false).map_err(|error| error.failure("a").message)
    };
    let two = r#"{"POSITION":1},{"POSITION":2}"#;
    let heights = |weights: &str, targets| {
        let found = shape(weights, targets).unwrap().positions;
        [found[0][2], found[2][0]]
    };
    // Weights of the mesh, of the node, and none for the second target.
    for (weights, wanted) in [
        ("", [1.0, 1.0]),
        (r#","weights":[0,2]"#, [0.0, 3.0]),
        (r#","weights":[1,1]"#, [2.0, 2.0]),
    ] {
        assert_eq!(heights(weights, two), wanted, "{weights}");
    }
    // Targets without positions or weight are not read.
    assert_eq!(heights("", r#"{"NORMAL":99},{"POSITION":99}"#), [0.0, 1.0]);
    assert_eq!(
        shape("", r#"{"POSITION":3}"#).unwrap_err(),
        "a: mesh 0, primitive 0 has 3 offsets of a morph target for 4 vertices"
    );
}

#[test]
fn skins_stand_in_their_rest_pose() {
    let mut document = skinned(1, 0.5);
    // Joint 0 stays, joint 1 scales by 0.01 and moves, with an inverse bind matrix that scales by 100.
    let bind = |scale: f32| {
        let mut matrix = [0.0; 16];
        (matrix[0], matrix[5], matrix[10], matrix[15]) = (scale, scale, scale, 1.0);
        matrix
    };
    let binds = document.floats("MAT4", &[&bind(1.0), &bind(100.0)]);
    document.more = format!(r#","skins":[{{"joints":[1,2],"inverseBindMatrices":{binds}}}]"#);
    // The node's own translation does not count. Joints need no scene.
    let nodes = r#"{"mesh":0,"skin":0,"translation":[5,5,5]},{},{"translation":[0,0,7],"scale":[0.01,0.01,0.01],"children":[]}"#;
    let mesh = document.read(nodes, SKINNED).unwrap();
    let wanted = [
        [0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0],
        [1.0, 1.0, 7.0],
        [0.0, 1.0, 7.0],
    ];
    for (found, wanted) in mesh.positions.iter().zip(wanted) {
        let off = found
            .iter()
            .zip(wanted)
            .map(|(a, b)| (a - b).abs())
            .sum::<f32>();
        assert!(off < 1e-5, "{:?}", mesh.positions);
    }
    // Without inverse bind matrices they are identities; a joint that mirrors turns the winding of what
    // follows it, and with it the order of vertices.
    document.more = r#","skins":[{"joints":[1,1]}]"#.to_owned();
    let mirrored = r#"{"mesh":0,"skin":0},{"scale":[-1,1,1]}"#;
    let mesh = document.read(mirrored, SKINNED).unwrap();
    assert_eq!(mesh.positions[1], [-1.0, 1.0, 0.0]);
    let [a, b, c] = mesh.triangles[0].map(|corner| mesh.positions[corner as usize]);
    assert!((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) > 0.0);
    // Without weight a vertex follows its first joint, without joints the mesh its node.
    let still = skinned(1, 0.0);
    let still = Document {
        more: document.more.clone(),
        ..still
    };
    assert_eq!(
        still.read(mirrored, SKINNED).unwrap().positions[1],
        [-1.0, 1.0, 0.0]
    );
    let fan = r#"{"attributes":{"POSITION":0},"mode":6}"#;
    let moved = r#"{"mesh":0,"skin":0,"translation":[5,5,5]},{}"#;
    assert_eq!(document.read(moved, fan).unwrap().positions[0], [5.0; 3]);
}

#[test]
fn wrong_skins_are_named() {
    let error = |joint, skins: &str| {
        let document = Document {
            more: format!(r#","skins":[{skins}]"#),
            ..skinned(joint, 1.0)
        };
        let nodes = r#"{"mesh":0,"skin":0},{},{"children":[2]}"#;
        document
            .read(nodes, SKINNED)
            .unwrap_err()
            .failure("a")
            .message
    };
    for (joint, skins, wanted) in [
        (
            7,
            r#"{"joints":[1,1]}"#,
            "a: mesh 0, primitive 0: vertex 2 follows joint 7 of a skin of 2",
        ),
        (
            0,
            r#"{"joints":[]}"#,
            "a: mesh 0, primitive 0: vertex 0 follows joint 0 of a skin of 0",
        ),
        (0, r#"{"joints":[9]}"#, "a: skin 0 names node 9 of 3"),
        (
            0,
            r#"{"joints":[2]}"#,
            "a: node 2 is part of a cycle or has two parents",
        ),
        (0, "", "a: a node names skin 0 of 0"),
        (
            0,
            r#"{"joints":[1],"inverseBindMatrices":0}"#,
            "a: skin 0: accessor 0 is VEC3 of floats, where MAT4 of floats belongs",
        ),
    ] {
        assert_eq!(error(joint, skins), wanted);
    }
}

#[test]
fn a_mesh_stands_at_each_place_of_its_node() {
    let mut document = square();
    document.floats("VEC3", &[&[0.0, 0.0, 1.0], &[0.0, 0.0, 2.0]]);
    // A quarter turn about z, and a half turn about x, as normalised bytes.
    document.array(&[0, 0, 90, 90, 127, 0, 0, 0], 5120, "VEC4", 2);
    document.more = r#","extensionsRequired":["EXT_mesh_gpu_instancing"]"#.to_owned();
    let accessors = document.accessors.clone();
    document.accessors[2] = accessors[2].replace(r#""count":2"#, r#""count":2,"normalized":true"#);
    document.floats("VEC3", &[&[2.0; 3][..]; 3]);
    let huge = document.accessor(5126, "VEC3", 20_000_000, "");
    let fan = r#"{"attributes":{"POSITION":0},"mode":6}"#;
    let at = |attributes: &str| {
        let node = format!(
            r#"{{"mesh":0,"scale":[3,3,3],"extensions":{{"EXT_mesh_gpu_instancing":{{"attributes":{{{attributes}}}}}}}}}"#
        );
        document
            .read(&node, fan)
            .map_err(|error| error.failure("a").message)
    };
    let mesh = at(r#""TRANSLATION":1,"ROTATION":2"#).unwrap();
    assert_eq!(mesh.triangles.len(), 4);
    for (vertex, wanted) in [(1, [0.0, 3.0, 3.0]), (7, [0.0, -3.0, 6.0])] {
        let found = mesh.positions[vertex];
        let off: f32 = (0..3).map(|k| (found[k] - wanted[k]).abs()).sum();
        assert!(off < 1e-5, "{vertex}: {found:?}");
    }
    assert_eq!(at(r#""_ID":7"#).unwrap().triangles.len(), 2);
    for (attributes, wanted) in [
        (
            r#""TRANSLATION":1,"SCALE":3"#.to_owned(),
            "its attributes have 2 and 3 elements, and must have as many",
        ),
        (
            r#""ROTATION":1"#.to_owned(),
            "accessor 1 is VEC3 of floats, where VEC4",
        ),
        (
            r#""SCALE":"x""#.to_owned(),
            "node 0: SCALE names no accessor",
        ),
        (
            format!(r#""SCALE":{huge}"#),
            "accessor 4 has 20000000 elements and no bytes",
        ),
    ] {
        let error = at(&attributes).unwrap_err();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn indices_beyond_the_vertices_are_refused() {
    let mut document = square();
    let indices = document.array(&[0, 1, 4], 5121, "SCALAR", 3);
    let primitive = format!(r#"{{"attributes":{{"POSITION":0}},"indices":{indices}}}"#);
    assert_eq!(
        document.error(&primitive),
        "a.gltf: mesh 0, primitive 0: index 4 names no vertex, there are 4"
    );
}

#[test]
fn versions_and_required_extensions_are_minded() {
    let fan = r#"{"attributes":{"POSITION":0},"mode":6}"#;
    let with = |more: &str| {
        let document = Document {
            more: more.to_owned(),
            ..square()
        };
        document
            .read(r#"{"mesh":0}"#, fan)
            .map_err(|error| error.failure("a"))
    };
    assert!(with(r#","extensionsUsed":["ACME_anything"]"#).is_ok());
    assert!(
        with(r#","extensionsRequired":["KHR_materials_unlit","KHR_texture_transform"]"#).is_ok()
    );
    let error = with(r#","extensionsRequired":["KHR_draco_mesh_compression"]"#).unwrap_err();
    assert_eq!(error.code, Code::UnsupportedFeature);
    assert_eq!(
        error.message,
        "a: requires the extension KHR_draco_mesh_compression, which is not supported"
    );
    let json = square()
        .json(r#"{"mesh":0}"#, fan, "")
        .replace("2.0", "1.0");
    let error = read_files(&[("a.gltf", json.as_bytes())], false)
        .unwrap_err()
        .failure("a");
    assert_eq!(error.message, "a: is glTF 1.0; glTF 2 is read");
}

#[test]
fn nesting_does_not_reach_the_stack() {
    let extras = Document {
        more: r#","extras":{"made":["by",{"hand":1}]}"#.to_owned(),
        ..square()
    };
    assert_eq!(
        triangles(&extras, r#"{"attributes":{"POSITION":0},"mode":6}"#).len(),
        2
    );
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!(
            r#","extras":{}1{}"#,
            open.repeat(150_000),
            close.repeat(150_000)
        );
        let document = Document {
            more: deep,
            ..square()
        };
        // Skipped or refused, depending on the JSON parser.
        match document.read(r#"{"mesh":0}"#, r#"{"attributes":{"POSITION":0},"mode":6}"#) {
            Ok(mesh) => assert_eq!(mesh.triangles.len(), 2),
            Err(error) => assert!(error.to_string().contains("JSON"), "{error}"),
        }
    }
}

#[test]
fn what_no_bake_needs_may_lack_what_the_parser_wants() {
    let mut document = square();
    document.more =
        r#","animations":[{"samplers":[{"input":0,"output":0}],"channels":[{"sampler":0,"target":
        {"path":"pointer","extensions":{"KHR_animation_pointer":{"pointer":"/materials/0"}}}}]}]"#
            .to_owned();
    let json = document
        .json(
            r#"{"mesh":0}"#,
            r#"{"attributes":{"POSITION":0},"mode":5}"#,
            r#","uri":"b.bin""#,
        )
        .replace(
            r#""scenes":[{"nodes":[0]}]"#,
            r#""scenes":[{"name":"empty"},{"nodes":[0]}]"#,
        );
    let read = |json: &str| {
        read_files(
            &[("a.gltf", json.as_bytes()), ("b.bin", &document.bytes)],
            true,
        )
    };
    let mesh = read(&json.replace(r#""scene":0"#, r#""scene":1"#)).unwrap();
    assert_eq!(mesh.triangles.len(), 2);
    // The first scene is empty.
    assert!(read(&json).is_err());
    // Numbers that are none, and materials that no parser takes, matter only where they are used.
    let fault = json.replace(
        r#""scene":0"#,
        r#""scene":1,"cameras":[{}],"materials":[{"pbrMetallicRoughness":{"metallicFactor":-Infinity}}]"#,
    );
    let fault = fault.replacen(r#""type":"VEC3""#, r#""type":"VEC3","min":[NaN,0,0]"#, 1);
    let kept = |want_uvs| {
        let files: [(&str, &[u8]); 2] = [("a.gltf", fault.as_bytes()), ("b.bin", &document.bytes)];
        read_files(&files, want_uvs)
    };
    assert_eq!(kept(false).unwrap().triangles.len(), 2);
    assert!(kept(true).is_err());
    // The parser's message is reported where the retry fails too.
    let broken = read(&json.replace(r#""byteLength""#, r#""length""#)).unwrap_err();
    assert!(broken.failure("a.gltf").message.contains("missing field"));
}
