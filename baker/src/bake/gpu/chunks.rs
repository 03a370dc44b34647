//! Rows on the device: chunks that stay, and chunks that are drawn again for every pass because the budget is full.
//!
//! A row's order within its chunk and a chunk's place make no difference to any result: what crosses rows is summed in
//! integers.

use std::cell::Cell;
use std::sync::Arc;

use super::device::{Device, GpuError};
use super::layout::{self, ROW_LANES};
use super::memory::{Budget, Buffer, STORAGE, UNIFORM, buffer, buffer_with, read_as, write};
use super::stage::{Compiled, ROWS, bind, bind_layout};
use super::tiles::{Tiles, Work};
use crate::bake::rows::Rows;

/// Entries after which a batch of commands is sent: about a tenth of a second of the slowest real GPUs.
const BATCH_ENTRIES: u64 = 64 << 20;
/// Rows of a chunk of seams, so that spans of eight entries fit 24 bits.
const SEAM_ROWS: usize = 1 << 18;

#[derive(Debug)]
struct Chunk {
    shape: layout::Chunk,
    entries: u32,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Held {
        bind: wgpu::BindGroup,
        _buffers: [Buffer; 5],
    },
    /// Drawn again when needed.
    Streamed(Work),
}

/// All rows of a job.
#[derive(Debug)]
pub(super) struct Chunks {
    layout: wgpu::BindGroupLayout,
    pixels: Vec<Chunk>,
    seams: Vec<Chunk>,
    tones: Buffer,
    tally: Buffer,
    /// What the tally should say.
    asked: Cell<u32>,
    scratch_shape: Buffer,
    scratch_bind: wgpu::BindGroup,
}

/// One entry point over rows with its own resources.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit<'a> {
    pub(super) stage: &'a Compiled,
    pub(super) entry: &'static str,
    pub(super) own: &'a wgpu::BindGroup,
}

/// Commands on their way: recorded, and sent when enough are together.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    device: &'a Device,
    label: &'static str,
    encoder: Option<wgpu::CommandEncoder>,
    entries: u64,
}

impl<'a> Batch<'a> {
    pub(super) fn new(device: &'a Device, label: &'static str) -> Self {
        Self { device, label, encoder: None, entries: 0 }
    }

    pub(super) fn encoder(&mut self) -> &mut wgpu::CommandEncoder {
        self.encoder.get_or_insert_with(|| self.device.encoder(self.label))
    }

    /// Sends what is recorded.
    pub(super) fn send(&mut self) -> Result<(), GpuError> {
        self.entries = 0;
        match self.encoder.take() {
            Some(encoder) => self.device.submit(self.label, encoder),
            None => Ok(()),
        }
    }
}

/// Layout of group 1.
pub(super) fn rows_layout(device: &Device) -> wgpu::BindGroupLayout {
    bind_layout(device, "rows", ROWS)
}

impl Chunks {
    pub(super) fn new(
        device: &Device,
        budget: &Arc<Budget>,
        layout: wgpu::BindGroupLayout,
        tiles: &Tiles,
        tones: &[[f32; 2]; 256],
    ) -> Result<Self, GpuError> {
        let tones = buffer_with(device, budget, "tones", tones, STORAGE)?;
        let tally = buffer(device, budget, "tally", 4, STORAGE)?;
        let scratch_shape = buffer(device, budget, "scratch chunk", size_of::<layout::Chunk>() as u64, UNIFORM)?;
        let scratch = &tiles.scratch;
        let resources =
            [&scratch_shape, &scratch.spans, &scratch.entries, &scratch.colours, &scratch.trust, &tones, &tally]
                .map(|buffer| buffer.item.as_entire_binding());
        let scratch_bind = bind(device, "scratch rows", &layout, &resources);
        Ok(Self {
            layout,
            pixels: Vec::new(),
            seams: Vec::new(),
            tones,
            tally,
            asked: Cell::new(0),
            scratch_shape,
            scratch_bind,
        })
    }

    /// Some chunks are drawn again for every pass.
    pub(super) fn streamed(&self) -> bool {
        self.pixels.iter().any(|chunk| matches!(chunk.place, Place::Streamed(_)))
    }

