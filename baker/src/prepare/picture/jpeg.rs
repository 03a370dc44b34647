//! Decodes JPEG to RGBA. Strict: what the decoder would only repair is refused.

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::colour::{self, Samples};
use super::error::PictureError;
use super::pixels::buffer;
use super::{Colours, Header, Meaning};

pub(super) fn decode(
    bytes: &[u8],
    header: Header,
    meaning: Meaning,
) -> Result<(Vec<[u8; 4]>, Colours), PictureError> {
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(header.width as usize)
        .set_max_height(header.height as usize)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    let damaged = |error: zune_jpeg::errors::DecodeErrors| PictureError::Damaged(error.to_string());
    decoder.decode_headers().map_err(damaged)?;
    let mut samples = buffer(header, 3)?;
    if decoder.dimensions() != Some((header.width as usize, header.height as usize))
        || decoder.output_buffer_size() != Some(samples.len())
    {
        return Err(PictureError::Damaged(
            "two frame headers of different size".to_owned(),
        ));
    }
    decoder.decode_into(&mut samples).map_err(damaged)?;
    let way = colour::way(bytes, (header, meaning), || decoder.icc_profile())?;
    Samples {
        bytes: samples,
        channels: 3,
        wide: false,
    }
    .pixels(way, meaning)
}
