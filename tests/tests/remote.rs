//! `kiln submit`, `wait`, `fetch`, … against a real `kiln serve`: output, files and exit codes are as with `kiln bake`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::LazyLock;

use kiln_tests::errand::{assert_refused, kiln, start, submit, submitted};
use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::sidecar::{Sidecar, sha256};
use kiln_tests::{Bench, Run, made, names_in, read_json};
use nix::sys::signal::Signal;
use proto::message::{Code, Role};
use serde_json::{Value, json};

/// What a healthy saboteur makes beside a contact sheet.
static SHOWN: LazyLock<Vec<u8>> = LazyLock::new(|| made::model(&[], &[0, 1, 2]));
/// What it makes alone.
static RESULT: LazyLock<Vec<u8>> = LazyLock::new(|| made::model(&[], &[]));

#[test]
fn a_job_is_submitted_waited_for_and_fetched() {
    let bench = Bench::new(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &[]);
    let id = submitted(&bench, &["--name", "chair", "--with-preview", "-q"]);
    let waited = kiln(&bench, &["wait", &id, "-o", "out/a.glb"]);
    waited.assert_code(0);
    assert_eq!(waited.stdout, ["out/a.glb"], "standard output is the path");
    assert!(waited.stderr.contains("PSNR 42.0 dB"), "{}", waited.stderr);
    assert!(waited.stderr.contains("bake: done in"), "{}", waited.stderr);
    assert_eq!(bench.bytes("out/a.glb").expect("there"), *SHOWN);

    // The same by `latest` and by the start of the id, in pieces and all.
    kiln(&bench, &["fetch", "latest", "-o", "out/b.glb"]).assert_code(0);
    kiln(&bench, &["fetch", &id[..20], "-o", "out"]).assert_code(0);
    assert_eq!(
        names_in(&bench.path("out")),
        ["a.glb", "b.glb", "model.glb", "preview.png", "report.json"]
    );
    assert_eq!(bench.bytes("out/b.glb").expect("there"), *SHOWN);
    let named = kiln(&bench, &["fetch", &id, "model.glb", "-o", "out", "--json"]);
    let sum = sha256(&SHOWN);
    assert_eq!(named.one("fetched")["sha256"], sum.as_str());
    assert_refused(
        &kiln(&bench, &["fetch", &id, "model.obj"]),
        66,
        "made model.glb",
    );
    assert_refused(
        &kiln(&bench, &["fetch", &id, "-o", "mesh.glb/x.glb"]),
        73,
        "mesh.glb/x.glb",
    );

    for name in ["report.json", "model.glb"] {
        kiln(&bench, &["fetch", &id, name, "-o", "out/new/"]).assert_code(0);
    }
    assert_eq!(
        names_in(&bench.path("out/new")),
        ["model.glb", "report.json"],
        "the folder is made"
    );
    kiln(&bench, &["fetch", &id, "-o", "out/deep/new.glb"]).assert_code(0);
    let two = [
        "fetch",
        &id,
        "report.json",
        "model.glb",
        "-o",
        "out/deep/two",
    ];
    kiln(&bench, &two).assert_code(0);
    assert_eq!(names_in(&bench.path("out/deep")), ["new.glb", "two"]);
    kiln(&bench, &["fetch", &id, "-o", "out/all/"]).assert_code(0);
    assert!(bench.path("out/all/preview.png").exists());

    let status = kiln(&bench, &["status", &id]);
    assert!(status.stdout.contains(&"state     succeeded".to_owned()));
    let status = kiln(&bench, &["status", &id, "--json"]);
    assert_eq!(status.events[0]["artifacts"][0]["sha256"], sum.as_str());
    let list = kiln(&bench, &["list"]);
    assert!(list.stdout[0].starts_with("ID "), "{:?}", list.stdout);
    assert!(
        list.stdout[1].starts_with(&id) && list.stdout[1].ends_with("chair"),
        "{:?}",
        list.stdout
    );
    let _newer = submitted(&bench, &["--key", "other", "-q"]);
    let list = kiln(&bench, &["list", "--json", "--limit", "1"]);
    assert_eq!(list.events.len(), 1);
    assert_ne!(list.events[0]["id"], id.as_str(), "the newest first");
    assert!(
        kiln(&bench, &["list", "--state", "failed"])
            .stdout
            .is_empty()
    );
    // Ids of one minute share their beginning.
    assert_refused(&kiln(&bench, &["status", &id[..4]]), 64, "2 jobs");
    assert_refused(&kiln(&bench, &["status", "ffff"]), 66, "ffff");
    let unknown = "f".repeat(32);
    assert_refused(&kiln(&bench, &["wait", &unknown]), 66, "no such job");
    drop(sidecar);
}

