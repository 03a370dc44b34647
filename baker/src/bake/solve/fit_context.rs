//! What all textures of a job share, and what a fit of one texture yields.

use std::thread;
use std::time::Duration;

use proto::message::Phase;
use proto::plan::RowsHeld;
use proto::table::Mesh;
use rayon::prelude::*;

use crate::bake::finish::seams::Mending;
use crate::bake::intake::surface::Original;
use crate::bake::model::atlas::Atlas;
use crate::bake::model::colour::Space;
use crate::bake::model::scene::{Frame, Scene};
use crate::bake::plan::quality::Plan;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::{Backend, BackendError, Ties};
use crate::bake::solve::fit::Fitted;
use crate::worker::pace;
use crate::worker::progress::{Stage, Stages, each, timed_unit};
use crate::worker::step_times::{self, timed};

/// The mesh in the texture, and the texture on the mesh.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) scene: Scene,
    pub(crate) atlas: Atlas,
    /// Expected duration of one step over all texels.
    pub(crate) step: Duration,
}

impl Model {
    /// The model of a mesh with a texture of `size` texels a side.
    pub(crate) fn new(mesh: &Mesh, size: u32, frame: Frame, stages: &Stages<'_>) -> Self {
        let texels = (size as usize).pow(2);
        let step = each(texels, pace::TEXEL) + each(mesh.triangles.len(), pace::TRIANGLE);
        stages.announce(Stage {
            phase: Phase::OpenDevice,
            total: 0,
            unit: ("the map of the texture", step),
        });
        let scene = timed_unit("scene", || Scene::framed(mesh, size, frame));
        let atlas = timed_unit("atlas", || Atlas::new(&scene));
        Self { scene, atlas, step }
    }

    /// The context of its fits. `original` is the surface that the views show, where it is another.
    pub(crate) fn context<'a>(
        &'a self,
        original: Option<&'a Original>,
        plan: &'a Plan,
        stages: &'a Stages<'a>,
    ) -> FitContext<'a> {
        FitContext {
            scene: &self.scene,
            atlas: &self.atlas,
            original,
            plan,
            stages,
            step: self.step,
        }
    }
}

/// Fit context: what all textures of a job share.
pub(crate) struct FitContext<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) atlas: &'a Atlas,
    /// The surface that the views show, where it is not the mesh's.
    pub(crate) original: Option<&'a Original>,
    pub(crate) plan: &'a Plan,
    pub(crate) stages: &'a Stages<'a>,
    /// Expected duration of one step over all texels.
    pub(crate) step: Duration,
}

/// What is asked of a fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) space: Space,
    /// Whether deviations are asked for.
    pub(crate) maps: bool,
}

/// Fitted texels, and what is known of them.
pub(crate) struct Fit {
    pub(crate) texels: Vec<[f32; 4]>,
    /// Observed weight of each texel.
    pub(crate) observed: Vec<f32>,
    pub(crate) fitted: Fitted,
    /// Mean absolute deviation of the views from each texel, where maps are asked for.
    pub(crate) deviations: Option<Vec<f32>>,
    pub(crate) rows: RowsHeld,
    /// Prepared beside the fit, where that was possible.
    pub(crate) mending: Option<Mending>,
}

impl FitContext<'_> {
    /// A stage whose first unit is a step over all texels.
    pub(crate) fn stage<'l>(&self, phase: Phase, total: u64, label: &'l str) -> Stage<'l> {
        Stage {
            phase,
            total,
            unit: (label, self.step),
        }
    }

    /// Runs the adapter's `work`. If the adapter is `apart`, the idle processor prepares the seam system meanwhile, for
    /// texels with these `observed` weights.
    pub(crate) fn beside_mending<T>(
        &self,
        apart: bool,
        observed: &[f32],
        space: Space,
        work: impl FnOnce() -> T,
    ) -> (T, Option<Mending>) {
        let prepare = || {
            let mending = Mending::new(self.scene, self.atlas, observed, space);
            (mending, step_times::take())
        };
        thread::scope(|threads| {
            let builder = thread::Builder::new().name("seams".to_owned());
            let made = apart.then(|| builder.spawn_scoped(threads, prepare).ok());
            let done = work();
            let made = made.flatten().map(|made| {
                let made = made.join();
                let (mending, steps) =
                    made.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                step_times::add(steps);
                mending
            });
            (done, made)
        })
    }
}

/// Reads the texels, and fails if any is not finite: NaN would become a colour like any other.
pub(crate) fn read_finite(backend: &mut dyn Backend) -> Result<Vec<[f32; 4]>, BackendError> {
    let texels = timed("read texels", || backend.read_texels())?;
    let wrong = texels
        .par_iter()
        .filter(|texel| !texel.iter().all(|value| value.is_finite()))
        .count();
    if wrong > 0 {
        let all = texels.len();
        return Err(BackendError::Incomplete(format!(
            "{wrong} of {all} texels are no numbers"
        )));
    }
    Ok(texels)
}

/// Links and seam constraints of a window of this atlas.
pub(crate) fn ties(atlas: &Atlas, window: &Window) -> Ties {
    Ties {
        links: window.links(&atlas.links),
        seams: window.rows_within(&atlas.seams),
    }
}
