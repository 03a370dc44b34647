//! Counts the outcomes of the cells by fault and by ending.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use kiln_tests::vulkan::{Cell, Kind, Seen, Violation};
use vkfault::{Action, Error};

#[derive(Debug, Default)]
pub(crate) struct Table {
    /// By fault, then by ending.
    counts: BTreeMap<&'static str, BTreeMap<&'static str, u32>>,
    pub(crate) violations: Vec<String>,
    pub(crate) longest: Duration,
}

impl Table {
    pub(crate) fn add(&mut self, cell: &Cell, verdict: Result<Seen, Violation>, time: Duration) {
        let end = match verdict {
            Ok(Seen { struck: false, .. }) => "not reached, right result",
            Ok(Seen {
                kind: Kind::Same, ..
            }) => "right result",
            Ok(Seen {
                kind: Kind::Recovered,
                ..
            }) => "right result, fresh process",
            Ok(Seen {
                kind: Kind::Failed(code),
                ..
            }) => code,
            Err(violation) => {
                self.violations.push(violation);
                "VIOLATION"
            }
        };
        let row = self.counts.entry(fault(cell.fault.action)).or_default();
        *row.entry(end).or_default() += 1;
        self.longest = self.longest.max(time);
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (fault, ends) in &self.counts {
            let all: u32 = ends.values().sum();
            let ends: Vec<String> = ends
                .iter()
                .map(|(end, count)| format!("{count} {end}"))
                .collect();
            // Writing to a string cannot fail.
            writeln!(text, "{fault:<32}{all:>6}: {}", ends.join(", ")).unwrap_or_default();
        }
        text
    }
}

fn fault(action: Action) -> &'static str {
    match action {
        Action::Once(Error::OutOfHostMemory) => "out of host memory, once",
        Action::Once(Error::OutOfDeviceMemory) => "out of device memory, once",
        Action::Once(Error::DeviceLost) => "device lost, once",
        Action::Once(Error::Unknown) => "unknown error, once",
        Action::Sticky(Error::OutOfHostMemory) => "out of host memory, for ever",
        Action::Sticky(Error::OutOfDeviceMemory) => "out of device memory, for ever",
        Action::Sticky(Error::DeviceLost) => "device lost, for ever",
        Action::Sticky(Error::Unknown) => "unknown error, for ever",
        Action::Hang => "hang",
        Action::Drop => "dropped silently",
    }
}
