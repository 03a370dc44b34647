//! The life of one job as a pure state machine: an [`JobEvent`] goes in, [`Action`]s come out. It knows no clock, process
//! or file. The shell ([`crate::job`]) carries out the actions and reports their results as events.
//!
//! ```text
//!  accepted ─► prepare ─┐
//!          └─► bake ◄───┴─► encode ─► all processes gone ─► stage ─► name ─► finished: done      (a dry run has no encode, a comparison no bake either)
//!          failure that is not retried, cancel, deadline ─► all processes killed and gone ─► finished: failed
//!          drain ─────────────────────────────────────────► all processes killed and gone ─► finished: unfinished
//! ```
//!
//! Invariants, tested over millions of orders of events:
//!
//! - There is exactly one [`Action::Finish`], and nothing follows it.
//! - No role is started more than [`MAX_STARTS`] times.
//! - A file gets its name only after a complete answer and after staging.
//! - At the end no process is alive, except one that the kernel does not let die.

use std::time::Duration;

use proto::limits::MAX_STARTS;
use proto::message::{AdapterInfo, Code, Role};

use crate::error::JobError;
use crate::host::ladder::{self, Policy, Rung, Step};
use crate::process::verdict::{Exit, Fault, Kill, RetryClass};

/// What happened.
#[derive(Clone, Debug)]
pub enum JobEvent {
    /// The job was accepted.
    Begin,
    /// The delay before a start is over.
    Due(Role),
    /// The process received tables that prepare made.
    Fed(Role),
    /// The process reported that it is done, and every table that it owes is present and sealed.
    Answered(Role),
    /// The process is gone, could not be started, or cannot be killed.
    Ended {
        /// Its role.
        role: Role,
        /// What is wrong, if it had not answered.
        fault: Box<Fault>,
        /// How it ended.
        exit: Exit,
        /// The adapter that it had opened.
        adapter: Option<AdapterInfo>,
        /// It was given cached pipelines, and they may have caused the failure.
        suspected: bool,
    },
    /// The job must end: it was cancelled, its time is over, or the host cannot continue it.
    Stop(Box<JobError>),
    /// The supervisor exits and leaves the job to a later one.
    Drain,
    /// The files are written and synced beside their targets, or that failed.
    Staged(Result<(), Box<JobError>>),
    /// The files have their final names, or that failed.
    Named(Result<(), Box<JobError>>),
}

/// What to do.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum Action {
    /// Start a process. A bake works on this rung.
    Spawn {
        role: Role,
        /// The rung of the ladder.
        rung: Rung,
    },
    /// Send [`JobEvent::Due`] after a delay.
    Wait {
        /// The role whose start is delayed.
        role: Role,
        delay: Duration,
    },
    /// Report that a role is retried.
    Retry {
        role: Role,
        fault: Box<Fault>,
        step: Step,
        delay: Duration,
    },
    /// Kill the process.
    Kill { role: Role, why: Kill },
    /// Drop what the role's last process wrote.
    Discard(Role),
    /// Free the tables that only bake reads.
    ReleaseInputs,
    /// Write the files beside their targets.
    Stage,
    /// Give the files their final names.
    Name,
    /// Remove the staged files.
    Unstage,
    /// The job is over.
    Finish(Outcome),
}

/// How a job ends.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The files are in place.
    Done,
    /// The files are not in place, and this is why. The role at fault comes with it, if there is one.
    Failed(Box<JobError>, Option<Role>),
    /// Nobody's fault: the job is to be run again from the start.
    Unfinished,
}

/// The state of a role's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Process {
    #[default]
    Absent,
    /// To be started when [`JobEvent::Due`] comes.
    Waiting,
    Alive {
        /// It holds tables of the current prepare.
        fed: bool,
        /// One of our actions killed it.
        killed: bool,
    },
}

#[derive(Clone, Debug, Default)]
struct RoleState {
    process: Process,
    /// Its result is complete.
    answered: bool,
    starts: u32,
    /// Number of failures by class, in the order of [`RetryClass::ALL`].
    failures: [u32; 6],
}

/// How a process ended that had not answered.
struct Ended<'a> {
    fault: &'a Fault,
    exit: &'a Exit,
    adapter: Option<&'a AdapterInfo>,
    suspected: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fresh,
    Working,
    Staging,
    /// Staging is under way, but its files are no longer wanted.
    StagingInVain,
    Naming,
    Finished,
}

/// A job's state; see the head of this file.
#[derive(Clone, Debug)]
pub struct Life {
    roles: [RoleState; 3],
    rung: Rung,
    tried: Vec<Step>,
    /// The fault of the adapter that is avoided now.
    avoided: Option<Fault>,
    policy: Policy,
    /// The role whose answer is the result.
    last: Role,
    stage: Stage,
    /// Why the job ends without its result.
    end: Option<Outcome>,
}

const ROLES: [Role; 3] = [Role::Prepare, Role::Bake, Role::Encode];

impl Life {
    /// A job that has not begun.
    pub fn new(rung: Rung, policy: Policy) -> Self {
        Self {
            roles: Default::default(),
            rung,
            tried: Vec::new(),
            avoided: None,
            policy,
            last: Role::Encode,
            stage: Stage::Fresh,
            end: None,
        }
    }

