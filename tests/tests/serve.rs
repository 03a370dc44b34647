//! The sidecar with saboteurs for workers: requests, events, refusals, and jobs that survive any end of it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;

use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::sidecar::{Sidecar, by_path, sha256, tcp_flags};
use kiln_tests::{Bench, kib_of, made, sample, wait_all_gone, words};
use nix::sys::signal::Signal;
use proto::message::Role;
use serde_json::{Value, json};

/// What a healthy saboteur makes.
static RESULT: LazyLock<Vec<u8>> = LazyLock::new(|| made::model(&[], &[]));

#[test]
fn a_job_goes_its_way_from_request_to_result_and_is_forgotten() {
    let bench = Bench::new(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &[]);
    let accepted = sidecar.submit("one", &by_path(&bench.path("")));
    let id = accepted.id();
    assert_eq!(accepted.headers["location"], format!("/v1/jobs/{id}"));

    let events = sidecar.events(&id, None, |_| false);
    let kinds: Vec<&str> = events.iter().map(|told| told.event.as_str()).collect();
    assert_eq!(
        (kinds[0], kinds[kinds.len() - 1]),
        ("state", "done"),
        "{events:#?}"
    );
    assert!(kinds.contains(&"progress"));
    let states: Vec<&Value> = events
        .iter()
        .filter(|told| told.event == "state")
        .map(|told| &told.data["state"])
        .collect();
    assert_eq!(states, ["queued", "preparing", "baking", "encoding"]);
    let numbers: Vec<u64> = events.iter().map(|told| told.id).collect();
    assert!(
        numbers.iter().copied().eq(1..=numbers.len() as u64),
        "{numbers:?}"
    );
    let again = sidecar.events(&id, Some(3), |_| false);
    assert_eq!(again, events[3..]);
    let after = sidecar.send(
        "GET",
        &format!("/v1/jobs/{id}/events"),
        &[("last-event-id", &numbers.len().to_string())],
        &[],
    );
    assert_eq!(after.status, 204);

    let job = sidecar.get(&format!("/v1/jobs/{id}"));
    let tag = job.headers["etag"].clone();
    let same = sidecar.send(
        "GET",
        &format!("/v1/jobs/{id}"),
        &[("if-none-match", &tag)],
        &[],
    );
    assert_eq!((same.status, same.body.len()), (304, 0));
    let job = job.json();
    assert_eq!(
        (&job["state"], &job["progress"], &job["starts"]),
        (&json!("succeeded"), &json!(1.0), &json!(1))
    );
    assert_eq!(job["spec"]["quality"], "standard", "defaults are filled in");
    let artifact = &job["artifacts"][0];
    assert_eq!(
        (&artifact["name"], &artifact["sha256"]),
        (&json!("model.glb"), &json!(sha256(&RESULT)))
    );
    let href = artifact["href"].as_str().expect("a path");
    let whole = sidecar.get(href);
    assert_eq!((whole.status, whole.body.as_slice()), (200, &RESULT[..]));
    assert_eq!(whole.headers["x-content-type-options"], "nosniff");
    let part = sidecar.send("GET", href, &[("range", "bytes=5-7")], &[]);
    assert_eq!((part.status, part.body.as_slice()), (206, &RESULT[5..8]));
    assert_eq!(
        part.headers["content-range"],
        format!("bytes 5-7/{}", RESULT.len())
    );
    assert_eq!(
        sidecar
            .send("GET", href, &[("range", "bytes=500-")], &[])
            .code(),
        "range_not_satisfiable"
    );
    let tag = whole.headers["etag"].clone();
    assert_eq!(
        sidecar
            .send("GET", href, &[("if-none-match", &tag)], &[])
            .status,
        304
    );

    let of = |method: &str, path: &str| sidecar.send(method, path, &[], &[]);
    let list = sidecar.get("/v1/jobs?state=succeeded&limit=1").json();
    assert_eq!(list["jobs"][0]["id"], id.as_str());
    assert_eq!(
        of("POST", &format!("/v1/jobs/{id}/cancel")).status,
        200,
        "it is over already"
    );
    assert_eq!(of("DELETE", &format!("/v1/jobs/{id}")).status, 204);
    assert_eq!(sidecar.get(&format!("/v1/jobs/{id}")).code(), "gone");
    assert_eq!(sidecar.get(href).code(), "gone");
    assert!(sidecar.end(Signal::SIGTERM).success());
}

