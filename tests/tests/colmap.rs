//! A COLMAP model gives the same result as `transforms.json`, whatever its form and location. Each error in it gives
//! one line.

use std::fs;

use kiln_tests::errand::kiln;
use kiln_tests::sidecar::Sidecar;
use kiln_tests::{Bench, Outcome, words};
use serde_json::{Value, json};

/// Of the sphere's views, in pixels.
const EDGE: f64 = 48.0;
const FOCAL: f64 = 57.5;
/// Axis permutations as quaternions, which rotate without rounding.
const TURNS: [[f64; 4]; 6] = [
    [1.0, 0.0, 0.0, 0.0],
    [0.0, 1.0, 0.0, 0.0],
    [0.5, 0.5, 0.5, 0.5],
    [0.5, -0.5, 0.5, 0.5],
    [0.5, 0.5, -0.5, 0.5],
    [0.5, 0.5, 0.5, -0.5],
];
const DISTANCE: f64 = 3.0;

/// The sphere with six views, as `transforms.json` and as two models of COLMAP in folders of their own.
fn with_models() -> Bench {
    let bench = Bench::sphere();
    let at = |name: &str| bench.path(name);
    for folder in ["images/views", "sparse/0", "text"] {
        fs::create_dir_all(at(folder)).expect("a folder");
    }
    let mut frames = Vec::new();
    let mut lines = "# IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME\n".to_owned();
    let mut binary = (TURNS.len() as u64).to_le_bytes().to_vec();
    for (number, turn) in TURNS.iter().enumerate() {
        let name = format!("views/{number}.png");
        fs::copy(at(&format!("{number}.png")), at("images").join(&name)).expect("a picture");
        let [w, x, y, z] = *turn;
        let rows = [
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
        ];
        // COLMAP's world-to-camera looks along z. The camera-to-world of transforms.json looks along -z, with y up.
        let to_world = |r: usize| {
            let eye = -DISTANCE * rows[2][r];
            [rows[0][r], -rows[1][r], -rows[2][r], eye]
        };
        frames.push(json!({
            "file_path": format!("images/{name}"),
            "transform_matrix": [to_world(0), to_world(1), to_world(2), [0.0, 0.0, 0.0, 1.0]],
        }));
        lines += &format!(
            "{} {w} {x} {y} {z} 0 0 {DISTANCE} 9 {name}\n1 2 -1\n",
            number + 1
        );
        binary.extend((number as u32 + 1).to_le_bytes());
        binary.extend(
            [w, x, y, z, 0.0, 0.0, DISTANCE]
                .iter()
                .flat_map(|x| x.to_le_bytes()),
        );
        binary.extend(9_u32.to_le_bytes());
        binary.extend(
            name.bytes()
                .chain([0])
                .chain(1_u64.to_le_bytes())
                .chain([7; 24]),
        );
    }
    let transforms = json!({
        "camera_model": "OPENCV", "fl_x": FOCAL, "fl_y": FOCAL, "cx": EDGE / 2.0 - 0.5, "cy": EDGE / 2.0, "w": EDGE, "h": EDGE,
        "k1": 0.05, "frames": frames,
    });
    fs::write(at("six.json"), transforms.to_string()).expect("room");
    fs::write(at("text/images.txt"), lines).expect("room");
    let (x, y) = (EDGE / 2.0 - 0.5, EDGE / 2.0);
    let camera = format!("9 SIMPLE_RADIAL {EDGE} {EDGE} {FOCAL} {x} {y} 0.05\n");
    fs::write(at("text/cameras.txt"), camera).expect("room");
    fs::write(at("sparse/0/images.bin"), binary).expect("room");
    let camera = [
        1_u64.to_le_bytes().to_vec(),
        9_u32.to_le_bytes().to_vec(),
        2_i32.to_le_bytes().to_vec(),
    ];
    let size = [EDGE as u64; 2].map(u64::to_le_bytes).concat();
    let parameters = [FOCAL, x, y, 0.05].map(f64::to_le_bytes).concat();
    let camera = [camera.concat(), size, parameters].concat();
    fs::write(at("sparse/0/cameras.bin"), camera).expect("room");
    bench
}

fn bake(bench: &Bench, views: &str, output: &str, more: &[&str]) -> Outcome {
    let mut all = words("--quality draft --texture-size 256 -o");
    all.push(output);
    bench.baked("mesh.obj", views, &[&all, more].concat())
}

