//! Decimation of pixels: masks of all views → which pixels get no row.
//!
//! Two kinds get none: pixels that show coarsely what many others show finely, and more where all rows do not fit the
//! memory.
//!
//! | module | input → output |
//! |---|---|
//! | `cells` | atlas → cells of the surface; mask → the cell that each sample shows, and how coarsely |
//! | `shown` | observations of all views → pixels and views of each cell, and which are fine enough to drop the others |
//! | `survey` | views as they come → all of that, and the decision |
//!
//! A pixel measures the mean of the texels that it covers. Where [`ENOUGH`] finer pixels of as many views show a place,
//! coarser ones add next to nothing, and their rows only cost work and memory.
//!
//! A hundred views of 1024² show each texel of a texture of that size with fifty pixels. Rows beyond the memory would
//! have to be built again for each subdomain, and a part of them says nearly as much. So as many rows are kept as fit,
//! with fair shares. Every texel keeps the same number of pixels, if it has them, and those of [`VIEWS`] views; where
//! few pixels or few views show it, it keeps all. If that number is below [`PIXELS`], nothing more is left out, and the
//! texture is fitted in subdomains (`subdomains.rs`). Whole blocks are dropped first, evenly over the views, then pixels of
//! the remaining blocks, evenly over the block.
//!
//! | term | meaning |
//! |---|---|
//! | cell | square of [`cells::EDGE`]² texels, as far as one chart lies in it |
//! | sample | what the centre of every [`STRIDE`]-th pixel hits |
//! | coarse | of a sample: its pixel covers more than a texel, and more than those that are enough for its cell |
//! | block | [`BLOCK`]² pixels, as of the neighbourhood weight; it keeps what the neediest of its samples asks for |
//!
//! The adapter sees a pixel without a row as one of alpha 0.

pub(crate) mod cells;
mod shown;
mod survey;

use std::convert::Infallible;

use rayon::prelude::*;

use crate::bake::intake::ahead::ahead;
use crate::bake::intake::pixel_mask::{ALL, PixelMask, hash};
use crate::bake::model::atlas::Atlas;
use crate::bake::model::scene::Scene;
use crate::bake::solve::backend::{BLOCK, RowMemory};
use cells::Observation;
pub(crate) use cells::{Head, Mask};
use shown::{Enough, ShownCell};
pub(crate) use survey::{Observations, Survey};

/// Least number of pixels that a texel keeps, if it has them. 100 views of 1024² in 2048² texels, 10 pixels each: 51.90
/// dB with all, 51.70, 51.40 and 51.06 with 6, 4 and 3. A texture too coarse for its views, 1024² texels with 20, 10
/// and 5 of their 37 pixels: 40.1, 39.8 and 39.2 dB.
const PIXELS: f64 = 4.0;
/// Views that a texel keeps. 4 pixels of 16, 24 and all of some 40 views give 51.0, 51.4 and 51.5 dB, 3 of 8 give 46.8.
/// A GPU spends more on each pixel where few of a block stay.
const VIEWS: f64 = 24.0;
/// Share of the memory that is planned with: an overflow costs more than the rest is worth.
pub(crate) const PLANNED: f64 = 0.75;
/// Entries assumed for a row before they are estimated: more than most have where pixels are that many.
pub(crate) const ENTRIES: f64 = 16.0;
/// Where a texel has so many, coarser pixels get no row. 100 views of 512² in 1024² texels: 47.11 dB with all 7.6
/// million rows, 47.09 with these 6.4 million, 47.06 and 47.02 with 6 and 4 pixels of 12 views (6.0, 5.4), 46.96 with 4
/// of 8 (4.7).
const ENOUGH: Enough = Enough {
    pixels: 6.0,
    views: 16.0,
};
/// Every so many pixels of a view, across and down, are sampled: a block has four samples.
const STRIDE: u32 = BLOCK / 2;
/// The golden ratio: the fractional parts of its multiples are evenly distributed, wherever the sequence ends.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// What decides on the rows: a scene, and an adapter's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimator<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) atlas: &'a Atlas,
    /// The s of s×s taps.
    pub(crate) taps: u32,
    pub(crate) memory: RowMemory,
}

