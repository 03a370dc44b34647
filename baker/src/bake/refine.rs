//! Views as they came → views whose cameras see the mesh where the picture shows it, and whose exposures are those of one
//! camera: on the processor, the same for every adapter. Views that come before the mesh are looked at while that is unwrapped; where
//! they are all, nothing is left to do once it comes. Of others, an adapter of its own draws them meanwhile as they came, and again
//! where they do not stay so.
//!
//! | module | what it turns into what |
//! |---|---|
//! | `waiting` | views that came → what a thread does next |
//! | `pose` | six numbers → a moved camera, and its slope |
//! | `blur` | a plane of numbers → a smooth one |
//! | `outline` | a view → the plane of its alpha; mesh and camera → the plane of what it covers |
//! | `coverage` | mesh and camera → the plane of what it covers, and nothing else: all that most views need |
//! | `silhouette` | both planes → their distance, and normal equations |
//! | `solve` | normal equations → the step, where the silhouette determines it |
//! | `camera` | a view → its camera, moved or not, and why |
//! | `gain` | views → the exposure of each |
//! | `exposure` | a view and its exposure → the view without it |
//!
//! The mesh is fixed, so cameras need no other anchor. A simplified mesh has another silhouette than the pictures: cameras are
//! judged by the mesh before simplification, and where no camera makes the silhouettes agree, none is moved. Measured on 40
//! views with 0.2° and 0.2 % of noise: 2.0 px before, 0.006 px after.

mod blur;
mod camera;
mod coverage;
mod exposure;
mod gain;
mod outline;
mod pose;
mod silhouette;
mod solve;
mod waiting;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use proto::job::{Memory, Refine};
use proto::message::{
    BakeSummary, CameraFate, ExposureFate, Failure, Phase, Refinement, StageTime,
};
use proto::table::{Camera, Refined, RefinedView, View};
use rayon::prelude::*;

use super::atlas::Atlas;
use super::scene::Scene;
use super::surface::Original;
use super::thin::{self, Decision, Mask, Sightings, Survey, Thinner, Thinning, Workers};
use crate::laps::{self, timed, timed_in_pool};
use crate::pace;
use crate::progress::{PhaseClock, Progress, each, unit};
use camera::{Shape, Verdict};
use gain::{Grid, Sums};
use waiting::{Task, Waiting};

/// Before the mesh comes, one of so many threads looks at views: the others' cores are for decoding and the unwrap.
const SHARE: usize = 4;
/// Standard deviation of the exposures' logarithm from which on they are evened out: clean views seem to have 0.001-0.002.
const LEAST_SPREAD: f64 = 0.005;
/// And only if views then deviate from each other by no more than this share of what they did.
const LEFT: f64 = 0.95;

/// Views of a job that take less wait for the last one; of larger ones nobody knows all before the first is taken in.
pub(super) fn held_bytes(memory: Memory) -> usize {
    usize::try_from(memory.held_view_bytes()).unwrap_or(usize::MAX)
}

/// An adapter of its own that takes views in while the processor refines them: most stay as they came.
pub(super) trait Ahead: Send {
    /// Takes views in as they came, less what is left out of them.
    ///
    /// # Errors
    /// The adapter's.
    fn take(&mut self, views: &[&View], thinning: Option<&Thinning>) -> Result<(), Failure>;

    /// How long one pass of it may take.
    fn pass(&self) -> Duration;

    /// Forgets all that it took: some do not stay as they were.
    ///
    /// # Errors
    /// The adapter's.
    fn forget(&mut self) -> Result<(), Failure>;
}

/// Stands between the views and the bake.
pub(super) struct Refiner<'a> {
    mode: Refine,
    shape: Shape<'a>,
    held_bytes: usize,
    early: Early,
    /// Views wait for each other.
    held: bool,
    /// Where pixels may be left out.
    survey: Option<Survey<'a>>,
    decision: Decision,
    ready: VecDeque<View>,
    /// So many of the first that are ready were taken ahead.
    taken: usize,
    /// No view follows but those that are ready.
    ended: bool,
    /// By the index of the view.
    done: HashMap<u32, Done>,
    exposure: ExposureFate,
    spread: Option<f64>,
}

