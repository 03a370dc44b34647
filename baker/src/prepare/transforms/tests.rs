//! Checks each variant of the file, written out here, against the camera it means, and each broken one against its
//! message.

use proto::message::Code;
use serde_json::{Value, json};

use super::*;

/// A camera at (1, 2, 3) that looks along world -x with world z up: no two axes alike, no symmetry.
fn pose() -> Value {
    json!([
        [0.0, 0.0, 1.0, 1.0],
        [1.0, 0.0, 0.0, 2.0],
        [0.0, 1.0, 0.0, 3.0],
        [0.0, 0.0, 0.0, 1.0]
    ])
}

fn frame() -> Value {
    json!({"file_path": "a.png", "transform_matrix": pose()})
}

/// A file with `top` at the top level and one frame with `keys`.
fn file(top: Value, keys: Value) -> Vec<u8> {
    let mut frame = frame();
    let mut file = json!({});
    for (target, more) in [(&mut frame, keys), (&mut file, top)] {
        if let (Some(target), Value::Object(more)) = (target.as_object_mut(), more) {
            target.extend(more);
        }
    }
    file["frames"] = json!([frame]);
    file.to_string().into_bytes()
}

fn with_matrix(matrix: Value) -> Vec<u8> {
    file(json!({"fl_x": 10.0}), json!({"transform_matrix": matrix}))
}

fn refusal(bytes: &[u8]) -> String {
    let error = parse(bytes).expect_err("should be refused");
    format!("{error}")
}

fn intrinsics(top: Value, keys: Value, size: [u32; 2]) -> ([f64; 2], [f64; 2]) {
    let transforms = parse(&file(top, keys)).expect("readable");
    transforms.frames[0].lens.intrinsics(size).expect("a lens")
}

fn close(a: ([f64; 2], [f64; 2]), b: ([f64; 2], [f64; 2])) {
    let off = [
        a.0[0] - b.0[0],
        a.0[1] - b.0[1],
        a.1[0] - b.1[0],
        a.1[1] - b.1[1],
    ];
    assert!(off.iter().all(|x| x.abs() < 1e-9), "{a:?} instead of {b:?}");
}

#[test]
fn pose_is_turned_to_opencv_axes() {
    let transforms = parse(&file(json!({"fl_x": 10.0}), json!({}))).expect("readable");
    let pose = transforms.frames[0].pose;
    let see = |p: [f64; 3]| -> [f64; 3] {
        std::array::from_fn(|r| {
            (0..3).map(|c| pose.rotation[r][c] * p[c]).sum::<f64>() + pose.translation[r]
        })
    };
    // The camera itself; a step ahead (world -x); to the right (world y); above (world z).
    for (world, wanted) in [
        ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]),
        ([0.0, 2.0, 3.0], [0.0, 0.0, 1.0]),
        ([1.0, 3.0, 3.0], [1.0, 0.0, 0.0]),
        ([1.0, 2.0, 4.0], [0.0, -1.0, 0.0]),
    ] {
        assert_eq!(see(world), wanted, "{world:?}");
    }
}

#[test]
fn every_shape_of_matrix_is_the_same_pose() {
    let wanted = parse(&with_matrix(pose())).expect("4x4").frames[0].pose;
    let rows = pose().as_array().cloned().expect("rows");
    let flat: Vec<Value> = rows
        .iter()
        .flat_map(|row| row.as_array().cloned().expect("numbers"))
        .collect();
    for matrix in [json!(rows[..3]), json!(flat), json!(flat[..12])] {
        assert_eq!(
            parse(&with_matrix(matrix.clone()))
                .expect("readable")
                .frames[0]
                .pose,
            wanted,
            "{matrix}"
        );
    }
    // Whole numbers are numbers.
    let whole = json!([[0, 0, 1, 1], [1, 0, 0, 2], [0, 1, 0, 3], [0, 0, 0, 1]]);
    assert_eq!(
        parse(&with_matrix(whole)).expect("readable").frames[0].pose,
        wanted
    );
}

