//! Fits one texture: the views that an adapter holds → texels that reproduce them, with mended seams.
//!
//! Every texture of a job goes through this, the base colour and its other channels.

use std::thread;
use std::time::Duration;

use proto::message::{Failure, Phase};
use proto::plan::RowsHeld;
use proto::table::View;
use rayon::prelude::*;

use super::atlas::Atlas;
use super::backend::{Backend, Ties};
use super::colour::Space;
use super::decimate::Decimation;
use super::fit::{self, Fitted};
use super::plan::Plan;
use super::refine::Ahead;
use super::rejected::{self, Doubts, Drawn};
use super::scene::Scene;
use super::seams::Mending;
use super::subdomains::{self, Subdomains};
use super::surface::Original;
use super::window::Window;
use super::{failure, gutter, read_finite, start, unseen};
use crate::failure::internal;
use crate::pace;
use crate::progress::{self, PhaseClock, Progress, each, unit};
use crate::step_times::{self, timed, timed_in_pool};

/// Fit context: what all textures of a job share.
pub(super) struct FitContext<'a> {
    pub(super) scene: &'a Scene,
    pub(super) atlas: &'a Atlas,
    pub(super) original: Option<&'a Original>,
    pub(super) plan: &'a Plan,
    pub(super) progress: &'a dyn Progress,
    /// Expected duration of one step over all texels.
    pub(super) step: Duration,
}

/// The views of a fit.
pub(super) enum Taken<'a> {
    /// The adapter holds them all.
    All,
    /// The adapter holds none, and is given them for each subdomain.
    InParts(&'a Subdomains, &'a [View]),
}

/// Fitted texels, and what is known of them.
pub(super) struct Fit {
    pub(super) texels: Vec<[f32; 4]>,
    /// Observed weight of each texel.
    pub(super) observed: Vec<f32>,
    pub(super) fitted: Fitted,
    /// Mean absolute deviation of the views from each texel, where maps are asked for.
    pub(super) deviations: Option<Vec<f32>>,
    pub(super) rows: RowsHeld,
    /// Prepared beside the fit, where that was possible.
    pub(super) mending: Option<Mending>,
}

/// Fitted texels with mended seams, and what is known of them.
pub(super) struct FittedTexture {
    pub(super) fit: Fit,
    pub(super) seam_residual: f32,
    /// Pictures of what was rejected, of the views that were kept for them.
    pub(super) drawn: Vec<Drawn>,
    pub(super) space: Space,
}

