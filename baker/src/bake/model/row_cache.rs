//! Row cache: the rows of all views, stored up to a budget, and beyond it built again from the view for each
//! pass.
//!
//! A row of seven texels takes 48 bytes, and 8 for its weight and residual. So a job with any number of views fits in memory if the
//! rows of later ones are not stored; the price is time. Nothing else differs: rows come in one order with one numbering,
//! so sums over them are the same to the bit.

use std::borrow::Cow;
use std::ops::Range;

use proto::job::Memory;
use proto::plan::RowsHeld;
use proto::table::View;
use rayon::prelude::*;

use crate::bake::model::footprint::{BAND, footprints};
use crate::bake::model::plots::{ENTRY_BYTES, Plots, ROW_BYTES, ViewRows};
use crate::bake::model::rows::Rows;
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::RowMemory;
use crate::worker::pace;
use crate::worker::progress::{each, expect};

/// Memory for rows: twelve million of twelve entries by the estimate of [`RowMemory`]. Rows beyond it are not stored.
pub(crate) const BUDGET: usize = 1500 << 20;

/// Rows that are built again may take this fraction of the budget at once.
const SHARE_IN_FLIGHT: usize = 8;

/// Where the rows of a view come from.
#[derive(Debug)]
enum CachedRows {
    Stored(ViewRows),
    Rebuilt(View),
}

#[derive(Debug)]
struct CachedView {
    index: u32,
    size: [u32; 2],
    bytes: usize,
    rows: usize,
    source: CachedRows,
}

/// Budget for rows, and what is taken of it. Stored views come first: once one is not stored, none after it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowBudget {
    bytes: usize,
    taken: usize,
    full: bool,
}

impl RowBudget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            bytes,
            taken: 0,
            full: false,
        }
    }

    /// The budget that a job plans with.
    pub(crate) fn of(memory: Memory) -> Self {
        Self::new(match memory {
            Memory::Full => BUDGET,
            Memory::Small => BUDGET / 4,
        })
    }

    /// Takes the next view's bytes; returns whether its rows are stored.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        self.full |= self.taken + bytes > self.bytes;
        if !self.full {
            self.taken += bytes;
        }
        !self.full
    }

    /// The budget for those who choose the rows.
    pub(crate) fn memory(&self) -> RowMemory {
        RowMemory {
            all: self.bytes as u64,
            row: ROW_BYTES as f64,
            entry: ENTRY_BYTES,
            word: 0.0,
        }
    }

    /// Bytes of all stored rows.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }
}

#[derive(Debug)]
pub(crate) struct RowCache {
    scene: Scene,
    taps: u32,
    budget: RowBudget,
    views: Vec<CachedView>,
    /// Weight of each row of each view, in the order of its [`ViewRows`].
    pub(crate) weights: Vec<Vec<f32>>,
}

/// The rows of some consecutive views.
pub(crate) struct ViewGroup<'a> {
    /// Range of views, in the order in which they were added.
    pub(crate) views: Range<usize>,
    /// Rows of each.
    pub(crate) rows: Vec<Cow<'a, ViewRows>>,
}

impl RowCache {
    pub(crate) fn new(scene: Scene, taps: u32, budget: RowBudget) -> Self {
        Self {
            scene,
            taps,
            budget,
            views: Vec::new(),
            weights: Vec::new(),
        }
    }

    /// The full budget, with nothing taken.
    pub(crate) fn budget(&self) -> RowBudget {
        RowBudget::new(self.budget.bytes)
    }

    /// Whether some rows are built again for every pass.
    pub(crate) fn overflows(&self) -> bool {
        self.budget.full
    }

    /// The window of its rows.
    pub(crate) fn window(&self) -> &Window {
        &self.scene.window
    }

    pub(crate) fn forget(&mut self) {
        self.budget = self.budget();
        self.views.clear();
        self.weights.clear();
    }

    /// Takes a view in; its rows weigh 1.
    pub(crate) fn add(&mut self, view: &View) {
        let band = (view.width * BAND * self.taps * self.taps) as usize;
        expect(
            "the rows of a view",
            each(self.scene.triangles.len(), pace::TRIANGLE)
                + each(band, pace::SAMPLE)
                + each(size_of_val(view.pixels.as_slice()), pace::TABLE_BYTE),
        );
        let bands = footprints(&self.scene, view, self.taps);
        let sorted = self.sorted(&bands);
        let (bytes, len) = (sorted.bytes(), sorted.len());
        let rows = bands.iter().map(Rows::len).sum();
        let source = if self.budget.take(bytes) {
            CachedRows::Stored(sorted)
        } else {
            CachedRows::Rebuilt(view.clone())
        };
        self.views.push(CachedView {
            index: view.index,
            size: [view.width, view.height],
            bytes,
            rows,
            source,
        });
        self.weights.push(vec![1.0; len]);
    }

