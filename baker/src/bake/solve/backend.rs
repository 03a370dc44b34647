//! What an adapter does for the fit.
//!
//! There are two: [`super::native`] on the processor, and `super::gpu` through wgpu. Both use the same mathematics and
//! the same rows; tests compare them. The least squares problem for texels `x`, pixels `y` and footprints `A`, for each
//! colour channel:
//!
//! ```text
//!   minimise  Σ_p  ρ_p d_p² (A_p x − y_p)²  +  Σ_(i,j) λ_ij (x_i − x_j)²  +  Σ_seam σ_s (B_s x)²
//!   ρ_p  = s · w_p · m_p⁴ / (1 + (e_p / c)²)²  s share of the view, w weight of alpha, m neighbourhood weight (below),
//!                                              then the Geman-McClure weight of the sRGB residual e_p at scale c
//!   d_p  = d sRGB / d linear at y_p         judges the error where it is seen
//!   λ_ij = mean over the two linked texels of λ d², d at the texel's own colour; σ_s likewise over the row's texels
//! ```

use proto::job::Blend;
use proto::message::{AdapterInfo, StageTime};
use proto::plan::RowsHeld;
use proto::table::View;

pub use crate::bake::intake::pixel_mask::BLOCK;
use crate::bake::intake::pixel_mask::PixelMask;
use crate::bake::model::footprint::MIN_ALPHA;
use crate::bake::model::rows::Rows;
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::Window;

/// Why an adapter failed.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// Its memory does not suffice.
    #[error("out of device memory: {0}")]
    OutOfMemory(String),
    /// The adapter went away.
    #[error("device lost: {0}")]
    Lost(String),
    /// The driver refused a pipeline.
    #[error("shader rejected: {0}")]
    Shader(String),
    /// Less was done than was asked for.
    #[error("incomplete: {0}")]
    Incomplete(String),
}

/// Number of bins of [`ViewResiduals::histogram`].
pub const BINS: usize = 256;
/// Bins for each factor of two of the residual.
pub const BINS_PER_OCTAVE: f32 = 16.0;
/// Upper end of the last bin, in sRGB units: black to white.
pub const LARGEST_RESIDUAL: f32 = 1.0;

/// Bin of a residual. Bins are logarithmic: the last holds `LARGEST_RESIDUAL`, the first everything below its end. NaN
/// is as large as any.
pub fn bin_of(residual: f32) -> usize {
    if residual.is_nan() {
        return BINS - 1;
    }
    let below = (LARGEST_RESIDUAL / residual.max(1e-9)).log2() * BINS_PER_OCTAVE;
    (BINS - 1).saturating_sub(below.max(0.0) as usize)
}

/// Geometric middle of a bin.
pub fn bin_middle(bin: usize) -> f32 {
    LARGEST_RESIDUAL * (-((BINS - 1 - bin) as f32 + 0.5) / BINS_PER_OCTAVE).exp2()
}

/// Geman-McClure weight: `1 / (1 + (residual / scale)²)²`. A scale of 0 excludes the view.
pub fn robust_weight(residual: f32, scale: f32) -> f32 {
    if scale <= 0.0 {
        return 0.0;
    }
    let ratio = residual / scale;
    let root = 1.0 / (1.0 + ratio * ratio);
    root * root
}

/// Weight of a pixel by its alpha, which is at least [`MIN_ALPHA`]. A nearly opaque pixel shows little but the object.
/// A half-opaque one may show anything, and counts only where no other view sees.
pub fn alpha_weight(alpha: u8) -> f32 {
    let above = f32::from(alpha.saturating_sub(MIN_ALPHA - 1)) / f32::from(u8::MAX - MIN_ALPHA + 1);
    above * above.sqrt()
}

/// A row's weight is multiplied by this power of the mean robust weight of the 3×3 blocks around it (the neighbourhood
/// weight). 0, 1, 2 and 4 give 41.4, 46.9, 47.4 and 47.6 dB on a set with occluders in three of forty views; on a clean
/// set 1 and 2 differ by 0.004 dB.
pub const CONSENSUS_POWER: i32 = 4;

/// Residuals of a view. A pixel's residual is the root mean square over its channels, in sRGB.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewResiduals {
    /// Index of the view.
    pub view: u32,
    /// Number of pixels.
    pub rows: u64,
    /// Pixels by the bin ([`bin_of`]) of their residual.
    pub histogram: [u32; BINS],
    /// Sum over pixels of the squared residual.
    pub sum_squares: f64,
}

/// The residual below which this share of the pixels of all `views` lies.
pub fn quantile<'a>(views: impl IntoIterator<Item = &'a ViewResiduals>, share: f64) -> f32 {
    let mut histogram = [0u64; BINS];
    for view in views {
        for (sum, count) in histogram.iter_mut().zip(view.histogram) {
            *sum += u64::from(count);
        }
    }
    let wanted = (histogram.iter().sum::<u64>() as f64 * share) as u64;
    let mut seen = 0;
    for (bin, count) in histogram.into_iter().enumerate() {
        seen += count;
        if seen > wanted {
            return bin_middle(bin);
        }
    }
    0.0
}

