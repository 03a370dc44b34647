//! Writes lines to the history file, and counts the faults among them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use kiln_tests::history::Line;

#[derive(Debug)]
pub(crate) struct Writer {
    file: BufWriter<File>,
    pub(crate) faults: u64,
}

impl Writer {
    pub(crate) fn create(path: &Path) -> Self {
        let file = File::create(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self {
            file: BufWriter::new(file),
            faults: 0,
        }
    }

    pub(crate) fn write(&mut self, line: &Line) {
        self.faults += u64::from(matches!(line, Line::Fault { .. }));
        let text = serde_json::to_string(line).expect("a line is JSON");
        writeln!(self.file, "{text}").expect("room for the history");
    }
}
