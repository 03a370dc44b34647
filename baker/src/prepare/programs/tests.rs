//! One scene as each program writes it: the same points land on the same pixels as by plain formulas. Broken files are refused
//! with one line.

use proto::message::Root;
use serde_json::{Value, json};

use super::posed::{product, transposed};
use super::*;
use crate::worker::folder::Local;

type Matrix = [[f64; 3]; 3];

/// A camera: its turn (world to camera, `OpenCV` axes) by a quaternion, and its place.
const CAMERAS: [([f64; 4], [f64; 3]); 2] = [
    ([0.9, 0.1, -0.2, 0.3], [0.4, -0.7, -5.0]),
    ([0.8, -0.3, 0.4, 0.1], [-3.0, 0.6, -4.0]),
];
const SIZE: [f64; 2] = [640.0, 480.0];
const FOCAL: [f64; 2] = [500.0, 520.0];
const CENTRE: [f64; 2] = [301.5, 255.25];
const RADIAL: [f64; 3] = [-0.11, 0.04, -0.01];
const TANGENTIAL: [f64; 2] = [0.003, -0.002];
/// Points in a camera's axes; none is mirrored onto another.
const POINTS: [[f64; 3]; 4] = [
    [0.3, 0.2, 2.0],
    [-0.7, 0.4, 3.0],
    [0.9, -0.8, 4.0],
    [-0.2, -0.5, 1.5],
];

fn turn([w, x, y, z]: [f64; 4]) -> Matrix {
    let n = (w * w + x * x + y * y + z * z).sqrt();
    let [w, x, y, z] = [w, x, y, z].map(|k| k / n);
    [
        [
            1.0 - 2.0 * (y * y + z * z),
            2.0 * (x * y - w * z),
            2.0 * (x * z + w * y),
        ],
        [
            2.0 * (x * y + w * z),
            1.0 - 2.0 * (x * x + z * z),
            2.0 * (y * z - w * x),
        ],
        [
            2.0 * (x * z - w * y),
            2.0 * (y * z + w * x),
            1.0 - 2.0 * (x * x + y * y),
        ],
    ]
}

/// What a program can say of a lens.
#[derive(Clone, Copy, PartialEq)]
enum Says {
    /// All of it.
    Brown,
    /// One focal length, k1 and k2, and the picture's middle.
    Radial,
    /// Two focal lengths, and the picture's middle.
    Middle,
    /// A pinhole.
    Pinhole,
}

/// The pixel of a point in camera axes, by `OpenCV`'s formula.
fn pixel([x, y, z]: [f64; 3], says: Says) -> [f64; 2] {
    let (x, y) = (x / z, y / z);
    let r2 = x * x + y * y;
    let [k1, k2, k3] = match says {
        Says::Brown => RADIAL,
        Says::Radial => [RADIAL[0], RADIAL[1], 0.0],
        Says::Middle | Says::Pinhole => [0.0; 3],
    };
    let [p1, p2] = if says == Says::Brown {
        TANGENTIAL
    } else {
        [0.0; 2]
    };
    let radial = 1.0 + k1 * r2 + k2 * r2 * r2 + k3 * r2 * r2 * r2;
    let bent = [
        x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x),
        y * radial + p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y,
    ];
    let focal = if says == Says::Radial {
        [FOCAL[0]; 2]
    } else {
        FOCAL
    };
    let centre = match says {
        Says::Radial | Says::Middle => SIZE.map(|edge| edge / 2.0),
        Says::Brown | Says::Pinhole => CENTRE,
    };
    [0, 1].map(|k| focal[k] * bent[k] + centre[k])
}

/// Where a frame has a point of the world.
fn lands(frame: &Frame, at: [f64; 3]) -> [f64; 2] {
    let (camera, _) = frame
        .camera(SIZE.map(|edge| edge as u32))
        .expect("a camera");
    let seen: [f64; 3] = std::array::from_fn(|r| {
        (0..3).map(|c| camera.rotation[r][c] * at[c]).sum::<f64>() + camera.translation[r]
    });
    let ray = [seen[0] / seen[2], seen[1] / seen[2]];
    let bent = frame.lens.distortion.map_or(ray, |lens| lens.distort(ray));
    [0, 1].map(|k| camera.focal[k] * bent[k] + camera.centre[k])
}

