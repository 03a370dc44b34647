//! A host without disk space, descriptors or processes, a stopped supervisor, a client that leaves. Every job ends with
//! the right result or one clear error, and nothing is left.

use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kiln_tests::fault::{Fault, HOARDER, Plan, Step};
use kiln_tests::host::{OldGroup, SmallDisk, after};
use kiln_tests::walk::{in_parallel, said};
use kiln_tests::{Bench, Outcome, Run, made, names_in, read_json, sample, wait_all_gone};
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use proto::message::Role;
use serde_json::{Value, json};

const OUTPUTS: [&str; 4] = ["--preview", "out/sheet.png", "--report", "out/report.json"];
const OLD: &str = "the old model";

fn bench() -> Bench {
    Bench::new(&Plan::healthy())
}

/// One clear error with one of these exit codes and these words; the old model is still in place.
fn refused(bench: &Bench, outcome: &Outcome, codes: &[i32], words: &str) {
    let told = format!("{:#?}\n{}", outcome.stdout, outcome.stderr);
    assert!(
        codes.contains(&outcome.code.unwrap_or(-1)),
        "{:?}: {told}",
        outcome.code
    );
    let message = outcome.one("error")["message"]
        .as_str()
        .expect("text")
        .to_owned();
    assert!(message.contains(words), "{message}");
    let old = fs::read_to_string(bench.path("out/out.glb")).expect("the old model");
    assert_eq!(old, OLD, "{told}");
}

fn parts(bench: &Bench) -> Vec<String> {
    let mut names = bench.outputs();
    names.retain(|name| name.ends_with(".part"));
    names
}

#[test]
fn a_full_disk_is_one_line_at_every_stage_and_the_old_file_stays() {
    let bench = bench();
    let disk = SmallDisk::new(&bench, "size=1m");
    fs::write(bench.path("out/out.glb"), OLD).expect("room");
    // Model, preview and report need a page or two each, so each of the first runs fails at another file.
    let mut needed = None;
    for pages in 0..16 {
        disk.leave_pages(pages);
        let outcome = bench.run(&OUTPUTS);
        assert_eq!(parts(&bench), Vec::<String>::new());
        if outcome.code == Some(0) {
            needed = Some(pages);
            break;
        }
        refused(&bench, &outcome, &[74], "the disk is full");
        assert!(!bench.path("out/sheet.png").exists(), "all files or none");
        // The report of a failure needs space, too, and may have got it.
        drop(fs::remove_file(bench.path("out/report.json")));
    }
    assert!(needed.is_some_and(|pages| pages >= 3), "{needed:?}");
    let glb = bench.bytes("out/out.glb").expect("the model");
    assert!(made::told(&glb).is_some(), "{glb:?}");
}

#[test]
fn a_disk_without_room_for_another_file_is_one_line_before_any_work() {
    let bench = bench();
    let disk = SmallDisk::new(&bench, "size=1m,nr_inodes=32");
    fs::write(bench.path("out/out.glb"), OLD).expect("room");
    disk.leave_files(0);
    let outcome = bench.run(&OUTPUTS);
    refused(&bench, &outcome, &[74], "the disk is full");
    assert!(outcome.all("started").is_empty(), "before any work");
}

#[test]
fn a_real_model_that_does_not_fit_is_one_line_and_the_old_one_stays() {
    let bench = Bench::real();
    let disk = SmallDisk::new(&bench, "size=1m");
    fs::write(bench.path("out/out.glb"), OLD).expect("room");
    // Part of it fits.
    disk.leave_pages(4);
    let outcome = Run::start(spot(&bench)).finish();
    refused(&bench, &outcome, &[74], "the disk is full");
    assert_eq!(bench.outputs(), ["filler", "out.glb"]);
}

/// A real bake of some seconds.
fn spot(bench: &Bench) -> Command {
    let more = ["--quality", "draft", "--texture-size", "512"];
    bench.bake_for_real(sample("mesh_uv.glb"), sample("transforms.json"), &more)
}

