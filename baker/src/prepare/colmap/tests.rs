//! Models in both formats, valid and broken.

use std::path::Path;

use proto::limits::MAX_VIEWS;
use proto::message::{Code, Root};

use super::*;
use crate::prepare::transforms::{Curved, Distortion, Fisheye};
use crate::worker::folder::Local;

/// Numbers of a camera as COLMAP's own library reads them: id, model, size, parameters.
type Camera<'a> = (u32, i32, [u64; 2], &'a [f64]);
type Image<'a> = (u32, [f64; 7], u32, &'a str);

const TURN: [f64; 7] = [0.5, 0.5, 0.5, 0.5, 1.0, 2.0, 3.0];

fn binary(cameras: &[Camera<'_>], images: &[Image<'_>]) -> [Vec<u8>; 2] {
    let mut first = (cameras.len() as u64).to_le_bytes().to_vec();
    for (id, model, size, parameters) in cameras {
        first.extend(id.to_le_bytes());
        first.extend(model.to_le_bytes());
        first.extend(size.iter().flat_map(|x| x.to_le_bytes()));
        first.extend(parameters.iter().flat_map(|x| x.to_le_bytes()));
    }
    let mut second = (images.len() as u64).to_le_bytes().to_vec();
    for (points, (id, pose, camera, name)) in images.iter().enumerate() {
        second.extend(id.to_le_bytes());
        second.extend(pose.iter().flat_map(|x| x.to_le_bytes()));
        second.extend(camera.to_le_bytes());
        second.extend(name.bytes().chain([0]));
        second.extend((points as u64).to_le_bytes());
        second.extend(vec![9; 24 * points]);
    }
    [first, second]
}

fn read_from(folder: &Path, ending: &str, files: &[Vec<u8>; 2]) -> Result<Vec<Frame>, Failure> {
    let images = format!("images.{ending}");
    std::fs::write(folder.join(format!("cameras.{ending}")), &files[0]).expect("room");
    std::fs::write(folder.join(&images), &files[1]).expect("room");
    let local = Local(folder.to_path_buf());
    let folder = Folder::new(&local, Root::Views);
    let opened = folder.open(&images, MAX_COLMAP_FILE_BYTES).expect("there");
    read(&folder, &opened, &images)
}

fn read_binary(files: &[Vec<u8>; 2]) -> Result<Vec<Frame>, Failure> {
    let folder = tempfile::tempdir().expect("a folder");
    read_from(folder.path(), "bin", files)
}

fn read_text(cameras: &str, images: &str) -> Result<Vec<Frame>, Failure> {
    let folder = tempfile::tempdir().expect("a folder");
    read_from(folder.path(), "txt", &[cameras.into(), images.into()])
}

#[test]
fn both_forms_say_the_same() {
    let cameras: &[Camera<'_>] = &[
        (
            7,
            4,
            [64, 48],
            &[50.0, 51.0, 31.5, 24.25, 0.1, -0.02, 0.003, -0.004],
        ),
        (1, 0, [32, 32], &[40.0, 16.0, 16.0]),
    ];
    let images: &[Image<'_>] = &[
        (3, TURN, 7, "b/one two.png"),
        (1, [2.0, 0.0, 0.0, 0.0, 0.0, -1.0, 4.5], 1, "a.jpg"),
        (2, TURN, 7, "c.png"),
    ];
    let from_binary = read_binary(&binary(cameras, images)).expect("whole");
    let from_text = read_text(
        "# Camera list\r\n7 OPENCV 64 48 50 51 31.5 24.25 0.1 -0.02 3e-3 -0.004\r\n\n1 SIMPLE_PINHOLE 32 32 40 16 16\n",
        "# Image list\n3 0.5 0.5 0.5 0.5 1 2 3 7 b/one two.png\n\n1 2 0 0 0 0 -1 4.5 1 a.jpg\n1.5 2.5 -1 3 4 17\n\
         # between\n2 0.5 0.5 0.5 0.5 1 2 3 7 c.png",
    )
    .expect("whole");
    assert_eq!(from_binary, from_text);
    let [first, second, _] = &from_binary[..] else {
        panic!("three images");
    };
    assert_eq!(
        (&first.file[..], &second.file[..]),
        ("b/one two.png", "a.jpg")
    );
    // A rotation by 120° about the diagonal: x maps to y, y to z.
    let turned = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];
    assert_eq!(
        (first.pose.rotation, first.pose.translation),
        (turned, [1.0, 2.0, 3.0])
    );
    assert_eq!(
        second.pose.rotation[1],
        [0.0, 1.0, 0.0],
        "a length of 2 is none"
    );
    // COLMAP has the centre of the first pixel at one half, as here: nothing is moved.
    let (focal, centre) = first.lens.intrinsics([64, 48]).expect("a lens");
    assert_eq!((focal, centre), ([50.0, 51.0], [31.5, 24.25]));
    assert!(first.lens.distortion.is_some() && second.lens.distortion.is_none());
}

