//! Takes views in and examines each as it comes: views → what is known of each. Threads of the pool compare silhouettes
//! and collect statistics of the atlas meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use proto::job::Refine;
use proto::message::{CameraFate, Failure, Phase};
use proto::table::View;

use crate::bake::intake::decimate::{Decision, Mask, Survey, Workers};
use crate::bake::intake::refine::camera::{self, Verdict};
use crate::bake::intake::refine::waiting::{Task, Waiting};
use crate::bake::intake::surface::{Elsewhere, Original, ShownMesh};
use crate::worker::pace;
use crate::worker::progress::{Progress, each};
use crate::worker::step_times::timed;

/// Views as they came, and what is known of each.
#[derive(Debug, Default)]
pub(super) struct Examined {
    pub(super) views: Vec<Arc<View>>,
    /// By their silhouettes; none of settled views.
    pub(super) verdicts: Vec<Verdict>,
    /// Pixels that show another surface, of views examined before the mesh came.
    pub(super) elsewhere: Vec<Option<Elsewhere>>,
}

/// Result of an intake.
#[derive(Debug)]
pub(super) struct IntakeResult {
    pub(super) examined: Examined,
    /// No view follows.
    pub(super) ended: bool,
    /// How long views were waited for.
    pub(super) waited: Duration,
}

/// Shared by the threads that take views in, examine them, and hand them to an adapter.
#[derive(Debug, Default)]
pub(super) struct Meanwhile<'a> {
    pub(super) waiting: Waiting,
    /// Statistics of the atlas, where pixels may be decimated.
    pub(super) survey: Option<&'a Survey<'a>>,
    /// If set, the mesh has not come yet, and pixels that show another surface are looked for at once.
    pub(super) masks: Option<&'a Original>,
    /// The views are final; only taking them in is left.
    pub(super) settled: bool,
    /// Views are handed to the adapter as they came, unmasked, and that is their final state.
    pub(super) whole: bool,
    /// Some view's camera was moved.
    pub(super) moved: AtomicBool,
    /// No view follows.
    pub(super) all: AtomicBool,
}

impl Meanwhile<'_> {
    /// Whether all views so far stay whole, whatever follows that shows no more than they do.
    pub(super) fn all_stay(&self) -> bool {
        !self.survey.is_some_and(Survey::has_begun)
    }

    /// Decides on the rows of all views, once all have come: a part of them says nothing about all.
    pub(super) fn decide(&self) -> Decision {
        let survey = self.survey.filter(|_| self.all.load(Ordering::Relaxed));
        let workers = match self.settled {
            true => Workers::Pool,
            false => Workers::Own,
        };
        survey.map_or(Decision::AllFit, |survey| {
            timed("looks", || self.waiting.await_looks());
            timed("decimation", || survey.decide(workers))
        })
    }
}

/// Verdict on a view by its number, and its pixels that show another surface.
type Outcome = (usize, Verdict, Option<Elsewhere>);

/// See the head of this file.
pub(super) struct Intake<'a> {
    pub(super) progress: &'a dyn Progress,
    pub(super) phase: Phase,
    pub(super) mode: Refine,
    pub(super) shape: ShownMesh<'a>,
    /// Bytes of views that may wait for each other.
    pub(super) held_bytes: usize,
    pub(super) meanwhile: &'a Meanwhile<'a>,
    /// Statistics to collect: those of settled views are known, if they were needed.
    pub(super) survey: Option<&'a Survey<'a>>,
    /// Views that were examined.
    pub(super) count: AtomicU64,
}

