//! One fault of one bake, and the list of all of them.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};

use vkfault::{Action, DROPPABLE, Error, Fault};

/// A fault, and the call that it hit when the calls were counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What happens.
    pub fault: Fault,
    /// The command that it hits, according to the count. A run's own log says which one it really hit: timing moves
    /// some calls.
    pub call: String,
}

impl Cell {
    /// The number of bake processes that have the fault. A single fault happens only in the first, so that a fresh
    /// process shows whether the job recovers.
    pub fn processes(&self) -> Option<u32> {
        match self.fault.action {
            Action::Once(_) | Action::Hang => Some(1),
            Action::Sticky(_) | Action::Drop => None,
        }
    }
}

impl Display for Cell {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.fault, self.call)
    }
}

/// Every error, once and for ever, and a hang, for every fallible call of the log.
pub fn faults(log: &[String]) -> Vec<Cell> {
    let errors = Error::ALL.map(Action::Once).into_iter();
    let actions: Vec<Action> = errors
        .chain(Error::ALL.map(Action::Sticky))
        .chain([Action::Hang])
        .collect();
    let calls = log.iter().filter(|call| !call.starts_with('-'));
    (1..)
        .zip(calls)
        .flat_map(|(nth, call)| {
            actions.iter().map(move |&action| Cell {
                fault: Fault {
                    action,
                    nth,
                    command: None,
                },
                call: call.clone(),
            })
        })
        .collect()
}

/// Commands that the completion sentinel counts, so that a dropped one is noticed. It does not count single copies or
/// clears.
const COUNTED: [&str; 4] = [
    "vkQueueSubmit",
    "vkCmdDispatch",
    "vkCmdDispatchIndirect",
    "vkCmdDraw",
];

/// Every command whose loss must be noticed. Each command's calls are counted apart: two threads make them, and a copy may
/// come earlier or later among them.
pub fn drops(log: &[String]) -> Vec<Cell> {
    let mut counts: HashMap<&str, u64> = HashMap::new();
    let names = log.iter().map(|call| call.trim_start_matches('-'));
    names
        .filter(|call| DROPPABLE.contains(call) && COUNTED.contains(call))
        .map(|call| {
            let nth = counts.entry(call).or_default();
            *nth += 1;
            Cell {
                fault: Fault {
                    action: Action::Drop,
                    nth: *nth,
                    command: Some(call.to_owned()),
                },
                call: call.to_owned(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_gets_every_fault() {
        let log = [
            "vkCreateDevice",
            "-vkCmdFillBuffer",
            "-vkCmdDraw",
            "vkQueueSubmit",
            "vkMapMemory",
        ];
        let log = log.map(str::to_owned);
        let cells = faults(&log);
        assert_eq!(cells.len(), 3 * 9);
        assert_eq!(cells[9].to_string(), "once=-1@2 (vkQueueSubmit)");
        assert_eq!(cells[26].to_string(), "hang@3 (vkMapMemory)");
        let drops: Vec<String> = drops(&log).iter().map(ToString::to_string).collect();
        assert_eq!(
            drops,
            [
                "drop@1/vkCmdDraw (vkCmdDraw)",
                "drop@1/vkQueueSubmit (vkQueueSubmit)"
            ]
        );
    }
}
