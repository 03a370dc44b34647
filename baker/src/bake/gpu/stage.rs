//! Compiles a shader file into its module, the layout of its bindings and a pipeline for each entry point, and records
//! dispatches of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::job::Blend;
use rayon::prelude::*;

use super::batch::Batch;
use super::device::{Device, GpuError};
use super::error::{now, under_way};
use super::layout::{GROUPS_ACROSS, Patches};
use super::shaders::{Over, Shader, bind_layout};

#[derive(Debug)]
pub(super) struct Compiled {
    shader: &'static Shader,
    pub(super) module: wgpu::ShaderModule,
    /// Of group 1.
    pub(super) layout: wgpu::BindGroupLayout,
    pipelines: EntryPoints,
    /// Entry points over rows, compiled for bins.
    over_row_bins: EntryPoints,
}

type EntryPoints = BTreeMap<&'static str, Pipeline>;

#[derive(Debug)]
struct Pipeline {
    made: wgpu::ComputePipeline,
    /// Dispatched before.
    known: AtomicBool,
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
        let module = |patches| {
            device.scoped(|| {
                let descriptor = wgpu::ShaderModuleDescriptor {
                    label: Some(self.name),
                    source: wgpu::ShaderSource::Wgsl(self.source(taps, blend, patches).into()),
                };
                // Bounds checks stay on; they cost 4 % of the stages over rows.
                let checks = wgpu::ShaderRuntimeChecks {
                    force_loop_bounding: false,
                    ..wgpu::ShaderRuntimeChecks::checked()
                };
                #[expect(
                    unsafe_code,
                    reason = "counting every loop's steps costs 20 % of the stages over rows"
                )]
                // SAFETY: the shaders are part of this crate, and each of their loops ends. All count up to a number
                // read beforehand, except the searches of footprint.wgsl in a table that is larger than what is put
                // into it.
                unsafe {
                    device
                        .device
                        .create_shader_module_trusted(descriptor, checks)
                }
            })
        };
        let made = |patches| module(patches).map_err(|error| device.rejected(self.name, error));
        let module = made(Patches::Listed)?;
        let row_bins = match self.is_over_rows() {
            true => Some(made(Patches::RowBins)?),
            false => None,
        };
        let layout = device
            .scoped(|| bind_layout(&device.device, self.name, self.bindings))
            .map_err(|error| device.rejected(self.name, error))?;
        // Stages over rows clear the workgroup memory that they sum in themselves.
        let options = wgpu::PipelineCompilationOptions {
            zero_initialize_workgroup_memory: !self.is_over_rows(),
            ..wgpu::PipelineCompilationOptions::default()
        };
        let pipeline = |module: &wgpu::ShaderModule, entry: &'static str, over: Over| {
            let groups = [Some(&device.tally().layout), Some(&layout), Some(rows)];
            // Without gaps: wgpu 30 does not rebind a group that the absence of an earlier group has disturbed.
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
                            module,
                            entry_point: Some(entry),
                            compilation_options: options.clone(),
                            cache: device.cache(),
                        })
                })
                .map_err(|error| device.rejected(entry, error))
                .inspect(|_| crate::progress::unit())
        };
        // Drivers compile on the calling thread, so this runs in parallel.
        let listed = (self.entries.iter())
            .filter(|(_, over)| *over != Over::Graphics)
            .map(|&(entry, over)| (Patches::Listed, &module, entry, over));
        let binned = row_bins.iter().flat_map(|module| {
            let over_rows = self.entries.iter().filter(|(_, over)| *over == Over::Rows);
            over_rows.map(move |&(entry, over)| (Patches::RowBins, module, entry, over))
        });
        let all: Vec<_> = listed.chain(binned).collect();
        let made: Result<Vec<_>, GpuError> = (all.par_iter())
            .map(|&(patches, module, entry, over)| {
                under_way(self.name, || {
                    Ok((patches, entry, pipeline(module, entry, over)?))
                })
            })
            .collect();
        let mut pipelines = Patches::BOTH.map(|_| BTreeMap::new());
        for (patches, entry, pipeline) in made? {
            let known = AtomicBool::new(false);
            let made = pipeline;
            pipelines[patches as usize].insert(entry, Pipeline { made, known });
        }
        let [pipelines, over_row_bins] = pipelines;
        device.check()?;
        Ok(Compiled {
            shader: self,
            module,
            layout,
            pipelines,
            over_row_bins,
        })
    }
}

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

/// Number of workgroups: across, down and deep, or read from a buffer.
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
        groups: [u32; 2],
        units: u32,
    ) -> Result<(), GpuError> {
        let groups = Groups::Of([groups[0], groups[1], 1]);
        self.record(batch, (&self.pipelines, entry), own, None, groups, units)
    }

    /// Records dispatches over a pool of rows: of listed patches and of bins, one workgroup each. Together they add
    /// `units` to the tally.
    pub(super) fn dispatch_rows(
        &self,
        batch: &mut Batch<'_>,
        entry: &'static str,
        own: &wgpu::BindGroup,
        rows: &wgpu::BindGroup,
        [listed, row_bins]: [u32; 2],
        units: u32,
    ) -> Result<(), GpuError> {
        let mut units = units;
        for (pipelines, patches) in [(&self.pipelines, listed), (&self.over_row_bins, row_bins)] {
            if patches > 0 {
                let down = patches.div_ceil(GROUPS_ACROSS);
                let groups = Groups::Of([patches.min(GROUPS_ACROSS), down, 1]);
                let units = std::mem::take(&mut units);
                self.record(batch, (pipelines, entry), own, Some(rows), groups, units)?;
            }
        }
        Ok(())
    }

    /// Records one dispatch with a layer of workgroups for each region.
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
        let groups = Groups::Of(groups);
        self.record(batch, (&self.pipelines, entry), own, None, groups, units)
    }

    /// Records one dispatch whose size is read from `groups` when it runs. It balances the tally by itself.
    pub(super) fn dispatch_listed(
        &self,
        batch: &mut Batch<'_>,
        entry: &'static str,
        own: &wgpu::BindGroup,
        groups: &wgpu::Buffer,
    ) -> Result<(), GpuError> {
        let groups = Groups::In(groups);
        self.record(batch, (&self.pipelines, entry), own, None, groups, 0)
    }

    fn record(
        &self,
        batch: &mut Batch<'_>,
        (pipelines, entry): (&EntryPoints, &'static str),
        own: &wgpu::BindGroup,
        rows: Option<&wgpu::BindGroup>,
        groups: Groups<'_>,
        units: u32,
    ) -> Result<(), GpuError> {
        let pipeline = pipelines
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
        pass.set_pipeline(&pipeline.made);
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
        // Software drivers compile at the first dispatch, up to a second each. A submission of its own makes that
        // visible as work, so a fit's stages together do not look like a stall.
        if device.is_software() && !pipeline.known.swap(true, Ordering::Relaxed) {
            batch.send()?;
            device.wait()?;
        }
        Ok(())
    }
}
