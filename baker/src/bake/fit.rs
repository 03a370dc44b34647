//! Start texels → texels that explain the views: iteratively reweighted least squares over any [`Backend`], with the
//! smoothness found by cross-validation.
//!
//! Two numbers decide a fit, and both come from the data:
//! - The scale c of the robust loss: annealed as the plan says, but never below a multiple of the residuals' own spread,
//!   since where views and mesh disagree a small scale throws good data away.
//! - The smoothness λ: views that see every texel often want hardly any, sparse or contradicting views want a thousand times
//!   as much. Every sixth view is left out while λ goes down from strong to weak; the λ that explains them best is taken,
//!   between the steps. Steps begin from the means of the pixels until one explains those views better than they do.
//!
//! Views that contradict the others all over are found after the first round ([`doubted`]); then λ is found once more
//! without them, and all rounds run again.

use super::backend::{BINS, Backend, BackendError, Belief, Strength, ViewResiduals, bin_middle};
use super::plan::{Plan, Round, Smoothness};
use super::subset::ONE_IN;

mod doubted;

use doubted::Doubted;

/// What a fit found that other fits of the same views go by: λ, whom to doubt, and how it went on from there.
#[derive(Clone, Debug, Default)]
pub struct Course {
    smoothness: f32,
    doubted: Doubted,
    /// With the scales that they had.
    rounds: Vec<Round>,
}

impl Course {
    /// Conjugate gradient iterations in all.
    #[must_use]
    pub fn iterations(&self) -> u32 {
        iterations_of(&self.rounds)
    }
}

/// The scale is at least this many standard deviations of the residuals: 3 and 6 cost 0.25 and 0.1 dB where views and mesh
/// disagree, and gained nothing elsewhere.
const SPREADS: f32 = 10.0;
/// Cross-validation starts here and divides by [`STEP`] each time, down to [`WEAKEST`] at most.
const STRONGEST: f32 = 1.0;
const STEP: f32 = 4.0;
/// Scale of the robust loss by which left-out views judge: what occludes them, and what only they show, counts no more than
/// large errors. Where views are few, most of their error is the latter, which strong λ blurs best: at 0.1 ten views of 512²
/// took λ = 1 for a texture of 2048², and 34.6 dB in place of 37.0. At 0.03 they reach 37.7, but highlights are followed: 0.6 dB
/// less than at 0.1 on the set that has them, 0.16 less at this.
const JUDGED: f64 = 0.05;
/// λ by the spread of the residuals is no stronger.
const SMOOTHEST: f32 = 4.0;
/// The next weaker ones gain by the iterations that they have more, and by nothing else: 100 views of 512² into 1024² have 46.7, 47.1
/// and 47.0 dB by 1e-3, 2.4e-4 and 6e-5.
const WEAKEST: f32 = 2e-4;
/// One view of this many is left out.
const FOLD: usize = 6;
/// A step that explains the left-out views better by less than this share gains nothing, and is the last once one has gained:
/// at first all may be too smooth. Where flat colours meet at sharp edges, whatever is blurred there counts as an outlier, the
/// first steps change next to nothing, and a texture of 19.7 dB in place of 49.2 came of it.
const LEAST_GAIN: f64 = 0.015;
/// Of all that the steps gained, the last one's share from which on its λ is taken.
const LEAST_SHARE: f64 = 0.003;
/// So often the views are judged: where the worst no longer pull the texture their way, others stand out.
const DOUBTS: usize = 3;
/// λ where there are too few views to leave one out.
const FEW_VIEWS: f32 = 0.02;
/// Rounds before the plan's where λ was found by the subset: without them highlights cost 2.6 dB and occluders 0.45, since all
/// outliers count until the first weights are found. Where all rows were there, the search has done as much.
const OPENING: [Round; 2] = [Round {
    scale: WIDE,
    iterations: 3,
}; 2];
/// Scale of the robust loss while λ is sought, at least.
const WIDE: f32 = 0.1;
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
    /// Indices of the views that contradict the others all over.
    pub doubted: Vec<u32>,
    /// See [`replay`].
    pub course: Course,
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
fn spread<'a>(views: impl IntoIterator<Item = &'a ViewResiduals>) -> f32 {
    1.4826 * quantile(views, 0.5)
}

