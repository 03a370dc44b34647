//! The real worker fails in every phase of every role, in every way. After one failure the job gives an undisturbed
//! job's bytes. After two, its report names role, signal and phase. If the supervisor fails while it commits the
//! result, no partial file is left.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use kiln_tests::sphere::{ARGUMENTS, PHASES};
use kiln_tests::{Bench, Outcome, Run, program, splats, with_failpoints};

/// Ways for a worker to die, and how its supervisor names them.
const DEATHS: [(&str, &str); 12] = [
    ("segv", "SIGSEGV"),
    ("bus", "SIGBUS"),
    ("ill", "SIGILL"),
    ("fpe", "SIGFPE"),
    ("trap", "SIGTRAP"),
    ("abort", "SIGABRT"),
    ("panic", "SIGABRT"),
    ("overflow", "SIGABRT"),
    ("oom", "SIGABRT"),
    ("kill", "SIGKILL"),
    ("exit(3)", "exit 3"),
    ("exit(0)", "exit 0"),
];

fn bake(points: &str, more: &[&str]) -> (Bench, Outcome) {
    let bench = Bench::real_with_failpoints();
    let more = [&ARGUMENTS[..], more].concat();
    let mut command = bench.bake_for_real("mesh.obj", "transforms.json", &more);
    command.env("KILN_FAILPOINTS", points);
    (bench, Run::start(command).finish())
}

fn result(bench: &Bench) -> Option<Vec<u8>> {
    bench.bytes("out/out.glb")
}

fn context(points: &str, outcome: &Outcome) -> String {
    format!("{points}: {:#?}\n{}", outcome.stdout.last(), outcome.stderr)
}

/// The bytes of an undisturbed job.
fn undisturbed() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let (bench, outcome) = bake("", &[]);
        assert_eq!(outcome.code, Some(0), "{}", context("nothing", &outcome));
        result(&bench).expect("a result")
    })
}

/// One death, then the result of an undisturbed job.
fn forgiven(role: &str, site: &str, nth: u32, action: &str, ended: &str) {
    let points = format!("{role}:{site}:{nth}=1*{action}");
    let (bench, outcome) = bake(&points, &[]);
    let context = context(&points, &outcome);
    assert_eq!(outcome.code, Some(0), "{context}");
    let attempts = outcome.attempts(role);
    assert_eq!(attempts.len(), 2, "{context}");
    assert_eq!(attempts[0].0, ended, "{context}");
    assert_eq!(attempts[1].0, "exit 0", "{context}");
    assert!(
        result(&bench).as_deref() == Some(undisturbed()),
        "{context}: other bytes than an undisturbed job's"
    );
    bench.assert_clean(&["out.glb", "sheet.png"]);
}

/// A forbidden system call fails the second time, too, so it is not retried.
#[test]
fn a_forbidden_system_call_ends_the_job_in_every_role() {
    for (role, site) in [("prepare", "load_mesh"), ("bake", "fit"), ("encode", "png")] {
        let (bench, outcome) = bake(&format!("{role}:{site}:1=syscall(ptrace)"), &[]);
        assert_eq!(outcome.code, Some(70), "{}", context(role, &outcome));
        let error = outcome.one("error");
        assert_eq!(
            [&error["code"], &error["signal"]],
            ["sandbox_violation", "SIGSYS"]
        );
        assert_eq!(outcome.attempts(role).len(), 1);
        bench.assert_clean(&[]);
    }
}

fn every_phase(role: &str) {
    let (_, phases) = PHASES
        .iter()
        .find(|(known, _)| *known == role)
        .expect("a role");
    for phase in *phases {
        for (action, ended) in DEATHS {
            forgiven(role, phase, 1, action, ended);
        }
    }
    for (action, ended) in [("segv", "SIGSEGV"), ("exit(0)", "exit 0")] {
        // In the middle of a table, and when only the answer is missing.
        forgiven(role, "put", 1, action, ended);
        forgiven(role, "done", 1, action, ended);
    }
}

#[test]
fn prepare_may_die_once_in_any_phase_in_any_way() {
    every_phase("prepare");
    forgiven("prepare", "decode_views", 4, "segv", "SIGSEGV");
    forgiven("prepare", "put", 5, "kill", "SIGKILL");
}

/// Splats alone: what is found of the surface is lost, and found again.
#[test]
fn prepare_may_die_once_among_the_views_of_a_surface() {
    let found = |points: &str| {
        let bench = Bench::real_with_failpoints();
        splats::write(&bench.path(""));
        let mut command = bench.command(&["bake", "splats.ply", "-o", "out/out.glb", "--json"]);
        command.args(ARGUMENTS).args(["--device", "cpu"]);
        command.env("KILN_FAILPOINTS", points);
        let outcome = Run::start(command).finish();
        assert_eq!(outcome.code, Some(0), "{}", context(points, &outcome));
        let endings = outcome
            .attempts("prepare")
            .into_iter()
            .map(|(ended, ..)| ended);
        let others = ["bake", "encode"].map(|role| outcome.attempts(role));
        (
            result(&bench).expect("a result"),
            endings.collect::<Vec<_>>(),
            format!("{others:?}"),
        )
    };
    let [whole, disturbed] = ["", "prepare:surface:40=1*segv"].map(found);
    assert_eq!((whole.1.len(), disturbed.1.len()), (1, 2));
    assert_eq!(disturbed.1[0], "SIGSEGV");
    let differ = (whole.0.iter().zip(&disturbed.0)).position(|(one, other)| one != other);
    assert!(
        whole.0 == disturbed.0,
        "other bytes than an undisturbed job's, from {differ:?} on of {} and {}: {} and {}",
        whole.0.len(),
        disturbed.0.len(),
        whole.2,
        disturbed.2
    );
}

