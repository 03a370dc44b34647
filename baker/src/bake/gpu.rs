//! The GPU backend, through wgpu. It does the mathematics of [`super::solve::native`], stage by stage. A stage's shader is the
//! `.wgsl` beside its native twin.
//!
//! ```text
//!   view ─ raster ─ footprint ─▶ rows (row store: resident, or redrawn for each pass when the budget is full)
//!   rows with a box ─ row_bins ─▶ the same, sorted into bins: squares of the texture
//!   rows ─ average ─▶ texels
//!   rows, texels ─ residual ─▶ histogram of each view · robust weights
//!   rows, weights ─ normal, regularise ─▶ diagonal, λ ─ solve (apply, step, apply, …) ─▶ texels
//!   rows, texels ─ deviation ─▶ deviation of the views from each texel, where maps are asked for
//!   splats, views ─ splats ─▶ pictures, where the views show splats
//! ```
//!
//! | layer, lowest first | modules |
//! |---|---|
//! | what Rust and WGSL share, failures | `layout`, `shaders`, `error` |
//! | an adapter | `tally`, `times`, `cache`, `driver`, `device` |
//! | its memory and commands | `batch`, `memory`, `stage` |
//! | views and texels | `visible`, `raster`, `tiles`, `planes` |
//! | rows | `row_store` |
//! | pictures of splats | `splats` |
//! | a job | `pipelines`, `fit`, this module, `dry_run` |
//!
//! Fill and gutter have no GPU stage: they walk the surface once, over texels that the host reads anyway. The same job
//! on the same adapter gives the same bytes: sums across rows are integers, sums across texels are trees of fixed
//! shape.

mod batch;
mod cache;
pub mod device;
mod driver;
pub mod dry_run;
mod error;
mod fit;
mod layout;
mod memory;
pub mod pipelines;
mod planes;
mod raster;
mod row_store;
mod shaders;
pub(crate) mod splats;
mod stage;
mod tally;
mod tiles;
mod times;
mod visible;

#[cfg(test)]
mod tests;

use proto::job::{BakeJob, Blend};
use proto::message::{AdapterInfo, StageTime};
use proto::plan::RowsHeld;
use proto::table::View;

use self::device::GpuError;
pub use self::error::blame;
use self::error::under_way;
use self::fit::Fit;
pub use self::fit::{Expected, Options};
use self::pipelines::Pipelines;
use self::visible::VisibleBlocks;
use crate::bake::intake::pixel_mask::PixelMask;
use crate::bake::model::atlas::Atlas;
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::{
    Backend, BackendError, Belief, RowMemory, Strength, Ties, ViewResiduals,
};
use crate::bake::solve::subdomains::first_window;

/// Bytes of device memory that are left, as far as the driver says.
pub(crate) fn left(device: &device::Device) -> u64 {
    fit::left(device)
}

/// How a job uses the device of `pipelines`.
pub fn options(pipelines: &Pipelines, texture_size: u32, job: &BakeJob) -> Options {
    fit::options(&pipelines.device, pipelines.made(), texture_size, job)
}

/// The window that a job begins with on the device of `pipelines`: the whole texture if that leaves memory for rows, else
/// strips spread over the texture.
pub fn window(pipelines: &Pipelines, scene: &Scene, atlas: &Atlas, options: &Options) -> Window {
    let others = fit::others(scene, atlas);
    let fits = |texels| pipelines.fit(options, scene.size, texels, others);
    match fits(scene.texels()) {
        true => scene.window.clone(),
        false => first_window(scene.size, fits),
    }
}

/// One job on one GPU.
#[derive(Debug)]
pub struct Gpu {
    /// None only during drop.
    fit: Option<Box<Fit>>,
    options: Options,
    /// Peak memory of earlier fits, in bytes.
    peak: u64,
    info: AdapterInfo,
    failed: bool,
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // On a broken device destructors block or crash. The end of the process frees the memory.
        if let (true, Some(fit)) = (self.failed, self.fit.take()) {
            Box::leak(fit);
        }
    }
}

impl Gpu {
    /// Makes the buffers of a job. The caller has masked pixels that show another surface than the scene's.
    pub fn new(
        pipelines: Pipelines,
        scene: Scene,
        ties: &Ties,
        options: &Options,
    ) -> Result<Self, GpuError> {
        let info = pipelines.device.info().clone();
        let fit = under_way("preparing the fit", || {
            Fit::new(pipelines, scene, ties, options, 0)
        })?;
        Ok(Self {
            fit: Some(Box::new(fit)),
            options: *options,
            peak: 0,
            info,
            failed: false,
        })
    }

    fn run<T>(
        &mut self,
        work: impl FnOnce(&mut Fit) -> Result<T, GpuError>,
    ) -> Result<T, BackendError> {
        let result = match self.fit.as_deref_mut() {
            Some(fit) if !self.failed => under_way("the fit", || work(fit)),
            _ => return Err(BackendError::Lost("the device failed before".to_owned())),
        };
        self.failed = result.is_err();
        Ok(result?)
    }
}

