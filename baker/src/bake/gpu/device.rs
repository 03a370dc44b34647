//! `--device` → adapter → device, and every way in which a device fails → [`GpuError`].
//!
//! wgpu swallows a lost device in places (`submit` on a dead one still returns an index, `poll` may say `Ok`), so nothing here
//! counts as done until four things agree: poll, map, the lost flag, and the number of rows that the shaders say they visited.
//! A device error inside `poll` is a panic of wgpu, which ends this process: its supervisor reads that as a lost device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use proto::job::Device as Wanted;
use proto::message::{AdapterInfo, Code, Failure};

use crate::bake::backend::BackendError;

/// Why the GPU did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// `--device` names nothing that is there.
    #[error("no adapter fits --device {wanted}; found: {found}")]
    NoAdapter {
        /// What was asked for.
        wanted: String,
        /// What there is.
        found: String,
    },
    /// The adapter did not give a device.
    #[error("adapter {adapter} gives no device: {text}")]
    NoDevice {
        /// The adapter.
        adapter: String,
        /// wgpu's words.
        text: String,
    },
    /// More than the budget, a binding or the adapter holds.
    #[error("{what} needs {bytes} bytes of device memory: {why}")]
    OutOfMemory {
        /// Which buffer or texture.
        what: String,
        /// Its size.
        bytes: u64,
        /// Which bound it met.
        why: String,
    },
    /// The device is gone.
    #[error("device lost during {label}: {reason}")]
    Lost {
        /// The last stage that was submitted.
        label: String,
        /// The driver's words.
        reason: String,
    },
    /// The driver or the shader compiler refused a stage.
    #[error("stage {stage} was refused: {text}")]
    ShaderRejected {
        /// Which.
        stage: String,
        /// Why.
        text: String,
    },
    /// The adapter answered, but not with all of the work.
    #[error("after {label}, {visited} of {asked} rows were visited (modulo 2³²)")]
    Incomplete {
        /// The last stage that was submitted.
        label: String,
        /// By the shaders' count.
        visited: u32,
        /// By ours.
        asked: u32,
    },
    /// wgpu refused a command: a bug of ours.
    #[error("during {label}: {text}")]
    Refused {
        /// The last stage that was submitted.
        label: String,
        /// wgpu's words.
        text: String,
    },
}

impl GpuError {
    /// What the supervisor acts on.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::NoAdapter { .. } | Self::NoDevice { .. } => Code::NoAdapter,
            Self::OutOfMemory { .. } => Code::OutOfDeviceMemory,
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
            GpuError::OutOfMemory { .. } => "a smaller --texture-size, or --device cpu",
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
            GpuError::OutOfMemory { .. } => Self::OutOfMemory(text),
            GpuError::Lost { .. } | GpuError::NoAdapter { .. } | GpuError::NoDevice { .. } => {
                Self::Lost(text)
            }
            GpuError::ShaderRejected { .. } => Self::Shader(text),
            GpuError::Incomplete { .. } | GpuError::Refused { .. } => Self::Incomplete(text),
        }
    }
}

/// What the driver's callbacks leave behind.
#[derive(Debug, Default)]
struct Flags {
    lost: AtomicBool,
    /// The first words of the lost callback or of an error that no scope caught.
    words: Mutex<Option<(bool, String)>>,
}

impl Flags {
    fn keep(&self, lost: bool, text: String) {
        if lost {
            self.lost.store(true, Ordering::SeqCst);
        }
        tracing::warn!(lost, "GPU: {text}");
        if let Ok(mut words) = self.words.lock() {
            words.get_or_insert((lost, text));
        }
    }
}

/// An open device.
#[derive(Debug)]
pub struct Device {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) limits: wgpu::Limits,
    info: AdapterInfo,
    flags: Arc<Flags>,
    label: Mutex<String>,
}

