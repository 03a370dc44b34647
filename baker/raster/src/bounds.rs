//! The rectangle that a triangle in front of, behind or across the camera plane can touch.
//!
//! Points stay homogeneous: they project to `(x/z, y/z)` where `z > 0`, and stay finite elsewhere.

/// A rectangle of the picture in pixels: left, top, right, bottom.
pub type Bounds = [f64; 4];

/// Bounds of the part of a triangle in front of the plane `z = near`; none where all of it is behind.
pub fn triangle_bounds(corners: [[f64; 3]; 3], near: f64) -> Option<Bounds> {
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
