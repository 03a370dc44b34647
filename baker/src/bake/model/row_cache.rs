//! Row cache: the rows of all views, stored up to a budget, and beyond it built again from the view for each
//! pass.
//!
//! A row takes 100-150 bytes and its pixel 4. So a job with any number of views fits in memory if the rows of later
//! ones are not stored; the price is time. Nothing else differs: chunks come in one order with one numbering, so sums
//! over them are the same to the bit.

use std::borrow::Cow;
use std::ops::Range;

use proto::job::Memory;
use proto::plan::RowsHeld;
use proto::table::View;
use rayon::prelude::*;

use crate::bake::model::colour::Observed;
use crate::bake::model::footprint::{BAND, footprints};
use crate::bake::model::rows::{Entry, Rows};
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::RowMemory;
use crate::worker::pace;
use crate::worker::progress::{each, expect};

/// Memory for rows, so that all processes of a bake stay within 2 GiB. Rows beyond it are not stored.
pub(crate) const BUDGET: usize = 1200 << 20;

/// Rows that are built again may take this fraction of the budget at once.
const SHARE_IN_FLIGHT: usize = 8;

/// Bytes of a row beside its entries: its start, colour and pixel.
const ROW: usize = size_of::<u32>() + size_of::<[u8; 4]>() + size_of::<u32>();

/// Where the rows of a view come from.
#[derive(Debug)]
enum CachedRows {
    Stored(Vec<Rows>),
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
            row: ROW as f64,
            entry: size_of::<Entry>() as f64,
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
    /// Weight of each row of each view.
    pub(crate) weights: Vec<Vec<f32>>,
}

/// The rows of some consecutive views.
pub(crate) struct ViewGroup<'a> {
    /// Range of views, in the order in which they were added.
    pub(crate) views: Range<usize>,
    /// Rows of each, band by band.
    pub(crate) rows: Vec<Cow<'a, [Rows]>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) weights: &'a [f32],
}

impl Chunk<'_> {
    /// Weight of each channel of a row: robust weight times squared slope.
    pub(crate) fn channel_weights(&self, row: usize, table: &[Observed; 256]) -> [f32; 3] {
        let colour = self.rows.colours[row];
        std::array::from_fn(|channel| {
            self.weights[row] * table[colour[channel] as usize].slope_squared
        })
    }
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
        let chunks = footprints(&self.scene, view, self.taps);
        let bytes = chunks.iter().map(bytes).sum();
        let rows = chunks.iter().map(Rows::len).sum();
        let source = if self.budget.take(bytes) {
            CachedRows::Stored(chunks)
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
        self.weights.push(vec![1.0; rows]);
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
                        CachedRows::Stored(chunks) => Cow::Borrowed(chunks.as_slice()),
                        CachedRows::Rebuilt(view) => {
                            Cow::Owned(footprints(&self.scene, view, self.taps))
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

impl ViewGroup<'_> {
    /// The chunks of all its views in order, given the weights of the rows of all the job's views.
    pub(crate) fn chunks<'a>(&'a self, weights: &'a [Vec<f32>]) -> Vec<Chunk<'a>> {
        let mut chunks = Vec::new();
        for (rows, weights) in self.rows.iter().zip(&weights[self.views.clone()]) {
            let mut rest = weights.as_slice();
            for rows in rows.iter() {
                let (weights, after) = rest.split_at(rows.len());
                rest = after;
                chunks.push(Chunk { rows, weights });
            }
        }
        chunks
    }
}

#[cfg(test)]
impl RowCache {
    /// Views of one pixel row each that consist of these chunks, and the weights of their rows.
    pub(crate) fn of_rows(views: Vec<Vec<Rows>>, weights: Vec<Vec<f32>>) -> Self {
        let mut cache = Self::new(Scene::default(), 1, RowBudget::new(usize::MAX));
        cache.weights = weights;
        cache.views = views
            .into_iter()
            .map(|chunks| CachedView {
                index: chunks.first().map_or(0, |rows| rows.view),
                size: [chunks.iter().map(Rows::len).sum::<usize>() as u32, 1],
                bytes: 0,
                rows: chunks.iter().map(Rows::len).sum(),
                source: CachedRows::Stored(chunks),
            })
            .collect();
        cache
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

/// Memory that rows take.
pub(crate) fn bytes(rows: &Rows) -> usize {
    size_of_val(rows.starts.as_slice())
        + rows.entries.capacity() * size_of::<Entry>()
        + size_of_val(rows.colours.as_slice())
        + size_of_val(rows.pixels.as_slice())
}
