//! Converts decoded samples to sRGB as the tags of their file say: an ICC profile, or cICP, gAMA and cHRM of PNG.
//!
//! A picture without tags is sRGB, as is one whose tags mean sRGB within a step and a half of 255: its bytes stay. Others
//! are converted with 16 bits a channel before they are rounded to 8. The profiles are untrusted: their size is bounded,
//! and one that cannot be read is reported ([`Colours::Unknown`]), since the picture is then only taken for sRGB. PQ and HLG
//! are refused: they mean light of a display, which has no one place in 0-255.

use std::sync::{Arc, Mutex, PoisonError};

use moxcms::{
    Chromaticity, CicpColorPrimaries, CicpProfile, ColorPrimaries, ColorProfile, DataColorSpace,
    Layout, MatrixCoefficients, ParsingOptions, ToneReprCurve, TransferCharacteristics,
    Transform16BitExecutor, TransformOptions,
};
use png::{CodingIndependentCodePoints, Info, SourceChromaticities};

use super::error::PictureError;
use super::pixels::spread;
use super::probe::Header;
use super::tags;

/// Largest profile that is read. Those of displays and cameras have a few hundred bytes to half a megabyte.
pub(super) const MAX_PROFILE_BYTES: usize = 4 << 20;
/// Largest table of a profile, in entries.
const MAX_TABLE: usize = 1 << 20;
/// Pixels converted at once.
const BLOCK: usize = 4096;
/// Largest difference from sRGB, of 65535, that counts as rounding.
const SAME: i32 = 257 * 3 / 2;
/// A gAMA within 5 % of 1/2.2 means sRGB, as in libpng's simplified interface: programs write it beside sRGB pixels.
const SRGB_GAMMA: [f32; 2] = [0.95 / 2.2, 1.05 / 2.2];
/// Exponents that a gAMA may sensibly mean.
const GAMMAS: [f32; 2] = [0.1, 10.0];

/// What the samples of a picture mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Colours, in the space that the file's tags name.
    Colours,
    /// Numbers, or colours of which something else says that they are sRGB: taken as stored.
    Numbers,
    /// What counts: as numbers, but 16 bits that hold no more than 8 are not scaled.
    Mask,
}

/// What was made of the tags of a picture's colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Colours {
    /// It has none, or they mean sRGB.
    #[default]
    Srgb,
    /// It was converted to sRGB.
    Converted,
    /// It was converted from light, of which some was brighter than white.
    Clipped,
    /// They cannot be read or followed: the pixels are taken for sRGB.
    Unknown,
}

/// A way to sRGB.
pub(super) enum Way {
    Same,
    Convert(Conversion),
    Unknown,
}

/// Converts samples of 16 bits.
#[derive(Clone)]
pub(super) struct Conversion {
    transform: Arc<Transform16BitExecutor>,
    /// From one channel, not from three.
    grey: bool,
}

/// The last profile and its way: all pictures of a set mostly have the same, and a transform takes milliseconds to build.
type Last = Option<(Vec<u8>, Option<Conversion>)>;
static LAST: Mutex<Last> = Mutex::new(None);

/// The way from an ICC profile.
///
/// # Errors
/// It is one of HDR.
pub(super) fn of_profile(icc: &[u8]) -> Result<Way, PictureError> {
    if icc.len() > MAX_PROFILE_BYTES {
        return Ok(Way::Unknown);
    }
    let known = |last: &Last| match last {
        Some((bytes, conversion)) if bytes == icc => Some(conversion.clone()),
        _ => None,
    };
    if let Some(conversion) = known(&LAST.lock().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(conversion.map_or(Way::Same, Way::Convert));
    }
    let options = ParsingOptions {
        max_profile_size: MAX_PROFILE_BYTES,
        max_allowed_clut_size: MAX_TABLE,
        ..ParsingOptions::default()
    };
    let Ok(profile) = ColorProfile::new_from_slice_with_options(icc, options) else {
        return Ok(Way::Unknown);
    };
    if let Some(cicp) = &profile.cicp {
        check_range(cicp.transfer_characteristics)?;
    }
    let way = to_srgb(&profile);
    let conversion = match &way {
        Way::Same => None,
        Way::Convert(conversion) => Some(conversion.clone()),
        Way::Unknown => return Ok(Way::Unknown),
    };
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some((icc.to_vec(), conversion));
    Ok(way)
}

