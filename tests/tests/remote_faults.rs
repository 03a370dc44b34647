//! `kiln submit`, `wait` and `fetch` while the sidecar dies, is full, is unreachable or lies.

use std::fs;
use std::sync::LazyLock;

use kiln_tests::errand::{assert_refused, kiln, start, start_at, submit, submitted};
use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::relay::{self, Relay};
use kiln_tests::sidecar::{Sidecar, sha256};
use kiln_tests::{Bench, made, words};
use nix::sys::signal::Signal;
use proto::message::Role;
use serde_json::json;

/// What a healthy saboteur makes.
static RESULT: LazyLock<Vec<u8>> = LazyLock::new(|| made::model(&[], &[]));

#[test]
fn a_wait_outlives_kill_9_of_the_sidecar() {
    let bench = Bench::new(&Plan::always(Role::Bake, Step::Work, Fault::Stall));
    let sidecar = Sidecar::start(&bench, &["--stall-timeout", "100"]);
    let id = submitted(&bench, &["-q"]);
    let mut waiting = start(&bench, &["wait", &id, "-o", "out/out.glb", "--json"]);
    waiting.wait_for(|event| event["event"] == "role_done");
    bench.set_plan(&Plan::healthy());
    let _ended = sidecar.end(Signal::SIGKILL);
    let _next = Sidecar::start(&bench, &[]);
    let outcome = waiting.finish();
    outcome.assert_code(0);
    assert_eq!(bench.bytes("out/out.glb").expect("there"), *RESULT);
    let done = outcome.one("done");
    assert_eq!(done["output"], "out/out.glb");
}

#[test]
fn a_sidecar_that_stays_away_is_not_waited_for_without_end() {
    let bench = Bench::new(&Plan::always(Role::Bake, Step::Work, Fault::Stall));
    let sidecar = Sidecar::start(&bench, &["--stall-timeout", "100"]);
    let id = submitted(&bench, &["-q"]);
    let mut waiting = start(&bench, &["wait", &id, "--patience", "1", "--json"]);
    waiting.wait_for(|event| event["event"] == "role_done");
    let _ended = sidecar.end(Signal::SIGKILL);
    waiting.finish().assert_code(69);
}

#[test]
fn a_connection_that_is_cut_loses_and_doubles_nothing() {
    let bench = Bench::sphere();
    // More than one read of the sidecar's.
    let large = vec![b'#'; 3 << 20];
    let mesh = bench.bytes("mesh.obj").expect("there");
    fs::write(bench.path("mesh.obj"), [mesh, large].concat()).expect("room");
    let sidecar = Sidecar::start(&bench, &[]);
    let socket = bench.path("relay.sock");
    // The first upload is cut after a mebibyte; the answers to the first two jobs never arrive.
    let relay = Relay::start(
        &socket,
        &bench.path("run/kiln.sock"),
        |request, count| match (request.split(' ').next(), count) {
            (Some("PUT"), 1) => relay::Cut::AfterSent(1 << 20),
            (Some("POST"), 1 | 2) => relay::Cut::BeforeAnswer,
            (Some("GET"), 1) if request.contains("/artifacts/") => relay::Cut::AfterAnswered(1000),
            _ => relay::Cut::Never,
        },
    );
    let flags = words("--quality draft --device cpu --texture-size 256");
    let arguments = words("submit mesh.obj --views . --wait -o out/out.glb");
    let outcome = start_at(&bench, &socket, &[&arguments[..], &flags].concat()).finish();
    outcome.assert_code(0);
    let seen = relay.seen();
    let count = |method: &str| seen.iter().filter(|line| line.starts_with(method)).count();
    assert_eq!(count("POST "), 3, "{seen:#?}");
    assert_eq!(
        count("PUT "),
        1 + 9,
        "mesh, views, seven pictures: {seen:#?}"
    );
    assert!(
        outcome
            .stderr
            .contains("9 files (3.0 MiB), of which the sidecar had 0"),
        "{}",
        outcome.stderr
    );
    let list = kiln(&bench, &["list", "--json"]);
    assert_eq!(list.events.len(), 1, "one job");
    let fetched = seen.iter().filter(|line| line.contains("/artifacts/"));
    assert_eq!(fetched.count(), 2, "the rest by a range: {seen:#?}");
    // The real worker, and not through a sidecar.
    let remote = bench.bytes("out/out.glb").expect("there");
    bench.baked("mesh.obj", ".", &flags).assert_code(0);
    let own = bench.bytes("out/out.glb").expect("there");
    assert!(own == remote, "the same bytes as kiln bake");
    assert!(own.len() > 1000, "it was cut within");

    // Stored uploads are not sent again, and the sidecar may read files itself.
    let again = kiln(&bench, &[&arguments[..4], &flags].concat());
    assert!(
        again
            .stderr
            .contains("9 files (3.0 MiB), of which the sidecar had 9"),
        "{}",
        again.stderr
    );
    let more = ["--by-path", "--wait", "-o", "out/path.glb"];
    let by_path = kiln(&bench, &[&arguments[..4], &flags, &more].concat());
    by_path.assert_code(0);
    assert!(bench.bytes("out/path.glb").expect("there") == own);
    let outside = tempfile::tempdir().expect("a folder");
    let mesh = outside.path().join("mesh.obj");
    fs::copy(bench.path("mesh.obj"), &mesh).expect("room");
    let mesh = mesh.to_str().expect("text");
    assert_refused(
        &kiln(&bench, &["submit", mesh, "--views", ".", "--by-path"]),
        64,
        "no folder that --root allows",
    );
    drop(sidecar);
}

