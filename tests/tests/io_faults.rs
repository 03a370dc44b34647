//! The supervisor's own system calls fail, each in turn, as in `SQLite`'s tests: counted first, then looped over. A job ends
//! with the right result or with one clear error and the old files; a kill -9 at any call, or a power cut, leaves no half
//! file, no process, and nothing that the next run minds.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kiln_tests::fault::Plan;
use kiln_tests::replay::{Files, crashes, durable};
use kiln_tests::shim::{Cell, Deed, Logged, counts, preload, read_log, sabotage};
use kiln_tests::{Bench, Outcome, Run};
use nix::libc;

const SABOTEUR: &str = env!("CARGO_BIN_EXE_saboteur");
/// Most of a run is waiting for processes to start, so more than one for each core.
const AT_ONCE: usize = 4;
const OLD: [(&str, &str); 3] = [
    ("out.glb", "the old model"),
    ("preview.png", "the old preview"),
    ("report.json", "\"the old report\""),
];
/// What the saboteur makes of its plan.
const GLB: &str = "glTF of the saboteur, held [], shown [0, 1, 2]";

/// A place to run in, and its files before each run.
struct Stage {
    bench: Bench,
}

impl Stage {
    fn new() -> Self {
        let stage = Self {
            bench: Bench::new(SABOTEUR, &Plan::healthy()),
        };
        stage.reset();
        stage
    }

    fn reset(&self) {
        let out = self.bench.path("out");
        fs::remove_dir_all(&out).expect("the folder");
        fs::create_dir(&out).expect("a folder");
        for (name, text) in OLD {
            fs::write(out.join(name), text).expect("an old file");
        }
        if self.log().exists() {
            fs::remove_file(self.log()).expect("the old log");
        }
        for role in ["prepare", "bake", "encode"] {
            for number in 1..=4 {
                let counter = self.bench.path(&format!("{role}-{number}"));
                if counter.exists() {
                    fs::remove_file(counter).expect("a counter");
                }
            }
        }
    }

    fn log(&self) -> PathBuf {
        self.bench.path("calls.log")
    }

    /// A bake with preview and report, all paths absolute as in the log.
    fn bare(&self) -> Command {
        let mut command = self.bench.kiln();
        command.args(["bake", "mesh.glb", "--views", "transforms.json", "--json"]);
        command.args([
            "--texture-size",
            "256",
            "--timeout",
            "5",
            "--insecure-no-sandbox",
        ]);
        for (flag, name) in [
            ("--baker", "kiln-baker"),
            ("-o", "out/out.glb"),
            ("--preview", "out/preview.png"),
            ("--report", "out/report.json"),
            ("--crash-folder", "crashes"),
        ] {
            command.arg(flag).arg(self.bench.path(name));
        }
        command
    }

    fn shimmed(&self) -> Command {
        let mut command = self.bare();
        preload(&mut command, SABOTEUR, &self.log());
        command
    }

