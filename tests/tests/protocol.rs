//! A worker that violates the protocol is killed, named and replaced once. It can neither end nor deceive the
//! supervisor.

use kiln_tests::fault::{Fault, Forgery, Plan, Step};
use kiln_tests::{Bench, Outcome, words};
use proto::message::{Role, Table};

fn run(plan: &Plan) -> (Bench, Outcome) {
    let bench = Bench::new(plan);
    let outcome = bench.run(&[]);
    (bench, outcome)
}

/// The same violation twice gives its own message and leaves nothing; once is retried.
fn violation(role: Role, step: Step, fault: Fault, words: &str) {
    let (bench, outcome) = run(&Plan::always(role, step, fault.clone()));
    let context = format!("{role:?} {step:?} {fault:?}: {outcome:#?}");
    assert_eq!(outcome.code, Some(70), "{context}");
    let error = outcome.one("error");
    assert_eq!(
        [&error["code"], &error["role"]],
        ["protocol_violation", role.name()]
    );
    let message = error["message"].as_str().expect("text");
    assert!(message.contains(words), "{words:?} is not in {message:?}");
    assert_eq!(outcome.attempts(role.name()).len(), 2, "{context}");
    bench.assert_clean(&[]);

    let (bench, outcome) = run(&Plan::once(role, step, fault.clone()));
    assert_eq!(outcome.code, Some(0), "{role:?} {fault:?}: {outcome:#?}");
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn each_violation_is_named_and_forgiven_once() {
    use Fault::{
        AllocateForeign, AllocateHuge, AllocateTwice, Compiled, EarlyDone, FdUpward, FilledTwice,
        FilledUnasked, Garbage, LatePipelines, LyingView, Oversized, PacketFlood, SecondHello,
        WrongRole, WrongSummary,
    };
    use Role::{Bake, Encode, Prepare};
    use Step::{Filled, HalfTable, Hello, Spawn, Start, Work};
    let late = "hands pipelines over out of turn";
    let made = "what it made is not what it was asked for";
    for (role, step, fault, words) in [
        (Bake, Hello, Garbage, "does not decode"),
        (Prepare, Spawn, Garbage, "does not decode"),
        (Encode, Work, Oversized, "longer than"),
        // What a worker makes once it has seen data does not reach the driver of the next one.
        (Bake, Start, LatePipelines, late),
        (Bake, Work, LatePipelines, late),
        (Bake, Filled, LatePipelines, late),
        (Prepare, Start, LatePipelines, late),
        (Bake, Start, Compiled, "compiled out of turn"),
        (Encode, Start, Compiled, "compiled out of turn"),
        (
            Bake,
            Work,
            FdUpward,
            "file descriptors that do not belong there",
        ),
        (Bake, Spawn, WrongRole, "it says that it is encode"),
        (Bake, Start, SecondHello, "a second hello"),
        (Prepare, Spawn, EarlyDone, "spoke before its hello"),
        (Bake, Work, AllocateHuge, "outside its bounds"),
        (Prepare, Work, AllocateHuge, "outside its bounds"),
        (Prepare, Hello, AllocateHuge, "outside its bounds"),
        (Bake, Work, AllocateForeign, "no business"),
        (Encode, Work, AllocateForeign, "no business"),
        (Bake, HalfTable, AllocateTwice, "twice"),
        (Bake, Filled, FilledTwice, "out of turn"),
        (Bake, Work, FilledUnasked, "out of turn"),
        (Prepare, Filled, FilledTwice, "out of turn"),
        (Prepare, Work, EarlyDone, "there is no mesh"),
        (Bake, Work, EarlyDone, made),
        (Encode, Work, EarlyDone, "there is no GLB"),
        (Bake, Filled, WrongSummary, "another role's"),
        (Bake, HalfTable, EarlyDone, "not filled"),
        (Prepare, Work, LyingView, "contradicts"),
        (Bake, Work, PacketFlood, "flood"),
    ] {
        violation(role, step, fault, words);
    }
}

#[test]
fn a_flood_of_log_lines_is_cut_and_the_job_goes_on() {
    let bench = Bench::new(&Plan::always(
        Role::Bake,
        Step::Work,
        Fault::LogFlood(20_000),
    ));
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
            [&error["code"], &error["class"]],
            ["binary_mismatch", "config"]
        );
        assert_eq!(outcome.attempts("bake").len(), 1);
        bench.assert_clean(&[]);
    }
}

#[test]
fn a_childs_text_cannot_draw_on_the_terminal() {
    let bench = Bench::new(&Plan::always(Role::Bake, Step::Work, Fault::Escapes));
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

/// A job with everything, one of whose files is forged.
fn with_everything(plan: &Plan) -> (Bench, Outcome) {
    let bench = Bench::new(plan);
    let outcome = bench.run(&words("--preview out/sheet.png --maps out --rejected out"));
    (bench, outcome)
}

/// Nothing is put in place, not even the others.
fn forged(role: Role, table: Table, how: Forgery) -> Outcome {
    let plan = Plan::always(role, Step::Start, Fault::Forge(table, how));
    let (bench, outcome) = with_everything(&plan);
    assert_eq!(
        outcome.one("error")["code"],
        "protocol_violation",
        "{table:?} {how:?}"
    );
    bench.assert_clean(&[]);
    outcome
}

#[test]
fn a_file_that_is_none_or_was_not_read_back_is_not_put_in_place() {
    for (role, table) in FILES {
        let kind = if table == Table::Glb { "GLB" } else { "PNG" };
        let none = format!("the file {table:?} is no whole {kind}");
        for (how, words) in [
            (Forgery::Text, &*none),
            (Forgery::Cut, &none),
            (Forgery::Length, &none),
            (Forgery::Unread, "a file was not read back"),
            (Forgery::Digest, "other bytes than those"),
        ] {
            let outcome = forged(role, table, how);
            let message = outcome.refusal(70);
            assert!(message.contains(words), "{table:?} {how:?}: {message}");
            // Other bytes show when the file is put in place, after every role is done.
            let attempts = if how == Forgery::Digest { 1 } else { 2 };
            assert_eq!(
                outcome.attempts(role.name()).len(),
                attempts,
                "{table:?} {how:?}"
            );
        }
    }
}

#[test]
fn a_forged_file_is_forgiven_once() {
    for (role, table) in FILES {
        let plan = Plan::once(role, Step::Start, Fault::Forge(table, Forgery::Text));
        with_everything(&plan).1.assert_code(0);
    }
}
