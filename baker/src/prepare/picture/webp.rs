//! Decodes WebP, lossy or lossless, to RGBA and reads its EXIF orientation.

use std::io::Cursor;

use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{ColorType, ImageDecoder, ImageError};

use super::Header;
use super::error::PictureError;
use super::pixels::{buffer, spread};

pub(super) fn decode(bytes: &[u8], header: Header) -> Result<(Vec<[u8; 4]>, bool), PictureError> {
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(damaged)?;
    if decoder.dimensions() != (header.width, header.height) {
        return Err(PictureError::Damaged(
            "two frames of different size".to_owned(),
        ));
    }
    // A broken EXIF block is no reason to lose the pixels.
    let turned = decoder
        .orientation()
        .is_ok_and(|orientation| orientation != Orientation::NoTransforms);
    let pixels = if decoder.color_type() == ColorType::Rgba8 {
        let mut samples = buffer(header, 4)?;
        decoder.read_image(&mut samples).map_err(damaged)?;
        spread(&samples, |pixel: [u8; 4]| pixel)?
    } else {
        let mut samples = buffer(header, 3)?;
        decoder.read_image(&mut samples).map_err(damaged)?;
        spread(&samples, |[r, g, b]| [r, g, b, 255])?
    };
    Ok((pixels, turned))
}

fn damaged(error: ImageError) -> PictureError {
    match error {
        ImageError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            PictureError::Truncated
        }
        other => PictureError::Damaged(other.to_string()),
    }
}
