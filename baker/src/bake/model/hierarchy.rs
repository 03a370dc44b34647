//! Triangles → the hit of a line that is nearest to its origin, and the point on them that is nearest to a point.
//!
//! A binary tree of boxes with [`LEAF`] triangles in each leaf (Kay and Kajiya, 1986). It is split at the median of the
//! longest side, so its shape follows from the number of triangles alone: threads build halves of one array, and any
//! number of them builds the same tree. Rays are intersected as in Möller and Trumbore (1997), nearest points found as in
//! Ericson, "Real-Time Collision Detection" (2005), 5.1.5. Crates of this kind (obvhs, bvh) answer no nearest point.

use kiln_raster::vector;

use crate::worker::progress::{Ticker, unit};

type Point = [f32; 3];

/// Triangles of a leaf; the last one may have fewer.
const LEAF: usize = 4;
/// Halves of more triangles are built side by side.
const SIDE_BY_SIDE: usize = 1 << 14;
/// Levels of a tree of 2³² triangles, and one more.
const DEEPEST: usize = 32;
/// Slack of the barycentric coordinates at which a line still hits: a line through an edge must not slip between two
/// triangles.
const SLACK: f64 = 1e-6;

/// Which sides of the triangles a line hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Facing {
    /// Both.
    Any,
    /// The sides whose normal points along the line.
    Along,
}

/// A line, of which a part counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// The origin.
    pub(crate) from: Point,
    /// The direction; distances are multiples of its length.
    pub(crate) along: Point,
    /// The part that counts, by signed distances from the origin.
    pub(crate) reach: [f32; 2],
    /// What it hits.
    pub(crate) facing: Facing,
}

/// Where a line meets a triangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hit {
    /// Index of the triangle.
    pub(crate) triangle: u32,
    /// Barycentric coordinates.
    pub(crate) weights: [f32; 3],
    /// Signed distance from the origin.
    pub(crate) at: f32,
}

/// The point of a surface that is nearest to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Nearest {
    /// Index of the triangle.
    pub(crate) triangle: u32,
    /// Barycentric coordinates.
    pub(crate) weights: [f32; 3],
    /// Distance.
    pub(crate) distance: f32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    low: Point,
    high: Point,
    /// Of a leaf its first triangle, else the index of the second child; the first child is the next node.
    next: u32,
    /// Triangles of a leaf; 0 otherwise.
    count: u32,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    nodes: Vec<Node>,
    /// Index of each triangle, in the order of the leaves.
    order: Vec<u32>,
    /// Its corners.
    corners: Vec<[Point; 3]>,
}

impl Hierarchy {
    /// The hierarchy of these triangles.
    pub(crate) fn new(positions: &[Point], triangles: &[[u32; 3]]) -> Self {
        let of = |&triangle: &u32| triangles[triangle as usize].map(|k| positions[k as usize]);
        let mut order: Vec<u32> = (0..triangles.len() as u32).collect();
        let leaves = triangles.len().div_ceil(LEAF);
        let mut nodes = vec![Node::default(); (2 * leaves).saturating_sub(1)];
        unit();
        if leaves > 0 {
            build(&mut nodes, &mut order, (0, 0), &of);
        }
        let corners = order.iter().map(of).collect();
        unit();
        Self {
            nodes,
            order,
            corners,
        }
    }

    /// The hit with the least distance from the line's origin.
    pub(crate) fn meets(&self, line: &Line) -> Option<Hit> {
        let [mut low, mut high] = line.reach;
        let inverse = line.along.map(|x| 1.0 / x);
        let mut found = None;
        let mut visit = |first: usize, count: usize, low: &mut f32, high: &mut f32| {
            for at in first..first + count {
                let Some((t, weights)) = meet(&self.corners[at], line) else {
                    continue;
                };
                if t >= *low && t <= *high {
                    (*low, *high) = (low.max(-t.abs()), high.min(t.abs()));
                    let triangle = self.order[at];
                    found = Some(Hit {
                        triangle,
                        weights,
                        at: t,
                    });
                }
            }
        };
        let mut stack = [0_u32; DEEPEST];
        let mut held = usize::from(!self.nodes.is_empty());
        while held > 0 {
            held -= 1;
            let mut index = stack[held] as usize;
            loop {
                let node = &self.nodes[index];
                if node.count > 0 {
                    visit(node.next as usize, node.count as usize, &mut low, &mut high);
                    break;
                }
                let children = [index + 1, node.next as usize];
                let away = children
                    .map(|child| distance_along(&self.nodes[child], line, inverse, [low, high]));
                let (near, far) = match away[1] < away[0] {
                    true => (1, 0),
                    false => (0, 1),
                };
                if away[near] == f32::INFINITY {
                    break;
                }
                if away[far] < f32::INFINITY {
                    stack[held] = children[far] as u32;
                    held += 1;
                }
                index = children[near];
            }
        }
        found
    }