/// Links and seam constraints ("ties"): which texels belong together where no pixel says so.
#[derive(Clone, Debug, Default)]
pub struct Ties {
    /// [`crate::bake::model::links::LINK_RIGHT`] and [`crate::bake::model::links::LINK_DOWN`] of each texel.
    pub links: Vec<u8>,
    /// Rows that should be 0: the two sides of each place along a seam.
    pub seams: Rows,
}

/// Weights of links and seam constraints, relative to the pixels. Both are shares of the mean diagonal `Σ_p ρ_p a²`
/// over observed texels. They apply in sRGB as the pixels do: each is multiplied by the squared slope at a texel's
/// colour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strength {
    /// λ of a link.
    pub smoothness: f32,
    /// σ of a seam.
    pub seam: f32,
}

/// Weighting of the rows of a view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// Scale of the robust loss, see [`robust_weight`]; 0 excludes the view.
    pub scale: f32,
    /// Factor of its rows' weights, 0-1. Below 1 the view counts where it is alone, and hardly where others see.
    pub share: f32,
}

impl From<f32> for Belief {
    fn from(scale: f32) -> Self {
        Self { scale, share: 1.0 }
    }
}

/// An adapter's memory for rows, and what they take of it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowMemory {
    /// Memory for all rows.
    pub all: u64,
    /// Bytes of a row beside its entries; the minimum where rows are counted by words.
    pub row: f64,
    /// Bytes of an entry.
    pub entry: f64,
    /// Bytes of a word of a device's row store; 0 where there is none.
    pub word: f64,
}

/// Mean size of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerRow {
    /// Texels with weights.
    pub entries: f64,
    /// Words of those in a device's row store.
    pub words: f64,
}

/// Up to so many mean entries, the texels of most rows lie in a box that a row bin takes.
const BOXED: f64 = 16.0;
/// Words of such a row for each entry: its box has a few more texels, two to a word.
const BOX_WORDS: f64 = 0.65;
/// Words of other rows for each entry: neighbouring rows share some of their texels.
const LISTED_WORDS: f64 = 1.6;

impl From<f64> for PerRow {
    /// Estimate for a row with so many entries.
    fn from(entries: f64) -> Self {
        let each = if entries <= BOXED {
            BOX_WORDS
        } else {
            LISTED_WORDS
        };
        Self {
            entries,
            words: each * entries,
        }
    }
}

impl RowMemory {
    /// Number of rows that fit, at so many entries each.
    pub fn rows(&self, entries: f64) -> f64 {
        self.rows_of(entries.into())
    }

    /// Number of rows that fit, at this size each.
    pub fn rows_of(&self, each: PerRow) -> f64 {
        let bytes = self.row.max(each.words * self.word) + each.entries * self.entry;
        self.all as f64 / bytes
    }
}

/// An adapter with the views of one job. Texels are in the space of the fit; their alpha is the observed weight.
///
/// Every call that returns a [`Result`] fails with the adapter's error.
pub trait Backend: Send {
    /// The adapter's name and kind.
    fn adapter(&self) -> AdapterInfo;

    /// Memory for rows before the first view, in a window of so many texels. Rows beyond it are built again for every
    /// pass.
    fn row_memory(&self, texels: usize) -> RowMemory;

    /// Announces the total number of pixel blocks ([`BLOCK`]) of the views to come: what it stores for them is not for
    /// rows.
    fn await_blocks(&mut self, _blocks: u64) {}

    /// Whether some of the rows taken so far are built again for every pass.
    fn overflows(&self) -> bool;

    /// Takes a view in.
    fn add_view(&mut self, view: &View) -> Result<(), BackendError>;

    /// Takes views in, in order, each without the pixels that `mask` leaves out.
    fn add_views(&mut self, views: &[&View], mask: Option<&PixelMask>) -> Result<(), BackendError> {
        views.iter().try_for_each(|view| match mask {
            None => self.add_view(view),
            Some(mask) => {
                let mut view = View::clone(view);
                mask.decimate(&mut view);
                self.add_view(&view)
            }
        })
    }

    /// Announces the windows that follow this one. Each will get the very views that this one gets from now on, so the
    /// adapter may note what they show of those windows and save work.
    fn foresee(&mut self, _windows: &[Window]) -> Result<(), BackendError> {
        Ok(())
    }

    /// Whether it works beside the processor, which is then free while another thread hands views over.
    fn is_apart(&self) -> bool {
        false
    }

    /// Drops the views that were added, before any pass over them.
    fn forget(&mut self) -> Result<(), BackendError>;

    /// Sets each texel to the mean of its pixels by footprint weight, and its alpha to the sum of the weights.
    /// Unobserved texels keep their colour, initially 0, and get alpha 0.
    fn average(&mut self) -> Result<(), BackendError>;

    /// The observed weight of each texel of the window.
    fn read_weights(&mut self) -> Result<Vec<f32>, BackendError> {
        let texels = self.read_texels()?;
        Ok(texels.iter().map(|texel| texel[3]).collect())
    }

    /// The texels of the window.
    fn read_texels(&mut self) -> Result<Vec<[f32; 4]>, BackendError>;

