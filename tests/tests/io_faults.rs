//! Fails each of the supervisor's system calls in turn, as `SQLite`'s tests do: one run counts them, a loop fails each.
//! A job ends with the right result, or with one clear error and the old files. kill -9 at any call leaves no partial
//! file, no process, and nothing that disturbs the next run.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kiln_tests::made;
use kiln_tests::shim::{Cell, Deed, Logged, counts, read_log, sabotage};
use kiln_tests::stage::{GLB, OLD, Stage};
use kiln_tests::walk::{all_right, demand, in_parallel, said};
use kiln_tests::{Outcome, Run};
use nix::libc;

/// Most of a run is waiting for processes to start, so more than one for each core.
const AT_ONCE: usize = 4;

/// The calls of a whole job without a failure.
fn count() -> BTreeMap<String, u32> {
    let stage = Stage::new();
    let outcome = Run::start(stage.shimmed()).finish();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(stage.file("out.glb").as_deref(), Some(GLB.as_str()));
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

/// The errors that the kernel may return for a kind of call.
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
        // The first: a file system without exchange.
        "exchange" => &[libc::EINVAL, libc::ENOSPC, libc::EIO, libc::EROFS],
        "unlink" => &[libc::EIO, libc::EROFS],
        "ftruncate" => &[libc::ENOMEM, libc::ENOSPC, libc::EIO],
        "memfd_create" | "socketpair" | "pipe" | "eventfd" | "epoll_create" | "dup" => {
            &[libc::EMFILE, libc::ENFILE, libc::ENOMEM]
        }
        "epoll_ctl" => &[libc::ENOSPC, libc::ENOMEM],
        "fcntl" => &[libc::EMFILE, libc::EPERM],
        // Not EPIPE or ECONNRESET: they mean that the child died, which would be false of a live child.
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
            let mut cell = |sticky, deed| cells.push(Cell::new(call, nth, sticky, deed));
            for errno in errnos(call) {
                cell(false, Deed::Errno(*errno));
                cell(true, Deed::Errno(*errno));
            }
            // A signal that interrupts the same call for ever is no fault of a host.
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

/// Runs `work` for every cell, each on a stage of its own.
fn walk(cells: &[Cell], work: impl Fn(&Stage, &Cell) -> Result<(), String> + Sync) {
    let started = Instant::now();
    let results = in_parallel(AT_ONCE, cells, |cell| work(&Stage::new(), cell));
    said(&format!(
        "{} cells in {:.1} s",
        cells.len(),
        started.elapsed().as_secs_f64()
    ));
    all_right(cells, results, |cell| format!("{cell:?}"));
}

/// The name fails, not the disk.
fn place_is_wrong(cell: Option<&Cell>) -> bool {
    cell.is_some_and(|cell| matches!(cell.deed, Deed::Errno(libc::EROFS | libc::EINVAL)))
}

/// Only calls on results were hit, which fail with the disk.
fn of_files(kinds: &[&str]) -> bool {
    let mut kinds = kinds.iter();
    kinds.len() > 0 && kinds.all(|kind| ["fsync", "exchange", "link", "create"].contains(kind))
}

/// Checks for the right result, or one clear error and the old files; either way nothing else is left.
fn check(
    stage: &Stage,
    outcome: &Outcome,
    cell: Option<&Cell>,
    log: &[Logged],
) -> Result<(), String> {
    let told = format!("{:#?}\n{}", outcome.stdout, outcome.stderr);
    let hit = log.iter().filter(|call| call.hit);
    let kinds: Vec<&str> = hit.map(|call| call.call.as_str()).collect();
    match outcome.code {
        Some(0) => {
            let glb = stage.file("out.glb");
            demand(glb.as_deref() == Some(GLB.as_str()), || {
                format!("success, and the GLB is {glb:?}")
            })?;
            let report = stage.file("report.json").unwrap_or_default();
            demand(report.contains("\"outcome\": \"done\""), || {
                format!("success, and the report is {report:?}")
            })?;
            let preview = stage.file("preview.png").unwrap_or_default();
            demand(preview.contains("of the saboteur, shown "), || {
                format!("success, and the preview is {preview:?}")
            })?;
        }
        Some(code @ (70 | 71 | 73 | 74)) => {
            demand(code != 73 || place_is_wrong(cell), || {
                format!("nothing is wrong with a name: {told}")
            })?;
            demand(
                code == 74 || !of_files(&kinds) || place_is_wrong(cell),
                || format!("ended with {code} for a file: {told}"),
            )?;
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
                // Without exchange, a rename cannot be undone; the error says so.
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
    // If removing fails, the next run removes it.
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
        let mut command = stage.shimmed();
        sabotage(&mut command, cell);
        let outcome = Run::start(command).finish();
        let log = read_log(&stage.log());
        // Counts vary slightly between runs, so the last cells may find nothing to fail.
        hits.fetch_add(
            usize::from(log.iter().any(|call| call.hit)),
            Ordering::Relaxed,
        );
        check(stage, &outcome, Some(cell), &log)?;
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
    let cell = |nth| Cell::new("any", nth, false, Deed::Kill);
    let cells: Vec<Cell> = (1..=total).map(cell).collect();
    let (slowest, parts) = (Mutex::new(Duration::ZERO), AtomicUsize::new(0));
    walk(&cells, |stage, cell| {
        let mut command = stage.shimmed();
        sabotage(&mut command, cell);
        let outcome = Run::start(command).finish();
        if outcome.signal != Some(9) {
            // Fewer calls this time.
            return check(stage, &outcome, Some(cell), &read_log(&stage.log()));
        }
        let dead = Instant::now();
        stage.bench.wait_workers_gone();
        let mut longest = slowest.lock().expect("unbroken");
        *longest = longest.max(dead.elapsed());
        drop(longest);
        for (name, old) in OLD {
            let found = stage.file(name).unwrap_or_default();
            let new = match name {
                "out.glb" => found == *GLB,
                "preview.png" => {
                    found == String::from_utf8_lossy(&made::picture("shown [0, 1, 2]"))
                }
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
            after.code == Some(0) && stage.file("out.glb").as_deref() == Some(GLB.as_str()),
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
    said(&format!("no worker lived longer than {slowest:?}"));
}

#[test]
fn a_host_without_a_thread_to_give_costs_nothing() {
    for nth in 1..=4 {
        let stage = Stage::new();
        let mut command = stage.shimmed();
        let cell = Cell::new("thread", nth, true, Deed::Errno(libc::EAGAIN));
        sabotage(&mut command, &cell);
        let outcome = Run::start(command).finish();
        let log = read_log(&stage.log());
        // One thread at least opens and writes files; whether there are more depends on how fast it is.
        assert!(nth > 1 || log.iter().any(|call| call.hit), "{log:?}");
        check(&stage, &outcome, Some(&cell), &log).expect("the result");
        assert_eq!(outcome.code, Some(0), "{:#?}", outcome.stdout);
    }
}

#[test]
fn the_wall_clock_may_jump() {
    let stage = Stage::new();
    let mut command = stage.shimmed();
    command.env("IOFAULT_CLOCK", "1");
    let outcome = Run::start(command).finish();
    check(&stage, &outcome, None, &[]).expect("as if nothing happened");
    assert_eq!(
        outcome.code,
        Some(0),
        "every deadline is on the monotonic clock"
    );
    assert!(outcome.all("retry").is_empty());
}
