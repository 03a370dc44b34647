//! Memory for the pixels of a decoder.

use super::error::PictureError;
use super::probe::Header;

/// Allocates `channels` bytes for every pixel. Returns an error where memory is short, instead of aborting.
pub(super) fn buffer(header: Header, channels: usize) -> Result<Vec<u8>, PictureError> {
    let mut bytes = Vec::new();
    let size = header.pixels() * channels;
    bytes
        .try_reserve_exact(size)
        .map_err(|_refused| PictureError::Memory)?;
    bytes.resize(size, 0);
    Ok(bytes)
}

/// Turns samples of two bytes from the machine's order into big-endian.
pub(super) fn big_endian(bytes: &mut [u8]) {
    for pair in bytes.as_chunks_mut::<2>().0 {
        *pair = u16::from_ne_bytes(*pair).to_be_bytes();
    }
}

/// Expands decoded samples, `N` per pixel, to RGBA.
pub(super) fn spread<const N: usize>(
    bytes: &[u8],
    pixel: impl Fn([u8; N]) -> [u8; 4],
) -> Result<Vec<[u8; 4]>, PictureError> {
    let mut pixels = Vec::new();
    pixels
        .try_reserve_exact(bytes.len() / N)
        .map_err(|_refused| PictureError::Memory)?;
    pixels.extend(
        bytes
            .as_chunks::<N>()
            .0
            .iter()
            .map(|&samples| pixel(samples)),
    );
    Ok(pixels)
}