fn read_file(name: &str, bytes: &[u8], list: &str) -> Result<Vec<Frame>, Failure> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("list.txt"), list).expect("room");
    let local = Local(folder.path().to_path_buf());
    let folder = Folder::new(&local, Root::Views);
    let program = of(name, bytes).ok_or_else(|| Failure {
        code: Code::InvalidAsset,
        message: format!("{name}: not of this program"),
        hint: String::new(),
    })?;
    read(program, bytes, (&folder, name))
}

fn rows(m: &Matrix) -> String {
    m.iter().flatten().map(|x| format!("{x:.17} ")).collect()
}

fn meshroom() -> String {
    let text = |x: f64| json!(format!("{x:.17}"));
    let views: Vec<Value> = (0..3)
        .map(|k| json!({"viewId": format!("7{k}"), "poseId": format!("7{k}"), "intrinsicId": "5", "path": format!("/home/me/images/{k}.jpg")}))
        .collect();
    let poses: Vec<Value> = (0..2)
        .map(|k| {
            let (turned, place) = CAMERAS[k];
            let columns = transposed(turn(turned));
            let columns: Vec<Value> = columns.iter().flatten().map(|&x| text(x)).collect();
            json!({"poseId": format!("7{k}"), "pose": {"locked": "0", "transform": {"rotation": columns, "center": place.map(text)}}})
        })
        .collect();
    let [k1, k2, k3] = RADIAL;
    let [t1, t2] = TANGENTIAL;
    let params = [k1, k2, k3, t1, t2].map(text);
    json!({
        "version": ["1", "2", "11"], "featuresFolders": [""], "views": views,
        "intrinsics": [{
            "intrinsicId": "5", "width": "640", "height": "480", "sensorWidth": "32", "type": "pinhole", "distortionType": "brown",
            "undistortionType": "none", "focalLength": text(FOCAL[1] / 640.0 * 32.0), "pixelRatio": text(FOCAL[1] / FOCAL[0]),
            "principalPoint": [text(CENTRE[0] - 320.0), text(CENTRE[1] - 240.0)], "distortionParams": params,
        }],
        "poses": poses,
    })
    .to_string()
}

fn meshlab() -> String {
    let raster = |k: usize| {
        let (turned, [x, y, z]) = CAMERAS[k];
        let [right, down, ahead] = turn(turned);
        let axes = [right, down.map(|x| -x), ahead.map(|x| -x)];
        let rotation: String = axes
            .iter()
            .map(|[a, b, c]| format!("{a:.17} {b:.17} {c:.17} 0 "))
            .collect();
        format!(
            r#"<MLRaster label="r{k}"><VCGCamera TranslationVector="{} {} {} 1" RotationMatrix="{rotation}0 0 0 1 " CameraType="0" BinaryData="0"
            FocalMm="50" LensDistortion="0 0" PixelSizeMm="{} {}" ViewportPx="640 480" CenterPx="{} {}"/><Plane semantic="1" fileName="images/{k}.jpg"/></MLRaster>"#,
            -x,
            -y,
            -z,
            50.0 / FOCAL[0],
            50.0 / FOCAL[1],
            CENTRE[0],
            480.0 - CENTRE[1]
        )
    };
    format!(
        "<!DOCTYPE MeshLabDocument>\n<MeshLabProject><MeshGroup/><RasterGroup>{}{}</RasterGroup></MeshLabProject>",
        raster(0),
        raster(1)
    )
}

