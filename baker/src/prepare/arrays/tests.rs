//! Checks files written here against their meaning: cameras by the formulas of the programs that write them, pictures
//! by a function of position.

mod bad;
mod write;

use std::f64::consts::PI;

use proto::message::Root;
use safetensors::tensor::TensorView;

use super::*;
use crate::prepare::load::{self, LoadError, NoUvs, RawMesh};
use crate::prepare::picture::Picture;
use crate::worker::folder::{Folder, Local};
use crate::worker::progress::Silent;
use write::{
    Entry, LENS, NORMALIZED, entry, f32s, f64s, file, i32s, join, lens, look_at, square, two_views,
    u8s,
};

fn open<T>(bytes: &[u8], name: &str, with: impl FnOnce(&Folder<'_>) -> T) -> T {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join(name), bytes).expect("writes");
    let local = Local(dir.path().to_path_buf());
    with(&Folder::new(&local, Root::Mesh))
}

fn mesh(bytes: &[u8], want_uvs: bool) -> Result<RawMesh, LoadError> {
    open(bytes, "a.bin", |folder| {
        load::read(folder, "a.bin", want_uvs, &Silent)
    })
}

fn views(bytes: &[u8]) -> Result<(ArrayViews, Vec<String>), ArraysError> {
    let mut warnings = Vec::new();
    let read = open(bytes, "a.safetensors", |folder| {
        let file = folder.open("a.safetensors", u64::MAX).expect("there");
        ArrayViews::read(file, |text| warnings.push(text.to_owned()))
    });
    Ok((read?, warnings))
}

/// Where a point of the world projects in the picture, the renderer's way: OpenGL view, projection, viewport.
fn through_opengl(
    extrinsics: [[f64; 4]; 4],
    [fx, fy, cx, cy]: [f64; 4],
    point: [f64; 3],
    [width, height]: [f64; 2],
) -> [f64; 2] {
    let (near, far) = (1.0, 3.0);
    let point = [point[0], point[1], point[2], 1.0];
    let sign = [1.0, -1.0, -1.0, 1.0];
    let eye: [f64; 4] =
        std::array::from_fn(|r| sign[r] * (0..4).map(|c| extrinsics[r][c] * point[c]).sum::<f64>());
    let projection = [
        [2.0 * fx, 0.0, 1.0 - 2.0 * cx, 0.0],
        [0.0, 2.0 * fy, 2.0 * cy - 1.0, 0.0],
        [
            0.0,
            0.0,
            (near + far) / (near - far),
            2.0 * near * far / (near - far),
        ],
        [0.0, 0.0, -1.0, 0.0],
    ];
    let clip = projection.map(|row| (0..4).map(|c| row[c] * eye[c]).sum::<f64>());
    // Row 0 of an observation is the top.
    [
        (clip[0] / clip[3] + 1.0) / 2.0 * width,
        (1.0 - clip[1] / clip[3]) / 2.0 * height,
    ]
}

fn through(camera: &proto::table::Camera, point: [f64; 3]) -> [f64; 2] {
    let place: [f64; 3] = std::array::from_fn(|r| {
        (0..3)
            .map(|c| camera.rotation[r][c] * point[c])
            .sum::<f64>()
            + camera.translation[r]
    });
    std::array::from_fn(|k| camera.focal[k] * place[k] / place[2] + camera.centre[k])
}

#[test]
fn a_mesh_is_read_in_every_index_dtype_and_v_is_turned() {
    let uvs = f32s(
        "uvs",
        &[5, 2],
        &[0.0, 0.0, 1.0, 0.0, 1.0, 0.25, 0.0, 1.0, 0.5, 0.5],
    );
    let indices = [0_i32, 1, 2, 0, 2, 3];
    for faces in [
        i32s("faces", &[2, 3], &indices),
        entry(
            "faces",
            "I64",
            &[2, 3],
            indices.map(|k| i64::from(k).to_le_bytes()),
        ),
        entry(
            "faces",
            "U32",
            &[2, 3],
            indices.map(|k| (k as u32).to_le_bytes()),
        ),
    ] {
        let bytes = file(&[square()[0].clone(), faces, uvs.clone()], "");
        let read = mesh(&bytes, true).expect("a mesh");
        assert_eq!(read.triangles, [[0, 1, 2], [0, 2, 3]]);
        assert_eq!(
            (read.positions.len(), read.positions[2]),
            (5, [2.0, 2.0, 0.0])
        );
        let uvs = read.uvs.expect("coordinates");
        assert_eq!(
            (uvs[0], uvs[2], uvs[3]),
            ([0.0, 1.0], [1.0, 0.75], [0.0, 0.0])
        );
        assert_eq!(
            mesh(&bytes, false).expect("a mesh").uvs,
            Err(NoUvs::NotAsked)
        );
    }
    let read = mesh(&file(&square(), ""), true).expect("a mesh");
    assert_eq!(read.uvs, Err(NoUvs::Absent));
}

#[test]
fn a_file_that_the_formats_own_library_wrote_is_read() {
    let entries = [square(), two_views()].concat();
    let tensors = entries.iter().map(|Entry(name, dtype, shape, bytes)| {
        let dtype = serde_json::from_value(serde_json::json!(dtype)).expect("a dtype");
        let view = TensorView::new(dtype, shape.clone(), bytes).expect("a tensor");
        (*name, view)
    });
    let bytes = safetensors::serialize(tensors, None).expect("a file");
    // Its order differs from ours, and its header is padded.
    assert_ne!(bytes, file(&entries, ""));
    assert_eq!(mesh(&bytes, false).expect("a mesh").triangles.len(), 2);
    let error = views(&bytes).expect_err("its intrinsics are not in pixels");
    assert!(error.to_string().contains("not in pixels"), "{error}");
}

#[test]
fn cameras_see_what_the_renderer_drew() {
    let size = [40.0, 24.0];
    let points = [
        [0.1, -0.2, 0.3],
        [-0.4, 0.1, 0.0],
        [0.0, 0.0, 0.0],
        [0.3, 0.3, -0.3],
    ];
    let (read, warnings) = views(&file(&two_views(), NORMALIZED)).expect("views");
    assert!(warnings.is_empty(), "{warnings:?}");
    let poses = [look_at(0.3, 0.4, 2.0), look_at(2.0, -0.7, 2.0)];
    let [fx, fy, cx, cy] = LENS;
    let pixels = [fx * 40.0, fy * 24.0, cx * 40.0, cy * 24.0];
    let mut in_pixels = two_views();
    in_pixels[2] = f64s("intrinsics", &[2, 3, 3], &[lens(pixels); 2].concat());
    let (same, _) = views(&file(&in_pixels, "")).expect("views");
    for (view, pose) in poses.into_iter().enumerate() {
        let (_, camera, _) = read.decode(view).expect("a view");
        assert_eq!(camera, same.decode(view).expect("a view").1);
        for point in points {
            let wanted = through_opengl(pose, LENS, point, size);
            let found = through(&camera, point);
            let off = (0..2)
                .map(|k| (wanted[k] - found[k]).abs())
                .fold(0.0, f64::max);
            assert!(
                off < 1e-9,
                "view {view}: {point:?} at {found:?}, not {wanted:?}"
            );
        }
    }
    // The scene has no symmetry: read as camera to world, or with rows from below, the point is elsewhere.
    let seen = through_opengl(poses[0], LENS, points[0], size);
    assert!((seen[1] - (size[1] - seen[1])).abs() > 1.0, "{seen:?}");
}

#[test]
fn a_camera_on_the_pole_and_a_scale_are_taken() {
    // `sphere_hammersley_sequence(0, N)`: straight below, non-degenerate only through the rounding of the cosine.
    let pole = look_at(0.0, -PI / 2.0, 2.0).concat();
    let single: Vec<f32> = pole.iter().map(|&x| x as f32).collect();
    let scaled: Vec<f64> = pole
        .iter()
        .enumerate()
        .map(|(k, x)| if k < 12 { 3.0 * x } else { *x })
        .collect();
    let mut entries = two_views();
    entries[0] = u8s("observations", &[1, 24, 40, 3], &[7; 24 * 40 * 3]);
    entries[2] = f64s("intrinsics", &[1, 3, 3], &lens(LENS));
    let mut cameras = Vec::new();
    for (pose, warned) in [
        (f64s("extrinsics", &[1, 4, 4], &pole), 0),
        (f32s("extrinsics", &[1, 4, 4], &single), 0),
        (f64s("extrinsics", &[1, 4, 4], &scaled), 1),
    ] {
        entries[1] = pose;
        let (read, warnings) = views(&file(&entries, NORMALIZED)).expect("views");
        assert_eq!(warnings.len(), warned, "{warnings:?}");
        cameras.push(read.decode(0).expect("a view").1);
    }
    let seen: Vec<[f64; 2]> = cameras
        .iter()
        .map(|camera| through(camera, [0.1, 0.2, 0.3]))
        .collect();
    for other in &seen[1..] {
        assert!(
            (0..2).all(|k| (seen[0][k] - other[k]).abs() < 1e-4),
            "{seen:?}"
        );
    }
}

/// Larger than a piece, and no multiple of one.
const LARGE: [usize; 2] = [701, 503];

fn pixel(view: usize, x: usize, y: usize) -> [u8; 3] {
    [
        (x % 256) as u8,
        (y % 256) as u8,
        (16 * view + x / 256 + 4 * (y / 256)) as u8,
    ]
}

fn picture(entries: Vec<Entry>, view: usize) -> (Picture, bool) {
    let (read, _) = views(&file(&entries, NORMALIZED)).expect("views");
    let (picture, _, far_outside) = read.decode(view).expect("a view");
    (picture, far_outside)
}

#[test]
fn every_pixel_of_a_slice_stands_where_it_was_drawn() {
    let [width, height] = LARGE;
    let places = || {
        (0..2).flat_map(|view| (0..height).flat_map(move |y| (0..width).map(move |x| (view, x, y))))
    };
    let bytes: Vec<u8> = places()
        .flat_map(|(view, x, y)| pixel(view, x, y))
        .collect();
    // Within a third of a step of the middle of the step, and outside the range.
    let floats: Vec<f32> = bytes
        .iter()
        .enumerate()
        .map(|(k, &byte)| match (k % 3, byte) {
            (1, 0) => -0.7,
            (1, 255) => 1.9,
            (part, byte) => (f32::from(byte) + [0.3, -0.3, 0.0][part]) / 255.0,
        })
        .collect();
    let mask: Vec<u8> = places()
        .map(|(view, x, y)| u8::from(x > 2 * y + view))
        .collect();
    let shape = [2, height, width, 3];
    let mut entries = two_views();
    for observations in [
        u8s("observations", &shape, &bytes),
        f32s("observations", &shape, &floats),
    ] {
        entries[0] = observations;
        for (masks, opaque) in [
            (None, 255),
            (Some(u8s("masks", &shape[..3], &mask)), 255),
            (
                Some(Entry("masks", "BOOL", shape[..3].to_vec(), mask.clone())),
                255,
            ),
            (
                Some(u8s(
                    "masks",
                    &shape[..3],
                    &mask.iter().map(|x| 200 * x).collect::<Vec<_>>(),
                )),
                200,
            ),
            (
                Some(f32s(
                    "masks",
                    &shape[..3],
                    &mask.iter().map(|&x| 0.2 * f32::from(x)).collect::<Vec<_>>(),
                )),
                51,
            ),
        ] {
            let masked = masks.is_some();
            let (picture, far_outside) = picture(entries.iter().cloned().chain(masks).collect(), 1);
            assert_eq!(
                (picture.width as usize, picture.height as usize),
                (width, height)
            );
            assert_eq!((picture.has_alpha, far_outside), (masked, false));
            for (k, &[r, g, b, a]) in picture.pixels.iter().enumerate() {
                let (x, y) = (k % width, k / width);
                assert_eq!([r, g, b], pixel(1, x, y), "column {x}, row {y}");
                let inside = !masked || x > 2 * y + 1;
                assert_eq!(a, if inside { opaque } else { 0 }, "column {x}, row {y}");
            }
        }
    }
}

#[test]
fn floats_that_are_not_in_their_range_are_told() {
    let mut entries = two_views();
    let mut floats = vec![0.5_f32; 2 * 24 * 40 * 3];
    floats[0] = 255.0;
    entries[0] = f32s("observations", &[2, 24, 40, 3], &floats);
    let (read, _) = views(&file(&entries, NORMALIZED)).expect("views");
    assert_eq!(
        [0, 1].map(|view| read.decode(view).expect("a view").2),
        [true, false]
    );
    assert_eq!(
        read.decode(0).expect("a view").0.pixels[0],
        [255, 128, 128, 255]
    );
    let number = 24 * 40 * 3 + (40 * 2 + 5) * 3 + 1;
    floats[number] = f32::INFINITY;
    entries[0] = f32s("observations", &[2, 24, 40, 3], &floats);
    let (read, _) = views(&file(&entries, NORMALIZED)).expect("views");
    assert!(read.decode(0).is_ok());
    let error = read.decode(1).expect_err("an infinite colour");
    assert_eq!(
        error.to_string(),
        "tensor observations: [1, 2, 5, 1] is inf, which is not a finite number"
    );
    entries[0] = two_views().remove(0);
    let mut masks = vec![1.0_f32; 2 * 24 * 40];
    masks[40 + 3] = f32::NAN;
    entries.push(f32s("masks", &[2, 24, 40], &masks));
    let (read, _) = views(&file(&entries, NORMALIZED)).expect("views");
    let error = read.decode(0).expect_err("a mask without a number");
    assert!(
        error.to_string().contains("tensor masks: [0, 1, 3] is NaN"),
        "{error}"
    );
}

#[test]
fn tensors_without_a_meaning_are_told() {
    let entries = [
        two_views(),
        vec![u8s("mask", &[1], &[1]), u8s("a", &[0], &[])],
    ]
    .concat();
    let (_, warnings) = views(&file(&entries, NORMALIZED)).expect("views");
    assert_eq!(
        warnings,
        ["nothing is known of these tensors, they are not read: a, mask"]
    );
}

#[test]
fn content_or_name_tells_the_kind() {
    let empty = join("{}", b"");
    for (bytes, name, wanted) in [
        (&empty[..], "a", true),
        (b"\x02\0\0\0\0\0\0\0{", "a.glb", true),
        (b"glTF\x02\0\0\0\x10", "a", false),
        (b"{ \"asset\": 1 }", "a.gltf", false),
        (b"v 0 0 0\nv 1", "a", false),
        (b"", "a", false),
        (b"", "a.SafeTensors", true),
    ] {
        let found = open(bytes, name, |folder| {
            are_in(&folder.open(name, 99).expect("there"), name).expect("read")
        });
        assert_eq!(found, wanted, "{name}: {bytes:?}");
    }
}

#[test]
fn channels_lie_beside_the_observations() {
    use proto::table::Layer;

    use crate::prepare::transforms::NormalSpace;

    let shape = [2, 24, 40, 3];
    let count = 2 * 24 * 40 * 3;
    let bytes: Vec<u8> = (0..count).map(|k| (k % 251) as u8).collect();
    let mut entries = two_views();
    entries.push(u8s("channels.normal", &shape, &bytes));
    entries.push(f32s("channels.opacity", &shape, &vec![0.25; count]));
    let (read, warnings) = views(&file(&entries, NORMALIZED)).expect("views");
    assert_eq!(warnings, [""; 0]);
    assert!(read.layer_set().iter().eq([Layer::Normal, Layer::Opacity]));
    assert_eq!(read.normal_space(), NormalSpace::World);
    let (layers, far_outside) = read.decode_layers(1).expect("a view");
    assert!(!far_outside);
    let [(normal, picture), (opacity, other)] = &layers[..] else {
        panic!("two layers")
    };
    assert_eq!((*normal, *opacity), (Layer::Normal, Layer::Opacity));
    let second = bytes[count / 2..].as_chunks::<3>().0.iter();
    assert!(picture.pixels.iter().map(|p| &p[..3]).eq(second));
    assert!(other.pixels.iter().all(|pixel| *pixel == [64, 64, 64, 255]));

    let camera = NORMALIZED.replace('}', r#","normal_space":"camera"}"#);
    let (read, _) = views(&file(&entries, &camera)).expect("views");
    assert_eq!(read.normal_space(), NormalSpace::Camera);
    let odd = NORMALIZED.replace('}', r#","normal_space":"tangent"}"#);
    let error = views(&file(&entries, &odd)).expect_err("no such space");
    assert_eq!(
        error.to_string(),
        "metadata normal_space is tangent, which is not \"world\" or \"camera\""
    );
    entries.push(u8s(
        "channels.occlusion",
        &[2, 24, 40, 1],
        &bytes[..2 * 24 * 40],
    ));
    let error = views(&file(&entries, NORMALIZED)).expect_err("one channel");
    assert!(
        error.to_string().contains("tensor channels.occlusion: "),
        "{error}"
    );
}