#[test]
fn waiting_ends_as_a_bake_of_ones_own_does() {
    let died = Plan::always(Role::Bake, Step::Work, Fault::Signal(11));
    let fail = |code| Plan::always(Role::Prepare, Step::Work, Fault::Fail(code));
    for (plan, more, code) in [
        (Plan::healthy(), vec!["--holdout", "1"], 0),
        (
            Plan::healthy(),
            vec![
                "--texture-format=jpeg",
                "--texture-quality=60",
                "--compress=meshopt",
                "--provenance-attribute",
                "--vram-budget=1G",
                "--gpu-times",
            ],
            0,
        ),
        (fail(Code::InvalidAsset), vec![], 65),
        (
            Plan::always(Role::Bake, Step::Work, Fault::Fail(Code::NoAdapter)),
            vec!["--device", "gpu"],
            69,
        ),
        (died, vec![], 70),
        (
            Plan::always(Role::Bake, Step::Work, Fault::Stall),
            vec!["--timeout", "0.5"],
            124,
        ),
    ] {
        let bench = Bench::new(&plan);
        let files = ["--report", "out/report.json", "--preview", "out/sheet.png"];
        let more = [&files, more.as_slice()].concat();
        let own = bench.run(&[&more[..], &["--crash-folder", "none"]].concat());
        own.assert_code(code);
        let (own_names, own_glb) = (bench.outputs(), fs::read(bench.path("out/out.glb")).ok());
        let (own_report, own_attempts) = (report(&bench), own.attempts("bake"));
        for name in &own_names {
            fs::remove_file(bench.path("out").join(name)).expect("there");
        }
        let sidecar = Sidecar::start(&bench, &[]);
        let wait = ["--wait", "-o", "out/out.glb", "--json"];
        let outcome = kiln(&bench, &submit(&[&wait, more.as_slice()].concat()));
        outcome.assert_code(code);
        assert_eq!(bench.outputs(), own_names, "{plan:?}");
        assert_eq!(fs::read(bench.path("out/out.glb")).ok(), own_glb);
        let (last, own) = (
            outcome.events.last().expect("an event"),
            own.events.last().expect("an event"),
        );
        for key in [
            "event", "output", "code", "class", "message", "hint", "role",
        ] {
            assert_eq!(last[key], own[key], "{key} of {last:#}");
        }
        assert_eq!(outcome.attempts("bake"), own_attempts, "{plan:?}");
        let report = report(&bench);
        for key in ["schema", "kiln", "outcome", "options", "files", "psnr"] {
            assert_eq!(report[key], own_report[key], "{key} of {plan:?}");
        }
        // Waiting again ends the same way.
        kiln(&bench, &["wait", "latest", "-q"]).assert_code(code);
        drop(sidecar);
    }
}

fn report(bench: &Bench) -> Value {
    read_json(&bench.path("out/report.json"))
}

#[test]
fn what_is_wrong_here_is_told_before_the_sidecar_is_asked() {
    // There is no sidecar at all.
    let bench = Bench::new(&Plan::healthy());
    let views = ["--views", "transforms.json"];
    let of = |mesh, more: &[&str]| kiln(&bench, &[&["submit", mesh], &views[..], more].concat());
    assert_refused(&of("no.glb", &[]), 66, "the mesh no.glb");
    assert_refused(&of("no.glb", &["--by-path"]), 66, "the mesh no.glb");
    assert_refused(&of("mesh.glb", &["--wait"]), 64, "--output");
    assert_refused(&of("mesh.glb", &["--report", "r.json"]), 64, "--wait");
    assert_refused(
        &of("mesh.glb", &["--wait", "-o", "mesh.glb/x.glb"]),
        73,
        "mesh.glb/x.glb",
    );
    assert_refused(
        &of("mesh.glb", &["--wait", "-o", "mesh.glb"]),
        64,
        "named twice",
    );
    for name in ["x.obj", "X.PLY"] {
        let outcome = of("mesh.glb", &["--wait", "-o", name]);
        assert_refused(&outcome, 64, "must end in .glb");
        for words in ["wait", "fetch"] {
            let outcome = kiln(&bench, &[words, "latest", "-o", name]);
            assert_refused(&outcome, 64, "must end in .glb");
        }
    }
    assert_refused(&of("mesh.glb", &["--key", "a b"]), 64, "printable");
    let far = ["--url", "http://10.0.0.1:80", "--token-file", "token"];
    assert_refused(&of("mesh.glb", &far), 64, "of this machine");
    for arguments in [&["list"][..], &["cancel", "latest"], &submit(&["-q"])] {
        let outcome = kiln(&bench, arguments);
        assert_refused(&outcome, 69, "no sidecar answers at");
        assert!(outcome.stderr.contains("kiln serve"), "{}", outcome.stderr);
    }
    let outcome = kiln(&bench, &["list", "--json"]);
    outcome.assert_code(69);
    let line = outcome.one("error");
    assert_eq!(
        (&line["code"], &line["exit_code"]),
        (&json!("unreachable"), &json!(69))
    );
}

