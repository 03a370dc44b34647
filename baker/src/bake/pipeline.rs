//! A bake: adapter, surface and views → a texture and its report.

use std::mem::ManuallyDrop;

use proto::job::{BakeJob, Blend};
use proto::message::{Failure, Phase};
use proto::table::Surface;

use super::finish::{Baked, Finished};
use super::fit_context::{Model, Wanted};
use super::fit_texture::fit_texture;
use super::intake::{Apart, Intake};
use super::layers;
use super::opening::{Opening, Ready};
use super::plan::Plan;
use super::surface::Original;
use super::view_source::{Unwrapped, ViewSource};
use super::warm::Warm;
use crate::progress::{Progress, Stages};
use crate::step_times;

/// What is asked of a bake.
#[derive(Clone, Copy)]
pub(super) struct Order<'a> {
    pub(super) plan: &'a Plan,
    pub(super) blend: Blend,
    pub(super) job: &'a BakeJob,
}

/// Bakes all views of a surface that `source` yields, and their other channels, onto the mesh that it yields.
///
/// # Errors
/// A failure for the user: no adapter, the adapter's failures, or views that see nothing.
pub fn bake(
    surface: Surface,
    warm: Warm,
    job: &BakeJob,
    progress: &dyn Progress,
    source: &mut impl ViewSource,
) -> Result<Baked, Failure> {
    let plan = &Plan::new(warm.quality);
    let blend = warm.blend;
    let opening = Ready { warm, plan, job };
    bake_on(
        opening,
        surface,
        Order { plan, blend, job },
        progress,
        source,
    )
}

/// [`bake`] on the adapter that `opening` gives.
pub(super) fn bake_on(
    mut opening: impl Opening,
    surface: Surface,
    order: Order<'_>,
    progress: &dyn Progress,
    source: &mut impl ViewSource,
) -> Result<Baked, Failure> {
    let Order { plan, blend, job } = order;
    step_times::take();
    let stages = &Stages::new(progress);
    let original = Original::new(surface);

    let mut intake = Intake::early(job, &original, &mut opening, source, stages)?;
    let Unwrapped {
        mesh,
        texture_size,
        came,
    } = source.mesh()?;
    let model = Model::new(&mesh, texture_size, original.frame(), stages);
    let context = &model.context(original.if_other(), plan, stages);

    let (backend, window) = intake.open(opening, &model, plan.taps, stages)?;
    // Never dropped: a driver that crashes in teardown would take a finished texture with it.
    let mut backend = ManuallyDrop::new(backend);
    let backend = &mut **backend;
    let apart = intake.take_in(context, backend, &window, source)?;

    let wanted = Wanted {
        space: blend.into(),
        maps: job.maps,
    };
    let taken = Apart::taken(apart.as_ref());
    let fitted = fit_texture(context, backend, &taken, wanted, intake.doubts.take())?;
    let parts = stages.step(Phase::Gutter, "views let go", || {
        apart.map(|apart| apart.parts)
    });

    let finished = Finished::new(context, backend, fitted, blend);
    let channels = layers::bake(context, backend, &intake, parts.as_ref(), blend, source)?;
    finished.report(context, backend, &intake, channels, came)
}
