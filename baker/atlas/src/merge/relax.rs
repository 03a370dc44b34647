//! Flattens a chart as rigidly as possible with some of its vertices fixed.
//!
//! "As-rigid-as-possible" by Sorkine and Alexa (2007), in the plane as by Liu et al., "A Local/Global Approach to Mesh
//! Parameterization" (2008). It alternates: the nearest rotation of each triangle's map, then all vertices at once
//! where the rotated triangles want them. All rounds have the same matrix, so one factorisation serves them
//! ([`Envelope`]). Where there is none, conjugate gradients solve the systems, which start near their solution.

use super::envelope::{Envelope, Side};
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

/// Work of a triangle's rotation, and of its share in the order of a system.
const ROTATION: u64 = 16;
const ORDERING: u64 = 100;
/// Multiplications of a factor per unit of work.
const PRODUCTS: u64 = 4;

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
/// Rounding of the sum of the angles around a vertex.
const ROUND: f64 = 1e-6;

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
    let mut wanted = vec![[0.0; 2]; uvs.len()];
    let rounds = (ROUNDS * triangles.len()) as u64 * ROTATION;
    let Some(direct) = Direct::new(&system) else {
        let mut work = rounds;
        for _ in 0..ROUNDS {
            system.wanted(rest, uvs, &mut wanted);
            work += system.solve(&wanted, uvs);
        }
        return work;
    };
    let mut x = [0; 2].map(|_| vec![0.0; direct.given.len()]);
    for _ in 0..ROUNDS {
        system.wanted(rest, uvs, &mut wanted);
        direct.solve(&wanted, uvs, &mut x);
    }
    rounds + direct.work(triangles.len())
}

/// The factor of a system, for all its rounds.
struct Direct {
    factor: Envelope,
    /// What fixed vertices add to each row.
    given: Vec<[f64; 2]>,
}

impl Direct {
    fn new(system: &System<'_>) -> Option<Self> {
        let sides: Vec<Side> = system
            .sides()
            .map(|(a, b, weight)| (a as u32, b as u32, weight))
            .collect();
        let is_fixed: Vec<bool> = system.held.iter().map(Option::is_some).collect();
        let factor = Envelope::new(&sides, &is_fixed)?;
        let mut of_vertex = vec![[0.0; 2]; is_fixed.len()];
        for (a, b, weight) in system.sides() {
            for (own, other) in [(a, b), (b, a)] {
                if let Some(place) = system.held[other] {
                    for axis in 0..2 {
                        of_vertex[own][axis] += weight * place[axis];
                    }
                }
            }
        }
        let mut given = vec![[0.0; 2]; factor.rows().count()];
        for (vertex, row) in factor.rows() {
            given[row] = of_vertex[vertex];
        }
        Some(Self { factor, given })
    }

    /// Puts all vertices that are not fixed where the triangles want them. `x` is room for both coordinates.
    fn solve(&self, wanted: &[[f64; 2]], uvs: &mut [[f64; 2]], x: &mut [Vec<f64>; 2]) {
        for (axis, x) in x.iter_mut().enumerate() {
            for (vertex, row) in self.factor.rows() {
                x[row] = wanted[vertex][axis] + self.given[row][axis];
            }
            self.factor.solve(x);
            for (vertex, row) in self.factor.rows() {
                uvs[vertex][axis] = x[row];
            }
        }
    }

    /// The amount of work of a factorisation and all solutions.
    fn work(&self, triangles: usize) -> u64 {
        let [factorisation, solution] = self.factor.work();
        let products = factorisation + ROUNDS as u64 * solution;
        triangles as u64 * ORDERING + products / PRODUCTS
    }
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
    fn wanted(&self, rest: &[Rest], uvs: &[[f64; 2]], wanted: &mut [[f64; 2]]) {
        wanted.fill([0.0; 2]);
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
            let length = (cosine * cosine + sine * sine)
                .sqrt()
                .max(f64::MIN_POSITIVE);
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

/// Whether the triangles around each vertex go round it once at most. More often, and the outline crosses itself there,
/// though no triangle is flipped.
pub(super) fn winds_once(triangles: &[[u32; 3]], uvs: &[[f64; 2]]) -> bool {
    let (mut angles, mut area) = (vec![0.0; uvs.len()], 0.0);
    for corners in triangles {
        let places = corners.map(|corner| uvs[corner as usize]);
        for (k, &corner) in corners.iter().enumerate() {
            let [a, b] = [1, 2].map(|next| less(places[(k + next) % 3], places[k]));
            let across = a[0] * b[1] - a[1] * b[0];
            angles[corner as usize] += across.atan2(a[0] * b[0] + a[1] * b[1]);
            area += across;
        }
    }
    let most = std::f64::consts::TAU + ROUND;
    angles.iter().all(|angle| angle * area.signum() <= most)
}

#[cfg(test)]
mod tests {
    use super::super::tests::squares;
    use super::*;

    #[test]
    fn both_solvers_find_the_same_places() {
        let mesh = squares(12, 9, |x, y| [x, y, 0.05 * x * y]);
        let [piece] = &crate::planar::cut(&mesh)[..] else {
            panic!("one chart");
        };
        let triangles = &piece.chart.triangles;
        let rest = rest(&mesh, piece);
        let weights: Vec<[f64; 3]> = rest.iter().map(weights).collect();
        // One side is fixed, and bent.
        let is_end = |point: u32| mesh.positions[point as usize][0] == 0.0;
        let held: Vec<Option<[f64; 2]>> = (piece.points.iter().zip(&piece.chart.uvs))
            .map(|(&point, &[x, y])| is_end(point).then_some([x + 0.1 * y * y, y]))
            .collect();
        let system = System {
            triangles,
            weights: &weights,
            held: &held,
        };
        let mut start = piece.chart.uvs.clone();
        for (uv, place) in start.iter_mut().zip(&held) {
            *uv = place.unwrap_or(*uv);
        }
        let mut wanted = vec![[0.0; 2]; start.len()];
        system.wanted(&rest, &start, &mut wanted);
        let (mut one, mut other) = (start.clone(), start);
        let direct = Direct::new(&system).unwrap();
        let mut x = [0; 2].map(|_| vec![0.0; direct.given.len()]);
        direct.solve(&wanted, &mut one, &mut x);
        system.solve(&wanted, &mut other);
        for (a, b) in one.iter().zip(&other) {
            let off = less(*a, *b);
            assert!(off[0].hypot(off[1]) < 1e-3, "{a:?} {b:?}");
        }
    }
}