#[test]
fn few_descriptors_are_a_clear_error_and_enough_are_enough() {
    const MOST: u32 = 40;
    let limits: Vec<u32> = (4..=MOST).collect();
    let enough = in_parallel(4, &limits, |limit| {
        let bench = bench();
        fs::write(bench.path("out/out.glb"), OLD).expect("an old file");
        let bake = bench.bake(&["--report", "out/report.json"]);
        let outcome = Run::start(after(&format!("ulimit -n {limit}"), &bake)).finish();
        let report = bench.bytes("out/report.json").unwrap_or_default();
        let began = !outcome.all("started").is_empty();
        let whole = serde_json::from_slice::<Value>(&report).is_ok();
        assert!(
            whole || !began,
            "{limit}: began and left no report: {:#?}",
            outcome.stdout
        );
        if outcome.code != Some(0) {
            // 74: a folder of the inputs or of the outputs cannot be opened.
            refused(&bench, &outcome, &[70, 71, 74], "");
        }
        assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
        // One that could not begin may have left one, too.
        drop(fs::remove_file(bench.path("out/report.json")));
        bench.assert_clean(&["out.glb"]);
        outcome.code == Some(0)
    });
    let of = |right: bool| {
        limits
            .iter()
            .zip(&enough)
            .filter(move |(_, enough)| **enough == right)
    };
    let enough = of(true)
        .map(|(limit, _)| *limit)
        .min()
        .expect("one is enough");
    let short = of(false)
        .map(|(limit, _)| *limit)
        .max()
        .expect("one is too few");
    assert!(
        enough < MOST && short >= 8,
        "{short} are too few, {enough} are enough"
    );
    said(&format!(
        "{short} descriptors are too few for a small job, {enough} are enough"
    ));
}

