//! What an adapter does for the fit. Two of them: [`super::native`] on the processor, and `super::gpu` through wgpu; the
//! same mathematics, the same rows, compared by tests.
//!
//! The linear system, for texels `x`, pixels `y` and footprints `A` (per colour channel):
//!
//! ```text
//!   minimise  Σ_p  ρ_p d_p² (A_p x − y_p)²  +  Σ_(i,j) λ_ij (x_i − x_j)²  +  Σ_seam σ_s (B_s x)²
//!   ρ_p  = s · w_p · m_p⁴ / (1 + (e_p / c)²)²  the view's share, what alpha is worth, company (below), and Geman-McClure
//!                                              weight of the sRGB residual e_p
//!   d_p  = d sRGB / d linear at y_p         judges the error where it is seen
//!   λ_ij = mean over the two linked texels of λ d², d at the texel's own colour; σ_s likewise over the row's texels
//! ```

use proto::job::Blend;
use proto::message::{AdapterInfo, StageTime};
use proto::plan::RowsHeld;
use proto::table::View;

use super::footprint::MIN_ALPHA;
use super::kept::Kept;
use super::rows::Rows;
use super::scene::Scene;
use super::window::Window;

/// Why an adapter could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The adapter's memory.
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
/// Upper end of the last bin, in sRGB units: all of black to white.
pub const LARGEST_RESIDUAL: f32 = 1.0;

/// Bin of a residual: logarithmic, the last holds `LARGEST_RESIDUAL`, the first everything smaller than its end. What is no
/// number explains nothing, and is as large as any.
#[must_use]
pub fn bin_of(residual: f32) -> usize {
    if residual.is_nan() {
        return BINS - 1;
    }
    let below = (LARGEST_RESIDUAL / residual.max(1e-9)).log2() * BINS_PER_OCTAVE;
    (BINS - 1).saturating_sub(below.max(0.0) as usize)
}

/// Geometric middle of a bin.
#[must_use]
pub fn bin_middle(bin: usize) -> f32 {
    LARGEST_RESIDUAL * (-((BINS - 1 - bin) as f32 + 0.5) / BINS_PER_OCTAVE).exp2()
}

/// Geman-McClure: `1 / (1 + (residual / scale)²)²`; a scale of 0 takes the view out.
#[must_use]
pub fn robust_weight(residual: f32, scale: f32) -> f32 {
    if scale <= 0.0 {
        return 0.0;
    }
    let ratio = residual / scale;
    let root = 1.0 / (1.0 + ratio * ratio);
    root * root
}

/// A pixel that is not quite opaque shows little but the object; one that is half so may show anything, and counts where nobody
/// else sees. `alpha` is at least [`MIN_ALPHA`].
#[must_use]
pub fn alpha_weight(alpha: u8) -> f32 {
    let above = f32::from(alpha.saturating_sub(MIN_ALPHA - 1)) / f32::from(u8::MAX - MIN_ALPHA + 1);
    above * above.sqrt()
}

/// Edge in pixels of a block in which pixels keep each other company: occluders and highlights are connected regions, so
/// where most pixels around one are outliers it is one too, even if few other views contradict it.
pub const BLOCK: u32 = 8;

/// A row's weight is multiplied by this power of the mean robust weight over the 3×3 blocks around it. 0, 1, 2 and 4 gave 41.4,
/// 46.9, 47.4 and 47.6 dB on a set with occluders in three of forty views; on a clean set 1 and 2 differed by 0.004 dB.
pub const CONSENSUS_POWER: i32 = 4;

/// How well a view is explained: of each pixel the root mean square over the channels of its sRGB residual.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewResiduals {
    /// Index of the view.
    pub view: u32,
    /// Pixels.
    pub rows: u64,
    /// Pixels by [`bin_of`] their residual.
    pub histogram: [u32; BINS],
    /// Sum over pixels of the squared residual.
    pub sum_squares: f64,
}

