//! Decodes PNG, JPEG, WebP, TIFF, BMP, PNM, `OpenEXR` or Radiance HDR, recognised by content, not by name, to 8-bit sRGB with straight alpha.
//!
//! The size is read from the header and checked before any decoder runs, so a picture costs at most what
//! [`proto::limits`] allows. A truncated picture or one with a wrong checksum is refused: half a picture would be baked
//! as if it were meant.
//!
//! The pictures of a mesh may be KTX2 too ([`probe_texture`]). Those of views may not, since the format is lossy and
//! for devices.
//!
//! The colours of a view become sRGB as its tags say (`colour.rs`); numbers, masks and the textures of a mesh are taken as
//! they are stored, the last since glTF says so. EXIF orientation is read ([`orientation`]) and applied on request.
//!
//! Deliberate limits:
//!
//! - Of an animated PNG the default picture is used.
//! - CMYK, 12-bit and lossless JPEG, animated WebP and HDR (PQ, HLG) are refused. Light of `OpenEXR` and Radiance HDR is clipped at
//!   white (`light.rs`).

mod colour;
mod error;
mod jpeg;
pub(crate) mod ktx2;
mod light;
mod pixels;
mod plain;
mod png;
mod probe;
mod tags;
#[cfg(test)]
mod tests;
mod tiff;
mod turn;
mod webp;

pub(crate) use colour::{Colours, Meaning};
pub(crate) use error::PictureError;
pub(crate) use image::metadata::Orientation;
pub(crate) use probe::{Format, Header};
pub(crate) use turn::swaps;

use crate::worker::progress::unit;

/// A decoded picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Row-major from the top; sRGB with straight alpha.
    pub(crate) pixels: Vec<[u8; 4]>,
    /// Some pixel is not opaque. Alpha that is 255 everywhere, stored or not, says nothing about a silhouette.
    pub(crate) has_alpha: bool,
    /// What was made of the tags of its colours.
    pub(crate) colours: Colours,
}

/// Reads format and size and checks the size.
///
/// # Errors
/// Not a supported picture, no or too many pixels, or truncated.
pub(crate) fn probe(bytes: &[u8]) -> Result<Header, PictureError> {
    let format = probe::format(bytes)?;
    let [width, height] = match format {
        Format::Png => probe::png(bytes),
        Format::Jpeg => probe::jpeg(bytes),
        Format::WebP => probe::webp(bytes),
        Format::Tiff => tiff::size(bytes),
        Format::Bmp | Format::Pnm => plain::size(bytes, format),
        Format::Exr => light::exr_size(bytes),
        Format::Hdr => light::hdr_size(bytes),
        Format::Ktx2 => Err(PictureError::Unknown),
    }?;
    probe::check_size(width, height)?;
    Ok(Header {
        format,
        width,
        height,
    })
}

/// Like [`probe()`], for pictures of a mesh.
///
/// # Errors
/// As there.
pub(crate) fn probe_texture(bytes: &[u8]) -> Result<Header, PictureError> {
    if !bytes.starts_with(&ktx2::IDENTIFIER) {
        return probe(bytes);
    }
    let texture = ktx2::Texture::read(bytes)?;
    Ok(Header {
        format: Format::Ktx2,
        width: texture.width,
        height: texture.height,
    })
}

/// The orientation in which EXIF wants the picture shown. `header` comes from [`probe()`] of the same bytes.
pub(crate) fn orientation(bytes: &[u8], header: Header) -> Orientation {
    tags::orientation(bytes, header.format)
}

/// Decodes the picture as it is stored. `header` comes from [`probe()`] or [`probe_texture`] of the same bytes.
///
/// # Errors
/// The first problem found.
pub(crate) fn decode(bytes: &[u8], header: Header) -> Result<Picture, PictureError> {
    decode_as(bytes, header, (Meaning::Numbers, Orientation::NoTransforms))
}

/// Decodes the picture as what its samples mean, and turns it.
///
/// # Errors
/// The first problem found.
pub(crate) fn decode_as(
    bytes: &[u8],
    header: Header,
    (meaning, turn): (Meaning, Orientation),
) -> Result<Picture, PictureError> {
    let (pixels, colours) = match header.format {
        Format::Png => png::decode(bytes, header, meaning)?,
        Format::Jpeg => jpeg::decode(bytes, header, meaning)?,
        Format::WebP => webp::decode(bytes, header, meaning)?,
        Format::Tiff => tiff::decode(bytes, header, meaning)?,
        Format::Bmp | Format::Pnm => plain::decode(bytes, header, meaning)?,
        Format::Exr => light::decode_exr(bytes, header, meaning)?,
        Format::Hdr => light::decode_hdr(bytes, header, meaning)?,
        Format::Ktx2 => (ktx2::Texture::read(bytes)?.decode(0)?, Colours::default()),
    };
    unit();
    let has_alpha = pixels.iter().any(|pixel| pixel[3] != 255);
    let picture = Picture {
        width: header.width,
        height: header.height,
        pixels,
        has_alpha,
        colours,
    };
    picture.upright(turn)
}
