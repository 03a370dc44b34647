//! What was asked for → an open adapter, before there is any data: what a bake can do while prepare still works, and what a
//! spare process has done already when a job comes.

use proto::job::{Blend, Device as Wanted, Quality, WarmJob};
use proto::message::{AdapterInfo, Failure};

use super::gpu::device::{self, Device};
use super::native;
use crate::progress::Progress;

/// See the head of this file.
#[derive(Debug)]
pub struct Warm {
    /// A GPU; none where the processor bakes.
    pub device: Option<Device>,
    /// Work put into the fit.
    pub quality: Quality,
    /// Space of the footprint's average.
    pub blend: Blend,
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
        Ok(Self {
            device,
            quality: job.quality,
            blend: job.blend,
        })
    }

    /// How many adapters would have done equally well, with it.
    #[must_use]
    pub fn peers(&self) -> u32 {
        self.device.as_ref().map_or(1, Device::peers)
    }

    /// Who will do the work.
    #[must_use]
    pub fn adapter(&self) -> AdapterInfo {
        self.device
            .as_ref()
            .map_or_else(native::adapter, |device| device.info().clone())
    }
}
