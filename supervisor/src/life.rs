//! One job's life as a pure state machine: what happened → what to do. No clock, no process, no file: the shell
//! ([`crate::job`]) carries the actions out and reports what came of them.
//!
//! ```text
//!  accepted ─► prepare ─┐
//!          └─► bake ◄───┴─► encode ─► everybody gone ─► stage ─► name ─► finished: done      (a dry run has no encode)
//!          any failure that is not forgiven, cancel, deadline ─► everybody killed and gone ─► finished: failed
//!          drain ─────────────────────────────────────────────► everybody killed and gone ─► finished: unfinished
//! ```
//!
//! Rules, tested over millions of orders of events: exactly one [`Action::Finish`], and nothing after it; no role is started
//! more than [`MAX_STARTS`] times; nothing is named that was not answered in full and staged; nobody is alive at the end but
//! whom the kernel does not let die.

use std::time::Duration;

use proto::limits::MAX_STARTS;
use proto::message::{AdapterInfo, Code, Role};

use crate::error::JobError;
use crate::ladder::{self, Policy, Rung, Step};
use crate::verdict::{Exit, Fault, Kill, RetryClass};

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The job was accepted.
    Begin,
    /// The time is over for which a start was put off.
    Due(Role),
    /// The process got tables that prepare made.
    Fed(Role),
    /// The process said that it is done, and every table that it owes is there and sealed.
    Answered(Role),
    /// The process is gone, could not be started, or cannot be killed.
    Ended {
        /// What it was for.
        role: Role,
        /// What is wrong, where it had not answered.
        fault: Box<Fault>,
        /// How it ended.
        exit: Exit,
        /// What it had opened.
        adapter: Option<AdapterInfo>,
        /// Kept pipelines that it was given may have done it.
        suspected: bool,
    },
    /// The job must end: cancelled, out of time, or the host cannot go on with it.
    Stop(Box<JobError>),
    /// The supervisor leaves, and keeps the job for another.
    Drain,
    /// The files are written and synced beside their targets, or not.
    Staged(Result<(), Box<JobError>>),
    /// The files have their names, or not.
    Named(Result<(), Box<JobError>>),
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Start a process; for bake on this rung.
    Spawn {
        /// What for.
        role: Role,
        /// Where on the ladder.
        rung: Rung,
    },
    /// Say [`Event::Due`] in a while.
    Wait {
        /// Whose start is put off.
        role: Role,
        /// For how long.
        delay: Duration,
    },
    /// Tell that a role is repeated.
    Retry {
        /// Which.
        role: Role,
        /// Why.
        fault: Box<Fault>,
        /// How.
        step: Step,
        /// After how long.
        delay: Duration,
    },
    /// End the process.
    Kill {
        /// Whose.
        role: Role,
        /// Why.
        why: Kill,
    },
    /// Forget what the role's last process wrote.
    Discard(Role),
    /// Free what only bake reads.
    ReleaseInputs,
    /// Write the files beside their targets.
    Stage,
    /// Give the files their names.
    Name,
    /// Remove the files that were staged.
    Unstage,
    /// The job is over.
    Finish(Outcome),
}

/// How a job ends.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The files are in place.
    Done,
    /// They are not, and this is why. What failed last is told with the role at fault, if there is one.
    Failed(Box<JobError>, Option<Role>),
    /// Nobody's fault: to be run again from the start.
    Unfinished,
}

/// A role's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Process {
    /// None.
    #[default]
    Absent,
    /// To be started when [`Event::Due`] comes.
    Waiting,
    /// There.
    Alive {
        /// Holds tables of the present prepare.
        fed: bool,
        /// Killed by an action of ours.
        killed: bool,
    },
}

#[derive(Clone, Debug, Default)]
struct RoleState {
    process: Process,
    /// Its result is complete.
    answered: bool,
    starts: u32,
    /// Failures by [`RetryClass::ALL`].
    failures: [u32; 6],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fresh,
    Working,
    Staging,
    /// Staging is under way, and its files are not wanted any more.
    StagingInVain,
    Naming,
    Finished,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Life {
    roles: [RoleState; 3],
    rung: Rung,
    tried: Vec<Step>,
    /// What the adapter did that is passed over now.
    avoided: Option<Fault>,
    policy: Policy,
    /// Bake's answer is the result.
    dry: bool,
    stage: Stage,
    /// Why the job ends without its result.
    end: Option<Outcome>,
}

const ROLES: [Role; 3] = [Role::Prepare, Role::Bake, Role::Encode];

impl Life {
    /// A job that has not begun.
    #[must_use]
    pub fn new(rung: Rung, policy: Policy) -> Self {
        Self {
            roles: Default::default(),
            rung,
            tried: Vec::new(),
            avoided: None,
            policy,
            dry: false,
            stage: Stage::Fresh,
            end: None,
        }
    }

