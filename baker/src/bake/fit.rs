//! Start texels → texels that explain the views: iteratively reweighted least squares over any [`Backend`].

use super::backend::{Backend, BackendError, BINS, ViewResiduals, bin_middle};
use super::plan::Plan;

/// The residual that this share of a view's pixels stays below.
#[must_use]
pub fn quantile(residuals: &ViewResiduals, share: f64) -> f32 {
    let wanted = (residuals.rows as f64 * share) as u64;
    let mut seen = 0;
    for bin in 0..BINS {
        seen += u64::from(residuals.histogram[bin]);
        if seen > wanted {
            return bin_middle(bin);
        }
    }
    0.0
}

/// Runs the plan's rounds; `progress` hears of each iteration done.
///
/// # Errors
/// The adapter's.
pub fn fit(backend: &mut dyn Backend, plan: &Plan, mut progress: impl FnMut(u32)) -> Result<(), BackendError> {
    let mut done = 0;
    for round in &plan.rounds {
        let scales: Vec<f32> = backend
            .residuals()?
            .iter()
            .map(|residuals| {
                // 1.4826 · median is the standard deviation of a normal distribution.
                let spread = 1.4826 * quantile(residuals, 0.5);
                round.scale.max(plan.spread_factor * spread)
            })
            .collect();
        backend.reweight(&scales)?;
        backend.solve(round.iterations)?;
        done += round.iterations;
        progress(done);
    }
    Ok(())
}