/// The chunk is turned, moved and half as large as the world.
fn metashape(sensor: &str, earth: &str) -> String {
    let (chunk, moved) = (turn([0.7, 0.2, 0.5, -0.4]), [1.0, -2.0, 0.5]);
    let camera = |k: usize| {
        let (turned, place) = CAMERAS[k];
        let to_world = transposed(turn(turned));
        let back = transposed(chunk);
        let column = |c: usize| product(&back, [to_world[0][c], to_world[1][c], to_world[2][c]]);
        let local = product(&back, [0, 1, 2].map(|k| (place[k] - moved[k]) / 2.0));
        let axes = [column(0), column(1), column(2), local];
        let rows: String = (0..3)
            .map(|r| {
                format!(
                    "{:.17} {:.17} {:.17} {:.17} ",
                    axes[0][r], axes[1][r], axes[2][r], axes[3][r]
                )
            })
            .collect();
        format!(
            r#"<camera id="{k}" sensor_id="0" component_id="0" label="{k}.jpg"><transform>{rows}0 0 0 1</transform></camera>"#
        )
    };
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<document version="2.0.0"><chunk label="Chunk 1" enabled="true"><sensors><sensor id="0" label="x" type="{sensor}"><resolution width="640" height="480"/>
<calibration type="frame" class="initial"><f>1</f></calibration>
<calibration type="frame" class="adjusted"><resolution width="640" height="480"/><f>{}</f><cx>{}</cx><cy>{}</cy><b1>{}</b1>
<k1>{}</k1><k2>{}</k2><k3>{}</k3><p1>{}</p1><p2>{}</p2></calibration></sensor></sensors>
<components><component id="0"><transform><rotation>{}</rotation><translation>1 -2 0.5</translation><scale>2</scale></transform></component></components>
<cameras><group label="g">{}{}</group><camera id="2" sensor_id="0" label="lost.jpg"/></cameras><reference>{earth}</reference></chunk></document>"#,
        FOCAL[1],
        CENTRE[0] - 320.0,
        CENTRE[1] - 240.0,
        FOCAL[0] - FOCAL[1],
        RADIAL[0],
        RADIAL[1],
        RADIAL[2],
        TANGENTIAL[1],
        TANGENTIAL[0],
        rows(&chunk),
        camera(0),
        camera(1)
    )
}

fn bundler() -> String {
    let mut text = "# Bundle file v0.3\n3 1\n".to_owned();
    for k in [0, 2, 1] {
        let Some((turned, place)) = CAMERAS.get(k) else {
            text += &"0 0 0\n".repeat(5);
            continue;
        };
        let [right, down, ahead] = turn(*turned);
        let axes = [right, down.map(|x| -x), ahead.map(|x| -x)];
        let moved = product(&axes, *place).map(|x| -x);
        let [a, b, c] = axes.map(|row| {
            rows(&[row, [0.0; 3], [0.0; 3]])
                .split(' ')
                .take(3)
                .collect::<Vec<_>>()
                .join(" ")
        });
        text += &format!(
            "{} {} {}\n{a}\n{b}\n{c}\n{:.17} {:.17} {:.17}\n",
            FOCAL[0], RADIAL[0], RADIAL[1], moved[0], moved[1], moved[2]
        );
    }
    text + "0 0 0\n1 2 3\n1 0 5 0.5 0.5\n"
}

fn splatting() -> String {
    let camera = |k: usize| {
        let (turned, place) = CAMERAS[k];
        json!({"id": k, "img_name": format!("{k}"), "width": 640, "height": 480, "position": place,
            "rotation": transposed(turn(turned)), "fx": FOCAL[0], "fy": FOCAL[1]})
    };
    json!([camera(0), camera(1)]).to_string()
}

const LIST: &str = "./images/0.jpg 0 500.5\r\nimages/lost one.jpg\nimages/1.jpg\n";

