//! `kiln worker` and the commands of jobs over a real NATS server and a store: each job is done once, whoever is killed. Files
//! and exit codes are as with `kiln bake`.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use kiln_tests::chance::Chance;
use kiln_tests::errand::{self, assert_refused, submit};
use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::fleet::{Host, Nats, Proxy, S3, Site, Spoilt, Wire, chaos};
use kiln_tests::sidecar::{Answer, sha256};
use kiln_tests::{Bench, made, names_in, read_json};
use nix::sys::signal::Signal;
use proto::message::Role;
use serde_json::Value;

/// What a healthy saboteur makes.
static RESULT: LazyLock<Vec<u8>> = LazyLock::new(|| made::model(&[], &[]));

/// Each bake waits until the test lets it go on.
fn held() -> Plan {
    Plan::always(Role::Bake, Step::Work, Fault::Hear)
}

/// A queue, a folder as store, and one host.
fn fleet(plan: Plan) -> (Nats, tempfile::TempDir, Site, Host) {
    let nats = Nats::start("");
    let store = tempfile::tempdir().expect("a folder");
    let site = Site::with_folder(&nats, store.path());
    let host = Host::start("one", &site, plan);
    (nats, store, site, host)
}

fn job_folder(store: &Path, id: &str) -> std::path::PathBuf {
    store.join("tenants/default/jobs").join(id)
}

/// The result is the saboteur's, it was made by `attempt`, and no message is left.
fn assert_done(nats: &Nats, store: &Path, id: &str, attempts: &[&str]) {
    let folder = job_folder(store, id);
    let result = read_json(&folder.join("result.json"));
    assert_eq!(result["state"], "succeeded", "{result:#}");
    let number = result["attempt"].as_u64().expect("a number");
    let model = fs::read(folder.join(format!("attempt-{number}/model.glb")));
    assert!(model.expect("the model") == *RESULT, "the bytes are right");
    let hosts: Vec<String> = (1..=attempts.len())
        .map(|number| {
            let attempt = read_json(&folder.join(format!("attempts/{number}.json")));
            attempt["host"].as_str().expect("a host").to_owned()
        })
        .collect();
    assert_eq!(hosts, attempts);
    assert_eq!(names_in(&folder.join("attempts")).len(), attempts.len());
    nats.wait_empty();
    assert_eq!(nats.dead(), 0);
}

#[test]
fn a_job_goes_through_queue_and_s3_as_through_a_sidecar() {
    let (nats, s3) = (Nats::start(""), S3::start());
    let site = Site::with_s3(&nats, s3.port);
    let host = Host::start("one", &site, Plan::healthy());
    let bench = &host.bench;
    let more = [
        "--wait",
        "-o",
        "out/a.glb",
        "--report",
        "out/a.json",
        "--name",
        "chair",
    ];
    let done = site.kiln(bench, &submit(&more));
    done.assert_code(0);
    assert_eq!(done.stdout, ["out/a.glb"], "standard output is the path");
    assert!(done.stderr.contains("PSNR 42.0 dB"), "{}", done.stderr);
    assert!(
        done.stderr.contains("2 files") && done.stderr.contains("of which the store had 0"),
        "{}",
        done.stderr
    );
    assert!(bench.bytes("out/a.glb").expect("there") == *RESULT);
    assert!(read_json(&bench.path("out/a.json"))["psnr"].is_object());

    let status = site.kiln(bench, &["status", "latest", "--json"]);
    let job = &status.events[0];
    assert_eq!(
        (&job["state"], &job["host"]),
        (&"succeeded".into(), &"one".into())
    );
    assert_eq!(job["artifacts"][0]["sha256"], sha256(&RESULT).as_str());
    let id = job["id"].as_str().expect("an id");
    let people = site.kiln(bench, &["status", &id[..12]]);
    assert!(
        people.stdout.contains(&"state     succeeded".to_owned()),
        "{:?}",
        people.stdout
    );
    let list = site.kiln(bench, &["list"]);
    assert!(
        list.stdout[1].starts_with(id) && list.stdout[1].ends_with("chair"),
        "{:?}",
        list.stdout
    );
    assert!(
        site.kiln(bench, &["list", "--state", "failed"])
            .stdout
            .is_empty()
    );
    site.kiln(bench, &["fetch", id, "-o", "out/all/"])
        .assert_code(0);
    assert_eq!(
        names_in(&bench.path("out/all")),
        ["model.glb", "report.json"]
    );
    site.kiln(bench, &["wait", id, "-o", "out/b.glb"])
        .assert_code(0);
    assert!(bench.bytes("out/b.glb").expect("there") == *RESULT);
    assert_refused(
        &site.kiln(bench, &["status", &"f".repeat(32)]),
        66,
        "no such job",
    );
    assert_refused(
        &site.kiln(bench, &["fetch", id, "model.obj"]),
        66,
        "made model.glb",
    );
    nats.wait_empty();

    // With the same key it is the same job; with another spec it is refused.
    let first = site.submitted(bench, &["--key", "k"]);
    assert_eq!(site.submitted(bench, &["--key", "k"]), first);
    let other = submit(&["-q", "--key", "k", "--holdout", "1"]);
    assert_refused(&site.kiln(bench, &other), 64, "another spec");
    site.kiln(bench, &["wait", &first]).assert_code(0);
    // A message of a job that is over, as after a lost ack, is acked and does nothing.
    nats.wire().publish("kiln.jobs.default", id);
    nats.wait_empty();
    let again = site.kiln(bench, &["status", id, "--json"]);
    assert_eq!(again.events[0], *job);
}

