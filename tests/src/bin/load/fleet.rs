//! Measures a fleet whose sidecars are stubs that sleep: real workers by the hundred, one NATS server, a folder as store.
//!
//! A stub answers as a sidecar did that carried out one job: with its JSON, and with its files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_tests::errand;
use kiln_tests::fault::Plan;
use kiln_tests::fleet::{Nats, Program, Site};
use kiln_tests::sidecar::Sidecar;
use kiln_tests::{Bench, names_in, read_json};
use serde_json::{Value, json};

use crate::{Found, percentiles, resident};

/// A host that is idle and one job after another: what a worker costs.
const ALONE: usize = 20;
/// Most that a worker may cost a job, in milliseconds, and in MiB at rest.
const MOST: [f64; 2] = [30.0, 20.0];

/// What a stub answers with.
struct Sample {
    job: Value,
    files: BTreeMap<String, Vec<u8>>,
    sleep: Duration,
}

pub(crate) fn measure(hosts: usize, jobs: usize, sleep: Duration) -> Found {
    let bench = Bench::new(&Plan::healthy());
    let sample = Arc::new(sample(&bench, sleep));
    let alone = run(&bench, &sample, 1, ALONE);
    let many = run(&bench, &sample, hosts, jobs);
    let ideal = sleep.as_secs_f64() * (jobs as f64 / hosts as f64).ceil();
    let [[p50, _, most], [all50, all99, _]] =
        [&alone, &many].map(|run| percentiles(run.costs.clone()));
    Found {
        text: format!(
            "a job costs {p50:.0} ms ({most:.0} at most) beside its sidecar's time, a worker {:.1} MiB at rest; \
             {jobs} jobs of {:.1} s on {hosts} hosts: {:.1} s, {ideal:.1} without any cost; a job {all50:.0} ms, p99 {all99:.0} ms",
            alone.mib,
            sleep.as_secs_f64(),
            many.time.as_secs_f64(),
        ),
        broken: p50 > MOST[0] || alone.mib > MOST[1],
    }
}

/// The job of a real sidecar with saboteurs, and its files.
fn sample(bench: &Bench, sleep: Duration) -> Sample {
    let sidecar = Sidecar::start(bench, &[]);
    let id = errand::submitted(bench, &["-q"]);
    let job = sidecar.finished(&id);
    assert_eq!(job["state"], "succeeded", "{job:#}");
    let made = job["artifacts"].as_array().expect("files").iter();
    let files = made.map(|made| {
        let name = made["name"].as_str().expect("a name").to_owned();
        let bytes = sidecar.get(made["href"].as_str().expect("a path")).body;
        (name, bytes)
    });
    let files = files.collect();
    Sample { job, files, sleep }
}

struct Ran {
    time: Duration,
    /// From when a host took a job to its result, less the sidecar's time.
    costs: Vec<Duration>,
    /// Of one worker, before the first job.
    mib: f64,
}

fn run(bench: &Bench, sample: &Arc<Sample>, hosts: usize, jobs: usize) -> Ran {
    let nats = Nats::start("");
    let folder = tempfile::tempdir().expect("a folder");
    let site = Site::with_folder(&nats, &folder.path().join("store"));
    let workers: Vec<Program> = (0..hosts)
        .map(|number| {
            let socket = folder.path().join(format!("{number}.sock"));
            stub(&socket, Arc::clone(sample));
            let name = format!("host-{number}");
            let mut worker = site.worker(bench, &name, &socket);
            worker.wait_for("takes jobs");
            worker
        })
        .collect();
    let mib = resident(workers[0].pid());
    let job = |number: usize| {
        let output = format!("out/{number}.glb");
        json!({ "mesh": "mesh.glb", "views": "transforms.json", "output": output, "texture-size": 256 })
    };
    // One process awaits 64 jobs at once.
    let each = jobs.div_ceil(hosts.div_ceil(50));
    let numbers: Vec<usize> = (0..jobs).collect();
    let began = Instant::now();
    let lists = numbers.chunks(each).enumerate().map(|(index, numbers)| {
        let name = format!("list-{index}.json");
        let list: Vec<Value> = numbers.iter().copied().map(job).collect();
        fs::write(bench.path(&name), json!(list).to_string()).expect("room");
        site.start(bench, &["bake", "--jobs", &name, "-q"])
    });
    for list in lists.collect::<Vec<_>>() {
        list.finish().assert_code(0);
    }
    let time = began.elapsed();
    nats.wait_empty();
    drop(workers);
    let kept = folder.path().join("store/tenants/default/jobs");
    let costs = names_in(&kept).into_iter().map(|id| {
        let result = read_json(&kept.join(id).join("result.json"));
        let ms = |value: &Value| value.as_u64().expect("a time");
        let taken = ms(&result["finished_ms"]) - ms(&result["attempts"][0]["begun_ms"]);
        Duration::from_millis(taken).saturating_sub(sample.sleep)
    });
    Ran {
        time,
        costs: costs.collect(),
        mib,
    }
}

fn stub(socket: &Path, sample: Arc<Sample>) {
    let listener = UnixListener::bind(socket).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let sample = Arc::clone(&sample);
            // A worker that ends in between ends this connection alone.
            std::thread::spawn(move || drop(answer(&stream, &sample)));
        }
    });
}

fn answer(mut stream: &UnixStream, sample: &Sample) -> io::Result<()> {
    let mut lines = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    lines.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let lower = line.to_ascii_lowercase();
        if let Some(bytes) = lower.strip_prefix("content-length:") {
            length = bytes.trim().parse().map_err(io::Error::other)?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    lines.read_exact(&mut vec![0; length])?;
    let path = first.split(' ').nth(1).unwrap_or_default();
    let mut kind = "application/json";
    let body = match path {
        "/readyz" => br#"{"ready":true,"reasons":[]}"#.to_vec(),
        "/v1/capabilities" => br#"{"adapters":[{"name":"stub"}],"parallel":1}"#.to_vec(),
        _ if path.starts_with("/v1/blobs/") => Vec::new(),
        _ if path.ends_with("/events") => {
            std::thread::sleep(sample.sleep);
            kind = "text/event-stream";
            b"id: 1\nevent: done\ndata: {}\n\n".to_vec()
        }
        _ if path.contains("/artifacts/") => {
            let name = path.rsplit('/').next().unwrap_or_default();
            sample.files.get(name).cloned().unwrap_or_default()
        }
        _ => sample.job.to_string().into_bytes(),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}
