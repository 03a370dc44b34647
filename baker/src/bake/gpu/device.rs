//! `--device` → adapter → device; its submissions; and the errors that wgpu's callbacks report.
//!
//! wgpu hides a lost device in places: `submit` on a dead one still returns an index, and `poll` may say `Ok`. So work
//! counts as done only if four things agree: poll, map, the lost flag, and the tally of work done.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto::job::{Device as Wanted, WarmJob};
use proto::message::{AdapterInfo, PipelineCache, StageTime};

use super::cache::{self, Cache};
pub use super::error::GpuError;
use super::error::{chain, label, now, refused, scoped, under_way};
use super::tally::Tally;
use super::times::{FEATURES, Times};

/// Finds the nearest triangle of a sample in compute (`raster.rs`).
pub(super) const ATOMICS: wgpu::Features =
    wgpu::Features::SHADER_INT64.union(wgpu::Features::SHADER_INT64_ATOMIC_MIN_MAX);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Lost,
    Memory,
    Refused,
}

#[derive(Debug, Default)]
struct Flags {
    lost: AtomicBool,
    /// The first error: later ones are its consequences.
    words: Mutex<Option<(Trouble, String)>>,
}

impl Flags {
    fn keep(&self, trouble: Trouble, text: String) {
        tracing::warn!(?trouble, "GPU: {text}");
        if let Ok(mut words) = self.words.lock() {
            words.get_or_insert((trouble, text));
        }
        // Last, so that any thread that sees the flag finds the message.
        if trouble == Trouble::Lost {
            self.lost.store(true, Ordering::SeqCst);
        }
    }
}

/// An open device. It is never closed: on a broken driver that blocks or crashes. The end of the process, which runs
/// one job and skips destructors, frees its memory.
#[derive(Debug)]
pub struct Device {
    pub(super) device: ManuallyDrop<wgpu::Device>,
    pub(super) queue: ManuallyDrop<wgpu::Queue>,
    pub(super) limits: wgpu::Limits,
    info: AdapterInfo,
    peers: u32,
    key: Option<String>,
    cache: Option<Cache>,
    flags: Arc<Flags>,
    tally: ManuallyDrop<Tally>,
    times: Option<Times>,
    /// Bytes that the host wrote, and read.
    moved: [AtomicU64; 2],
    pace: Mutex<Pace>,
}

/// The last submission, and the one that was last when the previous step ended.
#[derive(Debug, Default)]
struct Pace {
    last: Option<wgpu::SubmissionIndex>,
    step: Option<wgpu::SubmissionIndex>,
}

/// Opens the adapter that the job asks for. Adapters whose name the job avoids are passed over. Returns none if the
/// processor was asked for, or if any adapter will do and there is no real GPU: then the caller's native backend is the
/// better choice.
///
/// # Errors
/// [`GpuError::NoAdapter`] or [`GpuError::NoDevice`].
pub fn open(job: &WarmJob) -> Result<Option<Device>, GpuError> {
    if job.device == Wanted::Cpu {
        return Ok(None);
    }
    under_way("open device", || open_gpu(job))
}

fn open_gpu(job: &WarmJob) -> Result<Option<Device>, GpuError> {
    let mut adapters = adapters();
    adapters.retain(|(_, info)| !job.avoid.contains(&info.name));
    let infos: Vec<&AdapterInfo> = adapters.iter().map(|(_, info)| info).collect();
    let best = choose(&infos, &job.device);
    if !best.is_empty() {
        let (adapter, info) = &adapters[best[job.nth as usize % best.len()]];
        return Device::new(adapter, info.clone(), best.len() as u32).map(Some);
    }
    let wanted = match &job.device {
        Wanted::Auto => return Ok(None),
        Wanted::Name(text) => text.clone(),
        Wanted::Gpu | Wanted::Cpu => "gpu".to_owned(),
    };
    let found: Vec<&str> = infos.iter().map(|info| info.name.as_str()).collect();
    let found = if found.is_empty() {
        "nothing".to_owned()
    } else {
        found.join(", ")
    };
    Err(GpuError::NoAdapter { wanted, found })
}

/// Every adapter of this machine, in bus order, each under a unique name: `NVIDIA H200 #2` is the second one named
/// `NVIDIA H200`.
pub(crate) fn adapters() -> Vec<(wgpu::Adapter, AdapterInfo)> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::PRIMARY;
    // No validation layers: those belong to the machine, not to Kiln.
    descriptor.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor);
    let mut adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
    adapters.sort_by_cached_key(|adapter| adapter.get_info().device_pci_bus_id);
    let mut infos: Vec<AdapterInfo> = adapters
        .iter()
        .map(|adapter| describe(&adapter.get_info()))
        .collect();
    number(&mut infos);
    adapters.into_iter().zip(infos).collect()
}

