//! SPZ, versions 1 to 4 → splats: a header, then one list for each attribute.
//!
//! ```text
//!   positions   3 × 24 bits, fixed point (version 1: 3 × half)   rotations  from version 3: 2 bits (which of x, y, z, w is the
//!   opacities   8 bits                                                      largest) and 3 × (sign, 9 bits); before: x, y, z of 8 bits
//!   colours     3 × 8 bits: 0.5 + 0.15 · coefficient             harmonics  8 bits: (value - 128) / 128, channels side by side
//!   scales      3 × 8 bits: (value / 16) - 10, logarithms
//!
//!   1 to 3: gzip (header of 16 bytes | lists)
//!   4:      header of 32 bytes | records of other programs | table: u64 packed, u64 unpacked, for each list | a Zstandard stream each
//! ```
//!
//! A list without bytes has no stream. No stream is read farther than the header says: a bomb ends there. The layout is that
//! of Niantic's library, release 3.0.

use std::io::Read;

use flate2::read::GzDecoder;
use kiln_splat::{Cloud, Dropped, MAX_DEGREE, Splat, coefficients};

use super::content::{Origin, SplatError, Splats, check_count};

const MAGIC: [u8; 4] = *b"NGSP";
const ANTIALIASED: u8 = 1;
/// Records of other programs: behind the splats, in version 4 behind the header.
const EXTENDED: u8 = 2;
/// Share of a coefficient in a stored colour.
const COLOUR: f32 = 0.15;
/// Bytes of the header of version 4, and of a list's row in its table.
const HEADER: usize = 32;
const ROW: usize = 16;
/// A file of version 4 holds no more splats than this many bytes for each of its own, as in Niantic's library.
const MOST_FOR_A_BYTE: usize = 1024;
/// The record `SPZ_ADOBE_coordinate_system`, and its value for right, up and back: the axes of a file without one.
const AXES: u32 = 0xADBE_0003;
const RUB: u32 = 4;

/// Whether the file, or its gzip stream, starts with the mark of SPZ.
pub(super) fn is(bytes: &[u8]) -> bool {
    let mut mark = [0; 4];
    let read = GzDecoder::new(bytes).read_exact(&mut mark);
    bytes.starts_with(&MAGIC) || (read.is_ok() && mark == MAGIC)
}

pub(super) fn read(bytes: &[u8]) -> Result<Splats, SplatError> {
    let (header, lists) = match bytes.starts_with(&MAGIC) {
        true => of_streams(bytes)?,
        false => of_gzip(bytes)?,
    };
    Ok(header.splats(&lists))
}

/// The list of each attribute.
type Lists = [Vec<u8>; 6];

/// The first 15 bytes, which are alike in all versions.
struct Header {
    version: u32,
    count: usize,
    degree: usize,
    fraction: u8,
    flags: u8,
}

/// A gzip stream: versions 1 to 3. Niantic's library takes a fourth in one, too.
fn of_gzip(bytes: &[u8]) -> Result<(Header, Lists), SplatError> {
    let mut stream = GzDecoder::new(bytes);
    let mut header = [0; 16];
    let cut = |_error| SplatError::Damaged("its gzip stream ends within the header");
    stream.read_exact(&mut header).map_err(cut)?;
    let header = Header::new(&header)?;
    if header.flags & EXTENDED != 0 {
        return Err(SplatError::Damaged("has extensions, which are not read"));
    }
    let mut lists = Lists::default();
    for (list, needed) in lists.iter_mut().zip(header.sizes()) {
        let needed = needed as u64;
        let read = stream.by_ref().take(needed).read_to_end(list);
        if read.is_err() || list.len() as u64 != needed {
            return Err(SplatError::Truncated {
                needed,
                present: list.len() as u64,
            });
        }
    }
    // The checksum stands at the end, and is compared there.
    if stream.read(&mut [0]).is_err() {
        return Err(SplatError::Damaged(
            "its gzip stream does not end as it should",
        ));
    }
    Ok((header, lists))
}