/// Views that came before the mesh.
#[derive(Debug, Default)]
struct Early {
    views: Vec<Arc<View>>,
    /// What their silhouettes say, as long as they are not settled.
    verdicts: Vec<Verdict>,
    /// They are all, and their cameras and exposures what they stay.
    settled: bool,
}

/// What an adapter that took views ahead has, and what was left out of them.
struct Took {
    taken: usize,
    decision: Decision,
    steps: Vec<StageTime>,
}

/// Views as they came, what their silhouettes say, whether none follows, and how long they were waited for.
struct Looked {
    views: Vec<Arc<View>>,
    verdicts: Vec<Verdict>,
    ended: bool,
    waited: Duration,
}

/// What threads share that take views in, look at them, and hand them to an adapter.
#[derive(Debug, Default)]
struct Meanwhile<'a> {
    waiting: Waiting,
    /// Of what the views show, where pixels may be left out.
    survey: Option<&'a Survey<'a>>,
    /// Nothing is left to do of the views but to take them in.
    settled: bool,
    /// The camera of some view was moved.
    moved: AtomicBool,
    /// No view follows.
    all: AtomicBool,
}

impl Meanwhile<'_> {
    /// All views so far stay whole, however many follow that show no more than they do.
    fn all_stay(&self) -> bool {
        !self.survey.is_some_and(Survey::has_begun)
    }

    /// What becomes of the rows of all views, once all have come. What a part of them shows says nothing of what all do.
    fn decide(&self) -> Decision {
        let survey = self.survey.filter(|_| self.all.load(Ordering::Relaxed));
        let workers = match self.settled {
            true => Workers::Pool,
            false => Workers::Own,
        };
        survey.map_or(Decision::AllFit, |survey| {
            timed("looks", || self.waiting.await_looks());
            timed("thinning", || survey.decide(workers))
        })
    }
}

/// What was done to one view.
#[derive(Clone, Copy, Debug)]
struct Done {
    verdict: Verdict,
    gain: f64,
}

impl<'a> Refiner<'a> {
    /// Views will be compared with `original`.
    pub(super) fn new(mode: Refine, memory: Memory, original: &'a Original) -> Self {
        let (positions, triangles) = original.shape();
        Self {
            mode,
            shape: Shape {
                frame: original.frame(),
                positions,
                triangles,
            },
            early: Early::default(),
            held_bytes: held_bytes(memory),
            held: mode != Refine::Off,
            survey: None,
            decision: Decision::AllFit,
            ready: VecDeque::new(),
            taken: 0,
            ended: false,
            done: HashMap::new(),
            exposure: ExposureFate::default(),
            spread: None,
        }
    }

    /// Looks at views that come before the mesh, until `next_view` yields none.
    ///
    /// # Errors
    /// Those of `next_view`.
    pub(super) fn look_early(
        &mut self,
        progress: &dyn Progress,
        clock: &mut PhaseClock,
        mut next_view: impl FnMut() -> Result<Option<View>, Failure>,
    ) -> Result<(), Failure> {
        self.held = true;
        let begun = Instant::now();
        // Nobody takes them in yet.
        let (hand, _) = mpsc::channel();
        let nobody = Meanwhile {
            waiting: Waiting::for_few(rayon::current_num_threads().div_ceil(SHARE)),
            ..Meanwhile::default()
        };
        let looked = self.look(progress, &mut next_view, hand, &nobody, Early::default())?;
        self.early = Early {
            views: looked.views,
            verdicts: looked.verdicts,
            settled: false,
        };
        let worked = begun.elapsed().saturating_sub(looked.waited);
        clock.add(self.phase(), worked.as_secs_f64() * 1e3);
        Ok(())
    }

