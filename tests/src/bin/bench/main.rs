//! Bakes sets of posed views with the real `kiln bake`, and writes a table of quality, time and memory, and
//! `bench.json`.
//!
//! ```text
//!  set ─ merge ─► folder with transforms.json, test views held out by name ─ job ─► report, peak memory ─ row ─► table
//! ```
//!
//! With `--gpu` it makes its own input in many sizes: see `gpu`.
//!
//! This is a benchmark, not a test. It judges no figure; it only checks that the file exists and its texture can be
//! decoded. Kiln itself measures quality on views that the fit never saw. Time and memory are those of whole processes,
//! measured from outside. A set that fails becomes a row with the reason, and the exit code is 1.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the table is its product, and progress goes beside it"
)]

mod args;
mod gpu;
mod job;
mod machine;
mod memory;
mod merge;
mod set;
mod table;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde_json::{Value, json};

use crate::args::Args;
use crate::job::{Finished, Job};
use crate::set::{Set, SetError};
use crate::table::Row;

/// What prevents the whole benchmark. A failure of one set becomes a row of the table instead.
#[derive(Debug, thiserror::Error)]
enum BenchError {
    /// The folder holds no set, or cannot be read.
    #[error(transparent)]
    Sets(#[from] SetError),
    /// Kiln is not built.
    #[error("{} is not there: cargo build --release --workspace --bins", .0.display())]
    NoKiln(PathBuf),
    /// A file or folder cannot be created or written.
    #[error("{}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// Returns whether every set was baked.
fn run(args: &Args) -> Result<bool, BenchError> {
    let kiln = kiln(args)?;
    if let Some(folder) = &args.keep {
        fs::create_dir_all(folder).map_err(at(folder))?;
    }
    if args.gpu {
        return gpu::run(args, &kiln);
    }
    let sets = sets(args)?;
    let qualities = args.quality.names();
    let facts = machine::facts(&kiln);
    let (mut rows, mut entries) = (Vec::new(), Vec::new());
    for set in &sets {
        for quality in qualities {
            let job = Job {
                kiln: &kiln,
                set,
                quality,
                keep_uvs: args.keep_uvs,
                more: &args.kiln,
                keep: args.keep.as_deref(),
            };
            let number = rows.len() + 1;
            eprintln!("[{number}/{}] {}", sets.len() * qualities.len(), job.name());
            let finished = job.run();
            let row = Row::new(&job, &finished, qualities.len() > 1);
            eprintln!("       {}", row.in_short);
            entries.push(entry(&job, &finished));
            rows.push(row);
            // After each set, so that an interrupted benchmark keeps its results.
            write_json(&args.json, args, &facts, &entries)?;
        }
    }
    print!("{}", table::render(&rows, &machine::line(&facts)));
    eprintln!("everything else: {}", args.json.display());
    Ok(rows.iter().all(Row::succeeded))
}

fn kiln(args: &Args) -> Result<PathBuf, BenchError> {
    let kiln = match &args.program {
        Some(path) => path.clone(),
        None => std::env::current_exe()
            .map_err(at(Path::new("bench")))?
            .with_file_name("kiln"),
    };
    if kiln.is_file() {
        Ok(kiln)
    } else {
        Err(BenchError::NoKiln(kiln))
    }
}

/// The requested sets. If texture coordinates are to be kept, sets without them are left out.
fn sets(args: &Args) -> Result<Vec<Set>, BenchError> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let mut sets = set::find(args.folder.as_deref().unwrap_or(&repository))?;
    if args.keep_uvs {
        sets.retain(|set| {
            let there = set.mesh(true).is_file();
            if !there {
                eprintln!("{}: no mesh_uv.glb, left out", set.name);
            }
            there
        });
    }
    Ok(sets)
}

fn entry(job: &Job<'_>, finished: &Finished) -> Value {
    json!({
        "set": job.set.name,
        "quality": job.quality,
        "blend": job.set.blend,
        "keep_uvs": job.keep_uvs,
        "wall_s": finished.wall.as_secs_f64(),
        "wall_without_measure_s": finished.wall_without_measure(),
        "peak_all_kib": finished.peak_kib,
        "error": finished.outcome.as_ref().err().map(|error| chain(error)),
        "report": finished.raw,
    })
}

fn write_json(
    path: &Path,
    args: &Args,
    facts: &Value,
    entries: &[Value],
) -> Result<(), BenchError> {
    let whole = json!({
        "schema": 1,
        "machine": facts,
        "flags": args.kiln,
        "rows": entries,
    });
    fs::write(path, format!("{whole:#}\n")).map_err(at(path))
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> BenchError {
    let path = path.to_path_buf();
    |source| BenchError::File { path, source }
}

/// Joins an error and its causes into one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(&format!(": {error}"));
        next = error.source();
    }
    text
}
