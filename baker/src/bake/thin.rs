//! Masks of all views → which pixels of each have no row, where the rows of all do not fit the memory.
//!
//! A hundred views of 1024² show a texel of a texture as large with fifty pixels. Rows beyond the memory would have to be
//! drawn once more for each part of the texture, and a part of them tells nearly as much. So there are as many as fit, and
//! shares are fair: every texel keeps the same number of pixels, as far as it has them, and those of [`VIEWS`] views; what few
//! pixels or few views show keeps all. Where that is less than [`PIXELS`] for each, nothing is left out, and the texture is
//! fitted in parts (`parts.rs`). First whole blocks are, evenly over the views, then a part of the pixels of those that stay,
//! evenly over the block.
//!
//! | word | what it is |
//! |---|---|
//! | cell | square of [`cells::EDGE`]² texels, as far as one chart lies in it |
//! | sample | what the middle of every `stride`-th pixel hits |
//! | block | [`BLOCK`]² pixels, those that keep each other company: it keeps what the neediest of its samples asks for |
//!
//! A pixel without a row is one of alpha 0 to the adapter.

pub(super) mod cells;

use std::borrow::Borrow;
use std::collections::HashMap;

use proto::table::{Camera, View};
use rayon::prelude::*;

use super::atlas::Atlas;
use super::backend::{BLOCK, RowMemory};
use super::footprint::MIN_ALPHA;
use super::scene::Scene;
use cells::{Cells, EDGE, Grid, Shown};

/// Pixels that a texel keeps, if it has them, or else no row is left out. 100 views of 1024² in 2048² texels, 10 pixels
/// each: 51.90 dB with all, 51.70, 51.40 and 51.06 with 6, 4 and 3. A texture too coarse for its views: 1024² texels with
/// 20, 10 and 5 of their 37 pixels have 40.1, 39.8 and 39.2 dB.
const PIXELS: f64 = 4.0;
/// Views that a texel keeps: 4 pixels of 16, 24 and all of some 40 views have 51.0, 51.4 and 51.5 dB, 3 of 8 have 46.8. Pixels are
/// dearer to a GPU where few of a block stay.
const VIEWS: f64 = 24.0;
/// Of the memory, this much is planned with: what does not fit after all costs more than the rest is worth.
pub(super) const PLANNED: f64 = 0.75;
/// Entries that a row is taken to have before they are estimated: more than most have where pixels are so many.
pub(super) const ENTRIES: f64 = 16.0;
/// Samples of a cell, on the mean over all that is shown.
const SAMPLES: f64 = 48.0;
/// Samples of all views, at most.
const MOST_SAMPLES: f64 = 4e7;
/// Pixels of a block.
const ALL: u8 = (BLOCK * BLOCK) as u8;
/// The golden ratio: its multiples without their whole parts lie as evenly as can be, wherever they end.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// What decides on the rows: a scene, and an adapter's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thinner<'a> {
    pub(super) scene: &'a Scene,
    pub(super) atlas: &'a Atlas,
    /// The s of s×s.
    pub(super) taps: u32,
    pub(super) memory: RowMemory,
}

impl Thinner<'_> {
    /// So many pixels that count have rows that fit.
    pub(super) fn surely(&self) -> f64 {
        self.memory.rows(ENTRIES)
    }
}

/// Where a view is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) index: u32,
    /// Width and height in pixels.
    pub(super) size: [u32; 2],
    pub(super) camera: Camera,
}

/// Of a view, what decides on its rows.
pub(super) trait Mask: Sync {
    fn head(&self) -> Head;

    /// Whether a pixel may have a row.
    fn counts(&self, pixel: usize) -> bool;

    /// Pixels that may.
    fn counting(&self) -> usize {
        let [width, height] = self.head().size;
        let pixels = 0..width as usize * height as usize;
        pixels.filter(|&pixel| self.counts(pixel)).count()
    }
}

impl<V: Borrow<View> + Sync> Mask for V {
    fn head(&self) -> Head {
        let view = self.borrow();
        Head {
            index: view.index,
            size: [view.width, view.height],
            camera: view.camera,
        }
    }

    fn counts(&self, pixel: usize) -> bool {
        self.borrow().pixels[pixel][3] >= MIN_ALPHA
    }
}

