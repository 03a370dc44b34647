//! Visible blocks: for each block of each view, the upcoming windows that it shows. The device
//! records this while it draws all views for the window before them. Blocks that show nothing of a window are then not
//! drawn for it.
//!
//! Without them, a texture in nine windows has all pixels of all views drawn ten times over, nine tenths of that in
//! vain.

use rayon::prelude::*;

use crate::bake::plan::window::{COARSE, Window, across};
use crate::bake::solve::backend::BLOCK;

/// Windows that have a bit of their own; beyond this number, some share one.
const BITS: usize = 32;

/// The upcoming windows, and the blocks that show them.
#[derive(Debug)]
pub(super) struct VisibleBlocks {
    windows: Vec<Window>,
    /// For each block of all views, the bits of the windows that it shows.
    pub(super) bits: Vec<u32>,
}

/// The blocks of a view that show anything of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownBlocks<'a> {
    bits: &'a [u32],
    across: u32,
    bit: u32,
}

impl VisibleBlocks {
    pub(super) fn new(windows: &[Window]) -> Self {
        Self {
            windows: windows.to_vec(),
            bits: Vec::new(),
        }
    }

    pub(super) fn texels(&self) -> usize {
        self.windows.iter().map(Window::texels).max().unwrap_or(0)
    }

    pub(super) fn count(&self) -> usize {
        self.windows.len()
    }

    fn bit(&self, nth: usize) -> u32 {
        1 << (nth * BITS / self.windows.len().max(BITS))
    }

    /// For each square of the texture, the bits of the windows that own it or a square beside it: a pixel drawn in
    /// another tile may hit the texture a rounding error away.
    pub(super) fn squares(&self) -> Vec<u32> {
        let across = self.windows.first().map_or(0, |window| across(window.size)) as usize;
        let own = |square: usize| {
            let bits = (0..).zip(&self.windows).map(|(nth, window)| {
                let own = (window.squares().get(square)).is_some_and(|place| place & COARSE == 0);
                if own { self.bit(nth) } else { 0 }
            });
            bits.fold(0, |all, bit| all | bit)
        };
        let own: Vec<u32> = (0..across * across).into_par_iter().map(own).collect();
        let around = |at: usize| at.saturating_sub(1)..(at + 2).min(across);
        let beside = |square: usize| {
            let lines = around(square / across).map(|line| line * across);
            let columns = around(square % across);
            lines
                .flat_map(|line| &own[line + columns.start..line + columns.end])
                .fold(0, |all, bits| all | bits)
        };
        (0..across * across).into_par_iter().map(beside).collect()
    }

    /// The bit of a window: that of the first upcoming window that owns all of its squares. None where there is no such
    /// window.
    pub(super) fn of(&self, window: &Window) -> Option<u32> {
        let within = |other: &Window| {
            let mut squares = window.squares().iter().zip(other.squares());
            squares.all(|(own, other)| own & COARSE != 0 || other & COARSE == 0)
        };
        let some = |window: &Window| !window.is_whole();
        let nth =
            (self.windows.iter()).position(|other| some(window) && some(other) && within(other))?;
        Some(self.bit(nth))
    }

    /// Which of a view's blocks show the window with this bit; none where this is not known. `first` is the view's
    /// first block.
    pub(super) fn shown(
        &self,
        bit: u32,
        first: u32,
        [across, down]: [u32; 2],
    ) -> Option<ShownBlocks<'_>> {
        let bits = self.bits.get(first as usize..)?;
        let bits = bits.get(..across as usize * down as usize)?;
        Some(ShownBlocks { bits, across, bit })
    }
}

impl ShownBlocks<'_> {
    /// Whether the block around a pixel shows the window.
    pub(super) fn holds(self, x: u32, y: u32) -> bool {
        let block = y / BLOCK * self.across + x / BLOCK;
        self.bits[block as usize] & self.bit != 0
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    const SIZE: u32 = 64;

    fn strip(lines: Range<u32>) -> Window {
        Window::strips(SIZE, std::slice::from_ref(&lines))
    }

    fn windows(count: u32) -> Vec<Window> {
        let lines = across(SIZE) / count.min(across(SIZE));
        let of = |nth: u32| strip(nth * lines..(nth + 1) * lines);
        (0..count).map(of).collect()
    }

    #[test]
    fn squares_are_of_the_windows_that_have_them_or_lie_beside() {
        let visible = VisibleBlocks::new(&windows(4));
        let bits = visible.squares();
        let across = across(SIZE) as usize;
        let lines: Vec<u32> = (0..across).map(|line| bits[line * across + 3]).collect();
        let wanted = [1, 1, 1, 3, 3, 2, 2, 6, 6, 4, 4, 12, 12, 8, 8, 8];
        assert_eq!(lines, wanted);
        assert_eq!(visible.of(&windows(4)[2]), Some(4));
        assert_eq!(visible.of(&strip(9..10)), Some(4), "a part of one");
        assert_eq!(visible.of(&strip(9..13)), None, "of no single one");
        assert_eq!(visible.of(&Window::whole(SIZE)), None);
    }

    #[test]
    fn many_windows_share_bits_and_each_has_one() {
        let visible = VisibleBlocks::new(&vec![Window::whole(SIZE); 100]);
        let bits: Vec<u32> = (0..100).map(|nth| visible.bit(nth).ilog2()).collect();
        assert!(
            bits.is_sorted() && bits[0] == 0 && bits[99] == 31,
            "{bits:?}"
        );
    }

    #[test]
    fn a_block_shows_what_its_bits_say() {
        let mut visible = VisibleBlocks::new(&windows(4));
        assert!(visible.shown(2, 0, [2, 2]).is_none(), "nothing is known");
        visible.bits = vec![9, 0, 2, 3, 4];
        let shown = visible.shown(2, 1, [2, 2]).expect("known");
        let at = [(0, 0), (8, 7), (15, 7), (7, 8), (8, 8)].map(|(x, y)| shown.holds(x, y));
        assert_eq!(at, [false, true, true, true, false]);
        assert!(visible.shown(2, 2, [2, 2]).is_none(), "not of all blocks");
    }
}
