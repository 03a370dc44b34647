//! Makes charts by projection: the fallback that always ends, for any triangles.
//!
//! Charts grow from the largest triangles over neighbours that face the same way, and are projected along the direction
//! of their seed. A triangle joins only if its projection keeps its orientation and overlaps no other triangle of the
//! chart, tested with a grid; every chart is therefore valid by construction. Directions are smoothed over the surface
//! first, since noise would isolate every triangle. The work is bounded: each triangle is tried once per chart that
//! reaches it, enters a bounded number of cells, and meets a bounded number of triangles there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rayon::prelude::*;

use crate::input::Mesh;
use crate::piece::{Chart, Piece};
use crate::work::{Ticker, ticked};
use kiln_raster::vector::{cross, dot, sub, unit};

/// Rounds of smoothing of directions: about the radius in triangles over which noise is averaged.
const SMOOTHING_ROUNDS: usize = 4;
/// Smallest cosine between the smoothed direction of a triangle and the chart's.
const MIN_SMOOTH_COSINE: f64 = 0.75;
/// Smallest cosine between a triangle's own normal and the chart's direction; its texels are stretched by the inverse.
const MIN_COSINE: f64 = 0.3;
/// Grid cells that a triangle may touch, and triangles that may share a cell. Beyond, it starts a chart of its own.
const MAX_CELLS: usize = 512;
const MAX_SHARING: usize = 48;

type Point = [f64; 2];

pub(super) fn cut(mesh: &Mesh<'_>) -> Vec<Piece> {
    let surface = Surface::new(mesh);
    let mut by_area: Vec<u32> = (0..mesh.triangles.len() as u32).collect();
    by_area.sort_by(|&a, &b| surface.areas[b as usize].total_cmp(&surface.areas[a as usize]));
    let mean = surface.areas.iter().sum::<f64>() / surface.areas.len().max(1) as f64;
    let mut grower = Grower {
        surface: &surface,
        taken: vec![false; mesh.triangles.len()],
        cell: 2.0 * mean.sqrt(),
        grid: HashMap::new(),
        ticker: Ticker::default(),
    };
    let mut pieces = Vec::new();
    for &seed in &by_area {
        if !grower.taken[seed as usize] {
            pieces.push(grower.grow(seed));
        }
    }
    pieces
}

pub(super) fn single(mesh: &Mesh<'_>, face: u32) -> Piece {
    let corners = mesh.triangles[face as usize];
    let places = corners.map(|point| mesh.positions[point as usize].map(f64::from));
    let normal = unit(cross(sub(places[1], places[0]), sub(places[2], places[0])))
        .unwrap_or([0.0, 0.0, 1.0]);
    let frame = Frame::new(normal, places[0]);
    Piece {
        chart: Chart {
            uvs: places.map(|place| frame.project(place)).to_vec(),
            triangles: vec![[0, 1, 2]],
        },
        faces: vec![face],
        points: corners.to_vec(),
    }
}

/// A direction of projection. Its v points down, so that the atlas does not mirror pictures of the surface.
struct Frame {
    u: [f64; 3],
    v: [f64; 3],
    origin: [f64; 3],
}

impl Frame {
    fn new(normal: [f64; 3], origin: [f64; 3]) -> Self {
        let aside = if normal[0].abs() < 0.6 {
            [1.0, 0.0, 0.0]
        } else {
            [0.0, 1.0, 0.0]
        };
        let u = unit(cross(aside, normal)).unwrap_or([1.0, 0.0, 0.0]);
        Self {
            u,
            v: cross(u, normal),
            origin,
        }
    }

    fn project(&self, place: [f64; 3]) -> Point {
        let from = sub(place, self.origin);
        [dot(from, self.u), dot(from, self.v)]
    }
}

struct Surface<'a> {
    mesh: &'a Mesh<'a>,
    normals: Vec<[f64; 3]>,
    smooth: Vec<[f64; 3]>,
    areas: Vec<f64>,
    /// The triangle across each side, as from [`neighbours`].
    neighbours: Vec<[u32; 3]>,
}