#[test]
fn columns_written_as_rows_are_taken_transposed_with_a_warning() {
    let of = |matrix| parse(&with_matrix(matrix)).expect("readable");
    let rows = of(json!([
        [0, 0, 1, 1],
        [1, 0, 0, 2],
        [0, 1, 0, 3],
        [0, 0, 0, 1]
    ]));
    let columns = of(json!([
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [1, 0, 0, 0],
        [1, 2, 3, 1]
    ]));
    assert_eq!(columns.frames[0].pose, rows.frames[0].pose);
    assert!(columns.warnings[0].contains("column by column"));
}

#[test]
fn scale_is_taken_out_with_a_warning_and_rounding_without() {
    let wanted = parse(&with_matrix(pose())).expect("readable");
    assert_eq!(wanted.warnings, Vec::<String>::new());
    let scaled = parse(&with_matrix(json!([
        [0, 0, 0.5, 1],
        [0.5, 0, 0, 2],
        [0, 0.5, 0, 3],
        [0, 0, 0, 1]
    ])));
    let scaled = scaled.expect("readable");
    assert_eq!(scaled.frames[0].pose, wanted.frames[0].pose);
    assert!(
        scaled.warnings[0].contains("scale"),
        "{:?}",
        scaled.warnings
    );

    let rounded = json!([
        [0.36, -0.48, 0.8, 1],
        [0.8, 0.6, 0.0, 2],
        [-0.481, 0.639, 0.601, 3],
        [0, 0, 0, 1]
    ]);
    let rounded = parse(&with_matrix(rounded)).expect("readable");
    assert!(rounded.warnings.is_empty());
    let r = rounded.frames[0].pose.rotation;
    for a in 0..3 {
        for b in 0..3 {
            let dot: f64 = (0..3).map(|k| r[a][k] * r[b][k]).sum();
            assert!(
                (dot - f64::from(u8::from(a == b))).abs() < 1e-12,
                "axes {a} and {b}: {dot}"
            );
        }
    }
}

