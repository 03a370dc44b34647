//! Pictures of any size, added pixel by pixel → tiles that fit a cell, each tile pixel a mean.

use crate::image::render::srgb;

/// A small picture, 8-bit sRGB.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tile {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<[u8; 3]>,
}

/// Colour where there is no error to show.
pub(crate) const UNCOMPARED: [u8; 3] = [70, 74, 84];
/// Mid grey, behind transparent pixels.
const GREY: u8 = 128;

/// A pixel over mid grey, in linear light.
pub(crate) fn light([r, g, b, alpha]: [u8; 4]) -> [f32; 3] {
    let table = srgb::linear_table();
    let alpha = f32::from(alpha) / 255.0;
    [r, g, b].map(|x| table[usize::from(x)] * alpha + table[usize::from(GREY)] * (1.0 - alpha))
}

/// Sums of the pixels that fall on each tile pixel.
#[derive(Clone, Debug)]
pub(crate) struct Shrink {
    from: [usize; 2],
    width: usize,
    height: usize,
    sums: Vec<[f32; 3]>,
    counts: Vec<u32>,
}

impl Shrink {
    /// Shrinks a picture of size `from` to fit a square of `cell`.
    pub(crate) fn new(from: [usize; 2], cell: usize) -> Self {
        let longest = from[0].max(from[1]).max(1);
        let edge = |edge: usize| {
            if longest <= cell {
                edge
            } else {
                edge * cell / longest
            }
            .max(1)
        };
        let (width, height) = (edge(from[0]), edge(from[1]));
        Self {
            from,
            width,
            height,
            sums: vec![[0.0; 3]; width * height],
            counts: vec![0; width * height],
        }
    }

    /// Adds the value of a pixel: linear light or an error.
    pub(crate) fn add(&mut self, [column, row]: [usize; 2], value: [f32; 3]) {
        let index =
            row * self.height / self.from[1] * self.width + column * self.width / self.from[0];
        for (sum, value) in self.sums[index].iter_mut().zip(value) {
            *sum += value;
        }
        self.counts[index] += 1;
    }

    fn mean(&self, index: usize) -> Option<[f32; 3]> {
        let count = self.counts[index];
        (count > 0).then(|| self.sums[index].map(|sum| sum / count as f32))
    }

    fn map(&self, pixel: impl Fn(Option<[f32; 3]>) -> [u8; 3]) -> Tile {
        let pixels = (0..self.sums.len())
            .map(|index| pixel(self.mean(index)))
            .collect();
        Tile {
            width: self.width,
            height: self.height,
            pixels,
        }
    }

    /// The means as colours.
    pub(crate) fn picture(&self) -> Tile {
        let byte = |x| (srgb::encode(x).min(1.0) * 255.0).round() as u8;
        self.map(|mean| mean.map_or([GREY; 3], |light| light.map(byte)))
    }

    /// The means as errors, `gain` times brighter.
    pub(crate) fn heat(&self, gain: f32) -> Tile {
        self.map(|mean| mean.map_or(UNCOMPARED, |error| heat(error[0] * gain)))
    }
}

/// Maps 0-1 to black, violet, red, orange, pale yellow. Brightness grows throughout, so it reads without colour too.
pub(crate) fn heat(x: f32) -> [u8; 3] {
    const STOPS: [[f32; 3]; 6] = [
        [0.0, 0.0, 4.0],
        [66.0, 10.0, 104.0],
        [147.0, 38.0, 103.0],
        [221.0, 81.0, 58.0],
        [252.0, 165.0, 10.0],
        [252.0, 255.0, 164.0],
    ];
    let x = x.clamp(0.0, 1.0) * (STOPS.len() - 1) as f32;
    let low = (x as usize).min(STOPS.len() - 2);
    let share = x - low as f32;
    std::array::from_fn(|k| {
        (STOPS[low][k] + share * (STOPS[low + 1][k] - STOPS[low][k])).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pictures_shrink_and_small_ones_stay() {
        // Left half black, right half white, 800 wide: the border stays in the middle.
        let mut shrink = Shrink::new([800, 200], 100);
        for row in 0..200 {
            for column in 0..800 {
                shrink.add([column, row], [if column < 400 { 0.0 } else { 1.0 }; 3]);
            }
        }
        let tile = shrink.picture();
        assert_eq!((tile.width, tile.height), (100, 25));
        assert_eq!((tile.pixels[49], tile.pixels[50]), ([0; 3], [255; 3]));
        assert_eq!(
            (
                Shrink::new([7, 3], 100).width,
                Shrink::new([50_000, 3], 100).height
            ),
            (7, 1)
        );
    }

    #[test]
    fn what_was_never_added_is_not_an_error_of_zero() {
        let mut shrink = Shrink::new([2, 1], 100);
        shrink.add([0, 0], [0.0; 3]);
        assert_eq!(shrink.heat(8.0).pixels, [heat(0.0), UNCOMPARED]);
        shrink.add([1, 0], [0.125; 3]);
        assert_eq!(shrink.heat(8.0).pixels[1], heat(1.0));
    }
}