#[test]
fn a_job_outlives_its_worker_its_sidecar_and_the_queue() {
    let (mut nats, store, site, mut host) = fleet(held());
    for victim in ["worker", "queue", "sidecar", "drained"] {
        host.plan(held());
        let id = site.submitted(&host.bench, &[]);
        host.wait_baking();
        match victim {
            "worker" => {
                host.worker.take().expect("a worker").end(Signal::SIGKILL);
                host.work(&site, &[]).wait_for("takes jobs");
            }
            "queue" => nats.restart(),
            "sidecar" => {
                let sidecar = host.sidecar.take().expect("a sidecar");
                sidecar.end(Signal::SIGKILL);
                host.bench.wait_workers_gone();
                // Its job goes on by itself.
                host.plan(Plan::healthy());
                host.serve();
            }
            _ => {
                // Told to leave, it finishes what it has.
                let worker = host.worker.as_mut().expect("a worker");
                kiln_tests::signal_to(worker.pid(), Signal::SIGTERM);
                worker.wait_for("leaving");
            }
        }
        if victim != "sidecar" {
            host.release();
        }
        site.kiln(&host.bench, &["wait", &id, "-q"]).assert_code(0);
        assert_done(&nats, store.path(), &id, &["one"]);
    }
}

#[test]
fn a_host_that_leaves_or_is_lost_hands_its_job_to_another() {
    let (nats, store, site, mut first) = fleet(held());
    // Without grace: the attempt does not count.
    first
        .work(&site, &["--grace", "0.1"])
        .wait_for("takes jobs");
    let left = site.submitted(&first.bench, &[]);
    let local = first.wait_baking();
    let code = first.worker.take().expect("a worker").end(Signal::SIGTERM);
    assert_eq!(code, Some(0));
    let sidecar = first.sidecar.as_ref().expect("a sidecar");
    let ended = sidecar.finished(&local);
    assert_eq!(ended["state"], "cancelled", "{ended:#}");
    let attempt = read_json(&job_folder(store.path(), &left).join("attempts/1.json"));
    assert_eq!(attempt["counts"], false);
    assert!(!store.path().join("hosts/one.json").exists());
    let mut second = Host::start("two", &site, Plan::healthy());
    site.kiln(&second.bench, &["wait", &left, "-q"])
        .assert_code(0);
    assert_done(&nats, store.path(), &left, &["one", "two"]);

    // Its message comes back after the time for acks.
    second.worker.take().expect("a worker").end(Signal::SIGTERM);
    first.plan(held());
    first.work(&site, &[]).wait_for("takes jobs");
    let lost = site.submitted(&first.bench, &[]);
    first.wait_baking();
    (first.worker, first.sidecar) = (None, None);
    second.work(&site, &[]).wait_for("takes jobs");
    site.kiln(&second.bench, &["wait", &lost, "-q"])
        .assert_code(0);
    assert_done(&nats, store.path(), &lost, &["one", "two"]);
}

