//! Submits a spec of 64 KiB whose blobs are already stored, onto a long queue with two jobs running; measures the time
//! to 202, and memory.

use std::path::Path;
use std::time::Instant;

use kiln_tests::Bench;
use kiln_tests::sidecar::{Sidecar, sha256};
use serde_json::{Map, Value, json};

use crate::{Found, percentiles, resident};

/// Number of files in the spec; their names and digests make its size.
const FILES: usize = 520;
/// Further jobs, whose submission is timed.
const TIMED: usize = 500;

pub(crate) fn measure(set: &Path, queued: usize, nice: Option<u8>) -> Found {
    let bench = Bench::real();
    let set = set.canonicalize().expect("the set is there");
    let room = (queued + TIMED + 8).to_string();
    let root = set.to_str().expect("a path in UTF-8");
    let nice = nice.map(|nice| format!("--nice={nice}"));
    let mut flags = vec!["--parallel", "2", "--queue-jobs", &room, "--root", root];
    flags.extend(nice.as_deref());
    let sidecar = Sidecar::start(&bench, &flags);
    let idle = resident(sidecar.pid());
    let busy = json!({
        "mesh": {"path": set.join("mesh_nouv.glb")},
        "views": {"path": set.join("transforms.json")},
        "device": "cpu",
    });
    for key in 0..4 {
        let answer = sidecar.submit(&format!("busy {key}"), &busy);
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    let bytes = b"a picture";
    let digest = sha256(bytes);
    let sent = sidecar.send("PUT", &format!("/v1/blobs/{digest}"), &[], bytes);
    assert_eq!(sent.status, 201);
    let spec = spec(&digest);
    let size = spec.to_string().len();
    for key in 0..queued {
        assert_eq!(sidecar.submit(&key.to_string(), &spec).status, 202);
    }
    let mut times = Vec::new();
    for key in queued..queued + TIMED {
        let began = Instant::now();
        let answer = sidecar.submit(&key.to_string(), &spec);
        times.push(began.elapsed());
        assert_eq!(answer.status, 202);
    }
    let [half, most, worst] = percentiles(times);
    let full = resident(sidecar.pid());
    Found {
        text: format!(
            "{TIMED} × {} KiB onto {queued} queued, two at work: p50 {half:.1} ms, p99 {most:.1} ms, max {worst:.1} ms; \
             resident {idle:.1} MiB idle, {full:.1} MiB then",
            size / 1024
        ),
        broken: most > 10.0 || idle > 24.0,
    }
}

fn spec(digest: &str) -> Value {
    let name = |number: usize| format!("images/{number:045}.png");
    let files: Map<String, Value> = (0..FILES)
        .map(|number| (name(number), json!(digest)))
        .collect();
    let mut views = files;
    views.insert("transforms.json".to_owned(), json!(digest));
    json!({
        "mesh": {"files": {"mesh.glb": digest}, "main": "mesh.glb"},
        "views": {"files": views, "main": "transforms.json"},
    })
}
