//! Decides who may start, and where, from what has failed lately under any job. Pure; one gate serves all jobs of a
//! supervisor.
//!
//! Each [`Cause`] that outlives a job has a circuit breaker. If an adapter's breaker is open, jobs with `--device auto`
//! avoid the adapter. Other jobs that would meet the cause wait until the breaker's rest is over. After
//! [`REFUSE_AFTER`] failed probes they are refused. If several jobs lose an adapter at once, that is one incident, and
//! its jobs bake one at a time: see [`incident`].

pub mod breaker;

pub mod incident;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use proto::job::Device;
use proto::message::{AdapterInfo, Code, Phase, Role};
use serde::Serialize;

use self::breaker::{Breaker, Word};
use self::incident::{Incidents, JobName};
use crate::error::JobError;
use crate::host::ladder::Rung;
use crate::process::verdict::{Ending, Exit, Fault, Kill, RetryClass};
use crate::words;

/// While fewer probes in a row have failed, jobs wait. From then on they are refused at once, since no end is in sight.
/// That is 14 s after the breaker opened.
pub const REFUSE_AFTER: u32 = 3;

/// What may be at fault, other than a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Worker processes do not start.
    Start,
    /// Some GPU, it is not known which, does not open.
    Opening,
    /// This adapter.
    Adapter(String),
}

impl Cause {
    fn describe(&self) -> String {
        match self {
            Self::Start => "starting workers".to_owned(),
            Self::Opening => "opening a GPU".to_owned(),
            Self::Adapter(name) => format!("baking on {name}"),
        }
    }
}

/// An open breaker, as shown to people and programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rest {
    /// What fails, in words.
    pub what: String,
    /// No job can run without it.
    #[serde(skip)]
    pub all: bool,
    /// Seconds until the next try.
    pub rests_s: f32,
    /// Tries that have failed since it opened.
    pub probes: u32,
    /// The latest failure.
    pub last: String,
}

/// The answer to a request to start.
#[derive(Debug)]
pub enum Admission {
    /// Start now, on this rung, which may avoid adapters; the lines tell which, and why.
    Go(Rung, Vec<String>),
    /// Ask again later. The line tells why.
    Wait(String),
    /// Do not start.
    Refuse(Box<JobError>),
}

/// All breakers and incidents; see the head of this file.
#[derive(Debug, Default)]
pub struct Gate {
    breakers: HashMap<Cause, Breaker>,
    /// Processes whose outcome decides about a cause.
    probes: Vec<(JobName, Role, Cause)>,
    incidents: Incidents,
}

impl Gate {
    /// Requests a start of `role` for a job. A bake would work on `rung`.
    pub fn enter(&mut self, job: &JobName, role: Role, rung: &Rung, now: Instant) -> Admission {
        let mut rung = rung.clone();
        let mut over = Vec::new();
        let mut causes = vec![Cause::Start];
        if role == Role::Bake && rung.device != Device::Cpu {
            causes.extend(
                self.breakers
                    .keys()
                    .filter(|cause| meets(&rung, cause))
                    .cloned(),
            );
        }
        causes.sort();
        for cause in &causes {
            let Some(breaker) = self.breakers.get(cause) else {
                continue;
            };
            let Some(until) = breaker.rests(now) else {
                continue;
            };
            let why = format!(
                "{} failed again and again, the last time: {}",
                cause.describe(),
                breaker.last()
            );
            match cause {
                Cause::Adapter(name) if rung.device == Device::Auto => {
                    over.push(format!("{name} is passed over: {why}"));
                    rung.avoid.push(name.clone());
                }
                Cause::Opening if rung.device == Device::Auto => {
                    over.push(format!("the processor bakes: {why}"));
                    rung.device = Device::Cpu;
                }
                _ if breaker.probes() >= REFUSE_AFTER => {
                    return Admission::Refuse(refusal(cause, &why, until - now));
                }
                _ => return Admission::Wait(why),
            }
        }
        causes.retain(|cause| *cause == Cause::Start || meets(&rung, cause));
        if role == Role::Bake && rung.device != Device::Cpu {
            let here = |adapter: &str| meets(&rung, &Cause::Adapter(adapter.to_owned()));
            if !self.incidents.turn(job, here) {
                let why = "several jobs lost their adapter at once, and bake on it one at a time";
                return Admission::Wait(why.to_owned());
            }
        }
        for cause in causes {
            if let Some(breaker) = self.breakers.get_mut(&cause)
                && breaker.ask(now) == Word::Probe
            {
                self.probes.push((Arc::clone(job), role, cause));
            }
        }
        Admission::Go(rung, over)
    }

    /// A worker sent its hello.
    pub fn greeted(&mut self) {
        self.well(&Cause::Start);
    }

    /// A bake opened this adapter.
    pub fn opened(&mut self, adapter: &AdapterInfo) {
        if adapter.kind != "native" {
            self.well(&Cause::Opening);
        }
    }

    /// A worker completed its work.
    pub fn done(&mut self, job: &JobName, role: Role, adapter: Option<&AdapterInfo>, now: Instant) {
        let name = driver(adapter);
        if let Some(name) = name {
            self.well(&Cause::Adapter(name.to_owned()));
        }
        if role == Role::Bake {
            self.incidents.ended(job, name);
        }
        self.leave(job, role, now);
    }

