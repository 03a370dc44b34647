//! Kills the sidecar repeatedly at arbitrary moments: every accepted job must be there, and be done exactly once.

use std::time::{Duration, Instant};

use kiln_tests::fault::Plan;
use kiln_tests::sidecar::{Sidecar, by_path};
use kiln_tests::{Bench, wait_all_gone};
use nix::sys::signal::Signal;

use crate::Found;

/// Jobs in each life of the sidecar.
const JOBS: usize = 3;

pub(crate) fn measure(kills: usize) -> Found {
    let bench = Bench::new(&Plan::healthy());
    let alive = bench.alive();
    let spec = by_path(&bench.path(""));
    let flags = ["--parallel", "3", "--queue-jobs", "100000"];
    let (mut jobs, mut ready) = (Vec::new(), Duration::ZERO);
    for round in 0..kills {
        let began = Instant::now();
        let sidecar = Sidecar::start(&bench, &flags);
        ready = ready.max(began.elapsed());
        // The kill comes 1 to 40 ms after the start: while jobs are accepted, started, running or being stored.
        let life = Duration::from_micros(1_000 + (round as u64 * 7_919) % 39_000);
        let pid = sidecar.pid();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(life);
            kiln_tests::signal_if_there(pid, Signal::SIGKILL)
        });
        for number in 0..JOBS {
            let key = format!("{round}-{number}");
            let headers = [
                ("content-type", "application/json"),
                ("idempotency-key", &*key),
            ];
            let sent = sidecar.try_send("POST", "/v1/jobs", &headers, spec.to_string().as_bytes());
            let answer = sent.ok().filter(|answer| answer.status == 202);
            jobs.push((key, answer.map(|answer| answer.id())));
        }
        let _hit = killer.join().expect("it kills");
        drop(sidecar);
        wait_all_gone(&alive);
    }
    let sidecar = Sidecar::start(&bench, &flags);
    let (mut accepted, mut done, mut twice) = (0, 0, 0);
    for (key, known) in &jobs {
        // The same request once more must give the same job. A job whose answer was lost may exist or not.
        let job = sidecar.submit(key, &spec).id();
        if let Some(known) = known {
            accepted += 1;
            twice += usize::from(*known != job);
            let job = sidecar.finished(known);
            let whole = job["artifacts"]
                .as_array()
                .is_some_and(|files| !files.is_empty());
            done += usize::from(job["state"] == "succeeded" && whole);
        }
    }
    twice += stored(&sidecar).abs_diff(jobs.len());
    Found {
        text: format!(
            "{kills} kills -9, {accepted} jobs accepted, {done} done, {} lost, {twice} doubled; listens again after {:.0} ms \
             at most",
            accepted - done,
            ready.as_secs_f64() * 1e3
        ),
        broken: done != accepted || twice > 0,
    }
}

fn stored(sidecar: &Sidecar) -> usize {
    let (mut count, mut cursor) = (0, String::new());
    loop {
        let page = sidecar.get(&format!("/v1/jobs?limit=100{cursor}")).json();
        count += page["jobs"].as_array().expect("a list").len();
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return count,
        }
    }
}
