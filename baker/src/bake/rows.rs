//! The linear model of a view's pixels: pixel = weighted sum of texels. Every adapter builds, stores and multiplies the
//! same rows.
//!
//! A pixel is the mean of s×s bilinear taps, each on the surface that it hits. Taps that share texels are merged, so a
//! row holds each texel once and its weights sum to 1. Entries of negligible weight are dropped
//! ([`LEAST_ENTRY`](super::footprint::LEAST_ENTRY)). A pixel has a row only if every tap hits the mesh and its alpha is
//! at least [`MIN_ALPHA`](super::footprint::MIN_ALPHA). [`alpha_weight`](super::backend::alpha_weight) weighs the row.

use super::window::Window;

/// One texel of a footprint.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Entry {
    /// `row · size + column`, in a [`Window`].
    pub texel: u32,
    /// Share of the pixel, 0-1.
    pub weight: f32,
}

/// Footprints of some pixels of one view, in compressed sparse row format.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Index of the view.
    pub view: u32,
    /// Row `p` has the entries `starts[p]..starts[p + 1]`; one element longer than there are rows.
    pub starts: Vec<u32>,
    /// All entries.
    pub entries: Vec<Entry>,
    /// Observed colour of each row: sRGB and alpha.
    pub colours: Vec<[u8; 4]>,
    /// Pixel of each row in its view, `row · width + column`.
    pub pixels: Vec<u32>,
}

impl Rows {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.colours.len()
    }

    /// Whether no pixel has a row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.colours.is_empty()
    }

    /// Whether a row is in the subset ([`Window::in_subset`]), by the first of its texels.
    #[must_use]
    pub fn in_subset(&self, row: usize, window: &Window) -> bool {
        let first = self.row(row).iter().map(|entry| entry.texel).min();
        first.is_some_and(|texel| window.in_subset(texel))
    }

    /// Entries of a row.
    #[must_use]
    pub fn row(&self, row: usize) -> &[Entry] {
        &self.entries[self.starts[row] as usize..self.starts[row + 1] as usize]
    }
}
