//! Full pools → pools that passes may visit, once all views are added: their rows are sorted into bins and bound.

use super::bound::Binding;
use super::open::Filling;
use super::pool::{COUNTERS, blocks};
use super::row_bins::{Binned, Boxes, MoreRoom, more};
use super::store::{FilledPool, RowStore};
use super::visit::{Visit, dispatch};
use crate::bake::gpu::batch::Batch;
use crate::bake::gpu::device::{Device, GpuError};
use crate::bake::gpu::memory::{OnDevice, Question};
use crate::bake::gpu::tiles::Tiles;

impl RowStore {
    /// Completes the pools once all views are added: makes the bind groups, and lets `first` visit the rows that it has
    /// not visited yet. `reserve` is as in [`Filling`].
    pub(crate) fn complete(
        &mut self,
        on: OnDevice<'_>,
        tiles: &Tiles,
        first: Visit<'_>,
        reserve: u64,
    ) -> Result<(), GpuError> {
        Filling::new(self, on, tiles, reserve).complete()?;
        self.spare.clear();
        self.put_in_order(on, tiles)?;
        self.bind(on)?;
        self.count(on.device, tiles, first)
    }

    /// Makes the blocks' sums, and the bind groups that are missing.
    fn bind(&mut self, on: OnDevice<'_>) -> Result<(), GpuError> {
        let blocks = match self.blocks.take() {
            Some(blocks) => blocks,
            None => {
                let blocks = blocks(&on, self.blocks())?;
                self.pixels.iter_mut().for_each(|pool| pool.bound = None);
                self.seams.iter_mut().for_each(|seams| seams.bound = None);
                blocks
            }
        };
        let binding = Binding {
            on,
            layout: &self.layout,
            tones: &self.tones,
            blocks: self.blocks.insert(blocks),
            ground: self.row_bins.ground,
        };
        for pool in (self.pixels.iter_mut()).filter(|pool| pool.bound.is_none()) {
            pool.bound = pool.bind(&binding, &self.row_bins.order)?;
        }
        for seams in (self.seams.iter_mut()).filter(|seams| seams.bound.is_none()) {
            seams.bound = Some(seams.bind(&binding)?);
        }
        Ok(())
    }

    fn count(&mut self, device: &Device, tiles: &Tiles, first: Visit<'_>) -> Result<(), GpuError> {
        let mut batch = Batch::new(device, first.entry);
        for pool in self.pixels.iter().filter(|pool| !pool.counted) {
            self.visit_pool(&mut batch, tiles, pool, &[first], None)?;
        }
        for seams in self.seams.iter().filter(|seams| !seams.counted) {
            dispatch(&mut batch, seams.counts, seams.bound.as_ref(), &[first])?;
        }
        self.pixels.iter_mut().for_each(|pool| pool.counted = true);
        self.seams.iter_mut().for_each(|seams| seams.counted = true);
        batch.send()
    }

    /// Sorts the rows of pools that are not sorted yet.
    fn put_in_order(&mut self, on: OnDevice<'_>, tiles: &Tiles) -> Result<(), GpuError> {
        let is_new = |pool: &FilledPool| pool.binned.is_none();
        if self.scratch.is_none() {
            let new = self.pixels.iter().filter(|pool| is_new(pool));
            if let Some(most) = new.map(|pool| pool.boxes).reduce(Boxes::most) {
                self.row_bins.make_beside(on, most)?;
            }
        }
        let new = (0..self.pixels.len()).filter(|&nth| is_new(&self.pixels[nth]));
        let mut todo: Vec<(usize, Option<MoreRoom>)> = new.map(|nth| (nth, None)).collect();
        while !todo.is_empty() {
            let mut asked = Vec::new();
            for (nth, more) in todo {
                let (binned, question) = self.sort(on, tiles, &self.pixels[nth], more)?;
                asked.push((nth, binned, question));
            }
            todo = Vec::new();
            for (nth, mut binned, question) in asked {
                let wanted = binned.take(&question.answer(on.device)?);
                self.pixels[nth].binned = Some(binned);
                if let Some(wanted) = wanted {
                    todo.push((nth, Some((more(&on, wanted)?, wanted))));
                }
            }
        }
        Ok(())
    }

    /// Sorts the rows of a pool, and asks how many patches they make. `more` is a larger buffer for those.
    fn sort(
        &self,
        on: OnDevice<'_>,
        tiles: &Tiles,
        pool: &FilledPool,
        more: Option<MoreRoom>,
    ) -> Result<(Binned, Question), GpuError> {
        let (row_bins, buffers) = (&self.row_bins, &pool.buffers);
        let mut batch = Batch::new(on.device, "row_bins");
        let to = row_bins.to(self.scratch.as_ref());
        let to = to.filter(|_| !pool.is_streamed());
        let binned = row_bins.of(on, buffers, pool.boxes, to, more)?;
        if pool.is_streamed() {
            pool.redraw(on.device, tiles)?;
        }
        row_bins.put_in_order(&mut batch, buffers, &binned)?;
        if let Some(to) = to {
            row_bins.move_rows(&mut batch, buffers, &binned, pool.boxes, to)?;
        }
        batch.send()?;
        let question = Question::ask(on, &buffers.counters, COUNTERS)?;
        Ok((binned, question))
    }
}
