//! The colour that a splat shows in a direction: real spherical harmonics up to degree 3, with the signs and the order of
//! Kerbl et al., "3D Gaussian Splatting for Real-Time Radiance Field Rendering" (2023), and its reference code.

use crate::cloud::coefficients;

/// Of the constant function.
pub const C0: f32 = 0.282_094_8;
/// Of the functions of degree 1.
pub const C1: f32 = 0.488_602_52;
/// Of the functions of degree 2.
pub const C2: [f32; 5] = [
    1.092_548_5,
    -1.092_548_5,
    0.315_391_57,
    -1.092_548_5,
    0.546_274_24,
];
/// Of the functions of degree 3.
pub const C3: [f32; 7] = [
    -0.590_043_6,
    2.890_611_4,
    -0.457_045_8,
    0.373_176_34,
    -0.457_045_8,
    1.445_305_7,
    -0.590_043_6,
];

/// Red, green and blue in display space, 0 and more. `direction` is the unit vector from the eye to the splat; `degree`
/// says how many of the harmonics count.
pub(crate) fn shown(
    constant: [f32; 3],
    harmonics: &[[f32; 3]],
    degree: usize,
    direction: [f32; 3],
) -> [f32; 3] {
    let mut colour = constant.map(|x| C0 * x);
    let count = coefficients(degree).min(harmonics.len());
    let basis = basis(direction);
    for (harmonic, by) in harmonics[..count].iter().zip(basis) {
        for (sum, x) in colour.iter_mut().zip(harmonic) {
            *sum += by * x;
        }
    }
    colour.map(|x| (x + 0.5).max(0.0))
}

/// The functions of degrees 1 to 3.
pub(crate) fn basis([x, y, z]: [f32; 3]) -> [f32; 15] {
    let [xx, yy, zz] = [x * x, y * y, z * z];
    let [xy, yz, xz] = [x * y, y * z, x * z];
    [
        -C1 * y,
        C1 * z,
        -C1 * x,
        C2[0] * xy,
        C2[1] * yz,
        C2[2] * (2.0 * zz - xx - yy),
        C2[3] * xz,
        C2[4] * (xx - yy),
        C3[0] * y * (3.0 * xx - yy),
        C3[1] * xy * z,
        C3[2] * y * (4.0 * zz - xx - yy),
        C3[3] * z * (2.0 * zz - 3.0 * xx - 3.0 * yy),
        C3[4] * x * (4.0 * zz - xx - yy),
        C3[5] * z * (xx - yy),
        C3[6] * x * (xx - 3.0 * yy),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integrals of products over the sphere are those of an orthonormal basis: no constant and no term is wrong.
    #[test]
    fn the_functions_are_orthonormal() {
        let (rings, steps) = (512, 16);
        let mut sums = [[0.0_f64; 15]; 15];
        for ring in 0..rings {
            // Equal areas between planes; midpoints.
            let z = (f64::from(ring) + 0.5) / f64::from(rings) * 2.0 - 1.0;
            let across = (1.0 - z * z).sqrt();
            for step in 0..steps {
                let angle = f64::from(step) / f64::from(steps) * std::f64::consts::TAU;
                let at = [across * angle.cos(), across * angle.sin(), z].map(|x| x as f32);
                let values = basis(at);
                for (row, a) in sums.iter_mut().zip(values) {
                    for (sum, b) in row.iter_mut().zip(values) {
                        *sum += f64::from(a * b);
                    }
                }
            }
        }
        let area = 4.0 * std::f64::consts::PI / f64::from(rings * steps);
        for (i, row) in sums.iter().enumerate() {
            for (j, sum) in row.iter().enumerate() {
                let wanted = if i == j { 1.0 } else { 0.0 };
                assert!(
                    (sum * area - wanted).abs() < 2e-3,
                    "{i} {j}: {}",
                    sum * area
                );
            }
        }
    }

    #[test]
    fn a_degree_leaves_out_those_above_it_and_light_is_not_negative() {
        let harmonics: Vec<[f32; 3]> = (0..15).map(|k| [0.01 * k as f32; 3]).collect();
        let direction = [0.48, 0.6, 0.64];
        let constant = [1.0, -3.0, 0.0];
        let of = |degree| shown(constant, &harmonics, degree, direction);
        assert_eq!(of(0), [0.5 + C0, 0.0, 0.5]);
        let first = C1 * (0.64 * 0.01 - 0.48 * 0.02);
        assert!((of(1)[2] - 0.5 - first).abs() < 1e-6);
        assert!(of(1) != of(2) && of(2) != of(3));
    }
}
