//! Decodes TIFF and `BigTIFF` to RGBA: the first picture of the file, grey or RGB of 8 or 16 bits, with and without alpha, in
//! strips or tiles; uncompressed, LZW, deflate, `PackBits`. Associated alpha is divided out; an ICC profile is followed.
//!
//! CMYK, palettes, floating point numbers, one plane for each channel and JPEG inside are refused by name.

use std::io::Cursor;

use ::tiff::decoder::{Decoder, Limits};
use ::tiff::tags::{CompressionMethod, Tag};
use ::tiff::{ColorType, TiffError};

use super::colour::{self, MAX_PROFILE_BYTES, Samples, Way};
use super::error::PictureError;
use super::pixels::{big_endian, buffer};
use super::{Colours, Header, Meaning};

/// Value of `ExtraSamples` whose colours are multiplied by alpha.
const ASSOCIATED: u32 = 1;
/// Values of `SampleFormat` and `PlanarConfiguration` that are read.
const UNSIGNED: u32 = 1;
const INTERLEAVED: u32 = 1;

/// Width and height.
pub(super) fn size(bytes: &[u8]) -> Result<[u32; 2], PictureError> {
    open(bytes)?.dimensions().map(Into::into).map_err(damaged)
}

pub(super) fn decode(
    bytes: &[u8],
    header: Header,
    meaning: Meaning,
) -> Result<(Vec<[u8; 4]>, Colours), PictureError> {
    let mut decoder = open(bytes)?;
    let (channels, bits) = match decoder.colortype().map_err(damaged)? {
        ColorType::Gray(bits) => (1, bits),
        ColorType::GrayA(bits) => (2, bits),
        ColorType::RGB(bits) => (3, bits),
        ColorType::RGBA(bits) => (4, bits),
        ColorType::CMYK(_) | ColorType::CMYKA(_) => {
            return Err(PictureError::Flavour("a CMYK TIFF"));
        }
        ColorType::Palette(_) => return Err(PictureError::Flavour("a TIFF with a palette")),
        _ => {
            return Err(PictureError::Flavour(
                "a TIFF whose channels are neither grey nor RGB",
            ));
        }
    };
    let mut numbers = |tag| {
        let found = decoder.find_tag_unsigned_vec::<u32>(tag).map_err(damaged)?;
        Ok(found.unwrap_or_default())
    };
    let is = |values: &[u32], wanted: u32| values.iter().all(|&value| value == wanted);
    if !is(&numbers(Tag::SampleFormat)?, UNSIGNED) || !matches!(bits, 8 | 16) {
        return Err(PictureError::Flavour(
            "a TIFF of other samples than 8 or 16 bits without a sign",
        ));
    }
    if !is(&numbers(Tag::PlanarConfiguration)?, INTERLEAVED) {
        return Err(PictureError::Flavour(
            "a TIFF with one plane for each channel",
        ));
    }
    let jpeg = [CompressionMethod::JPEG, CompressionMethod::ModernJPEG];
    let jpeg = jpeg.map(|method| u32::from(method.to_u16()));
    if numbers(Tag::Compression)?
        .iter()
        .any(|method| jpeg.contains(method))
    {
        return Err(PictureError::Flavour("a TIFF that holds a JPEG"));
    }
    let associated = numbers(Tag::ExtraSamples)?.first() == Some(&ASSOCIATED);
    let wide = bits == 16;
    let mut samples = buffer(header, channels * if wide { 2 } else { 1 })?;
    decoder.read_image_bytes(&mut samples).map_err(damaged)?;
    if wide {
        big_endian(&mut samples);
    }
    if associated && matches!(channels, 2 | 4) {
        divide(&mut samples, channels, wide);
    }
    let icc = match meaning {
        Meaning::Colours => decoder.find_tag(Tag::IccProfile).map_err(damaged)?,
        Meaning::Numbers | Meaning::Mask => None,
    };
    let way = match icc.map(tiff::decoder::ifd::Value::into_u8_vec) {
        None => Way::Same,
        Some(Ok(icc)) => colour::of_profile(&icc)?,
        Some(Err(_)) => Way::Unknown,
    };
    Samples {
        bytes: samples,
        channels,
        wide,
    }
    .pixels(way, meaning)
}

fn open(bytes: &[u8]) -> Result<Decoder<Cursor<&[u8]>>, PictureError> {
    let mut limits = Limits::default();
    limits.ifd_value_size = MAX_PROFILE_BYTES;
    let decoder = Decoder::new(Cursor::new(bytes)).map_err(damaged)?;
    Ok(decoder.with_limits(limits))
}

/// Divides colours by their alpha.
fn divide(samples: &mut [u8], channels: usize, wide: bool) {
    let bytes = if wide { 2 } else { 1 };
    let value = |pixel: &[u8], channel: usize| match wide {
        true => u32::from(u16::from_be_bytes([
            pixel[2 * channel],
            pixel[2 * channel + 1],
        ])),
        false => u32::from(pixel[channel]),
    };
    let most = if wide { 65535 } else { 255 };
    for pixel in samples.chunks_exact_mut(channels * bytes) {
        let alpha = value(pixel, channels - 1).max(1);
        for channel in 0..channels - 1 {
            let colour = (value(pixel, channel) * most + alpha / 2) / alpha;
            let [_, _, high, low] = colour.min(most).to_be_bytes();
            match wide {
                true => pixel[2 * channel..][..2].copy_from_slice(&[high, low]),
                false => pixel[channel] = low,
            }
        }
    }
}

fn damaged(error: TiffError) -> PictureError {
    match error {
        TiffError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            PictureError::Truncated
        }
        TiffError::UnsupportedError(_) => {
            PictureError::Flavour("a TIFF of an unusual compression or layout")
        }
        TiffError::LimitsExceeded => PictureError::Damaged("a tag of absurd size".to_owned()),
        other => PictureError::Damaged(other.to_string()),
    }
}
