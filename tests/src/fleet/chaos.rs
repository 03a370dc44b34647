//! A fleet under fire: jobs come in while workers, sidecars, the queue and the store are killed and cut off in turn; then the
//! store and the queue are read for what came of each job.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Gate, Host, Nats, Passage, S3, Site};
use crate::chance::Chance;
use crate::fault::{Fault, Plan, Step};
use crate::{Bench, DEADLINE, made};
use proto::message::Role;

const HOSTS: [&str; 3] = ["one", "two", "three"];
const VICTIMS: [Victim; 5] = [
    Victim::Worker,
    Victim::Sidecar,
    Victim::Queue,
    Victim::Store,
    Victim::Network,
];
/// Longest absence of what was killed or cut off, in milliseconds: most are shorter than the time after which a silent host's
/// job is another's, some are longer.
const ABSENCES: [usize; 6] = [50, 200, 1_000, 1_000, 3_000, 20_000];

/// What is killed or cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    /// A host's `kiln worker`.
    Worker,
    /// A host's sidecar, with its workers.
    Sidecar,
    /// The NATS server.
    Queue,
    /// The way to the S3 server, which keeps its objects.
    Store,
    /// A host's way to the queue.
    Network,
}

/// What a fleet went through.
#[derive(Debug, Default)]
pub struct Toll {
    jobs: usize,
    kills: BTreeMap<Victim, usize>,
    /// Commands that had to be repeated.
    repeated: usize,
    /// Attempts of all jobs.
    attempts: usize,
}

impl fmt::Display for Toll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kills: usize = self.kills.values().sum();
        let kinds: Vec<String> = (self.kills.iter())
            .map(|(victim, count)| format!("{count} {victim:?}").to_lowercase())
            .collect();
        write!(
            f,
            "{} jobs, each done once; {kills} killed or cut off ({}); {} attempts, {} commands repeated",
            self.jobs,
            kinds.join(", "),
            self.attempts,
            self.repeated
        )
    }
}

/// What can be killed or cut off.
struct Arena {
    nats: Nats,
    store: Gate,
    hosts: Vec<(Host, Gate, Site)>,
}

/// Has `jobs` jobs done, with `kills` kills meanwhile.
pub fn endure(jobs: usize, kills: usize, chance: &mut Chance) -> Toll {
    let (nats, s3) = (Nats::start(""), S3::start());
    let store = Gate::start(s3.port);
    let site = Site::with_s3(&nats, store.port);
    // Long enough to be killed in.
    let plan = || Plan::always(Role::Bake, Step::Work, Fault::Pause(300));
    let hosts = HOSTS.map(|name| {
        let gate = Gate::start(nats.port);
        let queue = format!("nats://127.0.0.1:{}", gate.port);
        let own = site.clone().and("KILN_QUEUE", queue);
        (Host::start(name, &own, plan()), gate, own)
    });
    let mut arena = Arena {
        nats,
        store,
        hosts: hosts.into(),
    };
    let mut toll = Toll {
        jobs,
        ..Toll::default()
    };
    let bench = Bench::new(&Plan::healthy());
    let mut ids = Vec::new();
    for kill in 0..kills {
        let victim = chance.of(&VICTIMS);
        *toll.kills.entry(victim).or_default() += 1;
        let host = chance.below(HOSTS.len());
        let longest = chance.of(&ABSENCES);
        let [delay, absence] =
            [400, longest].map(|most| Duration::from_millis(chance.below(most) as u64));
        std::thread::scope(|scope| {
            let arena = &mut arena;
            scope.spawn(move || {
                sleep(delay);
                arena.strike(victim, host, absence);
            });
            while ids.len() < jobs * (kill + 1) / kills {
                ids.push(submit(&site, &bench, ids.len(), &mut toll));
            }
        });
    }
    for id in &ids {
        judge(&site, &bench, id, &mut toll);
    }
    arena.nats.wait_empty();
    assert_eq!(arena.nats.dead(), 0, "no job is given up");
    toll
}

/// Hands a job in, again and again with the same key until it is taken.
fn submit(site: &Site, bench: &Bench, number: usize, toll: &mut Toll) -> String {
    let until = Instant::now() + DEADLINE;
    let key = format!("job-{number}");
    let arguments = crate::errand::submit(&["-q", "--key", &key]);
    loop {
        let outcome = site.kiln(bench, &arguments);
        if outcome.code == Some(0) {
            return outcome.stdout[0].clone();
        }
        assert!(
            matches!(outcome.code, Some(69 | 75)) && Instant::now() < until,
            "{:?}: {}",
            outcome.code,
            outcome.stderr
        );
        toll.repeated += 1;
    }
}

/// The job succeeded, and its model is right.
fn judge(site: &Site, bench: &Bench, id: &str, toll: &mut Toll) {
    let name = format!("out/{id}.glb");
    let waited = site.kiln(bench, &["wait", id, "-q", "-o", &name]);
    waited.assert_code(0);
    let model = bench.bytes(&name).expect("the model is there");
    assert!(model == *made::model(&[], &[]), "{id}: other bytes");
    fs::remove_file(bench.path(&name)).expect("it is there");
    let status = site.kiln(bench, &["status", id, "--json"]);
    toll.attempts += status.events[0]["hosts"].as_array().map_or(0, Vec::len);
}

impl Arena {
    fn strike(&mut self, victim: Victim, host: usize, absence: Duration) {
        let (host, gate, site) = &mut self.hosts[host];
        match victim {
            Victim::Worker => {
                host.worker = None;
                sleep(absence);
                host.work(site, &[]);
            }
            Victim::Sidecar => {
                host.sidecar = None;
                host.bench.wait_workers_gone();
                sleep(absence);
                host.serve();
            }
            Victim::Queue => {
                self.nats.kill();
                sleep(absence);
                self.nats.restart();
            }
            Victim::Store => {
                self.store.set(Passage::Shut);
                sleep(absence);
                self.store.set(Passage::Open);
            }
            Victim::Network => {
                gate.set(Passage::Silent);
                sleep(absence);
                gate.set(Passage::Open);
            }
        }
    }
}
