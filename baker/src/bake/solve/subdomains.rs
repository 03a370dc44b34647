//! Fits a texture in subdomains where the rows of all views do not fit the memory: overlapping additive
//! Schwarz.
//!
//! ```text
//!   strips all over the texture ─ pilot fit ─▶ λ, outlier views, scales of the rounds
//!   band of the texture ─ the same rounds ─▶ its texels, which are then final      (for each band)
//! ```
//!
//! | module | input → output |
//! |---|---|
//! | `shown` | masks of all views → pixels on each square of the texture, entries of a row |
//! | `plan` | memory, pixels → the strips, and the bands |
//!
//! Building rows again for each of some eighty passes would take a hundred times as long as all the rest. Instead all
//! pixels are rasterised once for the strips, and for each band those blocks that show something of it. A texel depends
//! on the pixels that show it and on neighbours within a few texels. So a band is fitted with a margin, whose texels
//! are then discarded (one sweep of an overlapping Schwarz method: Dryja and Widlund, "An additive variant of the
//! Schwarz alternating method", 1987). Parameters of the whole texture come from the pilot fit ("rehearsal") on strips
//! all over it. The adapter's buffers are only as large as a band, so textures that its memory cannot hold can be
//! fitted.
//!
//! A band whose rows do not fit after all is halved, down to one line of squares. Below that, the bake fails for lack of
//! memory.
//!
//! Texels of a band that no pixel shows start from what the strips, the bands before it and its own pixels say of the
//! surface there.
//!
//! Cost: 100 views of 1024² into 2048² lose 0.04 dB in subdomains of 1 GiB and none of 512 MiB. A draft of a mesh of
//! eighty bodies (flighthelmet at 1024²) loses 0.2 dB in three subdomains and in six. A cow at 512² has 41.34, 40.89
//! and 41.10 dB in two, three and four subdomains, and 41.27 at once.

mod plan;
mod shown;

use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use proto::message::{Failure, Phase};
use proto::plan::RowsHeld;
use proto::table::View;
use rayon::prelude::*;

use crate::bake::error::failure;
use crate::bake::finish::seams::Mending;
use crate::bake::model::raster::NOTHING;
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::{Backend, BackendError, Ties, ViewResiduals};
use crate::bake::solve::fill::{Tones, fill_far};
use crate::bake::solve::fit::{self, Course, Fitted};
use crate::bake::solve::fit_context::{Fit, FitContext, Wanted, read_finite, ties};
use crate::worker::progress::Progress;
use crate::worker::step_times::timed;
pub(crate) use plan::{Subdomains, first_window};

/// What an adapter is given of a window beside the views, and the window's place in the texture.
struct Given {
    scene: Scene,
    ties: Ties,
    places: Places,
}

impl Given {
    fn of(context: &FitContext<'_>, window: &Window) -> Self {
        let ((scene, places), ties) = rayon::join(
            || (context.scene.within(window), window.places()),
            || ties(context.atlas, window),
        );
        Self {
            scene,
            ties,
            places,
        }
    }
}

/// The texture's texel of each texel of a window: [`Window::places`].
type Places = Vec<Option<u32>>;

fn place(places: &[Option<u32>]) -> impl Fn(usize) -> Option<usize> + Sync {
    |texel| places[texel].map(|place| place as usize)
}

/// State of a window before it is fitted.
struct Begun {
    places: Places,
    /// Observed weight of each of its texels.
    weights: Vec<f32>,
    /// Whether no pixel shows some of its texels. They have start colours by now, and the tones include the others.
    filled: bool,
}

struct Done {
    band: Window,
    texels: Vec<[f32; 4]>,
    /// Their places, if the bands that follow need them.
    told: Option<Places>,
}

/// What is known of the texture so far.
struct Known {
    /// Texels of the finished bands.
    texels: Vec<[f32; 4]>,
    tones: Tones,
}

