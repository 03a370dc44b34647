//! Connectivity of a triangle list: shared edges, connected parts and borders.
//!
//! Half-edge `3t + k` runs from corner k of triangle t to corner k + 1. An edge of two triangles links them, whatever
//! their winding. An edge of one triangle is a border. An edge of three or more links nothing and is counted. Borders
//! are followed around the fan of triangles at each point, so two sheets that touch in a point have a border each.

use std::collections::HashMap;

use proto::message::MeshCounts;

/// The half-edge has no mate.
const BORDER: u32 = u32::MAX;
/// Its edge has three triangles or more.
const CROWDED: u32 = u32::MAX - 1;

#[derive(Debug)]
pub(super) struct Topology {
    mates: Vec<u32>,
    /// The connected part of each triangle, over edges of two triangles, numbered by its first triangle.
    pub(super) parts: Vec<u32>,
    pub(super) part_count: usize,
    counts: MeshCounts,
    /// Closed borders, none with a point twice.
    pub(super) loops: Vec<Border>,
}

/// A closed border: its points in order, each with the half-edge to the next, in either direction.
pub(super) type Border = Vec<Step>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) point: u32,
    pub(super) half: u32,
}

/// The end points of a half-edge.
pub(super) fn ends(triangles: &[[u32; 3]], half: u32) -> [u32; 2] {
    let (triangle, k) = (triangles[half as usize / 3], half as usize % 3);
    [triangle[k], triangle[(k + 1) % 3]]
}

impl Topology {
    /// Builds it from triangles with corners below `points`, all three different.
    pub(super) fn new(triangles: &[[u32; 3]], points: usize) -> Self {
        let mut counts = MeshCounts {
            triangles: triangles.len() as u64,
            ..MeshCounts::default()
        };
        let mates = mates(triangles, points, &mut counts);
        let (parts, part_count) = parts(&mates);
        counts.parts = part_count as u64;
        let mut topology = Self {
            mates,
            parts,
            part_count,
            counts,
            loops: Vec::new(),
        };
        topology.loops = topology.borders(triangles);
        topology.counts.borders = topology.loops.len() as u64;
        topology
    }

    /// For the report.
    pub(super) fn counts(&self) -> MeshCounts {
        self.counts
    }

    /// The other half-edge of an edge with exactly two triangles.
    pub(super) fn mate(&self, half: u32) -> Option<u32> {
        let mate = self.mates[half as usize];
        (mate < CROWDED).then_some(mate)
    }

    pub(super) fn is_border(&self, half: u32) -> bool {
        self.mates[half as usize] == BORDER
    }

    pub(super) fn border_halves(&self) -> impl Iterator<Item = u32> {
        (0..self.mates.len() as u32).filter(|&half| self.is_border(half))
    }

    fn borders(&self, triangles: &[[u32; 3]]) -> Vec<Border> {
        let mut met = vec![false; self.mates.len()];
        let mut loops = Vec::new();
        for start in self.border_halves() {
            if met[start as usize] {
                continue;
            }
            met[start as usize] = true;
            let [first, mut at] = ends(triangles, start);
            let mut border = vec![Step {
                point: first,
                half: start,
            }];
            let mut half = start;
            let closed = loop {
                let Some(next) = self.around(triangles, half, at) else {
                    break false;
                };
                if next == start {
                    break true;
                }
                met[next as usize] = true;
                border.push(Step {
                    point: at,
                    half: next,
                });
                let [from, to] = ends(triangles, next);
                at = if from == at { to } else { from };
                half = next;
            };
            if closed {
                simple_loops(border, &mut loops);
            }
        }
        loops
    }

    /// The border at `point` at the other end of the fan of triangles that begins at the border `half`. None where the
    /// fan ends at a non-manifold edge.
    fn around(&self, triangles: &[[u32; 3]], mut half: u32, point: u32) -> Option<u32> {
        loop {
            let first = half - half % 3;
            let [from, _] = ends(triangles, half);
            half = first + (half % 3 + if from == point { 2 } else { 1 }) % 3;
            match self.mates[half as usize] {
                BORDER => return Some(half),
                CROWDED => return None,
                mate => half = mate,
            }
        }
    }
}

