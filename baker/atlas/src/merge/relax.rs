//! Flattens a chart as rigidly as possible with some of its vertices fixed.
//!
//! "As-rigid-as-possible" by Sorkine and Alexa (2007), in the plane as by Liu et al., "A Local/Global Approach to Mesh
//! Parameterization" (2008). It alternates: the nearest rotation of each triangle's map, then all vertices at once
//! where the rotated triangles want them. The linear systems are small and start near their solution, so conjugate
//! gradients solve them.

use crate::input::Mesh;
use crate::piece::Piece;
use kiln_raster::vector::{cross, sub};

/// Alternations between rotations and vertices.
const ROUNDS: usize = 8;
/// Largest number of iterations of a linear system.
const ITERATIONS: usize = 60;
/// Relative residual at which a system counts as solved.
const TOLERANCE: f64 = 1e-4;
/// Cotangents are clamped to this range: slivers would outweigh all else, and obtuse corners push apart.
const COTANGENTS: [f64; 2] = [0.02, 20.0];

/// Limits of distortion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Stretch along an axis that does little harm.
    longest: f64,
    /// Share of the area that may be stretched or squeezed beyond that.
    beyond: f64,
}

/// A limit of 1.5 leaves a quarter fewer of flighthelmet's charts, and costs 0.3 dB there.
pub(super) const TIGHT: Limits = Limits {
    longest: 1.25,
    beyond: 0.03,
};
/// For small charts.
pub(super) const LOOSE: Limits = Limits {
    longest: 2.0,
    beyond: 0.5,
};
/// Share of a chart's area below which a triangle's orientation is ignored.
const SLIVER: f64 = 1e-4;

/// A triangle of the surface in its own plane: its corners in units of the mesh.
pub(super) type Rest = [[f64; 2]; 3];

/// The chart's triangles as they are on the surface, with the chart's orientation.
pub(super) fn rest(mesh: &Mesh<'_>, piece: &Piece) -> Vec<Rest> {
    let chart = &piece.chart;
    let signed = |corners: &[u32; 3]| {
        let [a, b, c] = corners.map(|corner| chart.uvs[corner as usize]);
        (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    };
    let sign = chart.triangles.iter().map(signed).sum::<f64>().signum();
    let flat = |corners: &[u32; 3]| {
        let place =
            |corner: u32| mesh.positions[piece.points[corner as usize] as usize].map(f64::from);
        let [a, b, c] = corners.map(place);
        let (to_b, to_c) = (sub(b, a), sub(c, a));
        let dot = |p: [f64; 3], q: [f64; 3]| p[0] * q[0] + p[1] * q[1] + p[2] * q[2];
        let length = dot(to_b, to_b).sqrt();
        let normal = cross(to_b, to_c);
        let height = dot(normal, normal).sqrt() / length.max(f64::MIN_POSITIVE);
        let along = dot(to_b, to_c) / length.max(f64::MIN_POSITIVE);
        [[0.0; 2], [length, 0.0], [along, sign * height]]
    };
    chart.triangles.iter().map(flat).collect()
}

fn less(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] - b[0], a[1] - b[1]]
}

/// Rotates and moves the chart to bring the fixed vertices close to their places.
pub(super) fn align(uvs: &[[f64; 2]], held: &[Option<[f64; 2]>]) -> Vec<[f64; 2]> {
    let pairs = || {
        uvs.iter()
            .zip(held)
            .filter_map(|(&from, to)| Some((from, (*to)?)))
    };
    let count = pairs().count().max(1) as f64;
    let (mut from, mut to) = ([0.0; 2], [0.0; 2]);
    for (a, b) in pairs() {
        for axis in 0..2 {
            from[axis] += a[axis] / count;
            to[axis] += b[axis] / count;
        }
    }
    let (mut cosine, mut sine) = (0.0, 0.0);
    for (a, b) in pairs() {
        let (a, b) = (less(a, from), less(b, to));
        cosine += a[0] * b[0] + a[1] * b[1];
        sine += a[0] * b[1] - a[1] * b[0];
    }
    let length = f64::hypot(cosine, sine);
    let [cosine, sine] = if length > 0.0 {
        [cosine / length, sine / length]
    } else {
        [1.0, 0.0]
    };
    let place = |&uv: &[f64; 2]| {
        let [x, y] = less(uv, from);
        [cosine * x - sine * y + to[0], sine * x + cosine * y + to[1]]
    };
    uvs.iter().map(place).collect()
}

