//! Views that are compared → rows of small pictures: the input, the result and its error.

use proto::message::ViewScore;
use proto::table::View;

use super::super::refined::Taken;
use crate::image::measure::Pixel;
use crate::image::sheet::ERROR_GAIN;
use crate::image::sheet::tile::{self, Shrink, Tile};

/// A row while its view is compared. Render and error are averaged down as they come.
#[derive(Debug)]
pub struct Row {
    view: u32,
    holdout: bool,
    taken: Taken,
    input: Tile,
    result: Shrink,
    error: Shrink,
}

/// A row to show.
#[derive(Debug)]
pub struct Shown {
    view: u32,
    holdout: bool,
    taken: Taken,
    score: ViewScore,
    /// Input, result and error.
    pictures: [Tile; 3],
}

impl Row {
    /// Starts a row of pictures no larger than `cell` with the view's own one. The view is rendered as `taken`.
    pub fn new(view: &View, taken: Taken, cell: usize) -> Self {
        let size = [view.width as usize, view.height as usize];
        let mut input = Shrink::new(size, cell);
        for (index, pixel) in view.pixels.iter().enumerate() {
            input.add([index % size[0], index / size[0]], tile::light(*pixel));
        }
        Self {
            view: view.index,
            holdout: view.holdout,
            taken,
            input: input.picture(),
            result: Shrink::new(size, cell),
            error: Shrink::new(size, cell),
        }
    }

    /// Adds a pixel of the comparison.
    pub fn add(&mut self, pixel: Pixel) {
        let at = [pixel.column, pixel.row];
        let [r, g, b] = pixel.colour;
        let rendered = [r, g, b, pixel.coverage].map(|x| (x.clamp(0.0, 1.0) * 255.0).round() as u8);
        self.result.add(at, tile::light(rendered));
        if let Some(error) = pixel.error {
            self.error.add(at, [error; 3]);
        }
    }

    /// Completes the row.
    pub fn finish(self, score: ViewScore) -> Shown {
        Shown {
            view: self.view,
            holdout: self.holdout,
            taken: self.taken,
            score,
            pictures: [
                self.input,
                self.result.picture(),
                self.error.heat(ERROR_GAIN),
            ],
        }
    }
}

impl Shown {
    /// Input, result and error.
    pub(in crate::encode) fn pictures(&self) -> &[Tile; 3] {
        &self.pictures
    }

    /// Index of its view.
    pub fn view(&self) -> u32 {
        self.view
    }

    /// Whether its view is held out.
    pub fn is_held_out(&self) -> bool {
        self.holdout
    }

    /// Which view it is, and how the result stands beside it.
    pub fn caption(&self) -> String {
        let kind = match self.holdout {
            true => "HELD OUT of the fit",
            false => "used in the fit",
        };
        format!(
            "view {} ({kind}{}): {}",
            self.view,
            self.refined(),
            self.likeness()
        )
    }

    /// What was refined of the view, behind a comma.
    pub(in crate::encode) fn refined(&self) -> String {
        let mut refined = String::new();
        if self.taken.moved {
            refined += ", camera refined";
        }
        match self.taken.gain {
            [1.0, 1.0, 1.0] => {}
            [r, g, b] if r == g && g == b => refined += &format!(", exposure ×{r:.3}"),
            [r, g, b] => refined += &format!(", exposure ×{r:.3} {g:.3} {b:.3}"),
        }
        refined
    }

    /// How well the result explains the view.
    pub(in crate::encode) fn likeness(&self) -> String {
        match self.score {
            ViewScore { pixels: 0, .. } => "nothing to compare".to_owned(),
            ViewScore {
                pixels, psnr_db, ..
            } => format!("{psnr_db:.2} dB over {pixels} pixels"),
        }
    }

    /// Its score, if its view is part of the fit.
    pub fn of_the_fit(&self) -> Option<ViewScore> {
        (!self.holdout).then_some(self.score)
    }

