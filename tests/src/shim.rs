//! Makes one system call of `kiln` fail, and reads the log of its calls.
//!
//! The library is `tests/iofault`. It is preloaded into the supervisor alone: children get a cleared environment.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What happens instead of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It fails with this errno.
    Errno(i32),
    /// A write writes half of its bytes.
    Cut,
    /// SIGKILL.
    Kill,
}

/// The Nth call of a kind, and what happens instead.
#[derive(Clone, Debug)]
pub struct Cell {
    /// A kind from `tests/iofault/src/calls.rs`, or `any`.
    pub call: String,
    /// From 1.
    pub nth: u32,
    /// Whether every later call is affected, too.
    pub sticky: bool,
    /// What happens.
    pub deed: Deed,
}

impl Cell {
    /// Once, or from that call on.
    pub fn new(call: &str, nth: u32, sticky: bool, deed: Deed) -> Self {
        let call = call.to_owned();
        Self {
            call,
            nth,
            sticky,
            deed,
        }
    }
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Its kind.
    pub call: String,
    /// Its number within the kind.
    pub nth: u32,
    /// Whether something else happened instead.
    pub hit: bool,
    /// Inode of its descriptor's file, or 0.
    pub inode: u64,
    /// Its first path, or the path of its descriptor.
    pub path: PathBuf,
    /// Its second path.
    pub second: PathBuf,
    /// The bytes that it wrote, if they were logged.
    pub data: Vec<u8>,
}

/// Preloads the library into a command. `log` gets one line per call.
pub fn preload(command: &mut Command, log: &Path) {
    command
        .env("LD_PRELOAD", crate::program("libiofault.so"))
        .env("IOFAULT_LOG", log);
}

/// Makes one call of the command fail.
pub fn sabotage(command: &mut Command, cell: &Cell) {
    command
        .env("IOFAULT_CALL", &cell.call)
        .env("IOFAULT_NTH", cell.nth.to_string());
    command.env(
        "IOFAULT_ERRNO",
        match cell.deed {
            Deed::Errno(number) => number.to_string(),
            Deed::Cut => "cut".to_owned(),
            Deed::Kill => "kill".to_owned(),
        },
    );
    if cell.sticky {
        command.env("IOFAULT_STICKY", "1");
    }
}

/// Reads a log.
pub fn read_log(path: &Path) -> Vec<Logged> {
    let text = fs::read_to_string(path).expect("the log");
    text.lines().map(read_line).collect()
}

fn read_line(line: &str) -> Logged {
    let mut fields = line.split('\t');
    let mut next = || {
        fields
            .next()
            .unwrap_or_else(|| panic!("a log line: {line:?}"))
    };
    let call = next().to_owned();
    let number = |text: &str| text.parse::<i64>().expect("a number");
    let (nth, errno, inode) = (number(next()), number(next()), number(next()));
    let (path, second, hex) = (next(), next(), next());
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).expect("hexadecimal");
        u8::from_str_radix(text, 16).expect("hexadecimal")
    };
    Logged {
        call,
        nth: u32::try_from(nth).expect("a count"),
        hit: errno != 0,
        inode: u64::try_from(inode).expect("an inode"),
        path: path.into(),
        second: second.into(),
        data: hex.as_bytes().chunks(2).map(byte).collect(),
    }
}

/// The number of calls of each kind.
pub fn counts(log: &[Logged]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for line in log {
        *counts.entry(line.call.clone()).or_default() += 1;
    }
    counts
}
