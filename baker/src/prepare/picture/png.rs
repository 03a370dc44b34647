//! Decodes PNG to RGBA: all colour types and depths, palettes, transparent colours, Adam7.

use std::io::Cursor;

use png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Transformations};

use super::colour::{self, MAX_PROFILE_BYTES, Samples, Way};
use super::error::PictureError;
use super::pixels::buffer;
use super::probe::Format;
use super::{Colours, Header, Meaning, tags};
use crate::worker::progress::unit;

/// Memory of the decoder beside the pixels: rows and kept chunks.
const DECODER_BYTES: usize = 64 << 20;

pub(super) fn decode(
    bytes: &[u8],
    header: Header,
    meaning: Meaning,
) -> Result<(Vec<[u8; 4]>, Colours), PictureError> {
    let mut decoder = Decoder::new_with_limits(
        Cursor::new(bytes),
        Limits {
            bytes: DECODER_BYTES,
        },
    );
    // Both may inflate to a thousand times their size. Text is unused, profiles are read with a limit of their own.
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let size = reader.output_buffer_size().ok_or(PictureError::Memory)?;
    let (colour, depth) = reader.output_color_type();
    if colour == ColorType::Indexed {
        return Err(PictureError::Damaged("no palette".to_owned()));
    }
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
    unit();

    let way = match meaning {
        Meaning::Colours => colour::of_png(reader.info(), || profile(bytes))?,
        Meaning::Numbers | Meaning::Mask => Way::Same,
    };
    Samples {
        bytes: samples,
        channels: colour.samples(),
        wide: depth == BitDepth::Sixteen,
    }
    .pixels(way, meaning)
}

/// The ICC profile; the inner none where there is one that cannot be read.
fn profile(bytes: &[u8]) -> Option<Option<Vec<u8>>> {
    if !tags::has_profile(bytes, Format::Png) {
        return None;
    }
    let limits = Limits {
        bytes: MAX_PROFILE_BYTES,
    };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_ignore_text_chunk(true);
    let reader = decoder.read_info().ok();
    Some(reader.and_then(|reader| Some(reader.info().icc_profile.as_ref()?.to_vec())))
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
