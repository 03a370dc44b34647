//! From start to end: a clean job, outside kills in each role, the supervisor's own death, and signals.

use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::{Bench, made, read_json, signal_to, wait_all_gone, words};
use nix::sys::signal::Signal;
use proto::message::Role;

const ROLES: [Role; 3] = [Role::Prepare, Role::Bake, Role::Encode];

#[test]
fn a_clean_job_feeds_each_role_what_it_is_due() {
    let bench = Bench::new(&Plan::healthy());
    let mut command = bench.bake(&words(
        "--holdout 2 --preview out/sheet.png --report out/report.json",
    ));
    // A worker that sees this refuses the job.
    command.env("KILN_TEST_SECRET", "1");
    let outcome = kiln_tests::Run::start(command).finish();
    outcome.assert_code(0);
    // Views 1 and 2 are held out; of 0, 3, 4 and 5 the first, second and third third are shown.
    let glb = bench.bytes("out/out.glb").expect("there");
    assert_eq!(glb, made::model(&[1, 2], &[0, 3, 4]));
    let sheet = bench.bytes("out/sheet.png").expect("there");
    assert_eq!(sheet, made::picture("shown [0, 3, 4]"));
    let report = read_json(&bench.path("out/report.json"));
    assert_eq!(
        (report["schema"].as_u64(), report["outcome"].as_str()),
        (Some(1), Some("done"))
    );
    assert_eq!(report["psnr"]["holdout_db"], 40.0);
    assert_eq!(report["device"]["name"], "saboteur");
    assert_eq!(report["files"][0]["bytes"], glb.len());
    assert_eq!(report["attempts"].as_array().map(Vec::len), Some(3));
    assert_eq!(outcome.one("done")["report"]["schema"], 1);
    bench.assert_clean(&["out.glb", "report.json", "sheet.png"]);
}

#[test]
fn a_job_without_simplification_preview_or_holdout_works() {
    let mut plan = Plan::healthy();
    (plan.simplified, plan.mesh_last, plan.views) = (false, true, 1);
    let bench = Bench::new(&plan);
    let outcome = bench.run(&[]);
    outcome.assert_code(0);
    assert_eq!(
        bench.bytes("out/out.glb").expect("there"),
        made::model(&[], &[])
    );
}

#[test]
fn more_views_than_a_socket_holds_all_arrive() {
    let mut plan = Plan::healthy();
    plan.views = 1500;
    let bench = Bench::new(&plan);
    let outcome = bench.run(&[]);
    outcome.assert_code(0);
}

#[test]
fn kill_9_twice_is_a_clear_report() {
    for role in ROLES {
        let bench = Bench::new(&Plan::always(role, Step::Work, Fault::Stall));
        let mut run = bench.start(&["--report", "out/report.json"]);
        let first = run.wait_progress(role.name());
        signal_to(first, Signal::SIGKILL);
        run.wait_for(|event| event["event"] == "retry");
        let second = run.wait_progress(role.name());
        assert_ne!(first, second);
        signal_to(second, Signal::SIGKILL);
        let outcome = run.finish();
        outcome.assert_code(70);
        let error = outcome.one("error");
        assert_eq!([&error["signal"], &error["role"]], ["SIGKILL", role.name()]);
        assert!(
            !error["hint"].as_str().expect("text").is_empty(),
            "memory is suspected"
        );
        let report = read_json(&bench.path("out/report.json"));
        assert_eq!(
            (report["outcome"].as_str(), &report["error"]["code"]),
            (Some("failed"), &error["code"])
        );
        bench.assert_clean(&["report.json"]);
    }
}

#[test]
fn the_death_of_the_supervisor_is_the_death_of_its_workers() {
    for role in ROLES {
        let bench = Bench::new(&Plan::always(role, Step::Work, Fault::Stall));
        let alive = bench.alive();
        let mut run = bench.start(&[]);
        run.wait_progress(role.name());
        assert!(!bench.workers().is_empty(), "there is somebody to watch");
        run.send(Signal::SIGKILL);
        let outcome = run.finish();
        assert_eq!(outcome.signal, Some(9));
        wait_all_gone(&alive);
        bench.wait_workers_gone();
        bench.assert_clean(&[]);
    }
}

#[test]
fn a_signal_ends_workers_and_job() {
    for (signal, code) in [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
    ] {
        for role in ROLES {
            let bench = Bench::new(&Plan::always(role, Step::Work, Fault::Stall));
            let mut run = bench.start(&[]);
            run.wait_progress(role.name());
            run.send(signal);
            let outcome = run.finish();
            outcome.assert_code(code);
            let error = outcome.one("error");
            assert_eq!(
                [&error["code"], &error["signal"]],
                ["cancelled", signal.as_str()]
            );
            // Reaped before kiln ended, so there is nothing to wait for.
            bench.assert_clean(&[]);
        }
    }
}

#[test]
fn an_older_result_survives_a_failure_and_not_a_success() {
    let bench = Bench::new(&Plan::always(Role::Encode, Step::Filled, Fault::Signal(11)));
    std::fs::write(bench.path("out/out.glb"), "old").expect("a file");
    assert_eq!(bench.run(&[]).code, Some(70));
    assert_eq!(bench.bytes("out/out.glb").expect("there"), b"old");
    bench.assert_clean(&["out.glb"]);
    bench.set_plan(&Plan::healthy());
    assert_eq!(bench.run(&[]).code, Some(0));
    assert!(
        std::fs::read(bench.path("out/out.glb"))
            .expect("there")
            .starts_with(b"glTF")
    );
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn a_result_is_readable_by_others_as_the_umask_allows() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new(&Plan::healthy());
    std::fs::write(bench.path("plain"), "").expect("a file");
    assert_eq!(bench.run(&[]).code, Some(0));
    let mode = |name: &str| {
        std::fs::metadata(bench.path(name))
            .expect("there")
            .permissions()
            .mode()
    };
    assert_eq!(mode("out/out.glb"), mode("plain"));
}

#[test]
fn what_only_bake_reads_is_freed_when_bake_is_done() {
    let bench = Bench::new(&Plan::always(Role::Encode, Step::Work, Fault::Stall));
    let mut run = bench.start(&["--holdout", "1"]);
    run.wait_progress("encode");
    let links = std::fs::read_dir(format!("/proc/{}/fd", run.pid())).expect("/proc");
    let links = links.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let mut tables: Vec<String> = links
        .map(|link| link.to_string_lossy().into_owned())
        .filter_map(|link| {
            Some(
                link.strip_prefix("/memfd:kiln-")?
                    .trim_end_matches(" (deleted)")
                    .to_owned(),
            )
        })
        .filter(|name| name != "recorder")
        .collect();
    tables.sort();
    assert_eq!(tables, ["Mesh", "Texture", "View(1)"]);
    run.send(Signal::SIGTERM);
    assert_eq!(run.finish().code, Some(143));
}
