//! Levels → blocks of Basis Universal, by Binomial's encoder; the only place that calls it.
//!
//! Its bindings return `.basis` files, which have the parts of a KTX2 in another order. This file takes them apart. The
//! encoder gets our own texels, never an untrusted byte, and its output stays in this process.
#![expect(unsafe_code, reason = "the encoder is C++")]

use std::ffi::c_int;
use std::sync::Once;

use basis_universal_sys as sys;

use super::mips::Level;

/// Effort per UASTC block, 0 to 4. On the statue's texture of 1024², 0 gives 44.5 dB in 0.6 s of a core, 1 gives 45.15
/// dB in 2.9 s and 2, the encoder's default, 45.3 dB in 7.4 s.
const LEVEL: c_int = 1;
/// Largest number of ETC1S threads. The output does not depend on it, as long as a texture and its mips have fewer than
/// 262,144 different blocks. Beyond that the encoder splits its codebooks by thread.
const THREADS: usize = 8;
/// The first two bytes of a `.basis` file.
const SIGNATURE: usize = 0x4273;
const SLICE: usize = 23;

/// Why there are no blocks.
#[derive(Debug, thiserror::Error)]
pub enum BasisError {
    /// It refuses its parameters.
    #[error("the Basis Universal encoder refuses the texture")]
    Refused,
    /// It failed.
    #[error("the Basis Universal encoder fails with code {0}")]
    Failed(c_int),
    /// Its output contradicts its headers.
    #[error("the Basis Universal encoder gives something else than a texture")]
    Output,
}

enum Task {
    Etc1s { quality: u8 },
    Uastc,
}

/// Encodes UASTC blocks; a row has `width` texels.
pub(super) fn uastc(width: usize, texels: &[[u8; 4]]) -> Result<Vec<u8>, BasisError> {
    let height = texels.len() / width;
    let coded = Coded::read(run(&Task::Uastc, &[(width, height, texels)])?)?;
    let [slice] = &coded.slices[..] else {
        return Err(BasisError::Output);
    };
    let blocks = coded.part(slice.data);
    if blocks.len() == width.div_ceil(4) * height.div_ceil(4) * 16 {
        Ok(blocks.to_vec())
    } else {
        Err(BasisError::Output)
    }
}

/// Encodes all levels at once; quality is 1 to 100.
pub(super) fn etc1s(levels: &[Level], quality: u8) -> Result<Coded, BasisError> {
    let pictures: Vec<_> = levels
        .iter()
        .map(|level| (level.edge, level.edge, &level.texels[..]))
        .collect();
    let coded = Coded::read(run(&Task::Etc1s { quality }, &pictures)?)?;
    let whole = |alpha: bool| {
        let slices = coded.slices.iter().filter(|slice| slice.alpha == alpha);
        slices.map(|slice| slice.level).eq(0..levels.len())
    };
    if whole(false) && (!coded.has_alpha() || whole(true)) {
        Ok(coded)
    } else {
        Err(BasisError::Output)
    }
}

/// A byte range of the file.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    length: usize,
}

#[derive(Debug)]
struct Slice {
    level: usize,
    alpha: bool,
    data: Span,
}

/// A parsed `.basis` file.
#[derive(Debug)]
pub(super) struct Coded {
    bytes: Vec<u8>,
    endpoints: (usize, Span),
    selectors: (usize, Span),
    tables: Span,
    slices: Vec<Slice>,
}

impl Coded {
    fn read(bytes: Vec<u8>) -> Result<Self, BasisError> {
        Self::parse(bytes).ok_or(BasisError::Output)
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let number = |at: usize, size: usize| -> Option<usize> {
            let bytes = bytes.get(at..at + size)?;
            Some(
                bytes
                    .iter()
                    .rev()
                    .fold(0, |sum, &byte| sum << 8 | usize::from(byte)),
            )
        };
        let span = |start: usize, length: usize| {
            bytes.get(start..start.checked_add(length)?)?;
            Some(Span { start, length })
        };
        if number(0, 2)? != SIGNATURE {
            return None;
        }
        let first = number(65, 4)?;
        let slice = |k: usize| {
            let at = first + k * SLICE;
            Some(Slice {
                level: number(at + 3, 1)?,
                alpha: number(at + 4, 1)? & 1 != 0,
                data: span(number(at + 13, 4)?, number(at + 17, 4)?)?,
            })
        };
        Some(Self {
            endpoints: (number(39, 2)?, span(number(41, 4)?, number(45, 3)?)?),
            selectors: (number(48, 2)?, span(number(50, 4)?, number(54, 3)?)?),
            tables: span(number(57, 4)?, number(61, 4)?)?,
            slices: (0..number(14, 3)?).map(slice).collect::<Option<_>>()?,
            bytes,
        })
    }

    fn part(&self, span: Span) -> &[u8] {
        &self.bytes[span.start..span.start + span.length]
    }

    pub(super) fn has_alpha(&self) -> bool {
        self.slices.iter().any(|slice| slice.alpha)
    }

    fn slice(&self, level: usize, alpha: bool) -> Option<&Slice> {
        let wanted = |slice: &&Slice| slice.level == level && slice.alpha == alpha;
        self.slices.iter().find(wanted)
    }

    fn level_count(&self) -> usize {
        self.slices.iter().filter(|slice| !slice.alpha).count()
    }

    /// The bytes of each level, colours before alpha. The uncompressed size is 0, since `BasisLZ` has none.
    pub(super) fn levels(&self) -> Vec<(Vec<u8>, usize)> {
        let bytes = |level, alpha| {
            self.slice(level, alpha)
                .map_or(&[][..], |slice| self.part(slice.data))
        };
        (0..self.level_count())
            .map(|level| ([bytes(level, false), bytes(level, true)].concat(), 0))
            .collect()
    }

