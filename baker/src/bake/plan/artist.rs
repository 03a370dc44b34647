//! The device of a bake, and splats → who draws the views: the device, where its memory holds the splats beside the fit.

use std::mem::ManuallyDrop;

use proto::job::{BakeJob, Memory};
use proto::message::Failure;
use proto::table::View;

use crate::bake::gpu;
use crate::bake::gpu::splats::{Shot, SplatRenderer, SplatStyle};
use crate::bake::intake::view_source::Artist;
use crate::bake::plan::warm::Warm;
use crate::image::splats::Undrawn;
use crate::worker::failure::internal;

/// One in so many bytes of a job's device memory is for splats at most.
const SHARE: u64 = 4;

/// A device that draws.
pub(crate) struct GpuArtist {
    /// Never dropped: a driver that crashes in teardown would take a finished texture with it.
    renderer: ManuallyDrop<SplatRenderer>,
}

impl GpuArtist {
    /// Uploads the splats. None where the processor bakes, or where a share of the job's memory does not hold them.
    ///
    /// # Errors
    /// The device fails, or refuses a stage.
    pub(crate) fn new(
        warm: &Warm,
        splats: &Undrawn,
        job: &BakeJob,
    ) -> Result<Option<Self>, Failure> {
        let Some(device) = warm.device() else {
            return Ok(None);
        };
        let all = job.vram_budget.unwrap_or_else(|| gpu::left(device));
        let bytes = match job.memory {
            Memory::Full => all / SHARE,
            Memory::Small => all / SHARE / SHARE,
        };
        let style = SplatStyle {
            filter: splats.filter,
            degree: splats.cloud.degree,
            linear: splats.linear,
        };
        let renderer = SplatRenderer::new(device, &splats.cloud, style, bytes)?;
        Ok(renderer.map(|renderer| Self {
            renderer: ManuallyDrop::new(renderer),
        }))
    }

    /// Bytes of device memory in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.renderer.bytes()
    }
}

impl Artist for GpuArtist {
    fn draw(&mut self, splats: &Undrawn, views: &mut [&mut View]) -> Result<(), Failure> {
        let shots = views.iter().map(|view| {
            let (view, window) = splats.shot(view)?;
            Ok(Shot { view, window })
        });
        let shots: Result<Vec<Shot>, proto::table::TableError> = shots.collect();
        let shots = shots.map_err(|error| internal(&error))?;
        let drawn = splats.timed(shots.len(), || self.renderer.draw(&shots))?;
        for (view, pixels) in views.iter_mut().zip(drawn) {
            view.pixels = pixels;
        }
        Ok(())
    }
}
