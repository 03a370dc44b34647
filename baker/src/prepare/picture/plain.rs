//! Decodes BMP and PNM to RGBA: grey and colours, with and without alpha, of 1 to 16 bits. Neither says what its colours
//! mean, so they are sRGB.

use std::io::Cursor;

use image::codecs::bmp::BmpDecoder;
use image::codecs::pnm::{PnmDecoder, PnmSubtype};
use image::{ColorType, ImageDecoder};

use super::colour::{Samples, Way};
use super::error::PictureError;
use super::pixels::{big_endian, buffer};
use super::probe::Format;
use super::webp::damaged;
use super::{Colours, Header, Meaning};

/// Width and height.
pub(super) fn size(bytes: &[u8], format: Format) -> Result<[u32; 2], PictureError> {
    let (width, height) = match format {
        Format::Bmp => bmp(bytes)?.dimensions(),
        _ => pnm(bytes)?.dimensions(),
    };
    Ok([width, height])
}

pub(super) fn decode(
    bytes: &[u8],
    header: Header,
    meaning: Meaning,
) -> Result<(Vec<[u8; 4]>, Colours), PictureError> {
    let samples = match header.format {
        Format::Bmp => read(bmp(bytes)?, header),
        _ => read(pnm(bytes)?, header),
    }?;
    samples.pixels(Way::Same, meaning)
}

fn bmp(bytes: &[u8]) -> Result<BmpDecoder<Cursor<&[u8]>>, PictureError> {
    BmpDecoder::new(Cursor::new(bytes)).map_err(damaged)
}

/// The decoder leaves samples as they are, so that their maximum has to be one of a byte or of two.
fn pnm(bytes: &[u8]) -> Result<PnmDecoder<Cursor<&[u8]>>, PictureError> {
    let decoder = PnmDecoder::new(Cursor::new(bytes)).map_err(damaged)?;
    let bits = matches!(decoder.subtype(), PnmSubtype::Bitmap(_));
    if bits || matches!(decoder.header().maximal_sample(), 255 | 65535) {
        return Ok(decoder);
    }
    Err(PictureError::Flavour(
        "a PNM whose largest value is neither 255 nor 65535",
    ))
}

fn read(decoder: impl ImageDecoder, header: Header) -> Result<Samples, PictureError> {
    let (channels, wide) = match decoder.color_type() {
        ColorType::L8 => (1, false),
        ColorType::La8 => (2, false),
        ColorType::Rgb8 => (3, false),
        ColorType::Rgba8 => (4, false),
        ColorType::L16 => (1, true),
        ColorType::La16 => (2, true),
        ColorType::Rgb16 => (3, true),
        ColorType::Rgba16 => (4, true),
        _ => return Err(PictureError::Flavour("a picture of floating point numbers")),
    };
    let mut bytes = buffer(header, channels * if wide { 2 } else { 1 })?;
    if decoder.total_bytes() != bytes.len() as u64 {
        return Err(PictureError::Damaged(
            "header and decoder disagree about the size".to_owned(),
        ));
    }
    decoder.read_image(&mut bytes).map_err(damaged)?;
    if wide {
        big_endian(&mut bytes);
    }
    Ok(Samples {
        bytes,
        channels,
        wide,
    })
}
