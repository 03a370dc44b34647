//! Relative exposure and white balance of each view, from the light that views see at the same places of the surface.
//!
//! ```text
//!   log y_i(t) = log g_i + log T(t)      y: mean of view i over cell t of the surface; T: what is there
//! ```
//!
//! A cell is the part of the surface in one cube of a spatial grid that a view sees facing the same way, so views of
//! opposite sides of a thin plate or of a sheet share no cell, nor does one through a hole. No texture is needed, and views are compared while their mesh is unwrapped.
//!
//! T is eliminated, `(D − R diag(1/Σw) Rᵀ) log g = b`, and the rest is reweighted (Geman-McClure). The system leaves a
//! common factor of all views open that share cells, so the mean of log g is set to 0 in each such group. This is one
//! solution: alternating with the texture takes four rounds for a worse result.
//!
//! White balance is solved likewise: y is then by how much red, or blue, is above the mean of all channels.

use std::borrow::Borrow;

use proto::table::{Camera, View};
use rayon::prelude::*;

use crate::bake::intake::pixel_mask::hash;
use crate::bake::intake::surface::ShownMesh;
use crate::bake::model::colour::decode;
use crate::bake::model::raster::{NOTHING, footing, nearest};
use crate::bake::model::scene::{every, project};
use crate::bake::model::vec3::{cross, dot, sub};
use crate::worker::progress::unit;

/// Most and least cells along the edge of a square that stands for the surface; the surface has about two thirds of the
/// square's cells. With 256, poses and exposures that are off come to the same 49.6 dB on the statue's set, and the
/// light of 100 views of 1024² takes four times as long to read.
const FINEST: f64 = 128.0;
const COARSEST: f64 = 16.0;
/// Square of a cube's edge, relative to a cell's share of the surface: a plane cuts one and a half cubes for each
/// square of their edge.
const CUT: f64 = 1.5;
/// Share of that square that is filled.
const FILLED: f64 = 0.65;
/// Hash slots of cells: two cells in a hundred share one with another.
const PLACES: u32 = 1 << 19;
/// Pixels of a view for each cell of that square, of which it sees a part: about four in each that it does see.
const PIXELS: f64 = 1.2;
/// Share of those pixels that suffices, if columns and rows of a large view can be skipped for it.
const ENOUGH: f64 = 0.7;
/// Least pixels of a cell in a view.
const LEAST_PIXELS: f32 = 2.0;
/// Least edge of all cubes together, in scene units, for a surface without area.
const LEAST_EDGE: f64 = 1e-9;
/// Bytes that are neither saturated nor so dark that rounding matters.
const USABLE: std::ops::RangeInclusive<u8> = 12..=250;
/// Least cosine between the surface's normal and the ray: pixels at grazing angles mix too much.
const LEAST_COSINE: f64 = 0.35;
const REWEIGHTINGS: u32 = 8;
/// Log gains that change by less have settled: a tenth of what clean views seem to have.
const SETTLED: f64 = 1e-4;
/// Scales at which a residual has lost most of its weight.
const SCALES: f64 = 3.0;
/// Most products of views, over all cells, of one assembly: beyond it, cells are left out evenly.
const MOST_PRODUCTS: usize = 30_000_000;
/// Most values of which a median is taken.
const MEDIAN_OF: usize = 1 << 16;
/// Least cells in one unit of work.
const PIECE: usize = 256;
/// Numbers in the matrices that are assembled side by side.
const ASSEMBLED: usize = 1 << 21;
/// Place of a cell that is left out.
const NOT_KEPT: usize = usize::MAX;
/// Least cells that two views share, and least share of the cells of the one that sees fewer, to be compared. Cells that
/// share a hash slot join one cell in fifty of two views that see nothing of each other.
const LEAST_CELLS: usize = 32;
const LEAST_SHARE: f64 = 1.0 / 16.0;
/// Most products of views, over all cells, from which it is known which views share cells.
const MOST_PAIRS: usize = 4_000_000;

/// A cell that a view sees, and its light there.
pub(super) type Sample = (u32, Light);

/// Mean log of all channels, and by how much the logs of red and blue are above it.
pub(super) type Light = [f32; 3];

/// A number of [`Light`], each of which has its own factors of the views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Exposure,
    Red,
    Blue,
}

/// Where light is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LightGrid {
    /// Edge of a cube in scene units.
    edge: f64,
    /// Every so many columns and rows of a view are read.
    stride: u32,
}

