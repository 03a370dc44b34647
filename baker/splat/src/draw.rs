//! Draws a view: project, sort into tiles, blend.

use rayon::prelude::*;

use crate::blend::blend;
use crate::cloud::Cloud;
use crate::project::{Filter, project};
use crate::tiles::{TILE, Tiles};

/// A pinhole camera with `OpenCV` axes: x right, y down, z ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// World to camera, row by row.
    pub rotation: [[f32; 3]; 3],
    /// World to camera.
    pub translation: [f32; 3],
    /// Focal lengths in pixels.
    pub focal: [f32; 2],
    /// Principal point in pixels; the centre of the first pixel is (0.5, 0.5).
    pub centre: [f32; 2],
    /// Width and height in pixels.
    pub size: [u32; 2],
}

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
/// The same bytes for any number of threads.
#[must_use]
pub fn draw(cloud: &Cloud, view: &View, filter: Filter, degree: usize) -> Picture {
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
    let ellipses = project(cloud, view, filter, degree);
    let tiles = Tiles::new(&ellipses, view.size);
    // A row of tiles is one stretch of every list.
    let stretch = width * TILE;
    let rows = picture
        .colour
        .par_chunks_mut(stretch)
        .zip(picture.alpha.par_chunks_mut(stretch))
        .zip(picture.mean.par_chunks_mut(stretch))
        .zip(picture.median.par_chunks_mut(stretch))
        .enumerate();
    rows.for_each(|(row, (((colour, alpha), mean), median))| {
        for column in 0..tiles.columns {
            let list = tiles.of(row * tiles.columns + column);
            if list.is_empty() {
                continue;
            }
            let corner = [column * TILE, row * TILE];
            let rows = blend(corner, list.iter().map(|&index| &ellipses[index as usize]));
            let wide = TILE.min(width - corner[0]);
            for (line, row) in rows.iter().enumerate().take(height - corner[1]) {
                let to = line * width + corner[0];
                median[to..][..wide].copy_from_slice(&row.median[..wide]);
                for k in 0..wide {
                    let shown = 1.0 - row.through[k];
                    colour[to + k] = row.colour.map(|lane| lane[k]);
                    alpha[to + k] = shown;
                    mean[to + k] = row.depth[k] / shown.max(1e-9);
                }
            }
        }
    });
    picture
}