#[test]
fn a_wait_that_is_over_or_interrupted_leaves_the_job_alone() {
    let bench = Bench::new(&Plan::always(Role::Bake, Step::Work, Fault::Stall));
    let _sidecar = Sidecar::start(&bench, &["--stall-timeout", "100"]);
    let id = submitted(&bench, &["-q"]);
    let outcome = kiln(&bench, &["wait", &id, "--timeout", "0.2", "-q"]);
    assert_refused(&outcome, 124, "0.2 s of waiting");
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let mut waiting = start(&bench, &["wait", &id, "--json"]);
        waiting.wait_for(|event| event["event"] == "role_done");
        waiting.send(signal);
        let outcome = waiting.finish();
        outcome.assert_code(code);
        assert_eq!(outcome.one("error")["exit_code"], code);
    }
    let status = kiln(&bench, &["status", &id, "--json"]);
    assert_eq!(status.events[0]["state"], "baking");
    assert_refused(
        &kiln(&bench, &["fetch", &id, "-o", "out"]),
        75,
        "is not over",
    );

    let mut waiting = start(&bench, &["wait", &id, "--json"]);
    waiting.wait_for(|event| event["event"] == "role_done");
    let unknown = "f".repeat(32);
    let cancelled = kiln(&bench, &["cancel", &unknown, &id, "-q"]);
    cancelled.assert_code(66);
    assert_eq!(cancelled.stdout, [id], "the other is ended all the same");
    let outcome = waiting.finish();
    outcome.assert_code(130);
    assert_eq!(outcome.one("error")["code"], "cancelled");
}

#[test]
fn a_missing_picture_and_a_broken_mesh_are_told_as_by_kiln_bake() {
    let bench = Bench::sphere();
    fs::write(bench.path("broken.glb"), b"glTF nothing").expect("room");
    fs::create_dir(bench.path("gap")).expect("room");
    fs::copy(
        bench.path("transforms.json"),
        bench.path("gap/transforms.json"),
    )
    .expect("room");
    let _sidecar = Sidecar::start(&bench, &[]);
    for (mesh, views) in [("broken.glb", "."), ("mesh.obj", "gap")] {
        let own = bench.bake_for_people(mesh, views, &["--insecure-no-sandbox", "-q"]);
        let own = Run::start(own).finish();
        own.assert_code(65);
        let arguments = [
            "submit",
            mesh,
            "--views",
            views,
            "--wait",
            "-o",
            "out/o.glb",
            "-q",
        ];
        let outcome = kiln(&bench, &[&arguments[..], &["--device", "cpu"]].concat());
        outcome.assert_code(65);
        assert_eq!(outcome.stderr, own.stderr);
        assert!(outcome.stdout.is_empty());
    }
    assert!(bench.outputs().is_empty());
}

#[test]
fn the_same_key_is_the_same_job() {
    let bench = Bench::new(&Plan::healthy());
    let _sidecar = Sidecar::start(&bench, &[]);
    let first = submitted(&bench, &["--key", "k", "-q"]);
    assert_eq!(submitted(&bench, &["--key", "k", "-q"]), first);
    assert_ne!(submitted(&bench, &["-q"]), first);
    let other = kiln(&bench, &submit(&["--key", "k", "--seed", "7", "-q"]));
    assert_refused(&other, 64, "another spec");
}

#[test]
fn by_tcp_with_the_token_and_not_without() {
    let bench = Bench::new(&Plan::healthy());
    for (name, text) in [("token", "0123456789abcdef"), ("wrong", "fedcba9876543210")] {
        fs::write(bench.path(name), text).expect("room");
        let owner = fs::Permissions::from_mode(0o600);
        fs::set_permissions(bench.path(name), owner).expect("ours");
    }
    let sidecar = Sidecar::start(&bench, &["--tcp", "127.0.0.1:0", "--token-file", "token"]);
    let url = format!("http://{}", sidecar.tcp.as_deref().expect("it said where"));
    let at = |token| ["--url", &url, "--token-file", token].map(str::to_owned);
    let with = |arguments: Vec<&str>, token| {
        let at = at(token);
        let at: Vec<&str> = at.iter().map(String::as_str).collect();
        let mut command = bench.kiln();
        command.args(arguments).args(at);
        Run::start(command).finish()
    };
    let wait = ["--wait", "-o", "out/out.glb", "-q"];
    with(submit(&wait), "token").assert_code(0);
    assert_eq!(bench.bytes("out/out.glb").expect("there"), *RESULT);
    assert_refused(&with(vec!["list"], "wrong"), 77, "token");
}
