//! Atlas, masks of the views → cells of the surface, and how many pixels of how many views show each.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use proto::table::Camera;
use rayon::prelude::*;

use super::Mask;
use crate::bake::atlas::{Atlas, charts};
use crate::bake::footprint::texel_coords;
use crate::bake::raster::{NOTHING, Projected, raster};
use crate::bake::scene::Scene;
use crate::pace;
use crate::progress::{each, expect, unit};

/// Edge of a square in texels.
pub(in crate::bake) const EDGE: u32 = 8;
/// Rows of samples in one piece of work.
const BAND: u32 = 32;

/// A square of the texture, as far as one chart lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    chart: u32,
    texels: u32,
}

/// All cells of a texture.
#[derive(Debug)]
pub(in crate::bake) struct Cells<'a> {
    scene: &'a Scene,
    /// Of each vertex.
    charts: Vec<u32>,
    /// Squares along an edge.
    across: u32,
    /// Square `k` has `cells[starts[k]..starts[k + 1]]`.
    starts: Vec<u32>,
    cells: Vec<Cell>,
}

/// What the views show of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::bake) struct Shown {
    pub(in crate::bake) texels: f64,
    /// Of all views together.
    pub(in crate::bake) pixels: f64,
    /// Views that show it.
    pub(in crate::bake) views: f64,
}

/// Every `stride`-th column and row of a view's pixels, from `stride / 2` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bake) struct Grid {
    pub(in crate::bake) stride: u32,
    /// Samples across and down.
    pub(in crate::bake) size: [u32; 2],
}

impl Grid {
    pub(in crate::bake) fn new(size: [u32; 2], stride: u32) -> Self {
        let first = stride / 2;
        let size = size.map(|edge| edge.saturating_sub(first).div_ceil(stride));
        Self { stride, size }
    }

    /// Column and row of a sample's pixel.
    pub(in crate::bake) fn pixel(self, sample: u32) -> [u32; 2] {
        let [width, _] = self.size;
        [sample % width, sample / width].map(|at| at * self.stride + self.stride / 2)
    }

    /// The camera whose pixels have their middles where the samples of `camera` have theirs.
    fn camera(self, camera: &Camera) -> Camera {
        let stride = f64::from(self.stride);
        let off = f64::from(self.stride / 2) + 0.5 - stride / 2.0;
        let mut camera = *camera;
        for axis in 0..2 {
            camera.focal[axis] /= stride;
            camera.centre[axis] = (camera.centre[axis] - off) / stride;
        }
        camera
    }
}

impl<'a> Cells<'a> {
    pub(in crate::bake) fn new(scene: &'a Scene, atlas: &Atlas) -> Self {
        expect(
            "what views show of the texture",
            each(scene.texels(), pace::TEXEL) + each(scene.triangles.len(), pace::TRIANGLE),
        );
        let charts = charts(scene);
        let across = scene.size.div_ceil(EDGE);
        let squares: Vec<Vec<Cell>> = (0..across)
            .into_par_iter()
            .flat_map_iter(|line| line_of_squares(scene, atlas, &charts, line))
            .collect();
        let mut starts = vec![0];
        starts.extend(squares.iter().scan(0, |end, square| {
            *end += square.len() as u32;
            Some(*end)
        }));
        Self {
            cells: squares.into_iter().flatten().collect(),
            scene,
            charts,
            across,
            starts,
        }
    }

    /// Pixels on each square, of what is shown of the cells.
    pub(in crate::bake) fn by_square(&self, shown: &[Shown]) -> Vec<f64> {
        let of = |ends: &[u32]| {
            let own = &shown[ends[0] as usize..ends[1] as usize];
            own.iter().map(|cell| cell.pixels).sum()
        };
        self.starts.windows(2).map(of).collect()
    }

    /// The cell of a place of a chart, in texels; [`NOTHING`] where none of its texels lies in that square.
    fn at(&self, place: [f32; 2], chart: u32) -> u32 {
        let [column, row] = place.map(|at| (at as u32 / EDGE).min(self.across - 1));
        let square = (row * self.across + column) as usize;
        (self.starts[square]..self.starts[square + 1])
            .find(|&cell| self.cells[cell as usize].chart == chart)
            .unwrap_or(NOTHING)
    }

