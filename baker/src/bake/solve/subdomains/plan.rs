//! Plans the subdomains: memory, pixels on each square → the windows in which a texture is fitted.

use std::ops::Range;

use rayon::prelude::*;

use crate::bake::intake::decimate::Mask;
use crate::bake::model::atlas::Atlas;
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::{COARSE, Window, across, square};
use crate::bake::solve::backend::{PerRow, RowMemory};
use crate::worker::step_times::timed;

use crate::bake::solve::subdomains::shown::{rows_drawn, shown_by_square};

/// Margin of a band on each side, in texels.
const MARGIN: u32 = 8;
/// Least height of a planned band in texels: below, most of the work would be for its margins.
const LEAST_BAND: u32 = 32;
/// The pilot fit's strips are one line in so many, or in as many as there are bands.
const ONE_IN: u32 = 8;
/// Strips of fewer lines than one in twice as many teach nothing.
const SPARSEST: u32 = 32;
/// Number of strips for the pilot fit, unless they would be lower than [`LEAST_STRIP`] texels.
const STRIPS: u32 = 64;
const LEAST_STRIP: u32 = 16;
/// Strips that show less than this part of their share of the pixels do not represent the texture.
const LEAST_SHARE: f64 = 0.5;
/// Share of the memory that is planned with. A band whose rows do not fit is halved, which costs building its rows
/// again and buffers of another size. At three quarters there is mostly half a subdomain too many for each one.
const PLANNED: f64 = 0.85;
/// Share of that for the strips: their tiles are larger.
const STRIPS_PLANNED: f64 = 0.9;
/// Least entries of a row to plan with: that much is allocated, and what a subdomain shows of a block takes more than
/// its share.
const LEAST_ENTRIES: f64 = 9.0;
/// Seam rows whose couplings are sorted together.
const TIED_AT_ONCE: usize = 1024;

/// The subdomains of a texture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subdomains {
    /// The strips of the pilot fit, which sets the parameters of the whole texture.
    pub(super) rehearsal: Window,
    /// Windows whose cores make up the texture.
    pub(super) bands: Vec<Window>,
    /// Share of all pixels that the pilot fit and each of the bands show.
    shares: Vec<f64>,
    tied: Tied,
}

/// For each line of squares, the squares that seams couple to it, in order.
pub(super) type Tied = Vec<Vec<u32>>;

/// Strips all over a texture, one in so many of its lines.
fn strips(size: u32, one_in: u32) -> Window {
    let lines = across(size);
    let strip = lines
        .div_ceil(STRIPS.max(4 * one_in))
        .max(LEAST_STRIP / square(size));
    let period = strip * one_in;
    let first = ((period - strip) / 2).min(lines.saturating_sub(strip));
    let strips = (first..lines).step_by(period as usize);
    let strips: Vec<Range<u32>> = strips.map(|line| line..(line + strip).min(lines)).collect();
    Window::strips(size, &strips)
}

/// Strips of half as many lines. None where those are too few to represent the texture, or the window has no strips.
pub(super) fn sparser(window: &Window) -> Option<Window> {
    let one_in = (1.0 / window.share()).round() as u32;
    let sparser = strips(window.size, 2 * one_in);
    let fewer = one_in > 1 && one_in <= SPARSEST && sparser.texels() < window.texels();
    fewer.then_some(sparser)
}

/// The largest window of strips for which `fits` holds; the smallest if none does.
pub(crate) fn first_window(size: u32, fits: impl Fn(usize) -> bool) -> Window {
    let mut one_in = ONE_IN;
    loop {
        let window = strips(size, one_in);
        if fits(window.texels()) || one_in >= across(size) {
            return window;
        }
        one_in *= 2;
    }
}

