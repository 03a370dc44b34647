//! An output that names an input, under any name, is refused in one line with 64, and every file stays unchanged.

use std::collections::BTreeMap;
use std::fs;

use kiln_tests::errand::kiln;
use kiln_tests::sidecar::Sidecar;
use kiln_tests::{Bench, Outcome, Run, words};

/// The sphere. Its third view also has the names of an OBJ's side file and of pictures that a job makes.
fn bench() -> Bench {
    let bench = Bench::sphere();
    for folder in ["maps", "rejected"] {
        fs::create_dir(bench.path(folder)).expect("a folder");
    }
    for name in [
        "3.glb",
        "c_texture.png",
        "maps/residual.png",
        "rejected/rejected_0003.png",
    ] {
        fs::hard_link(bench.path("3.png"), bench.path(name)).expect("a name");
    }
    bench
}

fn run(bench: &Bench, arguments: &[&str]) -> Outcome {
    let arguments = [arguments, &["--json"]].concat();
    Run::start(bench.command(&arguments)).finish()
}

fn bake(bench: &Bench, more: &[&str]) -> Outcome {
    let cheap = words(
        "bake mesh.obj --views transforms.json --quality draft --texture-size 256 --device cpu \
         --crash-folder none",
    );
    run(bench, &[&cheap, more].concat())
}

fn files(bench: &Bench) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for folder in [".", "out", "maps", "rejected", "model"] {
        let entries = fs::read_dir(bench.path(folder)).into_iter().flatten();
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            if path.is_file() {
                let bytes = fs::read(&path).expect("a file");
                files.insert(path.display().to_string(), bytes);
            }
        }
    }
    files
}

fn assert_refused(outcome: &Outcome, name: &str) {
    assert_eq!(outcome.refusal(64), format!("{name} is named twice"));
}

#[test]
fn a_view_is_replaced_by_no_output() {
    let bench = bench();
    let before = files(&bench);
    for (more, name) in [
        (&["-o", "3.glb"][..], "3.glb"),
        (&["-o", "c.obj"], "c_texture.png"),
        (&["-o", "out/a.glb", "--preview", "3.png"], "3.png"),
        (&["-o", "out/a.glb", "--report", "3.png"], "3.png"),
        (&["-o", "out/a.glb", "--maps", "maps"], "maps/residual.png"),
        (
            &["-o", "out/a.glb", "--rejected", "rejected"],
            "rejected/rejected_0003.png",
        ),
    ] {
        assert_refused(&bake(&bench, more), name);
        assert_eq!(files(&bench), before, "{more:?}");
    }
    // The same folders are accepted if they hold no view.
    for name in ["maps/residual.png", "rejected/rejected_0003.png"] {
        fs::remove_file(bench.path(name)).expect("there");
        fs::write(bench.path(name), "an old one").expect("room");
    }
    let more = words("-o out/a.glb --maps maps --rejected rejected");
    bake(&bench, &more).assert_code(0);
    let picture = bench.bytes("rejected/rejected_0003.png").expect("there");
    assert!(picture.starts_with(b"\x89PNG"), "the old one is replaced");
    let before = files(&bench);
    let compare = ["compare", "out/a.glb", "--views", "transforms.json"];
    let outcome = run(&bench, &[&compare[..], &["--picture", "3.png"]].concat());
    assert_refused(&outcome, "3.png");
    assert_eq!(files(&bench), before);
}

#[test]
fn a_report_of_a_failure_takes_no_view_either() {
    let bench = bench();
    // Nothing is opened: the worker is not a real one.
    let job = ["bake", "mesh.obj", "--views", ".", "-o", "out/a.glb"];
    let mut command = bench.kiln();
    command
        .args(job)
        .args(["--report", "3.png", "--baker", "3.png"]);
    let before = files(&bench);
    Run::start(command).finish().assert_code(71);
    assert_eq!(files(&bench), before);
}

#[test]
fn the_cameras_of_a_model_are_known_at_once() {
    let bench = bench();
    fs::create_dir_all(bench.path("model/images")).expect("a folder");
    for name in ["images.txt", "cameras.txt"] {
        fs::write(bench.path("model").join(name), "").expect("room");
    }
    let before = files(&bench);
    let job = ["bake", "mesh.obj", "--views", "model", "-o", "out/a.glb"];
    for (flag, name) in [
        ("--report", "model/cameras.txt"),
        ("--report", "model/images.txt"),
    ] {
        let outcome = run(&bench, &[&job[..], &[flag, name]].concat());
        assert_refused(&outcome, name);
        assert!(outcome.all("started").is_empty(), "nothing was started");
        assert_eq!(files(&bench), before);
    }
}

#[test]
fn what_a_sidecar_made_takes_no_view_either() {
    let bench = bench();
    let root = bench.path(".").canonicalize().expect("there");
    let sidecar = Sidecar::start(&bench, &["--root", root.to_str().expect("text")]);
    let before = files(&bench);
    for more in [&[][..], &["--by-path"]] {
        let job = ["submit", "mesh.obj", "--views", "transforms.json", "--wait"];
        let outcome = kiln(&bench, &[&job[..], &["-o", "3.glb"], more].concat());
        outcome.assert_code(64);
        assert!(
            outcome.stderr.contains("3.glb is named twice"),
            "{}",
            outcome.stderr
        );
        assert_eq!(files(&bench), before, "{more:?}");
    }
    drop(sidecar);
}
