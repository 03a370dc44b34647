//! Runs every malformed or hostile input of the corpus: each gives a valid GLB, or one line and exit code 65.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_tests::verdict::{Verdict, judge};
use kiln_tests::walk::{all_right, cores, in_parallel};
use kiln_tests::{Bench, data, glb, words};
use nix::sys::resource::{UsageWho, getrusage};
use serde::Deserialize;
use serde_json::Value;

/// What a case may take, whatever is wrong with it.
const TIME: Duration = Duration::from_secs(20);
/// Memory limit of all processes of a job, in KiB.
const MEMORY_KIB: i64 = 2 << 20;
/// `kiln` and one process per role: no more processes of a job live at once.
const PROCESSES: i64 = 4;

#[derive(Deserialize)]
struct Manifest {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    mesh: String,
    transforms: String,
    expect: Expect,
    why: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Expect {
    Reject,
    Accept,
    Either,
}

/// The corpus, which is too odd to be kept in a repository.
fn corpus() -> PathBuf {
    let manifest = data("bad/manifest.json");
    manifest.parent().expect("a folder").to_path_buf()
}

fn cases(corpus: &Path) -> Vec<Case> {
    let text = fs::read(corpus.join("manifest.json")).expect("the manifest");
    let manifest: Manifest = serde_json::from_slice(&text).expect("its JSON");
    assert!(manifest.cases.len() >= 146, "a corpus that lost cases");
    manifest.cases
}

/// The files that a case spoils; a refusal names one of them. These are the mesh or camera file where it differs from
/// the control's, and the pictures that only this camera file names.
fn spoilt(corpus: &Path, case: &Case, control: &Case) -> Vec<String> {
    let mut names = Vec::new();
    let last = |path: &str| path.rsplit('/').next().map(str::to_owned);
    if case.mesh != control.mesh {
        names.extend(last(&case.mesh));
    }
    if case.transforms != control.transforms {
        names.extend(last(&case.transforms));
    }
    let pictures = |case: &Case| -> Vec<String> {
        let text = fs::read(corpus.join(&case.transforms)).expect("a camera file");
        let json: Value = serde_json::from_slice(&text).unwrap_or_default();
        let frames = json["frames"].as_array().cloned().unwrap_or_default();
        let name = |frame: &Value| frame["file_path"].as_str().map(str::to_owned);
        frames.iter().filter_map(name).collect()
    };
    let sound = pictures(control);
    names.extend(
        pictures(case)
            .into_iter()
            .filter(|name| !name.is_empty() && !sound.contains(name)),
    );
    names
}

fn bake(bench: &Bench, corpus: &Path, case: &Case, more: &[&str]) -> std::process::Command {
    let fast = ["--quality", "draft", "--texture-size", "256", "-q"];
    let (mesh, views) = (corpus.join(&case.mesh), corpus.join(&case.transforms));
    bench.bake_for_people(&mesh, &views, &[&fast[..], more].concat())
}

/// Runs one case with flags. Returns its bench if it made a GLB, and its refusal otherwise.
fn run(corpus: &Path, case: &Case, control: &Case, more: &[&str]) -> Result<Option<Bench>, String> {
    let bench = Bench::real();
    let (verdict, time) = judge(&bench, bake(&bench, corpus, case, more))?;
    // Repair looks at a mesh from all sides.
    let limit = if more.is_empty() { TIME } else { 3 * TIME };
    if time > limit {
        return Err(format!("took {time:?}"));
    }
    match (verdict, case.expect) {
        (Verdict::Baked, Expect::Reject) => Err("was baked".to_owned()),
        (Verdict::Refused(line), Expect::Accept) => Err(format!("was refused: {line}")),
        (Verdict::Baked, _) => Ok(Some(bench)),
        (Verdict::Refused(line), _) => {
            let names = spoilt(corpus, case, control);
            // A NUL in a name is shown as a blank.
            if names
                .iter()
                .any(|name| line.contains(&name.replace('\0', " ")))
            {
                Ok(None)
            } else {
                Err(format!("names none of {names:?}: {line}"))
            }
        }
    }
}

#[test]
fn every_case_of_the_corpus_ends_as_its_manifest_says() {
    let corpus = corpus();
    let cases = cases(&corpus);
    let control = cases.iter().find(|case| case.id == "control_good");
    let control = control.expect("a control");
    hold(&corpus, &cases.iter().collect::<Vec<_>>(), control, &[]);

    // Four times the largest process of all bounds what the processes of any one job held together.
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the kernel counts");
    let largest = usage.max_rss();
    assert!(
        (1..=MEMORY_KIB / PROCESSES).contains(&largest),
        "a process held {largest} KiB"
    );
}

/// Runs cases, and validates every GLB.
fn hold(corpus: &Path, cases: &[&Case], control: &Case, more: &[&str]) {
    let results = in_parallel(cores(), cases, |case| run(corpus, case, control, more));
    let baked = all_right(cases, results, |case| format!("{} ({})", case.id, case.why));
    glb::assert_valid(&baked.into_iter().flatten().collect::<Vec<_>>());
}

#[test]
fn every_mesh_of_the_corpus_passes_through_all_of_repair() {
    let repair = words("--weld --orient --remove-unseen --fill-holes --hole-edges=512");
    let corpus = corpus();
    let cases = cases(&corpus);
    let control = cases.iter().find(|case| case.id == "control_good");
    let control = control.expect("a control");
    let meshes: Vec<&Case> = cases
        .iter()
        .filter(|case| case.mesh != control.mesh || case.id == control.id)
        .collect();
    assert!(meshes.len() > 40, "{} meshes", meshes.len());
    hold(&corpus, &meshes, control, &repair);
}
