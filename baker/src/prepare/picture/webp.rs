//! Decodes WebP, lossy or lossless, to RGBA.

use std::io::Cursor;

use image::codecs::webp::WebPDecoder;
use image::{ColorType, ImageDecoder, ImageError};

use super::colour::{self, Samples};
use super::error::PictureError;
use super::pixels::buffer;
use super::{Colours, Header, Meaning};

pub(super) fn decode(
    bytes: &[u8],
    header: Header,
    meaning: Meaning,
) -> Result<(Vec<[u8; 4]>, Colours), PictureError> {
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(damaged)?;
    if decoder.dimensions() != (header.width, header.height) {
        return Err(PictureError::Damaged(
            "two frames of different size".to_owned(),
        ));
    }
    let icc = decoder.icc_profile().ok().flatten();
    let channels = match decoder.color_type() {
        ColorType::Rgba8 => 4,
        _ => 3,
    };
    let mut samples = buffer(header, channels)?;
    decoder.read_image(&mut samples).map_err(damaged)?;
    let way = colour::way(bytes, (header, meaning), || icc)?;
    Samples {
        bytes: samples,
        channels,
        wide: false,
    }
    .pixels(way, meaning)
}

pub(super) fn damaged(error: ImageError) -> PictureError {
    match error {
        ImageError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            PictureError::Truncated
        }
        other => PictureError::Damaged(other.to_string()),
    }
}