impl LightGrid {
    /// As fine as the views can fill; of large views no more pixels than that takes.
    pub(super) fn of(views: &[impl Borrow<View> + Sync], shape: ShownMesh<'_>) -> Self {
        let opaque = |view: &_| {
            let view: &View = Borrow::borrow(view);
            let lines = view.pixels.chunks(view.width.max(1) as usize);
            let of = |line: &[[u8; 4]]| line.iter().map(|pixel| u32::from(pixel[3] == 255)).sum();
            u64::from(lines.map::<u32, _>(of).sum::<u32>())
        };
        let mean = views.par_iter().map(opaque).sum::<u64>() as f64 / views.len().max(1) as f64;
        let cells = (mean / PIXELS).sqrt().clamp(COARSEST, FINEST);
        let area: f64 = shape.triangles.iter().map(|t| area(shape, *t)).sum();
        Self {
            edge: (CUT / FILLED * area).sqrt().max(LEAST_EDGE) / cells,
            stride: (mean / (ENOUGH * PIXELS) / cells.powi(2)).sqrt().max(1.0) as u32,
        }
    }
}

/// Normal of a triangle, of twice the triangle's area in scene units.
fn normal(shape: ShownMesh<'_>, triangle: [u32; 3]) -> [f64; 3] {
    let [a, b, c] = triangle.map(|corner| shape.positions[corner as usize].map(f64::from));
    cross(sub(b, a), sub(c, a))
}

fn area(shape: ShownMesh<'_>, triangle: [u32; 3]) -> f64 {
    let normal = normal(shape, triangle);
    0.5 * dot(normal, normal).sqrt()
}

/// The cell of a place on the surface with this normal.
fn cell(at: [f64; 3], normal: [f64; 3], edge: f64) -> u32 {
    let longest = (0..3).max_by(|&a, &b| normal[a].abs().total_cmp(&normal[b].abs()));
    let axis = longest.unwrap_or(0);
    let side = 2 * axis as i32 + i32::from(normal[axis] < 0.0);
    let [x, y, z] = at.map(|at| (at / edge).floor() as i32);
    hash([x.wrapping_mul(6).wrapping_add(side), y, z].map(i32::cast_unsigned)) % PLACES
}

/// Mean log light of a view, seen from `camera`, in each cell of a grid.
pub(super) fn samples(
    shape: ShownMesh<'_>,
    view: &View,
    camera: &Camera,
    grid: LightGrid,
    sums: &mut LightSums,
) -> Vec<Sample> {
    let LightGrid { edge, stride } = grid;
    // The picture of the middle one of each `stride` columns and rows.
    let [width, height] = [view.width, view.height].map(|edge| edge / stride);
    let middle = stride / 2;
    let camera = every(&shape.frame.camera(camera), stride);
    let ShownMesh {
        positions,
        triangles,
        ..
    } = shape;
    let log: [f32; 256] = std::array::from_fn(|byte| decode(byte as f32 / 255.0).max(1e-6).ln());
    // The camera's position: -Rᵀ t.
    let eye: [f64; 3] = std::array::from_fn(|axis| {
        -(0..3)
            .map(|k| camera.rotation[k][axis] * camera.translation[k])
            .sum::<f64>()
    });
    let hits = nearest(positions, triangles, &camera, [width, height]);
    sums.0.resize(PLACES as usize, [0.0; 4]);
    let mut cells = Vec::new();
    for row in 1..height.saturating_sub(1) {
        for column in 1..width.saturating_sub(1) {
            let triangle = hits.triangles[(row * width + column) as usize];
            if triangle == NOTHING {
                continue;
            }
            let numbers = triangles[triangle as usize];
            let corners = numbers.map(|corner| positions[corner as usize].map(f64::from));
            let Some(normal) = facing(corners[0], normal(shape, numbers), eye) else {
                continue;
            };
            let [x, y] = [column, row].map(|at| at * stride + middle);
            let Some(light) = light(view, x, y, &log) else {
                continue;
            };
            let (x, y) = (f64::from(column) + 0.5, f64::from(row) + 0.5);
            let seen = numbers.map(|corner| project(&camera, positions[corner as usize]));
            let weights = footing(seen, f64::from(width), f64::from(height)).barycentric(x, y);
            let at =
                std::array::from_fn(|axis| (0..3).map(|k| weights[k] * corners[k][axis]).sum());
            let cell = cell(at, normal, edge);
            let sum = &mut sums.0[cell as usize];
            if sum[3] == 0.0 {
                cells.push(cell);
            }
            for (sum, more) in sum.iter_mut().zip(light.into_iter().chain([1.0])) {
                *sum += more;
            }
        }
    }
    cells
        .into_iter()
        .map(|cell| (cell, std::mem::take(&mut sums.0[cell as usize])))
        .filter(|(_, [.., count])| *count >= LEAST_PIXELS)
        .map(|(cell, [light, red, blue, count])| (cell, [light, red, blue].map(|sum| sum / count)))
        .collect()
}

