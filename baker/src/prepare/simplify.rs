//! Reduces the number of triangles of a surface, and reports the simplification's error.
//!
//! Uses meshoptimizer's quadric edge collapses (Garland and Heckbert, 1997). Open borders move only along themselves,
//! and normals count. Vertices move to where the quadrics want them, unless texture coordinates are kept. Those then
//! count as well, their seams stay closed, and vertices are a subset of the old ones, so that no chart reaches over
//! another.
//!
//! Where the topology does not allow the target, small loose parts are dropped. Where that is not enough, the mesh is
//! clustered without regard to topology. A warning says so.

use kiln_atlas::surface::surface_area;
use meshopt::{SimplifyOptions, VertexDataAdapter};
use proto::job::Simplify;
use proto::message::{Code, Failure};

use crate::bake::model::normals::point_normals;
use crate::prepare::clean::{self, CleanError, CleanMesh};
use crate::prepare::load::{NoUvs, RawMesh};

/// Weight of a normal's change by its own length, against a move as long as the mesh.
const NORMAL_WEIGHT: f32 = 0.05;
/// Weight of a move across the whole texture, likewise.
const UV_WEIGHT: f32 = 0.5;
/// Loose parts up to this share of the mesh's extent may be dropped.
const PRUNED_SHARE: f32 = 0.02;
/// Topology is kept as long as the result exceeds the target by no more than this factor.
const MISSED_FACTOR: f64 = 1.25;

/// Share of lost area that raises a warning: quadrics see no error where a loose piece vanishes.
const TOLD_LOSS: f64 = 0.1;

/// Why a request cannot be met.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum SimplifyError {
    /// Zero triangles, or not a share.
    #[error("cannot simplify to {0}")]
    Target(String),
    /// No triangle with area is left.
    #[error("nothing with area is left of the mesh at {target} triangles")]
    Nothing {
        /// The target.
        target: usize,
        /// Why.
        #[source]
        error: CleanError,
    },
}

impl SimplifyError {
    /// The failure to report.
    pub fn failure(&self) -> Failure {
        let hint = "keep more triangles";
        Failure {
            code: Code::InvalidSpec,
            message: self.to_string(),
            hint: hint.to_owned(),
        }
    }
}

/// A surface with fewer triangles.
#[derive(Clone, Debug, PartialEq)]
pub struct Simplified {
    /// The surface.
    pub mesh: CleanMesh,
    /// meshoptimizer's error, as a share of the radius of the original.
    pub error: f32,
    /// A warning for the user.
    pub warning: Option<String>,
}

/// The number of triangles that `order` means; none where it keeps all.
///
/// # Errors
/// It leaves none, or is no share.
pub fn target(order: Simplify, triangles: usize) -> Result<Option<usize>, SimplifyError> {
    let target = match order {
        Simplify::Keep => return Ok(None),
        Simplify::TargetFaces(0) => return Err(SimplifyError::Target("0 triangles".to_owned())),
        Simplify::TargetFaces(count) => count as usize,
        // Written so that NaN fails.
        Simplify::RemoveShare(share) if !(0.0..1.0).contains(&share) => {
            return Err(SimplifyError::Target(format!("a share of {share} removed")));
        }
        Simplify::RemoveShare(share) => ((1.0 - f64::from(share)) * triangles as f64)
            .round()
            .max(1.0) as usize,
    };
    Ok((target < triangles).then_some(target))
}

/// Simplifies to at most `target` triangles, or as near as the surface allows.
///
/// # Errors
/// Nothing with area is left.
pub fn simplify(mesh: &CleanMesh, target: usize) -> Result<Simplified, SimplifyError> {
    let mut vertices = Vertices::new(mesh);
    let mut result = vertices.collapse(target, SimplifyOptions::None, f32::MAX);
    let mut warning = None;
    if result.triangles() > target {
        let options = SimplifyOptions::Prune | SimplifyOptions::Permissive;
        let pruned = vertices.collapse(target, options, PRUNED_SHARE.max(result.error));
        if pruned.triangles() > 0 && pruned.triangles() < result.triangles() {
            result = pruned;
        }
    }
    if result.triangles() as f64 > target as f64 * MISSED_FACTOR {
        let clustered = vertices.cluster(target);
        if clustered.triangles() > 0 && clustered.triangles() < result.triangles() {
            warning = Some(format!(
                "the surface cannot be simplified to {target} triangles by its own connections: it was clustered, which costs shape"
            ));
            result = clustered;
        }
    }
    let error = result.error;
    let simplified = clean::clean(&vertices.rebuild(&result))
        .map_err(|error| SimplifyError::Nothing { target, error })?;
    let reached = simplified.triangles.len();
    if reached > target {
        warning = Some(format!(
            "asked for {target} triangles, {reached} were reached: the surface's connections allow no fewer"
        ));
    }
    let error = (f64::from(error) * extent(&mesh.positions) / mesh.radius) as f32;
    let area = |mesh: &CleanMesh| surface_area(&mesh.positions, &mesh.triangles);
    let lost = 1.0 - area(&simplified) / area(mesh);
    if lost > TOLD_LOSS && warning.is_none() {
        warning = Some(format!(
            "simplifying to {reached} triangles lost {:.0} % of the surface",
            100.0 * lost
        ));
    }
    Ok(Simplified {
        mesh: simplified,
        error,
        warning,
    })
}

