//! The atlas while it is packed: the taken cells, and the search for the lowest place where a mask fits.
//!
//! A row is a bit set, with running ORs over windows of 2, 4, 8… cells beside it. Whether a span of any length
//! collides, for all columns at once, then takes two shifted reads.

use std::ops::Range;

use super::mask::Mask;
use crate::bits::{fill, next};

/// A page of fixed width and growing height.
#[derive(Clone, Debug)]
pub(super) struct Page {
    width: usize,
    words: usize,
    /// Levels of windows; level k has windows of 2^k cells.
    levels: usize,
    /// For each row, level by level: bit x is set if any of the cells x..x + 2^level is taken.
    windows: Vec<u64>,
    /// Levels of each row that are up to date, at least the first. Most rows change again before others are read.
    valid: Vec<u8>,
    /// Longest run of free cells of each row.
    free_run: Vec<u32>,
    /// The columns where the current mask collides.
    scratch: Vec<u64>,
}

impl Page {
    pub(super) fn new(width: usize) -> Self {
        let words = width.div_ceil(64);
        let levels = width.ilog2() as usize + 1;
        Self {
            width,
            words,
            levels,
            windows: Vec::new(),
            valid: Vec::new(),
            free_run: Vec::new(),
            scratch: vec![0; words],
        }
    }

    fn rows(&self) -> usize {
        self.free_run.len()
    }

    fn level(&self, row: usize, level: usize) -> &[u64] {
        let at = (row * self.levels + level) * self.words;
        &self.windows[at..at + self.words]
    }

    /// The lowest, then leftmost place of a mask from row `start` on, with its top below `limit`. Adds its row tests to
    /// `work`.
    pub(super) fn find(
        &mut self,
        mask: &Mask,
        start: usize,
        limit: usize,
        work: &mut u64,
    ) -> Option<[usize; 2]> {
        if mask.width > self.width {
            return None;
        }
        let mut blocked = std::mem::take(&mut self.scratch);
        let places = self.width - mask.width + 1;
        let mut found = None;
        let (mut y, mut short) = (start, 0);
        while y + mask.height < limit {
            if y >= self.rows() {
                found = Some([0, y]);
                break;
            }
            let free = &self.free_run[y..self.rows().min(y + mask.height)];
            let is_short = |row: usize| free.get(row).is_some_and(|&run| run < mask.longest[row]);
            // Where one row has no free run as long as its span, no place fits. It is often the same row.
            let mut hopeless = is_short(short);
            if !hopeless {
                *work += 1;
                if let Some(row) = (0..free.len()).find(|&row| is_short(row)) {
                    (hopeless, short) = (true, row);
                }
            }
            if !hopeless {
                found = self
                    .first_free(mask, y, places, &mut blocked, work)
                    .map(|x| [x, y]);
                if found.is_some() {
                    break;
                }
            }
            y += 1;
        }
        self.scratch = blocked;
        found
    }

    /// The leftmost place in row `y`.
    fn first_free(
        &mut self,
        mask: &Mask,
        y: usize,
        places: usize,
        blocked: &mut [u64],
        work: &mut u64,
    ) -> Option<usize> {
        blocked.fill(0);
        if !places.is_multiple_of(64) {
            blocked[places / 64] = !0 << (places % 64);
        }
        // The words with free places. A row is read there alone.
        let mut open = 0..places.div_ceil(64);
        for &row in &mask.order {
            let page_row = y + row as usize;
            if page_row >= self.rows() {
                continue;
            }
            for &[start, length] in mask.row(row as usize) {
                *work += 1;
                let level = length.ilog2() as usize;
                if level >= usize::from(self.valid[page_row]) {
                    self.update(page_row, level);
                }
                let windows = self.level(page_row, level);
                let rest = (length - (1 << level)) as usize;
                for shift in [start as usize, start as usize + rest] {
                    or_shifted(&mut blocked[open.clone()], windows, 64 * open.start + shift);
                    if rest == 0 {
                        break;
                    }
                }
            }
            let is_open = |word: &u64| *word != !0;
            let first = blocked[open.clone()].iter().position(is_open)?;
            let last = blocked[open.clone()].iter().rposition(is_open)?;
            open = open.start + first..open.start + last + 1;
        }
        let word = open.start + blocked[open].iter().position(|&word| word != !0)?;
        Some(word * 64 + blocked[word].trailing_ones() as usize)
    }

    /// Takes the cells of a mask at a place, and all cells within `gap` of them.
    pub(super) fn insert(&mut self, mask: &Mask, [x, y]: [usize; 2], gap: usize) {
        let from = x.saturating_sub(gap);
        let to = (x + mask.width + gap).min(self.width);
        let words = from / 64..to.div_ceil(64);
        let (count, rows) = (words.len(), mask.height + 2 * gap);
        // The mask's rows, widened by the gap.
        let mut taken = vec![0; rows * count];
        for row in 0..mask.height {
            let cells = &mut taken[row * count..(row + 1) * count];
            for &[start, length] in mask.row(row) {
                let from = (x + start as usize).saturating_sub(gap);
                let to = (x + (start + length) as usize + gap).min(self.width);
                fill(cells, from - 64 * words.start, to - 64 * words.start);
            }
        }
        // Each row takes what the rows before it have, twice as many each time, until it has twice the gap.
        let mut window = 1;
        while window < 2 * gap + 1 {
            let step = window.min(2 * gap + 1 - window);
            for word in (step * count..rows * count).rev() {
                taken[word] |= taken[word - step * count];
            }
            window += step;
        }
        self.grow(y + mask.height + gap);
        for (row, cells) in taken.chunks_exact(count).enumerate() {
            if let Some(row) = (y + row).checked_sub(gap) {
                self.take(row, cells, words.clone());
            }
        }
    }

