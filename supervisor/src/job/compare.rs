//! `kiln compare`: one prepare process gets finished meshes and views, and returns figures and a contact sheet.
//!
//! The process is watched, confined and given files as in a bake. Silence ends it, and [`crate::verdict`] judges its
//! end, so the exit codes are those of a bake. There is no ladder: if its end may have been chance, a fresh process
//! gets the same job again.

mod attempt;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::libc::SIGKILL;
use proto::job::{Blend, Up};
use proto::limits::MAX_STARTS;
use proto::message::{Code, CompareSummary, Role};
use tokio::time::sleep;

use self::attempt::{Attempt, End, Sheet};
use crate::error::JobError;
use crate::event::{Event, Listener};
use crate::host::Host;
use crate::input::Input;
use crate::job::commit::copy;
use crate::ladder::Step;
use crate::output::{self, Given, Target};
use crate::signals::Signals;
use crate::verdict::{Ending, Exit, Fault, RetryClass, fault};

/// The hint where memory was short.
const MORE_MEMORY: &str = "fewer or smaller views, or one mesh at a time, need less memory";

/// A comparison whose options are checked.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The first mesh.
    pub first: Input,
    /// The second mesh, if there is one.
    pub second: Option<Input>,
    /// `transforms.json`, or the file that replaces it.
    pub views: Input,
    /// Where to write the sheet.
    pub picture: Option<Target>,
    /// Colour space in which a pixel's footprint is averaged.
    pub blend: Blend,
    /// What points up in the views.
    pub up: Up,
    /// Whether the worker enters its sandbox.
    pub sandbox: bool,
    /// Bound of the worker's memory, in bytes.
    pub memory_limit: Option<u64>,
    /// Time allowed.
    pub timeout: Duration,
    /// Silence that the worker is allowed.
    pub stall: Option<Duration>,
    /// `kiln-baker`.
    pub baker: PathBuf,
    /// What the worker logs.
    pub log_filter: String,
}

/// The result of a comparison.
#[derive(Debug)]
pub struct Compared {
    /// The figures.
    pub summary: CompareSummary,
    /// The worker's warnings.
    pub warnings: Vec<String>,
}

/// Compares, and writes the sheet.
///
/// # Errors
/// Why there are no figures, with the exit code.
pub async fn run(
    spec: &Comparison,
    listener: &mut dyn Listener,
) -> Result<Compared, Box<JobError>> {
    let mut signals = Signals::listen()?;
    let host = Host::new(spec.memory_limit, 0, 1);
    let over = Instant::now() + spec.timeout;
    let mut failures: HashMap<RetryClass, u32> = HashMap::new();
    for number in 1..=MAX_STARTS {
        let mut attempt = Attempt::new(spec, &host, &mut *listener, number);
        let ending = match attempt.run(&mut signals, over).await {
            Ok(done) => {
                let Attempt {
                    warnings,
                    sheet,
                    given,
                    ..
                } = attempt;
                write(spec, sheet, &given)?;
                return Ok(Compared {
                    summary: done,
                    warnings,
                });
            }
            Err(End::Over(error)) => return Err(error),
            Err(End::Died(ending)) => ending,
        };
        let fault = fault(&ending);
        let count = failures.entry(fault.class).or_default();
        *count += 1;
        let delay = fault.class.delay(*count - 1);
        if *count > fault.class.budget() || number == MAX_STARTS {
            return Err(error(fault, &ending, attempt.tail, number));
        }
        listener.event(&Event::Retry {
            role: Role::Prepare,
            fault: &fault,
            step: Step::SamePlan,
            delay,
        });
        tokio::select! {
            signal = signals.any() => return Err(JobError::cancelled(signal)),
            () = sleep(delay) => {}
        }
    }
    Err(JobError::own(Code::Internal, "nothing was started", ""))
}

/// The sheet → its place.
fn write(spec: &Comparison, sheet: Option<Sheet>, given: &Given) -> Result<(), Box<JobError>> {
    if let (Some(target), Some(Sheet::Verified(file))) = (&spec.picture, sheet) {
        let sheet = copy(target, &file)?;
        output::commit([sheet], given)?;
    }
    Ok(())
}

fn error(fault: Fault, ending: &Ending, tail: Vec<String>, attempts: u32) -> Box<JobError> {
    let mut message = fault.message;
    let died = fault.code == Code::WorkerCrashed && ending.kill.is_none();
    let killed = died && ending.exit == Exit::Signal(SIGKILL);
    match attempts {
        1 => {}
        2 => message.push_str(", twice"),
        count => message.push_str(&format!(", after {} other failures", count - 1)),
    }
    let hint = match fault.code {
        // A comparison makes nothing that could be smaller.
        Code::OutOfHostMemory => MORE_MEMORY.to_owned(),
        _ if killed => MORE_MEMORY.to_owned(),
        _ => fault.hint,
    };
    let mut error = JobError::own(fault.code, message, hint);
    error.class = fault.class;
    error.role = Some(Role::Prepare);
    error.phase = Some(ending.phase);
    error.signal = ending.exit.signal_name();
    error.exit = match ending.exit {
        Exit::Code(code) => Some(code),
        Exit::Signal(_) | Exit::NotSpawned { .. } | Exit::Unkillable => None,
    };
    error.log_tail = tail;
    error
}