    /// Views of the fit by number; then those held out, the one that is explained worst first.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let psnr = |row: &Self| match row.holdout && row.score.pixels > 0 {
            true => row.score.psnr_db,
            false => f32::INFINITY,
        };
        (self.holdout.cmp(&other.holdout))
            .then(psnr(self).total_cmp(&psnr(other)))
            .then(self.view.cmp(&other.view))
    }
}

/// The rows that are kept of all views: some of the fit, and the worst of those held out.
#[derive(Debug)]
pub struct RowSet {
    kept: Vec<Shown>,
    cell: usize,
    /// Most rows of the fit, and of held-out views.
    most: [usize; 2],
}

impl RowSet {
    /// None yet, with pictures no larger than `cell`.
    pub fn new(cell: usize, most: [usize; 2]) -> Self {
        Self {
            kept: Vec::new(),
            cell,
            most,
        }
    }

    /// Begins a row of `view`, if one may be kept.
    pub fn begin(&self, view: &View, taken: Taken) -> Option<Row> {
        let wanted = view.holdout && self.most[1] > 0 || self.wants(view);
        wanted.then(|| Row::new(view, taken, self.cell))
    }

    /// Whether [`Self::keep`] would keep a row of this view of the fit.
    fn wants(&self, view: &View) -> bool {
        let mut fit = self.kept.iter().filter(|row| !row.holdout);
        let full = fit.clone().count() >= self.most[0];
        !view.holdout && (!full || fit.any(|row| row.view > view.index))
    }

    /// Adds a row, and drops the last in order of its kind where that is one too many.
    pub fn keep(&mut self, row: Shown) {
        self.kept.push(row);
        self.kept.sort_by(Shown::order);
        let mut left = self.most;
        self.kept.retain(|row| {
            let left = &mut left[usize::from(row.holdout)];
            let kept = *left > 0;
            *left = left.saturating_sub(1);
            kept
        });
    }

    /// Keeps so many rows of the fit, spread evenly from the first on; and those of held-out views.
    pub fn spread(mut self, most: usize) -> Vec<Shown> {
        let count = self.kept.iter().filter(|row| !row.holdout).count();
        let most = most.min(count);
        let mut number = 0;
        self.kept.retain(|row| {
            let kept = row.holdout || (0..most).any(|k| k * count / most == number);
            number += 1;
            kept
        });
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::measure::tests::scene;

    #[test]
    fn a_row_says_what_was_refined() {
        let (_, _, view) = scene();
        let score = ViewScore {
            view: 5,
            pixels: 9,
            psnr_db: 48.5,
        };
        let says = |holdout, moved, gain| {
            let view = View {
                holdout,
                ..view.clone()
            };
            let row = Row::new(&view, Taken { moved, gain }, 64);
            row.finish(score).caption()
        };
        assert_eq!(
            says(true, false, [1.0; 3]),
            "view 5 (HELD OUT of the fit): 48.50 dB over 9 pixels"
        );
        assert_eq!(
            says(false, true, [1.0625; 3]),
            "view 5 (used in the fit, camera refined, exposure ×1.062): 48.50 dB over 9 pixels"
        );
    }

    #[test]
    fn the_first_views_of_the_fit_and_the_worst_held_out_ones_are_kept() {
        let (_, _, view) = scene();
        let mut rows = RowSet::new(64, [3, 2]);
        for (index, holdout, psnr_db) in [
            (9, true, 30.0),
            (2, true, 20.0),
            (7, false, 50.0),
            (4, true, 25.0),
            (1, false, 10.0),
            (3, false, 50.0),
            (8, false, 1.0),
        ] {
            let view = View {
                index,
                holdout,
                ..view.clone()
            };
            let score = ViewScore {
                view: index,
                pixels: 9,
                psnr_db,
            };
            if let Some(row) = rows.begin(&view, Taken::AS_GIVEN) {
                rows.keep(row.finish(score));
            }
        }
        let kept = |rows: &[Shown]| rows.iter().map(|row| row.view).collect::<Vec<_>>();
        assert_eq!(kept(&rows.kept), [1, 3, 7, 2, 4]);
        assert_eq!(kept(&rows.spread(2)), [1, 3, 2, 4]);
    }
}
