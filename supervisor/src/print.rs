//! What the program prints: results on standard output, everything for people on standard error.
//!
//! Standard output carries only the result: the path, or the JSON lines. A text from elsewhere is made printable first.
//!
//! Whoever reads may leave (`kiln list | head -1`): that is silent, ends no work, and changes no exit code. Output that is lost
//! otherwise, as on a full disk, is an error at the end ([`lost`]) of a command that makes nothing besides: the files of a job
//! matter more.

use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use proto::limits::MAX_TEXT_BYTES;
use proto::message::Code;

use crate::error::JobError;
use crate::input::reason;
use crate::report::Report;
use crate::words::printable;

/// Prints one line of the result on standard output.
pub fn result(line: &str) {
    kept(print(&mut io::stdout().lock(), line));
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
    kept(match out.is_terminal() {
        true => print(
            &mut out,
            &printable(&path.to_string_lossy(), MAX_TEXT_BYTES),
        ),
        false => write(&mut out, &[path.as_os_str().as_bytes(), b"\n"].concat()),
    });
}

/// What was written on standard output for somebody who then did not get it.
static LOST: Mutex<Option<String>> = Mutex::new(None);

/// Notes that standard output does not take what is written on it, unless its reader has left.
pub fn kept(written: io::Result<()>) {
    let error = written.err();
    if let Some(error) = error.filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
        let mut lost = LOST.lock().unwrap_or_else(PoisonError::into_inner);
        lost.get_or_insert_with(|| reason(&error));
    }
}

/// The error of a program that has lost some of its output.
pub fn lost() -> Option<Box<JobError>> {
    let lost = LOST.lock().unwrap_or_else(PoisonError::into_inner);
    let message = format!("cannot write on standard output: {}", lost.as_ref()?);
    Some(JobError::own(Code::IoError, message, ""))
}

/// Prints one line for people on standard error; names in it cannot break the line.
pub fn say(line: &str) {
    let line = printable(line, MAX_TEXT_BYTES);
    aside(&format!("kiln: {line}"));
}

/// Prints an error outside of any job: what is wrong, and how to fix it.
pub fn refuse(message: &str, hint: &str) {
    let mut text = format!("kiln: error: {}", printable(message, MAX_TEXT_BYTES));
    if !hint.is_empty() {
        text.push_str(&format!("\n  hint: {}", printable(hint, MAX_TEXT_BYTES)));
    }
    aside(&text);
}

/// Prints a job's error: what is wrong, how to fix it, and the last lines of the process at fault. `mark` tells the job, if
/// there are several, and then begins every line.
pub fn complain(mark: &str, error: &JobError) {
    let mut text = format!("kiln: {mark}error: {}", error.message);
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
    if !mark.is_empty() {
        text = text.replace('\n', &format!("\nkiln: {mark}"));
    }
    aside(&text);
}

/// Prints for people, who may have left.
fn aside(text: &str) {
    drop(print(&mut io::stderr().lock(), text));
}

fn print(out: &mut impl Write, text: &str) -> io::Result<()> {
    write(out, format!("{text}\n").as_bytes())
}

fn write(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.flush()
}
