//! A signed distance on a grid → the surface where it is zero.
//!
//! Marching cubes (Lorensen and Cline, 1987). The table is made here, from loops around the faces of a cube. Inside corners of an
//! ambiguous face are kept apart, on both sides alike, and no diagonal of a loop lies on a face. So every edge has two
//! triangles, and the surface is a manifold.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::volume::Volume;
use crate::work::{did, ticked};

/// Triangles, wound counter-clockwise as seen from outside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surface {
    /// Corners.
    pub positions: Vec<[f32; 3]>,
    /// Indices of corners.
    pub triangles: Vec<[u32; 3]>,
}

impl Surface {
    /// Where the distance is zero.
    pub(crate) fn of(volume: &Volume) -> Self {
        let table = table();
        let layers: Vec<Vec<Cell>> = (0..volume.size()[2] - 1)
            .into_par_iter()
            .map(|z| cells(volume, z))
            .collect();
        let mut surface = Self::default();
        let mut corners: HashMap<([usize; 3], usize), u32> = HashMap::new();
        for cell in layers.iter().flat_map(|layer| ticked(layer)) {
            for fan in &table[usize::from(cell.inside)] {
                let loop_: Vec<u32> = (fan.corners.iter())
                    .map(|&edge| {
                        let (axis, first) = (EDGES[edge].0, corner(EDGES[edge].1));
                        let at = std::array::from_fn(|k| cell.at[k] + first[k]);
                        *corners.entry((at, axis)).or_insert_with(|| {
                            surface.positions.push(crossing(volume, at, axis));
                            surface.positions.len() as u32 - 1
                        })
                    })
                    .collect();
                surface.fan(&loop_, fan.centred);
            }
        }
        surface
    }

    /// Adds the triangles of a loop.
    fn fan(&mut self, corners: &[u32], centred: bool) {
        if centred {
            let mut middle = [0.0; 3];
            for corner in corners {
                let at = self.positions[*corner as usize];
                middle = std::array::from_fn(|k| middle[k] + at[k] / corners.len() as f32);
            }
            let apex = self.positions.len() as u32;
            self.positions.push(middle);
            let pairs = (0..corners.len()).map(|k| [corners[k], corners[(k + 1) % corners.len()]]);
            self.triangles.extend(pairs.map(|[a, b]| [apex, a, b]));
            return;
        }
        let pairs = corners[1..].windows(2);
        let triangles = pairs.map(|pair| [corners[0], pair[0], pair[1]]);
        self.triangles.extend(triangles);
    }
}

/// A cube of eight voxels that the surface crosses.
struct Cell {
    /// Its first voxel.
    at: [usize; 3],
    /// Bit k: corner k lies inside.
    inside: u8,
}

/// A loop around a part of the surface in a cube.
#[derive(Clone, Debug)]
struct Fan {
    /// Edges of the cube; the first is the apex.
    corners: Vec<usize>,
    /// The apex is a corner of its own, in the middle.
    centred: bool,
}

/// Axis of an edge, and its first corner.
const EDGES: [(usize, usize); 12] = [
    (0, 0b000),
    (0, 0b010),
    (0, 0b100),
    (0, 0b110),
    (1, 0b000),
    (1, 0b001),
    (1, 0b100),
    (1, 0b101),
    (2, 0b000),
    (2, 0b001),
    (2, 0b010),
    (2, 0b011),
];
/// Corners of each face, counter-clockwise as seen from outside the cube.
const FACES: [[usize; 4]; 6] = [
    [0b000, 0b100, 0b110, 0b010],
    [0b001, 0b011, 0b111, 0b101],
    [0b000, 0b001, 0b101, 0b100],
    [0b010, 0b110, 0b111, 0b011],
    [0b000, 0b010, 0b011, 0b001],
    [0b100, 0b101, 0b111, 0b110],
];

/// Place of a corner: bit k of its number is its place along axis k.
fn corner(number: usize) -> [usize; 3] {
    [0, 1, 2].map(|k| number >> k & 1)
}

fn edge(a: usize, b: usize) -> usize {
    let found = EDGES
        .iter()
        .position(|&(axis, first)| first == a.min(b) && 1 << axis == a ^ b);
    found.expect("neighbouring corners have an edge")
}

/// Whether two edges lie on one face.
fn share_a_face(a: usize, b: usize) -> bool {
    let on = |face: &[usize; 4], at: usize| {
        let (axis, first) = EDGES[at];
        face.contains(&first) && face.contains(&(first | 1 << axis))
    };
    FACES.iter().any(|face| on(face, a) && on(face, b))
}

/// The loops of each case.
fn table() -> Vec<Vec<Fan>> {
    (0..=u8::MAX).map(fans).collect()
}

fn fans(inside: u8) -> Vec<Fan> {
    let is_in = |corner: usize| inside >> corner & 1 == 1;
    // From an edge to the next around the loop.
    let mut next = [None; 12];
    for face in FACES {
        for k in 0..4 {
            let [before, here] = [face[(k + 3) % 4], face[k]];
            if is_in(before) || !is_in(here) {
                continue;
            }
            // A run of inside corners begins: the surface crosses the face from there to where it ends.
            let run = (0..4).find(|&more| !is_in(face[(k + more) % 4]));
            let end = k + run.expect("a corner before the run is outside");
            let leaving = edge(face[(end + 3) % 4], face[end % 4]);
            next[edge(before, here)] = Some(leaving);
        }
    }
    let mut fans = Vec::new();
    for first in 0..12 {
        let mut corners = Vec::new();
        let mut at = first;
        while let Some(to) = next[at].take() {
            corners.push(at);
            at = to;
        }
        if !corners.is_empty() {
            fans.push(fan(corners));
        }
    }
    fans
}

