//! Many jobs under one supervisor, and the records of their deaths.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::history::digest_of;
use kiln_tests::{Bench, Run, read_json, sample, words};
use proto::message::Role;
use serde_json::{Value, json};

fn write(bench: &Bench, list: &Value) {
    fs::write(bench.path("jobs.json"), list.to_string()).expect("a list");
}

/// A list of jobs with the real worker, except "poison", which has the bench's own.
fn list(bench: &Bench) -> Command {
    let mut kiln = bench.kiln();
    let poison = format!("--baker-of=poison={}", bench.path("kiln-baker").display());
    // The saboteur enters no sandbox, and a list's jobs are all sandboxed or none is.
    kiln.args(["bake", "--json", "--jobs", "jobs.json", &poison]);
    kiln.args(["--insecure-no-sandbox", "--crash-folder", "none"]);
    kiln
}

fn real(bench: &Bench, name: &str) -> Value {
    json!({
        "name": name,
        "mesh": sample("mesh_nouv.glb"),
        "views": sample("transforms.json"),
        "output": bench.path(&format!("out/{name}.glb")),
        "texture-size": 256, "quality": "draft", "device": "cpu",
    })
}

#[test]
fn a_fault_in_one_of_eight_jobs_leaves_the_other_seven_as_they_were() {
    let bench = Bench::new(&Plan::always(Role::Bake, Step::Work, Fault::Signal(11)));
    let mut jobs: Vec<Value> = (0..8).map(|k| real(&bench, &k.to_string())).collect();
    write(&bench, &json!([jobs[0]]));
    assert_eq!(Run::start(list(&bench)).finish().code, Some(0));
    let golden = digest_of(&bench.path("out/0.glb")).expect("readable");

    jobs[3] = json!({
        "name": "poison",
        "mesh": bench.path("mesh.glb"), "views": bench.path("transforms.json"),
        "output": bench.path("out/3.glb"), "texture-size": 256,
    });
    write(&bench, &Value::Array(jobs));
    let mut all = list(&bench);
    all.args(["--parallel", "8"]);
    let outcome = Run::start(all).finish();
    assert_eq!(outcome.code, Some(70), "{}", outcome.stderr);
    assert_eq!(outcome.one("error")["job"], "poison");
    assert_eq!(outcome.all("done").len(), 7);
    for k in [0, 1, 2, 4, 5, 6, 7] {
        let path = bench.path(&format!("out/{k}.glb"));
        assert_eq!(digest_of(&path).expect("readable"), golden, "job {k}");
    }
    assert!(!bench.path("out/3.glb").exists());
    outcome.assert_nothing_held();
    let sum = outcome.events.last().expect("an event");
    assert_eq!(
        [&sum["event"], &sum["done"], &sum["failed"]],
        [&json!("sum"), &json!(7), &json!(1)]
    );
}

