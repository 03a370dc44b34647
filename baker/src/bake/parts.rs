//! Views whose rows do not fit the memory → the texels that explain them, a part of the texture after the other.
//!
//! ```text
//!   strips all over the texture ─ fit ─▶ λ, whom to doubt, scales of the rounds
//!   band of the texture ─ the same rounds ─▶ its texels, which stay as they are      (for each band)
//! ```
//!
//! | module | what it turns into what |
//! |---|---|
//! | `shown` | masks of all views → pixels on each square of the texture, entries of a row |
//! | `plan` | memory, what is shown → the strips, and the bands |
//!
//! Rows that are drawn anew for each of some eighty passes take as long as all the rest a hundred times over; here all pixels
//! are drawn for the strips, and for each part those blocks of them that show something of it. What a texel becomes is told by the pixels that show it and by its neighbours within a few
//! texels, so a band is fitted with a margin around it, whose own texels are then thrown away (an overlapping Schwarz method
//! of one sweep: Dryja and Widlund, "An additive variant of the Schwarz alternating method", 1987). All that is one for the
//! whole texture comes from the strips, which lie all over it. The planes of an adapter are as small as the band, so textures
//! that its memory does not hold can be fitted.
//!
//! Where no pixel of a band shows anything its texels begin with what the strips, the bands before it and its own pixels tell of
//! the surface there.
//!
//! What it costs: 100 views of 1024² into 2048² 0.04 dB in parts of a GiB and none of half a GiB; as a draft, a mesh of eighty
//! bodies (flighthelmet at 1024²) 0.2 in three parts and in six; a cow at 512² in two, three and four parts 41.34, 40.89 and 41.10,
//! at once 41.27 dB.

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
use super::explain::{Bench, Fit, ties};
use super::fill::{Tones, fill_far};
use super::fit;
use super::raster::NOTHING;
use super::scene::Scene;
use super::window::Window;
use super::{failure, read_finite};
use crate::laps::timed;
use crate::progress::PhaseClock;
use plan::sparser;
pub(super) use plan::{Parts, first_window};

/// What one window's fit came to.
struct Part {
    texels: Vec<[f32; 4]>,
    held: RowsHeld,
}

/// What an adapter is given of a window of the texture beside the views, and where that is.
struct Given {
    scene: Scene,
    ties: Ties,
    places: Places,
}

impl Given {
    fn of(bench: &Bench<'_>, window: &Window) -> Self {
        let ((scene, places), ties) = rayon::join(
            || (bench.scene.within(window), window.places()),
            || ties(bench.atlas, window),
        );
        Self {
            scene,
            ties,
            places,
        }
    }
}

/// Which texel of the texture each of a window is: [`Window::places`].
type Places = Vec<Option<u32>>;

fn place(places: &[Option<u32>]) -> impl Fn(usize) -> Option<usize> + Sync {
    |texel| places[texel].map(|place| place as usize)
}

/// What an adapter has of a window before it is fitted.
struct Begun {
    places: Places,
    /// With which each of its texels is observed.
    weights: Vec<f32>,
    /// Some of its texels are shown by no pixel: they have a colour now, and what the others say is among the tones.
    filled: bool,
}

/// A band that was fitted.
struct Done {
    band: Window,
    /// Of the band.
    texels: Vec<[f32; 4]>,
    /// Where they are, if those that follow are to hear of them.
    told: Option<Places>,
}

/// What is known of the texture so far.
struct Known {
    /// Of the texture, as far as its bands are done.
    texels: Vec<[f32; 4]>,
    /// Of the surface.
    tones: Tones,
}

impl Known {
    fn enter(&mut self, bench: &Bench<'_>, done: Done) {
        let Done { band, texels, told } = done;
        let to = band.core().start * band.size as usize;
        let core = band.of_core(&texels).par_iter();
        let own = self.texels[to..].par_iter_mut().zip(core);
        own.for_each(|(own, texel)| *own = *texel);
        if let Some(places) = told {
            let (scene, atlas) = (bench.scene, bench.atlas);
            self.tones.learn(scene, atlas, &texels, place(&places));
        }
    }
}

