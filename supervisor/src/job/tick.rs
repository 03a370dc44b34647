//! Reacts to the clock: kills stuck processes, makes delayed starts, and ends a job whose time is over.

use std::time::Instant;

use proto::message::{Code, Role};

use super::{Job, Kind};
use crate::error::JobError;
use crate::job::life;
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
            self.step(life::JobEvent::Due(role));
        }
        self.knock();
        self.host.tend_spares(now);
        if now.duration_since(self.started) >= self.kind.timeout() {
            let error = self.deadline();
            self.step(life::JobEvent::Stop(error));
        }
    }

    fn deadline(&self) -> Box<JobError> {
        let limit = words::span(self.kind.timeout());
        let hint = self.kind.more_time();
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
        let who = match self.kind {
            Kind::Bake(_) => role.name(),
            Kind::Compare(_) => "it",
        };
        let doing = words::doing(phase);
        let message = format!("not finished within {limit}: {who} was still {doing}");
        let mut error = JobError::own(Code::DeadlineExceeded, message, hint);
        (error.role, error.phase) = (Some(role), Some(phase));
        error.device.clone_from(&running.adapter);
        error.log_tail = running.child.tail.lines();
        error
    }
}
