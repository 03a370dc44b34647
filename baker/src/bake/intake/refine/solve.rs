//! Solves normal equations of six unknowns, along the directions that the data determine.
//!
//! A direction is measured by its effect on the object: `A e = λ M e`, where `eᵀ M e` is the mean square by which the
//! object's points move in the picture, and `eᵀ A e` that by which its silhouette does. A sphere can turn without
//! changing its silhouette: then λ is 0, and the step has no component in that direction.

use crate::bake::intake::refine::pose::Step;

/// A symmetric matrix of six rows.
pub(super) type Square = [[f64; 6]; 6];

/// The directions whose λ is at least `least`; `metric` is M.
pub(super) fn determined(a: &Square, metric: &Square, least: f64) -> Vec<Step> {
    let Some(lower) = cholesky(metric) else {
        return Vec::new();
    };
    // In coordinates y = Lᵀ x a unit of length is a pixel: L⁻¹ A L⁻ᵀ has the λ as eigenvalues.
    let mut half = [[0.0; 6]; 6];
    for column in 0..6 {
        let of: Step = std::array::from_fn(|row| a[row][column]);
        let solved = forward(&lower, &of);
        for row in 0..6 {
            half[row][column] = solved[row];
        }
    }
    let (values, vectors) = eigen(half.map(|row| forward(&lower, &row)));
    values
        .iter()
        .zip(&vectors)
        .filter(|(value, _)| **value >= least)
        .map(|(_, vector)| backward(&lower, vector))
        .collect()
}

/// Solves `A x = b` for an x in the span of these directions; 0 if they do not determine it.
pub(super) fn solve(a: &Square, b: &Step, within: &[Step]) -> Step {
    let times = |x: &Step| -> Step { a.map(|row| dot(&row, x)) };
    // Rows without a direction ask for 0.
    let mut small: Square =
        std::array::from_fn(|row| std::array::from_fn(|k| if row == k { 1.0 } else { 0.0 }));
    let mut right = [0.0; 6];
    for (row, direction) in within.iter().enumerate() {
        right[row] = dot(direction, b);
        let product = times(direction);
        for (column, other) in within.iter().enumerate() {
            small[row][column] = dot(other, &product);
        }
    }
    let Some(lower) = cholesky(&small) else {
        return [0.0; 6];
    };
    let shares = backward(&lower, &forward(&lower, &right));
    std::array::from_fn(|k| {
        let parts = within.iter().zip(shares);
        parts.map(|(direction, share)| share * direction[k]).sum()
    })
}

fn dot(a: &Step, b: &Step) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// L of `M = L Lᵀ`; none if M is singular, up to rounding.
fn cholesky(m: &Square) -> Option<Square> {
    // Rotations and translations have different units, so each is judged by its own size.
    let mut lower = [[0.0; 6]; 6];
    for row in 0..6 {
        for column in 0..=row {
            let sum: f64 = (0..column).map(|k| lower[row][k] * lower[column][k]).sum();
            let rest = m[row][column] - sum;
            if row == column {
                let floor = 1e-12 * m[row][row];
                if rest.is_nan() || m[row][row] <= 0.0 {
                    return None;
                }
                lower[row][row] = rest.max(floor).sqrt();
            } else {
                lower[row][column] = rest / lower[column][column];
            }
        }
    }
    Some(lower)
}

/// `L⁻¹ b`.
fn forward(lower: &Square, b: &Step) -> Step {
    let mut x = [0.0; 6];
    for row in 0..6 {
        let sum: f64 = (0..row).map(|k| lower[row][k] * x[k]).sum();
        x[row] = (b[row] - sum) / lower[row][row];
    }
    x
}

/// `L⁻ᵀ b`.
fn backward(lower: &Square, b: &Step) -> Step {
    let mut x = [0.0; 6];
    for row in (0..6).rev() {
        let sum: f64 = (row + 1..6).map(|k| lower[k][row] * x[k]).sum();
        x[row] = (b[row] - sum) / lower[row][row];
    }
    x
}

