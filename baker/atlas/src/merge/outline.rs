//! Whether the outlines of two charts laid side by side keep their distance.

use std::collections::{HashMap, HashSet};

use super::border::{Border, Pair};
use crate::piece::Chart;

/// Outlines always meet at the ends of a shared border. The gap may open within this many times its width from there.
const OPENS: f64 = 3.0;
/// Smallest sine of the angle between outlines that meet.
const SHARPEST: f64 = 0.1;

/// The boundary edges of a chart, in the direction of its triangles.
#[derive(Clone, Debug, Default)]
pub(super) struct Outline {
    pub(super) edges: Vec<[u32; 2]>,
    length: f64,
}

impl Outline {
    pub(super) fn of(chart: &Chart) -> Self {
        let sides = || {
            let of = |&[a, b, c]: &[u32; 3]| [[a, b], [b, c], [c, a]];
            chart.triangles.iter().flat_map(of)
        };
        // The ends of all edges that begin at a vertex, vertex by vertex.
        let mut starts = vec![0_u32; chart.uvs.len() + 1];
        for [a, _] in sides() {
            starts[a as usize + 1] += 1;
        }
        for vertex in 1..starts.len() {
            starts[vertex] += starts[vertex - 1];
        }
        let mut places = starts.clone();
        let mut ends = vec![0; 3 * chart.triangles.len()];
        for [a, b] in sides() {
            ends[places[a as usize] as usize] = b;
            places[a as usize] += 1;
        }
        let is_edge = |[a, b]: [u32; 2]| {
            ends[starts[a as usize] as usize..starts[a as usize + 1] as usize].contains(&b)
        };
        let mut outline = Self {
            edges: sides().filter(|&[a, b]| !is_edge([b, a])).collect(),
            length: 0.0,
        };
        outline.measure(chart);
        outline
    }

    fn measure(&mut self, chart: &Chart) {
        let length = |edge: &[u32; 2]| {
            let [a, b] = edge.map(|vertex| chart.uvs[vertex as usize]);
            distance(a, b)
        };
        self.length = self.edges.iter().map(length).sum();
    }

    /// Length in units of the mesh.
    pub(super) fn length(&self) -> f64 {
        self.length
    }

    /// Becomes the outline of both charts. `numbers` are the new indices of `other`'s vertices, and the border becomes
    /// interior.
    pub(super) fn take(&mut self, other: Self, numbers: &[u32], border: &Border, whole: &Chart) {
        let within: HashSet<[u32; 2]> = border
            .edges
            .iter()
            .map(|edge| edge.map(|pair| pair.other))
            .collect();
        // The neighbour's triangles run along it in the opposite direction.
        self.edges.retain(|&[a, b]| !within.contains(&[b, a]));
        let added = other
            .edges
            .into_iter()
            .map(|edge| edge.map(|vertex| numbers[vertex as usize]))
            .filter(|edge| !within.contains(edge));
        self.edges.extend(added);
        self.measure(whole);
    }
}

fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

/// The lowest and the highest coordinates of a chart.
pub(super) type Bounds = [[f64; 2]; 2];

pub(super) fn bounds(uvs: &[[f64; 2]]) -> Bounds {
    let widest = [[f64::INFINITY; 2], [f64::NEG_INFINITY; 2]];
    uvs.iter().fold(widest, |[low, high], uv| {
        let both = [0, 1];
        [
            both.map(|axis| low[axis].min(uv[axis])),
            both.map(|axis| high[axis].max(uv[axis])),
        ]
    })
}

/// Whether two bounds come closer than the gap.
pub(super) fn are_near(a: &Bounds, b: &Bounds, gap: f64) -> bool {
    (0..2).all(|axis| a[0][axis] <= b[1][axis] + gap && b[0][axis] <= a[1][axis] + gap)
}

