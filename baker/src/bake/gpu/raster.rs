//! A tile and the mesh → the nearest triangle of each sample: in compute where the device has 64-bit atomics, else by
//! the graphics pipeline.
//!
//! The graphics pipeline of a data-centre GPU has few units. An NVIDIA H200 draws 4 million samples in 1.0-1.35 ms
//! however few the triangles are, and finds them in compute in a tenth of that.

use super::batch::Batch;
use super::device::{ATOMICS, Device, GpuError};
use super::layout::{GROUPS_ACROSS, PIXELS, REGIONS, Region, TRIANGLE_LANES};
use super::memory::{Buffer, Held, Maker, OnDevice, STORAGE, write};
use super::shaders::{FOOTPRINT_DRAWN, FOOTPRINT_NEAREST, NEAREST, RASTER, Shader};
use super::stage::{Compiled, bind_buffers};
use crate::bake::model::scene::Scene;

/// Limits of a tile, or of a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) blocks: u32,
    /// Largest edge of its region in pixels, a multiple of the edge of a block.
    pub(super) region: u32,
}

/// How a device finds the nearest triangles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Compute,
    Graphics,
}

impl Way {
    pub(super) fn of(device: &Device) -> Self {
        if device.device.features().contains(ATOMICS) {
            Self::Compute
        } else {
            Self::Graphics
        }
    }

    pub(super) fn shaders(self) -> [&'static Shader; 2] {
        match self {
            Self::Compute => [&NEAREST, &FOOTPRINT_NEAREST],
            Self::Graphics => [&RASTER, &FOOTPRINT_DRAWN],
        }
    }

    /// Largest number of regions of a tile: each may list all triangles of the mesh.
    pub(super) fn regions(self, triangles: u32) -> u32 {
        match self {
            Self::Compute => (MOST_LISTED / triangles.max(1)).clamp(1, REGIONS),
            Self::Graphics => 1,
        }
    }

    pub(super) fn pipeline(
        self,
        device: &Device,
        stage: &Compiled,
    ) -> Result<Option<wgpu::RenderPipeline>, GpuError> {
        match self {
            Self::Compute => Ok(None),
            Self::Graphics => pipeline(device, stage).map(Some),
        }
    }
}

/// Bytes of an indirect dispatch's three numbers.
const GROUPS: u64 = 12;

/// Bytes before the list of triangles: their number, and the workgroups of the largest.
const LISTED: u64 = 8;
/// Largest number of listed triangles over all regions of a tile, unless a single region has more.
const MOST_LISTED: u32 = 1 << 18;

/// Bytes of a sample's word in compute.
pub(super) const WORD: u64 = 8;

#[derive(Debug)]
pub(super) struct Drawing {
    pub(super) way: Way,
    pub(super) stage: Compiled,
    /// With [`Way::Graphics`] only.
    pub(super) pipeline: Option<wgpu::RenderPipeline>,
}

#[derive(Debug)]
pub(super) struct Raster {
    drawing: Drawing,
    taps: u32,
    triangles: u32,
    bind: wgpu::BindGroup,
    /// Positions, triangles.
    pub(super) mesh: [Buffer; 2],
    samples: Samples,
}

/// Where the nearest triangles are written.
#[derive(Debug)]
pub(super) enum Samples<B = wgpu::Buffer, T = wgpu::TextureView> {
    Words {
        nearest: Held<B>,
        listed: Held<B>,
        groups: Held<B>,
        /// A copy of `groups`: a buffer that stages bind to write cannot size an indirect dispatch.
        dispatched: Held<B>,
    },
    Targets {
        ids: Held<T>,
        depth: Held<T>,
    },
}

