//! Coded levels → a KTX2 file.
//!
//! ```text
//!  header 80 │ level index 24 each │ data format │ keys and values │ global data (ETC1S), aligned to 8 │ levels, smallest first
//! ```

/// Magic bytes.
pub(crate) const IDENTIFIER: [u8; 12] = *b"\xABKTX 20\xBB\r\n\x1A\n";
/// Bytes of the header without the level index.
pub(crate) const HEADER: usize = 80;

const BASIS_LZ: u32 = 1;
const ZSTANDARD: u32 = 2;

/// The block format, and whether alpha is used.
#[derive(Clone, Copy, Debug)]
pub(super) enum Model {
    Etc1s { alpha: bool },
    Uastc { alpha: bool },
}

#[derive(Debug)]
pub(super) struct Contents {
    pub(super) model: Model,
    /// ETC1S global data; otherwise empty.
    pub(super) global: Vec<u8>,
    /// Largest first: bytes, and their size after Zstandard decompression.
    pub(super) levels: Vec<(Vec<u8>, usize)>,
}

/// Writes a square texture of `srgb` colours, or of numbers.
pub(super) fn write(size: u32, srgb: bool, contents: &Contents) -> Vec<u8> {
    let Contents {
        model,
        global,
        levels,
    } = contents;
    let format = format(*model, srgb);
    let keys = keys();
    let format_at = HEADER + 24 * levels.len();
    let keys_at = format_at + format.len();
    let global_at = (keys_at + keys.len()).next_multiple_of(8);
    let levels_at = match global.is_empty() {
        true => keys_at + keys.len(),
        false => global_at + global.len(),
    };
    let mut file = IDENTIFIER.to_vec();
    let scheme = match model {
        Model::Etc1s { .. } => BASIS_LZ,
        Model::Uastc { .. } => ZSTANDARD,
    };
    // No Vulkan format; type size 1; width, height; no depth, no layers; one face.
    let levels_count = levels.len() as u32;
    for word in [0, 1, size, size, 0, 0, 1, levels_count, scheme] {
        file.extend(word.to_le_bytes());
    }
    for word in [format_at, format.len(), keys_at, keys.len()] {
        file.extend((word as u32).to_le_bytes());
    }
    let [start, length] = match global.is_empty() {
        true => [0, 0],
        false => [global_at, global.len()],
    };
    file.extend((start as u64).to_le_bytes());
    file.extend((length as u64).to_le_bytes());
    for (number, (bytes, plain)) in levels.iter().enumerate() {
        let smaller: usize = levels[number + 1..]
            .iter()
            .map(|(bytes, _)| bytes.len())
            .sum();
        for word in [levels_at + smaller, bytes.len(), *plain] {
            file.extend((word as u64).to_le_bytes());
        }
    }
    file.extend(format);
    file.extend(keys);
    if !global.is_empty() {
        file.resize(global_at, 0);
        file.extend(global);
    }
    for (bytes, _) in levels.iter().rev() {
        file.extend(bytes);
    }
    file
}

/// The data format descriptor with one basic block. Colours have BT.709 primaries and sRGB transfer, numbers are
/// linear.
fn format(model: Model, srgb: bool) -> Vec<u8> {
    const ETC1S: u8 = 163;
    const UASTC: u8 = 166;
    // Of each sample: channel, first bit, number of bits less one.
    let (model, samples): (u8, &[[u8; 3]]) = match model {
        Model::Etc1s { alpha: false } => (ETC1S, &[[0, 0, 63]]),
        Model::Etc1s { alpha: true } => (ETC1S, &[[0, 0, 63], [15, 64, 63]]),
        Model::Uastc { alpha: false } => (UASTC, &[[0, 0, 127]]),
        Model::Uastc { alpha: true } => (UASTC, &[[3, 0, 127]]),
    };
    let block = 24 + 16 * samples.len();
    let [primaries, transfer] = if srgb { [1, 2] } else { [0, 1] };
    let mut out = (block as u32 + 4).to_le_bytes().to_vec();
    // Khronos' basic descriptor block, version 1.3.
    out.extend([0, 0, 0, 0]);
    out.extend(2_u16.to_le_bytes());
    out.extend((block as u16).to_le_bytes());
    // Straight alpha; 4×4 blocks; no bytes per plane, since levels are supercompressed.
    out.extend([model, primaries, transfer, 0, 3, 3, 0, 0]);
    out.extend([0; 8]);
    for &[channel, first, bits] in samples {
        out.extend(u16::from(first).to_le_bytes());
        out.extend([bits, channel, 0, 0, 0, 0]);
        out.extend(0_u32.to_le_bytes());
        out.extend(u32::MAX.to_le_bytes());
    }
    out
}

/// Keys: orientation (rows go down) and writer.
fn keys() -> Vec<u8> {
    let mut out = Vec::new();
    for pair in [
        "KTXorientation\0rd\0",
        concat!("KTXwriter\0kiln ", env!("CARGO_PKG_VERSION"), "\0"),
    ] {
        out.extend((pair.len() as u32).to_le_bytes());
        out.extend(pair.as_bytes());
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}
