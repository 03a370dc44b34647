//! A view and its render → the gain of each channel that brings them closest, and the PSNR that is left after it.
//!
//! A photograph of another exposure or white balance has a low PSNR however good the texture is. The gain is that in linear
//! light with the least squared error in sRGB, where PSNR is judged, by Gauss-Newton steps from 1.

use rayon::prelude::*;

use crate::image::measure::psnr;
use crate::image::render::srgb::{decode, encode};

const STEPS: usize = 6;
/// Pixels whose sums one thread takes.
const PIECE: usize = 1 << 14;

/// The gain of each channel by which the render must be multiplied, and the PSNR after it in dB. Both pictures hold a plane of
/// sRGB values for each channel, of which the `compared` ones count.
pub(super) fn after_gain(
    truth: &[Vec<f32>; 3],
    render: &[Vec<f32>; 3],
    compared: &[bool],
) -> ([f32; 3], f64) {
    let count = compared.iter().filter(|&&compared| compared).count();
    let mut squares = 0.0;
    let gains = [0, 1, 2].map(|channel| {
        let (gain, least) = fitted(&truth[channel], &render[channel], compared);
        squares += least;
        gain as f32
    });
    (gains, psnr(squares / (3 * count).max(1) as f64))
}

/// The gain of one channel, and the sum of squared errors after it.
fn fitted(truth: &[f32], render: &[f32], compared: &[bool]) -> (f64, f64) {
    let (mut gain, mut best) = (1.0, (1.0, f64::INFINITY));
    for _ in 0..=STEPS {
        let [squares, slope, curve] = sums(truth, render, compared, gain);
        if squares < best.1 {
            best = (gain, squares);
        }
        let step = slope / curve;
        if !step.is_finite() {
            break;
        }
        // A gain cannot fall below 0, and no first step goes far.
        gain = (gain - step).clamp(0.5 * gain, 2.0 * gain);
    }
    best
}

/// Sums over the compared pixels at a gain: squared errors, and the first and second derivative of half of them.
fn sums(truth: &[f32], render: &[f32], compared: &[bool], gain: f64) -> [f64; 3] {
    let of = |((truth, render), compared): ((&[f32], &[f32]), &[bool])| {
        let mut sums = [0.0; 3];
        for ((&truth, &render), _) in truth.iter().zip(render).zip(compared).filter(|(_, c)| **c) {
            let light = decode(render);
            let shown = encode(gain as f32 * light).min(1.0);
            let error = f64::from(shown - truth);
            sums[0] += error * error;
            // What is clipped to white does not change with the gain.
            if shown < 1.0 {
                let more = encode(1.01 * gain as f32 * light);
                let slope = f64::from(more - shown) / (0.01 * gain);
                sums[1] += error * slope;
                sums[2] += slope * slope;
            }
        }
        sums
    };
    // Pieces do not depend on the number of threads, and are added in order.
    let pieces: Vec<[f64; 3]> = (truth.par_chunks(PIECE).zip(render.par_chunks(PIECE)))
        .zip(compared.par_chunks(PIECE))
        .map(of)
        .collect();
    let add = |sum: [f64; 3], more: &[f64; 3]| std::array::from_fn(|k| sum[k] + more[k]);
    pieces.iter().fold([0.0; 3], add)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ramp of greys, and the same under these gains.
    fn pictures(gains: [f32; 3]) -> ([Vec<f32>; 3], [Vec<f32>; 3]) {
        let ramp: Vec<f32> = (0..20_000)
            .map(|k| 0.1 + 0.6 * (k % 97) as f32 / 97.0)
            .collect();
        let exposed = |gain: f32| {
            let of = |&x: &f32| encode(gain * decode(x)).min(1.0);
            ramp.iter().map(of).collect()
        };
        (gains.map(exposed), [0, 1, 2].map(|_| ramp.clone()))
    }

    #[test]
    fn another_exposure_of_each_channel_is_found_and_taken_out() {
        let gains = [0.7, 1.0, 1.4];
        let (truth, render) = pictures(gains);
        let (found, db) = after_gain(&truth, &render, &vec![true; 20_000]);
        for (found, gain) in found.into_iter().zip(gains) {
            assert!((found - gain).abs() < 1e-3, "{found} for {gain}");
        }
        assert!(db > 80.0, "{db}");
    }

    #[test]
    fn pixels_that_are_not_compared_do_not_count_and_no_gain_is_worse_than_none() {
        let (mut truth, render) = pictures([1.0; 3]);
        let mut compared = vec![true; 20_000];
        for plane in &mut truth {
            plane[7] = 0.0;
        }
        compared[7] = false;
        let (found, db) = after_gain(&truth, &render, &compared);
        assert_eq!((found, db), ([1.0; 3], 100.0));
        // Of a picture without any light no gain is known.
        let black = [0, 1, 2].map(|_| vec![0.0; 9]);
        assert_eq!(after_gain(&black, &black, &[true; 9]), ([1.0; 3], 100.0));
    }
}
