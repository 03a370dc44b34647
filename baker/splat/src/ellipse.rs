//! A splat as a view sees it.

/// Least alpha that is drawn.
pub const LEAST_ALPHA: f32 = 1.0 / 255.0;
/// log₂ of its inverse.
pub const LEVELS: f32 = 7.994_353_4;

/// A Gaussian on the picture, one line of the processor's cache. x goes right and y down, both in pixels.
///
/// At (dx, dy) from its centre, log₂ of alpha is `level - s² - t²` with `s = along · dx + skew · dy` and
/// `t = across · dy`: squares do not cancel, as the terms of the inverse covariance do for needles.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Ellipse {
    /// Centre; that of the first pixel is (0.5, 0.5).
    pub(crate) centre: [f32; 2],
    pub(crate) along: f32,
    pub(crate) skew: f32,
    pub(crate) across: f32,
    /// log₂ of alpha at the centre.
    pub(crate) level: f32,
    /// Largest |dx| and |dy| that are drawn; infinite where alpha is below [`LEAST_ALPHA`] before.
    pub(crate) square: f32,
    /// Red, green, blue.
    pub(crate) colour: [f32; 3],
    /// View-space z, positive.
    pub(crate) depth: f32,
    /// Half the size of the box that holds every pixel with an alpha of [`LEAST_ALPHA`] and more.
    pub(crate) reach: [f32; 2],
    /// dx of a row's greatest alpha, for each pixel of dy.
    pub(crate) slope: f32,
    /// 1 / `along`.
    pub(crate) width: f32,
    /// dy of the pixel with the greatest dx that still counts, the square aside.
    pub(crate) lean: f32,
}

impl Ellipse {
    /// One that shows nowhere.
    pub(crate) const NONE: Self = Self {
        centre: [0.0; 2],
        along: 0.0,
        skew: 0.0,
        across: 0.0,
        level: -2.0 * LEVELS,
        square: 0.0,
        colour: [0.0; 3],
        depth: 0.0,
        reach: [0.0; 2],
        slope: 0.0,
        width: 0.0,
        lean: 0.0,
    };
}
