//! Opens the adapter of a job: an open device, the views seen so far, then the mesh → the adapter with its buffers, and
//! the window of the texture that it starts with.

use proto::job::{BakeJob, Memory};
use proto::message::Failure;

use crate::bake::gpu::{self, Expected};
use crate::bake::model::atlas::Atlas;
use crate::bake::model::scene::Scene;
use crate::bake::plan::quality::Plan;
use crate::bake::plan::warm::Warm;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::Backend;
use crate::bake::solve::fit_context::ties;
use crate::bake::solve::native::Native;

/// Source of a bake's adapter.
pub(crate) trait Opening {
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
pub(crate) struct Ready<'a> {
    pub(crate) warm: Warm,
    pub(crate) plan: &'a Plan,
    pub(crate) job: &'a BakeJob,
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