    fn file(&self, name: &str) -> Option<String> {
        let bytes = fs::read(self.bench.path("out").join(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn files(&self) -> Files {
        let out = self.bench.path("out");
        let names = self.bench.outputs();
        names
            .iter()
            .map(|name| (out.join(name), fs::read(out.join(name)).expect("a file")))
            .collect()
    }
}

/// The calls of a whole job in which nothing fails.
fn count() -> BTreeMap<String, u32> {
    let stage = Stage::new();
    let outcome = Run::start(stage.shimmed()).finish();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(stage.file("out.glb").as_deref(), Some(GLB));
    let counts = counts(&read_log(&stage.log()));
    for kind in [
        "create",
        "write",
        "fsync",
        "exchange",
        "link",
        "spawn",
        "memfd_create",
    ] {
        assert!(counts.contains_key(kind), "no {kind} among {counts:?}");
    }
    counts
}

/// What the kernel may answer to a kind of call, beyond success.
fn errnos(kind: &str) -> &'static [i32] {
    match kind {
        "create" | "mkdir" => &[
            libc::ENOSPC,
            libc::EDQUOT,
            libc::EROFS,
            libc::EMFILE,
            libc::EIO,
        ],
        "open" => &[libc::EMFILE, libc::ENFILE, libc::EIO, libc::ENOMEM],
        "write" | "pwrite" | "writev" => &[libc::ENOSPC, libc::EIO, libc::EDQUOT],
        "fsync" => &[libc::EIO, libc::ENOSPC, libc::EDQUOT],
        "link" | "rename" => &[libc::ENOSPC, libc::EIO, libc::EDQUOT, libc::EROFS],
        // The first: a file system that knows no exchange.
        "exchange" => &[libc::EINVAL, libc::ENOSPC, libc::EIO, libc::EROFS],
        "unlink" => &[libc::EIO, libc::EROFS],
        "ftruncate" => &[libc::ENOMEM, libc::ENOSPC, libc::EIO],
        "memfd_create" | "socketpair" | "pipe" | "eventfd" | "epoll_create" | "dup" => {
            &[libc::EMFILE, libc::ENFILE, libc::ENOMEM]
        }
        "epoll_ctl" => &[libc::ENOSPC, libc::ENOMEM],
        "fcntl" => &[libc::EMFILE, libc::EPERM],
        // Not EPIPE or ECONNRESET: they tell of the child's death, and of a child that lives they would be a lie.
        "sendmsg" => &[libc::ENOBUFS, libc::ENOMEM],
        "recvmsg" => &[libc::ENOMEM],
        "read" | "pread" => &[libc::EIO, libc::ENOMEM],
        "spawn" | "thread" => &[libc::EAGAIN, libc::ENOMEM],
        other => panic!("what can {other} fail with?"),
    }
}

fn cells(counts: &BTreeMap<String, u32>) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (call, count) in counts {
        for nth in 1..=*count {
            let mut cell = |sticky, deed| {
                let call = call.clone();
                cells.push(Cell {
                    call,
                    nth,
                    sticky,
                    deed,
                });
            };
            for errno in errnos(call) {
                cell(false, Deed::Errno(*errno));
                cell(true, Deed::Errno(*errno));
            }
            // A signal that comes again and again at the same call is no fault of a host.
            if ["write", "read", "recvmsg", "sendmsg", "open", "create"].contains(&call.as_str()) {
                cell(false, Deed::Errno(libc::EINTR));
            }
            if call == "write" {
                cell(false, Deed::Cut);
            }
        }
    }
    cells
}

/// Runs `work` for every cell on a few threads; gives how many there were and all complaints.
fn walk(cells: &[Cell], work: impl Fn(&Stage, &Cell) -> Result<(), String> + Sync) {
    let (next, started) = (AtomicUsize::new(0), Instant::now());
    let complaints = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let stage = Stage::new();
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(what) = work(&stage, cell) {
                        complaints
                            .lock()
                            .expect("unbroken")
                            .push(format!("{cell:?}: {what}"));
                    }
                }
            });
        }
    });
    let complaints = complaints.into_inner().expect("unbroken");
    said(cells.len(), started.elapsed());
    assert!(
        complaints.is_empty(),
        "{} of {} cells:\n{}",
        complaints.len(),
        cells.len(),
        complaints.join("\n")
    );
}

#[expect(clippy::print_stderr, reason = "the figures of a walk")]
fn said(cells: usize, time: Duration) {
    eprintln!("{cells} cells in {:.1} s", time.as_secs_f64());
}

fn demand(right: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if right { Ok(()) } else { Err(what()) }
}

/// The right result, or one clear error and the old files; nothing left either way.
fn check(stage: &Stage, outcome: &Outcome, log: &[Logged]) -> Result<(), String> {
    let told = format!("{:#?}\n{}", outcome.stdout, outcome.stderr);
    let hit = log.iter().filter(|call| call.hit);
    let kinds: Vec<&str> = hit.map(|call| call.call.as_str()).collect();
    match outcome.code {
        Some(0) => {
            let glb = stage.file("out.glb");
            demand(glb.as_deref() == Some(GLB), || {
                format!("success, and the GLB is {glb:?}")
            })?;
            let report = stage.file("report.json").unwrap_or_default();
            demand(report.contains("\"outcome\": \"done\""), || {
                format!("success, and the report is {report:?}")
            })?;
            let preview = stage.file("preview.png").unwrap_or_default();
            demand(preview.starts_with("PNG of the saboteur"), || {
                format!("success, and the preview is {preview:?}")
            })?;
        }
        // 66 is for an input that cannot be opened, for whatever reason: its folder is what `open` opens.
        Some(code @ (66 | 70 | 71 | 73)) => {
            demand(code != 66 || kinds.contains(&"open"), || {
                format!("no input was refused: {told}")
            })?;
            let errors = outcome.all("error");
            // Standard output may be what fails.
            let mute = kinds.contains(&"write") || kinds.contains(&"writev");
            demand(errors.len() == 1 || (mute && errors.is_empty()), || {
                format!("{} errors told: {told}", errors.len())
            })?;
            for error in errors {
                let filled =
                    |field: &str| error[field].as_str().is_some_and(|text| !text.is_empty());
                demand(
                    filled("code") && filled("class") && filled("message"),
                    || format!("no clear error: {told}"),
                )?;
                let plain = error["message"]
                    .as_str()
                    .is_some_and(|text| !text.contains("panicked"));
                demand(plain, || format!("a panic: {told}"))?;
            }
            for (name, text) in &OLD[..2] {
                let found = stage.file(name);
                // A file system without an exchange cannot give back what a rename took; the error says so.
                let said = outcome
                    .stdout
                    .iter()
                    .any(|line| line.contains("new nevertheless"));
                demand(found.as_deref() == Some(text) || said, || {
                    format!("failed, and {name} is {found:?}: {told}")
                })?;
            }
            let report = stage.file("report.json").unwrap_or_default();
            let whole = serde_json::from_str::<serde_json::Value>(&report).is_ok();
            demand(whole, || format!("half a report: {report:?}"))?;
        }
        other => {
            return Err(format!(
                "ended with {other:?}, signal {:?}: {told}",
                outcome.signal
            ));
        }
    }
    demand(!outcome.stderr.contains("panicked"), || {
        format!("a panic: {told}")
    })?;
    let workers = stage.bench.workers();
    demand(workers.is_empty(), || format!("workers left: {workers:?}"))?;
    let names = stage.bench.outputs();
    let extra: Vec<&String> = names
        .iter()
        .filter(|name| !OLD.iter().any(|(known, _)| known == name))
        .collect();
    // Where removing is what fails, the next run removes.
    demand(extra.is_empty() || kinds.contains(&"unlink"), || {
        format!("left behind: {extra:?}")
    })
}

