//! The part of the picture that triangles in front of, behind or across the camera plane can touch.
//!
//! Points stay homogeneous, `p = K · (R x + t)`. They project to `(p.x/p.z, p.y/p.z)` where `p.z > 0`, and stay finite
//! elsewhere.

use proto::table::Camera;

/// A rectangle of the picture in pixels: left, top, right, bottom.
pub type Bounds = [f64; 4];

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

/// Bounds of the part of a triangle in front of the plane `z = near`; none where all of it is behind.
pub(super) fn triangle_bounds(corners: [[f64; 3]; 3], near: f64) -> Option<Bounds> {
    let mut bounds = [
        f64::INFINITY,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NEG_INFINITY,
    ];
    let mut grow = |p: [f64; 3]| {
        let (x, y) = (p[0] / p[2], p[1] / p[2]);
        bounds = [
            bounds[0].min(x),
            bounds[1].min(y),
            bounds[2].max(x),
            bounds[3].max(y),
        ];
    };
    for k in 0..3 {
        let (a, b) = (corners[k], corners[(k + 1) % 3]);
        if a[2] >= near {
            grow(a);
        }
        if (a[2] >= near) != (b[2] >= near) {
            let share = (near - a[2]) / (b[2] - a[2]);
            grow([
                a[0] + share * (b[0] - a[0]),
                a[1] + share * (b[1] - a[1]),
                near,
            ]);
        }
    }
    (bounds[0] <= bounds[2]).then_some(bounds)
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
#[must_use]
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
