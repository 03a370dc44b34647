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
use super::memory::Buffer;
use super::shaders::{Shader, bind_layout};

#[derive(Debug)]
pub(super) struct Compiled {
    shader: &'static Shader,
    pub(super) module: wgpu::ShaderModule,
    /// Of group 1.
    pub(super) layout: wgpu::BindGroupLayout,
    /// For each kind of [`Patches`]; those for bins are the entry points over rows.
    pipelines: [BTreeMap<&'static str, Pipeline>; 2],
}

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
        crate::worker::progress::expect(self.name, crate::worker::pace::PIPELINE);
        let module = |patches| self.module(device, &self.source(taps, blend, patches));
        let listed = module(Patches::Listed)?;
        let binned = match self.is_over_rows() {
            true => Some(module(Patches::RowBins)?),
            false => None,
        };
        let layout = device
            .scoped(|| bind_layout(&device.device, self.name, &self.bindings()))
            .map_err(|error| device.rejected(self.name, error))?;
        let entries = self.entries();
        let computed = entries
            .iter()
            .map(|entry| (Patches::Listed, &listed, entry));
        let over_rows = entries.iter().filter(|entry| entry.is_over_rows());
        let binned = (binned.iter()).flat_map(|module| {
            (over_rows.clone()).map(move |entry| (Patches::RowBins, module, entry))
        });
        let all: Vec<_> = computed.chain(binned).collect();
        // Drivers compile on the calling thread, so this runs in parallel.
        let made = all.par_iter().map(|&(patches, module, entry)| {
            under_way(self.name, || {
                let groups = [Some(&device.tally().layout), Some(&layout), Some(rows)];
                // Without gaps: wgpu 30 does not rebind a group that the absence of an earlier group has disturbed.
                let groups = &groups[..if entry.is_over_rows() { 3 } else { 2 }];
                let made = self.pipeline(device, module, entry.name, groups)?;
                Ok((patches, entry.name, made))
            })
        });
        let mut pipelines = [BTreeMap::new(), BTreeMap::new()];
        for (patches, entry, made) in made.collect::<Result<Vec<_>, GpuError>>()? {
            let known = AtomicBool::new(false);
            pipelines[patches as usize].insert(entry, Pipeline { made, known });
        }
        device.check()?;
        Ok(Compiled {
            shader: self,
            module: listed,
            layout,
            pipelines,
        })
    }

    fn module(&self, device: &Device, source: &str) -> Result<wgpu::ShaderModule, GpuError> {
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(self.name),
            source: wgpu::ShaderSource::Wgsl(source.into()),
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
        // SAFETY: the shaders are part of this crate, and each of their loops ends. All count up to a number read
        // beforehand, except the searches of footprint.wgsl in a table that is larger than what is put into it, and
        // those of splat_blend.wgsl in a list that is halved.
        let make = || unsafe { (device.device).create_shader_module_trusted(descriptor, checks) };
        (device.scoped(make)).map_err(|error| device.rejected(self.name, error))
    }

    fn pipeline(
        &self,
        device: &Device,
        module: &wgpu::ShaderModule,
        entry: &'static str,
        groups: &[Option<&wgpu::BindGroupLayout>],
    ) -> Result<wgpu::ComputePipeline, GpuError> {
        let layout = wgpu::PipelineLayoutDescriptor {
            label: Some(entry),
            bind_group_layouts: groups,
            immediate_size: 0,
        };
        let make = || {
            let layout = device.device.create_pipeline_layout(&layout);
            let descriptor = wgpu::ComputePipelineDescriptor {
                label: Some(entry),
                layout: Some(&layout),
                module,
                entry_point: Some(entry),
                compilation_options: wgpu::PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: !self.clears_memory(),
                    ..wgpu::PipelineCompilationOptions::default()
                },
                cache: device.cache(),
            };
            device.device.create_compute_pipeline(&descriptor)
        };
        let made = device.scoped(make);
        let made = made.map_err(|error| device.rejected(entry, error))?;
        crate::worker::progress::unit();
        Ok(made)
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

/// [`bind`] of whole buffers.
pub(super) fn bind_buffers(
    device: &Device,
    label: &str,
    layout: &wgpu::BindGroupLayout,
    buffers: &[&Buffer],
) -> wgpu::BindGroup {
    let resources: Vec<_> = (buffers.iter())
        .map(|buffer| buffer.item.as_entire_binding())
        .collect();
    bind(device, label, layout, &resources)
}

