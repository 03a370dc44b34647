//! Rows on the device: chunks that stay, and chunks that are drawn again for every pass because the budget is full.
//!
//! A row's order within its chunk and a chunk's place make no difference to any result: what crosses rows is summed in
//! integers.

use std::sync::Arc;

use bytemuck::Zeroable;
use proto::table::View;

use super::batch::Batch;
use super::device::{Device, GpuError};
use super::layout::{self, ROW_LANES};
use super::memory::{Budget, Buffer, STORAGE, UNIFORM, buffer, buffer_with, read_as};
use super::planes::clear;
use super::shaders::ROWS;
use super::stage::{Compiled, bind, bind_layout};
use super::tiles::{Tiles, Work};
use crate::bake::backend::BLOCK;
use crate::bake::rows::Rows;

/// Entries after which a batch of commands is sent: about a tenth of a second of the slowest real GPUs.
const BATCH_ENTRIES: u64 = 64 << 20;
/// Rows of a chunk of seams, so that spans of eight entries fit 24 bits.
const SEAM_ROWS: usize = 1 << 18;

#[derive(Debug)]
struct Chunk {
    shape: layout::Chunk,
    entries: u32,
    bind: wgpu::BindGroup,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Shape, spans, entries, colours, trust and places.
    Held { _buffers: [Buffer; 6] },
    /// Drawn again when needed, into the scratch buffers.
    Streamed { work: Work, _shape: Buffer },
}

/// All rows of a job.
#[derive(Debug)]
pub(super) struct Chunks {
    layout: wgpu::BindGroupLayout,
    pixels: Vec<Chunk>,
    seams: Vec<Chunk>,
    tones: Buffer,
    /// Of each view, see `rows.wgsl`; one for the seams, which have none, in front.
    blocks: Vec<Buffer>,
}

/// Which rows a pass visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Pixels,
    Seams,
    All,
}

/// One entry point over rows with its own resources.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit<'a> {
    pub(super) stage: &'a Compiled,
    pub(super) entry: &'static str,
    pub(super) own: &'a wgpu::BindGroup,
}

/// Layout of the group that is a chunk of rows.
pub(super) fn rows_layout(device: &Device) -> wgpu::BindGroupLayout {
    bind_layout(&device.device, "rows", ROWS)
}

impl Chunks {
    pub(super) fn new(
        device: &Device,
        budget: &Arc<Budget>,
        layout: wgpu::BindGroupLayout,
        tones: &[[f32; 2]; 256],
    ) -> Result<Self, GpuError> {
        let tones = buffer_with(device, budget, "tones", tones, STORAGE)?;
        let no_blocks = buffer(device, budget, "no blocks", 8, STORAGE)?;
        Ok(Self {
            layout,
            pixels: Vec::new(),
            seams: Vec::new(),
            tones,
            blocks: vec![no_blocks],
        })
    }

    /// Makes room for a view; tiles added from now on are its own.
    pub(super) fn add_view(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        view: &View,
    ) -> Result<(), GpuError> {
        let [across, down] = [view.width, view.height].map(|edge| u64::from(edge.div_ceil(BLOCK)));
        self.blocks.push(buffer(
            device,
            budget,
            "blocks",
            across * down * 8,
            STORAGE,
        )?);
        Ok(())
    }

    /// Records that blocks are to be empty.
    pub(super) fn clear_blocks(&self, encoder: &mut wgpu::CommandEncoder) {
        clear(encoder, &self.blocks);
    }

    /// Some chunks are drawn again for every pass.
    pub(super) fn streamed(&self) -> bool {
        self.pixels
            .iter()
            .any(|chunk| matches!(chunk.place, Place::Streamed { .. }))
    }

    /// Draws a tile of the latest view, lets `first` visit its rows, and keeps them if at least `reserve` bytes of the budget
    /// are left then. Returns its number of rows.
    pub(super) fn add(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
        view: &View,
        work: Work,
        first: Visit<'_>,
        reserve: u64,
    ) -> Result<u32, GpuError> {
        tiles.build(device, &work)?;
        let counted: Vec<u32> = read_as(device, budget, &tiles.scratch.counters, 2)?;
        let (rows, entries) = (counted[0], counted[1]);
        if rows == 0 {
            return Ok(0);
        }
        let shape = layout::Chunk {
            rows,
            view: self.blocks.len() as u32 - 2,
            seam: 0,
            view_width: view.width,
            blocks_across: view.width.div_ceil(BLOCK),
            blocks_down: view.height.div_ceil(BLOCK),
            unused_0: 0,
            unused_1: 0,
        };
        let uniform = buffer_with(device, budget, "chunk", &[shape], UNIFORM)?;
        let bytes = u64::from(rows) * 16 + u64::from(entries) * 8 + 128;
        let mut batch = Batch::new(device, first.entry);
        let scratch = &tiles.scratch;
        let chunk = if budget.left() >= bytes + reserve {
            let make = |label: &str, bytes: u64| buffer(device, budget, label, bytes, STORAGE);
            let (words, pairs) = (u64::from(rows) * 4, u64::from(entries) * 8);
            let buffers = [
                uniform,
                make("spans", words)?,
                make("entries", pairs)?,
                make("colours", words)?,
                make("trust", words)?,
                make("places", words)?,
            ];
            let parts = [
                (&scratch.spans, &buffers[1], words),
                (&scratch.entries, &buffers[2], pairs),
                (&scratch.colours, &buffers[3], words),
                (&scratch.places, &buffers[5], words),
            ];
            for (from, to, bytes) in parts {
                batch
                    .encoder()
                    .copy_buffer_to_buffer(&from.item, 0, &to.item, 0, bytes);
            }
            let bind = self.bind(device, buffers.each_ref(), self.blocks.len() - 1);
            Chunk {
                shape,
                entries,
                bind,
                place: Place::Held { _buffers: buffers },
            }
        } else {
            let buffers = [
                &uniform,
                &scratch.spans,
                &scratch.entries,
                &scratch.colours,
                &scratch.trust,
                &scratch.places,
            ];
            let bind = self.bind(device, buffers, self.blocks.len() - 1);
            Chunk {
                shape,
                entries,
                bind,
                place: Place::Streamed {
                    work,
                    _shape: uniform,
                },
            }
        };
        self.dispatch(&mut batch, &chunk, &[first])?;
        self.pixels.push(chunk);
        batch.send()?;
        Ok(rows)
    }

