//! What the program prints: results on standard output, everything for people on standard error.
//!
//! Standard output carries only the result: the path, or the JSON lines. A text from elsewhere is made printable first.

use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use proto::limits::MAX_TEXT_BYTES;

use crate::error::JobError;
use crate::report::Report;
use crate::words::printable;

/// Prints one line of the result on standard output.
pub fn result(line: &str) {
    print(&mut io::stdout().lock(), line);
}

/// Prints the result of a job: its path, or the table of a dry run.
pub fn outcome(report: &Report) {
    match &report.plan {
        Some(plan) => (report.plan_lines(plan).iter()).for_each(|line| result(line)),
        None => place(&report.options.output),
    }
}

/// Prints the path of the result. A program gets its exact bytes; a terminal gets no control characters.
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

/// Prints one line for people on standard error; names in it cannot break the line.
pub fn say(line: &str) {
    let line = printable(line, MAX_TEXT_BYTES);
    print(&mut io::stderr().lock(), &format!("kiln: {line}"));
}

/// Prints an error outside of any job: what is wrong, and how to fix it.
pub fn refuse(message: &str, hint: &str) {
    let mut text = format!("kiln: error: {}", printable(message, MAX_TEXT_BYTES));
    if !hint.is_empty() {
        text.push_str(&format!("\n  hint: {}", printable(hint, MAX_TEXT_BYTES)));
    }
    print(&mut io::stderr().lock(), &text);
}

/// Prints a job's error: what is wrong, how to fix it, and the last lines of the process at fault.
pub fn complain(error: &JobError) {
    let mut text = format!("kiln: error: {}", error.message);
    if !error.hint.is_empty() {
        text.push_str(&format!("\n  hint: {}", error.hint));
    }
    if let Some(folder) = &error.crash_folder {
        let folder = printable(&folder.to_string_lossy(), MAX_TEXT_BYTES);
        text.push_str(&format!("\n  kept: {folder} (kiln replay runs it again)"));
    }
    // If a worker said itself what was wrong, its log only repeats it.
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
    // The reader has gone; the job's files matter more than this output.
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        tracing::debug!("output is closed");
    }
}
