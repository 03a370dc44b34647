//! Timestamps around every dispatch and draw → the time of each stage by the device's own clock. Only where a job asks
//! for it: each timestamp waits for the work before it.

use std::collections::BTreeMap;
use std::sync::{Mutex, mpsc};

use proto::message::StageTime;

pub(super) const FEATURES: wgpu::Features =
    wgpu::Features::TIMESTAMP_QUERY.union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES);
/// Measurements between reads, each of two timestamps: half of what a query set may hold.
const PAIRS: u32 = 2048;
const BYTES: u64 = PAIRS as u64 * 2 * 8;

#[derive(Debug)]
pub(super) struct Times {
    set: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    staging: wgpu::Buffer,
    /// Nanoseconds of a tick.
    period: f64,
    measured: Mutex<Measured>,
}

#[derive(Debug, Default)]
struct Measured {
    /// Stages whose timestamps are in the query set, in order.
    open: Vec<&'static str>,
    /// Milliseconds and number of measurements.
    sums: BTreeMap<&'static str, (f64, u32)>,
}

/// Timestamps on their way to the host, and the stages that they belong to.
#[derive(Debug)]
pub(super) struct Pending {
    stages: Vec<&'static str>,
    mapped: mpsc::Receiver<Result<(), wgpu::BufferAsyncError>>,
}

impl Times {
    pub(super) fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Self {
        let buffer = |label, usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(label),
                size: BYTES,
                usage,
                mapped_at_creation: false,
            })
        };
        let copied = wgpu::BufferUsages::COPY_DST;
        Self {
            set: device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("times"),
                ty: wgpu::QueryType::Timestamp,
                count: PAIRS * 2,
            }),
            resolved: buffer(
                "times",
                wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            ),
            staging: buffer("times", wgpu::BufferUsages::MAP_READ | copied),
            period: f64::from(queue.get_timestamp_period()),
            measured: Mutex::default(),
        }
    }

    /// Begins a measurement; returns the queries for its two timestamps, or none if the set is full.
    pub(super) fn measure(&self, stage: &'static str) -> Option<[u32; 2]> {
        let mut measured = self.measured.lock().ok()?;
        let first = 2 * measured.open.len() as u32;
        (first + 1 < 2 * PAIRS).then(|| {
            measured.open.push(stage);
            [first, first + 1]
        })
    }

    pub(super) fn set(&self) -> &wgpu::QuerySet {
        &self.set
    }

    pub(super) fn are_full(&self) -> bool {
        (self.measured.lock()).is_ok_and(|measured| measured.open.len() as u32 > PAIRS / 2)
    }

    /// Records that the timestamps so far are copied to where the host reads them; none if there are none.
    pub(super) fn resolve(&self, encoder: &mut wgpu::CommandEncoder) -> Option<Vec<&'static str>> {
        let mut measured = self.measured.lock().ok()?;
        let stages = std::mem::take(&mut measured.open);
        let count = 2 * stages.len() as u32;
        if count == 0 {
            return None;
        }
        encoder.resolve_query_set(&self.set, 0..count, &self.resolved, 0);
        let bytes = u64::from(count) * 8;
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.staging, 0, bytes);
        Some(stages)
    }

    /// Asks for the timestamps of `stages` once their copy is submitted.
    pub(super) fn map(&self, stages: Vec<&'static str>) -> Pending {
        let (sender, mapped) = mpsc::channel();
        let bytes = stages.len() as u64 * 16;
        let answer = move |result| {
            // The receiver outlives the wait, or the read has already failed.
            drop(sender.send(result));
        };
        (self.staging).map_async(wgpu::MapMode::Read, ..bytes, answer);
        Pending { stages, mapped }
    }

    /// Adds the timestamps that the device has been waited for; fails with the reason that there are none.
    pub(super) fn take(&self, pending: Pending) -> Result<(), String> {
        let Pending { stages, mapped } = pending;
        if !matches!(mapped.try_recv(), Ok(Ok(()))) {
            return Err("timestamps were never answered".to_owned());
        }
        let bytes = stages.len() as u64 * 16;
        let view = self.staging.get_mapped_range(..bytes);
        let view = view.map_err(|error| error.to_string())?;
        let ticks = bytemuck::pod_collect_to_vec::<u8, u64>(&view);
        drop(view);
        self.staging.unmap();
        if let Ok(mut measured) = self.measured.lock() {
            for (stage, pair) in stages.into_iter().zip(ticks.chunks_exact(2)) {
                let sum = measured.sums.entry(stage).or_default();
                sum.0 += pair[1].saturating_sub(pair[0]) as f64 * self.period * 1e-6;
                sum.1 += 1;
            }
        }
        Ok(())
    }

    /// Times of all stages, the longest first.
    pub(super) fn report(&self) -> Vec<StageTime> {
        let mut times: Vec<StageTime> = self
            .measured
            .lock()
            .iter()
            .flat_map(|measured| &measured.sums)
            .map(|(&stage, &(ms, count))| StageTime {
                stage: stage.to_owned(),
                ms,
                count,
            })
            .collect();
        times.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        times
    }
}
