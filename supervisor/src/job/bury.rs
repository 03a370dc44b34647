//! A process has ended → what that means for the job: go on, start a fresh one, or give up.

use std::time::{Duration, Instant};

use proto::message::Role;

use super::{Answer, Job, Running};
use crate::error::{Attempt, JobError};
use crate::event::Event;
use crate::verdict::{Ending, Exit, Kill, RetryClass, Verdict, judge};

impl Job<'_> {
    pub(super) fn ended(&mut self, running: Running, exit: Exit) {
        let Running {
            child,
            number,
            watch,
            answered,
            kill,
            ..
        } = running;
        let (done, failure) = match answered {
            Some(Answer::Done) => (true, None),
            Some(Answer::Failed(failure)) => (false, Some(failure)),
            None => (false, None),
        };
        if done && exit != Exit::Code(0) {
            tracing::warn!(
                role = child.role.name(),
                pid = child.pid,
                ?exit,
                "ended badly after its result was complete"
            );
        }
        let (role, phase, hello) = (child.role, watch.phase(), watch.said_hello());
        let ending = Ending {
            role,
            phase,
            hello,
            done,
            failure,
            kill,
            exit,
        };
        self.buried(
            &ending,
            number,
            child.pid,
            child.spawned.elapsed(),
            child.tail.lines(),
        );
    }

    pub(super) fn buried(
        &mut self,
        ending: &Ending,
        number: u32,
        pid: u32,
        time: Duration,
        tail: Vec<String>,
    ) {
        let role = ending.role;
        let deaths = self.deaths.get(&role).copied().unwrap_or(0);
        let verdict = judge(ending, deaths, self.retries);
        let class = match &verdict {
            Verdict::Success => None,
            Verdict::Retry(fault) | Verdict::Fail(fault) => Some(fault.class),
        };
        let (phase, ms) = (ending.phase, time.as_secs_f64() * 1e3);
        self.report.attempts.push(Attempt {
            role,
            number,
            pid,
            ended: how(ending),
            phase,
            ms,
            class,
        });
        if self.error.is_some() || self.finished {
            return;
        }
        if class.is_some_and(|class| class != RetryClass::Victim) {
            self.deaths.insert(role, deaths + 1);
        }
        match verdict {
            Verdict::Success => {}
            Verdict::Retry(fault) => {
                self.retries += 1;
                let delay = fault.class.delay();
                if fault.class != RetryClass::Victim {
                    self.listener.event(&Event::Retry {
                        role,
                        fault: &fault,
                        delay,
                    });
                }
                self.withdraw(role);
                if delay.is_zero() {
                    // Bounded: every round through here takes one of the job's retries.
                    self.spawn(role);
                } else {
                    self.delayed.push((Instant::now() + delay, role));
                }
            }
            Verdict::Fail(fault) => {
                let mut error = JobError::own(fault.code, fault.message, fault.hint);
                error.class = fault.class;
                (error.role, error.phase) = (Some(role), Some(phase));
                error.signal = ending.exit.signal_name();
                error.exit = if let Exit::Code(code) = ending.exit {
                    Some(code)
                } else {
                    None
                };
                error.log_tail = tail;
                self.error = Some(error);
            }
        }
    }

    /// Forgets a dead attempt's tables, and ends whoever was fed with them.
    pub(super) fn withdraw(&mut self, role: Role) {
        self.stock.discard(role);
        if role != Role::Prepare {
            return;
        }
        for running in &mut self.running {
            if running.child.role == Role::Bake && running.feed.started() {
                running.kill(Kill::Superseded);
            }
        }
    }
}

fn how(ending: &Ending) -> String {
    match (&ending.kill, &ending.exit) {
        (Some(Kill::NoHello { .. }), _) => "no hello".to_owned(),
        (Some(Kill::Stall { seconds }), _) => format!("stalled for {seconds} s"),
        (Some(Kill::Violation(_)), _) => "protocol violation".to_owned(),
        (Some(Kill::Mismatch(_)), _) => "another build".to_owned(),
        (Some(Kill::Superseded | Kill::JobOver), _) => "killed, no longer needed".to_owned(),
        (_, Exit::NotSpawned { .. }) => "not started".to_owned(),
        (_, Exit::Code(code)) => format!("exit {code}"),
        (_, exit @ Exit::Signal(_)) => exit.signal_name().unwrap_or_default(),
    }
}
