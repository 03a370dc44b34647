//! View → rows, tile by tile: draws the mesh into ids and depth, then gathers footprints into scratch buffers whose sizes the
//! tile bounds, whatever the view shows.

use std::sync::Arc;

use proto::table::{Camera, View};

use super::batch::Batch;
use super::device::{Device, GpuError};
use super::layout;
use super::memory::{Budget, Buffer, Held, STORAGE, UNIFORM, buffer, buffer_with, target, write};
use super::shaders::{FOOTPRINT, RASTER};
use super::stage::{Compiled, bind};
use crate::bake::footprint::MIN_ALPHA;
use crate::bake::scene::Scene;

/// A row's span holds its first entry in 24 bits and its length in 8.
const MAX_ENTRIES: u64 = 1 << 24;
/// Edges of a tile in pixels, the largest that fits is taken.
const EDGES: [u32; 6] = [512, 256, 128, 64, 32, 16];

/// A tile as the host keeps it: enough to draw it again.
#[derive(Debug)]
pub(super) struct Work {
    tile: layout::Tile,
    pixels: Vec<[u8; 4]>,
}

/// Triangles to draw.
#[derive(Debug)]
struct Drawn {
    corners: u32,
    bind: wgpu::BindGroup,
    _buffers: [Buffer; 2],
}

/// Where the rows of one tile are written.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) spans: Buffer,
    pub(super) entries: Buffer,
    pub(super) colours: Buffer,
    pub(super) places: Buffer,
    pub(super) trust: Buffer,
    /// Rows, entries.
    pub(super) counters: Buffer,
}

/// Pipelines and buffers of the first two stages.
#[derive(Debug)]
pub(super) struct Tiles {
    edge: u32,
    taps: u32,
    size: u32,
    mesh: Drawn,
    draw: wgpu::RenderPipeline,
    footprint: Compiled,
    bind: wgpu::BindGroup,
    tile: Buffer,
    pixels: Buffer,
    _texel_coords: Buffer,
    ids: Held<wgpu::TextureView>,
    depth: Held<wgpu::TextureView>,
    pub(super) scratch: Scratch,
}

/// Edge of the tiles for `taps`² samples a pixel: every scratch buffer fits a binding, every target a texture.
fn tile_edge(taps: u32, binding: u64, texture_edge: u32) -> Option<u32> {
    EDGES.into_iter().find(|&edge| {
        let entries = u64::from(edge * edge) * u64::from(4 * taps * taps);
        entries <= MAX_ENTRIES && entries * 8 <= binding && edge * taps <= texture_edge
    })
}

