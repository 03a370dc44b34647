//! Finds what stands beside the pixels of a file: its EXIF orientation, and whether it holds an ICC profile. Reads no
//! pixels and allocates nothing.

use image::metadata::Orientation;

use super::probe::{Format, array};

/// The orientation in which EXIF wants the picture shown. A broken EXIF block is no reason to lose the pixels.
pub(super) fn orientation(bytes: &[u8], format: Format) -> Orientation {
    if format == Format::Tiff {
        // An EXIF block is a TIFF file in itself.
        return Orientation::from_exif_chunk(bytes).unwrap_or(Orientation::NoTransforms);
    }
    let mut found = None;
    blocks(bytes, format, |name, body| {
        let exif = match (format, name) {
            (Format::Jpeg, [0xFF, 0xE1, ..]) => body.strip_prefix(b"Exif\0\0"),
            (Format::Png, b"eXIf") => Some(body),
            // Some writers keep the prefix of JPEG.
            (Format::WebP, b"EXIF") => Some(body.strip_prefix(b"Exif\0\0").unwrap_or(body)),
            _ => None,
        };
        found = exif.map(Orientation::from_exif_chunk);
        found.is_none()
    });
    found.flatten().unwrap_or(Orientation::NoTransforms)
}

/// Whether the file holds an ICC profile, readable or not.
pub(super) fn has_profile(bytes: &[u8], format: Format) -> bool {
    let mut found = false;
    blocks(bytes, format, |name, body| {
        found = match (format, name) {
            (Format::Jpeg, [0xFF, 0xE2, ..]) => body.starts_with(b"ICC_PROFILE\0"),
            (Format::Png, b"iCCP") | (Format::WebP, b"ICCP") => true,
            _ => false,
        };
        !found
    });
    found
}

/// Calls `each` for every block, with its name and bytes, until it returns false: a chunk of PNG or WebP, or a segment of
/// JPEG before its pixels, whose name starts with its marker.
fn blocks<'a>(bytes: &'a [u8], format: Format, mut each: impl FnMut(&[u8; 4], &'a [u8]) -> bool) {
    let mut at = match format {
        Format::Png => 8,
        Format::Jpeg => 2,
        Format::WebP => 12,
        Format::Tiff | Format::Bmp | Format::Pnm | Format::Ktx2 => return,
    };
    while let Some([a, b, c, d, e, f, g, h]) = array(bytes, at) {
        let (name, start, length, end) = match format {
            Format::Png => {
                let length = u32::from_be_bytes([a, b, c, d]) as usize;
                ([e, f, g, h], 8, length, 4)
            }
            Format::WebP => {
                let length = u32::from_le_bytes([e, f, g, h]) as usize;
                ([a, b, c, d], 8, length, length % 2)
            }
            // Fill bytes before a marker.
            _ if [a, b] == [0xFF, 0xFF] => {
                at += 1;
                continue;
            }
            // The pixels begin, or the file is no sound JPEG: whoever decodes it says so.
            _ if a != 0xFF || matches!(b, 0xDA | 0xD9) => return,
            _ => {
                let length = usize::from(u16::from_be_bytes([c, d])).max(2) - 2;
                ([a, b, 0, 0], 4, length, 0)
            }
        };
        let body = bytes.get(at + start..).and_then(|rest| rest.get(..length));
        let Some(body) = body else { return };
        if !each(&name, body) {
            return;
        }
        at += start + length + end;
    }
}
