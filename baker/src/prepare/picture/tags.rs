//! Finds what stands beside the pixels of a file: its EXIF orientation, whether EXIF says Adobe RGB, and whether it holds
//! an ICC profile. Reads no pixels and allocates nothing.

use image::metadata::Orientation;

use super::probe::{Format, array};

/// The orientation in which EXIF wants the picture shown. A broken EXIF block is no reason to lose the pixels.
pub(super) fn orientation(bytes: &[u8], format: Format) -> Orientation {
    if format == Format::Tiff {
        return Orientation::from_exif_chunk(bytes).unwrap_or(Orientation::NoTransforms);
    }
    let found = exif(bytes, format).and_then(Orientation::from_exif_chunk);
    found.unwrap_or(Orientation::NoTransforms)
}

/// Whether EXIF says that the colours are those of Adobe RGB, as cameras do that write no profile: the interoperability index
/// R03 of DCF's optional colour space (JEITA CP-3461).
pub(super) fn is_adobe_rgb(bytes: &[u8], format: Format) -> bool {
    const EXIF_DIRECTORY: u16 = 0x8769;
    const INTEROPERABILITY: u16 = 0xA005;
    const INDEX: u16 = 1;
    let index = |tiff: &[u8]| {
        let little = tiff.starts_with(b"II");
        let number = |at: usize| -> Option<usize> {
            let bytes = array::<4>(tiff, at)?;
            let number = if little {
                u32::from_le_bytes(bytes)
            } else {
                u32::from_be_bytes(bytes)
            };
            Some(number as usize)
        };
        let short = |at: usize| -> Option<u16> {
            let bytes = array::<2>(tiff, at)?;
            Some(if little {
                u16::from_le_bytes(bytes)
            } else {
                u16::from_be_bytes(bytes)
            })
        };
        // Where the value of an entry of a directory stands.
        let entry = |directory: usize, tag: u16| {
            let count = usize::from(short(directory)?);
            let mut entries = (0..count).map(|k| directory + 2 + 12 * k);
            entries.find(|&at| short(at) == Some(tag)).map(|at| at + 8)
        };
        let first = number(4)?;
        let exif = number(entry(first, EXIF_DIRECTORY)?)?;
        let interoperability = number(entry(exif, INTEROPERABILITY)?)?;
        array::<3>(tiff, entry(interoperability, INDEX)?)
    };
    exif(bytes, format).and_then(index) == Some(*b"R03")
}

/// The EXIF block, which is a TIFF file in itself.
fn exif(bytes: &[u8], format: Format) -> Option<&[u8]> {
    let mut found = None;
    blocks(bytes, format, |name, body| {
        found = match (format, name) {
            (Format::Jpeg, [0xFF, 0xE1, ..]) => body.strip_prefix(b"Exif\0\0"),
            (Format::Png, b"eXIf") => Some(body),
            // Some writers keep the prefix of JPEG.
            (Format::WebP, b"EXIF") => Some(body.strip_prefix(b"Exif\0\0").unwrap_or(body)),
            _ => None,
        };
        found.is_none()
    });
    found
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
        Format::Tiff | Format::Bmp | Format::Pnm | Format::Exr | Format::Hdr | Format::Ktx2 => {
            return;
        }
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
