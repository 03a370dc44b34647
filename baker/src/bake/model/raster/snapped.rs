//! Rasteriser on integers: corners are snapped to a grid of 1/1024 sample. It is for meshes with as many triangles as a
//! picture has pixels, drawn once: nothing of a triangle is stored.
//!
//! Every triangle takes its corners from the grid, so triangles that share an edge agree about it however they are
//! drawn. Small triangles use integer edge functions, as GPUs do, and others the [`Footing`] of the same corners.

use std::ops::Range;

use proto::table::Camera;

use crate::bake::model::raster::{Footing, NEAR, footing};
use crate::bake::model::scene::project;
use crate::worker::progress::unit;

/// Steps of the grid between two samples.
const STEPS: i32 = 1 << 10;
/// Most samples that a small triangle extends over: products of two of its edges fit 32 bits.
const FEW: i32 = 16;
/// Corners within so many steps of the picture's origin are on the grid, so that differences fit 32 bits.
const REACH: f64 = (1 << 29) as f64;
/// Triangles between two progress reports.
const TICK: usize = 1 << 16;

/// A point as a camera sees it.
#[derive(Clone, Copy, Debug)]
struct SnappedCorner {
    /// Column and row in steps from the centre of the first sample.
    at: [i32; 2],
    /// 1 / depth in scene units; 0 where it is behind the camera, or too far aside for the grid.
    nearness: f32,
}

/// Columns and rows of samples.
pub(crate) type Rect = [Range<usize>; 2];

/// What triangles are drawn into.
pub(crate) trait SampleSink {
    /// Whether a triangle certainly changes nothing, if all its samples are in this box and none is nearer than
    /// `nearness`. May return false where that is costly to decide.
    fn hides(&self, samples: &Rect, nearness: f32) -> bool;

    /// Draws a small triangle.
    fn enter_small(&mut self, triangle: u32, small: &Small);

    /// Draws any other.
    fn enter(&mut self, triangle: u32, footing: &Footing);
}

/// The points of a mesh before a camera, for a picture of `s`×`s` samples a pixel.
pub(crate) struct Snapped<'a> {
    positions: &'a [[f32; 3]],
    camera: &'a Camera,
    s: u32,
    /// Size of the picture in pixels.
    size: [u32; 2],
    corners: Vec<SnappedCorner>,
}

impl<'a> Snapped<'a> {
    pub(crate) fn new(
        positions: &'a [[f32; 3]],
        camera: &'a Camera,
        size: [u32; 2],
        s: u32,
    ) -> Self {
        let corner = |&position| SnappedCorner::new(project(camera, position), s);
        Self {
            positions,
            camera,
            s,
            size,
            corners: positions.iter().map(corner).collect(),
        }
    }

    /// Draws triangles, each under its index.
    pub(crate) fn draw(&self, triangles: &[[u32; 3]], sink: &mut impl SampleSink) {
        let mut number = 0;
        for block in triangles.chunks(TICK) {
            for &triangle in block {
                self.draw_one(number, triangle, sink);
                number += 1;
            }
            unit();
        }
    }

    fn draw_one(&self, number: u32, triangle: [u32; 3], sink: &mut impl SampleSink) {
        let corners = triangle.map(|corner| self.corners[corner as usize]);
        let enter = |sink: &mut _, h| {
            let [width, height] = self.size.map(f64::from);
            SampleSink::enter(sink, number, &footing(h, width, height));
        };
        let nearness = corners.map(|corner| corner.nearness);
        if nearness.contains(&0.0) {
            let h = triangle.map(|corner| project(self.camera, self.positions[corner as usize]));
            enter(sink, h);
            return;
        }
        let [columns, rows] = [0, 1].map(|axis| Extent::of(corners.map(|corner| corner.at[axis])));
        let samples = [(columns, self.size[0]), (rows, self.size[1])]
            .map(|(extent, edge)| extent.samples(edge * self.s));
        if samples[0].is_empty() || samples[1].is_empty() {
            return;
        }
        if sink.hides(&samples, nearness[0].max(nearness[1]).max(nearness[2])) {
            return;
        }
        if columns.is_few() && rows.is_few() {
            if let Some(small) = Small::new(&corners, samples) {
                sink.enter_small(number, &small);
            }
        } else {
            enter(sink, corners.map(|corner| corner.homogeneous(self.s)));
        }
    }
}