impl<'a> Surface<'a> {
    fn new(mesh: &'a Mesh<'a>) -> Self {
        let double = |corners: &[u32; 3]| {
            let [a, b, c] = corners.map(|point| mesh.positions[point as usize].map(f64::from));
            cross(sub(b, a), sub(c, a))
        };
        let crosses: Vec<[f64; 3]> = ticked(mesh.triangles.iter()).map(double).collect();
        let normals: Vec<[f64; 3]> = crosses
            .iter()
            .map(|&cross| unit(cross).unwrap_or([0.0, 0.0, 1.0]))
            .collect();
        let areas: Vec<f64> = crosses
            .iter()
            .map(|&cross| dot(cross, cross).sqrt() / 2.0)
            .collect();
        let neighbours = neighbours(mesh.triangles);
        let mut smooth = normals.clone();
        for _ in 0..SMOOTHING_ROUNDS {
            let mean = |face: usize| {
                let mut sum = smooth[face].map(|x| x * areas[face]);
                for &near in &neighbours[face] {
                    if let Some(direction) = smooth.get(near as usize) {
                        for axis in 0..3 {
                            sum[axis] += direction[axis] * areas[near as usize];
                        }
                    }
                }
                unit(sum).unwrap_or(smooth[face])
            };
            smooth = ticked(0..smooth.len()).map(mean).collect();
        }
        Self {
            mesh,
            normals,
            smooth,
            areas,
            neighbours,
        }
    }
}

/// The triangle across each side of each triangle; `u32::MAX` at borders, non-manifold edges and where the winding
/// flips.
pub(super) fn neighbours(triangles: &[[u32; 3]]) -> Vec<[u32; 3]> {
    let sides = 0..3 * triangles.len() as u32;
    let ends = |side: u32| {
        let corners = triangles[side as usize / 3];
        let [a, b] = [0, 1].map(|k| corners[(side as usize + k) % 3]);
        (a.min(b), a.max(b), a > b)
    };
    // Sides by their lower end: where those of each point begin, then the other end and the number of each side. Threads
    // put them there in any order.
    let points = triangles.as_flattened().par_iter().max();
    let places: Vec<AtomicU32> = (0..points.map_or(0, |&last| last + 1))
        .map(|_| AtomicU32::new(0))
        .collect();
    sides.clone().into_par_iter().for_each(|side| {
        places[ends(side).0 as usize].fetch_add(1, Ordering::Relaxed);
    });
    let mut end = 0;
    for place in &places {
        let count = place.load(Ordering::Relaxed);
        place.store(end, Ordering::Relaxed);
        end += count;
    }
    let sorted: Vec<AtomicU64> = sides
        .clone()
        .into_par_iter()
        .map(|_| AtomicU64::new(0))
        .collect();
    sides.clone().into_par_iter().for_each(|side| {
        let (low, high, _) = ends(side);
        let place = places[low as usize].fetch_add(1, Ordering::Relaxed);
        sorted[place as usize].store(u64::from(high) << 32 | u64::from(side), Ordering::Relaxed);
    });
    let across: Vec<AtomicU32> = sides
        .into_par_iter()
        .map(|_| AtomicU32::new(u32::MAX))
        .collect();
    (0..places.len())
        .into_par_iter()
        .with_min_len(1 << 10)
        .for_each_init(
            || (Vec::new(), Ticker::default()),
            |(around, ticker): &mut (Vec<u64>, Ticker), point| {
                let begin = point
                    .checked_sub(1)
                    .map_or(0, |before| places[before].load(Ordering::Relaxed));
                let end = places[point].load(Ordering::Relaxed);
                around.clear();
                around.extend(
                    sorted[begin as usize..end as usize]
                        .iter()
                        .map(|side| side.load(Ordering::Relaxed)),
                );
                around.sort_unstable();
                ticker.did(around.len());
                for edge in around.chunk_by(|a, b| a >> 32 == b >> 32) {
                    if let [side, other] = *edge {
                        let [side, other] = [side, other].map(|side| side as u32);
                        if ends(side).2 != ends(other).2 {
                            across[side as usize].store(other / 3, Ordering::Relaxed);
                            across[other as usize].store(side / 3, Ordering::Relaxed);
                        }
                    }
                }
            },
        );
    let of = |sides: &[AtomicU32; 3]| [0, 1, 2].map(|side| sides[side].load(Ordering::Relaxed));
    across.as_chunks::<3>().0.par_iter().map(of).collect()
}

struct Grower<'a> {
    surface: &'a Surface<'a>,
    taken: Vec<bool>,
    cell: f64,
    /// Triangles of the chart by cell.
    grid: HashMap<[i64; 2], Vec<[Point; 3]>>,
    ticker: Ticker,
}

