//! Decodes KTX2 with Basis Universal, the pictures of `KHR_texture_basisu`, to RGBA levels.
//!
//! The whole header is checked before the transcoder sees a byte: one picture, ETC1S or UASTC, levels within the file
//! and of the size that their texels need. Zstandard is decompressed into exactly that many bytes. The transcoder gets
//! a UASTC level as a file of its own. It is the Rust one (`basisu`), since these bytes are untrusted.

use basisu::{DecodeFlags, TargetFormat, Transcoder};

use super::error::PictureError;
use super::pixels::spread;
use super::probe::{array, check_size};

pub(crate) const IDENTIFIER: [u8; 12] = *b"\xABKTX 20\xBB\r\n\x1A\n";
const HEADER: usize = 80;
/// Bytes of a level's entry in the index.
const LEVEL: usize = 24;
/// No allowed edge has more levels.
const MOST_LEVELS: usize = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Etc1s,
    Plain,
    Zstandard,
}

#[derive(Debug)]
pub(crate) struct Texture<'a> {
    bytes: &'a [u8],
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// 163 is ETC1S, 166 UASTC.
    #[cfg(test)]
    pub(crate) model: u8,
    /// Primaries and transfer function from the data format descriptor.
    #[cfg(test)]
    pub(crate) colour: [u8; 2],
    scheme: Scheme,
    format: &'a [u8],
    levels: Vec<&'a [u8]>,
}

fn damaged(what: &str) -> PictureError {
    PictureError::Damaged(what.to_owned())
}

/// The bytes of a file, by place.
#[derive(Clone, Copy)]
struct Places<'a>(&'a [u8]);

impl<'a> Places<'a> {
    fn word(self, at: usize) -> Result<u32, PictureError> {
        let word = array(self.0, at).map(u32::from_le_bytes);
        word.ok_or(PictureError::Truncated)
    }

    fn long(self, at: usize) -> Result<usize, PictureError> {
        let value = array(self.0, at).map(u64::from_le_bytes);
        let value = value.ok_or(PictureError::Truncated)?;
        usize::try_from(value).map_err(|_beyond| PictureError::Truncated)
    }

    fn within(self, start: usize, length: usize) -> Result<&'a [u8], PictureError> {
        let end = start.checked_add(length).ok_or(PictureError::Truncated)?;
        self.0.get(start..end).ok_or(PictureError::Truncated)
    }

    /// What the two words at a place say: offset and length.
    fn named(self, at: usize) -> Result<&'a [u8], PictureError> {
        self.within(self.word(at)? as usize, self.word(at + 4)? as usize)
    }

    /// The levels of the index.
    fn levels(
        self,
        count: u32,
        [width, height]: [u32; 2],
        scheme: Scheme,
    ) -> Result<Vec<&'a [u8]>, PictureError> {
        let count = (count as usize).max(1);
        if count > MOST_LEVELS || width.max(height) >> (count - 1) == 0 {
            return Err(damaged("it has more levels than its size allows"));
        }
        let level = |level: usize| {
            let at = HEADER + LEVEL * level;
            let data = self.within(self.long(at)?, self.long(at + 8)?)?;
            let needed = blocks(width, height, level) * 16;
            let given = match scheme {
                Scheme::Etc1s => needed,
                Scheme::Plain => data.len(),
                Scheme::Zstandard => self.long(at + 16)?,
            };
            match given == needed {
                true => Ok(data),
                false => Err(damaged("a level is not as large as its texels need")),
            }
        };
        (0..count).map(level).collect()
    }
}

/// Checks the data format descriptor; `scheme` is that of the header. Returns how texels are stored.
fn stored(format: &[u8], scheme: u32) -> Result<Scheme, PictureError> {
    let (Some(&model), Some(&[primaries, transfer]), Some(block)) = (
        format.get(12),
        format.get(13..15).and_then(<[u8]>::first_chunk),
        format.get(16..20),
    ) else {
        return Err(damaged("its data format is cut off"));
    };
    let scheme = match (model, scheme) {
        (163, 1) => Scheme::Etc1s,
        (166, 0) => Scheme::Plain,
        (166, 2) => Scheme::Zstandard,
        _ => {
            return Err(PictureError::Flavour(
                "a KTX2 texture of neither ETC1S nor UASTC",
            ));
        }
    };
    // Only what these values describe: the data format descriptor could describe the same bytes otherwise.
    if block != [3, 3, 0, 0] || !matches!(transfer, 1 | 2) || primaries > 1 {
        return Err(PictureError::Flavour(
            "a KTX2 texture in another colour space or of other blocks than glTF allows",
        ));
    }
    Ok(scheme)
}

