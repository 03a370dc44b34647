//! The parameters of each quality: taps, reweighting rounds, iterations.

use proto::job::Quality;

use crate::bake::model::subset;

/// One reweighting and the iterations that follow it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Scale of the robust loss in sRGB units, before the residuals' spread widens it.
    pub scale: f32,
    /// Conjugate gradient iterations.
    pub iterations: u32,
}

/// How the smoothness λ is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Smoothness {
    /// From the spread of the residuals after the first round: cheap.
    FromSpread,
    /// By cross-validation, from strong to weak λ, judged on views that are left out meanwhile.
    CrossValidated {
        /// Iterations at each λ.
        iterations: u32,
        /// From so many rows on, the [`subset`] of them serves.
        enough: u64,
        /// Whether the last λ is taken even if it gained next to nothing.
        to_the_last: bool,
    },
}

/// Rows from which on λ is found on the subset: it then has a million rows.
const ENOUGH: u64 = (subset::ONE_IN as u64) << 20;

/// The parameters of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// s of s×s taps a pixel.
    pub taps: u32,
    /// Where λ comes from.
    pub smoothness: Smoothness,
    /// Rounds with all views at the λ found, in order. The last scale is a compromise: 0.015 gains 1.2 dB over 0.05
    /// under highlights, and loses 0.3 on thin parts and 0.8 beside occluders.
    pub rounds: Vec<Round>,
}

impl Plan {
    /// The same plan for strips of a texture (the pilot fit), where λ is found on all rows. The coarse texels around
    /// them make every gain small: without the last step, 100 views of 1024² into 2048² in subdomains of 1 GiB and 512
    /// MiB lose 0.6 dB.
    pub fn of_strips(&self) -> Self {
        let smoothness = match self.smoothness {
            Smoothness::FromSpread => Smoothness::FromSpread,
            Smoothness::CrossValidated { iterations, .. } => Smoothness::CrossValidated {
                iterations,
                enough: u64::MAX,
                to_the_last: true,
            },
        };
        Self {
            smoothness,
            ..self.clone()
        }
    }

    /// The plan of a quality.
    pub fn new(quality: Quality) -> Self {
        let plan = |taps, smoothness, rounds: &[(f32, u32)]| Self {
            taps,
            smoothness,
            rounds: rounds
                .iter()
                .map(|&(scale, iterations)| Round { scale, iterations })
                .collect(),
        };
        match quality {
            Quality::Draft => plan(2, Smoothness::FromSpread, &[(0.15, 5), (0.05, 7)]),
            Quality::Standard => plan(
                4,
                Smoothness::CrossValidated {
                    iterations: 6,
                    enough: ENOUGH,
                    to_the_last: false,
                },
                &[(0.06, 3), (0.04, 5), (0.03, 6)],
            ),
            Quality::Best => plan(
                6,
                Smoothness::CrossValidated {
                    iterations: 10,
                    enough: ENOUGH,
                    to_the_last: false,
                },
                &[(0.1, 10), (0.06, 16), (0.04, 20), (0.03, 40)],
            ),
        }
    }
}
