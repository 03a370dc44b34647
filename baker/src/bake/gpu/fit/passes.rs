//! Average, residuals, reweighting and solution, as sequences of passes over rows and texels.

use super::{Fit, Known, SUMS};
use crate::bake::backend::{BINS, Belief, Strength, ViewResiduals};
use crate::bake::gpu::batch::Batch;

use crate::bake::gpu::device::GpuError;
use crate::bake::gpu::layout::texel_groups;
use crate::bake::gpu::memory::{read_as, write};
use crate::bake::gpu::planes::clear;
use crate::bake::gpu::row_store::{Visit, Which};
use crate::bake::gpu::stage::Compiled;

impl Fit {
    fn texels(
        &self,
        batch: &mut Batch<'_>,
        stage: &Compiled,
        own: &wgpu::BindGroup,
        entries: &[&'static str],
    ) -> Result<(), GpuError> {
        let count = texel_groups(self.planes.count);
        for &entry in entries {
            // Stages that end a reduction have one workgroup for each channel.
            let groups = if entry.starts_with("reduce") {
                3
            } else {
                count
            };
            stage.dispatch(batch, entry, own, [groups, 1], groups)?;
        }
        Ok(())
    }

    pub(in crate::bake::gpu) fn average(&mut self) -> Result<(), GpuError> {
        self.complete()?;
        self.known.residuals = false;
        let mut batch = Batch::new(&self.device, "average");
        clear(batch.encoder(), &self.planes.r);
        clear(batch.encoder(), &self.planes.q);
        let stage = &self.stages.average;
        let scatter = Visit {
            stage,
            entry: "scatter",
            own: &self.groups.average,
        };
        self.pools
            .visit(&mut batch, &self.tiles, &[scatter], Which::Pixels, None)?;
        let groups = texel_groups(self.planes.count);
        stage.dispatch(
            &mut batch,
            "mean",
            &self.groups.average,
            [groups, 1],
            groups,
        )?;
        batch.send()?;
        self.device.keep_pace()
    }

    pub(in crate::bake::gpu) fn deviations(&mut self) -> Result<Vec<f32>, GpuError> {
        self.complete()?;
        let Some(stage) = &self.stages.deviation else {
            let label = "deviations of a job without maps".to_owned();
            return Err(GpuError::Refused {
                label,
                text: "no stage was made for them".to_owned(),
            });
        };
        let own = self.planes.deviation_group(&self.device, stage);
        let mut batch = Batch::new(&self.device, "deviation");
        clear(batch.encoder(), &self.planes.r[..2]);
        let deviate = Visit {
            stage,
            entry: "deviate",
            own: &own,
        };
        self.pools
            .visit(&mut batch, &self.tiles, &[deviate], Which::Pixels, None)?;
        let groups = texel_groups(self.planes.count);
        stage.dispatch(&mut batch, "mean_deviation", &own, [groups, 1], groups)?;
        batch.send()?;
        let count = self.planes.count as usize;
        read_as(&self.device, &self.budget, &self.planes.q[0], count)
    }

    pub(in crate::bake::gpu) fn residuals(&mut self) -> Result<Vec<ViewResiduals>, GpuError> {
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
        self.pools
            .visit(&mut batch, &self.tiles, &[visit], Which::Pixels, None)?;
        batch.send()?;
        // Residuals replace the rows' weights.
        self.known = Known {
            residuals: true,
            weights: false,
        };
        let sums: Vec<u32> = read_as(
            &self.device,
            &self.budget,
            &views.sums,
            self.views.len() * SUMS,
        )?;
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

    pub(in crate::bake::gpu) fn reweight(
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
        let judged = (self.pools).judged(|view| beliefs.get(view).map_or([-1.0, 0.0], factors));
        write(&self.device, &views.judged, &judged);
        let smoothness = strength.smoothness.max(f32::MIN_POSITIVE);
        self.planes.set_strength(
            &self.device,
            smoothness,
            strength.seam / smoothness,
            self.pools.narrowed,
        );
        let planes = &self.planes;
        let mut batch = Batch::new(&self.device, "reweigh");
        clear(batch.encoder(), &planes.q);
        clear(batch.encoder(), &planes.diagonal);
        batch.encoder().clear_buffer(&planes.trusted.item, 0, None);
        self.pools.clear_blocks(batch.encoder());
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
        let of_held = match self.known.residuals {
            true => "survey_kept",
            false => "survey",
        };
        for (entry, which) in [(of_held, Which::Held), ("survey", Which::Streamed)] {
            let visits = [residual(entry)];
            (self.pools).visit(&mut batch, &self.tiles, &visits, which, None)?;
        }
        let weighed = [residual("reweigh"), bound];
        self.pools
            .visit(&mut batch, &self.tiles, &weighed, Which::Held, None)?;
        self.pools.visit(
            &mut batch,
            &self.tiles,
            &[bound],
            Which::Streamed,
            self.again(),
        )?;
        let (regularise, own) = (&self.stages.regularise, &self.groups.regularise);
        self.texels(
            &mut batch,
            regularise,
            own,
            &["observe", "reduce_observe", "soften"],
        )?;
        let tie = normal("tie", &self.groups.tie);
        self.pools
            .visit(&mut batch, &self.tiles, &[tie, bound], Which::Seams, None)?;
        self.texels(&mut batch, regularise, own, &["scale"])?;
        let diagonal = normal("diagonal", &self.groups.diagonal);
        self.pools.visit(
            &mut batch,
            &self.tiles,
            &[diagonal],
            Which::All,
            self.again(),
        )?;
        self.texels(&mut batch, regularise, own, &["settle", "enlist"])?;
        // Search directions of the last solution.
        clear(batch.encoder(), &planes.p);
        self.texels(
            &mut batch,
            &self.stages.multilevel,
            &self.groups.multilevel,
            &["weigh_texels", "weigh_1", "weigh_2", "weigh_3", "invert"],
        )?;
        batch.send()?;
        self.known = Known {
            residuals: false,
            weights: true,
        };
        self.device.keep_pace()
    }

    /// The visit that restores the weights of redrawn rows.
    fn again(&self) -> Option<Visit<'_>> {
        let (own, _) = self.view_sums.as_ref()?.then.as_ref()?;
        Some(Visit {
            stage: &self.stages.residual,
            entry: "reweigh_again",
            own,
        })
    }

    pub(in crate::bake::gpu) fn narrow(&mut self, subset: bool) -> Result<(), GpuError> {
        self.complete()?;
        self.pools.narrowed = subset;
        self.known = Known::default();
        Ok(())
    }

    /// Records the coarse corrections of the current residuals.
    fn correct(&self, batch: &mut Batch<'_>) -> Result<(), GpuError> {
        self.texels(
            batch,
            &self.stages.multilevel,
            &self.groups.multilevel,
            &[
                "restrict_1",
                "restrict_2",
                "restrict_3",
                "prolong_2",
                "prolong_1",
            ],
        )
    }

    pub(in crate::bake::gpu) fn solve(&mut self, iterations: u32) -> Result<(), GpuError> {
        if !self.known.weights {
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
        self.pools
            .visit(&mut batch, &self.tiles, &[defect], Which::All, self.again())?;
        self.texels(&mut batch, solve, own, &["begin"])?;
        self.correct(&mut batch)?;
        self.texels(&mut batch, solve, own, &["set_out", "reduce_set_out"])?;
        let apply = Visit {
            stage: &self.stages.normal,
            entry: "apply",
            own: &self.groups.apply,
        };
        for _ in 0..iterations {
            self.pools
                .visit(&mut batch, &self.tiles, &[apply], Which::All, self.again())?;
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