/// Version 4.
fn of_streams(bytes: &[u8]) -> Result<(Header, Lists), SplatError> {
    let cut = |needed: u64| SplatError::Truncated {
        needed,
        present: bytes.len() as u64,
    };
    let start = bytes.first_chunk::<HEADER>();
    let start = start.ok_or_else(|| cut(HEADER as u64))?;
    let [first, second] = start.as_chunks::<16>().0 else {
        return Err(cut(HEADER as u64));
    };
    let header = Header::new(first)?;
    if header.version < 4 {
        return Err(SplatError::Damaged(
            "its header has a version that is packed with gzip, and it is not",
        ));
    }
    let [a, b, c, d, ..] = *second;
    let table = u32::from_le_bytes([a, b, c, d]) as usize;
    let sizes = header.sizes();
    let streams = sizes.iter().filter(|&&size| size > 0).count();
    if usize::from(first[15]) != streams || table < HEADER {
        return Err(SplatError::Damaged(
            "its header has another number of lists, or another place of their table, than any file",
        ));
    }
    let end = table + ROW * streams;
    let rows = bytes.get(table..end).ok_or_else(|| cut(end as u64))?;
    if sizes.iter().sum::<usize>() > bytes.len().saturating_mul(MOST_FOR_A_BYTE) {
        return Err(SplatError::Damaged(
            "its header promises more splats than so few bytes hold",
        ));
    }
    if header.flags & EXTENDED != 0 {
        check_records(&bytes[HEADER..table])?;
    }
    let mut lists = Lists::default();
    let (mut rows, mut at) = (rows.as_chunks::<8>().0.iter(), end);
    for (list, size) in lists.iter_mut().zip(sizes).filter(|(_, size)| *size > 0) {
        let mut number = || rows.next().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (packed, unpacked) = (number(), number());
        let rest = bytes.get(at..).unwrap_or_default();
        if packed > rest.len() as u64 {
            return Err(cut(packed.saturating_add(at as u64)));
        }
        let stream = &rest[..packed as usize];
        at += stream.len();
        let read = zstd::Decoder::with_buffer(stream)
            .and_then(|stream| stream.take(size as u64 + 1).read_to_end(list));
        if read.is_err() || unpacked != size as u64 || list.len() != size {
            return Err(SplatError::Damaged(
                "one of its Zstandard streams is broken, or has not the size that its splats need",
            ));
        }
    }
    Ok((header, lists))
}

/// Skips the records of other programs, but for the one that says that axes are others.
fn check_records(mut records: &[u8]) -> Result<(), SplatError> {
    while let Some((head, rest)) = records.split_first_chunk::<8>() {
        let [a, b, c, d, e, f, g, h] = *head;
        let length = u32::from_le_bytes([e, f, g, h]) as usize;
        let parts = rest.split_at_checked(length);
        let (record, rest) = parts.ok_or(SplatError::Damaged(
            "a record of another program reaches into the table of its lists",
        ))?;
        if u32::from_le_bytes([a, b, c, d]) == AXES && record != RUB.to_le_bytes() {
            return Err(SplatError::Axes);
        }
        records = rest;
    }
    Ok(())
}

impl Header {
    fn new(bytes: &[u8; 16]) -> Result<Self, SplatError> {
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
        ] = *bytes;
        let version = u32::from_le_bytes([v0, v1, v2, v3]);
        if !(1..=4).contains(&version) {
            return Err(SplatError::Version(version));
        }
        let count = check_count(u64::from(u32::from_le_bytes([n0, n1, n2, n3])))?;
        let degree = usize::from(degree);
        if degree > 4 || fraction > 24 {
            return Err(SplatError::Damaged(
                "its header has a degree or a precision that no file has",
            ));
        }
        Ok(Self {
            version,
            count,
            degree,
            fraction,
            flags,
        })
    }

    /// Bytes of a splat in each list.
    fn widths(&self) -> [usize; 6] {
        [
            if self.version == 1 { 6 } else { 9 },
            1,
            3,
            3,
            if self.version >= 3 { 4 } else { 3 },
            3 * coefficients(self.degree),
        ]
    }

    /// Bytes of each list.
    fn sizes(&self) -> [usize; 6] {
        self.widths().map(|width| width * self.count)
    }

    fn splats(&self, lists: &Lists) -> Splats {
        let widths = self.widths();
        let degree = self.degree.min(MAX_DEGREE);
        let mut cloud = Cloud::new(degree);
        let mut dropped = Dropped::default();
        let mut harmonics = vec![[0.0; 3]; coefficients(degree)];
        for index in 0..self.count {
            let [position, opacity, colour, scale, rotation, harmonic] =
                [0, 1, 2, 3, 4, 5].map(|list| &lists[list][index * widths[list]..][..widths[list]]);
            for (k, into) in harmonics.iter_mut().enumerate() {
                *into =
                    [0, 1, 2].map(|channel| (f32::from(harmonic[3 * k + channel]) - 128.0) / 128.0);
            }
            let splat = Splat {
                position: [0, 1, 2].map(|k| match self.version {
                    1 => half([position[2 * k], position[2 * k + 1]]),
                    _ => fixed(
                        [position[3 * k], position[3 * k + 1], position[3 * k + 2]],
                        self.fraction,
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
        Splats {
            cloud,
            dropped,
            origin: Origin::Spz {
                antialiased: self.flags & ANTIALIASED != 0,
            },
        }
    }
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