#[test]
fn the_same_request_is_one_job_however_often_it_is_sent() {
    let bench = Bench::new(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &[]);
    let spec = by_path(&bench.path(""));
    let answers: Vec<_> = std::thread::scope(|scope| {
        let send = || scope.spawn(|| sidecar.submit("the same", &spec));
        let threads: Vec<_> = (0..100).map(|_| send()).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("an answer"))
            .collect()
    });
    let ids: Vec<String> = answers
        .iter()
        .map(kiln_tests::sidecar::Answer::id)
        .collect();
    assert!(ids.iter().all(|other| *other == ids[0]), "{ids:?}");
    let fresh = answers
        .iter()
        .filter(|answer| !answer.headers.contains_key("idempotency-replayed"));
    assert_eq!(fresh.count(), 1);
    let mut other = spec.clone();
    other["seed"] = 7.into();
    assert_eq!(
        sidecar.submit("the same", &other).code(),
        "idempotency_key_reused"
    );
    let headers = [("content-type", "application/json")];
    let missing = sidecar.send("POST", "/v1/jobs", &headers, spec.to_string().as_bytes());
    assert_eq!(missing.code(), "idempotency_key_missing");
    assert_eq!(sidecar.finished(&ids[0])["starts"], 1);
}

#[test]
fn inputs_can_be_sent_as_blobs_and_as_parts() {
    let bench = Bench::new(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &[]);
    let put = |bytes: &[u8]| sidecar.put(bytes);
    let (mesh, first) = put(b"a mesh");
    let (_, second) = put(b"a mesh");
    assert_eq!((first, second), (201, 200));
    let (views, _) = put(b"{}");
    let wrong = sidecar.send("PUT", &format!("/v1/blobs/{views}"), &[], b"other");
    // It is stored already, so the bytes are not read.
    assert_eq!(wrong.status, 200);
    let never = sha256(b"never sent");
    let wrong = sidecar.send("PUT", &format!("/v1/blobs/{never}"), &[], b"other");
    assert_eq!(wrong.code(), "digest_mismatch");
    assert_eq!(
        sidecar
            .send("HEAD", &format!("/v1/blobs/{never}"), &[], &[])
            .status,
        404
    );
    let spec = json!({
        "mesh": {"files": {"a/mesh.glb": mesh}, "main": "a/mesh.glb"},
        "views": {"files": {"transforms.json": views}, "main": "transforms.json"},
        "texture_size": 256,
    });
    let job = sidecar.finished(&sidecar.submit("blobs", &spec).id());
    assert_eq!(job["state"], "succeeded", "{job:#}");
    let mut lacking = spec.clone();
    lacking["views"]["files"]["images/0.png"] = never.into();
    let answer = sidecar.submit("lacking", &lacking);
    assert_eq!(
        (answer.code().as_str(), &answer.json()["field"]),
        ("invalid_spec", &json!("files"))
    );

    let part = |name: &str, file: &str, text: &str| {
        let file = if file.is_empty() {
            String::new()
        } else {
            format!("; filename=\"{file}\"")
        };
        format!("--XX\r\ncontent-disposition: form-data; name=\"{name}\"{file}\r\n\r\n{text}\r\n")
    };
    let form = |parts: &[String]| {
        let headers = [
            ("content-type", "multipart/form-data; boundary=XX"),
            ("idempotency-key", "form"),
        ];
        sidecar.send(
            "POST",
            "/v1/jobs",
            &headers,
            format!("{}--XX--\r\n", parts.concat()).as_bytes(),
        )
    };
    let spec = part("spec", "", "{\"texture_size\": 256}");
    let (mesh, views) = (
        part("mesh", "mesh.glb", "a mesh"),
        part("views", "transforms.json", "{}"),
    );
    let bad = form(&[
        spec.clone(),
        part("mesh", "../mesh.glb", "a mesh"),
        views.clone(),
    ]);
    assert_eq!(bad.code(), "invalid_request");
    // A PLY or a GLB may be splats, which need no views.
    let alone = part("mesh", "mesh.obj", "a mesh");
    assert_eq!(form(&[spec.clone(), alone]).code(), "invalid_request");
    let job = sidecar.finished(&form(&[spec, mesh, views]).id());
    assert_eq!(job["state"], "succeeded", "{job:#}");
    assert_eq!(
        fs::read_dir(bench.path("store/spool"))
            .expect("there")
            .count(),
        0
    );
}