#[test]
fn every_line_of_many_jobs_has_its_mark_and_the_last_one_the_sum() {
    let bench = Bench::new(&Plan::always(Role::Bake, Step::Work, Fault::Signal(11)));
    let poison = json!({"name": "poison", "mesh": "mesh.glb", "views": ".", "output": "out/p.glb"});
    write(&bench, &json!([real(&bench, "good"), poison]));
    let baker = format!("--baker-of=poison={}", bench.path("kiln-baker").display());
    // The list by standard input, and as a shell's `<(…)`.
    let run = |list: &str, more: &[&str]| {
        let mut kiln = Command::new("bash");
        kiln.args(["-c", &format!("exec \"$0\" bake --jobs {list} \"$@\"")]);
        kiln.arg(bench.kiln().get_program());
        kiln.args(words("--insecure-no-sandbox --crash-folder none"));
        kiln.arg(&baker).args(more);
        kiln.current_dir(bench.path("")).stdin(Stdio::null());
        kiln.env("XDG_CACHE_HOME", bench.path("cache"));
        let outcome = Run::start(kiln).finish();
        outcome.assert_code(70);
        let lines = outcome.stderr.lines().map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let mut lines = run("- <jobs.json", &[]);
    let last = lines.pop().expect("a line");
    assert!(
        last.starts_with("kiln: 1 done, 1 failed, ") && last.ends_with(" s"),
        "{last}"
    );
    let of = |name: &str, line: &str| line.starts_with(&format!("kiln: {name}: "));
    let counts = ["good", "poison"].map(|name| lines.iter().filter(|line| of(name, line)).count());
    assert!(
        counts[0] > 0 && counts[1] > 0 && counts[0] + counts[1] == lines.len(),
        "{lines:#?}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("kiln: poison:   hint: ")),
        "{lines:#?}"
    );
    let quiet = run("<(cat jobs.json)", &["-q"]);
    assert!(quiet[0].starts_with("kiln: poison: error: "), "{quiet:#?}");
    assert!(quiet.iter().all(|line| of("poison", line)), "{quiet:#?}");
}

#[test]
fn bakes_of_one_adapter_take_turns_while_other_jobs_are_prepared() {
    let bench = Bench::new(&Plan::healthy());
    let jobs = (0..3).map(|k| real(&bench, &k.to_string()));
    write(&bench, &jobs.collect());
    let mut all = bench.kiln();
    all.args(["bake", "--json", "--jobs", "jobs.json"]);
    all.args(["--parallel", "3", "--bakes", "1", "--crash-folder", "none"]);
    let outcome = Run::start(all).finish();
    outcome.assert_code(0);
    let of =
        |role: &str, kind: &str, event: &Value| event["role"] == role && event["event"] == kind;
    let (mut baking, mut bakes) = (0, 0);
    for event in &outcome.events {
        if of("bake", "working", event) {
            (baking, bakes) = (baking + 1, bakes + 1);
        } else if of("bake", "role_done", event) {
            baking -= 1;
        }
        assert!(baking <= 1, "two at once: {:#?}", outcome.stdout);
    }
    assert_eq!(bakes, 3);
    let at = |role: &str, kind: &str, nth: usize| {
        let found = outcome.events.iter().enumerate();
        let mut found = found.filter(|(_, event)| of(role, kind, event));
        found.nth(nth).map(|(at, _)| at).expect("an event")
    };
    let (prepared, baked) = (at("prepare", "working", 2), at("bake", "role_done", 0));
    assert!(prepared < baked, "the others do not wait to be prepared");
}

#[test]
fn a_list_is_checked_in_full_before_anything_runs() {
    let bench = Bench::new(&Plan::healthy());
    let good =
        |output: &str| json!({"mesh": "mesh.glb", "views": "transforms.json", "output": output});
    let mut typo = good("out/b.glb");
    typo["qualty"] = "draft".into();
    let mut missing = good("out/b.glb");
    missing["mesh"] = "nowhere.glb".into();
    for (second, exit, words) in [
        (typo, 64, "job 2: unexpected argument '--qualty"),
        (missing, 66, "job 2: the mesh nowhere.glb: no such file"),
        (
            good("out/a.glb"),
            64,
            "out/a.glb is also an output of job 1",
        ),
    ] {
        write(&bench, &json!([good("out/a.glb"), second]));
        let mut kiln = bench.kiln();
        kiln.args(["bake", "--json", "--jobs", "jobs.json"]);
        let outcome = Run::start(kiln).finish();
        let message = outcome.refusal(exit);
        assert!(message.contains(words), "{words:?} is not in {message}");
        assert!(outcome.all("started").is_empty());
    }
    bench.assert_clean(&[]);
}

#[test]
fn a_death_leaves_a_folder_that_runs_it_again() {
    let plan = Plan::always(Role::Bake, Step::Work, Fault::Signal(11));
    let bench = Bench::new(&plan);
    let crashes = bench.path("crashes");
    let folder = crashes.to_str().expect("text");
    let outcome = bench.run(&["--crash-folder", folder]);
    let error = outcome.one("error");
    let kept = Path::new(error["crash_folder"].as_str().expect("a folder"));
    assert_eq!(
        fs::read_dir(&crashes).expect("there").count(),
        2,
        "one for each crash"
    );
    let record = read_json(&kept.join("crash.json"));
    for (key, wanted) in [
        ("role", json!("bake")),
        ("signal", json!("SIGSEGV")),
        ("phase", json!("fit")),
        ("code", json!("worker_crashed")),
        ("class", json!("ambiguous")),
        ("schema", json!(2)),
    ] {
        assert_eq!(record[key], wanted, "{key}");
    }
    assert_eq!(record["device"]["name"], "saboteur");
    assert!(record["log_tail"].to_string().contains("about to commit"));

    let replay = || {
        let mut kiln = bench.command(&words("replay --json -o out --insecure-no-sandbox"));
        kiln.arg(kept);
        Run::start(kiln).finish()
    };
    let again = replay();
    assert_eq!(again.one("error")["signal"], "SIGSEGV", "{again:#?}");
    bench.set_plan(&Plan::healthy());
    replay().assert_code(0);
    bench.assert_clean(&["replayed.glb"]);

    fs::remove_file(kept.join("crash.json")).expect("there");
    assert!(replay().refusal(66).contains("crash.json: no such file"));
}
