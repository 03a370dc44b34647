//! Quality → numbers: how many taps, how many reweightings, how many iterations each.

use proto::job::Quality;

/// One reweighting and the iterations that follow it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Scale of the robust loss in sRGB units, before it is widened by what the residuals themselves show.
    pub scale: f32,
    /// Conjugate gradient iterations.
    pub iterations: u32,
}

/// The numbers of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// s of s×s taps a pixel.
    pub taps: u32,
    /// In order.
    pub rounds: Vec<Round>,
    /// λ of a link relative to the mean diagonal.
    pub smoothness: f32,
    /// σ of a seam relative to the mean diagonal.
    pub seam_weight: f32,
    /// A view's scale is at least this many times its robust spread (median absolute residual · 1.4826).
    pub spread_factor: f32,
}

impl Plan {
    /// The plan of a quality.
    #[must_use]
    pub fn new(quality: Quality) -> Self {
        let rounds = |list: &[(f32, u32)]| list.iter().map(|&(scale, iterations)| Round { scale, iterations }).collect();
        match quality {
            Quality::Draft => Self {
                taps: 2,
                rounds: rounds(&[(0.15, 6), (0.05, 6)]),
                smoothness: 2e-4,
                seam_weight: 0.02,
                spread_factor: 3.0,
            },
            Quality::Standard => Self {
                taps: 4,
                rounds: rounds(&[(0.15, 10), (0.06, 10), (0.03, 15), (0.015, 15)]),
                smoothness: 2e-5,
                seam_weight: 0.02,
                spread_factor: 3.0,
            },
            Quality::Best => Self {
                taps: 6,
                rounds: rounds(&[(0.15, 12), (0.1, 12), (0.06, 16), (0.03, 20), (0.015, 40)]),
                smoothness: 2e-5,
                seam_weight: 0.02,
                spread_factor: 3.0,
            },
        }
    }

    /// Iterations in all.
    #[must_use]
    pub fn iterations(&self) -> u32 {
        self.rounds.iter().map(|round| round.iterations).sum()
    }
}