    /// The nearest point that is no farther than `most`.
    pub(crate) fn nearest(&self, point: Point, most: f32) -> Option<Nearest> {
        let mut least = most * most;
        let mut found = None;
        let mut stack = [(0_u32, 0.0_f32); DEEPEST];
        let mut held = usize::from(!self.nodes.is_empty());
        while held > 0 {
            held -= 1;
            let (mut index, away) = stack[held];
            if away > least {
                continue;
            }
            loop {
                let node = &self.nodes[index as usize];
                if node.count > 0 {
                    for at in node.next as usize..(node.next + node.count) as usize {
                        let weights = nearest_weights(&self.corners[at], point);
                        let place = blend(&self.corners[at], weights);
                        let away = square(sub(place, point));
                        if away <= least {
                            least = away;
                            found = Some((at, weights));
                        }
                    }
                    break;
                }
                let children = [index + 1, node.next];
                let away = children.map(|child| outside(&self.nodes[child as usize], point));
                let (near, far) = match away[1] < away[0] {
                    true => (1, 0),
                    false => (0, 1),
                };
                if away[near] > least {
                    break;
                }
                if away[far] <= least {
                    stack[held] = (children[far], away[far]);
                    held += 1;
                }
                index = children[near];
            }
        }
        found.map(|(at, weights)| Nearest {
            triangle: self.order[at],
            weights,
            distance: least.sqrt(),
        })
    }
}

/// Builds the subtree of `order` into `nodes`, which begins at these places of the whole arrays: node, triangle.
fn build(
    nodes: &mut [Node],
    order: &mut [u32],
    (at, first): (usize, usize),
    of: &(impl Fn(&u32) -> [Point; 3] + Sync),
) {
    let mut ticker = Ticker::default();
    ticker.did(order.len());
    let [mut low, mut high] = [[f32::INFINITY; 3], [f32::NEG_INFINITY; 3]];
    let (mut least, mut most) = (low, high);
    for triangle in order.iter() {
        let corners = of(triangle);
        for axis in 0..3 {
            for corner in corners {
                low[axis] = low[axis].min(corner[axis]);
                high[axis] = high[axis].max(corner[axis]);
            }
            let centre = centre(&corners, axis);
            least[axis] = least[axis].min(centre);
            most[axis] = most[axis].max(centre);
        }
    }
    let (next, count) = match order.len() {
        count @ 0..=LEAF => (first, count),
        count => {
            let leaves = count.div_ceil(LEAF);
            let of_first = leaves.div_ceil(2);
            let side = |axis: usize| most[axis] - least[axis];
            let longest = (1..3).fold(0, |best, axis| match side(axis) > side(best) {
                true => axis,
                false => best,
            });
            let split = of_first * LEAF;
            order.select_nth_unstable_by(split, |a, b| {
                let [one, other] = [a, b].map(|triangle| centre(&of(triangle), longest));
                one.total_cmp(&other).then(a.cmp(b))
            });
            let (orders, others) = order.split_at_mut(split);
            let (nodes, their_nodes) = nodes[1..].split_at_mut(2 * of_first - 1);
            let next = at + 2 * of_first;
            let mut begin = || build(nodes, orders, (at + 1, first), of);
            let mut rest = || build(their_nodes, others, (next, first + split), of);
            match count > SIDE_BY_SIDE {
                true => drop(rayon::join(begin, rest)),
                false => {
                    begin();
                    rest();
                }
            }
            (next, 0)
        }
    };
    nodes[0] = Node {
        low,
        high,
        next: next as u32,
        count: count as u32,
    };
}

/// Three times the coordinate of the centre.
fn centre(corners: &[Point; 3], axis: usize) -> f32 {
    corners[0][axis] + corners[1][axis] + corners[2][axis]
}

/// Least distance from the line's origin at which it is in the box within `reach`; infinite where it is not.
fn distance_along(node: &Node, line: &Line, inverse: Point, [low, high]: [f32; 2]) -> f32 {
    let (mut enters, mut leaves) = (low, high);
    for axis in 0..3 {
        // Where the line lies in a side of the box, 0 · ∞ is no number, which `min` and `max` pass over.
        let one = (node.low[axis] - line.from[axis]) * inverse[axis];
        let other = (node.high[axis] - line.from[axis]) * inverse[axis];
        enters = enters.max(one.min(other));
        leaves = leaves.min(one.max(other));
    }
    match enters <= leaves {
        true => enters.max(-leaves).max(0.0),
        false => f32::INFINITY,
    }
}

