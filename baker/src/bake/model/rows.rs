//! The linear model of a view's pixels: pixel = weighted sum of texels. Every adapter builds, stores and multiplies the
//! same rows.
//!
//! A pixel is the mean of s×s bilinear taps, each on the surface that it hits. Taps that share texels are merged, so a
//! row holds each texel once and its weights sum to 1. Entries of negligible weight are dropped
//! ([`LEAST_ENTRY`](super::footprint::LEAST_ENTRY)). A pixel has a row only if every tap hits the mesh and its alpha is
//! at least [`MIN_ALPHA`](super::footprint::MIN_ALPHA). [`alpha_weight`](crate::bake::solve::backend::alpha_weight) weighs the row.

/// One texel of a footprint.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Entry {
    /// `row · size + column`, in a [`Window`](crate::bake::plan::window::Window).
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
    /// Without rows yet.
    pub fn of_view(view: u32) -> Self {
        Self {
            view,
            starts: vec![0],
            ..Self::default()
        }
    }

    /// Adds a row.
    pub fn push(&mut self, entries: &[Entry], colour: [u8; 4], pixel: u32) {
        self.entries.extend_from_slice(entries);
        self.starts.push(self.entries.len() as u32);
        self.colours.push(colour);
        self.pixels.push(pixel);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.colours.len()
    }

    /// Whether no pixel has a row.
    pub fn is_empty(&self) -> bool {
        self.colours.is_empty()
    }

    /// Entries of a row.
    pub fn row(&self, row: usize) -> &[Entry] {
        &self.entries[self.starts[row] as usize..self.starts[row + 1] as usize]
    }

    /// What a row shows of the texels: `A_p x`.
    pub fn predict(&self, row: usize, texels: &[[f32; 4]]) -> [f32; 4] {
        let mut sum = [0.0; 4];
        for entry in self.row(row) {
            let texel = &texels[entry.texel as usize];
            for channel in 0..4 {
                sum[channel] += entry.weight * texel[channel];
            }
        }
        sum
    }
}

/// Adds a bilinear lookup at `(u, v)` texels, clamped to the edge, to a footprint. Merges texels that are already
/// there.
pub fn add_tap(footprint: &mut Vec<Entry>, size: u32, u: f32, v: f32, share: f32) {
    let last = size as i32 - 1;
    let (x, y) = (u - 0.5, v - 0.5);
    let (x0, y0) = (x.floor(), y.floor());
    let (fx, fy) = (x - x0, y - y0);
    // Saturating: a lookup however far outside is one of the edge.
    let clamp = |value: f32, offset| (value as i32).saturating_add(offset).clamp(0, last) as u32;
    for (dy, wy) in [(0, 1.0 - fy), (1, fy)] {
        for (dx, wx) in [(0, 1.0 - fx), (1, fx)] {
            let weight = wx * wy * share;
            if weight == 0.0 {
                continue;
            }
            let texel = clamp(y0, dy) * size + clamp(x0, dx);
            match footprint
                .iter_mut()
                .rev()
                .find(|entry| entry.texel == texel)
            {
                Some(entry) => entry.weight += weight,
                None => footprint.push(Entry { texel, weight }),
            }
        }
    }
}
