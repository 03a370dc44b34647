//! The pipeline cache between processes. A second bake gets what the first one's driver compiled. A damaged file costs
//! a compilation and no more. A process that dies with cached pipelines is replaced by one without.
//!
//! The saboteur's driver caches a text, so that tests see what was given. llvmpipe's cache is only a header, which
//! tests the path of real bytes through wgpu, not the gain in time.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use kiln_tests::fault::{Fault, PIPELINES, Plan, Step};
use kiln_tests::sphere::ARGUMENTS;
use kiln_tests::{Bench, Outcome, Run, adapter, names_in, words};
use proto::message::Role;
use serde_json::{Value, json};

const GIVEN: &str = "given pipelines";
const NOTHING: &str = "given nothing";

fn keeping() -> Plan {
    Plan::healthy().on_gpu().keeping()
}

/// What the job's bakes reported as given.
fn given(outcome: &Outcome) -> Vec<String> {
    let warnings = outcome.all("warning");
    let texts = warnings.iter().filter_map(|event| event["text"].as_str());
    texts.map(str::to_owned).collect()
}

fn ladder(outcome: &Outcome) -> &Value {
    &outcome.one("done")["report"]["ladder"]
}

/// The folder's files, of which there is at most one.
fn kept(bench: &Bench) -> Option<PathBuf> {
    let folder = bench.path("cache/kiln/pipelines");
    if !folder.exists() {
        return None;
    }
    let names = names_in(&folder);
    assert!(names.len() <= 1, "{names:?}");
    names.first().map(|name| folder.join(name))
}

/// The next bake is the first again.
fn fresh(bench: &Bench) {
    for name in names_in(&bench.path("")) {
        if name.starts_with("bake-") {
            fs::remove_file(bench.path(&name)).expect("ours");
        }
    }
}

fn done(bench: &Bench, more: &[&str]) -> Outcome {
    let outcome = bench.run(more);
    outcome.assert_code(0);
    outcome
}

#[test]
fn a_bake_is_given_what_an_earlier_process_handed_over() {
    let bench = Bench::new(&keeping());
    assert_eq!(
        given(&done(&bench, &["--pipeline-cache", "none"])),
        [NOTHING]
    );
    assert_eq!(kept(&bench), None, "it is switched off");
    assert_eq!(given(&done(&bench, &[])), [NOTHING]);
    let file = kept(&bench).expect("it is kept");
    let bytes = fs::read(&file).expect("ours");
    assert!(bytes.ends_with(PIPELINES), "behind a header");
    assert_eq!(given(&done(&bench, &[])), [GIVEN]);
    assert_eq!(
        given(&done(&bench, &["--pipeline-cache", "none"])),
        [NOTHING]
    );
    assert_eq!(fs::read(&file).expect("ours"), bytes);
    let elsewhere = ["--pipeline-cache", "elsewhere"];
    assert_eq!(given(&done(&bench, &elsewhere)), [NOTHING]);
    assert_eq!(given(&done(&bench, &elsewhere)), [GIVEN]);
    bench.assert_clean(&["out.glb"]);
}

#[test]
fn whatever_is_wrong_with_the_file_is_a_compilation_and_the_file_is_replaced() {
    let bench = Bench::new(&keeping());
    done(&bench, &[]);
    let file = kept(&bench).expect("it is kept");
    let good = fs::read(&file).expect("ours");
    let spoil = |what: &str, spoil: &dyn Fn()| {
        spoil();
        assert_eq!(given(&done(&bench, &[])), [NOTHING], "{what}");
        assert_eq!(fs::read(&file).expect("ours"), good, "{what}");
        let metadata = fs::symlink_metadata(&file).expect("there");
        assert!(metadata.is_file() && metadata.permissions().mode() & 0o777 == 0o600);
        assert_eq!(given(&done(&bench, &[])), [GIVEN], "{what}");
    };
    let write = |bytes: &[u8]| fs::write(&file, bytes).expect("room");
    spoil("a flipped bit", &|| {
        let mut bytes = good.clone();
        *bytes.last_mut().expect("some") ^= 4;
        write(&bytes);
    });
    spoil("cut short", &|| write(&good[..good.len() - 1]));
    spoil("empty", &|| write(&[]));
    spoil("open to others", &|| {
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("ours");
    });
    spoil("a link", &|| {
        let target = bench.path("target");
        fs::rename(&file, &target).expect("ours");
        symlink(&target, &file).expect("a link");
    });
    // No folder can be created there.
    let nowhere = ["--pipeline-cache", "mesh.glb/beneath"];
    assert_eq!(given(&done(&bench, &nowhere)), [NOTHING]);
    assert_eq!(given(&done(&bench, &nowhere)), [NOTHING]);
}

