//! Collects the observations of the surface, view by view and from any thread, and finally decides on the rows.
//!
//! Observations need an atlas but no adapter: settled views are examined while the adapter's buffers are made.

use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use crate::bake::intake::decimate::cells::{Cells, Observation};
use crate::bake::intake::decimate::shown::{LevelCounts, ShownCell};
use crate::bake::intake::decimate::{
    Decimation, Decimator, Decision, ENOUGH, Mask, Need, PLANNED, STRIDE, Workers, entries, wanted,
};
use crate::bake::model::atlas::Atlas;
use crate::bake::model::scene::Scene;

/// Observations of an atlas.
#[derive(Debug)]
pub(crate) struct Observations<'a> {
    cells: Cells<'a>,
    /// Set once it has begun.
    counts: OnceLock<LevelCounts>,
    observations: Mutex<Vec<Observation>>,
}

impl<'a> Observations<'a> {
    pub(crate) fn new(scene: &'a Scene, atlas: &Atlas) -> Self {
        Self {
            cells: Cells::new(scene, atlas),
            counts: OnceLock::new(),
            observations: Mutex::default(),
        }
    }

    /// Starts counting: from here on all views must be examined.
    pub(crate) fn begin(&self) {
        self.counts
            .get_or_init(|| LevelCounts::new(&self.cells, STRIDE));
    }

    /// Examines a view, if counting has begun.
    pub(crate) fn look(&self, mask: &impl Mask) {
        let Some(counts) = self.counts.get() else {
            return;
        };
        let observation = self.cells.look(mask, STRIDE);
        counts.enter(&observation);
        let mut observations = self
            .observations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        observations.push(observation);
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Survey<'a> {
    decimator: Decimator<'a>,
    seen: Observations<'a>,
}

impl<'a> Survey<'a> {
    /// Continues from the views already examined.
    pub(crate) fn of_looked(decimator: Decimator<'a>, seen: Observations<'a>) -> Self {
        Self { decimator, seen }
    }

    /// Up to so many opaque pixels none is left out, and no view need be examined.
    pub(crate) fn surely(&self) -> f64 {
        self.decimator.surely()
    }

    /// Starts counting, since there are more: from here on all views must be examined.
    pub(crate) fn begin(&self) {
        self.seen.begin();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.seen.counts.get().is_some()
    }

    /// The decision for all of these views.
    pub(crate) fn of(decimator: Decimator<'a>, masks: &[impl Mask]) -> Decision {
        let pixels = masks.par_iter().map(Mask::counting).sum::<usize>();
        if pixels as f64 <= decimator.surely() {
            return Decision::AllFit;
        }
        let survey = Self::of_looked(
            decimator,
            Observations::new(decimator.scene, decimator.atlas),
        );
        survey.begin();
        masks.par_iter().for_each(|mask| survey.look(mask));
        survey.decide(Workers::Pool)
    }

    /// Examines a view, if counting has begun.
    pub(crate) fn look(&self, mask: &impl Mask) {
        self.seen.look(mask);
    }

    /// Decides, once all views were examined.
    pub(crate) fn decide(&self, workers: Workers) -> Decision {
        let Some(counts) = self.seen.counts.get() else {
            return Decision::AllFit;
        };
        let observations = (self.seen.observations.lock()).unwrap_or_else(PoisonError::into_inner);
        let shown = counts.shown(&self.seen.cells, ENOUGH);
        let rows = PLANNED
            * self
                .decimator
                .memory
                .rows(entries(&shown, self.decimator.taps));
        let fine = Decimation::of(&observations, &shown, |_| Need::ALL, workers);
        let (all, kept) = (fine.pixels, fine.staying());
        let wanted = (kept > rows).then(|| wanted(&shown, rows));
        tracing::debug!(all, kept, rows, ?wanted, "decimation");
        match wanted {
            None => fine.if_any().map_or(Decision::AllFit, Decision::Decimated),
            Some(None) => Decision::TooMany(fine.if_any()),
            Some(Some(wanted)) => {
                let need = |cell: &ShownCell| wanted.of(cell);
                Decision::Decimated(Decimation::of(&observations, &shown, need, workers))
            }
        }
    }
}