impl Tiles {
    pub(super) fn new(
        device: &Device,
        budget: &Arc<Budget>,
        compile: &dyn Fn(&'static super::shaders::Shader) -> Result<Compiled, GpuError>,
        scene: &Scene,
        taps: u32,
    ) -> Result<Self, GpuError> {
        let edge = tile_edge(taps, budget.binding, device.limits.max_texture_dimension_2d)
            .ok_or_else(|| {
                let why = format!("a binding holds {} bytes here", budget.binding);
                GpuError::OutOfMemory {
                    what: "the smallest tile".to_owned(),
                    bytes: 0,
                    why,
                }
            })?;
        let raster = compile(&RASTER)?;
        let footprint = compile(&FOOTPRINT)?;
        let draw = pipeline(device, &raster)?;

        let pixels = u64::from(edge * edge);
        let storage = |label, bytes| buffer(device, budget, label, bytes, STORAGE);
        let tile = buffer(
            device,
            budget,
            "tile",
            size_of::<layout::Tile>() as u64,
            UNIFORM,
        )?;
        let tile_pixels = storage("pixels", pixels * 4)?;
        let texel_coords =
            buffer_with(device, budget, "texel_coords", &scene.texel_coords, STORAGE)?;
        let scratch = Scratch {
            spans: storage("scratch spans", pixels * 4)?,
            entries: storage("scratch entries", pixels * u64::from(4 * taps * taps) * 8)?,
            colours: storage("scratch colours", pixels * 4)?,
            places: storage("places", pixels * 4)?,
            trust: storage("scratch trust", pixels * 4)?,
            counters: storage("counters", 8)?,
        };
        let buffers = [
            buffer_with(device, budget, "positions", &scene.positions, STORAGE)?,
            buffer_with(device, budget, "triangles", &scene.triangles, STORAGE)?,
        ];
        let resources =
            [&tile, &buffers[0], &buffers[1]].map(|buffer| buffer.item.as_entire_binding());
        let mesh = Drawn {
            // The backdrop comes first.
            corners: (scene.triangles.len() as u32 + 1) * 3,
            bind: bind(device, "raster", &raster.layout, &resources),
            _buffers: buffers,
        };
        let of_samples = |label, format| target(device, budget, label, edge * taps, format);
        let ids = of_samples("ids", wgpu::TextureFormat::R32Uint)?;
        let depth = of_samples("depth", wgpu::TextureFormat::Depth32Float)?;
        let bind = bind(
            device,
            "footprint",
            &footprint.layout,
            &[
                tile.item.as_entire_binding(),
                mesh._buffers[0].item.as_entire_binding(),
                mesh._buffers[1].item.as_entire_binding(),
                texel_coords.item.as_entire_binding(),
                tile_pixels.item.as_entire_binding(),
                wgpu::BindingResource::TextureView(&ids.item),
                scratch.counters.item.as_entire_binding(),
                scratch.spans.item.as_entire_binding(),
                scratch.entries.item.as_entire_binding(),
                scratch.colours.item.as_entire_binding(),
                scratch.places.item.as_entire_binding(),
            ],
        );
        Ok(Self {
            edge,
            taps,
            size: scene.size,
            mesh,
            draw,
            footprint,
            bind,
            tile,
            pixels: tile_pixels,
            _texel_coords: texel_coords,
            ids,
            depth,
            scratch,
        })
    }

    /// Cuts a view into tiles, leaving out those without a pixel that counts. `camera` is in scene units.
    pub(super) fn cut(&self, view: &View, camera: &Camera) -> Vec<Work> {
        let mut works = Vec::new();
        for top in (0..view.height).step_by(self.edge as usize) {
            for left in (0..view.width).step_by(self.edge as usize) {
                let size = [
                    self.edge.min(view.width - left),
                    self.edge.min(view.height - top),
                ];
                let mut pixels = Vec::with_capacity(size[0] as usize * size[1] as usize);
                for row in top..top + size[1] {
                    let start = row as usize * view.width as usize + left as usize;
                    pixels.extend_from_slice(&view.pixels[start..start + size[0] as usize]);
                }
                if pixels.iter().all(|pixel| pixel[3] < MIN_ALPHA) {
                    continue;
                }
                let row = |k: usize| {
                    let [x, y, z] = camera.rotation[k];
                    [x as f32, y as f32, z as f32, camera.translation[k] as f32]
                };
                let tile = layout::Tile {
                    row_x: row(0),
                    row_y: row(1),
                    row_z: row(2),
                    focal: camera.focal.map(|value| value as f32),
                    centre: [
                        (camera.centre[0] - f64::from(left)) as f32,
                        (camera.centre[1] - f64::from(top)) as f32,
                    ],
                    size,
                    origin: [left, top],
                    view_width: view.width,
                    texture_size: self.size,
                    unused_0: 0,
                    unused_1: 0,
                };
                works.push(Work { tile, pixels });
            }
        }
        works
    }

    /// Draws a tile and writes its rows to the scratch buffers.
    pub(super) fn build(&self, device: &Device, work: &Work) -> Result<(), GpuError> {
        write(device, &self.tile, &[work.tile]);
        write(device, &self.pixels, &work.pixels);
        let mut batch = Batch::new(device, "footprint");
        let encoder = batch.encoder();
        encoder.clear_buffer(&self.scratch.counters.item, 0, None);
        self.draw(encoder, work);
        let groups = work
            .tile
            .size
            .map(|edge| edge.div_ceil(layout::PIXEL_LANES));
        // Each pixel on which something was drawn counts, and with the backdrop that is every one.
        let units = work.tile.size[0] * work.tile.size[1];
        self.footprint
            .dispatch(&mut batch, "footprint", &self.bind, None, groups, units)?;
        batch.send()
    }

    fn draw(&self, encoder: &mut wgpu::CommandEncoder, work: &Work) {
        let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
            label: Some("raster"),
            color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                view: &self.ids.item,
                depth_slice: None,
                resolve_target: None,
                ops: wgpu::Operations {
                    load: wgpu::LoadOp::Clear(wgpu::Color::TRANSPARENT),
                    store: wgpu::StoreOp::Store,
                },
            })],
            depth_stencil_attachment: Some(wgpu::RenderPassDepthStencilAttachment {
                view: &self.depth.item,
                depth_ops: Some(wgpu::Operations {
                    load: wgpu::LoadOp::Clear(0.0),
                    store: wgpu::StoreOp::Discard,
                }),
                stencil_ops: None,
            }),
            ..wgpu::RenderPassDescriptor::default()
        });
        let [width, height] = work.tile.size.map(|edge| edge * self.taps);
        pass.set_viewport(0.0, 0.0, width as f32, height as f32, 0.0, 1.0);
        pass.set_scissor_rect(0, 0, width, height);
        pass.set_pipeline(&self.draw);
        pass.set_bind_group(0, &self.mesh.bind, &[]);
        pass.draw(0..self.mesh.corners, 0..1);
    }
}

/// Pipeline that draws ids and depth.
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
                    // Nothing is culled: what a camera sees counts, from whichever side.
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
                    cache: None,
                })
        })
        .map_err(|error| device.rejected("raster", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_keep_scratch_buffers_within_a_binding() {
        assert_eq!(
            tile_edge(4, 128 << 20, 16384),
            Some(512),
            "512² pixels of 64 entries are exactly 128 MiB"
        );
        assert_eq!(tile_edge(4, (128 << 20) - 1, 16384), Some(256));
        assert_eq!(
            tile_edge(6, 2 << 30, 16384),
            Some(256),
            "a span's 24 bits bound it as well"
        );
        assert_eq!(tile_edge(4, 1 << 10, 16384), None);
    }
}
