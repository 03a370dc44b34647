//! Rasteriser: the triangle that each sample of a view hits. Native twin of `raster.wgsl`.
//!
//! Homogeneous rasterisation (Olano and Greer, "Triangle scan conversion using 2D homogeneous coordinates", 1997): with
//! `h = (x·z, y·z, z)` for each corner, the row vectors of the inverse of `[h0 h1 h2]` are edge functions whose values
//! at a pixel are `barycentric / z`. No clipping is needed: a point behind the camera has a negative value. The
//! determinant is stored separately. Only then do two triangles have exactly negated values on the edge that they
//! share, and no sample falls between them. Nothing is culled. The nearest surface wins, and of equally near ones the
//! first.

mod nearest;
pub(crate) mod snapped;
#[cfg(test)]
mod tests;

use std::ops::Range;

use proto::table::Camera;

use crate::bake::model::scene::{Scene, project};
use crate::bake::model::vec3::cross;
pub use nearest::{Nearest, nearest};

/// No surface.
pub const NOTHING: u32 = u32::MAX;

/// Depths below this, in scene units, count as behind the camera.
pub const NEAR: f64 = 1e-6;

/// A triangle as one camera sees it.
#[derive(Clone, Copy, Debug)]
pub struct Footing {
    /// Row `k`: `edges[k] · (x, y, 1)`, at pixel `(x, y)`, is the barycentric coordinate of corner `k` divided by depth
    /// and by [`Self::scale`].
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

    /// Projects the triangles of a scene.
    pub fn of_scene(scene: &Scene, camera: &Camera, width: u32, height: u32) -> Self {
        Self::new(&scene.positions, &scene.triangles, camera, width, height)
    }

    /// Barycentric coordinates, on the surface, where the pixel `(x, y)` hits a triangle's plane.
    pub(crate) fn barycentric(&self, triangle: u32, x: f64, y: f64) -> [f64; 3] {
        self.footings[triangle as usize].barycentric(x, y)
    }

