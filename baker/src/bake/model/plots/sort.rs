//! Rows pixel by pixel → the rows of each plot, as they are stored.

use super::{
    COPY, EDGE, ELSEWHERE, LISTED, PIXEL, PlotRows, Plots, QUAD, Quad, SPARSE, SUBSET, StoredRow,
    WHOLE, WIDEST, in_list,
};
use crate::bake::model::rows::{Entry, Rows};

/// Some rows of one plot, by their numbers in a band of pixels, with flags.
pub(super) type Numbers = (u32, Vec<u32>);

/// The rows of a band by the plots that their texels lie in.
pub(super) fn by_plot(
    rows: &Rows,
    plots: Plots,
    subset: impl Fn(&[Entry]) -> bool,
    packed: bool,
) -> Vec<Numbers> {
    let mut by_plot: Vec<Numbers> = Vec::new();
    // Neighbouring pixels are mostly of one plot.
    let mut last = 0;
    let mut put = |plot: u32, number: u32| {
        if by_plot.get(last).is_none_or(|(of, _)| *of != plot) {
            last = match by_plot.iter().position(|(of, _)| *of == plot) {
                Some(at) => at,
                None => {
                    by_plot.push((plot, Vec::new()));
                    by_plot.len() - 1
                }
            };
        }
        by_plot[last].1.push(number);
    };
    let mut met: Vec<u32> = Vec::new();
    for number in 0..rows.len() {
        let row = rows.row(number);
        met.clear();
        for entry in row {
            let (plot, _) = plots.place(entry.texel);
            if !met.contains(&plot) {
                met.push(plot);
            }
        }
        let mut flags = if subset(row) { SUBSET } else { 0 };
        if met.len() > 1 || !packed {
            flags |= LISTED;
        }
        for (nth, &plot) in met.iter().enumerate() {
            let copy = if nth > 0 { COPY } else { 0 };
            put(plot, number as u32 | flags | copy);
        }
    }
    by_plot
}

/// Stores the rows of one plot; `parts` are those of each band.
pub(super) fn stored<'a>(plot: u32, parts: &[(&'a Rows, &'a [u32])], plots: Plots) -> PlotRows {
    let width = plots.width(plot);
    let numbered = || {
        let of = |(band, numbers): &(&'a Rows, &'a [u32])| {
            let (band, numbers) = (*band, *numbers);
            numbers.iter().map(move |n| (band, *n))
        };
        parts.iter().flat_map(of)
    };
    // As many quads as are needed: a vector that grows is copied, into memory that is new each time.
    let mut count = 0;
    let boxed = |(band, number): (&Rows, u32)| {
        let entries = band.row((number & PIXEL) as usize);
        let boxed = match number & LISTED {
            0 => QuadBox::around(entries, plots, width),
            _ => None,
        };
        count += match &boxed {
            Some(boxed) => boxed.wide * boxed.lines,
            None => entries.len() + entries.len().div_ceil(QUAD),
        };
        boxed
    };
    let boxes: Vec<Option<QuadBox>> = numbered().map(boxed).collect();
    let mut rows = Vec::with_capacity(boxes.len() + 1);
    let mut quads = Vec::with_capacity(count);
    for ((band, number), boxed) in numbered().zip(boxes) {
        let nth = (number & PIXEL) as usize;
        let entries = band.row(nth);
        let mut row = StoredRow {
            start: quads.len() as u32,
            pixel: band.pixels[nth] | number & !PIXEL,
            colour: band.colours[nth],
            corner: 0,
            wide: entries.len() as u16,
        };
        match boxed {
            Some(boxed) => {
                (row.corner, row.wide) = (boxed.corner as u16, boxed.wide as u16);
                boxed.store(entries, plots, &mut quads);
            }
            None => {
                row.pixel |= LISTED;
                quads.extend(entries.iter().map(in_list));
                quads.extend(entries.chunks(QUAD).map(|four| places(four, plot, plots)));
            }
        }
        rows.push(row);
    }
    rows.push(StoredRow {
        start: quads.len() as u32,
        pixel: 0,
        colour: [0; 4],
        corner: 0,
        wide: 0,
    });
    PlotRows {
        plot,
        before: 0,
        rows,
        quads,
    }
}

/// The places of up to four texels within a plot.
fn places(entries: &[Entry], plot: u32, plots: Plots) -> Quad {
    let mut places = [ELSEWHERE; QUAD];
    for (place, entry) in places.iter_mut().zip(entries) {
        let (of, texel) = plots.place(entry.texel);
        if of == plot {
            *place = texel as u16;
        }
    }
    places
}

/// The box of quads around the texels of a row.
struct QuadBox {
    corner: usize,
    wide: usize,
    lines: usize,
}

impl QuadBox {
    /// None where a list is better; `width` is that of the plot in texels.
    fn around(entries: &[Entry], plots: Plots, width: usize) -> Option<Self> {
        let [mut left, mut top] = [EDGE; 2];
        let [mut right, mut bottom] = [0; 2];
        for entry in entries {
            let (_, texel) = plots.place(entry.texel);
            let [x, y] = [texel as usize % EDGE, texel as usize / EDGE];
            (left, right) = (left.min(x), right.max(x));
            (top, bottom) = (top.min(y), bottom.max(y));
        }
        let wide = (right + 1).checked_sub(left)?.div_ceil(QUAD);
        let lines = bottom + 1 - top;
        let left = left.min(width.checked_sub(wide * QUAD)?);
        let dense = wide * lines * QUAD <= SPARSE * entries.len().max(QUAD);
        (dense && wide <= WIDEST).then_some(Self {
            corner: top * EDGE + left,
            wide,
            lines,
        })
    }

    /// Adds its quads. What rounding takes from the sum of weights, the largest gets.
    fn store(&self, entries: &[Entry], plots: Plots, quads: &mut Vec<Quad>) {
        let begin = quads.len();
        quads.resize(begin + self.wide * self.lines, [0; QUAD]);
        let cells = quads[begin..].as_flattened_mut();
        let (mut sum, mut stored, mut largest) = (0.0, 0, 0);
        for entry in entries {
            let (_, texel) = plots.place(entry.texel);
            let from = texel as usize - self.corner;
            let cell = from / EDGE * self.wide * QUAD + from % EDGE;
            let weight = (entry.weight * f32::from(WHOLE)).round() as u16;
            cells[cell] = weight;
            sum += entry.weight;
            stored += i32::from(weight);
            if weight >= cells[largest] {
                largest = cell;
            }
        }
        let short = (sum * f32::from(WHOLE)).round() as i32 - stored;
        let weight = i32::from(cells[largest]) + short;
        cells[largest] = weight.clamp(0, i32::from(WHOLE)) as u16;
    }
}
