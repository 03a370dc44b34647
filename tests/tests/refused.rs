//! Jobs that cannot start write the requested report, over an older one but over nothing else.

use std::fs;

use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::host::after;
use kiln_tests::{Bench, Outcome, Run, read_json, words};
use nix::sys::signal::Signal;
use proto::message::Role;
use serde_json::{Value, json};

/// As every report begins.
const OLD: &str = "{\n  \"schema\": 1,\n  \"outcome\": \"done\"\n}\n";
const REPORT: [&str; 2] = ["--report", "out/report.json"];

fn bench() -> Bench {
    Bench::new(&Plan::healthy())
}

fn report(bench: &Bench, name: &str) -> Value {
    read_json(&bench.path(name))
}

/// Asserts that the report has the error `told`, or one like it for a job of a list.
fn assert_told(report: &Value, told: &Value) {
    assert_eq!(report["schema"], 1);
    assert_eq!(report["outcome"], "failed");
    for key in ["code", "message", "hint", "class", "exit_code"] {
        assert_eq!(report["error"][key], told[key], "{key}");
        assert!(!told[key].is_null(), "{key} in {told}");
    }
    assert_eq!(report["attempts"], json!([]));
}

fn list(bench: &Bench, jobs: &Value) -> Run {
    fs::write(bench.path("jobs.json"), jobs.to_string()).expect("a list");
    let mut kiln = bench.kiln_with_saboteurs();
    kiln.args(["--json", "--jobs", "jobs.json"]);
    Run::start(kiln)
}

/// A job of a list; its report exists already.
fn job(bench: &Bench, name: &str) -> Value {
    let report = format!("out/{name}.json");
    fs::write(bench.path(&report), OLD).expect("room");
    json!({
        "name": name, "mesh": "mesh.glb", "views": ".", "output": format!("out/{name}.glb"),
        "report": report,
    })
}

#[test]
fn a_job_that_cannot_begin_leaves_the_report_of_one_that_failed() {
    let bench = bench();
    let bake = |mesh: &str, views: &str, more: &[&str]| {
        let mut kiln = bench.kiln();
        kiln.args(["bake", "--json", mesh, "--views", views]);
        kiln.args(more).args(REPORT);
        Run::start(kiln).finish()
    };
    for (mesh, views, more, code) in [
        ("no.glb", ".", "-o out/out.glb", 66),
        ("mesh.glb", "no.json", "-o out/out.glb", 66),
        ("mesh.glb", ".", "-o mesh.glb/out.glb", 73),
        ("mesh.glb", ".", "-o out/out.glb --maps mesh.glb/no", 73),
        ("mesh.glb", ".", "-o mesh.glb", 64),
        ("mesh.glb", ".", "-o out/out.ply --compress meshopt", 64),
        (
            "mesh.glb",
            ".",
            "-o out/out.glb --pages 4 --texture-size 8192",
            64,
        ),
    ] {
        for old in [None, Some(OLD)] {
            match old {
                Some(text) => fs::write(bench.path("out/report.json"), text).expect("room"),
                None => drop(fs::remove_file(bench.path("out/report.json"))),
            }
            let more = words(more);
            let outcome = bake(mesh, views, &more);
            outcome.assert_code(code);
            let report = report(&bench, "out/report.json");
            assert_told(&report, outcome.one("error"));
            assert_eq!(report["error"]["exit_code"], code);
            let options = &report["options"];
            assert_eq!(options["mesh"], mesh);
            assert_eq!(options["views"], views);
            assert_eq!(options["output"], more[1]);
            assert_eq!(options["quality"], "standard");
            assert!(outcome.all("started").is_empty());
            bench.assert_clean(&["report.json"]);
        }
    }
}

#[test]
fn flags_that_do_not_parse_make_no_job_and_leave_no_report() {
    let bench = bench();
    let run = |more: &[&str]| bench.run(&[&REPORT[..], more].concat());
    run(&["--quality", "superb"]).assert_code(64);
    bench.assert_clean(&[]);
}

/// Runs a bake that is refused with `code` and whose report cannot be written: one line tells all.
fn assert_untouched(bench: &Bench, arguments: &[&str], code: i32) {
    let mut kiln = bench.kiln();
    kiln.arg("bake").args(arguments);
    let outcome = Run::start(kiln).finish();
    outcome.assert_code(code);
    let lines = outcome.stderr.lines();
    assert!(lines.count() <= 2, "a line and a hint: {}", outcome.stderr);
}

