//! The part of a texture that an adapter works on, as if it were a texture of its own ("window").
//!
//! A window is the whole texture, or some of its squares of texels: whole rows, the squares that seam constraints
//! couple to them, and one texel for each of the other squares.
//!
//! ```text
//!   squares above, one texel each · squares above, coupled by seams
//!   the rows
//!   squares below, coupled by seams · squares below, one texel each
//! ```
//!
//! A row of a window is as long as one of its texture. So neighbours within a square, and within whole rows, have the
//! same distance in both. A pixel belongs to a window if any of its taps meets one of the window's own squares. Its
//! other taps may fall elsewhere, as at silhouettes; there each square has one colour. Leaving out such pixels costs
//! 0.4 dB on a mesh of many bodies, leaving out the coupled squares 1.2. The parts are in the order of the texture, so
//! the first texel of a row is of the same part in both.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::bake::model::links::{LINK_DOWN, LINK_RIGHT};
use crate::bake::model::rows::{Entry, Rows};
use crate::bake::model::subset;

/// Edges in texels of the squares of small and of large textures. Tiles at the right and lower edge may be cut.
///
/// One colour for each square of eight texels instead of four costs 0.3 dB at 512², where charts are that narrow. At
/// 8192² squares of four would take as much memory as a window does.
pub const SQUARES: [u32; 2] = [4, 8];
/// Edge of the largest texture that counts as small.
pub const SMALL_TEXTURE: u32 = 2048;
/// Flag of a square's number: the square has a single texel, at that number.
pub const COARSE: u32 = 1 << 31;

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Edge of the texture in texels, and the length of a row.
    pub size: u32,
    /// Rows of the window.
    pub rows: u32,
    /// First row of the core, and first row after it. The window serves its core; the other rows give the core its
    /// neighbours.
    pub core: [u32; 2],
    /// Row of the texture at which `core` starts.
    first: u32,
    /// Whether it consists of strips all over the texture.
    scattered: bool,
    /// For each square of the texture, line by line, the number of its first texel in the window, with [`COARSE`] if it
    /// has a single texel. None for the whole texture.
    squares: Option<Arc<[u32]>>,
}

/// Edge of a texture's squares in texels.
pub fn square(size: u32) -> u32 {
    SQUARES[usize::from(size > SMALL_TEXTURE)]
}

/// Number of squares across a texture, which is also the number of square lines.
pub fn across(size: u32) -> u32 {
    size.div_ceil(square(size))
}

/// A window being laid out.
struct WindowLayout {
    size: u32,
    squares: Vec<Option<u32>>,
    rows: u32,
}

impl WindowLayout {
    /// Lays out squares side by side, each `edge` texels across, in rows of their own.
    fn place(&mut self, squares: impl Iterator<Item = u32>, edge: u32) {
        let coarse = if edge == 1 { COARSE } else { 0 };
        let places = (self.size / edge).max(1);
        let mut taken = 0;
        for square in squares {
            let own = &mut self.squares[square as usize];
            if own.is_none() {
                let [column, line] = [taken % places, taken / places].map(|at| at * edge);
                *own = Some(((self.rows + line) * self.size + column) | coarse);
                taken += 1;
            }
        }
        self.rows += taken.div_ceil(places) * edge;
    }
}

impl Window {
    /// The whole texture.
    pub fn whole(size: u32) -> Self {
        Self {
            size,
            rows: size,
            core: [0, size],
            first: 0,
            scattered: false,
            squares: None,
        }
    }

    /// A band: consecutive lines of squares, with the squares of `beside`. Its core are the lines `core`, which are
    /// among them.
    pub fn band(size: u32, lines: Range<u32>, core: Range<u32>, beside: &BTreeSet<u32>) -> Self {
        let mut window = Self::of(size, std::slice::from_ref(&lines), beside);
        let edge = square(size);
        let [first, end] = [core.start, core.end].map(|line| (line * edge).min(size));
        let before = window.core[0] + (core.start - lines.start) * edge;
        window.core = [before, before + end - first];
        window.first = first;
        window
    }

