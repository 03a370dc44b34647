//! Makes every Vulkan call of a whole bake fail in every way. Prints a table of the outcomes, and each violation with
//! the command that repeats it.
//!
//! Exit code 0: no violation; 1: at least one; 69: this machine cannot bake on llvmpipe.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the table is its product, and progress goes beside it"
)]

mod args;
mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::Parser;
use kiln_tests::vulkan::{Cell, Seen, Violation, Walls, World, drops, faults, judge, sample};
use kiln_tests::walk::in_parallel;
use proto::exit;
use vkfault::Action;

use crate::args::Args;
use crate::table::Table;

fn main() -> ExitCode {
    let args = Args::parse();
    let world = match World::new(&args.device, args.source()) {
        Ok(world) => world,
        Err(error) => {
            eprintln!("vulkan_walk: {error}");
            return ExitCode::from(exit::UNAVAILABLE);
        }
    };
    let fallible = world
        .log
        .iter()
        .filter(|call| !call.starts_with('-'))
        .count();
    println!(
        "a bake makes {fallible} calls that can fail and {} that cannot",
        world.log.len() - fallible
    );
    let cells = match chosen(&args, &world) {
        Ok(cells) => cells,
        Err(error) => {
            eprintln!("vulkan_walk: {error}");
            return ExitCode::from(exit::USAGE);
        }
    };
    let started = Instant::now();
    let table = walk(&world, &cells, &args);
    print!("{}", table.text());
    println!(
        "{} cells in {:.0} s, {} at once; the longest bake took {:.1} s",
        cells.len(),
        started.elapsed().as_secs_f64(),
        args.jobs(),
        table.longest.as_secs_f64(),
    );
    if table.violations.is_empty() {
        println!("no violation");
        ExitCode::SUCCESS
    } else {
        println!("{} violations", table.violations.len());
        ExitCode::FAILURE
    }
}

fn chosen(args: &Args, world: &World) -> Result<Vec<Cell>, String> {
    if let Some(fault) = &args.cell {
        let of = if fault.action == Action::Drop {
            drops(&world.log)
        } else {
            faults(&world.log)
        };
        let mut cell = of
            .into_iter()
            .find(|cell| cell.fault.nth == fault.nth && cell.fault.action == fault.action);
        if let (Some(cell), Some(command)) = (&mut cell, &fault.command) {
            cell.call.clone_from(command);
        }
        let call = cell.map_or_else(|| "beyond the count".to_owned(), |cell| cell.call);
        return Ok(vec![Cell {
            fault: fault.clone(),
            call,
        }]);
    }
    let all = if args.drops {
        drops(&world.log)
    } else {
        faults(&world.log)
    };
    let all: Vec<Cell> = all
        .into_iter()
        .filter(|cell| args.command.as_ref().is_none_or(|only| *only == cell.call))
        .collect();
    if all.is_empty() {
        return Err("no call of the bake is that".to_owned());
    }
    if args.all {
        return Ok(all);
    }
    println!(
        "seed {}: {} of {} cells",
        args.seed,
        args.cells.min(all.len()),
        all.len()
    );
    Ok(sample(all, args.seed, args.cells))
}

fn walk(world: &World, cells: &[Cell], args: &Args) -> Table {
    let done = AtomicUsize::new(1);
    let results = in_parallel(args.jobs(), cells, |cell| {
        let started = Instant::now();
        let verdict = run(world, cell, args.walls());
        if let Err(violation) = &verdict {
            println!("VIOLATION {cell}: {violation}");
            println!(
                "  again: {}",
                args::again(cell, args.walls(), args.source())
            );
        }
        let done = done.fetch_add(1, Ordering::Relaxed);
        if done.is_multiple_of(500) {
            eprintln!("{done} of {} cells", cells.len());
        }
        (verdict, started.elapsed())
    });
    let mut table = Table::default();
    for (cell, (verdict, time)) in cells.iter().zip(results) {
        table.add(cell, verdict, time);
    }
    table
}

/// Runs one cell. The harness panics if kiln does not end, which is a violation like any other.
fn run(world: &World, cell: &Cell, walls: Walls) -> Result<Seen, Violation> {
    let finished = catch_unwind(AssertUnwindSafe(|| world.run(cell, walls)))
        .map_err(|_panic| "kiln did not end in time, and was killed".to_owned())?
        .map_err(|error| format!("the harness failed: {error}"))?;
    judge(&cell.fault, &finished, &world.golden, &world.device)
}
