//! Fits one texture: the views that an adapter holds → texels that reproduce them, with mended seams.
//!
//! Every texture of a job goes through this, the base colour and its other channels.

use std::thread;

use proto::message::{Failure, Phase};
use proto::table::View;
use rayon::prelude::*;

use crate::bake::error::{failure, unseen};
use crate::bake::finish::gutter;
use crate::bake::finish::rejected::{Against, Doubts, Drawn};
use crate::bake::finish::seams::Mending;
use crate::bake::model::atlas::Atlas;
use crate::bake::model::colour::Space;
use crate::bake::model::scene::Scene;
use crate::bake::solve::backend::{Backend, BackendError};
use crate::bake::solve::fill;
use crate::bake::solve::fit::{self, Fitted};
use crate::bake::solve::fit_context::{Fit, FitContext, Wanted, read_finite};
use crate::bake::solve::subdomains::{self, Subdomains};
use crate::worker::failure::internal;
use crate::worker::progress::{timed_unit, unit};
use crate::worker::step_times::timed;

/// The views of a fit.
pub(crate) enum Taken<'a> {
    /// The adapter holds them all.
    All,
    /// The adapter holds none, and is given them for each subdomain.
    InParts(&'a Subdomains, &'a [View]),
}

/// Fitted texels with mended seams, and what is known of them.
pub(crate) struct FittedTexture {
    pub(crate) fit: Fit,
    pub(crate) seam_residual: f32,
    /// Pictures of what was rejected, of the views that were kept for them.
    pub(crate) drawn: Vec<Drawn>,
    pub(crate) space: Space,
}

/// Fits the views, mends the seams, and draws what was rejected of the views in `doubts`.
///
/// # Errors
/// The adapter's failures, or no view sees anything.
pub(crate) fn fit_texture(
    context: &FitContext<'_>,
    backend: &mut dyn Backend,
    taken: &Taken<'_>,
    wanted: Wanted,
    doubts: Option<Doubts>,
) -> Result<FittedTexture, Failure> {
    let mut fit = fit_views(context, backend, taken, wanted)?;
    if fit.fitted.residuals.iter().all(|view| view.rows == 0) {
        return Err(unseen());
    }
    let (scene, atlas, space) = (context.scene, context.atlas, wanted.space);
    let draw = || {
        let against = Against {
            scene,
            texels: &fit.texels,
            taps: context.plan.taps,
            scale: fit.fitted.scale,
            blend: space.blend(),
        };
        let doubts = doubts.unwrap_or_default();
        doubts.draw(against, context.stages.progress)
    };
    let stage = context.stage(Phase::Gutter, 1, "the gutter");
    let drawn = context.stages.run(stage, draw);
    let drawn = drawn.map_err(|error| internal(&error))?;
    let seam_residual = context.stages.time(Phase::Gutter, || {
        let mending = fit.mending.take();
        let mending = mending.unwrap_or_else(|| Mending::new(scene, atlas, &fit.observed, space));
        mending.mend(&mut fit.texels);
        gutter::seam_residual(&fit.texels, atlas, space.blend())
    });
    unit();
    Ok(FittedTexture {
        fit,
        seam_residual,
        drawn,
        space,
    })
}

/// Fits the views, at once or subdomain by subdomain.
pub(crate) fn fit_views(
    context: &FitContext<'_>,
    backend: &mut dyn Backend,
    taken: &Taken<'_>,
    wanted: Wanted,
) -> Result<Fit, Failure> {
    match *taken {
        Taken::All => fit_at_once(context, backend, wanted),
        Taken::InParts(parts, views) => thread::scope(|threads| {
            subdomains::fit(threads, context, backend, (parts, views), wanted)
        }),
    }
}

/// Fits the whole texture from the views that the adapter holds.
fn fit_at_once(
    context: &FitContext<'_>,
    backend: &mut dyn Backend,
    wanted: Wanted,
) -> Result<Fit, Failure> {
    let stages = context.stages;
    let averages = context.stage(Phase::Init, 1, "averages");
    let (texels, observed) = stages
        .run(averages, || start(backend, context.scene, context.atlas))
        .map_err(failure)?;
    stages.progress.progress(Phase::Init, 1, 1);

    let (plan, progress, step) = (context.plan, stages.progress, context.step);
    let fitting = move |backend: &mut dyn Backend| {
        fit::fit(backend, plan, Some(texels), |done, total| {
            progress.progress(Phase::Fit, u64::from(done), u64::from(total));
            progress.expect("a step of the fit", step);
        })
    };
    let (fitted, mending) = stages.run(context.stage(Phase::Fit, 0, "a step of the fit"), || {
        let apart = backend.is_apart();
        context.beside_mending(apart, &observed, wanted.space, || fitting(backend))
    });
    let fitted = fitted.map_err(failure)?;
    let read = stages.run(context.stage(Phase::Gutter, 1, "the texels"), || {
        let texels = read_finite(backend)?;
        let deviations = wanted.maps.then(|| backend.deviations()).transpose()?;
        Ok((texels, deviations))
    });
    let (texels, deviations) = read.map_err(failure)?;
    Ok(Fit {
        texels,
        observed,
        fitted,
        deviations,
        rows: backend.rows_held(),
        mending,
    })
}

/// Averages, then fills unobserved texels. Returns the texels and the observed weight of each.
pub(crate) fn start(
    backend: &mut dyn Backend,
    scene: &Scene,
    atlas: &Atlas,
) -> Result<(Vec<[f32; 4]>, Vec<f32>), BackendError> {
    timed_unit("average", || backend.average())?;
    let mut texels = read_finite(backend)?;
    let observed = texels.par_iter().map(|texel| texel[3]).collect();
    unit();
    timed("fill", || fill::fill(scene, atlas, &mut texels));
    timed("write texels", || backend.write_texels(&texels))?;
    Ok((texels, observed))
}

/// The warning about outlier views, by their numbers in the report.
pub(crate) fn doubted(fitted: &Fitted) -> Option<String> {
    let numbers: Vec<String> = fitted.outliers.iter().map(u32::to_string).collect();
    let (count, all) = (numbers.len(), fitted.residuals.len());
    (count > 0).then(|| {
        format!(
            "{count} of {all} views contradict the others all over, as blurred ones do or such with a camera far off, and \
             hardly count where others see the same: {} (numbers as in the report)",
            numbers.join(", ")
        )
    })
}
