//! Views that an adapter is given → texels that explain them, with their seams mended: the part of a bake that every texture
//! of a job goes through, the base colour's and those of its layers.

use std::time::Duration;

use proto::message::{Failure, Phase};
use proto::table::View;

use super::atlas::Atlas;
use super::backend::{Backend, Ties};
use super::colour::Space;
use super::fit::{self, Fitted};
use super::plan::Plan;
use super::refine::Ahead;
use super::rejected::{self, Doubts, Drawn};
use super::scene::Scene;
use super::surface::Original;
use super::thin::Thinning;
use super::{failure, gutter, read_finite, seams, start, unseen};
use crate::laps::timed;
use crate::pace;
use crate::progress::{PhaseClock, Progress, each, unit};
use crate::run::internal;

/// What all textures of a job have in common.
pub(super) struct Bench<'a> {
    pub(super) scene: &'a Scene,
    pub(super) atlas: &'a Atlas,
    pub(super) original: Option<&'a Original>,
    pub(super) plan: &'a Plan,
    pub(super) progress: &'a dyn Progress,
    /// A step over all texels.
    pub(super) step: Duration,
}

/// Texels that explain the views, their seams mended, and what is known of them.
pub(super) struct Explained {
    pub(super) texels: Vec<[f32; 4]>,
    /// The weight with which each is observed.
    pub(super) observed: Vec<f32>,
    pub(super) fitted: Fitted,
    pub(super) seam_residual: f32,
    /// What of the views that were kept was rejected.
    pub(super) drawn: Vec<Drawn>,
    pub(super) space: Space,
}

impl Bench<'_> {
    /// Hands a view to the adapter less what is left out of it, as the one after `before` others; `doubts` keeps it whole, if it
    /// is to be told what was rejected.
    pub(super) fn take_in(
        &self,
        backend: &mut dyn Backend,
        mut view: View,
        before: u64,
        thinning: Option<&Thinning>,
        doubts: Option<&mut Doubts>,
        clock: &mut PhaseClock,
    ) -> Result<(), Failure> {
        let progress = self.progress;
        progress.progress(Phase::Raster, before, 0);
        let opaque = doubts.as_ref().map(|_| rejected::opaque(&view));
        clock
            .time(Phase::Raster, || {
                self.mask(&mut view);
                if let (Some(doubts), Some(opaque)) = (doubts, opaque) {
                    doubts.keep(view.clone(), opaque);
                }
                if let Some(thinning) = thinning {
                    thinning.thin(&mut view);
                }
                timed("rows", || backend.add_view(&view))
            })
            .map_err(failure)?;
        progress.progress(Phase::Raster, before + 1, 0);
        Ok(())
    }

    /// Takes out of a view what shows another surface.
    fn mask(&self, view: &mut View) {
        if let Some(original) = self.original {
            let triangles = original.triangles() + self.scene.triangles.len();
            self.progress.expect(
                "the surface before simplification",
                each(triangles, pace::TRIANGLE),
            );
            timed("other surfaces", || original.mask(self.scene, view));
        }
    }

    /// Fits, from the views that the adapter has; of those in `doubts` it draws what was rejected.
    pub(super) fn explain(
        &self,
        backend: &mut dyn Backend,
        space: Space,
        doubts: Option<Doubts>,
        clock: &mut PhaseClock,
    ) -> Result<Explained, Failure> {
        let Self {
            scene,
            atlas,
            plan,
            progress,
            step,
            ..
        } = *self;
        progress.progress(Phase::Init, 0, 1);
        progress.expect("averages", step);

        let observed = clock
            .time(Phase::Init, || start(backend, scene, atlas))
            .map_err(failure)?;
        progress.progress(Phase::Init, 1, 1);

        progress.progress(Phase::Fit, 0, 0);
        progress.expect("a step of the fit", step);
        let fitted = clock
            .time(Phase::Fit, || {
                fit::fit(backend, plan, |done, total| {
                    progress.progress(Phase::Fit, u64::from(done), u64::from(total));
                    progress.expect("a step of the fit", step);
                })
            })
            .map_err(failure)?;
        if fitted.residuals.iter().all(|view| view.rows == 0) {
            return Err(unseen());
        }

        progress.progress(Phase::Gutter, 0, 1);
        progress.expect("the gutter", step);
        let read = clock.time(Phase::Gutter, || {
            timed("read texels", || read_finite(backend))
        });
        let mut texels = read.map_err(failure)?;
        unit();
        let drawn = doubts.map(|doubts| {
            clock.time(Phase::Gutter, || {
                doubts.draw(
                    scene,
                    &texels,
                    plan.taps,
                    fitted.scale,
                    space.blend(),
                    progress,
                )
            })
        });
        let drawn = drawn.transpose().map_err(|error| internal(&error))?;
        clock.time(Phase::Gutter, || {
            seams::mend(&mut texels, &observed, scene, atlas, space);
        });
        let seam_residual = gutter::seam_residual(&texels, atlas, space.blend());
        unit();
        Ok(Explained {
            texels,
            observed,
            fitted,
            seam_residual,
            drawn: drawn.unwrap_or_default(),
            space,
        })
    }
}

/// The adapter, as it takes views in that are still being refined.
pub(super) struct Early<'a> {
    pub(super) bench: &'a Bench<'a>,
    pub(super) backend: &'a mut dyn Backend,
}

impl Ahead for Early<'_> {
    fn take(&mut self, view: &View, thinning: Option<&Thinning>) -> Result<(), Failure> {
        let changed = self.bench.original.is_some() || thinning.is_some();
        let mut own = changed.then(|| view.clone());
        if let Some(own) = &mut own {
            self.bench.mask(own);
        }
        if let (Some(own), Some(thinning)) = (&mut own, thinning) {
            thinning.thin(own);
        }
        let view = own.as_ref().unwrap_or(view);
        timed("rows", || self.backend.add_view(view)).map_err(failure)
    }

    fn forget(&mut self) -> Result<(), Failure> {
        self.backend.forget().map_err(failure)
    }
}

/// What the user is told of views that contradict the others all over; by number, as the report has them.
pub(super) fn doubted(fitted: &Fitted) -> Option<String> {
    let numbers: Vec<String> = fitted.doubted.iter().map(u32::to_string).collect();
    let (count, all) = (numbers.len(), fitted.residuals.len());
    (count > 0).then(|| {
        format!(
            "{count} of {all} views contradict the others all over, as blurred ones do or such with a camera far off, and \
             hardly count where others see the same: {} (numbers as in the report)",
            numbers.join(", ")
        )
    })
}

/// What holds a texture of this atlas together.
pub(super) fn ties(atlas: &Atlas) -> Ties {
    Ties {
        links: atlas.links.clone(),
        seams: atlas.seams.clone(),
    }
}
