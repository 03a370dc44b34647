//! The rows of a view in the order of the texture: rows pixel by pixel → rows plot by plot.
//!
//! A plot is a square of texels. The latency of texels that lie all over a large texture bounds products with rows that
//! come pixel by pixel; those of a plot stay in a core's cache. One thread sums a plot at a time, in the order of views
//! and pixels. So sums do not depend on the number of threads, and no thread needs a texture of its own. A row whose
//! texels lie in several plots is in each of them: once as itself, and as a copy elsewhere.
//!
//! The texels of a row mostly fill a box. So a row within a plot is stored as lines of four texels side by side
//! ("quads"), with weights in steps of 1/65,535: 2 bytes a texel, and four at once for the processor. A row across plots,
//! or one whose texels lie apart, is a list.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::bake::model::rows::{Entry, Rows};
use crate::bake::plan::window::Window;
use crate::worker::progress::Ticker;

mod sort;

/// Edge of a plot in texels: texels and sums of one take 128 KiB.
const EDGE: usize = 1 << EDGE_BITS;
const EDGE_BITS: u32 = 6;
/// Texels of a plot.
const TEXELS: usize = EDGE * EDGE;
/// Texels of a quad.
const QUAD: usize = 4;
/// The weight 1 of a texel in a box.
const WHOLE: u16 = u16::MAX;
const STEP: f32 = 1.0 / WHOLE as f32;
/// A row is a list if its box has more than so many times its texels, or is wider than so many quads.
const SPARSE: usize = 3;
const WIDEST: usize = 4;

/// Flags beside a row's pixel: the row is itself in another plot; it is a list; it is in the subset.
const COPY: u32 = 1 << 31;
const LISTED: u32 = 1 << 30;
const SUBSET: u32 = 1 << 29;
const PIXEL: u32 = SUBSET - 1;

/// How a texture is divided into plots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plots {
    /// Texels in a row of the texture.
    across: usize,
}

impl Plots {
    pub(crate) fn new(across: usize) -> Self {
        Self {
            across: across.max(1),
        }
    }

    fn in_line(self) -> usize {
        self.across.div_ceil(EDGE)
    }

    /// The plot of a texel, and the texel's number within it.
    fn place(self, texel: u32) -> (u32, u32) {
        let [x, y] = [texel % self.across as u32, texel / self.across as u32];
        let plot = (y >> EDGE_BITS) * self.in_line() as u32 + (x >> EDGE_BITS);
        let edge = EDGE as u32 - 1;
        (plot, (y & edge) << EDGE_BITS | (x & edge))
    }

    /// The plot's first texel.
    fn first(self, plot: u32) -> usize {
        let [column, line] = [
            plot as usize % self.in_line(),
            plot as usize / self.in_line(),
        ];
        (line * self.across + column) * EDGE
    }

    /// Texels across a plot: fewer at the texture's right edge.
    fn width(self, plot: u32) -> usize {
        EDGE.min(self.across - plot as usize % self.in_line() * EDGE)
    }

    /// Runs `work` for each plot of these texels, with the lines of its texels, one thread a plot.
    pub(crate) fn each(
        self,
        texels: &mut [[f32; 4]],
        work: impl Fn(u32, &mut [&mut [[f32; 4]]]) + Sync,
    ) {
        let in_line = self.in_line();
        let lines = texels.par_chunks_mut(self.across * EDGE).enumerate();
        lines.for_each(|(line, texels)| {
            let mut plots: Vec<Vec<&mut [[f32; 4]]>> = Vec::new();
            plots.resize_with(in_line, || Vec::with_capacity(EDGE));
            for row in texels.chunks_mut(self.across) {
                for (plot, part) in plots.iter_mut().zip(row.chunks_mut(EDGE)) {
                    plot.push(part);
                }
            }
            let plots = plots.par_iter_mut().enumerate().with_max_len(1);
            plots.for_each(|(column, lines)| work((line * in_line + column) as u32, lines));
        });
    }

    /// The texels of a plot side by side, out of those of the texture.
    fn gather(self, plot: u32, texels: &[[f32; 4]], into: &mut [[f32; 4]; TEXELS]) {
        let first = self.first(plot);
        let width = self.width(plot);
        let lines = texels[first..].chunks(self.across).take(EDGE);
        for (line, into) in lines.zip(into.chunks_mut(EDGE)) {
            into[..width].copy_from_slice(&line[..width]);
        }
    }
}

