//! Triangles → the nearest hit of each sample, by homogeneous edge functions (Olano and Greer, "Triangle scan
//! conversion using 2D homogeneous coordinates", 1997).
//!
//! With homogeneous corners p₀ p₁ p₂ the ray through sample `(x, y, 1)` meets the triangle's plane at the barycentrics
//! `eᵢ / Σe`, `e₀ = (p₁ × p₂) · (x, y, 1)` and so on. It is a hit if no e has the opposite sign of `p₀ · (p₁ × p₂)`. A
//! triangle that crosses the camera plane needs no clipping, since the part behind has the other sign. The barycentrics
//! are those of the surface, not of the picture, hence perspective-correct. Two triangles that share an edge get
//! exactly opposite values of it, and zero counts as a hit for both, so no sample falls between them.
//!
//! Along a row of samples an edge function is monotonic, and rounding a product or a sum keeps it so. Each edge
//! therefore accepts all samples from one on, or up to one, and the hits of a triangle in a row are contiguous: edges
//! are evaluated at both ends alone. The depth test compares `Σe` over the determinant, which is 1/depth.

use std::ops::Range;

use rayon::prelude::*;

use crate::bounds::triangle_bounds;
use crate::vector::{cross, dot};

/// No triangle.
pub const NOTHING: u32 = u32::MAX;

/// The hits of some rows of samples, row by row.
#[derive(Debug, Default)]
pub struct Hits {
    /// Triangles, or [`NOTHING`].
    pub triangles: Vec<u32>,
    /// 1/depth of each; 0 without a hit.
    nearness: Vec<f64>,
}

/// A mesh in front of one camera, for a picture with a regular grid of samples.
#[derive(Debug)]
pub struct Scene<'a> {
    triangles: &'a [[u32; 3]],
    corners: Vec<[f64; 3]>,
    /// First and last sample row that a triangle can touch; (1, 0) if none.
    rows: Vec<[u32; 2]>,
    near: f64,
    width: usize,
    samples: usize,
}

impl<'a> Scene<'a> {
    /// Prepares a picture of `width`×`height` pixels with `samples`² samples each. `corners` are the mesh's points as
    /// the camera sees them, `K · (R x + t)`: a point appears at pixel `(x/z, y/z)`, and is behind the camera where
    /// `z ≤ 0`.
    ///
    /// # Panics
    /// A triangle names a corner that is not there.
    pub fn new(
        corners: Vec<[f64; 3]>,
        triangles: &'a [[u32; 3]],
        [width, height]: [usize; 2],
        samples: usize,
    ) -> Self {
        // Only the bounds need a near plane, to stay finite. At a billionth of the scene's depth it hides nothing.
        let near = corners
            .par_iter()
            .map(|p| p[2].abs())
            .reduce(|| 0.0, f64::max)
            * 1e-9;
        let near = near.max(f64::MIN_POSITIVE);
        let mut scene = Self {
            triangles,
            corners,
            rows: Vec::new(),
            near,
            width,
            samples,
        };
        scene.rows = (0..triangles.len() as u32)
            .into_par_iter()
            .map(|triangle| {
                triangle_bounds(scene.triangle(triangle), near)
                    .and_then(|bounds| scene.range(bounds[1], bounds[3], 0, height * samples))
                    .map_or([1, 0], |rows| [rows.start as u32, rows.end as u32 - 1])
            })
            .collect();
        scene
    }

    /// The corners, back from the scene.
    pub fn into_corners(self) -> Vec<[f64; 3]> {
        self.corners
    }

    fn triangle(&self, triangle: u32) -> [[f64; 3]; 3] {
        self.triangles[triangle as usize].map(|corner| self.corners[corner as usize])
    }