/// Opens the adapter that `wanted` asks for. None where any will do and no real GPU is there, or the processor was asked for:
/// the caller's native adapter is the better one then. Adapters whose name is in `avoid` are passed over.
///
/// # Errors
/// [`GpuError::NoAdapter`] or [`GpuError::NoDevice`].
pub fn open(wanted: &Wanted, avoid: &[String]) -> Result<Option<Device>, GpuError> {
    if *wanted == Wanted::Cpu {
        return Ok(None);
    }
    let mut adapters = adapters();
    adapters.retain(|adapter| !avoid.contains(&adapter.get_info().name));
    let infos: Vec<AdapterInfo> = adapters
        .iter()
        .map(|adapter| describe(&adapter.get_info()))
        .collect();
    match choose(&infos, wanted) {
        Some(index) => Device::new(&adapters[index], infos[index].clone()).map(Some),
        None if *wanted == Wanted::Auto => Ok(None),
        None => {
            let found: Vec<&str> = infos.iter().map(|info| info.name.as_str()).collect();
            let found = if found.is_empty() {
                "nothing".to_owned()
            } else {
                found.join(", ")
            };
            let wanted = match wanted {
                Wanted::Name(text) => text.clone(),
                Wanted::Auto | Wanted::Gpu | Wanted::Cpu => "gpu".to_owned(),
            };
            Err(GpuError::NoAdapter { wanted, found })
        }
    }
}

/// Every adapter of this machine.
pub(crate) fn adapters() -> Vec<wgpu::Adapter> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::PRIMARY;
    // No validation layers: they are the machine's, not ours.
    descriptor.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor);
    pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY))
}

/// An adapter in the words of the report.
pub(crate) fn describe(info: &wgpu::AdapterInfo) -> AdapterInfo {
    let kind = match info.device_type {
        wgpu::DeviceType::DiscreteGpu => "discrete",
        wgpu::DeviceType::IntegratedGpu => "integrated",
        // Layered drivers call themselves "other"; they are as good as virtual ones.
        wgpu::DeviceType::VirtualGpu | wgpu::DeviceType::Other => "virtual",
        wgpu::DeviceType::Cpu => "software",
    };
    AdapterInfo {
        name: info.name.clone(),
        backend: info.backend.to_str().to_owned(),
        kind: kind.to_owned(),
        driver: format!("{} {}", info.driver, info.driver_info)
            .trim()
            .to_owned(),
    }
}

/// The best of `infos` for `wanted`: discrete before integrated before virtual, software only by name, the first of equals.
fn choose(infos: &[AdapterInfo], wanted: &Wanted) -> Option<usize> {
    const ORDER: [&str; 4] = ["discrete", "integrated", "virtual", "software"];
    let allowed = |info: &AdapterInfo| match wanted {
        Wanted::Auto | Wanted::Gpu => info.kind != "software",
        Wanted::Cpu => false,
        Wanted::Name(text) => info.name.to_lowercase().contains(&text.to_lowercase()),
    };
    (0..infos.len())
        .filter(|&index| allowed(&infos[index]))
        .min_by_key(|&index| ORDER.iter().position(|kind| *kind == infos[index].kind))
}