impl<B, T> Samples<B, T> {
    /// Makes them for tiles of this shape with `taps`² samples a pixel, and for `triangles` triangles.
    pub(super) fn made<M: Maker<Buffer = B, Target = T>>(
        make: &M,
        way: Way,
        (shape, taps): (Shape, u32),
        triangles: u32,
    ) -> Result<Self, GpuError> {
        match way {
            Way::Compute => {
                let words = words(shape.blocks, taps);
                let listed = u64::from(triangles) * u64::from(way.regions(triangles));
                let listed = LISTED + listed * 4;
                let dispatched = wgpu::BufferUsages::INDIRECT | wgpu::BufferUsages::COPY_DST;
                Ok(Self::Words {
                    nearest: make.buffer("nearest", words, STORAGE)?,
                    listed: make.buffer("listed", listed, STORAGE)?,
                    groups: make.buffer("groups", GROUPS, STORAGE)?,
                    dispatched: make.buffer("dispatched", GROUPS, dispatched)?,
                })
            }
            Way::Graphics => {
                let across = shape.region * taps;
                Ok(Self::Targets {
                    ids: make.target("ids", across, wgpu::TextureFormat::R32Uint)?,
                    depth: make.target("depth", across, wgpu::TextureFormat::Depth32Float)?,
                })
            }
        }
    }
}

fn words(blocks: u32, taps: u32) -> u64 {
    u64::from(blocks) * PIXELS as u64 * u64::from(taps * taps) * WORD
}

pub(super) fn mesh<M: Maker>(make: &M, scene: &Scene) -> Result<[Held<M::Buffer>; 2], GpuError> {
    let [positions, triangles] = [
        size_of_val(scene.positions.as_slice()),
        size_of_val(scene.triangles.as_slice()),
    ];
    Ok([
        make.buffer("positions", positions as u64, STORAGE)?,
        make.buffer("triangles", triangles as u64, STORAGE)?,
    ])
}

impl Raster {
    /// Makes a raster for tiles of this shape with `taps`² samples a pixel. `regions` and `places` hold the regions and
    /// their listed blocks.
    pub(super) fn new(
        on: OnDevice<'_>,
        drawing: Drawing,
        scene: &Scene,
        [regions, places]: [&Buffer; 2],
        (shape, taps): (Shape, u32),
    ) -> Result<Self, GpuError> {
        let mesh = mesh(&on, scene)?;
        write(on.device, &mesh[0], &scene.positions);
        write(on.device, &mesh[1], &scene.triangles);
        let triangles = scene.triangles.len() as u32;
        let samples = Samples::made(&on, drawing.way, (shape, taps), triangles)?;
        let mut buffers = vec![regions, &mesh[0], &mesh[1]];
        if let Samples::Words {
            nearest,
            listed,
            groups,
            ..
        } = &samples
        {
            buffers.extend([nearest, listed, groups, places]);
        }
        let bind = bind_buffers(on.device, "raster", &drawing.stage.layout, &buffers);
        Ok(Self {
            drawing,
            taps,
            triangles,
            bind,
            mesh,
            samples,
        })
    }

    /// Frees the buffers and keeps what was compiled.
    pub(super) fn into_drawing(self) -> Drawing {
        self.drawing
    }

