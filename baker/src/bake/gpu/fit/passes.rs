//! Average, residuals, reweighting and solution, as sequences of passes over rows and texels.

use super::{Fit, RowState, SUMS, ViewSums};
use crate::bake::gpu::batch::Batch;
use crate::bake::gpu::device::GpuError;
use crate::bake::gpu::layout::texel_groups;
use crate::bake::gpu::memory::{read_as, write};
use crate::bake::gpu::planes::clear;
use crate::bake::gpu::row_store::{Visit, Which};
use crate::bake::gpu::stage::Compiled;
use crate::bake::solve::backend::{BINS, Belief, Strength, ViewResiduals};

impl Fit {
    fn texels(
        &self,
        batch: &mut Batch<'_>,
        stage: &Compiled,
        own: &wgpu::BindGroup,
        entries: &[&'static str],
    ) -> Result<(), GpuError> {
        for &entry in entries {
            // Stages that end a reduction have one workgroup for each channel.
            let groups = match entry.starts_with("reduce") {
                true => 3,
                false => texel_groups(self.planes.count),
            };
            stage.dispatch_line(batch, entry, own, groups)?;
        }
        Ok(())
    }

    fn regularise(&self, batch: &mut Batch<'_>, entries: &[&'static str]) -> Result<(), GpuError> {
        let (stage, own) = (&self.stages.regularise, &self.groups.regularise);
        self.texels(batch, stage, own, entries)
    }