#[test]
fn a_poison_job_ends_among_the_dead_and_its_host_serves_on() {
    let died = Plan::always(Role::Prepare, Step::Work, Fault::Signal(11));
    let (nats, store, site, host) = fleet(died);
    let id = site.submitted(&host.bench, &[]);
    let waited = site.kiln(&host.bench, &["wait", &id]);
    waited.assert_code(70);
    assert!(waited.stderr.contains("SIGSEGV"), "{}", waited.stderr);
    nats.wait_empty();
    assert_eq!(nats.dead(), 1);
    let result = read_json(&job_folder(store.path(), &id).join("result.json"));
    let attempts = result["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.len(), 3);
    assert!(
        attempts.iter().all(|attempt| attempt["exit_code"] == 70),
        "{result:#}"
    );
    host.plan(Plan::healthy());
    let next = site.submitted(&host.bench, &[]);
    site.kiln(&host.bench, &["wait", &next]).assert_code(0);

    // What is wrong with the job itself, no other host is asked about; and a message of no job is laid aside.
    let fail = Fault::Fail(proto::message::Code::InvalidAsset);
    host.plan(Plan::always(Role::Prepare, Step::Work, fail));
    let wrong = site.submitted(&host.bench, &[]);
    site.kiln(&host.bench, &["wait", &wrong]).assert_code(65);
    assert_eq!(
        names_in(&job_folder(store.path(), &wrong).join("attempts")).len(),
        1
    );
    nats.wire().publish("kiln.jobs.default", &"0".repeat(32));
    nats.wire().publish("kiln.jobs.default", "../../escape");
    nats.wait_empty();
    assert_eq!(nats.dead(), 2);
}

#[test]
fn a_cancelled_job_ends_whether_it_runs_or_waits() {
    let (nats, store, site, mut host) = fleet(held());
    let running = site.submitted(&host.bench, &[]);
    let local = host.wait_baking();
    let waiting = site.start(&host.bench, &["wait", &running, "--json"]);
    site.kiln(&host.bench, &["cancel", &running]).assert_code(0);
    assert_eq!(waiting.finish().code, Some(130));
    let sidecar = host.sidecar.as_ref().expect("a sidecar");
    // Its sidecar has forgotten it, or knows that it is cancelled.
    let over = |there: Answer| there.status == 410 || there.json()["state"] == "cancelled";
    while !over(sidecar.get(&format!("/v1/jobs/{local}"))) {}
    nats.wait_empty();

    host.worker.take().expect("a worker").end(Signal::SIGTERM);
    let queued = site.submitted(&host.bench, &[]);
    site.kiln(&host.bench, &["cancel", &queued]).assert_code(0);
    host.work(&site, &[]).wait_for("takes jobs");
    site.kiln(&host.bench, &["wait", &queued]).assert_code(130);
    nats.wait_empty();
    assert!(!job_folder(store.path(), &queued).join("attempts").exists());
}

#[test]
fn a_sidecar_passes_its_jobs_on_and_finds_them_again() {
    let (nats, store, site, mut host) = fleet(Plan::healthy());
    let bench = Bench::new(&Plan::healthy());
    let mut front = site.front(&bench);
    let ready = || front.get("/readyz").status == 200;
    while !ready() {}
    // With uploads, and with paths beneath its root.
    for more in [&[][..], &["--by-path"]] {
        let more = [
            &["--wait", "-o", "out/a.glb", "--report", "out/a.json"],
            more,
        ]
        .concat();
        errand::kiln(&bench, &submit(&more)).assert_code(0);
        assert!(bench.bytes("out/a.glb").expect("there") == *RESULT);
        assert!(read_json(&bench.path("out/a.json"))["psnr"].is_object());
    }
    nats.wait_empty();

    // A sidecar that is killed finds its job again, and no host does it twice.
    host.plan(held());
    let id = errand::submitted(&bench, &["-q"]);
    host.wait_baking();
    front.end(Signal::SIGKILL);
    front = site.front(&bench);
    host.release();
    errand::kiln(&bench, &["wait", &id, "-o", "out/b.glb"]).assert_code(0);
    assert!(bench.bytes("out/b.glb").expect("there") == *RESULT);
    assert_done(&nats, store.path(), &id, &["one"]);

    // What ends badly there ends so here, and what is cancelled here is cancelled there.
    host.plan(Plan::always(
        Role::Prepare,
        Step::Work,
        Fault::Fail(proto::message::Code::InvalidAsset),
    ));
    let failed = errand::kiln(&bench, &submit(&["--wait", "-o", "out/c.glb"]));
    failed.assert_code(65);
    assert!(
        failed.stderr.contains("the saboteur says no"),
        "{}",
        failed.stderr
    );
    host.plan(held());
    let id = errand::submitted(&bench, &["-q"]);
    host.wait_baking();
    errand::kiln(&bench, &["cancel", &id]).assert_code(0);
    errand::kiln(&bench, &["wait", &id]).assert_code(130);
    nats.wait_empty();
    let result = read_json(&job_folder(store.path(), &id).join("result.json"));
    assert_eq!(result["state"], "cancelled");

    // Without a queue it is not ready, and says why; a job waits for the queue.
    drop(host);
    drop(nats);
    drop(front);
    let front = site.front(&bench);
    let told = loop {
        let told = front.get("/readyz").json();
        if told["reasons"].to_string().contains("the queue") {
            break told;
        }
    };
    assert_eq!(told["ready"], false);
}

#[test]
fn a_store_that_fails_and_lies_gives_no_wrong_file() {
    let (nats, s3) = (Nats::start(""), S3::start());
    // Every fifth request fails; every input and every result comes once cut, and once with another byte.
    let proxy = Proxy::start(
        s3.port,
        Box::new(|number, line| {
            use std::sync::atomic::{AtomicUsize, Ordering};
            static BLOBS: AtomicUsize = AtomicUsize::new(0);
            static MODELS: AtomicUsize = AtomicUsize::new(0);
            let spoil = |count: &AtomicUsize| match count.fetch_add(1, Ordering::Relaxed) {
                0 => Spoilt::Half,
                1 => Spoilt::Changed,
                _ => Spoilt::Not,
            };
            match line {
                line if line.starts_with("GET") && line.contains("/blobs/") => spoil(&BLOBS),
                line if line.starts_with("GET") && line.contains("model.glb") => spoil(&MODELS),
                _ if number % 5 == 0 => Spoilt::Error,
                _ => Spoilt::Not,
            }
        }),
    );
    let site = Site::with_s3(&nats, proxy.port);
    let host = Host::start("one", &site, Plan::healthy());
    for name in ["a", "b", "c"] {
        let output = format!("out/{name}.glb");
        site.kiln(&host.bench, &submit(&["--wait", "-o", &output]))
            .assert_code(0);
        assert!(host.bench.bytes(&output).expect("there") == *RESULT);
    }
    nats.wait_empty();
    assert_eq!(nats.dead(), 0);
    let spoilt = proxy.spoilt();
    for what in [Spoilt::Error, Spoilt::Half, Spoilt::Changed] {
        assert!(
            spoilt.iter().any(|(how, _)| *how == what),
            "{what:?}: {spoilt:?}"
        );
    }

    // Inputs that stay wrong are told, and nothing is made of them.
    let wrong = Proxy::start(
        s3.port,
        Box::new(
            |_, line| match line.starts_with("GET") && line.contains("model.glb") {
                true => Spoilt::Changed,
                false => Spoilt::Not,
            },
        ),
    );
    let site = Site::with_s3(&nats, wrong.port);
    let failed = site.kiln(
        &host.bench,
        &["fetch", "latest", "model.glb", "-o", "out/d.glb"],
    );
    assert_refused(&failed, 74, "other bytes");
    assert!(!host.bench.path("out/d.glb").exists());
}

#[test]
fn a_tenant_sees_nothing_of_another() {
    // Seeds of nkeys: bytes of 1, of 2 and of 3.
    let keys = [
        (
            "alice",
            "UCFIRY65OQE7DFP5KLNS2PF2LVZMUZYJX4OZIEQ36N2IQANUB5XVZ45L",
            "SUAACAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAN7EY",
        ),
        (
            "bob",
            "UCATS5YOVB6ROX2WUNKGNQ2MP3GMXDMKSG2O4N5CLX3A6W4PZGZZJPJO",
            "SUAAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAT6EE",
        ),
    ];
    let worker = (
        "UDWUSKGGFDI4FRXK5EBTRECZSVQSSWJHHJOGH6JWG3AUMFFMQ435C2U4",
        "SUAAGAYDAMBQGAYDAMBQGAYDAMBQGAYDAMBQGAYDAMBQGAYDAMBQGA6BEM",
    );
    let may = |tenant: &str| {
        format!(
            "permissions: {{ publish: [\"kiln.jobs.{tenant}\", \"kiln.cancel.{tenant}.*\"], \
             subscribe: [\"kiln.events.{tenant}.*\", \"_INBOX_{tenant}.>\"] }}"
        )
    };
    let users: Vec<String> = keys
        .iter()
        .map(|(tenant, public, _)| format!("{{ nkey: {public}, {} }}", may(tenant)))
        .collect();
    let eve = format!("{{ user: eve, password: eve, {} }}", may("eve"));
    let text = format!(
        "authorization {{ users: [ {{ nkey: {} }}, {}, {eve} ] }}",
        worker.0,
        users.join(", ")
    );
    let nats = Nats::start(&text);
    let store = tempfile::tempdir().expect("a folder");
    let site = Site::with_folder(&nats, store.path());
    let bench = Bench::new(&Plan::healthy());
    let key = |name: &str, seed: &str| {
        let path = bench.path(name);
        fs::write(&path, format!("{seed}\n")).expect("room");
        path.display().to_string()
    };
    let as_worker = site
        .clone()
        .and("KILN_CREDENTIALS", key("worker.nk", worker.1));
    let host = Host::start("one", &as_worker, Plan::healthy());
    let [alice, bob] = keys.map(|(tenant, _, seed)| {
        let site = site.clone().and("KILN_TENANT", tenant);
        site.and("KILN_CREDENTIALS", key(&format!("{tenant}.nk"), seed))
    });
    let done = alice.kiln(&bench, &submit(&["--wait", "-o", "out/a.glb", "--json"]));
    let id = done.one("accepted")["job"]
        .as_str()
        .expect("an id")
        .to_owned();
    done.assert_code(0);
    assert!(
        !done.all("progress").is_empty(),
        "events came: {:?}",
        done.stdout
    );
    assert!(bob.kiln(&bench, &["list", "-q"]).stdout.is_empty());
    for command in [
        &["status", id.as_str()][..],
        &["fetch", id.as_str()],
        &["cancel", id.as_str()],
    ] {
        assert_refused(&bob.kiln(&bench, command), 66, "no such job");
    }
    // Bob's key does not open alice's queue; no key opens none.
    let false_bob = bob.clone().and("KILN_TENANT", "alice");
    assert_refused(&false_bob.kiln(&bench, &submit(&["-q"])), 77, "ermissions");
    assert_refused(&site.kiln(&bench, &submit(&["-q"])), 77, "uthorization");
    // By hand, too: what is not one's own is refused by the server.
    let connect = r#"{"verbose":false,"user":"eve","pass":"eve"}"#;
    let mut wire = Wire::open(nats.port, connect).expect("let in");
    for command in [
        "SUB kiln.events.alice.* 2",
        "SUB _INBOX_alice.> 3",
        "SUB kiln.> 4",
        "PUB kiln.jobs.alice 1\r\nx",
        "PUB $JS.API.STREAM.INFO.KILN_JOBS 0\r\n",
    ] {
        let said = wire.command(command);
        assert!(
            said.iter()
                .any(|line| line.contains("Permissions Violation")),
            "{command}: {said:?}"
        );
    }
    let result: Value = read_json(
        &store
            .path()
            .join(format!("tenants/alice/jobs/{id}/result.json")),
    );
    assert_eq!(result["state"], "succeeded");
    drop(host);
}

#[test]
fn no_job_is_lost_or_done_twice_whoever_is_killed() {
    let toll = chaos::endure(12, 6, &mut Chance::new(5)).to_string();
    assert!(toll.contains("6 killed or cut off"), "{toll}");
}

#[test]
fn what_is_not_there_is_told_in_one_line() {
    let bench = Bench::new(&Plan::healthy());
    let store = bench.path("fleet").display().to_string();
    let free = format!("nats://127.0.0.1:{}", kiln_tests::fleet::free_port());
    let nats = Nats::start("");
    let site = Site::with_folder(&nats, &bench.path("fleet"));
    for (site, arguments, code, words) in [
        (
            site.clone().and("KILN_QUEUE", free),
            submit(&["-q"]),
            69,
            "the queue",
        ),
        (
            site.clone().and("KILN_QUEUE", ""),
            vec!["list"],
            64,
            "a store needs a queue",
        ),
        (
            site.clone().and("KILN_STORE", ""),
            vec!["list"],
            64,
            "a queue needs a store",
        ),
        (
            site.clone().and("KILN_STORE", "ftp://x/y"),
            vec!["list"],
            64,
            "ftp://x/y",
        ),
        (
            site.clone().and("KILN_TENANT", "a/b"),
            vec!["list"],
            64,
            "the tenant",
        ),
        (
            site.clone().and("KILN_CREDENTIALS", "none.creds"),
            submit(&["-q"]),
            64,
            "none.creds",
        ),
        (
            site.clone(),
            vec!["list", "--socket", "x.sock", "--queue", "q"],
            64,
            "--socket",
        ),
        (
            site.clone().and("KILN_QUEUE", "").and("KILN_STORE", ""),
            vec!["worker"],
            64,
            "--queue",
        ),
        (
            site.clone().and("KILN_QUEUE", "").and("KILN_STORE", ""),
            vec!["serve", "--fleet"],
            64,
            "KILN_QUEUE and KILN_STORE",
        ),
    ] {
        assert_refused(&site.kiln(&bench, &arguments), code, words);
    }
    assert!(
        site.kiln(&bench, &["list", "--store", &store])
            .stdout
            .is_empty()
    );
}