/// Signed double area of a triangle; the sign is its orientation.
fn turn(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> f64 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

/// An edge with the identity of its vertices, which tells which edges meet.
#[derive(Clone, Copy, Debug)]
struct Edge {
    ends: [[f64; 2]; 2],
    /// Indices of the outer chart where the vertex is shared; other vertices have higher ones.
    vertices: [u32; 2],
}

impl Edge {
    fn is_near(&self, other: &Self, gap: f64) -> bool {
        are_near(&bounds(&self.ends), &bounds(&other.ends), gap)
    }

    fn crosses(&self, other: &Self) -> bool {
        let ([a, b], [c, d]) = (self.ends, other.ends);
        turn(a, b, c) * turn(a, b, d) <= 0.0 && turn(c, d, a) * turn(c, d, b) <= 0.0
    }

    /// Whether the ends of both non-crossing edges keep a gap from the other edge, except for ends where the gap
    /// `opens`.
    fn keeps(&self, other: &Self, gap: f64, opens: impl Fn([f64; 2]) -> bool) -> bool {
        let from = |point: [f64; 2], [a, b]: [[f64; 2]; 2]| {
            let along = [b[0] - a[0], b[1] - a[1]];
            let square = along[0] * along[0] + along[1] * along[1];
            let share = (point[0] - a[0]) * along[0] + (point[1] - a[1]) * along[1];
            let share = if square > 0.0 {
                (share / square).clamp(0.0, 1.0)
            } else {
                0.0
            };
            distance(point, [a[0] + share * along[0], a[1] + share * along[1]])
        };
        let far = |one: &Self, other: &Self| {
            one.ends
                .iter()
                .all(|&point| from(point, other.ends) >= gap || opens(point))
        };
        far(self, other) && far(other, self)
    }

    /// A shared vertex, with the other ends of both edges.
    fn meets(&self, other: &Self) -> Option<([f64; 2], [f64; 2], [f64; 2])> {
        for k in 0..2 {
            for l in 0..2 {
                if self.vertices[k] == other.vertices[l] {
                    return Some((self.ends[k], self.ends[1 - k], other.ends[1 - l]));
                }
            }
        }
        None
    }
}

/// Whether the outline of the inner chart, laid at `border` of the outer one, keeps its distance from it and from
/// itself.
pub(super) fn is_free(
    (outer, outer_uvs): (&Outline, &[[f64; 2]]),
    (inner, inner_uvs): (&Outline, &[[f64; 2]]),
    border: &Border,
    gap: f64,
) -> bool {
    let mut numbers: Vec<u32> = (0..inner_uvs.len() as u32)
        .map(|vertex| outer_uvs.len() as u32 + vertex)
        .collect();
    for pair in &border.pairs {
        numbers[pair.own as usize] = pair.other;
    }
    let edge = |[a, b]: [u32; 2], uvs: &[[f64; 2]]| [uvs[a as usize], uvs[b as usize]];
    let shared: HashSet<[u32; 2]> = border
        .edges
        .iter()
        .map(|e| e.map(|pair| pair.other))
        .collect();
    let new: Vec<Edge> = inner
        .edges
        .iter()
        .map(|&ends| Edge {
            ends: edge(ends, inner_uvs),
            vertices: ends.map(|vertex| numbers[vertex as usize]),
        })
        .filter(|edge| !shared.contains(&edge.vertices))
        .collect();
    let bounds = Edge {
        ends: bounds(inner_uvs),
        vertices: [u32::MAX; 2],
    };
    let old: Vec<Edge> = outer
        .edges
        .iter()
        .map(|&ends| Edge {
            ends: edge(ends, outer_uvs),
            vertices: ends,
        })
        .filter(|edge| edge.is_near(&bounds, gap))
        .collect();
    if !room_at_ends(&old, &new, border, (inner, inner_uvs)) {
        return false;
    }
    let ends = loose_ends(border, outer_uvs);
    let opens = |point: [f64; 2]| {
        let near = |&end: &[f64; 2]| distance(point, end) < OPENS * gap;
        ends.iter().any(near)
    };
    let apart = |one: &Edge, other: &Edge, gap: f64| {
        if !one.is_near(other, gap) {
            return true;
        }
        if let Some((at, a, b)) = one.meets(other) {
            let lengths = distance(at, a) * distance(at, b);
            let along = (a[0] - at[0]) * (b[0] - at[0]) + (a[1] - at[1]) * (b[1] - at[1]);
            return along <= 0.0 || turn(at, a, b).abs() > SHARPEST * lengths;
        }
        !one.crosses(other) && (gap == 0.0 || one.keeps(other, gap, opens))
    };
    new.iter().enumerate().all(|(nth, one)| {
        let from_old = old.iter().all(|other| {
            let within = shared.contains(&[other.vertices[1], other.vertices[0]]);
            apart(one, other, if within { 0.0 } else { gap })
        });
        // A chart keeps the gaps it had within itself.
        let itself = |other: &Edge| one.meets(other).is_some() || apart(one, other, 0.0);
        from_old && new[nth + 1..].iter().all(itself)
    })
}

/// Whether at each end of the border the inner chart's corner lies between the border and the outer chart's next edge.
/// Without this test the whole inner chart could lie within the outer one and cross none of its edges, entering at a
/// shared vertex.
///
/// `old` are the nearby edges of the outer chart, `new` the inner chart's edges that are not on the border.
fn room_at_ends(
    old: &[Edge],
    new: &[Edge],
    border: &Border,
    (inner, inner_uvs): (&Outline, &[[f64; 2]]),
) -> bool {
    let across = |&[a, b]: &[u32; 2]| {
        let [a, b] = [a, b].map(|vertex| inner_uvs[vertex as usize]);
        a[0] * b[1] - a[1] * b[0]
    };
    let sign = inner.edges.iter().map(across).sum::<f64>().signum();
    let within: HashSet<[u32; 2]> = border
        .edges
        .iter()
        .map(|&[a, b]| [b.other, a.other])
        .collect();
    let held: HashSet<u32> = border.pairs.iter().map(|pair| pair.other).collect();
    // For each vertex on the border, where other edges lead.
    let mut leads: [HashMap<u32, Vec<[f64; 2]>>; 2] = Default::default();
    for (edges, leads) in [new, old].into_iter().zip(&mut leads) {
        for edge in edges.iter().filter(|edge| !within.contains(&edge.vertices)) {
            for end in 0..2 {
                if held.contains(&edge.vertices[end]) {
                    let to = leads.entry(edge.vertices[end]).or_default();
                    to.push(edge.ends[1 - end]);
                }
            }
        }
    }
    let [inwards, outwards] = leads;
    let to = |leads: &HashMap<u32, Vec<[f64; 2]>>, pair: &Pair| {
        leads.get(&pair.other).cloned().unwrap_or_default()
    };
    border.pairs.iter().all(|pair| {
        let along: Vec<&[Pair; 2]> = border
            .edges
            .iter()
            .filter(|edge| edge.contains(pair))
            .collect();
        match (
            &along[..],
            &to(&inwards, pair)[..],
            &to(&outwards, pair)[..],
        ) {
            ([_, _], [], []) => true,
            ([edge], &[inwards], &[outwards]) => {
                let [start, end] = **edge;
                let (far, turned) = if start == *pair {
                    (end, sign)
                } else {
                    (start, -sign)
                };
                let [at, far] = [*pair, far].map(|pair| inner_uvs[pair.own as usize]);
                let angle = |to: [f64; 2]| (to[1] - at[1]).atan2(to[0] - at[0]);
                // Angle from the border, through the inner chart's corner.
                let through =
                    |to| (turned * (angle(to) - angle(far))).rem_euclid(std::f64::consts::TAU);
                through(inwards) < through(outwards)
            }
            // A chart that touches itself in a point there.
            _ => false,
        }
    })
}

/// The ends of a border in the outer chart; none where it is closed.
fn loose_ends(border: &Border, uvs: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let vertices = border.edges.as_flattened();
    let times = |vertex: u32| vertices.iter().filter(|pair| pair.other == vertex).count();
    let ends = border.pairs.iter().filter(|pair| times(pair.other) == 1);
    ends.map(|pair| uvs[pair.other as usize]).collect()
}
