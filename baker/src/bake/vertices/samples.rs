//! Consensus of the views on the colour of each point of the surface.
//!
//! Each point keeps its [`BEST`] views by weight. So memory does not grow with the number of views, and yet an occluder
//! in some of them can be told from the surface, which a running mean could not do.

use proto::job::Blend;
use rayon::prelude::*;

use crate::bake::model::colour::to_display;
use crate::bake::solve::backend::robust_weight;

/// Views kept of each point.
const BEST: usize = 8;
/// Scale of the Geman-McClure weight in sRGB: vertices stand for patches, which look different from different sides.
const SCALE: f32 = 0.08;
/// Rounds of reweighting after the weighted median.
const ROUNDS: usize = 6;
/// Steps of a weight's logarithm for each factor of two, so that a weight fits 16 bits to 0.03 %.
const STEPS: f32 = 1024.0;
/// Weights range from 2⁻³² to 2³¹; the code 0 means none.
const LEAST: f32 = 32.0;

/// A view's observation of a point, in the space of the fit.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// 65535 is 1.
    colour: [u16; 3],
    /// Logarithm, see [`STEPS`].
    weight: u16,
}

impl Sample {
    /// From a weighted sum and its weight.
    fn new([r, g, b, weight]: [f32; 4]) -> Self {
        Self {
            colour: [r, g, b]
                .map(|sum| ((sum / weight).clamp(0.0, 1.0) * f32::from(u16::MAX)).round() as u16),
            // Saturates at both ends.
            weight: (((weight.log2() + LEAST) * STEPS).round() as u16).max(1),
        }
    }

    fn weight(self) -> f32 {
        (f32::from(self.weight) / STEPS - LEAST).exp2()
    }

    fn colour(self) -> [f32; 3] {
        self.colour
            .map(|value| f32::from(value) / f32::from(u16::MAX))
    }
}

/// The best samples of every point.
pub(super) struct Samples(Vec<[Sample; BEST]>);

impl Samples {
    pub(super) fn new(points: usize) -> Self {
        Self(vec![[Sample::default(); BEST]; points])
    }

    /// Adds a view's observations: for every point the weighted sum of its colour, and the weight; weight 0 means none.
    pub(super) fn add(&mut self, sums: &[[f32; 4]]) {
        self.0.par_iter_mut().zip(sums).for_each(|(kept, &sum)| {
            if sum[3] <= 0.0 {
                return;
            }
            let sample = Sample::new(sum);
            if let Some(worst) = kept.iter_mut().min_by_key(|kept| kept.weight)
                && worst.weight < sample.weight
            {
                *worst = sample;
            }
        });
    }

    /// The colour of every point that some view has seen.
    pub(super) fn consensus(&self, blend: Blend) -> Vec<Option<[f32; 3]>> {
        self.0
            .par_iter()
            .map(|kept| {
                let known: Vec<(f32, [f32; 3])> = kept
                    .iter()
                    .filter(|sample| sample.weight > 0)
                    .map(|sample| (sample.weight(), sample.colour()))
                    .collect();
                (!known.is_empty()).then(|| agree(&known, blend))
            })
            .collect()
    }
}

/// Iteratively reweighted mean, starting from the weighted median.
fn agree(known: &[(f32, [f32; 3])], blend: Blend) -> [f32; 3] {
    let display = |colour: [f32; 3]| colour.map(|value| to_display(value, blend));
    let shown: Vec<[f32; 3]> = known.iter().map(|&(_, colour)| display(colour)).collect();
    let mut colour = std::array::from_fn(|channel| median(known, channel));
    for _ in 0..ROUNDS {
        let now = display(colour);
        let (mut sum, mut total) = ([0.0; 3], 0.0);
        for (&(weight, colour), shown) in known.iter().zip(&shown) {
            let squares: f32 = (0..3).map(|k| (shown[k] - now[k]).powi(2)).sum();
            let weight = weight * robust_weight((squares / 3.0).sqrt(), SCALE);
            for channel in 0..3 {
                sum[channel] += weight * colour[channel];
            }
            total += weight;
        }
        colour = sum.map(|value| value / total);
    }
    colour
}

/// Weighted median of a channel.
fn median(known: &[(f32, [f32; 3])], channel: usize) -> f32 {
    let mut sorted: Vec<(f32, f32)> = known
        .iter()
        .map(|&(weight, colour)| (colour[channel], weight))
        .collect();
    sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = sorted.iter().map(|&(_, weight)| weight).sum::<f32>() / 2.0;
    let mut below = 0.0;
    sorted
        .iter()
        .find(|&&(_, weight)| {
            below += weight;
            below >= half
        })
        .or(sorted.last())
        .map_or(0.0, |&(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sum of this weight.
    fn word(colour: [f32; 3], weight: f32) -> [f32; 4] {
        let [r, g, b] = colour.map(|value| value * weight);
        [r, g, b, weight]
    }

    #[test]
    fn a_sample_keeps_colour_and_weight() {
        for weight in [1e-9, 3e-4, 1.0, 77.7, 5e8] {
            let sample = Sample::new(word([0.0, 0.123_45, 1.0], weight));
            assert!((sample.weight() / weight - 1.0).abs() < 4e-4, "{weight}");
            let colour = sample.colour();
            assert!((colour[1] - 0.123_45).abs() < 1e-5 && colour[0] == 0.0 && colour[2] == 1.0);
        }
        // Never zero, however small.
        assert_eq!(Sample::new(word([0.5; 3], 1e-30)).weight, 1);
    }

    #[test]
    fn contradicting_views_are_outvoted_and_the_least_trusted_forgotten() {
        let mut samples = Samples::new(3);
        let nothing = [0.0; 4];
        // Three of eight views show an occluder. Then thirty of less weight come, all of another colour.
        for k in 0..8 {
            let colour = if k % 3 == 1 {
                [0.9, 0.0, 0.9]
            } else {
                [0.2, 0.3 + 0.002 * k as f32, 0.1]
            };
            samples.add(&[word(colour, 2.0), nothing, word([0.5; 3], 1e-6)]);
        }
        for _ in 0..30 {
            samples.add(&[word([0.0, 0.0, 1.0], 1.9), nothing, nothing]);
        }
        let [occluded, unseen, faint] = samples.consensus(Blend::Linear)[..] else {
            panic!("three points")
        };
        let found = occluded.expect("seen");
        for (found, wanted) in found.into_iter().zip([0.2, 0.307, 0.1]) {
            assert!((found - wanted).abs() < 0.01, "{found} for {wanted}");
        }
        assert_eq!(unseen, None);
        assert!((faint.expect("seen")[0] - 0.5).abs() < 1e-4);
    }
}
