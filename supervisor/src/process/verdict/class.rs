//! Maps a cause to its retry class.

use std::time::Duration;

use proto::message::Code;
use serde::{Deserialize, Serialize};

/// What to expect of a retry after a failure. Every failure has exactly one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RetryClass {
    /// The input is at fault: a retry would fail the same way.
    Input,
    /// A process died or stalled, and it is unknown whether the input or chance caused it.
    Ambiguous,
    /// Too little memory for this plan.
    Resource,
    /// The job is not at fault.
    Victim,
    /// The host was short of something for a moment.
    Transient,
    /// The installation is at fault: only a person can fix it.
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

    /// How many failures of this class are retried per role, each with a fresh process.
    pub fn budget(self) -> u32 {
        match self {
            // Deterministic by definition, or for a person to fix.
            Self::Input | Self::Config => 0,
            // One crash may be chance; the second is evidence.
            Self::Ambiguous => 1,
            // A smaller plan, then vertex colours: the ladder has no more.
            Self::Resource => 2,
            // Bounded only so that nothing repeats for ever.
            Self::Victim => 3,
            // A fork that failed, a loader that timed out, a disk that was full.
            Self::Transient => 2,
        }
    }

    /// The delay before a retry after `failures` earlier ones. A host that is short of something gets time.
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
            // A forbidden system call is forbidden the second time, too.
            Code::NoAdapter
            | Code::OutputError
            | Code::BinaryMismatch
            | Code::SandboxViolation
            | Code::SandboxUnavailable => Self::Config,
        }
    }
}