/// Weights of four texels side by side. In a list a texel of the texture and the bits of its weight; and after all of
/// these the places of four texels within the plot.
type Quad = [u16; QUAD];
/// Place of a texel that is in another plot.
const ELSEWHERE: u16 = u16::MAX;

/// A row of one plot, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StoredRow {
    /// Of its first quad.
    start: u32,
    /// Its pixel in the view, and flags.
    pixel: u32,
    colour: [u8; 4],
    /// First texel of its box within the plot.
    corner: u16,
    /// Quads in a line of its box; entries of its list.
    wide: u16,
}

/// The rows of one view in one plot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlotRows {
    plot: u32,
    /// Rows of the view in plots before it.
    before: usize,
    /// With one more at the end, where the last row's quads end.
    rows: Vec<StoredRow>,
    quads: Vec<Quad>,
}

/// The rows of one view, plot by plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ViewRows {
    plots: Vec<PlotRows>,
    /// With copies.
    len: usize,
}

/// One row in a plot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlotRow<'a> {
    /// Observed colour: sRGB and alpha.
    pub(crate) colour: [u8; 4],
    stored: StoredRow,
    quads: &'a [Quad],
}

/// The rows of one view in one plot, with the weights of all rows of the view; all weigh 1 without.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeighedRows<'a> {
    pub(crate) rows: &'a PlotRows,
    pub(crate) weights: Option<&'a [f32]>,
}

/// A row with its weight, and what it shows of the texels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownRow {
    pub(crate) pixel: u32,
    pub(crate) colour: [u8; 4],
    pub(crate) weight: f32,
    pub(crate) predicted: [f32; 4],
}

/// The texels that rows of one plot read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TexelsRead<'a> {
    /// The texels of the plot side by side, and those of the whole texture.
    Near(&'a [[f32; 4]; TEXELS], &'a [[f32; 4]]),
    /// Those of the texture, of which the plot's first has this number, and how many make a row.
    Far(&'a [[f32; 4]], usize, usize),
}

/// Sums for the texels of one plot, and what is needed to add to them.
#[derive(Debug)]
pub(crate) struct PlotSums {
    read: Box<[[f32; 4]; TEXELS]>,
    sums: Box<[[f32; 4]; TEXELS]>,
}

impl PlotSums {
    /// Sums that go on from those in `lines`, for rows that read `texels`; none where they read nothing.
    pub(crate) fn new(
        plots: Plots,
        plot: u32,
        lines: &[&mut [[f32; 4]]],
        texels: &[[f32; 4]],
    ) -> Self {
        let zeros = bytemuck::zeroed_box;
        let mut made = Self {
            read: zeros(),
            sums: zeros(),
        };
        for (line, sums) in lines.iter().zip(made.sums.chunks_mut(EDGE)) {
            sums[..line.len()].copy_from_slice(line);
        }
        if !texels.is_empty() {
            plots.gather(plot, texels, &mut made.read);
        }
        made
    }

    /// Adds `Σ_p a · value(p)` over these rows, with a² for a if `squared`. `value` takes what a row shows of the texels:
    /// zeros where they were not given. Rows of weight 0 add nothing.
    pub(crate) fn add(
        &mut self,
        rows: WeighedRows<'_>,
        squared: bool,
        texels: &[[f32; 4]],
        value: impl Fn(ShownRow) -> [f32; 4],
    ) {
        let WeighedRows { rows, weights } = rows;
        let mut ticker = Ticker::default();
        ticker.did(rows.len());
        let weights = weights.map(|weights| &weights[rows.before..]);
        for (nth, row) in rows.iter().enumerate() {
            let weight = weights.map_or(1.0, |weights| weights[nth]);
            if weight == 0.0 {
                continue;
            }
            let predicted = match texels.is_empty() {
                true => [0.0; 4],
                false => row.predict(TexelsRead::Near(&self.read, texels)),
            };
            let value = value(ShownRow {
                pixel: row.pixel(),
                colour: row.colour,
                weight,
                predicted,
            });
            let step = if squared { STEP * STEP } else { STEP };
            let scaled = value.map(|value| step * value);
            if row.is_listed() {
                self.add_list(row, squared, value);
                continue;
            }
            self.add_box(row, squared, scaled);
        }
    }

