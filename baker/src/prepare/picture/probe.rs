//! Reads the format from the first bytes of a file, and the size of PNG, JPEG and WebP without a decoder. Scans JPEG and WebP
//! to the end to find truncation.

use proto::limits::{MAX_VIEW_EDGE, MAX_VIEW_PIXELS};

use super::error::PictureError;
use crate::prepare::foreign::{self, Class, Foreign};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Png,
    /// Baseline or progressive, 8 bits.
    Jpeg,
    WebP,
    Tiff,
    Bmp,
    /// PBM, PGM, PPM and PAM.
    Pnm,
    /// `OpenEXR`.
    Exr,
    /// Radiance's.
    Hdr,
    /// Basis Universal in KTX2, for meshes alone; see [`super::probe_texture`].
    Ktx2,
}

/// What the decoder needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) format: Format,
    /// Within the limits, like the height.
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl Header {
    pub(crate) fn pixels(self) -> usize {
        self.width as usize * self.height as usize
    }

    /// Bytes of memory that decoding it takes, an upper bound.
    pub(crate) fn decoding_bytes(self) -> usize {
        // The samples as decoded and as 16 bits; the 8-bit pixels exist at the same time.
        let samples = match self.format {
            Format::Exr => 16 + 8,
            Format::Hdr => 12 + 8,
            _ => 8,
        };
        self.pixels() * (samples + 4)
    }
}

