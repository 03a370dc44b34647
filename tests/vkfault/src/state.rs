//! The calls so far, their log, and what happens to the next one.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::fault::{Action, Error, Fault};
use crate::{DROPPABLE, FAULT, LOG, PROCESSES, STRUCK};

/// What to do about a call.
pub(crate) enum Verdict {
    Pass,
    Fail(Error),
    Drop,
}

struct State {
    fault: Option<Fault>,
    log: Option<File>,
    /// Number of calls per command; the totals of fallible and of droppable ones follow.
    counts: HashMap<&'static str, u64>,
    fallible: u64,
    droppable: u64,
}

/// Counts and logs a call of `name`, and decides. Does not return if the call is to hang.
pub(crate) fn meet(name: &'static str, fallible: bool) -> Verdict {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    let state = STATE.get_or_init(|| Mutex::new(State::from_environment()));
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let struck = state.count(name, fallible);
    state.write(name, fallible, struck.is_some());
    drop(state);
    match struck {
        None => Verdict::Pass,
        Some(Action::Once(error) | Action::Sticky(error)) => Verdict::Fail(error),
        Some(Action::Drop) => Verdict::Drop,
        Some(Action::Hang) => hang(),
    }
}

fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

impl State {
    /// Ends the process if the variables are invalid: a test must not pass because its fault was misspelt.
    fn from_environment() -> Self {
        let text = |name| std::env::var(name).ok();
        let fault = text(FAULT).map(|fault| match fault.parse() {
            Ok(fault) => fault,
            Err(error) => give_up(&format!("{FAULT}: {error}")),
        });
        let (log, process) = match text(LOG) {
            None => (None, 1),
            Some(folder) => match claim(Path::new(&folder)) {
                Ok((file, process)) => (Some(file), process),
                Err(error) => give_up(&format!("{LOG}: {folder}: {error}")),
            },
        };
        let processes = text(PROCESSES).map_or(u64::MAX, |count| match count.parse() {
            Ok(count) => count,
            Err(error) => give_up(&format!("{PROCESSES}: {error}")),
        });
        Self {
            fault: fault.filter(|_| process <= processes),
            log,
            counts: HashMap::new(),
            fallible: 0,
            droppable: 0,
        }
    }

    fn count(&mut self, name: &'static str, fallible: bool) -> Option<Action> {
        let droppable = !fallible || DROPPABLE.contains(&name);
        let own = self.counts.entry(name).or_default();
        *own += 1;
        self.fallible += u64::from(fallible);
        self.droppable += u64::from(droppable);
        let fault = self.fault.as_ref()?;
        let (counted, all) = match fault.action {
            Action::Drop => (droppable, self.droppable),
            Action::Once(_) | Action::Sticky(_) | Action::Hang => (fallible, self.fallible),
        };
        let at = match &fault.command {
            None => all,
            Some(command) if command == name => *own,
            Some(_) => return None,
        };
        let struck = match fault.action {
            Action::Sticky(_) => at >= fault.nth,
            Action::Once(_) | Action::Hang | Action::Drop => at == fault.nth,
        };
        (counted && struck).then_some(fault.action)
    }

    #[expect(clippy::print_stderr, reason = "a layer has nowhere else to say it")]
    fn write(&mut self, name: &str, fallible: bool, struck: bool) {
        let Some(log) = &mut self.log else {
            if struck {
                eprintln!("{STRUCK}{name}");
            }
            return;
        };
        let mark = match (struck, fallible) {
            (true, _) => "!",
            (false, true) => "",
            (false, false) => "-",
        };
        if let Err(error) = log.write_all(format!("{mark}{name}\n").as_bytes()) {
            give_up(&format!("{LOG}: {error}"));
        }
    }
}

/// Creates the log of this process; returns it with the process's number among those that loaded the layer.
fn claim(folder: &Path) -> io::Result<(File, u64)> {
    for process in 1.. {
        let path = folder.join(process.to_string());
        match OpenOptions::new().append(true).create_new(true).open(path) {
            Ok(file) => return Ok((file, process)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[expect(clippy::print_stderr, reason = "a layer has nowhere else to say it")]
fn give_up(why: &str) -> ! {
    eprintln!("vkfault: {why}");
    std::process::abort();
}
