//! Finds outlier views: blurred ones, or ones whose camera is far off. Residuals of all views → flags.
//!
//! The robust loss judges pixels one by one. A blurred view is slightly wrong nearly everywhere: none of its pixels is
//! an outlier, yet together they pull the texture, λ and the residuals' spread towards the blur. So whole views are
//! judged too. A view with larger residuals than most, nearly everywhere, is an outlier. It still counts where it is
//! alone, so what no other view shows keeps its colour.

use crate::bake::solve::backend::{Belief, ViewResiduals, quantile};

/// Quantile of a view's residuals that is compared: highlights and occluders may cover more than half of a view.
const SHARE: f64 = 0.2;
/// A view is an outlier if its quantile exceeds the median by this factor. The worst views of sets with splats and
/// highlights have 2.2, those with a blur of 2 or 4 pixels 5 to 12.
const TIMES: f32 = 3.0;
/// Least residual that 8 bits can tell: half a step.
const LEAST_RESIDUAL: f32 = 0.5 / 255.0;
/// With fewer views nobody can say which are the odd ones.
const LEAST_VIEWS: usize = 6;
/// [`Belief::share`] of an outlier view. Ten blurred views of forty cost 0.3 dB at 0.001 and 9.6 at 0.01, since they
/// see frontally what some sharp ones see at a grazing angle. Below that, links would override what they alone show.
const LEAST_SHARE: f32 = 0.001;

/// Which views are outliers.
#[derive(Clone, Debug, Default)]
pub(super) struct Outliers {
    /// Flag of each view, in the order in which they were added.
    views: Vec<bool>,
}

impl Outliers {
    /// No outliers among so many views.
    pub(super) fn none(views: usize) -> Self {
        Self {
            views: vec![false; views],
        }
    }

    /// Finds the outliers. They are never half of the views: then it is not they that are odd.
    pub(super) fn of(residuals: &[ViewResiduals]) -> Self {
        let none = Self::none(residuals.len());
        let off = |view: &ViewResiduals| quantile([view], SHARE).max(LEAST_RESIDUAL);
        let mut usual: Vec<f32> = (residuals.iter())
            .filter(|view| view.rows > 0)
            .map(off)
            .collect();
        if usual.len() < LEAST_VIEWS {
            return none;
        }
        usual.sort_by(f32::total_cmp);
        let (seen, usual) = (usual.len(), usual[usual.len() / 2]);
        let views: Vec<bool> = (residuals.iter())
            .map(|view| view.rows > 0 && off(view) > TIMES * usual)
            .collect();
        if 2 * views.iter().filter(|&&outlier| outlier).count() >= seen {
            return none;
        }
        Self { views }
    }

    pub(super) fn count(&self) -> usize {
        self.views.iter().filter(|&&outlier| outlier).count()
    }

    /// For each view the number of inliers before it; none for an outlier.
    pub(super) fn numbers(&self) -> impl Iterator<Item = Option<usize>> {
        let mut before = 0..;
        let number = move |&outlier: &bool| if outlier { None } else { before.next() };
        self.views.iter().map(number)
    }

    /// Beliefs with this scale of the robust loss. Outliers get no robust loss: where they count, no other view
    /// contradicts them.
    pub(super) fn beliefs(&self, scale: f32) -> Vec<Belief> {
        let of = |&outlier: &bool| match outlier {
            true => Belief {
                scale: f32::INFINITY,
                share: LEAST_SHARE,
            },
            false => scale.into(),
        };
        self.views.iter().map(of).collect()
    }

    /// Residuals of the inliers.
    pub(super) fn rest<'a>(
        &'a self,
        residuals: &'a [ViewResiduals],
    ) -> impl Iterator<Item = &'a ViewResiduals> {
        let both = residuals.iter().zip(&self.views);
        both.filter(|(_, outliers)| !**outliers)
            .map(|(view, _)| view)
    }

    /// View indices of the outliers among `residuals`.
    pub(super) fn indices(&self, residuals: &[ViewResiduals]) -> Vec<u32> {
        let both = residuals.iter().zip(&self.views);
        both.filter(|(_, outlier)| **outlier)
            .map(|(view, _)| view.view)
            .collect()
    }
}