impl Known {
    fn enter(&mut self, context: &FitContext<'_>, done: Done) {
        let Done { band, texels, told } = done;
        let to = band.core().start * band.size as usize;
        let core = band.of_core(&texels).par_iter();
        let own = self.texels[to..].par_iter_mut().zip(core);
        own.for_each(|(own, texel)| *own = *texel);
        if let Some(places) = told {
            let (scene, atlas) = (context.scene, context.atlas);
            self.tones.learn(scene, atlas, &texels, place(&places));
        }
    }
}

/// Fits `views` subdomain by subdomain, and prepares the next one on `threads` meanwhile. The adapter starts without
/// views, and ends with those of the last band.
///
/// # Errors
/// The adapter's failures; lack of memory where the rows of the smallest window do not fit.
pub(crate) fn fit<'scope, 'env>(
    threads: &'scope Scope<'scope, 'env>,
    context: &'env FitContext<'env>,
    backend: &mut dyn Backend,
    (parts, views): (&Subdomains, &[View]),
    wanted: Wanted,
) -> Result<Fit, Failure> {
    let texels = context.scene.texels();
    let mut sweep = Sweep {
        report: Report {
            progress: context.stages.progress,
            all: f64::from(parts.count()) + 1.0,
            step: context.step,
        },
        threads,
        context,
        backend,
        parts,
        views,
        wanted,
        bands: parts.bands.iter().rev().cloned().collect(),
        next: None,
        known: Known {
            texels: vec![[0.0; 4]; texels],
            tones: Tones::none(context.scene),
        },
        before: None,
        observed: vec![0.0; texels],
        deviations: wanted.maps.then(|| vec![-1.0; texels]),
        residuals: Vec::new(),
        rows: RowsHeld::default(),
        mending: None,
    };
    sweep.report.windows(0.0);
    let fitted = sweep.pilot()?;
    while let Some(band) = sweep.bands.pop() {
        sweep.band(band, &fitted.course)?;
    }
    Ok(sweep.finish(fitted))
}

/// Reports the fitted windows, the pilot fit among them.
#[derive(Clone, Copy)]
struct Report<'a> {
    progress: &'a dyn Progress,
    all: f64,
    /// Expected duration of a step of a fit.
    step: Duration,
}

impl Report<'_> {
    fn windows(&self, done: f64) {
        let done = (1000.0 * done / self.all) as u64;
        self.progress.progress(Phase::Fit, done, 1000);
    }

    /// [`Self::windows`] within a fit.
    fn steps(&self, done: f64) {
        self.windows(done);
        self.progress.expect("a step of the fit", self.step);
    }
}

/// One sweep over the bands, and its results so far.
struct Sweep<'a, 'scope, 'env> {
    report: Report<'env>,
    threads: &'scope Scope<'scope, 'env>,
    context: &'env FitContext<'env>,
    backend: &'a mut dyn Backend,
    parts: &'a Subdomains,
    views: &'a [View],
    wanted: Wanted,
    /// Bands to be fitted, the first one last.
    bands: Vec<Window>,
    /// What the adapter will be given for the next band.
    next: Option<ScopedJoinHandle<'scope, Given>>,
    known: Known,
    /// The last band, unless its texels are known.
    before: Option<Done>,
    /// Of the whole texture, like the following ones.
    observed: Vec<f32>,
    deviations: Option<Vec<f32>>,
    residuals: Vec<ViewResiduals>,
    rows: RowsHeld,
    mending: Option<Mending>,
}