#[test]
fn every_model_that_ours_covers_is_the_same_lens() {
    let distort = |model: i32, parameters: &[f64]| {
        let files = binary(
            &[(1, model, [100, 100], parameters)],
            &[(1, TURN, 1, "a.png")],
        );
        let frames = read_binary(&files).expect("covered");
        let lens = &frames[0].lens;
        let at = [0.3, -0.2];
        let at = lens
            .distortion
            .as_ref()
            .map_or(at, |lens: &Distortion| lens.distort(at));
        let (focal, centre) = lens.intrinsics([100, 100]).expect("a lens");
        [0, 1].map(|axis| focal[axis] * at[axis] + centre[axis])
    };
    let (x, y): (f64, f64) = (0.3, -0.2);
    let r2 = x * x + y * y;
    let near = |found: [f64; 2], wanted: [f64; 2], model: &str| {
        let off = (found[0] - wanted[0]).hypot(found[1] - wanted[1]);
        assert!(off < 1e-9, "{model}: {found:?} instead of {wanted:?}");
    };
    near(
        distort(0, &[80.0, 50.0, 49.0]),
        [80.0 * x + 50.0, 80.0 * y + 49.0],
        "SIMPLE_PINHOLE",
    );
    near(
        distort(1, &[80.0, 81.0, 50.0, 49.0]),
        [80.0 * x + 50.0, 81.0 * y + 49.0],
        "PINHOLE",
    );
    let radial = 1.0 + 0.1 * r2;
    near(
        distort(2, &[80.0, 50.0, 49.0, 0.1]),
        [80.0 * x * radial + 50.0, 80.0 * y * radial + 49.0],
        "SIMPLE_RADIAL",
    );
    let radial = radial - 0.05 * r2 * r2;
    near(
        distort(3, &[80.0, 50.0, 49.0, 0.1, -0.05]),
        [80.0 * x * radial + 50.0, 80.0 * y * radial + 49.0],
        "RADIAL",
    );
    let (p1, p2) = (0.01, -0.02);
    let bent = |radial: f64| {
        [
            80.0 * (x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x)) + 50.0,
            81.0 * (y * radial + p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y) + 49.0,
        ]
    };
    near(
        distort(4, &[80.0, 81.0, 50.0, 49.0, 0.1, -0.05, p1, p2]),
        bent(radial),
        "OPENCV",
    );
    let radial = (radial + 0.02 * r2.powi(3)) / (1.0 + 0.3 * r2 + 0.2 * r2 * r2 + 0.1 * r2.powi(3));
    let full = [
        80.0, 81.0, 50.0, 49.0, 0.1, -0.05, p1, p2, 0.02, 0.3, 0.2, 0.1,
    ];
    near(distort(6, &full), bent(radial), "FULL_OPENCV");
}