fn number(infos: &mut [AdapterInfo]) {
    let names: Vec<String> = infos.iter().map(|info| info.name.clone()).collect();
    for (index, info) in infos.iter_mut().enumerate() {
        let same = |names: &[String]| names.iter().filter(|name| **name == info.name).count();
        if same(&names) > 1 {
            info.name = format!("{} #{}", info.name, same(&names[..=index]));
        }
    }
}

fn describe(info: &wgpu::AdapterInfo) -> AdapterInfo {
    let kind = match info.device_type {
        wgpu::DeviceType::DiscreteGpu => "discrete",
        wgpu::DeviceType::IntegratedGpu => "integrated",
        // Layered drivers call themselves "other"; they count as virtual.
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

/// Indices of the best of `infos` for `wanted`, all of one kind: discrete before integrated before virtual. Software is
/// chosen only by name.
fn choose(infos: &[&AdapterInfo], wanted: &Wanted) -> Vec<usize> {
    let allowed = |info: &AdapterInfo| match wanted {
        Wanted::Auto | Wanted::Gpu => info.kind != "software",
        Wanted::Cpu => false,
        Wanted::Name(text) => info.name.to_lowercase().contains(&text.to_lowercase()),
    };
    let of = |kind: &str| -> Vec<usize> {
        (0..infos.len())
            .filter(|&index| infos[index].kind == kind && allowed(infos[index]))
            .collect()
    };
    ["discrete", "integrated", "virtual", "software"]
        .into_iter()
        .map(of)
        .find(|best| !best.is_empty())
        .unwrap_or_default()
}

impl Device {
    fn new(adapter: &wgpu::Adapter, info: AdapterInfo, peers: u32) -> Result<Self, GpuError> {
        // Requests the adapter's own limits, and of the optional features its clock, wide atomics and a pipeline cache.
        let limits = adapter.limits();
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("kiln"),
            required_features: adapter.features() & (FEATURES | ATOMICS | cache::FEATURE),
            required_limits: limits.clone(),
            experimental_features: wgpu::ExperimentalFeatures::disabled(),
            // As for little memory, but blocks grow to half as much: the unused part of the last block is outside any
            // budget.
            memory_hints: wgpu::MemoryHints::Manual {
                suballocated_device_memory_block_size: 8 << 20..32 << 20,
            },
            trace: wgpu::Trace::Off,
        };
        let (device, queue) =
            pollster::block_on(adapter.request_device(&descriptor)).map_err(|error| {
                let text = chain(&error);
                match GpuError::failed(label(), text) {
                    GpuError::Lost { reason, .. } if !reason.contains("is lost") => {
                        GpuError::NoDevice {
                            adapter: info.name.clone(),
                            text: reason,
                        }
                    }
                    failed => failed,
                }
            })?;
        let flags = Arc::new(Flags::default());
        let kept = Arc::clone(&flags);
        device.set_device_lost_callback(move |reason, text| {
            kept.keep(Trouble::Lost, format!("{reason:?} {text}"));
        });
        let kept = Arc::clone(&flags);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            let trouble = match error {
                wgpu::Error::OutOfMemory { .. } => Trouble::Memory,
                wgpu::Error::Validation { .. } | wgpu::Error::Internal { .. } => Trouble::Refused,
            };
            kept.keep(trouble, chain(&error));
        }));
        let device = ManuallyDrop::new(device);
        let tally = scoped(&device, || Tally::new(&device));
        let opened = |tally| Self {
            device,
            queue: ManuallyDrop::new(queue),
            limits,
            info,
            peers,
            key: cache::key(adapter),
            cache: None,
            flags,
            tally: ManuallyDrop::new(tally),
            times: None,
            moved: [AtomicU64::new(0), AtomicU64::new(0)],
            pace: Mutex::default(),
        };
        match tally {
            Ok(tally) => {
                let opened = opened(tally);
                opened.check().map(|()| opened)
            }
            Err(error) => Err(refused(label(), &error)),
        }
    }

    /// The same device for another thread: what it submits, waits for and counts is its own.
    pub(super) fn sibling(&self) -> Result<Self, GpuError> {
        let tally = self.scoped(|| Tally::new(&self.device));
        let tally = tally.map_err(|error| refused("tally", &error))?;
        self.check()?;
        Ok(Self {
            device: self.device.clone(),
            queue: self.queue.clone(),
            limits: self.limits.clone(),
            info: self.info.clone(),
            peers: self.peers,
            key: self.key.clone(),
            cache: self.cache.clone(),
            flags: Arc::clone(&self.flags),
            tally: ManuallyDrop::new(tally),
            times: None,
            moved: Default::default(),
            pace: Mutex::default(),
        })
    }

    /// The adapter, as reports name it.
    pub fn info(&self) -> &AdapterInfo {
        &self.info
    }

    /// Number of equally good adapters, this one included.
    pub fn peers(&self) -> u32 {
        self.peers
    }

    /// Key of adapter, driver and build under which its pipelines can be kept; none where they cannot.
    pub fn cache_key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Keeps pipelines from now on, starting from those of an earlier process.
    pub fn keep(&mut self, kept: Option<&[u8]>) {
        self.cache = Cache::new(&self.device, kept);
    }

    /// Origin of its pipelines, and the data to keep, if any.
    pub fn gained(&self) -> Option<(PipelineCache, Option<Vec<u8>>)> {
        self.cache.as_ref().map(Cache::gained)
    }

    pub(super) fn cache(&self) -> Option<&wgpu::PipelineCache> {
        self.cache.as_ref().map(Cache::of)
    }

    /// Times every stage from now on, if the adapter has a clock for it.
    pub(super) fn measure(&mut self) -> Result<(), GpuError> {
        if self.device.features().contains(FEATURES) {
            let times = self.scoped(|| Times::new(&self.device, &self.queue));
            self.times = Some(times.map_err(|error| refused("times", &error))?);
        }
        Ok(())
    }

    pub(super) fn times(&self) -> Option<&Times> {
        self.times.as_ref()
    }

    pub(super) fn gpu_times(&self) -> Result<Vec<StageTime>, GpuError> {
        let Some(times) = &self.times else {
            return Ok(Vec::new());
        };
        self.read_times(times)?;
        Ok(times.report())
    }

    /// Reads the measurements so far if their set is filling up.
    pub(super) fn read_full_times(&self) -> Result<(), GpuError> {
        match &self.times {
            Some(times) if times.are_full() => self.read_times(times),
            _ => Ok(()),
        }
    }

    fn read_times(&self, times: &Times) -> Result<(), GpuError> {
        let mut encoder = self.encoder("times");
        let Some(pending) = times.resolve(&mut encoder) else {
            return Ok(());
        };
        self.submit("times", encoder)?;
        let pending = times.map(pending);
        self.wait()?;
        times.take(pending).map_err(|text| self.lost(text))
    }

    pub(super) fn uploaded(&self, bytes: usize) {
        self.moved[0].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn read_back(&self, bytes: usize) {
        self.moved[1].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes written to the device, and read from it.
    pub(super) fn moved(&self) -> [u64; 2] {
        self.moved
            .each_ref()
            .map(|bytes| bytes.load(Ordering::Relaxed))
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Checks the device's count of work, `visited`, against the host's, `asked`.
    ///
    /// # Errors
    /// [`GpuError::Incomplete`] if they differ.
    pub(super) fn verify(&self, visited: u32, asked: u32) -> Result<(), GpuError> {
        if visited == asked {
            return Ok(());
        }
        Err(GpuError::Incomplete {
            label: label().to_owned(),
            visited,
            asked,
        })
    }

    /// Runs `make` and returns the wgpu error that it caused.
    pub(super) fn scoped<T>(&self, make: impl FnOnce() -> T) -> Result<T, wgpu::Error> {
        scoped(&self.device, make)
    }

    pub(super) fn rejected(&self, stage: &str, error: wgpu::Error) -> GpuError {
        match (self.check(), error) {
            (Err(failed), _) => failed,
            (Ok(()), error @ wgpu::Error::OutOfMemory { .. }) => refused(stage, &error),
            (Ok(()), error) => GpuError::ShaderRejected {
                stage: stage.to_owned(),
                text: error.to_string(),
            },
        }
    }

    /// Fails if the device is lost or has reported an error.
    pub(super) fn check(&self) -> Result<(), GpuError> {
        let lost = self.flags.lost.load(Ordering::SeqCst);
        let words = self.flags.words.lock().ok().and_then(|words| words.clone());
        match words {
            None if !lost => Ok(()),
            Some((Trouble::Refused, text)) if !lost => Err(GpuError::Refused {
                label: label().to_owned(),
                text,
            }),
            Some((Trouble::Memory, text)) => Err(GpuError::Exhausted {
                label: label().to_owned(),
                text,
            }),
            words => Err(self.lost(words.map(|(_, text)| text).unwrap_or_default())),
        }
    }

    pub(super) fn lost(&self, reason: impl Into<String>) -> GpuError {
        GpuError::failed(label(), reason)
    }

    pub(super) fn is_software(&self) -> bool {
        self.info.kind == "software"
    }

    /// Submits commands under a name; returns an index to wait for.
    pub(super) fn submit(
        &self,
        name: &'static str,
        encoder: wgpu::CommandEncoder,
    ) -> Result<wgpu::SubmissionIndex, GpuError> {
        now(name);
        // Drivers may do some of the work within this call: lavapipe compiles and runs everything here.
        crate::worker::progress::wait_for(name, self.is_software());
        let sent = self.scoped(|| self.queue.submit([encoder.finish()]));
        self.check()?;
        let sent = sent.map_err(|error| refused(name, &error))?;
        self.pace().last = Some(sent.clone());
        Ok(sent)
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a step: waits for what had been submitted when the step before ended. So the device has work while the next
    /// step is recorded, and no more than that is queued.
    pub(super) fn keep_pace(&self) -> Result<(), GpuError> {
        let before = {
            let mut pace = self.pace();
            let last = pace.last.clone();
            std::mem::replace(&mut pace.step, last)
        };
        before.map_or(Ok(()), |sent| self.wait_for(sent))
    }

    pub(super) fn wait(&self) -> Result<(), GpuError> {
        self.poll(wgpu::PollType::wait_indefinitely())
    }

    /// Waits for a submission and those before it; later ones may still run.
    pub(super) fn wait_for(&self, sent: wgpu::SubmissionIndex) -> Result<(), GpuError> {
        self.poll(wgpu::PollType::Wait {
            submission_index: Some(sent),
            timeout: None,
        })
    }

    fn poll(&self, how: wgpu::PollType) -> Result<(), GpuError> {
        crate::worker::progress::wait_for(label(), self.is_software());
        let polled = self.device.poll(how);
        crate::worker::progress::unit();
        self.check()?;
        polled
            .map(|_| ())
            .map_err(|error| self.lost(error.to_string()))
    }

    pub(super) fn encoder(&self, label: &str) -> wgpu::CommandEncoder {
        self.device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some(label) })
    }
}

#[cfg(test)]
mod tests {
    use proto::message::{Code, Failure};

    use super::*;

    fn info(name: &str, kind: &str) -> AdapterInfo {
        AdapterInfo {
            name: name.to_owned(),
            kind: kind.to_owned(),
            ..AdapterInfo::default()
        }
    }

    #[test]
    fn real_gpus_come_before_software_which_must_be_named() {
        let infos = [
            info("llvmpipe", "software"),
            info("Iris", "integrated"),
            info("H200", "discrete"),
        ];
        let all: Vec<&AdapterInfo> = infos.iter().collect();
        assert_eq!(choose(&all, &Wanted::Auto), [2]);
        assert_eq!(choose(&all[..2], &Wanted::Gpu), [1]);
        assert!(choose(&all[..1], &Wanted::Auto).is_empty());
        assert!(choose(&all[..1], &Wanted::Gpu).is_empty());
        assert_eq!(choose(&all, &Wanted::Name("LLVM".to_owned())), [0]);
        assert!(choose(&all, &Wanted::Name("radeon".to_owned())).is_empty());
        assert!(choose(&all, &Wanted::Cpu).is_empty());
    }

    #[test]
    fn adapters_of_one_name_are_numbered_and_equally_good() {
        let mut infos = ["H200", "L4", "H200", "H200"].map(|name| info(name, "discrete"));
        number(&mut infos);
        let names = infos.each_ref().map(|info| info.name.as_str());
        assert_eq!(names, ["H200 #1", "L4", "H200 #2", "H200 #3"]);
        let all: Vec<&AdapterInfo> = infos.iter().collect();
        assert_eq!(choose(&all, &Wanted::Name("h200".to_owned())), [0, 2, 3]);
        assert_eq!(choose(&all, &Wanted::Name("H200 #2".to_owned())), [2]);
        assert_eq!(choose(&all, &Wanted::Gpu), [0, 1, 2, 3]);
    }

    #[test]
    fn a_name_that_nothing_has_is_no_adapter() {
        let error = open(&WarmJob {
            device: Wanted::Name("no adapter is called this".to_owned()),
            ..WarmJob::default()
        })
        .map(|_| ())
        .unwrap_err();
        assert_eq!(Failure::from(error).code, Code::NoAdapter);
    }
}
