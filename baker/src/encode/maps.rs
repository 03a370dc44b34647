//! Codes of a texture's maps → coverage, residual and provenance as indexed PNGs of the texture's size and layout.
//!
//! The index of a pixel is the texel's code ([`proto::table::maps`]), and the palette makes it visible. The text chunk
//! `Description` of each picture explains it. Gutter texels within [`RIM`] of a chart repeat the chart's codes, so that
//! a lookup near a chart's border does not hit the gutter's colour.
//!
//! | | coverage | residual |
//! |---|---|---|
//! | outside every chart | grey | grey |
//! | nothing known | magenta: filled in | light blue |
//! | seen | brown to yellow: less than one pixel; navy over teal (4 pixels), green (16) and pale green (64) to near white (3,700 and more) | black over violet, red and orange to pale yellow (¼ of full scale, 64 of 255 steps, and more) |
//!
//! Provenance has three colours beside the gutter's grey: green is observed, yellow weak (less than one pixel in all
//! views together), pink inferred (filled in from the surface around it).
//!
//! Colour-blind readers can tell the classes apart, and brightness grows along each ramp.

use proto::table::maps::{CODE_GUTTER, CODE_OBSERVED, CODE_SEEN, CODE_UNSEEN, Maps};

use super::preview::ORIGINS;
use crate::image::png::{self, PngError};
use crate::image::sheet::tile::heat;
use crate::worker::progress::{ticked, unit};

/// Width of the gutter that repeats the chart's codes, in texels.
const RIM: usize = 2;
/// The colour of each index.
pub type Palette = [[u8; 3]; 256];

const GUTTER: [u8; 3] = [60, 60, 66];
const FILLED: [u8; 3] = [255, 0, 200];
const UNKNOWN: [u8; 3] = [120, 190, 220];
/// Coverage below one pixel: ends of the ramp.
const WEAK: [[f32; 3]; 2] = [[150.0, 90.0, 0.0], [240.0, 190.0, 40.0]];
/// Coverage of one pixel and more: colours at 1, 4, 16, 64 and 3,700 pixels, by position in the range of codes.
const OBSERVED: [(f32, [f32; 3]); 5] = [
    (0.0, [0.0, 62.0, 110.0]),
    (0.17, [0.0, 122.0, 135.0]),
    (0.34, [60.0, 180.0, 140.0]),
    (0.51, [130.0, 215.0, 170.0]),
    (1.0, [240.0, 255.0, 240.0]),
];

const ABOUT_COVERAGE: &str = "kiln coverage map. Index 0: outside every chart; 1: no pixel of any view sees the texel, \
    it was filled in; 2 to 255: seen by w pixels, 2^((index-66)/16) <= w < 2^((index-65)/16), 2 also less, 255 also more.";
const ABOUT_RESIDUAL: &str = "kiln residual map. Index 0: outside every chart; 1: no pixel counts there; 2 to 255: mean \
    absolute difference e in sRGB (0 to 1) between the pixels that see the texel and the result, e = ((index-2)/506)^2, \
    255 also more.";
const ABOUT_PROVENANCE: &str = "kiln provenance map. Index 0 (grey): outside every chart; 1 (pink): inferred, no pixel of \
    any view sees the texel and it was filled from the surface around it; 2 (yellow): weak, less than one pixel in all views \
    together; 3 (green): observed, by one pixel or more.";

/// The coverage map as a PNG of `size²` pixels.
///
/// # Errors
/// The PNG cannot be made, or does not read back.
pub fn coverage(size: u32, maps: &Maps) -> Result<Vec<u8>, PngError> {
    picture(size, &maps.coverage, &coverage_palette(), ABOUT_COVERAGE)
}

/// The residual map as a PNG of `size²` pixels.
///
/// # Errors
/// The PNG cannot be made, or does not read back.
pub fn residual(size: u32, maps: &Maps) -> Result<Vec<u8>, PngError> {
    picture(size, &maps.residual, &residual_palette(), ABOUT_RESIDUAL)
}

/// The provenance map as a PNG of `size²` pixels.
///
/// # Errors
/// The PNG cannot be made, or does not read back.
pub fn provenance(size: u32, provenance: &[u8]) -> Result<Vec<u8>, PngError> {
    picture(size, provenance, &provenance_palette(), ABOUT_PROVENANCE)
}

/// Colours of [`proto::table::Provenance`], those of the contact sheet.
pub fn provenance_palette() -> Palette {
    let mut palette = [[0; 3]; 256];
    for (kind, colour, ..) in ORIGINS {
        palette[kind as usize] = colour;
    }
    palette
}

fn picture(size: u32, codes: &[u8], palette: &Palette, about: &str) -> Result<Vec<u8>, PngError> {
    let mut codes = codes.to_vec();
    for _ in 0..RIM {
        codes = spread(&codes, size as usize);
    }
    let file = png::encode_indexed([size; 2], &codes, palette, about)?;
    unit();
    png::verify_indexed(&file, &codes)?;
    Ok(file)
}

/// Gives each gutter texel the code of its first neighbour in a chart: left, right, above, below.
fn spread(codes: &[u8], size: usize) -> Vec<u8> {
    let code = |index: usize| {
        let (column, row) = (index % size, index / size);
        let sides = [
            (column > 0).then(|| index - 1),
            (column + 1 < size).then(|| index + 1),
            (row > 0).then(|| index - size),
            (row + 1 < size).then(|| index + size),
        ];
        let near = sides.into_iter().flatten().map(|side| codes[side]);
        match codes[index] {
            CODE_GUTTER => near
                .into_iter()
                .find(|&code| code != CODE_GUTTER)
                .unwrap_or(CODE_GUTTER),
            own => own,
        }
    };
    ticked(0..codes.len()).map(code).collect()
}

/// Colours of the coverage codes.
pub fn coverage_palette() -> Palette {
    std::array::from_fn(|code| match code as u8 {
        CODE_GUTTER => GUTTER,
        CODE_UNSEEN => FILLED,
        weak @ CODE_SEEN..CODE_OBSERVED => {
            let share = share(weak, CODE_SEEN, CODE_OBSERVED - 1);
            mix(WEAK[0], WEAK[1], share)
        }
        seen => {
            let share = share(seen, CODE_OBSERVED, u8::MAX);
            let stops = OBSERVED.windows(2);
            let within = |stop: &[(f32, [f32; 3])]| {
                let (from, to) = (stop[0], stop[1]);
                (share <= to.0).then(|| mix(from.1, to.1, (share - from.0) / (to.0 - from.0)))
            };
            stops.filter_map(within).next().unwrap_or_default()
        }
    })
}

/// Colours of the residual codes.
pub fn residual_palette() -> Palette {
    std::array::from_fn(|code| match code as u8 {
        CODE_GUTTER => GUTTER,
        CODE_UNSEEN => UNKNOWN,
        seen => heat(share(seen, CODE_SEEN, u8::MAX)),
    })
}

fn share(code: u8, first: u8, last: u8) -> f32 {
    f32::from(code - first) / f32::from(last - first)
}

fn mix(from: [f32; 3], to: [f32; 3], share: f32) -> [u8; 3] {
    std::array::from_fn(|k| (from[k] + share * (to[k] - from[k])).round() as u8)
}

#[cfg(test)]
mod tests;
