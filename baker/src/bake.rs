//! The bake role: turns a mesh and posed views into a texture, on a GPU or on the processor.
//!
//! ```text
//!   mesh ──────▶ model: scene, atlas ─┐
//!   job ───────▶ adapter, window ─────┤
//!   views ─────▶ intake: cameras, exposures, masks, decimation ─▶ rows, or views and subdomains
//!                                     └─▶ fit_texture: weights, λ, solution, seams ─▶ finish: texture, report
//! ```
//!
//! | module | input → output |
//! |---|---|
//! | `role` | tables of the supervisor → a bake → tables for the supervisor |
//! | [`intake`] | views, early, with the mesh or once more → rows on the adapter, or views for the subdomains |
//! | [`plan`] | what was asked for, memory → adapter, quality, window; the dry run, which stops here |
//! | [`model`] | mesh, texture, views → scene, atlas, rows |
//! | [`solve`] | rows → texels: weights, λ, solution |
//! | [`gpu`] | the backend of the fit on a GPU, with a shader for each stage |
//! | [`detail`] | texels, the surface before simplification → its normals and occlusion |
//! | [`finish`] | fitted texels → the texture with its seams, gutters and maps, and the report |
//! | [`vertices`] | mesh and views → vertex colours, without a texture |
//! | `error` | failures as the user reads them |

mod detail;
mod error;
pub mod finish;
#[cfg(test)]
mod fixture;
pub mod gpu;
pub mod intake;
pub mod model;
pub mod plan;
mod role;
pub mod solve;
#[cfg(test)]
mod tests;
pub mod vertices;

use std::mem::ManuallyDrop;

use proto::job::BakeJob;
use proto::message::{Failure, Phase};
use proto::table::Surface;

use self::finish::Finished;
use self::intake::surface::Original;
use self::intake::{Apart, Intake};
use self::plan::Order;
use self::plan::opening::{Opening, Ready};
use self::plan::quality::Plan;
use self::plan::warm::Warm;
use self::solve::fit_context::{Model, Wanted};
use self::solve::fit_texture::fit_texture;
use self::solve::layers;
use crate::worker::progress::{Progress, Stages};
use crate::worker::step_times;

pub use self::finish::Baked;
pub use self::intake::view_source::{HandedViews, Unwrapped, ViewSource};
pub use self::role::run;

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
    let order = Order { plan, blend, job };
    bake_on(Ready { warm, plan, job }, surface, order, progress, source)
}

/// [`bake`] on the adapter that `opening` gives.
pub(crate) fn bake_on(
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
    let (parts, details) = (parts.as_ref(), detail::bake(context, job.detail));
    let channels = layers::bake(context, backend, &intake, (parts, details), blend, source)?;
    finished.report(context, backend, &intake, channels, came)
}