#[test]
fn any_failing_call_of_the_supervisor_ends_in_the_result_or_in_one_clear_error() {
    let cells = cells(&count());
    assert!(cells.len() > 500, "{} cells", cells.len());
    let hits = AtomicUsize::new(0);
    walk(&cells, |stage, cell| {
        stage.reset();
        let mut command = stage.shimmed();
        sabotage(&mut command, cell);
        let outcome = Run::start(command).finish();
        let log = read_log(&stage.log());
        // Counts differ a little from run to run, so the last cells may find nothing to fail.
        hits.fetch_add(
            usize::from(log.iter().any(|call| call.hit)),
            Ordering::Relaxed,
        );
        check(stage, &outcome, &log)?;
        if stage.bench.outputs().len() != OLD.len() {
            let after = Run::start(stage.bare()).finish();
            demand(
                after.code == Some(0) && stage.bench.outputs().len() == OLD.len(),
                || format!("the next run leaves {:?}", stage.bench.outputs()),
            )?;
        }
        Ok(())
    });
    let hits = hits.into_inner();
    assert!(
        hits * 10 > cells.len() * 9,
        "only {hits} of {} cells met their call",
        cells.len()
    );
}

#[test]
fn kill_9_at_any_call_leaves_whole_files_no_process_and_nothing_that_the_next_run_minds() {
    let total: u32 = count().values().sum();
    let cell = |nth| Cell {
        call: "any".to_owned(),
        nth,
        sticky: false,
        deed: Deed::Kill,
    };
    let cells: Vec<Cell> = (1..=total).map(cell).collect();
    let (slowest, parts) = (Mutex::new(Duration::ZERO), AtomicUsize::new(0));
    walk(&cells, |stage, cell| {
        stage.reset();
        let mut command = stage.shimmed();
        sabotage(&mut command, cell);
        let outcome = Run::start(command).finish();
        if outcome.signal != Some(9) {
            // Fewer calls this time.
            return check(stage, &outcome, &read_log(&stage.log()));
        }
        let dead = Instant::now();
        while !stage.bench.workers().is_empty() {
            demand(dead.elapsed() < Duration::from_secs(1), || {
                "workers outlive kiln by 1 s".to_owned()
            })?;
        }
        let mut longest = slowest.lock().expect("unbroken");
        *longest = longest.max(dead.elapsed());
        drop(longest);
        for (name, old) in OLD {
            let found = stage.file(name).unwrap_or_default();
            let new = match name {
                "out.glb" => found == GLB,
                "preview.png" => found == "PNG of the saboteur, shown [0, 1, 2], and so on",
                _ => serde_json::from_str::<serde_json::Value>(&found)
                    .is_ok_and(|report| report["outcome"] == "done"),
            };
            demand(found == old || new, || format!("{name} is {found:?}"))?;
        }
        parts.fetch_add(
            usize::from(stage.bench.outputs().len() > OLD.len()),
            Ordering::Relaxed,
        );
        let after = Run::start(stage.bare()).finish();
        demand(
            after.code == Some(0) && stage.file("out.glb").as_deref() == Some(GLB),
            || format!("the next run fails: {:#?}", after.stdout),
        )?;
        let names = stage.bench.outputs();
        demand(names.len() == OLD.len(), || {
            format!("the next run leaves {names:?}")
        })
    });
    let (slowest, parts) = (slowest.into_inner().expect("unbroken"), parts.into_inner());
    assert!(
        parts > 0,
        "some kill leaves a part, or the sweep is not tested"
    );
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}