    /// Strips of square lines, in their order; all of them are core.
    pub fn strips(size: u32, strips: &[Range<u32>]) -> Self {
        Self {
            scattered: true,
            ..Self::of(size, strips, &BTreeSet::new())
        }
    }

    /// Approximate share of the pixels rasterised for it that get a row: for strips, all pixels are rasterised.
    pub fn share(&self) -> f64 {
        match self.scattered {
            true => f64::from(self.core[1] - self.core[0]) / f64::from(self.size.max(1)),
            false => 1.0,
        }
    }

    fn of(size: u32, strips: &[Range<u32>], beside: &BTreeSet<u32>) -> Self {
        let (edge, across) = (square(size), across(size));
        let mut layout = WindowLayout {
            size,
            squares: vec![None; (across * across) as usize],
            rows: 0,
        };
        let all = across * across;
        let start = strips.first().map_or(0, |strip| strip.start * across);
        let coarse = (0..start).filter(|square| !beside.contains(square));
        layout.place(coarse, 1);
        layout.place(beside.range(..start).copied(), edge);
        let first = layout.rows;
        for line in strips.iter().cloned().flatten() {
            for column in 0..across {
                let own = layout.rows * size + column * edge;
                layout.squares[(line * across + column) as usize] = Some(own);
            }
            layout.rows += edge;
        }
        let end = layout.rows;
        layout.place(beside.range(start..).copied(), edge);
        layout.place(start..all, 1);
        Self {
            size,
            rows: layout.rows,
            core: [first, end],
            first: 0,
            scattered: false,
            squares: Some(layout.squares.into_iter().flatten().collect()),
        }
    }

    /// Whether it is the whole texture.
    pub fn is_whole(&self) -> bool {
        self.squares.is_none()
    }

    /// The field `squares`; empty for the whole texture.
    pub fn squares(&self) -> &[u32] {
        self.squares.as_deref().unwrap_or_default()
    }

    /// Number of texels.
    pub fn texels(&self) -> usize {
        self.rows as usize * self.size as usize
    }

    /// The texture's rows that are its core.
    pub fn core(&self) -> Range<usize> {
        let first = self.first as usize;
        first..first + (self.core[1] - self.core[0]) as usize
    }