/// Sums and count of each cell, all 0 between two views. Reused, since they are megabytes.
#[derive(Debug, Default)]
pub(super) struct LightSums(Vec<[f32; 4]>);

/// The light of a pixel, if it and its neighbours are opaque and all its channels usable.
fn light(view: &View, column: u32, row: u32, log: &[f32; 256]) -> Option<Light> {
    let pixel = |column: u32, row: u32| view.pixels[(row * view.width + column) as usize];
    let opaque = (row - 1..=row + 1)
        .all(|row| (column - 1..=column + 1).all(|column| pixel(column, row)[3] == 255));
    let [r, g, b, _] = pixel(column, row);
    let usable = opaque && [r, g, b].iter().all(|byte| USABLE.contains(byte));
    usable.then(|| {
        let [r, g, b] = [r, g, b].map(|byte| log[byte as usize]);
        let mean = (r + g + b) / 3.0;
        [mean, r - mean, b - mean]
    })
}

/// The normal of the side that `eye` sees of a plane through `at`; none at a grazing angle.
fn facing(at: [f64; 3], normal: [f64; 3], eye: [f64; 3]) -> Option<[f64; 3]> {
    let ray = sub(eye, at);
    let along = dot(normal, ray);
    let steep = along.powi(2) >= LEAST_COSINE.powi(2) * dot(normal, normal) * dot(ray, ray);
    steep.then(|| normal.map(|x| x * along.signum()))
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Exposures {
    /// Log gain of each view; none where it is in no group.
    pub(super) logs: Vec<Option<f64>>,
    /// Median deviation of a view from the others at a place, in log light: as the views came, then with the gains
    /// divided out.
    pub(super) deviation: [f64; 2],
}

/// The light that one view sees in one cell.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    view: u32,
    light: f64,
}

/// All observations (words), cell by cell, and within each in the order of the views.
#[derive(Clone, Debug)]
struct SharedCells {
    /// Cell `k` has `words[starts[k]..starts[k + 1]]`.
    starts: Vec<usize>,
    words: Vec<Word>,
}

/// Some consecutive cells, and a number for each of their observations.
struct CellRange<'a> {
    starts: &'a [usize],
    words: &'a [Word],
    numbers: &'a mut [f64],
}

impl CellRange<'_> {
    /// Calls `each` with the observations and the numbers of every cell.
    fn each(&mut self, mut each: impl FnMut(&[Word], &mut [f64])) {
        let first = self.starts[0];
        for ends in self.starts.windows(2) {
            let range = ends[0] - first..ends[1] - first;
            each(&self.words[range.clone()], &mut self.numbers[range]);
        }
    }
}

impl SharedCells {
    /// No cell of no view.
    fn none() -> Self {
        Self {
            starts: vec![0],
            words: Vec::new(),
        }
    }

    /// Adds the observations of each cell that two views or more of a group see, and returns how many cells stand for
    /// one that is kept: where the group has more than `most` products of views, cells are left out evenly.
    fn add(&mut self, views: &[Vec<Sample>], group: &[usize], part: Part, most: usize) -> usize {
        let of_group = || group.iter().flat_map(|&view| &views[view]);
        let last = of_group().map(|&(cell, _)| cell).max();
        let mut counts = vec![0_usize; last.map_or(0, |cell| cell as usize + 1)];
        for &(cell, _) in of_group() {
            counts[cell as usize] += 1;
        }
        let shared = |&count: &usize| count >= 2;
        let products: usize = counts.iter().filter(|c| shared(c)).map(|c| c * c).sum();
        let stride = products.div_ceil(most).max(1);
        let mut place = vec![NOT_KEPT; counts.len()];
        let kept = (0..counts.len())
            .filter(|&cell| shared(&counts[cell]))
            .step_by(stride);
        for cell in kept {
            let start = self.starts[self.starts.len() - 1];
            place[cell] = start;
            self.starts.push(start + counts[cell]);
        }
        let end = self.starts[self.starts.len() - 1];
        self.words.resize(end, Word::default());
        for &view in group {
            for &(cell, light) in &views[view] {
                let place = &mut place[cell as usize];
                if *place != NOT_KEPT {
                    let (view, light) = (view as u32, f64::from(light[part as usize]));
                    self.words[*place] = Word { view, light };
                    *place += 1;
                }
            }
        }
        stride
    }

