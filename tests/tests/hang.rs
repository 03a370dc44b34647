//! Workers that live and do nothing, or never end: each ends at a limit.

use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::{Bench, Outcome};
use proto::message::Role;

/// Long enough for a healthy saboteur on a loaded machine, whose every step takes milliseconds.
const STALL: [&str; 2] = ["--stall-timeout", "3"];

fn run(plan: &Plan, more: &[&str]) -> (Bench, Outcome) {
    let bench = Bench::new(plan);
    let outcome = bench.run(more);
    (bench, outcome)
}

#[test]
fn a_worker_without_a_sign_of_life_is_replaced() {
    for (role, fault) in [
        (Role::Prepare, Fault::Stall),
        (Role::Bake, Fault::Stall),
        (Role::Encode, Fault::Stall),
        // Counts that do not grow.
        (Role::Bake, Fault::SameProgress),
    ] {
        let (bench, outcome) = run(&Plan::once(role, Step::Work, fault.clone()), &STALL);
        outcome.assert_code(0);
        let retry = outcome.one("retry");
        let told = (retry["code"].as_str(), retry["role"].as_str());
        assert_eq!(told, (Some("worker_stalled"), Some(role.name())));
        let (ended, class) = &outcome.attempts(role.name())[0];
        let right = ended.starts_with("stalled for 3.") && class == "ambiguous";
        assert!(right, "{role:?} {fault:?}: {ended} {class}");
        bench.assert_clean(&["out.glb"]);
    }
}

#[test]
fn a_process_that_somebody_stopped_is_a_victim() {
    let plan = Plan::once(Role::Bake, Step::Work, Fault::Signal(19))
        // So its one crash is still retried.
        .with(Role::Bake, Step::Filled, Fault::Signal(11), 2);
    let (bench, outcome) = run(&plan, &STALL);
    outcome.assert_code(0);
    let attempts = outcome.attempts("bake");
    let told = |ended: &str, class: &str| (ended.to_owned(), class.to_owned());
    assert_eq!(attempts[0], told("stopped by somebody", "victim"));
    assert_eq!(attempts[1], told("SIGSEGV", "ambiguous"));
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn a_second_stall_ends_the_job() {
    let (bench, outcome) = run(&Plan::always(Role::Bake, Step::Start, Fault::Stall), &STALL);
    outcome.assert_code(70);
    let error = outcome.one("error");
    assert_eq!(error["code"], "worker_stalled");
    let message = error["message"].as_str().expect("text");
    assert!(
        message.contains("bake made no progress for 3.") && message.contains("twice"),
        "{message}"
    );
    bench.assert_clean(&[]);
}

#[test]
fn work_without_end_ends_at_the_deadline() {
    let plan = Plan::always(Role::Bake, Step::Work, Fault::EndlessProgress);
    let (bench, outcome) = run(&plan, &["--stall-timeout", "60", "--timeout", "10"]);
    outcome.assert_code(124);
    let error = outcome.one("error");
    assert_eq!(
        [&error["code"], &error["phase"]],
        ["deadline_exceeded", "fit"]
    );
    assert_eq!(error["class"], "input", "it is not tried again");
    bench.assert_clean(&[]);
}

#[test]
fn a_worker_that_never_says_hello_is_replaced_and_then_given_up() {
    let (bench, outcome) = run(&Plan::always(Role::Bake, Step::Spawn, Fault::Stall), &[]);
    outcome.assert_code(71);
    assert_eq!(
        outcome.attempts("bake"),
        vec![("no hello".to_owned(), "transient".to_owned()); 3]
    );
    bench.assert_clean(&[]);
}

#[test]
fn a_worker_that_closes_its_socket_and_stays_is_replaced() {
    let (bench, outcome) = run(&Plan::once(Role::Bake, Step::Work, Fault::Close), &[]);
    outcome.assert_code(0);
    assert_eq!(outcome.one("retry")["code"], "worker_crashed");
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn a_worker_that_stays_after_its_result_is_a_success() {
    for role in [Role::Prepare, Role::Bake, Role::Encode] {
        let (bench, outcome) = run(&Plan::always(role, Step::Done, Fault::Stall), &[]);
        outcome.assert_code(0);
        assert!(outcome.all("retry").is_empty());
        bench.assert_clean(&["out.glb"]);
    }
}