/// Eigenvalues and eigenvectors by Jacobi rotations.
fn eigen(mut a: Square) -> ([f64; 6], Square) {
    let mut vectors: Square =
        std::array::from_fn(|row| std::array::from_fn(|k| if row == k { 1.0 } else { 0.0 }));
    // Each sweep squares the rest off the diagonal; six are plenty.
    for _ in 0..12 {
        for p in 0..5 {
            for q in p + 1..6 {
                if a[p][q] == 0.0 {
                    continue;
                }
                let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                let t = 1.0_f64.copysign(theta) / (theta.abs() + theta.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                let s = t * c;
                for k in 0..6 {
                    let (x, y) = (a[k][p], a[k][q]);
                    (a[k][p], a[k][q]) = (c * x - s * y, s * x + c * y);
                }
                for k in 0..6 {
                    let (x, y) = (a[p][k], a[q][k]);
                    (a[p][k], a[q][k]) = (c * x - s * y, s * x + c * y);
                    let (x, y) = (vectors[p][k], vectors[q][k]);
                    (vectors[p][k], vectors[q][k]) = (c * x - s * y, s * x + c * y);
                }
            }
        }
    }
    (std::array::from_fn(|k| a[k][k]), vectors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::fixture::Random;

    /// `Σ w e eᵀ` of some vectors.
    fn sum(of: &[Step]) -> Square {
        std::array::from_fn(|row| {
            std::array::from_fn(|column| of.iter().map(|e| e[row] * e[column]).sum())
        })
    }

    fn times(a: &Square, x: &Step) -> Step {
        std::array::from_fn(|row| (0..6).map(|k| a[row][k] * x[k]).sum())
    }

    fn random(random: &mut Random, count: usize) -> Vec<Step> {
        (0..count)
            .map(|_| std::array::from_fn(|_| random.within(-1.0, 1.0)))
            .collect()
    }

    #[test]
    fn a_determined_system_is_solved() {
        let mut numbers = Random(3);
        let (a, metric) = (
            sum(&random(&mut numbers, 20)),
            sum(&random(&mut numbers, 20)),
        );
        let wanted = [0.3, -2.0, 1.0, 0.01, 5.0, -0.7];
        let all = determined(&a, &metric, 1e-6);
        assert_eq!(all.len(), 6);
        let found = solve(&a, &times(&a, &wanted), &all);
        for k in 0..6 {
            assert!((found[k] - wanted[k]).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn what_the_data_do_not_show_is_not_moved() {
        let mut numbers = Random(4);
        // Nothing is known of the sum of the first two numbers, in different units.
        let blind = |e: &Step| {
            let mean = (e[0] + e[1]) / 2.0;
            let mut e = *e;
            (e[0], e[1]) = (e[0] - mean, e[1] - mean);
            e
        };
        let rows: Vec<Step> = random(&mut numbers, 30).iter().map(blind).collect();
        let a = sum(&rows);
        let mut metric = [[0.0; 6]; 6];
        for k in 0..6 {
            metric[k][k] = 10.0_f64.powi(k as i32 - 3);
        }
        metric[1][1] = metric[0][0];
        let wanted = [0.5, -0.5, 1.0, 2.0, 3.0, 4.0];
        let mut right = times(&a, &wanted);
        // The little that is known says something absurd.
        right[0] += 1e-6;
        right[1] += 1e-6;
        let some = determined(&a, &metric, 1e-6);
        assert_eq!(some.len(), 5);
        let found = solve(&a, &right, &some);
        for k in 0..6 {
            assert!((found[k] - wanted[k]).abs() < 1e-5, "{found:?}");
        }
    }

    #[test]
    fn nothing_known_is_nothing_moved() {
        let none = [[0.0; 6]; 6];
        assert!(determined(&none, &none, 1e-6).is_empty());
        assert_eq!(solve(&none, &[1.0; 6], &[]), [0.0; 6]);
        assert_eq!(solve(&none, &[1.0; 6], &[[1.0; 6]]), [0.0; 6]);
    }
}