#[test]
fn matrices_that_are_no_camera_are_refused_by_frame_and_reason() {
    for (matrix, reason) in [
        (
            json!([[0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 0, 3], [0, 0, 0, 1]]),
            "frame 0: transform_matrix is singular",
        ),
        (
            json!([[1, 0, 1, 1], [0, 1, 1, 2], [0, 0, 0, 3], [0, 0, 0, 1]]),
            "is singular",
        ),
        (
            json!([[-1, 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]),
            "mirrored (determinant -1.000)",
        ),
        (
            json!([[1, 0.1, 0, 1], [0, 1, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]),
            "sheared",
        ),
        (
            json!([[1000, 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]),
            "stretched",
        ),
        (
            json!([[2, 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]),
            "stretched",
        ),
        (
            json!([[1, 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, 3], [1, 2, 3, 4]]),
            "ends in the row [1.0, 2.0, 3.0, 4.0]",
        ),
        (json!([[1, 0], [0, 1]]), "has the shape 2x2"),
        (json!([]), "has the shape of an empty list"),
        (json!([1, 2, 3]), "has the shape of 3 numbers"),
        (
            json!([[1, 0, 0, 1e30], [0, 1, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]),
            "out of range",
        ),
        (
            json!([["1", 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]),
            "frame 0: transform_matrix: invalid type: string",
        ),
    ] {
        let text = refusal(&with_matrix(matrix));
        assert!(text.contains(reason), "{text:?} does not say {reason:?}");
    }
    // The third frame is reported as frame 2.
    let frames =
        json!({"fl_x": 9, "frames": [frame(), frame(), {"file_path": "c.png"}]}).to_string();
    assert_eq!(
        refusal(frames.as_bytes()),
        "frame 2: transform_matrix is missing"
    );
    let frames = json!({"fl_x": 9, "frames": [frame(), {"transform_matrix": pose()}]}).to_string();
    assert_eq!(refusal(frames.as_bytes()), "frame 1: file_path is missing");
}

#[test]
fn lens_comes_from_lengths_angles_or_both() {
    let all = json!({"fl_x": 50.0, "fl_y": 60.0, "cx": 30.0, "cy": 20.0, "w": 64, "h": 48});
    close(
        intrinsics(all.clone(), json!({}), [64, 48]),
        ([50.0, 60.0], [30.0, 20.0]),
    );
    close(
        intrinsics(json!({}), all.clone(), [64, 48]),
        ([50.0, 60.0], [30.0, 20.0]),
    );
    // A right angle across: half the width. One axis means square pixels; the centre defaults to the picture's.
    let right = std::f64::consts::FRAC_PI_2;
    close(
        intrinsics(json!({"camera_angle_x": right}), json!({}), [64, 48]),
        ([32.0, 32.0], [32.0, 24.0]),
    );
    close(
        intrinsics(json!({"camera_angle_y": right}), json!({}), [64, 48]),
        ([24.0, 24.0], [32.0, 24.0]),
    );
    let both = json!({"camera_angle_x": right, "camera_angle_y": right});
    close(
        intrinsics(both, json!({}), [64, 48]),
        ([32.0, 24.0], [32.0, 24.0]),
    );
    // The frame's own angle overrides the file's length.
    close(
        intrinsics(all, json!({"camera_angle_x": right}), [64, 48]),
        ([32.0, 32.0], [30.0, 20.0]),
    );
    // Without w and h, lengths are in pixels of the picture.
    close(
        intrinsics(json!({"fl_x": 50.0, "cx": 3.0}), json!({}), [64, 48]),
        ([50.0, 50.0], [3.0, 24.0]),
    );
}

#[test]
fn lens_scales_with_the_picture_and_refuses_another_shape() {
    let all = json!({"fl_x": 50.0, "fl_y": 60.0, "cx": 30.0, "cy": 20.0, "w": 64, "h": 48});
    close(
        intrinsics(all.clone(), json!({}), [128, 96]),
        ([100.0, 120.0], [60.0, 40.0]),
    );
    let lens = parse(&file(all, json!({}))).expect("readable").frames[0].lens;
    let text = lens
        .intrinsics([64, 64])
        .expect_err("another shape")
        .to_string();
    assert!(text.contains("another shape"), "{text}");
    // 1920×1080 downscaled to 853×480, the width rounded.
    let hd = json!({"fl_x": 1000.0, "w": 1920, "h": 1080});
    let (focal, _) = intrinsics(hd, json!({}), [853, 480]);
    assert!(
        (focal[0] / focal[1] - 1.0).abs() < 1e-3 && (focal[0] - 444.3).abs() < 0.2,
        "{focal:?}"
    );
    // w belongs to another picture, and nothing tells which is meant.
    let torn = json!({"fl_x": 50.0, "camera_angle_x": 1.1391, "w": 4000, "h": 4000});
    let lens = parse(&file(torn, json!({}))).expect("readable").frames[0].lens;
    assert!(matches!(
        lens.intrinsics([64, 64]),
        Err(Problem::Contradiction { .. })
    ));
}

#[test]
fn lens_numbers_out_of_range_are_refused_by_key() {
    for (key, value, reason) in [
        (
            "fl_x",
            json!(0.0),
            "fl_x is 0, which is not a positive number of pixels",
        ),
        ("fl_x", json!(-5.0), "fl_x is -5"),
        (
            "camera_angle_x",
            json!(3.5),
            "camera_angle_x is 3.5, which is not a field of view",
        ),
        ("w", json!(-96), "w is -96, which is not a number of pixels"),
        ("cx", json!(1e18), "cx is 1000000000000000000"),
        ("fl_x", json!("50"), "fl_x: invalid type: string"),
        (
            "s1",
            json!(0.2),
            "s1 is 0.2: a lens like a thin prism is not supported",
        ),
        (
            "k1",
            json!(2e4),
            "k1 is 20000, which is not a coefficient of a lens",
        ),
        ("camera_model", json!("ORTHOPHOTO"), "cameras are pinholes"),
        ("equirectangular", json!(true), "cameras are pinholes"),
        ("distortion_params", json!([0.1, 0.2]), "are 2 numbers"),
        (
            "distortion_params",
            json!([0.1, 0.2, 0, 0, 0, 1e9]),
            "coefficients of a lens",
        ),
        ("rolling_shutter", json!([0, 0, 0.1]), "rolling_shutter"),
    ] {
        let mut bad = json!({"fl_x": 9});
        bad[key] = value;
        for (top, keys) in [(bad.clone(), json!({})), (json!({}), bad)] {
            let text = refusal(&file(top, keys));
            assert!(text.contains(reason), "{text:?} does not say {reason:?}");
        }
    }
    assert!(refusal(&file(json!({}), json!({}))).contains("neither fl_x nor camera_angle_x"));
    // A fisheye is a lens.
    for keys in [
        json!({"camera_model": "OPENCV_FISHEYE"}),
        json!({"is_fisheye": true}),
    ] {
        let mut set = json!({"fl_x": 9, "k2": 0.1, "frames": vec![frame(); 3]});
        for (at, frame) in (0..).zip(set["frames"].as_array_mut().expect("frames")) {
            frame["file_path"] = json!(format!("{at}.png"));
        }
        for (key, value) in keys.as_object().expect("keys") {
            set[key] = value.clone();
        }
        let read = parse(set.to_string().as_bytes()).expect("readable");
        let fisheye = Distortion::Curved(Curved::fisheye(&[0.0, 0.1]));
        assert!(
            read.frames
                .iter()
                .all(|frame| frame.lens.distortion == Some(fisheye))
        );
        set["camera_angle_x"] = json!(2.0);
        set["fl_x"] = json!(null);
        assert!(refusal(set.to_string().as_bytes()).contains("not enough for a fisheye"));
    }
    // Zero coefficients distort nothing.
    let harmless = json!({"fl_x": 9, "k1": 0, "p1": 0.0, "camera_model": "OPENCV", "is_fisheye": false, "rolling_shutter": [0, 0, 0]});
    assert!(parse(&file(harmless, json!({}))).is_ok());
}

#[test]
fn what_does_not_concern_us_is_skipped_or_told() {
    let extra = json!({"fl_x": 9, "aabb_scale": 16, "comment": {"a": [[[]]]}, "scale": 0.33, "offset": [0.5, 0.5, 0.5]});
    let transforms = parse(&file(
        extra,
        json!({"sharpness": 33.0, "mask_path": "m.png", "cx": null}),
    ))
    .expect("readable");
    assert_eq!(transforms.frames[0].mask.as_deref(), Some("m.png"));
    assert!(transforms.warnings.is_empty());
    let moved = parse(&file(
        json!({"fl_x": 9, "applied_transform": [[1, 0, 0, 0]]}),
        json!({}),
    ))
    .expect("readable");
    let applied = moved.applied.expect("present");
    assert!(applied.warning().contains("applied_transform"));
    assert_eq!(
        (applied.rows[1], applied.scale),
        ([0.0, 1.0, 0.0, 0.0], 1.0)
    );
}

#[test]
fn broken_text_is_refused_whatever_it_is() {
    let good = file(json!({"fl_x": 9}), json!({}));
    assert!(parse(&good).is_ok());
    assert!(parse(&[b"\xEF\xBB\xBF".as_slice(), &good].concat()).is_ok());
    let text = String::from_utf8(good).expect("JSON");
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(refusal(&utf16), "is UTF-16, not UTF-8");
    assert_eq!(
        refusal(&[[0xFE, 0xFF].as_slice(), &utf16].concat()),
        "is UTF-16, not UTF-8"
    );
    assert_eq!(refusal(b""), "is empty");
    assert_eq!(refusal(b" \n"), "is empty");
    assert!(refusal(b"[]").contains("expected an object"));
    assert!(refusal(b"{\"frames\": {}}").contains("expected a list of frames"));
    assert_eq!(
        refusal(b"{\"frames\": []}"),
        "has no frames: the list is empty"
    );
    assert_eq!(
        refusal(b"{\"fl_x\": 4}"),
        "has no frames: the key is missing"
    );
    assert!(refusal(&text.as_bytes()[..text.len() * 7 / 10]).contains("EOF"));
    for number in ["NaN", "Infinity", "1e400", "-1e400"] {
        assert!(
            refusal(text.replace("3.0", number).as_bytes()).contains("not readable"),
            "{number}"
        );
        let error = parse(text.replace("3.0", number).as_bytes()).expect_err("no number");
        assert!(
            error.hint().contains("plain JSON numbers"),
            "{number}: {}",
            error.hint()
        );
    }
    for deep in [
        "[".repeat(200_000),
        format!("{{\"a\": {}", "[".repeat(200_000)),
        format!("{{\"frames\": {}", "[".repeat(200_000)),
    ] {
        assert!(refusal(deep.as_bytes()).contains("not readable"));
    }
    let number = file(json!({"fl_x": 9}), json!({"file_path": 7}));
    assert!(
        refusal(&number).contains("frame 0: file_path: invalid type: integer `7`"),
        "{}",
        refusal(&number)
    );
}

#[test]
fn too_many_frames_are_counted_but_not_kept() {
    let many = json!({"fl_x": 9, "frames": vec![frame(); MAX_VIEWS + 5]}).to_string();
    let error = parse(many.as_bytes()).expect_err("too many");
    assert_eq!(error.code(), Code::LimitExceeded);
    assert!(
        error.to_string().contains(&(MAX_VIEWS + 5).to_string()),
        "{error}"
    );
    let most = json!({"fl_x": 9, "frames": vec![frame(); MAX_VIEWS]}).to_string();
    assert_eq!(
        parse(most.as_bytes()).expect("readable").frames.len(),
        MAX_VIEWS
    );
}

#[test]
fn a_panorama_is_six_views_that_stay_together() {
    let panorama = |keys: Value| {
        let mut set = json!({"camera_model": "EQUIRECTANGULAR", "w": 400, "h": 200, "frames": [frame(), frame()]});
        set["frames"][1]["file_path"] = json!("b.png");
        for (key, value) in keys.as_object().expect("keys") {
            set[key] = value.clone();
        }
        parse(set.to_string().as_bytes())
    };
    let held = json!({"test_filenames": ["b.png"], "fl_x": 200, "fl_y": 200, "cx": 200, "cy": 100});
    let read = panorama(held).expect("sound");
    let held: Vec<bool> = read.frames.iter().map(|frame| frame.held_out).collect();
    assert_eq!(held, [[false; 6], [true; 6]].concat());
    let continues = read.frames.iter().map(Frame::continues);
    assert_eq!(continues.filter(|&continues| !continues).count(), 2);
    assert_eq!(read.frames[7].name(), "b.png (right)");
    // A frame's own model counts more than the file's.
    let mut pinhole = frame();
    pinhole["camera_model"] = json!("PINHOLE");
    let mixed = panorama(json!({"fl_x": 200, "frames": [frame(), pinhole]})).expect("sound");
    assert_eq!(mixed.frames.len(), 7);
    // A point of the world lies where the plain formula says, in the face that sees it.
    let pose = read.frames[0].pose;
    for at in [
        [0.3, -0.2, 5.0],
        [-2.0, 0.4, 0.3],
        [0.1, 3.0, -0.4],
        [1.0, -4.0, 2.0],
        [2.5, 1.0, 9.0],
    ] {
        let seen: [f64; 3] = std::array::from_fn(|r| {
            (0..3).map(|c| pose.rotation[r][c] * at[c]).sum::<f64>() + pose.translation[r]
        });
        let [x, y, z] = seen;
        let wanted = [
            200.0 + x.atan2(z) / std::f64::consts::TAU * 400.0,
            100.0 + y.atan2(x.hypot(z)) / std::f64::consts::PI * 200.0,
        ];
        let mut faces = 0;
        for frame in &read.frames[..6] {
            let (camera, [edge, _]) = frame.camera([400, 200]).expect("a camera");
            let [x, y, z]: [f64; 3] = std::array::from_fn(|r| {
                (0..3).map(|c| camera.rotation[r][c] * at[c]).sum::<f64>() + camera.translation[r]
            });
            let ray = [x / z, y / z];
            let pixel = [0, 1].map(|k| camera.focal[k] * ray[k] + camera.centre[k]);
            if z <= 0.0
                || pixel
                    .iter()
                    .any(|&at| !(0.0..=f64::from(edge)).contains(&at))
            {
                continue;
            }
            faces += 1;
            let lands = frame.face.expect("a face").lands(ray, [400.0, 200.0]);
            let off = (lands[0] - wanted[0]).hypot(lands[1] - wanted[1]);
            assert!(off < 1e-9, "{at:?}: {lands:?}, not {wanted:?}");
        }
        assert!(faces > 0, "{at:?} is in a face");
    }
    assert!(read.frames[0].camera([400, 300]).is_err(), "another shape");
    for keys in [json!({"fl_x": 100}), json!({"cx": 100}), json!({"cy": 20})] {
        let text = panorama(keys).expect_err("a part").to_string();
        assert!(text.contains("the whole sphere"), "{text}");
    }
    let narrow = panorama(json!({"h": 300})).expect("sound").frames;
    let text = narrow[0]
        .camera([400, 300])
        .expect_err("no sphere")
        .to_string();
    assert!(text.contains("twice as wide as high"), "{text}");
    let ngp = parse(
        json!({"latlong": true, "frames": [frame()]})
            .to_string()
            .as_bytes(),
    );
    assert_eq!(ngp.expect("sound").frames.len(), 6);
}

#[test]
fn fisheye624_lands_where_nerfstudio_says() {
    let k = [0.1, -0.02, 0.003, 0.0, -0.001, 0.0004];
    let (p, s) = ([0.01, -0.02], [0.003, -0.001, -0.004, 0.002]);
    let params = [&k[..], &p, &s].concat();
    let set = json!({"camera_model": "FISHEYE624", "fl_x": 9, "distortion_params": params, "frames": [frame()]});
    let read = parse(set.to_string().as_bytes()).expect("sound");
    let lens = read.frames[0].lens.distortion.expect("a lens");
    for [a, b] in [[0.6_f64, 0.8_f64], [-1.2, 0.3], [0.1, -2.0]] {
        // `fisheye624_project` of nerfstudio, number by number.
        let r = a.hypot(b);
        let th = r.atan();
        let mut th_k = th;
        for (i, k) in (0..).zip(k) {
            th_k += k * th.powi(3 + 2 * i);
        }
        let (xr, yr) = (th_k * a / r, th_k * b / r);
        let rd = xr * xr + yr * yr;
        let wanted = [
            xr + (2.0 * xr * xr + rd) * p[0] + 2.0 * xr * yr * p[1] + s[0] * rd + s[1] * rd * rd,
            yr + (2.0 * yr * yr + rd) * p[1] + 2.0 * xr * yr * p[0] + s[2] * rd + s[3] * rd * rd,
        ];
        let found = lens.distort([a, b]);
        let off = (found[0] - wanted[0]).hypot(found[1] - wanted[1]);
        assert!(off < 1e-12, "{found:?}, not {wanted:?}");
    }
    let bare = json!({"camera_model": "FISHEYE624", "fl_x": 9, "frames": [frame()]});
    assert!(refusal(bare.to_string().as_bytes()).contains("distortion_params is missing"));
    let plain =
        json!({"fl_x": 9, "distortion_params": [0.1, 0.2, 0, 0, 0.3, 0.4], "frames": [frame()]});
    let keys = json!({"fl_x": 9, "k1": 0.1, "k2": 0.2, "p1": 0.3, "p2": 0.4, "frames": [frame()]});
    let [plain, keys] = [plain, keys].map(|set| parse(set.to_string().as_bytes()).expect("sound"));
    assert_eq!(plain.frames, keys.frames);
}

#[test]
fn a_world_to_camera_matrix_keeps_its_camera_far_from_the_origin() {
    // A rotation rounded to nine digits, and a translation that is exact for it: five thousand kilometres away, what is
    // rounded off is millimetres.
    let exact = [[0.6, -0.8, 0.0], [0.48, 0.36, -0.8], [0.64, 0.48, 0.6]];
    let noise = [
        [4e-10, -3e-10, 2e-10],
        [-1e-10, 4e-10, 3e-10],
        [2e-10, -4e-10, -2e-10],
    ];
    let centre = [5.1e6, -4.2e6, 3.3e2];
    let rows: [[f64; 4]; 3] = std::array::from_fn(|r| {
        let row: [f64; 3] = std::array::from_fn(|c| exact[r][c] + noise[r][c]);
        let moved = -(0..3).map(|c| row[c] * centre[c]).sum::<f64>();
        [row[0], row[1], row[2], moved]
    });
    let (pose, scaled) = Pose::from_world_to_camera(&rows).expect("a rotation");
    assert!(!scaled);
    for k in 0..3 {
        let found = -(0..3)
            .map(|r| pose.rotation[r][k] * pose.translation[r])
            .sum::<f64>();
        assert!((found - centre[k]).abs() < 1e-6, "{found} {}", centre[k]);
    }
}
