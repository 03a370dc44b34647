//! Takes the views of a bake in: views as they come → rows on the adapter, or views for the subdomains.
//!
//! ```text
//!   before the mesh ─ early ─┐
//!   with the mesh ───────────┼─ refine ─ Came { view, done } ─ cut ─▶ adapter, or subdomains
//!   once more ── again ──────┘
//! ```
//!
//! A view comes before the mesh, with it, or once more: for subdomains that nobody has foreseen, and for the other
//! channels. [`Came`] says what was done with it already. What is left to do is the same for all.
//!
//! | module | input → output |
//! |---|---|
//! | `surface` | views → views without the pixels that show other surfaces than the simplified mesh |
//! | `refine` | views → views whose cameras and exposures agree with the mesh and with each other |
//! | `decimate` | masks of all views → decimation: which pixels get no row, for redundancy or lack of memory |
//! | `pixel_mask` | decimation → pixel masks, and views without the masked pixels |
//! | `ahead` | items that worker threads prepare → one consumer, in order |
//! | `view_source` | view source: the supervisor → views, again on request; textures of channels → the supervisor |

pub(crate) mod ahead;
pub(crate) mod decimate;
pub mod pixel_mask;
pub(crate) mod refine;
pub mod surface;
pub(crate) mod view_source;

use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use proto::job::BakeJob;
use proto::message::{Failure, Phase};
use proto::table::{LayerSet, LayeredView, View};
use rayon::prelude::*;

use super::error::failure;
use crate::bake::finish::rejected::{self, Doubts};
use crate::bake::intake::decimate::{Decimation, Decimator};
use crate::bake::intake::refine::{Ahead, Refiner};
use crate::bake::intake::surface::Original;
use crate::bake::intake::view_source::ViewSource;
use crate::bake::plan::opening::Opening;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::{BLOCK, Backend};
use crate::bake::solve::fit_context::{FitContext, Model};
use crate::bake::solve::fit_texture::Taken;
use crate::bake::solve::subdomains::Subdomains;
use crate::worker::pace;
use crate::worker::progress::{self, Stages, each};
use crate::worker::step_times::{self, timed, timed_in_pool};

/// A view, and what was done with it already.
pub(crate) struct Came {
    pub(super) view: View,
    pub(super) done: Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Camera and exposure are refined.
    Refined,
    /// Likewise, and pixels that show another surface than the simplified mesh are masked.
    Masked,
    /// It came before, and was refined again as the first time.
    Before,
    /// The adapter has its rows.
    Taken,
}

/// The views of a bake on their way to the fit.
pub(crate) struct Intake<'a> {
    pub(super) refiner: Refiner<'a>,
    /// The channels of each fitted view.
    pub(super) sets: Vec<LayerSet>,
    /// Views as the fit takes them, where pictures of what it rejects are asked for. The refiner leaves other surfaces
    /// unmasked for them.
    pub(super) doubts: Option<Doubts>,
}

/// Views that the adapter is given one subdomain at a time.
pub(crate) struct Apart {
    pub(super) parts: Subdomains,
    views: Vec<View>,
}

impl Apart {
    /// What the adapter was given: the views of its subdomains, or all of them.
    pub(super) fn taken(apart: Option<&Self>) -> Taken<'_> {
        apart.map_or(Taken::All, |apart| {
            Taken::InParts(&apart.parts, &apart.views)
        })
    }
}

impl<'a> Intake<'a> {
    /// Examines the views that come before the mesh. If these are all, `opening` hears of it, and they are settled.
    ///
    /// # Errors
    /// Those of the source.
    pub(super) fn early(
        job: &BakeJob,
        original: &'a Original,
        opening: &mut impl Opening,
        source: &mut impl ViewSource,
        stages: &Stages<'_>,
    ) -> Result<Self, Failure> {
        let mut refiner = Refiner::new(job.refine, job.memory, original, !job.rejected);
        let mut sets = Vec::new();
        stages.lend(|progress, clock| {
            refiner.look_early(progress, clock, || {
                let next = source.early()?;
                Ok(next.map(|(view, set)| noted(view, set, &mut sets)))
            })?;
            if source.all_came() {
                if let Some((views, pixels)) = refiner.opaque_pixels() {
                    opening.foresee(views, pixels);
                }
                refiner.settle(progress, clock);
            }
            Ok::<(), Failure>(())
        })?;
        Ok(Self {
            refiner,
            sets,
            doubts: job.rejected.then(Doubts::default),
        })
    }