/// What becomes of the rows of all views.
#[derive(Clone, Debug)]
pub(super) enum Decision {
    /// All fit.
    AllFit,
    /// Those fit that are left.
    Thinned(Thinning),
    /// More would have to be left out than is good.
    TooMany,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Thinning {
    /// By the index of a view, how many pixels each of its blocks keeps, line by line.
    blocks: HashMap<u32, Vec<u8>>,
    /// Pixels on the mesh, and those of them that are left out.
    pixels: f64,
    left_out: f64,
    /// Blocks on the mesh, and those of them that are left out whole.
    shown_blocks: u64,
    blocks_left_out: u64,
}

/// What a cell asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Need {
    /// Share of its blocks.
    blocks: f64,
    /// Share of the pixels of those.
    pixels: f64,
}

/// What is wanted for each texel.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    pixels: f64,
    views: f64,
}

impl Thinning {
    /// For all views of a fit.
    pub(super) fn of(thinner: Thinner<'_>, masks: &[impl Mask]) -> Decision {
        let Thinner {
            scene,
            atlas,
            taps,
            memory,
        } = thinner;
        let pixels = masks.par_iter().map(Mask::counting).sum::<usize>() as f64;
        if pixels <= thinner.surely() {
            return Decision::AllFit;
        }
        let stride = stride(masks, pixels, atlas);
        let (shown, samples) = Cells::new(scene, atlas).shown(masks, stride);
        let rows = PLANNED * memory.rows(entries(&shown, taps));
        let all: f64 = shown.iter().map(|cell| cell.pixels).sum();
        if all <= rows {
            return Decision::AllFit;
        }
        let Some(wanted) = wanted(&shown, rows) else {
            return Decision::TooMany;
        };
        let needs: Vec<Need> = shown.iter().map(|cell| wanted.of(cell)).collect();
        let thin = |(mask, samples): (&_, Vec<u32>)| {
            let head = Mask::head(mask);
            let grid = Grid::new(head.size, stride);
            let asked = asked(head, grid, &samples, &needs);
            let levels: Vec<u8> = asked.iter().map(|asked| asked.level(head.index)).collect();
            let pixels = f64::from(stride * stride);
            let out = |(asked, &level): (&Asked, &u8)| {
                let kept = f64::from(level) / f64::from(ALL);
                f64::from(asked.samples) * pixels * (1.0 - kept)
            };
            let left_out: f64 = asked.iter().zip(&levels).map(out).sum();
            let there = asked.iter().filter(|asked| asked.samples > 0).count() as u64;
            let gone = levels.iter().filter(|&&level| level == 0).count() as u64;
            (head.index, levels, left_out, [there, gone])
        };
        let views: Vec<_> = masks.par_iter().zip(samples).map(thin).collect();
        let thinning = Self {
            pixels: all,
            left_out: views.iter().map(|view| view.2).sum(),
            shown_blocks: views.iter().map(|view| view.3[0]).sum(),
            blocks_left_out: views.iter().map(|view| view.3[1]).sum(),
            blocks: views.into_iter().map(|view| (view.0, view.1)).collect(),
        };
        let (kept, [blocks, _]) = (all - thinning.left_out, thinning.shares());
        tracing::debug!(stride, all, rows, kept, blocks, ?wanted, "thinning");
        Decision::Thinned(thinning)
    }

    /// Pixels on the mesh that have no row, about.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out as u64
    }

    /// Shares of the blocks on the mesh and of the pixels on it that stay.
    pub(super) fn shares(&self) -> [f64; 2] {
        let blocks = self.blocks_left_out as f64 / self.shown_blocks.max(1) as f64;
        [1.0 - blocks, 1.0 - self.left_out / self.pixels.max(1.0)]
    }

    /// Takes out of a view the pixels that are to have no row.
    pub(super) fn thin(&self, view: &mut View) {
        let Some(levels) = self.blocks.get(&view.index) else {
            return;
        };
        let (width, index) = (view.width as usize, view.index);
        let (edge, across) = (BLOCK as usize, width.div_ceil(BLOCK as usize));
        let lines = view.pixels.par_chunks_mut(width * edge);
        let thin = |(levels, (line, pixels)): (&[u8], (usize, &mut [[u8; 4]]))| {
            for (y, row) in pixels.chunks_mut(width).enumerate() {
                for (column, (pixels, &level)) in row.chunks_mut(edge).zip(levels).enumerate() {
                    if level == ALL {
                        continue;
                    }
                    let turn = hash([index, line as u32, column as u32]);
                    let [right, down] = [turn % BLOCK, turn / BLOCK % BLOCK];
                    for (x, pixel) in pixels.iter_mut().enumerate() {
                        let place = order([x as u32 + right, y as u32 + down]);
                        if place >= u32::from(level) {
                            pixel[3] = 0;
                        }
                    }
                }
            }
        };
        levels
            .par_chunks(across)
            .zip(lines.enumerate())
            .for_each(thin);
    }
}

