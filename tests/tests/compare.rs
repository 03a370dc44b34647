//! `kiln compare`: its figures against the bake's, its refusals, and workers that die under it.

use std::fs;
use std::path::Path;
use std::process::Command;

use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::{Bench, Outcome, Run, number, sample, words};
use nix::sys::signal::Signal;
use proto::message::{Code, Role};
use serde_json::Value;

fn bake(bench: &Bench, output: &str, more: &[&str]) -> Value {
    let more = [&["--quality", "draft", "-o", output], more].concat();
    bench
        .baked(sample("mesh_nouv.glb"), sample("transforms.json"), &more)
        .report()
}

/// `kiln compare --json` with the bench's worker.
fn command(bench: &Bench, meshes: &[&str], views: &Path, more: &[&str]) -> Command {
    let mut command = bench.command(&["compare", "--json"]);
    command.args(meshes).arg("--views").arg(views).args(more);
    command
}

fn compare(bench: &Bench, meshes: &[&str], views: &Path, more: &[&str]) -> Outcome {
    Run::start(command(bench, meshes, views, more)).finish()
}

#[test]
fn figures_are_those_of_the_bakes_own_report() {
    let bench = Bench::real();
    let report = bake(
        &bench,
        "a.glb",
        &["--texture-size", "512", "--holdout", "3"],
    );
    let other = bake(&bench, "b.glb", &["--texture-size", "256"]);
    let picture = ["--picture", "out/sheet.png"];
    let outcome = compare(
        &bench,
        &["a.glb", "b.glb"],
        &sample("transforms.json"),
        &picture,
    );
    outcome.assert_code(0);
    let compared = outcome.one("compared");
    assert_eq!(compared["sandbox"], true);
    // Both are better than 20 dB, and the smaller one is not better than itself and a little.
    let least = number(&compared["models"][1]["psnr_db"]) + 0.01;
    for (least, code) in [(20.0, 0), (least, 65)] {
        let more = ["--fail-below", &least.to_string()];
        let outcome = compare(
            &bench,
            &["a.glb", "b.glb"],
            &sample("transforms.json"),
            &more,
        );
        outcome.assert_code(code);
        assert_eq!(outcome.one("compared")["models"], compared["models"]);
        if code != 0 {
            let message = outcome.refusal(code);
            assert!(
                message.contains(&format!("{least} dB")) && message.contains("b.glb has"),
                "{message}"
            );
        }
    }
    let [a, b] = [0, 1].map(|model| &compared["models"][model]);
    assert_eq!(a["textures"], serde_json::json!([[512, 512]]));
    assert_eq!(b["textures"], serde_json::json!([[256, 256]]));

    // The bake measured these views with the texels that it sent to the encoder; compare reads them from the file.
    let held_out = report["encode"]["holdout"].as_array().expect("views");
    assert_eq!(held_out.len(), 3);
    for score in held_out {
        let mut views = a["views"].as_array().expect("views").iter();
        let found = views
            .find(|view| view["view"] == score["view"])
            .expect("the same view");
        let (mine, its) = (number(&found["psnr_db"]), number(&score["psnr_db"]));
        assert!((mine - its).abs() < 0.01, "{mine} dB, {its} by the report");
        assert_eq!(found["pixels"], score["pixels"]);
    }
    for (model, report) in [(a, &report), (b, &other)] {
        let (mine, its) = (&model["atlas"], &report["encode"]["atlas"]);
        assert_eq!(mine["charts"], its["charts"]);
        assert_eq!(mine["charts"], report["prepare"]["charts"]);
        for figure in ["seam_length", "used", "density_spread"] {
            let (mine, its) = (number(&mine[figure]), number(&its[figure]));
            assert!(
                (mine - its).abs() <= 1e-5 * its,
                "{figure}: {mine}, {its} by the report"
            );
        }
        for level in 0..4 {
            let [mine, its] = [mine, its].map(|atlas| number(&atlas["seam_residual"][level]));
            assert!(
                its > 0.0 && (mine - its).abs() <= 1e-4 * its,
                "{level}: {mine}, {its}"
            );
        }
        assert!((0.0..0.2).contains(&number(&model["unseen"])), "{model}");
        assert!(number(&model["missing"]) < 0.001, "{model}");
    }
    // Checks the oracle: half the texels per axis give other figures.
    assert!(number(&a["psnr_db"]) > number(&b["psnr_db"]) + 1.0);
    assert!((number(&a["ssim"]) - number(&b["ssim"])).abs() > 1e-4);
    for level in 0..4 {
        let [a, b] = [a, b].map(|model| number(&model["atlas"]["seam_residual"][level]));
        assert!((a - b).abs() > 0.01 * a, "{level}: {a} {b}");
    }
    let sheet = bench.bytes("out/sheet.png").expect("the sheet");
    assert!(sheet.starts_with(b"\x89PNG\r\n\x1a\n"));
    bench.assert_clean(&["sheet.png"]);

    // One mesh, for people.
    let mut command = bench.command(&words("compare a.glb --quiet"));
    command.arg("--views").arg(sample("transforms_test.json"));
    let outcome = Run::start(command).finish();
    outcome.assert_code(0);
    let line = |name: &str| {
        let mut lines = outcome.stdout.iter();
        lines
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{outcome:?}"))
            .clone()
    };
    assert!(
        line("PSNR, mean")
            .split_whitespace()
            .last()
            .is_some_and(|db| db.parse::<f64>().is_ok())
    );
    assert_eq!(outcome.stderr, "");
}

