//! Reports what was done to each view, and repeats it on views that come again.

use proto::job::Refine;
use proto::message::{CameraFate, Refinement, ViewFit};
use proto::table::{Camera, Refined, RefinedView, View};

use crate::bake::intake::refine::camera::Verdict;
use crate::bake::intake::refine::exposure::AS_GIVEN;
use crate::bake::intake::refine::{Done, Refiner, exposure};

impl Refiner<'_> {
    /// Applies to a view that comes again what was done to it the first time.
    pub(crate) fn repeat(&self, view: &mut View) {
        if let Some(done) = self.done.get(&view.index) {
            view.camera = done.verdict.camera;
            if done.gain != AS_GIVEN {
                exposure::divide(view, done.gain);
            }
        }
    }

    /// The present camera of a view, if the view was examined.
    pub(crate) fn camera(&self, view: u32) -> Option<Camera> {
        self.done.get(&view).map(|done| done.verdict.camera)
    }

    /// Camera and gain of every fitted view; none where all were taken as given.
    pub(crate) fn refined(&self) -> Option<Refined> {
        let touched = |done: &Done| done.verdict.is_moved() || done.gain != AS_GIVEN;
        if !self.done.values().any(touched) {
            return None;
        }
        let mut views: Vec<RefinedView> = (self.done.iter())
            .map(|(&index, done)| RefinedView {
                index,
                gain: done.gain.map(|gain| gain as f32),
                camera: done.verdict.camera,
            })
            .collect();
        views.sort_by_key(|view| view.index);
        Some(Refined { views })
    }

    /// Enters what was done into the report of each view, and returns the refinement's own; none if nobody asked for it.
    pub(crate) fn enter(&self, views: &mut [ViewFit]) -> Option<Refinement> {
        if self.mode == Refine::Off {
            return None;
        }
        for fit in views {
            if let Some(done) = self.done.get(&fit.view) {
                fit.camera = done.verdict.fate;
                fit.moved_px = done.verdict.moved as f32;
                fit.gain = done.gain.iter().product::<f64>().cbrt() as f32;
                fit.channel_gains = done.gain.map(|gain| gain as f32);
            }
        }
        let verdicts = || self.done.values().map(|done| done.verdict);
        let count = |of: &[CameraFate]| {
            let counted = verdicts().filter(|verdict| of.contains(&verdict.fate));
            u32::try_from(counted.count()).unwrap_or(u32::MAX)
        };
        let moved = || verdicts().filter(Verdict::is_moved);
        let median = |which: usize| {
            let mut of: Vec<f64> = verdicts()
                .filter_map(|verdict| Some(verdict.distance?[which]))
                .collect();
            of.sort_by(f64::total_cmp);
            of.get(of.len() / 2).map(|&distance| distance as f32)
        };
        Some(Refinement {
            mode: self.mode,
            cameras_moved: count(&[CameraFate::Moved]),
            cameras_refused: count(&[CameraFate::OtherOutline, CameraFate::TooFar]),
            directions_held: moved().map(|verdict| verdict.held).max().unwrap_or(0),
            silhouette_before_px: median(0),
            silhouette_after_px: median(1),
            largest_move_px: moved().map(|verdict| verdict.moved).fold(0.0, f64::max) as f32,
            exposure: self.exposure,
            exposure_spread: self.spread.map(|spread| spread as f32),
        })
    }
}