/// Number of workgroups: across, down and deep, or read from a buffer.
#[derive(Clone, Copy, Debug)]
enum Workgroups<'a> {
    Of([u32; 3]),
    In(&'a wgpu::Buffer),
}

/// One dispatch of an entry point, which adds `units` to the tally.
#[derive(Clone, Copy, Debug)]
struct Dispatch<'a> {
    entry: &'static str,
    patches: Patches,
    own: &'a wgpu::BindGroup,
    rows: Option<&'a wgpu::BindGroup>,
    groups: Workgroups<'a>,
    units: u32,
}

impl<'a> Dispatch<'a> {
    fn new(
        entry: &'static str,
        own: &'a wgpu::BindGroup,
        groups: Workgroups<'a>,
        units: u32,
    ) -> Self {
        Self {
            entry,
            patches: Patches::Listed,
            own,
            rows: None,
            groups,
            units,
        }
    }
}

impl Compiled {
    /// Records one dispatch of `groups` workgroups, which adds `units` to the tally.
    pub(super) fn dispatch(
        &self,
        batch: &mut Batch<'_>,
        entry: &'static str,
        own: &wgpu::BindGroup,
        [across, down]: [u32; 2],
        units: u32,
    ) -> Result<(), GpuError> {
        let groups = Workgroups::Of([across, down, 1]);
        self.record(batch, Dispatch::new(entry, own, groups, units))
    }

    /// Records one dispatch of `groups` workgroups in a row, which count themselves.
    pub(super) fn dispatch_line(
        &self,
        batch: &mut Batch<'_>,
        entry: &'static str,
        own: &wgpu::BindGroup,
        groups: u32,
    ) -> Result<(), GpuError> {
        self.dispatch(batch, entry, own, [groups, 1], groups)
    }

    /// Records dispatches over a pool of rows: of listed patches and of bins, one workgroup each. Together they add
    /// `units` to the tally.
    pub(super) fn dispatch_rows(
        &self,
        batch: &mut Batch<'_>,
        entry: &'static str,
        own: &wgpu::BindGroup,
        rows: &wgpu::BindGroup,
        counts: [u32; 2],
        units: u32,
    ) -> Result<(), GpuError> {
        let mut units = units;
        for (patches, count) in Patches::BOTH.into_iter().zip(counts) {
            if count > 0 {
                let down = count.div_ceil(GROUPS_ACROSS);
                let groups = Workgroups::Of([count.min(GROUPS_ACROSS), down, 1]);
                let dispatch = Dispatch {
                    patches,
                    rows: Some(rows),
                    ..Dispatch::new(entry, own, groups, std::mem::take(&mut units))
                };
                self.record(batch, dispatch)?;
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
        let groups = Workgroups::Of([across, down, regions]);
        let units = across * down * regions;
        self.record(batch, Dispatch::new(entry, own, groups, units))
    }

    /// Records one dispatch whose size is read from `groups` when it runs. It balances the tally by itself.
    pub(super) fn dispatch_listed(
        &self,
        batch: &mut Batch<'_>,
        entry: &'static str,
        own: &wgpu::BindGroup,
        groups: &wgpu::Buffer,
    ) -> Result<(), GpuError> {
        self.record(batch, Dispatch::new(entry, own, Workgroups::In(groups), 0))
    }

    fn record(&self, batch: &mut Batch<'_>, dispatch: Dispatch<'_>) -> Result<(), GpuError> {
        let Dispatch { entry, patches, .. } = dispatch;
        let pipeline = self.pipelines[patches as usize].get(entry);
        let pipeline = pipeline.ok_or_else(|| GpuError::ShaderRejected {
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
        pass.set_bind_group(1, dispatch.own, &[]);
        if let Some(rows) = dispatch.rows {
            pass.set_bind_group(2, rows, &[]);
        }
        match dispatch.groups {
            Workgroups::Of([x, y, z]) => pass.dispatch_workgroups(x, y, z),
            Workgroups::In(buffer) => pass.dispatch_workgroups_indirect(buffer, 0),
        }
        if let Some((set, [_, end])) = measured {
            pass.write_timestamp(set, end);
        }
        tally.ask(dispatch.units);
        // Software drivers compile at the first dispatch, up to a second each. A submission of its own makes that
        // visible as work, so a fit's stages together do not look like a stall.
        if device.is_software() && !pipeline.known.swap(true, Ordering::Relaxed) {
            batch.send()?;
            device.wait()?;
        }
        Ok(())
    }
}