    /// A worker failed. Records what that tells about other jobs. If other jobs lost the adapter at the same time, sets
    /// the fault's class to that of a victim.
    pub fn failed(&mut self, job: &JobName, ending: &Ending, fault: &mut Fault, now: Instant) {
        let role = ending.role;
        if let Some(cause) = cause(ending, fault) {
            let breaker = self.breakers.entry(cause.clone()).or_default();
            let opened = if ending.exit == Exit::Unkillable {
                breaker.broken(now, &fault.message)
            } else {
                breaker.failed(now, &fault.message)
            };
            if opened {
                tracing::warn!(
                    "no more {} for a while: {}",
                    cause.describe(),
                    fault.message
                );
            }
            self.probes.retain(|(_, _, probed)| *probed != cause);
            if let (Cause::Adapter(name), Code::GpuDeviceLost | Code::GpuHang) =
                (&cause, fault.code)
                && self.incidents.lost(name, job, now)
            {
                fault.class = RetryClass::Victim;
                fault
                    .message
                    .push_str(", as did other jobs at the same time");
            }
        }
        if role == Role::Bake {
            self.incidents.ended(job, None);
        }
        self.leave(job, role, now);
    }

    /// A job is over, for whatever reason.
    pub fn over(&mut self, job: &JobName, now: Instant) {
        self.incidents.over(job);
        for role in [Role::Prepare, Role::Bake, Role::Encode] {
            self.leave(job, role, now);
        }
    }

    /// All open breakers, sorted by name.
    pub fn resting(&self, now: Instant) -> Vec<Rest> {
        let open = self
            .breakers
            .iter()
            .filter(|(_, breaker)| breaker.is_open());
        let mut resting: Vec<Rest> = open
            .map(|(cause, breaker)| Rest {
                what: cause.describe(),
                all: *cause == Cause::Start,
                rests_s: breaker
                    .rests(now)
                    .map_or(0.0, |until| (until - now).as_secs_f32()),
                probes: breaker.probes(),
                last: breaker.last().to_owned(),
            })
            .collect();
        resting.sort_by(|left, right| left.what.cmp(&right.what));
        resting
    }

    /// Forgets all failures: everything is tried again.
    pub fn reset(&mut self) {
        self.breakers.clear();
        self.probes.clear();
    }

    fn well(&mut self, cause: &Cause) {
        if let Some(breaker) = self.breakers.get_mut(cause)
            && breaker.succeeded()
        {
            tracing::info!("{} works again", cause.describe());
        }
        self.probes.retain(|(_, _, probed)| probed != cause);
    }

    /// Lets another process probe what this one left undecided.
    fn leave(&mut self, job: &JobName, role: Role, now: Instant) {
        for (_, _, cause) in self
            .probes
            .extract_if(.., |(name, whose, _)| name == job && *whose == role)
        {
            if let Some(breaker) = self.breakers.get_mut(&cause) {
                breaker.undecided(now);
            }
        }
    }
}

/// Whether a bake on this rung may meet a cause.
fn meets(rung: &Rung, cause: &Cause) -> bool {
    if rung.device == Device::Cpu {
        return false;
    }
    match (cause, &rung.device) {
        (Cause::Start, _) => false,
        (Cause::Opening, _) => true,
        (Cause::Adapter(name), _) if rung.avoid.contains(name) => false,
        (Cause::Adapter(name), Device::Name(part)) => {
            name.to_lowercase().contains(&part.to_lowercase())
        }
        (Cause::Adapter(_), _) => true,
    }
}

/// The adapter's name, if it has a driver.
fn driver(adapter: Option<&AdapterInfo>) -> Option<&str> {
    adapter
        .filter(|adapter| adapter.kind != "native")
        .map(|adapter| adapter.name.as_str())
}

/// What a failure is evidence against, other than the job.
fn cause(ending: &Ending, fault: &Fault) -> Option<Cause> {
    let others = [Kill::JobOver, Kill::Superseded, Kill::Frozen];
    if ending
        .kill
        .as_ref()
        .is_some_and(|kill| others.contains(kill))
    {
        return None;
    }
    let bake = ending.role == Role::Bake;
    let opening = bake && ending.adapter.is_none() && ending.phase == Phase::OpenDevice;
    let adapter = driver(ending.adapter.as_ref()).map(|name| Cause::Adapter(name.to_owned()));
    match fault.code {
        // What only a person can fix fails each job at once by itself, so there is no loop to break.
        Code::SpawnFailed => (fault.class != RetryClass::Config).then_some(Cause::Start),
        Code::GpuDeviceLost | Code::GpuHang | Code::ShaderRejected | Code::IncompleteOutput => {
            adapter.or((bake && ending.adapter.is_none()).then_some(Cause::Opening))
        }
        Code::WorkerCrashed if ending.exit.is_own_doing() && bake => {
            adapter.or(opening.then_some(Cause::Opening))
        }
        Code::WorkerStalled if ending.exit == Exit::Unkillable && bake => adapter,
        Code::WorkerStalled | Code::WorkerCrashed if opening => Some(Cause::Opening),
        _ => None,
    }
}

fn refusal(cause: &Cause, why: &str, rest: std::time::Duration) -> Box<JobError> {
    let code = match cause {
        Cause::Start => Code::SpawnFailed,
        Cause::Opening | Cause::Adapter(_) => Code::GpuDeviceLost,
    };
    let hint = match cause {
        Cause::Start => "kiln doctor tells what the system lacks".to_owned(),
        Cause::Opening | Cause::Adapter(_) => {
            format!(
                "--device auto passes it over; it is tried again in {}",
                words::span(rest)
            )
        }
    };
    let mut error = JobError::own(code, format!("not tried: {why}"), hint);
    error.class = RetryClass::Transient;
    error
}