/// The way from the tags of a PNG, in the order of its specification: cICP, iCCP, sRGB, then gAMA and cHRM. `icc` reads the
/// profile, where there is one.
///
/// # Errors
/// It is an HDR picture.
pub(super) fn of_png(
    info: &Info<'_>,
    icc: impl FnOnce() -> Option<Option<Vec<u8>>>,
) -> Result<Way, PictureError> {
    if let Some(cicp) = &info.coding_independent_code_points {
        return of_cicp(cicp);
    }
    if let Some(icc) = icc() {
        return icc.map_or(Ok(Way::Unknown), |icc| of_profile(&icc));
    }
    if info.srgb.is_some() {
        return Ok(Way::Same);
    }
    let gamma = info.gama_chunk.map(png::ScaledFloat::into_value);
    let gamma = gamma.filter(|gamma| !(SRGB_GAMMA[0]..=SRGB_GAMMA[1]).contains(gamma));
    if gamma.is_none() && info.chrm_chunk.is_none() {
        return Ok(Way::Same);
    }
    let mut profile = ColorProfile::new_srgb();
    profile.cicp = None;
    if let Some(gamma) = gamma {
        let exponent = 1.0 / gamma;
        if !(GAMMAS[0]..=GAMMAS[1]).contains(&exponent) {
            return Ok(Way::Unknown);
        }
        profile = with_curve(profile, ToneReprCurve::Parametric(vec![exponent]));
    }
    if let Some(primaries) = &info.chrm_chunk
        && !take_primaries(&mut profile, chromaticities(primaries))
    {
        return Ok(Way::Unknown);
    }
    Ok(to_srgb(&profile))
}

/// The way from what a file says of its colours, by an ICC profile, or by EXIF where it has none. `icc` gives it.
///
/// # Errors
/// It is an HDR picture.
pub(super) fn way(
    bytes: &[u8],
    (header, meaning): (Header, Meaning),
    icc: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<Way, PictureError> {
    if meaning != Meaning::Colours {
        return Ok(Way::Same);
    }
    if !tags::has_profile(bytes, header.format) {
        return Ok(match tags::is_adobe_rgb(bytes, header.format) {
            true => to_srgb(&ColorProfile::new_adobe_rgb()),
            false => Way::Same,
        });
    }
    icc().map_or(Ok(Way::Unknown), |icc| of_profile(&icc))
}

/// The way from linear light of these chromaticities: white, red, green and blue; those of BT.709 where there are none.
pub(super) fn of_light(chromaticities: Option<[[f32; 2]; 4]>) -> Way {
    let mut profile = with_curve(
        ColorProfile::new_srgb(),
        ToneReprCurve::Parametric(vec![1.0]),
    );
    if let Some(all) = chromaticities {
        let all = all.map(|[x, y]| Chromaticity::new(x, y));
        if !take_primaries(&mut profile, all) {
            return Way::Unknown;
        }
    }
    to_srgb(&profile)
}

/// What a decoder gives: one to four channels (grey, grey and alpha, RGB, RGBA), row-major from the top.
pub(super) struct Samples {
    /// One byte a sample, or two (big-endian) where `wide`.
    pub(super) bytes: Vec<u8>,
    pub(super) channels: usize,
    pub(super) wide: bool,
}

impl Samples {
    /// The pixels in sRGB, and what was made of their colours.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn pixels(
        mut self,
        way: Way,
        meaning: Meaning,
    ) -> Result<(Vec<[u8; 4]>, Colours), PictureError> {
        let mut colours = Colours::Srgb;
        match way {
            Way::Same => {}
            Way::Unknown => colours = Colours::Unknown,
            Way::Convert(way) => match way.pixels(&self.bytes, self.channels, self.wide)? {
                Some(pixels) => return Ok((pixels, Colours::Converted)),
                None => colours = Colours::Unknown,
            },
        }
        if self.wide {
            self.narrow(meaning);
        }
        let bytes = &self.bytes;
        let pixels = match self.channels {
            1 => spread(bytes, |[y]| [y, y, y, 255]),
            2 => spread(bytes, |[y, a]| [y, y, y, a]),
            3 => spread(bytes, |[r, g, b]| [r, g, b, 255]),
            _ => spread(bytes, |pixel: [u8; 4]| pixel),
        }?;
        Ok((pixels, colours))
    }

    /// Rounds 16 bits to 8, in place: a sample is written where an earlier pair of bytes was.
    fn narrow(&mut self, meaning: Meaning) {
        let samples = &mut self.bytes;
        // A mask of 0 and 1, or of 0 and 255, in a wider type.
        let narrow = meaning == Meaning::Mask && samples.iter().step_by(2).all(|&high| high == 0);
        for k in 0..samples.len() / 2 {
            let [high, low] = [samples[2 * k], samples[2 * k + 1]];
            samples[k] = match narrow {
                true => low,
                false => rounded(u16::from_be_bytes([high, low])),
            };
        }
        samples.truncate(samples.len() / 2);
    }
}

