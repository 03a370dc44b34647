//! The command line: flags, exit codes, the use of each stream, and help.

use std::fs;
use std::process::{Command, Output, Stdio};

use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::{Bench, Run, names_in, words};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use proto::message::{Code, Role};

fn bench() -> Bench {
    Bench::new(&Plan::healthy())
}

fn kiln(bench: &Bench, arguments: &[&str]) -> Output {
    bench.kiln().args(arguments).output().expect("kiln runs")
}

fn arguments<'a>(mesh: &'a str, views: &'a str, output: &'a str) -> [&'a str; 6] {
    ["bake", mesh, "--views", views, "-o", output]
}

/// `kiln bake` of the bench's own inputs, for people.
fn bake(bench: &Bench, more: &[&str]) -> Command {
    let mut command = bench.command(&arguments("mesh.glb", ".", "out/out.glb"));
    if !more.contains(&"--crash-folder") {
        command.args(["--crash-folder", "none"]);
    }
    command.arg("--insecure-no-sandbox").args(more);
    command
}

/// Runs, checks the exit code, and returns standard error.
fn refused(bench: &Bench, arguments: &[&str], code: i32) -> String {
    let output = kiln(bench, arguments);
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    assert!(
        output.stdout.is_empty(),
        "{arguments:?} says nothing on standard output"
    );
    assert!(
        text.starts_with("kiln: error: ") && text.lines().count() <= 2,
        "one line and a hint: {text}"
    );
    text
}

#[test]
fn bad_flags_are_told_in_one_line_with_64() {
    let bench = bench();
    let bake = arguments("mesh.glb", "transforms.json", "out/out.glb");
    for (more, wanted) in [
        ("--texture-size 1000000", "256 to 8192"),
        ("--texture-size 258", "multiple of 4"),
        ("--texture-size -4", "--texture-size"),
        ("--simplify 1", "less than 1"),
        ("--simplify nan", "less than 1"),
        ("--target-faces 0", "from 1"),
        ("--target-faces 10 --simplify 0.5", "cannot be used with"),
        ("--quality superb", "superb"),
        ("--blend gamma", "gamma"),
        ("--timeout 0", "above 0"),
        ("--timeout inf", "above 0"),
        ("--timeout 1e9", "31536000 (a year) at most"),
        ("--holdout 9999999", "below"),
        ("--device=", "a part of an adapter's name"),
        ("--qiuet", "--quiet"),
        ("-q -v", "cannot be used with"),
        ("--report out/out.glb", "named twice"),
        ("--report mesh.glb", "named twice"),
        ("--preview out/a.gif", "must end in .png"),
        ("--maps out --preview out/residual.png", "named twice"),
    ] {
        let text = refused(&bench, &[&bake[..], &words(more)].concat(), 64);
        assert!(text.contains(wanted), "{wanted:?} is not in {text}");
    }
    assert!(refused(&bench, &[], 64).contains("bake, compare, replay, serve, submit, status"));
    assert!(refused(&bench, &["bakery"], 64).contains("bakery"));
    assert!(refused(&bench, &["bake"], 64).contains("MESH"));
    let alone = words("bake mesh.glb -o out/out.glb");
    assert!(refused(&bench, &alone, 64).contains("--views"));
    bench.assert_clean(&[]);
}

#[test]
fn a_bad_flag_is_json_where_json_was_asked_for() {
    let bench = bench();
    let output = kiln(&bench, &["bake", "--json", "--nonsense"]);
    assert_eq!(output.status.code(), Some(64));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!([&line["event"], &line["code"]], ["error", "invalid_spec"]);
}

