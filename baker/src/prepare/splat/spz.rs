//! SPZ, versions 1 to 3 → splats: a gzip stream with a header of 16 bytes, then one list for each attribute.
//!
//! ```text
//!   positions   3 × 24 bits, fixed point (version 1: 3 × half)   rotations  version 3: 2 bits (which of x, y, z, w is the largest)
//!   opacities   8 bits                                                      and 3 × (sign, 9 bits); before: x, y, z of 8 bits
//!   colours     3 × 8 bits: 0.5 + 0.15 · coefficient             harmonics  8 bits: (value - 128) / 128, channels side by side
//!   scales      3 × 8 bits: (value / 16) - 10, logarithms
//! ```
//!
//! The stream is read no farther than the header says: a bomb ends there.

use std::io::Read;

use flate2::read::GzDecoder;
use kiln_splat::{Cloud, Dropped, MAX_DEGREE, Splat, coefficients};

use super::content::{Origin, SplatError, Splats, check_count};

const MAGIC: u32 = 0x5053_474e;
const ANTIALIASED: u8 = 1;
/// Records of other programs between header and splats.
const EXTENDED: u8 = 2;
/// Share of a coefficient in a stored colour.
const COLOUR: f32 = 0.15;

/// Whether the gzip stream starts with the mark of SPZ.
pub(super) fn is(bytes: &[u8]) -> bool {
    let mut mark = [0; 4];
    let read = GzDecoder::new(bytes).read_exact(&mut mark);
    read.is_ok() && u32::from_le_bytes(mark) == MAGIC
}

pub(super) fn read(bytes: &[u8]) -> Result<Splats, SplatError> {
    let mut stream = GzDecoder::new(bytes);
    let mut header = [0; 16];
    let cut = |_error| SplatError::Damaged("its gzip stream ends within the header");
    stream.read_exact(&mut header).map_err(cut)?;
    let [
        _,
        _,
        _,
        _,
        v0,
        v1,
        v2,
        v3,
        n0,
        n1,
        n2,
        n3,
        degree,
        fraction,
        flags,
        _,
    ] = header;
    let version = u32::from_le_bytes([v0, v1, v2, v3]);
    if !(1..=3).contains(&version) {
        return Err(SplatError::Version(version));
    }
    if flags & EXTENDED != 0 {
        return Err(SplatError::Damaged("has extensions, which are not read"));
    }
    let count = check_count(u64::from(u32::from_le_bytes([n0, n1, n2, n3])))?;
    let degree = usize::from(degree);
    if degree > 4 || fraction > 24 {
        return Err(SplatError::Damaged(
            "its header has a degree or a precision that no file has",
        ));
    }
    let stored = (degree + 1) * (degree + 1) - 1;
    let widths = [
        if version == 1 { 6 } else { 9 },
        1,
        3,
        3,
        if version == 3 { 4 } else { 3 },
        3 * stored,
    ];
    let mut lists = Vec::new();
    for width in widths {
        let needed = (width * count) as u64;
        let mut list = Vec::new();
        let read = stream.by_ref().take(needed).read_to_end(&mut list);
        if read.is_err() || list.len() as u64 != needed {
            return Err(SplatError::Truncated {
                needed,
                present: list.len() as u64,
            });
        }
        lists.push(list);
    }
    // The checksum stands at the end, and is compared there.
    if stream.read(&mut [0]).is_err() {
        return Err(SplatError::Damaged(
            "its gzip stream does not end as it should",
        ));
    }
    let degree = degree.min(MAX_DEGREE);
    let mut cloud = Cloud::new(degree);
    let mut dropped = Dropped::default();
    let mut harmonics = vec![[0.0; 3]; coefficients(degree)];
    for index in 0..count {
        let [position, opacity, colour, scale, rotation, harmonic] =
            [0, 1, 2, 3, 4, 5].map(|list| &lists[list][index * widths[list]..][..widths[list]]);
        for (k, into) in harmonics.iter_mut().enumerate() {
            *into = [0, 1, 2].map(|channel| (f32::from(harmonic[3 * k + channel]) - 128.0) / 128.0);
        }
        let splat = Splat {
            position: [0, 1, 2].map(|k| match version {
                1 => half([position[2 * k], position[2 * k + 1]]),
                _ => fixed(
                    [position[3 * k], position[3 * k + 1], position[3 * k + 2]],
                    fraction,
                ),
            }),
            scales: [0, 1, 2].map(|k| (f32::from(scale[k]) / 16.0 - 10.0).exp()),
            rotation: match rotation {
                [a, b, c, d] => smallest_three(u32::from_le_bytes([*a, *b, *c, *d])),
                _ => first_three([rotation[0], rotation[1], rotation[2]]),
            },
            opacity: f32::from(opacity[0]) / 255.0,
            constant: [0, 1, 2].map(|k| (f32::from(colour[k]) / 255.0 - 0.5) / COLOUR),
        };
        dropped.meaningless += usize::from(!cloud.push(&splat, &harmonics));
    }
    Ok(Splats {
        cloud,
        dropped,
        origin: Origin::Spz {
            antialiased: flags & ANTIALIASED != 0,
        },
    })
}

/// 24 bits with a sign, `fraction` of them behind the point.
fn fixed([low, middle, high]: [u8; 3], fraction: u8) -> f32 {
    // The sign is shifted in from the top.
    let number = i32::from_le_bytes([0, low, middle, high]) >> 8;
    number as f32 / (1_u32 << fraction) as f32
}

/// IEEE binary16.
fn half(bytes: [u8; 2]) -> f32 {
    let bits = u16::from_le_bytes(bytes);
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023) / 1024.0);
    let size = match exponent {
        0 => fraction * 2.0_f32.powi(-14),
        31 => f32::NAN,
        _ => (1.0 + fraction) * 2.0_f32.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// (w, x, y, z) of (x, y, z) as bytes; w is positive.
fn first_three(bytes: [u8; 3]) -> [f32; 4] {
    let [x, y, z] = bytes.map(|byte| f32::from(byte) / 127.5 - 1.0);
    let w = (1.0 - x * x - y * y - z * z).max(0.0).sqrt();
    [w, x, y, z]
}

/// (w, x, y, z) of a word: the largest component is left out and positive, the others have a sign and 9 bits.
fn smallest_three(word: u32) -> [f32; 4] {
    let largest = (word >> 30) as usize;
    let (mut rest, mut q, mut square) = (word, [0.0_f32; 4], 0.0);
    for k in (0..4).rev().filter(|&k| k != largest) {
        let size = std::f32::consts::FRAC_1_SQRT_2 * (rest & 511) as f32 / 511.0;
        q[k] = if rest >> 9 & 1 == 1 { -size } else { size };
        square += size * size;
        rest >>= 10;
    }
    q[largest] = (1.0 - square).max(0.0).sqrt();
    let [x, y, z, w] = q;
    [w, x, y, z]
}
