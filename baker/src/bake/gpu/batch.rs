//! Records commands and submits them together. Consecutive dispatches share a pass.

use super::device::{Device, GpuError};

/// The commands of one submission, then of the next.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub(super) device: &'a Device,
    label: &'static str,
    // Must end before its encoder does.
    pass: Option<wgpu::ComputePass<'static>>,
    encoder: Option<wgpu::CommandEncoder>,
    /// Words of rows that the commands visit.
    pub(super) words: u64,
}

impl<'a> Batch<'a> {
    pub(super) fn new(device: &'a Device, label: &'static str) -> Self {
        Self {
            device,
            label,
            pass: None,
            encoder: None,
            words: 0,
        }
    }

    /// The encoder, for commands other than dispatches.
    pub(super) fn encoder(&mut self) -> &mut wgpu::CommandEncoder {
        self.pass = None;
        self.encoder
            .get_or_insert_with(|| self.device.encoder(self.label))
    }

    pub(super) fn pass(&mut self) -> &mut wgpu::ComputePass<'static> {
        let encoder = self
            .encoder
            .get_or_insert_with(|| self.device.encoder(self.label));
        self.pass.get_or_insert_with(|| {
            let descriptor = wgpu::ComputePassDescriptor {
                label: Some(self.label),
                timestamp_writes: None,
            };
            encoder.begin_compute_pass(&descriptor).forget_lifetime()
        })
    }

    /// Submits what is recorded, ending with one tally unit.
    pub(super) fn send(&mut self) -> Result<(), GpuError> {
        if self.encoder.is_none() {
            return Ok(());
        }
        self.tick();
        self.submit().map(drop)
    }

    /// Records the tally unit of a submission whose last commands read the tally.
    pub(super) fn tick(&mut self) {
        let device = self.device;
        device.tally().tick(self.pass());
    }

    /// Submits what is recorded, which must contain its tally unit. Returns an index to wait for, if there was
    /// anything.
    pub(super) fn submit(&mut self) -> Result<Option<wgpu::SubmissionIndex>, GpuError> {
        self.words = 0;
        self.pass = None;
        let Some(encoder) = self.encoder.take() else {
            return Ok(None);
        };
        let sent = self.device.submit(self.label, encoder)?;
        self.device.read_full_times()?;
        Ok(Some(sent))
    }
}