    /// Nothing is made: the job is done with bake's answer.
    #[must_use]
    pub fn dry(mut self, dry: bool) -> Self {
        self.dry = dry;
        self
    }

    /// The rung on which bake works.
    #[must_use]
    pub fn rung(&self) -> &Rung {
        &self.rung
    }

    /// The steps climbed so far.
    #[must_use]
    pub fn tried(&self) -> &[Step] {
        &self.tried
    }

    /// How often a role was started.
    #[must_use]
    pub fn starts(&self, role: Role) -> u32 {
        self.roles[role as usize].starts
    }

    /// Whether the job is past its end.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.stage == Stage::Finished
    }

    /// Takes an event in.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.stage == Stage::Finished {
            return actions;
        }
        match event {
            Event::Begin => {
                if self.stage == Stage::Fresh {
                    self.stage = Stage::Working;
                    self.spawn(Role::Prepare, &mut actions);
                    self.spawn(Role::Bake, &mut actions);
                }
            }
            Event::Due(role) => {
                if self.of(role).process == Process::Waiting {
                    self.of(role).process = Process::Absent;
                    self.spawn(role, &mut actions);
                }
            }
            Event::Fed(role) => {
                if let Process::Alive { fed, .. } = &mut self.of(role).process {
                    *fed = true;
                }
            }
            Event::Answered(role) => self.answered(role, &mut actions),
            Event::Ended {
                role,
                fault,
                exit,
                adapter,
                suspected,
            } => {
                let adapter = adapter.as_ref();
                self.ended(role, &fault, &exit, adapter, suspected, &mut actions);
            }
            Event::Stop(error) => self.stop(Outcome::Failed(error, None), &mut actions),
            Event::Drain => self.stop(Outcome::Unfinished, &mut actions),
            Event::Staged(result) => self.staged(result, &mut actions),
            Event::Named(result) => {
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
            if !self.dry {
                self.spawn(Role::Encode, actions);
            }
        }
    }

    fn ended(
        &mut self,
        role: Role,
        fault: &Fault,
        exit: &Exit,
        adapter: Option<&AdapterInfo>,
        suspected: bool,
        actions: &mut Vec<Action>,
    ) {
        let state = self.of(role);
        if !matches!(state.process, Process::Alive { .. }) {
            return;
        }
        state.process = Process::Absent;
        // However it ended after its answer: its tables are sealed, so nothing that it did later can change them.
        if state.answered || self.end.is_some() {
            return;
        }
        match self.forgive(role, fault, exit, adapter, suspected) {
            Some(step) => self.repeat(role, step, fault, actions),
            None => {
                let error = self.failure(role, fault);
                self.stop(Outcome::Failed(error, Some(role)), actions);
            }
        }
    }

    /// Whether a failed role is repeated, and how.
    fn forgive(
        &mut self,
        role: Role,
        fault: &Fault,
        exit: &Exit,
        adapter: Option<&AdapterInfo>,
        suspected: bool,
    ) -> Option<Step> {
        let state = self.of(role);
        if state.starts >= MAX_STARTS {
            return None;
        }
        if suspected && role == Role::Bake && !self.rung.unkept {
            // Evidence against neither job nor adapter: what else may be at fault shows without them.
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
            // Prepare and encode have no smaller plan, but the memory that was short may be there a moment later.
            let first = self.of(role).failures[fault.class as usize] == 1;
            let same = matches!(fault.class, RetryClass::Ambiguous | RetryClass::Resource);
            return (same && first).then_some(Step::SamePlan);
        }
        // A crash is evidence against the job, a fault that the adapter named is evidence against the adapter.
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
            // Its successor's tables are others, equal or not: who holds the old ones starts again.
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
        // That there is no other adapter is not why the job failed.
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
            // Nothing has its name yet, but the thread that writes cannot be stopped half-way.
            Stage::Staging => self.stage = Stage::StagingInVain,
            Stage::Fresh | Stage::Working | Stage::StagingInVain => {}
            // The names are being given: too late.
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

    /// Goes on once everybody is gone.
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
        } else if self.roles[self.last() as usize].answered {
            self.stage = Stage::Staging;
            actions.push(Action::Stage);
        }
    }

    /// The role whose answer is the last that the job waits for.
    fn last(&self) -> Role {
        match self.dry {
            true => Role::Bake,
            false => Role::Encode,
        }
    }

    fn finish(&mut self, outcome: Outcome, actions: &mut Vec<Action>) {
        self.stage = Stage::Finished;
        actions.push(Action::Finish(outcome));
    }
}

/// A fault that the adapter itself told, rather than a process that died of it.
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