    /// Those views are all: their cameras and exposures are what they stay.
    pub(super) fn settle(&mut self, progress: &dyn Progress, clock: &mut PhaseClock) {
        let begun = Instant::now();
        let Early {
            views,
            mut verdicts,
            ..
        } = std::mem::take(&mut self.early);
        self.ended = true;
        let gains = self.judge(progress, &views, &mut verdicts);
        self.early = Early {
            views: self.mended(views, verdicts, gains).map(Arc::new).collect(),
            verdicts: Vec::new(),
            settled: true,
        };
        clock.add(self.phase(), begun.elapsed().as_secs_f64() * 1e3);
    }

    /// What settled views show of this atlas, if some of it may be left out; without them, nothing is known yet.
    pub(super) fn look_settled<'b>(
        &self,
        progress: &dyn Progress,
        scene: &'b Scene,
        atlas: &'b Atlas,
    ) -> Sightings<'b> {
        let looked = timed("cells", || Sightings::new(scene, atlas));
        if self.early.settled {
            timed("looks", || {
                let views = self.early.views.par_iter();
                let pixels: usize = views.clone().map(|view| view.counting()).sum();
                if pixels as f64 > thin::enough(atlas) {
                    looked.begin();
                    views.for_each(|view| {
                        progress
                            .expect("what a view shows of the texture", a_look(self.shape, view));
                        looked.look(view);
                        unit();
                    });
                }
            });
        }
        looked
    }

    /// Leaves out what many views show of the atlas, where their rows do not fit the memory or others show it better; see
    /// [`Self::thinning`].
    pub(super) fn thin(&mut self, thinner: Thinner<'a>, looked: Sightings<'a>) {
        self.held = true;
        self.survey = Some(Survey::of_looked(thinner, looked));
    }

    /// What is to be left out of each view, once the first of them is there.
    pub(super) fn thinning(&self) -> Option<&Thinning> {
        self.decision.thinning()
    }

    /// Whether the views have more rows than fit, and more than can be left out; known once the first of them is there.
    pub(super) fn too_many(&self) -> bool {
        matches!(self.decision, Decision::TooMany(_))
    }

    /// In which phase the first view is awaited.
    pub(super) fn phase(&self) -> Phase {
        match self.mode {
            Refine::Off => Phase::Raster,
            Refine::Auto | Refine::On => Phase::Refine,
        }
    }

    /// The next view of the fit, of those that `next_view` yields, and whether `ahead` has it already.
    ///
    /// # Errors
    /// Those of `next_view` and of `ahead`.
    pub(super) fn next(
        &mut self,
        progress: &dyn Progress,
        clock: &mut PhaseClock,
        mut next_view: impl FnMut() -> Result<Option<View>, Failure>,
        ahead: Option<&mut dyn Ahead>,
    ) -> Result<Option<(View, bool)>, Failure> {
        if !self.held {
            return Ok(fitted(&mut next_view)?.map(|view| (view, false)));
        }
        if self.ready.is_empty() && (!self.ended || self.early.settled) {
            let begun = Instant::now();
            let [elsewhere, took] = self.fill(progress, &mut next_view, ahead)?;
            let worked = begun.elapsed().saturating_sub(elsewhere + took);
            clock.add(self.phase(), worked.as_secs_f64() * 1e3);
            if took > Duration::ZERO {
                clock.add(Phase::Raster, took.as_secs_f64() * 1e3);
            }
        }
        let taken = self.taken > 0;
        self.taken = self.taken.saturating_sub(1);
        Ok(self.ready.pop_front().map(|view| (view, taken)))
    }

    /// Takes views in, as many as may be held, and refines them, while `ahead` takes the first ones as they came, on a thread of
    /// its own; returns how long it waited for views, and at the end for `ahead`.
    fn fill(
        &mut self,
        progress: &dyn Progress,
        next_view: &mut impl FnMut() -> Result<Option<View>, Failure>,
        ahead: Option<&mut dyn Ahead>,
    ) -> Result<[Duration; 2], Failure> {
        let early = std::mem::take(&mut self.early);
        let settled = early.settled;
        let first = settled || self.done.is_empty();
        let mut ahead = ahead.filter(|_| first);
        // Looks of a first fill are all that it decides by.
        let survey = self.survey.take().filter(|_| first);
        let moves = |verdict: &Verdict| verdict.fate == CameraFate::Moved;
        let meanwhile = Meanwhile {
            survey: survey.as_ref(),
            settled,
            moved: AtomicBool::new(early.verdicts.iter().any(moves)),
            ..Meanwhile::default()
        };
        let (hand, handed) = mpsc::channel::<Arc<View>>();
        let pass = ahead.as_ref().map(|ahead| ahead.pass());
        let (views, verdicts, gains, took, times) = thread::scope(|threads| {
            let taker = ahead.as_deref_mut().and_then(|ahead| {
                let meanwhile = &meanwhile;
                let take = move || {
                    let moved = || meanwhile.moved.load(Ordering::Relaxed);
                    let (mut views, mut taken) = (Vec::new(), 0);
                    for view in handed {
                        // All settled ones are taken at once.
                        if !settled && meanwhile.all_stay() && !moved() {
                            ahead.take(&[&view], None)?;
                            taken += 1;
                        }
                        views.push(view);
                    }
                    let decision = meanwhile.decide();
                    if !matches!(decision, Decision::AllFit) && taken > 0 {
                        ahead.forget()?;
                        taken = 0;
                    }
                    if let Decision::TooMany(_) = decision {
                        views.clear();
                    }
                    let left: Vec<&View> = (views.iter().skip(taken)).map(|view| &**view).collect();
                    if !moved() && !left.is_empty() {
                        ahead.take(&left, decision.thinning())?;
                        taken += left.len();
                    }
                    Ok::<_, Failure>(Took {
                        taken,
                        decision,
                        steps: laps::take(),
                    })
                };
                // Without a thread, nothing is taken ahead.
                let builder = thread::Builder::new().name("ahead".to_owned());
                builder.spawn_scoped(threads, take).ok()
            });
            let Looked {
                views,
                mut verdicts,
                ended,
                waited,
            } = self.look(progress, next_view, hand, &meanwhile, early)?;
            self.ended = ended;
            let gains = match settled {
                true => Vec::new(),
                false => self.judge(progress, &views, &mut verdicts),
            };
            let begun = Instant::now();
            // What was said of the views would hold while nobody but the adapter is at work.
            if let Some(pass) = pass {
                progress.expect("views that are drawn ahead", pass);
            }
            let took = match taker.map(ScopedJoinHandle::join) {
                None => Took {
                    taken: 0,
                    decision: meanwhile.decide(),
                    steps: Vec::new(),
                },
                Some(Ok(took)) => took?,
                Some(Err(panic)) => std::panic::resume_unwind(panic),
            };
            Ok::<_, Failure>((views, verdicts, gains, took, [waited, begun.elapsed()]))
        })?;
        laps::add(took.steps);
        let mut taken = took.taken;
        if first {
            self.decision = took.decision;
        }
        let stays =
            |(verdict, gain): (&Verdict, &f64)| verdict.fate != CameraFate::Moved && *gain == 1.0;
        if let Some(ahead) = ahead
            && !verdicts.iter().zip(&gains).take(taken).all(stays)
        {
            ahead.forget()?;
            taken = 0;
        }
        self.taken = taken;
        if settled {
            self.ready = views.into_iter().map(Arc::unwrap_or_clone).collect();
        } else {
            self.ready = self.mended(views, verdicts, gains).collect();
        }
        Ok(times)
    }

    /// What is to be divided out of each of the views, of which some cameras stay after all.
    fn judge(
        &mut self,
        progress: &dyn Progress,
        views: &[Arc<View>],
        verdicts: &mut [Verdict],
    ) -> Vec<f64> {
        if self.mode == Refine::Auto {
            keep_if_most_agree(verdicts, views);
        }
        if self.mode != Refine::Off && self.done.is_empty() && self.ended {
            return self.expose(progress, views, verdicts);
        }
        self.exposure = ExposureFate::TooLarge;
        vec![1.0; views.len()]
    }

    /// Views with these cameras, and these exposures divided out; which is noted.
    fn mended(
        &mut self,
        views: Vec<Arc<View>>,
        verdicts: Vec<Verdict>,
        gains: Vec<f64>,
    ) -> impl Iterator<Item = View> {
        let both = || verdicts.iter().zip(&gains);
        let done = both().map(|(&verdict, &gain)| Done { verdict, gain });
        (self.done).extend(views.iter().map(|view| view.index).zip(done));
        let mended = |((view, verdict), gain): ((Arc<View>, Verdict), f64)| {
            let mut view = Arc::unwrap_or_clone(view);
            view.camera = verdict.camera;
            if gain != 1.0 {
                exposure::divide(&mut view, gain);
            }
            view
        };
        views.into_iter().zip(verdicts).zip(gains).map(mended)
    }

    /// Takes views in and looks at them, each as it comes, after those that were looked at `early`; `hand` is given all of them. What
    /// they show is surveyed once that is more than surely stays.
    fn look(
        &self,
        progress: &dyn Progress,
        next_view: &mut impl FnMut() -> Result<Option<View>, Failure>,
        hand: mpsc::Sender<Arc<View>>,
        meanwhile: &Meanwhile<'_>,
        early: Early,
    ) -> Result<Looked, Failure> {
        let before = (self.done.len() + early.verdicts.len()) as u64;
        let count = AtomicU64::new(before);
        let phase = self.phase();
        progress.progress(phase, before, 0);
        let (sender, results) = mpsc::channel();
        let (shape, mode) = (self.shape, self.mode);
        let mut ended = self.ended;
        let mut waited = Duration::ZERO;
        let mut views: Vec<Arc<View>> = Vec::new();
        let Meanwhile {
            waiting,
            survey,
            moved,
            all,
            ..
        } = meanwhile;
        // What settled views show was looked at, where it is asked for.
        let survey = survey.filter(|survey| !survey.has_begun());
        let work = |task: Task, sender: &mpsc::Sender<_>| match task {
            Task::Look(view) => {
                progress.expect("what a view shows of the texture", a_look(shape, &view));
                if let Some(survey) = survey {
                    survey.look(&view);
                }
            }
            Task::Compare(number, view) => {
                progress.expect("the silhouette of a view", a_look(shape, &view));
                let verdict = camera::refine(shape, &view, mode);
                if verdict.fate == CameraFate::Moved {
                    moved.store(true, Ordering::Relaxed);
                }
                // Nobody listens any more when a later view has failed.
                let _unheard = sender.send((number, verdict));
                let done = count.fetch_add(1, Ordering::Relaxed) + 1;
                progress.progress(phase, done, 0);
            }
        };
        let work = &work;
        rayon::in_place_scope(|scope| {
            let another = || {
                let sender = sender.clone();
                scope.spawn(move |_| {
                    while let Some((task, _looking)) = waiting.next() {
                        work(task, &sender);
                    }
                });
            };
            let add = |task| {
                if waiting.add(task) {
                    another();
                }
            };
            let (mut bytes, mut pixels) = (0, 0);
            let mut came = early.views.into_iter();
            all.store(ended, Ordering::Relaxed);
            loop {
                let view = if let Some(view) = came.next() {
                    view
                } else if ended || bytes >= self.held_bytes {
                    break;
                } else {
                    let begun = Instant::now();
                    let view = fitted(next_view)?;
                    waited += begun.elapsed();
                    let Some(view) = view.map(Arc::new) else {
                        ended = true;
                        all.store(true, Ordering::Relaxed);
                        break;
                    };
                    add(Task::Compare(views.len(), Arc::clone(&view)));
                    view
                };
                bytes += size_of_val(view.pixels.as_slice());
                views.push(Arc::clone(&view));
                if let Some(survey) = survey {
                    let mut first = views.len() - 1;
                    if !survey.has_begun() {
                        pixels += view.counting();
                        if pixels as f64 > survey.surely() {
                            survey.begin();
                            first = 0;
                        }
                    }
                    if survey.has_begun() {
                        for view in &views[first..] {
                            add(Task::Look(Arc::clone(view)));
                        }
                    }
                }
                // Nobody takes views ahead, or no longer does.
                let _unheard = hand.send(view);
            }
            (0..waiting.for_all()).for_each(|_| another());
            drop(hand);
            Ok::<(), Failure>(())
        })?;
        drop(sender);
        let mut results: Vec<(usize, Verdict)> = results.into_iter().collect();
        results.sort_by_key(|(number, _)| *number);
        let mut verdicts = early.verdicts;
        verdicts.extend(results.into_iter().map(|(_, verdict)| verdict));
        Ok(Looked {
            views,
            verdicts,
            ended,
            waited,
        })
    }

    /// How all the views are exposed; returns what is to be divided out of each.
    fn expose(
        &mut self,
        progress: &dyn Progress,
        views: &[Arc<View>],
        verdicts: &[Verdict],
    ) -> Vec<f64> {
        let mut gains = vec![1.0; views.len()];
        let (shape, count) = (self.shape, views.len() as u64);
        let grid = Grid::of(views, shape);
        let light = |sums: &mut Sums, (view, verdict): (&Arc<View>, &Verdict)| {
            progress.expect("the light of a view", a_look(shape, view));
            let samples = gain::samples(shape, view, &verdict.camera, grid, sums);
            progress.progress(Phase::Refine, count, count);
            samples
        };
        let both = views.par_iter().zip(verdicts);
        let samples: Vec<Vec<_>> = timed("light", || both.map_init(Sums::default, light).collect());
        progress.expect(
            "how views are exposed",
            each(samples.iter().map(Vec::len).sum(), pace::AGREE_POINT),
        );
        let Some(exposures) = timed_in_pool("exposures", || gain::solve(&samples)) else {
            self.exposure = ExposureFate::Unknown;
            return gains;
        };
        let known: Vec<f64> = exposures.logs.iter().flatten().copied().collect();
        let squares: f64 = known.iter().map(|log| log * log).sum();
        let spread = (squares / known.len() as f64).sqrt();
        self.spread = Some(spread);
        let [before, after] = exposures.deviation;
        tracing::debug!(spread, before, after, "exposures");
        let better = match self.mode {
            Refine::Off => false,
            Refine::Auto => spread > LEAST_SPREAD && after <= LEFT * before,
            Refine::On => after < before,
        };
        if better {
            for (gain, log) in gains.iter_mut().zip(exposures.logs) {
                let known = log.map(f64::exp);
                *gain = known.filter(|&gain| exposure::matters(gain)).unwrap_or(1.0);
            }
            if gains.iter().any(|&gain| gain != 1.0) {
                self.exposure = ExposureFate::Evened;
            }
        }
        gains
    }

    /// Does to a view that comes again what was done to it the first time.
    pub(super) fn repeat(&self, view: &mut View) {
        if let Some(done) = self.done.get(&view.index) {
            view.camera = done.verdict.camera;
            if done.gain != 1.0 {
                exposure::divide(view, done.gain);
            }
        }
    }

    /// Where the camera of a view is by now, if it was looked at.
    pub(super) fn camera(&self, view: u32) -> Option<Camera> {
        self.done.get(&view).map(|done| done.verdict.camera)
    }

    /// Every view of the fit as it is by now; none where all were taken as given.
    pub(super) fn refined(&self) -> Option<Refined> {
        let touched = |done: &Done| done.verdict.fate == CameraFate::Moved || done.gain != 1.0;
        if !self.done.values().any(touched) {
            return None;
        }
        let mut views: Vec<RefinedView> = (self.done.iter())
            .map(|(&index, done)| RefinedView {
                index,
                gain: done.gain as f32,
                camera: done.verdict.camera,
            })
            .collect();
        views.sort_by_key(|view| view.index);
        Some(Refined { views })
    }

    /// Enters what was done into the summary of the bake.
    pub(super) fn enter(&self, summary: &mut BakeSummary) {
        if self.mode == Refine::Off {
            return;
        }
        for fit in &mut summary.views {
            if let Some(done) = self.done.get(&fit.view) {
                fit.camera = done.verdict.fate;
                fit.moved_px = done.verdict.moved as f32;
                fit.gain = done.gain as f32;
            }
        }
        let verdicts = || self.done.values().map(|done| done.verdict);
        let count = |of: &[CameraFate]| {
            let counted = verdicts().filter(|verdict| of.contains(&verdict.fate));
            u32::try_from(counted.count()).unwrap_or(u32::MAX)
        };
        let moved = || verdicts().filter(|verdict| verdict.fate == CameraFate::Moved);
        let median = |which: usize| {
            let mut of: Vec<f64> = verdicts()
                .filter_map(|verdict| Some(verdict.distance?[which]))
                .collect();
            of.sort_by(f64::total_cmp);
            of.get(of.len() / 2).map(|&distance| distance as f32)
        };
        summary.refinement = Some(Refinement {
            mode: self.mode,
            cameras_moved: count(&[CameraFate::Moved]),
            cameras_refused: count(&[CameraFate::OtherOutline, CameraFate::TooFar]),
            directions_held: moved().map(|verdict| verdict.held).max().unwrap_or(0),
            silhouette_before_px: median(0),
            silhouette_after_px: median(1),
            largest_move_px: moved().map(|verdict| verdict.moved).fold(0.0, f64::max) as f32,
            exposure: self.exposure,
            exposure_spread: self.spread.map(|spread| spread as f32),
        });
    }
}

