//! The sidecar behind a proxy: the names and pages that it knows, other sites' pages, health checks, answers that wait.

use kiln_tests::Bench;
use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::sidecar::{Answer, Sidecar, by_path, tcp_flags};
use proto::message::Role;
use serde_json::json;

const PUBLIC: &str = "https://kiln.example.org";
const HOST: &str = "kiln.example.org";
const APP: &str = "https://app.example.org";

/// A sidecar with a public name, whose API a page of [`APP`] may use; and its token.
fn behind(bench: &Bench) -> (Sidecar, &'static str) {
    let (token, flags) = tcp_flags(bench);
    let flags = flags.each_ref().map(String::as_str);
    let names = ["--public-url", PUBLIC, "--cors-origin", APP];
    let sidecar = Sidecar::start(bench, &[&flags[..], &names].concat());
    (sidecar, token)
}

#[test]
fn a_proxys_name_and_page_come_in_with_the_token_and_no_other() {
    let bench = Bench::new(&Plan::healthy());
    let (sidecar, token) = behind(&bench);
    let own = sidecar.tcp.clone().expect("it said where");
    let evil = "https://evil.example.org";
    // A proxy may pass the public name on, or ask by the address that it knows.
    for (host, origin, token, status) in [
        (HOST, PUBLIC, token, 200),
        (&own, PUBLIC, token, 200),
        (HOST, APP, token, 200),
        (HOST, PUBLIC, "wrong", 401),
        (HOST, evil, token, 403),
        (&own, evil, token, 403),
        ("evil.example.org", PUBLIC, token, 403),
    ] {
        let origin = [("origin", origin)];
        let answer = sidecar.send_to(host, token, "GET", "/v1/jobs", &origin, &[]);
        assert_eq!(answer.status, status, "{host} {origin:?} {answer:?}");
    }
    let headers = [
        ("origin", PUBLIC),
        ("content-type", "application/json"),
        ("idempotency-key", "one"),
    ];
    let spec = by_path(&bench.path("")).to_string();
    let job = sidecar.send_to(HOST, token, "POST", "/v1/jobs", &headers, spec.as_bytes());
    let id = job.id();
    // It resolves against the name by which the caller knows the sidecar.
    assert_eq!(job.headers["location"], format!("/v1/jobs/{id}"));
    assert_eq!(sidecar.finished(&id)["state"], "succeeded");
    let document = sidecar.get("/openapi.json").json();
    assert_eq!(document["servers"][0]["url"], PUBLIC);
}

#[test]
fn only_whether_it_lives_is_told_without_the_token() {
    let bench = Bench::new(&Plan::healthy());
    let (sidecar, _) = behind(&bench);
    let ask = |path: &str| sidecar.send_to("10.0.0.7:8017", "none", "GET", path, &[], &[]);
    let lives = ask("/livez");
    assert_eq!((lives.status, &lives.body[..]), (200, &b"ok\n"[..]));
    for path in ["/readyz", "/metrics", "/v1/capabilities", "/openapi.json"] {
        assert_eq!(ask(path).status, 403, "{path}");
    }
}

#[test]
fn a_page_of_a_listed_site_may_ask_and_read_and_of_another_it_may_not() {
    let bench = Bench::new(&Plan::healthy());
    let (sidecar, token) = behind(&bench);
    let allowed = |answer: &Answer| answer.headers.get("access-control-allow-origin").cloned();
    let preflight = |origin| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            (
                "access-control-request-headers",
                "authorization,idempotency-key",
            ),
        ];
        sidecar.send_to(HOST, "none", "OPTIONS", "/v1/jobs", &headers, &[])
    };
    let asked = preflight(APP);
    assert_eq!((asked.status, allowed(&asked).as_deref()), (204, Some(APP)));
    for (header, value) in [
        ("access-control-allow-methods", "DELETE"),
        ("access-control-allow-headers", "authorization"),
        ("access-control-allow-headers", "idempotency-key"),
        ("vary", "origin"),
    ] {
        assert!(asked.headers[header].contains(value), "{asked:?}");
    }
    let evil = preflight("https://evil.example.org");
    assert_eq!((evil.status, allowed(&evil)), (403, None));
    // The page reads why it is refused, too.
    for (token, status) in [(token, 200), ("wrong", 401)] {
        let answer = sidecar.send_to(HOST, token, "GET", "/v1/jobs", &[("origin", APP)], &[]);
        assert_eq!(
            (answer.status, allowed(&answer).as_deref()),
            (status, Some(APP))
        );
    }
    let own = sidecar.send_to(HOST, token, "GET", "/v1/jobs", &[("origin", PUBLIC)], &[]);
    assert_eq!((own.status, allowed(&own)), (200, None));
}

#[test]
fn what_is_no_site_and_what_faces_the_network_without_one_is_refused() {
    let bench = Bench::new(&Plan::healthy());
    let (_, flags) = tcp_flags(&bench);
    let file = flags[3].as_str();
    for (arguments, code, word) in [
        (
            &["--public-url", "https://kiln.example.org/kiln"][..],
            64,
            "no path",
        ),
        (&["--public-url", "kiln.example.org"], 64, "https://"),
        (
            &["--token-file", file, "--cors-origin", "*"],
            64,
            "https://",
        ),
        (&["--cors-origin", APP], 64, "--token-file"),
        (
            &["--token-file", file, "--tcp", "0.0.0.0:0"],
            64,
            "--public-url",
        ),
    ] {
        let mut kiln = bench.command(&["serve", "--insecure-no-sandbox"]);
        kiln.arg("--socket").arg(bench.path("run/kiln.sock"));
        kiln.arg("--store").arg(bench.path("store")).args(arguments);
        let output = kiln.output().expect("kiln starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {said}");
        assert!(said.contains(word), "{arguments:?} {said}");
    }
}

#[test]
fn an_answer_waits_for_the_end_of_its_job_and_for_no_longer_than_told() {
    let plan = Plan::always(Role::Bake, Step::Work, Fault::Hear);
    let bench = Bench::new(&plan);
    let sidecar = Sidecar::start(&bench, &["--stall-timeout", "100"]);
    let id = sidecar.submit("one", &by_path(&bench.path(""))).id();
    sidecar.wait_baking(&id);
    let ask = |query: &str| sidecar.get(&format!("/v1/jobs/{id}{query}"));
    for query in ["", "?wait=0", "?wait=1"] {
        assert_eq!(ask(query).json()["state"], "baking", "{query}");
    }
    for query in ["?wait=51", "?wait=-1", "?wait=", "?wait=soon", "?until=end"] {
        let refused = (400, "invalid_request".to_owned());
        assert_eq!(ask(query).problem(), refused, "{query}");
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ask("?wait=50").json());
        let path = format!("/v1/jobs/{id}/cancel");
        assert_eq!(sidecar.send("POST", &path, &[], &[]).status, 202);
        let job = waiting.join().expect("an answer");
        assert_eq!(job["state"], json!("cancelled"), "{job:#}");
    });
    assert_eq!(ask("?wait=50").json()["state"], "cancelled");
}
