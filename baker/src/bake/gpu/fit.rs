//! One fit on a device: its stages and buffers; views in, texels out.
//!
//! | module | what it does |
//! |---|---|
//! | `plan` | derives the job's budget, and the memory for rows, from what is asked for and what is there |
//! | `preallocated` | makes the planes and pools that views will surely need, before the mesh is there |
//! | `views` | draws views into rows |
//! | `passes` | computes average, residuals, weights and solution from rows |
//! | `read_rows` | reads the rows of a view, for tests |

mod passes;
mod plan;
mod preallocated;
#[cfg(test)]
mod read_rows;
mod views;

use std::sync::Arc;

use proto::job::Blend;
use proto::plan::RowsHeld;

use super::device::{Device, GpuError};
use super::layout::Judged;
use super::memory::{
    Budget, Buffer, Held, Maker, OnDevice, STORAGE, Staging, read_planes, read_through, write,
    write_planes,
};
use super::pipelines::{Pipelines, Stages};
use super::planes::{Colour, Planes, colour_planes};
use super::row_store::{Ground, RowStore, Visit};
use super::shaders::DEVIATION;
use super::stage::bind_buffers;
use super::tiles::Tiles;
use super::visible::VisibleBlocks;
use crate::bake::model::colour::observed;
use crate::bake::model::scene::Scene;
use crate::bake::solve::backend::{BINS, RowMemory, Ties};
pub use plan::Options;
use plan::ROOMY;
pub(super) use plan::{
    bounds, left, options, others, passes_fit, reserve, room, row_memory, words,
};
pub use preallocated::Expected;
pub(super) use preallocated::Preallocated;

/// Words of [`crate::bake::solve::backend::ViewResiduals`] on the device.
pub(super) const SUMS: usize = BINS + 4;

/// Label of the texels of the last reweighting.
pub(super) const WEIGHED: &str = "weighed x";

/// Buffers for the views' parameters and sums.
pub(super) fn view_buffers<M: Maker>(
    make: &M,
    views: usize,
) -> Result<[Held<M::Buffer>; 2], GpuError> {
    Ok([
        make.buffer("judged", (views * size_of::<Judged>()) as u64, STORAGE)?,
        make.buffer("sums", (views * SUMS * 4) as u64, STORAGE)?,
    ])
}

fn ground(planes: &Planes) -> Ground {
    Ground {
        size: planes.size,
        texels: planes.count,
    }
}

/// Bind groups that live as long as the planes.
#[derive(Debug)]
struct Groups {
    average: wgpu::BindGroup,
    seams: wgpu::BindGroup,
    bound: wgpu::BindGroup,
    diagonal: wgpu::BindGroup,
    defect: wgpu::BindGroup,
    apply: wgpu::BindGroup,
    regularise: wgpu::BindGroup,
    multilevel: wgpu::BindGroup,
    solve: wgpu::BindGroup,
}

impl Groups {
    fn new(device: &Device, planes: &Planes, stages: &Stages) -> Self {
        let normal = |v, out| planes.normal_group(device, &stages.normal, v, out);
        Self {
            average: planes.average_group(device, &stages.average),
            seams: normal(&planes.lambda, &planes.q),
            bound: normal(&planes.x, &planes.q),
            diagonal: normal(&planes.x, &planes.diagonal),
            defect: normal(&planes.x, &planes.r),
            apply: normal(&planes.p, &planes.q),
            regularise: planes.solve_group(device, &stages.regularise),
            multilevel: planes.solve_group(device, &stages.multilevel),
            solve: planes.solve_group(device, &stages.solve),
        }
    }
}

/// Per-view numbers, and the bind groups of the texels they come from.
#[derive(Debug)]
struct ViewSums {
    judged: Buffer,
    sums: Buffer,
    /// For residuals of the current texels.
    now: wgpu::BindGroup,
    /// For residuals of the texels of the last reweighting, which redrawn rows need.
    then: Option<(wgpu::BindGroup, Colour)>,
}

#[derive(Debug)]
pub(super) struct Fit {
    pub(super) device: Device,
    taps: u32,
    blend: Blend,
    pub(super) budget: Arc<Budget>,
    scene: Scene,
    tiles: Tiles,
    stages: Stages,
    planes: Planes,
    groups: Groups,
    pub(super) store: RowStore,
    /// Index of each view, in the order in which they were added.
    views: Vec<u32>,
    view_sums: Option<ViewSums>,
    known: RowState,
    /// Buffers to read texels through, kept from the first read on.
    staging: Option<Staging>,
    /// The windows after this one, or this one and its peers, with their visible blocks.
    visible: Option<VisibleBlocks>,
    /// The bit of this window among those.
    window_bit: Option<u32>,
}

