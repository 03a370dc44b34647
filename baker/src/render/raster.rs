//! Triangles into the nearest hit of each sample, by homogeneous edge functions (Olano and Greer, "Triangle scan
//! conversion using 2D homogeneous coordinates", 1997).
//!
//! With homogeneous corners p₀ p₁ p₂ the ray through sample `(x, y, 1)` meets the triangle's plane at the barycentrics
//! `eᵢ / Σe`, `e₀ = (p₁ × p₂) · (x, y, 1)` and so on; it is a hit if no e is against the sign of `p₀ · (p₁ × p₂)`. So a
//! triangle that crosses the camera plane needs no cutting: what is behind has the other sign. The barycentrics are those
//! of the surface, not of the picture, hence perspective-correct. Two triangles that share an edge get exactly opposite
//! values of it, and zero counts as a hit for both: no sample falls between them.

use proto::table::{Camera, Mesh};
use rayon::prelude::*;

use super::clip::{project, triangle_bounds};

/// What a sample sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    depth: f64,
    /// Triangle, or [`Hit::NONE`].
    pub(super) triangle: u32,
    /// Barycentrics of the second and third corner.
    pub(super) second_third: [f32; 2],
}

impl Hit {
    /// No triangle.
    pub(super) const NONE: u32 = u32::MAX;
    const MISS: Self = Self {
        depth: f64::INFINITY,
        triangle: Self::NONE,
        second_third: [0.0; 2],
    };
}

/// The mesh before one camera.
pub(super) struct Scene<'a> {
    mesh: &'a Mesh,
    pub(super) corners: Vec<[f64; 3]>,
    /// First and last sample row that a triangle can touch; empty (1, 0) where it shows nowhere.
    rows: Vec<[u32; 2]>,
    near: f64,
    width: usize,
    samples: usize,
}

impl<'a> Scene<'a> {
    /// Projects the mesh for a picture of `width`×`height` pixels with `samples`² samples each.
    pub(super) fn new(
        mesh: &'a Mesh,
        camera: &Camera,
        [width, height]: [usize; 2],
        samples: usize,
    ) -> Self {
        let corners: Vec<[f64; 3]> = mesh
            .positions
            .par_iter()
            .map(|&p| project(camera, p))
            .collect();
        // Only the rectangles need a near plane, to stay finite. At a billionth of the scene's depth it hides nothing.
        let near = corners
            .par_iter()
            .map(|p| p[2].abs())
            .reduce(|| 0.0, f64::max)
            * 1e-9;
        let near = near.max(f64::MIN_POSITIVE);
        let mut scene = Self {
            mesh,
            corners,
            rows: Vec::new(),
            near,
            width,
            samples,
        };
        scene.rows = mesh
            .triangles
            .par_iter()
            .map(|&triangle| {
                triangle_bounds(scene.triangle(triangle), near)
                    .and_then(|bounds| scene.range(bounds[1], bounds[3], 0, height * samples))
                    .map_or([1, 0], |(first, last)| [first as u32, last as u32])
            })
            .collect();
        scene
    }

    fn triangle(&self, triangle: [u32; 3]) -> [[f64; 3]; 3] {
        triangle.map(|corner| self.corners[corner as usize])
    }

    /// Samples whose centre, `(k + ½)/samples`, lies within `low..=high` pixels, among `first..end`.
    fn range(&self, low: f64, high: f64, first: usize, end: usize) -> Option<(usize, usize)> {
        // A hair wider than exact: the edge functions decide, rounding here must not.
        const HAIR: f64 = 1e-6;
        let s = self.samples as f64;
        let from = (low * s - 0.5 - HAIR).ceil().max(first as f64);
        let to = (high * s - 0.5 + HAIR).floor().min(end as f64 - 1.0);
        (from <= to).then_some((from as usize, to as usize))
    }

    /// The hits of pixel rows `first..first + rows`, sample row by sample row.
    pub(super) fn band(&self, first: usize, rows: usize) -> Vec<Hit> {
        let stride = self.width * self.samples;
        let (start, end) = (first * self.samples, (first + rows) * self.samples);
        let mut hits = vec![Hit::MISS; stride * rows * self.samples];
        for (id, (&triangle, &[from, to])) in self.mesh.triangles.iter().zip(&self.rows).enumerate()
        {
            if from <= to && (from as usize) < end && (to as usize) >= start {
                self.draw(id as u32, triangle, [start, end], &mut hits);
            }
        }
        hits
    }

    fn draw(&self, id: u32, triangle: [u32; 3], [start, end]: [usize; 2], hits: &mut [Hit]) {
        let p = self.triangle(triangle);
        let Some(bounds) = triangle_bounds(p, self.near) else {
            return;
        };
        let stride = self.width * self.samples;
        let Some((left, right)) = self.range(bounds[0], bounds[2], 0, stride) else {
            return;
        };
        let Some((top, bottom)) = self.range(bounds[1], bounds[3], start, end) else {
            return;
        };

        let mut edges = [cross(p[1], p[2]), cross(p[2], p[0]), cross(p[0], p[1])];
        let determinant = dot(p[0], edges[0]);
        if determinant < 0.0 {
            edges = edges.map(|edge| edge.map(|x| -x));
        }
        // Seen edge-on from the camera's very position: a line without area.
        if determinant == 0.0 {
            return;
        }
        let step = 1.0 / self.samples as f64;
        for row in top..=bottom {
            let y = (row as f64 + 0.5) * step;
            let line = &mut hits[(row - start) * stride..][..stride];
            for (column, hit) in line.iter_mut().enumerate().take(right + 1).skip(left) {
                let x = (column as f64 + 0.5) * step;
                let e = edges.map(|edge| edge[0] * x + edge[1] * y + edge[2]);
                let sum = e[0] + e[1] + e[2];
                // The sum is what 1/depth is proportional to, so it is positive for what lies in front.
                if e[0] < 0.0 || e[1] < 0.0 || e[2] < 0.0 || sum <= 0.0 {
                    continue;
                }
                let b = [e[0] / sum, e[1] / sum, e[2] / sum];
                let depth = b[0] * p[0][2] + b[1] * p[1][2] + b[2] * p[2][2];
                // Of two surfaces at one depth the first in the file wins.
                if depth < hit.depth {
                    *hit = Hit {
                        depth,
                        triangle: id,
                        second_third: [b[1] as f32, b[2] as f32],
                    };
                }
            }
        }
    }
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    // `cross(b, a)` is exactly its negative: the products are the same numbers, and a difference rounds symmetrically.
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}
