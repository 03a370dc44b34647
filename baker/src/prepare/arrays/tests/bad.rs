//! Each way to break a file against its message, which names the tensor.

use super::write::header;
use super::*;

/// The messages about a mesh and about views of such a file.
fn told(bytes: &[u8]) -> [String; 2] {
    let open_mesh = open(bytes, "a.safetensors", |folder| {
        load::read(folder, "a.safetensors", true, &Silent).map(drop)
    });
    let views = views(bytes).map(drop);
    [
        open_mesh.map_or_else(|error| error.failure("a").message, |()| String::new()),
        views.map_or_else(|error| format!("a: {error}"), |()| String::new()),
    ]
}

#[test]
fn a_broken_header_is_refused_for_mesh_and_views_alike() {
    let entries = [square(), two_views()].concat();
    let (head, data) = header(&entries, NORMALIZED);
    let good = join(&head, &data);
    assert_eq!(told(&good), [String::new(), String::new()], "the control");
    let change = |from: &str, to: &str| {
        assert!(head.contains(from), "{from} in {head}");
        join(&head.replacen(from, to, 1), &data)
    };
    let longer = [&good[..], b"more"].concat();
    for (bytes, reason) in [
        (
            good[..5].to_vec(),
            "is no safetensors file: it ends before its header",
        ),
        (good[..50].to_vec(), "it ends within its header"),
        (
            [&[255; 8][..], &good[8..]].concat(),
            "its header has 18446744073709551615 bytes",
        ),
        (
            good[..good.len() - 1].to_vec(),
            "tensor intrinsics: ends at byte",
        ),
        (longer, "bytes of data, its tensors"),
        (join("[]", b""), "its header is not readable"),
        (
            join(&format!("{{\"a\":{}1", "[".repeat(500)), b""),
            "its header is not readable: recursion limit",
        ),
        (join("{\"vertices\":", b""), "its header is not readable"),
        (join("\u{1}{}", b""), "its header is not readable"),
        (join("{}", b""), "has no tensor"),
        (
            change("I32", "I33"),
            "tensor faces: its description cannot be read: unknown variant `I33`",
        ),
        (change("[2, 3]", "[-2, 3]"), "tensor faces: its description"),
        (
            change("[2, 3]", "[2, 4]"),
            "tensor faces: [2, 4] of I32 is not what its 24 bytes hold",
        ),
        (
            change("[2, 3]", "[4611686018427387904, 8]"),
            "tensor faces: [4611686018427387904, 8] of I32",
        ),
        (
            change("[60,84]", "[84,60]"),
            "tensor faces: [2, 3] of I32 is not what its 0 bytes hold",
        ),
        (
            change("[60,84]", "[59,83]"),
            "tensor faces: overlaps another",
        ),
        (
            change("\"faces\"", "\"vertices\""),
            "tensor vertices: is described twice",
        ),
        (
            change(NORMALIZED, "{\"intrinsics\":1}"),
            "its __metadata__ are not readable",
        ),
    ] {
        for told in told(&bytes) {
            assert!(
                told.starts_with("a: ") && told.contains(reason),
                "{told:?} does not say {reason:?}"
            );
        }
    }
}

#[test]
fn broken_meshes_are_refused_by_the_tensors_name() {
    let faces = |dtype_faces| vec![square().remove(0), dtype_faces];
    let uvs = |uvs| [square(), vec![uvs]].concat();
    for (entries, reason) in [
        (
            faces(i32s("face", &[1, 3], &[0; 3])),
            "has no tensor faces, only face, vertices",
        ),
        (
            faces(f32s("faces", &[1, 3], &[0.0; 3])),
            "tensor faces: is F32, not I32 or I64 or U32",
        ),
        (
            faces(i32s("faces", &[3], &[0; 3])),
            "tensor faces: has the shape [3], not [M, 3]",
        ),
        (
            faces(i32s("faces", &[1, 4], &[0; 4])),
            "tensor faces: has the shape [1, 4], not [M, 3]",
        ),
        (
            faces(i32s("faces", &[2, 3], &[0, 1, 2, 0, 1, 5])),
            "tensor faces: triangle 1 names vertex 5 of 5",
        ),
        (
            faces(i32s("faces", &[2, 3], &[0, 1, 2, 0, -1, 5])),
            "tensor faces: triangle 1 names vertex -1 of 5",
        ),
        (
            faces(i32s("faces", &[2, 3], &[0, 1, 2, 0, 1, 4])),
            "tensor vertices: [4, 0] is NaN",
        ),
        (
            faces(i32s("faces", &[0, 3], &[])),
            "the file has no triangles",
        ),
        (
            uvs(f32s("uvs", &[4, 2], &[0.0; 8])),
            "tensor uvs: has the shape [4, 2], not [5, 2]",
        ),
        (
            uvs(f32s("uvs", &[5, 2], &[f32::NEG_INFINITY; 10])),
            "tensor uvs: [0, 0] is -inf",
        ),
        (
            uvs(f64s("uvs", &[5, 2], &[0.0; 10])),
            "tensor uvs: is F64, not F32",
        ),
    ] {
        let told = &told(&file(&entries, ""))[0];
        assert!(told.contains(reason), "{told:?} does not say {reason:?}");
    }
}

