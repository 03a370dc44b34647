//! Residuals of all views → the views that contradict the others all over: blurred ones, or ones whose camera is far off.
//!
//! The robust loss judges pixels one by one, and a blurred picture is wrong by a little nearly everywhere: no pixel of it is
//! an outlier, and together they pull the texture, its λ and the residuals' own spread towards the blur. So views are judged as
//! a whole, too: one that is explained worse than most nearly everywhere is doubted. It still counts where it is alone, so
//! what no other view shows keeps its colour.

use super::quantile;
use crate::bake::backend::{Belief, ViewResiduals};

/// What this share of a view's pixels stays below tells of the view: highlights and occluders may hide more than half of it.
const SHARE: f64 = 0.2;
/// A view is doubted if that is more than so many times what it is in most views. The worst of sets with splats and with
/// highlights have 2.2, those with a blur of 2 or 4 pixels 5 to 12.
const TIMES: f32 = 3.0;
/// What bytes can say of a residual, below which none is taken: half a step.
const LEAST_RESIDUAL: f32 = 0.5 / 255.0;
/// Of fewer views nobody can say which are the odd ones.
const LEAST_VIEWS: usize = 6;
/// Share of a doubted view ([`Belief::share`]). Ten blurred views of forty pull the texture their way by 0.3 dB at 0.001, and by
/// 9.6 at 0.01, since they see from the front what some sharp ones see aslant; below, ties would hide what they alone show.
const LEAST_SHARE: f32 = 0.001;

/// Which views are doubted.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubted {
    /// For each view in the order in which they were added.
    views: Vec<bool>,
}

impl Doubted {
    /// None of so many.
    pub(super) fn none(views: usize) -> Self {
        Self {
            views: vec![false; views],
        }
    }

    /// The views that the rest contradict. Never half of them: then it is not they that are odd.
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
        if 2 * views.iter().filter(|&&doubted| doubted).count() >= seen {
            return none;
        }
        Self { views }
    }

    pub(super) fn count(&self) -> usize {
        self.views.iter().filter(|&&doubted| doubted).count()
    }

    /// For each view the number of believed ones before it, none for a doubted one.
    pub(super) fn numbers(&self) -> impl Iterator<Item = Option<usize>> {
        let mut before = 0..;
        let number = move |&doubted: &bool| if doubted { None } else { before.next() };
        self.views.iter().map(number)
    }

    /// With this scale of the robust loss; not in doubted views, whose pixels nobody contradicts where they count.
    pub(super) fn beliefs(&self, scale: f32) -> Vec<Belief> {
        let of = |&doubted: &bool| match doubted {
            true => Belief {
                scale: f32::INFINITY,
                share: LEAST_SHARE,
            },
            false => scale.into(),
        };
        self.views.iter().map(of).collect()
    }

    /// Those that are believed.
    pub(super) fn rest<'a>(
        &'a self,
        residuals: &'a [ViewResiduals],
    ) -> impl Iterator<Item = &'a ViewResiduals> {
        let both = residuals.iter().zip(&self.views);
        both.filter(|(_, doubted)| !**doubted).map(|(view, _)| view)
    }

    /// Indices of the doubted ones among `residuals`.
    pub(super) fn indices(&self, residuals: &[ViewResiduals]) -> Vec<u32> {
        let both = residuals.iter().zip(&self.views);
        both.filter(|(_, doubted)| **doubted)
            .map(|(view, _)| view.view)
            .collect()
    }
}
