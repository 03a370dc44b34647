//! Texels → a picture of the requested format, decoded again before it counts: here, or with the file that holds it.
//!
//! PNG and WebP are lossless and must read back unchanged. JPEG (baseline, 4:4:4), lossy WebP (4:2:0) and KTX2
//! ([`super::ktx2`]) read back as other texels. Those replace the originals, so that everything measured and shown
//! afterwards is what the file holds. Every mip of a KTX2 is read and compared with its source. The decoders are those
//! of the views, strict about damage, not the encoders' own.

use image::codecs::jpeg::JpegEncoder;
use image::codecs::webp::WebPEncoder;
use image::{ExtendedColorType, ImageEncoder, ImageError};
use proto::job::TextureFormat;
use webp::{Encoder, PixelLayout, WebPConfig};

use super::ktx2::{self, Coding, Ktx2Error, Made};
use crate::image::png::{self, Kind, PngError};
use crate::prepare::picture::ktx2::Texture;
use crate::prepare::picture::{self, Picture};
use crate::worker::pace;
use crate::worker::progress::unit;

/// Lowest PSNR of a lossy picture in dB. The lowest quality exceeds it even on noise; swapped channels or rows do not.
const LEAST_DB: f64 = 8.0;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum TextureError {
    /// PNG failed.
    #[error(transparent)]
    Png(#[from] PngError),
    /// An encoder of the `image` crate failed.
    #[error("the texture cannot be encoded")]
    Encode(#[from] ImageError),
    /// The lossy `WebP` encoder failed, with its error code.
    #[error("the texture cannot be encoded: {0}")]
    Webp(String),
    /// KTX2 failed.
    #[error(transparent)]
    Ktx2(#[from] Ktx2Error),
    /// The file does not read back.
    #[error("the encoded texture {0}")]
    Decode(String),
    /// The file reads back as another picture.
    #[error("the encoded texture decodes to another picture")]
    Differs,
}

/// A file, and the texels in it where they differ from the source.
pub type Encoded = (Vec<u8>, Option<Vec<[u8; 4]>>);

/// Encodes `size`² texels, row-major from the top.
///
/// # Errors
/// The file does not read back as it should.
pub fn encode(
    format: TextureFormat,
    quality: u8,
    size: u32,
    texels: &[[u8; 4]],
) -> Result<Encoded, TextureError> {
    encode_as(Kind::Colour, format, quality, size, texels)
}

/// Encodes `size`² texels that are no colours: [`Kind::Data`] or [`Kind::Direction`]. Not for [`TextureFormat::Jpeg`],
/// [`TextureFormat::WebpLossy`] or [`TextureFormat::Ktx2Etc1s`]. Lossless except for [`TextureFormat::Ktx2Uastc`].
///
/// # Errors
/// As [`encode`].
pub fn encode_data(
    kind: Kind,
    format: TextureFormat,
    size: u32,
    texels: &[[u8; 4]],
) -> Result<Encoded, TextureError> {
    encode_as(kind, format, 100, size, texels)
}

/// Encodes `size`² texels with alpha. Not for [`TextureFormat::Jpeg`], which has none.
///
/// # Errors
/// As [`encode`].
pub fn encode_translucent(
    format: TextureFormat,
    quality: u8,
    size: u32,
    texels: &[[u8; 4]],
) -> Result<Encoded, TextureError> {
    encode_as(Kind::Translucent, format, quality, size, texels)
}

/// Encodes `size`² texels for a file that is read back with its pictures ([`super::read_back`]). A PNG is therefore not
/// decoded here.
///
/// # Errors
/// As [`encode`], except for a PNG that does not read back.
pub(super) fn encode_within(
    kind: Kind,
    format: TextureFormat,
    quality: u8,
    size: u32,
    texels: &[[u8; 4]],
) -> Result<Encoded, TextureError> {
    match format {
        TextureFormat::Png => Ok((png::encode_as(kind, size, size, texels)?, None)),
        _ => encode_as(kind, format, quality, size, texels),
    }
}

/// Predicted nanoseconds per texel on a slow machine, until the encoder announces more itself.
pub(super) fn pace(format: TextureFormat) -> u64 {
    match format {
        TextureFormat::Png | TextureFormat::Jpeg | TextureFormat::Webp => pace::PNG_TEXEL,
        TextureFormat::WebpLossy => pace::TEXEL,
        TextureFormat::Ktx2Etc1s | TextureFormat::Ktx2Uastc => pace::TEXEL,
    }
}

fn encode_as(
    kind: Kind,
    format: TextureFormat,
    quality: u8,
    size: u32,
    texels: &[[u8; 4]],
) -> Result<Encoded, TextureError> {
    let bytes = || kind.bytes(texels);
    let colours = match kind {
        Kind::Colour | Kind::Data | Kind::Direction => ExtendedColorType::Rgb8,
        Kind::Translucent => ExtendedColorType::Rgba8,
    };
    let mut file = Vec::new();
    match format {
        TextureFormat::Png => {
            let file = png::encode_as(kind, size, size, texels)?;
            unit();
            png::verify_as(kind, &file, texels)?;
            return Ok((file, None));
        }
        TextureFormat::Webp => {
            let encoder = WebPEncoder::new_lossless(&mut file);
            encoder.write_image(&bytes(), size, size, colours)?;
        }
        TextureFormat::WebpLossy => {
            let layout = match colours {
                ExtendedColorType::Rgba8 => PixelLayout::Rgba,
                _ => PixelLayout::Rgb,
            };
            file = webp_lossy(&bytes(), layout, quality, size)?;
        }
        TextureFormat::Jpeg => {
            let encoder = JpegEncoder::new_with_quality(&mut file, quality.clamp(1, 100));
            encoder.write_image(&bytes(), size, size, colours)?;
        }
        TextureFormat::Ktx2Etc1s => {
            let made = ktx2::encode(kind, Coding::Etc1s(quality), size, texels)?;
            return read_levels(kind, format, made);
        }
        TextureFormat::Ktx2Uastc => {
            let made = ktx2::encode(kind, Coding::Uastc, size, texels)?;
            return read_levels(kind, format, made);
        }
    }
    unit();
    let held = decode(&file, size)?;
    unit();
    verify(kind, format, texels, &held)?;
    let lossless = matches!(format, TextureFormat::Png | TextureFormat::Webp);
    Ok((file, (!lossless).then_some(held)))
}

/// Encodes with libwebp, averaging chroma in linear light (`use_sharp_yuv`). Otherwise colours would bleed at chart
/// borders.
fn webp_lossy(
    bytes: &[u8],
    layout: PixelLayout,
    quality: u8,
    size: u32,
) -> Result<Vec<u8>, TextureError> {
    let named = |error: &dyn std::fmt::Debug| TextureError::Webp(format!("{error:?}"));
    let mut config = WebPConfig::new().map_err(|()| named(&"no configuration"))?;
    config.quality = f32::from(quality.clamp(1, 100));
    config.use_sharp_yuv = 1;
    // Texels of zero opacity keep their colour, since filters mix them in.
    config.exact = 1;
    let encoder = Encoder::new(bytes, layout, size, size);
    let made = encoder.encode_advanced(&config);
    Ok(made.map_err(|error| named(&error))?.to_vec())
}

/// Reads a KTX2 back. Each level must be present and show its source. The mips are judged together, since a few texels
/// of the smallest may be off.
fn read_levels(kind: Kind, format: TextureFormat, made: Made) -> Result<Encoded, TextureError> {
    let broken = |error: picture::PictureError| TextureError::Decode(error.to_string());
    let Made { file, levels } = made;
    let texture = Texture::read(&file).map_err(broken)?;
    if texture.level_count() != levels.len() {
        return Err(TextureError::Differs);
    }
    let (mut first, mut made, mut mips) = (None, Vec::new(), Vec::new());
    for (number, level) in levels.iter().enumerate() {
        let held = texture.decode(number).map_err(broken)?;
        unit();
        if number == 0 {
            verify(kind, format, &level.texels, &held)?;
            first = Some(held);
        } else if held.len() == level.texels.len() {
            made.extend_from_slice(&level.texels);
            mips.extend(held);
        } else {
            return Err(TextureError::Differs);
        }
    }
    verify(kind, format, &made, &mips)?;
    Ok((file, first))
}

pub(super) fn decode(file: &[u8], size: u32) -> Result<Vec<[u8; 4]>, TextureError> {
    let broken = |error: picture::PictureError| TextureError::Decode(error.to_string());
    let header = picture::probe_texture(file).map_err(broken)?;
    let Picture {
        width,
        height,
        pixels,
        ..
    } = picture::decode(file, header).map_err(broken)?;
    if (width, height) == (size, size) {
        Ok(pixels)
    } else {
        Err(TextureError::Differs)
    }
}

/// Whether the texels read back are those written, within the loss of the format.
fn verify(
    kind: Kind,
    format: TextureFormat,
    texels: &[[u8; 4]],
    held: &[[u8; 4]],
) -> Result<(), TextureError> {
    let width = kind.width();
    let squares: u64 = texels
        .iter()
        .zip(held)
        .flat_map(|(one, other)| (0..width).map(|k| u64::from(one[k].abs_diff(other[k])).pow(2)))
        .sum();
    let same = match format {
        TextureFormat::Png | TextureFormat::Webp => squares == 0,
        TextureFormat::Jpeg
        | TextureFormat::WebpLossy
        | TextureFormat::Ktx2Etc1s
        | TextureFormat::Ktx2Uastc => {
            let mean = squares as f64 / (width * texels.len()) as f64 / (255.0 * 255.0);
            -10.0 * mean.log10() >= LEAST_DB
        }
    };
    if same && texels.len() == held.len() {
        Ok(())
    } else {
        Err(TextureError::Differs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Smooth on the left, noise on the right.
    fn texels(size: u32) -> Vec<[u8; 4]> {
        let texel = |k: u32| {
            let (x, y) = (k % size, k / size);
            let noise = (k.wrapping_mul(2_654_435_761) >> 24) as u8;
            if x < size / 2 {
                [(x * 3) as u8, (y * 2) as u8, 90, 255]
            } else {
                [noise, noise ^ 77, noise.wrapping_mul(3), 255]
            }
        };
        (0..size * size).map(texel).collect()
    }

    #[test]
    fn lossless_formats_come_back_and_are_what_they_are_called() {
        let texels = texels(64);
        for (format, start) in [
            (TextureFormat::Png, &b"\x89PNG"[..]),
            (TextureFormat::Webp, b"RIFF"),
        ] {
            let (file, held) = encode(format, 90, 64, &texels).unwrap();
            assert!(file.starts_with(start) && held.is_none(), "{format:?}");
            assert!(decode(&file, 64).unwrap() == texels, "{format:?}");
        }
    }

    #[test]
    fn alpha_comes_back_where_it_counts_and_numbers_are_called_no_colours() {
        let mut texels = texels(64);
        for (k, texel) in texels.iter_mut().enumerate() {
            texel[3] = k as u8;
        }
        for format in [TextureFormat::Png, TextureFormat::Webp] {
            let (file, _) = encode_translucent(format, 90, 64, &texels).unwrap();
            assert!(decode(&file, 64).unwrap() == texels, "{format:?}");
            let (file, _) = encode_data(Kind::Data, format, 64, &texels).unwrap();
            let held = decode(&file, 64).unwrap();
            let same = |(one, other): (&[u8; 4], &[u8; 4])| one[..3] == other[..3];
            assert!(held.iter().zip(&texels).all(same) && held[0][3] == 255);
        }
        let has_srgb = |file: &[u8]| file.windows(4).any(|word| word == b"sRGB");
        let png = TextureFormat::Png;
        assert!(!has_srgb(
            &encode_data(Kind::Data, png, 64, &texels).unwrap().0
        ));
        assert!(has_srgb(&encode(png, 90, 64, &texels).unwrap().0));
    }

    #[test]
    fn a_jpeg_and_a_lossy_webp_give_the_texels_that_they_hold_and_quality_is_quality() {
        lossy(TextureFormat::Jpeg, b"\xff\xd8\xff");
        lossy(TextureFormat::WebpLossy, b"RIFF");
    }

    fn lossy(format: TextureFormat, start: &[u8]) {
        let texels = texels(64);
        let squares = |held: &[[u8; 4]]| -> u64 {
            let pairs = texels.iter().zip(held);
            pairs
                .map(|(a, b)| u64::from(a[0].abs_diff(b[0])).pow(2))
                .sum()
        };
        let made = [1, 50, 98].map(|quality| {
            let (file, held) = encode(format, quality, 64, &texels).unwrap();
            assert!(file.starts_with(start));
            let held = held.unwrap();
            assert!(held == decode(&file, 64).unwrap());
            (file.len(), squares(&held))
        });
        assert!(made[0].0 < made[1].0 && made[1].0 < made[2].0, "{made:?}");
        assert!(
            made[0].1 > made[1].1 && made[1].1 > made[2].1 && made[2].1 > 0,
            "{made:?}"
        );
    }

    #[test]
    fn opacity_and_the_colour_beneath_it_outlast_a_lossy_webp() {
        let mut texels = texels(64);
        for (k, texel) in texels.iter_mut().enumerate() {
            *texel = [
                200,
                120,
                40,
                if k % 64 < 32 { 0 } else { (k / 64) as u8 * 4 },
            ];
        }
        let (_, held) = encode_translucent(TextureFormat::WebpLossy, 90, 64, &texels).unwrap();
        for (one, other) in texels.iter().zip(held.unwrap()) {
            assert_eq!(one[3], other[3]);
            assert!(
                (0..3).all(|k| one[k].abs_diff(other[k]) <= 4),
                "{one:?} {other:?}"
            );
        }
    }

    #[test]
    fn another_picture_does_not_pass() {
        let texels = texels(64);
        let mut other = texels.clone();
        other[9][2] ^= 1;
        assert!(matches!(
            verify(Kind::Data, TextureFormat::Webp, &texels, &other),
            Err(TextureError::Differs)
        ));
        verify(Kind::Colour, TextureFormat::Jpeg, &texels, &other).unwrap();
        let inverted: Vec<[u8; 4]> = texels.iter().map(|t| t.map(|x| 255 - x)).collect();
        assert!(matches!(
            verify(Kind::Colour, TextureFormat::Jpeg, &texels, &inverted),
            Err(TextureError::Differs)
        ));
        let (file, _) = encode(TextureFormat::Webp, 90, 64, &texels).unwrap();
        assert!(matches!(decode(&file, 32), Err(TextureError::Differs)));
        assert!(matches!(
            decode(&file[..file.len() / 2], 64),
            Err(TextureError::Decode(_))
        ));
    }
}