#[test]
fn what_cannot_be_done_is_refused_in_the_words_of_a_closed_list() {
    let bench = Bench::new(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &[]);
    let spec = by_path(&bench.path(""));
    for (key, value, field) in [
        ("texture_size", json!(1023), "texture_size"),
        ("pages", json!(2), "pages"),
        ("qualty", json!("draft"), "qualty"),
        ("mesh", json!({"path": "/etc/passwd"}), "mesh"),
        ("mesh", json!({"path": bench.path("../x/mesh.glb")}), "mesh"),
        ("views", json!({"path": "transforms.json"}), "views"),
    ] {
        let mut spec = spec.clone();
        spec[key] = value;
        let answer = sidecar.submit(key, &spec);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (422, "invalid_spec")
        );
        assert_eq!(answer.json()["field"], field, "{:?}", answer.json());
    }
    let key = ("idempotency-key", "k");
    for (method, path, headers, body, code) in [
        ("GET", "/v1", vec![], "", "not_found"),
        ("GET", "/v1/jobs/1", vec![], "", "not_found"),
        ("GET", "/v1/jobs/%FF", vec![], "", "invalid_request"),
        (
            "GET",
            "/v1/jobs/0123456789abcdef0123456789abcdef",
            vec![],
            "",
            "not_found",
        ),
        ("PUT", "/v1/jobs", vec![], "", "method_not_allowed"),
        (
            "POST",
            "/v1/jobs",
            vec![key, ("content-type", "text/plain")],
            "x",
            "unsupported_media_type",
        ),
        (
            "POST",
            "/v1/jobs",
            vec![key, ("content-type", "application/json")],
            "{",
            "invalid_spec",
        ),
        ("GET", "/v1/jobs?limit=0", vec![], "", "invalid_request"),
        ("GET", "/v1/jobs?cursor=x", vec![], "", "invalid_request"),
        ("PUT", "/v1/blobs/abc", vec![], "x", "invalid_request"),
    ] {
        let answer = sidecar.send(method, path, &headers, body.as_bytes());
        assert_eq!(answer.code(), code, "{method} {path}");
    }
    let large = vec![b' '; (1 << 20) + 1];
    let headers = [key, ("content-type", "application/json")];
    assert_eq!(
        sidecar.send("POST", "/v1/jobs", &headers, &large).code(),
        "payload_too_large"
    );
    let refused = sidecar.send("POST", "/v1/jobs", &headers, &large).json();
    let said = refused["detail"].as_str().expect("text");
    assert!(said.contains("1048576 bytes"), "{said}");
    assert!(
        sidecar.get("/v1/jobs").json()["jobs"]
            .as_array()
            .expect("a list")
            .is_empty()
    );
}

#[test]
fn a_failed_job_is_told_as_data_with_all_that_is_known() {
    let plan = Plan::always(Role::Bake, Step::Work, Fault::Signal(11));
    let bench = Bench::new(&plan);
    let sidecar = Sidecar::start(&bench, &[]);
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", "k"),
        ("prefer", "wait=60"),
    ];
    let spec = by_path(&bench.path("")).to_string();
    let answer = sidecar.send("POST", "/v1/jobs", &headers, spec.as_bytes());
    assert_eq!(answer.status, 200, "it was waited for");
    let job = answer.json();
    assert_eq!(job["state"], "failed");
    let error = &job["error"];
    assert_eq!(
        (&error["code"], &error["class"], &error["signal"]),
        (
            &json!("worker_crashed"),
            &json!("ambiguous"),
            &json!("SIGSEGV")
        )
    );
    assert_eq!(job["attempts"].as_array().expect("a list").len(), 3);
    assert!(error["log_tail"].to_string().contains("about to commit"));
    assert!(job["artifacts"].as_array().expect("a list").is_empty());
    let metrics = String::from_utf8(sidecar.get("/metrics").body).expect("text");
    assert!(
        metrics.contains("kiln_jobs_total{outcome=\"failed\",code=\"worker_crashed\"} 1"),
        "{metrics}"
    );
    assert!(
        metrics.contains("kiln_worker_exits_total{role=\"bake\",how=\"SIGSEGV\"} 2"),
        "{metrics}"
    );
}