impl Device {
    fn new(adapter: &wgpu::Adapter, info: AdapterInfo) -> Result<Self, GpuError> {
        // All that the adapter has: its own limits, and no optional feature, since no stage needs one.
        let limits = adapter.limits();
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("kiln"),
            required_features: wgpu::Features::empty(),
            required_limits: limits.clone(),
            experimental_features: wgpu::ExperimentalFeatures::disabled(),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            trace: wgpu::Trace::Off,
        };
        let (device, queue) =
            pollster::block_on(adapter.request_device(&descriptor)).map_err(|error| {
                GpuError::NoDevice {
                    adapter: info.name.clone(),
                    text: error.to_string(),
                }
            })?;
        let flags = Arc::new(Flags::default());
        let kept = Arc::clone(&flags);
        device.set_device_lost_callback(move |reason, text| {
            kept.keep(true, format!("{reason:?} {text}"));
        });
        let kept = Arc::clone(&flags);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            kept.keep(false, error.to_string());
        }));
        Ok(Self {
            device,
            queue,
            limits,
            info,
            flags,
            label: Mutex::new("start".to_owned()),
        })
    }

    /// Its description.
    #[must_use]
    pub fn info(&self) -> &AdapterInfo {
        &self.info
    }

    /// The stage whose name a failure carries.
    pub(super) fn label(&self) -> String {
        self.label
            .lock()
            .map(|label| label.clone())
            .unwrap_or_default()
    }

    /// Runs `make`, and gives the error that it caused.
    pub(super) fn scoped<T>(&self, make: impl FnOnce() -> T) -> Result<T, wgpu::Error> {
        let filters = [
            wgpu::ErrorFilter::OutOfMemory,
            wgpu::ErrorFilter::Validation,
            wgpu::ErrorFilter::Internal,
        ];
        let scopes = filters.map(|filter| self.device.push_error_scope(filter));
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

    /// The device as it is: lost, complained, or well.
    pub(super) fn check(&self) -> Result<(), GpuError> {
        let words = self.flags.words.lock().ok().and_then(|words| words.clone());
        let lost = self.flags.lost.load(Ordering::SeqCst);
        match words {
            None if !lost => Ok(()),
            Some((false, text)) if !lost => Err(GpuError::Refused {
                label: self.label(),
                text,
            }),
            words => Err(self.lost(words.map(|(_, text)| text).unwrap_or_default())),
        }
    }

    pub(super) fn lost(&self, reason: impl Into<String>) -> GpuError {
        GpuError::Lost {
            label: self.label(),
            reason: reason.into(),
        }
    }

    /// Submits commands under a name.
    pub(super) fn submit(
        &self,
        label: &str,
        encoder: wgpu::CommandEncoder,
    ) -> Result<(), GpuError> {
        if let Ok(mut last) = self.label.lock() {
            label.clone_into(&mut last);
        }
        let sent = self.scoped(|| self.queue.submit([encoder.finish()]));
        self.check()?;
        match sent {
            Ok(_) => Ok(()),
            Err(wgpu::Error::OutOfMemory { source }) => Err(GpuError::OutOfMemory {
                what: label.to_owned(),
                bytes: 0,
                why: source.to_string(),
            }),
            Err(error) => Err(GpuError::Refused {
                label: label.to_owned(),
                text: error.to_string(),
            }),
        }
    }

    /// Waits for all that was submitted.
    pub(super) fn wait(&self) -> Result<(), GpuError> {
        crate::progress::wait_for(&self.label(), self.info.kind == "software");
        let polled = self.device.poll(wgpu::PollType::wait_indefinitely());
        crate::progress::unit();
        self.check()?;
        polled
            .map(|_| ())
            .map_err(|error| self.lost(error.to_string()))
    }

    /// Commands to record.
    pub(super) fn encoder(&self, label: &str) -> wgpu::CommandEncoder {
        self.device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some(label) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, kind: &str) -> AdapterInfo {
        AdapterInfo {
            name: name.to_owned(),
            backend: String::new(),
            kind: kind.to_owned(),
            driver: String::new(),
        }
    }

    #[test]
    fn real_gpus_come_before_software_which_must_be_named() {
        let infos = [
            info("llvmpipe", "software"),
            info("Iris", "integrated"),
            info("H200", "discrete"),
        ];
        assert_eq!(choose(&infos, &Wanted::Auto), Some(2));
        assert_eq!(choose(&infos[..2], &Wanted::Gpu), Some(1));
        assert_eq!(choose(&infos[..1], &Wanted::Auto), None);
        assert_eq!(choose(&infos[..1], &Wanted::Gpu), None);
        assert_eq!(choose(&infos, &Wanted::Name("LLVM".to_owned())), Some(0));
        assert_eq!(choose(&infos, &Wanted::Name("radeon".to_owned())), None);
        assert_eq!(choose(&infos, &Wanted::Cpu), None);
    }

    #[test]
    fn a_name_that_nothing_has_is_no_adapter() {
        let error = open(&Wanted::Name("no adapter is called this".to_owned()), &[])
            .map(|_| ())
            .unwrap_err();
        assert_eq!(Failure::from(error).code, Code::NoAdapter);
    }
}
