//! Finds the JSON and binary chunks of a GLB container.
//!
//! ```text
//!   "glTF" | version u32 = 2 | length u32 | { length u32 | type u32 | bytes, padded to 4 }: JSON, then BIN or nothing
//! ```
//!
//! Unlike the reader of the `gltf` crate, this one names the wrong number and copies nothing.

use std::ops::Range;

const HEADER_BYTES: usize = 12;
const CHUNK_HEADER_BYTES: usize = 8;
const JSON: [u8; 4] = *b"JSON";
const BIN: [u8; 4] = *b"BIN\0";

/// Why a file is no GLB.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum GlbError {
    /// Shorter than the header.
    #[error("ends after {0} of the 12 header bytes")]
    Header(usize),
    /// Other magic bytes, whatever the name says.
    #[error("does not begin with glTF")]
    Magic,
    /// GLB 1 is another format.
    #[error("GLB version {0}; version 2 is read")]
    Version(u32),
    /// Truncated, or a wrong length.
    #[error("the header promises {promised} bytes, the file has {present}")]
    Length { promised: u32, present: usize },
    /// A chunk reaches beyond the file.
    #[error("chunk {chunk} reaches past the end of the file (needs {needed} bytes, has {present})")]
    Chunk {
        chunk: usize,
        /// Its bytes by its header.
        needed: u32,
        present: usize,
    },
    /// The first chunk is of another type.
    #[error("the first chunk is not JSON")]
    FirstChunk,
}

/// The byte ranges of a GLB's parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    pub(super) json: Range<usize>,
    pub(super) bin: Option<Range<usize>>,
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*field))
}

/// Finds the chunks. Ignores bytes after the stated length and chunks of other types, as the format demands.
pub(super) fn split(bytes: &[u8]) -> Result<Chunks, GlbError> {
    if !bytes.starts_with(b"glTF") && bytes.len() >= 4 {
        return Err(GlbError::Magic);
    }
    let short = || GlbError::Header(bytes.len());
    let version = number(bytes, 4).ok_or_else(short)?;
    let promised = number(bytes, 8).ok_or_else(short)?;
    if version != 2 {
        return Err(GlbError::Version(version));
    }
    let end = promised as usize;
    if end > bytes.len() || end < HEADER_BYTES + CHUNK_HEADER_BYTES {
        return Err(GlbError::Length {
            promised,
            present: bytes.len(),
        });
    }
    let mut found = Vec::new();
    let mut at = HEADER_BYTES;
    while let Some(needed) = number(&bytes[..end], at) {
        let kind = bytes[at + 4..end].first_chunk::<4>().copied();
        let start = (at + CHUNK_HEADER_BYTES).min(end);
        let present = end - start;
        if needed as usize > present {
            return Err(GlbError::Chunk {
                chunk: found.len(),
                needed,
                present,
            });
        }
        let range = start..start + needed as usize;
        at = range.end.next_multiple_of(4);
        found.push((kind, range));
    }
    let mut chunks = found.into_iter();
    let Some((Some(JSON), json)) = chunks.next() else {
        return Err(GlbError::FirstChunk);
    };
    let bin = chunks.find_map(|(kind, range)| (kind == Some(BIN)).then_some(range));
    // The format pads JSON with spaces; some exporters pad it with zeros.
    let text = bytes[json.clone()].iter().rposition(|&byte| byte != 0);
    let json = json.start..text.map_or(json.start, |last| json.start + last + 1);
    Ok(Chunks { json, bin })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glb(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
        let mut bytes = [&b"glTF"[..], &2u32.to_le_bytes(), &[0; 4]].concat();
        for (kind, content) in chunks {
            bytes.extend((content.len() as u32).to_le_bytes());
            bytes.extend(*kind);
            bytes.extend(*content);
        }
        let length = bytes.len() as u32;
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    #[test]
    fn chunks_are_found_and_strangers_skipped() {
        let bytes = glb(&[(&JSON, b"{}  "), (b"XXXX", b"1234"), (&BIN, b"12345678")]);
        assert_eq!(
            split(&bytes).unwrap(),
            Chunks {
                json: 20..24,
                bin: Some(44..52)
            }
        );
        let bytes = glb(&[(&JSON, b"{}  ")]);
        assert_eq!(
            split(&bytes).unwrap(),
            Chunks {
                json: 20..24,
                bin: None
            }
        );
    }

    #[test]
    fn every_wrong_number_is_named() {
        let good = glb(&[(&JSON, b"{}  "), (&BIN, b"12345678")]);
        assert_eq!(split(&good[..10]), Err(GlbError::Header(10)));
        assert_eq!(split(b"glTX--------"), Err(GlbError::Magic));
        assert_eq!(
            split(&good[..30]),
            Err(GlbError::Length {
                promised: 40,
                present: 30
            })
        );
        let with = |at: usize, value: u32| {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            split(&bytes)
        };
        assert_eq!(with(4, 1), Err(GlbError::Version(1)));
        assert_eq!(
            with(8, 13),
            Err(GlbError::Length {
                promised: 13,
                present: 40
            })
        );
        assert_eq!(
            with(12, !0),
            Err(GlbError::Chunk {
                chunk: 0,
                needed: !0,
                present: 20
            })
        );
        assert_eq!(
            with(24, !15),
            Err(GlbError::Chunk {
                chunk: 1,
                needed: !15,
                present: 8
            })
        );
        assert_eq!(with(16, 7), Err(GlbError::FirstChunk));
        for end in 0..good.len() {
            assert!(split(&good[..end]).is_err());
        }
    }
}