    /// The cell of each sample of a view, [`NOTHING`] where it hits none or its pixel does not count.
    fn samples(&self, mask: &impl Mask, grid: Grid) -> Vec<u32> {
        let ([width, height], view) = (grid.size, mask.head());
        let camera = grid.camera(&self.scene.camera(&view.camera));
        let projected = Projected::of_scene(self.scene, &camera, width, height);
        let mut found = Vec::with_capacity((width * height) as usize);
        for (band, triangles) in (0..).zip(projected.bands(height, BAND)) {
            let first = band * BAND;
            let end = (first + BAND).min(height);
            let hits = raster(&projected, &triangles, width, first, end, 1);
            for (sample, &triangle) in (first * width..).zip(&hits.triangles) {
                let [x, y] = grid.pixel(sample);
                if triangle == NOTHING || !mask.counts((y * view.size[0] + x) as usize) {
                    found.push(NOTHING);
                    continue;
                }
                let [x, y] = [sample % width, sample / width].map(|at| f64::from(at) + 0.5);
                let place = texel_coords(self.scene, &projected, triangle, x, y);
                found.push(self.at(place, chart_of(self.scene, &self.charts, triangle)));
            }
        }
        unit();
        found
    }

    /// What the views show of each cell, and the cell of each of their samples.
    pub(in crate::bake) fn shown(
        &self,
        masks: &[impl Mask],
        stride: u32,
    ) -> (Vec<Shown>, Vec<Vec<u32>>) {
        let zeros = || (0..self.cells.len()).map(|_| AtomicU32::new(0));
        let (samples, views): (Vec<_>, Vec<_>) = (zeros().collect(), zeros().collect());
        let look = |last: &mut Vec<u32>, (nth, mask): (usize, _)| {
            let found = self.samples(mask, Grid::new(Mask::head(mask).size, stride));
            let mark = nth as u32 + 1;
            for &cell in found.iter().filter(|&&cell| cell != NOTHING) {
                samples[cell as usize].fetch_add(1, Relaxed);
                if std::mem::replace(&mut last[cell as usize], mark) != mark {
                    views[cell as usize].fetch_add(1, Relaxed);
                }
            }
            found
        };
        let found = masks
            .par_iter()
            .enumerate()
            .map_init(|| vec![0; self.cells.len()], look)
            .collect();
        let pixels = f64::from(stride * stride);
        let of = |((cell, samples), views): ((&Cell, AtomicU32), AtomicU32)| Shown {
            texels: f64::from(cell.texels),
            pixels: f64::from(samples.into_inner()) * pixels,
            views: f64::from(views.into_inner()),
        };
        let shown = self.cells.iter().zip(samples).zip(views).map(of);
        (shown.collect(), found)
    }
}

/// The cells of one line of squares.
fn line_of_squares(scene: &Scene, atlas: &Atlas, charts: &[u32], line: u32) -> Vec<Vec<Cell>> {
    let size = scene.size;
    let mut squares: Vec<Vec<Cell>> = vec![Vec::new(); size.div_ceil(EDGE) as usize];
    for row in line * EDGE..((line + 1) * EDGE).min(size) {
        let first = (row * size) as usize;
        let texels = &atlas.triangles[first..first + size as usize];
        for (column, &triangle) in texels.iter().enumerate() {
            if triangle == NOTHING {
                continue;
            }
            let chart = chart_of(scene, charts, triangle);
            let square = &mut squares[column / EDGE as usize];
            match square.iter_mut().find(|cell| cell.chart == chart) {
                Some(cell) => cell.texels += 1,
                None => square.push(Cell { chart, texels: 1 }),
            }
        }
    }
    squares
}

fn chart_of(scene: &Scene, charts: &[u32], triangle: u32) -> u32 {
    charts[scene.triangles[triangle as usize][0] as usize]
}