    /// Of values of its texels, those of the core.
    pub fn of_core<'a, T>(&self, texels: &'a [T]) -> &'a [T] {
        let [start, end] = self.core.map(|row| row as usize * self.size as usize);
        &texels[start..end]
    }

    /// The texel of the window that holds a texel of the texture, and whether it is that texel alone.
    pub fn texel(&self, texel: u32) -> (u32, bool) {
        let Some(squares) = &self.squares else {
            return (texel, true);
        };
        let [column, row] = [texel % self.size, texel / self.size];
        let edge = square(self.size);
        let first = squares[(row / edge * across(self.size) + column / edge) as usize];
        match first & COARSE {
            0 => (first + row % edge * self.size + column % edge, true),
            _ => (first & !COARSE, false),
        }
    }

    /// The texture's texel of each texel of the window. None for those that stand for a square, or for nothing.
    pub fn places(&self) -> Vec<Option<u32>> {
        if self.is_whole() {
            return (0..self.size * self.size).map(Some).collect();
        }
        let mut places = vec![None; self.texels()];
        let (size, edge, across) = (self.size, square(self.size), across(self.size));
        for (square, &first) in (0..).zip(self.squares()) {
            if first & COARSE != 0 {
                continue;
            }
            let [left, top] = [square % across, square / across].map(|at| at * edge);
            for row in 0..edge.min(size - top) {
                for column in 0..edge.min(size - left) {
                    let own = first + row * size + column;
                    places[own as usize] = Some((top + row) * size + left + column);
                }
            }
        }
        places
    }

    /// Whether the first texel of a bilinear lookup, at a place of the texture in texels, is in one of the window's own
    /// squares.
    pub fn meets(&self, place: [f32; 2]) -> bool {
        let last = self.size.saturating_sub(1);
        let [x, y] = place.map(|at| ((at - 0.5).max(0.0) as u32).min(last));
        self.is_whole() || self.texel(y * self.size + x).1
    }

    /// Renumbers the texels of a footprint to those of the window, and merges equal ones.
    pub fn take(&self, footprint: &mut Vec<Entry>) {
        if self.is_whole() {
            return;
        }
        for entry in footprint.iter_mut() {
            (entry.texel, _) = self.texel(entry.texel);
        }
        footprint.sort_by_key(|entry| entry.texel);
        footprint.dedup_by(|next, entry| {
            let same = next.texel == entry.texel;
            entry.weight += if same { next.weight } else { 0.0 };
            same
        });
    }

    /// Whether a texel of the window, by its number there, is in the [`subset`] to which a fit can be narrowed: one
    /// square in [`subset::ONE_IN`] of a whole texture, or the core of a part.
    pub fn in_subset(&self, texel: u32) -> bool {
        match self.is_whole() {
            true => subset::holds(texel, self.size),
            false => (self.core[0]..self.core[1]).contains(&(texel / self.size)),
        }
    }

    /// Whether a row is in the subset, by the first of its texels.
    pub fn row_in_subset(&self, row: &[Entry]) -> bool {
        let first = row.iter().map(|entry| entry.texel).min();
        first.is_some_and(|texel| self.in_subset(texel))
    }

    /// Links of the window's texels, from those of the texture. Links between squares that are not adjacent here are
    /// dropped.
    pub fn links(&self, links: &[u8]) -> Vec<u8> {
        if self.is_whole() {
            return links.to_vec();
        }
        let (size, edge, across) = (self.size, square(self.size), across(self.size));
        let mut own = vec![0; self.texels()];
        for (square, &first) in (0..).zip(self.squares()) {
            if first & COARSE != 0 {
                continue;
            }
            let [column, line] = [square % across, square / across];
            let is = |there: bool, square: u32, texel: u32| {
                there && self.squares()[square as usize] == texel
            };
            let right = is(column + 1 < across, square + 1, first + edge);
            let below = is(line + 1 < across, square + across, first + edge * size);
            for y in 0..edge.min(size - line * edge) {
                for x in 0..edge.min(size - column * edge) {
                    let from = (line * edge + y) * size + column * edge + x;
                    let mut link = links[from as usize];
                    if x + 1 == edge && !right {
                        link &= !LINK_RIGHT;
                    }
                    if y + 1 == edge && !below {
                        link &= !LINK_DOWN;
                    }
                    own[(first + y * size + x) as usize] = link;
                }
            }
        }
        own
    }

    /// Of rows over the texture's texels, those over the window's own.
    pub fn rows_within(&self, rows: &Rows) -> Rows {
        if self.is_whole() {
            return rows.clone();
        }
        let mut own = Rows::of_view(rows.view);
        for row in 0..rows.len() {
            let within = rows
                .row(row)
                .iter()
                .map(|entry| match self.texel(entry.texel) {
                    (texel, true) => Some(Entry { texel, ..*entry }),
                    (_, false) => None,
                });
            if let Some(entries) = within.collect::<Option<Vec<Entry>>>() {
                own.push(&entries, rows.colours[row], rows.pixels[row]);
            }
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::fixture::all_links;

    const SIZE: u32 = 22;

    /// Lines 2 and 3 of six, the last of which is cut. Line 3 is the core; beside them are one square above and two
    /// below.
    fn window() -> Window {
        Window::band(SIZE, 2..4, 3..4, &BTreeSet::from([4, 13, 31, 35]))
    }

    #[test]
    fn texels_are_in_their_lines_between_the_squares_above_and_those_below() {
        let window = window();
        // A row of eleven squares above with one texel each, and one of nine below.
        assert_eq!(
            (window.rows, window.core, window.core()),
            (1 + 4 + 8 + 4 + 1, [9, 13], 12..16)
        );
        let edge = square(SIZE);
        let mut seen = vec![0; window.texels()];
        let (mut above, mut below) = (BTreeSet::new(), BTreeSet::new());
        for texel in 0..SIZE * SIZE {
            let [column, row] = [texel % SIZE, texel / SIZE];
            let (own, itself) = window.texel(texel);
            let at = |row: u32, column: u32| Some(row * SIZE + column);
            let wanted = match (row / edge, column / edge) {
                (2 | 3, _) => at(row - 3, column),
                (0, 4) => at(row + 1, column - 16),
                (5, 1) => at(row - 7, column - 4),
                // The last square, half of which is cut off.
                (5, 5) => at(row - 7, column - 16),
                (0 | 1, _) => {
                    above.insert(own);
                    None
                }
                _ => {
                    below.insert(own);
                    None
                }
            };
            assert_eq!(itself.then_some(own), wanted, "{column}, {row}");
            let place = [column as f32 + 0.9, row as f32 + 0.9];
            assert_eq!(window.meets(place), itself);
            seen[own as usize] += 1;
            if itself {
                assert_eq!(window.in_subset(own), row / edge == 3);
            }
        }
        assert_eq!((above.len(), below.len()), (11, 10));
        assert!(above.iter().all(|&texel| texel < SIZE));
        assert!(below.iter().all(|&texel| texel >= 17 * SIZE));
        let shared = above.iter().chain(&below).map(|&texel| texel as usize);
        shared.for_each(|texel| seen[texel] = 1);
        assert!(
            seen.iter().all(|&texels| texels <= 1),
            "each has a place of its own"
        );
        let numbers: Vec<usize> = (0..window.texels()).collect();
        assert_eq!(window.of_core(&numbers), &numbers[9 * 22..13 * 22]);
        assert_eq!(Window::whole(SIZE).texel(77), (77, true));
    }

    #[test]
    fn links_end_where_squares_are_no_neighbours() {
        let window = window();
        let all = all_links(SIZE as usize);
        let own = window.links(&all);
        for texel in 0..SIZE * SIZE {
            let (at, itself) = window.texel(texel);
            let linked = |link: u8| own[at as usize] & link != 0;
            let is = |there: bool, other: u32, at: u32| {
                there && itself && window.texel(other) == (at, true)
            };
            let right = is(texel % SIZE + 1 < SIZE, texel + 1, at + 1);
            assert_eq!(linked(LINK_RIGHT), right, "{texel}");
            let below = is(texel / SIZE + 1 < SIZE, texel + SIZE, at + SIZE);
            assert_eq!(linked(LINK_DOWN), below, "{texel}");
        }
        assert_eq!(Window::whole(SIZE).links(&all), all);
    }

    #[test]
    fn a_footprint_has_one_texel_of_each_square_elsewhere() {
        let entry = |row: u32, column: u32, weight: f32| Entry {
            texel: row * SIZE + column,
            weight,
        };
        let elsewhere = [entry(5, 1, 0.125), entry(7, 3, 0.25), entry(20, 10, 0.125)];
        let mut footprint = vec![elsewhere[2], entry(12, 6, 0.5), elsewhere[0], elsewhere[1]];
        window().take(&mut footprint);
        let [(above, _), (below, _)] =
            [5 * SIZE + 1, 20 * SIZE + 10].map(|texel| window().texel(texel));
        let of = |texel: u32, weight: f32| Entry { texel, weight };
        assert_eq!(
            footprint,
            [of(above, 0.375), of(9 * SIZE + 6, 0.5), of(below, 0.125)]
        );
        assert!(
            !window().in_subset(above),
            "and the first of them tells whose it is"
        );
    }

    #[test]
    fn ties_are_between_texels_that_are_there() {
        let entry = |row: u32, column: u32| Entry {
            texel: row * SIZE + column,
            weight: 0.5,
        };
        let rows = Rows {
            starts: vec![0, 2, 4],
            entries: vec![entry(11, 7), entry(7, 7), entry(11, 7), entry(20, 5)],
            colours: vec![[1; 4], [2; 4]],
            pixels: vec![5, 6],
            ..Rows::default()
        };
        let within = window().rows_within(&rows);
        let texels: Vec<u32> = within.entries.iter().map(|entry| entry.texel).collect();
        assert_eq!(texels, [8 * SIZE + 7, 13 * SIZE + 1]);
        assert_eq!((within.starts, within.pixels), (vec![0, 2], vec![6]));
        assert_eq!(Window::whole(SIZE).rows_within(&rows), rows);
    }
}
