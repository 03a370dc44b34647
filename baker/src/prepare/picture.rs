//! Decodes PNG, JPEG or WebP, recognised by content, not by name, to 8-bit sRGB with straight alpha.
//!
//! The size is read from the header and checked before any decoder runs, so a picture costs at most what
//! [`proto::limits`] allows. A truncated picture or one with a wrong checksum is refused: half a picture would be baked
//! as if it were meant.
//!
//! The pictures of a mesh may be KTX2 too ([`probe_texture`]). Those of views may not, since the format is lossy and
//! for devices.
//!
//! Deliberate limits:
//!
//! - gAMA, cHRM and ICC profiles are ignored; pixels count as sRGB.
//! - EXIF orientation is not applied, since the programs that estimate cameras work on the pixels as stored
//!   ([`Picture::turned`] reports it).
//! - Of an animated PNG the default picture is used.
//! - CMYK, 12-bit and lossless JPEG and animated WebP are refused.

mod error;
mod jpeg;
pub(crate) mod ktx2;
mod pixels;
mod png;
mod probe;
#[cfg(test)]
mod tests;
mod webp;

pub(crate) use error::PictureError;
pub(crate) use probe::{Format, Header, probe};

/// A decoded picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Row-major from the top; sRGB with straight alpha.
    pub(crate) pixels: Vec<[u8; 4]>,
    /// Some pixel is not opaque. Alpha that is 255 everywhere, stored or not, says nothing about a silhouette.
    pub(crate) has_alpha: bool,
    /// EXIF asks a viewer to rotate or mirror the picture.
    pub(crate) turned: bool,
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

/// Decodes the picture. `header` comes from [`probe()`] or [`probe_texture`] of the same bytes.
///
/// # Errors
/// The first problem found.
pub(crate) fn decode(bytes: &[u8], header: Header) -> Result<Picture, PictureError> {
    let (pixels, turned) = match header.format {
        Format::Png => png::decode(bytes, header)?,
        Format::Jpeg => jpeg::decode(bytes, header)?,
        Format::WebP => webp::decode(bytes, header)?,
        Format::Ktx2 => (ktx2::Texture::read(bytes)?.decode(0)?, false),
    };
    let has_alpha = pixels.iter().any(|pixel| pixel[3] != 255);
    Ok(Picture {
        width: header.width,
        height: header.height,
        pixels,
        has_alpha,
        turned,
    })
}
