//! Turns and mirrors decoded pictures as EXIF orientations say.

use image::metadata::Orientation;

use super::{Picture, PictureError};

/// Whether the orientation makes rows of columns.
pub(crate) fn swaps(orientation: Orientation) -> bool {
    matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    )
}

impl Picture {
    /// The picture as it is to be shown.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn upright(self, orientation: Orientation) -> Result<Self, PictureError> {
        if orientation == Orientation::NoTransforms {
            return Ok(self);
        }
        let [w, h] = [self.width as usize, self.height as usize];
        let (width, height) = if swaps(orientation) { (h, w) } else { (w, h) };
        let mut pixels = Vec::new();
        pixels
            .try_reserve_exact(w * h)
            .map_err(|_refused| PictureError::Memory)?;
        for y in 0..height {
            pixels.extend((0..width).map(|x| {
                // The place in the stored picture.
                let [x, y] = match orientation {
                    Orientation::NoTransforms => [x, y],
                    Orientation::FlipHorizontal => [w - 1 - x, y],
                    Orientation::Rotate180 => [w - 1 - x, h - 1 - y],
                    Orientation::FlipVertical => [x, h - 1 - y],
                    Orientation::Rotate90FlipH => [y, x],
                    Orientation::Rotate90 => [y, h - 1 - x],
                    Orientation::Rotate270FlipH => [w - 1 - y, h - 1 - x],
                    Orientation::Rotate270 => [w - 1 - y, x],
                };
                self.pixels[y * w + x]
            }));
        }
        Ok(Self {
            width: width as u32,
            height: height as u32,
            pixels,
            ..self
        })
    }
}
