//! Opens an adapter and compiles its pipelines before any data comes.
//!
//! A bake does this while prepare still works, and a spare process has done it when its job comes.

use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use proto::job::{BakeJob, Blend, Device as Wanted, Quality, WarmJob};
use proto::message::{AdapterInfo, Failure, PipelineCache};

use crate::bake::gpu::device::{self, Device, GpuError};
use crate::bake::gpu::pipelines::Pipelines;
use crate::bake::gpu::{Expected, options};
use crate::bake::plan::quality::Plan;
use crate::bake::solve::native;
use crate::worker::progress::Progress;

/// A GPU, and how far it is ready.
#[derive(Debug)]
enum Opened {
    Bare(Box<Device>),
    Ready(Box<Result<Pipelines, GpuError>>),
    /// A thread preallocates what the fit will need.
    Preallocating(JoinHandle<Option<Pipelines>>),
}

/// See the head of this file.
#[derive(Debug)]
pub struct Warm {
    /// The GPU; none where the processor bakes.
    gpu: Option<Opened>,
    /// Quality of the fit.
    pub quality: Quality,
    /// Space of the footprint's average.
    pub blend: Blend,
    /// Origin of the pipelines; none where the processor bakes.
    origin: Option<PipelineCache>,
    /// Time to compile the pipelines, in milliseconds.
    compile_ms: f64,
}

impl Warm {
    /// Opens the adapter that the job wants. For `auto` that is a GPU, or the processor where none opens; a GPU that
    /// was asked for by name is never replaced.
    ///
    /// # Errors
    /// No adapter fits, or the one that was named does not open.
    pub fn up(job: &WarmJob, progress: &dyn Progress) -> Result<Self, Failure> {
        let device = match device::open(job) {
            Ok(device) => device,
            Err(error) if job.device == Wanted::Auto => {
                progress.warning(&format!(
                    "the GPU does not open, the processor bakes instead: {error}"
                ));
                None
            }
            Err(error) => return Err(error.into()),
        };
        let unkept = |device: &Device| match device.cache_key() {
            Some(_) => PipelineCache::Off,
            None => PipelineCache::Unsupported,
        };
        Ok(Self {
            origin: device.as_ref().map(unkept),
            compile_ms: 0.0,
            gpu: device.map(|device| Opened::Bare(Box::new(device))),
            quality: job.quality,
            blend: job.blend,
        })
    }

    /// Number of adapters, including this one, that would have done equally well.
    pub fn peers(&self) -> u32 {
        self.device().map_or(1, Device::peers)
    }

    /// The adapter that will do the work.
    pub fn adapter(&self) -> AdapterInfo {
        self.device()
            .map_or_else(native::adapter, |device| device.info().clone())
    }

    /// The open device; none where the processor bakes, or where a thread has it.
    pub(crate) fn device(&self) -> Option<&Device> {
        match &self.gpu {
            Some(Opened::Bare(device)) => Some(device),
            Some(Opened::Ready(pipelines)) => {
                pipelines.as_ref().as_ref().ok().map(Pipelines::device)
            }
            Some(Opened::Preallocating(_)) | None => None,
        }
    }

    /// Preallocates on a thread what the fit of these views will certainly need, while their mesh is still missing. The
    /// adapter is reported by then.
    pub(crate) fn foresee(&mut self, job: &BakeJob, expected: Expected) {
        let Some(Opened::Ready(pipelines)) = &self.gpu else {
            return;
        };
        let options = (pipelines.as_ref().as_ref())
            .map(|pipelines| options(pipelines, expected.texture_size, job));
        let Ok(options) = options else {
            return;
        };
        let (hand, handed) = mpsc::channel::<Pipelines>();
        let work = move || {
            let mut pipelines = handed.recv().ok()?;
            pipelines.preallocate(&options, expected);
            Some(pipelines)
        };
        // Without a thread, all is allocated when it is needed.
        let Ok(thread) = Builder::new().name("first buffers".to_owned()).spawn(work) else {
            return;
        };
        self.gpu = self.gpu.take().map(|gpu| match gpu {
            Opened::Ready(pipelines) => match *pipelines {
                Ok(pipelines) => match hand.send(pipelines) {
                    Ok(()) => Opened::Preallocating(thread),
                    Err(mpsc::SendError(pipelines)) => Opened::Ready(Box::new(Ok(pipelines))),
                },
                failed @ Err(_) => Opened::Ready(Box::new(failed)),
            },
            other => other,
        });
    }

    /// Key of the adapter, driver and build whose pipelines can be cached; none where that is impossible.
    pub fn cache_key(&self) -> Option<&str> {
        self.device().and_then(Device::cache_key)
    }

    /// Caches the pipelines that will be compiled, beside those `pixel_mask` by an earlier process.
    pub fn keep(&mut self, kept: Option<&[u8]>) {
        if let Some(Opened::Bare(device)) = &mut self.gpu {
            device.keep(kept);
        }
    }

    /// After the pipelines are compiled: the cache for a later process, if it has grown.
    pub fn gained(&mut self) -> Option<Vec<u8>> {
        let (origin, gained) = self.device().and_then(Device::gained)?;
        self.origin = Some(origin);
        gained
    }

    /// Origin of the pipelines and their compile time in milliseconds; none where the processor bakes.
    pub fn stages(&self) -> Option<(PipelineCache, f64)> {
        Some((self.origin?, self.compile_ms))
    }

    /// Compiles the pipelines if a GPU bakes. Errors are reported when the pipelines are needed.
    #[must_use]
    pub fn compiled(mut self) -> Self {
        let begun = Instant::now();
        self.gpu = self.gpu.map(|gpu| match gpu {
            Opened::Bare(device) => {
                let taps = Plan::new(self.quality).taps;
                let pipelines = Pipelines::new(*device, taps, self.blend);
                self.compile_ms = begun.elapsed().as_secs_f64() * 1e3;
                Opened::Ready(Box::new(pipelines))
            }
            ready @ (Opened::Ready(_) | Opened::Preallocating(_)) => ready,
        });
        self
    }

    /// The compiled pipelines; none where the processor bakes.
    ///
    /// # Errors
    /// The driver refuses a pipeline, or the device failed meanwhile.
    pub fn into_pipelines(self) -> Result<Option<Pipelines>, Failure> {
        match self.compiled().gpu {
            Some(Opened::Ready(pipelines)) => Ok(Some((*pipelines)?)),
            Some(Opened::Preallocating(thread)) => match thread.join() {
                Ok(pipelines) => Ok(pipelines),
                Err(panic) => std::panic::resume_unwind(panic),
            },
            Some(Opened::Bare(_)) | None => Ok(None),
        }
    }
}