/// Signed distance and barycentric coordinates of where a line meets a triangle. In doubles: of slivers, and along edges, 32
/// bits are a matter of luck.
fn meet(corners: &[Point; 3], line: &Line) -> Option<(f32, [f32; 3])> {
    let [a, b, c] = corners.map(|corner| corner.map(f64::from));
    let (from, along) = (line.from.map(f64::from), line.along.map(f64::from));
    let (one, two) = (vector::sub(b, a), vector::sub(c, a));
    let across = vector::cross(along, two);
    let determinant = vector::dot(one, across);
    let meets = match line.facing {
        Facing::Any => determinant != 0.0,
        Facing::Along => determinant < 0.0,
    };
    if !meets {
        return None;
    }
    let inverse = 1.0 / determinant;
    let off = vector::sub(from, a);
    let u = vector::dot(off, across) * inverse;
    let over = vector::cross(off, one);
    let v = vector::dot(along, over) * inverse;
    let within = u >= -SLACK && v >= -SLACK && u + v <= 1.0 + SLACK;
    let at = vector::dot(two, over) * inverse;
    within.then(|| (at as f32, [1.0 - u - v, u, v].map(|weight| weight as f32)))
}

/// Square of the distance from a point to a box.
fn outside(node: &Node, point: Point) -> f32 {
    let off = |axis: usize| {
        (node.low[axis] - point[axis])
            .max(point[axis] - node.high[axis])
            .max(0.0)
    };
    square([off(0), off(1), off(2)])
}

/// Barycentric coordinates of the point of a triangle that is nearest to `point`.
fn nearest_weights(&[a, b, c]: &[Point; 3], point: Point) -> [f32; 3] {
    let (ab, ac, ap) = (sub(b, a), sub(c, a), sub(point, a));
    let (d1, d2) = (dot(ab, ap), dot(ac, ap));
    if d1 <= 0.0 && d2 <= 0.0 {
        return [1.0, 0.0, 0.0];
    }
    let bp = sub(point, b);
    let (d3, d4) = (dot(ab, bp), dot(ac, bp));
    if d3 >= 0.0 && d4 <= d3 {
        return [0.0, 1.0, 0.0];
    }
    let cp = sub(point, c);
    let (d5, d6) = (dot(ab, cp), dot(ac, cp));
    if d6 >= 0.0 && d5 <= d6 {
        return [0.0, 0.0, 1.0];
    }
    let of_c = d1 * d4 - d3 * d2;
    if of_c <= 0.0 && d1 >= 0.0 && d3 <= 0.0 && d1 > d3 {
        let share = d1 / (d1 - d3);
        return [1.0 - share, share, 0.0];
    }
    let of_b = d5 * d2 - d1 * d6;
    if of_b <= 0.0 && d2 >= 0.0 && d6 <= 0.0 && d2 > d6 {
        let share = d2 / (d2 - d6);
        return [1.0 - share, 0.0, share];
    }
    let of_a = d3 * d6 - d5 * d4;
    if of_a <= 0.0 && d4 >= d3 && d5 >= d6 && d4 + d5 > d3 + d6 {
        let share = (d4 - d3) / ((d4 - d3) + (d5 - d6));
        return [0.0, 1.0 - share, share];
    }
    let whole = of_a + of_b + of_c;
    // A triangle that is a point.
    if whole == 0.0 {
        return [1.0, 0.0, 0.0];
    }
    [of_a / whole, of_b / whole, of_c / whole]
}

/// The point of a triangle, or the mean of what its corners have, with these weights.
pub(crate) fn blend(corners: &[Point; 3], weights: [f32; 3]) -> Point {
    std::array::from_fn(|k| {
        (0..3)
            .map(|corner| weights[corner] * corners[corner][k])
            .sum()
    })
}

/// The vector of length one; none where it has no direction.
pub(crate) fn unit_vector(v: Point) -> Option<Point> {
    vector::unit(v.map(f64::from)).map(|v| v.map(|x| x as f32))
}