fn baked(bench: &Bench, views: &str, more: &[&str]) -> Vec<u8> {
    bake(bench, views, "out/a.glb", more).assert_code(0);
    bench.bytes("out/a.glb").expect("the result")
}

fn refused(bench: &Bench, views: &str, code: i32) -> String {
    bake(bench, views, "out/refused.glb", &[]).refusal(code)
}

#[test]
fn a_model_in_either_form_gives_the_bytes_that_transforms_json_gives() {
    let bench = with_models();
    let wanted = baked(&bench, "six.json", &[]);
    // The project's folder also holds the sphere's transforms.json, which takes precedence, so the model is named.
    for (views, more) in [
        ("sparse", &[][..]),
        ("sparse/0", &[]),
        ("sparse/0/cameras.bin", &[]),
        ("text", &[]),
        ("text/images.txt", &["--images", "images"]),
        (".", &["--images", "images"]),
    ] {
        assert!(
            baked(&bench, views, more) == wanted,
            "{views} {more:?}: other bytes"
        );
    }
    assert!(
        baked(&bench, ".", &[]) != wanted,
        "the sphere's own views are others"
    );
}

#[test]
fn a_comparison_reads_a_model() {
    let bench = with_models();
    baked(&bench, "sparse", &[]);
    let compared = |views: &str| bench.compared("out/a.glb", views)["psnr_db"].clone();
    let of_model = compared("sparse/0");
    assert!(of_model.is_number());
    assert_eq!(of_model, compared("six.json"));
}

#[test]
fn a_sidecar_takes_a_model_by_its_path_and_by_its_files() {
    let bench = with_models();
    let wanted = baked(&bench, "six.json", &[]);
    let sidecar = Sidecar::start(&bench, &[]);
    let submit = |more: &[&str]| {
        let all = words(
            "submit mesh.obj --wait -o out/b.glb --quality draft --texture-size 256 --device cpu",
        );
        kiln(&bench, &[&all, more].concat()).assert_code(0);
        let bytes = bench.bytes("out/b.glb").expect("the result");
        assert!(bytes == wanted, "{more:?}: other bytes");
    };
    submit(&["--views", "sparse/0"]);
    submit(&["--views", "text", "--images", "images"]);
    submit(&["--views", "sparse/0", "--by-path"]);
    submit(&["--views", "text", "--images", "images", "--by-path"]);
    let by_path = |views: Value| {
        let spec = json!({"mesh": {"path": bench.path("mesh.obj")}, "views": views});
        let key = views["path"].to_string() + &views["images"].to_string();
        let answer = sidecar.submit(&key.replace('"', ""), &spec);
        (answer.status, answer.json()["detail"].to_string())
    };
    let (status, detail) =
        by_path(json!({"path": bench.path("six.json"), "images": bench.path("images")}));
    assert!(
        status == 422 && detail.contains("no model of COLMAP"),
        "{status} {detail}"
    );
    let (status, detail) =
        by_path(json!({"path": bench.path("text/images.txt"), "images": "/usr"}));
    assert!(
        status == 422 && detail.contains("beneath no folder"),
        "{status} {detail}"
    );
}

#[test]
fn what_is_wrong_with_a_model_is_told_in_one_line() {
    let bench = with_models();
    let images = fs::read_to_string(bench.path("text/images.txt")).expect("there");
    let write =
        |name: &str, text: &str| fs::write(bench.path("text").join(name), text).expect("room");
    write("images.txt", &images.replace("views/3.png", "../mesh.obj"));
    let line = refused(&bench, "text", 65);
    assert!(
        line.starts_with("images.txt: frame 3: ../mesh.obj: lies outside its folder"),
        "{line}"
    );
    write("images.txt", &images.replace("views/3.png", "views/9.png"));
    let line = refused(&bench, "text", 65);
    assert!(line.contains("views/9.png: no such file"), "{line}");
    write("images.txt", &images);
    write("cameras.txt", "9 NEWEST 48 48 57 57 24 24 0\n");
    let line = refused(&bench, "text", 65);
    assert!(
        line.contains("image 1 (views/0.png): camera 9: the model NEWEST"),
        "{line}"
    );
    fs::remove_file(bench.path("text/cameras.txt")).expect("there");
    let line = refused(&bench, "text", 66);
    assert_eq!(line, "cameras.txt: no such file");
    fs::remove_dir_all(bench.path("images")).expect("there");
    let line = refused(&bench, "sparse/0", 66);
    assert!(
        line.contains("no folder images is beside the model"),
        "{line}"
    );
}
