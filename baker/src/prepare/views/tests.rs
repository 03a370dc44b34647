//! `deliver` against a supervisor that grants memory and reads it back, on folders written here.

mod extremes;

use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use proto::blob::{Blob, BlobFile};
use proto::channel::{Channel, ChannelError};
use proto::message::{FromChild, Root, ToChild};
use serde_json::{Value, json};

use super::*;
use crate::prepare::picture::{Colours, Picture};
use crate::worker::folder::Local;

/// Grants what is asked for until the other end closes. Returns the views and the warnings.
fn supervise(channel: &Channel) -> (Vec<View>, Vec<String>) {
    let (mut views, mut warnings) = (Vec::new(), Vec::new());
    let mut granted = None;
    loop {
        match channel.receive() {
            Ok(FromChild::Allocate { table, bytes }) => {
                let blob = Blob::create("test", bytes).expect("memory");
                channel
                    .send(&ToChild::Grant { table }, &[blob.as_fd()])
                    .expect("room");
                granted = Some(blob);
            }
            Ok(FromChild::Filled { table }) => {
                let blob = granted.take().expect("granted before");
                blob.seal_written().expect("seals");
                let file = BlobFile::open(blob.as_fd().try_clone_to_owned().expect("an fd"))
                    .expect("sealed");
                let view = View::read(&mut file.reader()).expect("a view");
                assert_eq!(table, Table::View(view.index));
                views.push(view);
            }
            Ok(FromChild::Warning { text }) => warnings.push(text),
            Ok(_) => {}
            Err(ChannelError::Closed) => return (views, warnings),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Corners of a square of two units about the origin, in the plane z = 0.
const SQUARE: [[f32; 3]; 4] = [
    [-1.0, -1.0, 0.0],
    [1.0, -1.0, 0.0],
    [1.0, 1.0, 0.0],
    [-1.0, 1.0, 0.0],
];

/// On the z axis at distance 4, looking at the origin, or away from it.
fn frame(file: &str, away: bool) -> Value {
    let turn = if away { -1 } else { 1 };
    json!({"file_path": file, "transform_matrix": [[turn, 0, 0, 0], [0, 1, 0, 0], [0, 0, turn, 4], [0, 0, 0, 1]]})
}

/// 64×48 pixels, focal length 40: the square covers columns 22-42 and rows 14-34.
fn transforms(frames: &[Value]) -> Value {
    json!({"fl_x": 40.0, "w": 64, "h": 48, "frames": frames})
}

fn picture(path: &Path, size: [u32; 2], pixel: impl Fn(u32, u32) -> [u8; 4]) {
    image::RgbaImage::from_fn(size[0], size[1], |x, y| image::Rgba(pixel(x, y)))
        .save(path)
        .expect("saves");
}

fn job(holdout: u32) -> PrepareJob {
    PrepareJob {
        views_file: "transforms.json".to_owned(),
        texture_size: 256,
        holdout,
        unwrap_deadline_ms: 1000,
        layers: true,
        ..PrepareJob::default()
    }
}

type Outcome = (Result<ViewsSummary, Failure>, Vec<View>, Vec<String>);

fn deliver_from(folder: &Path, transforms: &Value, job: &PrepareJob) -> Outcome {
    let file = folder.join(&job.views_file);
    std::fs::write(file, transforms.to_string()).expect("writes");
    deliver_written(folder, job)
}

fn deliver_written(folder: &Path, job: &PrepareJob) -> Outcome {
    deliver_if(folder, job, &AtomicBool::new(false))
}

fn deliver_if(folder: &Path, job: &PrepareJob, unwanted: &AtomicBool) -> Outcome {
    deliver_at(folder, job, (Offset::default(), unwanted))
}

/// As the role does it, for a mesh at an offset, without a look at its silhouette.
fn deliver_at(
    folder: &Path,
    job: &PrepareJob,
    (offset, unwanted): (Offset, &AtomicBool),
) -> Outcome {
    let (ours, theirs) = Channel::pair().expect("sockets");
    let supervisor = thread::spawn(move || supervise(&ours));
    let session = Session::over(theirs);
    let files = Local(folder.to_path_buf());
    let views = Folder::new(&files, Root::Views);
    let deliver = || {
        let mut views = Views::read(&views, job, &session)?;
        views.stand.apply(&mut views.set, &session);
        views.set.shift(&offset);
        views.deliver(&session, &SQUARE[..], unwanted)
    };
    let result = deliver();
    drop(session);
    let (views, warnings) = supervisor.join().expect("no panic");
    (result, views, warnings)
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    // Two pixels of each picture identify its origin.
    picture(&folder.path().join("opaque.png"), [64, 48], |x, y| {
        [x as u8, y as u8, 7, 255]
    });
    picture(&folder.path().join("cut.png"), [64, 48], |x, y| {
        [
            x as u8,
            y as u8,
            8,
            if (30..60).contains(&x) && (20..22).contains(&y) {
                200
            } else {
                0
            },
        ]
    });
    picture(&folder.path().join("clear.png"), [64, 48], |_, _| {
        [9; 4].map(|_| 0)
    });
    picture(&folder.path().join("mask.png"), [64, 48], |x, _| {
        if x < 32 { [255; 4] } else { [0, 0, 0, 255] }
    });
    folder
}

#[test]
fn views_are_cropped_to_what_can_matter_and_keep_their_order() {
    let folder = folder();
    let mut masked = frame("opaque.png", false);
    masked["mask_path"] = json!("mask");
    let frames = [
        frame("opaque.png", false),
        frame("./cut", false),
        frame("clear.png", false),
        frame("opaque", true),
        masked,
    ];
    let (result, views, warnings) = deliver_from(folder.path(), &transforms(&frames), &job(0));
    let counts = result.map(|summary| (summary.views, summary.holdout_views));
    assert_eq!(counts, Ok((5, 0)));
    assert_eq!(
        views.iter().map(|view| view.index).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );

    // Columns 22-42 and rows 14-34 grown by 4.
    let opaque = &views[0];
    assert_eq!(
        (opaque.crop, opaque.width, opaque.height, opaque.has_alpha),
        ([18, 10], 28, 28, false)
    );
    assert_eq!(
        (opaque.pixels[0], opaque.pixels[27]),
        ([18, 10, 7, 255], [45, 10, 7, 255])
    );
    assert_eq!(opaque.camera.centre, [32.0 - 18.0, 24.0 - 10.0]);
    // Through the crop's camera a corner of the square is where it is in the whole picture.
    let depth = opaque.camera.translation[2] - opaque.camera.rotation[2][0];
    assert_eq!(
        (depth, 40.0 / depth + opaque.camera.centre[0] + 18.0),
        (4.0, 42.0)
    );

    // Of the opaque columns 30-60 only those up to 42 can show the mesh, or up to 58 if the camera is off.
    let cut = &views[1];
    assert_eq!(
        (cut.crop, cut.width, cut.height, cut.has_alpha),
        ([26, 16], 36, 10, true)
    );
    assert_eq!(cut.pixels[4 * 36 + 4], [30, 20, 8, 200]);

    for empty in &views[2..4] {
        assert_eq!(
            (empty.width, empty.height, &empty.pixels[..]),
            (1, 1, &[[0; 4]][..])
        );
    }
    let masked = &views[4];
    assert_eq!(
        (masked.crop, masked.width, masked.has_alpha),
        ([2, 0], 34, true)
    );
    assert_eq!(masked.pixels[29], [31, 0, 7, 255]);
    assert_eq!(masked.pixels[30], [32, 0, 7, 0]);

    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].starts_with("1 of 5 views show nothing of the mesh")
            && warnings[0].contains("(opaque)")
    );
    assert!(
        warnings[1].starts_with("1 of 5 views are fully transparent")
            && warnings[1].contains("(clear.png)")
    );
}

#[test]
fn faces_of_a_panorama_are_held_out_together() {
    let folder = folder();
    // Each place has its own column; the square before the camera is in the middle.
    picture(&folder.path().join("pano.png"), [128, 64], |x, y| {
        [x as u8, y as u8, 9, 255]
    });
    let frames: Vec<Value> = (0..3).map(|_| frame("pano.png", false)).collect();
    let set = json!({"camera_model": "EQUIRECTANGULAR", "w": 128, "h": 64, "frames": frames});
    let (result, views, warnings) = deliver_from(folder.path(), &set, &job(1));
    let summary = result.expect("sound");
    assert_eq!((summary.views, summary.holdout_views), (12, 6));
    for panorama in views.chunks(6) {
        assert!(
            panorama
                .iter()
                .all(|view| view.holdout == panorama[0].holdout)
        );
        // The face in front sees the square: its middle is the panorama's, where the face's own edge is 2 (128 / 2π + 1).
        let front = &panorama[0];
        let [x, y] = [0, 1].map(|k| front.camera.centre[k] as usize);
        let pixel = front.pixels[y * front.width as usize + x];
        assert!(
            (63..=65).contains(&pixel[0]) && (31..=33).contains(&pixel[1]),
            "{pixel:?}"
        );
        assert_eq!(
            (panorama[2].width, panorama[2].height),
            (1, 1),
            "behind is nothing"
        );
    }
    assert!(
        warnings[0].contains("3 panoramas are resampled as 18 views"),
        "{warnings:?}"
    );
    assert!(
        !warnings.iter().any(|text| text.contains("show nothing")),
        "{warnings:?}"
    );
    let (result, ..) = deliver_from(folder.path(), &set, &job(3));
    assert!(
        result
            .expect_err("none left")
            .message
            .contains("3 views to hold out of 3")
    );
}

#[test]
fn held_out_views_are_marked_and_one_must_stay() {
    let folder = folder();
    let frames: Vec<Value> = (0..7).map(|_| frame("opaque.png", false)).collect();
    let (result, views, _) = deliver_from(folder.path(), &transforms(&frames), &job(3));
    let counts = result.map(|summary| (summary.views, summary.holdout_views));
    assert_eq!(counts, Ok((4, 3)));
    assert_eq!(views.iter().filter(|view| view.holdout).count(), 3);
    let (result, views, _) = deliver_from(folder.path(), &transforms(&frames), &job(7));
    assert_eq!(
        (result.expect_err("none left").code, views.len()),
        (Code::InvalidSpec, 0)
    );
}

#[test]
fn views_held_out_by_name_stay_out_and_more_are_chosen_from_the_rest() {
    let folder = folder();
    for number in 0..7 {
        std::fs::copy(
            folder.path().join("opaque.png"),
            folder.path().join(format!("{number}.png")),
        )
        .expect("a copy");
    }
    let frames: Vec<Value> = (0..7)
        .map(|number| frame(&format!("./{number}.png"), false))
        .collect();
    let mut file = transforms(&frames);
    file["test_filenames"] = json!(["1.png", "2.png"]);
    file["val_filenames"] = json!(["./2.png", "5.png"]);
    for more in 0..4 {
        let (result, views, _) = deliver_from(folder.path(), &file, &job(more));
        let counts = result.map(|summary| (summary.views, summary.holdout_views));
        assert_eq!(counts, Ok((4 - more, 3 + more)));
        assert!([1, 2, 5].iter().all(|&index| views[index].holdout));
        let held = views.iter().filter(|view| view.holdout).count();
        assert_eq!(held, 3 + more as usize);
    }
    let failure = deliver_from(folder.path(), &file, &job(4))
        .0
        .expect_err("none left");
    assert_eq!(failure.code, Code::InvalidSpec);
    assert!(
        failure
            .message
            .contains("4 views to hold out of 4 (3 more are held out by name)"),
        "{failure:?}"
    );
    file["test_filenames"] = json!(["8.png"]);
    let failure = deliver_from(folder.path(), &file, &job(0))
        .0
        .expect_err("no such frame");
    assert_eq!(failure.code, Code::InvalidAsset);
    assert!(failure.message.contains("\"8.png\""), "{failure:?}");
}

#[test]
fn views_that_all_miss_the_mesh_are_refused() {
    let folder = folder();
    for (frames, reason) in [
        (
            vec![frame("opaque", true), frame("cut", true)],
            "behind every camera",
        ),
        (
            vec![frame("clear", false)],
            "all pictures are fully transparent",
        ),
        (
            vec![frame("clear", false), frame("opaque", true)],
            "1 are fully transparent",
        ),
    ] {
        let failure = deliver_from(folder.path(), &transforms(&frames), &job(0))
            .0
            .expect_err("refused");
        assert_eq!(failure.code, Code::InvalidAsset);
        assert!(failure.message.contains(reason), "{failure:?}");
    }
}

#[test]
fn failures_name_file_and_frame() {
    let folder = folder();
    std::fs::write(folder.path().join("text.png"), "hello").expect("writes");
    std::fs::create_dir(folder.path().join("sub")).expect("a folder");
    picture(&folder.path().join("small.png"), [12, 3], |_, _| [255; 4]);
    for (file, code, reason) in [
        (
            "absent",
            Code::InvalidAsset,
            "transforms.json: frame 1: absent: no such file, nor with .png, .jpg, .jpeg or .webp behind it",
        ),
        (
            "../x.png",
            Code::InvalidAsset,
            "frame 1: ../x.png: lies outside its folder",
        ),
        ("/etc/passwd", Code::InvalidAsset, "lies outside its folder"),
        ("sub", Code::InvalidAsset, "frame 1: sub: no such file"),
        (
            "",
            Code::InvalidAsset,
            "frame 1: file_path: the file name is empty",
        ),
        (
            "text",
            Code::InvalidAsset,
            "text.png (frame 1): is no picture",
        ),
        (
            "small",
            Code::InvalidAsset,
            "transforms.json: frame 1: small.png: the picture has 12x3 pixels, but w and h say 64x48",
        ),
    ] {
        let frames = [frame("opaque", false), frame(file, false)];
        let failure = deliver_from(folder.path(), &transforms(&frames), &job(0))
            .0
            .expect_err("refused");
        assert_eq!(failure.code, code, "{failure:?}");
        assert!(
            failure.message.contains(reason),
            "{failure:?} does not say {reason:?}"
        );
    }
    let mut masked = frame("opaque", false);
    masked["mask_path"] = json!("small.png");
    let failure = deliver_from(folder.path(), &transforms(&[masked]), &job(0))
        .0
        .expect_err("refused");
    assert!(
        failure
            .message
            .contains("small.png (frame 0): the mask has 12x3 pixels"),
        "{failure:?}"
    );
}

#[test]
fn masks_in_a_folder_beside_the_pictures_count() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, right) in [("images/a.png", 255), ("masks/a.png.png", 0)] {
        let path = folder.path().join(name);
        std::fs::create_dir(path.parent().expect("a folder")).expect("room");
        picture(&path, [64, 48], |x, _| {
            let value = if x < 32 { 255 } else { right };
            [value, value, value, 255]
        });
    }
    let frames = [frame("images/a.png", false)];
    let (_, views, warnings) = deliver_from(folder.path(), &transforms(&frames), &job(0));
    let alpha = |x: u32| views[0].pixels[(x - views[0].crop[0]) as usize][3];
    assert_eq!([alpha(30), alpha(33)], [255, 0]);
    assert!(
        warnings.iter().any(|text| text.contains("masks/ beside")),
        "{warnings:?}"
    );
}

