//! Replays a commit's file operations up to every moment on a disk that keeps only what it guarantees. Each file is old
//! or new and whole; after success all are new for good.

use std::fs;

use kiln_tests::Run;
use kiln_tests::replay::{Files, crashes, durable};
use kiln_tests::shim::{Logged, read_log};
use kiln_tests::stage::{OLD, Stage};

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

/// What is wrong with the three files after a power cut, if anything.
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

        // The oracle sees each broken rule: files not synced, folder not synced, named before the sync, another order.
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