impl SnappedCorner {
    /// From a point as [`project`] gives it.
    fn new(h: [f64; 3], s: u32) -> Self {
        let nearness = 1.0 / h[2];
        let [x, y] =
            [h[0], h[1]].map(|at| (at * nearness * f64::from(s) - 0.5) * f64::from(STEPS) + 0.5);
        if h[2] <= NEAR || x.abs().max(y.abs()) >= REACH || x.is_nan() || y.is_nan() {
            return Self {
                at: [0; 2],
                nearness: 0.0,
            };
        }
        // Rounds down by converting a non-negative value: on the target processors `floor` is a function call.
        let at = [x, y].map(|at| (at + REACH) as u32 as i32 - REACH as i32);
        Self {
            at,
            nearness: nearness as f32,
        }
    }

    /// The snapped point in the form of [`project`].
    fn homogeneous(&self, s: u32) -> [f64; 3] {
        let depth = 1.0 / f64::from(self.nearness);
        let [x, y] = self
            .at
            .map(|at| (f64::from(at) / f64::from(STEPS) + 0.5) / f64::from(s));
        [x * depth, y * depth, depth]
    }
}

/// Range of a triangle along an axis, in steps.
#[derive(Clone, Copy)]
struct Extent {
    low: i32,
    high: i32,
}

impl Extent {
    fn of([a, b, c]: [i32; 3]) -> Self {
        Self {
            low: a.min(b).min(c),
            high: a.max(b).max(c),
        }
    }

    fn is_few(self) -> bool {
        self.high - self.low <= FEW * STEPS
    }

    /// Samples whose centres lie within, of `count`.
    fn samples(self, count: u32) -> Range<usize> {
        let first = (self.low + (STEPS - 1)).div_euclid(STEPS).max(0) as usize;
        let end = (self.high.div_euclid(STEPS) + 1).max(0) as usize;
        first..end.min(count as usize)
    }
}

pub(crate) struct Small {
    /// The samples that it may hit.
    samples: Rect,
    /// Edge functions at the first of these, which are ≥ 0 inside the triangle: twice the areas between the sample and
    /// each edge, in square steps. Then their increments by column and by row.
    edges: [i32; 3],
    across: [i32; 3],
    down: [i32; 3],
    /// 1 / depth at the first of these samples, and its increments by column and by row.
    nearness: [f32; 3],
}

impl Small {
    /// None without area.
    fn new(corners: &[SnappedCorner; 3], samples: Rect) -> Option<Self> {
        let [mut a, mut b, c] = *corners;
        let twice = |a: SnappedCorner, b: SnappedCorner, [x, y]: [i32; 2]| {
            (b.at[0] - a.at[0]) * (y - a.at[1]) - (b.at[1] - a.at[1]) * (x - a.at[0])
        };
        let mut area = twice(a, b, c.at);
        if area == 0 {
            return None;
        }
        if area < 0 {
            (a, b, area) = (b, a, -area);
        }
        let first = [0, 1].map(|axis: usize| samples[axis].start as i32 * STEPS);
        let sides = [(b, c), (c, a), (a, b)];
        let edges = sides.map(|(from, to)| twice(from, to, first));
        let across = sides.map(|(from, to)| (from.at[1] - to.at[1]) * STEPS);
        let down = sides.map(|(from, to)| (to.at[0] - from.at[0]) * STEPS);
        let share = 1.0 / area as f32;
        // Relative to the first corner: a sum over all three would lose precision to what they have in common.
        let [of_b, of_c] = [b, c].map(|corner| (corner.nearness - a.nearness) * share);
        let plane = |values: [i32; 3]| values[1] as f32 * of_b + values[2] as f32 * of_c;
        let nearness = [a.nearness + plane(edges), plane(across), plane(down)];
        Some(Self {
            samples,
            edges,
            across,
            down,
            nearness,
        })
    }

    /// Its rows of samples: the number of each, the columns that it hits, and 1 / depth at the first of them.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (usize, Range<usize>, f32)> {
        let [columns, rows] = self.samples.clone();
        let (mut edges, mut nearness) = (self.edges, self.nearness[0]);
        rows.filter_map(move |row| {
            let [mut a, mut b, mut c] = edges;
            // A bit for each sample, from the signs of all three.
            let mut hits = 0_u32;
            for column in 0..columns.len() {
                hits |= (!(a | b | c) as u32 >> 31) << column;
                (a, b, c) = (a + self.across[0], b + self.across[1], c + self.across[2]);
            }
            let first = hits.trailing_zeros();
            let at_first = nearness + first as f32 * self.nearness[1];
            nearness += self.nearness[2];
            for (edge, down) in edges.iter_mut().zip(self.down) {
                *edge += down;
            }
            let hit = columns.start + first as usize
                ..columns.start + (u32::BITS - hits.leading_zeros()) as usize;
            (hits != 0).then_some((row, hit, at_first))
        })
    }

    /// Increment of 1 / depth by column.
    pub(crate) fn slope(&self) -> f32 {
        self.nearness[1]
    }
}

#[cfg(test)]
mod tests;