#[test]
fn files_are_relative_to_the_file_that_names_them() {
    let outer = tempfile::tempdir().expect("a folder");
    let inner = outer.path().join("set");
    std::fs::create_dir(&inner).expect("a folder");
    picture(&inner.join("a.png"), [64, 48], |_, _| [255; 4]);
    let job = PrepareJob {
        views_file: "set/transforms.json".to_owned(),
        ..job(0)
    };
    let (result, views, _) = deliver_from(outer.path(), &transforms(&[frame("a", false)]), &job);
    assert_eq!((result.is_ok(), views.len()), (true, 1));
}

#[test]
fn views_of_a_mesh_that_failed_are_not_read() {
    let folder = folder();
    let file = folder.path().join(&job(0).views_file);
    let written = transforms(&[frame("opaque", false)]).to_string();
    std::fs::write(file, written).expect("writes");
    let (result, views, _) = deliver_if(folder.path(), &job(0), &AtomicBool::new(true));
    assert_eq!(result.expect_err("unwanted").code, Code::Cancelled);
    assert!(views.is_empty());
}

#[test]
fn outline_of_a_large_mesh_holds_it_closely() {
    // A sphere of 40,000 points, and the same with all of them projected.
    let points: Vec<[f32; 3]> = (0..40_000)
        .map(|k| {
            let (z, turn) = (
                1.0 - 2.0 * (k as f32 + 0.5) / 40_000.0,
                k as f32 * 2.399_963,
            );
            let r = (1.0 - z * z).sqrt();
            [r * turn.cos(), r * turn.sin(), z]
        })
        .collect();
    let camera = proto::table::Camera {
        rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        translation: [0.1, 0.2, 4.0],
        focal: [400.0; 2],
        centre: [200.0; 2],
    };
    let picture = Picture {
        width: 400,
        height: 400,
        pixels: vec![[255; 4]; 160_000],
        has_alpha: false,
        colours: Colours::default(),
    };
    let loose = Outline::new(&points)
        .crop(&camera, &picture)
        .expect("it shows");
    let exact = Outline {
        points,
        whole: false,
    }
    .crop(&camera, &picture)
    .expect("it shows");
    assert!(loose[0] <= exact[0] && loose[1] <= exact[1]);
    assert!(
        loose[0] + loose[2] >= exact[0] + exact[2] && loose[1] + loose[3] >= exact[1] + exact[3]
    );
    assert!(
        loose[2] - exact[2] <= 12 && loose[3] - exact[3] <= 12,
        "{loose:?} around {exact:?}"
    );
}

