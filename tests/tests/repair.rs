//! Broken, hollow, inside-out or tilted meshes: what is repaired, and what is reported.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use kiln_tests::glb::Model;
use kiln_tests::{Bench, number, words};
use serde_json::{Value, json};

const FLAGS: [&str; 4] = ["--weld", "--orient", "--remove-unseen", "--fill-holes"];
/// Number of the sphere's triangles.
const SPHERE: u64 = 512;

type Points = Vec<[f32; 3]>;
type Triangles = Vec<[usize; 3]>;

/// The sphere's mesh, with 0-based indices.
fn read(bench: &Bench) -> (Points, Triangles) {
    let text = fs::read_to_string(bench.path("mesh.obj")).expect("a mesh");
    let (mut points, mut triangles) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "v" => points.push([1, 2, 3].map(|k| words[k].parse().expect("a number"))),
            _ => {
                triangles.push([1, 2, 3].map(|k| words[k].parse::<usize>().expect("a number") - 1));
            }
        }
    }
    assert_eq!(triangles.len() as u64, SPHERE);
    (points, triangles)
}

fn write(bench: &Bench, (points, triangles): &(Points, Triangles)) -> PathBuf {
    let mut text = String::new();
    for [x, y, z] in points {
        writeln!(text, "v {x} {y} {z}").expect("memory");
    }
    for corners in triangles {
        let [a, b, c] = corners.map(|corner| corner + 1);
        writeln!(text, "f {a} {b} {c}").expect("memory");
    }
    let path = bench.path("broken.obj");
    fs::write(&path, text).expect("a file");
    path
}

/// A sphere in a sphere. The outer one lacks ten triangles in five places, and every seventh is flipped.
fn broken(bench: &Bench) -> PathBuf {
    let (mut points, mut triangles) = read(bench);
    let count = points.len();
    let within: Triangles = triangles
        .iter()
        .map(|t| t.map(|corner| corner + count))
        .collect();
    let small: Points = points.iter().map(|p| p.map(|x| x * 0.7)).collect();
    points.extend(small);
    for (number, corners) in triangles
        .iter_mut()
        .enumerate()
        .filter(|(number, _)| number % 7 == 0)
    {
        corners.rotate_left(number % 3);
        corners.swap(0, 1);
    }
    let mut number = 0;
    triangles.retain(|_| {
        number += 1;
        !(number > 100 && number % 80 < 2)
    });
    triangles.extend(within);
    write(bench, &(points, triangles))
}

fn bake(bench: &Bench, mesh: &Path, more: &[&str]) -> (Value, Vec<u8>) {
    let all = words("--quality draft --texture-size 256");
    let outcome = bench.baked(mesh, "transforms.json", &[&all, more].concat());
    (
        outcome.report(),
        bench.bytes("out/out.glb").expect("the result"),
    )
}

/// Least and largest coordinates of the result.
fn bounds(bench: &Bench) -> [Vec<f64>; 2] {
    let model = Model::open(&bench.path("out/out.glb"));
    let accessor = model.accessor("POSITION").expect("positions");
    ["min", "max"].map(|key| serde_json::from_value(accessor[key].clone()).expect("bounds"))
}

#[test]
fn a_broken_mesh_is_mended_on_request_alone_and_each_step_is_told() {
    let bench = Bench::sphere();
    let mesh = broken(&bench);

    let (report, _) = bake(&bench, &mesh, &[]);
    let given = report["prepare"]["triangles"].as_u64().expect("a count");
    assert!(given > 2 * SPHERE - 20 && given < 2 * SPHERE, "{given}");
    assert_eq!(report["prepare"]["mesh"], json!([]));

    let (report, first) = bake(&bench, &mesh, &FLAGS);
    let (prepare, steps) = (&report["prepare"], &report["prepare"]["mesh"]);
    assert_eq!(prepare["triangles"], SPHERE, "{steps:#}");
    let kinds: Vec<&Value> = (0..4).map(|k| &steps[k]["step"]).collect();
    assert_eq!(kinds, ["weld", "orient", "remove_unseen", "fill_holes"]);
    let fates: Vec<&Value> = (0..4).map(|k| &steps[k]["fate"]).collect();
    assert_eq!(fates, ["unchanged", "done", "done", "done"]);
    assert_eq!(steps[2]["changed"], SPHERE);
    assert_eq!(
        (&steps[2]["before"]["parts"], &steps[2]["after"]["parts"]),
        (&json!(2), &json!(1))
    );
    for (earlier, later) in [(0, 1), (1, 2), (2, 3)] {
        assert_eq!(steps[earlier]["after"], steps[later]["before"]);
    }
    let last = &steps[3]["after"];
    assert_eq!(
        (&last["borders"], &last["border_edges"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(report["options"]["repair"]["orient"], true);
    let staged = report["stages"].as_array().expect("stages");
    assert!(staged.iter().any(|stage| stage["phase"] == "repair"));

    let (_, again) = bake(&bench, &mesh, &FLAGS);
    assert!(first == again, "the same bytes");
}

#[test]
fn limits_are_obeyed_and_bad_ones_refused() {
    let bench = Bench::sphere();
    let mesh = broken(&bench);
    let (report, _) = bake(&bench, &mesh, &["--fill-holes=0.000001"]);
    let step = &report["prepare"]["mesh"][0];
    assert_eq!(
        (&step["fate"], &step["before"]),
        (&json!("unchanged"), &step["after"])
    );
    let note = step["note"].as_str().expect("a text");
    assert!(
        note.ends_with("borders stay open that are larger than allowed"),
        "{note}"
    );

    for (flags, wanted) in [
        (&["--fill-holes=0"][..], "must be above 0"),
        (&["--fill-holes=big"], "must be above 0"),
        (&["--weld=0.5"], "must be above 0, and 0.01 at most"),
        (&["--hole-edges", "2"], "must be from 3 to 512"),
        (&["--fill-holes", "--keep-uvs"], "cannot be used with"),
        (&["--up", "x"], "invalid value 'x'"),
    ] {
        let message = bench.baked(&mesh, "transforms.json", flags).refusal(64);
        assert!(message.contains(wanted), "{flags:?}: {message}");
    }
}

#[test]
fn a_world_with_z_up_is_turned_whole() {
    let bench = Bench::sphere();
    let upright = bench.path("mesh.obj");
    let (given, _) = bake(&bench, &upright, &[]);
    // The sphere's poles are on its z axis, and its rings reach nowhere as far.
    let [_, most] = bounds(&bench);
    assert!(
        most[2] == 1.0 && most[0] < 0.999 && most[1] < 0.999,
        "{most:?}"
    );
    let (turned, _) = bake(&bench, &upright, &["--up", "z"]);
    let [_, most] = bounds(&bench);
    assert!(
        most[1] == 1.0 && most[0] < 0.999 && most[2] < 0.999,
        "{most:?}"
    );
    // Cameras went with it: the views are explained as well as before.
    let [given, turned] = [given, turned].map(|report| number(&report["psnr"]["train_db"]));
    assert!((given - turned).abs() < 0.3, "{given} dB, {turned} dB");
}
