//! Measures a real `kiln serve` under load (`./run.sh load`): prints a table, and exits with code 1 if a promise was
//! broken.
//!
//! | part | workers | what |
//! |---|---|---|
//! | [`submit`] | real | a spec of 64 KiB with 1,000 jobs queued and two at work: time to the answer, memory |
//! | [`watch`] | saboteurs | 500 watchers of the same job |
//! | [`clients`] | saboteurs | 64 clients with 20 jobs each, and a queue that is too short for them |
//! | [`kills`] | saboteurs | the sidecar is killed at arbitrary moments, 200 times |
//! | [`fleet`] | none | 200 workers of a fleet, whose sidecars are stubs that sleep |
//! | [`overhead`] | real | the same job through the sidecar and by `kiln bake` |

#![expect(clippy::print_stdout, reason = "its table is its output")]

mod clients;
mod fleet;
mod kills;
mod overhead;
mod submit;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use kiln_tests::kib_of;

/// Measures the sidecar under load, on this machine alone.
#[derive(Debug, Parser)]
struct Args {
    /// Jobs that wait while others are submitted.
    #[arg(long, default_value_t = 1000)]
    queued: usize,
    /// Watchers at once.
    #[arg(long, default_value_t = 500)]
    watchers: usize,
    /// Clients at once.
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Jobs of each.
    #[arg(long, default_value_t = 20)]
    jobs: usize,
    /// Times that the sidecar is killed.
    #[arg(long, default_value_t = 200)]
    kills: usize,
    /// Times that one job is baked by each of sidecar and command line.
    #[arg(long, default_value_t = 10)]
    bakes: usize,
    /// Hosts of the fleet.
    #[arg(long, default_value_t = 200)]
    hosts: usize,
    /// Its jobs.
    #[arg(long, default_value_t = 1000)]
    fleet_jobs: usize,
    /// How long its stubs sleep, in milliseconds.
    #[arg(long, default_value_t = 3600)]
    sleep: u64,
    /// One part alone: submit, watch, clients, kills, fleet, overhead.
    #[arg(long)]
    only: Option<String>,
    /// Niceness of the workers while jobs are submitted; what `kiln serve` takes by itself, if left out.
    #[arg(long, value_name = "N")]
    nice: Option<u8>,
    /// A set with `mesh_nouv.glb` and `transforms.json` for the real workers.
    #[arg(long, value_name = "FOLDER", default_value = "tests/data/spot")]
    set: PathBuf,
}

/// The result of one part.
struct Found {
    text: String,
    broken: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let parts: [(&str, &dyn Fn() -> Found); 6] = [
        ("submit", &|| {
            submit::measure(&args.set, args.queued, args.nice)
        }),
        ("watch", &|| watch::measure(args.watchers)),
        ("clients", &|| clients::measure(args.clients, args.jobs)),
        ("kills", &|| kills::measure(args.kills)),
        ("fleet", &|| {
            fleet::measure(
                args.hosts,
                args.fleet_jobs,
                Duration::from_millis(args.sleep),
            )
        }),
        ("overhead", &|| overhead::measure(&args.set, args.bakes)),
    ];
    let mut code = ExitCode::SUCCESS;
    for (name, measure) in parts {
        if args.only.as_deref().is_none_or(|only| only == name) {
            let found = measure();
            let mark = if found.broken { "  BROKEN" } else { "" };
            println!("{name:9} {}{mark}", found.text);
            if found.broken {
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

/// Nearest-rank percentiles in milliseconds: 50, 99, and the largest.
fn percentiles(mut times: Vec<Duration>) -> [f64; 3] {
    times.sort_unstable();
    let at = |share: f64| {
        let rank = (share * times.len() as f64).ceil() as usize;
        times[rank.clamp(1, times.len()) - 1].as_secs_f64() * 1e3
    };
    [at(0.5), at(0.99), at(1.0)]
}

/// Resident memory of a process in MiB.
fn resident(pid: i32) -> f64 {
    kib_of(pid, "VmRSS").map_or(f64::NAN, |kib| kib as f64 / 1024.0)
}
