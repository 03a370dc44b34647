//! Every failure of a GPU → [`GpuError`] → the code that the supervisor acts on. wgpu's panics count as failures too.
//!
//! wgpu panics where the driver fails in places that it has no error for: `poll` on a lost device, or clean-up after a
//! device that did not open. [`blame`] turns such a panic into the failure that it stands for. wgpu does not say whose
//! memory ran out, the host's or the device's; here either counts as the device's.

use std::cell::Cell;
use std::panic::PanicHookInfo;

use proto::message::{Code, Failure};

use crate::bake::solve::backend::BackendError;

/// Why the GPU did not do its work.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "its messages say what the fields are")]
pub enum GpuError {
    /// No adapter fits `--device`.
    #[error("no adapter fits --device {wanted}; found: {found}")]
    NoAdapter { wanted: String, found: String },
    /// The adapter gave no device.
    #[error("adapter {adapter} gives no device: {text}")]
    NoDevice { adapter: String, text: String },
    /// More than the budget, a binding or the adapter holds.
    #[error("{what} needs {bytes} bytes of device memory: {why}")]
    OutOfMemory {
        what: String,
        bytes: u64,
        /// The bound that it exceeds.
        why: String,
    },
    /// The driver ran out of memory where that ends the device.
    #[error("out of memory during {label}: {text}")]
    Exhausted { label: String, text: String },
    /// The device is gone.
    #[error("device lost during {label}: {reason}")]
    Lost { label: String, reason: String },
    /// The driver or the shader compiler refused a stage.
    #[error("stage {stage} was refused: {text}")]
    ShaderRejected { stage: String, text: String },
    /// The adapter answered, but not all of the work was done.
    #[error("after {label}, {visited} of {asked} units of work were done (modulo 2³²)")]
    Incomplete {
        label: String,
        /// Units counted by the shaders.
        visited: u32,
        /// Units counted by the host.
        asked: u32,
    },
    /// wgpu refused a command: a bug in this crate.
    #[error("during {label}: {text}")]
    Refused { label: String, text: String },
}

/// How wgpu-hal, wgpu-core, their panics and ash word that memory ran out.
const MEMORY: [&str; 6] = [
    "Out of memory",
    "OUT_OF_HOST_MEMORY",
    "OUT_OF_DEVICE_MEMORY",
    "Not enough memory",
    "OutOfMemory",
    "memory allocation has failed",
];

impl GpuError {
    /// The error for a device that failed with this message of wgpu. Where wgpu has no error for lack of memory, it
    /// gives up the device and says why in the message.
    pub(super) fn failed(label: impl Into<String>, words: impl Into<String>) -> Self {
        let (label, words) = (label.into(), words.into());
        if MEMORY.iter().any(|memory| words.contains(memory)) {
            Self::Exhausted { label, text: words }
        } else {
            Self::Lost {
                label,
                reason: words,
            }
        }
    }

    /// `what` needs more bytes than there are.
    pub(super) fn out_of_memory(what: &str, bytes: u64, why: impl Into<String>) -> Self {
        Self::OutOfMemory {
            what: what.to_owned(),
            bytes,
            why: why.into(),
        }
    }

    /// A call that this crate must not make.
    pub(super) fn refused(label: &str, text: impl Into<String>) -> Self {
        Self::Refused {
            label: label.to_owned(),
            text: text.into(),
        }
    }

    /// The code that the supervisor acts on.
    pub fn code(&self) -> Code {
        match self {
            Self::NoAdapter { .. } | Self::NoDevice { .. } => Code::NoAdapter,
            Self::OutOfMemory { .. } | Self::Exhausted { .. } => Code::OutOfDeviceMemory,
            Self::Lost { .. } => Code::GpuDeviceLost,
            Self::ShaderRejected { .. } => Code::ShaderRejected,
            Self::Incomplete { .. } => Code::IncompleteOutput,
            Self::Refused { .. } => Code::Internal,
        }
    }
}

impl From<GpuError> for Failure {
    fn from(error: GpuError) -> Self {
        let hint = match error {
            GpuError::NoAdapter { .. } | GpuError::NoDevice { .. } => {
                "`kiln doctor` lists the adapters; --device cpu needs none"
            }
            GpuError::OutOfMemory { .. } | GpuError::Exhausted { .. } => {
                "a larger --vram-budget where one was given, a smaller --texture-size, or --device cpu"
            }
            _ => "",
        };
        Self {
            code: error.code(),
            message: error.to_string(),
            hint: hint.to_owned(),
        }
    }
}