#[test]
fn jobs_are_cancelled_while_they_wait_and_while_they_work() {
    let plan = Plan::always(Role::Bake, Step::Work, Fault::Hear);
    let bench = Bench::new(&plan);
    let alive = bench.alive();
    let sidecar = Sidecar::start(&bench, &["--parallel", "1", "--stall-timeout", "100"]);
    let spec = by_path(&bench.path(""));
    let of = |method: &str, path: &str| sidecar.send(method, path, &[], &[]);
    let [first, second] = ["1", "2"].map(|key| sidecar.submit(key, &spec).id());
    sidecar.wait_baking(&first);
    assert_eq!(
        sidecar.get(&format!("/v1/jobs/{second}")).json()["state"],
        "queued"
    );
    assert_eq!(
        of("DELETE", &format!("/v1/jobs/{second}")).code(),
        "job_running"
    );
    for job in [&second, &first] {
        assert_eq!(
            sidecar
                .send("POST", &format!("/v1/jobs/{job}/cancel"), &[], &[])
                .status,
            202
        );
        let job = sidecar.finished(job);
        assert_eq!(
            (&job["state"], &job["error"]["code"]),
            (&json!("cancelled"), &json!("cancelled"))
        );
    }
    assert!(sidecar.end(Signal::SIGTERM).success());
    wait_all_gone(&alive);
}

#[test]
fn a_full_queue_says_so_and_harms_no_accepted_job() {
    let plan = Plan::always(Role::Bake, Step::Work, Fault::Hear);
    let bench = Bench::new(&plan);
    let mut word = bench.told();
    let sidecar = Sidecar::start(
        &bench,
        &words("--parallel 1 --queue-jobs 2 --stall-timeout 100"),
    );
    let spec = by_path(&bench.path(""));
    let first = sidecar.submit("0", &spec).id();
    sidecar.wait_baking(&first);
    let waiting: Vec<String> = ["1", "2"].map(|key| sidecar.submit(key, &spec).id()).into();
    let refused = sidecar.submit("3", &spec);
    assert_eq!(refused.problem(), (429, "queue_full".to_owned()));
    assert!(refused.headers["retry-after"].parse::<u32>().is_ok());
    word.write_all(b"go!").expect("room");
    for job in [vec![first], waiting].concat() {
        assert_eq!(sidecar.finished(&job)["state"], "succeeded");
    }
}

/// Every accepted job is there, has ended, and was done once.
fn assert_all_done(bench: &Bench, jobs: &[String]) {
    let sidecar = Sidecar::start(bench, &["--parallel", "4"]);
    for job in jobs {
        let found = sidecar.finished(job);
        assert_eq!(found["state"], "succeeded", "{found:#}");
        assert_eq!(found["artifacts"][0]["sha256"], sha256(&RESULT));
    }
    let list = sidecar.get("/v1/jobs?limit=100").json();
    assert_eq!(
        list["jobs"].as_array().expect("a list").len(),
        jobs.len(),
        "none doubled"
    );
    assert!(sidecar.end(Signal::SIGTERM).success());
}

#[test]
fn whatever_was_accepted_outlives_kill_9() {
    let bench = Bench::new(&Plan::healthy());
    let alive = bench.alive();
    let mut accepted = Vec::new();
    for round in 0..20_usize {
        let sidecar = Sidecar::start(&bench, &["--parallel", "3"]);
        for number in 0..4 {
            let answer = sidecar.submit(&format!("{round}-{number}"), &by_path(&bench.path("")));
            assert_eq!(answer.status, 202);
            accepted.push(answer.id());
        }
        // Somewhere midway: each round a few events later.
        let last = accepted.last().expect("a job").clone();
        let mut left = round;
        drop(sidecar.events(&last, None, |_| {
            left = left.saturating_sub(1);
            left == 0
        }));
        drop(sidecar);
        wait_all_gone(&alive);
    }
    assert_all_done(&bench, &accepted);
    let folders = fs::read_dir(bench.path("store/jobs"))
        .expect("there")
        .count();
    assert_eq!(folders, accepted.len());
}