#[test]
fn a_safetensors_file_gives_the_same_views_as_pictures_do() {
    let folder = tempfile::tempdir().expect("a folder");
    // Columns and rows differ in size and colour; a slope masks half of it.
    let [width, height] = [64_usize, 48];
    let colour = |view: u8, x: usize, y: usize| [4 * x as u8, 5 * y as u8, 100 + view];
    let inside = |x: usize, y: usize| 48 * x + 20 * y < 48 * 45;
    for view in 0..3 {
        let name = format!("{view}.png");
        picture(&folder.path().join(name), [64, 48], |x, y| {
            let (x, y) = (x as usize, y as usize);
            let [r, g, b] = colour(view, x, y);
            [r, g, b, if inside(x, y) { 255 } else { 0 }]
        });
    }
    let frames: Vec<Value> = (0..3)
        .map(|view| frame(&format!("{view}.png"), view == 1))
        .collect();
    let mut file = transforms(&frames);
    file["fl_y"] = json!(32.0);
    file["cx"] = json!(30.0);
    file["cy"] = json!(20.0);
    let (_, wanted, _) = deliver_from(folder.path(), &file, &job(1));

    // World to camera: y and z flipped, four ahead; and from the other side of the square, looking away.
    let ahead = [
        1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 4.0, 0.0, 0.0, 0.0, 1.0_f32,
    ];
    let mut away = ahead;
    (away[0], away[10], away[11]) = (-1.0, 1.0, -4.0);
    let places = (0..3_u8)
        .flat_map(|view| (0..height).flat_map(move |y| (0..width).map(move |x| (view, x, y))));
    let floats = |list: &[f32]| -> Vec<u8> { list.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let tensors = [
        (
            "U8",
            "observations",
            vec![3, height, width, 3],
            places
                .clone()
                .flat_map(|(v, x, y)| colour(v, x, y))
                .collect(),
        ),
        (
            "BOOL",
            "masks",
            vec![3, height, width],
            places.map(|(_, x, y)| u8::from(inside(x, y))).collect(),
        ),
        (
            "F32",
            "extrinsics",
            vec![3, 4, 4],
            floats(&[ahead, away, ahead].concat()),
        ),
        (
            "F32",
            "intrinsics",
            vec![3, 3, 3],
            floats(&[[40.0, 0.0, 30.0, 0.0, 32.0, 20.0, 0.0, 0.0, 1.0]; 3].concat()),
        ),
    ];
    let mut data: Vec<u8> = Vec::new();
    let mut header = serde_json::Map::new();
    for (dtype, name, shape, bytes) in tensors {
        let start = data.len();
        data.extend(bytes);
        let end = data.len();
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, end]});
        header.insert(name.to_owned(), entry);
    }
    let header = Value::Object(header).to_string();
    let length = (header.len() as u64).to_le_bytes();
    let bytes = [&length[..], header.as_bytes(), &data].concat();
    std::fs::write(folder.path().join("a.safetensors"), bytes).expect("writes");
    let job = PrepareJob {
        views_file: "a.safetensors".to_owned(),
        ..job(1)
    };
    let (result, views, warnings) = deliver_written(folder.path(), &job);
    assert_eq!(result.map(|summary| summary.holdout_views), Ok(1));
    assert_eq!(views.len(), 3);
    // Columns 20-40 and rows 12-28, grown by how far a camera may be off, up to the mask, and by 4.
    assert_eq!(
        (views[0].crop, views[0].width, views[0].height),
        ([0, 0], 49, 48)
    );
    assert!(views[0].has_alpha && views[0].pixels.iter().any(|pixel| pixel[3] == 0));
    assert_eq!(views, wanted);
    assert!(
        warnings.len() == 1 && warnings[0].contains("(observations[1])"),
        "{warnings:?}"
    );
}