fn strength(smoothness: f32) -> Strength {
    Strength {
        smoothness,
        seam: smoothness.max(SEAM),
    }
}

/// Runs the plan from the backend's present texels, which need not be read where `start` has them; `progress` hears of iterations
/// done, and how many there may be in all.
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
    let mut fit = Fit {
        backend,
        doubted: Doubted::none(residuals.len()),
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
        // There is time for doubt only where another round follows.
        let doubts = if rest.is_empty() { 0 } else { DOUBTS };
        for _ in 0..doubts {
            if !fit.doubt(plan)? {
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
        doubted: fit.doubted.clone(),
        rounds: course(fit.rounds, searched),
    };
    Ok(Fitted {
        smoothness: fit.smoothness,
        scale: fit.scale,
        iterations: fit.done,
        doubted: fit.doubted.indices(&fit.residuals),
        residuals: fit.residuals,
        course,
    })
}

/// Rounds that come to the same from the means of the pixels, where `searched` is whether λ was sought before these.
fn course(rounds: Vec<Round>, searched: bool) -> Vec<Round> {
    let widest = rounds.first().map_or(WIDE, |round| round.scale.max(WIDE));
    let opening = OPENING.map(|round| Round {
        scale: widest,
        ..round
    });
    let opening = opening.into_iter().filter(|_| searched);
    opening.chain(rounds).collect()
}

/// Runs the rounds of another fit of the same views in the same order, from the backend's present texels; `progress` hears of
/// iterations done.
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
        let beliefs = course.doubted.beliefs(round.scale);
        backend.reweight(&beliefs, strength(course.smoothness))?;
        backend.solve(round.iterations)?;
        done += round.iterations;
        progress(done);
    }
    Ok(())
}

/// A fit under way.
struct Fit<'a> {
    backend: &'a mut dyn Backend,
    /// Of the texels as they are, but while λ is sought.
    residuals: Vec<ViewResiduals>,
    /// The texels, as long as they are as they came.
    start: Option<Vec<[f32; 4]>>,
    doubted: Doubted,
    smoothness: f32,
    scale: f32,
    /// Iterations.
    done: u32,
    /// Rounds of all views, as they were, since the last doubt.
    rounds: Vec<Round>,
    progress: &'a mut dyn FnMut(u32, u32),
}

