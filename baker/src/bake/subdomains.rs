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
//! Texels of a band that no pixel shows start from what the strips, the bands before it and its own pixels say of the
//! surface there.
//!
//! Cost: 100 views of 1024² into 2048² lose 0.04 dB in subdomains of 1 GiB and none of 512 MiB. A draft of a mesh of
//! eighty bodies (flighthelmet at 1024²) loses 0.2 dB in three subdomains and in six. A cow at 512² has 41.34, 40.89
//! and 41.10 dB in two, three and four subdomains, and 41.27 at once.

mod plan;
mod shown;

use std::borrow::Cow;
use std::thread::{self, Scope, ScopedJoinHandle};

use proto::message::{Failure, Phase};
use proto::plan::RowsHeld;
use proto::table::View;
use rayon::prelude::*;

use super::backend::{Backend, Ties, ViewResiduals};
use super::colour::Space;
use super::fill::{Tones, fill_far};
use super::fit;
use super::fit_texture::{Fit, FitContext, ties};
use super::raster::NOTHING;
use super::scene::Scene;
use super::window::Window;
use super::{failure, read_finite};
use crate::progress::PhaseClock;
use crate::step_times::timed;
use plan::sparser;
pub(super) use plan::{Subdomains, first_window};

/// Result of fitting one window.
struct Part {
    texels: Vec<[f32; 4]>,
    held: RowsHeld,
}

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
pub(super) fn fit<'scope, 'env>(
    threads: &'scope Scope<'scope, 'env>,
    context: &'env FitContext<'env>,
    backend: &mut dyn Backend,
    parts: &Subdomains,
    views: &[View],
    space: Space,
    maps: bool,
    clock: &mut PhaseClock,
) -> Result<Fit, Failure> {
    let (scene, progress) = (context.scene, context.progress);
    let size = scene.size as usize;
    let all = f64::from(parts.count()) + 1.0;
    let told = |done: f64| progress.progress(Phase::Fit, (1000.0 * done / all) as u64, 1000);
    told(0.0);
    let mut known = Known {
        texels: vec![[0.0; 4]; scene.texels()],
        tones: Tones::none(scene),
    };
    let mut begin = |backend: &mut dyn Backend,
                     given: Given,
                     foreseen: Option<&[Window]>,
                     anyway,
                     before: Option<Done>,
                     clock: &mut PhaseClock| {
        let (views, known) = ((views, space), &mut known);
        begin(
            context, backend, given, foreseen, views, anyway, before, known, clock,
        )
    };
    let mut bands: Vec<Cow<'_, Window>> = parts.bands.iter().rev().map(Cow::Borrowed).collect();
    // While a device fits, the processor prepares its next input.
    let apart = backend.is_apart();
    let beside = |band: Option<&Cow<'_, Window>>| {
        let band = band.filter(|_| apart)?.clone().into_owned();
        let builder = thread::Builder::new().name("band".to_owned());
        builder
            .spawn_scoped(threads, move || Given::of(context, &band))
            .ok()
    };
    let mut rehearsal = Cow::Borrowed(&parts.rehearsal);
    loop {
        let sparser = sparser(&rehearsal);
        let strips = clock.time(Phase::Raster, || Given::of(context, &rehearsal));
        let (bands, anyway) = (Some(parts.bands.as_slice()), sparser.is_none());
        let begun = begin(backend, strips, bands, anyway, None, clock)?;
        if begun.is_some() {
            break;
        }
        // Rows built again for each pass take longer than building all of them once more.
        rehearsal = sparser.map_or(rehearsal, Cow::Owned);
    }
    let mut next = beside(bands.last());
    let mut fitted = clock
        .time(Phase::Fit, || {
            let plan = context.plan.of_strips();
            fit::fit(backend, &plan, None, |done, total| {
                told(f64::from(done) / f64::from(total.max(1)));
                progress.expect("a step of the fit", context.step);
            })
        })
        .map_err(failure)?;

    let mut observed = vec![0.0; scene.texels()];
    let mut deviations = maps.then(|| vec![-1.0; scene.texels()]);
    let mut residuals: Vec<ViewResiduals> = Vec::new();
    let mut rows = RowsHeld::default();
    let mut count = 0;
    let mut mending = None;
    let mut before = None;
    while let Some(band) = bands.pop() {
        let (band, course) = (&*band, &fitted.course);
        let halves = parts.halves(band);
        let given = || match next.take().map(ScopedJoinHandle::join) {
            None => Given::of(context, band),
            Some(given) => given.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        };
        let given = clock.time(Phase::Raster, || timed("what is given", given));
        let anyway = halves.is_none();
        let begun = begin(backend, given, None, anyway, before.take(), clock)?;
        let Some(Begun {
            places,
            weights,
            filled,
        }) = begun
        else {
            let halves = halves.into_iter().flatten();
            bands.extend(halves.rev().map(Cow::Owned));
            continue;
        };
        next = beside(bands.last());
        let to = band.core().start * size;
        let core = band.of_core(&weights);
        observed[to..][..core.len()].copy_from_slice(core);
        count += 1;
        let of = |lines: usize| f64::from(parts.count()) * lines as f64 / size as f64;
        let (from, own) = (1.0 + of(band.core().start), of(band.core().len()));
        let done = |done: u32| {
            told(from + own * f64::from(done) / f64::from(course.iterations()));
            progress.expect("a step of the fit", context.step);
        };
        let fit = || {
            fit::replay(backend, course, done)?;
            // Residuals of rows in the margin belong to another band.
            backend.narrow(true)?;
            add(&mut residuals, backend.residuals()?);
            backend.narrow(false)?;
            let texels = timed("read texels", || read_finite(backend))?;
            Ok(Part {
                texels,
                held: backend.rows_held(),
            })
        };
        let last = bands.is_empty();
        let (part, made) = clock.time(Phase::Fit, || {
            context.beside_mending(apart && last, &observed, space, fit)
        });
        mending = made;
        let Part { texels, held } = part.map_err(failure)?;
        before = Some(Done {
            band: band.clone(),
            texels,
            told: (!filled && !last).then_some(places),
        });
        if let Some(deviations) = &mut deviations {
            let own = clock
                .time(Phase::Gutter, || backend.deviations())
                .map_err(failure)?;
            let core = band.of_core(&own);
            deviations[to..][..core.len()].copy_from_slice(core);
        }
        rows.kept += held.kept;
        rows.rows += held.rows;
        rows.views_redrawn = rows.views_redrawn.max(held.views_redrawn);
    }
    let own: u64 = residuals.iter().map(|view| view.rows).sum();
    rows.kept = own.saturating_sub(rows.rows - rows.kept);
    rows.rows = own;
    rows.views = views.len() as u32;
    rows.parts = count;
    fitted.residuals = residuals;
    fitted.iterations += fitted.course.iterations();
    let mut texels = clock.time(Phase::Fit, || {
        if let Some(done) = before {
            known.enter(context, done);
        }
        known.texels
    });
    // Unseen texels were filled from their own band. Those far from any seen one are now filled from the whole surface.
    clock.time(Phase::Init, || {
        timed("fill", || fill_far(scene, context.atlas, &mut texels));
    });
    Ok(Fit {
        texels,
        observed,
        fitted,
        deviations,
        rows,
        mending,
    })
}