impl Intake<'_> {
    /// Takes the views in that follow those of `early`, unless it has `ended`; `hand` gets all of them.
    pub(super) fn run(
        &self,
        next_view: &mut impl FnMut() -> Result<Option<View>, Failure>,
        hand: mpsc::Sender<Arc<View>>,
        early: Examined,
        ended: bool,
    ) -> Result<IntakeResult, Failure> {
        let known = early.verdicts.len() as u64;
        let before = self.count.fetch_add(known, Ordering::Relaxed) + known;
        self.progress.progress(self.phase, before, 0);
        self.meanwhile.all.store(ended, Ordering::Relaxed);
        let waiting = &self.meanwhile.waiting;
        let (sender, results) = mpsc::channel();
        let mut taken = IntakeResult {
            examined: Examined {
                views: Vec::new(),
                ..early
            },
            ended,
            waited: Duration::ZERO,
        };
        rayon::in_place_scope(|scope| {
            let another = || {
                let sender = sender.clone();
                scope.spawn(move |_| {
                    while let Some((task, _looking)) = waiting.next() {
                        self.examine(task, &sender);
                    }
                });
            };
            let add = |task| {
                if waiting.add(task) {
                    another();
                }
            };
            self.take_in(&mut taken, early.views, next_view, add, &hand)?;
            (0..waiting.for_all()).for_each(|_| another());
            drop(hand);
            Ok::<(), Failure>(())
        })?;
        drop(sender);
        let mut results: Vec<Outcome> = results.into_iter().collect();
        results.sort_by_key(|(number, ..)| *number);
        for (_, verdict, elsewhere) in results {
            taken.examined.verdicts.push(verdict);
            taken.examined.elsewhere.push(elsewhere);
        }
        Ok(taken)
    }

    /// Takes in the views that `came`, then those that follow, as far as they may be held; `add` gets their tasks.
    fn take_in(
        &self,
        taken: &mut IntakeResult,
        came: Vec<Arc<View>>,
        next_view: &mut impl FnMut() -> Result<Option<View>, Failure>,
        add: impl Fn(Task),
        hand: &mpsc::Sender<Arc<View>>,
    ) -> Result<(), Failure> {
        let (mut bytes, mut pixels) = (0, 0);
        let mut came = came.into_iter();
        loop {
            let view = if let Some(view) = came.next() {
                view
            } else if taken.ended || bytes >= self.held_bytes {
                return Ok(());
            } else {
                let begun = Instant::now();
                let view = fitted(next_view)?;
                taken.waited += begun.elapsed();
                let Some(view) = view.map(Arc::new) else {
                    taken.ended = true;
                    self.meanwhile.all.store(true, Ordering::Relaxed);
                    return Ok(());
                };
                let number = taken.examined.views.len();
                add(Task::Compare(number, Arc::clone(&view)));
                view
            };
            bytes += size_of_val(view.pixels.as_slice());
            taken.examined.views.push(Arc::clone(&view));
            self.survey_last(&taken.examined.views, &mut pixels, &add);
            // There may be no thread that takes views ahead, or it has ended.
            let _unheard = hand.send(view);
        }
    }

    /// Has the last view surveyed, or all of them once there are more `pixels` than certainly stay.
    fn survey_last(&self, views: &[Arc<View>], pixels: &mut usize, add: impl Fn(Task)) {
        let Some(survey) = self.survey else {
            return;
        };
        let mut first = views.len() - 1;
        if !survey.has_begun() {
            *pixels += views[first].counting();
            if *pixels as f64 <= survey.surely() {
                return;
            }
            survey.begin();
            first = 0;
        }
        for view in &views[first..] {
            add(Task::Look(Arc::clone(view)));
        }
    }

    fn examine(&self, task: Task, sender: &mpsc::Sender<Outcome>) {
        let progress = self.progress;
        match task {
            Task::Look(view) => {
                let drawing = drawing(self.shape, &view);
                progress.expect("what a view shows of the texture", drawing);
                if let Some(survey) = self.survey {
                    survey.look(&view);
                }
            }
            Task::Compare(number, view) => {
                progress.expect("the silhouette of a view", drawing(self.shape, &view));
                let verdict = camera::refine(self.shape, &view, self.mode);
                if verdict.fate == CameraFate::Moved {
                    self.meanwhile.moved.store(true, Ordering::Relaxed);
                }
                let elsewhere = self.meanwhile.masks.map(|masks| {
                    progress.expect("the surface before simplification", masking(masks, &view));
                    masks.elsewhere(&verdict.camera, [view.width, view.height])
                });
                // Nobody listens any more when a later view has failed.
                let _unheard = sender.send((number, verdict, elsewhere));
                let done = self.count.fetch_add(1, Ordering::Relaxed) + 1;
                progress.progress(self.phase, done, 0);
            }
        }
    }
}

/// The next view that is not held out.
pub(super) fn fitted(
    next_view: &mut impl FnMut() -> Result<Option<View>, Failure>,
) -> Result<Option<View>, Failure> {
    loop {
        match next_view()? {
            Some(view) if view.holdout => {}
            other => return Ok(other),
        }
    }
}

/// Expected duration of drawing the mesh once for a view.
pub(super) fn drawing(shape: ShownMesh<'_>, view: &View) -> Duration {
    each(shape.triangles.len(), pace::TRIANGLE) + each(view.pixels.len(), pace::OUTLINE_PIXEL)
}

/// Expected duration of drawing both surfaces for a view.
pub(super) fn masking(original: &Original, view: &View) -> Duration {
    each(original.triangles(), pace::TRIANGLE) + each(view.pixels.len(), pace::OUTLINE_PIXEL)
}
