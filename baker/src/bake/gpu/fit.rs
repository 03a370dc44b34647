//! The device's side of the fit: what [`Backend`](crate::bake::backend::Backend) asks for, as passes over rows and texels.

use std::sync::Arc;

use proto::job::Blend;
use proto::table::{Surface, View};
use rayon::prelude::*;

use super::chunks::{Batch, Chunks, Visit, Which, rows_layout};
use super::device::{Device, GpuError};
use super::layout::texel_groups;
use super::memory::{Budget, Buffer, STORAGE, buffer, buffer_with, read_as, write};
use super::planes::{Colour, Planes, clear};
use super::pyramid::pull_push;
use super::stage::{
    AVERAGE, Compiled, ENCODE, NORMAL, PULL_PUSH, REGULARISE, RESIDUAL, SOLVE, Shader, bind,
};
use super::tiles::Tiles;
use crate::bake::backend::{BINS, Strength, Ties, ViewResiduals};
use crate::bake::colour::observed;
use crate::bake::scene::Scene;

/// Words of [`ViewResiduals`] on the device.
const SUMS: usize = BINS + 4;

/// How a job uses the device.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// s of s×s taps a pixel.
    pub taps: u32,
    /// Space of the footprint's average.
    pub blend: Blend,
    /// Bytes of device memory that the job may use. Rows beyond it are drawn again for every pass.
    pub vram_budget: u64,
    /// Bytes of one binding where that is to be less than the adapter's own bound: for tests of splitting.
    pub binding_limit: Option<u64>,
}

/// Memory for a job where nobody says how much: what its texture needs, and 2 GiB for rows, which hold forty views of 512² four
/// times over. wgpu does not tell what an adapter has left.
#[must_use]
pub fn default_budget(texture_size: u32) -> u64 {
    // 24 planes, five for what passes need for a while, and scratch.
    29 * u64::from(texture_size).pow(2) * 4 + (2 << 30) + (256 << 20)
}

#[derive(Debug)]
struct Stages {
    average: Compiled,
    residual: Compiled,
    normal: Compiled,
    regularise: Compiled,
    solve: Compiled,
    pull_push: Compiled,
    encode: Compiled,
}

/// Bind groups that live as long as the planes.
#[derive(Debug)]
struct Groups {
    average: wgpu::BindGroup,
    tie: wgpu::BindGroup,
    bound: wgpu::BindGroup,
    diagonal: wgpu::BindGroup,
    defect: wgpu::BindGroup,
    apply: wgpu::BindGroup,
    regularise: [wgpu::BindGroup; 3],
    solve: [wgpu::BindGroup; 3],
}

/// Per-view numbers and the texels they were made from.
#[derive(Debug)]
struct ViewSums {
    scales: Buffer,
    sums: Buffer,
    /// Residuals of the texels as they are.
    now: wgpu::BindGroup,
    /// Residuals of the texels of the last reweighting: for rows that are drawn again.
    then: Option<(wgpu::BindGroup, Colour)>,
}

/// One job on one device.
#[derive(Debug)]
pub(super) struct Fit {
    pub(super) device: Device,
    pub(super) budget: Arc<Budget>,
    scene: Scene,
    tiles: Tiles,
    stages: Stages,
    planes: Planes,
    groups: Groups,
    pub(super) chunks: Chunks,
    /// Index of each view, in the order in which they came.
    views: Vec<u32>,
    view_sums: Option<ViewSums>,
    weighed: bool,
}