impl FitContext<'_> {
    /// Removes from a view the masked pixels, and those that show another surface unless `masked` says that is done.
    /// `doubts` keeps a copy before decimation, for the picture of what was rejected.
    pub(super) fn cut(
        &self,
        mut view: View,
        masked: bool,
        decimation: Option<&Decimation>,
        doubts: Option<&mut Doubts>,
    ) -> View {
        let opaque = doubts.as_ref().map(|_| rejected::opaque(&view));
        if !masked {
            self.mask(&mut view);
        }
        if let (Some(doubts), Some(opaque)) = (doubts, opaque) {
            doubts.keep(view.clone(), opaque);
        }
        if let Some(decimation) = decimation {
            decimation.kept().decimate(&mut view);
        }
        view
    }

    /// [`Self::cut`] for all views.
    pub(super) fn cut_all(
        &self,
        views: Vec<View>,
        masked: bool,
        decimation: Option<&Decimation>,
        doubts: Option<&mut Doubts>,
        clock: &mut PhaseClock,
    ) -> Vec<View> {
        clock.time(Phase::Raster, || match doubts {
            // `doubts` keeps them in order.
            Some(doubts) => (views.into_iter())
                .map(|view| self.cut(view, masked, decimation, Some(&mut *doubts)))
                .collect(),
            None => timed_in_pool("cut", || {
                let views = views.into_par_iter();
                let cut = |view| self.cut(view, masked, decimation, None);
                views.map(cut).collect()
            }),
        })
    }

    /// Cuts a view ([`Self::cut`]) and hands it to the adapter, after `before` others.
    pub(super) fn take_in(
        &self,
        backend: &mut dyn Backend,
        view: View,
        masked: bool,
        before: u64,
        decimation: Option<&Decimation>,
        doubts: Option<&mut Doubts>,
        clock: &mut PhaseClock,
    ) -> Result<(), Failure> {
        let progress = self.progress;
        progress.progress(Phase::Raster, before, 0);
        clock
            .time(Phase::Raster, || {
                let view = self.cut(view, masked, decimation, doubts);
                timed("rows", || backend.add_view(&view))
            })
            .map_err(failure)?;
        progress.progress(Phase::Raster, before + 1, 0);
        Ok(())
    }

    /// Masks the pixels that show another surface.
    fn mask(&self, view: &mut View) {
        if let Some(original) = self.original {
            self.progress.expect(
                "the surface before simplification",
                each(original.triangles(), pace::TRIANGLE),
            );
            timed("other surfaces", || original.mask(view));
        }
    }

    pub(super) fn fit(
        &self,
        backend: &mut dyn Backend,
        taken: &Taken<'_>,
        space: Space,
        maps: bool,
        clock: &mut PhaseClock,
    ) -> Result<Fit, Failure> {
        match *taken {
            Taken::All => self.fit_at_once(backend, space, maps, clock),
            Taken::InParts(parts, views) => thread::scope(|threads| {
                subdomains::fit(threads, self, backend, parts, views, space, maps, clock)
            }),
        }
    }

    /// Fits the whole texture from the views that the adapter holds.
    fn fit_at_once(
        &self,
        backend: &mut dyn Backend,
        space: Space,
        maps: bool,
        clock: &mut PhaseClock,
    ) -> Result<Fit, Failure> {
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

        let (texels, observed) = clock
            .time(Phase::Init, || start(backend, scene, atlas))
            .map_err(failure)?;
        progress.progress(Phase::Init, 1, 1);

        progress.progress(Phase::Fit, 0, 0);
        progress.expect("a step of the fit", step);
        let fitting = move |backend: &mut dyn Backend| {
            fit::fit(backend, plan, Some(texels), |done, total| {
                progress.progress(Phase::Fit, u64::from(done), u64::from(total));
                progress.expect("a step of the fit", step);
            })
        };
        let (fitted, mending) = clock.time(Phase::Fit, || {
            let apart = backend.is_apart();
            self.beside_mending(apart, &observed, space, || fitting(backend))
        });
        let fitted = fitted.map_err(failure)?;
        progress.progress(Phase::Gutter, 0, 1);
        progress.expect("the texels", step);
        let read = clock.time(Phase::Gutter, || {
            let texels = timed("read texels", || read_finite(backend))?;
            let deviations = maps.then(|| backend.deviations()).transpose()?;
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

    /// Runs the adapter's `work`. If the adapter is `apart`, the idle processor prepares the seam system meanwhile, for
    /// texels with these `observed` weights.
    pub(super) fn beside_mending<T>(
        &self,
        apart: bool,
        observed: &[f32],
        space: Space,
        work: impl FnOnce() -> T,
    ) -> (T, Option<Mending>) {
        let Self { scene, atlas, .. } = *self;
        let prepare = || {
            (
                Mending::new(scene, atlas, observed, space),
                step_times::take(),
            )
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

    /// Fits the views, mends the seams, and draws what was rejected of the views in `doubts`.
    pub(super) fn explain(
        &self,
        backend: &mut dyn Backend,
        taken: &Taken<'_>,
        space: Space,
        maps: bool,
        doubts: Option<Doubts>,
        clock: &mut PhaseClock,
    ) -> Result<FittedTexture, Failure> {
        let mut fit = self.fit(backend, taken, space, maps, clock)?;
        if fit.fitted.residuals.iter().all(|view| view.rows == 0) {
            return Err(unseen());
        }
        let Self {
            scene,
            atlas,
            plan,
            progress,
            step,
            ..
        } = *self;
        progress.progress(Phase::Gutter, 0, 1);
        progress.expect("the gutter", step);
        let drawn = doubts.map(|doubts| {
            clock.time(Phase::Gutter, || {
                doubts.draw(
                    scene,
                    &fit.texels,
                    plan.taps,
                    fit.fitted.scale,
                    space.blend(),
                    progress,
                )
            })
        });
        let drawn = drawn.transpose().map_err(|error| internal(&error))?;
        let seam_residual = clock.time(Phase::Gutter, || {
            let mending = fit.mending.take();
            let mending =
                mending.unwrap_or_else(|| Mending::new(scene, atlas, &fit.observed, space));
            mending.mend(&mut fit.texels);
            gutter::seam_residual(&fit.texels, atlas, space.blend())
        });
        unit();
        Ok(FittedTexture {
            fit,
            seam_residual,
            drawn: drawn.unwrap_or_default(),
            space,
        })
    }
}

/// The adapter, taking in views while others are still being refined.
pub(super) struct Early<'a> {
    pub(super) backend: &'a mut dyn Backend,
}

impl Ahead for Early<'_> {
    fn take(&mut self, views: &[&View], decimation: Option<&Decimation>) -> Result<(), Failure> {
        let kept = decimation.map(Decimation::kept);
        timed("rows", || self.backend.add_views(views, kept)).map_err(failure)
    }

    fn pass(&self) -> Duration {
        progress::pass(self.backend.adapter().kind == "software")
    }

    fn forget(&mut self) -> Result<(), Failure> {
        timed("forget", || self.backend.forget()).map_err(failure)
    }
}

/// The warning about outlier views, by their numbers in the report.
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

/// Links and seam constraints of a window of this atlas.
pub(super) fn ties(atlas: &Atlas, window: &Window) -> Ties {
    Ties {
        links: window.links(&atlas.links),
        seams: window.rows_within(&atlas.seams),
    }
}