/// Which texels belong together where pixels do not say so.
#[derive(Clone, Debug, Default)]
pub struct Ties {
    /// [`super::atlas::LINK_RIGHT`] and [`super::atlas::LINK_DOWN`] of each texel.
    pub links: Vec<u8>,
    /// Rows that should be 0: the two sides of each place along a seam.
    pub seams: Rows,
}

/// How firmly they are held together, relative to the pixels: both are shares of the mean, over observed texels, of the
/// diagonal `Σ_p ρ_p a²`, and are judged in sRGB as the pixels are (times the squared slope at a texel's colour).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strength {
    /// λ of a link.
    pub smoothness: f32,
    /// σ of a seam.
    pub seam: f32,
}

/// How the rows of a view are weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// Scale of the robust loss, see [`robust_weight`]; 0 takes the view out.
    pub scale: f32,
    /// A factor of its rows' weights, 0-1: below 1, the view counts where it is alone, and hardly where others are.
    pub share: f32,
}

impl From<f32> for Belief {
    fn from(scale: f32) -> Self {
        Self { scale, share: 1.0 }
    }
}

/// Memory that an adapter has for rows, and what they take of it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowMemory {
    /// For all of them.
    pub all: u64,
    /// For a row, beside its entries; or at least, where it is told by words.
    pub row: f64,
    /// For an entry.
    pub entry: f64,
    /// For a word of a device's pools; 0 where rows are not kept so.
    pub word: f64,
}

/// What a row has on the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerRow {
    /// Texels with their weights.
    pub entries: f64,
    /// What those come to in a device's pools.
    pub words: f64,
}

/// A row has so many entries at most, on the mean, if the texels of most lie in a box that a plot takes.
const BOXED: f64 = 16.0;
/// Words of such a row for each entry: its box has a few texels more, two to a word.
const BOX_WORDS: f64 = 0.65;
/// And of others: some of the texels that rows which lie together touch are the same.
const LISTED_WORDS: f64 = 1.6;

impl From<f64> for PerRow {
    /// Of a row with so many entries, about.
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
    /// Rows that stay, if each has so many entries.
    #[must_use]
    pub fn rows(&self, entries: f64) -> f64 {
        self.rows_of(entries.into())
    }

    /// Rows that stay, if each has so much.
    #[must_use]
    pub fn rows_of(&self, each: PerRow) -> f64 {
        let bytes = self.row.max(each.words * self.word) + each.entries * self.entry;
        self.all as f64 / bytes
    }
}

/// An adapter with one job's views. Texels are in the space of the fit, alpha is the observed weight.
pub trait Backend: Send {
    /// Who does the work.
    fn adapter(&self) -> AdapterInfo;

    /// What there is for rows before the first view, in a window of so many texels: beyond it they are made again for every pass.
    fn row_memory(&self, texels: usize) -> RowMemory;

    /// Views with so many blocks of pixels ([`BLOCK`]) in all will be given to it: what it keeps of those is not for rows.
    fn await_blocks(&mut self, _blocks: u64) {}

    /// Whether some of the rows that it has been given so far are made again for every pass.
    fn overflows(&self) -> bool;

    /// Takes a view in.
    ///
    /// # Errors
    /// The adapter's.
    fn add_view(&mut self, view: &View) -> Result<(), BackendError>;

    /// Takes views in, one after the other, each as far as it is `kept`.
    ///
    /// # Errors
    /// The adapter's.
    fn add_views(&mut self, views: &[&View], kept: Option<&Kept>) -> Result<(), BackendError> {
        views.iter().try_for_each(|view| match kept {
            None => self.add_view(view),
            Some(kept) => {
                let mut view = View::clone(view);
                kept.thin(&mut view);
                self.add_view(&view)
            }
        })
    }