impl Subdomains {
    /// Plans as few subdomains as possible, but at `least` so many. `memory` says what a window of so many texels
    /// leaves for rows.
    pub(crate) fn of(
        scene: &Scene,
        atlas: &Atlas,
        taps: u32,
        memory: impl Fn(usize) -> RowMemory,
        least: u32,
        masks: &[impl Mask],
    ) -> Self {
        let size = scene.size;
        let (pixels, (each, reach, tied)) = timed("parts", || {
            let shown = || shown_by_square(scene, atlas, masks);
            rayon::join(shown, || {
                let drawn = rows_drawn(scene, taps, masks);
                let each = PerRow {
                    entries: drawn.entries.max(LEAST_ENTRIES),
                    words: drawn.words.max(PerRow::from(LEAST_ENTRIES).words),
                };
                // Around what a seam couples to a band: the extent of a pixel there.
                let reach = each.entries.sqrt() as u32;
                (each, reach, tied(atlas, size, reach))
            })
        });
        let mut planned = PLANNED;
        let ranges = loop {
            let ranges = timed("bands", || {
                let room = |texels: usize| planned * memory(texels).rows_of(each);
                let first = bands(size, &pixels, &tied, room);
                // All bands use buffers of the largest.
                let largest = first.iter().map(|(_, texels)| *texels).max();
                let largest = largest.unwrap_or(0);
                bands(size, &pixels, &tied, |texels| room(texels.max(largest)))
            });
            if ranges.len() as u32 >= least.min(size / LEAST_BAND) || planned < 1e-6 {
                break ranges;
            }
            planned /= 2.0;
        };
        let room = |texels: usize| planned * memory(texels).rows_of(each);
        let bands: Vec<Window> = (ranges.into_par_iter())
            .map(|(band, _)| window(size, band, &tied))
            .collect();
        let of = |window: &Window| on(&pixels, window);
        let mut one_in = ONE_IN.max(bands.len() as u32);
        let mut rehearsal = strips(size, one_in);
        while of(&rehearsal) > STRIPS_PLANNED * room(rehearsal.texels()) && one_in < across(size) {
            one_in *= 2;
            rehearsal = strips(size, one_in);
        }
        let all = pixels.iter().sum::<f64>().max(1.0);
        // Charts need not lie all over the texture.
        if of(&rehearsal) < LEAST_SHARE * all / f64::from(one_in) {
            let most = bands.iter().max_by(|a, b| of(a).total_cmp(&of(b)));
            rehearsal = most.cloned().unwrap_or(rehearsal);
        }
        let windows = std::iter::once(&rehearsal).chain(&bands);
        let shares: Vec<f64> = windows.map(|window| of(window) / all).collect();
        tracing::debug!(
            bands = bands.len(),
            one_in,
            entries = each.entries,
            words = each.words,
            reach,
            ?shares,
            "parts"
        );
        Self {
            shares,
            rehearsal,
            bands,
            tied,
        }
    }

    /// Both halves of a band whose rows do not fit, even if they are lower than a planned band; none of a single line of
    /// squares.
    pub(super) fn halves(&self, band: &Window) -> Option<[Window; 2]> {
        let (size, edge) = (band.size, square(band.size));
        let [first, end] = [band.core().start, band.core().end].map(|line| line as u32);
        let [first, end] = [first / edge, end.div_ceil(edge)];
        let middle = u32::midpoint(first, end);
        let of = |lines: Range<u32>| window(size, lines, &self.tied);
        (middle > first).then(|| [of(first..middle), of(middle..end)])
    }

    /// Another window for the pilot fit, whose rows do not fit: sparser strips, then the band that shows the most, then
    /// half of it. None below a single line of squares.
    pub(super) fn smaller(&self, pilot: &Window) -> Option<Window> {
        if pilot.share() == 1.0 {
            return self.halves(pilot).map(|[half, _]| half);
        }
        let bands = || self.windows().skip(1);
        let most = || bands().max_by(|(_, a), (_, b)| a.total_cmp(b));
        sparser(pilot).or_else(|| most().map(|(band, _)| band.clone()))
    }

    /// Number of bands.
    pub(crate) fn count(&self) -> u32 {
        self.bands.len() as u32
    }

    /// The windows in the order in which they are fitted, and the share of all pixels that each shows.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (&Window, f64)> {
        let windows = std::iter::once(&self.rehearsal).chain(&self.bands);
        windows.zip(self.shares.iter().copied())
    }
}

/// Pixels on the squares of a window.
fn on(pixels: &[f64], window: &Window) -> f64 {
    let there = window.squares().iter().zip(pixels);
    let own = there.filter(|(square, _)| **square & COARSE == 0);
    own.map(|(_, pixels)| pixels).sum()
}

/// The squares that seams couple to each line, with `reach` texels around.
pub(super) fn tied(atlas: &Atlas, size: u32, reach: u32) -> Tied {
    let (edge, across) = (square(size), across(size));
    let around = |at: u32| {
        let end = (at + reach).min(size - 1) / edge;
        at.saturating_sub(reach) / edge..=end
    };
    let of_some = |some: Range<usize>| {
        let mut ties: Vec<[u32; 2]> = Vec::new();
        let (mut lines, mut squares) = (Vec::new(), Vec::new());
        let mut before = (Vec::new(), Vec::new());
        for row in some {
            let entries = atlas.seams.row(row);
            lines.extend(entries.iter().map(|entry| entry.texel / size / edge));
            for entry in entries {
                for line in around(entry.texel / size) {
                    let columns = around(entry.texel % size);
                    squares.extend(columns.map(|column| line * across + column));
                }
            }
            for all in [&mut lines, &mut squares] {
                all.sort_unstable();
                all.dedup();
            }
            // Consecutive rows lie along one seam, and mostly couple the same squares.
            if (&lines, &squares) != (&before.0, &before.1) {
                for &square in &squares {
                    let others = lines.iter().filter(|&&line| line != square / across);
                    ties.extend(others.map(|&line| [line, square]));
                }
                std::mem::swap(&mut lines, &mut before.0);
                std::mem::swap(&mut squares, &mut before.1);
            }
            lines.clear();
            squares.clear();
        }
        ties.sort_unstable();
        ties.dedup();
        ties
    };
    let rows = atlas.seams.len();
    let starts = (0..rows).into_par_iter().step_by(TIED_AT_ONCE);
    let some = starts.map(|start| start..(start + TIED_AT_ONCE).min(rows));
    let mut ties: Vec<[u32; 2]> = some.flat_map_iter(of_some).collect();
    ties.par_sort_unstable();
    ties.dedup();
    let mut tied = vec![Vec::new(); across as usize];
    for [line, square] in ties {
        tied[line as usize].push(square);
    }
    tied
}

