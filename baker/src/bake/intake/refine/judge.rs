//! Judges all views together: which cameras stay after all, and the gain to divide out of each view.

use std::sync::Arc;

use proto::job::Refine;
use proto::message::{CameraFate, ExposureFate, Phase};
use proto::table::View;
use rayon::prelude::*;

use crate::bake::intake::refine::camera::Verdict;
use crate::bake::intake::refine::gain::{self, LightGrid, LightSums};
use crate::bake::intake::refine::intake::drawing;
use crate::bake::intake::refine::{Refiner, exposure};
use crate::worker::pace;
use crate::worker::progress::{Progress, each, unit};
use crate::worker::step_times::{timed, timed_in_pool};

/// Least standard deviation of the exposures' logarithm for `auto`: clean views seem to have 0.001-0.002.
const LEAST_SPREAD: f64 = 0.005;
/// Largest ratio of the views' deviation from each other, after to before, for `auto`.
const LEFT: f64 = 0.95;

impl Refiner<'_> {
    /// The gain to divide out of each of the views. Some cameras are put back.
    pub(super) fn judge(
        &mut self,
        progress: &dyn Progress,
        views: &[Arc<View>],
        verdicts: &mut [Verdict],
    ) -> Vec<f64> {
        if self.mode == Refine::Auto {
            keep_if_most_agree(verdicts, views);
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
        vec![1.0; views.len()]
    }

    /// Solves for the exposures; returns the gain to divide out of each view.
    fn expose(
        &mut self,
        progress: &dyn Progress,
        views: &[Arc<View>],
        verdicts: &[Verdict],
    ) -> Vec<f64> {
        let mut gains = vec![1.0; views.len()];
        let shape = self.shape;
        let grid = LightGrid::of(views, shape);
        let light = |sums: &mut LightSums, (view, verdict): (&Arc<View>, &Verdict)| {
            progress.expect("the light of a view", drawing(shape, view));
            let samples = gain::samples(shape, view, &verdict.camera, grid, sums);
            unit();
            samples
        };
        let both = views.par_iter().zip(verdicts);
        let samples: Vec<Vec<_>> = timed("light", || {
            both.map_init(LightSums::default, light).collect()
        });
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
}

/// Puts all cameras back where most silhouettes that are off stay off. The mesh then has another outline than the
/// pictures, and those that seem to fit do so by accident.
fn keep_if_most_agree(verdicts: &mut [Verdict], views: &[Arc<View>]) {
    let refused = verdicts
        .iter()
        .filter(|verdict| matches!(verdict.fate, CameraFate::OtherOutline | CameraFate::TooFar));
    let refused = refused.count();
    if refused > verdicts.iter().filter(|verdict| verdict.is_moved()).count() {
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
