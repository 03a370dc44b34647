//! Triangles → the hit of a line that is nearest to its origin, and the point on them that is nearest to a point.
//!
//! A tree of boxes, [`WIDE`] children to a node and [`WIDE`] triangles to a leaf, in arrays that fill a vector register
//! (Wald, Benthin and Boulos, "Getting rid of packets", 2008); [`build`](mod@build) says how it is split. Four triangles are
//! looked at in 32 bits with bounds of their rounding, and only what they leave open in 64, as in Möller and Trumbore (1997).
//! Nearest points are found as in Ericson, "Real-Time Collision Detection" (2005), 5.1.5. Crates of this kind (obvhs, bvh)
//! answer no nearest point.

mod build;
mod four;
#[cfg(test)]
mod tests;

use kiln_raster::vector;

use self::four::{Four, Vectors, crosses, dots, less, sizes};
use crate::worker::progress::unit;

type Point = [f32; 3];

/// Children of a node, and triangles of a leaf.
const WIDE: usize = 4;
/// Marks a child that is a leaf.
const LEAF: u32 = 1 << 31;
/// Most that wait: three children of each level, and the root.
const DEEPEST: usize = 3 * build::LEVELS + 1;
/// Children that one query looks at before it tells of itself. Those who ask count queries, which mostly take some dozens.
const MANY: usize = 1 << 10;
/// Share of the products' sizes by which a sum of three products of 32 bits may be wrong, with much to spare.
const ROUNDING: f32 = 4e-6;
/// Inverse of a direction's zero, so that no box gives 0 · ∞.
const STEEP: f32 = 1e20;
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

/// Four boxes and what is in them.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Least and largest coordinates, by axis. A box that is not there is inside out.
    bounds: [Vectors; 2],
    /// Indices of nodes, or with [`LEAF`] those of leaves.
    children: [u32; WIDE],
}

/// Four triangles; those that are not there have their corners in one point.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    /// By corner and axis.
    corners: [Vectors; 3],
    triangles: [u32; WIDE],
    count: u32,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    nodes: Vec<Node>,
    leaves: Vec<Leaf>,
}

/// A line as the boxes are met with it.
struct Ray<'a> {
    line: &'a Line,
    from: Vectors,
    along: Vectors,
    inverse: Vectors,
    /// For each axis which of the bounds the line meets first: 0 the least, 1 the largest.
    first: [usize; 3],
    /// [`ROUNDING`] times the direction's size.
    wrong: Four,
}

impl Hierarchy {
    /// The hierarchy of these triangles.
    pub(crate) fn new(positions: &[Point], triangles: &[[u32; 3]]) -> Self {
        unit();
        let (nodes, leaves) = build::build(positions, triangles);
        unit();
        Self { nodes, leaves }
    }

    /// Bytes of the hierarchy of so many triangles, and of what it is built of, about: leaves are three quarters full.
    pub(crate) fn bytes(triangles: usize) -> usize {
        let leaves = triangles * 4 / (3 * WIDE);
        leaves * size_of::<Leaf>() + leaves / 2 * size_of::<Node>() + triangles * build::ITEM_BYTES
    }

    /// The hit with the least distance from the line's origin.
    pub(crate) fn meets(&self, line: &Line) -> Option<Hit> {
        let ray = Ray::new(line);
        let [mut low, mut high] = line.reach;
        let mut found = None;
        let mut waiting = Waiting::new(&self.nodes);
        while let Some((child, away)) = waiting.next() {
            if away > high.max(-low) {
                continue;
            }
            if child & LEAF == 0 {
                let node = &self.nodes[child as usize];
                let (away, within) = ray.distances(node, [low, high]);
                waiting.add(node, away, within);
                continue;
            }
            let leaf = &self.leaves[(child ^ LEAF) as usize];
            for at in set(ray.may_meet(leaf)) {
                let Some((t, weights)) = meet(&leaf.triangle(at), line) else {
                    continue;
                };
                if t >= low && t <= high {
                    (low, high) = (low.max(-t.abs()), high.min(t.abs()));
                    found = Some(Hit {
                        triangle: leaf.triangles[at],
                        weights,
                        at: t,
                    });
                }
            }
        }
        found
    }