#[test]
fn bake_may_die_once_in_any_phase_in_any_way() {
    every_phase("bake");
    forgiven("bake", "raster", 3, "segv", "SIGSEGV");
    forgiven("bake", "fit", 2, "kill", "SIGKILL");
}

#[test]
fn encode_may_die_once_in_any_phase_in_any_way() {
    every_phase("encode");
}

#[test]
fn the_second_death_names_role_signal_and_phase() {
    for (role, phases) in PHASES {
        for phase in phases {
            for (action, words) in [("segv", "died by SIGSEGV"), ("exit(3)", "exit code 3")] {
                let points = format!("{role}:{phase}:1={action}");
                let (bench, outcome) = bake(&points, &[]);
                let context = context(&points, &outcome);
                assert_eq!(outcome.code, Some(70), "{context}");
                let error = outcome.one("error");
                assert_eq!(error["code"], "worker_crashed", "{context}");
                assert_eq!(
                    (&error["role"], &error["phase"]),
                    (&role.into(), &(*phase).into()),
                    "{context}"
                );
                let message = error["message"].as_str().expect("a message");
                for word in [role, words, &format!("(phase {phase}")] {
                    assert!(message.contains(word), "{word:?} is not in {message:?}");
                }
                assert_eq!(outcome.attempts(role).len(), 2, "{context}");
                bench.assert_clean(&[]);
            }
        }
    }
}

#[test]
fn a_worker_that_stands_still_is_ended_and_replaced() {
    for (role, phases) in PHASES {
        for action in ["stall", "spin", "stop"] {
            let points = format!("{role}:{}:1=1*{action}", phases[1]);
            let (bench, outcome) = bake(&points, &["--stall-timeout", "2"]);
            let context = context(&points, &outcome);
            assert_eq!(outcome.code, Some(0), "{context}");
            let attempts = outcome.attempts(role);
            assert_eq!(attempts.len(), 2, "{context}");
            assert_ne!(attempts[0].0, "exit 0", "{context}");
            assert!(
                result(&bench).as_deref() == Some(undisturbed()),
                "{context}"
            );
            bench.assert_clean(&["out.glb", "sheet.png"]);
        }
    }
}

#[test]
fn a_slow_worker_is_left_alone() {
    let (bench, outcome) = bake("bake:fit:1=slow(300)", &["--stall-timeout", "3"]);
    assert_eq!(outcome.code, Some(0), "{}", context("slow", &outcome));
    assert_eq!(outcome.attempts("bake").len(), 1);
    assert!(result(&bench).as_deref() == Some(undisturbed()));
}

/// Checks that the comparison can fail: one changed bit of the texture makes another file.
#[test]
fn one_wrong_bit_is_another_result() {
    let (bench, outcome) = bake("bake:gutter:1=flip", &[]);
    assert_eq!(outcome.code, Some(0), "{}", context("flip", &outcome));
    assert!(result(&bench).expect("a result") != undisturbed());
}

const COMMIT: [&str; 7] = [
    "stage.create",
    "stage.write",
    "stage.sync",
    "stage.synced",
    "commit.rename",
    "commit.sync",
    "commit.synced",
];

#[test]
fn a_disk_that_fails_is_named_and_leaves_no_half_file() {
    for site in COMMIT {
        for (error, words) in [
            ("ENOSPC", "the disk is full"),
            ("EIO", "Input/output error"),
        ] {
            let points = format!("supervisor:{site}:1=error({error})");
            let (bench, outcome) = bake(&points, &[]);
            let context = context(&points, &outcome);
            assert_eq!(outcome.code, Some(74), "{context}");
            let error = outcome.one("error");
            assert_eq!(error["code"], "io_error", "{context}");
            assert!(
                error["message"].as_str().expect("text").contains(words),
                "{context}"
            );
            let model = result(&bench);
            assert!(
                model.is_none_or(|model| model == undisturbed()),
                "{context}: half a file"
            );
            assert!(
                !bench.outputs().iter().any(|name| name.ends_with(".part")),
                "{context}"
            );
        }
    }
}

#[test]
fn a_supervisor_that_dies_leaves_no_worker_and_no_half_file() {
    let packets = [
        "spawn",
        "packet.hello",
        "packet.ready",
        "packet.progress",
        "packet.allocate",
        "packet.filled",
        "packet.done",
    ];
    for site in packets.iter().chain(&COMMIT) {
        for action in ["kill", "panic"] {
            let points = format!("supervisor:{site}:1={action}");
            let (bench, outcome) = bake(&points, &[]);
            let context = context(&points, &outcome);
            assert_ne!(outcome.code, Some(0), "{context}");
            if action == "kill" {
                assert_eq!(outcome.signal, Some(9), "{context}");
            }
            let model = result(&bench);
            assert!(
                model.is_none_or(|model| model == undisturbed()),
                "{context}: half a file"
            );
            // The kernel kills them with their parent, and may take a moment to.
            bench.wait_workers_gone();
        }
    }
}

/// Products carry no failpoint; and the search would find one.
#[test]
fn only_the_build_with_the_feature_knows_the_variable() {
    let needle = b"KILN_FAILPOINTS";
    let knows = |path: &Path| {
        let bytes = fs::read(path).expect("a program");
        bytes.windows(needle.len()).any(|window| window == needle)
    };
    for name in ["kiln", "kiln-baker"] {
        assert!(!knows(&program(name)), "{name} has failpoints");
        assert!(knows(&with_failpoints(name)), "{name} has none");
    }
}
