//! View → the triangle that each sample hits: native twin of `raster.wgsl`.
//!
//! Homogeneous rasterisation (Olano and Greer, "Triangle scan conversion using 2D homogeneous coordinates", 1997): with
//! `h = (x·z, y·z, z)` for each corner, the row vectors of the inverse of `[h0 h1 h2]` are edge functions whose values at a
//! pixel are `barycentric / z`. No clipping is needed: a point behind the camera has a negative value. The determinant is
//! kept apart from them, because only then do two triangles have exactly negated values on the edge that they share, and no
//! sample falls between them. Nothing is culled; the nearest surface wins, and of equally near ones the first.

use std::ops::Range;

use proto::table::Camera;

use super::scene::{Scene, project};
use crate::progress::unit;

/// No surface.
pub const NOTHING: u32 = u32::MAX;

/// Depths below this, in scene units, count as behind the camera.
pub const NEAR: f64 = 1e-6;

/// What a triangle looks like to one camera.
#[derive(Clone, Copy, Debug)]
pub struct Footing {
    /// Row `k`: `edges[k] · (x, y, 1)`, at pixel `(x, y)`, is the barycentric coordinate of corner `k` divided by depth and
    /// by [`Self::scale`].
    pub edges: [[f64; 3]; 3],
    /// 1 / |determinant|, above 0.
    pub scale: f64,
    /// Rows of pixels that it may touch, first and past the last; empty where it cannot be seen.
    pub rows: [i32; 2],
    /// Columns likewise.
    pub columns: [i32; 2],
}

/// All triangles as one camera sees them.
#[derive(Clone, Debug)]
pub struct Projected {
    /// One for each triangle.
    pub footings: Vec<Footing>,
}

impl Projected {
    /// Projects every triangle for a view of `width` × `height` pixels.
    #[must_use]
    pub fn new(
        positions: &[[f32; 3]],
        triangles: &[[u32; 3]],
        camera: &Camera,
        width: u32,
        height: u32,
    ) -> Self {
        let corners: Vec<[f64; 3]> = positions
            .iter()
            .map(|&position| project(camera, position))
            .collect();
        let footings = triangles
            .iter()
            .map(|triangle| {
                footing(
                    triangle.map(|corner| corners[corner as usize]),
                    width as f64,
                    height as f64,
                )
            })
            .collect();
        Self { footings }
    }

    /// Of a scene.
    #[must_use]
    pub fn of_scene(scene: &Scene, camera: &Camera, width: u32, height: u32) -> Self {
        Self::new(&scene.positions, &scene.triangles, camera, width, height)
    }

    /// Barycentric coordinates of a triangle, on the surface, where the pixel `(x, y)` hits its plane.
    pub(super) fn barycentric(&self, triangle: u32, x: f64, y: f64) -> [f64; 3] {
        self.footings[triangle as usize].barycentric(x, y)
    }

    /// Triangles that touch each band of `band` rows of pixels, in their own order.
    #[must_use]
    pub fn bands(&self, height: u32, band: u32) -> Vec<Vec<u32>> {
        let mut bands = vec![Vec::new(); height.div_ceil(band) as usize];
        for (triangle, footing) in self.footings.iter().enumerate() {
            let [first, end] = footing.rows;
            if first < end && footing.columns[0] < footing.columns[1] {
                for of_band in
                    &mut bands[first as usize / band as usize..=(end - 1) as usize / band as usize]
                {
                    of_band.push(triangle as u32);
                }
            }
        }
        bands
    }
}

const UNSEEN: Footing = Footing {
    edges: [[0.0; 3]; 3],
    scale: 0.0,
    rows: [0, 0],
    columns: [0, 0],
};

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

/// A point as a camera sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// As [`project`] has it.
    h: [f64; 3],
    /// Column and row in the picture, of one in front of the camera.
    at: [f64; 2],
    /// 1 / depth.
    nearness: f64,
}

impl Seen {
    fn new(h: [f64; 3]) -> Self {
        let nearness = 1.0 / h[2];
        Self {
            h,
            at: [h[0] * nearness, h[1] * nearness],
            nearness,
        }
    }
}

/// The points of a mesh as a camera sees them, each a corner of some six triangles: those that were asked for last are known, and
/// triangles that follow each other have most of theirs in common.
#[derive(Debug)]
pub(super) struct Corners<'a> {
    positions: &'a [[f32; 3]],
    camera: &'a Camera,
    /// By the last bits of their numbers.
    recent: Vec<(u32, Seen)>,
}