    #[inline(always)]
    fn add_box(&mut self, row: PlotRow<'_>, squared: bool, value: [f32; 4]) {
        let mut place = row.first(EDGE);
        for &quad in row.quads {
            let mut shares = quad.map(f32::from);
            if squared {
                shares = shares.map(|share| share * share);
            }
            if let Some(sums) = self.sums[place.texel..].first_chunk_mut::<QUAD>() {
                for (sum, share) in sums.iter_mut().zip(shares) {
                    for channel in 0..4 {
                        sum[channel] += share * value[channel];
                    }
                }
            }
            place.step();
        }
    }

    fn add_list(&mut self, row: PlotRow<'_>, squared: bool, value: [f32; 4]) {
        let (entries, places) = row.list();
        for (&entry, &place) in entries.iter().zip(places) {
            if let Some(sum) = self.sums.get_mut(usize::from(place)) {
                let (_, weight) = of_list(entry);
                let share = if squared { weight * weight } else { weight };
                for channel in 0..4 {
                    sum[channel] += share * value[channel];
                }
            }
        }
    }

    /// Writes the sums back.
    pub(crate) fn into_lines(self, lines: &mut [&mut [[f32; 4]]]) {
        for (line, sums) in lines.iter_mut().zip(self.sums.chunks(EDGE)) {
            line.copy_from_slice(&sums[..line.len()]);
        }
    }
}

impl PlotRow<'_> {
    fn is_listed(&self) -> bool {
        self.stored.pixel & LISTED != 0
    }

    /// The entries of a list, and the place of each texel within the plot.
    #[inline(always)]
    fn list(&self) -> (&[Quad], &[u16]) {
        let (entries, places) = self.quads.split_at(usize::from(self.stored.wide));
        (entries, places.as_flattened())
    }

    /// Where its first quad is, where a line has so many texels.
    #[inline(always)]
    fn first(&self, across: usize) -> QuadPlace {
        let corner = usize::from(self.stored.corner);
        let wide = usize::from(self.stored.wide);
        QuadPlace {
            texel: corner / EDGE * across + corner % EDGE,
            left: wide,
            wide,
            // From the end of one line to the next.
            next: across - QUAD * (wide - 1),
        }
    }

    /// Whether it is here as itself, and not also in an earlier plot.
    pub(crate) fn is_itself(&self) -> bool {
        self.stored.pixel & COPY == 0
    }

    /// Whether it is in the [`crate::bake::model::subset`].
    pub(crate) fn in_subset(&self) -> bool {
        self.stored.pixel & SUBSET != 0
    }

    /// Its pixel in its view, `row · width + column`.
    pub(crate) fn pixel(&self) -> u32 {
        self.stored.pixel & PIXEL
    }

    /// What it shows of the texels: `A_p x`.
    #[inline(always)]
    pub(crate) fn predict(&self, read: TexelsRead<'_>) -> [f32; 4] {
        if self.is_listed() {
            return self.predict_list(read);
        }
        let (texels, across) = match read {
            TexelsRead::Near(near, _) => (near.as_slice(), EDGE),
            TexelsRead::Far(all, first, across) => (&all[first..], across),
        };
        let mut sums = [[0.0_f32; 4]; QUAD];
        let mut place = self.first(across);
        for &quad in self.quads {
            if let Some(texels) = texels[place.texel..].first_chunk::<QUAD>() {
                for ((sum, texel), weight) in sums.iter_mut().zip(texels).zip(quad) {
                    for channel in 0..4 {
                        sum[channel] += f32::from(weight) * texel[channel];
                    }
                }
            }
            place.step();
        }
        std::array::from_fn(|c| STEP * ((sums[0][c] + sums[1][c]) + (sums[2][c] + sums[3][c])))
    }

    fn predict_list(&self, read: TexelsRead<'_>) -> [f32; 4] {
        let (TexelsRead::Near(_, all) | TexelsRead::Far(all, ..)) = read;
        let mut sum = [0.0; 4];
        let (entries, _) = self.list();
        for &entry in entries {
            let (texel, weight) = of_list(entry);
            let texel = &all[texel as usize];
            for channel in 0..4 {
                sum[channel] += weight * texel[channel];
            }
        }
        sum
    }
}

/// The place of a quad of a box.
struct QuadPlace {
    texel: usize,
    left: usize,
    wide: usize,
    next: usize,
}

impl QuadPlace {
    /// On to the next quad.
    #[inline(always)]
    fn step(&mut self) {
        self.left -= 1;
        let ends = self.left == 0;
        self.texel += if ends { self.next } else { QUAD };
        self.left = if ends { self.wide } else { self.left };
    }
}