/// The window of some lines.
fn window(size: u32, band: Range<u32>, tied: &[Vec<u32>]) -> Window {
    let margin = MARGIN / square(size);
    let own = band.start.saturating_sub(margin)..(band.end + margin).min(across(size));
    let beside = tied[band.start as usize..band.end as usize].iter();
    Window::band(size, own, band, &beside.flatten().copied().collect())
}

/// The fewest bands whose windows have `room` for the pixels that they show, as even as possible. Bands are ranges of
/// square lines; each comes with the approximate texels of its window.
fn bands(
    size: u32,
    pixels: &[f64],
    tied: &[Vec<u32>],
    room: impl Fn(usize) -> f64,
) -> Vec<(Range<u32>, usize)> {
    let (lines, margin) = (across(size), MARGIN / square(size));
    let of_lines: Vec<f64> = (pixels.chunks(lines as usize))
        .map(|line| line.iter().sum())
        .collect();
    let of = |own: Range<u32>| {
        of_lines
            .iter()
            .take(own.end as usize)
            .skip(own.start as usize)
    };
    let mut band = Growing::new(size);
    let mut fill = |share: f64| {
        let mut bands: Vec<(Range<u32>, usize)> = Vec::new();
        let mut start = 0;
        while start < lines {
            band.begin(start);
            let mut end = start;
            let mut texels = 0;
            while end < lines {
                band.add(end, pixels, tied);
                // With its margins.
                let above = of(start.saturating_sub(margin)..start);
                let below = of(end + 1..end + 1 + margin);
                let shown = band.pixels + above.chain(below).sum::<f64>();
                if end - start >= LEAST_BAND / square(size) && shown > share * room(band.texels()) {
                    break;
                }
                end += 1;
                texels = band.texels();
            }
            bands.push((start..end, texels));
            start = end;
        }
        bands
    };
    let fewest = fill(1.0).len();
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..8 {
        let middle = f64::midpoint(low, high);
        match fill(middle).len() > fewest {
            true => low = middle,
            false => high = middle,
        }
    }
    fill(high)
}

/// A band to which lines are added, and the pixels that it shows.
struct Growing {
    size: u32,
    first: u32,
    end: u32,
    /// For each square of the texture, the number of the last band that was coupled to it.
    beside: Vec<u32>,
    number: u32,
    /// Squares coupled to this band.
    count: usize,
    pixels: f64,
}

impl Growing {
    fn new(size: u32) -> Self {
        Self {
            size,
            first: 0,
            end: 0,
            beside: vec![0; (across(size) as usize).pow(2)],
            number: 0,
            count: 0,
            pixels: 0.0,
        }
    }

    /// Starts another band, without lines, at this line.
    fn begin(&mut self, first: u32) {
        (self.first, self.end) = (first, first);
        self.number += 1;
        (self.count, self.pixels) = (0, 0.0);
    }

    fn add(&mut self, line: u32, pixels: &[f64], tied: &[Vec<u32>]) {
        let across = across(self.size);
        self.end = line + 1;
        for square in line * across..(line + 1) * across {
            if std::mem::take(&mut self.beside[square as usize]) == self.number {
                self.count -= 1;
            } else {
                self.pixels += pixels[square as usize];
            }
        }
        for &square in &tied[line as usize] {
            let own = (self.first..self.end).contains(&(square / across));
            let beside = &mut self.beside[square as usize];
            if !own && std::mem::replace(beside, self.number) != self.number {
                self.count += 1;
                self.pixels += pixels[square as usize];
            }
        }
    }

    /// Texels of its window.
    fn texels(&self) -> usize {
        let (edge, across) = (square(self.size), across(self.size));
        let lines = self.end - self.first + 2 * (MARGIN / edge);
        let own = (lines * across) as usize + self.count;
        // Squares elsewhere have one texel each, and each of the four groups has an unfinished row.
        let elsewhere = (across * across) as usize + (2 * (edge + 1) * self.size) as usize;
        own * (edge * edge) as usize + elsewhere
    }
}
