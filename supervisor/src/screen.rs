//! Events → what the user sees: bars on a terminal, short lines elsewhere, one JSON object per line with `--json`.
//!
//! Standard output carries the result alone: the path, or the JSON lines. Everything for people goes to standard error.
//! Here, in [`crate::cli`] and in [`crate::doctor`] is all of the printing.

mod bars;

mod json;

mod lines;

use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use indicatif::MultiProgress;
use proto::limits::MAX_TEXT_BYTES;

use crate::error::JobError;
use crate::event::{Event, Listener};
use crate::report::Report;
use crate::words::printable;

pub use json::{Json, error_line};

/// How much to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// Errors.
    Quiet,
    /// Progress, warnings, the closing lines.
    Normal,
    /// And what workers log.
    Verbose,
}

/// The listener that suits the flags and the terminal. `bars` is where bars are drawn, shared with the log writer.
#[must_use]
pub fn listener(json: bool, voice: Voice, bars: &MultiProgress) -> Box<dyn Listener> {
    match voice {
        _ if json => Box::new(Json::default()),
        Voice::Quiet => Box::new(Quiet),
        Voice::Normal | Voice::Verbose if io::stderr().is_terminal() => {
            Box::new(bars::Bars::new(bars.clone()))
        }
        Voice::Normal | Voice::Verbose => Box::new(lines::Lines::default()),
    }
}

/// The listener of one of many jobs, whose name marks all that it says.
#[must_use]
pub fn listener_of(json: bool, voice: Voice, name: &str) -> Box<dyn Listener> {
    match voice {
        _ if json => Box::new(Json::of(name)),
        Voice::Quiet => Box::new(Quiet),
        Voice::Normal | Voice::Verbose => Box::new(lines::Lines::of(name)),
    }
}

/// Only the result and errors.
#[derive(Debug)]
struct Quiet;

impl Listener for Quiet {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Done(report) => outcome(report),
            Event::Failed(report) => {
                if let Some(error) = &report.error {
                    complain(error);
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

/// One line of the result, on standard output.
pub fn result(line: &str) {
    print(&mut io::stdout().lock(), line);
}

/// The result of a job: where it is, or the table of a dry run.
fn outcome(report: &Report) {
    match &report.plan {
        Some(plan) => (report.plan_lines(plan).iter()).for_each(|line| result(line)),
        None => place(&report.options.output),
    }
}

/// Where the result is: for a program the very bytes of the path, on a terminal nothing that it would obey.
pub fn place(path: &Path) {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        print(
            &mut out,
            &printable(&path.to_string_lossy(), MAX_TEXT_BYTES),
        );
    } else {
        write(&mut out, &[path.as_os_str().as_bytes(), b"\n"].concat());
    }
}

/// One line for people, on standard error; whatever names are in it, it stays one.
pub fn say(line: &str) {
    let line = printable(line, MAX_TEXT_BYTES);
    print(&mut io::stderr().lock(), &format!("kiln: {line}"));
}

/// An error that no job had a part in: what, and how to mend it.
pub fn refuse(message: &str, hint: &str) {
    let mut text = format!("kiln: error: {}", printable(message, MAX_TEXT_BYTES));
    if !hint.is_empty() {
        text.push_str(&format!("\n  hint: {}", printable(hint, MAX_TEXT_BYTES)));
    }
    print(&mut io::stderr().lock(), &text);
}

/// An error for people: what, how to mend it, and what the process at fault wrote last.
pub fn complain(error: &JobError) {
    let mut text = format!("kiln: error: {}", error.message);
    if !error.hint.is_empty() {
        text.push_str(&format!("\n  hint: {}", error.hint));
    }
    if let Some(folder) = &error.crash_folder {
        let folder = printable(&folder.to_string_lossy(), MAX_TEXT_BYTES);
        text.push_str(&format!("\n  kept: {folder} (kiln replay runs it again)"));
    }
    // Where a worker said itself what was wrong, its log only repeats it.
    if (error.signal.is_some() || error.exit_code == proto::exit::SOFTWARE)
        && !error.log_tail.is_empty()
    {
        text.push_str("\n  last lines:");
        for line in &error.log_tail {
            text.push_str(&format!("\n    {line}"));
        }
    }
    print(&mut io::stderr().lock(), &text);
}

fn print(out: &mut impl Write, text: &str) {
    write(out, format!("{text}\n").as_bytes());
}

fn write(out: &mut impl Write, bytes: &[u8]) {
    // Whoever read this has gone away; the job's files matter more than its words.
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        tracing::debug!("output is closed");
    }
}
