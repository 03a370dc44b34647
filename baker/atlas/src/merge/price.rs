//! What a border costs: cheap along creases and where views see little, and short.

use rayon::prelude::*;

use crate::input::Mesh;
use kiln_raster::vector::{cross, sub, unit as direction};

/// Price of an unseen edge, relative to one seen like the mean of the surface: borders are to be short as well.
const UNSEEN: f64 = 0.25;
/// Visibility above this many times the mean makes no difference.
const MOST_SEEN: f64 = 3.0;
/// Discount of a sharp crease: shading breaks there anyway.
const CREASE: f64 = 0.6;
/// Cosine between normals at which a crease is sharp.
const SHARP: f64 = 0.5;
/// Integer price of the surface's mean edge.
const UNITS: f64 = 1e4;

/// Triangles whose sides are summed up by one thread.
const CHUNK: usize = 1 << 12;

/// The cost of having an edge of the surface in a border.
pub(super) struct Price {
    /// By face and side; 0 where no face is across.
    sides: Vec<[u64; 3]>,
}

impl Price {
    /// `exposure` holds, for each triangle, the pixels per unit of area of all views together; empty where unknown.
    pub(super) fn new(mesh: &Mesh<'_>, neighbours: &[[u32; 3]], exposure: &[f64]) -> Self {
        let surface = Surface::new(mesh, exposure);
        let of_face = |(face, across): (usize, &[u32; 3])| -> [u64; 3] {
            std::array::from_fn(|side| match across[side] {
                u32::MAX => 0,
                across => surface.price(face, side, across as usize),
            })
        };
        let sides = neighbours.par_iter().enumerate().map(of_face);
        Self {
            sides: sides.collect(),
        }
    }

    /// Price of the edge between a face and its neighbour; at least 1.
    pub(super) fn of(&self, face: u32, side: usize) -> u64 {
        self.sides[face as usize][side]
    }
}

/// What prices depend on.
struct Surface<'a> {
    mesh: &'a Mesh<'a>,
    /// Visibility by triangle, relative to the mean of the surface.
    seen: Vec<f64>,
    normals: Vec<Option<[f64; 3]>>,
    mean_edge: f64,
}

impl<'a> Surface<'a> {
    fn new(mesh: &'a Mesh<'a>, exposure: &[f64]) -> Self {
        let place = |corner: u32| mesh.positions[corner as usize].map(f64::from);
        let crossed = |t: &[u32; 3]| {
            let [a, b, c] = t.map(place);
            cross(sub(b, a), sub(c, a))
        };
        let crosses: Vec<[f64; 3]> = mesh.triangles.par_iter().map(crossed).collect();
        let length = |v: &[f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let (mut shown, mut area) = (0.0, 0.0);
        for (cross, seen) in crosses.iter().zip(exposure) {
            shown += length(cross) * seen;
            area += length(cross);
        }
        let mean = shown / area;
        let seen = if mean > 0.0 {
            let of = |seen: &f64| (seen / mean).min(MOST_SEEN);
            exposure.iter().map(of).collect()
        } else {
            vec![1.0; mesh.triangles.len()]
        };
        let around = |t: &[u32; 3]| -> f64 {
            let [a, b, c] = t.map(place);
            [sub(a, b), sub(b, c), sub(c, a)].iter().map(length).sum()
        };
        // Sums of equal chunks are the same with any number of threads.
        let chunks = mesh.triangles.par_chunks(CHUNK);
        let sums: Vec<f64> = chunks.map(|chunk| chunk.iter().map(around).sum()).collect();
        let all: f64 = sums.iter().sum();
        Self {
            mesh,
            seen,
            normals: crosses.into_par_iter().map(direction).collect(),
            mean_edge: all / (3 * mesh.triangles.len()).max(1) as f64,
        }
    }

    fn price(&self, face: usize, side: usize, across: usize) -> u64 {
        let corners = self.mesh.triangles[face];
        let [a, b] = [corners[side], corners[(side + 1) % 3]]
            .map(|corner| self.mesh.positions[corner as usize].map(f64::from));
        let length = sub(a, b).iter().map(|x| x * x).sum::<f64>().sqrt();
        let seen = (self.seen[face] + self.seen[across]) / 2.0;
        let cosine = match (self.normals[face], self.normals[across]) {
            (Some(n), Some(m)) => n[0] * m[0] + n[1] * m[1] + n[2] * m[2],
            _ => 1.0,
        };
        let crease = ((1.0 - cosine) / (1.0 - SHARP)).clamp(0.0, 1.0);
        let price = (UNSEEN + (1.0 - UNSEEN) * seen) * (1.0 - CREASE * crease);
        (length / self.mean_edge.max(f64::MIN_POSITIVE) * price * UNITS) as u64 + 1
    }
}