    /// Samples whose centre `(k + ½)/samples` lies within `low..=high` pixels, among `first..end`.
    fn range(&self, low: f64, high: f64, first: usize, end: usize) -> Option<Range<usize>> {
        // A little wider than exact: the edge functions have to decide, not rounding here.
        const HAIR: f64 = 1e-6;
        let s = self.samples as f64;
        let from = (low * s - 0.5 - HAIR).ceil().max(first as f64);
        let to = (high * s - 0.5 + HAIR).floor().min(end as f64 - 1.0);
        (from <= to).then_some(from as usize..to as usize + 1)
    }

    /// Edge functions of a triangle that was hit; zero for one without area.
    pub fn edges(&self, triangle: u32) -> Edges {
        Edges::new(self.triangle(triangle)).unwrap_or_default()
    }

    /// Triangles that can touch the pixel rows `first..first + rows`, in their order.
    pub fn touching(&self, first: usize, rows: usize) -> Vec<u32> {
        let (start, end) = (first * self.samples, (first + rows) * self.samples);
        let all = self.rows.iter().enumerate();
        all.filter(|&(_, &[from, to])| from <= to && (from as usize) < end && to as usize >= start)
            .map(|(triangle, _)| triangle as u32)
            .collect()
    }

    /// Draws the pixel rows `first..first + rows`. `triangles` come from [`Self::touching`] for these or more rows.
    pub fn draw(&self, triangles: &[u32], first: usize, rows: usize, hits: &mut Hits) {
        let samples = self.width * self.samples * rows * self.samples;
        hits.triangles.clear();
        hits.triangles.resize(samples, NOTHING);
        hits.nearness.clear();
        hits.nearness.resize(samples, 0.0);
        let (start, end) = (first * self.samples, (first + rows) * self.samples);
        for &triangle in triangles {
            let [from, to] = self.rows[triangle as usize];
            if (from as usize) < end && to as usize >= start {
                self.draw_one(triangle, start..end, hits);
            }
        }
    }

    fn draw_one(&self, triangle: u32, rows: Range<usize>, hits: &mut Hits) {
        let p = self.triangle(triangle);
        let (Some(edges), Some(bounds)) = (Edges::new(p), triangle_bounds(p, self.near)) else {
            return;
        };
        let stride = self.width * self.samples;
        let above = rows.start;
        let columns = self.range(bounds[0], bounds[2], 0, stride);
        let rows = self.range(bounds[1], bounds[3], rows.start, rows.end);
        let (Some(columns), Some(rows)) = (columns, rows) else {
            return;
        };
        let [least, largest] = nearness_limits(p);
        let step = 1.0 / self.samples as f64;
        let crossings = edges.crossings(step);
        for row in rows {
            let line = edges.along((row as f64 + 0.5) * step);
            let span = line.span(crossings, columns.clone(), step);
            let of_row = (row - above) * stride;
            let hit = of_row + span.start..of_row + span.end;
            let nearest = &mut hits.nearness[hit.clone()];
            let seen = &mut hits.triangles[hit];
            let [slope, start] = line.nearness(edges.scale, step);
            // Selects values without branching, so that the loop vectorises. About every other hit of a closed surface
            // meets the back first, which no branch predictor foresees.
            for (k, (nearest, seen)) in nearest.iter_mut().zip(seen).enumerate() {
                let own = slope * f64::from((span.start + k) as i32) + start;
                let own = if own < least { least } else { own };
                let own = if own > largest { largest } else { own };
                // Of two surfaces at one depth the first wins.
                let nearer = u64::from(own > *nearest).wrapping_neg();
                let bits = own.to_bits() & nearer | nearest.to_bits() & !nearer;
                *nearest = f64::from_bits(bits);
                *seen = triangle & nearer as u32 | *seen & !nearer as u32;
            }
        }
    }
}

/// The least and the largest 1/depth of the visible part of a triangle. Clamping to them keeps each sample within the
/// depth of the corners, however small the triangle's area.
fn nearness_limits(corners: [[f64; 3]; 3]) -> [f64; 2] {
    if corners.iter().any(|corner| corner[2] <= 0.0) {
        return [f64::MIN_POSITIVE, f64::MAX];
    }
    let nearness = corners.map(|corner| 1.0 / corner[2]);
    let least = nearness.into_iter().fold(f64::MAX, f64::min);
    let largest = nearness.into_iter().fold(least, f64::max);
    [least.max(f64::MIN_POSITIVE), largest.max(f64::MIN_POSITIVE)]
}