    fn multilevel(&self, batch: &mut Batch<'_>, entries: &[&'static str]) -> Result<(), GpuError> {
        let (stage, own) = (&self.stages.multilevel, &self.groups.multilevel);
        self.texels(batch, stage, own, entries)
    }

    fn normal<'a>(&'a self, entry: &'static str, own: &'a wgpu::BindGroup) -> Visit<'a> {
        Visit::new(&self.stages.normal, entry, own)
    }

    fn residual<'a>(&'a self, entry: &'static str, own: &'a wgpu::BindGroup) -> Visit<'a> {
        Visit::new(&self.stages.residual, entry, own)
    }

    /// Visits rows whatever their weights.
    fn rows(&self, batch: &mut Batch<'_>, visit: Visit<'_>, which: Which) -> Result<(), GpuError> {
        (self.store).visit(batch, &self.tiles, &[visit], which, None)
    }

    /// Visits rows that have weights; redrawn rows get theirs again first.
    fn weighed_rows(
        &self,
        batch: &mut Batch<'_>,
        visits: &[Visit<'_>],
        which: Which,
    ) -> Result<(), GpuError> {
        let then = self.view_sums.as_ref().and_then(|sums| sums.then.as_ref());
        let restore = then.map(|(own, _)| self.residual("reweigh_redrawn", own));
        (self.store).visit(batch, &self.tiles, visits, which, restore)
    }

    pub(crate) fn average(&mut self) -> Result<(), GpuError> {
        self.complete()?;
        self.known.residuals = false;
        let mut batch = Batch::new(&self.device, "average");
        clear(batch.encoder(), &self.planes.r);
        clear(batch.encoder(), &self.planes.q);
        let (stage, own) = (&self.stages.average, &self.groups.average);
        let scatter = Visit::new(stage, "scatter", own);
        self.rows(&mut batch, scatter, Which::Pixels)?;
        self.texels(&mut batch, stage, own, &["mean"])?;
        batch.send()?;
        self.device.keep_pace()
    }

    pub(crate) fn deviations(&mut self) -> Result<Vec<f32>, GpuError> {
        self.complete()?;
        let Some(stage) = &self.stages.deviation else {
            let label = "deviations of a job without maps";
            return Err(GpuError::refused(label, "no stage was made for them"));
        };
        let own = self.planes.deviation_group(&self.device, stage);
        let mut batch = Batch::new(&self.device, "deviation");
        clear(batch.encoder(), &self.planes.r[..2]);
        let deviate = Visit::new(stage, "deviate", &own);
        self.rows(&mut batch, deviate, Which::Pixels)?;
        self.texels(&mut batch, stage, &own, &["mean_deviation"])?;
        batch.send()?;
        read_as(self.on(), &self.planes.q[0], self.planes.count as usize)
    }

    pub(crate) fn residuals(&mut self) -> Result<Vec<ViewResiduals>, GpuError> {
        self.view_sums()?;
        let Some(views) = &self.view_sums else {
            return Ok(Vec::new());
        };
        let mut batch = Batch::new(&self.device, "residual");
        batch.encoder().clear_buffer(&views.sums.item, 0, None);
        let residual = self.residual("residual", &views.now);
        self.rows(&mut batch, residual, Which::Pixels)?;
        batch.send()?;
        // Residuals replace the rows' weights.
        self.known = RowState {
            residuals: true,
            weights: false,
        };
        let sums: Vec<u32> = read_as(self.on(), &views.sums, self.views.len() * SUMS)?;
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
        let sums = self.views.iter().zip(sums.chunks_exact(SUMS));
        Ok(sums.map(of_view).collect())
    }

    pub(crate) fn reweight(
        &mut self,
        beliefs: &[Belief],
        strength: Strength,
    ) -> Result<(), GpuError> {
        self.view_sums()?;
        let Some(views) = &self.view_sums else {
            return Ok(());
        };
        // The shader multiplies: 1/c², 0 for an infinite scale, −1 to exclude a view.
        let factors = |belief: &Belief| match belief.scale {
            scale if scale > 0.0 => [(scale * scale).recip(), belief.share],
            _ => [-1.0, 0.0],
        };
        let judged = (self.store).judged(|view| beliefs.get(view).map_or([-1.0, 0.0], factors));
        write(&self.device, &views.judged, &judged);
        let smoothness = strength.smoothness.max(f32::MIN_POSITIVE);
        let (seam, narrowed) = (strength.seam / smoothness, self.store.narrowed);
        (self.planes).set_strength(&self.device, smoothness, seam, narrowed);
        let mut batch = Batch::new(&self.device, "reweigh");
        self.weigh(&mut batch, views)?;
        self.build_diagonal(&mut batch)?;
        batch.send()?;
        self.known = RowState {
            residuals: false,
            weights: true,
        };
        self.device.keep_pace()
    }

    /// Records new weights of all pixels' rows, and the bounds of their sums.
    fn weigh(&self, batch: &mut Batch<'_>, views: &ViewSums) -> Result<(), GpuError> {
        let planes = &self.planes;
        clear(batch.encoder(), &planes.q);
        clear(batch.encoder(), &planes.diagonal);
        batch.encoder().clear_buffer(&planes.trusted.item, 0, None);
        self.store.clear_blocks(batch.encoder());
        if let Some((_, then)) = &views.then {
            for (from, to) in planes.x.iter().zip(then) {
                (batch.encoder()).copy_buffer_to_buffer(&from.item, 0, &to.item, 0, None);
            }
        }
        let of_held = match self.known.residuals {
            true => "survey_kept",
            false => "survey",
        };
        for (entry, which) in [(of_held, Which::Held), ("survey", Which::Streamed)] {
            self.rows(batch, self.residual(entry, &views.now), which)?;
        }
        let reweigh = self.residual("reweigh", &views.now);
        let bound = self.normal("bound", &self.groups.bound);
        self.weighed_rows(batch, &[reweigh, bound], Which::Held)?;
        self.weighed_rows(batch, &[bound], Which::Streamed)
    }

    /// Records λ, the weights of seam constraints, the diagonal and the coarse levels.
    fn build_diagonal(&self, batch: &mut Batch<'_>) -> Result<(), GpuError> {
        self.regularise(batch, &["observe", "reduce_observe", "soften"])?;
        let weigh = self.normal("weigh_seams", &self.groups.seams);
        let bound = self.normal("bound", &self.groups.bound);
        self.weighed_rows(batch, &[weigh, bound], Which::Seams)?;
        self.regularise(batch, &["scale"])?;
        let diagonal = self.normal("diagonal", &self.groups.diagonal);
        self.weighed_rows(batch, &[diagonal], Which::All)?;
        self.regularise(batch, &["settle", "enlist"])?;
        // Search directions of the last solution.
        clear(batch.encoder(), &self.planes.p);
        let levels = ["weigh_texels", "weigh_1", "weigh_2", "weigh_3", "invert"];
        self.multilevel(batch, &levels)
    }

    pub(crate) fn narrow(&mut self, subset: bool) -> Result<(), GpuError> {
        self.complete()?;
        self.store.narrowed = subset;
        self.known = RowState::default();
        Ok(())
    }

    /// Records the coarse corrections of the current residuals.
    fn correct(&self, batch: &mut Batch<'_>) -> Result<(), GpuError> {
        self.multilevel(batch, &["restrict_1", "restrict_2", "restrict_3"])?;
        self.multilevel(batch, &["prolong_2", "prolong_1"])
    }

    pub(crate) fn solve(&mut self, iterations: u32) -> Result<(), GpuError> {
        if !self.known.weights {
            return Err(GpuError::refused(
                "solve before reweight",
                "no row has a weight",
            ));
        }
        let (solve, own) = (&self.stages.solve, &self.groups.solve);
        let mut batch = Batch::new(&self.device, "solve");
        clear(batch.encoder(), &self.planes.r);
        clear(batch.encoder(), &self.planes.q);
        self.texels(&mut batch, solve, own, &["measure", "reduce_measure"])?;
        let defect = self.normal("defect", &self.groups.defect);
        self.weighed_rows(&mut batch, &[defect], Which::All)?;
        self.texels(&mut batch, solve, own, &["begin"])?;
        self.correct(&mut batch)?;
        self.texels(&mut batch, solve, own, &["set_out", "reduce_set_out"])?;
        let apply = self.normal("apply", &self.groups.apply);
        for _ in 0..iterations {
            self.weighed_rows(&mut batch, &[apply], Which::All)?;
            let steps = ["finish_apply", "reduce_apply", "advance"];
            self.texels(&mut batch, solve, own, &steps)?;
            self.correct(&mut batch)?;
            let steps = ["project", "reduce_project", "direct", "reduce_direct"];
            self.texels(&mut batch, solve, own, &steps)?;
            batch.send()?;
        }
        batch.send()?;
        self.known.residuals = false;
        self.device.keep_pace()
    }
}
