//! Judges all views together: which cameras stay after all, and the gain to divide out of each view.

use std::sync::Arc;

use proto::job::Refine;
use proto::message::{CameraFate, ExposureFate, Phase};
use proto::table::View;
use rayon::prelude::*;

use crate::bake::intake::refine::camera::Verdict;
use crate::bake::intake::refine::exposure::{AS_GIVEN, Gain};
use crate::bake::intake::refine::gain::{self, Exposures, LightGrid, LightSums, Part, Sample};
use crate::bake::intake::refine::intake::drawing;
use crate::bake::intake::refine::{Refiner, exposure};
use crate::worker::pace;
use crate::worker::progress::{Progress, each, unit};
use crate::worker::step_times::{timed, timed_in_pool};

/// Least standard deviation of the exposures' logarithm for `auto`: clean views seem to have 0.001-0.002.
const LEAST_SPREAD: f64 = 0.005;
/// Likewise for white balance: clean views of saturated colours, with cameras half a pixel off, seem to have 0.005-0.007,
/// since the logarithm of a dark channel differs most by what a view shows of a cell.
const LEAST_TINT: f64 = 0.01;
/// Largest ratio of the views' deviation from each other, after to before, for `auto`.
const LEFT: f64 = 0.95;
/// A mask that is grown or shrunk explains a view's silhouette if it leaves at most this share of the distance, and not
/// this many times what a move of the camera leaves: 0.2 and 1 where masks lost half a pixel.
const MASK_LEAVES: f64 = 0.5;
const MASK_BESIDE_MOVE: f64 = 1.5;

impl Refiner<'_> {
    /// The gain to divide out of each of the views. Some cameras are put back.
    pub(super) fn judge(
        &mut self,
        progress: &dyn Progress,
        views: &[Arc<View>],
        verdicts: &mut [Verdict],
    ) -> Vec<Gain> {
        if self.mode == Refine::Auto {
            put_back(verdicts, views);
        }
        if self.ended && self.mode != Refine::Off {
            // No view follows: so many are all.
            let count = (self.done.len() + views.len()) as u64;
            progress.progress(Phase::Refine, count, count);
        }
        if self.mode != Refine::Off && self.done.is_empty() && self.ended {
            return self.expose(progress, views, verdicts);
        }
        self.exposure = ExposureFate::TooLarge;
        vec![AS_GIVEN; views.len()]
    }

    /// Solves for the exposures; returns the gain to divide out of each view.
    fn expose(
        &mut self,
        progress: &dyn Progress,
        views: &[Arc<View>],
        verdicts: &[Verdict],
    ) -> Vec<Gain> {
        let mut gains = vec![AS_GIVEN; views.len()];
        let shape = self.shape;
        let grid = LightGrid::of(views, shape);
        let light = |sums: &mut LightSums, (view, verdict): (&Arc<View>, &Verdict)| {
            progress.expect("the light of a view", drawing(shape, view));
            let samples = gain::samples(shape, view, &verdict.camera, grid, sums);
            unit();
            samples
        };
        let both = views.par_iter().zip(verdicts);
        let samples: Vec<Vec<Sample>> = timed("light", || {
            both.map_init(LightSums::default, light).collect()
        });
        progress.expect(
            "how views are exposed",
            each(
                3 * samples.iter().map(Vec::len).sum::<usize>(),
                pace::AGREE_POINT,
            ),
        );
        let (exposure, tint) = timed_in_pool("exposures", || {
            let groups = gain::groups(&samples);
            let solve = |part| gain::solve(&samples, &groups, part);
            (solve(Part::Exposure), [Part::Red, Part::Blue].map(solve))
        });
        let Some(exposure) = exposure else {
            self.exposure = ExposureFate::Unknown;
            return gains;
        };
        self.spread = Some(spread(&[&exposure]));
        let none = vec![None; views.len()];
        let logs = |of: &[&Exposures], least| match self.is_better(of, least) {
            true => of.iter().map(|of| of.logs.clone()).collect(),
            false => vec![none.clone(); of.len()],
        };
        let mut all = logs(&[&exposure], LEAST_SPREAD);
        all.extend(match &tint {
            [Some(red), Some(blue)] => logs(&[red, blue], LEAST_TINT),
            _ => Vec::new(),
        });
        for (view, gain) in gains.iter_mut().enumerate() {
            let log = |part: Part| all.get(part as usize).and_then(|logs| logs[view]);
            let [mean, red, blue] =
                [Part::Exposure, Part::Red, Part::Blue].map(|part| log(part).unwrap_or(0.0));
            let known = [red, -red - blue, blue].map(|tint| (mean + tint).exp());
            if exposure::matters(known) {
                *gain = known;
                self.exposure = ExposureFate::Evened;
            }
        }
        gains
    }

    /// Whether dividing these out brings the views closer to each other; for `auto`, of a spread above `least`.
    fn is_better(&self, of: &[&Exposures], least: f64) -> bool {
        let sum = |which: usize| of.iter().map(|of| of.deviation[which]).sum::<f64>();
        let (spread, [before, after]) = (spread(of), [0, 1].map(sum));
        tracing::debug!(spread, before, after, "exposures");
        match self.mode {
            Refine::Off => false,
            Refine::Auto => spread > least && after <= LEFT * before,
            Refine::On => after < before,
        }
    }
}

/// Standard deviation of the known logarithms of all of these.
fn spread(of: &[&Exposures]) -> f64 {
    let known: Vec<f64> = (of.iter().flat_map(|of| &of.logs))
        .flatten()
        .copied()
        .collect();
    let squares: f64 = known.iter().map(|log| log * log).sum();
    (squares / known.len() as f64).sqrt()
}

/// Puts all cameras back where most silhouettes that are off stay off, or are off as their masks are. In the first case
/// the mesh has another outline than the pictures, and those that seem to fit do so by accident. In the second, the six
/// directions of a camera would imitate a mask that was shrunk or grown: a box of 18 views whose masks lost half a pixel
/// is fitted with 44 dB, and with 37 where its cameras follow the masks.
fn put_back(verdicts: &mut [Verdict], views: &[Arc<View>]) {
    let count =
        |of: &dyn Fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| of(verdict)).count();
    let moved = count(&Verdict::is_moved);
    let refused = count(&is_refused);
    let masks =
        count(&|verdict| is_of_mask(verdict, 1.0)).max(count(&|verdict| is_of_mask(verdict, -1.0)));
    if refused > moved || 2 * masks > moved + refused {
        for (verdict, view) in verdicts.iter_mut().zip(views) {
            if verdict.is_moved() {
                verdict.fate = CameraFate::OtherOutline;
                verdict.camera = view.camera;
                verdict.moved = 0.0;
                verdict.distance = verdict.distance.map(|[before, _]| [before; 2]);
            }
        }
    }
}

fn is_refused(verdict: &Verdict) -> bool {
    matches!(verdict.fate, CameraFate::OtherOutline | CameraFate::TooFar)
}

/// Whether a mask that is grown (`sign` 1) or shrunk (-1) explains a silhouette that is off as well as a move does.
fn is_of_mask(verdict: &Verdict, sign: f64) -> bool {
    let Some([before, after]) = verdict.distance.filter(|_| sign * verdict.width > 0.0) else {
        return false;
    };
    let left = (before.powi(2) - verdict.width.powi(2)).max(0.0).sqrt();
    let by_move = if verdict.is_moved() { after } else { before };
    left <= MASK_LEAVES * before && left <= MASK_BESIDE_MOVE * by_move
}