impl Fit {
    pub(super) fn new(
        device: Device,
        scene: Scene,
        ties: &Ties,
        surface: Option<&Surface>,
        options: &Options,
    ) -> Result<Self, GpuError> {
        let adapters = device.limits.max_storage_buffer_binding_size;
        let binding = options
            .binding_limit
            .map_or(adapters, |limit| limit.min(adapters));
        let budget = Budget::new(options.vram_budget, binding);
        let layout = rows_layout(&device);
        let compile =
            |shader: &'static Shader| shader.compile(&device, &layout, options.taps, options.blend);
        let tiles = Tiles::new(&device, &budget, &compile, &scene, surface, options.taps)?;
        let stages = Stages {
            average: compile(&AVERAGE)?,
            residual: compile(&RESIDUAL)?,
            normal: compile(&NORMAL)?,
            regularise: compile(&REGULARISE)?,
            solve: compile(&SOLVE)?,
            pull_push: compile(&PULL_PUSH)?,
            encode: compile(&ENCODE)?,
        };
        let planes = Planes::new(&device, &budget, scene.size)?;
        let normal = |v, out| planes.normal_group(&device, &stages.normal, v, out);
        let groups = Groups {
            average: planes.average_group(&device, &stages.average),
            tie: normal(&planes.lambda, &planes.q),
            bound: normal(&planes.x, &planes.q),
            diagonal: normal(&planes.x, &planes.diagonal),
            defect: normal(&planes.x, &planes.r),
            apply: normal(&planes.p, &planes.q),
            regularise: planes.channel_groups(&device, &stages.regularise),
            solve: planes.channel_groups(&device, &stages.solve),
        };
        let table = observed(options.blend);
        let tones = std::array::from_fn(|byte| [table[byte].value, table[byte].slope_squared]);
        let chunks = Chunks::new(&device, &budget, layout, &tones)?;
        device.check()?;
        let mut fit = Self {
            device,
            budget,
            scene,
            tiles,
            stages,
            planes,
            groups,
            chunks,
            views: Vec::new(),
            view_sums: None,
            weighed: false,
        };
        fit.set_ties(ties)?;
        let (reserve, left) = (fit.reserve(), fit.budget.left());
        if reserve > left {
            let why = format!(
                "{left} bytes are left of a budget of {}",
                options.vram_budget
            );
            return Err(GpuError::OutOfMemory {
                what: "the passes over the texels".to_owned(),
                bytes: reserve,
                why,
            });
        }
        Ok(fit)
    }

    /// Memory that passes still need once all views are in: the texels of the last reweighting (three planes) or the
    /// pyramid (less), read-back (up to one), and per-view numbers.
    fn reserve(&self) -> u64 {
        let plane = u64::from(self.planes.count) * 4;
        5 * plane + (4 << 20)
    }

    pub(super) fn add_view(&mut self, view: &View) -> Result<u64, GpuError> {
        self.chunks.add_view(&self.device, &self.budget, view)?;
        let camera = self.scene.camera(&view.camera);
        let reserve = self.reserve();
        let mut rows = 0;
        for work in self.tiles.cut(view, &camera) {
            let count = Visit {
                stage: &self.stages.average,
                entry: "count",
                own: &self.groups.average,
            };
            let added = self.chunks.add(
                &self.device,
                &self.budget,
                &self.tiles,
                view,
                work,
                count,
                reserve,
            )?;
            rows += u64::from(added);
        }
        self.views.push(view.index);
        self.view_sums = None;
        self.weighed = false;
        self.device.check()?;
        Ok(rows)
    }

