//! Workers that live and do nothing, or never end: each ends at a limit.

use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::{Bench, Outcome};
use proto::message::Role;

const SABOTEUR: &str = env!("CARGO_BIN_EXE_saboteur");
/// Long enough for a healthy saboteur on a loaded machine; its steps take milliseconds.
const STALL: [&str; 2] = ["--stall-timeout", "3"];

fn run(plan: &Plan, more: &[&str]) -> (Bench, Outcome) {
    let bench = Bench::new(SABOTEUR, plan);
    let outcome = bench.run(more);
    (bench, outcome)
}

fn stalls(role: Role, step: Step, fault: Fault) {
    let (bench, outcome) = run(&Plan::once(role, step, fault.clone()), &STALL);
    let context = format!(
        "{role:?} {fault:?}: {:#?}\n{}",
        outcome.stdout, outcome.stderr
    );
    assert_eq!(outcome.code, Some(0), "{context}");
    let retry = outcome.one("retry");
    assert_eq!(
        (retry["code"].as_str(), retry["role"].as_str()),
        (Some("worker_stalled"), Some(role.name()))
    );
    let (ended, class) = &outcome.attempts(role.name())[0];
    assert!(
        ended.starts_with("stalled for 3.") && class == "ambiguous",
        "{ended} {class}: {context}"
    );
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn a_stalled_worker_is_replaced_in_each_role() {
    stalls(Role::Prepare, Step::Work, Fault::Stall);
    stalls(Role::Bake, Step::Work, Fault::Stall);
    stalls(Role::Encode, Step::Work, Fault::Stall);
}

#[test]
fn a_process_that_somebody_stopped_is_a_victim() {
    let plan = Plan::once(Role::Bake, Step::Work, Fault::Signal(19))
        // So its one crash is still retried.
        .with(Role::Bake, Step::Filled, Fault::Signal(11), 2);
    let (bench, outcome) = run(&plan, &STALL);
    let context = format!("{:#?}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.code, Some(0), "{context}");
    let attempts = outcome.attempts("bake");
    let told = |ended: &str, class: &str| (ended.to_owned(), class.to_owned());
    assert_eq!(
        attempts[0],
        told("stopped by somebody", "victim"),
        "{context}"
    );
    assert_eq!(attempts[1], told("SIGSEGV", "ambiguous"), "{context}");
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn counts_that_do_not_grow_are_no_sign_of_life() {
    stalls(Role::Bake, Step::Work, Fault::SameProgress);
}

#[test]
fn a_second_stall_ends_the_job() {
    let (bench, outcome) = run(&Plan::always(Role::Bake, Step::Start, Fault::Stall), &STALL);
    assert_eq!(outcome.code, Some(70), "{:#?}", outcome.stdout);
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
    assert_eq!(outcome.code, Some(124), "{:#?}", outcome.stdout);
    let error = outcome.one("error");
    assert_eq!(
        (error["code"].as_str(), error["phase"].as_str()),
        (Some("deadline_exceeded"), Some("fit"))
    );
    assert_eq!(error["class"], "input", "it is not tried again");
    bench.assert_clean(&[]);
}

#[test]
fn a_worker_that_never_says_hello_is_replaced_and_then_given_up() {
    let (bench, outcome) = run(&Plan::always(Role::Bake, Step::Spawn, Fault::Stall), &[]);
    assert_eq!(outcome.code, Some(71), "{:#?}", outcome.stdout);
    assert_eq!(
        outcome.attempts("bake"),
        vec![("no hello".to_owned(), "transient".to_owned()); 3]
    );
    bench.assert_clean(&[]);
}

#[test]
fn a_worker_that_closes_its_socket_and_stays_is_replaced() {
    let (bench, outcome) = run(&Plan::once(Role::Bake, Step::Work, Fault::Close), &[]);
    assert_eq!(outcome.code, Some(0), "{:#?}", outcome.stdout);
    assert_eq!(outcome.one("retry")["code"], "worker_crashed");
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn a_worker_that_stays_after_its_result_is_a_success() {
    for role in [Role::Prepare, Role::Bake, Role::Encode] {
        let (bench, outcome) = run(&Plan::always(role, Step::Done, Fault::Stall), &[]);
        assert_eq!(outcome.code, Some(0), "{role:?}: {:#?}", outcome.stdout);
        assert!(outcome.all("retry").is_empty());
        bench.assert_clean(&["out.glb"]);
    }
}
