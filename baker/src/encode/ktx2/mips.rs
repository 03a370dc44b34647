//! Texels → all mip levels of a texture, down to one texel.
//!
//! Each is the mean of 2×2 values of the level above, before their rounding to bytes. An odd last row or column is
//! ignored, as by most generators and by [`crate::image::survey`], which measures seams.

use rayon::prelude::*;

use crate::image::png::Kind;
use crate::image::render::srgb;

/// A level as the encoder gets it; alpha is 255 unless it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) edge: usize,
    pub(crate) texels: Vec<[u8; 4]>,
}

impl Level {
    pub(super) fn is_translucent(&self) -> bool {
        self.texels.iter().any(|texel| texel[3] != 255)
    }
}

/// All levels of `size`² texels, largest first.
pub(crate) fn chain(kind: Kind, size: usize, texels: &[[u8; 4]]) -> Vec<Level> {
    let stored = |&[r, g, b, alpha]: &[u8; 4]| match kind {
        Kind::Translucent => [r, g, b, alpha],
        Kind::Colour | Kind::Data | Kind::Direction => [r, g, b, 255],
    };
    let first: Vec<[u8; 4]> = texels.par_iter().map(stored).collect();
    let mut means = half(size, |at| open(kind, first[at]));
    let mut levels = vec![Level {
        edge: size,
        texels: first,
    }];
    let mut edge = size / 2;
    while edge > 0 {
        levels.push(Level {
            edge,
            texels: means.par_iter().map(|&mean| close(kind, mean)).collect(),
        });
        means = half(edge, |at| means[at]);
        edge /= 2;
    }
    levels
}

/// Means of 2×2 of `edge`² texels.
fn half(edge: usize, texel: impl Fn(usize) -> [f32; 4] + Sync) -> Vec<[f32; 4]> {
    let coarse = edge / 2;
    (0..coarse * coarse)
        .into_par_iter()
        .map(|k| {
            let first = k / coarse * 2 * edge + k % coarse * 2;
            let mut sum = [0.0; 4];
            for at in [first, first + 1, first + edge, first + edge + 1] {
                let texel = texel(at);
                for channel in 0..4 {
                    sum[channel] += 0.25 * texel[channel];
                }
            }
            sum
        })
        .collect()
}

/// Converts a texel to the space in which means are taken.
fn open(kind: Kind, [r, g, b, alpha]: [u8; 4]) -> [f32; 4] {
    let table = srgb::linear_table();
    let plain = |byte: u8| f32::from(byte) / 255.0;
    let value = |byte: u8| match kind {
        Kind::Colour | Kind::Translucent => table[usize::from(byte)],
        Kind::Data => plain(byte),
        Kind::Direction => plain(byte) * 2.0 - 1.0,
    };
    [value(r), value(g), value(b), plain(alpha)]
}

/// Converts a mean back to bytes; directions are normalised.
fn close(kind: Kind, [r, g, b, alpha]: [f32; 4]) -> [u8; 4] {
    let byte = |value: f32| (value * 255.0).round().clamp(0.0, 255.0) as u8;
    let [r, g, b] = match kind {
        Kind::Colour | Kind::Translucent => [r, g, b].map(|light| byte(srgb::encode(light))),
        Kind::Data => [r, g, b].map(byte),
        Kind::Direction => {
            let length = (r * r + g * g + b * b).sqrt();
            let unit = if length > 1e-6 {
                [r / length, g / length, b / length]
            } else {
                [0.0, 0.0, 1.0]
            };
            unit.map(|part| byte((part + 1.0) / 2.0))
        }
    };
    [r, g, b, byte(alpha)]
}