    /// Records one dispatch for each channel over all texels.
    fn texels(
        &self,
        batch: &mut Batch<'_>,
        stage: &Compiled,
        groups: &[wgpu::BindGroup; 3],
        entries: &[&'static str],
    ) -> Result<(), GpuError> {
        for own in groups {
            for &entry in entries {
                // A reduction is the work of one group.
                let count = if entry.starts_with("reduce") {
                    1
                } else {
                    texel_groups(self.planes.count)
                };
                stage.dispatch(batch.encoder(), entry, own, None, [count, 1])?;
            }
        }
        Ok(())
    }

    pub(super) fn average(&mut self) -> Result<(), GpuError> {
        let mut batch = Batch::new(&self.device, "average");
        clear(batch.encoder(), &self.planes.r);
        clear(batch.encoder(), &self.planes.q);
        let stage = &self.stages.average;
        let scatter = Visit {
            stage,
            entry: "scatter",
            own: &self.groups.average,
        };
        self.chunks
            .visit(&mut batch, &self.tiles, &[scatter], Which::Pixels, None)?;
        let groups = [texel_groups(self.planes.count), 1];
        stage.dispatch(batch.encoder(), "mean", &self.groups.average, None, groups)?;
        batch.send()?;
        self.device.wait()
    }

    pub(super) fn read_texels(&mut self) -> Result<Vec<[f32; 4]>, GpuError> {
        let count = self.planes.count as usize;
        let mut texels = vec![[0.0; 4]; count];
        let planes = self
            .planes
            .x
            .iter()
            .chain(std::iter::once(&self.planes.weight));
        for (channel, plane) in planes.enumerate() {
            let values: Vec<f32> = read_as(&self.device, &self.budget, plane, count)?;
            texels
                .par_iter_mut()
                .zip(values)
                .for_each(|(texel, value)| texel[channel] = value);
        }
        self.chunks.verify(&self.device, &self.budget)?;
        Ok(texels)
    }

    pub(super) fn write_texels(&mut self, texels: &[[f32; 4]]) -> Result<(), GpuError> {
        let planes = self
            .planes
            .x
            .iter()
            .chain(std::iter::once(&self.planes.weight));
        for (channel, plane) in planes.enumerate() {
            let values: Vec<f32> = texels.par_iter().map(|texel| texel[channel]).collect();
            write(&self.device, plane, &values);
            // Sends the queue's copies on their way before the next plane's are made.
            self.device
                .submit("write texels", self.device.encoder("write texels"))?;
        }
        self.device.check()
    }

    fn set_ties(&mut self, ties: &Ties) -> Result<(), GpuError> {
        let mut links = ties.links.clone();
        links.resize(self.planes.count as usize, 0);
        write(&self.device, &self.planes.links, &links);
        let count = Visit {
            stage: &self.stages.average,
            entry: "count",
            own: &self.groups.average,
        };
        self.chunks
            .add_seams(&self.device, &self.budget, &ties.seams, count)
    }

    /// Makes the per-view buffers once all views are in.
    fn view_sums(&mut self) -> Result<(), GpuError> {
        if self.view_sums.is_some() {
            return Ok(());
        }
        let views = self.views.len().max(1);
        let scales = buffer_with(
            &self.device,
            &self.budget,
            "scales",
            &vec![0.0f32; views],
            STORAGE,
        )?;
        let sums = buffer(
            &self.device,
            &self.budget,
            "sums",
            (views * SUMS * 4) as u64,
            STORAGE,
        )?;
        let group = |x: &Colour| {
            let buffers = [&x[0], &x[1], &x[2], &scales, &sums];
            let resources = buffers.map(|buffer| buffer.item.as_entire_binding());
            bind(
                &self.device,
                "residual",
                &self.stages.residual.layout,
                &resources,
            )
        };
        let now = group(&self.planes.x);
        let then = if self.chunks.streamed() {
            let x = self
                .planes
                .another(&self.device, &self.budget, "weighed x")?;
            Some((group(&x), x))
        } else {
            None
        };
        self.view_sums = Some(ViewSums {
            scales,
            sums,
            now,
            then,
        });
        Ok(())
    }

    pub(super) fn residuals(&mut self) -> Result<Vec<ViewResiduals>, GpuError> {
        self.view_sums()?;
        let Some(views) = &self.view_sums else {
            return Ok(Vec::new());
        };
        let mut batch = Batch::new(&self.device, "residual");
        batch.encoder().clear_buffer(&views.sums.item, 0, None);
        let visit = Visit {
            stage: &self.stages.residual,
            entry: "residual",
            own: &views.now,
        };
        self.chunks
            .visit(&mut batch, &self.tiles, &[visit], Which::Pixels, None)?;
        batch.send()?;
        let sums: Vec<u32> = read_as(
            &self.device,
            &self.budget,
            &views.sums,
            self.views.len() * SUMS,
        )?;
        self.chunks.verify(&self.device, &self.budget)?;
        let of_view = |(&view, sums): (&u32, &[u32])| {
            let mut histogram = [0; BINS];
            histogram.copy_from_slice(&sums[..BINS]);
            let whole = (u64::from(sums[BINS + 1]) << 32) | u64::from(sums[BINS]);
            ViewResiduals {
                view,
                rows: u64::from(sums[BINS + 2]),
                histogram,
                sum_squares: whole as f64 / f64::from(1u32 << 30),
            }
        };
        Ok(self
            .views
            .iter()
            .zip(sums.chunks_exact(SUMS))
            .map(of_view)
            .collect())
    }

    pub(super) fn reweight(&mut self, scales: &[f32], strength: Strength) -> Result<(), GpuError> {
        self.view_sums()?;
        let Some(views) = &self.view_sums else {
            return Ok(());
        };
        // The shader multiplies: 1/c², 0 for an infinite scale, and −1 takes a view out.
        let factor = |scale: &f32| {
            if *scale > 0.0 {
                (scale * scale).recip()
            } else {
                -1.0
            }
        };
        let factors: Vec<f32> = (0..self.views.len())
            .map(|view| scales.get(view).map_or(-1.0, factor))
            .collect();
        write(&self.device, &views.scales, &factors);
        let smoothness = strength.smoothness.max(f32::MIN_POSITIVE);
        self.planes
            .set_strength(&self.device, smoothness, strength.seam / smoothness);
        let planes = &self.planes;
        let mut batch = Batch::new(&self.device, "reweigh");
        clear(batch.encoder(), &planes.q);
        clear(batch.encoder(), &planes.diagonal);
        batch.encoder().clear_buffer(&planes.trusted.item, 0, None);
        self.chunks.clear_blocks(batch.encoder());
        if let Some((_, then)) = &views.then {
            for (from, to) in planes.x.iter().zip(then) {
                batch
                    .encoder()
                    .copy_buffer_to_buffer(&from.item, 0, &to.item, 0, None);
            }
        }
        let residual = |entry| Visit {
            stage: &self.stages.residual,
            entry,
            own: &views.now,
        };
        let normal = |entry, own| Visit {
            stage: &self.stages.normal,
            entry,
            own,
        };
        let bound = normal("bound", &self.groups.bound);
        self.chunks.visit(
            &mut batch,
            &self.tiles,
            &[residual("survey")],
            Which::Pixels,
            None,
        )?;
        self.chunks.visit(
            &mut batch,
            &self.tiles,
            &[residual("reweigh"), bound],
            Which::Pixels,
            None,
        )?;
        let (regularise, own) = (&self.stages.regularise, &self.groups.regularise);
        self.texels(
            &mut batch,
            regularise,
            own,
            &["observe", "reduce_observe", "soften"],
        )?;
        let tie = normal("tie", &self.groups.tie);
        self.chunks
            .visit(&mut batch, &self.tiles, &[tie, bound], Which::Seams, None)?;
        self.texels(&mut batch, regularise, own, &["scale"])?;
        let diagonal = normal("diagonal", &self.groups.diagonal);
        self.chunks.visit(
            &mut batch,
            &self.tiles,
            &[diagonal],
            Which::All,
            self.again(),
        )?;
        self.texels(&mut batch, regularise, own, &["settle"])?;
        batch.send()?;
        self.weighed = true;
        self.device.wait()
    }

    /// Restores the weights of rows that are drawn again.
    fn again(&self) -> Option<Visit<'_>> {
        let (own, _) = self.view_sums.as_ref()?.then.as_ref()?;
        Some(Visit {
            stage: &self.stages.residual,
            entry: "reweigh",
            own,
        })
    }