/// Those of a cHRM: white, red, green and blue.
fn chromaticities(chrm: &SourceChromaticities) -> [Chromaticity; 4] {
    [chrm.white, chrm.red, chrm.green, chrm.blue]
        .map(|(x, y)| Chromaticity::new(x.into_value(), y.into_value()))
}

/// Takes chromaticities; false where they are none.
fn take_primaries(
    profile: &mut ColorProfile,
    [white, red, green, blue]: [Chromaticity; 4],
) -> bool {
    // Twice the area of the triangle.
    let area = (green.x - red.x) * (blue.y - red.y) - (blue.x - red.x) * (green.y - red.y);
    let inside = |at: f32| (1e-4..=1.0).contains(&at);
    let sound = area.abs() > 1e-3 && inside(white.x) && inside(white.y);
    if sound && [red, green, blue].iter().all(|at| inside(at.y)) {
        profile.update_rgb_colorimetry(white.to_xyyb(), ColorPrimaries { red, green, blue });
        return true;
    }
    false
}

fn of_cicp(cicp: &CodingIndependentCodePoints) -> Result<Way, PictureError> {
    let transfer = TransferCharacteristics::try_from(cicp.transfer_function);
    let primaries = CicpColorPrimaries::try_from(cicp.color_primaries);
    let (Ok(transfer), Ok(primaries)) = (transfer, primaries) else {
        return Ok(Way::Unknown);
    };
    check_range(transfer)?;
    let mut profile = ColorProfile::new_from_cicp(CicpProfile {
        color_primaries: primaries,
        transfer_characteristics: transfer,
        matrix_coefficients: MatrixCoefficients::Identity,
        full_range: true,
    });
    // A code that names no primaries or no curve leaves the profile without one.
    let followed = profile.cicp.take().is_some() && profile.red_trc.is_some();
    if !followed || cicp.matrix_coefficients != 0 || !cicp.is_video_full_range_image {
        return Ok(Way::Unknown);
    }
    Ok(to_srgb(&profile))
}

fn with_curve(mut profile: ColorProfile, curve: ToneReprCurve) -> ColorProfile {
    profile.cicp = None;
    profile.red_trc = Some(curve.clone());
    profile.green_trc = Some(curve.clone());
    profile.blue_trc = Some(curve);
    profile
}

/// Refuses the transfer functions of HDR.
fn check_range(transfer: TransferCharacteristics) -> Result<(), PictureError> {
    match transfer {
        TransferCharacteristics::Smpte2084 => Err(PictureError::Hdr("PQ, SMPTE ST 2084")),
        TransferCharacteristics::Hlg => Err(PictureError::Hdr("HLG, BT.2100")),
        _ => Ok(()),
    }
}