    fn sorted(&self, bands: &[Rows]) -> ViewRows {
        ViewRows::new(bands, self.plots(), self.window())
    }

    /// How the window is divided.
    pub(crate) fn plots(&self) -> Plots {
        Plots::new(self.scene.size as usize)
    }

    /// Counts of stored and other rows.
    pub(crate) fn rows_held(&self) -> RowsHeld {
        let stored = |view: &&CachedView| matches!(view.source, CachedRows::Stored(_));
        let rows = |view: &CachedView| view.rows as u64;
        RowsHeld {
            rows: self.views.iter().map(rows).sum(),
            kept: self.views.iter().filter(stored).map(rows).sum(),
            views: self.views.len() as u32,
            views_redrawn: self.views.iter().filter(|view| !stored(view)).count() as u32,
            left_out: 0,
            parts: 0,
        }
    }

    /// Index of a view in the job.
    pub(crate) fn index(&self, view: usize) -> u32 {
        self.views[view].index
    }

    pub(crate) fn size(&self, view: usize) -> [u32; 2] {
        self.views[view].size
    }

    /// All rows in order: first a group of all stored views, then groups that are built as they are asked for.
    pub(crate) fn groups(&self) -> impl Iterator<Item = ViewGroup<'_>> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let first = next;
            next = self.group_end(first);
            (first < next).then(|| ViewGroup {
                views: first..next,
                rows: self.views[first..next]
                    .par_iter()
                    .map(|view| match &view.source {
                        CachedRows::Stored(rows) => Cow::Borrowed(rows),
                        CachedRows::Rebuilt(view) => {
                            let bands = footprints(&self.scene, view, self.taps);
                            Cow::Owned(self.sorted(&bands))
                        }
                    })
                    .collect(),
            })
        })
    }

    /// End of the group that starts at `first`. Stored views make one group. Others fill a fraction of the budget, and
    /// a single view is a group however large it is.
    fn group_end(&self, first: usize) -> usize {
        let mut bytes = 0;
        let mut end = first;
        for view in &self.views[first..] {
            match (&self.views[first].source, &view.source) {
                (CachedRows::Stored(_), CachedRows::Stored(_)) => {}
                (CachedRows::Rebuilt(_), CachedRows::Rebuilt(_)) => {
                    bytes += view.bytes;
                    if end > first && bytes > self.budget.bytes / SHARE_IN_FLIGHT {
                        break;
                    }
                }
                _ => break,
            }
            end += 1;
        }
        end
    }
}

#[cfg(test)]
impl RowCache {
    /// Views of one pixel row each that consist of these bands, for textures with rows of `across` texels.
    pub(crate) fn of_rows(views: &[Vec<Rows>], across: usize) -> Self {
        let scene = Scene {
            size: across as u32,
            window: Window::whole(across as u32),
            ..Scene::default()
        };
        let mut cache = Self::new(scene, 1, RowBudget::new(usize::MAX));
        for bands in views {
            let rows = bands.iter().map(Rows::len).sum();
            let sorted = cache.sorted(bands);
            cache.weights.push(vec![1.0; sorted.len()]);
            cache.views.push(CachedView {
                index: bands.first().map_or(0, |rows| rows.view),
                size: [rows as u32, 1],
                bytes: 0,
                rows,
                source: CachedRows::Stored(sorted),
            });
        }
        cache
    }

    /// Weighs the row of each pixel.
    pub(crate) fn weigh(&mut self, weight: impl Fn(usize, u32) -> f32) {
        let mut weights = std::mem::take(&mut self.weights);
        for group in self.groups() {
            for (view, rows) in group.views.zip(&group.rows) {
                for (own, row) in weights[view].iter_mut().zip(rows.iter()) {
                    *own = weight(view, row.pixel());
                }
            }
        }
        self.weights = weights;
    }

    /// Memory of the stored rows.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.budget.taken()
    }

    /// How many views' rows are stored.
    pub(crate) fn stored_views(&self) -> usize {
        self.views
            .iter()
            .filter(|view| matches!(view.source, CachedRows::Stored(_)))
            .count()
    }
}