    /// Opens the adapter. While it allocates, settled views are examined for decimation.
    ///
    /// # Errors
    /// Those of `opening`.
    pub(super) fn open(
        &mut self,
        opening: impl Opening,
        model: &'a Model,
        taps: u32,
        stages: &Stages<'_>,
    ) -> Result<(Box<dyn Backend>, Window), Failure> {
        let Model { scene, atlas, .. } = model;
        let (opened, looked) = stages.time(Phase::OpenDevice, || {
            let look = || self.refiner.look_settled(stages.progress, scene, atlas);
            let beside = || (look(), step_times::take());
            thread::scope(|threads| {
                let builder = thread::Builder::new().name("looks".to_owned());
                let looking = builder.spawn_scoped(threads, beside).ok();
                let opened = timed("buffers", || opening.open(scene, atlas));
                let looked = match looking.map(ScopedJoinHandle::join) {
                    Some(Ok((looked, steps))) => {
                        step_times::add(steps);
                        looked
                    }
                    Some(Err(panic)) => std::panic::resume_unwind(panic),
                    None => look(),
                };
                (opened, looked)
            })
        });
        let (backend, window) = opened?;
        let decimator = Decimator {
            scene,
            atlas,
            taps,
            memory: backend.row_memory(scene.texels()),
        };
        self.refiner.decimate(decimator, looked);
        stages.progress.progress(self.refiner.phase(), 0, 0);
        Ok((backend, window))
    }

    /// Takes all views in. The adapter gets them if it works on the whole texture and their rows fit, else they are
    /// returned with their subdomains.
    ///
    /// # Errors
    /// Those of the source and of the adapter.
    pub(super) fn take_in(
        &mut self,
        context: &FitContext<'_>,
        backend: &mut dyn Backend,
        window: &Window,
        source: &mut impl ViewSource,
    ) -> Result<Option<Apart>, Failure> {
        let mut apart = (!window.is_whole()).then(Vec::new);
        let mut views = 0;
        loop {
            // Pictures of what is rejected need each view as it is taken in, so views are not taken ahead.
            let ahead = backend.is_apart() && self.doubts.is_none() && apart.is_none();
            let Some(came) = self.next(context, backend, ahead, source)? else {
                break;
            };
            if self.refiner.too_many() || apart.is_some() {
                apart.get_or_insert_default().push(came);
            } else if backend.overflows() {
                // All views come again. This first copy is for the picture.
                if self.doubts.is_some() {
                    self.cut(context, came);
                }
            } else if came.done != Done::Taken {
                hand_over(context, backend, views, || self.cut(context, came))?;
            }
            views += 1;
        }
        let (views, least) = match apart {
            Some(views) => (views, 1),
            None if backend.overflows() => {
                backend.forget().map_err(failure)?;
                (self.once_more(source)?, 2)
            }
            None => {
                let progress = context.stages.progress;
                progress.progress(Phase::Raster, views, views);
                return Ok(None);
            }
        };
        let views = self.cut_all(context, views);
        backend.await_blocks(views.iter().map(blocks).sum());
        let memory = |texels| backend.row_memory(texels);
        let parts = context.stages.time(Phase::Raster, || {
            let (scene, atlas, taps) = (context.scene, context.atlas, context.plan.taps);
            Subdomains::of(scene, atlas, taps, memory, least, &views)
        });
        Ok(Some(Apart { parts, views }))
    }

    /// The next fitted view. The adapter may take some `ahead`, while others are still refined.
    fn next(
        &mut self,
        context: &FitContext<'_>,
        backend: &mut dyn Backend,
        ahead: bool,
        source: &mut impl ViewSource,
    ) -> Result<Option<Came>, Failure> {
        let mut next_view = || {
            let next = source.next(LayerSet::default())?;
            Ok(next.map(|(layered, set)| noted(layered.view, set, &mut self.sets)))
        };
        let mut early = Early { backend };
        let ahead = ahead.then_some(&mut early as &mut dyn Ahead);
        let refiner = &mut self.refiner;
        let next = (context.stages)
            .lend(|progress, clock| refiner.next(progress, clock, &mut next_view, ahead))?;
        Ok(next.map(|(view, taken)| Came {
            view,
            done: match (taken, &self.doubts) {
                (true, _) => Done::Taken,
                (false, None) => Done::Masked,
                (false, Some(_)) => Done::Refined,
            },
        }))
    }

