//! Makes views final: moves their cameras, divides exposures out, and masks pixels that show another surface than the
//! simplified mesh.

use std::sync::Arc;

use proto::table::View;
use rayon::prelude::*;

use crate::bake::intake::refine::exposure::{AS_GIVEN, Gain};
use crate::bake::intake::refine::intake::{Examined, masking};
use crate::bake::intake::refine::{Done, Refiner, exposure};
use crate::bake::intake::surface::Elsewhere;
use crate::worker::progress::Progress;
use crate::worker::step_times::timed;

impl Refiner<'_> {
    /// Applies cameras, exposures and masks to the views, and remembers what was done.
    pub(super) fn mended(
        &mut self,
        progress: &dyn Progress,
        examined: Examined,
        gains: Vec<Gain>,
    ) -> Vec<View> {
        let Examined {
            views,
            verdicts,
            elsewhere,
        } = examined;
        let both = || verdicts.iter().zip(&gains);
        let done = both().map(|(&verdict, &gain)| Done { verdict, gain });
        (self.done).extend(views.iter().map(|view| view.index).zip(done));
        let masks = self.masks;
        let mend = |view: Arc<View>, camera, gain, elsewhere: Option<Elsewhere>| {
            let mut view = Arc::unwrap_or_clone(view);
            view.camera = camera;
            if gain != AS_GIVEN {
                exposure::divide(&mut view, gain);
            }
            let known = elsewhere.filter(|known| known.camera == view.camera);
            match (known, masks) {
                (Some(known), Some(_)) => known.take_out_of(&mut view),
                (None, Some(masks)) => {
                    progress.expect("the surface before simplification", masking(masks, &view));
                    masks.mask(&mut view);
                }
                (_, None) => {}
            }
            view
        };
        let views = (views.into_par_iter().zip(verdicts)).zip(gains.into_par_iter().zip(elsewhere));
        timed("mended", || {
            let views = views.map(|((view, verdict), (gain, elsewhere))| {
                mend(view, verdict.camera, gain, elsewhere)
            });
            views.collect()
        })
    }
}