/// Turns a loop until no diagonal lies on a face.
fn fan(mut corners: Vec<usize>) -> Fan {
    for _ in 0..corners.len() {
        let diagonals = &corners[2..corners.len() - 1];
        if !diagonals.iter().any(|&to| share_a_face(corners[0], to)) {
            return Fan {
                corners,
                centred: false,
            };
        }
        corners.rotate_left(1);
    }
    Fan {
        corners,
        centred: true,
    }
}

/// Cells of a layer that the surface crosses.
fn cells(volume: &Volume, z: usize) -> Vec<Cell> {
    let mut cells = Vec::new();
    for y in 0..volume.size()[1] - 1 {
        did(volume.size()[0]);
        for x in 0..volume.size()[0] - 1 {
            let at = [x, y, z];
            if volume.is_whole(at) {
                continue;
            }
            let mut inside = 0;
            for number in 0..8 {
                let offset = corner(number);
                let distance = volume.distance(std::array::from_fn(|k| at[k] + offset[k]));
                inside |= u8::from(distance < 0.0) << number;
            }
            if inside != 0 && inside != u8::MAX {
                cells.push(Cell { at, inside });
            }
        }
    }
    cells
}

/// Where the surface crosses the edge from a voxel along an axis.
fn crossing(volume: &Volume, at: [usize; 3], axis: usize) -> [f32; 3] {
    let mut next = at;
    next[axis] += 1;
    let [from, to] = [at, next].map(|at| volume.distance(at));
    let share = from / (from - to);
    let mut place = at.map(|at| at as f32);
    place[axis] += share;
    volume.place(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::DepthMap;
    use crate::volume::tests::of_ball;

    /// How often each edge is used one way, less the other way; and whether each is used twice.
    fn is_closed_manifold(surface: &Surface) -> bool {
        let mut edges: HashMap<[u32; 2], [u32; 2]> = HashMap::new();
        for triangle in &surface.triangles {
            for k in 0..3 {
                let [a, b] = [triangle[k], triangle[(k + 1) % 3]];
                edges.entry([a.min(b), a.max(b)]).or_default()[usize::from(a < b)] += 1;
            }
        }
        edges.values().all(|ways| *ways == [1, 1])
    }

    /// The volume that a surface encloses, by the divergence theorem: positive where it is wound outwards.
    fn enclosed(surface: &Surface) -> f64 {
        let of = |t: &[u32; 3]| {
            let [a, b, c] = t.map(|corner| surface.positions[corner as usize].map(f64::from));
            (a[0] * (b[1] * c[2] - b[2] * c[1])
                + a[1] * (b[2] * c[0] - b[0] * c[2])
                + a[2] * (b[0] * c[1] - b[1] * c[0]))
                / 6.0
        };
        surface.triangles.iter().map(of).sum()
    }

    #[test]
    fn noise_has_a_closed_manifold_surface() {
        for seed in 0..20_u64 {
            let noise = |at: [usize; 3]| {
                let mut state = seed;
                for x in at {
                    state = (state ^ x as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    state ^= state >> 29;
                }
                (state % 2001) as f32 / 1000.0 - 1.0
            };
            let surface = Surface::of(&Volume::of(12, noise));
            assert!(surface.triangles.len() > 1000);
            assert!(is_closed_manifold(&surface), "{seed}");
            assert!(enclosed(&surface) > 0.0);
        }
        // The test tells a hole and a flipped triangle.
        let mut surface = Surface::of(&Volume::of(12, |at| if at == [6; 3] { -1.0 } else { 1.0 }));
        assert!(is_closed_manifold(&surface));
        surface.triangles[0].swap(0, 1);
        assert!(!is_closed_manifold(&surface));
        surface.triangles.remove(0);
        assert!(!is_closed_manifold(&surface));
    }

    #[test]
    fn a_ball_that_views_see_is_found() {
        const RADIUS: f32 = 0.4;
        let mut volume = Volume::new([-RADIUS; 3], [RADIUS; 3], 60).expect("a box");
        for k in 0..60 {
            let (view, alpha, depths) = of_ball(k, RADIUS);
            volume.add(&[DepthMap::new(view, &alpha, &depths)]);
        }
        let surface = Surface::of(&volume);
        assert!(is_closed_manifold(&surface));
        let off = surface.positions.iter().map(|at| {
            let length = at.iter().map(|x| x * x).sum::<f32>().sqrt();
            (length - RADIUS).abs() / volume.edge()
        });
        let (sum, most) = off.fold((0.0, 0.0), |(sum, most): (f32, f32), off| {
            (sum + off, most.max(off))
        });
        let mean = sum / surface.positions.len() as f32;
        assert!(mean < 0.2 && most < 1.0, "{mean} and {most} voxels off");
        let whole = f64::from(RADIUS).powi(3) * std::f64::consts::PI * 4.0 / 3.0;
        assert!((enclosed(&surface) / whole - 1.0).abs() < 0.02);
    }
}