impl Backend for Gpu {
    fn adapter(&self) -> AdapterInfo {
        self.info.clone()
    }

    fn row_memory(&self, texels: usize) -> RowMemory {
        let none = RowMemory {
            all: 0,
            row: 1.0,
            entry: 0.0,
            word: 0.0,
        };
        (self.fit.as_ref()).map_or(none, |fit| fit.row_memory(texels))
    }

    fn await_blocks(&mut self, blocks: u64) {
        if let Some(fit) = &mut self.fit {
            fit.store.await_blocks(blocks);
        }
    }

    fn overflows(&self) -> bool {
        (self.fit.as_ref()).is_some_and(|fit| fit.overflows())
    }

    fn add_view(&mut self, view: &View) -> Result<(), BackendError> {
        self.run(|fit| fit.add_view(view))
    }

    fn add_views(&mut self, views: &[&View], kept: Option<&PixelMask>) -> Result<(), BackendError> {
        self.run(|fit| fit.add_views(views, kept))
    }

    fn foresee(&mut self, windows: &[Window]) -> Result<(), BackendError> {
        self.run(|fit| fit.record_visible(windows))
    }

    fn is_apart(&self) -> bool {
        true
    }

    fn forget(&mut self) -> Result<(), BackendError> {
        self.run(Fit::forget)
    }

    fn average(&mut self) -> Result<(), BackendError> {
        self.run(Fit::average)
    }

    fn read_texels(&mut self) -> Result<Vec<[f32; 4]>, BackendError> {
        self.run(Fit::read_texels)
    }

    fn read_weights(&mut self) -> Result<Vec<f32>, BackendError> {
        self.run(Fit::read_weights)
    }

    fn write_texels(&mut self, texels: &[[f32; 4]]) -> Result<(), BackendError> {
        self.run(|fit| fit.write_texels(texels))
    }

    fn residuals(&mut self) -> Result<Vec<ViewResiduals>, BackendError> {
        self.run(Fit::residuals)
    }

    fn reweight(&mut self, beliefs: &[Belief], strength: Strength) -> Result<(), BackendError> {
        self.run(|fit| fit.reweight(beliefs, strength))
    }

    fn narrow(&mut self, subset: bool) -> Result<(), BackendError> {
        self.run(|fit| fit.narrow(subset))
    }

    fn solve(&mut self, iterations: u32) -> Result<(), BackendError> {
        self.run(|fit| fit.solve(iterations))
    }

    fn deviations(&mut self) -> Result<Vec<f32>, BackendError> {
        self.run(Fit::deviations)
    }

    fn gpu_times(&mut self) -> Result<Vec<StageTime>, BackendError> {
        self.run(|fit| fit.device.gpu_times())
    }

    fn reset(
        &mut self,
        scene: &Scene,
        ties: &Ties,
        taps: u32,
        blend: Blend,
    ) -> Result<(), BackendError> {
        let visible = self.run(Fit::take_visible)?;
        let Some(fit) = self.fit.take() else {
            return Err(BackendError::Lost("the device failed before".to_owned()));
        };
        self.peak = self.peak.max(fit.budget.peak());
        let blocks = fit.store.awaited;
        // The clock already runs, and an existing stage for maps stays compiled.
        let options = Options {
            maps: false,
            gpu_times: false,
            ..self.options
        };
        let own = scene.window.texels();
        let room = fit::room(own, visible.as_ref().map_or(own, VisibleBlocks::texels));
        let next = under_way("the next texture", || {
            if fit.would_do(scene, taps, blend) {
                return fit.renewed(scene, ties);
            }
            let mut pipelines = fit.into_pipelines()?;
            if (pipelines.taps, pipelines.blend) != (taps, blend) {
                pipelines = Pipelines::new(pipelines.device, taps, blend)?;
            }
            Fit::new(pipelines, scene.clone(), ties, &options, room).map(Box::new)
        });
        self.failed = next.is_err();
        let mut fit = next?;
        fit.store.await_blocks(blocks);
        fit.set_visible(visible);
        self.fit = Some(fit);
        Ok(())
    }

    fn rows_held(&self) -> RowsHeld {
        (self.fit.as_ref()).map_or_else(RowsHeld::default, |fit| fit.held())
    }

    fn peak_memory(&self) -> u64 {
        let now = self.fit.as_ref().map_or(0, |fit| fit.budget.peak());
        now.max(self.peak)
    }

    fn driver_memory(&self) -> Option<u64> {
        let fit = self.fit.as_ref()?;
        Some(driver::memory(&fit.device.device)?.used)
    }

    fn moved(&self) -> [u64; 2] {
        self.fit.as_ref().map_or([0; 2], |fit| fit.device.moved())
    }
}
