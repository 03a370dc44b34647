//! Texels → the first mip levels in linear light, with bilinear lookups as a GPU does them for an sRGB texture.

use rayon::prelude::*;

use crate::image::render::{Image, split, srgb};

/// Number of levels at which seams are measured.
pub const LEVELS: usize = 4;

/// The levels of one texture, largest first. A texture too small for all of them repeats its last.
#[derive(Debug)]
pub(super) struct Chain {
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    width: usize,
    height: usize,
    texels: Vec<[f32; 3]>,
}

impl Chain {
    pub(super) fn new(image: Image<'_>) -> Self {
        let table = srgb::linear_table();
        let [width, height] = image.size();
        let light = |&[r, g, b, _]: &[u8; 4]| [r, g, b].map(|byte| table[usize::from(byte)]);
        let mut levels = vec![Level {
            width,
            height,
            texels: image.texels().par_iter().map(light).collect(),
        }];
        while let Some(last) = levels.last()
            && levels.len() < LEVELS
            && (last.width, last.height) != (1, 1)
        {
            levels.push(last.half());
        }
        Self { levels }
    }

    /// Size of the largest level.
    pub(super) fn size(&self) -> [usize; 2] {
        self.levels
            .first()
            .map_or([1, 1], |level| [level.width, level.height])
    }

    /// What a viewer shows at `uv`, in sRGB, 0-1.
    pub(super) fn display(&self, level: usize, uv: [f32; 2]) -> [f32; 3] {
        let level = level.min(self.levels.len() - 1);
        self.levels[level].lookup(uv).map(srgb::encode)
    }
}

impl Level {
    /// Means of 2×2. An odd last row or column is ignored, as by most generators.
    fn half(&self) -> Self {
        let (width, height) = ((self.width / 2).max(1), (self.height / 2).max(1));
        let texel = |k: usize| {
            let (column, row) = (k % width * 2, k / width * 2);
            let right = (column + 1).min(self.width - 1);
            let below = (row + 1).min(self.height - 1);
            let corners = [(column, row), (right, row), (column, below), (right, below)];
            let mut sum = [0.0; 3];
            for (column, row) in corners {
                let texel = self.texels[row * self.width + column];
                for channel in 0..3 {
                    sum[channel] += texel[channel] / 4.0;
                }
            }
            sum
        };
        Self {
            width,
            height,
            texels: (0..width * height).into_par_iter().map(texel).collect(),
        }
    }

    fn lookup(&self, [u, v]: [f32; 2]) -> [f32; 3] {
        let ([left, right], across) = split(u, self.width);
        let ([top, bottom], down) = split(v, self.height);
        let texel = |column: usize, row: usize| self.texels[row * self.width + column];
        let taps = [
            (texel(left, top), (1.0 - across) * (1.0 - down)),
            (texel(right, top), across * (1.0 - down)),
            (texel(left, bottom), (1.0 - across) * down),
            (texel(right, bottom), across * down),
        ];
        let mut sum = [0.0; 3];
        for (texel, weight) in taps {
            for channel in 0..3 {
                sum[channel] += weight * texel[channel];
            }
        }
        sum
    }
}