/// The longest side of the bounding box, the unit of meshoptimizer's errors.
fn extent(positions: &[[f32; 3]]) -> f64 {
    let side = |axis: usize| {
        let values = positions.iter().map(|position| f64::from(position[axis]));
        values.clone().fold(f64::NEG_INFINITY, f64::max) - values.fold(f64::INFINITY, f64::min)
    };
    (0..3).map(side).fold(0.0, f64::max)
}

/// Input of meshoptimizer: points, split at seams of texture coordinates.
struct Vertices {
    positions: Vec<[f32; 3]>,
    uvs: Option<Vec<[f32; 2]>>,
    /// Normal, then texture coordinate.
    attributes: Vec<f32>,
    weights: Vec<f32>,
    indices: Vec<u32>,
}

struct Reduced {
    indices: Vec<u32>,
    /// Positions, where they were moved.
    positions: Option<Vec<[f32; 3]>>,
    error: f32,
}

impl Reduced {
    fn triangles(&self) -> usize {
        self.indices.len() / 3
    }
}

impl Vertices {
    fn new(mesh: &CleanMesh) -> Self {
        let normals = point_normals(&mesh.positions, &mesh.triangles);
        let Some(corner_uvs) = &mesh.corner_uvs else {
            return Self {
                positions: mesh.positions.clone(),
                uvs: None,
                attributes: normals.into_flattened(),
                weights: vec![NORMAL_WEIGHT; 3],
                indices: mesh.triangles.as_flattened().to_vec(),
            };
        };
        let mut numbers = std::collections::HashMap::new();
        let (mut positions, mut uvs, mut attributes, mut indices) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let points = mesh.triangles.as_flattened().iter();
        for (&point, &uv) in points.zip(corner_uvs.as_flattened()) {
            indices.push(
                *numbers
                    .entry((point, uv.map(f32::to_bits)))
                    .or_insert_with(|| {
                        positions.push(mesh.positions[point as usize]);
                        uvs.push(uv);
                        attributes.extend(normals[point as usize]);
                        // meshoptimizer computes with all of them, and NaN would spread.
                        attributes.extend(uv.map(|x| if x.is_finite() { x } else { 0.0 }));
                        positions.len() as u32 - 1
                    }),
            );
        }
        let weights = vec![
            NORMAL_WEIGHT,
            NORMAL_WEIGHT,
            NORMAL_WEIGHT,
            UV_WEIGHT,
            UV_WEIGHT,
        ];
        Self {
            positions,
            uvs: Some(uvs),
            attributes,
            weights,
            indices,
        }
    }

    fn collapse(&mut self, target: usize, options: SimplifyOptions, max_error: f32) -> Reduced {
        let stride = self.weights.len() * size_of::<f32>();
        let mut error = 0.0;
        if self.uvs.is_none() {
            let mut indices = self.indices.clone();
            let mut positions = self.positions.clone();
            let mut attributes = self.attributes.clone();
            let count = meshopt::simplify_with_update(
                &mut indices,
                &mut positions,
                &mut attributes,
                &self.weights,
                stride,
                None,
                target * 3,
                max_error,
                options,
                Some(&mut error),
            );
            indices.truncate(count);
            return Reduced {
                indices,
                positions: Some(positions),
                error,
            };
        }
        let locks = vec![false; self.positions.len()];
        let indices = meshopt::simplify_with_attributes_and_locks_decoder(
            &self.indices,
            &self.positions,
            &self.attributes,
            &self.weights,
            stride,
            &locks,
            target * 3,
            max_error,
            options,
            Some(&mut error),
        );
        Reduced {
            indices,
            positions: None,
            error,
        }
    }

    fn cluster(&self, target: usize) -> Reduced {
        let bytes = bytemuck::cast_slice(&self.positions);
        let mut error = 0.0;
        let indices = match VertexDataAdapter::new(bytes, size_of::<[f32; 3]>(), 0) {
            Ok(vertices) => meshopt::simplify_sloppy(
                &self.indices,
                &vertices,
                target * 3,
                f32::MAX,
                Some(&mut error),
            ),
            // Does not happen, since the buffer holds whole positions. An empty result is ignored.
            Err(_unaligned) => Vec::new(),
        };
        Reduced {
            indices,
            positions: None,
            error,
        }
    }