#[test]
fn other_lenses_are_refused_by_name_where_an_image_has_one() {
    let other: Camera<'_> = (5, 7, [64, 48], &[1.0, 1.0, 1.0, 1.0, 9.0]);
    let pinhole: Camera<'_> = (1, 1, [64, 48], &[50.0, 50.0, 32.0, 24.0]);
    read_binary(&binary(&[other, pinhole], &[(1, TURN, 1, "a.png")])).expect("nobody uses it");
    let failure = read_binary(&binary(
        &[other, pinhole],
        &[(1, TURN, 1, "a.png"), (9, TURN, 5, "b.png")],
    ));
    let failure = failure.expect_err("an absurd angle");
    assert_eq!(failure.code, Code::UnsupportedFeature);
    assert!(
        failure
            .message
            .starts_with("images.bin: image 9 (b.png): camera 5: the model FOV "),
        "{}",
        failure.message
    );
    assert!(failure.hint.contains("colmap image_undistorter"));
    let named = read_text("1 NEWEST 9 9 1 2 3", "1 1 0 0 0 0 0 0 1 a.png\n").expect_err("unknown");
    assert!(
        named.message.contains("the model NEWEST"),
        "{}",
        named.message
    );
    let numbered = read_binary(&binary(&[(1, 99, [9, 9], &[])], &[])).expect_err("unknown");
    assert!(numbered.message.contains("model number 99") && numbered.hint.contains("undistorter"));
}

/// Coefficients of Project Aria, each another.
const ARIA: [f64; 12] = [
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.01, 0.02, 0.001, 0.002, 0.003, 0.004,
];

#[test]
fn a_panorama_is_six_views() {
    let image = (1, TURN, 1, "a.png");
    let panorama =
        |parameters: &[f64]| read_binary(&binary(&[(1, 17, [400, 200], parameters)], &[image]));
    let frames = panorama(&[400.0, 200.0]).expect("a sphere");
    assert_eq!(frames.len(), 6);
    // Every model of COLMAP has its number, and none is left out.
    assert_eq!(
        lens::Model::numbered(17).expect("known").name(),
        "EQUIRECTANGULAR"
    );
    assert!(lens::Model::numbered(18).is_none());
    let other = panorama(&[200.0, 200.0]).expect_err("another size");
    assert!(
        other.message.contains("in a picture of [400.0, 200.0]"),
        "{}",
        other.message
    );
}

#[test]
fn fisheyes_are_lenses() {
    for (number, parameters, lens) in [
        (
            5,
            vec![0.1, 0.2, 0.3, 0.4],
            Curved::fisheye(&[0.1, 0.2, 0.3, 0.4]),
        ),
        (7, vec![0.9], Curved::Fov(0.9)),
        (8, vec![0.1], Curved::fisheye(&[0.1])),
        (9, vec![0.1, 0.2], Curved::fisheye(&[0.1, 0.2])),
        (
            10,
            vec![0.1, 0.2, 0.01, 0.02, 0.3, 0.4, 0.03, 0.04],
            Curved::Fisheye(Fisheye {
                radial: [0.1, 0.2, 0.3, 0.4, 0.0, 0.0],
                tangential: [0.01, 0.02],
                prism: [0.03, 0.0, 0.04, 0.0],
                after: false,
            }),
        ),
        (14, vec![], Curved::fisheye(&[])),
        (15, vec![], Curved::fisheye(&[])),
        (
            11,
            [&ARIA[..]].concat(),
            Curved::Fisheye(Fisheye::of_aria(&ARIA).expect("twelve")),
        ),
        (12, vec![-0.2], Curved::Division(-0.2)),
        (13, vec![-0.2], Curved::Division(-0.2)),
        (16, vec![0.6, 1.1], Curved::Eucm([0.6, 1.1])),
    ] {
        let lengths = if matches!(number, 8 | 9 | 12 | 14) {
            1
        } else {
            2
        };
        let all = [vec![50.0; lengths], vec![32.0, 24.0], parameters].concat();
        let image = (1, TURN, 1, "a.png");
        let read = read_binary(&binary(&[(1, number, [64, 48], &all)], &[image])).expect("a lens");
        let wanted = Some(Distortion::Curved(lens));
        assert_eq!(read[0].lens.distortion, wanted, "{number}");
        let lens = read[0].lens.intrinsics([64, 48]).expect("a lens");
        assert_eq!(lens, ([50.0; 2], [32.0, 24.0]), "{number}");
    }
}

