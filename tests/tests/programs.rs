//! Cameras of another program give the bytes that `transforms.json` gives: by their file, by its folder, with their pictures
//! elsewhere, and through a sidecar that reads them itself.

use std::fs;

use kiln_tests::errand::kiln;
use kiln_tests::sidecar::Sidecar;
use kiln_tests::{Bench, words};
use serde_json::json;

/// Of the sphere's views, in pixels.
const EDGE: f64 = 48.0;
const FOCAL: f64 = 57.5;
const DISTANCE: f64 = 3.0;
/// World to camera with `OpenCV` axes: turns without rounding.
const TURNS: [[[f64; 3]; 3]; 4] = [
    [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]],
    [[0.0, 0.0, -1.0], [0.0, -1.0, 0.0], [-1.0, 0.0, 0.0]],
    [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]],
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]],
];

/// The sphere with four views, as `transforms.json`, and as Meshroom and Bundler write them.
fn with_programs() -> Bench {
    let bench = Bench::sphere();
    let at = |name: &str| bench.path(name);
    for folder in ["scene/pictures", "bundler/bundle", "meshroom"] {
        fs::create_dir_all(at(folder)).expect("a folder");
    }
    let (mut frames, mut views, mut poses) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bundle, mut list) = (
        format!("# Bundle file v0.3\n{} 0\n", TURNS.len()),
        String::new(),
    );
    for (number, turn) in TURNS.iter().enumerate() {
        let name = format!("pictures/{number}.png");
        for scene in ["scene", "bundler"] {
            let to = at(scene).join(&name);
            fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
            fs::copy(at(&format!("{number}.png")), to).expect("a picture");
        }
        let [x, y, z] = *turn;
        let centre = z.map(|k| -DISTANCE * k);
        let row = |r: usize| [x[r], -y[r], -z[r], centre[r]];
        frames.push(json!({"file_path": name, "transform_matrix": [row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]]}));
        views.push(json!({"poseId": number, "intrinsicId": 7, "path": format!("/home/me/{name}")}));
        let columns: Vec<f64> = (0..3).flat_map(|c| [x[c], y[c], z[c]]).collect();
        let transform = json!({"rotation": columns, "center": centre});
        poses.push(json!({"poseId": number, "pose": {"transform": transform}}));
        let line = |row: [f64; 3], sign: f64| row.map(|k| (sign * k).to_string()).join(" ") + "\n";
        bundle += &format!(
            "{FOCAL} 0.05 0\n{}{}{}0 0 {}\n",
            line(x, 1.0),
            line(y, -1.0),
            line(z, -1.0),
            -DISTANCE
        );
        list += &format!("{name} 0 {FOCAL}\n");
    }
    let transforms = json!({"fl_x": FOCAL, "w": EDGE, "h": EDGE, "k1": 0.05, "frames": frames});
    let lens = json!({"intrinsicId": 7, "width": EDGE, "height": EDGE, "sensorWidth": EDGE, "type": "pinhole", "distortionType": "radialk1",
        "undistortionType": "none", "focalLength": FOCAL, "principalPoint": [0, 0], "distortionParams": [0.05]});
    let sfm = json!({"version": [1, 2, 11], "views": views, "intrinsics": [lens], "poses": poses});
    for (name, text) in [
        ("scene/transforms.json", transforms.to_string()),
        ("meshroom/a.sfm", sfm.to_string()),
        ("scene/a.sfm", sfm.to_string()),
        ("bundler/bundle/bundle.out", bundle),
        ("bundler/list.txt", list),
    ] {
        fs::write(at(name), text).expect("room");
    }
    bench
}

fn baked(bench: &Bench, views: &str, more: &[&str]) -> Vec<u8> {
    let all = words("--quality draft --texture-size 256 -o out/a.glb");
    bench
        .baked("mesh.obj", views, &[&all, more].concat())
        .assert_code(0);
    bench.bytes("out/a.glb").expect("the result")
}

#[test]
fn cameras_of_another_program_give_the_bytes_that_transforms_json_gives() {
    let bench = with_programs();
    let wanted = baked(&bench, "scene/transforms.json", &[]);
    for (views, more) in [
        ("scene/a.sfm", &[][..]),
        ("meshroom", &["--images", "scene"]),
        ("meshroom/a.sfm", &["--images", "scene/pictures"]),
        ("bundler", &[]),
        ("bundler/bundle/bundle.out", &[]),
    ] {
        let same = baked(&bench, views, more) == wanted;
        assert!(same, "{views} {more:?}: other bytes");
    }
    let refusal = |views: &str| {
        let all = words("--quality draft --texture-size 256 -o out/b.glb");
        bench.baked("mesh.obj", views, &all).refusal(65)
    };
    let line = refusal("meshroom");
    assert!(
        line.starts_with("a.sfm: frame 0: /home/me/pictures/0.png: "),
        "{line}"
    );
    let list = bench.path("bundler/list.txt");
    fs::rename(&list, bench.path("elsewhere.txt")).expect("there");
    let all = words("--quality draft --texture-size 256 -o out/b.glb");
    let line = bench.baked("mesh.obj", "bundler", &all).refusal(66);
    assert!(line.contains("list.txt: no such file"), "{line}");
    fs::rename(bench.path("elsewhere.txt"), list).expect("room");
    // A sidecar reads them itself; a client cannot send what only prepare finds.
    let _sidecar = Sidecar::start(&bench, &[]);
    let submit = words(
        "submit mesh.obj --wait -o out/b.glb --quality draft --texture-size 256 --device cpu --views",
    );
    for views in ["scene/a.sfm", "bundler/bundle/bundle.out"] {
        let by_path = [&submit[..], &[views, "--by-path"]].concat();
        kiln(&bench, &by_path).assert_code(0);
        let same = bench.bytes("out/b.glb").expect("the result") == wanted;
        assert!(same, "{views}: other bytes");
    }
    let elsewhere = [
        &submit[..],
        &["meshroom/a.sfm", "--by-path", "--images", "scene"],
    ]
    .concat();
    kiln(&bench, &elsewhere).assert_code(0);
    assert!(bench.bytes("out/b.glb").expect("the result") == wanted);
    let sent = kiln(&bench, &[&submit[..], &["scene/a.sfm"]].concat());
    sent.assert_code(65);
    assert!(
        sent.stderr.contains("only prepare reads"),
        "{}",
        sent.stderr
    );
}
