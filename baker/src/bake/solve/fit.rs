//! Fits texels to the views: iteratively reweighted least squares over any [`Backend`], with cross-validated
//! smoothness.
//!
//! Two parameters decide a fit, and both come from the data:
//! - The scale c of the robust loss follows the plan, but never falls below a multiple of the residuals' own spread.
//!   Where views and mesh disagree, a small scale rejects good data.
//! - The smoothness λ. Views that see every texel often need hardly any; sparse or contradicting views need a thousand
//!   times as much. Every sixth view is left out while λ falls from strong to weak, and the λ that predicts the
//!   left-out views best is taken, interpolated between the steps. Each step starts from the pixel means until one
//!   predicts the left-out views better than they do.
//!
//! Views that contradict the others everywhere (outlier views) are found after the first round. Then λ is
//! found again without them, and all rounds run again.

use crate::bake::model::subset::ONE_IN;
use crate::bake::plan::quality::{Plan, Round, Smoothness};
use crate::bake::solve::backend::{
    Backend, BackendError, Belief, Strength, ViewResiduals, bin_middle, quantile,
};

mod outliers;

use outliers::Outliers;

/// What other fits of the same views reuse: λ, the outlier views, and the rounds.
#[derive(Clone, Debug, Default)]
pub struct Course {
    smoothness: f32,
    outliers: Outliers,
    /// With the scales that were used.
    rounds: Vec<Round>,
}

impl Course {
    /// Conjugate gradient iterations in all.
    pub fn iterations(&self) -> u32 {
        iterations_of(&self.rounds)
    }
}

/// The scale is at least this many standard deviations of the residuals: 3 and 6 cost 0.25 and 0.1 dB where views and
/// mesh disagree, and gain nothing elsewhere.
const SPREADS: f32 = 10.0;
/// Cross-validation starts here and divides by [`STEP`] each time, down to [`WEAKEST`] at most.
const STRONGEST: f32 = 1.0;
const STEP: f32 = 4.0;
/// Scale of the robust loss by which left-out views judge. Occluders, and what only the left-out views show, count no
/// more than large errors. With few views most of the error is the latter, which strong λ blurs best: at 0.1 ten views
/// of 512² choose λ = 1 for a texture of 2048², and 34.6 dB instead of 37.0. At 0.03 they reach 37.7, but highlights
/// are followed: 0.6 dB less than at 0.1 on the set that has them. At 0.05 that is 0.16 dB less.
const JUDGED: f64 = 0.05;
/// Upper bound of λ from the spread of the residuals.
const SMOOTHEST: f32 = 4.0;
/// Weaker λ gains only by its additional iterations: 100 views of 512² into 1024² have 46.7, 47.1 and 47.0 dB by 1e-3,
/// 2.4e-4 and 6e-5.
const WEAKEST: f32 = 2e-4;
/// One view of this many is left out.
const FOLD: usize = 6;
/// Relative gain below which a step gains nothing. It is the last step only once an earlier one has gained: at first
/// all may be too smooth. Where flat colours meet at sharp edges, blur counts as outliers and the first steps change
/// next to nothing. Stopping there gives 19.7 dB instead of 49.2.
const LEAST_GAIN: f64 = 0.015;
/// The last step's λ is taken only if it brings at least this share of all that the steps gained.
const LEAST_SHARE: f64 = 0.003;
/// Number of times views are judged: once the worst no longer pull the texture, others stand out.
const SEARCHES: usize = 3;
/// λ where there are too few views to leave one out.
const FEW_VIEWS: f32 = 0.02;
/// Rounds before the plan's where λ was found on the subset. Without them highlights cost 2.6 dB and occluders 0.45,
/// since all outliers count until the first weights exist. A search on all rows has the same effect.
const OPENING: [Round; 2] = [Round {
    scale: WIDE,
    iterations: 3,
}; 2];
/// Least scale of the robust loss while λ is sought.
const WIDE: f32 = 0.1;
/// Least weight of seam constraints, which is never below λ either.
const SEAM: f32 = 0.02;

/// Result of a fit.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// λ, see [`Strength`].
    pub smoothness: f32,
    /// Scale of the robust loss in the last round.
    pub scale: f32,
    /// Conjugate gradient iterations in all.
    pub iterations: u32,
    /// Final residuals of each view.
    pub residuals: Vec<ViewResiduals>,
    /// Indices of the outlier views.
    pub outliers: Vec<u32>,
    /// See [`replay`].
    pub course: Course,
}

/// 1.4826 · median: the standard deviation if the residuals were normal.
fn spread<'a>(views: impl IntoIterator<Item = &'a ViewResiduals>) -> f32 {
    1.4826 * quantile(views, 0.5)
}