impl Fit<'_> {
    /// Iterations are done, and so many may follow.
    fn did(&mut self, iterations: u32, to_come: u32) {
        self.done += iterations;
        (self.progress)(self.done, self.done + to_come);
    }

    /// Finds λ; tells whether by the subset of the rows, and then the texels are as they were.
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

    /// Narrows to the subset of so many rows, and returns the texels as they are; or does not, where much less than its share of
    /// the texture shows there: charts need not lie all over it.
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

    /// As they are.
    fn texels(&mut self) -> Result<Vec<[f32; 4]>, BackendError> {
        match self.start.take() {
            Some(texels) => Ok(texels),
            None => self.backend.read_texels(),
        }
    }

    /// Of the views, as far as they exist.
    fn rows(&self) -> u64 {
        self.residuals.iter().map(|view| view.rows).sum()
    }

    /// Finds the views that contradict the others after a first round, and if there are more than before, λ without them.
    fn doubt(&mut self, plan: &Plan) -> Result<bool, BackendError> {
        let found = Doubted::of(&self.residuals);
        if found.count() <= self.doubted.count() {
            return Ok(false);
        }
        self.doubted = found;
        // While λ is sought, what only doubted views show is left to its neighbours.
        let texels = self.backend.read_texels()?;
        self.find_smoothness(plan)?;
        self.backend.write_texels(&texels)?;
        self.residuals = self.backend.residuals()?;
        Ok(true)
    }

    /// One round of all views; so many iterations may follow it.
    fn round(&mut self, round: &Round, to_come: u32) -> Result<(), BackendError> {
        self.scale = round.scale.max(SPREADS * self.spread());
        let beliefs = self.doubted.beliefs(self.scale);
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

    /// Of the views that are believed.
    fn spread(&self) -> f32 {
        spread(self.doubted.rest(&self.residuals))
    }

    /// The errors of ever weaker λ, until there is nothing to gain. As long as one explains the views worse than the `means` of
    /// their pixels do, the next begins from those, if the texels are that as yet. They stay at the last one tried.
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

    /// Iterates without the views that are left out, at this λ; returns their error.
    fn leave_out(
        &mut self,
        smoothness: f32,
        iterations: u32,
        to_come: u32,
    ) -> Result<f64, BackendError> {
        let scale = (SPREADS * self.spread()).max(WIDE);
        let taken = |number: Option<usize>| number.is_some_and(|nth| !left_out(nth));
        let beliefs: Vec<Belief> = (self.doubted.numbers())
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

    /// Of the views that are left out, by the residuals as they are.
    fn error_left_out(&self) -> f64 {
        let judges = self.doubted.rest(&self.residuals).enumerate();
        let judges = judges.filter(|(nth, _)| left_out(*nth));
        robust_error(judges.map(|(_, view)| view))
    }
}

/// Whether the n-th view that is believed is left out of cross-validation.
fn left_out(nth: usize) -> bool {
    nth % FOLD == FOLD / 2
}

/// Whether a step explained the left-out views better.
fn gains(pair: &[f64]) -> bool {
    pair[1] < (1.0 - LEAST_GAIN) * pair[0]
}

fn gained(errors: &[f64]) -> bool {
    errors.windows(2).any(gains)
}

/// Whether no step after these errors is worth its time.
fn is_last(errors: &[f64]) -> bool {
    let last = errors.windows(2).next_back();
    last.is_some_and(|pair| pair[1] >= pair[0] || gained(errors) && !gains(pair))
}

/// Whether the last step gained next to nothing, of the error and of all that was gained: then it is not taken, since what it
/// gained are the iterations that it had more (the strongest that is not clearly worse: Breiman et al., "Classification and
/// Regression Trees", 1984, 3.4.3; λ / 4 cost 0.1 and 0.3 dB). By the error alone it would be so, too, where occluders are
/// most of it, and where the least lies between the last two.
fn is_late(errors: &[f64]) -> bool {
    let [.., before, last] = errors else {
        return false;
    };
    let gain = before - last;
    gain >= 0.0 && !gains(&[*before, *last]) && gain < LEAST_SHARE * (errors[0] - last)
}

/// Where errors at 0, 1, 2, … are least: at the minimum of a parabola through the logarithms of the least one and those on
/// either side; at the least one itself where it is the first or the last.
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
    // Where all three are alike there is nothing to choose by.
    if bend > 1e-9 && bend.is_finite() {
        at as f64 + 0.5 * (before - after) / bend
    } else {
        at as f64
    }
}

fn iterations_of(rounds: &[Round]) -> u32 {
    rounds.iter().map(|round| round.iterations).sum()
}

/// Noise of one standard deviation 0.004 (one step of 8 bits) wants about 2e-3 on ordinary views, and the noise counts
/// squared, as it does in the data term.
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

/// Strengths of λ that cross-validation tries as a rule: 2 to 6 on the sets of the README.
const USUALLY_TRIED: u32 = 4;

/// The passes of a plan over so many rows, about: how many strengths are tried is known only by trying. Residuals take one,
/// reweighting three, a solution one for its defect and one for each iteration.
#[must_use]
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

/// Mean of the Geman-McClure loss of scale [`JUDGED`].
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