/// Fits `views` part by part, with `threads` for what is made ready meanwhile. The adapter has none of the views, and ends with
/// those of the last band.
pub(super) fn fit<'scope, 'env>(
    threads: &'scope Scope<'scope, 'env>,
    bench: &'env Bench<'env>,
    backend: &mut dyn Backend,
    parts: &Parts,
    views: &[View],
    space: Space,
    maps: bool,
    clock: &mut PhaseClock,
) -> Result<Fit, Failure> {
    let (scene, progress) = (bench.scene, bench.progress);
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
            bench, backend, given, foreseen, views, anyway, before, known, clock,
        )
    };
    let mut bands: Vec<Cow<'_, Window>> = parts.bands.iter().rev().map(Cow::Borrowed).collect();
    // While a device fits, the processor makes ready what it is given next.
    let apart = backend.is_apart();
    let beside = |band: Option<&Cow<'_, Window>>| {
        let band = band.filter(|_| apart)?.clone().into_owned();
        let builder = thread::Builder::new().name("band".to_owned());
        builder
            .spawn_scoped(threads, move || Given::of(bench, &band))
            .ok()
    };
    let mut rehearsal = Cow::Borrowed(&parts.rehearsal);
    loop {
        let sparser = sparser(&rehearsal);
        let strips = clock.time(Phase::Raster, || Given::of(bench, &rehearsal));
        let (bands, anyway) = (Some(parts.bands.as_slice()), sparser.is_none());
        let begun = begin(backend, strips, bands, anyway, None, clock)?;
        if begun.is_some() {
            break;
        }
        // Rows that are drawn again for each pass take longer than drawing all of them once more.
        rehearsal = sparser.map_or(rehearsal, Cow::Owned);
    }
    let mut next = beside(bands.last());
    let mut fitted = clock
        .time(Phase::Fit, || {
            let plan = bench.plan.of_strips();
            fit::fit(backend, &plan, None, |done, total| {
                told(f64::from(done) / f64::from(total.max(1)));
                progress.expect("a step of the fit", bench.step);
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
            None => Given::of(bench, band),
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
            progress.expect("a step of the fit", bench.step);
        };
        let fit = || {
            fit::replay(backend, course, done)?;
            // Of the rows in its margin another band tells.
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
            bench.beside_mending(apart && last, &observed, space, fit)
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
            known.enter(bench, done);
        }
        known.texels
    });
    // What no pixel shows was filled from its own band: now, far from what any shows, from all of the surface.
    clock.time(Phase::Init, || {
        timed("fill", || fill_far(scene, bench.atlas, &mut texels));
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

/// Gives the adapter a window of the texture, the views and their averages there, and a colour for what no pixel shows from what is
/// `known` of the surface so far; what was done `before` is entered there meanwhile. `foreseen` are the windows that follow. Nothing is
/// begun where not all rows fit and it is not to be begun `anyway`.
fn begin(
    bench: &Bench<'_>,
    backend: &mut dyn Backend,
    given: Given,
    foreseen: Option<&[Window]>,
    (views, space): (&[View], Space),
    anyway: bool,
    before: Option<Done>,
    known: &mut Known,
    clock: &mut PhaseClock,
) -> Result<Option<Begun>, Failure> {
    let step = bench.step + crate::pace::ADAPTER;
    bench.progress.expect("the buffers of a part", step);
    let Given {
        scene,
        ties,
        places,
    } = given;
    let taken = || {
        clock.time(Phase::Raster, || {
            timed("again", || {
                backend.again(&scene, &ties, bench.plan.taps, space.blend())
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
            // The last of the rows may not have been counted before.
            if !fits(backend) {
                return Ok(None);
            }
            timed("read weights", || backend.read_weights()).map(Some)
        })
    };
    let weights = rayon::in_place_scope(|scope| {
        if let Some(done) = before {
            scope.spawn(|_| known.enter(bench, done));
        }
        taken()
    });
    let Some(weights) = weights.map_err(failure)? else {
        return Ok(None);
    };
    clock
        .time(Phase::Init, || {
            let place = place(&places);
            let triangles = &bench.atlas.triangles;
            let unseen = |(texel, weight): (usize, &f32)| {
                *weight <= 0.0 && place(texel).is_some_and(|at| triangles[at] != NOTHING)
            };
            // What the first of them tells of the surface the others go by.
            let filled = foreseen.is_some() || weights.par_iter().enumerate().any(unseen);
            if filled {
                let mut texels = timed("read texels", || read_finite(backend))?;
                timed("fill", || {
                    (known.tones).fill(bench.scene, bench.atlas, &mut texels, place);
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
