//! Shows one bar per stage on a terminal: what it does, how far it is, and the time left.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use proto::message::{Phase, Role};

use super::course::Course;
use crate::event::{Event, Listener};
use crate::print::{complain, outcome, say};
use crate::process::watch::PhaseState;
use crate::words::{sentence, span, stage, unit};

/// A spinner turns this often. It shows that the supervisor is alive, not the worker.
const SPIN: Duration = Duration::from_millis(120);

/// A phase whose total is known.
const COUNTED: &str = "{spinner} {prefix:<38} {bar:24} {percent:>3} %  {msg}";
/// A phase whose total is not.
const OPEN: &str = "{spinner} {prefix:<38} {msg}";
/// A phase that is over.
const OVER: &str = "✓ {prefix:<38} {msg}";

pub(super) struct Bars {
    all: MultiProgress,
    bars: HashMap<(Role, Phase), ProgressBar>,
    course: Course,
}

impl Bars {
    pub(super) fn new(all: MultiProgress) -> Self {
        Self {
            all,
            bars: HashMap::new(),
            course: Course::default(),
        }
    }

    fn progress(&mut self, role: Role, phase: Phase, state: PhaseState) {
        for (over, state) in self.course.count(role, phase, state) {
            if let Some(bar) = self
                .bars
                .get(&(role, over))
                .filter(|bar| !bar.is_finished())
            {
                finish(bar, state.since.elapsed());
            }
        }
        if !self.course.is_open(role, phase) {
            return;
        }
        let counted = state.total > 0;
        let bar = self.bars.entry((role, phase)).or_insert_with(|| {
            // Styled before it is added, since adding may draw it.
            let bar = ProgressBar::hidden().with_style(style(if counted { COUNTED } else { OPEN }));
            bar.set_prefix(sentence(&stage(role, phase)));
            let bar = self.all.add(bar);
            bar.enable_steady_tick(SPIN);
            bar
        });
        if bar.is_finished() {
            return;
        }
        if counted {
            if bar.length() != Some(state.total) {
                bar.set_style(style(COUNTED));
                bar.set_length(state.total);
            }
            bar.set_position(state.done.min(state.total));
        }
        let now = Instant::now();
        let left = state
            .time_left(now)
            .map(|left| format!("{} left", span(left)));
        let count = if unit(phase).is_empty() {
            String::new()
        } else {
            format!("{}{} ", state.done, unit(phase))
        };
        bar.set_message(format!("{count}{}", left.unwrap_or_default()));
        if state.total > 0 && state.done >= state.total {
            finish(bar, state.since.elapsed());
        }
    }

    /// Ends the bars of a role: completed if `done`, removed otherwise.
    fn close(&mut self, role: Role, done: bool) {
        self.course.again(role);
        let bars = &mut self.bars;
        bars.retain(|(owner, _), bar| {
            if *owner != role {
                return true;
            }
            match done {
                true if !bar.is_finished() => finish(bar, bar.elapsed()),
                true => {}
                false => bar.finish_and_clear(),
            }
            false
        });
    }

    fn line(&self, text: &str) {
        self.all.suspend(|| say(text));
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_wrong| ProgressStyle::default_bar())
        .progress_chars("━╸─")
}

fn finish(bar: &ProgressBar, time: Duration) {
    bar.set_style(style(OVER));
    bar.finish_with_message(span(time));
}

impl Listener for Bars {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { .. }
            | Event::Ended { .. }
            | Event::Killing { .. }
            | Event::Working { .. }
            | Event::Host(_) => {}
            Event::Progress { role, phase, state } => self.progress(*role, *phase, *state),
            Event::Held { role, why } => {
                self.line(&format!("{} waits: {why}", role.name()));
            }
            Event::Warning { role, text } => {
                self.line(&format!("warning: {}: {text}", role.name()));
            }
            Event::Retry {
                role, fault, step, ..
            } => {
                self.close(*role, false);
                self.line(&format!(
                    "{}: trying again {}",
                    fault.message,
                    step.describe()
                ));
            }
            Event::RoleDone { role, .. } => self.close(*role, true),
            Event::Done(report) => {
                for line in report.summary() {
                    self.line(&line);
                }
                outcome(report);
            }
            Event::Failed(report) => {
                for role in [Role::Prepare, Role::Bake, Role::Encode] {
                    self.close(role, false);
                }
                if let Some(error) = &report.error {
                    self.all.suspend(|| complain("", error));
                }
            }
        }
    }
}
