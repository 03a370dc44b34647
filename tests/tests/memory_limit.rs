//! A real bake in a control group that is too small: the kernel's OOM kill is reported as such, with peak and limit,
//! not as somebody's SIGKILL.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use kiln_tests::{Bench, Outcome, Run, sample, words};

fn spot(bench: &Bench, limit: &str) -> Command {
    let more = words("--quality draft --texture-size 512 --crash-folder crashes --memory-limit");
    let more = [&more, &[limit][..]].concat();
    let (mesh, views) = (sample("mesh_nouv.glb"), sample("transforms.json"));
    let mut command = bench.bake_for_real(mesh, views, &more);
    command.env("KILN_LOG", "warn");
    command
}

/// Runs, and returns kiln's pid, which its groups' names contain.
fn run(limit: &str) -> (Bench, Outcome, i32) {
    let bench = Bench::real();
    let run = Run::start(spot(&bench, limit));
    let pid = run.pid();
    (bench, run.finish(), pid)
}

/// This machine allows no groups, as kiln itself reports.
#[expect(clippy::print_stderr, reason = "what a machine cannot do is said")]
fn without_groups(outcome: &Outcome) -> bool {
    let line = outcome
        .stderr
        .lines()
        .find(|line| line.contains("is not enforced by a control group"));
    if let Some(line) = line {
        eprintln!("no OOM kill by a control group here: {line}");
    }
    line.is_some()
}

/// That supervisor's groups, anywhere.
fn groups_of(pid: i32) -> Vec<PathBuf> {
    let (mut found, mut waiting) = (Vec::new(), vec![PathBuf::from("/sys/fs/cgroup")]);
    while let Some(folder) = waiting.pop() {
        // Other groups come and go meanwhile.
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        for entry in entries
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        {
            let ours = entry
                .file_name()
                .to_string_lossy()
                .starts_with(&format!("kiln-{pid}-"));
            if ours {
                found.push(entry.path());
            } else {
                waiting.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn a_bake_beyond_its_memory_is_named_so_with_peak_and_limit() {
    let (bench, outcome, pid) = run("64M");
    if without_groups(&outcome) {
        return;
    }
    let told = format!("{:#?}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.code, Some(70), "{told}");
    let error = outcome.one("error");
    assert_eq!(
        [&error["code"], &error["class"]],
        ["out_of_host_memory", "resource"],
        "{told}"
    );
    let message = error["message"].as_str().expect("text");
    assert!(
        message.contains("64") && message.contains("MiB"),
        "peak and limit: {message}"
    );
    assert!(!message.contains("died by SIGKILL"), "{message}");
    assert_eq!(groups_of(pid), Vec::<PathBuf>::new());
    bench.assert_clean(&[]);
}

#[test]
fn a_bake_within_its_memory_is_not_disturbed() {
    let (bench, outcome, pid) = run("2G");
    outcome.assert_code(0);
    assert!(outcome.all("retry").is_empty(), "{:#?}", outcome.stdout);
    assert_eq!(groups_of(pid), Vec::<PathBuf>::new());
    bench.assert_clean(&["out.glb"]);
}
