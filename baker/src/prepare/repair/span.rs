//! Triangulates a closed border as flatly as possible (Liepa, "Filling holes in meshes", 2003).
//!
//! Among all triangulations it minimises the largest angle between neighbouring triangles, including those beyond the
//! border, then the area. In a plane all have the same area, so the shortest inner edges win. Angles are rounded to
//! whole degrees, so that floating-point rounding decides nothing.

use kiln_raster::vector::{cross, sub, unit};

/// Weight of the squared lengths of inner edges beside the area.
const SHAPE: f64 = 0.01;

/// A border: points in order.
pub(super) struct Rim<'a> {
    pub(super) points: &'a [[f64; 3]],
    /// Unit normal of the triangle beyond the edge from each point to the next, on the side that a triangle of the span
    /// continues. From that side the points run against the triangle's own winding.
    pub(super) beyond: &'a [Option<[f64; 3]>],
    /// Triangles of less height count as having no area.
    pub(super) least_height: f64,
}

/// Worst angle in degrees, and area. Less is better.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Weight {
    angle: u16,
    area: f64,
}

impl Weight {
    const NONE: Self = Self {
        angle: 0,
        area: 0.0,
    };
    const NEVER: Self = Self {
        angle: u16::MAX,
        area: f64::INFINITY,
    };

    fn and(self, other: Self) -> Self {
        Self {
            angle: self.angle.max(other.angle),
            area: self.area + other.area,
        }
    }

    fn is_less(self, other: Self) -> bool {
        (self.angle, self.area) < (other.angle, other.area)
    }
}

/// The best triangulation of a stretch of the border: its weight, and the corner opposite to the edge that closes it.
#[derive(Clone, Copy, Debug)]
struct Best {
    weight: Weight,
    corner: u32,
}

/// Returns triangles as indices into the rim, wound like it. None where every triangulation has a triangle without area
/// or an edge that `barred` refuses.
pub(super) fn span(
    rim: &Rim<'_>,
    barred: impl Fn(usize, usize) -> bool,
) -> Option<Vec<[usize; 3]>> {
    let n = rim.points.len();
    if n < 3 {
        return None;
    }
    let mut best = vec![
        Best {
            weight: Weight::NONE,
            corner: 0,
        };
        n * n
    ];
    for reach in 2..n {
        for from in 0..n - reach {
            let to = from + reach;
            let closing = (from, to) == (0, n - 1);
            let mut found = Best {
                weight: Weight::NEVER,
                corner: 0,
            };
            if closing || !barred(from, to) {
                for corner in from + 1..to {
                    let sides = best[from * n + corner]
                        .weight
                        .and(best[corner * n + to].weight);
                    // Skips what cannot win.
                    if !sides.is_less(found.weight) {
                        continue;
                    }
                    let weight = sides.and(triangle(rim, &best, [from, corner, to]));
                    if weight.is_less(found.weight) {
                        found = Best {
                            weight,
                            corner: corner as u32,
                        };
                    }
                }
            }
            best[from * n + to] = found;
        }
    }
    if best[n - 1].weight.area.is_infinite() {
        return None;
    }
    let mut triangles = Vec::with_capacity(n - 2);
    let mut open = vec![[0, n - 1]];
    while let Some([from, to]) = open.pop() {
        if to - from >= 2 {
            let corner = best[from * n + to].corner as usize;
            triangles.push([from, corner, to]);
            open.extend([[corner, to], [from, corner]]);
        }
    }
    Some(triangles)
}

/// The weight of one triangle: its area, and its angles to the triangles beyond its two settled edges, and beyond the
/// third where that is on the border.
fn triangle(rim: &Rim<'_>, best: &[Best], [from, corner, to]: [usize; 3]) -> Weight {
    let n = rim.points.len();
    let [a, b, c] = [from, corner, to].map(|at| rim.points[at]);
    let normal = cross(sub(b, a), sub(c, a));
    let double = norm(normal);
    let edges = [sub(b, a), sub(c, b), sub(a, c)].map(norm);
    if double <= edges[0].max(edges[1]).max(edges[2]) * rim.least_height {
        return Weight::NEVER;
    }
    let Some(normal) = unit(normal) else {
        return Weight::NEVER;
    };
    let mut angle = 0;
    for (first, last) in [(from, corner), (corner, to)] {
        let beyond = if last == first + 1 {
            rim.beyond[first]
        } else {
            let opposite = best[first * n + last].corner as usize;
            let [p, q, r] = [first, opposite, last].map(|at| rim.points[at]);
            unit(cross(sub(q, p), sub(r, p)))
        };
        angle = angle.max(beyond.map_or(0, |beyond| degrees(normal, beyond)));
    }
    if (from, to) == (0, n - 1) {
        angle = angle.max(rim.beyond[n - 1].map_or(0, |beyond| degrees(normal, beyond)));
    }
    Weight {
        angle,
        area: double / 2.0 + SHAPE * edges.iter().map(|x| x * x).sum::<f64>(),
    }
}