impl From<GpuError> for BackendError {
    fn from(error: GpuError) -> Self {
        let text = error.to_string();
        match error {
            GpuError::OutOfMemory { .. } | GpuError::Exhausted { .. } => Self::OutOfMemory(text),
            GpuError::Lost { .. } | GpuError::NoAdapter { .. } | GpuError::NoDevice { .. } => {
                Self::Lost(text)
            }
            GpuError::ShaderRejected { .. } => Self::Shader(text),
            GpuError::Incomplete { .. } | GpuError::Refused { .. } => Self::Incomplete(text),
        }
    }
}

thread_local! {
    static UNDER_WAY: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Runs `work` under a name that its failures carry, panics included.
pub(super) fn under_way<T>(label: &'static str, work: impl FnOnce() -> T) -> T {
    let before = UNDER_WAY.replace(Some(label));
    let done = work();
    UNDER_WAY.set(before);
    done
}

/// Names the next part of the work under way.
pub(super) fn now(label: &'static str) {
    UNDER_WAY.set(Some(label));
}

pub(super) fn label() -> &'static str {
    UNDER_WAY.get().unwrap_or("nothing")
}

/// The failure that a panic stands for, if wgpu raised it while this thread worked on the device. Other panics give
/// none.
pub fn blame(panic: &PanicHookInfo<'_>) -> Option<Failure> {
    let file = panic.location()?.file();
    let text = panic.payload_as_str().unwrap_or("no text");
    blamed(UNDER_WAY.get(), file, text).map(Failure::from)
}

fn blamed(label: Option<&'static str>, file: &str, text: &str) -> Option<GpuError> {
    const CRATES: [&str; 4] = ["/wgpu", "/ash-", "/gpu-alloc", "/naga"];
    let label = label?;
    CRATES
        .iter()
        .any(|name| file.contains(name))
        .then(|| GpuError::failed(label, format!("wgpu panicked: {text}")))
}

/// Runs `make` and returns the error that it caused. If there is one about memory, it is that one, since others follow
/// from it.
pub(super) fn scoped<T>(device: &wgpu::Device, make: impl FnOnce() -> T) -> Result<T, wgpu::Error> {
    let filters = [
        wgpu::ErrorFilter::Validation,
        wgpu::ErrorFilter::Internal,
        wgpu::ErrorFilter::OutOfMemory,
    ];
    let scopes = filters.map(|filter| device.push_error_scope(filter));
    let made = make();
    let mut first = None;
    for scope in scopes.into_iter().rev() {
        first = first.or(pollster::block_on(scope.pop()));
    }
    match first {
        None => Ok(made),
        Some(error) => Err(error),
    }
}

/// The error that a scope caught outside shader compilation.
pub(super) fn refused(label: &str, error: &wgpu::Error) -> GpuError {
    let (label, text) = (label.to_owned(), chain(error));
    match error {
        wgpu::Error::OutOfMemory { .. } => GpuError::Exhausted { label, text },
        wgpu::Error::Validation { .. } | wgpu::Error::Internal { .. } => {
            GpuError::Refused { label, text }
        }
    }
}

/// An error and its causes on one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_wgpu_at_work_is_a_lost_device_and_no_other_is() {
        let wgpu = "/registry/src/index/wgpu-30.0.1/src/backend/wgpu_core.rs";
        let code = |label, file, text| blamed(label, file, text).map(|error| error.code());
        let lost = "Error in Device::poll: Parent device is lost";
        assert_eq!(code(Some("solve"), wgpu, lost), Some(Code::GpuDeviceLost));
        let memory = "Error in Device::poll: Not enough memory left.";
        assert_eq!(
            code(Some("solve"), wgpu, memory),
            Some(Code::OutOfDeviceMemory)
        );
        let freed = "vkFreeDescriptorSets error: A host memory allocation has failed, please report this error";
        assert_eq!(
            code(Some("solve"), wgpu, freed),
            Some(Code::OutOfDeviceMemory)
        );
        assert_eq!(code(None, wgpu, lost), None);
        assert_eq!(code(Some("solve"), "baker/src/bake/gpu/fit.rs", lost), None);
    }

    #[test]
    fn names_nest() {
        under_way("outer", || {
            under_way("inner", || assert_eq!(label(), "inner"));
            assert_eq!(label(), "outer");
            now("next");
            assert_eq!(label(), "next");
        });
        assert_eq!(label(), "nothing");
    }
}
