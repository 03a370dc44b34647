//! Decodes PNG to RGBA and reads its EXIF orientation: all colour types and depths, palettes, transparent colours,
//! Adam7.

use std::io::Cursor;

use image::metadata::Orientation;
use png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Transformations};

use super::Header;
use super::error::PictureError;
use super::pixels::{buffer, spread};

/// Memory of the decoder beside the pixels: rows and kept chunks.
const DECODER_BYTES: usize = 64 << 20;

pub(super) fn decode(bytes: &[u8], header: Header) -> Result<(Vec<[u8; 4]>, bool), PictureError> {
    let mut decoder = Decoder::new_with_limits(
        Cursor::new(bytes),
        Limits {
            bytes: DECODER_BYTES,
        },
    );
    // Both are unused, and may inflate to a thousand times their size.
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let size = reader.output_buffer_size().ok_or(PictureError::Memory)?;
    let (colour, depth) = reader.output_color_type();
    let sample_bytes = if depth == BitDepth::Sixteen { 2 } else { 1 };
    let mut samples = buffer(header, colour.samples() * sample_bytes)?;
    if samples.len() != size {
        return Err(PictureError::Damaged(
            "header and decoder disagree about the size".to_owned(),
        ));
    }
    reader.next_frame(&mut samples).map_err(damaged)?;
    // The rest holds the checksum of the last row and the end.
    reader.finish().map_err(damaged)?;

    if depth == BitDepth::Sixteen {
        // In place: a sample is written where an earlier pair of bytes was.
        for k in 0..samples.len() / 2 {
            samples[k] = round(u16::from_be_bytes([samples[2 * k], samples[2 * k + 1]]));
        }
        samples.truncate(samples.len() / 2);
    }
    let pixels = match colour {
        ColorType::Grayscale => spread(&samples, |[y]| [y, y, y, 255]),
        ColorType::GrayscaleAlpha => spread(&samples, |[y, a]| [y, y, y, a]),
        ColorType::Rgb => spread(&samples, |[r, g, b]| [r, g, b, 255]),
        ColorType::Rgba => spread(&samples, |pixel: [u8; 4]| pixel),
        ColorType::Indexed => Err(PictureError::Damaged("no palette".to_owned())),
    }?;
    let orientation = reader
        .info()
        .exif_metadata
        .as_ref()
        .and_then(|exif| Orientation::from_exif_chunk(exif));
    let turned = orientation.is_some_and(|orientation| orientation != Orientation::NoTransforms);
    Ok((pixels, turned))
}

/// Rounds 16 bits to 8: 65535 = 255 · 257.
fn round(sample: u16) -> u8 {
    ((u32::from(sample) + 128) / 257) as u8
}

fn damaged(error: DecodingError) -> PictureError {
    match error {
        DecodingError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            PictureError::Truncated
        }
        DecodingError::LimitsExceeded => PictureError::Damaged("a chunk of absurd size".to_owned()),
        other => PictureError::Damaged(other.to_string()),
    }
}
