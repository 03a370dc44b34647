//! How failures of one job affect others: breakers that open and close, losses that jobs share, warm spares.

use std::fs;
use std::io::{Read, Write};

use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::{Bench, Outcome, Run, signal_if_there};
use nix::sys::signal::Signal;
use proto::message::{Code, Role};
use serde_json::{Value, json};

/// Beyond any wait of a test: only what it injects ends a process.
const PATIENCE: &str = "100";

/// A number of jobs of the bench's saboteurs, with extra flags.
fn start(bench: &Bench, count: usize, more: &Value, arguments: &[&str]) -> Run {
    let job = |k: usize| {
        let mut job = json!({
            "mesh": bench.path("mesh.glb"), "views": bench.path("transforms.json"),
            "output": bench.path(&format!("out/{k}.glb")),
            "texture-size": 256, "stall-timeout": PATIENCE,
        });
        if let (Value::Object(job), Value::Object(more)) = (&mut job, more.clone()) {
            job.extend(more);
        }
        job
    };
    let list: Vec<Value> = (0..count).map(job).collect();
    fs::write(bench.path("jobs.json"), Value::Array(list).to_string()).expect("a list");
    let mut kiln = bench.kiln_with_saboteurs();
    kiln.args(["--json", "--jobs", "jobs.json"]).args(arguments);
    Run::start(kiln)
}

fn of_bake<'a>(outcome: &'a Outcome, kind: &str) -> Vec<&'a Value> {
    let mut events = outcome.all(kind);
    events.retain(|event| event["role"] == "bake");
    events
}

#[test]
fn an_adapter_that_fails_in_a_row_rests_and_one_job_tries_it_before_the_others() {
    // ShaderRejected is never retried on the same adapter: five jobs fail, and the gate closes for the sixth.
    let refuses = Fault::Fail(Code::ShaderRejected);
    let plan = Plan::healthy()
        .on_gpu()
        .with(Role::Bake, Step::Ready, refuses, 5);
    let bench = Bench::new(&plan);
    let more = json!({"device": "gpu", "fallback": "same-plan"});
    let outcome = start(&bench, 9, &more, &["--spares", "0"]).finish();
    assert_eq!(outcome.all("error").len(), 5, "{:#?}", outcome.stdout);
    assert_eq!(outcome.all("done").len(), 4);
    let held = of_bake(&outcome, "held");
    assert_eq!(held.len(), 1, "the rest follow the probe at once");
    assert_eq!(held[0]["job"], "6");
    let why = held[0]["why"].to_string();
    assert!(why.contains("baking on saboteur"), "{why}");
    outcome.assert_nothing_held();
}

#[test]
fn a_job_that_may_choose_passes_over_an_adapter_that_rests() {
    let refuses = Fault::Fail(Code::ShaderRejected);
    let plan = Plan::healthy()
        .on_gpu()
        .with(Role::Bake, Step::Ready, refuses, u32::MAX);
    let bench = Bench::new(&plan);
    let outcome = start(&bench, 7, &json!({}), &["--spares", "0"]).finish();
    outcome.assert_code(0);
    for (number, done) in outcome.all("done").into_iter().enumerate() {
        let report = &done["report"];
        let attempts = report["attempts"].as_array().expect("a list");
        let bakes = attempts.iter().filter(|attempt| attempt["role"] == "bake");
        let warnings = report["warnings"].to_string();
        let over = warnings.contains("saboteur is passed over");
        // Five try it and bake elsewhere; nobody else tries it.
        let expected = if number < 5 { (2, false) } else { (1, true) };
        assert_eq!((bakes.count(), over), expected, "job {number}: {report:#}");
    }
    assert!(of_bake(&outcome, "held").is_empty());
    outcome.assert_nothing_held();
}

#[test]
fn jobs_that_lose_their_adapter_together_bake_on_it_one_at_a_time() {
    let lost = Fault::Fail(Code::GpuDeviceLost);
    let plan = Plan::healthy()
        .on_gpu()
        .with(Role::Bake, Step::Work, Fault::Hear, 4)
        .with(Role::Bake, Step::Work, lost, 4);
    let bench = Bench::new(&plan);
    let mut word = bench.told();
    let mut run = start(
        &bench,
        4,
        &json!({"device": "gpu"}),
        &["--parallel", "4", "--spares", "0"],
    );
    for _ in 0..4 {
        run.wait_for(|event| event["event"] == "working" && event["role"] == "bake");
    }
    word.write_all(b"lost").expect("room");
    let outcome = run.finish();
    outcome.assert_code(0);
    let classes: Vec<&str> = of_bake(&outcome, "retry")
        .iter()
        .filter_map(|event| event["class"].as_str())
        .collect();
    assert_eq!(classes, ["ambiguous", "victim", "victim", "victim"]);
    // The first job's retry began before the incident was known.
    let mut again = 0;
    let of_bake_again = |event: &&Value| event["role"] == "bake" && event["attempt"] == 2;
    for event in outcome.events.iter().filter(of_bake_again) {
        match event["event"].as_str() {
            Some("started") => again += 1,
            Some("ended") => again -= 1,
            _ => {}
        }
        assert!(again <= 2, "{:#?}", outcome.stdout);
    }
    assert!(!of_bake(&outcome, "held").is_empty());
    outcome.assert_nothing_held();
}

#[test]
fn a_warm_spare_takes_the_place_of_a_bake_that_was_killed() {
    for spares in [1, 0] {
        let plan = Plan::healthy()
            .on_gpu()
            .with(Role::Bake, Step::Ready, Fault::Tell, u32::MAX)
            .with(Role::Bake, Step::Work, Fault::Stall, 1);
        let bench = Bench::new(&plan);
        let mut word = bench.told();
        let mut run = start(&bench, 1, &json!({}), &["--spares", &spares.to_string()]);
        let pid = run.wait_progress("bake");
        // Both the job's own process and the spare have opened their adapter.
        word.read_exact(&mut vec![0; 1 + spares]).expect("told");
        assert!(signal_if_there(pid, Signal::SIGKILL), "it is there");
        let outcome = run.finish();
        outcome.assert_code(0);
        let started = of_bake(&outcome, "started");
        let warm: Vec<&Value> = started.iter().map(|event| &event["warm"]).collect();
        assert_eq!(warm, [&json!(false), &json!(spares == 1)]);
        assert_eq!(of_bake(&outcome, "retry")[0]["step"], "same_plan");
        outcome.assert_nothing_held();
    }
}

#[test]
fn workers_that_do_not_come_up_are_not_started_over_and_over() {
    let plan = Plan::always(Role::Prepare, Step::Spawn, Fault::Exit(3)).with(
        Role::Bake,
        Step::Spawn,
        Fault::Exit(3),
        u32::MAX,
    );
    let bench = Bench::new(&plan);
    let outcome = start(&bench, 40, &json!({"timeout": 600}), &["--parallel", "8"]).finish();
    outcome.assert_code(71);
    assert_eq!(outcome.all("error").len(), 40);
    let starts = outcome.all("started").len();
    // Sixteen are running before the first one fails; then five probes, each after a longer rest.
    assert!(starts < 40, "{starts} starts");
    let refused = outcome.all("error");
    let last = refused.last().expect("an error")["message"].to_string();
    assert!(
        last.contains("not tried: starting workers failed"),
        "{last}"
    );
    outcome.assert_nothing_held();
}