/// Of which pixels samples are taken, where so many count: a block has one at least.
pub(super) fn stride(masks: &[impl Mask], pixels: f64, atlas: &Atlas) -> u32 {
    let covered = atlas.covered.max(1) as f64;
    let area = |mask: &_| Mask::head(mask).size.map(f64::from).iter().product::<f64>();
    let stride = (pixels / covered * f64::from(EDGE * EDGE) / SAMPLES).sqrt();
    let coarsest = (masks.iter().map(area).sum::<f64>() / MOST_SAMPLES).sqrt();
    (stride.max(2.0).max(coarsest) as u32).min(BLOCK)
}

/// Entries of a row on the mean: its taps lie over the texels of a pixel, and each looks at a second one on either axis.
fn entries(shown: &[Shown], taps: u32) -> f64 {
    let [mut sum, mut pixels] = [0.0, 0.0];
    for cell in shown.iter().filter(|cell| cell.pixels > 0.0) {
        let texels = cell.texels * cell.views / cell.pixels;
        let edge = texels.sqrt() * (1.0 - 1.0 / f64::from(taps)) + 2.0;
        sum += cell.pixels * (edge * edge).min(f64::from(4 * taps * taps));
        pixels += cell.pixels;
    }
    sum / pixels.max(1.0)
}

/// What each texel can have if there are to be so many `rows`; none if that is less than the least.
fn wanted(shown: &[Shown], rows: f64) -> Option<Wanted> {
    let with = |pixels: f64| Wanted {
        pixels,
        views: VIEWS,
    };
    let most = |cell: &Shown| cell.pixels / cell.texels;
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

impl Wanted {
    /// Pixels of all cells.
    fn kept(self, shown: &[Shown]) -> f64 {
        let of = |cell: &Shown| {
            let need = self.of(cell);
            cell.pixels * need.blocks * need.pixels
        };
        shown.iter().map(of).sum()
    }

    fn of(self, cell: &Shown) -> Need {
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

/// What a block is asked for: by the neediest of its samples.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    samples: u32,
    need: Option<(u32, Need)>,
}

impl Asked {
    fn enter(&mut self, cell: u32, need: Need) {
        self.samples += 1;
        let share = |need: Need| need.blocks * need.pixels;
        if self
            .need
            .is_none_or(|(_, known)| share(need) > share(known))
        {
            self.need = Some((cell, need));
        }
    }

    /// Pixels that it keeps in a view: all where no sample tells what is there.
    fn level(&self, view: u32) -> u8 {
        let Some((cell, need)) = self.need else {
            return ALL;
        };
        let first = f64::from(hash([cell, 0, 0])) / 2.0_f64.powi(32);
        match (first + f64::from(view) * GOLDEN).fract() < need.blocks {
            true => (need.pixels * f64::from(ALL)).ceil() as u8,
            false => 0,
        }
    }
}

/// What each block of a view is asked for.
fn asked(view: Head, grid: Grid, samples: &[u32], needs: &[Need]) -> Vec<Asked> {
    let [across, down] = view.size.map(|edge| edge.div_ceil(BLOCK));
    let mut asked = vec![Asked::default(); (across * down) as usize];
    for (sample, &cell) in (0..).zip(samples) {
        // None of a sample that hits nothing.
        if let Some(&need) = needs.get(cell as usize) {
            let [column, line] = grid.pixel(sample).map(|at| at / BLOCK);
            asked[(line * across + column) as usize].enter(cell, need);
        }
    }
    asked
}

/// When a pixel of a block is taken: Bayer's order, in which the first so many lie evenly, whatever their number.
fn order([x, y]: [u32; 2]) -> u32 {
    (0..BLOCK.ilog2()).fold(0, |order, bit| {
        let [x, y] = [x, y].map(|at| at >> bit & 1);
        order << 2 | (x ^ y) << 1 | y
    })
}

/// A number that tells nothing of the three (`lowbias32` of Chris Wellons, "Prospecting for Hash Functions", 2018).
fn hash(numbers: [u32; 3]) -> u32 {
    numbers.iter().fold(0, |hash: u32, &number| {
        let mut x = hash.wrapping_mul(31).wrapping_add(number ^ 0x9E37_79B9);
        x = (x ^ x >> 16).wrapping_mul(0x7FEB_352D);
        x = (x ^ x >> 15).wrapping_mul(0x846C_A68B);
        x ^ x >> 16
    })
}

#[cfg(test)]
mod tests;