/// Gives the adapter a window, the views and their averages. Fills what no pixel shows from what is `known` of the
/// surface so far; the result `before` is entered there meanwhile. `foreseen` are the windows that follow. Returns none
/// if not all rows fit, unless it is to start `anyway`.
fn begin(
    context: &FitContext<'_>,
    backend: &mut dyn Backend,
    given: Given,
    foreseen: Option<&[Window]>,
    (views, space): (&[View], Space),
    anyway: bool,
    before: Option<Done>,
    known: &mut Known,
    clock: &mut PhaseClock,
) -> Result<Option<Begun>, Failure> {
    let step = context.step + crate::pace::ADAPTER;
    context.progress.expect("the buffers of a part", step);
    let Given {
        scene,
        ties,
        places,
    } = given;
    let taken = || {
        clock.time(Phase::Raster, || {
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
        let fits = |backend: &dyn Backend| anyway || !backend.overflows();
        if !fits(backend) {
            return Ok(None);
        }
        clock.time(Phase::Init, || {
            timed("average", || backend.average())?;
            // The last rows may not have been counted before.
            if !fits(backend) {
                return Ok(None);
            }
            timed("read weights", || backend.read_weights()).map(Some)
        })
    };
    let weights = rayon::in_place_scope(|scope| {
        if let Some(done) = before {
            scope.spawn(|_| known.enter(context, done));
        }
        taken()
    });
    let Some(weights) = weights.map_err(failure)? else {
        return Ok(None);
    };
    clock
        .time(Phase::Init, || {
            let place = place(&places);
            let triangles = &context.atlas.triangles;
            let unseen = |(texel, weight): (usize, &f32)| {
                *weight <= 0.0 && place(texel).is_some_and(|at| triangles[at] != NOTHING)
            };
            // The others rely on what the first window says of the surface.
            let filled = foreseen.is_some() || weights.par_iter().enumerate().any(unseen);
            if filled {
                let mut texels = timed("read texels", || read_finite(backend))?;
                timed("fill", || {
                    (known.tones).fill(context.scene, context.atlas, &mut texels, place);
                });
                timed("write texels", || backend.write_texels(&texels))?;
            }
            Ok(filled)
        })
        .map_err(failure)
        .map(|filled| {
            Some(Begun {
                places,
                weights,
                filled,
            })
        })
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