fn degrees(a: [f64; 3], b: [f64; 3]) -> u16 {
    let cosine: f64 = (0..3).map(|axis| a[axis] * b[axis]).sum();
    cosine.clamp(-1.0, 1.0).acos().to_degrees().round() as u16
}

fn norm(v: [f64; 3]) -> f64 {
    v.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(points: &[[f64; 2]]) -> Vec<[f64; 3]> {
        points.iter().map(|[x, y]| [*x, *y, 0.0]).collect()
    }

    fn area(points: &[[f64; 3]], triangles: &[[usize; 3]]) -> f64 {
        let double = |corners: &[usize; 3]| {
            let [a, b, c] = corners.map(|at| points[at]);
            norm(cross(sub(b, a), sub(c, a)))
        };
        triangles.iter().map(double).sum::<f64>() / 2.0
    }

    fn spanned(points: &[[f64; 3]]) -> Option<Vec<[usize; 3]>> {
        let up = vec![Some([0.0, 0.0, 1.0]); points.len()];
        let rim = Rim {
            points,
            beyond: &up,
            least_height: 1e-9,
        };
        span(&rim, |_, _| false)
    }

    #[test]
    fn a_polygon_with_notches_is_covered_once() {
        // A comb: its teeth leave no convex part of more than four corners.
        let mut comb = vec![[0.0, 0.0], [9.0, 0.0]];
        for tooth in (0..9).rev() {
            let x = f64::from(tooth);
            comb.extend([[x + 0.75, 3.0], [x + 0.5, 0.5], [x + 0.25, 3.0]]);
        }
        let comb = flat(&comb);
        let shoelace: f64 = (0..comb.len())
            .map(|k| {
                let (a, b) = (comb[k], comb[(k + 1) % comb.len()]);
                a[0] * b[1] - a[1] * b[0]
            })
            .sum::<f64>()
            / 2.0;
        let triangles = spanned(&comb).unwrap();
        assert_eq!(triangles.len(), comb.len() - 2);
        assert!((area(&comb, &triangles) - shoelace).abs() < 1e-9);
        for corners in &triangles {
            let [a, b, c] = corners.map(|at| comb[at]);
            assert!(cross(sub(b, a), sub(c, a))[2] > 0.0, "{corners:?}");
        }
    }

    #[test]
    fn flat_rings_get_short_edges() {
        let ring: Vec<[f64; 3]> = (0..24)
            .map(|k| {
                let angle = std::f64::consts::TAU * f64::from(k) / 24.0;
                [2.0 * angle.cos(), 0.5 * angle.sin(), 0.0]
            })
            .collect();
        // A long oval is cut across, not into a fan.
        let longest = spanned(&ring)
            .unwrap()
            .iter()
            .flat_map(|[a, b, c]| [[*a, *b], [*b, *c], [*c, *a]])
            .map(|[a, b]| norm(sub(ring[a], ring[b])))
            .fold(0.0, f64::max);
        assert!(longest < 1.6, "{longest}");
    }

    #[test]
    fn what_has_no_area_or_is_barred_is_not_spanned() {
        assert_eq!(spanned(&flat(&[[0.0, 0.0], [1.0, 0.0]])), None);
        assert_eq!(spanned(&flat(&[[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])), None);
        let square = flat(&[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]);
        let rim = Rim {
            points: &square,
            beyond: &[None; 4],
            least_height: 1e-9,
        };
        let one = span(&rim, |a, b| (a, b) == (0, 2)).unwrap();
        assert!(
            one.iter().all(|t| t.contains(&1) && t.contains(&3)),
            "{one:?}"
        );
        assert_eq!(span(&rim, |_, _| true), None);
    }
}
