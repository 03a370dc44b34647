//! A shader file compiled: its module, the layout of its bindings and a pipeline for each entry point.

use std::collections::BTreeMap;

use proto::job::Blend;
use rayon::prelude::*;

use super::batch::Batch;
use super::device::{Device, GpuError};
use super::error::{now, under_way};
use super::shaders::{Kind, Over, Shader};

/// One compiled file.
#[derive(Debug)]
pub(super) struct Compiled {
    shader: &'static Shader,
    pub(super) module: wgpu::ShaderModule,
    /// Of its own group.
    pub(super) layout: wgpu::BindGroupLayout,
    pipelines: BTreeMap<&'static str, wgpu::ComputePipeline>,
}

impl Shader {
    /// Compiles the file and makes its compute pipelines.
    pub(super) fn compile(
        &'static self,
        device: &Device,
        rows: &wgpu::BindGroupLayout,
        taps: u32,
        blend: Blend,
    ) -> Result<Compiled, GpuError> {
        now(self.name);
        crate::progress::expect(self.name, crate::pace::PIPELINE);
        let module = device
            .scoped(|| {
                let descriptor = wgpu::ShaderModuleDescriptor {
                    label: Some(self.name),
                    source: wgpu::ShaderSource::Wgsl(self.source(taps, blend).into()),
                };
                // What is read and written stays checked; that costs 4 % of the stages over rows.
                let checks = wgpu::ShaderRuntimeChecks {
                    force_loop_bounding: false,
                    ..wgpu::ShaderRuntimeChecks::checked()
                };
                #[expect(
                    unsafe_code,
                    reason = "counting every loop's steps costs 20 % of the stages over rows"
                )]
                // SAFETY: the shaders are our own, and each of their loops ends: all count up to a number that was read before,
                // but for the searches of footprint.wgsl in a table that is larger than what is put into it.
                unsafe {
                    device
                        .device
                        .create_shader_module_trusted(descriptor, checks)
                }
            })
            .map_err(|error| device.rejected(self.name, error))?;
        let layout = device
            .scoped(|| bind_layout(&device.device, self.name, self.bindings))
            .map_err(|error| device.rejected(self.name, error))?;
        let pipeline = |&(entry, over): &(&'static str, Over)| {
            let groups = [Some(&device.tally().layout), Some(&layout), Some(rows)];
            // Without gaps: wgpu 30 does not bind a group again that an earlier group's absence has disturbed.
            let groups = &groups[..if over == Over::Rows { 3 } else { 2 }];
            device
                .scoped(|| {
                    let layout =
                        device
                            .device
                            .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                                label: Some(entry),
                                bind_group_layouts: groups,
                                immediate_size: 0,
                            });
                    device
                        .device
                        .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                            label: Some(entry),
                            layout: Some(&layout),
                            module: &module,
                            entry_point: Some(entry),
                            compilation_options: wgpu::PipelineCompilationOptions::default(),
                            cache: device.cache(),
                        })
                })
                .map_err(|error| device.rejected(entry, error))
                .inspect(|_| crate::progress::unit())
        };
        // Drivers compile on the thread that asks.
        let pipelines: Result<BTreeMap<_, _>, GpuError> = self
            .entries
            .par_iter()
            .filter(|(_, over)| *over != Over::Graphics)
            .map(|entry| under_way(self.name, || Ok((entry.0, pipeline(entry)?))))
            .collect();
        let pipelines = pipelines?;
        device.check()?;
        Ok(Compiled {
            shader: self,
            module,
            layout,
            pipelines,
        })
    }
}