#[test]
fn told_to_leave_it_takes_no_more_jobs_and_puts_back_what_runs() {
    let plan = Plan::always(Role::Bake, Step::Work, Fault::Stall);
    let bench = Bench::new(&plan);
    let alive = bench.alive();
    let sidecar = Sidecar::start(&bench, &["--parallel", "1", "--stall-timeout", "100"]);
    let spec = by_path(&bench.path(""));
    let jobs: Vec<String> = ["1", "2"].map(|key| sidecar.submit(key, &spec).id()).into();
    sidecar.wait_baking(&jobs[0]);
    kiln_tests::signal_to(sidecar.pid(), Signal::SIGTERM);
    // The signal arrives in a moment.
    let refused = loop {
        let answer = sidecar.submit("3", &spec);
        if answer.status == 503 {
            break answer;
        }
        assert_eq!(answer.status, 202);
    };
    assert_eq!(refused.code(), "draining");
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(sidecar.get("/readyz").status, 503);
    assert_eq!(sidecar.get("/livez").status, 200);
    // The second signal ends the wait for the process that does not end.
    assert!(sidecar.end(Signal::SIGTERM).success());
    wait_all_gone(&alive);
    bench.set_plan(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &["--parallel", "1"]);
    let first = sidecar.finished(&jobs[0]);
    assert_eq!(
        (&first["state"], &first["starts"]),
        (&json!("succeeded"), &json!(2))
    );
    assert_eq!(sidecar.finished(&jobs[1])["state"], "succeeded");
}

