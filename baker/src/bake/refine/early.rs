//! Views that come before the mesh → the same with their cameras and exposures mended, while that is unwrapped: neither needs an
//! atlas. Once there is one, what they show of it is looked at while the adapter makes its buffers.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use proto::message::Failure;
use proto::table::View;
use rayon::prelude::*;

use super::camera::Verdict;
use super::waiting::Waiting;
use super::{Meanwhile, Refiner, a_look};
use crate::bake::atlas::Atlas;
use crate::bake::scene::Scene;
use crate::bake::surface::Elsewhere;
use crate::bake::thin::{self, Mask, Sightings};
use crate::laps::timed;
use crate::progress::{PhaseClock, Progress, unit};

/// Before the mesh comes, one of so many threads looks at views: the others' cores are for decoding and the unwrap.
const SHARE: usize = 4;

/// Views that came before the mesh.
#[derive(Debug, Default)]
pub(super) struct Early {
    pub(super) views: Vec<Arc<View>>,
    /// What their silhouettes say, as long as they are not settled.
    pub(super) verdicts: Vec<Verdict>,
    /// Where they show another surface, likewise.
    pub(super) elsewhere: Vec<Option<Elsewhere>>,
    /// They are all, and their cameras and exposures what they stay.
    pub(super) settled: bool,
}

impl Refiner<'_> {
    /// Looks at views that come before the mesh, until `next_view` yields none.
    ///
    /// # Errors
    /// Those of `next_view`.
    pub(in crate::bake) fn look_early(
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
            early: true,
            ..Meanwhile::default()
        };
        let looked = self.look(progress, &mut next_view, hand, &nobody, Early::default())?;
        self.early = Early {
            views: looked.views,
            verdicts: looked.verdicts,
            elsewhere: looked.elsewhere,
            settled: false,
        };
        let worked = begun.elapsed().saturating_sub(looked.waited);
        clock.add(self.phase(), worked.as_secs_f64() * 1e3);
        Ok(())
    }

    /// How many views there are so far, and their pixels that lie on the mesh by their alpha; none where one has no alpha.
    pub(in crate::bake) fn opaque_pixels(&self) -> Option<(usize, u64)> {
        let views = &self.early.views;
        let pixels = || views.par_iter().map(|view| view.counting() as u64).sum();
        let opaque = views.iter().all(|view| view.has_alpha);
        opaque.then(|| (views.len(), pixels()))
    }

    /// Those views are all: their cameras and exposures are what they stay.
    pub(in crate::bake) fn settle(&mut self, progress: &dyn Progress, clock: &mut PhaseClock) {
        let begun = Instant::now();
        let Early {
            views,
            mut verdicts,
            elsewhere,
            ..
        } = std::mem::take(&mut self.early);
        self.ended = true;
        let gains = self.judge(progress, &views, &mut verdicts);
        self.early = Early {
            views: (self
                .mended(progress, views, verdicts, gains, elsewhere)
                .into_iter())
            .map(Arc::new)
            .collect(),
            settled: true,
            ..Early::default()
        };
        clock.add(self.phase(), begun.elapsed().as_secs_f64() * 1e3);
    }

    /// What settled views show of this atlas, if some of it may be left out; without them, nothing is known yet.
    pub(in crate::bake) fn look_settled<'b>(
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
}
