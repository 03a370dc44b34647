//! What was asked for → an open adapter, before there is any data: what a bake can do while prepare still works, and what a
//! spare process has done already when a job comes.

use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use proto::job::{BakeJob, Blend, Device as Wanted, Quality, WarmJob};
use proto::message::{AdapterInfo, Failure, PipelineCache};

use super::gpu::device::{self, Device, GpuError};
use super::gpu::kit::Kit;
use super::gpu::{Expected, options};
use super::native;
use super::plan::Plan;
use crate::progress::Progress;

/// A GPU.
#[derive(Debug)]
enum Opened {
    Bare(Box<Device>),
    Ready(Box<Result<Kit, GpuError>>),
    /// A thread makes what the fit will need.
    Foreseeing(JoinHandle<Option<Kit>>),
}

/// See the head of this file.
#[derive(Debug)]
pub struct Warm {
    /// A GPU; none where the processor bakes.
    gpu: Option<Opened>,
    /// Work put into the fit.
    pub quality: Quality,
    /// Space of the footprint's average.
    pub blend: Blend,
    /// Where the stages came from, where a GPU bakes.
    origin: Option<PipelineCache>,
    /// What the stages took, in milliseconds.
    compile_ms: f64,
}

impl Warm {
    /// Opens the adapter that the job wants: a GPU where `auto` finds one that opens, otherwise the processor, and never that
    /// where a GPU was asked for.
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
        let unkept = |device: &Device| match device.pipelines() {
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

    /// How many adapters would have done equally well, with it.
    #[must_use]
    pub fn peers(&self) -> u32 {
        self.device().map_or(1, Device::peers)
    }

    /// Who will do the work.
    #[must_use]
    pub fn adapter(&self) -> AdapterInfo {
        self.device()
            .map_or_else(native::adapter, |device| device.info().clone())
    }

    fn device(&self) -> Option<&Device> {
        match &self.gpu {
            Some(Opened::Bare(device)) => Some(device),
            Some(Opened::Ready(kit)) => kit.as_ref().as_ref().ok().map(Kit::device),
            Some(Opened::Foreseeing(_)) | None => None,
        }
    }

    /// Views are there, and their mesh is not: a thread makes what their fit will surely need. What there is to say of the adapter has
    /// been said.
    pub(super) fn foresee(&mut self, job: &BakeJob, expected: Expected) {
        let Some(Opened::Ready(kit)) = &self.gpu else {
            return;
        };
        let options = (kit.as_ref().as_ref()).map(|kit| options(kit, expected.texture_size, job));
        let Ok(options) = options else {
            return;
        };
        let (hand, handed) = mpsc::channel::<Kit>();
        let work = move || {
            let mut kit = handed.recv().ok()?;
            kit.foresee(&options, expected);
            Some(kit)
        };
        // Without a thread, all is made when it is needed.
        let Ok(thread) = Builder::new().name("first buffers".to_owned()).spawn(work) else {
            return;
        };
        self.gpu = self.gpu.take().map(|gpu| match gpu {
            Opened::Ready(kit) => match *kit {
                Ok(kit) => match hand.send(kit) {
                    Ok(()) => Opened::Foreseeing(thread),
                    Err(mpsc::SendError(kit)) => Opened::Ready(Box::new(Ok(kit))),
                },
                failed @ Err(_) => Opened::Ready(Box::new(failed)),
            },
            other => other,
        });
    }

    /// For which adapter, driver and build its pipelines can be kept; none where there are none, or they cannot.
    #[must_use]
    pub fn pipelines(&self) -> Option<&str> {
        self.device().and_then(Device::pipelines)
    }

    /// Keeps the stages that will be compiled, beside those of an earlier process.
    pub fn keep(&mut self, kept: Option<&[u8]>) {
        if let Some(Opened::Bare(device)) = &mut self.gpu {
            device.keep(kept);
        }
    }

    /// Once the stages are compiled: what a later process is to be given, if that is more than this one was.
    pub fn gained(&mut self) -> Option<Vec<u8>> {
        let (origin, gained) = self.device().and_then(Device::gained)?;
        self.origin = Some(origin);
        gained
    }

    /// Where the stages came from, and what they took in milliseconds; none where the processor bakes.
    #[must_use]
    pub fn stages(&self) -> Option<(PipelineCache, f64)> {
        Some((self.origin?, self.compile_ms))
    }

    /// Compiles the stages, if a GPU bakes. What goes wrong is told when they are needed.
    #[must_use]
    pub fn compiled(mut self) -> Self {
        let begun = Instant::now();
        self.gpu = self.gpu.map(|gpu| match gpu {
            Opened::Bare(device) => {
                let taps = Plan::new(self.quality).taps;
                let kit = Kit::new(*device, taps, self.blend);
                self.compile_ms = begun.elapsed().as_secs_f64() * 1e3;
                Opened::Ready(Box::new(kit))
            }
            ready @ (Opened::Ready(_) | Opened::Foreseeing(_)) => ready,
        });
        self
    }

    /// The compiled stages; none where the processor bakes.
    ///
    /// # Errors
    /// The driver refuses a stage, or the device failed meanwhile.
    pub fn into_kit(self) -> Result<Option<Kit>, Failure> {
        match self.compiled().gpu {
            Some(Opened::Ready(kit)) => Ok(Some((*kit)?)),
            Some(Opened::Foreseeing(thread)) => match thread.join() {
                Ok(kit) => Ok(kit),
                Err(panic) => std::panic::resume_unwind(panic),
            },
            Some(Opened::Bare(_)) | None => Ok(None),
        }
    }
}