pub(crate) fn sub(a: Point, b: Point) -> Point {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

pub(crate) fn dot(a: Point, b: Point) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(crate) fn cross(a: Point, b: Point) -> Point {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

fn square(v: Point) -> f32 {
    dot(v, v)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number in 0..1 for each count, by the golden ratio and its powers.
    fn noise(k: usize) -> f32 {
        ((k as f64 * 0.618_033_988_749_895).fract() * 977.0).fract() as f32
    }

    /// Small triangles anywhere in the unit cube, some of them degenerate.
    fn soup(count: usize) -> (Vec<Point>, Vec<[u32; 3]>) {
        let point = |k: usize| [0, 1, 2].map(|axis| noise(3 * k + axis));
        let corner = |k: usize| {
            let around = point(k / 3);
            let off = point(k + 7_000_000);
            std::array::from_fn(|axis| around[axis] + 0.1 * (off[axis] - 0.5))
        };
        let mut positions: Vec<Point> = (0..3 * count).map(corner).collect();
        for k in (0..count).step_by(17) {
            positions[3 * k + 1] = positions[3 * k];
        }
        let triangles = (0..count as u32).map(|k| [3 * k, 3 * k + 1, 3 * k + 2]);
        (positions, triangles.collect())
    }

    #[test]
    fn a_line_meets_what_a_search_of_all_triangles_finds() {
        let mut hits = 0;
        for count in [0, 1, 3, 4, 5, 8, 9, 100, 1000] {
            let (positions, triangles) = soup(count);
            let tree = Hierarchy::new(&positions, &triangles);
            for k in 0..300 {
                let [x, y, z] = [0, 1, 2].map(|axis| noise(90_000 + 3 * k + axis) - 0.5);
                // Some run along an axis, whose inverse is infinite.
                let along = match k % 5 {
                    0 => [1.0, 0.0, 0.0],
                    1 => [0.0, -1.0, 0.0],
                    _ => unit_vector([x, y, z]).expect("a direction"),
                };
                let line = Line {
                    from: [0, 1, 2].map(|axis| noise(3 * k + axis)),
                    along,
                    reach: [[-0.3, 0.3], [0.001, 2.0], [-2.0, 0.1]][k % 3],
                    facing: [Facing::Any, Facing::Along][k % 2],
                };
                let all = triangles.iter().filter_map(|corners| {
                    let corners = corners.map(|corner| positions[corner as usize]);
                    let (t, _) = meet(&corners, &line)?;
                    (t >= line.reach[0] && t <= line.reach[1]).then_some(t.abs())
                });
                let wanted = all.min_by(f32::total_cmp);
                let found = tree.meets(&line);
                assert_eq!(found.map(|hit| hit.at.abs()), wanted, "{count} {line:?}");
                if let Some(hit) = found {
                    hits += 1;
                    let corners = triangles[hit.triangle as usize].map(|k| positions[k as usize]);
                    let place = blend(&corners, hit.weights);
                    for axis in 0..3 {
                        let on_line = line.from[axis] + hit.at * line.along[axis];
                        assert!((place[axis] - on_line).abs() < 1e-3, "{place:?} {on_line}");
                    }
                    let normal = cross(sub(corners[1], corners[0]), sub(corners[2], corners[0]));
                    assert!(line.facing == Facing::Any || dot(normal, line.along) > 0.0);
                }
            }
        }
        assert!(hits > 300, "{hits}");
    }

    #[test]
    fn the_nearest_point_is_that_of_a_search_over_all_triangles_and_places() {
        for count in [1, 4, 7, 300] {
            let (positions, triangles) = soup(count);
            let tree = Hierarchy::new(&positions, &triangles);
            for k in 0..60 {
                let point = [0, 1, 2].map(|axis| 1.4 * noise(40_000 + 3 * k + axis) - 0.2);
                let found = tree.nearest(point, 10.0).expect("a surface");
                let corners = |triangle: u32| {
                    triangles[triangle as usize].map(|corner| positions[corner as usize])
                };
                let place = blend(&corners(found.triangle), found.weights);
                assert!((square(sub(place, point)).sqrt() - found.distance).abs() < 1e-6);
                // No place of a grid on any triangle is nearer, and one is nearly as near.
                let mut least = f32::INFINITY;
                for triangle in 0..count as u32 {
                    for cell in 0..400_u16 {
                        let (u, v) = (f32::from(cell % 20) / 19.0, f32::from(cell / 20) / 19.0);
                        if u + v <= 1.0 {
                            let place = blend(&corners(triangle), [1.0 - u - v, u, v]);
                            least = least.min(square(sub(place, point)).sqrt());
                        }
                    }
                }
                assert!(found.distance <= least + 1e-6, "{} {least}", found.distance);
                assert!(least - found.distance < 0.01, "{} {least}", found.distance);
                assert_eq!(tree.nearest(point, 0.99 * found.distance), None);
            }
        }
    }

    #[test]
    fn nothing_slips_between_two_triangles() {
        // A fan about the origin, seen along the common edges.
        let rim = |k: u32| {
            let (sin, cos) = (k as f32).sin_cos();
            [cos, sin, 0.1 * noise(k as usize)]
        };
        let mut positions = vec![[0.0; 3]];
        positions.extend((0..7).map(rim));
        let triangles: Vec<[u32; 3]> = (0..6).map(|k| [0, k + 1, k + 2]).collect();
        let tree = Hierarchy::new(&positions, &triangles);
        for k in 1..6 {
            for step in 1..100 {
                let [x, y, _] = rim(k).map(|x| x * step as f32 / 100.0);
                let line = Line {
                    from: [x, y, 1.0],
                    along: [0.0, 0.0, -1.0],
                    reach: [0.0, 2.0],
                    facing: Facing::Any,
                };
                assert!(tree.meets(&line).is_some(), "{k} {step}");
            }
        }
    }
}