impl<'a> Corners<'a> {
    /// So many are known.
    const RECENT: usize = 1 << 11;

    pub(super) fn new(positions: &'a [[f32; 3]], camera: &'a Camera) -> Self {
        let none = (u32::MAX, Seen::new([0.0; 3]));
        Self {
            positions,
            camera,
            recent: vec![none; Self::RECENT],
        }
    }

    pub(super) fn of(&mut self, triangle: [u32; 3]) -> [Seen; 3] {
        triangle.map(|number| {
            let known = &mut self.recent[number as usize % Self::RECENT];
            if known.0 != number {
                let h = project(self.camera, self.positions[number as usize]);
                *known = (number, Seen::new(h));
            }
            known.1
        })
    }
}

/// Whether a camera has all of a triangle in front of it.
fn in_front(corners: &[Seen; 3]) -> bool {
    corners.iter().all(|corner| corner.h[2] > NEAR)
}

/// Columns and rows of samples, s×s to a pixel of a picture of this size, whose middles lie within the box around a triangle, and none
/// that it hits lies elsewhere.
pub(super) fn within_box(corners: &[Seen; 3], s: u32, size: [u32; 2]) -> [Range<usize>; 2] {
    let size = size.map(|edge| edge * s);
    if !in_front(corners) {
        return size.map(|edge| 0..edge as usize);
    }
    [0, 1].map(|axis| {
        let [a, b, c] = corners.map(|corner| corner.at[axis] * f64::from(s) - 0.5);
        let low = (a.min(b).min(c) - ROUNDED).max(0.0);
        let high = a.max(b).max(c) + ROUNDED;
        // Whole numbers by conversion: the processors that this is compiled for round by a call.
        let first = low as u32;
        let first = first + u32::from(f64::from(first) < low);
        let end = if high < 0.0 {
            0
        } else {
            (high as u32).saturating_add(1)
        };
        first as usize..end.min(size[axis]) as usize
    })
}

/// Of three corners as [`project`] gives them, in a picture of this size.
pub(super) fn footing(h: [[f64; 3]; 3], width: f64, height: f64) -> Footing {
    footing_of(&h.map(Seen::new), [width, height])
}

/// Of three corners that are seen in a picture of this size.
pub(super) fn footing_of(corners: &[Seen; 3], [width, height]: [f64; 2]) -> Footing {
    let h = corners.map(|corner| corner.h);
    if h.iter().all(|corner| corner[2] <= NEAR) {
        return UNSEEN;
    }
    let normals = [cross(h[1], h[2]), cross(h[2], h[0]), cross(h[0], h[1])];
    let determinant: f64 = (0..3).map(|k| h[0][k] * normals[0][k]).sum();
    let scale = 1.0 / determinant.abs();
    // Edge-on, or without area.
    if determinant == 0.0 || !determinant.is_finite() || !scale.is_finite() {
        return UNSEEN;
    }
    let edges = normals.map(|normal| normal.map(|value| value * determinant.signum()));
    let (mut columns, mut rows) = ([0.0, width], [0.0, height]);
    if in_front(corners) {
        columns = span(corners.map(|corner| corner.at[0]), width);
        rows = span(corners.map(|corner| corner.at[1]), height);
    }
    Footing {
        edges,
        scale,
        rows: rows.map(|value| value as i32),
        columns: columns.map(|value| value as i32),
    }
}

/// Pixels from the smallest to the largest of three coordinates, within the picture.
fn span(of: [f64; 3], end: f64) -> [f64; 2] {
    let low = of[0].min(of[1]).min(of[2]).floor().clamp(0.0, end);
    let high = (of[0].max(of[1]).max(of[2]).floor() + 1.0).clamp(0.0, end);
    [low, high]
}

/// Samples of one band of pixel rows.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Samples in a row: `width · s`.
    pub row_length: usize,
    /// Triangle of each sample, [`NOTHING`] where none; row by row.
    pub triangles: Vec<u32>,
    /// 1 / depth of each sample in scene units, 0 where none.
    pub inverse_depths: Vec<f64>,
}