/// The next view that is not only to measure with.
fn fitted(
    next_view: &mut impl FnMut() -> Result<Option<View>, Failure>,
) -> Result<Option<View>, Failure> {
    loop {
        match next_view()? {
            Some(view) if view.holdout => {}
            other => return Ok(other),
        }
    }
}

/// What drawing the mesh once for a view may take.
fn a_look(shape: Shape<'_>, view: &View) -> Duration {
    each(shape.triangles.len(), pace::TRIANGLE) + each(view.pixels.len(), pace::OUTLINE_PIXEL)
}

/// Where most silhouettes that are off stay off, the mesh has another outline than the pictures, and those that seem to
/// fit do so by accident: none is moved.
fn keep_if_most_agree(verdicts: &mut [Verdict], views: &[Arc<View>]) {
    let moved = |verdict: &&Verdict| verdict.fate == CameraFate::Moved;
    let refused = verdicts
        .iter()
        .filter(|verdict| matches!(verdict.fate, CameraFate::OtherOutline | CameraFate::TooFar));
    let refused = refused.count();
    if refused > verdicts.iter().filter(moved).count() {
        for (verdict, view) in verdicts.iter_mut().zip(views) {
            if verdict.fate == CameraFate::Moved {
                verdict.fate = CameraFate::OtherOutline;
                verdict.camera = view.camera;
                verdict.moved = 0.0;
                verdict.distance = verdict.distance.map(|[before, _]| [before; 2]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
