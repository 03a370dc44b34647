//! Refines views that come before the mesh, while it is unwrapped: cameras and exposures need no atlas. Once there is
//! an atlas, the views are examined for decimation while the adapter allocates its buffers.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use proto::message::Failure;
use proto::table::View;
use rayon::prelude::*;

use crate::bake::intake::decimate::{self, Mask, Observations};
use crate::bake::intake::refine::Refiner;
use crate::bake::intake::refine::intake::{Examined, Meanwhile, drawing};
use crate::bake::intake::refine::waiting::Waiting;
use crate::bake::model::atlas::Atlas;
use crate::bake::model::scene::Scene;
use crate::worker::progress::{PhaseClock, Progress, unit};
use crate::worker::step_times::timed;

/// Before the mesh comes, one of so many threads examines views: the other cores are for decoding and the unwrap.
const SHARE: usize = 4;

impl Refiner<'_> {
    /// Examines views that come before the mesh, until `next_view` yields none.
    ///
    /// # Errors
    /// Those of `next_view`.
    pub(crate) fn look_early(
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
            masks: self.masks,
            ..Meanwhile::default()
        };
        let intake = self.intake(progress, &nobody);
        let taken = intake.run(&mut next_view, hand, Examined::default(), self.ended)?;
        self.early = taken.examined;
        let worked = begun.elapsed().saturating_sub(taken.waited);
        clock.add(self.phase(), worked.as_secs_f64() * 1e3);
        Ok(())
    }

    /// Number of views so far and of their opaque pixels; none where a view has no alpha.
    pub(crate) fn opaque_pixels(&self) -> Option<(usize, u64)> {
        let views = &self.early.views;
        let pixels = || views.par_iter().map(|view| view.counting() as u64).sum();
        let opaque = views.iter().all(|view| view.has_alpha);
        opaque.then(|| (views.len(), pixels()))
    }

    /// Makes the cameras and exposures of these views final, since no view follows.
    pub(crate) fn settle(&mut self, progress: &dyn Progress, clock: &mut PhaseClock) {
        let begun = Instant::now();
        let mut early = std::mem::take(&mut self.early);
        self.ended = true;
        let gains = self.judge(progress, &early.views, &mut early.verdicts);
        let views = self.mended(progress, early, gains);
        self.early.views = views.into_iter().map(Arc::new).collect();
        self.settled = true;
        clock.add(self.phase(), begun.elapsed().as_secs_f64() * 1e3);
    }

    /// Examines what settled views show of this atlas, if some of it may be left out. Without settled views, nothing is
    /// known yet.
    pub(crate) fn look_settled<'b>(
        &self,
        progress: &dyn Progress,
        scene: &'b Scene,
        atlas: &'b Atlas,
    ) -> Observations<'b> {
        let looked = timed("cells", || Observations::new(scene, atlas));
        if self.settled {
            timed("looks", || {
                let views = self.early.views.par_iter();
                let pixels: usize = views.clone().map(|view| view.counting()).sum();
                if pixels as f64 > decimate::enough(atlas) {
                    looked.begin();
                    views.for_each(|view| {
                        progress.expect(
                            "what a view shows of the texture",
                            drawing(self.shape, view),
                        );
                        looked.look(view);
                        unit();
                    });
                }
            });
        }
        looked
    }
}
