//! How a stage says that work was done: [`Progress`] upwards to whoever listens, [`PhaseClock`] for the report.

use std::time::Instant;

use proto::message::{Phase, PhaseTime};

/// Listens to the pipeline. Called from many threads; counts are of work done, never of time passed.
pub trait Progress: Sync {
    /// `done` of `total` units of the phase are done; `total` is 0 where unknown.
    fn progress(&self, phase: Phase, done: u64, total: u64);

    /// Something the user should know, in one line; the job goes on.
    fn warning(&self, text: &str);
}

/// Listens to nothing: for tests and tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn progress(&self, _phase: Phase, _done: u64, _total: u64) {}

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

    /// The times, in the order in which the phases first ran.
    #[must_use]
    pub fn into_times(self) -> Vec<PhaseTime> {
        self.times
    }
}