impl Grower<'_> {
    fn grow(&mut self, seed: u32) -> Piece {
        let surface = self.surface;
        let corners_of = |face: u32| surface.mesh.triangles[face as usize];
        let place = |point: u32| surface.mesh.positions[point as usize].map(f64::from);
        // The smoothed direction, unless the seed itself faces away from it.
        let smooth = surface.smooth[seed as usize];
        let own = surface.normals[seed as usize];
        let direction = if dot(smooth, own) >= MIN_COSINE {
            smooth
        } else {
            own
        };
        let frame = Frame::new(direction, place(corners_of(seed)[0]));
        let mut piece = Piece::default();
        let mut number: HashMap<u32, u32> = HashMap::new();
        let mut queue = std::collections::VecDeque::from([seed]);
        self.grid.clear();
        while let Some(face) = queue.pop_front() {
            let index = face as usize;
            let faces_along = dot(surface.normals[index], direction) >= MIN_COSINE
                && (face == seed || dot(surface.smooth[index], direction) >= MIN_SMOOTH_COSINE);
            if self.taken[index] || !faces_along {
                continue;
            }
            let corners = corners_of(face);
            let triangle = corners.map(|point| frame.project(place(point)));
            let enters = self.enter(triangle);
            if !enters && face != seed {
                continue;
            }
            self.taken[index] = true;
            let numbered = std::array::from_fn(|k| {
                *number.entry(corners[k]).or_insert_with(|| {
                    piece.points.push(corners[k]);
                    piece.chart.uvs.push(triangle[k]);
                    piece.points.len() as u32 - 1
                })
            });
            piece.chart.triangles.push(numbered);
            piece.faces.push(face);
            if !enters {
                // A seed too large for the grid stays alone.
                break;
            }
            let near = surface.neighbours[index].iter().copied();
            queue.extend(near.filter(|&near| self.taken.get(near as usize) == Some(&false)));
        }
        piece
    }

    /// Enters a triangle into the grid if it overlaps none there.
    fn enter(&mut self, triangle: [Point; 3]) -> bool {
        let Some(cells) = self.cells(triangle) else {
            return false;
        };
        self.ticker.did(cells.len());
        for cell in &cells {
            let there = self.grid.get(cell).map_or(&[][..], Vec::as_slice);
            self.ticker.did(there.len());
            if there.len() >= MAX_SHARING
                || there
                    .iter()
                    .any(|other| overlap(&triangle, other, 1e-9 * self.cell))
            {
                return false;
            }
        }
        for cell in cells {
            self.grid.entry(cell).or_default().push(triangle);
        }
        true
    }

    /// The cells that a triangle may touch, row by row; none if there are too many.
    fn cells(&self, triangle: [Point; 3]) -> Option<Vec<[i64; 2]>> {
        let scaled = triangle.map(|corner| corner.map(|x| x / self.cell));
        let range = |axis: usize| {
            let values = scaled.map(|corner| corner[axis]);
            let [low, high] = [
                values.iter().copied().fold(f64::INFINITY, f64::min),
                values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ];
            (low.floor() as i64, high.floor() as i64)
        };
        let ((left, right), (bottom, top)) = (range(0), range(1));
        let count = (right - left)
            .saturating_add(1)
            .saturating_mul((top - bottom).saturating_add(1));
        if !(1..=MAX_CELLS as i64).contains(&count) {
            return None;
        }
        Some(
            (bottom..=top)
                .flat_map(|y| (left..=right).map(move |x| [x, y]))
                .collect(),
        )
    }
}

/// Whether two triangles of either orientation overlap by more than `slack`: no side of either separates them.
fn overlap(a: &[Point; 3], b: &[Point; 3], slack: f64) -> bool {
    let parted_by = |from: &[Point; 3], other: &[Point; 3]| {
        (0..3).any(|side| {
            let (p, q, opposite) = (from[side], from[(side + 1) % 3], from[(side + 2) % 3]);
            let (dx, dy) = (q[0] - p[0], q[1] - p[1]);
            let length = (dx * dx + dy * dy).sqrt();
            let depth = |point: Point| dx * (point[1] - p[1]) - dy * (point[0] - p[0]);
            let inside = depth(opposite).signum();
            other
                .iter()
                .all(|&point| depth(point) * inside <= slack * length)
        })
    };
    !parted_by(a, b) && !parted_by(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_touch_and_do_not_overlap() {
        let a = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]];
        assert!(!overlap(&a, &[[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], 1e-9));
        assert!(!overlap(&a, &[[1.0, 0.0], [2.0, 0.0], [2.0, 1.0]], 1e-9));
        assert!(overlap(&a, &[[0.9, 0.0], [2.0, 0.0], [0.1, 0.8]], 1e-9));
        assert!(overlap(&a, &a, 1e-9));
        assert!(overlap(&a, &[[0.1, 0.1], [0.1, 0.2], [0.2, 0.1]], 1e-9));
    }
}
