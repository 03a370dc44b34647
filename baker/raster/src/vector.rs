//! Arithmetic of vectors with three components.

/// `a - b`.
pub fn sub(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

/// `a × b`. `cross(b, a)` is exactly the negative: the products are the same numbers, and a difference rounds
/// symmetrically.
pub fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

/// `a · b`.
pub fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// The vector scaled to length one; none for a zero vector.
pub fn unit(v: [f64; 3]) -> Option<[f64; 3]> {
    // Scaled first: squares leave f64 only far beyond our bounds, but that costs nothing to avoid.
    let largest = v.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    if !(largest > 0.0 && largest.is_finite()) {
        return None;
    }
    let scaled = v.map(|x| x / largest);
    let length = scaled.iter().map(|x| x * x).sum::<f64>().sqrt();
    Some(scaled.map(|x| x / length))
}