fn all() -> [(&'static str, String, Says, [&'static str; 2]); 5] {
    let images = ["images/0.jpg", "images/1.jpg"];
    [
        (
            "cameras.sfm",
            meshroom(),
            Says::Brown,
            ["/home/me/images/0.jpg", "/home/me/images/1.jpg"],
        ),
        ("project.mlp", meshlab(), Says::Pinhole, images),
        (
            "cameras.xml",
            metashape("frame", "LOCAL_CS[\"m\"]"),
            Says::Brown,
            ["0.jpg", "1.jpg"],
        ),
        (
            "bundle.out",
            bundler(),
            Says::Radial,
            ["./images/0.jpg", "images/1.jpg"],
        ),
        ("cameras.json", splatting(), Says::Middle, ["0", "1"]),
    ]
}

#[test]
fn one_scene_is_the_same_in_each_program() {
    for (name, text, says, files) in all() {
        let frames = read_file(name, text.as_bytes(), LIST).expect(name);
        let found: Vec<&str> = frames.iter().map(|frame| frame.file.as_str()).collect();
        assert_eq!(found, files, "{name}");
        for (frame, (turned, place)) in frames.iter().zip(CAMERAS) {
            let back = transposed(turn(turned));
            for point in POINTS {
                let moved = product(&back, point);
                let world = [0, 1, 2].map(|k| moved[k] + place[k]);
                let (found, wanted) = (lands(frame, world), pixel(point, says));
                let off = (found[0] - wanted[0]).hypot(found[1] - wanted[1]);
                assert!(off < 1e-6, "{name}: {found:?}, not {wanted:?}");
            }
        }
    }
}

#[test]
fn versions_of_meshroom_mean_what_they_meant() {
    // Keys in place of those of the newest version, and the focal lengths.
    for (version, keys, focal) in [
        (
            ["1", "2", "10"],
            json!({"focalLength": "25", "pixelRatio": "1.04"}),
            [500.0, 520.0],
        ),
        (
            ["1", "2", "4"],
            json!({"focalLength": "25", "pixelRatio": "0.5"}),
            [500.0, 1000.0],
        ),
        (
            ["1", "2", "0"],
            json!({"pxFocalLength": ["500", "520"]}),
            [500.0, 520.0],
        ),
        (
            ["1", "1", "0"],
            json!({"pxFocalLength": "500", "principalPoint": ["301.5", "255.25"]}),
            [500.0; 2],
        ),
    ] {
        let mut file: Value = serde_json::from_str(&meshroom()).expect("JSON");
        file["version"] = json!(version);
        let lens = &mut file["intrinsics"][0];
        // Before 1.2.8 the type is that of the distortion.
        if version != ["1", "2", "10"] {
            lens["type"] = json!("radial3");
        }
        lens["distortionParams"] = json!("");
        if version < ["1", "2", "1"] {
            lens["principalPoint"] = json!(["301.5", "255.25"]);
        }
        for (key, value) in keys.as_object().expect("keys") {
            lens[key] = value.clone();
        }
        let frames = read_file("a.sfm", file.to_string().as_bytes(), "").expect("sound");
        let (camera, _) = frames[0].camera([640, 480]).expect("a camera");
        assert!(
            (camera.focal[0] - focal[0]).abs() < 1e-9 && (camera.focal[1] - focal[1]).abs() < 1e-9,
            "{version:?} {:?}",
            camera.focal
        );
        assert_eq!(camera.centre, CENTRE, "{version:?}");
    }
}

