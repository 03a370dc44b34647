//! Cause → what a repetition can be expected to do about it.

use std::time::Duration;

use proto::message::Code;
use serde::{Deserialize, Serialize};

/// What a repetition can be expected to do about a failure. Every failure has exactly one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// Every class.
    pub const ALL: [Self; 6] = [
        Self::Input,
        Self::Ambiguous,
        Self::Resource,
        Self::Victim,
        Self::Transient,
        Self::Config,
    ];

    /// How many failures of this class a role is forgiven, each with a fresh process.
    #[must_use]
    pub fn budget(self) -> u32 {
        match self {
            // Deterministic by definition, or for a person to mend.
            Self::Input | Self::Config => 0,
            // One crash may be chance; the second is evidence.
            Self::Ambiguous => 1,
            // A smaller plan, then none at all: the ladder has no more.
            Self::Resource => 2,
            // Bounded only so that nothing is for ever.
            Self::Victim => 3,
            // A fork that failed, a loader that timed out, a disk that was full.
            Self::Transient => 2,
        }
    }

    /// How long to wait before the repetition after `failures` earlier ones: a host that is short of something gets time.
    #[must_use]
    pub fn delay(self, failures: u32) -> Duration {
        match self {
            Self::Transient => {
                Duration::from_millis(50 << (2 * failures.min(3))).min(Duration::from_secs(2))
            }
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
            | Code::GpuHang
            | Code::WorkerCrashed
            | Code::WorkerStalled
            | Code::ProtocolViolation
            | Code::Internal => Self::Ambiguous,
            Code::OutOfHostMemory | Code::OutOfDeviceMemory => Self::Resource,
            Code::SpawnFailed | Code::IoError => Self::Transient,
            // The same system call is forbidden the second time, too.
            Code::NoAdapter
            | Code::OutputError
            | Code::BinaryMismatch
            | Code::SandboxViolation
            | Code::SandboxUnavailable => Self::Config,
        }
    }
}