fn strength(smoothness: f32) -> Strength {
    Strength {
        smoothness,
        seam: smoothness.max(SEAM),
    }
}

/// Runs the plan from the backend's present texels; `start` saves reading them. `progress` takes the iterations done,
/// and how many there may be in all.
///
/// # Errors
/// The adapter's.
pub fn fit(
    backend: &mut dyn Backend,
    plan: &Plan,
    start: Option<Vec<[f32; 4]>>,
    mut progress: impl FnMut(u32, u32),
) -> Result<Fitted, BackendError> {
    let residuals = backend.residuals()?;
    let mut fit = FitRun {
        backend,
        outliers: Outliers::none(residuals.len()),
        residuals,
        start,
        smoothness: FEW_VIEWS,
        scale: f32::INFINITY,
        done: 0,
        rounds: Vec::new(),
        progress: &mut progress,
    };
    let narrowed = fit.find_smoothness(plan)?;
    fit.start = None;
    let searched = fit.done > 0;
    if let Some((first, rest)) = plan.rounds.split_first() {
        if narrowed {
            for opening in OPENING {
                fit.round(&opening, iterations_of(&plan.rounds))?;
            }
            fit.rounds.clear();
        }
        fit.round(first, iterations_of(rest))?;
        // Looking for outlier views pays only where another round follows.
        let searches = if rest.is_empty() { 0 } else { SEARCHES };
        for _ in 0..searches {
            if !fit.find_outliers(plan)? {
                break;
            }
            fit.rounds.clear();
            fit.round(first, iterations_of(rest))?;
        }
        for (nth, round) in rest.iter().enumerate() {
            fit.round(round, iterations_of(&rest[nth + 1..]))?;
        }
    }
    let course = Course {
        smoothness: fit.smoothness,
        outliers: fit.outliers.clone(),
        rounds: course(fit.rounds, searched),
    };
    Ok(Fitted {
        smoothness: fit.smoothness,
        scale: fit.scale,
        iterations: fit.done,
        outliers: fit.outliers.indices(&fit.residuals),
        residuals: fit.residuals,
        course,
    })
}

/// Rounds that reach the same result from the pixel means. `searched` says whether λ was sought first.
fn course(rounds: Vec<Round>, searched: bool) -> Vec<Round> {
    let widest = rounds.first().map_or(WIDE, |round| round.scale.max(WIDE));
    let opening = OPENING.map(|round| Round {
        scale: widest,
        ..round
    });
    let opening = opening.into_iter().filter(|_| searched);
    opening.chain(rounds).collect()
}

/// Runs the rounds of another fit of the same views, in the same order, from the backend's present texels. `progress`
/// takes the iterations done.
///
/// # Errors
/// The adapter's.
pub fn replay(
    backend: &mut dyn Backend,
    course: &Course,
    mut progress: impl FnMut(u32),
) -> Result<(), BackendError> {
    let mut done = 0;
    for round in &course.rounds {
        let beliefs = course.outliers.beliefs(round.scale);
        backend.reweight(&beliefs, strength(course.smoothness))?;
        backend.solve(round.iterations)?;
        done += round.iterations;
        progress(done);
    }
    Ok(())
}

struct FitRun<'a> {
    backend: &'a mut dyn Backend,
    /// Of the present texels, except while λ is sought.
    residuals: Vec<ViewResiduals>,
    /// The texels, as long as they are unchanged.
    start: Option<Vec<[f32; 4]>>,
    outliers: Outliers,
    smoothness: f32,
    scale: f32,
    /// Iterations done.
    done: u32,
    /// Rounds over all views since outlier views were last found.
    rounds: Vec<Round>,
    progress: &'a mut dyn FnMut(u32, u32),
}

