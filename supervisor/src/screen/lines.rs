//! Shows short lines on standard error, for logs: one for each finished stage, and one every five seconds between.

use std::time::{Duration, Instant};

use proto::message::{Phase, Role};

use super::course::{Course, Over};
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
    course: Course,
    said: Option<Instant>,
}

impl Lines {
    /// The listener of one of several jobs.
    pub(super) fn of(job: &str) -> Self {
        Self {
            mark: super::mark(job),
            ..Self::default()
        }
    }

    fn say(&self, text: &str) {
        say(&format!("{}{text}", self.mark));
    }

    fn finish(&mut self, role: Role, over: Vec<Over>) {
        for (phase, state) in over {
            let count = match unit(phase) {
                "" => String::new(),
                _ if state.done == 0 => String::new(),
                unit => format!("{}{unit}, ", state.done),
            };
            let time = span(state.since.elapsed());
            self.say(&format!("{}: {count}{time}", stage(role, phase)));
            self.said = Some(Instant::now());
        }
    }

    fn progress(&mut self, role: Role, phase: Phase, state: PhaseState) {
        let known = self.course.is_open(role, phase);
        let over = self.course.count(role, phase, state);
        self.finish(role, over);
        if !self.course.is_open(role, phase) {
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
                self.course.again(*role);
                self.say(&format!(
                    "{}: trying again {}",
                    fault.message,
                    step.describe()
                ));
            }
            Event::RoleDone { role, time } => {
                let over = self.course.done(*role);
                self.finish(*role, over);
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
                    complain(&self.mark, error);
                }
            }
        }
    }
}