#[test]
fn jobs_that_hoard_descriptors_end_alone() {
    const HOARDERS: usize = 8;
    const JOBS: usize = 32;
    let hoarder = Plan {
        hoards: 2000,
        ..Plan::healthy()
    };
    let bench = Bench::new(&hoarder);
    fs::copy(bench.path("mesh.glb"), bench.path(HOARDER)).expect("a mesh");
    fs::create_dir(bench.path("greedy")).expect("a folder");
    let jobs = (0..JOBS).map(|k| {
        let (mesh, out) = match k % (JOBS / HOARDERS) {
            0 => (HOARDER, "greedy"),
            _ => ("mesh.glb", "out"),
        };
        json!({
            "mesh": mesh, "views": "transforms.json", "output": format!("{out}/{k}.glb"),
            "report": format!("{out}/{k}.json"), "texture-size": 256,
        })
    });
    fs::write(bench.path("jobs.json"), Value::from_iter(jobs).to_string()).expect("a list");
    let mut all = bench.kiln_with_saboteurs();
    all.args(["--json", "--parallel", "4", "--jobs", "jobs.json"]);
    let outcome = Run::start(after("ulimit -n 256", &all)).finish();

    let told = format!("{:#?}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.code, Some(70), "{told}");
    assert_eq!(outcome.all("done").len(), JOBS - HOARDERS, "{told}");
    let greedy = bench.path("greedy");
    assert_eq!(names_in(&greedy).len(), HOARDERS, "a report each: {told}");
    for name in names_in(&greedy) {
        let report = read_json(&greedy.join(&name));
        assert_eq!(report["error"]["code"], "out_of_host_memory", "{name}");
        let hint = report["error"]["hint"].as_str().expect("text");
        assert!(hint.contains("ulimit -n"), "{hint}");
    }
    outcome.assert_nothing_held();
}

#[test]
fn a_full_process_table_is_tried_again_and_then_a_clear_error() {
    let bench = bench();
    fs::write(bench.path("out/out.glb"), OLD).expect("an old file");
    let group = geteuid().is_root().then(|| OldGroup::new("pids", "full"));
    let enter = match &group {
        Some(Ok(group)) => {
            group.set("pids.max", "1");
            format!("echo $$ > {}", group.door().display())
        }
        // The user who runs the tests already has a process: the test.
        None => "ulimit -u 1".to_owned(),
        Some(Err(why)) => panic!("root is not bound by ulimit -u, and no group can be made: {why}"),
    };
    let outcome = Run::start(after(&enter, &bench.bake(&[]))).finish();
    refused(&bench, &outcome, &[71], "cannot be started");
    assert_eq!(outcome.one("error")["code"], "spawn_failed");
    let attempts = outcome.attempts("prepare");
    assert!(attempts.len() >= 2, "{attempts:?}");
    let transient = attempts
        .iter()
        .all(|(how, class)| how == "not started" && class == "transient");
    assert!(transient, "{attempts:?}");
    bench.assert_clean(&["out.glb"]);

    let Some(Ok(group)) = &group else { return };
    // Room for some: any process or thread may be one too many.
    for count in 2..12 {
        group.set("pids.max", &count.to_string());
        let outcome = Run::start(after(&enter, &bench.bake(&[]))).finish();
        if outcome.code == Some(0) {
            fs::write(bench.path("out/out.glb"), OLD).expect("an old file");
        } else {
            refused(&bench, &outcome, &[70, 71], "");
        }
        assert!(
            !outcome.stderr.contains("panicked"),
            "{count}: {}",
            outcome.stderr
        );
        bench.assert_clean(&["out.glb"]);
    }
    // A temporary shortage is survived.
    group.set("pids.max", "1");
    let mut run = Run::start(after(&enter, &bench.bake(&[])));
    run.wait_for(|event| event["event"] == "retry");
    group.set("pids.max", "max");
    let outcome = run.finish();
    assert_eq!(outcome.code, Some(0), "{:#?}", outcome.stdout);
}

#[test]
fn a_thread_that_the_system_refuses_never_changes_the_file() {
    if !geteuid().is_root() {
        said("who is not root has no group of processes to run in");
        return;
    }
    let bench = Bench::real();
    let small = ["--quality", "draft", "--texture-size", "256"];
    let group = OldGroup::new("pids", "few").expect("a group");
    let bake = |room: &str| {
        group.set("pids.max", room);
        let (mesh, views) = (sample("mesh_nouv.glb"), sample("transforms.json"));
        let enter = format!("echo $$ > {}", group.door().display());
        let mut command = after(&enter, &bench.bake_for_real(mesh, views, &small));
        // Each worker makes as many as there are processors: on a large host none would ever be enough.
        command.env("RAYON_NUM_THREADS", "2");
        let outcome = Run::start(command).finish();
        let made = fs::read(bench.path("out/out.glb")).ok();
        drop(fs::remove_file(bench.path("out/out.glb")));
        (outcome, made)
    };
    let (outcome, whole) = bake("max");
    assert_eq!(outcome.code, Some(0), "{:#?}", outcome.stdout);
    // Any process or thread may be one too many, from kiln's own to the atlas search's.
    let (mut refused, mut made) = (0, 0);
    for room in 2..64 {
        let (outcome, file) = bake(&room.to_string());
        let told = format!("{room}: {}", outcome.stderr);
        if outcome.code == Some(0) {
            assert!(
                file == whole,
                "another file, as if the mesh were to blame: {told}"
            );
            made += 1;
        } else {
            assert!(matches!(outcome.code, Some(70 | 71)), "{told}");
            assert_eq!(file, None, "{told}");
            refused += 1;
        }
        if made == 12 {
            break;
        }
    }
    assert!(refused > 0 && made == 12, "{refused} refused, {made} made");
}

#[test]
fn a_client_that_reads_nothing_any_more_gets_its_file() {
    // Both pipes without a reader, and both descriptors closed from the start.
    let bench = bench();
    let mut child = bench
        .bake(&[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kiln");
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().expect("reaped").code(), Some(0));
    bench.assert_clean(&["out.glb"]);
    fs::remove_file(bench.path("out/out.glb")).expect("there");
    let mut closed = after("exec <&- >&- 2>&-", &bench.bake(&[]));
    assert_eq!(closed.status().expect("kiln").code(), Some(0));
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn a_terminal_that_hangs_up_ends_the_job_and_its_workers() {
    let bench = Bench::new(&Plan::always(Role::Bake, Step::Work, Fault::Stall));
    let alive = bench.alive();
    // Close-on-exec: a worker or another test that held it would keep the terminal alive.
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let mut terminal = posix_openpt(flags).expect("a terminal");
    grantpt(&terminal).expect("a terminal");
    unlockpt(&terminal).expect("a terminal");
    let name = ptsname_r(&terminal).expect("a terminal");
    let end = || {
        let options = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlag::O_NOCTTY.bits())
            .open(&name);
        Stdio::from(options.expect("its other end"))
    };
    let inner = bench.bake(&["--report", "out/report.json"]);
    let mut command = Command::new("setsid");
    command
        .arg("--ctty")
        .arg(inner.get_program())
        .args(inner.get_args());
    command
        .current_dir(bench.path(""))
        .stdin(end())
        .stdout(end())
        .stderr(end());
    let mut child = command.spawn().expect("setsid, of util-linux");
    drop(command);
    let (mut seen, mut chunk) = (String::new(), [0; 4096]);
    while !seen.contains("\"phase\":\"fit\"") {
        let count = terminal.read(&mut chunk).expect("a terminal");
        seen.push_str(&String::from_utf8_lossy(&chunk[..count]));
    }
    drop(terminal);
    // 128 + SIGHUP.
    let code = child.wait().expect("reaped").code();
    let report = fs::read_to_string(bench.path("out/report.json")).expect("the report");
    assert_eq!(code, Some(129), "{report}");
    wait_all_gone(&alive);
    bench.assert_clean(&["report.json"]);
}

#[test]
fn kill_9_of_the_supervisor_at_any_time_of_a_real_bake_leaves_nothing_that_stays() {
    const KILLS: u32 = 12;
    let bench = Bench::real();
    let started = Instant::now();
    assert_eq!(Run::start(spot(&bench)).finish().code, Some(0));
    let whole = started.elapsed();
    let new = bench.bytes("out/out.glb").expect("the model");
    let mut slowest = Duration::ZERO;
    for kill in 0..KILLS {
        fs::write(bench.path("out/out.glb"), OLD).expect("an old file");
        let run = Run::start(spot(&bench));
        // The moment is the fault: spread evenly over the whole job and a little beyond.
        std::thread::sleep(whole * (2 * kill + 1) / (2 * KILLS - 4));
        run.send(Signal::SIGKILL);
        let outcome = run.finish();
        let dead = Instant::now();
        bench.wait_workers_gone();
        slowest = slowest.max(dead.elapsed());
        let found = bench.bytes("out/out.glb").expect("a model");
        assert!(
            found == OLD.as_bytes() || found == new,
            "kill {kill}: {} bytes",
            found.len()
        );
        assert!(
            outcome.signal == Some(9) || outcome.code == Some(0),
            "{outcome:?}"
        );
    }
    said(&format!(
        "{KILLS} kills over {:.1} s of a bake: workers gone within {} ms",
        whole.as_secs_f64(),
        slowest.as_millis()
    ));
    assert_eq!(Run::start(spot(&bench)).finish().code, Some(0));
    assert!(
        bench.bytes("out/out.glb").expect("the model") == new,
        "same job, same bytes"
    );
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn a_supervisor_that_was_stopped_blames_nobody() {
    let plan = Plan::always(Role::Bake, Step::Work, Fault::EndlessProgress);
    let bench = Bench::new(&plan);
    let mut run = bench.start(&["--stall-timeout", "1"]);
    run.wait_progress("bake");
    run.send(Signal::SIGSTOP);
    // Three times the silence that a worker is allowed.
    std::thread::sleep(Duration::from_secs(3));
    run.send(Signal::SIGCONT);
    // Longer than the pipe's backlog and than a late verdict would take.
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        let event = run.wait_for(|_any| true);
        assert_ne!(event["event"], "retry", "{event}");
    }
    run.send(Signal::SIGTERM);
    let outcome = run.finish();
    assert_eq!(outcome.code, Some(143), "{:?}", outcome.stdout.last());
    assert!(outcome.all("retry").is_empty());
    assert_eq!(outcome.all("started").len(), 2, "no fresh worker");
    bench.assert_clean(&[]);
}
