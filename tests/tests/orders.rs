//! The sidecar's operator and limits: drain, self-test and reset on request; shares of the queue; bodies that nobody
//! wants; and inputs given back.

use std::io::Write;

use kiln_tests::Bench;
use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::sidecar::{Sidecar, by_path, sha256, tcp_flags};
use proto::message::Role;
use serde_json::{Value, json};

/// A sidecar whose first job is at work until it is told otherwise.
fn busy(bench: &Bench, more: &[&str]) -> (Sidecar, String) {
    let arguments = [&["--parallel", "1", "--stall-timeout", "100"], more].concat();
    let sidecar = Sidecar::start(bench, &arguments);
    let first = sidecar.submit("first", &by_path(&bench.path(""))).id();
    sidecar.wait_baking(&first);
    (sidecar, first)
}

fn waiting_saboteurs() -> Bench {
    let plan = Plan::always(Role::Bake, Step::Work, Fault::Hear);
    Bench::new(&plan)
}

#[test]
fn drained_by_order_it_ends_what_runs_and_keeps_what_waits() {
    let bench = waiting_saboteurs();
    let mut word = bench.told();
    let (sidecar, first) = busy(&bench, &[]);
    let spec = by_path(&bench.path(""));
    let second = sidecar.submit("second", &spec).id();
    let answer = sidecar.send("POST", "/v1/admin/drain", &[], &[]);
    assert_eq!((answer.status, &answer.json()["running"]), (202, &json!(1)));
    assert_eq!(sidecar.submit("third", &spec).code(), "draining");
    assert_eq!(sidecar.get("/readyz").status, 503);
    word.write_all(b"go").expect("room");
    assert!(sidecar.ended().success());
    bench.set_plan(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &[]);
    for (job, starts) in [(first, 1), (second, 1)] {
        let job = sidecar.finished(&job);
        assert_eq!(
            (&job["state"], &job["starts"]),
            (&json!("succeeded"), &json!(starts))
        );
    }
}

#[test]
fn orders_are_taken_by_the_unix_socket_alone() {
    let bench = Bench::new(&Plan::healthy());
    let (token, flags) = tcp_flags(&bench);
    let sidecar = Sidecar::start(&bench, &flags.each_ref().map(String::as_str));
    for order in ["drain", "self-test", "breaker/reset"] {
        let path = format!("/v1/admin/{order}");
        let answer = sidecar.send_by_tcp(token, "POST", &path, &[], &[]);
        assert_eq!(answer.problem(), (403, "forbidden".to_owned()));
    }
    assert_eq!(
        sidecar.submit("after", &by_path(&bench.path(""))).status,
        202
    );
}

#[test]
fn what_does_not_start_is_told_and_tried_again_by_order() {
    let bench = Bench::new(&Plan::always(Role::Prepare, Step::Spawn, Fault::Exit(1)));
    let sidecar = Sidecar::start(&bench, &["--parallel", "4"]);
    let spec = by_path(&bench.path(""));
    for key in 0..6 {
        assert_eq!(sidecar.submit(&key.to_string(), &spec).status, 202);
    }
    let ready = loop {
        let answer = sidecar.get("/readyz");
        assert_eq!(answer.status, 503);
        if answer.json()["breakers"] != json!([]) {
            break answer.json();
        }
    };
    assert_eq!(ready["breakers"][0]["what"], "starting workers");
    let reasons = ready["reasons"].to_string();
    assert!(reasons.contains("starting workers fails: "), "{reasons}");
    bench.set_plan(&Plan::healthy());
    let answer = sidecar.send("POST", "/v1/admin/breaker/reset", &[], &[]);
    assert_eq!(answer.status, 202);
    assert_eq!(answer.json()["breakers"][0]["what"], "starting workers");
    let job = sidecar.submit("after", &spec).id();
    assert_eq!(sidecar.finished(&job)["state"], "succeeded");
    while sidecar.get("/readyz").json()["breakers"] != json!([]) {}
}

#[test]
fn the_self_test_is_repeated_by_order() {
    let bench = Bench::new(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &[]);
    // A saboteur bakes nothing that would pass; this only counts attempts.
    let took = |ready: &Value| {
        (ready["self_test"]["passed"] == json!(false)).then(|| ready["self_test"]["ms"].clone())
    };
    let first = loop {
        if let Some(ms) = took(&sidecar.get("/readyz").json()) {
            break ms;
        }
    };
    let answer = sidecar.send("POST", "/v1/admin/self-test", &[], &[]);
    assert_eq!(
        (answer.status, &answer.json()["self_test"]["ms"]),
        (202, &first)
    );
    while took(&sidecar.get("/readyz").json()).as_ref() == Some(&first) {}
}

