//! How a stage reports work: [`Progress`] for whoever listens, [`PhaseClock`] for the report, [`Stages`] for both.

mod beside;
mod stages;
mod ticker;

use std::time::{Duration, Instant};

use proto::message::{Phase, PhaseTime};
use proto::recorder::{Recorder, State};

use crate::worker::{last_words, pace};

pub(crate) use beside::{Strand, both, own, said};
pub(crate) use stages::{Stage, Stages, timed_unit};
pub(crate) use ticker::{Ticker, ticked, ticking};

/// Receives progress. Called from many threads. Counts are of work done, never of time.
pub trait Progress: Sync {
    /// `done` of `total` units of the phase are done; `total` is 0 where unknown.
    fn progress(&self, phase: Phase, done: u64, total: u64);

    /// Announces a unit of work with a label, and the longest time that it should take on a slow machine. Needed before
    /// every unit that can take more than half a second there. The next count ends it.
    ///
    /// The supervisor takes a worker for stuck after four times that time without work, or after two seconds where
    /// nothing was announced.
    fn expect(&self, label: &str, predicted: Duration);

    /// A one-line warning for the user; the job goes on.
    fn warning(&self, text: &str);
}

/// Counts a unit of work deep in a stage: a band of pixels, an iteration, a pass of the adapter. The announced duration
/// holds for the next one, too. Called from many threads; costs one write of the flight recorder.
pub(crate) fn unit() {
    #[cfg(test)]
    heard::push(heard::Heard::Unit);
    note(|state| state.work += 1);
}

/// [`Progress::expect`] from deep in a stage.
pub(crate) fn expect(label: &str, predicted: Duration) {
    #[cfg(test)]
    heard::push(heard::Heard::Expect(label.to_owned(), predicted));
    note(|state| {
        // What was announced before is done: this must not be charged with it.
        state.work += 1;
        state.set_label(label);
        state.predicted_ms = u64::try_from(predicted.as_millis()).unwrap_or(u64::MAX);
        said(state);
    });
}

/// Predicted duration of one pass of an adapter.
pub(crate) fn pass(software: bool) -> Duration {
    if software {
        pace::SOFTWARE_PASS
    } else {
        pace::PASS
    }
}

/// Announces a wait for the adapter. A longer announcement of the stage stays in force.
pub(crate) fn wait_for(label: &str, software: bool) {
    #[cfg(test)]
    heard::push(heard::Heard::Wait(label.to_owned()));
    let pass = pass(software);
    note(|state| {
        state.set_label(label);
        let pass = u64::try_from(pass.as_millis()).unwrap_or(u64::MAX);
        state.predicted_ms = state.predicted_ms.max(pass);
        said(state);
    });
}

/// Has all of this process's work told to a flight recorder. A connected session does so; tests and tools may.
pub fn record(recorder: Recorder) {
    last_words::install(recorder, own);
}

/// Tells the flight recorder, if there is one.
pub(crate) fn note(change: impl FnOnce(&mut State)) {
    if let Some(recorder) = last_words::recorder() {
        recorder.note(|state| {
            #[cfg(feature = "failpoints")]
            let before = *state;
            change(state);
            #[cfg(feature = "failpoints")]
            crate::worker::failpoints::silence::heard(&before, state);
        });
    }
}

/// Predicted duration of `count` items of `nanoseconds` each, on a slow machine.
pub(crate) fn each(count: usize, nanoseconds: u64) -> Duration {
    Duration::from_nanos(count as u64 * nanoseconds)
}

/// What a thread has announced, for tests: they have no recorder.
#[cfg(test)]
pub(crate) mod heard {
    use std::cell::RefCell;
    use std::time::Duration;

    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum Heard {
        Unit,
        Expect(String, Duration),
        Wait(String),
    }

    thread_local! {
        static HEARD: RefCell<Vec<Heard>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn push(heard: Heard) {
        HEARD.with_borrow_mut(|all| all.push(heard));
    }

    /// What this thread announces during `work`.
    pub(crate) fn during<T>(work: impl FnOnce() -> T) -> (T, Vec<Heard>) {
        drop(HEARD.take());
        let done = work();
        (done, HEARD.take())
    }
}

/// Ignores everything: for tests and tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn progress(&self, _phase: Phase, _done: u64, _total: u64) {}

    fn expect(&self, _label: &str, _predicted: Duration) {}

    fn warning(&self, _text: &str) {}
}

/// Collects the wall time of each phase.
#[derive(Debug, Default)]
pub struct PhaseClock {
    times: Vec<PhaseTime>,
}

impl PhaseClock {
    /// Runs `work` as (part of) `phase` and adds its wall time.
    pub fn time<T>(&mut self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.add(phase, start.elapsed().as_secs_f64() * 1e3);
        result
    }

    /// Adds `ms` milliseconds to `phase`.
    pub fn add(&mut self, phase: Phase, ms: f64) {
        match self.times.iter_mut().find(|time| time.phase == phase) {
            Some(time) => time.ms += ms,
            None => self.times.push(PhaseTime { phase, ms }),
        }
    }

    /// Adds what another clock has measured.
    pub fn append(&mut self, other: Self) {
        for PhaseTime { phase, ms } in other.times {
            self.add(phase, ms);
        }
    }

    /// The times, in the order in which the phases first ran.
    pub fn into_times(self) -> Vec<PhaseTime> {
        self.times
    }
}
