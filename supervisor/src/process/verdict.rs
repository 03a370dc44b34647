//! Decides what is wrong from how a process ended: one code, one class, one message and one hint. Pure; every fault
//! test reads this table. [`crate::job::life`] decides what to do about it.

use nix::libc;
use nix::sys::signal::Signal;
use proto::message::{AdapterInfo, Code, Failure, Phase, Role};
use proto::recorder::Note;

use crate::words;

mod class;
mod hint;

pub use class::RetryClass;

/// Why the supervisor killed a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kill {
    /// It did not say hello in time.
    NoHello {
        /// The deadline.
        seconds: u64,
    },
    /// Its work made no progress.
    Stall {
        /// For how long, in milliseconds.
        ms: u64,
    },
    /// It was stopped from outside (SIGSTOP, a debugger, a frozen group).
    Frozen,
    /// It broke the protocol.
    Violation(String),
    /// It comes from another build.
    Mismatch(String),
    /// Its sandbox is weaker than its role needs.
    Unconfined(String),
    /// There were too few descriptors to see whether it is in its sandbox.
    Short(String),
    /// It gave its answer, or closed its socket, and then did not end.
    Lingering,
    /// Its input was withdrawn, because the process that made it died.
    Superseded,
    /// The job is over.
    JobOver,
}

impl Kill {
    /// One word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NoHello { .. } => "no_hello",
            Self::Stall { .. } => "stall",
            Self::Frozen => "frozen",
            Self::Violation(_) => "violation",
            Self::Mismatch(_) => "mismatch",
            Self::Unconfined(_) => "unconfined",
            Self::Short(_) => "no_descriptors",
            Self::Lingering => "lingering",
            Self::Superseded => "superseded",
            Self::JobOver => "job_over",
        }
    }
}

/// How the kernel says that a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It never ran.
    NotSpawned {
        /// The system's message.
        error: String,
        /// Whether the same call may succeed a moment later.
        transient: bool,
    },
    /// It returned.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// It was killed but is still there: the kernel is stuck on its device, or its group is frozen.
    Unkillable,
}

impl Exit {
    /// The signal's name, if one ended the process.
    pub fn signal_name(&self) -> Option<String> {
        match self {
            Self::Signal(number) => Some(
                Signal::try_from(*number)
                    .map_or_else(|_| format!("signal {number}"), |s| s.as_str().to_owned()),
            ),
            Self::Code(_) | Self::NotSpawned { .. } | Self::Unkillable => None,
        }
    }

    /// The code with which the process returned, if it did.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(*code),
            Self::Signal(_) | Self::NotSpawned { .. } | Self::Unkillable => None,
        }
    }

    /// Whether a signal that the process itself raises ended it, as a driver's bug does. SIGKILL and SIGTERM come from
    /// outside.
    pub fn is_own_doing(&self) -> bool {
        matches!(
            self,
            Self::Signal(
                libc::SIGSEGV
                    | libc::SIGBUS
                    | libc::SIGILL
                    | libc::SIGFPE
                    | libc::SIGTRAP
                    | libc::SIGABRT
            )
        )
    }
}

/// A memory limit that the kernel enforced on a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryKill {
    /// Most that the process used, in bytes.
    pub peak: u64,
    /// Its limit in bytes; `None` if only the machine bounded it.
    pub limit: Option<u64>,
    /// The machine, or a group that holds more than this process, ran out of memory.
    pub host: bool,
}

/// What a process left in its flight recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWords {
    /// The work under way within its phase; may be empty.
    pub label: String,
    /// A panic: text and place.
    pub panic: Option<Note>,
    /// A deadly signal, with the stacks.
    pub signal: Option<Note>,
    /// An allocation that failed.
    pub memory: Option<Note>,
}

/// Everything that matters of a process that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Its role.
    pub role: Role,
    /// Its last phase.
    pub phase: Phase,
    /// A valid `Hello` came.
    pub hello: bool,
    /// The adapter that it opened.
    pub adapter: Option<AdapterInfo>,
    /// The failure that it reported, if any.
    pub failure: Option<Failure>,
    /// Why the supervisor killed it, if it did.
    pub kill: Option<Kill>,
    /// What the kernel says.
    pub exit: Exit,
    /// The kernel killed it for its memory.
    pub memory_kill: Option<MemoryKill>,
    /// Its flight recorder.
    pub last: LastWords,
}

impl Ending {
    /// A process that said hello and ended so in this phase, and of which nothing else is known.
    pub fn new(role: Role, phase: Phase, exit: Exit) -> Self {
        Self {
            role,
            phase,
            hello: true,
            adapter: None,
            failure: None,
            kill: None,
            exit,
            memory_kill: None,
            last: LastWords::default(),
        }
    }
}

/// What is wrong, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The cause.
    pub code: Code,
    /// Its class.
    pub class: RetryClass,
    /// One line: what, where.
    pub message: String,
    /// One line: how to fix it; may be empty.
    pub hint: String,
}