#[test]
fn a_report_takes_no_place_that_is_another_files() {
    let bench = bench();
    // Files that look replaceable: an older report begins like one, or is empty.
    for name in ["mesh.glb", "transforms.json"] {
        fs::write(bench.path(name), "").expect("room");
    }
    fs::write(bench.path("out/notes.json"), "notes").expect("room");
    fs::hard_link(bench.path("mesh.glb"), bench.path("out/link.glb")).expect("a name");
    let inputs = ["mesh.glb", "--views", "."];
    for (more, code) in [
        (&["-o", "out/a.glb", "--report", "out/a.glb"][..], 64),
        (&["-o", "/proc/a.glb", "--report", "mesh.glb"], 64),
        (&["-o", "/proc/a.glb", "--report", "out/link.glb"], 73),
        (&["-o", "/proc/a.glb", "--report", "transforms.json"], 64),
        (&["-o", "out/a.obj", "--report", "out/a.mtl"], 64),
        (&["-o", "/proc/a.glb", "--report", "out/notes.json"], 73),
        (&["-o", "/proc/a.glb", "--report", "/proc/report.json"], 73),
        (&["-o", "/proc/a.glb", "--report", "out"], 73),
    ] {
        assert_untouched(&bench, &[&inputs[..], more].concat(), code);
    }
    let missing = ["no.glb", "--views", ".", "-o", "out/a.glb"];
    assert_untouched(
        &bench,
        &[&missing[..], &["--report", "no.glb"]].concat(),
        66,
    );
    assert!(!bench.path("no.glb").exists(), "a report is no mesh");
    for name in ["mesh.glb", "transforms.json"] {
        assert_eq!(fs::read(bench.path(name)).expect("there"), b"", "{name}");
    }
    let notes = fs::read_to_string(bench.path("out/notes.json"));
    assert_eq!(notes.expect("there"), "notes");
    bench.assert_clean(&["link.glb", "notes.json"]);
}

#[test]
fn a_report_too_large_for_this_user_is_left_out_and_the_error_is_told() {
    let bench = bench();
    fs::write(bench.path("out/report.json"), OLD).expect("room");
    let mut kiln = bench.kiln();
    let inputs = ["bake", "--json", "no.glb", "--views", "."];
    kiln.args(inputs).args(["-o", "out/out.glb"]).args(REPORT);
    let outcome = Run::start(after("ulimit -S -f 1", &kiln)).finish();
    outcome.assert_code(66);
    assert_eq!(outcome.one("error")["code"], "missing_input");
    let old = fs::read_to_string(bench.path("out/report.json")).expect("there");
    assert_eq!(old, OLD, "whole, old or new");
    bench.assert_clean(&["report.json"]);
}

#[test]
fn a_list_that_cannot_begin_leaves_the_reports_of_its_jobs() {
    let bench = bench();
    let run = |jobs: &[Value]| -> Outcome { list(&bench, &json!(jobs)).finish() };
    let mut missing = job(&bench, "b");
    missing["mesh"] = "nowhere.glb".into();
    let outcome = run(&[job(&bench, "a"), missing]);
    outcome.assert_code(66);
    let told = outcome.one("error");
    let message = told["message"].as_str().expect("text");
    assert!(message.contains("job b: the mesh nowhere.glb"), "{message}");
    for name in ["a", "b"] {
        let report = report(&bench, &format!("out/{name}.json"));
        assert_told(&report, told);
        assert_eq!(report["options"]["output"], format!("out/{name}.glb"));
    }
    // A job whose flags do not parse does not count. Two jobs with one report path write neither report.
    let mut typo = job(&bench, "b");
    typo["qualty"] = "draft".into();
    let mut twin = job(&bench, "c");
    let mut other = job(&bench, "d");
    for twin in [&mut twin, &mut other] {
        twin["report"] = "out/twins.json".into();
    }
    let outcome = run(&[job(&bench, "a"), typo, twin, other]);
    outcome.assert_code(64);
    assert_told(&report(&bench, "out/a.json"), outcome.one("error"));
    for name in ["b", "c", "d"] {
        let path = bench.path(&format!("out/{name}.json"));
        assert_eq!(fs::read_to_string(path).expect("there"), OLD, "{name}");
    }
    bench.assert_clean(&["a.json", "b.json", "c.json", "d.json"]);
}

#[test]
fn a_job_of_a_list_that_never_had_its_turn_leaves_its_report() {
    let plan = Plan::always(Role::Prepare, Step::Work, Fault::Stall);
    let bench = Bench::new(&plan);
    let mut run = list(&bench, &json!([job(&bench, "a"), job(&bench, "b")]));
    run.wait_progress("prepare");
    run.send(Signal::SIGTERM);
    let outcome = run.finish();
    outcome.assert_code(143);
    let told = outcome.all("error");
    assert_eq!(told.len(), 2, "{:#?}", outcome.stdout);
    for error in told {
        let name = error["job"].as_str().expect("a name");
        let report = report(&bench, &format!("out/{name}.json"));
        assert_eq!(report["error"]["code"], "cancelled", "{name}");
        assert_eq!(report["error"]["message"], error["message"], "{name}");
    }
    bench.assert_clean(&["a.json", "b.json"]);
}
