//! Cleans triangles as read: each point once, no triangle without area, none twice.
//!
//! Points are merged if their coordinates are bitwise equal (−0 counts as 0), so nothing moves. Texture coordinates
//! stay with the corners, so seams do not cut the surface. A triangle has no area if it is thinner than the grid on
//! which f32 can place its corners, relative to the mesh's size, so scale does not matter. Non-manifold edges stay:
//! they are counted, and later stages accept them.

use std::collections::HashMap;

use kiln_atlas::surface::edges;
use proto::message::{Code, Failure};

use crate::prepare::load::RawMesh;
use crate::worker::progress::ticked;

/// Height below which a triangle has no area, as a share of the mesh's diagonal: f32 spacing at the mesh's size is 2⁻²⁴
/// of it, and rounding moves two corners.
pub(crate) const MIN_HEIGHT: f64 = 1.2e-7;
/// Diagonal below which areas underflow in f32.
const MIN_DIAGONAL: f64 = 1e-12;

/// Why nothing is left.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum CleanError {
    /// No triangle has area.
    #[error("all {0} triangles have zero area")]
    NoArea(usize),
    /// Too small for f32.
    #[error("the whole mesh measures {0:e}, too small to compute with")]
    TooSmall(f64),
}

impl CleanError {
    /// The failure to report for the mesh file `name`.
    pub fn failure(&self, name: &str) -> Failure {
        let (code, hint) = match self {
            Self::NoArea(_) => (Code::InvalidAsset, ""),
            Self::TooSmall(_) => (Code::LimitExceeded, "scale the mesh up"),
        };
        Failure {
            code,
            message: format!("{name}: {self}"),
            hint: hint.to_owned(),
        }
    }
}

/// A surface whose points are all different and all used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CleanMesh {
    /// World positions.
    pub positions: Vec<[f32; 3]>,
    /// Corners as point indices; winding as in the file.
    pub triangles: Vec<[u32; 3]>,
    /// Texture coordinates of each triangle's corners, where they are kept.
    pub corner_uvs: Option<Vec<[[f32; 2]; 3]>>,
    /// Half the diagonal of the bounding box.
    pub radius: f64,
    /// What was dropped and found.
    pub counts: Counts,
}

/// What cleaning dropped and found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Triangles with a repeated corner or without area, dropped.
    pub degenerate: u64,
    /// Triangles with the same three points as an earlier one, whatever the winding, dropped.
    pub duplicate: u64,
    /// Those of the duplicates that faced the other way.
    pub flipped: u64,
    /// Edges with more than two triangles.
    pub nonmanifold_edges: u64,
}

/// Merges points, drops triangles and counts.
///
/// # Errors
/// Nothing with area is left.
pub fn clean(raw: &RawMesh) -> Result<CleanMesh, CleanError> {
    let diagonal = diagonal(
        raw.triangles
            .iter()
            .flatten()
            .map(|&vertex| raw.positions[vertex as usize]),
    );
    if diagonal > 0.0 && diagonal < MIN_DIAGONAL {
        return Err(CleanError::TooSmall(diagonal));
    }
    let mut mesh = CleanMesh {
        radius: diagonal / 2.0,
        ..CleanMesh::default()
    };
    let mut corner_uvs = raw
        .uvs
        .as_ref()
        .ok()
        .map(|_| Vec::with_capacity(raw.triangles.len()));
    let mut points = Points::new(raw.positions.len());
    let mut met = HashMap::with_capacity(raw.triangles.len());
    for corners in ticked(raw.triangles.iter()) {
        let places = corners.map(|vertex| raw.positions[vertex as usize]);
        if !has_area(places, diagonal * MIN_HEIGHT) {
            mesh.counts.degenerate += 1;
            continue;
        }
        let triangle =
            std::array::from_fn(|k| points.number(corners[k], places[k], &mut mesh.positions));
        let mut any_order: [u32; 3] = triangle;
        any_order.sort_unstable();
        let [a, b, c] = triangle;
        // Of the three steps from corner to corner, one or two go down; the number tells the winding.
        let winding = [a > b, b > c, c > a]
            .into_iter()
            .filter(|&down| down)
            .count();
        if let Some(met) = met.insert(any_order, winding) {
            mesh.counts.duplicate += 1;
            mesh.counts.flipped += u64::from(met != winding);
            continue;
        }
        mesh.triangles.push(triangle);
        if let (Some(corner_uvs), Ok(uvs)) = (&mut corner_uvs, &raw.uvs) {
            corner_uvs.push(corners.map(|vertex| uvs[vertex as usize]));
        }
    }
    if mesh.triangles.is_empty() {
        return Err(CleanError::NoArea(raw.triangles.len()));
    }
    mesh.corner_uvs = corner_uvs;
    mesh.counts.nonmanifold_edges = ticked(edges(&mesh.triangles))
        .filter(|count| *count > 2)
        .count() as u64;
    Ok(mesh)
}

/// Length of the diagonal of the bounding box.
pub(crate) fn diagonal(points: impl Iterator<Item = [f32; 3]>) -> f64 {
    let (mut low, mut high) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
    for point in points {
        for axis in 0..3 {
            low[axis] = low[axis].min(f64::from(point[axis]));
            high[axis] = high[axis].max(f64::from(point[axis]));
        }
    }
    let square: f64 = (0..3).map(|axis| (high[axis] - low[axis]).powi(2)).sum();
    // Without points the box is inside out.
    if square.is_finite() {
        square.sqrt()
    } else {
        0.0
    }
}

