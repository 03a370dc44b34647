//! One guard for a stage of a role: it announces the phase and the predicted duration, sums the wall time of the phase,
//! and opens a trace span.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use proto::message::{Phase, PhaseTime};

use crate::worker::progress::{PhaseClock, Progress, unit};
use crate::worker::step_times::timed;

/// Announcement of a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage<'a> {
    /// The phase that it belongs to.
    pub(crate) phase: Phase,
    /// Units of the phase; 0 where unknown.
    pub(crate) total: u64,
    /// Label of its first unit, and the longest time that this should take on a slow machine.
    pub(crate) unit: (&'a str, Duration),
}

/// What the stages of a role share: the listener and the clock.
pub(crate) struct Stages<'a> {
    pub(crate) progress: &'a dyn Progress,
    clock: Mutex<PhaseClock>,
}

impl<'a> Stages<'a> {
    pub(crate) fn new(progress: &'a dyn Progress) -> Self {
        Self {
            progress,
            clock: Mutex::default(),
        }
    }

    /// Announces a stage.
    pub(crate) fn announce(&self, stage: Stage<'_>) {
        self.progress.progress(stage.phase, 0, stage.total);
        self.progress.expect(stage.unit.0, stage.unit.1);
    }

    /// Runs `work` as an announced stage.
    pub(crate) fn run<T>(&self, stage: Stage<'_>, work: impl FnOnce() -> T) -> T {
        self.announce(stage);
        self.time(stage.phase, work)
    }

    /// Runs `work` as a further part of a phase. Such parts must not contain each other.
    pub(crate) fn time<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let mut clock = PhaseClock::default();
        let span = tracing::debug_span!("phase", ?phase);
        let done = span.in_scope(|| clock.time(phase, work));
        self.append(clock);
        done
    }

    /// [`Self::time`], with the wall time of this step in the report.
    pub(crate) fn step<T>(&self, phase: Phase, step: &str, work: impl FnOnce() -> T) -> T {
        self.time(phase, || timed(step, work))
    }

    /// Lends listener and clock to code that takes both apart.
    pub(crate) fn lend<T>(&self, work: impl FnOnce(&dyn Progress, &mut PhaseClock) -> T) -> T {
        let mut clock = PhaseClock::default();
        let done = work(self.progress, &mut clock);
        self.append(clock);
        done
    }

    fn append(&self, clock: PhaseClock) {
        let mut own = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        own.append(clock);
    }

    /// The time of each phase so far, in the order in which the phases first ended.
    pub(crate) fn take_times(&self) -> Vec<PhaseTime> {
        let mut own = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *own).into_times()
    }
}

/// [`timed`] work that is one announced unit.
pub(crate) fn timed_unit<T>(step: &str, work: impl FnOnce() -> T) -> T {
    let done = timed(step, work);
    unit();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes what it hears.
    #[derive(Default)]
    struct Notes(Mutex<Vec<String>>);

    impl Progress for Notes {
        fn progress(&self, phase: Phase, done: u64, total: u64) {
            let note = format!("{phase:?} {done} of {total}");
            self.0.lock().expect("no panic").push(note);
        }

        fn expect(&self, label: &str, predicted: Duration) {
            let note = format!("{label} {predicted:?}");
            self.0.lock().expect("no panic").push(note);
        }

        fn warning(&self, _text: &str) {}
    }

    #[test]
    fn a_stage_is_announced_and_each_phase_has_one_time() {
        let notes = Notes::default();
        let stages = Stages::new(&notes);
        let averages = Stage {
            phase: Phase::Init,
            total: 3,
            unit: ("averages", Duration::from_millis(7)),
        };
        assert_eq!(stages.run(averages, || 5), 5);
        stages.time(Phase::Fit, || ());
        let lent = stages.lend(|_, clock| clock.time(Phase::Init, || 6));
        assert_eq!(lent, 6);
        let times = stages.take_times();
        let phases: Vec<Phase> = times.iter().map(|time| time.phase).collect();
        assert_eq!(phases, [Phase::Init, Phase::Fit]);
        assert!(stages.take_times().is_empty());
        let heard = notes.0.into_inner().expect("no panic");
        assert_eq!(heard, ["Init 0 of 3", "averages 7ms"]);
    }
}