    /// KTX2's supercompression global data: the codebooks, and where slices lie within their levels.
    pub(super) fn global(&self) -> Vec<u8> {
        let (endpoints, selectors) = (self.endpoints, self.selectors);
        let mut out = Vec::new();
        out.extend((endpoints.0 as u16).to_le_bytes());
        out.extend((selectors.0 as u16).to_le_bytes());
        for part in [
            endpoints.1.length,
            selectors.1.length,
            self.tables.length,
            0,
        ] {
            out.extend((part as u32).to_le_bytes());
        }
        for level in 0..self.level_count() {
            let length = |alpha| {
                self.slice(level, alpha)
                    .map_or(0, |slice| slice.data.length)
            };
            let (colour, alpha) = (length(false), length(true));
            // Flags, then offset and length of colours and of alpha; both are 0 without alpha.
            let behind = if alpha > 0 { colour } else { 0 };
            for word in [0, 0, colour, behind, alpha] {
                out.extend((word as u32).to_le_bytes());
            }
        }
        for part in [endpoints.1, selectors.1, self.tables] {
            out.extend(self.part(part));
        }
        out
    }
}

/// The encoder's parameters; freed when dropped.
struct Params(*mut sys::CompressorParams);

impl Drop for Params {
    fn drop(&mut self) {
        // SAFETY: made by `compressor_params_new`, freed once.
        unsafe { sys::compressor_params_delete(self.0) }
    }
}

/// The encoder and its threads; freed when dropped.
struct Compressor(*mut sys::Compressor);

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: made by `compressor_new`, freed once.
        unsafe { sys::compressor_delete(self.0) }
    }
}

/// Returns the `.basis` file of a texture and its mips, each with width, height and texels.
fn run(task: &Task, pictures: &[(usize, usize, &[[u8; 4]])]) -> Result<Vec<u8>, BasisError> {
    static TABLES: Once = Once::new();
    // SAFETY: once, and before any other call of the encoder; other threads wait here for its end.
    TABLES.call_once(|| unsafe { sys::basisu_encoder_init() });
    let params = params(task);
    for (level, &(width, height, texels)) in pictures.iter().enumerate() {
        fill(&params, level, width, height, texels);
    }
    let threads = match task {
        Task::Etc1s { .. } => rayon::current_num_threads().clamp(1, THREADS),
        Task::Uastc => 1,
    };
    // SAFETY: at least one thread is asked for.
    let compressor = Compressor(unsafe { sys::compressor_new(threads as c_int) });
    // SAFETY: both pointers are valid; the pictures of the parameters are copied.
    if !unsafe { sys::compressor_init(compressor.0, params.0) } {
        return Err(BasisError::Refused);
    }
    // SAFETY: it was initialised with valid parameters.
    let code = unsafe { sys::compressor_process(compressor.0) };
    if code != sys::basisu_basis_compressor_error_code_cECSuccess {
        return Err(BasisError::Failed(code));
    }
    // SAFETY: processing has ended.
    let file = unsafe { sys::compressor_get_output_basis_file(compressor.0) };
    if file.pData.is_null() {
        return Err(BasisError::Output);
    }
    // SAFETY: the bytes belong to the compressor, which is alive, and nothing writes to them.
    let bytes = unsafe { std::slice::from_raw_parts(file.pData, file.length as usize) };
    Ok(bytes.to_vec())
}

fn params(task: &Task) -> Params {
    // SAFETY: it has no preconditions; the setters below need only a valid pointer and values in range.
    let params = Params(unsafe { sys::compressor_params_new() });
    // SAFETY: as above.
    unsafe { sys::compressor_params_set_status_output(params.0, false) };
    // SAFETY: as above.
    unsafe { sys::compressor_params_set_generate_mipmaps(params.0, false) };
    // Errors are compared in bytes, as everywhere here. The perceptual measure takes half as long again and loses 0.3
    // dB.
    // SAFETY: as above.
    unsafe { sys::compressor_params_set_perceptual(params.0, false) };
    match task {
        Task::Etc1s { quality } => {
            // The encoder's quality runs from 1 to 255.
            let quality = 1 + (c_int::from((*quality).clamp(1, 100)) - 1) * 254 / 99;
            // SAFETY: as above.
            unsafe { sys::compressor_params_set_uastc(params.0, false) };
            // SAFETY: as above.
            unsafe { sys::compressor_params_set_quality_level(params.0, quality) };
        }
        Task::Uastc => {
            // SAFETY: as above.
            unsafe { sys::compressor_params_set_uastc(params.0, true) };
            // SAFETY: as above.
            unsafe { sys::compressor_params_set_pack_uastc_flags(params.0, LEVEL) };
            // Unused, but it has to be set.
            // SAFETY: as above.
            unsafe { sys::compressor_params_set_quality_level(params.0, 128) };
        }
    }
    params
}

fn fill(params: &Params, level: usize, width: usize, height: usize, texels: &[[u8; 4]]) {
    assert_eq!(texels.len(), width * height, "whole rows");
    let image = match level {
        // SAFETY: the list grows on demand; the image belongs to it and is used before it grows again.
        0 => unsafe { sys::compressor_params_get_or_create_source_image(params.0, 0) },
        // SAFETY: as above.
        _ => unsafe {
            sys::compressor_params_get_or_create_source_mipmap_image(params.0, 0, level as u32 - 1)
        },
    };
    let bytes = texels.as_flattened().as_ptr();
    // SAFETY: width · height · 4 bytes exist, as asserted above, and are copied.
    unsafe { sys::image_init(image, bytes, width as u32, height as u32, 4) };
}