    fn grow(&mut self, rows: usize) {
        while self.rows() < rows {
            self.windows
                .resize(self.windows.len() + self.levels * self.words, 0);
            // All levels of a free row are empty.
            self.valid.push(self.levels as u8);
            self.free_run.push(self.width as u32);
        }
    }

    /// Takes cells of a row, given for some of its words.
    fn take(&mut self, row: usize, cells: &[u64], words: Range<usize>) {
        let at = row * self.levels * self.words;
        let own = &mut self.windows[at..at + self.words];
        for (own, cells) in own[words].iter_mut().zip(cells) {
            *own |= cells;
        }
        self.valid[row] = 1;
        let (mut longest, mut x) = (0, 0);
        while x < self.width {
            let start = next(own, x, false).min(self.width);
            x = next(own, start, true).min(self.width);
            longest = longest.max(x - start);
        }
        self.free_run[row] = longest as u32;
    }

    /// Computes the windows of a row up to a level from its cells. Windows that leave the page are never read.
    fn update(&mut self, row: usize, level: usize) {
        let at = row * self.levels * self.words;
        for level in usize::from(self.valid[row])..=level {
            let from = at + (level - 1) * self.words;
            let windows = &mut self.windows[from..from + 2 * self.words];
            let (below, above) = windows.split_at_mut(self.words);
            above.copy_from_slice(below);
            or_shifted(above, below, 1 << (level - 1));
        }
        self.valid[row] = self.valid[row].max(level as u8 + 1);
    }
}

/// `into[x] |= from[x + shift]` for every bit x.
fn or_shifted(into: &mut [u64], from: &[u64], shift: usize) {
    let (words, bits) = (shift / 64, shift % 64);
    let from = from.get(words..).unwrap_or(&[]);
    if bits == 0 {
        for (into, from) in into.iter_mut().zip(from) {
            *into |= from;
        }
        return;
    }
    let above = from.get(1..).unwrap_or(&[]);
    for ((into, from), above) in into.iter_mut().zip(from).zip(above) {
        *into |= from >> bits | above << (64 - bits);
    }
    if let (Some(into), Some(last)) = (into.get_mut(from.len().wrapping_sub(1)), from.last()) {
        *into |= last >> bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::piece::Chart;

    /// A lower left triangle with legs `a`.
    fn corner(a: f64) -> Mask {
        let chart = Chart {
            uvs: vec![[0.0, 0.0], [a, 0.0], [0.0, a]],
            triangles: vec![[0, 1, 2]],
        };
        Mask::new(&chart, [1.0, 0.0], 1.0, 1000).unwrap()
    }

    /// Whether the mask hits a taken cell, tested cell by cell.
    fn collides(taken: &[(usize, usize)], mask: &Mask, x: usize, y: usize) -> bool {
        (0..mask.height).any(|row| {
            let hit = |&[start, length]: &[u32; 2]| {
                (start..start + length).any(|cell| taken.contains(&(x + cell as usize, y + row)))
            };
            mask.row(row).iter().any(hit)
        })
    }

    #[test]
    fn the_lowest_leftmost_place_is_found() {
        let mut page = Page::new(100);
        let mut taken = Vec::new();
        let mut work = 0;
        for size in [40.0, 33.0, 21.0, 17.0, 70.0, 9.0, 9.0, 5.0, 3.0, 3.0, 1.0] {
            let mask = corner(size);
            let [x, y] = page.find(&mask, 0, usize::MAX, &mut work).unwrap();
            assert!(!collides(&taken, &mask, x, y), "{size}");
            let lower = (0..y).flat_map(|y| (0..=100 - mask.width).map(move |x| (x, y)));
            let left = (0..x).map(|x| (x, y));
            for (x, y) in lower.chain(left) {
                assert!(collides(&taken, &mask, x, y), "{size} fits at {x} {y}");
            }
            page.insert(&mask, [x, y], 0);
            for row in 0..mask.height {
                for &[start, length] in mask.row(row) {
                    taken.extend((start..start + length).map(|cell| (x + cell as usize, y + row)));
                }
            }
        }
    }

    #[test]
    fn the_gap_is_kept_on_every_side() {
        let mut page = Page::new(64);
        let mut places = Vec::new();
        let square = Chart {
            uvs: vec![[0.0, 0.0], [5.9, 0.0], [5.9, 5.9], [0.0, 5.9]],
            triangles: vec![[0, 1, 2], [0, 2, 3]],
        };
        let mask = Mask::new(&square, [1.0, 0.0], 1.0, 64).unwrap();
        for _ in 0..40 {
            let place = page.find(&mask, 0, usize::MAX, &mut 0).unwrap();
            page.insert(&mask, place, 2);
            places.push(place);
        }
        for (i, a) in places.iter().enumerate() {
            assert!(a[0] + 6 <= 64);
            for b in &places[..i] {
                let apart = |axis: usize| a[axis].abs_diff(b[axis]).saturating_sub(6);
                assert!(apart(0) >= 2 || apart(1) >= 2, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_mask_beyond_the_page_or_the_limit_is_told() {
        let mut page = Page::new(10);
        assert_eq!(page.find(&corner(10.5), 0, usize::MAX, &mut 0), None);
        assert_eq!(page.find(&corner(9.5), 0, 10, &mut 0), None);
        assert_eq!(page.find(&corner(9.5), 0, 11, &mut 0), Some([0, 0]));
    }
}
