//! Reacts to the clock: kills stuck processes, makes delayed starts, and ends a job whose time is over.

use std::time::Instant;

use proto::message::{Code, Role};
use proto::recorder;

use super::{Job, Running};
use crate::error::JobError;
use crate::life;
use crate::procfs::{self, Condition, Share};
use crate::verdict::Kill;
use crate::words;

impl Job<'_> {
    pub(super) fn tick(&mut self, now: Instant) {
        for running in &mut self.running {
            if let Some(kill) = running.look(now) {
                running.kill(kill, self.listener);
            }
        }
        let due: Vec<Role> = self
            .delayed
            .extract_if(.., |(time, _)| *time <= now)
            .map(|(_, role)| role)
            .collect();
        for role in due {
            self.step(life::Event::Due(role));
        }
        self.knock();
        self.host.tend_spares(now);
        if now.duration_since(self.started) >= self.spec.options.timeout() {
            let error = self.deadline();
            self.step(life::Event::Stop(error));
        }
    }

    fn deadline(&self) -> Box<JobError> {
        let limit = words::span(self.spec.options.timeout());
        let hint = "--timeout SECONDS allows more; --quality draft needs less";
        let Some(running) = self
            .running
            .iter()
            .find(|running| running.answered.is_none())
        else {
            let mut message = format!("not finished within {limit}");
            if let Some(held) = self.held.first() {
                message.push_str(&format!(
                    ": {} was put off, since {}",
                    held.role.name(),
                    held.why
                ));
            }
            return JobError::own(Code::DeadlineExceeded, message, hint);
        };
        let (role, phase) = (running.child.role, running.watch.phase());
        let message = format!(
            "not finished within {limit}: {} was still {}",
            role.name(),
            words::doing(phase)
        );
        let mut error = JobError::own(Code::DeadlineExceeded, message, hint);
        (error.role, error.phase) = (Some(role), Some(phase));
        error.device.clone_from(&running.adapter);
        error.log_tail = running.child.tail.lines();
        error
    }
}

impl Running {
    /// Why the process must be killed, if it must.
    pub(super) fn look(&mut self, now: Instant) -> Option<Kill> {
        match recorder::read_state(self.child.recorder.file()) {
            Ok(Some(state)) => self.watch.recorded(&state),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the flight recorder cannot be read"),
        }
        let mut starved = 0.0;
        if self.watch.suspicious() {
            let share = Share::of(self.child.pid);
            if self.share != Share::default() {
                starved = share.starved_since(&self.share);
            }
            self.share = share;
        }
        // A bake that opens its adapter and compiles is owed nothing yet. Its driver may hang, and otherwise nobody
        // would notice.
        let opening = self.child.role == Role::Bake && !self.feed.compiled();
        let owed = !opening && !self.feed.ended();
        let kill = self.watch.tick(now, owed, starved)?;
        let stall = matches!(kill, Kill::Stall { .. });
        if stall && procfs::condition(self.child.pid) == Condition::Stopped {
            return Some(Kill::Frozen);
        }
        Some(kill)
    }
}
