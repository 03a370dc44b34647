//! Injects faults into the real `kiln` until there are enough, and records what happens: `torture --seed S --faults N`.
//!
//! ```text
//!  seed ─ plan ─► jobs with faults ─ round ─► one `kiln bake --jobs` over them, which kills or is killed ─► history.jsonl
//! ```
//!
//! With `--fleet` a queue, a store and three hosts are killed and cut off in turn while they do jobs.
//!
//! There are three kinds of rounds: saboteurs, which follow the protocol until they commit a fault; real workers, which
//! are killed during real work; and supervisors, which are killed themselves. The program `history`, which runs at the
//! end, judges the record.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its progress is its output"
)]

mod plan;
mod round;
mod writer;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Parser;
use kiln_tests::chance::Chance;
use kiln_tests::fleet::chaos;

use crate::round::{Kind, Torture};
use crate::writer::Writer;

/// Injects faults into kiln and checks the history of what came of them.
#[derive(Debug, Parser)]
struct Args {
    /// Chooses the faults; the same seed chooses the same ones. By default the time.
    #[arg(long)]
    seed: Option<u64>,
    /// How many at least.
    #[arg(long, default_value_t = 2000)]
    faults: u64,
    /// Kills the parts of a fleet instead, this often.
    #[arg(long, value_name = "KILLS", num_args = 0..=1, default_missing_value = "60")]
    fleet: Option<usize>,
    /// Jobs that the fleet has to do.
    #[arg(long, default_value_t = 300, requires = "fleet")]
    jobs: usize,
    /// Where the history goes.
    #[arg(long, value_name = "FILE", default_value = "out/torture.jsonl")]
    history: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(kiln_tests::history::now_us);
    if let Some(kills) = args.fleet {
        println!(
            "torture: --seed {seed} --fleet {kills} --jobs {}",
            args.jobs
        );
        let toll = chaos::endure(args.jobs, kills.max(1), &mut Chance::new(seed));
        println!("{toll}");
        return ExitCode::SUCCESS;
    }
    println!("torture: --seed {seed} --faults {}", args.faults);
    if let Some(folder) = args.history.parent()
        && let Err(error) = std::fs::create_dir_all(folder)
    {
        eprintln!("{}: {error}", folder.display());
        return ExitCode::from(73);
    }
    let mut chance = Chance::new(seed);
    let mut torture = Torture::new(Writer::create(&args.history));
    let mut told = 0;
    for number in 0.. {
        let faults = torture.faults();
        if faults >= args.faults {
            break;
        }
        if faults / 500 > told {
            told = faults / 500;
            println!("torture: {faults} faults");
        }
        // One round in ten kills supervisors, one in twenty real workers, whose jobs take a second each.
        let kind = match number % 20 {
            3 | 13 => Kind::Supervisor,
            7 => Kind::Workers,
            _ => Kind::Saboteurs,
        };
        torture.round(number, kind, &mut chance);
    }
    drop(torture);
    let checker = std::env::current_exe()
        .expect("a program has a path")
        .with_file_name("history");
    let status = Command::new(&checker).arg(&args.history).status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => {
            eprintln!("torture: again by --seed {seed} --faults {}", args.faults);
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{}: {error}", checker.display());
            ExitCode::FAILURE
        }
    }
}