#[test]
fn two_sidecars_do_not_share_a_socket_or_a_store() {
    let bench = Bench::new(&Plan::healthy());
    let _sidecar = Sidecar::start(&bench, &[]);
    for (socket, words) in [("run/kiln.sock", "in use"), ("other.sock", "in use")] {
        let mut kiln = bench.kiln();
        kiln.args(["serve", "--store"])
            .arg(bench.path("store"))
            .arg("--socket")
            .arg(bench.path(socket));
        let output = kiln.output().expect("kiln starts");
        assert_eq!(output.status.code(), Some(73), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn by_tcp_only_who_has_the_token_comes_in() {
    use std::io::Read;
    let bench = Bench::new(&Plan::healthy());
    let (token, flags) = tcp_flags(&bench);
    let sidecar = Sidecar::start(&bench, &flags.each_ref().map(String::as_str));
    let address = sidecar.tcp.clone().expect("it said where");
    let ask = |headers: &str| {
        let mut stream = std::net::TcpStream::connect(&address).expect("a connection");
        write!(
            stream,
            "GET /v1/jobs HTTP/1.1\r\nconnection: close\r\n{headers}\r\n"
        )
        .expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text.split(' ').nth(1).expect("a status").to_owned()
    };
    let (host, bearer) = (
        format!("host: {address}\r\n"),
        format!("authorization: Bearer {token}\r\n"),
    );
    assert_eq!(ask(&format!("{host}{bearer}")), "200");
    assert_eq!(ask(&host), "401");
    assert_eq!(ask(&format!("host: evil.example\r\n{bearer}")), "403");
    assert_eq!(
        ask(&format!("{host}{bearer}origin: http://evil.example\r\n")),
        "403"
    );
}

#[test]
fn the_real_worker_proves_itself_and_bakes() {
    let bench = Bench::real();
    let [root, mesh, views] = ["", "mesh_nouv.glb", "transforms.json"]
        .map(|name| sample(name).canonicalize().expect("there"));
    let sidecar = Sidecar::confined(&bench, &["--root", root.to_str().expect("text")]);
    let spec = json!({
        "mesh": {"path": mesh},
        "views": {"path": views},
        "texture_size": 256, "quality": "draft", "device": "cpu", "preview": true, "html": true,
        "texture_format": "jpeg", "texture_quality": 60, "compress": "meshopt",
    });
    let known = sidecar.submit("real", &spec).id();
    let job = sidecar.finished(&known);
    assert_eq!(job["state"], "succeeded", "{job:#}");
    let model = sidecar.get(&format!("/v1/jobs/{known}/artifacts/model.glb"));
    let said = String::from_utf8_lossy(&model.body);
    for word in ["image/jpeg", "EXT_meshopt_compression"] {
        assert!(said.contains(word), "{word} in model.glb");
    }
    let names: Vec<&Value> = job["artifacts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|artifact| &artifact["name"])
        .collect();
    let wanted = ["model.glb", "preview.png", "report.html", "report.json"];
    assert_eq!(names, wanted);
    // The page is for the disk: nothing of it runs where the sidecar's own page does.
    let page = sidecar.get(&format!("/v1/jobs/{known}/artifacts/report.html"));
    for (header, wanted) in [
        ("content-type", "text/html; charset=utf-8"),
        (
            "content-disposition",
            "attachment; filename=\"report.html\"",
        ),
        ("content-security-policy", "sandbox"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(page.headers[header], wanted);
    }
    assert!(page.body.starts_with(b"<!doctype html>"));
    let ready = loop {
        let answer = sidecar.get("/readyz");
        if answer.status == 200 || !answer.json()["self_test"]["passed"].is_null() {
            break answer;
        }
    };
    assert_eq!(ready.status, 200, "{}", ready.json());
    assert_eq!(ready.json()["self_test"]["passed"], true);
}

#[test]
fn a_body_that_is_framed_wrongly_is_not_called_too_long() {
    let bench = Bench::new(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &[]);
    let mut stream = UnixStream::connect(bench.path("run/kiln.sock")).expect("it listens");
    let head = "POST /v1/jobs HTTP/1.1\r\nHost: kiln\r\nIdempotency-Key: a\r\nContent-Type: application/json\r\n";
    let body = "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a\"}\r\nzz\r\n";
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .expect("it reads");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 400");
    drop(sidecar);
}

/// The path of an upload.
fn blob(bench: &Bench, name: &str) -> std::path::PathBuf {
    bench
        .path("store/blobs")
        .join(name.get(..2).expect("hex"))
        .join(name)
}

fn of_blobs(mesh: &str, views: &str) -> Value {
    json!({
        "mesh": {"files": {"mesh.glb": mesh}, "main": "mesh.glb"},
        "views": {"files": {"transforms.json": views}, "main": "transforms.json"},
        "texture_size": 256,
    })
}

#[test]
fn an_upload_that_the_disk_lost_is_mended_by_sending_it_again() {
    let bench = Bench::new(&Plan::healthy());
    let mut sidecar = Sidecar::start(&bench, &[]);
    let views = sidecar.put(b"{}").0;
    for harm in ["lost", "cut", "changed", "changed between two runs"] {
        let (mesh, _) = sidecar.put(b"a mesh");
        let (place, path) = (format!("/v1/blobs/{mesh}"), blob(&bench, &mesh));
        fs::remove_file(&path).expect("it is there");
        match harm {
            "lost" => {}
            "cut" => fs::write(&path, "a me").expect("room"),
            _ => fs::write(&path, "a mess").expect("room"),
        }
        if harm.starts_with("changed") {
            // Each start begins a pass over all uploads.
            assert!(sidecar.end(Signal::SIGTERM).success());
            sidecar = Sidecar::start(&bench, &[]);
            while sidecar.send("HEAD", &place, &[], &[]).status == 200 {}
        }
        assert_eq!(sidecar.send("HEAD", &place, &[], &[]).status, 404, "{harm}");
        assert_eq!(sidecar.get(&place).code(), "not_found", "{harm}");
        let refused = sidecar.submit(harm, &of_blobs(&mesh, &views));
        assert_eq!(refused.code(), "invalid_spec", "{harm}");
        assert_eq!(sidecar.put(b"a mesh").1, 201, "{harm}");
        assert_eq!(sidecar.get(&place).body, b"a mesh", "{harm}");
        let done = sidecar.finished(&sidecar.submit(harm, &of_blobs(&mesh, &views)).id());
        assert_eq!(done["state"], "succeeded", "{harm}: {done:#}");
        let input = format!("store/jobs/{}/input", done["id"].as_str().expect("an id"));
        assert!(!bench.path(&input).exists(), "inputs go with the end");
    }
}

#[test]
fn a_job_whose_uploads_are_lost_while_it_waits_says_which() {
    let plan = Plan::always(Role::Bake, Step::Work, Fault::Hear);
    let bench = Bench::new(&plan);
    let mut word = bench.told();
    let sidecar = Sidecar::start(&bench, &["--parallel", "1", "--stall-timeout", "100"]);
    let first = sidecar.submit("first", &by_path(&bench.path(""))).id();
    sidecar.wait_baking(&first);
    let (mesh, views) = (sidecar.put(b"a mesh").0, sidecar.put(b"{}").0);
    let second = sidecar.submit("second", &of_blobs(&mesh, &views)).id();
    fs::remove_file(blob(&bench, &mesh)).expect("it is there");
    word.write_all(b"go").expect("room");
    let job = sidecar.finished(&second);
    assert_eq!(job["error"]["code"], "missing_input", "{job:#}");
    assert!(job["error"]["message"].to_string().contains(&mesh));
}

#[test]
fn a_store_that_is_gone_is_not_ready_at_once() {
    let bench = Bench::new(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &[]);
    let reasons = || sidecar.get("/readyz").json()["reasons"].to_string();
    assert!(!reasons().contains("the store"), "{}", reasons());
    fs::rename(bench.path("store"), bench.path("elsewhere")).expect("ours");
    assert!(reasons().contains("the store is not there any more"));
    fs::rename(bench.path("elsewhere"), bench.path("store")).expect("ours");
    assert!(!reasons().contains("the store"), "{}", reasons());
    // The sidecar may write a file between the listing of a folder and its end.
    while let Err(error) = fs::remove_dir_all(bench.path("store")) {
        assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty, "{error}");
    }
    assert!(reasons().contains("the store is not there any more"));
}

#[test]
fn many_jobs_with_long_specs_are_listed_in_little_memory() {
    const LIST: &str = "/v1/jobs?limit=100";
    let plan = Plan::always(Role::Bake, Step::Work, Fault::Stall);
    let bench = Bench::new(&plan);
    let mut sidecar = Sidecar::start(&bench, &["--parallel", "1", "--stall-timeout", "100"]);
    let (mesh, views) = (sidecar.put(b"a mesh").0, sidecar.put(b"{}").0);
    let mut spec = of_blobs(&mesh, &views);
    spec["name"] = "a long one".into();
    for number in 0..3500 {
        let name = format!("{}{number}.png", "folder/".repeat(26));
        spec["views"]["files"][name] = views.clone().into();
    }
    let bytes = spec.to_string().len();
    assert!((900_000..1 << 20).contains(&bytes), "{bytes}");
    let first = sidecar.submit("first", &by_path(&bench.path(""))).id();
    for key in 0..60 {
        let answer = sidecar.submit(&key.to_string(), &spec);
        let told = || String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status, 202, "{}", told());
    }
    let listed = |sidecar: &Sidecar| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| sidecar.get(LIST).json()))
                .collect();
            for thread in threads {
                let list = thread.join().expect("an answer");
                let jobs = list["jobs"].as_array().expect("a list");
                assert_eq!((jobs.len(), &list["cursor"]), (61, &Value::Null));
                assert_eq!(jobs[0]["name"], "a long one");
                assert!(jobs.iter().all(|job| job["spec"].is_null()));
                assert_eq!(jobs[60]["id"], first.as_str());
            }
        });
        let peak = kib_of(sidecar.pid(), "VmHWM").expect("alive");
        assert!(peak < 128 << 10, "{peak} KiB");
    };
    listed(&sidecar);
    // Opening does not read them all either.
    drop(sidecar);
    sidecar = Sidecar::start(&bench, &["--parallel", "1", "--stall-timeout", "100"]);
    listed(&sidecar);
}