impl FitRun<'_> {
    /// Counts iterations, and reports them with those to come.
    fn did(&mut self, iterations: u32, to_come: u32) {
        self.done += iterations;
        (self.progress)(self.done, self.done + to_come);
    }

    /// Finds λ. Returns whether it used the subset of the rows; then the texels are unchanged.
    fn find_smoothness(&mut self, plan: &Plan) -> Result<bool, BackendError> {
        let Smoothness::CrossValidated {
            iterations,
            enough,
            to_the_last,
        } = plan.smoothness
        else {
            self.smoothness = from_spread(self.spread());
            return Ok(false);
        };
        if self.residuals.len() < 4 {
            self.smoothness = FEW_VIEWS;
            return Ok(false);
        }
        let to_come = iterations_of(&plan.rounds);
        let rows = self.rows();
        let texels = match rows < enough {
            true => None,
            false => self.narrow(rows)?,
        };
        let read;
        let means = match &texels {
            _ if self.done > 0 => None,
            Some(texels) => Some(texels),
            None => {
                read = self.texels()?;
                Some(&read)
            }
        };
        let errors = self.cross_validate(iterations, to_come, means)?;
        let at = match gained(&errors) {
            true if is_late(&errors) && !to_the_last => (errors.len() - 2) as f64,
            true => least_at(&errors),
            false => 0.0,
        };
        self.smoothness = STRONGEST * STEP.powf(-at as f32);
        if let Some(texels) = &texels {
            self.backend.narrow(false)?;
            self.backend.write_texels(texels)?;
            self.residuals = self.backend.residuals()?;
        }
        Ok(texels.is_some())
    }

    /// Restricts the adapter to the subset of `rows` rows and returns the texels. Returns none, and restricts nothing,
    /// where the subset has less than half of its share of rows: charts need not cover the texture evenly.
    fn narrow(&mut self, rows: u64) -> Result<Option<Vec<[f32; 4]>>, BackendError> {
        self.backend.narrow(true)?;
        self.residuals = self.backend.residuals()?;
        if self.rows() < rows / u64::from(2 * ONE_IN) {
            self.backend.narrow(false)?;
            self.residuals = self.backend.residuals()?;
            return Ok(None);
        }
        self.texels().map(Some)
    }

    fn texels(&mut self) -> Result<Vec<[f32; 4]>, BackendError> {
        match self.start.take() {
            Some(texels) => Ok(texels),
            None => self.backend.read_texels(),
        }
    }

    fn rows(&self) -> u64 {
        self.residuals.iter().map(|view| view.rows).sum()
    }

    /// Finds outlier views after a first round. If there are more than before, finds λ without them.
    fn find_outliers(&mut self, plan: &Plan) -> Result<bool, BackendError> {
        let found = Outliers::of(&self.residuals);
        if found.count() <= self.outliers.count() {
            return Ok(false);
        }
        self.outliers = found;
        // The search for λ leaves what only outlier views show to its neighbours.
        let texels = self.backend.read_texels()?;
        self.find_smoothness(plan)?;
        self.backend.write_texels(&texels)?;
        self.residuals = self.backend.residuals()?;
        Ok(true)
    }

    /// Runs one round over all views. `to_come` iterations may follow it.
    fn round(&mut self, round: &Round, to_come: u32) -> Result<(), BackendError> {
        self.scale = round.scale.max(SPREADS * self.spread());
        let beliefs = self.outliers.beliefs(self.scale);
        self.backend.reweight(&beliefs, strength(self.smoothness))?;
        self.backend.solve(round.iterations)?;
        self.residuals = self.backend.residuals()?;
        self.did(round.iterations, to_come);
        self.rounds.push(Round {
            scale: self.scale,
            ..*round
        });
        let (scale, smoothness, spread) = (self.scale, self.smoothness, self.spread());
        tracing::debug!(scale, smoothness, spread, "round");
        Ok(())
    }

    /// Spread of the inlier views.
    fn spread(&self) -> f32 {
        spread(self.outliers.rest(&self.residuals))
    }

    /// Returns the errors of ever weaker λ, until there is nothing to gain. While one predicts the left-out views worse
    /// than the pixel `means` do, the next starts from those means, if given. The texels stay at the last λ.
    fn cross_validate(
        &mut self,
        iterations: u32,
        to_come: u32,
        means: Option<&Vec<[f32; 4]>>,
    ) -> Result<Vec<f64>, BackendError> {
        let start = means.map(|texels| (self.error_left_out(), texels));
        let mut errors = vec![self.leave_out(STRONGEST, iterations, to_come)?];
        let mut smoothness = STRONGEST / STEP;
        while smoothness >= WEAKEST && !is_last(&errors) {
            // What was smoothed away would count as outliers from here on.
            if let Some((means, texels)) = &start
                && errors.last() > Some(means)
            {
                self.backend.write_texels(texels)?;
                self.residuals = self.backend.residuals()?;
            }
            errors.push(self.leave_out(smoothness, iterations, to_come)?);
            smoothness /= STEP;
        }
        Ok(errors)
    }

    /// Iterates at this λ without the left-out views, and returns their error.
    fn leave_out(
        &mut self,
        smoothness: f32,
        iterations: u32,
        to_come: u32,
    ) -> Result<f64, BackendError> {
        let scale = (SPREADS * self.spread()).max(WIDE);
        let taken = |number: Option<usize>| number.is_some_and(|nth| !left_out(nth));
        let beliefs: Vec<Belief> = (self.outliers.numbers())
            .map(|number| if taken(number) { scale } else { 0.0 })
            .map(Belief::from)
            .collect();
        self.backend.reweight(&beliefs, strength(smoothness))?;
        self.backend.solve(iterations)?;
        self.residuals = self.backend.residuals()?;
        self.did(iterations, to_come + iterations);
        let error = self.error_left_out();
        tracing::debug!(smoothness, error, "cross-validation");
        Ok(error)
    }

    /// Error of the left-out views by the present residuals.
    fn error_left_out(&self) -> f64 {
        let judges = self.outliers.rest(&self.residuals).enumerate();
        let judges = judges.filter(|(nth, _)| left_out(*nth));
        robust_error(judges.map(|(_, view)| view))
    }
}

