//! A picture of any format, as it comes and with repaired PNG checksums: refused, or all of its pixels.

use baker::prepare::alone;

use crate::heap;

/// Larger pictures are refused here, for speed.
const MOST_PIXELS: usize = 1 << 14;
/// Memory of a decoder besides a share of the file: tables, windows, and for WebP a few frames.
const DECODING_BYTES: usize = 80 << 20;

/// Input: the file.
pub fn picture(bytes: &[u8]) -> bool {
    let plain = decode(bytes);
    let repaired = repair(bytes).is_some_and(|bytes| decode(&bytes));
    plain || repaired
}

fn decode(bytes: &[u8]) -> bool {
    let limit = DECODING_BYTES + 64 * bytes.len();
    let decoded = heap::within(limit, "decoding a picture", || {
        alone::decode_picture(bytes, MOST_PIXELS)
    });
    let Ok(picture) = decoded else {
        return false;
    };
    assert_eq!(
        picture.pixels.len(),
        picture.width as usize * picture.height as usize,
        "a picture has all of its pixels"
    );
    let transparent = picture.pixels.iter().any(|pixel| pixel[3] != 255);
    assert_eq!(picture.has_alpha, transparent, "alpha is what it is called");
    true
}

/// The PNG with correct checksums, which mutations always break; `None` if they are correct already.
fn repair(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut repaired = bytes.to_vec();
    let mut at = bytes.starts_with(b"\x89PNG\r\n\x1A\n").then_some(8_usize)?;
    while let Some(length) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let end = at
            .checked_add(8)?
            .checked_add(u32::from_be_bytes(*length) as usize)?;
        let Some(body) = bytes.get(at + 4..end).filter(|_| end + 4 <= bytes.len()) else {
            break;
        };
        let sum = crc32fast::hash(body).to_be_bytes();
        repaired[end..end + 4].copy_from_slice(&sum);
        at = end + 4;
    }
    (repaired != bytes).then_some(repaired)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_checksum_is_repaired_and_the_picture_accepted() {
        let (_, _, good) = crate::seed::all()
            .into_iter()
            .find(|(target, name, _)| *target == "picture" && name.ends_with(".png"))
            .expect("a PNG seed");
        let mut broken = good.clone();
        // The checksum of IHDR: signature, length, type, 13 bytes.
        broken[8 + 8 + 13] ^= 1;
        assert!(!decode(&broken), "the reader sees the damage");
        assert_eq!(repair(&broken), Some(good.clone()));
        assert!(picture(&broken) && repair(&good).is_none());
    }
}
