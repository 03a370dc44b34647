//! RGB pixels or indices → an 8-bit sRGB PNG.
//!
//! The `png` crate's fast compression (fdeflate, made for PNG's filters) takes 13 ms for a 1024² texture of 1,342 KiB.
//! Balanced and high compression give 1,374 and 1,355 KiB in 0.4 and 0.9 s, so they would gain nothing.

use std::io::Cursor;

use png::{BitDepth, ColorType, Compression, Encoder, Filter, SrgbRenderingIntent};

use crate::worker::progress::{ticked, unit};

/// Why a picture cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The pixels are not `width · height`.
    #[error("{pixels} pixels are not {width}x{height}")]
    Size {
        /// Pixels given.
        pixels: usize,
        /// Width.
        width: u32,
        /// Height.
        height: u32,
    },
    /// The encoder failed.
    #[error("PNG encoder")]
    Encode(#[from] png::EncodingError),
    /// The file does not read back.
    #[error("the encoded picture does not decode")]
    Decode(#[from] png::DecodingError),
    /// The file reads back as other pixels.
    #[error("the encoded picture decodes to other pixels")]
    Differs,
}

/// The meaning of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// sRGB; alpha is dropped.
    Colour,
    /// sRGB with straight alpha.
    Translucent,
    /// Numbers without a colour space; alpha is dropped.
    Data,
    /// Components of unit vectors, 0 to 255 for -1 to 1; alpha is dropped.
    Direction,
}

impl Kind {
    /// The pixels as bytes.
    pub fn bytes(self, pixels: &[[u8; 4]]) -> Vec<u8> {
        match self {
            Self::Colour | Self::Data | Self::Direction => ticked(pixels.iter())
                .flat_map(|&[r, g, b, _]| [r, g, b])
                .collect(),
            Self::Translucent => pixels.as_flattened().to_vec(),
        }
    }

    /// Bytes per pixel.
    pub fn width(self) -> usize {
        match self {
            Self::Colour | Self::Data | Self::Direction => 3,
            Self::Translucent => 4,
        }
    }
}

/// Encodes `width`×`height` pixels, row-major from the top; alpha is dropped.
///
/// # Errors
/// There are no pixels, or another number.
pub fn encode(width: u32, height: u32, pixels: &[[u8; 4]]) -> Result<Vec<u8>, PngError> {
    encode_as(Kind::Colour, width, height, pixels)
}

/// Encodes `width`×`height` pixels, row-major from the top.
///
/// # Errors
/// As [`encode`].
pub fn encode_as(
    kind: Kind,
    width: u32,
    height: u32,
    pixels: &[[u8; 4]],
) -> Result<Vec<u8>, PngError> {
    let wanted = (width as usize).checked_mul(height as usize);
    if pixels.is_empty() || wanted != Some(pixels.len()) {
        return Err(PngError::Size {
            pixels: pixels.len(),
            width,
            height,
        });
    }
    let bytes = kind.bytes(pixels);
    let mut file = Vec::with_capacity(bytes.len() / 2);
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_color(match kind {
        Kind::Colour | Kind::Data | Kind::Direction => ColorType::Rgb,
        Kind::Translucent => ColorType::Rgba,
    });
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    if matches!(kind, Kind::Colour | Kind::Translucent) {
        encoder.set_source_srgb(SrgbRenderingIntent::Perceptual);
    }
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&bytes)?;
    writer.finish()?;
    Ok(file)
}

/// Decodes `file` and compares it with the source pixels: a texture that does not read back never counts as a success.
/// Takes 15 ms for 1024².
///
/// # Errors
/// The file does not decode, or to other pixels.
pub fn verify(file: &[u8], pixels: &[[u8; 4]]) -> Result<(), PngError> {
    verify_as(Kind::Colour, file, pixels)
}

/// [`verify`] for files of [`encode_as`].
///
/// # Errors
/// As there.
pub fn verify_as(kind: Kind, file: &[u8], pixels: &[[u8; 4]]) -> Result<(), PngError> {
    let width = kind.width();
    let mut reader = png::Decoder::new(Cursor::new(file)).read_info()?;
    let mut bytes = vec![0; reader.output_buffer_size().unwrap_or(0)];
    reader.next_frame(&mut bytes)?;
    unit();
    let same = bytes.len() == pixels.len() * width
        && bytes
            .chunks_exact(width)
            .zip(pixels)
            .all(|(read, pixel)| read == &pixel[..width]);
    if same { Ok(()) } else { Err(PngError::Differs) }
}