/// What the rows hold now.
#[derive(Clone, Copy, Debug, Default)]
struct RowState {
    /// Resident rows hold their squared residual.
    residuals: bool,
    /// Rows hold their weight.
    weights: bool,
}

impl Fit {
    /// Makes a fit whose planes have room for `room` texels, at least for those of its own window.
    pub(super) fn new(
        pipelines: Pipelines,
        scene: Scene,
        ties: &Ties,
        options: &Options,
        room: usize,
    ) -> Result<Self, GpuError> {
        let Pipelines {
            mut device,
            taps,
            blend,
            rows: layout,
            drawing,
            footprint,
            row_bins,
            mut stages,
            preallocated,
        } = pipelines;
        let preallocated = preallocated.filter(|made| made.would_do(&scene, options, room));
        let (budget, planes, pools) = match preallocated {
            Some(made) => (made.budget, Some(made.planes), made.pools),
            None => (bounds(&device, options, 0), None, Vec::new()),
        };
        if options.gpu_times {
            device.measure()?;
        }
        let on = OnDevice::new(&device, &budget);
        let words = words(&budget, scene.window.size, scene.texels());
        let tiles = Tiles::new(on, (drawing, footprint), &scene, taps, words)?;
        if options.maps && stages.deviation.is_none() {
            stages.deviation = Some(DEVIATION.compile(&device, &layout, taps, blend)?);
        }
        let planes = match planes {
            Some(planes) => planes,
            None => Planes::new(on, &scene.window, room)?,
        };
        let groups = Groups::new(&device, &planes, &stages);
        let table = observed(blend);
        let tones = std::array::from_fn(|byte| [table[byte].value, table[byte].slope_squared]);
        let mut store = RowStore::new(on, (layout, row_bins), &tones, words, ground(&planes))?;
        store.take(&device, &tiles, pools);
        device.check()?;
        let mut fit = Self {
            device,
            taps,
            blend,
            budget,
            scene,
            tiles,
            stages,
            planes,
            groups,
            store,
            views: Vec::new(),
            view_sums: None,
            staging: None,
            known: RowState::default(),
            visible: None,
            window_bit: None,
        };
        fit.set_links(ties)?;
        passes_fit(&fit.budget, fit.planes.count)?;
        Ok(fit)
    }

