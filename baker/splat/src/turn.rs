//! Spherical harmonics of a splat that is turned with its world.
//!
//! Coefficients of the turned function are integrals over the sphere, `∫ Yⱼ(d) · Yₖ(Rᵀ d)`. A product of two functions of
//! degree 3 is a polynomial of degree 6, which four rings by the rule of Gauss and eight steps around each integrate exactly.

use std::f64::consts::TAU;

use crate::colour::basis;

/// Heights of the rings of directions, and their weights.
const RINGS: [[f64; 2]; 4] = [
    [-0.861_136_311_594_052_6, 0.347_854_845_137_453_9],
    [-0.339_981_043_584_856_3, 0.652_145_154_862_546_1],
    [0.339_981_043_584_856_3, 0.652_145_154_862_546_1],
    [0.861_136_311_594_052_6, 0.347_854_845_137_453_9],
];
const STEPS: usize = 8;

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Turn([[f64; 15]; 15]);

impl Turn {
    /// The turn that takes x, y and z to these unit vectors.
    pub fn new(axes: [[f64; 3]; 3]) -> Self {
        let mut matrix = [[0.0; 15]; 15];
        for [height, weight] in RINGS {
            let across = (1.0 - height * height).sqrt();
            for step in 0..STEPS {
                let (sine, cosine) = (step as f64 / STEPS as f64 * TAU).sin_cos();
                let direction = [across * cosine, across * sine, height];
                let before = axes.map(|axis| (0..3).map(|k| axis[k] * direction[k]).sum::<f64>());
                let [new, old] = [direction, before].map(|d| basis(d.map(|x| x as f32)));
                for (row, new) in matrix.iter_mut().zip(new) {
                    for (sum, old) in row.iter_mut().zip(old) {
                        *sum += weight * TAU / STEPS as f64 * f64::from(new) * f64::from(old);
                    }
                }
            }
        }
        Self(matrix)
    }

    /// Turns the coefficients of a splat, degree by degree from the first, all of each.
    pub fn apply(&self, harmonics: &mut [[f32; 3]]) {
        let mut before = [[0.0; 3]; 15];
        let count = harmonics.len().min(before.len());
        before[..count].copy_from_slice(&harmonics[..count]);
        for (into, row) in harmonics.iter_mut().zip(&self.0) {
            *into = [0, 1, 2].map(|channel| {
                let terms = row[..count].iter().zip(&before);
                terms.map(|(by, x)| by * f64::from(x[channel])).sum::<f64>() as f32
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::coefficients;
    use crate::colour::shown;

    #[test]
    fn what_is_turned_shows_in_the_turned_direction_what_it_showed_before() {
        // Columns of the quaternion (w, x, y, z) = (2, 1, -3, 0.5) / √14.25.
        let (w, x, y, z) = (2.0_f64, 1.0, -3.0, 0.5);
        let by = 2.0 / 14.25;
        let axes = [
            [
                1.0 - by * (y * y + z * z),
                by * (x * y + z * w),
                by * (x * z - y * w),
            ],
            [
                by * (x * y - z * w),
                1.0 - by * (x * x + z * z),
                by * (y * z + x * w),
            ],
            [
                by * (x * z + y * w),
                by * (y * z - x * w),
                1.0 - by * (x * x + y * y),
            ],
        ];
        let turn = Turn::new(axes);
        let all: Vec<[f32; 3]> = (0..15)
            .map(|k| [0.3, -0.2, 0.1].map(|x| x * ((k * 7 % 5) as f32 - 1.5)))
            .collect();
        for degree in 1..=3 {
            let before = &all[..coefficients(degree)];
            let mut after = before.to_vec();
            turn.apply(&mut after);
            for direction in [[0.48, 0.6, 0.64], [-0.8, 0.0, 0.6], [0.0, -1.0, 0.0]] {
                let turned: [f32; 3] = std::array::from_fn(|row| {
                    (0..3)
                        .map(|k| axes[k][row] * f64::from(direction[k]))
                        .sum::<f64>() as f32
                });
                let wanted = shown([1.0; 3], before, degree, direction);
                let found = shown([1.0; 3], &after, degree, turned);
                for (found, wanted) in found.into_iter().zip(wanted) {
                    assert!((found - wanted).abs() < 1e-5, "{degree}: {found} {wanted}");
                }
            }
        }
    }
}