    pub(super) fn solve(&mut self, iterations: u32) -> Result<(), GpuError> {
        if !self.weighed {
            let label = "solve before reweight".to_owned();
            return Err(GpuError::Refused {
                label,
                text: "no row has a weight".to_owned(),
            });
        }
        let (solve, own) = (&self.stages.solve, &self.groups.solve);
        let mut batch = Batch::new(&self.device, "solve");
        clear(batch.encoder(), &self.planes.r);
        clear(batch.encoder(), &self.planes.q);
        self.texels(&mut batch, solve, own, &["measure", "reduce_measure"])?;
        let defect = Visit {
            stage: &self.stages.normal,
            entry: "defect",
            own: &self.groups.defect,
        };
        self.chunks
            .visit(&mut batch, &self.tiles, &[defect], Which::All, self.again())?;
        self.texels(&mut batch, solve, own, &["begin", "reduce_begin"])?;
        let apply = Visit {
            stage: &self.stages.normal,
            entry: "apply",
            own: &self.groups.apply,
        };
        for _ in 0..iterations {
            self.chunks
                .visit(&mut batch, &self.tiles, &[apply], Which::All, self.again())?;
            let steps = [
                "finish_apply",
                "reduce_apply",
                "advance",
                "reduce_advance",
                "direct",
                "reduce_direct",
            ];
            self.texels(&mut batch, solve, own, &steps)?;
            batch.send()?;
        }
        batch.send()?;
        self.device.wait()
    }