fn to_srgb(profile: &ColorProfile) -> Way {
    let (grey, layout) = match profile.color_space {
        DataColorSpace::Gray => (true, Layout::Gray),
        DataColorSpace::Rgb => (false, Layout::Rgb),
        _ => return Way::Unknown,
    };
    let options = TransformOptions {
        prefer_fixed_point: false,
        ..TransformOptions::default()
    };
    let srgb = ColorProfile::new_srgb();
    let Ok(transform) = profile.create_transform_16bit(layout, &srgb, Layout::Rgb, options) else {
        return Way::Unknown;
    };
    let conversion = Conversion { transform, grey };
    match conversion.changes() {
        Some(true) => Way::Convert(conversion),
        Some(false) => Way::Same,
        None => Way::Unknown,
    }
}

impl Conversion {
    /// Whether it changes colours by more than rounding; none where it fails.
    fn changes(&self) -> Option<bool> {
        const LEVELS: [u8; 9] = [0, 8, 24, 51, 85, 128, 170, 212, 255];
        let mut colours = Vec::new();
        for red in LEVELS {
            for green in LEVELS {
                colours.extend(LEVELS.map(|blue| [red, green, blue]));
            }
        }
        if self.grey {
            colours.retain(|[red, green, blue]| red == green && green == blue);
        }
        let mut wide: Vec<u16> = colours.concat().into_iter().map(widened).collect();
        let given = wide.clone();
        self.convert(&mut wide)?;
        let differs =
            |(one, other): (&u16, &u16)| (i32::from(*one) - i32::from(*other)).abs() > SAME;
        Some(wide.iter().zip(&given).any(differs))
    }

    /// Converts pixels of three samples, at most [`BLOCK`] at once.
    fn convert(&self, samples: &mut [u16]) -> Option<()> {
        let source: Vec<u16> = match self.grey {
            true => samples.iter().step_by(3).copied().collect(),
            false => samples.to_vec(),
        };
        self.transform.transform(&source, samples).ok()
    }

    /// Converts samples of `channels` each, of one byte or of two (big-endian) where `wide`, to RGBA. None where a profile of
    /// greys meets colours.
    ///
    /// # Errors
    /// There is no memory for the pixels.
    pub(super) fn pixels(
        &self,
        samples: &[u8],
        channels: usize,
        wide: bool,
    ) -> Result<Option<Vec<[u8; 4]>>, PictureError> {
        let pixel_bytes = channels * if wide { 2 } else { 1 };
        let mut pixels = Vec::new();
        pixels
            .try_reserve_exact(samples.len() / pixel_bytes)
            .map_err(|_refused| PictureError::Memory)?;
        let sample = |pixel: &[u8], channel: usize| match wide {
            true => u16::from_be_bytes([pixel[2 * channel], pixel[2 * channel + 1]]),
            false => widened(pixel[channel]),
        };
        let mut colours = Vec::with_capacity(3 * BLOCK);
        for block in samples.chunks(BLOCK * pixel_bytes) {
            colours.clear();
            for pixel in block.chunks_exact(pixel_bytes) {
                let rgb = [0, 1, 2].map(|k| sample(pixel, if channels < 3 { 0 } else { k }));
                if self.grey && (rgb[0] != rgb[1] || rgb[1] != rgb[2]) {
                    return Ok(None);
                }
                colours.extend(rgb);
            }
            if self.convert(&mut colours).is_none() {
                return Ok(None);
            }
            let colours = colours.as_chunks::<3>().0;
            for (pixel, colour) in block.chunks_exact(pixel_bytes).zip(colours) {
                let [red, green, blue] = colour.map(rounded);
                let alpha = match channels {
                    2 | 4 => rounded(sample(pixel, channels - 1)),
                    _ => 255,
                };
                pixels.push([red, green, blue, alpha]);
            }
        }
        Ok(Some(pixels))
    }
}

fn widened(sample: u8) -> u16 {
    u16::from(sample) * 257
}

/// Rounds 16 bits to 8: 65535 = 255 · 257.
fn rounded(sample: u16) -> u8 {
    ((u32::from(sample) + 128) / 257) as u8
}