#[test]
fn broken_views_are_refused_by_the_tensors_name() {
    let with = |place: usize, entry: Entry| {
        let mut entries = two_views();
        entries.splice(place..(place + 1).min(3), [entry]);
        entries
    };
    let pose = |change: &dyn Fn(&mut [f64; 16])| {
        let mut matrix: [f64; 16] = std::array::from_fn(|k| look_at(0.3, 0.4, 2.0)[k / 4][k % 4]);
        let first = matrix;
        change(&mut matrix);
        with(1, f64s("extrinsics", &[2, 4, 4], &[first, matrix].concat()))
    };
    let camera = |change: &dyn Fn(&mut [f64; 9])| {
        let mut matrix = lens(LENS);
        change(&mut matrix);
        with(
            2,
            f64s("intrinsics", &[2, 3, 3], &[lens(LENS), matrix].concat()),
        )
    };
    let size = [2, 24, 40, 3];
    for (entries, reason) in [
        (
            two_views()[1..].to_vec(),
            "has no tensor observations, only extrinsics, intrinsics",
        ),
        (two_views()[..2].to_vec(), "has no tensor intrinsics"),
        (
            with(0, u8s("observations", &[2, 24, 40, 4], &[0; 7680])),
            "tensor observations: has the shape [2, 24, 40, 4], not [V, H, W, 3]",
        ),
        (
            with(0, entry("observations", "F16", &size, vec![[0; 2]; 5760])),
            "tensor observations: is F16, not U8 or F32",
        ),
        (
            with(0, u8s("observations", &[0, 24, 40, 3], &[])),
            "tensor observations: is empty",
        ),
        (
            with(0, u8s("observations", &[1, 1, 16385, 3], &vec![0; 49155])),
            "tensor observations: has 16385 columns, more than the 16384",
        ),
        (
            with(3, u8s("masks", &[2, 40, 24], &[0; 1920])),
            "tensor masks: has the shape [2, 40, 24], not [2, 24, 40]",
        ),
        (
            with(3, entry("masks", "I32", &[2, 24, 40], [[0; 4]; 1920])),
            "tensor masks: is I32, not U8 or BOOL or F32",
        ),
        (
            with(1, f64s("extrinsics", &[1, 4, 4], &[0.0; 16])),
            "tensor extrinsics: has the shape [1, 4, 4], not [2, 4, 4]",
        ),
        (
            with(1, f64s("extrinsics", &[2, 3, 4], &[0.0; 24])),
            "tensor extrinsics: has the shape [2, 3, 4], not [2, 4, 4]",
        ),
        (
            pose(&|m| m[6] = f64::NAN),
            "tensor extrinsics: [1, 1, 2] is NaN, which is not a number that can",
        ),
        (
            pose(&|m| m[7] = 1e13),
            "tensor extrinsics: [1, 1, 3] is 10000000000000",
        ),
        (
            pose(&|m| m[12] = 0.5),
            "tensor extrinsics: matrix 1 ends in the row [0.5, 0.0, 0.0, 1.0] instead of 0, 0, 0, 1",
        ),
        (
            pose(&|m| m[0..3].iter_mut().for_each(|x| *x = -*x)),
            "tensor extrinsics: matrix 1 is mirrored",
        ),
        (
            pose(&|m| m[0..3].iter_mut().for_each(|x| *x *= 1.1)),
            "tensor extrinsics: matrix 1 is sheared or stretched",
        ),
        (
            pose(&|m| m[0..3].fill(0.0)),
            "tensor extrinsics: matrix 1 is singular",
        ),
        (
            camera(&|m| m[4] = f64::INFINITY),
            "tensor intrinsics: [1, 1, 1] is inf",
        ),
        (
            camera(&|m| m[4] = -1.9),
            "tensor intrinsics: [1, 1, 1] is -1.9, which is not a focal length",
        ),
        (
            camera(&|m| m[1] = 0.1),
            "tensor intrinsics: [1, 0, 1] is 0.1, which is not 0: pixels with a skew",
        ),
        (
            camera(&|m| m.swap(2, 6)),
            "tensor intrinsics: matrix 1 ends in the row",
        ),
        (
            camera(&|m| *m = lens([56.0, 45.0, 20.0, 12.0])),
            "tensor intrinsics: matrix 1 has the focal length 56 and the centre 20: not normalized, it seems",
        ),
    ] {
        let told = &told(&file(&entries, NORMALIZED))[1];
        assert!(told.contains(reason), "{told:?} does not say {reason:?}");
    }
    let told = &told(&file(&two_views(), "{\"intrinsics\":\"normal\"}"))[1];
    assert!(
        told.contains("metadata intrinsics is normal, which is not \"normalized\""),
        "{told}"
    );
}