impl Sweep<'_, '_, '_> {
    /// Prepares what the next band is given, while a device fits this window.
    fn prepare_next(&mut self) {
        let band = self.bands.last().filter(|_| self.backend.is_apart());
        self.next = band.cloned().and_then(|band| {
            let (context, builder) = (self.context, thread::Builder::new());
            let given = move || Given::of(context, &band);
            let builder = builder.name("band".to_owned());
            builder.spawn_scoped(self.threads, given).ok()
        });
    }

    /// The pilot fit, on fewer lines if the rows of the planned ones do not fit.
    fn pilot(&mut self) -> Result<Fitted, Failure> {
        let (context, parts) = (self.context, self.parts);
        let mut pilot = parts.rehearsal.clone();
        loop {
            let given = || Given::of(context, &pilot);
            let given = context.stages.time(Phase::Raster, given);
            if self.begin(given, Some(&parts.bands))?.is_some() {
                break;
            }
            pilot = parts.smaller(&pilot).ok_or_else(|| too_small(&pilot))?;
        }
        self.prepare_next();
        let plan = context.plan.of_strips();
        let report = self.report;
        let fitted = context.stages.time(Phase::Fit, || {
            let tell = |done, total: u32| {
                report.steps(f64::from(done) / f64::from(total.max(1)));
            };
            fit::fit(self.backend, &plan, None, tell)
        });
        fitted.map_err(failure)
    }

    /// Fits a band on the course of the pilot fit. If its rows do not fit, its halves are next.
    fn band(&mut self, band: Window, course: &Course) -> Result<(), Failure> {
        let context = self.context;
        let next = self.next.take();
        let given = || match next.map(ScopedJoinHandle::join) {
            None => Given::of(context, &band),
            Some(given) => given.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        };
        let given = context.stages.step(Phase::Raster, "what is given", given);
        let Some(begun) = self.begin(given, None)? else {
            let halves = self.parts.halves(&band).ok_or_else(|| too_small(&band))?;
            self.bands.extend(halves.into_iter().rev());
            return Ok(());
        };
        self.prepare_next();
        let to = band.core().start * band.size as usize;
        let core = band.of_core(&begun.weights);
        self.observed[to..][..core.len()].copy_from_slice(core);
        let last = self.bands.is_empty();
        let texels = self.replay(&band, course, last)?;
        if let Some(deviations) = &mut self.deviations {
            let own = (context.stages)
                .time(Phase::Gutter, || self.backend.deviations())
                .map_err(failure)?;
            let core = band.of_core(&own);
            deviations[to..][..core.len()].copy_from_slice(core);
        }
        self.rows.parts += 1;
        self.before = Some(Done {
            band,
            texels,
            told: (!begun.filled && !last).then_some(begun.places),
        });
        Ok(())
    }

    /// Repeats the course on a band that has begun, and returns its texels.
    fn replay(
        &mut self,
        band: &Window,
        course: &Course,
        last: bool,
    ) -> Result<Vec<[f32; 4]>, Failure> {
        let (count, size) = (f64::from(self.parts.count()), f64::from(band.size));
        let of = |lines: usize| count * lines as f64 / size;
        let (from, own) = (1.0 + of(band.core().start), of(band.core().len()));
        let report = self.report;
        let done = |done: u32| {
            report.steps(from + own * f64::from(done) / f64::from(course.iterations()));
        };
        let (backend, residuals) = (&mut *self.backend, &mut self.residuals);
        let apart = backend.is_apart() && last;
        let fit = || {
            fit::replay(backend, course, done)?;
            // Residuals of rows in the margin belong to another band.
            backend.narrow(true)?;
            add(residuals, backend.residuals()?);
            backend.narrow(false)?;
            read_finite(backend)
        };
        let context = self.context;
        let (texels, mending) = context.stages.time(Phase::Fit, || {
            context.beside_mending(apart, &self.observed, self.wanted.space, fit)
        });
        self.mending = mending;
        texels.map_err(failure)
    }

    /// Gives the adapter a window, the views and their averages. Fills what no pixel shows from what is known of the
    /// surface so far; the band before is entered there meanwhile. `foreseen` are the windows that follow. Returns none
    /// if not all rows fit.
    fn begin(
        &mut self,
        given: Given,
        foreseen: Option<&[Window]>,
    ) -> Result<Option<Begun>, Failure> {
        let (context, known) = (self.context, &mut self.known);
        let (stages, before) = (context.stages, self.before.take());
        let step = context.step + crate::worker::pace::ADAPTER;
        stages.progress.expect("the buffers of a part", step);
        let Given {
            scene,
            ties,
            places,
        } = given;
        let (backend, views, space) = (&mut *self.backend, self.views, self.wanted.space);
        let take_in = || {
            stages.time(Phase::Raster, || {
                timed("again", || {
                    backend.reset(&scene, &ties, context.plan.taps, space.blend())
                })?;
                drop((scene, ties));
                if let Some(windows) = foreseen {
                    timed("foresee", || backend.foresee(windows))?;
                }
                let views: Vec<&View> = views.iter().collect();
                timed("rows", || backend.add_views(&views, None))
            })?;
            if backend.overflows() {
                return Ok(None);
            }
            stages.time(Phase::Init, || {
                timed("average", || backend.average())?;
                // The last rows may not have been counted before.
                if backend.overflows() {
                    return Ok(None);
                }
                timed("read weights", || backend.read_weights()).map(Some)
            })
        };
        let weights = rayon::in_place_scope(|scope| {
            if let Some(done) = before {
                scope.spawn(|_| known.enter(context, done));
            }
            take_in()
        });
        let Some(weights) = weights.map_err(failure)? else {
            return Ok(None);
        };
        let filled = stages.time(Phase::Init, || {
            let place = place(&places);
            let triangles = &context.atlas.triangles;
            let unseen = |(texel, weight): (usize, &f32)| {
                *weight <= 0.0 && place(texel).is_some_and(|at| triangles[at] != NOTHING)
            };
            // The others rely on what the first window says of the surface.
            let filled = foreseen.is_some() || weights.par_iter().enumerate().any(unseen);
            if filled {
                let mut texels = read_finite(backend)?;
                timed("fill", || {
                    (known.tones).fill(context.scene, context.atlas, &mut texels, place);
                });
                timed("write texels", || backend.write_texels(&texels))?;
            }
            Ok(filled)
        });
        Ok(Some(Begun {
            places,
            weights,
            filled: filled.map_err(failure)?,
        }))
    }

    /// The whole texture, once all bands are fitted.
    fn finish(mut self, pilot: Fitted) -> Fit {
        let context = self.context;
        let iterations = pilot.iterations + pilot.course.iterations();
        let mut texels = context.stages.time(Phase::Fit, || {
            if let Some(done) = self.before {
                self.known.enter(context, done);
            }
            self.known.texels
        });
        // Unseen texels were filled from their own band. Those far from any seen one are now filled from the whole
        // surface.
        context.stages.step(Phase::Init, "fill", || {
            fill_far(context.scene, context.atlas, &mut texels);
        });
        let rows = self.residuals.iter().map(|view| view.rows).sum();
        Fit {
            texels,
            observed: self.observed,
            fitted: Fitted {
                residuals: self.residuals,
                iterations,
                ..pilot
            },
            deviations: self.deviations,
            rows: RowsHeld {
                rows,
                kept: rows,
                views: self.views.len() as u32,
                ..self.rows
            },
            mending: self.mending,
        }
    }
}

/// The failure where a window that cannot be smaller has more rows than fit.
fn too_small(window: &Window) -> Failure {
    failure(BackendError::OutOfMemory(format!(
        "the rows of {} lines of the texture, the least that are fitted at once, exceed the memory for rows",
        window.core().len()
    )))
}

/// Adds the residuals of other pixels of the same views.
fn add(to: &mut Vec<ViewResiduals>, more: Vec<ViewResiduals>) {
    if to.is_empty() {
        *to = more;
        return;
    }
    for (to, more) in to.iter_mut().zip(more) {
        to.rows += more.rows;
        to.sum_squares += more.sum_squares;
        for (to, more) in to.histogram.iter_mut().zip(more.histogram) {
            *to += more;
        }
    }
}

#[cfg(test)]
mod tests;