/// A texel of the texture and its weight, out of a list.
fn of_list([low, high, one, other]: Quad) -> (u32, f32) {
    let join = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
    (join(low, high), f32::from_bits(join(one, other)))
}

fn in_list(entry: &Entry) -> Quad {
    let halves = |word: u32| [word as u16, (word >> 16) as u16];
    let ([low, high], [one, other]) = (halves(entry.texel), halves(entry.weight.to_bits()));
    [low, high, one, other]
}

impl PlotRows {
    /// Number of rows, with copies.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - 1
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = PlotRow<'_>> {
        self.rows.windows(2).map(|pair| PlotRow {
            colour: pair[0].colour,
            stored: pair[0],
            quads: &self.quads[pair[0].start as usize..pair[1].start as usize],
        })
    }

    /// How its rows read the texels of the whole texture.
    pub(crate) fn read<'a>(&self, plots: Plots, texels: &'a [[f32; 4]]) -> TexelsRead<'a> {
        TexelsRead::Far(texels, plots.first(self.plot), plots.across)
    }
}

impl ViewRows {
    /// Sorts the rows of a view, which come band by band.
    pub(crate) fn new(bands: &[Rows], plots: Plots, window: &Window) -> Self {
        Self::sorted(bands, plots, |row| window.row_in_subset(row), true)
    }

    /// Sorts constraints, whose entries may be of either sign and keep all their bits. A constraint's number stands for
    /// its pixel.
    pub(crate) fn of_constraints(rows: &Rows, plots: Plots) -> Self {
        let rows = Rows {
            pixels: (0..rows.len() as u32).collect(),
            ..rows.clone()
        };
        Self::sorted(&[rows], plots, |_| false, false)
    }

    fn sorted(
        bands: &[Rows],
        plots: Plots,
        subset: impl Fn(&[Entry]) -> bool + Sync,
        packed: bool,
    ) -> Self {
        let by_band: Vec<Vec<sort::Numbers>> = bands
            .par_iter()
            .map(|rows| sort::by_plot(rows, plots, &subset, packed))
            .collect();
        let mut by_plot: BTreeMap<u32, Vec<(&Rows, &[u32])>> = BTreeMap::new();
        for (rows, of_band) in bands.iter().zip(&by_band) {
            for (plot, numbers) in of_band {
                by_plot.entry(*plot).or_default().push((rows, numbers));
            }
        }
        let by_plot: Vec<_> = by_plot.into_iter().collect();
        let mut made: Vec<PlotRows> = by_plot
            .into_par_iter()
            .map(|(plot, parts)| sort::stored(plot, &parts, plots))
            .collect();
        let mut len = 0;
        for plot in &mut made {
            plot.before = len;
            len += plot.len();
        }
        Self { plots: made, len }
    }

    /// Number of rows, with copies.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Its rows in one plot.
    pub(crate) fn in_plot(&self, plot: u32) -> Option<&PlotRows> {
        let at = self.plots.binary_search_by_key(&plot, |rows| rows.plot);
        at.ok().map(|at| &self.plots[at])
    }

    /// The rows by plots, each with its own numbers out of one for each row.
    pub(crate) fn with<'a>(&'a self, numbers: &'a mut [f32]) -> Vec<(&'a PlotRows, &'a mut [f32])> {
        let mut rest = numbers;
        let own = |rows: &'a PlotRows| {
            let (own, after) = std::mem::take(&mut rest).split_at_mut(rows.len());
            rest = after;
            (rows, own)
        };
        self.plots.iter().map(own).collect()
    }

    /// All rows, plot by plot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PlotRow<'_>> {
        self.plots.iter().flat_map(PlotRows::iter)
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let of = |plot: &PlotRows| {
            size_of_val(plot.rows.as_slice())
                + size_of_val(plot.quads.as_slice())
                + size_of::<PlotRows>()
        };
        self.plots.iter().map(of).sum()
    }
}

/// Bytes of a row beside its entries.
pub(crate) const ROW_BYTES: usize = size_of::<StoredRow>();
/// Bytes of an entry, high for rows of few: two in a box, which has a few more texels than the row; ten in a list, of
/// which a row across plots has two and more. Rows of 7 and 25 entries take 4.3 and 6.3 for each, those of 50 more than 9.
pub(crate) const ENTRY_BYTES: f64 = 9.5;

#[cfg(test)]
mod tests;