#[test]
fn missing_inputs_are_named_before_any_work() {
    let bench = bench();
    for (mesh, views, words) in [
        ("no.glb", "transforms.json", "the mesh no.glb"),
        ("mesh.glb", "no.json", "the views no.json"),
        ("out", "transforms.json", "is a folder, not a file"),
    ] {
        let text = refused(&bench, &arguments(mesh, views, "out/out.glb"), 66);
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    assert!(!bench.path("prepare-1").exists(), "no worker was started");
}

#[test]
fn a_pipe_that_nobody_writes_to_is_refused_and_not_waited_for() {
    let bench = bench();
    for name in [
        "pipe",
        "pipe.glb",
        "views/transforms.json",
        "crash/crash.json",
    ] {
        let path = bench.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("room");
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).expect("a pipe");
    }
    let bake = "bake mesh.glb --views . -o out/out.glb";
    let (silent, other) = ("is a pipe that nobody writes to", "is not a file");
    for (arguments, code, wanted) in [
        ("bake --jobs pipe", 64, silent),
        ("bake --jobs /dev/zero", 64, other),
        (
            "serve --socket run/s --store store --token-file pipe",
            64,
            silent,
        ),
        (
            "serve --socket run/s --store store --token-file /dev/zero",
            64,
            other,
        ),
        (
            "list --url http://127.0.0.1:1 --token-file pipe",
            64,
            silent,
        ),
        ("bake pipe.glb --views . -o out/out.glb", 66, other),
        ("bake mesh.glb --views views -o out/out.glb", 66, other),
        (
            &format!("{bake} --detail normal --original pipe.glb"),
            66,
            other,
        ),
        (&format!("{bake} --report pipe"), 73, other),
        ("compare pipe.glb --views .", 66, other),
        ("submit pipe.glb --views .", 66, other),
        ("replay crash", 66, other),
    ] {
        // Ends what would wait for ever.
        let mut bounded = Command::new("timeout");
        bounded.arg("100").arg(bench.kiln().get_program());
        bounded.args(words(arguments)).current_dir(bench.path(""));
        let output = bounded.output().expect("kiln runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {text}");
        assert!(
            text.contains(wanted) && text.lines().count() <= 2,
            "{arguments}: {text}"
        );
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named_before_any_work() {
    let bench = bench();
    fs::create_dir(bench.path("out/folder.glb")).expect("room");
    for (output, words) in [
        ("mesh.glb/out.glb", "a part of the path is not a folder"),
        ("no/../out.glb", "no such file or folder"),
        ("out/folder.glb", "not a file"),
        ("/proc/x.glb", "/proc"),
    ] {
        let text = refused(
            &bench,
            &arguments("mesh.glb", "transforms.json", output),
            73,
        );
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    // The name fits, but the names of the files beside it do not.
    for (output, name) in [
        (format!("out/{}.glb", "n".repeat(252)), "n.glb"),
        (format!("no/{}/a.glb", "n".repeat(256)), "a.glb"),
        (format!("out/{}.obj", "n".repeat(251)), "_texture.png"),
    ] {
        let text = refused(
            &bench,
            &arguments("mesh.glb", "transforms.json", &output),
            73,
        );
        assert!(text.contains("the name is too long"), "{text}");
        assert!(text.contains(name) && text.contains("shorter"), "{text}");
    }
    let bake = arguments("mesh.glb", ".", "out/out.glb");
    let report = [&bake[..], &["--report", "mesh.glb/report.json"]].concat();
    assert!(refused(&bench, &report, 73).contains("mesh.glb/report.json"));
    assert!(!bench.path("prepare-1").exists(), "no worker was started");
    assert!(!bench.path("no").exists(), "no folder was made");
    fs::remove_dir(bench.path("out/folder.glb")).expect("empty");
    bench.assert_clean(&[]);
}

#[test]
fn folders_that_are_missing_are_made() {
    let bench = bench();
    let more = ["--report", "deep/er/report.json", "--preview", "deep/p.png"];
    let mut command = bench.command(&arguments("mesh.glb", ".", "deep/./new/a.glb"));
    command
        .args(more)
        .args(["--insecure-no-sandbox", "--crash-folder", "none"]);
    Run::start(command).finish().assert_code(0);
    assert_eq!(names_in(&bench.path("deep")), ["er", "new", "p.png"]);
    assert_eq!(names_in(&bench.path("deep/er")), ["report.json"]);
    // One file by two names, of which no folder is there yet.
    let job = arguments("mesh.glb", ".", "deeper/a.glb");
    let text = refused(
        &bench,
        &[&job[..], &["--report", "./deeper/a.glb"]].concat(),
        64,
    );
    assert!(text.contains("named twice"), "{text}");
    assert!(
        !bench.path("deeper").exists(),
        "a refused command makes none"
    );
}

#[test]
fn a_name_that_says_another_form_is_refused_before_any_work() {
    let bench = bench();
    let bake = arguments("mesh.glb", ".", "out/out.glb");
    for (more, wanted) in [
        (&["-o", "out/a.xyz"][..], ".glb, .ply, .obj"),
        (&["-o", "out/a"], ".glb, .ply, .obj"),
        (&["-o", "-"], "a file must be named"),
        (&["--preview", "out/a.gif"], "must end in .png"),
        (&["--report", "-"], "--json puts the report on"),
        (&["--maps", "-"], "a file must be named"),
        (&["--images", "-"], "a file must be named"),
    ] {
        let more = match more[0] {
            "-o" => [&bake[..4], more].concat(),
            _ => [&bake[..], more].concat(),
        };
        let text = refused(&bench, &more, 64);
        assert!(text.contains(wanted), "{wanted:?} is not in {text}");
    }
    for piped in [
        &["bake", "-", "--views", ".", "-o", "out/a.glb"][..],
        &["compare", "mesh.glb", "--views", "-"],
        &["compare", "mesh.glb", "--views", ".", "--picture", "a.jpg"],
        &["wait", "latest", "-o", "a.ply"],
        &["fetch", "latest", "preview.png", "-o", "a.jpg"],
        &["fetch", "latest", "-o", "folder"],
    ] {
        refused(&bench, piped, 64);
    }
    bench.assert_clean(&[]);
}

#[test]
fn a_reader_that_leaves_is_no_error_and_a_full_disk_is_one() {
    let bench = bench();
    let job = arguments("mesh.glb", ".", "out/out.glb");
    let verbose = [
        &job[..],
        &["-v", "--insecure-no-sandbox", "--crash-folder", "none"],
    ]
    .concat();
    let json = [&verbose[..6], &["--json"], &verbose[7..]].concat();
    for arguments in [
        &["--help"][..],
        &["bake", "-h"],
        &["--version"],
        &verbose,
        &json,
    ] {
        let closed = || {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            writer
        };
        let mut kiln = bench.kiln();
        let baker = [&["--baker", "kiln-baker"][..], &[]][usize::from(arguments.len() < 3)];
        kiln.args(arguments).args(baker).stdout(closed());
        let output = kiln.stderr(Stdio::piped()).output().expect("kiln runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
        assert!(
            !text.contains("kiln: error") && !text.contains("panicked"),
            "{text}"
        );
        let status = kiln.stdout(closed()).stderr(closed()).status();
        assert_eq!(status.expect("kiln runs").code(), Some(0), "{arguments:?}");
        let full = fs::File::options().write(true).open("/dev/full");
        kiln.stdout(full.expect("there")).stderr(Stdio::piped());
        let output = kiln.output().expect("kiln runs");
        let text = String::from_utf8_lossy(&output.stderr);
        // The files of a job are in place.
        let wanted = if arguments.contains(&"-o") { 0 } else { 74 };
        assert_eq!(output.status.code(), Some(wanted), "{arguments:?}: {text}");
        assert!(text.contains("standard output: the disk is full"), "{text}");
    }
}

#[test]
fn every_line_of_json_parses_and_the_last_one_ends_the_job() {
    let bench = bench();
    let outcome = bench.run(&["--holdout", "1"]);
    assert_eq!(outcome.code, Some(0));
    assert!(
        outcome
            .events
            .iter()
            .all(|event| event["event"].is_string()),
        "{:#?}",
        outcome.stdout
    );
    assert_eq!(
        outcome.events.last().map(|event| event["event"].as_str()),
        Some(Some("done"))
    );
    let progress = outcome.all("progress");
    assert!(progress.iter().all(|event| event["done"].is_u64()
        && event["total"].is_u64()
        && event["phase"].is_string()));
    let last = progress
        .iter()
        .rfind(|event| event["phase"] == "decode_views")
        .expect("views are decoded");
    assert_eq!(
        (last["fraction"].as_f64(), last["done"].as_u64()),
        (Some(1.0), Some(5))
    );
    assert_eq!(outcome.all("started").len(), 3);
    assert!(outcome.stderr.is_empty(), "{}", outcome.stderr);
}

#[test]
fn standard_output_is_the_path_alone() {
    let bench = bench();
    for (flag, silent) in [(None, false), (Some("-q"), true), (Some("-v"), false)] {
        let mut command = bake(&bench, &["--texture-size", "256"]);
        let output = command.args(flag).output().expect("kiln runs");
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(output.stdout, b"out/out.glb\n");
        let errors = String::from_utf8(output.stderr).expect("text");
        assert_eq!(errors.is_empty(), silent, "{flag:?}: {errors}");
        if !silent {
            assert!(
                errors.contains("PSNR 42.0 dB"),
                "the summary is for people: {errors}"
            );
            assert!(errors.contains("texture 256×256"), "{errors}");
        }
    }
}

#[test]
fn a_crash_is_told_to_people_with_its_last_lines() {
    let bench = Bench::new(&Plan::always(Role::Bake, Step::Work, Fault::Signal(11)));
    let crashes = bench.path("crashes");
    let folder = crashes.to_str().expect("text");
    let command = bake(&bench, &["-q", "--crash-folder", folder]);
    let outcome = Run::start(command).finish();
    assert_eq!(outcome.code, Some(70));
    assert!(outcome.stdout.is_empty());
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert!(lines[0].starts_with(
        "kiln: error: bake died by SIGSEGV while fitting the texture (phase fit), twice"
    ));
    // The saboteur uses no GPU, so another device would not help.
    assert!(lines[1].starts_with("  hint: no driver had a part in it"));
    assert!(
        lines[2].starts_with(&format!("  kept: {folder}/")) && lines[2].contains("kiln replay")
    );
    assert_eq!(lines[3], "  last lines:");
    assert!(lines[4].contains("about to commit Signal(11)"), "{lines:?}");
}

#[test]
fn what_a_worker_says_is_told_in_one_line_and_a_hint() {
    let bench = Bench::new(&Plan::always(
        Role::Prepare,
        Step::Work,
        Fault::Fail(Code::InvalidAsset),
    ));
    let outcome = Run::start(bake(&bench, &["-q"])).finish();
    assert_eq!(outcome.code, Some(65));
    assert_eq!(
        outcome.stderr,
        "kiln: error: the saboteur says no\n  hint: change the plan\n"
    );
}

#[test]
fn help_is_written_for_people() {
    let bench = bench();
    for arguments in [
        &["--help"][..],
        &["bake", "--help"],
        &["doctor", "--help"],
        &["help"],
        &["--version"],
    ] {
        let output = kiln(&bench, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(
            !output.stdout.is_empty() && output.stderr.is_empty(),
            "{arguments:?}"
        );
    }
    let help = String::from_utf8(kiln(&bench, &["bake", "--help"]).stdout).expect("text");
    for word in [
        "--views",
        "--output",
        "--texture-size",
        "--target-faces",
        "--simplify",
        "--keep-uvs",
        "--remove-unseen",
        "--fill-holes",
        "--hole-edges",
        "--weld",
        "--orient",
        "--up",
        "--quality",
        "--blend",
        "--refine",
        "--device",
        "--seed",
        "--timeout",
        "--report",
        "--preview",
        "--holdout",
        "--json",
        "--quiet",
        "--verbose",
        "Examples:",
        "Exit codes:",
    ] {
        assert!(help.contains(word), "{word} is not explained");
    }
    assert!(!help.contains("--baker"), "for tests only");
    for command in
        words("bake compare replay serve submit status wait cancel list fetch doctor completions")
    {
        let mut kiln = bench.kiln();
        let output = kiln.args([command, "-h"]).env("COLUMNS", "80").output();
        let short = String::from_utf8(output.expect("kiln runs").stdout).expect("text");
        let (lines, width) = (
            short.lines().count(),
            short.lines().map(|line| line.chars().count()).max(),
        );
        assert!(
            lines <= 58 && width <= Some(80),
            "{command}: {lines} lines, {width:?}"
        );
    }
    let version = String::from_utf8(kiln(&bench, &["--version"]).stdout).expect("text");
    let wanted = format!("kiln {} (", proto::BUILD_ID);
    assert!(
        version.starts_with(&wanted) && version.contains("-linux-"),
        "{version}"
    );
    assert!(
        help.lines().all(|line| line.chars().count() <= 125),
        "lines fit a screen"
    );
}

#[test]
fn doctor_without_a_worker_says_so() {
    let bench = bench();
    let output = kiln(&bench, &["doctor", "--baker", "nowhere/kiln-baker"]);
    assert_eq!(output.status.code(), Some(69));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.contains("cannot be started") && text.contains("kiln cannot bake here"),
        "{text}"
    );
}

#[test]
fn doctor_takes_a_broken_answer_for_a_problem() {
    // The saboteur has no `doctor` and exits with 64.
    let bench = bench();
    let output = kiln(&bench, &["doctor", "--json", "--baker", "kiln-baker"]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "the processor can still bake"
    );
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["can_bake"], true);
    assert!(
        answer["problems"][0]["what"]
            .as_str()
            .expect("text")
            .contains("gave no answer")
    );
}
