//! Products of vectors and matrices of three, in 64 bits and in one order of operations.

pub(crate) use kiln_raster::vector::{cross, dot, sub};

pub(crate) type Vec3 = [f64; 3];

/// Matrix times vector.
pub(crate) fn times(matrix: &[Vec3; 3], v: Vec3) -> Vec3 {
    matrix.map(|row| dot(row, v))
}
