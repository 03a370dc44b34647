//! An open device → every stage compiled for it. A driver takes a fifth of a second and
//! more for that, and it needs no data. So a bake does it while prepare still works, and a spare process before its job
//! comes.

use proto::job::Blend;
use rayon::prelude::*;

use super::device::{Device, GpuError};
use super::error::under_way;
use super::fit::{Expected, Options, Preallocated, bounds, row_memory, words};
use super::raster::{Drawing, Way};
use super::row_store::rows_layout;
use super::shaders::{AVERAGE, MULTILEVEL, NORMAL, REGULARISE, RESIDUAL, ROW_BINS, SOLVE, Shader};
use super::stage::Compiled;
use super::tiles::Bounds;

/// The stages after the footprints.
#[derive(Debug)]
pub(super) struct Stages {
    pub(super) average: Compiled,
    pub(super) residual: Compiled,
    pub(super) normal: Compiled,
    pub(super) regularise: Compiled,
    pub(super) multilevel: Compiled,
    pub(super) solve: Compiled,
    /// Made by the first fit that asks for maps.
    pub(super) deviation: Option<Compiled>,
}

/// A device and its compiled stages.
#[derive(Debug)]
pub struct Pipelines {
    pub(super) device: Device,
    pub(super) taps: u32,
    /// Space in which a footprint is averaged.
    pub(super) blend: Blend,
    /// Layout of the bind group of a pool of rows.
    pub(super) rows: wgpu::BindGroupLayout,
    pub(super) drawing: Drawing,
    pub(super) footprint: Compiled,
    pub(super) row_bins: Compiled,
    pub(super) stages: Stages,
    /// Preallocated buffers of the next fit.
    pub(super) preallocated: Option<Preallocated>,
}

impl Pipelines {
    /// The device that they are compiled for.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Preallocates what the fit of views will surely need while their mesh is not there yet. Errors are not reported
    /// here: the next use of the device reports them.
    pub fn preallocate(&mut self, options: &Options, expected: Expected) {
        let preallocated = under_way("the first buffers", || {
            Preallocated::make(&self.device, self.taps, options, expected)
        });
        self.preallocated = preallocated.ok().flatten();
    }

    /// Preallocated bytes.
    pub(super) fn made(&self) -> u64 {
        self.preallocated.as_ref().map_or(0, Preallocated::bytes)
    }

    /// Whether a window of `texels` texels in rows of `size` leaves memory for rows, beside `others` and its tiles.
    pub(super) fn fit(&self, options: &Options, size: u32, texels: usize, others: u64) -> bool {
        let budget = bounds(&self.device, options, self.made());
        let bounds = Bounds::new(self.drawing.way, &self.device.limits, &budget, self.taps);
        let pool = words(&budget, size, texels);
        bounds.shape(pool, 1.0).is_ok() && row_memory(&budget, bounds, size, texels, others).all > 0
    }

    /// Compiles the stages for `taps`² samples a pixel and a space of their average.
    ///
    /// # Errors
    /// The driver refuses a stage, or the device fails.
    pub fn new(device: Device, taps: u32, blend: Blend) -> Result<Self, GpuError> {
        let way = Way::of(&device);
        Self::with(device, taps, blend, way)
    }

    pub(super) fn with(
        device: Device,
        taps: u32,
        blend: Blend,
        way: Way,
    ) -> Result<Self, GpuError> {
        under_way("the stages", || Self::compile(device, taps, blend, way))
    }

    fn compile(device: Device, taps: u32, blend: Blend, way: Way) -> Result<Self, GpuError> {
        let rows = rows_layout(&device);
        let [raster, footprint] = way.shaders();
        let shaders: [&'static Shader; 9] = [
            raster,
            footprint,
            &ROW_BINS,
            &AVERAGE,
            &RESIDUAL,
            &NORMAL,
            &REGULARISE,
            &MULTILEVEL,
            &SOLVE,
        ];
        let all: Vec<Result<Compiled, GpuError>> = shaders
            .par_iter()
            .map(|shader| under_way(shader.name, || shader.compile(&device, &rows, taps, blend)))
            .collect();
        let mut failed = Ok(());
        let mut keep_first =
            |error| failed = std::mem::replace(&mut failed, Ok(())).and(Err(error));
        let stages: Vec<Compiled> = (all.into_iter())
            .filter_map(|stage| stage.map_err(&mut keep_first).ok())
            .collect();
        let pipeline = failed.and_then(|()| {
            let pipeline = way.pipeline(&device, &stages[0])?;
            device.check().map(|()| pipeline)
        });
        let (stages, pipeline) = match (<[Compiled; 9]>::try_from(stages), pipeline) {
            (Ok(stages), Ok(pipeline)) => (stages, pipeline),
            (stages, failed) => {
                let missing = device.lost("a stage is missing");
                // On a broken device destructors block or crash. The end of the process frees the memory.
                Box::leak(Box::new((stages, rows, device)));
                return Err(failed.err().unwrap_or(missing));
            }
        };
        let [
            raster,
            footprint,
            row_bins,
            average,
            residual,
            normal,
            regularise,
            multilevel,
            solve,
        ] = stages;
        let drawing = Drawing {
            way,
            stage: raster,
            pipeline,
        };
        Ok(Self {
            device,
            taps,
            blend,
            rows,
            drawing,
            footprint,
            row_bins,
            stages: Stages {
                average,
                residual,
                normal,
                regularise,
                multilevel,
                solve,
                deviation: None,
            },
            preallocated: None,
        })
    }
}
