//! Finishes a bake: fitted texels → the texture with its maps, pictures of what was rejected, and the report.
//!
//! | module | input → output |
//! |---|---|
//! | `summary` | fit, texture → the report |
//! | `seams` | texels → gutters that continue the charts, both sides of a seam alike at every mip level |
//! | `rejected` | views, fitted texels → pictures of what the fit rejected of each view |
//! | `gutter` | texels → 8 bits, and the provenance of each |
//! | `maps` | observed weights, residuals → coverage and deviation of each texel |

pub mod gutter;
pub(crate) mod maps;
pub(crate) mod rejected;
pub mod seams;
pub(crate) mod summary;

use std::time::Instant;

use proto::job::Blend;
use proto::message::{BakeSummary, DetailFigures, Failure, LayerFit, Phase};
use proto::plan::RowsHeld;
use proto::table::{Refined, Texture};

use super::error::failure;
use super::intake::Intake;
use crate::bake::finish::rejected::Drawn;
use crate::bake::finish::summary::{summary, unseen};
use crate::bake::intake::decimate::Decimation;
use crate::bake::solve::backend::Backend;
use crate::bake::solve::fit_context::{Fit, FitContext};
use crate::bake::solve::fit_texture::{FittedTexture, doubted};
use crate::worker::step_times;

/// A texture and its report.
#[derive(Clone, Debug)]
pub struct Baked {
    /// The texture.
    pub texture: Texture,
    /// PNG of what the fit rejected, with the view's index; empty unless the job asks for it.
    pub rejected: Vec<(u32, Vec<u8>)>,
    /// Cameras and exposures after refinement; none where all were taken as given.
    pub refined: Option<Refined>,
    /// Time at which the mesh arrived.
    pub came: Instant,
    /// The report.
    pub summary: BakeSummary,
}

/// A finished texture whose report lacks what the other channels add.
pub(super) struct Finished {
    texture: Texture,
    drawn: Vec<Drawn>,
    rows: RowsHeld,
    summary: BakeSummary,
}

impl Finished {
    /// Rounds the texels, and adds maps where the fit has deviations.
    pub(super) fn new(
        context: &FitContext<'_>,
        backend: &dyn Backend,
        fitted: FittedTexture,
        blend: Blend,
    ) -> Self {
        let FittedTexture {
            fit,
            seam_residual,
            drawn,
            ..
        } = fitted;
        let Fit {
            texels,
            observed,
            fitted,
            deviations,
            rows,
            ..
        } = fit;
        let (stages, progress) = (context.stages, context.stages.progress);
        if let Some(doubted) = doubted(&fitted) {
            progress.warning(&doubted);
        }
        let mut texture = stages.time(Phase::Gutter, || {
            gutter::finish(&texels, &observed, context.atlas, context.scene.size, blend)
        });
        drop(texels);
        if let Some(deviations) = deviations {
            progress.expect("the maps", context.step);
            let maps = stages.time(Phase::Gutter, || {
                maps::encode(&texture.provenance, &observed, &deviations)
            });
            texture.maps = Some(maps);
        }
        progress.progress(Phase::Gutter, 1, 1);
        let summary = summary(backend.adapter(), &fitted, &texture, seam_residual);
        if let Some(unseen) = unseen(summary.provenance) {
            progress.warning(&unseen);
        }
        Self {
            texture,
            drawn,
            rows,
            summary,
        }
    }

    /// Completes the report. The mesh came at `came`.
    ///
    /// # Errors
    /// The adapter's failure to read its clock.
    pub(super) fn report(
        self,
        context: &FitContext<'_>,
        backend: &mut dyn Backend,
        intake: &Intake<'_>,
        (channels, detail): (Vec<LayerFit>, Option<DetailFigures>),
        came: Instant,
    ) -> Result<Baked, Failure> {
        let refiner = &intake.refiner;
        let [uploaded_kib, read_back_kib] = backend.moved().map(|bytes| bytes / 1024);
        let mut summary = BakeSummary {
            channels,
            detail,
            times: context.stages.take_times(),
            rows: RowsHeld {
                left_out: refiner.decimation().map_or(0, Decimation::left_out),
                ..self.rows
            },
            peak_vram_kib: backend.peak_memory() / 1024,
            gpu_times: backend.gpu_times().map_err(failure)?,
            driver_vram_kib: backend.driver_memory().map(|bytes| bytes / 1024),
            uploaded_kib,
            read_back_kib,
            host_times: step_times::take(),
            ..self.summary
        };
        summary.refinement = refiner.enter(&mut summary.views);
        let mut rejected = Vec::new();
        for drawn in self.drawn {
            let mut views = summary.views.iter_mut();
            if let Some(view) = views.find(|view| view.view == drawn.view) {
                view.rejected = Some(drawn.shares);
            }
            rejected.push((drawn.view, drawn.picture));
        }
        Ok(Baked {
            texture: self.texture,
            rejected,
            refined: refiner.refined(),
            came,
            summary,
        })
    }
}
