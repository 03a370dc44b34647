//! What an adapter does for the fit. Two of them: [`super::native`] on the processor, and `super::gpu` through wgpu; the
//! same mathematics, the same rows, compared by tests.
//!
//! The linear system, for texels `x`, pixels `y` and footprints `A` (per colour channel):
//!
//! ```text
//!   minimise  Σ_p  ρ_p d_p² (A_p x − y_p)²  +  Σ_(i,j) λ_ij (x_i − x_j)²  +  σ Σ_seam (B x)²
//!   ρ_p  = 1 / (1 + (e_p / c)²)²        Geman-McClure weight of the sRGB residual e_p with the view's scale c
//!   d_p  = d sRGB / d linear at y_p     judges the error where it is seen
//!   λ_ij = mean of the two texels' λ over linked neighbours
//! ```

use proto::message::AdapterInfo;
use proto::table::View;

use super::rows::Rows;

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

/// Bin of a residual: logarithmic, the last holds `LARGEST_RESIDUAL`, the first everything smaller than its end.
#[must_use]
pub fn bin_of(residual: f32) -> usize {
    let below = (LARGEST_RESIDUAL / residual.max(1e-9)).log2() * BINS_PER_OCTAVE;
    (BINS - 1).saturating_sub(below.max(0.0) as usize)
}

/// Geometric middle of a bin.
#[must_use]
pub fn bin_middle(bin: usize) -> f32 {
    LARGEST_RESIDUAL * (-((BINS - 1 - bin) as f32 + 0.5) / BINS_PER_OCTAVE).exp2()
}

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

/// What holds texels together where pixels do not.
#[derive(Clone, Debug, Default)]
pub struct Regulariser {
    /// [`super::atlas::LINK_RIGHT`] and [`super::atlas::LINK_DOWN`] of each texel.
    pub links: Vec<u8>,
    /// λ of a link, as a share of the mean diagonal of the pixels' part over observed texels.
    pub smoothness: f32,
    /// Rows that should be 0.
    pub seams: Rows,
    /// σ, as a share of the same mean.
    pub seam_weight: f32,
}

/// An adapter with one job's views. Texels are in the space of the fit, alpha is the observed weight.
pub trait Backend {
    /// Who does the work.
    fn adapter(&self) -> AdapterInfo;

    /// Takes a view in; returns its number of rows.
    ///
    /// # Errors
    /// The adapter's.
    fn add_view(&mut self, view: &View) -> Result<u64, BackendError>;

    /// Texels become the mean of their pixels by footprint weight, 0 where nothing is observed; the weight goes to alpha.
    ///
    /// # Errors
    /// The adapter's.
    fn average(&mut self) -> Result<(), BackendError>;

    /// The texels, `size²`.
    ///
    /// # Errors
    /// The adapter's.
    fn read_texels(&mut self) -> Result<Vec<[f32; 4]>, BackendError>;

    /// Replaces the texels.
    ///
    /// # Errors
    /// The adapter's.
    fn write_texels(&mut self, texels: &[[f32; 4]]) -> Result<(), BackendError>;

    /// Sets what holds texels together.
    ///
    /// # Errors
    /// The adapter's.
    fn set_regulariser(&mut self, regulariser: Regulariser) -> Result<(), BackendError>;

    /// The residuals of the texels as they are, in the order in which the views were added.
    ///
    /// # Errors
    /// The adapter's.
    fn residuals(&mut self) -> Result<Vec<ViewResiduals>, BackendError>;

    /// Weighs every row by its residual, with one scale for each view in the order in which they were added, and builds the
    /// diagonal. An infinite scale weighs all rows alike.
    ///
    /// # Errors
    /// The adapter's.
    fn reweight(&mut self, scales: &[f32]) -> Result<(), BackendError>;

    /// Runs this many conjugate gradient iterations from the texels as they are.
    ///
    /// # Errors
    /// The adapter's.
    fn solve(&mut self, iterations: u32) -> Result<(), BackendError>;

    /// Largest memory of the adapter in use at once, in bytes.
    fn peak_memory(&self) -> u64;
}
