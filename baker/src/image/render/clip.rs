//! Points as a camera sees them, and the rectangle of the picture that holds them.
//!
//! Points stay homogeneous, `p = K · (R x + t)`. They project to `(p.x/p.z, p.y/p.z)` where `p.z > 0`, and stay finite
//! elsewhere.

use kiln_raster::{Bounds, Scene};
use proto::table::{Camera, Mesh};
use rayon::prelude::*;

/// `K · (R x + t)`.
pub(super) fn project(camera: &Camera, point: [f32; 3]) -> [f64; 3] {
    let x = point.map(f64::from);
    let row = |k: usize| {
        let r = camera.rotation[k];
        r[0] * x[0] + r[1] * x[1] + r[2] * x[2] + camera.translation[k]
    };
    let z = row(2);
    [
        camera.focal[0] * row(0) + camera.centre[0] * z,
        camera.focal[1] * row(1) + camera.centre[1] * z,
        z,
    ]
}

/// A mesh in front of a camera, for a picture of this size with `samples`² samples a pixel.
pub(super) fn scene<'a>(
    mesh: &'a Mesh,
    camera: &Camera,
    size: [usize; 2],
    samples: usize,
) -> Scene<'a> {
    let corners = mesh.positions.par_iter();
    let corners = corners.map(|&point| project(camera, point)).collect();
    Scene::new(corners, &mesh.triangles, size, samples)
}

/// Where points project to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Projection {
    /// All points are in front of the camera, within this rectangle.
    Within(Bounds),
    /// All points are behind the camera.
    Behind,
    /// Some are in front, some behind, so that no rectangle holds what lies between.
    Across,
}

/// Projects all `points` and bounds them.
pub fn projected_bounds(camera: &Camera, points: &[[f32; 3]]) -> Projection {
    let mut bounds = [
        f64::INFINITY,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NEG_INFINITY,
    ];
    let (mut front, mut behind) = (false, false);
    for &point in points {
        let p = project(camera, point);
        if p[2] > 0.0 {
            front = true;
            let (x, y) = (p[0] / p[2], p[1] / p[2]);
            bounds = [
                bounds[0].min(x),
                bounds[1].min(y),
                bounds[2].max(x),
                bounds[3].max(y),
            ];
        } else {
            behind = true;
        }
    }
    match (front, behind) {
        (true, false) => Projection::Within(bounds),
        (true, true) => Projection::Across,
        (false, _) => Projection::Behind,
    }
}