/// Encodes `width`×`height` indices into a palette, row-major from the top, with an ASCII text that explains them.
///
/// # Errors
/// There is another number of indices.
pub fn encode_indexed(
    [width, height]: [u32; 2],
    indices: &[u8],
    palette: &[[u8; 3]; 256],
    about: &str,
) -> Result<Vec<u8>, PngError> {
    let wanted = (width as usize).checked_mul(height as usize);
    if indices.is_empty() || wanted != Some(indices.len()) {
        return Err(PngError::Size {
            pixels: indices.len(),
            width,
            height,
        });
    }
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_palette(palette.concat());
    // Neighbouring codes are often equal but otherwise unrelated, so filters do not help.
    encoder.set_filter(Filter::NoFilter);
    encoder.set_compression(Compression::Balanced);
    encoder.set_source_srgb(SrgbRenderingIntent::Perceptual);
    encoder.add_text_chunk("Description".to_owned(), about.to_owned())?;
    let mut writer = encoder.write_header()?;
    writer.write_image_data(indices)?;
    writer.finish()?;
    Ok(file)
}

/// Decodes `file` and compares it with the source indices.
///
/// # Errors
/// The file does not decode, or to other indices.
pub fn verify_indexed(file: &[u8], indices: &[u8]) -> Result<(), PngError> {
    let mut reader = png::Decoder::new(Cursor::new(file)).read_info()?;
    let mut bytes = vec![0; reader.output_buffer_size().unwrap_or(0)];
    reader.next_frame(&mut bytes)?;
    if bytes == indices {
        Ok(())
    } else {
        Err(PngError::Differs)
    }
}

/// Decodes `file` to its end, checksums included.
///
/// # Errors
/// It does not decode.
pub fn decode(file: &[u8]) -> Result<(), PngError> {
    let mut reader = png::Decoder::new(Cursor::new(file)).read_info()?;
    let mut bytes = vec![0; reader.output_buffer_size().unwrap_or(0)];
    reader.next_frame(&mut bytes)?;
    reader.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Smooth, noisy and constant parts.
    fn picture(width: usize, height: usize) -> Vec<[u8; 4]> {
        let pixel = |k: usize| {
            let (x, y) = (k % width, k / width);
            let noise = (k as u32).wrapping_mul(2_654_435_761) >> 24;
            match (x * 3 / width, y * 2 / height) {
                (0, _) => [x as u8, y as u8, (x + y) as u8, 9],
                (1, 0) => [noise as u8, (noise >> 1) as u8, noise as u8 ^ y as u8, 255],
                _ => [7, 7, 200, 0],
            }
        };
        (0..width * height).map(pixel).collect()
    }

    fn decode(file: &[u8]) -> Vec<u8> {
        let mut options = png::DecodeOptions::default();
        options.set_ignore_adler32(false);
        let decoder = png::Decoder::new_with_options(Cursor::new(file), options);
        let mut reader = decoder.read_info().expect("a header");
        assert_eq!(reader.info().srgb, Some(SrgbRenderingIntent::Perceptual));
        let mut bytes = vec![0; reader.output_buffer_size().expect("a size")];
        reader.next_frame(&mut bytes).expect("a picture");
        reader.finish().expect("an end");
        bytes
    }

    #[test]
    fn picture_comes_back_without_its_alpha() {
        for (width, height) in [(1, 1), (5, 3), (640, 700), (100_000, 3)] {
            let pixels = picture(width, height);
            let file = encode(width as u32, height as u32, &pixels).expect("encodes");
            let wanted: Vec<u8> = pixels.iter().flat_map(|p| [p[0], p[1], p[2]]).collect();
            assert!(decode(&file) == wanted, "{width}x{height} differs");
            verify(&file, &pixels).expect("reads back");
        }
    }

    #[test]
    fn another_picture_and_a_cut_file_do_not_verify() {
        let pixels = picture(64, 64);
        let file = encode(64, 64, &pixels).expect("encodes");
        let mut other = pixels.clone();
        other[77][1] ^= 1;
        assert!(matches!(verify(&file, &other), Err(PngError::Differs)));
        assert!(matches!(
            verify(&file[..file.len() / 2], &pixels),
            Err(PngError::Decode(_))
        ));
    }

    #[test]
    fn a_wrong_number_of_pixels_is_refused() {
        let pixels = picture(4, 4);
        assert!(matches!(
            encode(4, 5, &pixels),
            Err(PngError::Size { pixels: 16, .. })
        ));
        assert!(matches!(encode(0, 0, &[]), Err(PngError::Size { .. })));
    }
}
