//! Shows events to the user: bars on a terminal, short lines elsewhere, one JSON object per line with `--json`.
//!
//! The lines themselves are printed by [`crate::print`].

mod bars;

mod course;

mod json;

mod lines;

use std::io::{self, IsTerminal};

use indicatif::MultiProgress;

use crate::event::{Event, Listener};
use crate::job::many::Sum;
use crate::print::outcome;
use crate::words::span;

pub use crate::print::{complain, lost, place, refuse, result, say};
pub use json::{Json, error_line};

/// How much to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// Errors, and doubts about the result.
    Quiet,
    /// Progress, warnings and the closing lines.
    Normal,
    /// Also what workers log.
    Verbose,
}

/// The listener that suits the flags and the terminal. `bars` draws the bars and is shared with the log writer.
pub fn listener(json: bool, voice: Voice, bars: &MultiProgress) -> Box<dyn Listener> {
    match voice {
        _ if json => Box::new(Json::default()),
        Voice::Quiet => Box::new(Quiet::default()),
        Voice::Normal | Voice::Verbose if io::stderr().is_terminal() => {
            Box::new(bars::Bars::new(bars.clone()))
        }
        Voice::Normal | Voice::Verbose => Box::new(lines::Lines::default()),
    }
}

/// The listener of one of many jobs; the job's name marks all of its lines.
pub fn listener_of(json: bool, voice: Voice, name: &str) -> Box<dyn Listener> {
    match voice {
        _ if json => Box::new(Json::of(name)),
        Voice::Quiet => Box::new(Quiet { mark: mark(name) }),
        Voice::Normal | Voice::Verbose => Box::new(lines::Lines::of(name)),
    }
}

/// What begins each line about one of many jobs.
fn mark(job: &str) -> String {
    format!("{job}: ")
}

/// Shows how a list of jobs ended: its last line.
pub fn sum(json: bool, voice: Voice, sum: &Sum) {
    if json {
        result(&json::sum_line(sum).to_string());
    } else if voice != Voice::Quiet {
        let (done, failed, time) = (sum.done, sum.failed, span(sum.time));
        say(&format!("{done} done, {failed} failed, {time}"));
    }
}

/// Shows only the result, errors, and that a result is to be doubted.
#[derive(Debug, Default)]
struct Quiet {
    /// See [`lines::Lines`].
    mark: String,
}

impl Listener for Quiet {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Done(report) => {
                if let Some(doubt) = report.doubt() {
                    say(&format!("{}warning: {doubt}", self.mark));
                }
                outcome(report);
            }
            Event::Failed(report) => {
                if let Some(error) = &report.error {
                    complain(&self.mark, error);
                }
            }
            Event::Started { .. }
            | Event::Held { .. }
            | Event::Progress { .. }
            | Event::Warning { .. }
            | Event::Retry { .. }
            | Event::Ended { .. }
            | Event::Killing { .. }
            | Event::Host(_)
            | Event::Working { .. }
            | Event::RoleDone { .. } => {}
        }
    }
}