/// Layout of a list of bindings.
pub(super) fn bind_layout(
    device: &wgpu::Device,
    label: &str,
    bindings: &[(&str, Kind)],
) -> wgpu::BindGroupLayout {
    let buffer = |ty| wgpu::BindingType::Buffer {
        ty,
        has_dynamic_offset: false,
        min_binding_size: None,
    };
    let texture = |sample_type| wgpu::BindingType::Texture {
        sample_type,
        view_dimension: wgpu::TextureViewDimension::D2,
        multisampled: false,
    };
    let entries: Vec<_> = (0..)
        .zip(bindings)
        .map(|(binding, (_, kind))| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: match kind {
                // Drawing reads these two kinds as well.
                Kind::Uniform | Kind::Read => {
                    wgpu::ShaderStages::COMPUTE | wgpu::ShaderStages::VERTEX
                }
                Kind::Write | Kind::Ids => wgpu::ShaderStages::COMPUTE,
            },
            ty: match kind {
                Kind::Uniform => buffer(wgpu::BufferBindingType::Uniform),
                Kind::Read => buffer(wgpu::BufferBindingType::Storage { read_only: true }),
                Kind::Write => buffer(wgpu::BufferBindingType::Storage { read_only: false }),
                Kind::Ids => texture(wgpu::TextureSampleType::Uint),
            },
            count: None,
        })
        .collect();
    let descriptor = wgpu::BindGroupLayoutDescriptor {
        label: Some(label),
        entries: &entries,
    };
    device.create_bind_group_layout(&descriptor)
}

/// Binds resources in the order of a layout.
pub(super) fn bind(
    device: &Device,
    label: &str,
    layout: &wgpu::BindGroupLayout,
    resources: &[wgpu::BindingResource<'_>],
) -> wgpu::BindGroup {
    let entries: Vec<_> = (0..)
        .zip(resources)
        .map(|(binding, resource)| wgpu::BindGroupEntry {
            binding,
            resource: resource.clone(),
        })
        .collect();
    device.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some(label),
        layout,
        entries: &entries,
    })
}

/// How many workgroups: across, down and deep, or what a buffer holds.
#[derive(Clone, Copy, Debug)]
enum Groups<'a> {
    Of([u32; 3]),
    In(&'a wgpu::Buffer),
}

impl Compiled {
    /// Records one dispatch of `groups` workgroups, which adds `units` to the tally.
    pub(super) fn dispatch(
        &self,
        batch: &mut Batch<'_>,
        entry: &'static str,
        own: &wgpu::BindGroup,
        rows: Option<&wgpu::BindGroup>,
        groups: [u32; 2],
        units: u32,
    ) -> Result<(), GpuError> {
        let [across, down] = groups;
        self.record(
            batch,
            entry,
            own,
            rows,
            Groups::Of([across, down, 1]),
            units,
        )
    }

    /// The same once for each of so many regions.
    pub(super) fn dispatch_for_each(
        &self,
        batch: &mut Batch<'_>,
        entry: &'static str,
        own: &wgpu::BindGroup,
        [across, down]: [u32; 2],
        regions: u32,
    ) -> Result<(), GpuError> {
        let groups = [across, down, regions];
        let units = groups.iter().product();
        self.record(batch, entry, own, None, Groups::Of(groups), units)
    }

    /// Records one dispatch of as many workgroups as `groups` says by then, which settles the tally by itself.
    pub(super) fn dispatch_listed(
        &self,
        batch: &mut Batch<'_>,
        entry: &'static str,
        own: &wgpu::BindGroup,
        groups: &wgpu::Buffer,
    ) -> Result<(), GpuError> {
        self.record(batch, entry, own, None, Groups::In(groups), 0)
    }

    fn record(
        &self,
        batch: &mut Batch<'_>,
        entry: &'static str,
        own: &wgpu::BindGroup,
        rows: Option<&wgpu::BindGroup>,
        groups: Groups<'_>,
        units: u32,
    ) -> Result<(), GpuError> {
        let pipeline = self
            .pipelines
            .get(entry)
            .ok_or_else(|| GpuError::ShaderRejected {
                stage: entry.to_owned(),
                text: format!("{} has no such entry point", self.shader.name),
            })?;
        let device = batch.device;
        let tally = device.tally();
        let measured = device
            .times()
            .and_then(|times| Some((times.set(), times.measure(entry)?)));
        let pass = batch.pass();
        if let Some((set, [start, _])) = measured {
            pass.write_timestamp(set, start);
        }
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, &tally.bind, &[]);
        pass.set_bind_group(1, own, &[]);
        if let Some(rows) = rows {
            pass.set_bind_group(2, rows, &[]);
        }
        match groups {
            Groups::Of([x, y, z]) => pass.dispatch_workgroups(x, y, z),
            Groups::In(buffer) => pass.dispatch_workgroups_indirect(buffer, 0),
        }
        if let Some((set, [_, end])) = measured {
            pass.write_timestamp(set, end);
        }
        tally.ask(units);
        Ok(())
    }
}