/// The edge functions of a triangle; none is negative at a hit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edges {
    /// Their coefficients of (x, y, 1), in pixels.
    factors: [[f64; 3]; 3],
    /// 1 / |determinant|.
    scale: f64,
}

impl Edges {
    /// None for a triangle seen edge-on from the camera's position: a line without area.
    fn new(p: [[f64; 3]; 3]) -> Option<Self> {
        let factors = [cross(p[1], p[2]), cross(p[2], p[0]), cross(p[0], p[1])];
        let determinant = dot(p[0], factors[0]);
        let scale = 1.0 / determinant.abs();
        let sign = determinant.signum();
        let turned = |edge: [f64; 3]| [sign * edge[0], sign * edge[1], sign * edge[2]];
        scale.is_finite().then(|| Self {
            factors: [turned(factors[0]), turned(factors[1]), turned(factors[2])],
            scale,
        })
    }

    /// The edge functions on the row of the picture at `y` pixels.
    pub fn along(&self, y: f64) -> Line {
        Line {
            slopes: self.factors.map(|edge| edge[0]),
            starts: self.factors.map(|edge| edge[1] * y + edge[2]),
        }
    }

    /// Samples until an edge function reaches zero, per unit of its value at the start of a row.
    fn crossings(&self, step: f64) -> [f64; 3] {
        self.factors.map(|edge| -1.0 / (edge[0] * step))
    }
}

/// Edge functions on one row of the picture, as functions of x.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    slopes: [f64; 3],
    starts: [f64; 3],
}

impl Line {
    fn values(&self, x: f64) -> [f64; 3] {
        [
            self.slopes[0] * x + self.starts[0],
            self.slopes[1] * x + self.starts[1],
            self.slopes[2] * x + self.starts[2],
        ]
    }

    /// Barycentrics of the second and third corner at N places of the row, in pixels.
    pub fn second_third<const N: usize>(&self, x: [f64; N]) -> [[f32; N]; 2] {
        let mut second_third = [[0.0; N]; 2];
        for k in 0..N {
            let e = self.values(x[k]);
            let over = 1.0 / (e[0] + e[1] + e[2]);
            second_third[0][k] = (e[1] * over) as f32;
            second_third[1][k] = (e[2] * over) as f32;
        }
        second_third
    }

    /// The samples among `columns`, `step` apart, that all three edges accept.
    fn span(&self, crossings: [f64; 3], columns: Range<usize>, step: f64) -> Range<usize> {
        let Range { mut start, mut end } = columns;
        for (crossing, at_start) in crossings.into_iter().zip(self.starts) {
            // A level edge decides the same for the whole row.
            if !crossing.is_finite() {
                continue;
            }
            // The zero is exact to a few roundings, far less than a sample. With one sample more on each side, the edge
            // functions below decide.
            let zero = at_start * crossing - 0.5;
            if crossing < 0.0 {
                start = start.max((zero - 1.0) as usize);
            } else {
                end = end.min((zero + 2.0) as usize);
            }
        }
        let accepts = |column: usize| {
            let values = self.values((column as f64 + 0.5) * step);
            values.into_iter().all(|value| value >= 0.0)
        };
        while start < end && !accepts(start) {
            start += 1;
        }
        while start < end && !accepts(end - 1) {
            end -= 1;
        }
        if start < end { start..end } else { 0..0 }
    }

    /// 1/depth as a linear function of the sample's index: factor and constant.
    fn nearness(&self, scale: f64, step: f64) -> [f64; 2] {
        let sum = |of: [f64; 3]| (of[0] + of[1] + of[2]) * scale;
        let slope = sum(self.slopes) * step;
        [slope, sum(self.starts) + 0.5 * slope]
    }
}

#[cfg(test)]
mod tests;