    fn rebuild(&self, reduced: &Reduced) -> RawMesh {
        RawMesh {
            positions: reduced
                .positions
                .as_ref()
                .unwrap_or(&self.positions)
                .clone(),
            uvs: self.uvs.clone().ok_or(NoUvs::NotAsked),
            triangles: reduced.indices.as_chunks::<3>().0.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::unwrap::tests::icosphere;

    #[test]
    fn orders_become_targets() {
        assert_eq!(target(Simplify::Keep, 100), Ok(None));
        assert_eq!(target(Simplify::TargetFaces(40), 100), Ok(Some(40)));
        assert_eq!(target(Simplify::TargetFaces(100), 100), Ok(None));
        assert_eq!(target(Simplify::RemoveShare(0.95), 100), Ok(Some(5)));
        assert_eq!(target(Simplify::RemoveShare(0.0), 100), Ok(None));
        for order in [
            Simplify::TargetFaces(0),
            Simplify::RemoveShare(1.0),
            Simplify::RemoveShare(-0.1),
            Simplify::RemoveShare(f32::NAN),
        ] {
            assert!(target(order, 100).is_err(), "{order:?}");
        }
    }

    #[test]
    fn a_sphere_keeps_its_shape_within_the_error() {
        let sphere = icosphere(4);
        let simplified = simplify(&sphere, 500).unwrap();
        assert!(simplified.mesh.triangles.len() <= 500 && simplified.mesh.triangles.len() > 450);
        assert!(
            simplified.error > 0.001 && simplified.error < 0.05,
            "{}",
            simplified.error
        );
        assert_eq!(simplified.warning, None);
        for position in &simplified.mesh.positions {
            let radius = position.iter().map(|x| x * x).sum::<f32>().sqrt();
            assert!((radius - 1.0).abs() < 0.02, "{radius}");
        }
        assert_eq!(simplify(&sphere, 500).unwrap(), simplified);
    }

    #[test]
    fn borders_stay_where_they_are() {
        // A flat square of 20 × 20 cells; two triangles suffice.
        let points: Vec<[f32; 3]> = (0..21 * 21)
            .map(|i| [(i % 21) as f32, (i / 21) as f32, 0.0])
            .collect();
        let cell = |i: u32| {
            let a = i / 20 * 21 + i % 20;
            [[a, a + 1, a + 22], [a, a + 22, a + 21]]
        };
        let raw = RawMesh {
            positions: points,
            uvs: Err(NoUvs::Absent),
            triangles: (0..400).flat_map(cell).collect(),
        };
        let simplified = simplify(&clean::clean(&raw).unwrap(), 2).unwrap();
        assert!(simplified.mesh.triangles.len() <= 4);
        assert!((simplified.mesh.radius - 200f64.sqrt()).abs() < 1e-3);
        assert!(simplified.error < 1e-3);
    }

    #[test]
    fn kept_coordinates_stay_choices_of_the_old_ones() {
        let mut sphere = icosphere(3);
        let uv = |point: &u32| {
            let [x, y, _] = sphere.positions[*point as usize];
            [0.5 + 0.4 * x, 0.5 + 0.4 * y]
        };
        let uvs: Vec<[[f32; 2]; 3]> = sphere
            .triangles
            .iter()
            .map(|corners| [0, 1, 2].map(|k| uv(&corners[k])))
            .collect();
        sphere.corner_uvs = Some(uvs.clone());
        let simplified = simplify(&sphere, 300).unwrap().mesh;
        assert!(simplified.triangles.len() <= 300);
        for uv in simplified.corner_uvs.unwrap().as_flattened() {
            assert!(uvs.as_flattened().contains(uv));
        }
    }

    #[test]
    fn loose_triangles_reach_the_target_and_the_loss_is_told() {
        let mut positions = Vec::new();
        for i in 0..600u32 {
            let at = [(i % 25) as f32, (i / 25) as f32, 0.0];
            positions.extend([at, [at[0] + 0.9, at[1], 0.0], [at[0], at[1] + 0.9, 0.0]]);
        }
        let triangles = (0..600).map(|i| [3 * i, 3 * i + 1, 3 * i + 2]).collect();
        let raw = RawMesh {
            positions,
            uvs: Err(NoUvs::Absent),
            triangles,
        };
        let simplified = simplify(&clean::clean(&raw).unwrap(), 100).unwrap();
        assert!(simplified.mesh.triangles.len() <= 100);
        assert!(simplified.warning.unwrap().contains("of the surface"));
    }
}