#[test]
fn what_is_broken_is_refused_in_a_line_that_names_it() {
    let camera: Camera<'_> = (1, 1, [64, 48], &[50.0, 50.0, 32.0, 24.0]);
    let image: Image<'_> = (4, TURN, 1, "a.png");
    let whole = binary(&[camera], &[image, image]);
    read_binary(&whole).expect("whole");
    for file in 0..2 {
        for end in 0..whole[file].len() {
            let mut cut = whole.clone();
            cut[file].truncate(end);
            let failure = read_binary(&cut).expect_err("cut");
            let name = ["cameras.bin: ", "images.bin: "][file];
            assert!(failure.message.starts_with(name), "{}", failure.message);
        }
        let mut counted = whole.clone();
        counted[file][..8].copy_from_slice(&(1_u64 << 60).to_le_bytes());
        let failure = read_binary(&counted).expect_err("a count");
        assert!(failure.message.contains("too short"), "{}", failure.message);
    }
    let mut points = whole.clone();
    let end = points[1].len() - 24 - 8;
    points[1][end..end + 8].copy_from_slice(&(1_u64 << 60).to_le_bytes());
    read_binary(&points).expect_err("points beyond the end");
    let with = |image: Image<'_>| {
        read_binary(&binary(&[camera], &[image]))
            .expect_err("broken")
            .message
    };
    let nan = [f64::NAN, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
    assert!(with((4, nan, 1, "a.png")).contains("image 4 (a.png): the quaternion [NaN"));
    assert!(with((4, [0.0; 7], 1, "a.png")).contains("is no rotation"));
    let far = [1.0, 0.0, 0.0, 0.0, 0.0, f64::INFINITY, 0.0];
    assert!(with((4, far, 1, "a.png")).contains("out of range"));
    assert!(with((4, TURN, 2, "a.png")).contains("its camera 2 is not in cameras.bin"));
    let lens = |parameters: &[f64]| {
        let files = binary(&[(1, 1, [64, 48], parameters)], &[image]);
        read_binary(&files).expect_err("no lens").message
    };
    assert!(lens(&[f64::NAN, 50.0, 32.0, 24.0]).contains("NaN is no parameter"));
    assert!(lens(&[-1.0, 50.0, 32.0, 24.0]).contains("fl_x is -1"));
    assert!(lens(&[50.0, 50.0, 1e9, 24.0]).contains("cx is 1000000000"));
    assert!(
        read_binary(&binary(&[camera], &[]))
            .expect_err("none")
            .message
            .contains("no images")
    );
}

#[test]
fn lines_are_named_by_their_number() {
    const IMAGE: &str = "1 1 0 0 0 0 0 0 1 a.png\n";
    let cameras = |text: &str| read_text(text, IMAGE).expect_err("broken").message;
    assert_eq!(
        cameras("# x\n1 PINHOLE 9 9 1 2 3"),
        "cameras.txt: line 2: PINHOLE has 4 parameters, not 3"
    );
    assert_eq!(
        cameras("1 PINHOLE 9"),
        "cameras.txt: line 1 ends before its HEIGHT"
    );
    assert_eq!(
        cameras("x PINHOLE 9 9"),
        "cameras.txt: line 1: \"x\" is no CAMERA_ID"
    );
    let images = |text: &str| {
        read_text("1 SIMPLE_PINHOLE 9 9 5 4 4", text)
            .expect_err("broken")
            .message
    };
    assert_eq!(
        images("1 1 0 0 0 0 0 0 1"),
        "images.txt: line 1 ends before its NAME"
    );
    assert_eq!(
        images("1 1 0 zero"),
        "images.txt: line 1: \"zero\" is no QY"
    );
    assert_eq!(images("# nothing"), "images.txt: has no images");
    let second = "images.txt: line 2 is not the points of the image before it: each image has a second line, which may be empty";
    for points in [IMAGE, "1 2 3 4", "1 2 a.png", "1 2 3 4 5 6 7 8 9 000001"] {
        assert_eq!(images(&format!("{IMAGE}{points}\n")), second, "{points}");
    }
    let many = format!("{IMAGE}\n").repeat(MAX_VIEWS + 1);
    assert!(images(&many).contains("more than the 4096"));
}
