//! Timestamps around every dispatch and draw → the time of each stage by the device's own clock. Only where a job asks
//! for it: each timestamp waits for the work before it.

use std::collections::BTreeMap;
use std::sync::{Mutex, mpsc};

use proto::message::StageTime;

use super::device::{Device, GpuError};

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
    shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    /// Stages whose timestamps are in the query set, in order.
    open: Vec<&'static str>,
    /// Milliseconds and number of measurements.
    sums: BTreeMap<&'static str, (f64, u32)>,
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
            shown: Mutex::default(),
        }
    }

    /// Begins a measurement; returns the queries for its two timestamps, or none if the set is full.
    pub(super) fn measure(&self, stage: &'static str) -> Option<[u32; 2]> {
        let mut shown = self.shown.lock().ok()?;
        let first = 2 * shown.open.len() as u32;
        (first + 1 < 2 * PAIRS).then(|| {
            shown.open.push(stage);
            [first, first + 1]
        })
    }

    pub(super) fn set(&self) -> &wgpu::QuerySet {
        &self.set
    }

    /// After a submission: reads the measurements if the set is filling up.
    pub(super) fn read_if_full(&self, device: &Device) -> Result<(), GpuError> {
        let full = self
            .shown
            .lock()
            .is_ok_and(|shown| shown.open.len() as u32 > PAIRS / 2);
        if full { self.read(device) } else { Ok(()) }
    }

    fn read(&self, device: &Device) -> Result<(), GpuError> {
        let Ok(mut shown) = self.shown.lock() else {
            return Ok(());
        };
        let count = 2 * shown.open.len() as u32;
        if count == 0 {
            return Ok(());
        }
        let bytes = u64::from(count) * 8;
        let mut encoder = device.encoder("times");
        encoder.resolve_query_set(&self.set, 0..count, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.staging, 0, bytes);
        device.submit("times", encoder)?;
        let (sender, receiver) = mpsc::channel();
        self.staging
            .map_async(wgpu::MapMode::Read, ..bytes, move |result| {
                // The receiver outlives the poll below, or the read has already failed.
                drop(sender.send(result));
            });
        device.wait()?;
        if !matches!(receiver.try_recv(), Ok(Ok(()))) {
            return Err(device.lost("timestamps were never answered"));
        }
        let mapped = self
            .staging
            .get_mapped_range(..bytes)
            .map_err(|error| device.lost(error.to_string()))?;
        let ticks: &[u64] = &bytemuck::pod_collect_to_vec::<u8, u64>(&mapped);
        drop(mapped);
        self.staging.unmap();
        let open = std::mem::take(&mut shown.open);
        for (stage, pair) in open.into_iter().zip(ticks.chunks_exact(2)) {
            let sum = shown.sums.entry(stage).or_default();
            sum.0 += pair[1].saturating_sub(pair[0]) as f64 * self.period * 1e-6;
            sum.1 += 1;
        }
        Ok(())
    }

    /// Times of all stages, the longest first.
    pub(super) fn report(&self, device: &Device) -> Result<Vec<StageTime>, GpuError> {
        self.read(device)?;
        let mut times: Vec<StageTime> = self
            .shown
            .lock()
            .iter()
            .flat_map(|shown| &shown.sums)
            .map(|(&stage, &(ms, count))| StageTime {
                stage: stage.to_owned(),
                ms,
                count,
            })
            .collect();
        times.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        Ok(times)
    }
}