/// The file operations of one commit.
fn commit_log(stage: &Stage) -> Vec<Logged> {
    let mut command = stage.shimmed();
    command
        .env("IOFAULT_UNDER", stage.bench.path("out"))
        .env("IOFAULT_DATA", "1");
    let outcome = Run::start(command).finish();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    read_log(&stage.log())
}

/// What a power cut may do to the three files, if it is wrong.
fn broken(stage: &Stage, before: &Files, after: &Files, log: &[Logged]) -> Vec<String> {
    let out = stage.bench.path("out");
    let mut wrong = Vec::new();
    for state in crashes(&out, before, log) {
        let is_new = |name: &str| state.get(&out.join(name)) == after.get(&out.join(name));
        for (name, _) in OLD {
            let found = state.get(&out.join(name));
            if found != before.get(&out.join(name)) && !is_new(name) {
                wrong.push(format!("{name} is {found:?}"));
            }
        }
        if is_new("out.glb") && !(is_new("preview.png") && is_new("report.json")) {
            wrong.push("the GLB came before the rest".to_owned());
        }
    }
    for (name, _) in OLD {
        if durable(&out, before, log).get(&out.join(name)) != after.get(&out.join(name)) {
            wrong.push(format!("{name} may be lost after success"));
        }
    }
    wrong
}

#[test]
fn a_power_cut_at_any_moment_leaves_old_or_new_files_and_never_half_ones() {
    for old_files in [true, false] {
        let stage = Stage::new();
        if !old_files {
            for (name, _) in OLD {
                fs::remove_file(stage.bench.path("out").join(name)).expect("an old file");
            }
        }
        let before = stage.files();
        let log = commit_log(&stage);
        let after = stage.files();
        let out = stage.bench.path("out");
        let states = crashes(&out, &before, &log);
        assert!(states.len() > 20, "{} states", states.len());
        assert_eq!(
            states.last(),
            Some(&after),
            "the model ends where the disk did"
        );
        let wrong = broken(&stage, &before, &after, &log);
        assert!(wrong.is_empty(), "{wrong:#?}\n{log:#?}");

        // The oracle sees each rule broken: no sync of the files, none of the folder, names before the sync, another order.
        let without = |rule: &dyn Fn(&Logged) -> bool| -> Vec<Logged> {
            log.iter().filter(|call| !rule(call)).cloned().collect()
        };
        let no_sync = without(&|call| call.call == "fsync" && call.path != out);
        assert!(!broken(&stage, &before, &after, &no_sync).is_empty());
        let no_folder = without(&|call| call.call == "fsync" && call.path == out);
        let lost = broken(&stage, &before, &after, &no_folder);
        assert!(
            lost.iter().any(|line| line.contains("may be lost")),
            "{lost:?}"
        );
        let mut late = no_sync;
        late.extend(log.iter().filter(|call| call.call == "fsync").cloned());
        assert!(!broken(&stage, &before, &after, &late).is_empty());
        let mut backwards =
            without(&|call| ["link", "exchange", "rename", "unlink"].contains(&call.call.as_str()));
        let names = log
            .iter()
            .filter(|call| ["link", "exchange", "rename"].contains(&call.call.as_str()));
        let mut names: Vec<Vec<Logged>> = names
            .cloned()
            .collect::<Vec<_>>()
            .chunk_by(|_, next| next.call != "link")
            .map(<[Logged]>::to_vec)
            .collect();
        names.reverse();
        let folder = backwards
            .iter()
            .position(|call| call.call == "fsync" && call.path == out)
            .expect("synced");
        backwards.splice(folder..folder, names.into_iter().flatten());
        let wrong = broken(&stage, &before, &after, &backwards);
        assert!(
            wrong.iter().any(|line| line.contains("came before")),
            "{wrong:?}"
        );
    }
}

#[test]
fn the_wall_clock_may_jump() {
    let stage = Stage::new();
    let mut command = stage.shimmed();
    command.env("IOFAULT_CLOCK", "1");
    let outcome = Run::start(command).finish();
    check(&stage, &outcome, &[]).expect("as if nothing happened");
    assert_eq!(
        outcome.code,
        Some(0),
        "every deadline is on the monotonic clock"
    );
    assert!(outcome.all("retry").is_empty());
}