/// By a signal, a stall and a reported failure.
#[test]
fn who_dies_with_kept_pipelines_is_replaced_by_one_without_and_they_go() {
    let deaths = [
        Fault::Signal(11),
        Fault::Signal(9),
        Fault::Exit(3),
        Fault::Stall,
        Fault::Fail(proto::message::Code::ShaderRejected),
    ];
    for death in deaths {
        let bench = Bench::new(&keeping());
        done(&bench, &[]);
        assert!(kept(&bench).is_some());
        fresh(&bench);
        bench.set_plan(&keeping().with(Role::Bake, Step::Compile, death.clone(), 1));
        let outcome = done(&bench, &["--stall-timeout", "1"]);
        assert_eq!(given(&outcome), [GIVEN, NOTHING], "{death:?}");
        assert_eq!(*ladder(&outcome), json!(["fresh_pipelines"]), "{death:?}");
        assert_eq!(outcome.attempts("bake").len(), 2, "{death:?}");
        assert_eq!(kept(&bench), None, "{death:?}");
        // The next job starts over.
        bench.set_plan(&keeping());
        assert_eq!(given(&done(&bench, &[])), [NOTHING]);
        assert_eq!(given(&done(&bench, &[])), [GIVEN]);

        // A bake without cached pipelines climbs as usual: a crash goes to the processor.
        fs::remove_file(kept(&bench).expect("kept")).expect("ours");
        fresh(&bench);
        bench.set_plan(&keeping().with(Role::Bake, Step::Compile, Fault::Signal(11), 1));
        let outcome = done(&bench, &[]);
        assert_eq!(*ladder(&outcome), json!(["software_adapter"]));
    }
}

/// Later deaths that are not the driver's do not discard the file; those that may be do.
#[test]
fn a_death_after_the_stages_are_compiled_is_held_against_them_where_a_driver_may_have_done_it() {
    for (fault, goes) in [(Fault::Signal(11), true), (Fault::Signal(9), false)] {
        let bench = Bench::new(&keeping());
        done(&bench, &[]);
        fresh(&bench);
        bench.set_plan(&keeping().with(Role::Bake, Step::Work, fault, 1));
        let outcome = done(&bench, &[]);
        let wanted = if goes { "fresh_pipelines" } else { "same_plan" };
        assert_eq!(*ladder(&outcome), json!([wanted]));
        assert_eq!(kept(&bench).is_none(), goes);
    }
}

#[test]
fn no_more_is_kept_than_the_bound() {
    let plan = keeping().with(Role::Bake, Step::Compile, Fault::HugePipelines, u32::MAX);
    let bench = Bench::new(&plan);
    let outcome = bench.run(&[]);
    assert!(outcome.refusal(70).contains("pipelines of"));
    assert_eq!(outcome.one("error")["code"], "protocol_violation");
}

