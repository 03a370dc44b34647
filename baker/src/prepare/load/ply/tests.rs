//! ASCII and binary files of one square, valid and broken.

use super::*;

fn read(bytes: &[u8], want_uvs: bool) -> Result<RawMesh, PlyError> {
    super::read(bytes, want_uvs, &Offset::default())
}

const SQUARE: &str = "ply\nformat ascii 1.0\ncomment made by hand\nelement vertex 4\nproperty float x\n\
    property float y\nproperty list uchar int neighbours\nproperty double z\nproperty float s\nproperty float t\n\
    element face 1\nproperty uchar red\nproperty list uchar int vertex_indices\nend_header\n\
    0 0 2 1 2 5 0 0\n1 0 0 5 1 0\r\n1 1 0 5 1 1\n0 1 0 5 0 1\n200 4 0 1 2 3";

#[test]
fn ascii_polygons_become_fans() {
    let mesh = read(SQUARE.as_bytes(), true).unwrap();
    assert_eq!(mesh.triangles, [[0, 1, 2], [0, 2, 3]]);
    assert_eq!(mesh.positions[2], [1.0, 1.0, 5.0]);
    assert_eq!(mesh.uvs.unwrap()[3], [0.0, 0.0]);
    assert_eq!(
        read(SQUARE.as_bytes(), false).unwrap().uvs,
        Err(NoUvs::NotAsked)
    );
}

/// The square in binary, with an element to skip between the two that matter.
fn binary(encoding: &str, float: fn(f32) -> [u8; 4], int: fn(i32) -> [u8; 4]) -> Vec<u8> {
    let mut file = format!(
        "ply\nformat {encoding} 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n\
         element edge 2\nproperty list uchar int ends\nelement face 1\nproperty list uchar int vertex_index\n\
         property list uchar float texcoord\nend_header\n"
    )
    .into_bytes();
    for point in [
        [0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0],
        [1.0, 1.0, 0.0],
        [0.0, 1.0, 0.0],
    ] {
        file.extend(point.map(float).concat());
    }
    file.extend([&[1][..], &int(7), &[0]].concat());
    file.extend([&[4][..], &[0, 1, 2, 3].map(int).concat()].concat());
    file.extend(
        [
            &[8][..],
            &[0.0, 0.0, 0.5, 0.0, 0.5, 1.0, 0.0, 1.0].map(float).concat(),
        ]
        .concat(),
    );
    file
}

#[test]
fn faces_may_come_first_and_names_have_any_words() {
    let file = "ply\nformat ascii 1.0\nelement face 1\nproperty list uchar int corners of it\nelement vertex 3\n\
        property float x\nproperty float y\nproperty float z\nproperty float my own\nproperty float\nend_header\n\
        3 0 1 2\n0 0 0 7 7\n1 0 0 7 7\n0 1 0 7 7\n";
    let mesh = read(file.as_bytes(), false).unwrap();
    assert_eq!(
        (mesh.positions[2], mesh.triangles),
        ([0.0, 1.0, 0.0], vec![[0, 1, 2]])
    );
    let beyond = file.replace("3 0 1 2", "3 0 1 3");
    let error = read(beyond.as_bytes(), false).unwrap_err().to_string();
    assert_eq!(error, "face 0 names vertex 3 of 3");
}

#[test]
fn both_byte_orders_and_face_texcoords_are_read() {
    let little = read(
        &binary("binary_little_endian", f32::to_le_bytes, i32::to_le_bytes),
        true,
    )
    .unwrap();
    let big = read(
        &binary("binary_big_endian", f32::to_be_bytes, i32::to_be_bytes),
        true,
    )
    .unwrap();
    assert_eq!(little, big);
    assert_eq!(little.triangles, [[0, 1, 2], [0, 2, 3]]);
    assert_eq!(
        little.uvs.unwrap(),
        [[0.0, 1.0], [0.5, 1.0], [0.5, 0.0], [0.0, 0.0]]
    );
}

#[test]
fn every_truncation_ends_in_an_error() {
    let file = binary("binary_little_endian", f32::to_le_bytes, i32::to_le_bytes);
    for end in 0..file.len() {
        assert!(read(&file[..end], true).is_err(), "{end}");
    }
}

#[test]
fn hostile_headers_and_bodies_are_named() {
    let error = |from: &str, to: &str| {
        read(SQUARE.replace(from, to).as_bytes(), true)
            .unwrap_err()
            .to_string()
    };
    assert!(
        error("vertex 4", "vertex 4000000000")
            .starts_with("4000000000 entries of element vertex need")
    );
    assert!(error("vertex 4", "vertex -1").starts_with("header line 4: the count is no number"));
    assert_eq!(
        error("4 0 1 2 3", "4 0 1 2 4"),
        "face 0 names vertex 4 of 4"
    );
    assert_eq!(
        error("4 0 1 2 3", "4 0 1 -2 3"),
        "face 0 names vertex -2 of 4"
    );
    assert_eq!(
        error("200 4 0", "200 x 0"),
        "entry 0 of element face has a word that is no number"
    );
    assert_eq!(
        error("200 4 0", "200 250 0"),
        "ends within entry 0 of element face"
    );
    assert_eq!(
        error("200 4 0 1 2 3", "200 2 0 1"),
        "has 4 vertices and no faces"
    );
    assert_eq!(
        error("property double z\n", "property double w\n"),
        "its vertices have no z"
    );
    assert_eq!(error("ascii", "morse"), "header line 2: unknown format");
    assert_eq!(
        error("end_header", "end"),
        "header line 14: is not understood"
    );
}
