//! Draws a view: project, sort into tiles, blend.

use rayon::prelude::*;

use crate::blend::{Block, LOOK, Tile};
use crate::cloud::Cloud;
use crate::cover::{ACROSS, HIGH, WIDE};
use crate::ellipse::Ellipse;
use crate::lanes::{LANES, Lanes};
use crate::machine::{Kernel, Machine};
use crate::project::{Seen, project};
use crate::tiles::{TILE, Tiles, bands};
use crate::view::{Filter, View};
use crate::work::did;

/// What a view shows, row by row from the top.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// Red, green and blue in display space, multiplied by alpha; not bounded above.
    pub colour: Vec<[f32; 3]>,
    /// 0 to 1.
    pub alpha: Vec<f32>,
    /// Mean depth (view-space z) of what shows; 0 where nothing does.
    pub mean: Vec<f32>,
    /// Depth at which half of the light is used up; 0 where it never is.
    pub median: Vec<f32>,
}

/// Draws the splats on black, with harmonics up to a degree. Nearest first by view-space z, ties in the order of the cloud.
/// The same bytes for any number of threads and on any processor.
pub fn draw(cloud: &Cloud, view: &View, filter: Filter, degree: usize) -> Picture {
    draw_by(cloud, view, filter, degree, Machine::this())
}

fn draw_by(cloud: &Cloud, view: &View, filter: Filter, degree: usize, machine: Machine) -> Picture {
    let [width, height] = view.size.map(|edge| edge as usize);
    let pixels = width * height;
    let mut picture = Picture {
        colour: vec![[0.0; 3]; pixels],
        alpha: vec![0.0; pixels],
        mean: vec![0.0; pixels],
        median: vec![0.0; pixels],
    };
    if pixels == 0 {
        return picture;
    }
    let seen = project(cloud, view, filter, degree, machine);
    let size = [width, height].map(|edge| edge.div_ceil(TILE));
    // A row of tiles is one stretch of every list.
    let stretch = width * TILE;
    for band in bands(&seen, size) {
        let tiles = Tiles::new(&seen, size[0], &band);
        let pixels = band.start * stretch..pixels.min(band.end * stretch);
        let rows = picture.colour[pixels.clone()]
            .par_chunks_mut(stretch)
            .zip(picture.alpha[pixels.clone()].par_chunks_mut(stretch))
            .zip(picture.mean[pixels.clone()].par_chunks_mut(stretch))
            .zip(picture.median[pixels].par_chunks_mut(stretch))
            .enumerate();
        rows.for_each(|(row, (((colour, alpha), mean), median))| {
            machine.run(Row {
                seen: &seen,
                tiles: &tiles,
                first: row * size[0],
                top: (band.start + row) * TILE,
                across: size[0],
                width,
                colour,
                alpha,
                mean,
                median,
            });
        });
    }
    picture
}

/// A row of tiles, and the stretches of the picture that it fills.
struct Row<'a> {
    seen: &'a Seen,
    tiles: &'a [Tiles],
    /// Its first tile in the lists.
    first: usize,
    /// Its first row of pixels in the picture.
    top: usize,
    /// Tiles in it.
    across: usize,
    /// Pixels in it.
    width: usize,
    colour: &'a mut [[f32; 3]],
    alpha: &'a mut [f32],
    mean: &'a mut [f32],
    median: &'a mut [f32],
}

impl Kernel for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self) {
        let mut space = [Ellipse::NONE; LOOK];
        for column in 0..self.across {
            let number = self.first + column;
            let mut lists = self.tiles.iter().map(|tiles| tiles.of(number));
            if lists.clone().all(<[u32]>::is_empty) {
                continue;
            }
            let mut tile = Tile::new([column * TILE, self.top]);
            while lists.next().is_some_and(|list| {
                // An ellipse that covers the tile takes some ten steps of other loops.
                did(1 + 10 * list.len());
                tile.blend::<L>(list, self.seen, &mut space)
            }) {}
            for (number, block) in tile.blocks.iter().enumerate() {
                let left = column * TILE + number % ACROSS * WIDE;
                let top = number / ACROSS * HIGH;
                self.put(left, top, block);
            }
        }
    }
}

impl Row<'_> {
    /// Writes a block, as much of it as is in the picture.
    #[inline(always)]
    fn put(&mut self, left: usize, top: usize, block: &Block) {
        let (mut shown, mut mean) = ([0.0; LANES], [0.0; LANES]);
        for k in 0..LANES {
            shown[k] = 1.0 - block.through[k].abs();
            mean[k] = block.depth[k] / shown[k].max(1e-9);
        }
        for line in 0..HIGH {
            let from = (top + line) * self.width + left;
            if left >= self.width || from >= self.alpha.len() {
                return;
            }
            let (wide, lane) = (WIDE.min(self.width - left), line * WIDE);
            self.alpha[from..][..wide].copy_from_slice(&shown[lane..][..wide]);
            self.mean[from..][..wide].copy_from_slice(&mean[lane..][..wide]);
            self.median[from..][..wide].copy_from_slice(&block.median[lane..][..wide]);
            for (k, colour) in self.colour[from..][..wide].iter_mut().enumerate() {
                *colour = block.colour.map(|channel| channel[lane + k]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::Splat;

    /// Splats of many forms, in and beside the picture.
    fn cloud() -> Cloud {
        let mut cloud = Cloud::new(1);
        for k in 0..5000_u32 {
            let turn = |by: u32| (k * by % 997) as f32 / 498.5 - 1.0;
            let splat = Splat {
                position: [turn(17), turn(29), turn(71)],
                scales: [13, 37, 53].map(|by| 0.002 * 40.0_f32.powf(turn(by))),
                rotation: [1.0, turn(7), turn(11), turn(23)],
                opacity: 0.5 + 0.5 * turn(41),
                constant: [turn(3), turn(5), turn(19)],
            };
            assert!(cloud.push(&splat, &[[turn(43); 3], [turn(47); 3], [turn(59); 3]]));
        }
        cloud
    }

    #[test]
    fn wider_instructions_change_nothing() {
        let cloud = cloud();
        let view = View {
            rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            translation: [0.0, 0.1, 1.5],
            focal: [150.0, 160.0],
            centre: [80.0, 60.0],
            size: [151, 133],
        };
        for filter in [Filter::Classic(0.3), Filter::Mip(0.1), Filter::Classic(0.0)] {
            let [wide, least] = [Machine::this(), Machine::LEAST]
                .map(|machine| draw_by(&cloud, &view, filter, 1, machine));
            assert!(wide.alpha.iter().sum::<f32>() > 1000.0);
            // Bit by bit, where no two NaN are the same.
            assert!(wide == least, "{filter:?}");
        }
    }
}