/// Finds what is wrong with a process that ended without its result.
pub fn fault(ending: &Ending) -> Fault {
    if let (Some(failure), None | Some(Kill::Lingering)) = (&ending.failure, &ending.kill) {
        let Failure {
            code,
            message,
            hint,
        } = failure.clone();
        return Fault {
            code,
            class: RetryClass::of(code),
            message,
            hint,
        };
    }
    let (code, message) = match &ending.kill {
        Some(kill) => killed(ending, kill),
        None => died(ending),
    };
    let class = match (&ending.kill, &ending.exit) {
        // None of these is the job's fault.
        (Some(Kill::Superseded | Kill::JobOver | Kill::Frozen), _) | (_, Exit::Unkillable) => {
            RetryClass::Victim
        }
        // Other processes used the machine's memory, too. But all that this job can do is use a smaller plan.
        (None, _) if ending.memory_kill.is_some() => RetryClass::Resource,
        (
            None,
            Exit::NotSpawned {
                transient: false, ..
            },
        ) => RetryClass::Config,
        _ => RetryClass::of(code),
    };
    Fault {
        code,
        class,
        message,
        hint: hint::hint(ending, code),
    }
}

/// The fault of a process that the supervisor killed.
fn killed(ending: &Ending, kill: &Kill) -> (Code, String) {
    let role = ending.role.name();
    let place = place(ending);
    match kill {
        Kill::NoHello { seconds } => (
            Code::SpawnFailed,
            format!("{role} said nothing within {seconds} s of its start, and was killed"),
        ),
        Kill::Stall { ms } => {
            let time = words::span(std::time::Duration::from_millis(*ms));
            let code = if on_gpu(ending) {
                Code::GpuHang
            } else {
                Code::WorkerStalled
            };
            (
                code,
                format!("{role} made no progress for {time} {place}, and was killed"),
            )
        }
        Kill::Frozen => (
            Code::WorkerStalled,
            format!("{role} was stopped by somebody {place}, and was killed"),
        ),
        Kill::Violation(what) => (
            Code::ProtocolViolation,
            format!("{role} broke the protocol {place}, and was killed: {what}"),
        ),
        Kill::Mismatch(what) => (Code::BinaryMismatch, what.clone()),
        Kill::Unconfined(what) => (
            Code::SandboxUnavailable,
            format!("{role} is not in its sandbox: {what}"),
        ),
        Kill::Short(what) => (Code::SpawnFailed, what.clone()),
        Kill::Superseded | Kill::JobOver => {
            (Code::Cancelled, format!("{role} was no longer needed"))
        }
        Kill::Lingering => (
            Code::WorkerCrashed,
            format!("{role} gave no answer {place}, closed its socket, and was killed"),
        ),
    }
}

/// The fault of a process that ended by itself, or was ended from outside.
fn died(ending: &Ending) -> (Code, String) {
    let role = ending.role.name();
    let place = place(ending);
    let LastWords {
        panic,
        signal,
        memory,
        ..
    } = &ending.last;
    if let Some(MemoryKill { peak, limit, host }) = ending.memory_kill {
        let used = match (limit, host) {
            (Some(limit), false) => format!("{} of {}", words::size(peak), words::size(limit)),
            _ => format!("{}, and the machine had no more", words::size(peak)),
        };
        return (
            Code::OutOfHostMemory,
            format!("{role} was killed for its memory {place}: it used {used}"),
        );
    }
    match &ending.exit {
        Exit::NotSpawned { error, .. } => (
            Code::SpawnFailed,
            format!("{role} cannot be started: {error}"),
        ),
        Exit::Code(code) if !ending.hello => (
            Code::SpawnFailed,
            format!("{role} ended with exit code {code} before it said hello"),
        ),
        Exit::Code(code) => (
            Code::WorkerCrashed,
            format!("{role} ended with exit code {code} and no result {place}"),
        ),
        Exit::Unkillable => (
            Code::WorkerStalled,
            format!("{role} cannot be killed {place}: it is left to the kernel"),
        ),
        Exit::Signal(libc::SIGABRT) if memory.is_some() => {
            let bytes = words::size(memory.as_ref().map_or(0, |note| note.value));
            (
                Code::OutOfHostMemory,
                format!("{role} could not have {bytes} more memory {place}"),
            )
        }
        Exit::Signal(libc::SIGABRT) if panic.is_some() => {
            let text = panic.as_ref().map_or("", |note| note.text.as_str());
            (
                Code::WorkerCrashed,
                format!("{role} panicked {place}: {}", words::printable(text, 300)),
            )
        }
        Exit::Signal(libc::SIGSYS) => {
            let call = match signal {
                Some(note) if note.value > 0 => format!("system call {}", note.value),
                _ => "a system call".to_owned(),
            };
            (
                Code::SandboxViolation,
                format!("{role} died by SIGSYS {place}: its sandbox forbids {call}"),
            )
        }
        exit @ Exit::Signal(_) => (
            Code::WorkerCrashed,
            format!(
                "{role} died by {} {place}",
                exit.signal_name().unwrap_or_default()
            ),
        ),
    }
}

/// Whether the process was waiting for a driver.
fn on_gpu(ending: &Ending) -> bool {
    let driver = ending
        .adapter
        .as_ref()
        .is_some_and(|adapter| adapter.kind != "native");
    // Once the adapter is known, `OpenDevice` makes the job's buffers and pipelines on it.
    let phases = [Phase::OpenDevice, Phase::Raster, Phase::Init, Phase::Fit];
    driver && phases.contains(&ending.phase)
}

fn place(ending: &Ending) -> String {
    let phase = ending.phase;
    let label = match ending.last.label.as_str() {
        "" => String::new(),
        label => format!(", {}", words::printable(label, 80)),
    };
    format!(
        "while {} (phase {}{label})",
        words::doing(phase),
        phase.name()
    )
}

#[cfg(test)]
mod tests;