/// Also fills in the counts of edges.
fn mates(triangles: &[[u32; 3]], points: usize, counts: &mut MeshCounts) -> Vec<u32> {
    // Sorts half-edges by the smaller end (counting sort), then those of each point by the larger end.
    let mut starts = vec![0u32; points + 1];
    for corners in triangles {
        for k in 0..3 {
            starts[corners[k].min(corners[(k + 1) % 3]) as usize + 1] += 1;
        }
    }
    for point in 0..points {
        starts[point + 1] += starts[point];
    }
    let mut places = starts.clone();
    let mut halves = vec![[0u32; 2]; triangles.len() * 3];
    for (triangle, corners) in triangles.iter().enumerate() {
        for k in 0..3 {
            let (a, b) = (corners[k], corners[(k + 1) % 3]);
            let place = &mut places[a.min(b) as usize];
            halves[*place as usize] = [a.max(b), (3 * triangle + k) as u32];
            *place += 1;
        }
    }
    let mut mates = vec![BORDER; triangles.len() * 3];
    for point in 0..points {
        let of_point = &mut halves[starts[point] as usize..starts[point + 1] as usize];
        of_point.sort_unstable();
        for edge in of_point.chunk_by(|a, b| a[0] == b[0]) {
            match edge {
                [_] => counts.border_edges += 1,
                [[_, a], [_, b]] => {
                    mates[*a as usize] = *b;
                    mates[*b as usize] = *a;
                }
                many => {
                    counts.nonmanifold_edges += 1;
                    many.iter()
                        .for_each(|[_, half]| mates[*half as usize] = CROWDED);
                }
            }
        }
    }
    mates
}

fn parts(mates: &[u32]) -> (Vec<u32>, usize) {
    let mut parts = vec![u32::MAX; mates.len() / 3];
    let mut count = 0;
    let mut open = Vec::new();
    for seed in 0..parts.len() {
        if parts[seed] != u32::MAX {
            continue;
        }
        parts[seed] = count;
        open.push(seed as u32);
        while let Some(triangle) = open.pop() {
            for &mate in &mates[3 * triangle as usize..][..3] {
                let other = mate / 3;
                if mate < CROWDED && parts[other as usize] == u32::MAX {
                    parts[other as usize] = count;
                    open.push(other);
                }
            }
        }
        count += 1;
    }
    (parts, count as usize)
}

/// Splits a border where it meets itself.
fn simple_loops(border: Border, loops: &mut Vec<Border>) {
    let mut path: Border = Vec::with_capacity(border.len());
    let mut places: HashMap<u32, usize> = HashMap::new();
    for step in border {
        if let Some(&place) = places.get(&step.point) {
            let cut = path.split_off(place);
            for gone in &cut {
                places.remove(&gone.point);
            }
            loops.push(cut);
        }
        places.insert(step.point, path.len());
        path.push(step);
    }
    loops.push(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(triangles: &[[u32; 3]]) -> [u64; 4] {
        let counts = Topology::new(triangles, 16).counts();
        [
            counts.parts,
            counts.borders,
            counts.border_edges,
            counts.nonmanifold_edges,
        ]
    }

    #[test]
    fn edges_link_two_triangles_and_no_more() {
        assert_eq!(counts(&[]), [0; 4]);
        assert_eq!(counts(&[[0, 1, 2]]), [1, 1, 3, 0]);
        assert_eq!(counts(&[[0, 1, 2], [0, 2, 3]]), [1, 1, 4, 0]);
        // The second triangle is wound the other way.
        assert_eq!(counts(&[[0, 1, 2], [0, 3, 2]]), [1, 1, 4, 0]);
        // Three pages of a book: nothing is linked, and no border closes.
        assert_eq!(counts(&[[0, 1, 2], [0, 1, 3], [0, 1, 4]]), [3, 0, 6, 1]);
        let tetrahedron = [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]];
        assert_eq!(counts(&tetrahedron), [1, 0, 0, 0]);
    }

    #[test]
    fn sheets_that_touch_in_a_point_have_a_border_each() {
        assert_eq!(counts(&[[0, 1, 2], [0, 3, 4]]), [2, 2, 6, 0]);
        // A ring of triangles around a pinched hole: points 0 and 3 are one.
        let fan = Topology::new(&[[0, 1, 2], [2, 1, 3], [3, 1, 4]], 5);
        assert_eq!(fan.loops.len(), 1);
        let points: Vec<u32> = fan.loops[0].iter().map(|step| step.point).collect();
        assert_eq!(points, [0, 1, 4, 3, 2]);
    }

    #[test]
    fn a_border_that_meets_itself_is_cut_there() {
        let step = |point| Step { point, half: point };
        let mut loops = Vec::new();
        simple_loops([0, 1, 2, 3, 1, 4].map(step).to_vec(), &mut loops);
        let points: Vec<Vec<u32>> = loops
            .iter()
            .map(|border| border.iter().map(|step| step.point).collect())
            .collect();
        assert_eq!(points, [vec![1, 2, 3], vec![0, 1, 4]]);
    }
}