    /// What the footprints bind as `ids`.
    pub(super) fn ids(&self) -> wgpu::BindingResource<'_> {
        match &self.samples {
            Samples::Words { nearest, .. } => nearest.item.as_entire_binding(),
            Samples::Targets { ids, .. } => wgpu::BindingResource::TextureView(&ids.item),
        }
    }

    /// Records the raster for the tile's regions, with `blocks` listed blocks.
    pub(super) fn record(
        &self,
        batch: &mut Batch<'_>,
        regions: &[Region],
        blocks: u32,
    ) -> Result<(), GpuError> {
        match &self.samples {
            Samples::Words {
                nearest,
                listed: large,
                groups,
                dispatched,
            } => {
                let buffers = [nearest, large, groups, dispatched];
                self.find(batch, regions.len() as u32, blocks, buffers)
            }
            Samples::Targets { ids, depth } => {
                // There is one region.
                for region in regions {
                    let size = region.size.map(|edge| edge * self.taps);
                    self.draw(batch, size, &ids.item, &depth.item);
                }
                Ok(())
            }
        }
    }

    fn find(
        &self,
        batch: &mut Batch<'_>,
        regions: u32,
        blocks: u32,
        [nearest, large, groups, dispatched]: [&Buffer; 4],
    ) -> Result<(), GpuError> {
        let encoder = batch.encoder();
        encoder.clear_buffer(&nearest.item, 0, Some(words(blocks, self.taps)));
        encoder.clear_buffer(&large.item, 0, Some(LISTED));
        let stage = &self.drawing.stage;
        let small = self.triangles.div_ceil(TRIANGLE_LANES);
        let across = [small.min(GROUPS_ACROSS), small.div_ceil(GROUPS_ACROSS)];
        // Workgroups past the last triangle count as well.
        stage.dispatch_for_each(batch, "small", &self.bind, across, regions)?;
        stage.dispatch_line(batch, "arrange", &self.bind, 1)?;
        batch
            .encoder()
            .copy_buffer_to_buffer(&groups.item, 0, &dispatched.item, 0, GROUPS);
        stage.dispatch_listed(batch, "large", &self.bind, &dispatched.item)
    }

    fn draw(
        &self,
        batch: &mut Batch<'_>,
        size: [u32; 2],
        ids: &wgpu::TextureView,
        depth: &wgpu::TextureView,
    ) {
        let Some(pipeline) = &self.drawing.pipeline else {
            return;
        };
        let measured = batch
            .device
            .times()
            .and_then(|times| Some((times.set(), times.measure("raster")?)));
        let mut pass = batch
            .encoder()
            .begin_render_pass(&wgpu::RenderPassDescriptor {
                label: Some("raster"),
                color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                    view: ids,
                    depth_slice: None,
                    resolve_target: None,
                    ops: wgpu::Operations {
                        load: wgpu::LoadOp::Clear(wgpu::Color::TRANSPARENT),
                        store: wgpu::StoreOp::Store,
                    },
                })],
                depth_stencil_attachment: Some(wgpu::RenderPassDepthStencilAttachment {
                    view: depth,
                    depth_ops: Some(wgpu::Operations {
                        load: wgpu::LoadOp::Clear(0.0),
                        store: wgpu::StoreOp::Discard,
                    }),
                    stencil_ops: None,
                }),
                timestamp_writes: measured.map(|(query_set, [start, end])| {
                    wgpu::RenderPassTimestampWrites {
                        query_set,
                        beginning_of_pass_write_index: Some(start),
                        end_of_pass_write_index: Some(end),
                    }
                }),
                ..wgpu::RenderPassDescriptor::default()
            });
        let [width, height] = size;
        pass.set_viewport(0.0, 0.0, width as f32, height as f32, 0.0, 1.0);
        pass.set_scissor_rect(0, 0, width, height);
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, &self.bind, &[]);
        // The backdrop comes first.
        pass.draw(0..(self.triangles + 1) * 3, 0..1);
    }
}

fn pipeline(device: &Device, raster: &Compiled) -> Result<wgpu::RenderPipeline, GpuError> {
    let target = [Some(wgpu::ColorTargetState {
        format: wgpu::TextureFormat::R32Uint,
        blend: None,
        write_mask: wgpu::ColorWrites::ALL,
    })];
    let options = wgpu::PipelineCompilationOptions::default;
    device
        .scoped(|| {
            let layout = device
                .device
                .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                    label: Some("raster"),
                    bind_group_layouts: &[Some(&raster.layout)],
                    immediate_size: 0,
                });
            device
                .device
                .create_render_pipeline(&wgpu::RenderPipelineDescriptor {
                    label: Some("raster"),
                    layout: Some(&layout),
                    vertex: wgpu::VertexState {
                        module: &raster.module,
                        entry_point: Some("project"),
                        compilation_options: options(),
                        buffers: &[],
                    },
                    // Nothing is culled: a camera sees triangles from either side.
                    primitive: wgpu::PrimitiveState::default(),
                    depth_stencil: Some(wgpu::DepthStencilState {
                        format: wgpu::TextureFormat::Depth32Float,
                        depth_write_enabled: Some(true),
                        // Depth is NEAR / z: larger is nearer, and of equals the first stays.
                        depth_compare: Some(wgpu::CompareFunction::Greater),
                        stencil: wgpu::StencilState::default(),
                        bias: wgpu::DepthBiasState::default(),
                    }),
                    multisample: wgpu::MultisampleState::default(),
                    fragment: Some(wgpu::FragmentState {
                        module: &raster.module,
                        entry_point: Some("nearest"),
                        compilation_options: options(),
                        targets: &target,
                    }),
                    multiview_mask: None,
                    cache: device.cache(),
                })
        })
        .map_err(|error| device.rejected("raster", error))
}