#[test]
fn what_is_not_taken_is_named() {
    let changed = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    let (sfm, mlp, xml) = (meshroom(), meshlab(), metashape("frame", ""));
    for (name, text, says) in [
        (
            "a.sfm",
            changed(&sfm, "\"brown\"", "\"radialk3pt\""),
            "radialk3pt",
        ),
        (
            "a.sfm",
            changed(&sfm, "\"none\"", "\"3deradial4\""),
            "3deradial4",
        ),
        (
            "a.sfm",
            changed(&sfm, "\"type\":\"pinhole\"", "\"type\":\"equidistant\""),
            "equidistant",
        ),
        (
            "a.sfm",
            "{\"version\":[1,2,11],\"views\":[]}".to_owned(),
            "no view has a pose",
        ),
        (
            "a.sfm",
            changed(&sfm, "\"640\"", "\"NaN\""),
            "no finite number",
        ),
        (
            "a.mlp",
            changed(&mlp, "LensDistortion=\"0 0\"", "LensDistortion=\"0.1 0\""),
            "LensDistortion",
        ),
        (
            "a.mlp",
            changed(&mlp, "BinaryData=\"0\"", "BinaryData=\"1\""),
            "binary",
        ),
        (
            "a.mlp",
            changed(&mlp, "CameraType=\"0\"", "CameraType=\"1\""),
            "orthographic",
        ),
        (
            "a.mlp",
            changed(&mlp, "MLRaster", "Raster").replace("MLRaster", "Raster"),
            "without rasters",
        ),
        (
            "a.mlp",
            changed(&mlp, "MeshLabDocument", "a [<!ENTITY x \"y\">]"),
            "entities",
        ),
        (
            "a.xml",
            metashape("frame", "GEOGCS[\"WGS 84\"]"),
            "place on Earth (GEOGCS)",
        ),
        ("a.xml", metashape("cylindrical", ""), "cylindrical"),
        ("a.xml", changed(&xml, "<k1>", "<b2>3</b2><k1>"), "b2 is 3"),
        (
            "a.xml",
            changed(&xml, "sensor_id=\"0\"", "sensor_id=\"9\""),
            "no sensor",
        ),
        (
            "a.out",
            "# Bundle file v0.3\n99999999999 0\n".to_owned(),
            "promises 99999999999 cameras",
        ),
        (
            "a.out",
            "# Bundle file v0.3\n9 0\n1 nan 0".to_owned(),
            "\"nan\" is no number",
        ),
        ("cameras.json", "[]".to_owned(), "no camera with a pose"),
        (
            "cameras.json",
            splatting().replacen("640", "-4", 1),
            "w is -4",
        ),
    ] {
        let failure = read_file(name, text.as_bytes(), LIST).expect_err(says);
        assert!(
            failure.message.contains(says),
            "{says}: {}",
            failure.message
        );
        assert!(!failure.message.contains('\n'), "{}", failure.message);
    }
    let short = read_file("a.out", bundler().as_bytes(), "one.jpg\n").expect_err("two are missing");
    assert!(
        short.message.contains("list.txt 1 names"),
        "{}",
        short.message
    );
}

#[test]
fn files_that_end_early_or_hold_other_bytes_are_refused_or_sound() {
    for (name, text, ..) in all() {
        let bytes = text.as_bytes();
        for end in 0..bytes.len() {
            if let Err(failure) = read_file_in(name, &bytes[..end]) {
                assert!(
                    !failure.text.is_empty() && !failure.text.contains(char::is_control),
                    "{name} {end}: {}",
                    failure.text
                );
            }
        }
        for at in (0..bytes.len()).step_by(7) {
            for other in [b'9', b'-', b'e', b'<', b'"', 0, 0xFF] {
                let mut bytes = bytes.to_vec();
                bytes[at] = other;
                if let Ok(frames) = read_file_in(name, &bytes) {
                    for frame in frames {
                        let numbers = frame
                            .pose
                            .rotation
                            .as_flattened()
                            .iter()
                            .chain(&frame.pose.translation);
                        assert!(
                            numbers.into_iter().all(|x| x.is_finite()),
                            "{name} {at} {other}"
                        );
                    }
                }
            }
        }
    }
}

/// Without a folder of its own, for many files.
fn read_file_in(name: &str, bytes: &[u8]) -> Result<Vec<Frame>, Wrong> {
    match of_name(name).expect("a program") {
        Program::Meshroom => meshroom::read(bytes),
        Program::Meshlab => meshlab::read(bytes),
        Program::Metashape => metashape::read(bytes),
        Program::Splatting => splatting::read(bytes),
        Program::Bundler => bundler::read(bytes, LIST.as_bytes()),
    }
    .and_then(checked)
}