    /// Requests all fitted views again, with the `wanted` ones of their other channels.
    pub(super) fn again(
        source: &mut impl ViewSource,
        wanted: LayerSet,
        mut take: impl FnMut(LayeredView, LayerSet) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        source.again()?;
        while let Some((layered, has)) = source.next(wanted)? {
            if !layered.view.holdout {
                take(layered, has)?;
            }
        }
        Ok(())
    }

    /// Requests all fitted views again, refined as the first time.
    fn once_more(&self, source: &mut impl ViewSource) -> Result<Vec<Came>, Failure> {
        let mut views = Vec::new();
        Self::again(source, LayerSet::default(), |layered, _| {
            let mut view = layered.view;
            self.refiner.repeat(&mut view);
            let done = Done::Before;
            views.push(Came { view, done });
            Ok(())
        })?;
        Ok(views)
    }

    /// [`cut`], which keeps a copy for the picture of what was rejected.
    fn cut(&mut self, context: &FitContext<'_>, came: Came) -> View {
        let doubts = self.doubts.as_mut();
        cut(context, came, self.refiner.decimation(), doubts)
    }

    fn cut_all(&mut self, context: &FitContext<'_>, views: Vec<Came>) -> Vec<View> {
        let first = views.iter().any(|came| came.done != Done::Before);
        context.stages.time(Phase::Raster, || match self.doubts {
            // They are kept in order.
            Some(_) if first => (views.into_iter())
                .map(|came| self.cut(context, came))
                .collect(),
            _ => timed_in_pool("cut", || {
                let decimation = self.refiner.decimation();
                let cut = |came| cut(context, came, decimation, None);
                views.into_par_iter().map(cut).collect()
            }),
        })
    }
}

/// Removes from a view the decimated pixels, and those that show another surface. `doubts` keeps a copy before
/// decimation, unless it did so when the view came first.
pub(super) fn cut(
    context: &FitContext<'_>,
    came: Came,
    decimation: Option<&Decimation>,
    doubts: Option<&mut Doubts>,
) -> View {
    let Came { mut view, done } = came;
    let doubts = doubts.filter(|_| done != Done::Before);
    let opaque = doubts.as_ref().map(|_| rejected::opaque(&view));
    if let (Done::Refined | Done::Before, Some(original)) = (done, context.original) {
        let triangles = each(original.triangles(), pace::TRIANGLE);
        let progress = context.stages.progress;
        progress.expect("the surface before simplification", triangles);
        timed("other surfaces", || original.mask(&mut view));
    }
    if let (Some(doubts), Some(opaque)) = (doubts, opaque) {
        doubts.keep(view.clone(), opaque);
    }
    if let Some(decimation) = decimation {
        decimation.kept().decimate(&mut view);
    }
    view
}

/// Hands the adapter a view that `cut` makes, after `before` others.
pub(super) fn hand_over(
    context: &FitContext<'_>,
    backend: &mut dyn Backend,
    before: u64,
    cut: impl FnOnce() -> View,
) -> Result<(), Failure> {
    let Stages { progress, .. } = context.stages;
    progress.progress(Phase::Raster, before, 0);
    let added = context.stages.time(Phase::Raster, || {
        let view = cut();
        timed("rows", || backend.add_view(&view))
    });
    added.map_err(failure)?;
    progress.progress(Phase::Raster, before + 1, 0);
    Ok(())
}

/// Notes which channels a view has, unless it is held out.
fn noted(view: View, set: LayerSet, sets: &mut Vec<LayerSet>) -> View {
    if !view.holdout {
        sets.push(set);
    }
    view
}

/// Number of pixel blocks of a view.
fn blocks(view: &View) -> u64 {
    let [across, down] = [view.width, view.height].map(|edge| u64::from(edge.div_ceil(BLOCK)));
    across * down
}

/// The adapter, taking in views while others are still being refined.
struct Early<'a> {
    backend: &'a mut dyn Backend,
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
