//! Products of vectors and matrices of three, in 64 bits and in one order of operations.

pub(crate) type Vec3 = [f64; 3];

pub(crate) fn sub(a: Vec3, b: Vec3) -> Vec3 {
    std::array::from_fn(|k| a[k] - b[k])
}

pub(crate) fn dot(a: Vec3, b: Vec3) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(crate) fn cross(a: Vec3, b: Vec3) -> Vec3 {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

/// Matrix times vector.
pub(crate) fn times(matrix: &[Vec3; 3], v: Vec3) -> Vec3 {
    matrix.map(|row| dot(row, v))
}
