//! Structural similarity of two pictures (SSIM: Wang, Bovik, Sheikh, Simoncelli, "Image quality assessment: from error
//! visibility to structural similarity", 2004). Windows are Gaussian with σ = 1.5, cut to 11×11; K₁ = 0.01, K₂ = 0.03
//! for values 0-1. Pictures are mirrored at the border. The result is the mean over the channels.

use rayon::prelude::*;

use crate::worker::progress::{Ticker, unit};

const RADIUS: usize = 5;
const SIGMA: f64 = 1.5;
const C1: f64 = 0.01 * 0.01;
const C2: f64 = 0.03 * 0.03;

/// Mean over the pixels of `mask`; 0 without any. Channels are planes with rows of `width` pixels.
pub(super) fn ssim(one: &[Vec<f32>; 3], other: &[Vec<f32>; 3], mask: &[bool], width: usize) -> f64 {
    let count = mask.iter().filter(|&&counts| counts).count();
    if count == 0 {
        return 0.0;
    }
    let channels: Vec<f64> = (0..3)
        .into_par_iter()
        .map(|channel| plane(&one[channel], &other[channel], mask, width))
        .collect();
    channels.iter().sum::<f64>() / (3 * count) as f64
}

/// Sum of the SSIM of one channel over the pixels of `mask`.
fn plane(one: &[f32], other: &[f32], mask: &[bool], width: usize) -> f64 {
    let product = |a: &[f32], b: &[f32]| -> Vec<f64> {
        let pairs = a.iter().zip(b);
        pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).collect()
    };
    let wide = |a: &[f32]| -> Vec<f64> { a.iter().map(|&a| f64::from(a)).collect() };
    let mean = |plane: Vec<f64>| {
        let blurred = blur(&plane, width);
        unit();
        blurred
    };
    let (x, y) = (mean(wide(one)), mean(wide(other)));
    let (xx, yy) = (mean(product(one, one)), mean(product(other, other)));
    let xy = mean(product(one, other));
    let mut sum = 0.0;
    for index in (0..mask.len()).filter(|&index| mask[index]) {
        let (mx, my) = (x[index], y[index]);
        let (sx, sy, sxy) = (
            xx[index] - mx * mx,
            yy[index] - my * my,
            xy[index] - mx * my,
        );
        sum +=
            (2.0 * mx * my + C1) * (2.0 * sxy + C2) / ((mx * mx + my * my + C1) * (sx + sy + C2));
    }
    sum
}

/// The windowed mean around each pixel.
fn blur(plane: &[f64], width: usize) -> Vec<f64> {
    let height = plane.len() / width;
    let weights: [f64; 2 * RADIUS + 1] = std::array::from_fn(|k| {
        let off = k as f64 - RADIUS as f64;
        (-off * off / (2.0 * SIGMA * SIGMA)).exp()
    });
    let total: f64 = weights.iter().sum();
    let weights = weights.map(|weight| weight / total);
    let mut ticker = Ticker::default();
    let mut across = vec![0.0; plane.len()];
    for (line, out) in plane
        .chunks_exact(width)
        .zip(across.chunks_exact_mut(width))
    {
        ticker.did(width);
        for (column, out) in out.iter_mut().enumerate() {
            *out = (weights.iter().enumerate())
                .map(|(k, weight)| weight * line[mirrored(column + k, width)])
                .sum();
        }
    }
    let mut blurred = vec![0.0; plane.len()];
    for (row, out) in blurred.chunks_exact_mut(width).enumerate() {
        ticker.did(width);
        for (k, weight) in weights.iter().enumerate() {
            let line = &across[mirrored(row + k, height) * width..][..width];
            for (out, value) in out.iter_mut().zip(line) {
                *out += weight * value;
            }
        }
    }
    blurred
}

/// Index of the element [`RADIUS`] before `shifted` in a line of `edge`, mirrored at both ends: … 1 0 0 1 … n n ….
fn mirrored(shifted: usize, edge: usize) -> usize {
    let at = (shifted + 2 * RADIUS * edge - RADIUS) % (2 * edge);
    if at < edge { at } else { 2 * edge - 1 - at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_mirrored_at_both_ends() {
        let seen = |edge: usize, from: usize| -> Vec<usize> {
            (from..from + 4).map(|k| mirrored(k, edge)).collect()
        };
        assert_eq!(seen(10, 3), [1, 0, 0, 1]);
        assert_eq!(seen(10, 13), [8, 9, 9, 8]);
        // A line shorter than the window.
        assert_eq!(
            (0..6).map(|k| mirrored(k, 2)).collect::<Vec<_>>(),
            [0, 0, 1, 1, 0, 0]
        );
        assert_eq!(mirrored(9, 1), 0);
    }

    /// The formula itself at one pixel, with all 121 weights.
    fn slow(one: &[f32], other: &[f32], [column, row]: [usize; 2], width: usize) -> f64 {
        let height = one.len() / width;
        let mut sums = [0.0_f64; 6];
        for down in 0..11 {
            for right in 0..11 {
                let squared = (down as f64 - 5.0).powi(2) + (right as f64 - 5.0).powi(2);
                let weight = (-squared / 4.5).exp();
                let at = mirrored(row + down, height) * width + mirrored(column + right, width);
                let (x, y) = (f64::from(one[at]), f64::from(other[at]));
                for (sum, value) in sums.iter_mut().zip([1.0, x, y, x * x, y * y, x * y]) {
                    *sum += weight * value;
                }
            }
        }
        let [w, x, y, xx, yy, xy] = sums;
        let (x, y) = (x / w, y / w);
        let (sx, sy, sxy) = (xx / w - x * x, yy / w - y * y, xy / w - x * y);
        (2.0 * x * y + 1e-4) * (2.0 * sxy + 9e-4) / ((x * x + y * y + 1e-4) * (sx + sy + 9e-4))
    }

    fn noise(count: usize, seed: u32) -> Vec<f32> {
        let byte = |k: usize| (k as u32 + seed).wrapping_mul(2_654_435_761) >> 24;
        (0..count).map(|k| byte(k) as f32 / 255.0).collect()
    }

    #[test]
    fn figures_are_the_formulas() {
        let width = 19;
        let (one, other) = (noise(19 * 13, 1), noise(19 * 13, 7));
        let mixed: Vec<f32> = one
            .iter()
            .zip(&other)
            .map(|(a, b)| 0.7 * a + 0.3 * b)
            .collect();
        for at in [[0, 0], [9, 6], [18, 12], [3, 12]] {
            let mut mask = vec![false; one.len()];
            mask[at[1] * width + at[0]] = true;
            let planes = |plane: &Vec<f32>| [plane.clone(), plane.clone(), plane.clone()];
            let fast = ssim(&planes(&one), &planes(&mixed), &mask, width);
            let wanted = slow(&one, &mixed, at, width);
            assert!(
                (fast - wanted).abs() < 1e-9,
                "{at:?}: {fast} instead of {wanted}"
            );
            assert!(wanted < 0.99, "the oracle sees a difference");
        }
    }

    #[test]
    fn equal_pictures_are_alike_and_nothing_is_nothing() {
        let planes = [noise(100, 1), noise(100, 2), noise(100, 3)];
        assert!((ssim(&planes, &planes, &[true; 100], 10) - 1.0).abs() < 1e-12);
        assert!(ssim(&planes, &planes, &[false; 100], 10).abs() < 1e-12);
    }
}