/// Rasterises `triangles` at s×s samples a pixel over the pixel rows `first..end`; sample (k, l) of a pixel lies at
/// ((k + ½)/s, (l + ½)/s) from its top left corner.
#[must_use]
pub fn raster(
    projected: &Projected,
    triangles: &[u32],
    width: u32,
    first: u32,
    end: u32,
    s: u32,
) -> Samples {
    let row_length = (width * s) as usize;
    let rows = ((end - first) * s) as usize;
    let mut samples = Samples {
        row_length,
        triangles: vec![NOTHING; row_length * rows],
        inverse_depths: vec![0.0; row_length * rows],
    };
    let above = first as usize * s as usize;
    for &triangle in triangles {
        let footing = &projected.footings[triangle as usize];
        for span in footing.spans(s, [first as i32, end as i32]) {
            let line = (span.row - above) * row_length;
            let line = line..line + row_length;
            let depths = &mut samples.inverse_depths[line.clone()];
            span.enter(footing, triangle, depths, &mut samples.triangles[line]);
        }
    }
    samples
}

/// What a camera sees of a surface at the middle of each pixel.
#[derive(Clone, Debug)]
pub struct Nearest {
    /// The triangle, [`NOTHING`] where there is none; row by row.
    pub triangles: Vec<u32>,
    /// 1 / depth in scene units, 0 where there is none.
    pub inverse_depths: Vec<f64>,
}

/// Triangles between two signs of life.
const TOLD: usize = 1 << 16;
/// What rounding may move a corner by, in pixels, and far more.
const ROUNDED: f64 = 1e-6;

/// Of a triangle of so many pixels it is asked whether others lie before all of it.
const FEW: usize = 8;
/// Share of a nearness that rounding may add, and far more.
const NEARER: f64 = 1e-9;

/// What [`raster`] finds with one sample a pixel, of a whole picture and by one thread. Nothing is kept of a triangle, of which there
/// may be as many as pixels: of those that fall between all samples, or behind what is there, most of the work is not even begun.
#[must_use]
pub fn nearest(
    positions: &[[f32; 3]],
    triangles: &[[u32; 3]],
    camera: &Camera,
    [width, height]: [u32; 2],
) -> Nearest {
    let (across, pixels) = (width as usize, width as usize * height as usize);
    let mut found = Nearest {
        triangles: vec![NOTHING; pixels],
        inverse_depths: vec![0.0; pixels],
    };
    let size = [width, height];
    let mut seen = Corners::new(positions, camera);
    let mut number = 0;
    for block in triangles.chunks(TOLD) {
        for &triangle in block {
            let corners = seen.of(triangle);
            if !found.hides(&corners, size) {
                let footing = footing_of(&corners, size.map(f64::from));
                for span in footing.spans(1, [0, height as i32]) {
                    let line = span.row * across;
                    let line = line..line + across;
                    let depths = &mut found.inverse_depths[line.clone()];
                    span.enter(&footing, number, depths, &mut found.triangles[line]);
                }
            }
            number += 1;
        }
        unit();
    }
    found
}

impl Nearest {
    /// Whether nothing of a triangle shows, as far as that is easily told.
    fn hides(&self, corners: &[Seen; 3], size: [u32; 2]) -> bool {
        let [columns, mut rows] = within_box(corners, 1, size);
        if columns.is_empty() || rows.is_empty() {
            return true;
        }
        if columns.len() * rows.len() > FEW || !in_front(corners) {
            return false;
        }
        let [a, b, c] = corners.map(|corner| corner.nearness);
        let most = a.max(b).max(c) * (1.0 + NEARER);
        rows.all(|row| {
            let line = &self.inverse_depths[row * size[0] as usize..][columns.clone()];
            line.iter().all(|&depth| depth >= most)
        })
    }
}

/// Samples that are looked at side by side.
const TOGETHER: usize = 4;

/// One row of samples of a triangle, as far as its edges may accept any.
#[derive(Clone, Debug)]
pub(super) struct Span {
    /// Number of the row of samples, from the top of the picture.
    pub(super) row: usize,
    /// One more on each side than the edges accept by their equations: what they refuse need not be asked, and no rounding of
    /// the bounds decides about a sample.
    pub(super) columns: Range<usize>,
    /// Values of the edges at the row's start.
    start: [f64; 3],
    /// Pixels between two samples.
    step: f64,
}

impl Footing {
    /// Barycentric coordinates, on the surface, where the pixel `(x, y)` hits its plane.
    pub(super) fn barycentric(&self, x: f64, y: f64) -> [f64; 3] {
        let over_depth = self.edges.map(|edge| edge[0] * x + edge[1] * y + edge[2]);
        let sum = over_depth[0] + over_depth[1] + over_depth[2];
        over_depth.map(|weight| weight / sum)
    }

