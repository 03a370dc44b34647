//! Start texels → texels that explain the views: iteratively reweighted least squares over any [`Backend`], with the
//! smoothness found by cross-validation.
//!
//! Two numbers decide a fit, and both come from the data:
//! - The scale c of the robust loss: annealed as the plan says, but never below a multiple of the residuals' own spread,
//!   since where views and mesh disagree a small scale throws good data away.
//! - The smoothness λ: views that see every texel often want hardly any, sparse or contradicting views want a thousand times
//!   as much. Every sixth view is left out while λ goes down from strong to weak; the λ that explains them best is taken.

use super::backend::{BINS, Backend, BackendError, Strength, ViewResiduals, bin_middle};
use super::plan::{Plan, Smoothness};

/// The scale is at least this many standard deviations of the residuals: 3 and 6 cost 0.25 and 0.1 dB where views and mesh
/// disagree, and gained nothing elsewhere.
const SPREADS: f32 = 10.0;
/// Cross-validation starts here and divides by [`STEP`] each time, down to [`WEAKEST`] at most.
const STRONGEST: f32 = 4.0;
const STEP: f32 = 4.0;
const WEAKEST: f32 = 1e-5;
/// One view of this many is left out.
const FOLD: usize = 6;
/// A step that explains the left-out views better by less than this share is the last.
const LEAST_GAIN: f64 = 0.015;
/// λ where there are too few views to leave one out.
const FEW_VIEWS: f32 = 0.02;
/// Seams are tied at least this firmly, and never less than neighbours.
const SEAM: f32 = 0.02;

/// What the fit came to.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// λ, see [`Strength`].
    pub smoothness: f32,
    /// Scale of the robust loss in the last round.
    pub scale: f32,
    /// Conjugate gradient iterations in all.
    pub iterations: u32,
    /// Residuals of each view at the end.
    pub residuals: Vec<ViewResiduals>,
}

/// The residual that this share of the pixels of all `views` stays below.
#[must_use]
pub fn quantile<'a>(views: impl IntoIterator<Item = &'a ViewResiduals>, share: f64) -> f32 {
    let mut histogram = [0u64; BINS];
    for view in views {
        for (sum, count) in histogram.iter_mut().zip(view.histogram) {
            *sum += u64::from(count);
        }
    }
    let wanted = (histogram.iter().sum::<u64>() as f64 * share) as u64;
    let mut seen = 0;
    for (bin, count) in histogram.into_iter().enumerate() {
        seen += count;
        if seen > wanted {
            return bin_middle(bin);
        }
    }
    0.0
}

/// 1.4826 · median: the standard deviation, if the residuals were normal.
fn spread(views: &[ViewResiduals]) -> f32 {
    1.4826 * quantile(views, 0.5)
}

fn strength(smoothness: f32) -> Strength {
    Strength {
        smoothness,
        seam: smoothness.max(SEAM),
    }
}

/// Runs the plan from the backend's present texels; `progress` hears of iterations done, and how many there may be in all.
///
/// # Errors
/// The adapter's.
pub fn fit(
    backend: &mut dyn Backend,
    plan: &Plan,
    mut progress: impl FnMut(u32, u32),
) -> Result<Fitted, BackendError> {
    let to_come: u32 = plan.rounds.iter().map(|round| round.iterations).sum();
    let mut done = 0;
    let mut residuals = backend.residuals()?;
    let smoothness = match plan.smoothness {
        Smoothness::FromSpread => from_spread(&residuals),
        Smoothness::CrossValidated { .. } if residuals.len() < 4 => FEW_VIEWS,
        Smoothness::CrossValidated { iterations } => {
            cross_validate(backend, iterations, |so_far| {
                done = so_far;
                progress(done, to_come + done + iterations);
            })?
        }
    };
    let total = done + to_come;
    let mut scale = f32::INFINITY;
    for round in &plan.rounds {
        residuals = backend.residuals()?;
        scale = round.scale.max(SPREADS * spread(&residuals));
        backend.reweight(&vec![scale; residuals.len()], strength(smoothness))?;
        backend.solve(round.iterations)?;
        done += round.iterations;
        progress(done, total);
        tracing::debug!(scale, smoothness, spread = spread(&residuals), "round");
    }
    Ok(Fitted {
        smoothness,
        scale,
        iterations: done,
        residuals: backend.residuals()?,
    })
}

/// Noise of one standard deviation 0.004 (one step of 8 bits) wants about 2e-3 on ordinary views, and the noise counts
/// squared, as it does in the data term.
fn from_spread(residuals: &[ViewResiduals]) -> f32 {
    (2e-3 * (1.0 + (spread(residuals) / 0.01).powi(2))).min(STRONGEST)
}

/// Passes over all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// Of the average.
    pub average: u32,
    /// Of the fit.
    pub fit: u32,
}

/// Strengths of λ that cross-validation tries as a rule: 4 to 9 on the sets of the README.
const USUALLY_TRIED: u32 = 5;

/// The passes of a plan, about: how many strengths are tried is known only by trying. Residuals take one, reweighting three, a
/// solution one for its defect and one for each iteration.
#[must_use]
pub fn passes(plan: &Plan) -> Passes {
    let round = |iterations: u32| 1 + 3 + 1 + iterations;
    let tried = match plan.smoothness {
        Smoothness::FromSpread => 0,
        Smoothness::CrossValidated { iterations } => USUALLY_TRIED * (round(iterations) + 1),
    };
    let rounds: u32 = (plan.rounds.iter())
        .map(|plan| round(plan.iterations))
        .sum();
    Passes {
        average: 2,
        fit: 1 + tried + rounds + 1,
    }
}

/// λ by cross-validation; the texels stay at the last one tried.
fn cross_validate(
    backend: &mut dyn Backend,
    iterations: u32,
    mut progress: impl FnMut(u32),
) -> Result<f32, BackendError> {
    let left_out = |view: usize| view % FOLD == FOLD / 2;
    let (mut best, mut least) = (FEW_VIEWS, f64::INFINITY);
    let mut smoothness = STRONGEST;
    let mut done = 0;
    while smoothness >= WEAKEST {
        let residuals = backend.residuals()?;
        let scale = SPREADS * spread(&residuals);
        let scales: Vec<f32> = (0..residuals.len())
            .map(|view| if left_out(view) { 0.0 } else { scale.max(0.1) })
            .collect();
        backend.reweight(&scales, strength(smoothness))?;
        backend.solve(iterations)?;
        done += iterations;
        progress(done);
        let residuals = backend.residuals()?;
        let error = robust_error(
            residuals
                .iter()
                .enumerate()
                .filter(|(view, _)| left_out(*view))
                .map(|(_, r)| r),
        );
        tracing::debug!(smoothness, error, "cross-validation");
        let gained = error < (1.0 - LEAST_GAIN) * least;
        if error < least {
            (best, least) = (smoothness, error);
        }
        if !gained {
            break;
        }
        smoothness /= STEP;
    }
    Ok(best)
}

/// Mean of the Geman-McClure loss of scale 0.1: occluders in the left-out views count no more than large errors.
fn robust_error<'a>(views: impl Iterator<Item = &'a ViewResiduals>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for view in views {
        for (bin, &pixels) in view.histogram.iter().enumerate() {
            let squared = f64::from(bin_middle(bin)).powi(2);
            sum += f64::from(pixels) * squared / (1.0 + squared / 0.01);
            count += f64::from(pixels);
        }
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

#[cfg(test)]
mod tests;
