//! Texels → a KTX2 file of Basis Universal with all mips, as `KHR_texture_basisu` demands.
//!
//! | module | purpose |
//! |---|---|
//! | `mips` | texels → all levels: means of linear light, of numbers, or of directions |
//! | `basis` | levels → blocks, by Binomial's encoder (C++) |
//! | `container` | blocks → the file: header, data format, levels from the smallest up |
//!
//! ETC1S is one call over all levels, since they share codebooks. UASTC blocks are independent: all threads encode
//! bands of them, and Zstandard compresses the levels. The same texels on the same machine give the same bytes. The
//! constants in `basis` were measured on a photographed statue, 1024² with mips, on two cores.

mod basis;
mod container;
mod mips;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

pub use self::basis::BasisError;
use self::container::{Contents, Model};
pub(super) use self::mips::{Level, chain};
use crate::image::png::Kind;
use crate::worker::pace;
use crate::worker::progress::{each, expect, unit};

/// Rows of a band, a multiple of a block's.
const BAND: usize = 64;
/// Zstandard level. For a UASTC texture levels 3, 9 and 19 give 834, 796 and 770 kB in 9, 33 and 400 ms.
const ZSTD: i32 = 9;

/// The block format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Shared codebooks; quality is 1 to 100.
    Etc1s(u8),
    /// 16 bytes per block.
    Uastc,
}

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum Ktx2Error {
    /// `KHR_texture_basisu` forbids this size.
    #[error(
        "a KTX2 texture of {0}x{0} texels: glTF wants multiples of 4, which every --texture-size is"
    )]
    Edge(u32),
    /// The encoder failed.
    #[error(transparent)]
    Basis(#[from] BasisError),
    /// Zstandard failed.
    #[error("the texture cannot be compressed")]
    Compress(#[from] std::io::Error),
}

/// A file and the levels it encodes.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) file: Vec<u8>,
    pub(super) levels: Vec<Level>,
}

/// Encodes `size`² texels, row-major from the top, and their mips.
///
/// # Errors
/// The size is no multiple of 4, or the encoder fails.
pub(super) fn encode(
    kind: Kind,
    coding: Coding,
    size: u32,
    texels: &[[u8; 4]],
) -> Result<Made, Ktx2Error> {
    if size == 0 || !size.is_multiple_of(4) || texels.len() != (size as usize).pow(2) {
        return Err(Ktx2Error::Edge(size));
    }
    expect("mips", each(texels.len(), pace::TEXEL));
    let levels = chain(kind, size as usize, texels);
    unit();
    let contents = match coding {
        Coding::Etc1s(quality) => {
            expect("ETC1S", each(texels.len(), pace::ETC1S_TEXEL));
            let coded = basis::etc1s(&levels, quality)?;
            unit();
            Contents {
                model: Model::Etc1s {
                    alpha: coded.has_alpha(),
                },
                global: coded.global(),
                levels: coded.levels(),
            }
        }
        Coding::Uastc => {
            let band = BAND * size as usize;
            expect("a band of UASTC", each(band, pace::UASTC_TEXEL));
            let blocks = levels.iter().map(uastc).collect::<Result<Vec<_>, _>>()?;
            expect("Zstandard", each(texels.len(), pace::ZSTD_TEXEL));
            let packed: Result<Vec<_>, std::io::Error> = blocks
                .into_par_iter()
                .map(|blocks| {
                    let packed = zstd::bulk::compress(&blocks, ZSTD)?;
                    Ok((packed, blocks.len()))
                })
                .collect();
            unit();
            Contents {
                model: Model::Uastc {
                    alpha: levels.iter().any(Level::is_translucent),
                },
                global: Vec::new(),
                levels: packed?,
            }
        }
    };
    let srgb = matches!(kind, Kind::Colour | Kind::Translucent);
    let file = container::write(size, srgb, &contents);
    Ok(Made { file, levels })
}

/// Encodes the blocks of a level, row by row.
fn uastc(level: &Level) -> Result<Vec<u8>, BasisError> {
    let bands: Vec<Vec<u8>> = level
        .texels
        .par_chunks(BAND * level.edge)
        .map(|band| {
            let blocks = basis::uastc(level.edge, band)?;
            unit();
            Ok(blocks)
        })
        .collect::<Result<_, BasisError>>()?;
    Ok(bands.concat())
}
