//! How a process ended → go on, try again in a fresh process, or give up. Pure: the one place that decides, and the table
//! that every fault test reads.

use std::time::Duration;

use nix::sys::signal::Signal;
use proto::limits::MAX_RETRIES;
use proto::message::{Code, Failure, Phase, Role};
use serde::Serialize;

use crate::words;

/// What a repetition can be expected to do about a failure. Every failure has exactly one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RetryClass {
    /// The input's doing: the same again would fail the same way.
    Input,
    /// A process died or stalled, and nobody can say whether the input or chance did it.
    Ambiguous,
    /// Too little memory for this plan.
    Resource,
    /// Not this job's doing.
    Victim,
    /// The host was short of something for a moment.
    Transient,
    /// The installation is at fault: only a person can mend it.
    Config,
}

impl RetryClass {
    /// How many deaths of a role this class forgives, each with a fresh process.
    #[must_use]
    pub fn budget(self) -> u32 {
        match self {
            // Deterministic by definition, or for a person to mend.
            Self::Input | Self::Config => 0,
            // One crash may be chance; the second is evidence.
            Self::Ambiguous => 1,
            // A repetition needs a smaller plan, and bake does its own splitting: the same plan would fail again.
            Self::Resource => 0,
            // Bounded only so that nothing is for ever.
            Self::Victim => 3,
            // A fork that failed, a loader that timed out.
            Self::Transient => 1,
        }
    }

    /// How long to wait before the repetition: a host that is short of something gets time to recover.
    #[must_use]
    pub fn delay(self) -> Duration {
        match self {
            Self::Transient => Duration::from_millis(250),
            Self::Input | Self::Ambiguous | Self::Resource | Self::Victim | Self::Config => {
                Duration::ZERO
            }
        }
    }

    /// The class of a cause.
    #[must_use]
    pub fn of(code: Code) -> Self {
        match code {
            Code::InvalidSpec
            | Code::InvalidAsset
            | Code::MissingInput
            | Code::LimitExceeded
            | Code::UnsupportedFeature
            | Code::ShaderRejected
            | Code::IncompleteOutput
            | Code::DeadlineExceeded
            | Code::Cancelled => Self::Input,
            Code::GpuDeviceLost
            | Code::WorkerCrashed
            | Code::WorkerStalled
            | Code::ProtocolViolation
            | Code::GpuHang
            | Code::SandboxViolation
            | Code::Internal => Self::Ambiguous,
            Code::OutOfHostMemory | Code::OutOfDeviceMemory => Self::Resource,
            Code::SpawnFailed => Self::Transient,
            Code::NoAdapter
            | Code::OutputError
            | Code::BinaryMismatch
            | Code::SandboxUnavailable => Self::Config,
        }
    }
}

/// Why the supervisor killed a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kill {
    /// It did not say hello in time.
    NoHello {
        /// The deadline.
        seconds: u64,
    },
    /// Its work did not move.
    Stall {
        /// For how long.
        seconds: u64,
    },
    /// It spoke out of turn.
    Violation(String),
    /// It comes from another build.
    Mismatch(String),
    /// It gave its answer, or closed its socket, and then did not end.
    Lingering,
    /// Its input was withdrawn, since the process that made it died.
    Superseded,
    /// The job is over.
    JobOver,
}

/// What the kernel says of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It never ran.
    NotSpawned {
        /// The system's words.
        error: String,
        /// Whether the same call may succeed a moment later.
        transient: bool,
    },
    /// It returned.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

impl Exit {
    /// The signal's name, where one ended the process.
    #[must_use]
    pub fn signal_name(&self) -> Option<String> {
        match self {
            Self::Signal(number) => Some(
                Signal::try_from(*number)
                    .map_or_else(|_| format!("signal {number}"), |s| s.as_str().to_owned()),
            ),
            Self::Code(_) | Self::NotSpawned { .. } => None,
        }
    }
}

/// Everything that counts of a process that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// What it was for.
    pub role: Role,
    /// Its last phase.
    pub phase: Phase,
    /// A right `Hello` came.
    pub hello: bool,
    /// `Done` came, and every table was there.
    pub done: bool,
    /// `Failed` came.
    pub failure: Option<Failure>,
    /// Why the supervisor killed it, if it did.
    pub kill: Option<Kill>,
    /// What the kernel says.
    pub exit: Exit,
}