/// Weights of a triangle's sides: half the cotangent of the opposite corner.
fn weights(rest: &Rest) -> [f64; 3] {
    std::array::from_fn(|side| {
        let corner = rest[(side + 2) % 3];
        let (a, b) = (less(rest[side], corner), less(rest[(side + 1) % 3], corner));
        let area = (a[0] * b[1] - a[1] * b[0]).abs();
        let along = a[0] * b[0] + a[1] * b[1];
        (along / area.max(f64::MIN_POSITIVE)).clamp(COTANGENTS[0], COTANGENTS[1]) / 2.0
    })
}

/// Relaxes the chart with some of its vertices fixed. Returns the amount of work.
pub(super) fn relax(
    rest: &[Rest],
    triangles: &[[u32; 3]],
    held: &[Option<[f64; 2]>],
    uvs: &mut [[f64; 2]],
) -> u64 {
    for (uv, place) in uvs.iter_mut().zip(held) {
        if let Some(place) = place {
            *uv = *place;
        }
    }
    if held.iter().all(Option::is_some) {
        return 0;
    }
    let weights: Vec<[f64; 3]> = rest.iter().map(weights).collect();
    let system = System {
        triangles,
        weights: &weights,
        held,
    };
    let mut work = 0;
    for _ in 0..ROUNDS {
        let wanted = system.wanted(rest, uvs);
        work += system.solve(&wanted, uvs);
    }
    work
}

struct System<'a> {
    triangles: &'a [[u32; 3]],
    weights: &'a [[f64; 3]],
    held: &'a [Option<[f64; 2]>],
}

