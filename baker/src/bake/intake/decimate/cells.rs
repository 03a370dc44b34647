//! Cells of the surface, and what each view shows of them: the cell of each sample, and how coarsely.

use std::borrow::Borrow;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use proto::table::{Camera, View};
use rayon::prelude::*;

use crate::bake::model::atlas::{Atlas, chart_of, charts};
use crate::bake::model::footprint::{MIN_ALPHA, texel_coords};
use crate::bake::model::raster::{NOTHING, Projected, raster};
use crate::bake::model::scene::{Scene, every};
use crate::worker::pace;
use crate::worker::progress::{Ticker, each, expect, unit};

/// Edge of a square in texels.
pub(crate) const EDGE: u32 = 8;
/// Rows of samples in one unit of work.
const BAND: u32 = 32;

/// A view's index, size and camera.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Head {
    pub(crate) index: u32,
    /// Width and height in pixels.
    pub(crate) size: [u32; 2],
    pub(crate) camera: Camera,
}

/// The data of a view that decides on its rows.
pub(crate) trait Mask: Sync {
    fn head(&self) -> Head;

    /// Whether a pixel may have a row.
    fn counts(&self, pixel: usize) -> bool;

    /// Number of pixels that may have a row.
    fn counting(&self) -> usize {
        let [width, height] = self.head().size;
        let pixels = 0..width as usize * height as usize;
        pixels.filter(|&pixel| self.counts(pixel)).count()
    }
}

impl<V: Borrow<View> + Sync> Mask for V {
    fn head(&self) -> Head {
        let view = self.borrow();
        Head {
            index: view.index,
            size: [view.width, view.height],
            camera: view.camera,
        }
    }

    fn counts(&self, pixel: usize) -> bool {
        self.borrow().pixels[pixel][3] >= MIN_ALPHA
    }
}

/// A square of the texture, as far as one chart lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    chart: u32,
    texels: u32,
}

#[derive(Debug)]
pub(crate) struct Cells<'a> {
    scene: &'a Scene,
    /// Chart of each vertex.
    charts: Vec<u32>,
    /// Number of squares along an edge.
    across: u32,
    /// Square `k` has `cells[starts[k]..starts[k + 1]]`.
    starts: Vec<u32>,
    cells: Vec<Cell>,
}

/// What a view shows of the cells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Observation {
    pub(super) head: Head,
    pub(super) grid: SampleGrid,
    /// Cell of each sample; [`NOTHING`] if it hits none, or its pixel does not count.
    pub(crate) cells: Vec<u32>,
    /// Coarseness of the pixel there ([`level_of`]).
    pub(super) levels: Vec<u8>,
}

/// Levels of coarseness, three for each factor of two.
pub(super) const LEVELS: usize = 32;

/// Last level of pixels that cover less than a texel.
pub(super) const SHARP: u8 = (LEVELS / 2 - 1) as u8;

/// Level of a pixel that covers so many texels; one texel has the middle level.
fn level_of(texels: f64) -> u8 {
    let level = 3.0 * texels.log2() + LEVELS as f64 / 2.0;
    level.clamp(0.0, (LEVELS - 1) as f64) as u8
}

/// Sample grid: every `stride`-th column and row of a view's pixels, from `stride / 2` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampleGrid {
    pub(crate) stride: u32,
    /// Samples across and down.
    pub(crate) size: [u32; 2],
}

impl SampleGrid {
    pub(crate) fn new(size: [u32; 2], stride: u32) -> Self {
        let first = stride / 2;
        let size = size.map(|edge| edge.saturating_sub(first).div_ceil(stride));
        Self { stride, size }
    }

    /// Column and row of a sample's pixel.
    pub(crate) fn pixel(self, sample: u32) -> [u32; 2] {
        let [width, _] = self.size;
        [sample % width, sample / width].map(|at| at * self.stride + self.stride / 2)
    }
}

