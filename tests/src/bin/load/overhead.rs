//! Measures the cost of the sidecar: the same job through the sidecar and by `kiln bake`, alternately.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use kiln_tests::Bench;
use kiln_tests::sidecar::Sidecar;
use serde_json::json;

use crate::Found;

pub(crate) fn measure(set: &Path, bakes: usize) -> Found {
    let bench = Bench::real();
    let set = set.canonicalize().expect("the set is there");
    let root = set.to_str().expect("a path in UTF-8");
    let sidecar = Sidecar::start(&bench, &["--root", root]);
    // Its self-test is over then.
    while sidecar.get("/readyz").status != 200 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (mesh, views) = (set.join("mesh_nouv.glb"), set.join("transforms.json"));
    let spec = json!({"mesh": {"path": mesh}, "views": {"path": views}, "device": "cpu"});
    let (mut served, mut alone) = (Vec::new(), Vec::new());
    for round in 0..bakes {
        let began = Instant::now();
        let job = sidecar.finished(&sidecar.submit(&round.to_string(), &spec).id());
        served.push(began.elapsed().as_secs_f64());
        assert_eq!(job["state"], "succeeded", "{job:#}");
        let began = Instant::now();
        let mut kiln = bench.bake_for_real(&mesh, &views, &["--insecure-no-sandbox"]);
        let status = kiln.stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(status.expect("kiln starts").success());
        alone.push(began.elapsed().as_secs_f64());
    }
    let (served, alone) = (median(served), median(alone));
    let more = (served / alone - 1.0) * 100.0;
    Found {
        text: format!(
            "a job of 1024²: {served:.3} s by the sidecar, {alone:.3} s by kiln bake ({more:+.1} %, medians of {bakes} in turn)"
        ),
        broken: more > 5.0,
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}