#[test]
fn cameras_of_a_world_are_turned_with_it() {
    for up in [Up::Z, Up::Down] {
        cameras_are_turned_with(up);
    }
}

fn cameras_are_turned_with(up: Up) {
    let folder = folder();
    let frames = [frame("opaque.png", false)];
    let (_, given, _) = deliver_from(folder.path(), &transforms(&frames), &job(0));
    let mut turned = job(0);
    turned.repair.up = up;
    let (_, views, _) = deliver_from(folder.path(), &transforms(&frames), &turned);
    let place = |view: &View, at: [f64; 3]| -> [f64; 3] {
        std::array::from_fn(|row| {
            let turned = (0..3).map(|k| view.camera.rotation[row][k] * at[k]);
            turned.sum::<f64>() + view.camera.translation[row]
        })
    };
    for at in [
        [1.0, 0.0, 0.0],
        [0.0, 2.0, 0.0],
        [0.0, 0.0, 3.0],
        [-1.0, 5.0, 7.0],
    ] {
        let [before, after] = [place(&given[0], at), place(&views[0], up.turned(at))];
        let off = (0..3)
            .map(|k| (before[k] - after[k]).abs())
            .fold(0.0, f64::max);
        assert!(off < 1e-12, "{before:?} {after:?}");
    }

    // The cameras known before any picture is read are the same, for pictures of 1024 and 256 pixels.
    let files = Local(folder.path().to_path_buf());
    let folder = Folder::new(&files, Root::Views);
    let eyes = Views::read(&folder, &turned, &Silent)
        .expect("cameras")
        .eyes();
    assert_eq!(eyes.len(), 1);
    assert_eq!(eyes[0].camera.rotation, views[0].camera.rotation);
    assert_eq!(eyes[0].size[0].max(eyes[0].size[1]), 1024);
}

