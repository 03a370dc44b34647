//! Handles the end of a process: reads its last words, names its fault, and informs the report and [`crate::job::life`].

use std::time::{Duration, Instant};

use proto::blob::Blob;
use proto::message::{Code, Role};
use proto::recorder::{self, Slot};

use super::running::{Answer, Running};
use super::{Evidence, Job, Kind};
use crate::error::Attempt;
use crate::event::Event;
use crate::host::pipelines::{self, Key};
use crate::job::crash::{self, Death};
use crate::job::life;
use crate::process::cgroup::OomScope;
use crate::process::child::ChildId;
use crate::process::verdict::{Ending, Exit, Kill, LastWords, MemoryKill, fault};

/// What the report needs of a process besides how it ended.
#[derive(Debug)]
pub(super) struct Grave {
    number: u32,
    pid: u32,
    time: Duration,
    tail: Vec<String>,
    /// The key of cached pipelines that it was given, and whether its stages were compiled.
    lent: Option<Key>,
    compiled: bool,
}

impl Grave {
    /// For a process that could not be started.
    pub(super) fn unborn(number: u32) -> Self {
        Self {
            number,
            pid: 0,
            time: Duration::ZERO,
            tail: Vec::new(),
            lent: None,
            compiled: false,
        }
    }
}

impl Job<'_> {
    /// The process ended, or is given up.
    pub(super) fn ended(&mut self, id: ChildId, exit: Exit) {
        let known = self
            .running
            .iter()
            .position(|running| running.child.id == id);
        let Some(place) = known else {
            // It was given up before.
            return;
        };
        let Running {
            child,
            number,
            mut watch,
            dispatcher,
            loan,
            adapter,
            answered,
            kill,
            group,
            ..
        } = self.running.swap_remove(place);
        if let Ok(Some(state)) = recorder::read_state(child.recorder.file()) {
            watch.recorded(&state);
        }
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
        let ending = Ending {
            role: child.role,
            phase: watch.phase(),
            hello: watch.said_hello(),
            adapter,
            failure,
            kill,
            memory_kill: group
                .and_then(|group| group.oom_killed())
                .map(|oom| MemoryKill {
                    peak: oom.peak_bytes,
                    limit: oom.limit,
                    host: oom.scope == OomScope::Host,
                }),
            last: last_words(&child.recorder),
            exit,
        };
        let grave = Grave {
            number,
            pid: child.pid,
            time: child.spawned.elapsed(),
            tail: child.tail.lines(),
            lent: loan.given(),
            compiled: dispatcher.compiled(),
        };
        if ending.exit == Exit::Unkillable {
            self.host.park(child);
        }
        self.buried(ending, done, grave);
    }

    pub(super) fn buried(&mut self, ending: Ending, done: bool, grave: Grave) {
        let Grave {
            number,
            pid,
            time,
            tail,
            lent,
            compiled,
        } = grave;
        let role = ending.role;
        let mut fault = fault(&ending);
        if role == Role::Bake {
            self.host.leave_slot(&self.name);
        }
        let lent = lent.filter(|_| !done);
        let blamed = lent.filter(|_| pipelines::suspected(fault.code, &ending.exit, compiled));
        if let Some(key) = blamed {
            self.host.vault().blame(key);
        }
        let now = Instant::now();
        if done {
            (self.host.gate()).done(&self.name, role, ending.adapter.as_ref(), now);
        } else {
            (self.host.gate()).failed(&self.name, &ending, &mut fault, now);
            if matches!(fault.code, Code::GpuDeviceLost | Code::GpuHang) {
                // A reset also takes the devices of processes that did nothing wrong.
                self.host.spares().discard(ending.adapter.as_ref());
            }
        }
        let how = how(&ending);
        self.listener.event(&Event::Ended {
            role,
            attempt: number,
            pid,
            how: &how,
        });
        let wanted = !matches!(ending.kill, Some(Kill::JobOver | Kill::Superseded));
        let crash = match self.kind {
            Kind::Bake(spec) if !done && wanted && crash::worth_keeping(fault.code) => {
                crash::keep(&Death {
                    spec,
                    ending: &ending,
                    fault: &fault,
                    rung: self.life.rung(),
                    pid,
                    tail: &tail,
                })
            }
            Kind::Bake(_) | Kind::Compare(_) => None,
        };
        self.report.attempts.push(Attempt {
            role,
            number,
            pid,
            ended: how,
            phase: ending.phase,
            ms: time.as_secs_f64() * 1e3,
            class: (!done).then_some(fault.class),
            code: (!done).then_some(fault.code),
            device: ending.adapter.clone(),
            crash_folder: crash.clone(),
        });
        if !done && wanted {
            let evidence = Evidence {
                phase: ending.phase,
                exit: ending.exit.clone(),
                adapter: ending.adapter.clone(),
                tail,
                crash,
            };
            self.evidence.insert(role, evidence);
        }
        self.step(life::JobEvent::Ended {
            role,
            fault: Box::new(fault),
            exit: ending.exit,
            adapter: ending.adapter,
            suspected: blamed.is_some(),
        });
    }
}

fn last_words(recorder: &Blob) -> LastWords {
    let file = recorder.file();
    let note = |slot| recorder::read_note(file, slot).ok().flatten();
    let state = recorder::read_state(file).ok().flatten();
    LastWords {
        label: state.map(|state| state.label()).unwrap_or_default(),
        panic: note(Slot::Panic),
        signal: note(Slot::Signal),
        memory: note(Slot::Memory),
    }
}

/// How the process ended, for the report's list of attempts.
fn how(ending: &Ending) -> String {
    match (&ending.kill, &ending.exit) {
        (_, Exit::Unkillable) => "cannot be killed".to_owned(),
        (Some(Kill::NoHello { .. }), _) => "no hello".to_owned(),
        (Some(Kill::Stall { ms }), _) => format!("stalled for {:.1} s", *ms as f64 / 1e3),
        (Some(Kill::Frozen), _) => "stopped by somebody".to_owned(),
        (Some(Kill::Violation(_)), _) => "protocol violation".to_owned(),
        (Some(Kill::Mismatch(_)), _) => "another build".to_owned(),
        (Some(Kill::Short(_)), _) => "no descriptors".to_owned(),
        (Some(Kill::Unconfined(_)), _) => "not in its sandbox".to_owned(),
        (Some(Kill::Superseded | Kill::JobOver), _) => "killed, no longer needed".to_owned(),
        (_, Exit::NotSpawned { .. }) => "not started".to_owned(),
        (_, Exit::Code(code)) => format!("exit {code}"),
        (_, exit @ Exit::Signal(_)) => exit.signal_name().unwrap_or_default(),
    }
}