    /// Replaces the texels.
    fn write_texels(&mut self, texels: &[[f32; 4]]) -> Result<(), BackendError>;

    /// Residuals of the present texels, in the order in which the views were added.
    fn residuals(&mut self) -> Result<Vec<ViewResiduals>, BackendError>;

    /// Weighs every row by its residual ([`robust_weight`]), its alpha ([`alpha_weight`]), its neighbourhood
    /// ([`CONSENSUS_POWER`]) and its view's share. Takes one [`Belief`] for each view, in the order in which they were
    /// added. Also builds the diagonal, and the weights of links and seam constraints.
    fn reweight(&mut self, beliefs: &[Belief], strength: Strength) -> Result<(), BackendError>;

    /// Restricts residuals, weights and solutions to the rows of the [`crate::bake::model::subset`], or lifts that again. Texels
    /// that none of those rows sees stay unchanged, and hold no other. Rows have no weight until they are weighed anew.
    fn narrow(&mut self, subset: bool) -> Result<(), BackendError>;

    /// Runs so many conjugate gradient iterations from the present texels.
    fn solve(&mut self, iterations: u32) -> Result<(), BackendError>;

    /// For each texel the mean absolute difference, in sRGB, between the pixels that see it and the present texels. It
    /// is weighted by footprint and alpha alone ([`alpha_weight`]), and below 0 where nothing counts.
    fn deviations(&mut self) -> Result<Vec<f32>, BackendError>;

    /// Duration of each stage by the adapter's own clock, where the job asks for it and the adapter has one.
    fn gpu_times(&mut self) -> Result<Vec<StageTime>, BackendError> {
        Ok(Vec::new())
    }

    /// Resets the adapter: drops views and texels, and starts another texture or another window of the same job.
    fn reset(
        &mut self,
        scene: &Scene,
        ties: &Ties,
        taps: u32,
        blend: Blend,
    ) -> Result<(), BackendError>;

    /// How many rows are stored and built again, once all views are in.
    fn rows_held(&self) -> RowsHeld;

    /// Peak memory of the adapter in bytes.
    fn peak_memory(&self) -> u64;

    /// Memory of the adapter that the driver accounts to this process, in bytes; none where it does not say.
    fn driver_memory(&self) -> Option<u64> {
        None
    }

    /// Bytes that the host has written to the adapter's memory, and read from it.
    fn moved(&self) -> [u64; 2] {
        [0; 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_residual_lies_in_the_bin_whose_middle_is_nearest() {
        let half = (0.5 / BINS_PER_OCTAVE).exp2();
        for step in 0..2000 {
            // Down to the end of the first bin.
            let residual = LARGEST_RESIDUAL * (-(step as f32 + 0.5) / 2000.0 * 15.9).exp2();
            let ratio = residual / bin_middle(bin_of(residual));
            assert!(
                (1.0 / half - 1e-4..=half + 1e-4).contains(&ratio),
                "{residual}: {ratio}"
            );
            let beside = residual / bin_middle(bin_of(residual) - 1);
            assert!(beside > half - 1e-4, "the bin below is another");
        }
    }

    #[test]
    fn bins_end_where_they_say() {
        assert_eq!(bin_of(LARGEST_RESIDUAL), BINS - 1);
        assert_eq!(bin_of(5.0), BINS - 1);
        assert_eq!(bin_of(f32::INFINITY), BINS - 1);
        assert_eq!(bin_of(f32::NAN), BINS - 1, "not the smallest");
        assert_eq!(bin_of(0.0), 0);
        assert_eq!(bin_of(1e-20), 0);
        assert!((0..BINS - 1).all(|bin| bin_middle(bin) < bin_middle(bin + 1)));
        assert!((0..BINS).all(|bin| bin_of(bin_middle(bin)) == bin));
    }

    #[test]
    fn robust_weight_is_the_slope_of_geman_mcclure() {
        // ρ(e) = e² / (1 + e²/c²); the weight is ρ'(e) / (2 e).
        let loss = |e: f64, c: f64| e * e / (1.0 + e * e / (c * c));
        for (residual, scale) in [(0.01, 0.1), (0.1, 0.1), (0.7, 0.1), (0.3, 2.0)] {
            let h = 1e-5;
            let slope = (loss(residual + h, scale) - loss(residual - h, scale)) / (2.0 * h);
            let weight = f64::from(robust_weight(residual as f32, scale as f32));
            assert!((weight - slope / (2.0 * residual)).abs() < 1e-5);
        }
        assert_eq!(robust_weight(0.0, 0.1), 1.0);
        assert_eq!(robust_weight(0.9, f32::INFINITY), 1.0);
        assert_eq!(robust_weight(0.0, 0.0), 0.0);
    }

    #[test]
    fn a_pixel_that_is_half_opaque_counts_next_to_nothing() {
        assert_eq!((alpha_weight(0), alpha_weight(255)), (0.0, 1.0));
        assert!((alpha_weight(MIN_ALPHA) - 128.0f32.powf(-1.5)).abs() < 1e-7);
        assert!((alpha_weight(191) - 0.5f32.powf(1.5)).abs() < 1e-6);
    }
}
