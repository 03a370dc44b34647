//! Workers die in any role at any step. One death is retried; two end the job with a report that names the worker.

use kiln_tests::fault::{Fault, Kin, Plan, Step};
use kiln_tests::host::after;
use kiln_tests::{Bench, Outcome, Run, made};
use proto::message::{Code, Role};

const ROLES: [Role; 3] = [Role::Prepare, Role::Bake, Role::Encode];

fn run(plan: &Plan) -> (Bench, Outcome) {
    let bench = Bench::new(plan);
    let outcome = bench.run(&["--holdout", "1"]);
    (bench, outcome)
}

/// The same role dies twice: code 70, words, and nothing left.
fn fatal(role: Role, step: Step, fault: Fault, words: &[&str]) {
    let (bench, outcome) = run(&Plan::always(role, step, fault.clone()));
    let context = format!("{role:?} {step:?} {fault:?}: {outcome:#?}");
    let message = outcome.refusal(70);
    let error = outcome.one("error");
    let told = (error["code"].as_str(), error["role"].as_str());
    assert_eq!(
        told,
        (Some("worker_crashed"), Some(role.name())),
        "{context}"
    );
    for word in words {
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
    let tail = error["log_tail"].to_string();
    assert!(
        tail.contains("about to commit"),
        "the last lines are told: {context}"
    );
    assert_eq!(outcome.attempts(role.name()).len(), 2, "{context}");
    bench.assert_clean(&[]);
}

/// One death, then the job succeeds.
fn forgiven(role: Role, step: Step, fault: Fault) {
    let (bench, outcome) = run(&Plan::once(role, step, fault.clone()));
    let context = format!("{role:?} {step:?} {fault:?}: {outcome:#?}");
    assert_eq!(outcome.code, Some(0), "{context}");
    assert_eq!(outcome.one("retry")["role"], role.name(), "{context}");
    let attempts = outcome.attempts(role.name());
    assert_eq!(attempts.len(), 2, "{context}");
    assert_eq!(
        attempts[1],
        ("exit 0".to_owned(), "none".to_owned()),
        "{context}"
    );
    let glb = bench.bytes("out/out.glb").expect("the result");
    assert_eq!(glb, made::model(&[1], &[]), "{context}");
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn one_segfault_at_any_step_of_any_role_is_forgiven() {
    for role in ROLES {
        for step in [
            Step::Spawn,
            Step::Hello,
            Step::Start,
            Step::Work,
            Step::HalfTable,
            Step::Filled,
        ] {
            forgiven(role, step, Fault::Signal(11));
        }
    }
}

#[test]
fn a_second_death_names_role_signal_and_phase() {
    let segfault = |role, words: [&str; 3]| fatal(role, Step::Work, Fault::Signal(11), &words);
    segfault(
        Role::Bake,
        [
            "bake died by SIGSEGV",
            "while fitting",
            "(phase fit), twice",
        ],
    );
    segfault(
        Role::Prepare,
        ["prepare died by SIGSEGV", "(phase load_mesh)", "twice"],
    );
    segfault(
        Role::Encode,
        ["encode died by SIGSEGV", "(phase glb)", "twice"],
    );
    for (number, name) in [
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
    ] {
        let words = ["bake died by", name];
        fatal(Role::Bake, Step::Start, Fault::Signal(number), &words);
    }
    for (role, step) in [
        (Role::Bake, Step::Work),
        (Role::Prepare, Step::Filled),
        (Role::Encode, Step::HalfTable),
    ] {
        fatal(role, step, Fault::Exit(0), &["exit code 0 and no result"]);
    }
}

#[test]
fn a_forbidden_system_call_is_no_chance_and_not_repeated() {
    let (bench, outcome) = run(&Plan::always(Role::Bake, Step::Start, Fault::Signal(31)));
    let error = outcome.one("error");
    assert_eq!(
        (
            outcome.code,
            error["code"].as_str(),
            error["class"].as_str()
        ),
        (Some(70), Some("sandbox_violation"), Some("config")),
        "{:#?}",
        outcome.stdout
    );
    assert_eq!(outcome.attempts("bake").len(), 1);
    bench.assert_clean(&[]);
}

#[test]
fn a_worker_that_cannot_start_is_told_from_one_that_crashes() {
    let (bench, outcome) = run(&Plan::always(Role::Bake, Step::Spawn, Fault::Exit(3)));
    let error = outcome.one("error");
    assert_eq!(
        (
            outcome.code,
            error["code"].as_str(),
            error["class"].as_str()
        ),
        (Some(71), Some("spawn_failed"), Some("transient")),
        "{:#?}",
        outcome.stdout
    );
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.starts_with("bake ended with exit code 3 before it said hello"),
        "{message}"
    );
    // A loader that briefly lacks a resource gets two retries, with growing delays.
    let delays: Vec<_> = outcome
        .all("retry")
        .iter()
        .map(|retry| retry["delay_ms"].as_u64())
        .collect();
    assert_eq!(delays, [Some(50), Some(200)]);
    assert_eq!(outcome.attempts("bake").len(), 3);
    bench.assert_clean(&[]);
}

#[test]
fn a_bake_fed_by_a_dead_prepare_starts_afresh_and_is_not_blamed() {
    // Prepare dies after bake received its first tables; bake itself may still die once later.
    let plan = Plan::once(Role::Bake, Step::Start, Fault::Tell)
        .with(Role::Prepare, Step::Filled, Fault::Hear, 1)
        .with(Role::Prepare, Step::Filled, Fault::Signal(11), 1)
        .with(Role::Bake, Step::Work, Fault::Signal(11), 2);
    let (bench, outcome) = run(&plan);
    outcome.assert_code(0);
    let attempts = outcome.attempts("bake");
    assert!(attempts.len() >= 2 && attempts.len() <= 3, "{attempts:?}");
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn a_crash_after_the_result_is_a_success() {
    for role in ROLES {
        let (bench, outcome) = run(&Plan::always(role, Step::Done, Fault::Signal(11)));
        outcome.assert_code(0);
        assert_eq!(
            outcome.attempts(role.name()),
            [("SIGSEGV".to_owned(), "none".to_owned())]
        );
        bench.assert_clean(&["out.glb"]);
    }
}

#[test]
fn what_a_worker_says_of_the_input_is_believed_at_once() {
    for (code, word, exit) in [
        (Code::InvalidAsset, "invalid_asset", 65),
        (Code::LimitExceeded, "limit_exceeded", 65),
        (Code::UnsupportedFeature, "unsupported_feature", 65),
        (Code::MissingInput, "missing_input", 66),
        (Code::NoAdapter, "no_adapter", 69),
    ] {
        let (bench, outcome) = run(&Plan::always(Role::Prepare, Step::Work, Fault::Fail(code)));
        assert_eq!(outcome.code, Some(exit), "{code:?}: {:#?}", outcome.stdout);
        let error = outcome.one("error");
        assert_eq!(error["code"], word);
        assert_eq!(error["message"], "the saboteur says no");
        assert_eq!(error["hint"], "change the plan");
        assert_eq!(
            outcome.attempts("prepare").len(),
            1,
            "it is not tried again"
        );
        bench.assert_clean(&[]);
    }
}

#[test]
fn a_disk_that_fails_to_read_gets_time_and_is_named_in_the_end() {
    let fail = Fault::Fail(Code::IoError);
    forgiven(Role::Prepare, Step::Work, fail.clone());
    let (bench, outcome) = run(&Plan::always(Role::Prepare, Step::Work, fail));
    outcome.assert_code(74);
    let error = outcome.one("error");
    assert_eq!([&error["code"], &error["class"]], ["io_error", "transient"]);
    assert_eq!(outcome.attempts("prepare").len(), 3);
    bench.assert_clean(&[]);
}

#[test]
fn a_lost_gpu_is_tried_once_more() {
    forgiven(Role::Bake, Step::Work, Fault::Fail(Code::GpuDeviceLost));
}

#[test]
fn a_missing_worker_program_is_said_at_once() {
    let bench = Bench::new(&Plan::healthy());
    let outcome = bench.run(&["--baker", "nowhere/kiln-baker"]);
    // The flag is given twice, which clap refuses: the bench's own goes first.
    outcome.assert_code(64);
    std::fs::remove_file(bench.path("kiln-baker")).expect("the link");
    let outcome = bench.run(&[]);
    outcome.assert_code(71);
    assert!(
        outcome.one("error")["message"]
            .as_str()
            .expect("text")
            .contains("cannot be started")
    );
    bench.assert_clean(&[]);
}

/// `assert_clean` finds a worker's child by its command line, which it shares with its parent.
#[test]
fn what_a_worker_has_started_ends_with_it() {
    for role in ROLES {
        for kin in [Kin::Child, Kin::Orphan] {
            // Before the sandbox, and with data in hand.
            for step in [Step::Hello, Step::Work] {
                let (bench, outcome) = run(&Plan::always(role, step, Fault::Fork(kin)));
                let told = format!("{role:?} {kin:?} {step:?}: {}", outcome.stderr);
                assert_eq!(outcome.code, Some(0), "{told}: {:#?}", outcome.stdout);
                assert_eq!(outcome.attempts(role.name()).len(), 1, "{told}");
                bench.assert_clean(&["out.glb"]);
            }
            // A worker that is killed, too.
            let plan = Plan::once(role, Step::Hello, Fault::Fork(kin));
            let plan = plan.with(role, Step::Work, Fault::Signal(9), 1);
            let (bench, outcome) = run(&plan);
            outcome.assert_code(0);
            bench.assert_clean(&["out.glb"]);
        }
        let (bench, outcome) = run(&Plan::always(role, Step::Done, Fault::Fork(Kin::Flood)));
        outcome.assert_code(0);
        bench.assert_clean(&["out.glb"]);
    }
}

/// A program that already has children does not adopt orphans, so these are left alone. An orphan that writes for ever
/// must not block anything.
#[test]
fn an_orphan_that_nobody_can_end_is_not_heard_for_ever() {
    for role in ROLES {
        let plan = Plan::always(role, Step::Done, Fault::Fork(Kin::Flood));
        let bench = Bench::new(&plan);
        let alive = bench.alive();
        let other = "sleep 300 <&- >&- 2>&- & echo $! > other";
        let outcome = Run::start(after(other, &bench.bake(&["--holdout", "1"]))).finish();
        outcome.assert_code(0);
        let other = std::fs::read_to_string(bench.path("other")).expect("a number");
        let other = other.trim().parse().expect("a number");
        assert!(kiln_tests::signal_if_there(
            other,
            nix::sys::signal::Signal::SIGKILL
        ));
        // Nobody reads its output any more, so it ends.
        kiln_tests::wait_all_gone(&alive);
        bench.assert_clean(&["out.glb"]);
    }
}

#[test]
fn a_worker_that_closes_its_descriptors_is_not_said_to_lack_memory() {
    for role in ROLES {
        let (bench, outcome) = run(&Plan::always(role, Step::Work, Fault::CloseAll));
        outcome.assert_code(70);
        let error = outcome.one("error");
        assert_eq!(
            [&error["code"], &error["role"]],
            ["worker_crashed", role.name()]
        );
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("closed its socket"), "{message}");
        let hint = error["hint"].as_str().expect("text");
        assert!(!hint.contains("memory"), "{hint}");
        bench.assert_clean(&[]);
    }
}