/// The format, by the first bytes. A texture in KTX2 is none of a view.
///
/// # Errors
/// Not a supported picture.
pub(super) fn format(bytes: &[u8]) -> Result<Format, PictureError> {
    const TIFF: [&[u8]; 4] = [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"];
    if bytes.is_empty() {
        return Err(PictureError::Empty);
    }
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    Ok(if starts(b"\x89PNG\r\n\x1A\n") {
        Format::Png
    } else if starts(b"\xFF\xD8\xFF") {
        Format::Jpeg
    } else if starts(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Format::WebP
    } else if TIFF.into_iter().any(starts) {
        Format::Tiff
    } else if starts(b"BM") {
        Format::Bmp
    } else if matches!(bytes, [b'P', b'1'..=b'7', b' ' | b'\t' | b'\r' | b'\n', ..]) {
        Format::Pnm
    } else if starts(b"\x76\x2F\x31\x01") {
        Format::Exr
    } else if starts(b"#?RADIANCE") || starts(b"#?RGBE") {
        Format::Hdr
    } else {
        return Err(match foreign::recognise(bytes) {
            Some(Foreign {
                what,
                class: Class::Picture,
                ..
            }) => PictureError::Format(what),
            Some(foreign) => PictureError::Foreign(foreign),
            None => PictureError::Unknown,
        });
    })
}

pub(super) fn check_size(width: u32, height: u32) -> Result<(), PictureError> {
    if width == 0 || height == 0 {
        return Err(PictureError::NoPixels { width, height });
    }
    let too_large = width > MAX_VIEW_EDGE || height > MAX_VIEW_EDGE;
    if too_large || u64::from(width) * u64::from(height) > MAX_VIEW_PIXELS {
        return Err(PictureError::TooLarge { width, height });
    }
    Ok(())
}

/// The size from IHDR, which is the first chunk.
pub(super) fn png(bytes: &[u8]) -> Result<[u32; 2], PictureError> {
    let header: [u8; 16] = array(bytes, 8).ok_or(PictureError::Truncated)?;
    if &header[4..8] != b"IHDR" {
        return Err(PictureError::Damaged(
            "the first chunk is not IHDR".to_owned(),
        ));
    }
    let [_, _, _, _, _, _, _, _, w0, w1, w2, w3, h0, h1, h2, h3] = header;
    Ok([
        u32::from_be_bytes([w0, w1, w2, w3]),
        u32::from_be_bytes([h0, h1, h2, h3]),
    ])
}

/// Scans the segments to the end marker, since a decoder would fill missing parts with grey.
pub(super) fn jpeg(bytes: &[u8]) -> Result<[u32; 2], PictureError> {
    let mut size = None;
    let mut at = 2;
    loop {
        let [first, marker] = array(bytes, at).ok_or(PictureError::Truncated)?;
        match (first, marker) {
            // Fill bytes before a marker.
            (0xFF, 0xFF) => at += 1,
            // A stuffed zero and restart markers belong to the data.
            (0xFF, 0x00 | 0xD0..=0xD7) => at += 2,
            (0xFF, 0xD9) => break,
            (0xFF, 0x01 | 0xD8) => at += 2,
            (0xFF, _) => {
                let length: [u8; 2] = array(bytes, at + 2).ok_or(PictureError::Truncated)?;
                if size.is_none()
                    && (0xC0..=0xCF).contains(&marker)
                    && !matches!(marker, 0xC4 | 0xC8 | 0xCC)
                {
                    size = Some(jpeg_frame(
                        marker,
                        array(bytes, at + 4).ok_or(PictureError::Truncated)?,
                    )?);
                }
                at += 2 + usize::from(u16::from_be_bytes(length)).max(2);
            }
            _ => match bytes
                .get(at..)
                .unwrap_or_default()
                .iter()
                .position(|&byte| byte == 0xFF)
            {
                Some(skip) => at += skip,
                None => return Err(PictureError::Truncated),
            },
        }
    }
    size.ok_or_else(|| PictureError::Damaged("no frame header".to_owned()))
}

/// Size from a frame header: precision, height, width, number of components.
fn jpeg_frame(
    marker: u8,
    [precision, h0, h1, w0, w1, components]: [u8; 6],
) -> Result<[u32; 2], PictureError> {
    match (marker, precision, components) {
        (0xC3 | 0xC7 | 0xCB | 0xCF, ..) => return Err(PictureError::Flavour("a lossless JPEG")),
        (0xC5 | 0xC6 | 0xCD | 0xCE, ..) => {
            return Err(PictureError::Flavour("a hierarchical JPEG"));
        }
        (0xC9 | 0xCA, ..) => return Err(PictureError::Flavour("an arithmetic-coded JPEG")),
        (_, 8, 1 | 3) => {}
        (_, 8, 4) => return Err(PictureError::Flavour("a CMYK JPEG")),
        (_, 8, _) => {
            return Err(PictureError::Flavour(
                "a JPEG with neither one nor three channels",
            ));
        }
        _ => return Err(PictureError::Flavour("a JPEG of more than 8 bits")),
    }
    Ok([
        u32::from(u16::from_be_bytes([w0, w1])),
        u32::from(u16::from_be_bytes([h0, h1])),
    ])
}

/// Scans the chunks. Each must be complete, and the frame's own size counts, whatever the canvas claims.
pub(super) fn webp(bytes: &[u8]) -> Result<[u32; 2], PictureError> {
    let riff = u32::from_le_bytes(array(bytes, 4).ok_or(PictureError::Truncated)?) as usize;
    let bytes = bytes
        .get(..riff.saturating_add(8))
        .ok_or(PictureError::Truncated)?;
    let (mut canvas, mut frame) = (None, None);
    let mut at = 12;
    while let Some([c0, c1, c2, c3, l0, l1, l2, l3]) = array(bytes, at) {
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let body = bytes
            .get(at + 8..)
            .and_then(|rest| rest.get(..length))
            .ok_or(PictureError::Truncated)?;
        match &[c0, c1, c2, c3] {
            b"VP8X" => {
                let [_, _, _, _, w0, w1, w2, h0, h1, h2] =
                    array(body, 0).ok_or(PictureError::Truncated)?;
                let edge =
                    |bytes: [u8; 3]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]) + 1;
                canvas = canvas.or(Some([edge([w0, w1, w2]), edge([h0, h1, h2])]));
            }
            b"ANIM" | b"ANMF" => return Err(PictureError::Flavour("an animated WebP")),
            b"VP8 " => {
                let [w0, w1, h0, h1] = array(body, 6).ok_or(PictureError::Truncated)?;
                let edge = |bytes| u32::from(u16::from_le_bytes(bytes) & 0x3FFF);
                frame = frame.or(Some([edge([w0, w1]), edge([h0, h1])]));
            }
            b"VP8L" => {
                let bits = u32::from_le_bytes(array(body, 1).ok_or(PictureError::Truncated)?);
                frame = frame.or(Some([(bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1]));
            }
            _ => {}
        }
        // Chunks are padded to even lengths.
        at += 8 + length + length % 2;
    }
    match (canvas, frame) {
        (_, None) => Err(PictureError::Damaged("no picture in it".to_owned())),
        (Some(canvas), Some(frame)) if canvas != frame => Err(PictureError::Damaged(
            "canvas and frame differ in size".to_owned(),
        )),
        (_, Some(frame)) => Ok(frame),
    }
}

pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