/// Refuses keys that say other than left to right and downwards.
fn check_orientation(keys: &[u8]) -> Result<(), PictureError> {
    let turned = b"KTXorientation\0";
    let place = keys
        .windows(turned.len())
        .position(|window| window == turned);
    match place.is_some_and(|at| !keys[at + turned.len()..].starts_with(b"rd")) {
        true => Err(PictureError::Flavour("a KTX2 texture stored upside down")),
        false => Ok(()),
    }
}

impl<'a> Texture<'a> {
    /// Reads and checks the header.
    ///
    /// # Errors
    /// A texture that glTF does not allow, or a damaged one.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, PictureError> {
        if !bytes.starts_with(&IDENTIFIER) {
            return Err(damaged("it is no KTX2 file"));
        }
        if bytes.len() < HEADER {
            return Err(PictureError::Truncated);
        }
        let places = Places(bytes);
        let mut words = [0; 9];
        for (k, value) in words.iter_mut().enumerate() {
            *value = places.word(IDENTIFIER.len() + 4 * k)?;
        }
        let [
            vulkan,
            _,
            width,
            height,
            depth,
            layers,
            faces,
            levels,
            scheme,
        ] = words;
        if vulkan != 0 {
            return Err(PictureError::Flavour(
                "a KTX2 texture that is not Basis Universal",
            ));
        }
        if depth > 0 || layers > 0 || faces != 1 {
            return Err(PictureError::Flavour(
                "a KTX2 texture of several layers, faces or slices",
            ));
        }
        check_size(width, height)?;
        let format = places.named(48)?;
        let scheme = stored(format, scheme)?;
        check_orientation(places.named(56)?)?;
        let levels = places.levels(levels, [width, height], scheme)?;
        Ok(Self {
            bytes,
            width,
            height,
            #[cfg(test)]
            model: format[12],
            #[cfg(test)]
            colour: [format[13], format[14]],
            scheme,
            format,
            levels,
        })
    }

    pub(crate) fn level_count(&self) -> usize {
        self.levels.len()
    }

    /// Decodes an existing level, row-major from the top.
    ///
    /// # Errors
    /// It is damaged.
    pub(crate) fn decode(&self, level: usize) -> Result<Vec<[u8; 4]>, PictureError> {
        let damaged = |what: String| PictureError::Damaged(what);
        let (width, height) = self.size(level);
        let blocks = blocks(self.width, self.height, level) * 16;
        let alone;
        let (file, number) = match self.scheme {
            Scheme::Etc1s => (self.bytes, level),
            Scheme::Plain => {
                alone = self.alone(width, height, self.levels[level]);
                (&alone[..], 0)
            }
            Scheme::Zstandard => {
                let plain = zstd::bulk::decompress(self.levels[level], blocks)
                    .map_err(|error| damaged(format!("Zstandard: {error}")))?;
                if plain.len() != blocks {
                    return Err(PictureError::Truncated);
                }
                alone = self.alone(width, height, &plain);
                (&alone[..], 0)
            }
        };
        let refused = |error: basisu::Error| damaged(format!("Basis Universal: {error:?}"));
        let transcoder = Transcoder::new(file).map_err(refused)?;
        let level = u32::try_from(number).unwrap_or(u32::MAX);
        let texels = transcoder
            .transcode(level, TargetFormat::Rgba32, DecodeFlags::NONE)
            .map_err(refused)?;
        if texels.len() != width as usize * height as usize * 4 {
            return Err(PictureError::Truncated);
        }
        spread(&texels, |texel: [u8; 4]| texel)
    }

    fn size(&self, level: usize) -> (u32, u32) {
        ((self.width >> level).max(1), (self.height >> level).max(1))
    }

    /// A file with one level of uncompressed UASTC.
    fn alone(&self, width: u32, height: u32, blocks: &[u8]) -> Vec<u8> {
        let format_at = HEADER + LEVEL;
        let data_at = (format_at + self.format.len()).next_multiple_of(16);
        let mut file = IDENTIFIER.to_vec();
        for word in [0, 1, width, height, 0, 0, 1, 1, 0] {
            file.extend(word.to_le_bytes());
        }
        for word in [format_at as u32, self.format.len() as u32, 0, 0] {
            file.extend(word.to_le_bytes());
        }
        file.extend([0; 16]);
        for word in [data_at, blocks.len(), blocks.len()] {
            file.extend((word as u64).to_le_bytes());
        }
        file.extend(self.format);
        file.resize(data_at, 0);
        file.extend(blocks);
        file
    }
}

/// Number of 4×4 blocks of a level.
fn blocks(width: u32, height: u32, level: usize) -> usize {
    let across = |edge: u32| (edge >> level).max(1).div_ceil(4) as usize;
    across(width) * across(height)
}