#[test]
fn each_adapter_bakes_for_a_job_of_its_own() {
    // No bake ends before both have begun: on one adapter, the second never would.
    let plan = Plan::healthy().on_gpus(2);
    let plan = plan.with(Role::Bake, Step::Work, Fault::Hear, u32::MAX);
    let bench = Bench::new(&plan);
    let mut word = bench.told();
    let sidecar = Sidecar::start(
        &bench,
        &["--parallel", "3", "--spares", "0", "--stall-timeout", "100"],
    );
    let spec = by_path(&bench.path(""));
    let jobs = ["1", "2"].map(|key| sidecar.submit(key, &spec).id());
    for job in &jobs {
        sidecar.wait_baking(job);
    }
    word.write_all(b"go").expect("room");
    let devices = jobs.map(|job| {
        let job = sidecar.finished(&job);
        assert_eq!(job["state"], "succeeded");
        job["device"]["name"].to_string()
    });
    assert_ne!(devices[0], devices[1]);
    // The sidecar updates its list each second.
    let known = || {
        let told = sidecar.get("/v1/capabilities").json();
        let adapters = told["adapters"].as_array().expect("a list");
        let names = adapters.iter().map(|adapter| adapter["name"].to_string());
        names.collect::<Vec<String>>()
    };
    while devices.iter().any(|device| !known().contains(device)) {}
}

#[test]
fn a_clients_share_of_the_queue_is_its_own() {
    let bench = waiting_saboteurs();
    let mut word = bench.told();
    let (token, tcp) = tcp_flags(&bench);
    let flags = [
        &tcp.each_ref().map(String::as_str)[..],
        &["--client-jobs", "2"],
    ]
    .concat();
    let (sidecar, first) = busy(&bench, &flags);
    let spec = by_path(&bench.path(""));
    let mut jobs = vec![first];
    jobs.extend(["1", "2"].map(|key| sidecar.submit(key, &spec).id()));
    let refused = sidecar.submit("3", &spec);
    assert_eq!(refused.problem(), (429, "quota_exceeded".to_owned()));
    assert!(refused.headers.contains_key("retry-after"));
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", "3"),
    ];
    let body = spec.to_string();
    let other = sidecar.send_by_tcp(token, "POST", "/v1/jobs", &headers, body.as_bytes());
    assert_eq!(other.status, 202, "another client has its own share");
    jobs.push(other.id());
    word.write_all(b"go!!").expect("room");
    for job in jobs {
        assert_eq!(sidecar.finished(&job)["state"], "succeeded");
    }
}

#[test]
fn a_body_that_nobody_wants_is_not_kept() {
    let bench = waiting_saboteurs();
    let (sidecar, _first) = busy(&bench, &["--queue-jobs", "1"]);
    let body = vec![7; 8 << 20];
    let send = |key: &str, more: &[(&str, &str)], body: &[u8]| {
        let headers = [
            ("content-type", "application/safetensors"),
            ("idempotency-key", key),
        ];
        sidecar.send("POST", "/v1/jobs", &[&headers, more].concat(), body)
    };
    let kept = |body: &[u8]| {
        let place = format!("/v1/blobs/{}", sha256(body));
        sidecar.get(&place).status == 200
    };
    let second = send("second", &[], b"taken");
    assert_eq!(second.status, 202);
    assert!(kept(b"taken"));
    let refused = send("third", &[], &body);
    assert_eq!(refused.problem(), (429, "queue_full".to_owned()));
    assert!(!kept(&body));
    // A client that asks first (`Expect`) is answered first, and sends nothing.
    let refused = send("third", &[("expect", "100-continue")], &[]);
    assert_eq!(refused.status, 429);
    // An accepted request gets the same answer again, however full the queue is.
    let again = send("second", &[], b"taken");
    assert_eq!((again.status, again.id()), (202, second.id()));
}

#[test]
fn what_was_sent_is_given_back() {
    let bench = Bench::new(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &[]);
    let bytes = b"a picture, or so";
    let place = format!("/v1/blobs/{}", sha256(bytes));
    assert_eq!(sidecar.get(&place).code(), "not_found");
    assert_eq!(sidecar.send("HEAD", &place, &[], &[]).status, 404);
    assert_eq!(sidecar.send("PUT", &place, &[], bytes).status, 201);
    let whole = sidecar.get(&place);
    assert_eq!((whole.status, whole.body.as_slice()), (200, &bytes[..]));
    assert_eq!(whole.headers["content-type"], "application/octet-stream");
    let part = sidecar.send("GET", &place, &[("range", "bytes=2-8")], &[]);
    assert_eq!((part.status, part.body.as_slice()), (206, &bytes[2..9]));
    let tag = whole.headers["etag"].as_str();
    let known = sidecar.send("GET", &place, &[("if-none-match", tag)], &[]);
    assert_eq!(known.status, 304);
}