impl System<'_> {
    /// Each side of each triangle: its ends and its weight.
    fn sides(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        self.triangles
            .iter()
            .zip(self.weights)
            .flat_map(|(corners, weights)| {
                (0..3).map(|side| {
                    let ends = [corners[side], corners[(side + 1) % 3]];
                    (ends[0] as usize, ends[1] as usize, weights[side])
                })
            })
    }

    /// The right-hand side: `Σ w R (x_i − x_j)` for each vertex.
    fn wanted(&self, rest: &[Rest], uvs: &[[f64; 2]]) -> Vec<[f64; 2]> {
        let mut wanted = vec![[0.0; 2]; uvs.len()];
        for ((corners, weights), rest) in self.triangles.iter().zip(self.weights).zip(rest) {
            let ends = |side: usize| [side, (side + 1) % 3];
            let (mut cosine, mut sine) = (0.0, 0.0);
            for side in 0..3 {
                let [i, j] = ends(side);
                let a = less(rest[i], rest[j]);
                let b = less(uvs[corners[i] as usize], uvs[corners[j] as usize]);
                cosine += weights[side] * (a[0] * b[0] + a[1] * b[1]);
                sine += weights[side] * (a[0] * b[1] - a[1] * b[0]);
            }
            let length = f64::hypot(cosine, sine).max(f64::MIN_POSITIVE);
            let (cosine, sine) = (cosine / length, sine / length);
            for side in 0..3 {
                let [i, j] = ends(side);
                let [x, y] = less(rest[i], rest[j]);
                let turned = [cosine * x - sine * y, sine * x + cosine * y];
                for axis in 0..2 {
                    wanted[corners[i] as usize][axis] += weights[side] * turned[axis];
                    wanted[corners[j] as usize][axis] -= weights[side] * turned[axis];
                }
            }
        }
        wanted
    }

    /// The Laplacian times `x`, 0 at fixed vertices.
    fn product(&self, x: &[[f64; 2]], out: &mut [[f64; 2]]) {
        out.fill([0.0; 2]);
        for (i, j, weight) in self.sides() {
            let off = less(x[i], x[j]);
            for axis in 0..2 {
                out[i][axis] += weight * off[axis];
                out[j][axis] -= weight * off[axis];
            }
        }
        for (out, held) in out.iter_mut().zip(self.held) {
            if held.is_some() {
                *out = [0.0; 2];
            }
        }
    }

    /// Jacobi-preconditioned conjugate gradients, from the current vertices. Returns the amount of work.
    fn solve(&self, wanted: &[[f64; 2]], uvs: &mut [[f64; 2]]) -> u64 {
        let count = uvs.len();
        let mut diagonal = vec![0.0; count];
        for (i, j, weight) in self.sides() {
            diagonal[i] += weight;
            diagonal[j] += weight;
        }
        let dot = |a: &[[f64; 2]], b: &[[f64; 2]]| -> f64 {
            a.as_flattened()
                .iter()
                .zip(b.as_flattened())
                .map(|(a, b)| a * b)
                .sum()
        };
        let easier = |r: &[[f64; 2]]| -> Vec<[f64; 2]> {
            let each = r.iter().zip(&diagonal);
            each.map(|(r, &d)| r.map(|x| if d > 0.0 { x / d } else { 0.0 }))
                .collect()
        };
        let mut q = vec![[0.0; 2]; count];
        self.product(uvs, &mut q);
        let mut r: Vec<[f64; 2]> = wanted
            .iter()
            .zip(&q)
            .zip(self.held)
            .map(|((&wanted, &q), held)| {
                if held.is_some() {
                    [0.0; 2]
                } else {
                    less(wanted, q)
                }
            })
            .collect();
        let mut p = easier(&r);
        let mut rz = dot(&r, &p);
        let enough = rz * TOLERANCE * TOLERANCE;
        let mut done = 0;
        while done < ITERATIONS && rz > enough {
            self.product(&p, &mut q);
            let bend = dot(&p, &q);
            if bend <= 0.0 {
                break;
            }
            let alpha = rz / bend;
            for k in 0..count {
                for axis in 0..2 {
                    uvs[k][axis] += alpha * p[k][axis];
                    r[k][axis] -= alpha * q[k][axis];
                }
            }
            let z = easier(&r);
            let next = dot(&r, &z);
            for k in 0..count {
                for axis in 0..2 {
                    p[k][axis] = z[k][axis] + next / rz * p[k][axis];
                }
            }
            rz = next;
            done += 1;
        }
        (done as u64 + 2) * self.triangles.len() as u64 * 8
    }
}

/// Whether a flattening flips no triangle and stretches within the limits.
pub(super) fn is_within(
    limits: Limits,
    rest: &[Rest],
    triangles: &[[u32; 3]],
    uvs: &[[f64; 2]],
) -> bool {
    let (mut whole, mut beyond) = (0.0, 0.0);
    let area = |rest: &Rest| (rest[1][0] * rest[2][1]).abs();
    let sliver = SLIVER * rest.iter().map(area).sum::<f64>();
    for (rest, corners) in rest.iter().zip(triangles) {
        let [a, b, c] = corners.map(|corner| uvs[corner as usize]);
        let (u, v) = (less(b, a), less(c, a));
        let (length, [along, height]) = (rest[1][0], rest[2]);
        let area = length * height;
        whole += area.abs();
        let there = u[0] * v[1] - u[1] * v[0];
        if there * height <= 0.0 {
            if area.abs().max(there.abs()) > sliver {
                return false;
            }
            continue;
        }
        // The columns of the map: along the side, and across it.
        let x = u.map(|u| u / length);
        let y = [0, 1].map(|axis| (v[axis] - along * x[axis]) / height);
        let sum = x[0] * x[0] + x[1] * x[1] + y[0] * y[0] + y[1] * y[1];
        let det = (x[0] * y[1] - x[1] * y[0]).abs();
        // Singular values s ≥ t from s² + t² and s t.
        let (plus, minus) = ((sum + 2.0 * det).sqrt(), (sum - 2.0 * det).max(0.0).sqrt());
        let (largest, smallest) = ((plus + minus) / 2.0, (plus - minus) / 2.0);
        if largest > limits.longest || smallest < 1.0 / limits.longest {
            beyond += area.abs();
        }
    }
    whole > 0.0 && beyond <= limits.beyond * whole
}