    /// Triangles that touch each band of `band` rows of pixels, in their order.
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

/// Footing of three corners as [`project`] gives them, in a picture of this size.
pub(crate) fn footing(h: [[f64; 3]; 3], width: f64, height: f64) -> Footing {
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
    if h.iter().all(|corner| corner[2] > NEAR) {
        let nearness = h.map(|corner| 1.0 / corner[2]);
        let at = |axis: usize| std::array::from_fn(|k| h[k][axis] * nearness[k]);
        columns = span(at(0), width);
        rows = span(at(1), height);
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
pub struct RasterSamples {
    /// Samples in a row: `width · s`.
    pub row_length: usize,
    /// Triangle of each sample, [`NOTHING`] where none; row by row.
    pub triangles: Vec<u32>,
    /// 1 / depth of each sample in scene units, 0 where none.
    pub inverse_depths: Vec<f64>,
}

/// Rasterises `triangles` at s×s samples a pixel over the pixel rows `first..end`. From a pixel's top left
/// corner, its sample (k, l) lies at ((k + ½)/s, (l + ½)/s).
pub fn raster(
    projected: &Projected,
    triangles: &[u32],
    width: u32,
    first: u32,
    end: u32,
    s: u32,
) -> RasterSamples {
    let row_length = (width * s) as usize;
    let rows = ((end - first) * s) as usize;
    let mut samples = RasterSamples {
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

/// 1 / depth as it is stored; 0 where nothing is hit.
pub(crate) trait InverseDepth: Copy {
    /// Rounded.
    fn of(value: f64) -> Self;

    /// Whether it lies in front of another.
    fn nearer(self, than: Self) -> bool;

    /// Self where all bits are `chosen`, the other where none is.
    fn or(self, other: Self, chosen: u64) -> Self;
}

impl InverseDepth for f64 {
    fn of(value: f64) -> Self {
        value
    }

    fn nearer(self, than: Self) -> bool {
        self > than
    }

    fn or(self, other: Self, chosen: u64) -> Self {
        Self::from_bits(self.to_bits() & chosen | other.to_bits() & !chosen)
    }
}

impl InverseDepth for f32 {
    fn of(value: f64) -> Self {
        value as Self
    }

    fn nearer(self, than: Self) -> bool {
        self > than
    }

    fn or(self, other: Self, chosen: u64) -> Self {
        let chosen = chosen as u32;
        Self::from_bits(self.to_bits() & chosen | other.to_bits() & !chosen)
    }
}

/// Samples that are tested side by side.
const TOGETHER: usize = 4;

/// One row of samples of a triangle, as far as its edges may accept any.
#[derive(Clone, Debug)]
pub(crate) struct SampleSpan {
    /// Number of the row of samples, from the top of the picture.
    pub(crate) row: usize,
    /// One more on each side than the edges' equations accept. The rest needs no test, and no rounding of the bounds
    /// decides about a sample.
    pub(crate) columns: Range<usize>,
    /// Values of the edges at the row's start.
    start: [f64; 3],
    /// Pixels between two samples.
    step: f64,
}

impl Footing {
    /// Barycentric coordinates, on the surface, where the pixel `(x, y)` hits its plane.
    pub(crate) fn barycentric(&self, x: f64, y: f64) -> [f64; 3] {
        let over_depth = self.edges.map(|edge| edge[0] * x + edge[1] * y + edge[2]);
        let sum = over_depth[0] + over_depth[1] + over_depth[2];
        over_depth.map(|weight| weight / sum)
    }

    /// Rows of samples, s×s to a pixel, of those pixel rows that it may touch.
    pub(crate) fn spans(
        &self,
        s: u32,
        [first, end]: [i32; 2],
    ) -> impl Iterator<Item = SampleSpan> + use<> {
        let step = 1.0 / f64::from(s);
        let scale = s as i32;
        let [left, right] = self.columns.map(|column| (column * scale) as usize);
        let edges = self.edges;
        // For each edge, how many samples it takes from its value at a row's start to 0, per unit of that value; 0 for
        // a level edge, which never changes sign. This needs one division for a triangle instead of two for each of its
        // rows.
        let over = edges.map(|edge| -1.0 / (edge[0] * step));
        let over = over.map(|over| if over.is_finite() { over } else { 0.0 });
        let rows = self.rows[0].max(first) * scale..self.rows[1].min(end) * scale;
        rows.map(move |row| {
            let y = (f64::from(row) + 0.5) * step;
            let start = edges.map(|edge| edge[1] * y + edge[2]);
            let mut columns = left..right;
            for (over, start) in over.into_iter().zip(start) {
                let zero = start * over - 0.5;
                // A rising edge has a negative value here.
                if over < 0.0 {
                    columns.start = columns.start.max((zero - 1.0) as usize);
                } else if over > 0.0 {
                    columns.end = columns.end.min((zero + 2.0).max(0.0) as usize);
                }
            }
            SampleSpan {
                row: row as usize,
                columns,
                start,
                step,
            }
        })
    }
}

impl SampleSpan {
    /// Enters a triangle into the samples of its row, wherever it is the nearest so far.
    fn enter<D: InverseDepth>(
        &self,
        footing: &Footing,
        triangle: u32,
        depths: &mut [D],
        triangles: &mut [u32],
    ) {
        // It does not hit what lies beyond its end. An empty span may end before it starts.
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

    /// Tests some samples from a column on, side by side. The result is selected without branches: a triangle of a few
    /// pixels hits half of them, which no branch predictor foresees.
    fn enter_some<const N: usize, D: InverseDepth>(
        &self,
        footing: &Footing,
        triangle: u32,
        column: i32,
        depths: &mut [D; N],
        nearest: &mut [u32; N],
    ) {
        let columns: [i32; N] = std::array::from_fn(|k| column + k as i32);
        let x = columns.map(|column| (f64::from(column) + 0.5) * self.step);
        let [a, b, c] =
            [0, 1, 2].map(|edge: usize| x.map(|x| footing.edges[edge][0] * x + self.start[edge]));
        let inverse: [D; N] = std::array::from_fn(|k| D::of((a[k] + b[k] + c[k]) * footing.scale));
        let hits: [u64; N] = std::array::from_fn(|k| {
            let within = (a[k] >= 0.0) & (b[k] >= 0.0) & (c[k] >= 0.0);
            u64::from(within & inverse[k].nearer(depths[k])).wrapping_neg()
        });
        for k in 0..N {
            depths[k] = inverse[k].or(depths[k], hits[k]);
            nearest[k] = triangle & hits[k] as u32 | nearest[k] & !hits[k] as u32;
        }
    }

    /// 1 / depth of a sample; none where it lies outside the triangle.
    pub(crate) fn inverse_depth(&self, footing: &Footing, column: usize) -> Option<f64> {
        let x = (column as f64 + 0.5) * self.step;
        let [a, b, c] = [0, 1, 2].map(|k| footing.edges[k][0] * x + self.start[k]);
        (a >= 0.0 && b >= 0.0 && c >= 0.0).then_some((a + b + c) * footing.scale)
    }
}