    fn on(&self) -> OnDevice<'_> {
        OnDevice::new(&self.device, &self.budget)
    }

    /// Whether [`Self::renewed`] would do as well as [`Self::new`] for this scene and window, with little more memory.
    pub(super) fn would_do(&self, scene: &Scene, taps: u32, blend: Blend) -> bool {
        let window = &scene.window;
        let (texels, room) = (window.texels(), self.planes.room as usize);
        let words = words(&self.budget, window.size, window.texels());
        (self.taps, self.blend, self.planes.size) == (taps, blend, window.size)
            && (texels..=texels * ROOMY).contains(&room)
            && self.store.room_is(words)
            && self.tiles.would_do(window, words)
            && self.scene.triangles == scene.triangles
            && self.scene.positions == scene.positions
            && self.scene.texel_coords == scene.texel_coords
    }

    /// Starts over with another window of the same scene and drops the views. Buffers are kept: a driver takes 10-20 ms
    /// to make those of a window.
    pub(super) fn renewed(
        mut self: Box<Self>,
        scene: &Scene,
        ties: &Ties,
    ) -> Result<Box<Self>, GpuError> {
        match self.renew(scene, ties) {
            Ok(()) => Ok(self),
            Err(error) => {
                // On a broken device destructors block or crash. The end of the process frees the memory.
                Box::leak(self);
                Err(error)
            }
        }
    }

    fn renew(&mut self, scene: &Scene, ties: &Ties) -> Result<(), GpuError> {
        self.forget()?;
        self.scene = scene.clone();
        self.planes.renew(&self.device, &self.scene.window)?;
        let on = OnDevice::new(&self.device, &self.budget);
        self.store.renew(on, ground(&self.planes))?;
        self.tiles.renew(&self.device, &self.scene.window);
        let ready = |fit: &mut Self| {
            fit.set_links(ties)?;
            passes_fit(&fit.budget, fit.planes.count)
        };
        match ready(self) {
            // This window may have more seam constraints than the last one.
            Err(GpuError::OutOfMemory { .. }) => {
                self.store.let_go();
                ready(self)
            }
            done => done,
        }
    }

    /// Frees everything but the device and its stages.
    pub(super) fn into_pipelines(self) -> Result<Pipelines, GpuError> {
        let Self {
            device,
            taps,
            blend,
            tiles,
            stages,
            store,
            ..
        } = self;
        let (drawing, footprint) = tiles.into_stages();
        let (rows, row_bins) = store.into_stage();
        // The device frees dropped buffers once it has been polled.
        device.wait()?;
        Ok(Pipelines {
            device,
            taps,
            blend,
            rows,
            drawing,
            footprint,
            row_bins,
            stages,
            preallocated: None,
        })
    }

    fn reserve(&self) -> u64 {
        reserve(self.planes.count) + self.store.block_bytes()
    }

    pub(super) fn held(&self) -> RowsHeld {
        self.store.held()
    }

    /// Memory for rows before the first view, in a window of `texels` texels.
    pub(super) fn row_memory(&self, texels: usize) -> RowMemory {
        let (size, count) = (self.planes.size, self.planes.count as usize);
        let own = Planes::<()>::bytes(size, count) + self.tiles.bytes();
        let others = self.budget.in_use() - own;
        row_memory(
            &self.budget,
            self.tiles.bounds,
            size,
            texels,
            others + self.store.block_bytes(),
        )
    }

    pub(super) fn overflows(&self) -> bool {
        self.store.streamed()
    }

    /// Prepares the rows for passes, once views have been added.
    pub(super) fn complete(&mut self) -> Result<(), GpuError> {
        let reserve = self.reserve();
        let count = Visit::new(&self.stages.average, "count", &self.groups.average);
        let on = OnDevice::new(&self.device, &self.budget);
        self.store.complete(on, &self.tiles, count, reserve)
    }

    pub(super) fn read_texels(&mut self) -> Result<Vec<[f32; 4]>, GpuError> {
        let (count, staging) = (self.planes.count as usize, self.staging()?);
        let [r, g, b] = &self.planes.x;
        let planes = [r, g, b, &self.planes.weight];
        let texels = read_planes(&self.device, &staging, planes, count)?;
        self.staging = Some(staging);
        Ok(texels)
    }

    /// Takes the buffers to read texels through, or makes them while the device still works; the caller puts them back.
    fn staging(&mut self) -> Result<Staging, GpuError> {
        match self.staging.take() {
            Some(staging) => Ok(staging),
            None => Staging::made(&self.on(), 4, self.planes.room as usize * 4),
        }
    }

    pub(super) fn read_weights(&mut self) -> Result<Vec<f32>, GpuError> {
        let (count, staging) = (self.planes.count as usize, self.staging()?);
        let weights = read_through(&self.device, &staging, &self.planes.weight, count)?;
        self.staging = Some(staging);
        Ok(weights)
    }

    pub(super) fn write_texels(&mut self, texels: &[[f32; 4]]) -> Result<(), GpuError> {
        self.known.residuals = false;
        let [r, g, b] = &self.planes.x;
        write_planes(&self.device, [r, g, b, &self.planes.weight], texels)
    }

    /// Replaces the links between texels and the seam constraints.
    fn set_links(&mut self, ties: &Ties) -> Result<(), GpuError> {
        let mut links = ties.links.clone();
        links.resize(self.planes.count as usize, 0);
        write(&self.device, &self.planes.links, &links);
        let on = OnDevice::new(&self.device, &self.budget);
        self.store.set_seams(on, &ties.seams)
    }

    /// Makes the per-view buffers once all views are added.
    fn view_sums(&mut self) -> Result<(), GpuError> {
        self.complete()?;
        if self.view_sums.is_some() {
            return Ok(());
        }
        let views = self.views.len().max(1);
        let [judged, sums] = view_buffers(&self.on(), views)?;
        let mut none = self.store.judged(|_| [0.0; 2]);
        none.resize(views, Judged::default());
        write(&self.device, &judged, &none);
        let group = |x: &Colour| {
            let buffers = [&x[0], &x[1], &x[2], &judged, &sums];
            let layout = &self.stages.residual.layout;
            bind_buffers(&self.device, "residual", layout, &buffers)
        };
        let now = group(&self.planes.x);
        let then = if self.store.streamed() {
            let x = colour_planes(&self.on(), WEIGHED, self.planes.count)?;
            Some((group(&x), x))
        } else {
            None
        };
        self.view_sums = Some(ViewSums {
            judged,
            sums,
            now,
            then,
        });
        Ok(())
    }
}
