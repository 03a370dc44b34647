//! Full pools → the bind groups for passes over their rows. Once all views are added, rows are sorted into bins and
//! bound.

use std::sync::Arc;

use super::visit::{Visit, dispatch};
use super::{Boxes, COUNTERS, Filled, Filling, Ground, NOTHING, RowStore, blocks, row_bins};
use crate::bake::gpu::batch::Batch;
use crate::bake::gpu::device::{Device, GpuError};
use crate::bake::gpu::layout;
use crate::bake::gpu::memory::{Budget, Buffer, OnDevice, Question, write};
use crate::bake::gpu::stage::bind;
use crate::bake::gpu::tiles::Tiles;

#[derive(Debug)]
pub(super) struct Bound {
    pub(super) group: wgpu::BindGroup,
    pub(super) visited: layout::Visited,
    pub(super) rows: u32,
    _buffer: Buffer,
}

impl RowStore {
    /// Completes the pools once all views are added: makes the bind groups, and lets `first` visit the rows that it has
    /// not visited yet. `reserve` is as in [`Filling`].
    pub(in crate::bake::gpu) fn complete(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
        first: Visit<'_>,
        reserve: u64,
    ) -> Result<(), GpuError> {
        Filling::new(self, device, budget, tiles, reserve).complete()?;
        self.spare.clear();
        self.put_in_order(device, budget, tiles)?;
        if self.blocks.is_none() {
            let count = self.view_blocks.iter().map(|[a, d]| u64::from(a * d)).sum();
            let blocks = blocks(&OnDevice { device, budget }, count)?;
            for pool in &mut self.pixels {
                pool.bound = None;
            }
            for seams in &mut self.seams {
                seams.bound = None;
            }
            self.blocks = Some(blocks);
        }
        let Some(blocks) = &self.blocks else {
            return Ok(());
        };
        let Ground { size, texels } = self.row_bins.ground;
        let bound = |visited: layout::Visited, of_rows, parts: [&Buffer; 6]| {
            let buffer = super::visited(&OnDevice { device, budget })?;
            let visited = layout::Visited {
                size,
                count: texels,
                ..visited
            };
            write(device, &buffer, &[visited]);
            let [patches, rows, words, trust, order, row_bins] = parts;
            let all = [
                &buffer,
                patches,
                rows,
                words,
                trust,
                &self.tones,
                blocks,
                order,
                row_bins,
            ];
            let group = bind(
                device,
                "rows",
                &self.layout,
                &all.map(|buffer| buffer.item.as_entire_binding()),
            );
            Ok::<_, GpuError>(Bound {
                group,
                visited,
                rows: of_rows,
                _buffer: buffer,
            })
        };
        for pool in &mut self.pixels {
            if let (None, Some(binned)) = (&pool.bound, &pool.binned) {
                let b = &pool.buffers;
                let row_bins = binned.patches(b);
                let order = &self.row_bins.order;
                let parts = [&b.patches, &b.rows, &b.words, &b.trust, order, row_bins];
                let (counts, subset) = (pool.counts, pool.subset);
                let [of_subset, others] = binned.counts;
                let all = layout::Visited {
                    patches: counts.patches,
                    first: subset.patches,
                    gap: self.mould.room.patches - counts.patches,
                    row_bins: of_subset + others,
                    first_row_bins: of_subset,
                    row_bins_gap: binned.room - of_subset - others,
                    ordered: u32::from(!pool.works.is_empty()),
                    ..layout::Visited::default()
                };
                let few = layout::Visited {
                    patches: subset.patches,
                    row_bins: of_subset,
                    ..all
                };
                pool.bound = Some([
                    bound(all, counts.rows, parts)?,
                    bound(few, subset.rows, parts)?,
                ]);
            }
        }
        for seams in &mut self.seams {
            if seams.bound.is_none() {
                let all = layout::Visited {
                    patches: seams.counts.patches,
                    first: seams.counts.patches,
                    ..layout::Visited::default()
                };
                let [patches, rows, words, trust] = seams.parts();
                // Placeholders: seams have no bins.
                let (order, row_bins) = (words, patches);
                let parts = [patches, rows, words, trust, order, row_bins];
                seams.bound = Some(bound(all, seams.counts.rows, parts)?);
            }
        }
        let mut batch = Batch::new(device, first.entry);
        for pool in &self.pixels {
            if !pool.counted {
                self.visit_pool(&mut batch, tiles, pool, &[first], None)?;
            }
        }
        for seams in &self.seams {
            if !seams.counted {
                dispatch(&mut batch, seams.counts, seams.bound.as_ref(), &[first])?;
            }
        }
        for pool in &mut self.pixels {
            pool.counted = true;
        }
        for seams in &mut self.seams {
            seams.counted = true;
        }
        batch.send()
    }

    /// Sorts the rows of pools that are not sorted yet.
    fn put_in_order(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
    ) -> Result<(), GpuError> {
        if self.scratch.is_none() {
            let todo = self.pixels.iter().filter(|pool| pool.binned.is_none());
            let most = todo.map(|pool| pool.boxes).reduce(Boxes::most);
            if let Some(most) = most {
                self.row_bins.make_beside(device, budget, most)?;
            }
        }
        let (row_bins, scratch) = (&self.row_bins, self.scratch.as_ref());
        let mut todo: Vec<(&mut Filled, Option<(Buffer, u32)>)> = (self.pixels.iter_mut())
            .filter(|pool| pool.binned.is_none())
            .map(|pool| (pool, None))
            .collect();
        while !todo.is_empty() {
            let mut asked = Vec::new();
            for (pool, more) in todo {
                let mut batch = Batch::new(device, "row_bins");
                let buffers = &pool.buffers;
                let to = row_bins.to(scratch).filter(|_| pool.works.is_empty());
                let binned = row_bins.of(device, budget, buffers, pool.boxes, (to, more))?;
                // Other streamed pools have been drawn over it since.
                if !pool.works.is_empty() {
                    write(device, &buffers.counters, &NOTHING);
                    for work in &pool.works {
                        tiles.build(device, work, None, &buffers.drawn)?;
                    }
                }
                row_bins.put_in_order(&mut batch, buffers, &binned)?;
                if let Some(to) = to {
                    row_bins.move_rows(&mut batch, buffers, &binned, pool.boxes, to)?;
                }
                batch.send()?;
                let question = Question::ask(device, budget, &buffers.counters, COUNTERS)?;
                asked.push((pool, binned, question));
            }
            todo = Vec::new();
            for (pool, mut binned, question) in asked {
                let wanted = binned.take(&question.answer(device)?);
                pool.binned = Some(binned);
                if let Some(wanted) = wanted {
                    let more = row_bins::more(&OnDevice { device, budget }, wanted)?;
                    todo.push((pool, Some((more, wanted))));
                }
            }
        }
        Ok(())
    }
}