/// Whether the triangle's height above its longest side exceeds `min_height`.
pub(crate) fn has_area(corners: [[f32; 3]; 3], min_height: f64) -> bool {
    let [a, b, c] = corners.map(|corner| corner.map(f64::from));
    let edge = |from: [f64; 3], to: [f64; 3]| [to[0] - from[0], to[1] - from[1], to[2] - from[2]];
    let length = |v: [f64; 3]| (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt();
    let (ab, bc, ca) = (edge(a, b), edge(b, c), edge(c, a));
    let cross = [
        ab[1] * ca[2] - ab[2] * ca[1],
        ab[2] * ca[0] - ab[0] * ca[2],
        ab[0] * ca[1] - ab[1] * ca[0],
    ];
    let longest = length(ab).max(length(bc)).max(length(ca));
    // Twice the area over the longest side is the smallest height.
    length(cross) > longest * min_height
}

/// Numbers points by coordinates, in the order of first use.
struct Points {
    by_place: HashMap<[u32; 3], u32>,
    /// Cache by vertex: files repeat vertices far more often than positions.
    by_vertex: Vec<u32>,
}

impl Points {
    fn new(vertices: usize) -> Self {
        Self {
            by_place: HashMap::with_capacity(vertices),
            by_vertex: vec![u32::MAX; vertices],
        }
    }

    fn number(&mut self, vertex: u32, place: [f32; 3], positions: &mut Vec<[f32; 3]>) -> u32 {
        let known = &mut self.by_vertex[vertex as usize];
        if *known == u32::MAX {
            // Adding zero turns −0 into 0.
            let place = place.map(|x| x + 0.0);
            *known = *self
                .by_place
                .entry(place.map(f32::to_bits))
                .or_insert_with(|| {
                    positions.push(place);
                    positions.len() as u32 - 1
                });
        }
        *known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::load::NoUvs;

    fn raw(positions: &[[f32; 3]], triangles: &[[u32; 3]]) -> RawMesh {
        RawMesh {
            positions: positions.to_vec(),
            uvs: Err(NoUvs::Absent),
            triangles: triangles.to_vec(),
        }
    }

    const SQUARE: [[f32; 3]; 4] = [
        [0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0],
        [1.0, 1.0, 0.0],
        [0.0, 1.0, 0.0],
    ];

    #[test]
    fn points_are_welded_and_strangers_dropped() {
        let mut positions = SQUARE.to_vec();
        positions.extend([[f32::NAN; 3], [-0.0, 0.0, -0.0], [1.0, 1.0, 0.0]]);
        let mesh = clean(&raw(&positions, &[[0, 1, 2], [5, 6, 3]])).unwrap();
        assert_eq!(mesh.positions, SQUARE);
        assert_eq!(mesh.triangles, [[0, 1, 2], [0, 2, 3]]);
        assert_eq!(mesh.counts, Counts::default());
        assert!((mesh.radius - 0.5f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn what_has_no_area_or_stands_twice_is_dropped() {
        let mut positions = SQUARE.to_vec();
        positions.push([0.5, 0.0, 0.0]);
        let triangles = [
            [0, 1, 2],
            [0, 0, 2],
            [0, 4, 1],
            [2, 0, 1],
            [0, 2, 1],
            [0, 2, 3],
        ];
        let mesh = clean(&raw(&positions, &triangles)).unwrap();
        assert_eq!(mesh.triangles, [[0, 1, 2], [0, 2, 3]]);
        let Counts {
            degenerate,
            duplicate,
            flipped,
            ..
        } = mesh.counts;
        assert_eq!((degenerate, duplicate, flipped), (2, 2, 1));
        assert_eq!(mesh.positions.len(), 4);
        assert_eq!(
            clean(&raw(&positions, &[[0, 4, 1]])),
            Err(CleanError::NoArea(1))
        );
        assert_eq!(
            clean(&raw(&positions, &[[1, 1, 1]])),
            Err(CleanError::NoArea(1))
        );
    }

    #[test]
    fn scale_changes_nothing_within_reason() {
        for scale in [1e-9, 1e-3, 1e9f32] {
            let positions = SQUARE.map(|point| point.map(|x| x * scale));
            let mesh = clean(&raw(&positions, &[[0, 1, 2], [0, 2, 3], [0, 1, 1]])).unwrap();
            assert_eq!(
                (mesh.triangles.len(), mesh.counts.degenerate),
                (2, 1),
                "{scale}"
            );
        }
        let positions = SQUARE.map(|point| point.map(|x| x * 1e-20));
        assert!(matches!(
            clean(&raw(&positions, &[[0, 1, 2]])),
            Err(CleanError::TooSmall(_))
        ));
    }

    #[test]
    fn crowded_edges_are_counted_and_kept() {
        let mut positions = SQUARE.to_vec();
        positions.push([0.5, 0.5, 1.0]);
        let mesh = clean(&raw(&positions, &[[0, 1, 2], [0, 2, 3], [0, 2, 4]])).unwrap();
        assert_eq!(
            (mesh.triangles.len(), mesh.counts.nonmanifold_edges),
            (3, 1)
        );
    }

    #[test]
    fn seams_stay_with_the_corners() {
        let mut raw = raw(&[SQUARE, SQUARE].concat(), &[[0, 1, 2], [4, 6, 7]]);
        raw.uvs = Ok((0..8).map(|i| [i as f32, 0.0]).collect());
        let mesh = clean(&raw).unwrap();
        assert_eq!(mesh.triangles, [[0, 1, 2], [0, 2, 3]]);
        assert_eq!(
            mesh.corner_uvs.unwrap()[1],
            [[4.0, 0.0], [6.0, 0.0], [7.0, 0.0]]
        );
    }
}