    /// The nearest point that is no farther than `most`.
    pub(crate) fn nearest(&self, point: Point, most: f32) -> Option<Nearest> {
        let mut least = most * most;
        let mut found = None;
        let mut waiting = Waiting::new(&self.nodes);
        while let Some((child, away)) = waiting.next() {
            if away > least {
                continue;
            }
            if child & LEAF == 0 {
                let node = &self.nodes[child as usize];
                let away = node.squares(point);
                waiting.add(node, away, away.at_most(Four::all(least)));
                continue;
            }
            let leaf = &self.leaves[(child ^ LEAF) as usize];
            for at in 0..leaf.count as usize {
                let corners = leaf.triangle(at);
                let weights = nearest_weights(&corners, point);
                let away = square(sub(blend(&corners, weights), point));
                if away <= least {
                    least = away;
                    found = Some((leaf.triangles[at], weights));
                }
            }
        }
        found.map(|(triangle, weights)| Nearest {
            triangle,
            weights,
            distance: least.sqrt(),
        })
    }
}

/// What is still to be looked at, the nearest last, with its distance.
struct Waiting {
    children: [(u32, f32); DEEPEST],
    held: usize,
    looked_at: usize,
}

impl Waiting {
    fn new(nodes: &[Node]) -> Self {
        Self {
            children: [(0, 0.0); DEEPEST],
            held: usize::from(!nodes.is_empty()),
            looked_at: 0,
        }
    }

    fn next(&mut self) -> Option<(u32, f32)> {
        self.held = self.held.checked_sub(1)?;
        self.looked_at += 1;
        if self.looked_at.is_multiple_of(MANY) {
            unit();
        }
        Some(self.children[self.held])
    }

    /// The children of a node whose bits are set.
    #[inline(always)]
    fn add(&mut self, node: &Node, away: Four, bits: u32) {
        let from = self.held;
        for k in set(bits) {
            let away = away.0[k];
            let mut at = self.held;
            self.held += 1;
            while at > from && self.children[at - 1].1 < away {
                self.children[at] = self.children[at - 1];
                at -= 1;
            }
            self.children[at] = (node.children[k], away);
        }
    }
}

/// Indices of the bits that are set.
fn set(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (at < u32::BITS).then_some(at as usize)
    })
}

impl Node {
    /// Squares of the distances from a point to the boxes; infinite of one that is not there.
    fn squares(&self, point: Point) -> Four {
        let [low, high] = &self.bounds;
        let off: Vectors = std::array::from_fn(|axis| {
            let at = Four::all(point[axis]);
            (low[axis] - at).max(at - high[axis]).max(Four::all(0.0))
        });
        dots(&off, &off)
    }
}

impl Leaf {
    fn triangle(&self, at: usize) -> [Point; 3] {
        self.corners.map(|axes| axes.map(|of| of.0[at]))
    }
}

impl<'a> Ray<'a> {
    fn new(line: &'a Line) -> Self {
        let steep = |x: f32| (1.0 / x).clamp(-STEEP, STEEP);
        let size: f32 = line.along.iter().map(|x| x.abs()).sum();
        Self {
            line,
            from: line.from.map(Four::all),
            along: line.along.map(Four::all),
            inverse: line.along.map(|x| Four::all(steep(x))),
            first: line.along.map(|x| usize::from(x.is_sign_negative())),
            wrong: Four::all(ROUNDING * size),
        }
    }

    /// Least distances from the line's origin at which it is in the boxes within `reach`, and a bit for each where it is.
    #[inline(always)]
    fn distances(&self, node: &Node, [low, high]: [f32; 2]) -> (Four, u32) {
        let (mut enters, mut leaves) = (Four::all(low), Four::all(high));
        for axis in 0..3 {
            let first = node.bounds[self.first[axis]][axis];
            let last = node.bounds[1 - self.first[axis]][axis];
            enters = ((first - self.from[axis]) * self.inverse[axis]).max(enters);
            leaves = ((last - self.from[axis]) * self.inverse[axis]).min(leaves);
        }
        let away = enters.max(-leaves).max(Four::all(0.0));
        (away, enters.at_most(leaves))
    }

    /// A bit for each triangle; clear where the line passes it by, whatever 32 bits round.
    #[inline(always)]
    fn may_meet(&self, leaf: &Leaf) -> u32 {
        let [a, b, c] = &leaf.corners;
        let (one, two, off) = (less(b, a), less(c, a), less(&self.from, a));
        let across = crosses(&self.along, &two);
        let over = crosses(&off, &one);
        let whole = dots(&one, &across);
        // With the sign that the determinant has.
        let u = dots(&off, &across).signed_by(whole);
        let v = dots(&self.along, &over).signed_by(whole);
        let (of_one, of_two) = (sizes(&one), sizes(&two));
        let of_whole = self.wrong * of_one * of_two;
        let slack = self.wrong * sizes(&off) * (of_one + of_two) + of_whole + of_whole;
        let bits = (-slack).at_most(u) & (-slack).at_most(v);
        let bits = bits & (u + v).at_most(whole.abs() + slack);
        match self.line.facing {
            Facing::Any => bits,
            Facing::Along => bits & whole.at_most(of_whole),
        }
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
