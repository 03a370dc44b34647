//! Many watchers of the same job's events: all must hear its end; measures how long that takes.

use std::fs::File;
use std::io::Write;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use kiln_tests::Bench;
use kiln_tests::fault::{Fault, Plan, Step};
use kiln_tests::sidecar::{Sidecar, by_path};
use proto::message::Role;

use crate::{Found, percentiles, resident};

/// Stack of a watcher's thread: it needs little.
const STACK: usize = 128 << 10;

pub(crate) fn measure(watchers: usize) -> Found {
    let plan = Plan::always(Role::Bake, Step::Work, Fault::Hear);
    let bench = Bench::new(&plan);
    let mut word = File::options()
        .read(true)
        .write(true)
        .open(bench.path("told"))
        .expect("the pipe");
    let sidecar = Sidecar::start(&bench, &["--stall-timeout", "100"]);
    let job = sidecar.submit("watched", &by_path(&bench.path(""))).id();
    let there = Barrier::new(watchers + 1);
    let (heard, told, memory) = thread::scope(|scope| {
        let watch = || {
            let mut waiting = true;
            let events = sidecar.events(&job, None, |told| {
                // It is connected and the job is running: only the job's end is missing now.
                if std::mem::take(&mut waiting) {
                    there.wait();
                }
                told.event == "done"
            });
            let ended = events
                .last()
                .is_some_and(|told| told.data["state"] == "succeeded");
            (Instant::now(), ended)
        };
        let threads: Vec<_> = (0..watchers)
            .map(|_| {
                let thread = thread::Builder::new().stack_size(STACK);
                thread.spawn_scoped(scope, watch).expect("a thread")
            })
            .collect();
        there.wait();
        let memory = resident(sidecar.pid());
        let told = Instant::now();
        word.write_all(b"!").expect("room");
        let heard: Vec<(Instant, bool)> = threads
            .into_iter()
            .map(|thread| thread.join().expect("a watcher"))
            .collect();
        (heard, told, memory)
    });
    let ended = heard.iter().filter(|(_, ended)| *ended).count();
    let [half, most, worst] = percentiles(heard.iter().map(|(at, _)| *at - told).collect());
    Found {
        text: format!(
            "{ended} of {watchers} watchers heard the end: p50 {half:.0} ms, p99 {most:.0} ms, max {worst:.0} ms \
             after it could begin; resident {memory:.1} MiB"
        ),
        broken: ended != watchers,
    }
}