impl Decimator<'_> {
    /// Up to so many opaque pixels, certainly none is left out.
    pub(crate) fn surely(&self) -> f64 {
        self.memory.rows(ENTRIES).min(enough(self.atlas))
    }
}

/// Up to so many opaque pixels none is left out, if the memory is large enough.
pub(crate) fn enough(atlas: &Atlas) -> f64 {
    ENOUGH.pixels * atlas.covered as f64
}

/// Threads that compute the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workers {
    /// The thread pool, which is idle.
    Pool,
    /// Separate threads, while the pool is busy.
    Own,
}

/// The decision on the rows of all views.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    /// All stay, and fit.
    AllFit,
    /// The remaining ones fit.
    Decimated(Decimation),
    /// Too many would have to be left out; only coarse pixels are.
    TooMany(Option<Decimation>),
}

impl Decision {
    pub(crate) fn decimation(&self) -> Option<&Decimation> {
        match self {
            Self::AllFit => None,
            Self::Decimated(decimation) => Some(decimation),
            Self::TooMany(decimation) => decimation.as_ref(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Decimation {
    kept: PixelMask,
    /// Pixels on the mesh, then those of them that are left out.
    pixels: f64,
    left_out: f64,
}

struct Decimated {
    view: u32,
    levels: Vec<u8>,
    pixels: f64,
    left_out: f64,
}

/// What a cell asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Need {
    /// Share of its blocks.
    blocks: f64,
    /// Share of the pixels of those blocks.
    pixels: f64,
}

impl Need {
    const ALL: Self = Self {
        blocks: 1.0,
        pixels: 1.0,
    };
}

/// What is wanted for each texel.
#[derive(Clone, Copy, Debug)]
struct Quota {
    pixels: f64,
    views: f64,
}

impl Decimation {
    /// Decimates by what each cell needs.
    fn of(
        observations: &[Observation],
        shown: &[ShownCell],
        need: impl Fn(&ShownCell) -> Need,
        workers: Workers,
    ) -> Self {
        let needs: Vec<Need> = shown.iter().map(need).collect();
        let decimated = |observation: &Observation| {
            let (view, asked) = (observation.head.index, asked(observation, shown, &needs));
            let levels: Vec<u8> = asked.iter().map(|asked| asked.level(view)).collect();
            let pixels = f64::from(STRIDE * STRIDE);
            let out = |(asked, &level): (&Asked, &u8)| {
                let kept = f64::from(level) / f64::from(ALL);
                f64::from(asked.samples) * pixels * (1.0 - kept)
            };
            let there: u64 = asked.iter().map(|asked| u64::from(asked.samples)).sum();
            Decimated {
                view,
                pixels: there as f64 * pixels,
                left_out: asked.iter().zip(&levels).map(out).sum(),
                levels,
            }
        };
        let views: Vec<Decimated> = match workers {
            Workers::Pool => observations.par_iter().map(decimated).collect(),
            Workers::Own => {
                let mut views = Vec::with_capacity(observations.len());
                let Ok(()) = ahead(observations, decimated, |view| {
                    views.push(view);
                    Ok::<_, Infallible>(())
                });
                views
            }
        };
        Self {
            pixels: views.iter().map(|view| view.pixels).sum(),
            left_out: views.iter().map(|view| view.left_out).sum(),
            kept: (views.into_iter())
                .map(|view| (view.view, view.levels))
                .collect(),
        }
    }

    /// Approximate number of pixels on the mesh that stay.
    fn staying(&self) -> f64 {
        self.pixels - self.left_out
    }

    /// Self, if it leaves anything out.
    fn if_any(self) -> Option<Self> {
        (self.left_out > 0.0).then_some(self)
    }

    /// Approximate number of pixels on the mesh that have no row.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out as u64
    }

    pub(crate) fn kept(&self) -> &PixelMask {
        &self.kept
    }
}

/// Mean entries of a row: its taps lie over the texels of a pixel, and each reads a second texel on either axis.
fn entries(shown: &[ShownCell], taps: u32) -> f64 {
    let [mut sum, mut pixels] = [0.0, 0.0];
    for cell in shown.iter().filter(|cell| cell.pixels > 0.0) {
        let texels = cell.texels * cell.views / cell.pixels;
        let edge = texels.sqrt() * (1.0 - 1.0 / f64::from(taps)) + 2.0;
        sum += cell.pixels * (edge * edge).min(f64::from(4 * taps * taps));
        pixels += cell.pixels;
    }
    sum / pixels.max(1.0)
}

/// The pixels of each texel that give so many `rows`; none if that is below the least.
fn wanted(shown: &[ShownCell], rows: f64) -> Option<Quota> {
    let with = |pixels: f64| Quota {
        pixels,
        views: VIEWS,
    };
    let most = |cell: &ShownCell| cell.pixels / cell.texels;
    let (mut low, mut high) = (PIXELS, shown.iter().map(most).fold(PIXELS, f64::max));
    for _ in 0..24 {
        let middle = f64::midpoint(low, high);
        match with(middle).kept(shown) > rows {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(with(low)).filter(|wanted| wanted.kept(shown) <= rows)
}

impl Quota {
    /// Pixels kept of all cells.
    fn kept(self, shown: &[ShownCell]) -> f64 {
        let of = |cell: &ShownCell| {
            let need = self.of(cell);
            cell.pixels * need.blocks * need.pixels
        };
        shown.iter().map(of).sum()
    }

    fn of(self, cell: &ShownCell) -> Need {
        let share = |wanted: f64, there: f64| match there > wanted {
            true => wanted / there,
            false => 1.0,
        };
        let pixels = cell.pixels / cell.texels;
        let blocks = share(self.pixels, pixels).max(share(self.views, cell.views));
        Need {
            blocks,
            pixels: share(self.pixels, pixels * blocks),
        }
    }
}

/// What a block is asked for, by the neediest of its samples.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    /// Samples that hit anything, coarse or not.
    samples: u32,
    /// Cell and need of the neediest sample that is not coarse.
    need: Option<(u32, Need)>,
}

impl Asked {
    fn enter(&mut self, cell: u32, need: Need) {
        let share = |need: Need| need.blocks * need.pixels;
        if self
            .need
            .is_none_or(|(_, known)| share(need) > share(known))
        {
            self.need = Some((cell, need));
        }
    }

    /// Number of pixels that it keeps in a view: all where no sample hits anything, none where all are coarse.
    fn level(&self, view: u32) -> u8 {
        let Some((cell, need)) = self.need else {
            return if self.samples == 0 { ALL } else { 0 };
        };
        let first = f64::from(hash([cell, 0, 0])) / 2.0_f64.powi(32);
        match (first + f64::from(view) * GOLDEN).fract() < need.blocks {
            true => (need.pixels * f64::from(ALL)).ceil() as u8,
            false => 0,
        }
    }
}

/// What each block of a view is asked for. The need of a place that is not shown enough also holds for the blocks
/// around its samples: they may show more of it between theirs.
fn asked(observation: &Observation, shown: &[ShownCell], needs: &[Need]) -> Vec<Asked> {
    let [width, height] = observation.head.size;
    let [across, down] = observation.head.size.map(|edge| edge.div_ceil(BLOCK));
    let mut asked = vec![Asked::default(); (across * down) as usize];
    let block = |x: u32, y: u32| (y / BLOCK * across + x / BLOCK) as usize;
    for (sample, (&cell, &level)) in (0..).zip(observation.cells.iter().zip(&observation.levels)) {
        // Samples that hit nothing have no need.
        let Some(&need) = needs.get(cell as usize) else {
            continue;
        };
        let [x, y] = observation.grid.pixel(sample);
        let own = &mut asked[block(x, y)];
        own.samples += 1;
        let shown = &shown[cell as usize];
        if level > shown.coarsest {
            continue;
        }
        own.enter(cell, need);
        if !shown.is_enough(ENOUGH) {
            let [left, right] = [x.saturating_sub(STRIDE), (x + STRIDE).min(width - 1)];
            let [top, bottom] = [y.saturating_sub(STRIDE), (y + STRIDE).min(height - 1)];
            for (x, y) in [(left, top), (right, top), (left, bottom), (right, bottom)] {
                asked[block(x, y)].enter(cell, need);
            }
        }
    }
    asked
}

#[cfg(test)]
mod tests;