    /// The job is done with the answer of `role`, and starts none that comes after it.
    #[must_use]
    pub fn until(mut self, role: Role) -> Self {
        self.last = role;
        self
    }

    /// The rung that bake works on.
    pub fn rung(&self) -> &Rung {
        &self.rung
    }

    /// The steps taken so far.
    pub fn tried(&self) -> &[Step] {
        &self.tried
    }

    /// How many times a role was started.
    pub fn starts(&self, role: Role) -> u32 {
        self.roles[role as usize].starts
    }

    /// Whether the job has finished.
    pub fn finished(&self) -> bool {
        self.stage == Stage::Finished
    }

    /// Takes one event and returns the actions that it requires, in order.
    pub fn step(&mut self, event: JobEvent) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.stage == Stage::Finished {
            return actions;
        }
        match event {
            JobEvent::Begin => {
                if self.stage == Stage::Fresh {
                    self.stage = Stage::Working;
                    self.spawn(Role::Prepare, &mut actions);
                    if self.last != Role::Prepare {
                        self.spawn(Role::Bake, &mut actions);
                    }
                }
            }
            JobEvent::Due(role) => {
                if self.of(role).process == Process::Waiting {
                    self.of(role).process = Process::Absent;
                    self.spawn(role, &mut actions);
                }
            }
            JobEvent::Fed(role) => {
                if let Process::Alive { fed, .. } = &mut self.of(role).process {
                    *fed = true;
                }
            }
            JobEvent::Answered(role) => self.answered(role, &mut actions),
            JobEvent::Ended {
                role,
                fault,
                exit,
                adapter,
                suspected,
            } => {
                let death = Ended {
                    fault: &fault,
                    exit: &exit,
                    adapter: adapter.as_ref(),
                    suspected,
                };
                self.ended(role, &death, &mut actions);
            }
            JobEvent::Stop(error) => self.stop(Outcome::Failed(error, None), &mut actions),
            JobEvent::Drain => self.stop(Outcome::Unfinished, &mut actions),
            JobEvent::Staged(result) => self.staged(result, &mut actions),
            JobEvent::Named(result) => {
                if self.stage == Stage::Naming {
                    let outcome = match result {
                        Ok(()) => Outcome::Done,
                        Err(error) => Outcome::Failed(error, None),
                    };
                    self.finish(outcome, &mut actions);
                }
            }
        }
        self.settle(&mut actions);
        actions
    }

    fn of(&mut self, role: Role) -> &mut RoleState {
        &mut self.roles[role as usize]
    }

    fn spawn(&mut self, role: Role, actions: &mut Vec<Action>) {
        let rung = self.rung.clone();
        let state = self.of(role);
        state.starts += 1;
        state.process = Process::Alive {
            fed: false,
            killed: false,
        };
        actions.push(Action::Spawn { role, rung });
    }

    fn kill(&mut self, role: Role, why: Kill, actions: &mut Vec<Action>) {
        if let Process::Alive { killed, .. } = &mut self.of(role).process
            && !*killed
        {
            *killed = true;
            actions.push(Action::Kill { role, why });
        }
    }

    fn answered(&mut self, role: Role, actions: &mut Vec<Action>) {
        let state = self.of(role);
        let alive = matches!(state.process, Process::Alive { killed: false, .. });
        if !alive || std::mem::replace(&mut state.answered, true) || self.end.is_some() {
            return;
        }
        if role == Role::Bake {
            actions.push(Action::ReleaseInputs);
        }
        // What prepare answers is part of what encode is told.
        let ready = [Role::Prepare, Role::Bake].map(|role| self.of(role).answered);
        if role != Role::Encode && self.last == Role::Encode && ready == [true; 2] {
            self.spawn(Role::Encode, actions);
        }
    }

    fn ended(&mut self, role: Role, death: &Ended<'_>, actions: &mut Vec<Action>) {
        let state = self.of(role);
        if !matches!(state.process, Process::Alive { .. }) {
            return;
        }
        state.process = Process::Absent;
        // How it ended after its answer does not matter: its tables are sealed, so it cannot have changed them since.
        if state.answered || self.end.is_some() {
            return;
        }
        match self.forgive(role, death) {
            Some(step) => self.repeat(role, step, death.fault, actions),
            None => {
                let error = self.failure(role, death.fault);
                self.stop(Outcome::Failed(error, Some(role)), actions);
            }
        }
    }

    /// Whether a failed role is retried, and how.
    fn forgive(&mut self, role: Role, death: &Ended<'_>) -> Option<Step> {
        let Ended {
            fault,
            exit,
            adapter,
            suspected,
        } = *death;
        let state = self.of(role);
        if state.starts >= MAX_STARTS {
            return None;
        }
        if suspected && role == Role::Bake && !self.rung.unkept {
            // This is evidence against neither job nor adapter. A run without cached pipelines shows whether something
            // else is at fault.
            self.rung.unkept = true;
            self.tried.push(Step::FreshPipelines);
            return Some(Step::FreshPipelines);
        }
        let state = self.of(role);
        let failures = &mut state.failures[fault.class as usize];
        let spent = *failures >= fault.class.budget();
        *failures += 1;
        if fault.class == RetryClass::Victim || fault.class == RetryClass::Transient {
            return (!spent).then_some(Step::SamePlan);
        }
        if role != Role::Bake {
            // Prepare and encode have no smaller plan, but the memory that was short may be free a moment later.
            let first = self.of(role).failures[fault.class as usize] == 1;
            let same = matches!(fault.class, RetryClass::Ambiguous | RetryClass::Resource);
            return (same && first).then_some(Step::SamePlan);
        }
        // A crash is evidence against the job. A fault that the adapter reported is evidence against the adapter.
        if spent && !names_adapter(fault.code) {
            return None;
        }
        let (step, rung) =
            ladder::climb(&self.rung, &self.tried, self.policy, fault, exit, adapter)?;
        self.rung = rung;
        self.tried.push(step);
        if step == Step::OtherAdapter {
            self.avoided = Some(fault.clone());
        }
        Some(step)
    }

    fn repeat(&mut self, role: Role, step: Step, fault: &Fault, actions: &mut Vec<Action>) {
        let failures = self.of(role).failures[fault.class as usize];
        let delay = fault.class.delay(failures.saturating_sub(1));
        actions.push(Action::Discard(role));
        actions.push(Action::Retry {
            role,
            fault: Box::new(fault.clone()),
            step,
            delay,
        });
        if role == Role::Prepare {
            // The new process makes other tables, equal or not, so whoever holds the old ones starts again.
            let bake = self.of(Role::Bake);
            if matches!(bake.process, Process::Alive { fed: true, .. }) {
                self.kill(Role::Bake, Kill::Superseded, actions);
            }
        }
        if delay.is_zero() {
            self.spawn(role, actions);
        } else {
            self.of(role).process = Process::Waiting;
            actions.push(Action::Wait { role, delay });
        }
    }

    fn failure(&self, role: Role, fault: &Fault) -> Box<JobError> {
        let count: u32 = self.roles[role as usize].failures.iter().sum();
        // The lack of another adapter is not why the job failed.
        let (fault, alone) = match &self.avoided {
            Some(first) if fault.code == Code::NoAdapter => (first, true),
            _ => (fault, false),
        };
        let mut message = fault.message.clone();
        match count {
            _ if alone => message.push_str(", and there is no other adapter"),
            0 | 1 => {}
            2 => message.push_str(", twice"),
            count => message.push_str(&format!(", after {} other failures", count - 1)),
        }
        let mut error = JobError::own(fault.code, message, fault.hint.clone());
        error.class = fault.class;
        error.role = Some(role);
        error
    }

    fn stop(&mut self, outcome: Outcome, actions: &mut Vec<Action>) {
        match self.stage {
            // No file has its name yet, but the thread that writes cannot be stopped half-way.
            Stage::Staging => self.stage = Stage::StagingInVain,
            Stage::Fresh | Stage::Working | Stage::StagingInVain => {}
            // Too late: the names are being given.
            Stage::Naming | Stage::Finished => return,
        }
        if self.end.is_none() {
            self.end = Some(outcome);
        }
        for role in ROLES {
            if self.of(role).process == Process::Waiting {
                self.of(role).process = Process::Absent;
            }
            self.kill(role, Kill::JobOver, actions);
        }
    }

    fn staged(&mut self, result: Result<(), Box<JobError>>, actions: &mut Vec<Action>) {
        match (self.stage, result) {
            (Stage::Staging, Ok(())) => {
                self.stage = Stage::Naming;
                actions.push(Action::Name);
            }
            (Stage::Staging, Err(error)) => self.finish(Outcome::Failed(error, None), actions),
            (Stage::StagingInVain, result) => {
                if result.is_ok() {
                    actions.push(Action::Unstage);
                }
                self.stage = Stage::Working;
            }
            (Stage::Fresh | Stage::Working | Stage::Naming | Stage::Finished, _) => {}
        }
    }

    /// Continues once all processes are gone.
    fn settle(&mut self, actions: &mut Vec<Action>) {
        let gone = self
            .roles
            .iter()
            .all(|role| role.process == Process::Absent);
        if !gone || !matches!(self.stage, Stage::Fresh | Stage::Working) {
            return;
        }
        if let Some(end) = self.end.take() {
            self.finish(end, actions);
        } else if self.roles[self.last as usize].answered {
            self.stage = Stage::Staging;
            actions.push(Action::Stage);
        }
    }

    fn finish(&mut self, outcome: Outcome, actions: &mut Vec<Action>) {
        self.stage = Stage::Finished;
        actions.push(Action::Finish(outcome));
    }
}

/// Whether the adapter itself reported the fault, in contrast to a process that died.
fn names_adapter(code: Code) -> bool {
    matches!(
        code,
        Code::GpuDeviceLost
            | Code::GpuHang
            | Code::OutOfDeviceMemory
            | Code::ShaderRejected
            | Code::IncompleteOutput
    )
}

#[cfg(test)]
mod tests;
