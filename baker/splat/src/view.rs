//! What a camera is, and the filter of its pixels.

/// A pinhole camera with `OpenCV` axes: x right, y down, z ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// World to camera, row by row.
    pub rotation: [[f32; 3]; 3],
    /// World to camera.
    pub translation: [f32; 3],
    /// Focal lengths in pixels.
    pub focal: [f32; 2],
    /// Principal point in pixels; the centre of the first pixel is (0.5, 0.5).
    pub centre: [f32; 2],
    /// Width and height in pixels.
    pub size: [u32; 2],
}

impl View {
    /// A point of the world in the camera's axes.
    pub fn seen(&self, at: [f32; 3]) -> [f32; 3] {
        let along = |row: &[f32; 3]| row[0] * at[0] + row[1] * at[1] + row[2] * at[2];
        std::array::from_fn(|k| along(&self.rotation[k]) + self.translation[k])
    }
}

/// How the pixel's own extent is taken into account. Splats are drawn with the filter that they were trained with, or
/// their edges change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filter {
    /// The variance (px²) is added to the projected covariance: 0.3 in the reference code of 2023 and in gsplat.
    Classic(f32),
    /// The same, and the opacity is reduced such that the splat's sum stays (Yu et al., "Mip-Splatting", 2024): 0.1 in TRELLIS,
    /// 0.3 in gsplat.
    Mip(f32),
}

/// Edge of a picture, in pixels, for which a filter's variance holds. Splats are trained with pictures in which an object
/// has about this size. In larger ones the variance grows, or thin splats fall apart.
const TRAINED_EDGE: f32 = 512.0;

impl Filter {
    /// The filter for a picture of an object with this edge in pixels.
    #[must_use]
    pub fn widened(self, edge: u32) -> Self {
        let by = (edge as f32 / TRAINED_EDGE).powi(2);
        match self {
            Self::Classic(variance) => Self::Classic(variance * by),
            Self::Mip(variance) => Self::Mip(variance * by),
        }
    }
}