    /// Splits into pieces of about `length` cells, with their part of `numbers`, one for each observation.
    fn parts<'a>(&'a self, numbers: &'a mut [f64], length: usize) -> Vec<CellRange<'a>> {
        let (mut parts, mut words, mut numbers) = (Vec::new(), self.words.as_slice(), numbers);
        let count = self.starts.len() - 1;
        for first in (0..count).step_by(length) {
            let starts = &self.starts[first..=(first + length).min(count)];
            let many = starts[starts.len() - 1] - starts[0];
            let (own, rest) = words.split_at(many);
            let (own_numbers, rest_numbers) = numbers.split_at_mut(many);
            parts.push(CellRange {
                starts,
                words: own,
                numbers: own_numbers,
            });
            (words, numbers) = (rest, rest_numbers);
        }
        parts
    }

    /// Turns the weight of each observation into its distance from its cell's mean.
    fn residuals(&self, mut weights: Vec<f64>, gains: &[f64]) -> Vec<f64> {
        self.parts(&mut weights, PIECE)
            .into_par_iter()
            .for_each(|mut part| part.each(|cell, weights| residuals(cell, weights, gains)));
        weights
    }
}

/// Groups of the views that can be compared, each in the order of the views. Each view of a group shares enough cells
/// with another of it. Between groups nothing says how they are exposed. A view that shares too few is in none.
pub(super) fn groups(views: &[Vec<Sample>]) -> Vec<Vec<usize>> {
    let count = views.len();
    let mut cells = SharedCells::none();
    let all: Vec<usize> = (0..count).collect();
    let stride = cells.add(views, &all, Part::Exposure, MOST_PAIRS);
    let mut shared = vec![0_usize; count * count];
    for ends in cells.starts.windows(2) {
        let cell = &cells.words[ends[0]..ends[1]];
        for (place, word) in cell.iter().enumerate() {
            for other in &cell[..place] {
                shared[word.view as usize * count + other.view as usize] += stride;
            }
        }
    }
    // The first view of the group of each.
    let mut first = all;
    for view in 0..count {
        for other in 0..view {
            let fewer = views[view].len().min(views[other].len()) as f64;
            let enough = LEAST_CELLS.max((LEAST_SHARE * fewer) as usize);
            if shared[view * count + other] >= enough && first[view] != first[other] {
                let joined = [first[view], first[other]];
                let to = joined[0].min(joined[1]);
                (first.iter_mut().filter(|of| joined.contains(of))).for_each(|of| *of = to);
            }
        }
    }
    let members = |of: usize| (0..count).filter(|&view| first[view] == of).collect();
    let groups = (0..count).map(members);
    groups
        .filter(|group: &Vec<usize>| group.len() > 1)
        .collect()
}

/// Solves for the gains of a part of the light, within each of these groups; none where there is no group.
pub(super) fn solve(views: &[Vec<Sample>], groups: &[Vec<usize>], part: Part) -> Option<Exposures> {
    if groups.is_empty() {
        return None;
    }
    let mut cells = SharedCells::none();
    for group in groups {
        cells.add(views, group, part, MOST_PRODUCTS);
    }
    let mut gains = vec![0.0; views.len()];
    let mut weights = vec![1.0; cells.words.len()];
    for _ in 0..REWEIGHTINGS {
        let before = gains;
        gains = balanced(&cells, &mut weights, views.len());
        let change = before.iter().zip(&gains).map(|(a, b)| (a - b).abs());
        if change.fold(0.0, f64::max) < SETTLED {
            break;
        }
        weights = cells.residuals(weights, &gains);
        let scale = SCALES * 1.4826 * median(&weights).max(1e-4);
        let geman_mcclure = |number: &mut f64| *number = (1.0 + (*number / scale).powi(2)).powi(-2);
        weights
            .par_iter_mut()
            .with_min_len(1 << 12)
            .for_each(geman_mcclure);
        unit();
    }
    let deviation = [vec![0.0; views.len()], gains.clone()].map(|gains| {
        let residuals = cells.residuals(vec![1.0; cells.words.len()], &gains);
        median(&residuals)
    });
    let mut logs = vec![None; views.len()];
    for group in groups {
        let mean = group.iter().map(|&view| gains[view]).sum::<f64>() / group.len() as f64;
        (group.iter()).for_each(|&view| logs[view] = Some(gains[view] - mean));
    }
    Some(Exposures { logs, deviation })
}

