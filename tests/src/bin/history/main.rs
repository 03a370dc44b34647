//! Reads a history written by `torture` and reports each broken guarantee. A separate program, so that the injector of
//! faults does not judge them.
//!
//! `history FILE` prints the figures and one line per broken guarantee; if there is any, it exits with 1.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its findings are its output"
)]

mod figures;
mod rules;

use std::process::ExitCode;

use kiln_tests::history::Line;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: history FILE");
        return ExitCode::from(64);
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::from(66);
        }
    };
    let mut lines: Vec<Line> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        match serde_json::from_str(line) {
            Ok(line) => lines.push(line),
            Err(error) => {
                eprintln!("{path}:{}: {error}", number + 1);
                return ExitCode::from(65);
            }
        }
    }
    let broken = rules::broken(&lines);
    for rule in &broken {
        println!("BROKEN {rule}");
    }
    figures::print(&lines);
    println!("{} promises broken", broken.len());
    ExitCode::from(u8::from(!broken.is_empty()))
}