    /// After this window come those, and each is given the very views that this one is given from now on: what it learns from
    /// these of what they show of those may save work.
    ///
    /// # Errors
    /// The adapter's.
    fn foresee(&mut self, _windows: &[Window]) -> Result<(), BackendError> {
        Ok(())
    }

    /// Whether it works beside the processor, which can do something else while another thread hands views over.
    fn is_apart(&self) -> bool {
        false
    }

    /// Forgets the views that were added, before any pass over them.
    ///
    /// # Errors
    /// The adapter's.
    fn forget(&mut self) -> Result<(), BackendError>;

    /// Texels become the mean of their pixels by footprint weight, which goes to alpha. Those that are not observed keep their
    /// colour, which is 0 at first, and have an alpha of 0.
    ///
    /// # Errors
    /// The adapter's.
    fn average(&mut self) -> Result<(), BackendError>;

    /// The weight with which each texel of the window is observed.
    ///
    /// # Errors
    /// The adapter's.
    fn read_weights(&mut self) -> Result<Vec<f32>, BackendError> {
        let texels = self.read_texels()?;
        Ok(texels.iter().map(|texel| texel[3]).collect())
    }

    /// The texels of the window.
    ///
    /// # Errors
    /// The adapter's.
    fn read_texels(&mut self) -> Result<Vec<[f32; 4]>, BackendError>;

    /// Replaces the texels.
    ///
    /// # Errors
    /// The adapter's.
    fn write_texels(&mut self, texels: &[[f32; 4]]) -> Result<(), BackendError>;

    /// The residuals of the texels as they are, in the order in which the views were added.
    ///
    /// # Errors
    /// The adapter's.
    fn residuals(&mut self) -> Result<Vec<ViewResiduals>, BackendError>;

    /// Weighs every row by its residual ([`robust_weight`]), its alpha ([`alpha_weight`]), the company it is in
    /// ([`CONSENSUS_POWER`]) and its view's share, with one [`Belief`] for each view in the order in which they were added,
    /// and builds the diagonal and the ties' strength.
    ///
    /// # Errors
    /// The adapter's.
    fn reweight(&mut self, beliefs: &[Belief], strength: Strength) -> Result<(), BackendError>;

    /// From now on only the rows of the [`super::subset`] exist, or all of them again: for residuals, weights and solutions.
    /// Texels that none of them sees stay as they are, and hold no other. Rows have no weight until they are weighed anew.
    ///
    /// # Errors
    /// The adapter's.
    fn narrow(&mut self, subset: bool) -> Result<(), BackendError>;

    /// Runs this many conjugate gradient iterations from the texels as they are.
    ///
    /// # Errors
    /// The adapter's.
    fn solve(&mut self, iterations: u32) -> Result<(), BackendError>;

    /// For each texel, how far the pixels that see it are from the texels as they are: mean of their absolute difference in
    /// sRGB, weighed by footprint and alpha alone ([`alpha_weight`]); below 0 where nothing counts.
    ///
    /// # Errors
    /// The adapter's.
    fn deviations(&mut self) -> Result<Vec<f32>, BackendError>;

    /// How long each stage took by the adapter's own clock, where the job asked for it and the adapter has one.
    ///
    /// # Errors
    /// The adapter's.
    fn gpu_times(&mut self) -> Result<Vec<StageTime>, BackendError> {
        Ok(Vec::new())
    }

    /// Lets go of views and texels, and begins anew with the same scene: another texture of the same job, or another window.
    ///
    /// # Errors
    /// The adapter's.
    fn again(
        &mut self,
        scene: &Scene,
        ties: &Ties,
        taps: u32,
        blend: Blend,
    ) -> Result<(), BackendError>;

    /// What became of the rows, once all views are in, as far as the adapter was given any.
    fn rows_held(&self) -> RowsHeld;

    /// Largest memory of the adapter in use at once, in bytes.
    fn peak_memory(&self) -> u64;

    /// Memory of the adapter that the process has by its driver's account, in bytes; none where nobody accounts for it.
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