/// Turns the weights of a cell's observations into their distances from its mean.
fn residuals(cell: &[Word], weights: &mut [f64], gains: &[f64]) {
    let own = |word: &Word| word.light - gains[word.view as usize];
    let sum: f64 = weights.iter().sum();
    let said = cell.iter().zip(&*weights);
    let mean = said.map(|(word, weight)| weight * own(word)).sum::<f64>();
    let mean = mean / sum.max(f64::MIN_POSITIVE);
    for (weight, word) in weights.iter_mut().zip(cell) {
        *weight = own(word) - mean;
    }
}

/// Median of the absolute values; of an even subset where there are very many.
fn median(of: &[f64]) -> f64 {
    let every = of.len().div_ceil(MEDIAN_OF).max(1);
    let mut sizes: Vec<f64> = of.iter().step_by(every).map(|value| value.abs()).collect();
    if sizes.is_empty() {
        return 0.0;
    }
    let middle = sizes.len() / 2;
    *sizes.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// The lower half of the matrix and the right-hand side, of some cells and the weights of their observations.
fn assemble(mut part: CellRange<'_>, views: usize) -> (Vec<f64>, Vec<f64>) {
    let mut matrix = vec![0.0; views * views];
    let mut right = vec![0.0; views];
    part.each(|cell, weights| {
        let sum: f64 = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let said = cell.iter().zip(&*weights);
        let mean = said.map(|(word, weight)| weight * word.light).sum::<f64>() / sum;
        for (place, (word, &weight)) in cell.iter().zip(&*weights).enumerate() {
            let view = word.view as usize;
            right[view] += weight * (word.light - mean);
            let row = &mut matrix[view * views..(view + 1) * views];
            row[view] += weight;
            let share = weight / sum;
            for (other, &by) in cell[..=place].iter().zip(&*weights) {
                row[other.view as usize] -= share * by;
            }
        }
    });
    (matrix, right)
}

/// The gains that balance all cells at these weights, by conjugate gradients from 0: what the system leaves open stays
/// 0.
fn balanced(cells: &SharedCells, weights: &mut [f64], views: usize) -> Vec<f64> {
    // The pieces depend on their number alone and are added in order: the same bits on any number of threads.
    let pieces = (ASSEMBLED / (views * views)).clamp(1, 64);
    let piece = cells.starts.len().div_ceil(pieces).max(PIECE);
    let parts: Vec<(Vec<f64>, Vec<f64>)> = cells
        .parts(weights, piece)
        .into_par_iter()
        .map(|part| assemble(part, views))
        .collect();
    let mut matrix = vec![0.0; views * views];
    let mut right = vec![0.0; views];
    for (part, of) in &parts {
        matrix.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
        right.iter_mut().zip(of).for_each(|(sum, x)| *sum += x);
    }
    for row in 0..views {
        for column in 0..row {
            matrix[column * views + row] = matrix[row * views + column];
        }
    }
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut x = vec![0.0; views];
    let mut residual = right;
    let mut direction = residual.clone();
    let mut size = dot(&residual, &residual);
    let enough = 1e-20 * size;
    for _ in 0..views.min(200) {
        if size <= enough {
            break;
        }
        let product: Vec<f64> = matrix
            .par_chunks_exact(views)
            .with_min_len(64)
            .map(|row| dot(row, &direction))
            .collect();
        let step = size / dot(&direction, &product);
        if !step.is_finite() {
            break;
        }
        for view in 0..views {
            x[view] += step * direction[view];
            residual[view] -= step * product[view];
        }
        let next = dot(&residual, &residual);
        for view in 0..views {
            direction[view] = residual[view] + next / size * direction[view];
        }
        size = next;
    }
    x
}

#[cfg(test)]
mod tests;