/// Whether the n-th inlier view is left out of cross-validation.
fn left_out(nth: usize) -> bool {
    nth % FOLD == FOLD / 2
}

/// Whether the second error is clearly below the first.
fn gains(pair: &[f64]) -> bool {
    pair[1] < (1.0 - LEAST_GAIN) * pair[0]
}

fn gained(errors: &[f64]) -> bool {
    errors.windows(2).any(gains)
}

/// Whether further steps are not worth their time.
fn is_last(errors: &[f64]) -> bool {
    let last = errors.windows(2).next_back();
    last.is_some_and(|pair| pair[1] >= pair[0] || gained(errors) && !gains(pair))
}

/// Whether the last step gained next to nothing, both of the error and of the whole gain. It is then not taken, since
/// its gain comes from its additional iterations (the strongest λ that is not clearly worse, as in Breiman et al.,
/// "Classification and Regression Trees", 1984, 3.4.3; λ / 4 costs 0.1 and 0.3 dB). The error alone does not suffice:
/// it would also say so where occluders are most of it, and where the minimum lies between the last two.
fn is_late(errors: &[f64]) -> bool {
    let [.., before, last] = errors else {
        return false;
    };
    let gain = before - last;
    gain >= 0.0 && !gains(&[*before, *last]) && gain < LEAST_SHARE * (errors[0] - last)
}

/// Position of the least of the errors at 0, 1, 2, …: the minimum of a parabola through the logarithms of the least and
/// its neighbours, or the least itself at either end.
fn least_at(errors: &[f64]) -> f64 {
    let numbered = errors.iter().enumerate();
    let least = numbered.min_by(|(_, a), (_, b)| a.total_cmp(b));
    let at = least.map_or(0, |(at, _)| at);
    let [Some(&before), Some(&there), Some(&after)] =
        [at.wrapping_sub(1), at, at + 1].map(|k| errors.get(k))
    else {
        return at as f64;
    };
    let [before, after] = [before, after].map(|error| (error / there).ln());
    let bend = before + after;
    // Three equal errors give no choice.
    if bend > 1e-9 && bend.is_finite() {
        at as f64 + 0.5 * (before - after) / bend
    } else {
        at as f64
    }
}

fn iterations_of(rounds: &[Round]) -> u32 {
    rounds.iter().map(|round| round.iterations).sum()
}

/// λ from the spread of the residuals. A standard deviation of 0.004 (one 8-bit step) needs about 2e-3 on ordinary
/// views; the noise counts squared, as in the data term.
fn from_spread(spread: f32) -> f32 {
    (2e-3 * (1.0 + (spread / 0.01).powi(2))).min(SMOOTHEST)
}

/// Passes over all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// Of the average.
    pub average: u32,
    /// Of the fit.
    pub fit: u32,
}

/// Values of λ that cross-validation usually tries: 2 to 6 on the benchmark sets.
const USUALLY_TRIED: u32 = 4;

/// Estimates the passes of a plan over so many rows; the number of λ tried is unknown beforehand. Residuals take one
/// pass, reweighting three, a solution one for its defect and one for each iteration.
pub fn passes(plan: &Plan, rows: u64) -> Passes {
    let round = |iterations: u32| 1 + 3 + 1 + iterations;
    let all = |rounds: &[Round]| -> u32 { rounds.iter().map(|plan| round(plan.iterations)).sum() };
    let tried = match plan.smoothness {
        Smoothness::FromSpread => 0,
        Smoothness::CrossValidated {
            iterations, enough, ..
        } if rows < enough => USUALLY_TRIED * round(iterations),
        Smoothness::CrossValidated { iterations, .. } => {
            all(&OPENING) + (USUALLY_TRIED * round(iterations)).div_ceil(ONE_IN)
        }
    };
    Passes {
        average: 2,
        fit: 1 + tried + all(&plan.rounds),
    }
}

/// Mean Geman-McClure loss of scale [`JUDGED`].
fn robust_error<'a>(views: impl Iterator<Item = &'a ViewResiduals>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for view in views {
        for (bin, &pixels) in view.histogram.iter().enumerate() {
            let squared = f64::from(bin_middle(bin)).powi(2);
            sum += f64::from(pixels) * squared / (1.0 + squared / (JUDGED * JUDGED));
            count += f64::from(pixels);
        }
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

#[cfg(test)]
mod tests;
