//! Views as they come, from any thread → what they show of the surface, and in the end the decision on their rows.
//!
//! What they show needs an atlas, and no adapter: settled views are looked at while its buffers are made.

use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use super::cells::{Cells, Look};
use super::shown::{Counts, Shown};
use super::{
    Decision, ENOUGH, Mask, Need, PLANNED, STRIDE, Thinner, Thinning, Workers, entries, wanted,
};
use crate::bake::atlas::Atlas;
use crate::bake::scene::Scene;

/// What views show of an atlas.
#[derive(Debug)]
pub(in crate::bake) struct Sightings<'a> {
    cells: Cells<'a>,
    /// From when it began.
    counts: OnceLock<Counts>,
    looks: Mutex<Vec<Look>>,
}

impl<'a> Sightings<'a> {
    /// Of no view yet.
    pub(in crate::bake) fn new(scene: &'a Scene, atlas: &Atlas) -> Self {
        Self {
            cells: Cells::new(scene, atlas),
            counts: OnceLock::new(),
            looks: Mutex::default(),
        }
    }

    /// From here on all views must be looked at.
    pub(in crate::bake) fn begin(&self) {
        self.counts.get_or_init(|| Counts::new(&self.cells, STRIDE));
    }

    /// Looks at a view, if it has begun.
    pub(in crate::bake) fn look(&self, mask: &impl Mask) {
        let Some(counts) = self.counts.get() else {
            return;
        };
        let look = self.cells.look(mask, STRIDE);
        counts.enter(&look);
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.push(look);
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(in crate::bake) struct Survey<'a> {
    thinner: Thinner<'a>,
    looked: Sightings<'a>,
}

impl<'a> Survey<'a> {
    /// Of the views that were looked at.
    pub(in crate::bake) fn of_looked(thinner: Thinner<'a>, looked: Sightings<'a>) -> Self {
        Self { thinner, looked }
    }

    /// Of so many pixels that count none is left out, and no view need be looked at.
    pub(in crate::bake) fn surely(&self) -> f64 {
        self.thinner.surely()
    }

    /// Now there are more; from here on all views must be looked at.
    pub(in crate::bake) fn begin(&self) {
        self.looked.begin();
    }

    /// There are more.
    pub(in crate::bake) fn has_begun(&self) -> bool {
        self.looked.counts.get().is_some()
    }

    /// What becomes of the rows of these views.
    pub(in crate::bake) fn of(thinner: Thinner<'a>, masks: &[impl Mask]) -> Decision {
        let pixels = masks.par_iter().map(Mask::counting).sum::<usize>();
        if pixels as f64 <= thinner.surely() {
            return Decision::AllFit;
        }
        let survey = Self::of_looked(thinner, Sightings::new(thinner.scene, thinner.atlas));
        survey.begin();
        masks.par_iter().for_each(|mask| survey.look(mask));
        survey.decide(Workers::Pool)
    }

    /// Looks at a view, if it has begun.
    pub(in crate::bake) fn look(&self, mask: &impl Mask) {
        self.looked.look(mask);
    }

    /// All views were looked at.
    pub(in crate::bake) fn decide(&self, workers: Workers) -> Decision {
        let Some(counts) = self.looked.counts.get() else {
            return Decision::AllFit;
        };
        let looks = (self.looked.looks.lock()).unwrap_or_else(PoisonError::into_inner);
        let shown = counts.shown(&self.looked.cells, ENOUGH);
        let rows = PLANNED * self.thinner.memory.rows(entries(&shown, self.thinner.taps));
        let fine = Thinning::of(&looks, &shown, |_| Need::ALL, workers);
        let (all, kept) = (fine.pixels, fine.staying());
        let wanted = (kept > rows).then(|| wanted(&shown, rows));
        tracing::debug!(all, kept, rows, ?wanted, "thinning");
        match wanted {
            None => fine.if_any().map_or(Decision::AllFit, Decision::Thinned),
            Some(None) => Decision::TooMany(fine.if_any()),
            Some(Some(wanted)) => {
                let need = |cell: &Shown| wanted.of(cell);
                Decision::Thinned(Thinning::of(&looks, &shown, need, workers))
            }
        }
    }
}