impl<'a> Cells<'a> {
    pub(crate) fn new(scene: &'a Scene, atlas: &Atlas) -> Self {
        expect(
            "what views show of the texture",
            each(scene.texels(), pace::TEXEL) + each(scene.triangles.len(), pace::TRIANGLE),
        );
        let charts = charts(scene);
        unit();
        let across = scene.size.div_ceil(EDGE);
        let squares: Vec<Vec<Cell>> = (0..across)
            .into_par_iter()
            .flat_map_iter(|line| line_of_squares(scene, atlas, &charts, line))
            .collect();
        unit();
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

    pub(super) fn count(&self) -> usize {
        self.cells.len()
    }

    pub(super) fn texels(&self) -> impl Iterator<Item = u32> {
        self.cells.iter().map(|cell| cell.texels)
    }

    /// Sums values of cells by square.
    pub(crate) fn by_square(&self, of_cells: &[f64]) -> Vec<f64> {
        let of = |ends: &[u32]| of_cells[ends[0] as usize..ends[1] as usize].iter().sum();
        self.starts.windows(2).map(of).collect()
    }

    /// The cell of a chart at a place in texels; [`NOTHING`] where none of the chart's texels lies in that square.
    fn at(&self, place: [f32; 2], chart: u32) -> u32 {
        let [column, row] = place.map(|at| (at as u32 / EDGE).min(self.across - 1));
        let square = (row * self.across + column) as usize;
        (self.starts[square]..self.starts[square + 1])
            .find(|&cell| self.cells[cell as usize].chart == chart)
            .unwrap_or(NOTHING)
    }

    /// Examines every `stride`-th pixel of a view.
    pub(crate) fn look(&self, mask: &impl Mask, stride: u32) -> Observation {
        let head = mask.head();
        let grid = SampleGrid::new(head.size, stride);
        let [width, height] = grid.size;
        let camera = every(&self.scene.camera(&head.camera), stride);
        let projected = Projected::of_scene(self.scene, &camera, width, height);
        let samples = (width * height) as usize;
        let (mut cells, mut levels) = (vec![NOTHING; samples], vec![0; samples]);
        let mut ticker = Ticker::default();
        for (band, triangles) in (0..).zip(projected.bands(height, BAND)) {
            let first = band * BAND;
            let end = (first + BAND).min(height);
            // A triangle has a span in some of the band's rows.
            ticker.did(((end - first) * width) as usize + BAND as usize / 4 * triangles.len());
            let hits = raster(&projected, &triangles, width, first, end, 1);
            let hits = hits.triangles.iter().zip(&hits.inverse_depths);
            for (sample, (&triangle, inverse_depth)) in (first * width..).zip(hits) {
                let [x, y] = grid.pixel(sample);
                if triangle == NOTHING || !mask.counts((y * head.size[0] + x) as usize) {
                    continue;
                }
                let [x, y] = [sample % width, sample / width].map(|at| f64::from(at) + 0.5);
                let place = texel_coords(self.scene, &projected, triangle, x, y);
                let at = sample as usize;
                cells[at] = self.at(place, chart_of(self.scene, &self.charts, triangle));
                let scale = projected.footings[triangle as usize].scale;
                let texels = self.doubled_area(triangle) * scale / inverse_depth.powi(3);
                levels[at] = level_of(texels / f64::from(stride * stride));
            }
        }
        unit();
        Observation {
            head,
            grid,
            cells,
            levels,
        }
    }

    /// Estimates how many pixels of all views show each cell, from every `stride`-th.
    pub(crate) fn pixels(&self, masks: &[impl Mask], stride: u32) -> Vec<f64> {
        let zeros = (0..self.count()).map(|_| AtomicU32::new(0));
        let samples: Vec<AtomicU32> = zeros.collect();
        masks.par_iter().for_each(|mask| {
            let observation = self.look(mask, stride);
            for &cell in observation.cells.iter().filter(|&&cell| cell != NOTHING) {
                samples[cell as usize].fetch_add(1, Relaxed);
            }
        });
        let pixels = |samples: AtomicU32| f64::from(samples.into_inner() * stride * stride);
        samples.into_iter().map(pixels).collect()
    }

    /// Twice the area of a triangle in texels.
    ///
    /// A pixel at depth z of a plane at distance D from the eye covers `z³ / (f_x f_y D)` of it. A triangle of area A
    /// has the determinant `2 A f_x f_y D` ([`crate::bake::model::raster::Footing::scale`]). So of the triangle's T
    /// texels, the pixel covers `z³ · 2 T / determinant`.
    fn doubled_area(&self, triangle: u32) -> f64 {
        let corners = self.scene.triangles[triangle as usize];
        let [a, b, c] =
            corners.map(|corner| self.scene.texel_coords[corner as usize].map(f64::from));
        let [right, down] = [b, c].map(|to| [to[0] - a[0], to[1] - a[1]]);
        (right[0] * down[1] - right[1] * down[0]).abs()
    }
}

/// The cells of one line of squares.
fn line_of_squares(scene: &Scene, atlas: &Atlas, charts: &[u32], line: u32) -> Vec<Vec<Cell>> {
    let size = scene.size;
    Ticker::default().did((EDGE * size) as usize);
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