/// A spare opens while the previous job bakes, which takes llvmpipe far longer.
#[test]
fn a_spare_is_given_them_too() {
    let bench = Bench::sphere();
    bake(&bench, &[]);
    let job = |name: &str| {
        json!({
            "name": name, "mesh": "mesh.obj", "views": "transforms.json", "output": format!("out/{name}.glb"),
            "texture-size": 256, "quality": "draft", "target-faces": 400, "holdout": 1,
            "device": adapter(),
        })
    };
    let jobs: Vec<Value> = ["a", "b", "c"].map(job).into();
    fs::write(bench.path("jobs.json"), json!(jobs).to_string()).expect("a list");
    let many = words("bake --json --jobs jobs.json --spares 1 --crash-folder none");
    let many = bench.command(&many);
    let outcome = Run::start(many).finish();
    outcome.assert_code(0);
    let done = outcome.all("done");
    assert_eq!(done.len(), 3);
    for event in done {
        assert_eq!(event["report"]["bake"]["pipeline_cache"], "hit");
    }
    let started = outcome.all("started");
    let warm = started.iter().filter(|event| event["warm"] == true);
    assert!(warm.count() > 0, "{started:?}");
}

/// Bytes of a real driver, through wgpu, in the sandbox.
fn bake(bench: &Bench, more: &[&str]) -> (Option<String>, Value, Vec<u8>) {
    let adapter = adapter();
    let device = ["--device", &adapter];
    let more = [&ARGUMENTS[..], &device, more].concat();
    let report = bench.baked("mesh.obj", "transforms.json", &more).report();
    let told = report["bake"]["pipeline_cache"].as_str().map(str::to_owned);
    let stages = &report["bake"]["host_times"][0];
    assert_eq!(stages["stage"], "stages");
    assert!(stages["ms"].as_f64().is_some_and(|ms| ms > 0.0));
    let glb = bench.bytes("out/out.glb").expect("a result");
    (told, report["ladder"].clone(), glb)
}

#[test]
fn the_bytes_of_a_real_driver_pass_and_the_result_is_the_same() {
    let bench = Bench::sphere();
    let told = |told: &str| Some(told.to_owned());
    let (first, _, golden) = bake(&bench, &[]);
    assert_eq!(first, told("miss"));
    let file = kept(&bench).expect("it is kept");
    let (second, _, glb) = bake(&bench, &[]);
    assert_eq!((second, glb == golden), (told("hit"), true));
    let (third, _, glb) = bake(&bench, &["--pipeline-cache", "none"]);
    assert_eq!((third, glb == golden), (told("off"), true));

    let good = fs::read(&file).expect("ours");
    let mut bytes = good.clone();
    *bytes.last_mut().expect("some") ^= 1;
    fs::write(&file, bytes).expect("room");
    let (fourth, _, glb) = bake(&bench, &[]);
    assert_eq!((fourth, glb == golden), (told("miss"), true));
    assert_eq!(fs::read(&file).expect("ours"), good);
}

#[test]
fn a_real_bake_that_dies_as_it_compiles_with_kept_pipelines_is_repeated_without() {
    let bench = Bench::real_with_failpoints();
    let (_, _, golden) = bake(&bench, &[]);
    assert!(kept(&bench).is_some());
    let adapter = adapter();
    let die = || {
        let more = [&ARGUMENTS[..], &["--device", &adapter]].concat();
        let mut command = bench.bake_for_real("mesh.obj", "transforms.json", &more);
        command.env("KILN_FAILPOINTS", "bake:compile:1=1*segv");
        let outcome = Run::start(command).finish();
        outcome.assert_code(0);
        let glb = bench.bytes("out/out.glb").expect("a result");
        assert!(glb == golden, "the same bytes");
        let told = outcome.one("done")["report"]["bake"]["pipeline_cache"].clone();
        (ladder(&outcome).clone(), told)
    };
    assert_eq!(die(), (json!(["fresh_pipelines"]), json!("off")));
    assert_eq!(kept(&bench), None);
    // Without cached pipelines none is suspected. The second process compiles, and its pipelines are cached.
    assert_eq!(die(), (json!(["same_plan"]), json!("miss")));
    assert!(kept(&bench).is_some());
}