/// What is wrong, in the words of the wire and in those for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The cause.
    pub code: Code,
    /// Its class.
    pub class: RetryClass,
    /// One line: what, where.
    pub message: String,
    /// One line: how to mend it; may be empty.
    pub hint: String,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The role did its work.
    Success,
    /// A fresh process of the same role.
    Retry(Fault),
    /// The job is over.
    Fail(Fault),
}

/// Judges an ended process. `deaths` counts the earlier ones of this role that were not a victim's, `retries` all fresh
/// starts of the job so far.
#[must_use]
pub fn judge(ending: &Ending, deaths: u32, retries: u32) -> Verdict {
    if ending.done {
        // However it ended afterwards: its tables are sealed, so nothing that it did later can change them.
        return Verdict::Success;
    }
    let mut fault = fault(ending);
    if deaths < fault.class.budget() && retries < MAX_RETRIES {
        return Verdict::Retry(fault);
    }
    if deaths > 0 {
        fault.message.push_str(match deaths {
            1 => ", twice",
            _ => ", more than twice",
        });
        if fault.hint.is_empty() && ending.role == Role::Prepare {
            // Prepare is deterministic, so the second death accuses the input.
            fault.hint =
                "the mesh or a picture probably triggers a bug: -v shows what prepare was doing"
                    .to_owned();
        }
    }
    Verdict::Fail(fault)
}