    /// The group of shape, spans, entries, colours, trust and places.
    fn bind(&self, device: &Device, buffers: [&Buffer; 6], blocks: usize) -> wgpu::BindGroup {
        let [shape, spans, entries, colours, trust, places] = buffers;
        let resources = [
            shape,
            spans,
            entries,
            colours,
            trust,
            &self.tones,
            places,
            &self.blocks[blocks],
        ];
        bind(
            device,
            "rows",
            &self.layout,
            &resources.map(|buffer| buffer.item.as_entire_binding()),
        )
    }

    /// Adds the seams and lets `first` visit them.
    pub(super) fn add_seams(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        seams: &Rows,
        first: Visit<'_>,
    ) -> Result<(), GpuError> {
        let mut batch = Batch::new(device, "seams");
        for from in (0..seams.len()).step_by(SEAM_ROWS) {
            let rows = from..(from + SEAM_ROWS).min(seams.len());
            let start = seams.starts[rows.start];
            let entries = &seams.entries[start as usize..seams.starts[rows.end] as usize];
            let spans: Vec<u32> = rows
                .clone()
                .map(|row| {
                    ((seams.starts[row] - start) << 8) | (seams.starts[row + 1] - seams.starts[row])
                })
                .collect();
            let zeros = vec![0u32; spans.len()];
            let shape = layout::Chunk {
                rows: spans.len() as u32,
                seam: 1,
                ..layout::Chunk::zeroed()
            };
            let buffers = [
                buffer_with(device, budget, "seams", &[shape], UNIFORM)?,
                buffer_with(device, budget, "seams", &spans, STORAGE)?,
                buffer_with(device, budget, "seams", entries, STORAGE)?,
                buffer_with(device, budget, "seams", &zeros, STORAGE)?,
                buffer(device, budget, "seams", spans.len() as u64 * 12, STORAGE)?,
                buffer(device, budget, "seams", 4, STORAGE)?,
            ];
            let bind = self.bind(device, buffers.each_ref(), 0);
            let chunk = Chunk {
                shape,
                entries: entries.len() as u32,
                bind,
                place: Place::Held { _buffers: buffers },
            };
            self.dispatch(&mut batch, &chunk, &[first])?;
            self.seams.push(chunk);
        }
        batch.send()
    }

    /// Runs `visits` over the rows of `which`. Rows that are drawn again are first visited by `again`, which restores their
    /// weights.
    pub(super) fn visit(
        &self,
        batch: &mut Batch<'_>,
        tiles: &Tiles,
        visits: &[Visit<'_>],
        which: Which,
        again: Option<Visit<'_>>,
    ) -> Result<(), GpuError> {
        let pixels = self.pixels.iter().filter(|_| which != Which::Seams);
        let seams = self.seams.iter().filter(|_| which != Which::Pixels);
        for chunk in pixels.chain(seams) {
            match &chunk.place {
                Place::Held { .. } => self.dispatch(batch, chunk, visits)?,
                Place::Streamed { work, .. } => {
                    batch.send()?;
                    tiles.build(batch.device, work)?;
                    if let Some(again) = again {
                        self.dispatch(batch, chunk, &[again])?;
                    }
                    self.dispatch(batch, chunk, visits)?;
                    batch.send()?;
                }
            }
        }
        Ok(())
    }

    fn dispatch(
        &self,
        batch: &mut Batch<'_>,
        chunk: &Chunk,
        visits: &[Visit<'_>],
    ) -> Result<(), GpuError> {
        let groups = [chunk.shape.rows.div_ceil(ROW_LANES), 1];
        for visit in visits {
            visit.stage.dispatch(
                batch,
                visit.entry,
                visit.own,
                Some(&chunk.bind),
                groups,
                chunk.shape.rows,
            )?;
            batch.entries += u64::from(chunk.entries);
        }
        if batch.entries >= BATCH_ENTRIES {
            batch.send()?;
        }
        Ok(())
    }
}