#[test]
fn a_full_queue_is_told_with_75_or_waited_for() {
    let plan = Plan::always(Role::Bake, Step::Work, Fault::Stall);
    let bench = Bench::new(&plan);
    let limits = words("--parallel 1 --queue-jobs 1 --stall-timeout 100");
    let _sidecar = Sidecar::start(&bench, &limits);
    let first = submitted(&bench, &["-q"]);
    let mut waiting = start(&bench, &["wait", &first, "--json"]);
    waiting.wait_for(|event| event["event"] == "role_done");
    let second = submitted(&bench, &["-q"]);
    let refused = kiln(&bench, &submit(&["-q"]));
    assert_refused(&refused, 75, "(in 5 s)");
    let line = kiln(&bench, &submit(&["--json"]));
    line.assert_code(75);
    let line = line.one("error");
    assert_eq!(
        (&line["code"], &line["retry_after_s"]),
        (&json!("queue_full"), &json!(5))
    );
    // Once it reports waiting, space is freed.
    let socket = bench.path("relay.sock");
    let relay = Relay::start(&socket, &bench.path("run/kiln.sock"), |_, _| {
        relay::Cut::Never
    });
    let third = start_at(&bench, &socket, &submit(&["--retry"]));
    relay.wait_for(|line| line.starts_with("HTTP/1.1 429"));
    kiln(&bench, &["cancel", &second, "-q"]).assert_code(0);
    let third = third.finish();
    third.assert_code(0);
    assert!(
        third.stderr.contains("trying again in 5 s"),
        "{}",
        third.stderr
    );
    kiln(&bench, &["cancel", &first, &third.stdout[0], "-q"]).assert_code(0);
    waiting.finish().assert_code(130);
}

#[test]
fn an_artifact_that_is_not_what_was_promised_is_refused() {
    let bench = Bench::new(&Plan::healthy());
    let (whole, id) = (b"glTF, all of it".as_slice(), "0".repeat(32));
    let job = json!({
        "id": id, "name": "", "state": "succeeded", "progress": 1.0, "error": null, "spec": {},
        "artifacts": [{ "name": "model.glb", "bytes": whole.len(), "sha256": sha256(whole) }],
    });
    let answer = |status: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body].concat()
    };
    let told = answer("200 OK", job.to_string().as_bytes());
    let fetch = ["fetch", id.as_str(), "-o", "out/out.glb"];
    let mut flood = b"HTTP/1.1 200 OK\r\n".to_vec();
    flood.extend((0..1000).flat_map(|k| format!("x-{k}: y\r\n").into_bytes()));
    let path = json!({
        "id": id, "name": "", "state": "succeeded", "progress": 1.0, "error": null, "spec": {},
        "artifacts": [{ "name": "../../evil", "bytes": 1, "sha256": sha256(b"x") }],
    });
    let tampered = b"glTF, not of it";
    for (number, (job, artifact, code, words)) in [
        (told.clone(), answer("200 OK", whole), 0, ""),
        (told.clone(), answer("200 OK", tampered), 74, "SHA-256"),
        (told.clone(), answer("200 OK", &whole[..5]), 74, "less than"),
        (
            told.clone(),
            answer("200 OK", &[whole, b"!"].concat()),
            74,
            "more than",
        ),
        (told, b"SSH-2.0-teapot\r\n".to_vec(), 76, "not understood"),
        (answer("200 OK", b"{}"), Vec::new(), 76, "missing field"),
        (
            answer("200 OK", b"<html>"),
            Vec::new(),
            76,
            "not understood",
        ),
        (answer("418 x", b""), Vec::new(), 76, "418"),
        (flood, Vec::new(), 76, "not understood"),
        (
            answer("200 OK", path.to_string().as_bytes()),
            Vec::new(),
            76,
            "../../evil",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let socket = bench.path(&format!("fake-{number}.sock"));
        let fake = relay::fake(&socket, move |request| {
            match request.contains("/artifacts/") {
                true => artifact.clone(),
                false => job.clone(),
            }
        });
        let outcome = start_at(&bench, &socket, &fetch).finish();
        if code == 0 {
            outcome.assert_code(0);
            assert_eq!(bench.bytes("out/out.glb").expect("there"), whole);
            fs::remove_file(bench.path("out/out.glb")).expect("there");
        } else {
            assert_refused(&outcome, code, words);
        }
        bench.assert_clean(&[]);
        drop(fake);
    }
}
