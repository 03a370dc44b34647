//! Opens the adapter of a job: an open device, the views seen so far, then the mesh → the adapter with its buffers, and
//! the window of the texture that it starts with.

use proto::job::{BakeJob, Memory};
use proto::message::Failure;

use super::atlas::Atlas;
use super::backend::Backend;
use super::fit_context::ties;
use super::gpu::{self, Expected};
use super::native::Native;
use super::plan::Plan;
use super::scene::Scene;
use super::warm::Warm;
use super::window::Window;

/// Source of a bake's adapter.
pub(super) trait Opening {
    /// Announces, before the mesh comes, the number of views and of their pixels on the mesh ("foresee":
    /// preallocation).
    fn foresee(&mut self, _views: usize, _pixels: u64) {}

    /// The adapter for a job, and the window of its texture that it starts with.
    fn open(self, scene: &Scene, atlas: &Atlas) -> Result<(Box<dyn Backend>, Window), Failure>;
}

impl<F> Opening for F
where
    F: FnOnce(&Scene, &Atlas) -> Result<(Box<dyn Backend>, Window), Failure>,
{
    fn open(self, scene: &Scene, atlas: &Atlas) -> Result<(Box<dyn Backend>, Window), Failure> {
        self(scene, atlas)
    }
}

/// A device that is open already.
pub(super) struct Ready<'a> {
    pub(super) warm: Warm,
    pub(super) plan: &'a Plan,
    pub(super) job: &'a BakeJob,
}

impl Opening for Ready<'_> {
    /// Preallocates, where the job may use all of the device's memory.
    fn foresee(&mut self, views: usize, pixels: u64) {
        let all = self.job.vram_budget.is_none() && self.job.memory == Memory::Full;
        if let Some(texture_size) = self.job.texture_size.filter(|_| all) {
            let expected = Expected {
                views: views as u64,
                pixels,
                texture_size,
            };
            self.warm.foresee(self.job, expected);
        }
    }

    /// Allocates the buffers, for the whole texture if they fit.
    fn open(self, scene: &Scene, atlas: &Atlas) -> Result<(Box<dyn Backend>, Window), Failure> {
        let Self { warm, plan, job } = self;
        let blend = warm.blend;
        let Some(pipelines) = warm.into_pipelines()? else {
            let ties = ties(atlas, &scene.window);
            let native = Native::new(scene.clone(), ties, plan.taps, blend, job.memory);
            return Ok((Box::new(native), scene.window.clone()));
        };
        let options = gpu::options(&pipelines, scene.size, job);
        let window = gpu::window(&pipelines, scene, atlas, &options);
        let ties = ties(atlas, &window);
        // The surface before simplification has masked the views already.
        let gpu = gpu::Gpu::new(pipelines, scene.within(&window), &ties, &options)?;
        Ok((Box::new(gpu), window))
    }
}
