//! A worker that violates the protocol is killed, named and replaced once. It can neither end nor deceive the
//! supervisor.

use kiln_tests::fault::{Fault, Forgery, Plan, Step};
use kiln_tests::{Bench, Outcome};
use proto::message::{Role, Table};

const SABOTEUR: &str = env!("CARGO_BIN_EXE_saboteur");

fn run(plan: &Plan) -> (Bench, Outcome) {
    let bench = Bench::new(SABOTEUR, plan);
    let outcome = bench.run(&[]);
    (bench, outcome)
}

/// The same violation twice gives its own message and leaves nothing; once is retried.
fn violation(role: Role, step: Step, fault: Fault, words: &str) {
    let (bench, outcome) = run(&Plan::always(role, step, fault.clone()));
    let context = format!(
        "{role:?} {step:?} {fault:?}: {:#?}\n{}",
        outcome.stdout, outcome.stderr
    );
    assert_eq!(outcome.code, Some(70), "{context}");
    let error = outcome.one("error");
    assert_eq!(
        (error["code"].as_str(), error["role"].as_str()),
        (Some("protocol_violation"), Some(role.name()))
    );
    let message = error["message"].as_str().expect("text");
    assert!(message.contains(words), "{words:?} is not in {message:?}");
    assert_eq!(outcome.attempts(role.name()).len(), 2, "{context}");
    bench.assert_clean(&[]);

    let (bench, outcome) = run(&Plan::once(role, step, fault.clone()));
    assert_eq!(
        outcome.code,
        Some(0),
        "{role:?} {fault:?}: {:#?}\n{}",
        outcome.stdout,
        outcome.stderr
    );
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn bytes_that_are_no_packet() {
    violation(Role::Bake, Step::Hello, Fault::Garbage, "does not decode");
    violation(
        Role::Prepare,
        Step::Spawn,
        Fault::Garbage,
        "does not decode",
    );
    violation(Role::Encode, Step::Work, Fault::Oversized, "longer than");
}

/// Pipelines from a worker that has seen data do not reach the next one's driver.
#[test]
fn pipelines_after_the_stages_are_compiled() {
    for step in [Step::Start, Step::Work, Step::Filled] {
        violation(
            Role::Bake,
            step,
            Fault::LatePipelines,
            "hands pipelines over out of turn",
        );
    }
    violation(
        Role::Prepare,
        Step::Start,
        Fault::LatePipelines,
        "hands pipelines over out of turn",
    );
    violation(
        Role::Bake,
        Step::Start,
        Fault::Compiled,
        "compiled out of turn",
    );
    violation(
        Role::Encode,
        Step::Start,
        Fault::Compiled,
        "compiled out of turn",
    );
}

#[test]
fn a_descriptor_sent_upwards() {
    violation(
        Role::Bake,
        Step::Work,
        Fault::FdUpward,
        "file descriptors that do not belong there",
    );
}

#[test]
fn hello_out_of_place() {
    violation(
        Role::Bake,
        Step::Spawn,
        Fault::WrongRole,
        "it says that it is encode",
    );
    violation(
        Role::Bake,
        Step::Start,
        Fault::SecondHello,
        "a second hello",
    );
    violation(
        Role::Prepare,
        Step::Spawn,
        Fault::EarlyDone,
        "spoke before its hello",
    );
}

#[test]
fn memory_that_is_not_its_due() {
    violation(
        Role::Bake,
        Step::Work,
        Fault::AllocateHuge,
        "outside its bounds",
    );
    violation(
        Role::Prepare,
        Step::Work,
        Fault::AllocateHuge,
        "outside its bounds",
    );
    violation(
        Role::Bake,
        Step::Work,
        Fault::AllocateForeign,
        "no business",
    );
    violation(
        Role::Encode,
        Step::Work,
        Fault::AllocateForeign,
        "no business",
    );
    violation(Role::Bake, Step::HalfTable, Fault::AllocateTwice, "twice");
    violation(
        Role::Prepare,
        Step::Hello,
        Fault::AllocateHuge,
        "outside its bounds",
    );
}

#[test]
fn tables_filled_out_of_turn() {
    violation(Role::Bake, Step::Filled, Fault::FilledTwice, "out of turn");
    violation(Role::Bake, Step::Work, Fault::FilledUnasked, "out of turn");
    violation(
        Role::Prepare,
        Step::Filled,
        Fault::FilledTwice,
        "out of turn",
    );
}

#[test]
fn done_without_the_work() {
    violation(
        Role::Prepare,
        Step::Work,
        Fault::EarlyDone,
        "there is no mesh",
    );
    violation(
        Role::Bake,
        Step::Work,
        Fault::EarlyDone,
        "what it made is not what it was asked for",
    );
    violation(
        Role::Encode,
        Step::Work,
        Fault::EarlyDone,
        "there is no GLB",
    );
    violation(
        Role::Bake,
        Step::Filled,
        Fault::WrongSummary,
        "another role's",
    );
    violation(Role::Bake, Step::HalfTable, Fault::EarlyDone, "not filled");
}

#[test]
fn a_view_that_lies_about_its_number() {
    violation(Role::Prepare, Step::Work, Fault::LyingView, "contradicts");
}

#[test]
fn a_flood_of_packets() {
    violation(Role::Bake, Step::Work, Fault::PacketFlood, "flood");
}

#[test]
fn a_flood_of_log_lines_is_cut_and_the_job_goes_on() {
    let bench = Bench::new(
        SABOTEUR,
        &Plan::always(Role::Bake, Step::Work, Fault::LogFlood(20_000)),
    );
    let outcome = bench.run(&["--verbose"]);
    assert_eq!(outcome.code, Some(0), "{:#?}", outcome.stdout);
    let shown = outcome.stderr.matches("flood ").count();
    assert!(
        (100..15_000).contains(&shown),
        "{shown} of 20000 lines were shown"
    );
    assert!(
        outcome.stderr.contains("log lines dropped"),
        "the rest is counted"
    );
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn another_build_is_refused_and_not_tried_again() {
    for fault in [Fault::WrongVersion, Fault::WrongBuild] {
        let (bench, outcome) = run(&Plan::always(Role::Bake, Step::Spawn, fault.clone()));
        assert_eq!(outcome.code, Some(78), "{fault:?}: {:#?}", outcome.stdout);
        let error = outcome.one("error");
        assert_eq!(
            (error["code"].as_str(), error["class"].as_str()),
            (Some("binary_mismatch"), Some("config"))
        );
        assert_eq!(outcome.attempts("bake").len(), 1);
        bench.assert_clean(&[]);
    }
}

#[test]
fn a_childs_text_cannot_draw_on_the_terminal() {
    let bench = Bench::new(
        SABOTEUR,
        &Plan::always(Role::Bake, Step::Work, Fault::Escapes),
    );
    let outcome = bench.run(&["--verbose"]);
    assert_eq!(outcome.code, Some(0), "{:#?}", outcome.stdout);
    assert_eq!(outcome.one("warning")["text"], "a\u{fffd}[31m\u{fffd}b");
    assert!(
        !outcome.stderr.contains('\u{1b}') && !outcome.stderr.contains('\u{7}'),
        "{:?}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("[2J"),
        "the raw line is shown, without its control characters"
    );
}

#[test]
fn granted_memory_keeps_its_size_and_freezes() {
    let mut plan = Plan::always(Role::Prepare, Step::Work, Fault::Tamper);
    plan.views = 1;
    let (bench, outcome) = run(&plan);
    outcome.assert_code(0);
    bench.assert_clean(&["out.glb"]);
}

/// Every file of a job, with the role that makes it.
const FILES: [(Role, Table); 6] = [
    (Role::Encode, Table::Glb),
    (Role::Encode, Table::Preview),
    (Role::Encode, Table::Coverage),
    (Role::Encode, Table::Residual),
    (Role::Encode, Table::Provenance),
    (Role::Bake, Table::Rejected(2)),
];

/// A job in which one file is forged: nothing is committed, not even the others.
fn forged(role: Role, table: Table, how: Forgery) -> Outcome {
    let plan = Plan::always(role, Step::Start, Fault::Forge(table, how));
    let bench = Bench::new(SABOTEUR, &plan);
    let more = ["--preview", "out/sheet.png", "--maps", "out", "--rejected"];
    let outcome = bench.run(&[&more[..], &["out"]].concat());
    let told = format!(
        "{table:?} {how:?}: {:#?}\n{}",
        outcome.stdout, outcome.stderr
    );
    assert_eq!(outcome.code, Some(70), "{told}");
    assert_eq!(outcome.one("error")["code"], "protocol_violation", "{told}");
    bench.assert_clean(&[]);
    outcome
}

fn message(outcome: &Outcome) -> &str {
    outcome.one("error")["message"].as_str().expect("text")
}

#[test]
fn a_file_that_is_none_is_not_put_in_place() {
    for (role, table) in FILES {
        for how in [Forgery::Text, Forgery::Cut, Forgery::Length] {
            let outcome = forged(role, table, how);
            let kind = if table == Table::Glb { "GLB" } else { "PNG" };
            let words = format!("the file {table:?} is no whole {kind}");
            let message = message(&outcome);
            assert!(message.contains(&words), "{how:?}: {message}");
            assert_eq!(outcome.attempts(role.name()).len(), 2);
        }
    }
}

#[test]
fn a_file_that_its_maker_has_not_read_back_is_not_put_in_place() {
    for (role, table) in FILES {
        let outcome = forged(role, table, Forgery::Unread);
        let message = message(&outcome);
        assert!(message.contains("a file was not read back"), "{message}");
        assert_eq!(outcome.attempts(role.name()).len(), 2);
    }
}

#[test]
fn other_bytes_than_those_that_were_read_back_are_not_put_in_place() {
    for (role, table) in FILES {
        let outcome = forged(role, table, Forgery::Digest);
        let message = message(&outcome);
        assert!(message.contains("other bytes than those"), "{message}");
    }
}

#[test]
fn a_forged_file_is_forgiven_once() {
    for (role, table) in FILES {
        let plan = Plan::once(role, Step::Start, Fault::Forge(table, Forgery::Text));
        let bench = Bench::new(SABOTEUR, &plan);
        let more = ["--preview", "out/sheet.png", "--maps", "out", "--rejected"];
        bench.run(&[&more[..], &["out"]].concat()).assert_code(0);
    }
}
