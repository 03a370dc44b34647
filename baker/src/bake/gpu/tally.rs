//! The completion sentinel: compares the work asked of the device, counted by the host, with the work done, counted by
//! the shaders.
//!
//! Every dispatch, draw and submission adds to the device's count, and every read-back brings that count along
//! (`tally.wgsl`). Single copies and clears within a submission are not counted.

use std::sync::atomic::{AtomicU32, Ordering};

use proto::job::Blend;

use super::layout::{Patches, TALLY_WORDS};
use super::shaders::{self, TICK, bind_layout};

/// Bytes of the device's counters.
pub(super) const BYTES: u64 = (TALLY_WORDS * size_of::<u32>()) as u64;

pub(super) fn counted(bytes: &[u8]) -> u32 {
    let words = bytes
        .chunks_exact(4)
        .map(bytemuck::pod_read_unaligned::<u32>);
    words.fold(0, u32::wrapping_add)
}

/// Both counts, modulo 2³².
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) layout: wgpu::BindGroupLayout,
    pub(super) bind: wgpu::BindGroup,
    pub(super) buffer: wgpu::Buffer,
    tick: wgpu::ComputePipeline,
    asked: AtomicU32,
}

impl Tally {
    pub(super) fn new(device: &wgpu::Device) -> Self {
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("tally"),
            size: BYTES,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        let layout = bind_layout(device, "tally", &shaders::tally());
        let bind = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("tally"),
            layout: &layout,
            entries: &[wgpu::BindGroupEntry {
                binding: 0,
                resource: buffer.as_entire_binding(),
            }],
        });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some(TICK.name),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(TICK.name),
            source: wgpu::ShaderSource::Wgsl(TICK.source(1, Blend::Linear, Patches::Listed).into()),
        });
        let tick = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(TICK.name),
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some(TICK.name),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        Self {
            layout,
            bind,
            buffer,
            tick,
            asked: AtomicU32::new(0),
        }
    }

    pub(super) fn ask(&self, units: u32) {
        self.asked.fetch_add(units, Ordering::Relaxed);
    }

    pub(super) fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }

    pub(super) fn tick(&self, pass: &mut wgpu::ComputePass<'_>) {
        pass.set_pipeline(&self.tick);
        pass.set_bind_group(0, &self.bind, &[]);
        pass.dispatch_workgroups(1, 1, 1);
        self.ask(1);
    }
}
