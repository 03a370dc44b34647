//! Observations of all views → how many pixels of how many views show each cell, how coarsely, and which of those are
//! fine enough to drop the others.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::bake::intake::decimate::cells::{Cells, LEVELS, Observation, SHARP};
use crate::bake::model::raster::NOTHING;

/// A texel has enough fine pixels if it has so many, of so many views.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enough {
    pub(super) pixels: f64,
    pub(super) views: f64,
}

/// Counters of each cell by level of coarseness.
#[derive(Debug)]
pub(super) struct LevelCounts {
    /// Pixels that a sample stands for.
    pixels: f64,
    /// Samples of all views.
    samples: Vec<AtomicU32>,
    /// Views, each at the level of its finest sample.
    views: Vec<AtomicU32>,
}

/// What the views show of a cell, as far as it is fine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ShownCell {
    pub(super) texels: f64,
    /// Fine pixels of all views together.
    pub(super) pixels: f64,
    /// Number of views with fine pixels.
    pub(super) views: f64,
    /// Coarsest level that still counts as fine.
    pub(super) coarsest: u8,
}

impl ShownCell {
    /// Whether the cell is shown enough.
    pub(super) fn is_enough(&self, enough: Enough) -> bool {
        self.pixels >= enough.pixels * self.texels && self.views >= enough.views
    }
}

impl LevelCounts {
    /// Counters for observations of every `stride`-th pixel.
    pub(super) fn new(cells: &Cells<'_>, stride: u32) -> Self {
        let zeros = || {
            let zeros = (0..cells.count() * LEVELS).map(|_| AtomicU32::new(0));
            zeros.collect()
        };
        Self {
            pixels: f64::from(stride * stride),
            samples: zeros(),
            views: zeros(),
        }
    }

    /// Counts a view.
    pub(super) fn enter(&self, observation: &Observation) {
        const UNSEEN: u8 = u8::MAX;
        let mut finest = vec![UNSEEN; self.samples.len() / LEVELS];
        let shown = || {
            let both = observation.cells.iter().zip(&observation.levels);
            both.filter(|(cell, _)| **cell != NOTHING)
                .map(|(&cell, &level)| (cell as usize, level))
        };
        for (cell, level) in shown() {
            self.samples[cell * LEVELS + level as usize].fetch_add(1, Relaxed);
            finest[cell] = finest[cell].min(level);
        }
        for (cell, _) in shown() {
            let level = std::mem::replace(&mut finest[cell], UNSEEN);
            if level != UNSEEN {
                self.views[cell * LEVELS + level as usize].fetch_add(1, Relaxed);
            }
        }
    }

    /// Of each cell takes the finest levels until they are `enough`, or all. A pixel that covers less than a texel
    /// always counts as fine: leaving such out costs 0.1 dB with 100 views of 1024² in 1024² texels.
    pub(super) fn shown(&self, cells: &Cells<'_>, enough: Enough) -> Vec<ShownCell> {
        let of = |((texels, samples), views): ((u32, &[AtomicU32]), &[AtomicU32])| {
            let mut shown = ShownCell {
                texels: f64::from(texels),
                pixels: 0.0,
                views: 0.0,
                coarsest: 0,
            };
            for (level, (samples, views)) in (0..).zip(samples.iter().zip(views)) {
                if level > SHARP && shown.is_enough(enough) {
                    break;
                }
                shown.pixels += self.pixels * f64::from(samples.load(Relaxed));
                shown.views += f64::from(views.load(Relaxed));
                shown.coarsest = level;
            }
            shown
        };
        let samples = self.samples.chunks(LEVELS);
        let views = self.views.chunks(LEVELS);
        cells.texels().zip(samples).zip(views).map(of).collect()
    }
}