#[test]
fn cameras_of_a_far_mesh_come_with_it_to_its_local_origin() {
    let folder = folder();
    let cameras = |offset: [f64; 3], up| {
        let mut frame = frame("opaque.png", false);
        let matrix = frame["transform_matrix"].clone();
        // The file's world has z up where the result has y: its rows are x, -z, y of the result's.
        let (rows, signs) = match up {
            Up::Y => ([0, 1, 2], [1.0; 3]),
            Up::Z => ([0, 2, 1], [1.0, -1.0, 1.0]),
            Up::Down => ([0, 1, 2], [1.0, -1.0, -1.0]),
        };
        for ((row, from), sign) in rows.into_iter().enumerate().zip(signs) {
            for column in 0..4 {
                let number = matrix[from][column].as_f64().expect("a number");
                let by = if column == 3 { offset[from] } else { 0.0 };
                frame["transform_matrix"][row][column] = json!(sign * (number + by));
            }
        }
        let file = folder.path().join("transforms.json");
        std::fs::write(file, transforms(&[frame]).to_string()).expect("writes");
        let mut job = job(0);
        job.repair.up = up;
        let at = (offset, &AtomicBool::new(false));
        let (result, views, _) = deliver_at(folder.path(), &job, at);
        result.expect("a view");
        views[0].camera
    };
    for up in [Up::Y, Up::Z, Up::Down] {
        let (near, far) = (
            cameras([0.0; 3], up),
            cameras([451_201.0, 97.5, -5_412_299.0], up),
        );
        assert_eq!(near.rotation, far.rotation);
        for (near, far) in near.translation.iter().zip(far.translation) {
            assert!((near - far).abs() < 1e-8, "{near} {far}");
        }
    }
}