    pub(super) fn pull_push(&mut self) -> Result<(), GpuError> {
        pull_push(
            &self.device,
            &self.budget,
            &self.stages.pull_push,
            &self.planes,
            self.scene.size,
        )
    }

    pub(super) fn encode(&mut self) -> Result<Vec<[u8; 4]>, GpuError> {
        let stage = &self.stages.encode;
        let bytes = &self.planes.q[0];
        let [x_r, x_g, x_b] = &self.planes.x;
        let resources = [&self.planes.texels[0], x_r, x_g, x_b, bytes]
            .map(|buffer| buffer.item.as_entire_binding());
        let own = bind(&self.device, "encode", &stage.layout, &resources);
        let mut batch = Batch::new(&self.device, "encode");
        stage.dispatch(
            batch.encoder(),
            "encode",
            &own,
            None,
            [texel_groups(self.planes.count), 1],
        )?;
        batch.send()?;
        let texels = read_as(
            &self.device,
            &self.budget,
            bytes,
            self.planes.count as usize,
        )?;
        self.chunks.verify(&self.device, &self.budget)?;
        Ok(texels)
    }

    /// Rows of the last tile that was drawn, with their places: for tests.
    #[cfg(test)]
    pub(super) fn scratch_rows(&self, view: &View) -> Result<crate::bake::rows::Rows, GpuError> {
        use crate::bake::rows::{Entry, Rows};
        let camera = self.scene.camera(&view.camera);
        let mut rows = Rows {
            view: view.index,
            starts: vec![0],
            ..Rows::default()
        };
        for work in self.tiles.cut(view, &camera) {
            self.tiles.build(&self.device, &work)?;
            let scratch = &self.tiles.scratch;
            let counted: Vec<u32> = read_as(&self.device, &self.budget, &scratch.counters, 2)?;
            let (count, entries) = (counted[0] as usize, counted[1] as usize);
            let spans: Vec<u32> = read_as(&self.device, &self.budget, &scratch.spans, count)?;
            let all: Vec<Entry> = read_as(&self.device, &self.budget, &scratch.entries, entries)?;
            rows.colours.extend(read_as::<[u8; 4]>(
                &self.device,
                &self.budget,
                &scratch.colours,
                count,
            )?);
            rows.pixels.extend(read_as::<u32>(
                &self.device,
                &self.budget,
                &scratch.places,
                count,
            )?);
            for span in spans {
                let start = (span >> 8) as usize;
                rows.entries
                    .extend_from_slice(&all[start..start + (span & 255) as usize]);
                rows.starts.push(rows.entries.len() as u32);
            }
        }
        Ok(rows)
    }
}