#[test]
fn views_are_turned_to_the_mesh_that_was_baked_from_them() {
    let bench = Bench::sphere();
    let views = bench.path("transforms.json");
    let turns = [("turned.glb", "z"), ("down.glb", "-y")];
    for (name, up) in [("given.glb", "y")].into_iter().chain(turns) {
        bench.draft(&["--up", up, "-o", name]).assert_code(0);
    }
    let psnr = |name: &str, up: &str| {
        let outcome = compare(&bench, &[name], &views, &["--up", up]);
        outcome.assert_code(0);
        let compared = outcome.one("compared");
        assert_eq!(compared["up"], up);
        number(&compared["models"][0]["psnr_db"])
    };
    let given = psnr("given.glb", "y");
    for (name, up) in turns {
        let (turned, untold) = (psnr(name, up), psnr(name, "y"));
        assert!((given - turned).abs() < 0.3, "{given} dB, {turned} dB");
        assert!(untold < turned - 3.0, "{untold} dB, {turned} dB");
    }
}

#[test]
fn what_cannot_be_compared_is_one_line() {
    let bench = Bench::real();
    let views = sample("transforms.json");
    fs::copy(sample("mesh_nouv.glb"), bench.path("plain.glb")).expect("a mesh");
    fs::write(bench.path("bad.glb"), "glTF, but no more").expect("a file");
    fs::write(
        bench.path("mesh.ply"),
        "ply\nformat ascii 1.0\nend_header\n",
    )
    .expect("a file");
    let refused = |meshes: &[&str], code: i32, what: &str| {
        let outcome = compare(&bench, meshes, &views, &["--picture", "out/sheet.png"]);
        let message = outcome.refusal(code);
        assert!(message.contains(what), "{message}");
        bench.assert_clean(&[]);
    };
    refused(&["absent.glb"], 66, "the mesh absent.glb: no such file");
    refused(
        &["plain.glb", "absent.glb"],
        66,
        "the second mesh absent.glb",
    );
    refused(&["bad.glb"], 65, "bad.glb: ");
    refused(&["plain.glb", "bad.glb"], 65, "bad.glb: ");
    refused(&["mesh.ply"], 65, "mesh.ply: is no glTF");
    let outcome = compare(&bench, &["plain.glb"], &views, &["--timeout", "0.001"]);
    outcome.assert_code(124);
}

#[test]
fn a_mesh_without_texture_has_its_one_colour() {
    let bench = Bench::real();
    fs::copy(sample("mesh_nouv.glb"), bench.path("plain.glb")).expect("a mesh");
    let outcome = compare(&bench, &["plain.glb"], &sample("transforms.json"), &[]);
    outcome.assert_code(0);
    let model = &outcome.one("compared")["models"][0];
    assert_eq!(
        (&model["atlas"], &model["unseen"]),
        (&Value::Null, &Value::Null)
    );
    assert!(
        number(&model["psnr_db"]) < 20.0,
        "white is far from spotted: {model}"
    );
}

/// The exit code, and how often the worker was started.
fn with_fault(fault: Fault, step: Step, times: u32, more: &[&str]) -> (Outcome, usize) {
    let plan = Plan::healthy().with(Role::Prepare, step, fault, times);
    let bench = Bench::new(&plan);
    let more = [&["--insecure-no-sandbox"], more].concat();
    let outcome = compare(&bench, &["mesh.glb"], &bench.path("transforms.json"), &more);
    let starts = outcome.all("started").len();
    bench.assert_clean(&[]);
    (outcome, starts)
}

#[test]
fn a_worker_that_dies_is_named_and_tried_twice() {
    let stall = ["--stall-timeout", "0.3"];
    let (often, segv) = (u32::MAX, Signal::SIGSEGV as i32);
    for (fault, step, more, code, starts) in [
        (Fault::Signal(segv), Step::Hello, &[][..], 70, 2),
        (Fault::Exit(3), Step::Hello, &[], 70, 2),
        (Fault::Stall, Step::Start, &stall, 70, 2),
        (Fault::Garbage, Step::Hello, &[], 70, 2),
        (Fault::Oversized, Step::Hello, &[], 70, 2),
        (Fault::PacketFlood, Step::Hello, &[], 70, 2),
        (Fault::AllocateHuge, Step::Start, &[], 70, 2),
        (Fault::AllocateForeign, Step::Start, &[], 70, 2),
        (Fault::EarlyDone, Step::Start, &[], 70, 2),
        (Fault::WrongRole, Step::Spawn, &[], 70, 2),
        (Fault::WrongBuild, Step::Spawn, &[], 78, 1),
        (Fault::Fail(Code::InvalidAsset), Step::Hello, &[], 65, 1),
    ] {
        let name = format!("{fault:?} at {step:?}");
        let (outcome, started) = with_fault(fault, step, often, more);
        assert_eq!(
            outcome.code,
            Some(code),
            "{name}: {:#?}\n{}",
            outcome.stdout,
            outcome.stderr
        );
        assert_eq!(started, starts, "{name}: {:#?}", outcome.stdout);
        let error = outcome.one("error");
        assert_eq!(error["role"], "prepare", "{name}: {error}");
        assert_eq!(error["exit_code"], code, "{name}");
    }
}

#[test]
fn a_signal_ends_worker_and_comparison() {
    let bench = Bench::new(&Plan::always(Role::Prepare, Step::Start, Fault::Stall));
    let views = bench.path("transforms.json");
    let more = ["--insecure-no-sandbox", "--stall-timeout", "100"];
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let mut run = Run::start(command(&bench, &["mesh.glb"], &views, &more));
        run.wait_for(|event| event["event"] == "working");
        assert!(!bench.workers().is_empty(), "there is somebody to end");
        run.send(signal);
        run.finish().assert_code(code);
        bench.assert_clean(&[]);
    }
}
