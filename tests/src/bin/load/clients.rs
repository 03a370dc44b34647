//! Many clients with many jobs each, and a queue that is shorter than their number: every job must be done, and
//! refusals must be temporary.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use kiln_tests::Bench;
use kiln_tests::fault::Plan;
use kiln_tests::sidecar::{Sidecar, by_path};

use crate::{Found, percentiles};

/// Fewer than there are clients.
const QUEUE: &str = "32";
/// The server says 5 s, which suits a busy hour; these jobs take milliseconds.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) fn measure(clients: usize, jobs: usize) -> Found {
    let bench = Bench::new(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &["--parallel", "4", "--queue-jobs", QUEUE]);
    let spec = by_path(&bench.path(""));
    let refused = Mutex::new(BTreeMap::<String, usize>::new());
    let began = Instant::now();
    let (done, times) = thread::scope(|scope| {
        let (sidecar, spec, refused) = (&sidecar, &spec, &refused);
        let client = move |client: usize| {
            let (mut done, mut times) = (0, Vec::new());
            for number in 0..jobs {
                let key = format!("{client}-{number}");
                let began = Instant::now();
                let accepted = loop {
                    let answer = sidecar.submit(&key, spec);
                    if answer.status == 202 {
                        break answer;
                    }
                    let told = format!("{} {}", answer.status, answer.code());
                    *refused.lock().expect("no panic").entry(told).or_default() += 1;
                    // A shorter wait than the server's `Retry-After`.
                    thread::sleep(PAUSE);
                };
                let job = sidecar.finished(&accepted.id());
                done += usize::from(job["state"] == "succeeded");
                times.push(began.elapsed());
            }
            (done, times)
        };
        let threads: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || client(number)))
            .collect();
        let mut all = (0, Vec::new());
        for thread in threads {
            let (done, times) = thread.join().expect("a client");
            all.0 += done;
            all.1.extend(times);
        }
        all
    });
    let seconds = began.elapsed().as_secs_f64();
    let refused = refused.into_inner().expect("no panic");
    let others = refused
        .keys()
        .any(|told| !told.starts_with("429") && !told.starts_with("503"));
    let [half, most, _] = percentiles(times);
    Found {
        text: format!(
            "{done} of {} jobs of {clients} clients done in {seconds:.1} s, p50 {half:.0} ms, p99 {most:.0} ms; refused for a \
             time: {refused:?}",
            clients * jobs
        ),
        broken: done != clients * jobs || others,
    }
}