    /// Draws a tile of the `view`-th view, lets `first` visit its rows, and keeps them if at least `reserve` bytes of the
    /// budget are left then. Returns its number of rows.
    pub(super) fn add(
        &mut self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
        view: u32,
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
        let shape = layout::Chunk { rows, view, seam: 0, unused: 0 };
        let bytes = u64::from(rows) * 12 + u64::from(entries) * 8 + 128;
        let mut batch = Batch::new(device, first.entry);
        let place = if budget.left() >= bytes + reserve {
            let label = format!("view {view}");
            let make = |bytes: u64| buffer(device, budget, &label, bytes, STORAGE);
            let buffers = [
                buffer_with(device, budget, &label, &[shape], UNIFORM)?,
                make(u64::from(rows) * 4)?,
                make(u64::from(entries) * 8)?,
                make(u64::from(rows) * 4)?,
                make(u64::from(rows) * 4)?,
            ];
            let scratch = &tiles.scratch;
            let parts = [
                (&scratch.spans, &buffers[1], u64::from(rows) * 4),
                (&scratch.entries, &buffers[2], u64::from(entries) * 8),
                (&scratch.colours, &buffers[3], u64::from(rows) * 4),
            ];
            for (from, to, bytes) in parts {
                batch.encoder().copy_buffer_to_buffer(&from.item, 0, &to.item, 0, bytes);
            }
            self.held(device, buffers)
        } else {
            Place::Streamed(work)
        };
        self.pixels.push(Chunk { shape, entries, place });
        let Some(chunk) = self.pixels.last() else { return Ok(rows) };
        match &chunk.place {
            Place::Held { bind, .. } => self.dispatch(&mut batch, chunk, bind, &[first])?,
            Place::Streamed(_) => {
                write(device, &self.scratch_shape, &[shape]);
                self.dispatch(&mut batch, chunk, &self.scratch_bind, &[first])?;
            }
        }
        batch.send()?;
        Ok(rows)
    }

    fn held(&self, device: &Device, buffers: [Buffer; 5]) -> Place {
        let [shape, spans, entries, colours, trust] = &buffers;
        let resources = [shape, spans, entries, colours, trust, &self.tones, &self.tally]
            .map(|buffer| buffer.item.as_entire_binding());
        let bind = bind(device, "rows", &self.layout, &resources);
        Place::Held { bind, _buffers: buffers }
    }

    /// Replaces the seams.
    pub(super) fn set_seams(&mut self, device: &Device, budget: &Arc<Budget>, seams: &Rows) -> Result<(), GpuError> {
        self.seams.clear();
        for first in (0..seams.len()).step_by(SEAM_ROWS) {
            let rows = first..(first + SEAM_ROWS).min(seams.len());
            let start = seams.starts[rows.start];
            let entries = &seams.entries[start as usize..seams.starts[rows.end] as usize];
            let spans: Vec<u32> = rows
                .clone()
                .map(|row| ((seams.starts[row] - start) << 8) | (seams.starts[row + 1] - seams.starts[row]))
                .collect();
            let colours = vec![0u32; spans.len()];
            let shape = layout::Chunk { rows: spans.len() as u32, view: 0, seam: 1, unused: 0 };
            let buffers = [
                buffer_with(device, budget, "seams", &[shape], UNIFORM)?,
                buffer_with(device, budget, "seams", &spans, STORAGE)?,
                buffer_with(device, budget, "seams", entries, STORAGE)?,
                buffer_with(device, budget, "seams", &colours, STORAGE)?,
                buffer(device, budget, "seams", 16, STORAGE)?,
            ];
            let place = self.held(device, buffers);
            self.seams.push(Chunk { shape, entries: entries.len() as u32, place });
        }
        Ok(())
    }

    /// Runs `visits` over all pixels' rows, and over the seams' if asked. Rows that are drawn again are first visited by
    /// `again`, which restores their robust weights.
    pub(super) fn visit(
        &self,
        batch: &mut Batch<'_>,
        tiles: &Tiles,
        visits: &[Visit<'_>],
        seams: bool,
        again: Option<Visit<'_>>,
    ) -> Result<(), GpuError> {
        for chunk in self.pixels.iter().chain(self.seams.iter().filter(|_| seams)) {
            match &chunk.place {
                Place::Held { bind, .. } => self.dispatch(batch, chunk, bind, visits)?,
                Place::Streamed(work) => {
                    batch.send()?;
                    tiles.build(batch.device, work)?;
                    write(batch.device, &self.scratch_shape, &[chunk.shape]);
                    if let Some(again) = again {
                        self.dispatch(batch, chunk, &self.scratch_bind, &[again])?;
                    }
                    self.dispatch(batch, chunk, &self.scratch_bind, visits)?;
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
        bind: &wgpu::BindGroup,
        visits: &[Visit<'_>],
    ) -> Result<(), GpuError> {
        let groups = [chunk.shape.rows.div_ceil(ROW_LANES), 1];
        for visit in visits {
            visit.stage.dispatch(batch.encoder(), visit.entry, visit.own, Some(bind), groups)?;
            self.asked.set(self.asked.get().wrapping_add(chunk.shape.rows));
            batch.entries += u64::from(chunk.entries);
        }
        if batch.entries >= BATCH_ENTRIES {
            batch.send()?;
        }
        Ok(())
    }

    /// Expects a row that nobody visits: for tests.
    #[cfg(test)]
    pub(super) fn ask_one_more(&self) {
        self.asked.set(self.asked.get().wrapping_add(1));
    }

    /// Everything that was asked for was done, by the shaders' own count.
    pub(super) fn verify(&self, device: &Device, budget: &Arc<Budget>) -> Result<(), GpuError> {
        let visited = read_as::<u32>(device, budget, &self.tally, 1)?[0];
        let asked = self.asked.get();
        if visited == asked { Ok(()) } else { Err(GpuError::Incomplete { label: device.label(), visited, asked }) }
    }
}