fn fault(ending: &Ending) -> Fault {
    let role = ending.role.name();
    let place = place(ending.phase);
    if let Some(failure) = &ending.failure {
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
    let (code, message) = match (&ending.kill, &ending.exit) {
        (Some(Kill::NoHello { seconds }), _) => (
            Code::SpawnFailed,
            format!("{role} said nothing within {seconds} s of its start, and was killed"),
        ),
        (Some(Kill::Stall { seconds }), _) => (
            Code::WorkerStalled,
            format!("{role} made no progress for {seconds} s {place}, and was killed"),
        ),
        (Some(Kill::Violation(what)), _) => (
            Code::ProtocolViolation,
            format!("{role} broke the protocol {place}, and was killed: {what}"),
        ),
        (Some(Kill::Mismatch(what)), _) => (Code::BinaryMismatch, what.clone()),
        (Some(Kill::Superseded | Kill::JobOver), _) => {
            (Code::Cancelled, format!("{role} was no longer needed"))
        }
        (Some(Kill::Lingering), _) => (
            Code::WorkerCrashed,
            format!("{role} gave no answer {place}, closed its socket, and was killed"),
        ),
        (None, Exit::NotSpawned { error, .. }) => (
            Code::SpawnFailed,
            format!("{role} cannot be started: {error}"),
        ),
        (None, Exit::Code(code)) if !ending.hello => (
            Code::SpawnFailed,
            format!("{role} ended with exit code {code} before it said hello"),
        ),
        (None, Exit::Code(code)) => (
            Code::WorkerCrashed,
            format!("{role} ended with exit code {code} and no result {place}"),
        ),
        (None, exit @ Exit::Signal(_)) => (
            Code::WorkerCrashed,
            format!(
                "{role} died by {} {place}",
                exit.signal_name().unwrap_or_default()
            ),
        ),
    };
    let class = match (&ending.kill, &ending.exit) {
        (Some(Kill::Superseded | Kill::JobOver), _) => RetryClass::Victim,
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
        hint: hint(ending, code),
    }
}

fn place(phase: Phase) -> String {
    format!("while {} (phase {})", words::doing(phase), phase.name())
}

fn hint(ending: &Ending, code: Code) -> String {
    let hint = match (code, ending.role, &ending.exit) {
        (Code::BinaryMismatch, ..) => {
            "install kiln and kiln-baker of one build side by side: ./run.sh builds both"
        }
        (
            Code::SpawnFailed,
            _,
            Exit::NotSpawned {
                transient: false, ..
            },
        ) => "kiln-baker belongs beside kiln: ./run.sh builds both",
        (Code::SpawnFailed, ..) => "kiln doctor shows whether kiln-baker can run here",
        (Code::WorkerCrashed, _, Exit::Signal(9)) => {
            "if nobody killed it, the machine ran out of memory: a smaller --texture-size or fewer views need less"
        }
        (Code::WorkerCrashed | Code::WorkerStalled, Role::Bake, _) => {
            "kiln doctor shows adapters and drivers; --device cpu bakes without any driver"
        }
        (Code::ProtocolViolation, ..) => {
            "this is a bug of kiln-baker: please report it with the lines below"
        }
        _ => "",
    };
    hint.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn died(exit: Exit) -> Ending {
        Ending {
            role: Role::Bake,
            phase: Phase::Fit,
            hello: true,
            done: false,
            failure: None,
            kill: None,
            exit,
        }
    }

    fn fail(verdict: Verdict) -> Fault {
        match verdict {
            Verdict::Fail(fault) => fault,
            other => panic!("wanted a failure, got {other:?}"),
        }
    }

    #[test]
    fn a_crash_is_forgiven_once() {
        let crash = died(Exit::Signal(11));
        assert!(
            matches!(judge(&crash, 0, 0), Verdict::Retry(fault) if fault.class == RetryClass::Ambiguous)
        );
        let fault = fail(judge(&crash, 1, 1));
        assert_eq!(fault.code, Code::WorkerCrashed);
        assert_eq!(
            fault.message,
            "bake died by SIGSEGV while fitting the texture (phase fit), twice"
        );
    }

    #[test]
    fn the_job_has_a_hard_cap_of_starts() {
        let crash = died(Exit::Signal(6));
        assert!(matches!(judge(&crash, 0, MAX_RETRIES), Verdict::Fail(_)));
    }

    #[test]
    fn the_input_is_not_tried_again() {
        for code in [
            Code::InvalidAsset,
            Code::MissingInput,
            Code::LimitExceeded,
            Code::UnsupportedFeature,
        ] {
            let failure = Failure {
                code,
                message: "no".into(),
                hint: "mend".into(),
            };
            let ending = Ending {
                failure: Some(failure),
                ..died(Exit::Code(65))
            };
            let fault = fail(judge(&ending, 0, 0));
            assert_eq!(
                (fault.code, fault.class, fault.hint.as_str()),
                (code, RetryClass::Input, "mend")
            );
        }
    }

    #[test]
    fn a_result_counts_whatever_happens_afterwards() {
        for exit in [Exit::Code(0), Exit::Code(70), Exit::Signal(11)] {
            let ending = Ending {
                done: true,
                kill: Some(Kill::Lingering),
                ..died(exit)
            };
            assert_eq!(judge(&ending, 0, 0), Verdict::Success);
        }
    }

    #[test]
    fn exit_0_without_a_result_is_no_success() {
        assert!(matches!(
            judge(&died(Exit::Code(0)), 0, 0),
            Verdict::Retry(_)
        ));
    }

    #[test]
    fn another_build_is_never_tried_again() {
        let ending = Ending {
            hello: false,
            kill: Some(Kill::Mismatch("no".into())),
            ..died(Exit::Signal(9))
        };
        assert_eq!(fail(judge(&ending, 0, 0)).code, Code::BinaryMismatch);
    }

    #[test]
    fn a_missing_program_is_never_tried_again_but_a_full_process_table_is() {
        let spawn = |transient| {
            died(Exit::NotSpawned {
                error: "no".into(),
                transient,
            })
        };
        assert_eq!(fail(judge(&spawn(false), 0, 0)).class, RetryClass::Config);
        assert!(matches!(judge(&spawn(true), 0, 0), Verdict::Retry(_)));
    }

    #[test]
    fn a_kill_by_the_supervisor_is_named_by_its_reason() {
        let stall = Ending {
            kill: Some(Kill::Stall { seconds: 60 }),
            ..died(Exit::Signal(9))
        };
        let fault = fail(judge(&stall, 1, 1));
        assert_eq!(fault.code, Code::WorkerStalled);
        assert!(
            fault.message.contains("no progress for 60 s while fitting"),
            "{}",
            fault.message
        );
    }
}
