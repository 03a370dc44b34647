//! Shows short lines on standard error, for logs: one for each finished stage, and one every five seconds between.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use proto::message::{Phase, Role};

use crate::event::{Event, Listener};
use crate::print::{complain, outcome, say};
use crate::process::watch::PhaseState;
use crate::words::{span, stage, unit};

/// Interval between lines about unfinished work.
const INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Prefix of each line, if there are several jobs.
    mark: String,
    /// Phases that have begun and are not known to have ended.
    open: HashMap<(Role, Phase), PhaseState>,
    said: Option<Instant>,
}

impl Lines {
    /// The listener of one of several jobs.
    pub(super) fn of(job: &str) -> Self {
        Self {
            mark: format!("{job}: "),
            ..Self::default()
        }
    }

    fn say(&self, text: &str) {
        say(&format!("{}{text}", self.mark));
    }

    fn finish(&mut self, role: Role, phase: Phase) {
        if let Some(state) = self.open.remove(&(role, phase)) {
            let count = if unit(phase).is_empty() || state.done == 0 {
                String::new()
            } else {
                format!("{}{}, ", state.done, unit(phase))
            };
            self.say(&format!(
                "{}: {count}{}",
                stage(role, phase),
                span(state.since.elapsed())
            ));
            self.said = Some(Instant::now());
        }
    }

    /// Ends the open phases of a role that come before `phase`, or all of them.
    fn finish_before(&mut self, role: Role, phase: Option<Phase>) {
        let mut over: Vec<Phase> = self
            .open
            .keys()
            .filter(|(open, before)| {
                let ends = |phase: Phase| *before < phase && !before.is_beside(phase);
                *open == role && phase.is_none_or(ends)
            })
            .map(|(_, phase)| *phase)
            .collect();
        over.sort_unstable();
        for phase in over {
            self.finish(role, phase);
        }
    }

    fn progress(&mut self, role: Role, phase: Phase, state: PhaseState) {
        // A role's phases follow each other, so the next one ends those before it. Of two phases that run side by side,
        // each ends with its last count.
        self.finish_before(role, Some(phase));
        let known = self.open.insert((role, phase), state).is_some();
        if Phase::ALL.iter().any(|other| other.is_beside(phase))
            && state.total > 0
            && state.done >= state.total
        {
            self.finish(role, phase);
            return;
        }
        let now = Instant::now();
        let due = self.said.get_or_insert(now).elapsed() >= INTERVAL;
        if !due || !known {
            return;
        }
        self.said = Some(now);
        let share = state
            .fraction()
            .map(|share| format!(" {:.0} %", share * 100.0));
        let left = state
            .time_left(now)
            .map(|left| format!(", about {} left", span(left)));
        self.say(&format!(
            "{}{}{}",
            stage(role, phase),
            share.unwrap_or_default(),
            left.unwrap_or_default()
        ));
    }
}

impl Listener for Lines {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { .. }
            | Event::Ended { .. }
            | Event::Killing { .. }
            | Event::Working { .. }
            | Event::Host(_) => {}
            Event::Progress { role, phase, state } => self.progress(*role, *phase, *state),
            Event::Held { role, why } => self.say(&format!("{} waits: {why}", role.name())),
            Event::Warning { role, text } => self.say(&format!("warning: {}: {text}", role.name())),
            Event::Retry {
                role, fault, step, ..
            } => {
                self.open.retain(|(open, _), _| open != role);
                self.say(&format!(
                    "{}: trying again {}",
                    fault.message,
                    step.describe()
                ));
            }
            Event::RoleDone { role, time } => {
                self.finish_before(*role, None);
                self.say(&format!("{}: done in {}", role.name(), span(*time)));
            }
            Event::Done(report) => {
                for line in report.summary() {
                    self.say(&line);
                }
                outcome(report);
            }
            Event::Failed(report) => {
                if let Some(error) = &report.error {
                    complain(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(lines: &mut Lines, phase: Phase, done: u64, total: u64) {
        let state = PhaseState {
            since: Instant::now(),
            done,
            total,
        };
        lines.progress(Role::Prepare, phase, state);
    }

    fn open(lines: &Lines) -> Vec<Phase> {
        let mut open: Vec<Phase> = lines.open.keys().map(|(_, phase)| *phase).collect();
        open.sort_unstable();
        open
    }

    #[test]
    fn a_phase_ends_those_before_it_and_two_side_by_side_end_by_themselves() {
        let mut lines = Lines::default();
        count(&mut lines, Phase::Clean, 0, 0);
        count(&mut lines, Phase::Unwrap, 3, 9);
        assert_eq!(open(&lines), [Phase::Unwrap]);
        count(&mut lines, Phase::DecodeViews, 1, 2);
        assert_eq!(open(&lines), [Phase::Unwrap, Phase::DecodeViews]);
        count(&mut lines, Phase::DecodeViews, 2, 2);
        assert_eq!(open(&lines), [Phase::Unwrap]);
        count(&mut lines, Phase::Unwrap, 9, 9);
        assert!(lines.open.is_empty());
    }
}