    /// Rows of samples, s×s to a pixel, of those pixel rows that it may touch.
    pub(super) fn spans(
        &self,
        s: u32,
        [first, end]: [i32; 2],
    ) -> impl Iterator<Item = Span> + use<> {
        let step = 1.0 / f64::from(s);
        let scale = s as i32;
        let [left, right] = self.columns.map(|column| (column * scale) as usize);
        let edges = self.edges;
        // For each edge, the samples that its value at a row's start takes it to get to 0; 0 of a level one, which does not
        // change its mind. One division for a triangle, in place of two for each of its rows.
        let over = edges.map(|edge| -1.0 / (edge[0] * step));
        let over = over.map(|over| if over.is_finite() { over } else { 0.0 });
        let rows = self.rows[0].max(first) * scale..self.rows[1].min(end) * scale;
        rows.map(move |row| {
            let y = (f64::from(row) + 0.5) * step;
            let start = edges.map(|edge| edge[1] * y + edge[2]);
            let mut columns = left..right;
            for (over, start) in over.into_iter().zip(start) {
                let zero = start * over - 0.5;
                // An edge that rises has a negative one.
                if over < 0.0 {
                    columns.start = columns.start.max((zero - 1.0) as usize);
                } else if over > 0.0 {
                    columns.end = columns.end.min((zero + 2.0).max(0.0) as usize);
                }
            }
            Span {
                row: row as usize,
                columns,
                start,
                step,
            }
        })
    }
}

impl Span {
    /// Enters a triangle into the samples of its row, wherever it is the nearest so far.
    fn enter(&self, footing: &Footing, triangle: u32, depths: &mut [f64], triangles: &mut [u32]) {
        // What lies beyond its end it does not hit; one that holds none may end before it starts.
        let length = self.columns.len().next_multiple_of(TOGETHER);
        let [from, to] = [0, length].map(|more| (self.columns.start + more).min(depths.len()));
        let (fours, rest) = depths[from..to].as_chunks_mut::<TOGETHER>();
        let (nearest, nearest_rest) = triangles[from..to].as_chunks_mut::<TOGETHER>();
        let mut column = self.columns.start as i32;
        for (depths, nearest) in fours.iter_mut().zip(nearest) {
            self.enter_some(footing, triangle, column, depths, nearest);
            column += TOGETHER as i32;
        }
        for (depth, nearest) in rest.iter_mut().zip(nearest_rest) {
            let (depths, nearest) = (std::array::from_mut(depth), std::array::from_mut(nearest));
            self.enter_some(footing, triangle, column, depths, nearest);
            column += 1;
        }
    }

    /// Some samples from a column on, side by side. What the triangle does to each is chosen, not branched to: one of a few pixels
    /// hits half of them, which no processor foresees.
    fn enter_some<const N: usize>(
        &self,
        footing: &Footing,
        triangle: u32,
        column: i32,
        depths: &mut [f64; N],
        nearest: &mut [u32; N],
    ) {
        let columns: [i32; N] = std::array::from_fn(|k| column + k as i32);
        let x = columns.map(|column| (f64::from(column) + 0.5) * self.step);
        let [a, b, c] =
            [0, 1, 2].map(|edge: usize| x.map(|x| footing.edges[edge][0] * x + self.start[edge]));
        let inverse: [f64; N] = std::array::from_fn(|k| (a[k] + b[k] + c[k]) * footing.scale);
        let hits: [u64; N] = std::array::from_fn(|k| {
            let within = (a[k] >= 0.0) & (b[k] >= 0.0) & (c[k] >= 0.0);
            u64::from(within & (inverse[k] > depths[k])).wrapping_neg()
        });
        for k in 0..N {
            let chosen = inverse[k].to_bits() & hits[k] | depths[k].to_bits() & !hits[k];
            depths[k] = f64::from_bits(chosen);
            nearest[k] = triangle & hits[k] as u32 | nearest[k] & !hits[k] as u32;
        }
    }

    /// 1 / depth of a sample; none where it lies outside the triangle.
    pub(super) fn inverse_depth(&self, footing: &Footing, column: usize) -> Option<f64> {
        let x = (column as f64 + 0.5) * self.step;
        let [a, b, c] = [0, 1, 2].map(|k| footing.edges[k][0] * x + self.start[k]);
        (a >= 0.0 && b >= 0.0 && c >= 0.0).then_some((a + b + c) * footing.scale)
    }
}

#[cfg(test)]
mod tests;
