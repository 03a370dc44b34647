//! Renders → photographs of a scene: 4:3, another exposure each, in front of surroundings, with a sensor's noise, as JPEG.

use std::io;

use baker::image::render::{Render, srgb};
use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageEncoder};
use rayon::prelude::*;

/// Triangles of the mesh: those of a reconstruction, no power of four.
pub(super) const TRIANGLES: usize = 175_000;
/// Exposures are within this of each other's mean, as a share of it.
const EXPOSURES: f32 = 0.2;
/// Quality of the JPEGs.
const QUALITY: u8 = 92;
/// Most that noise adds to or takes from a byte.
const NOISE: f32 = 3.0;

/// Width and height of a photograph, by the latter.
pub(super) fn size(height: u32) -> [u32; 2] {
    [height * 4 / 3, height]
}

/// Exposure of one of `all` photographs. The mean of their logarithms is 0, so that a view of exposure 1 fits them.
pub(super) fn exposure(number: u32, all: u32) -> f32 {
    // A step without a common divisor visits each place once.
    let place = (number * 7 + 3) % all.max(1);
    let along = (2 * place + 1) as f32 / all.max(1) as f32 - 1.0;
    (along * (1.0 + EXPOSURES).ln()).exp()
}

/// The JPEG of a render at an exposure, in front of surroundings that lie far off in the direction of each pixel.
pub(super) fn develop(
    shown: &Render,
    exposure: f32,
    direction: impl Fn([usize; 2]) -> [f32; 3] + Sync,
) -> io::Result<Vec<u8>> {
    let pixel = |index: usize| {
        let [x, y, z] = direction([index % shown.width, index / shown.width]);
        let leaves = 0.5 + 0.5 * (40.0 * x).sin() * (55.0 * y).sin() * (47.0 * z).sin();
        let behind = [0.25 + 0.3 * leaves, 0.35 + 0.35 * leaves, 0.5 + 0.3 * y];
        let (own, share) = (shown.colours[index], shown.coverage[index]);
        let byte = |channel: usize| {
            let [own, behind] = [own[channel], behind[channel]].map(srgb::decode);
            let light = exposure * (share * own + (1.0 - share) * behind);
            let noise = NOISE * noise(3 * index as u32 + channel as u32);
            (255.0 * srgb::encode(light.min(1.0)) + noise)
                .round()
                .clamp(0.0, 255.0) as u8
        };
        [byte(0), byte(1), byte(2)]
    };
    let pixels: Vec<[u8; 3]> = (0..shown.colours.len())
        .into_par_iter()
        .map(pixel)
        .collect();
    let mut file = Vec::new();
    let [width, height] = [shown.width, shown.height].map(|edge| edge as u32);
    JpegEncoder::new_with_quality(&mut file, QUALITY)
        .write_image(
            pixels.as_flattened(),
            width,
            height,
            ExtendedColorType::Rgb8,
        )
        .map_err(io::Error::other)?;
    Ok(file)
}

/// A number of -1 to 1 that looks random (Murmur3's last steps).
fn noise(seed: u32) -> f32 {
    let mut bits = seed.wrapping_mul(0x9E37_79B9) ^ 0x5BD1_E995;
    for factor in [0x85EB_CA6B, 0xC2B2_AE35_u32] {
        bits = (bits ^ (bits >> 15)).wrapping_mul(factor);
    }
    (bits >> 8) as f32 / (1 << 23) as f32 - 1.0
}
