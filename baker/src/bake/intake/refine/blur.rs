//! Gaussian blur of a plane of values, and its slope.

/// Width and values, row by row. Outside it is 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plane {
    pub(super) width: usize,
    pub(super) values: Vec<f32>,
}

impl Plane {
    pub(super) fn height(&self) -> usize {
        self.values.len() / self.width
    }

    /// Blurred with a standard deviation of `sigma` pixels, cut off at three of them.
    pub(super) fn blurred(&self, sigma: f64) -> Self {
        let kernel = kernel(sigma);
        let (width, height) = (self.width, self.height());
        let mut across = vec![0.0; self.values.len()];
        for (line, out) in self
            .values
            .chunks_exact(width)
            .zip(across.chunks_exact_mut(width))
        {
            // Most of a picture is empty: only the surroundings of values are touched.
            let Some(first) = line.iter().position(|&value| value != 0.0) else {
                continue;
            };
            let last = line
                .iter()
                .rposition(|&value| value != 0.0)
                .unwrap_or(first);
            for (k, &weight) in kernel.iter().enumerate() {
                // From column x to x + k and x - k.
                add(
                    &mut out[(first + k).min(width)..],
                    &line[first..=last],
                    weight,
                );
                if k > 0 {
                    let cut = k.saturating_sub(first);
                    if first + cut <= last {
                        add(
                            &mut out[first + cut - k..],
                            &line[first + cut..=last],
                            weight,
                        );
                    }
                }
            }
        }
        let mut values = vec![0.0; self.values.len()];
        let row = |at: usize| &across[at * width..(at + 1) * width];
        for (at, out) in values.chunks_exact_mut(width).enumerate() {
            add(out, row(at), kernel[0]);
            for (k, &weight) in kernel.iter().enumerate().skip(1) {
                match (at.checked_sub(k), at + k < height) {
                    (Some(above), true) => add_both(out, [row(above), row(at + k)], weight),
                    (Some(above), false) => add(out, row(above), weight),
                    (None, true) => add(out, row(at + k), weight),
                    (None, false) => {}
                }
            }
        }
        Self { width, values }
    }

    /// Central differences along x and y; not defined at the border.
    pub(super) fn slope(&self, at: usize) -> [f32; 2] {
        let values = &self.values;
        [
            (values[at + 1] - values[at - 1]) / 2.0,
            (values[at + self.width] - values[at - self.width]) / 2.0,
        ]
    }
}

fn add(out: &mut [f32], line: &[f32], weight: f32) {
    for (out, value) in out.iter_mut().zip(line) {
        *out += weight * value;
    }
}

fn add_both(out: &mut [f32], [one, other]: [&[f32]; 2], weight: f32) {
    for ((out, one), other) in out.iter_mut().zip(one).zip(other) {
        *out += weight * (one + other);
    }
}

/// The kernel's centre and one side; both sides sum to 1.
fn kernel(sigma: f64) -> Vec<f32> {
    let reach = (3.0 * sigma).ceil() as i32;
    let raw: Vec<f64> = (0..=reach)
        .map(|k| (-f64::from(k * k) / (2.0 * sigma * sigma)).exp())
        .collect();
    let sum = 2.0 * raw.iter().sum::<f64>() - raw[0];
    raw.iter().map(|weight| (weight / sum) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::fixture::Random;

    /// The reference: each pixel from all others.
    fn reference(plane: &Plane, sigma: f64) -> Vec<f32> {
        let (width, height) = (plane.width as i32, plane.height() as i32);
        let reach = (3.0 * sigma).ceil() as i32;
        let weight = |k: i32| (-f64::from(k * k) / (2.0 * sigma * sigma)).exp();
        let total: f64 = (-reach..=reach).map(weight).sum();
        let mut out = Vec::new();
        for y in 0..height {
            for x in 0..width {
                let mut sum = 0.0;
                for (i, j) in (-reach..=reach).flat_map(|j| (-reach..=reach).map(move |i| (i, j))) {
                    let (x, y) = (x + i, y + j);
                    if (0..width).contains(&x) && (0..height).contains(&y) {
                        let value = plane.values[(y * width + x) as usize];
                        sum += weight(i) * weight(j) * f64::from(value);
                    }
                }
                out.push((sum / total / total) as f32);
            }
        }
        out
    }

    #[test]
    fn blurring_is_a_sum_over_neighbours() {
        let mut random = Random(9);
        for (width, height, filled) in [(23, 17, 1.0), (9, 30, 0.2), (40, 8, 0.05), (1, 1, 1.0)] {
            let values = (0..width * height)
                .map(|_| {
                    if random.within(0.0, 1.0) < filled {
                        random.within(-1.0, 2.0) as f32
                    } else {
                        0.0
                    }
                })
                .collect();
            let plane = Plane { width, values };
            for sigma in [0.7, 1.5, 3.0, 6.0] {
                let (found, wanted) = (plane.blurred(sigma), reference(&plane, sigma));
                for (found, wanted) in found.values.iter().zip(wanted) {
                    assert!((found - wanted).abs() < 1e-5, "{sigma}: {found} {wanted}");
                }
            }
        }
    }

    #[test]
    fn the_slope_is_along_x_then_y() {
        let values = (0..30)
            .map(|at| (3 * (at % 6) + 7 * (at / 6)) as f32)
            .collect();
        let plane = Plane { width: 6, values };
        assert_eq!(plane.slope(2 * 6 + 3), [3.0, 7.0]);
    }
}
