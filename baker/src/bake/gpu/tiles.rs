//! View → rows, tile by tile: draws the mesh into ids and depth, then gathers footprints into a pool of rows.

use std::sync::Arc;

use proto::table::{Camera, View};

use super::batch::Batch;
use super::device::{Device, GpuError};
use super::layout;
use super::memory::{Budget, Buffer, Held, Maker, OnDevice, STORAGE, UNIFORM, write};
use super::raster::{Drawing, Raster, WORD, Way};
use super::stage::{Compiled, bind};
use crate::bake::backend::BLOCK;
use crate::bake::footprint::MIN_ALPHA;
use crate::bake::scene::Scene;
use crate::bake::window::Window;

/// Edges of a tile in pixels, the largest that fits is taken.
const EDGES: [u32; 6] = [512, 256, 128, 64, 32, 16];

/// A tile as the host keeps it: enough to draw it again.
#[derive(Debug)]
pub(super) struct Work {
    tile: layout::Tile,
    pixels: Vec<[u8; 4]>,
    counting: u32,
}

impl Work {
    /// Position of its view among those added.
    pub(super) fn view(&self) -> u32 {
        self.tile.view
    }

    /// Pixels whose alpha lets them count.
    pub(super) fn counting(&self) -> u32 {
        self.counting
    }
}

/// Pipelines and buffers of the first two stages.
#[derive(Debug)]
pub(super) struct Tiles {
    edge: u32,
    window: Window,
    raster: Raster,
    footprint: Compiled,
    tile: Buffer,
    pixels: Buffer,
    texel_coords: Buffer,
    squares: Buffer,
}

/// Edge of the tiles for `taps`² samples a pixel: a pool of so many entries holds any of them (see `pools.rs`), and `samples`
/// along an edge are as many as there is room for.
pub(super) fn tile_edge(taps: u32, pool: u32, samples: u32) -> Option<u32> {
    EDGES.into_iter().find(|&edge| {
        let entries = u64::from(edge * edge) * u64::from(4 * taps * taps);
        2 * entries <= u64::from(pool) && edge * taps <= samples
    })
}

/// [`tile_edge`] on a device with these bounds.
pub(super) fn edge_for(
    way: Way,
    limits: &wgpu::Limits,
    binding: u64,
    taps: u32,
    pool: u32,
) -> Result<u32, GpuError> {
    let samples = match way {
        Way::Compute => u32::try_from((binding / WORD).isqrt()).unwrap_or(u32::MAX),
        Way::Graphics => limits.max_texture_dimension_2d,
    };
    tile_edge(taps, pool, samples).ok_or_else(|| GpuError::OutOfMemory {
        what: "the smallest tile".to_owned(),
        bytes: 0,
        why: format!("a binding holds {binding} bytes here"),
    })
}

/// What tiles of this edge take, in bytes: their samples, and their pixels.
pub(super) fn bytes(edge: u32, taps: u32) -> u64 {
    let pixels = u64::from(edge) * u64::from(edge);
    pixels * (u64::from(taps * taps) * WORD + 4)
}

/// What a tile is drawn with.
pub(super) fn parameters<M: Maker>(make: &M) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer("tile", size_of::<layout::Tile>() as u64, UNIFORM)
}

/// Its pixels.
pub(super) fn pixels<M: Maker>(make: &M, edge: u32) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer("pixels", u64::from(edge * edge) * 4, STORAGE)
}

/// Where the vertices are in the texture.
pub(super) fn texel_coords<M: Maker>(make: &M, scene: &Scene) -> Result<Held<M::Buffer>, GpuError> {
    let bytes = size_of_val(scene.texel_coords.as_slice());
    make.buffer("texel_coords", bytes as u64, STORAGE)
}

/// Where the squares of the texture are in the window.
pub(super) fn squares<M: Maker>(make: &M, scene: &Scene) -> Result<Held<M::Buffer>, GpuError> {
    let bytes = size_of_val(scene.window.squares());
    make.buffer("squares", bytes as u64, STORAGE)
}

impl Tiles {
    pub(super) fn new(
        device: &Device,
        budget: &Arc<Budget>,
        drawing: Drawing,
        footprint: Compiled,
        scene: &Scene,
        taps: u32,
        pool: u32,
    ) -> Result<Self, GpuError> {
        let edge = edge_for(drawing.way, &device.limits, budget.binding, taps, pool)?;
        let make = OnDevice { device, budget };
        let (tile, tile_pixels) = (parameters(&make)?, pixels(&make, edge)?);
        let texel_coords = texel_coords(&make, scene)?;
        write(device, &texel_coords, &scene.texel_coords);
        let squares = squares(&make, scene)?;
        write(device, &squares, scene.window.squares());
        let raster = Raster::new(device, budget, drawing, scene, &tile, edge, taps)?;
        Ok(Self {
            edge,
            window: scene.window.clone(),
            raster,
            footprint,
            tile,
            pixels: tile_pixels,
            texel_coords,
            squares,
        })
    }

    /// Frees all but what was compiled.
    pub(super) fn into_stages(self) -> (Drawing, Compiled) {
        (self.raster.into_drawing(), self.footprint)
    }

    /// What the footprints' stage binds to write into a pool: counters, room, patches, rows, entries, touched texels.
    pub(super) fn bind(&self, device: &Device, pool: [&Buffer; 6]) -> wgpu::BindGroup {
        let [counters, room, patches, rows, entries, touched] = pool;
        bind(
            device,
            "footprint",
            &self.footprint.layout,
            &[
                self.tile.item.as_entire_binding(),
                self.raster.mesh[0].item.as_entire_binding(),
                self.raster.mesh[1].item.as_entire_binding(),
                self.texel_coords.item.as_entire_binding(),
                self.pixels.item.as_entire_binding(),
                self.raster.ids(),
                counters.item.as_entire_binding(),
                room.item.as_entire_binding(),
                patches.item.as_entire_binding(),
                rows.item.as_entire_binding(),
                entries.item.as_entire_binding(),
                touched.item.as_entire_binding(),
                self.squares.item.as_entire_binding(),
            ],
        )
    }

    /// Cuts a view into tiles, leaving out those without a pixel that counts. `camera` is in scene units, `place` what the
    /// pools say of the view.
    pub(super) fn cut(
        &self,
        view: &View,
        camera: &Camera,
        (index, first_block, blocks): (u32, u32, [u32; 2]),
    ) -> Vec<Work> {
        let (mut works, window) = (Vec::new(), &self.window);
        for ([left, top], size, counting) in parts(view, self.edge) {
            let mut pixels = Vec::with_capacity(size[0] as usize * size[1] as usize);
            for row in top..top + size[1] {
                let start = row as usize * view.width as usize + left as usize;
                pixels.extend_from_slice(&view.pixels[start..start + size[0] as usize]);
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
                texture_size: self.window.size,
                view: index,
                first_block,
                blocks: blocks[0] | (blocks[1] << 16),
                core: if window.is_whole() {
                    [0; 2]
                } else {
                    window.core
                },
                unused: [0; 2],
            };
            works.push(Work {
                tile,
                pixels,
                counting,
            });
        }
        works
    }

    /// Draws a tile and appends its rows to the pool that `pool` binds.
    pub(super) fn build(
        &self,
        device: &Device,
        work: &Work,
        pool: &wgpu::BindGroup,
    ) -> Result<(), GpuError> {
        write(device, &self.tile, &[work.tile]);
        write(device, &self.pixels, &work.pixels);
        let mut batch = Batch::new(device, "footprint");
        self.raster.record(&mut batch, work.tile.size)?;
        let groups = work
            .tile
            .size
            .map(|edge| edge.div_ceil(layout::PIXEL_LANES));
        // Each pixel on which something was drawn counts, and with the backdrop that is every one.
        let units = work.tile.size[0] * work.tile.size[1];
        self.footprint
            .dispatch(&mut batch, "footprint", pool, None, groups, units)?;
        batch.send()
    }
}

/// The parts of a view that are drawn, each within a tile of this edge: corner, size, and the number of pixels that count.
pub(super) fn parts(view: &View, edge: u32) -> Vec<([u32; 2], [u32; 2], u32)> {
    let mut parts = Vec::new();
    for top in (0..view.height).step_by(edge as usize) {
        for left in (0..view.width).step_by(edge as usize) {
            let size = [edge.min(view.width - left), edge.min(view.height - top)];
            parts.extend(counting(view, [left, top], size));
        }
    }
    parts
}

/// Pixels that are looked at together.
const AT_ONCE: usize = 32;

fn counts(pixel: &[u8; 4]) -> bool {
    pixel[3] >= MIN_ALPHA
}

fn any_counts(pixels: &[[u8; 4]; AT_ONCE]) -> bool {
    pixels.iter().fold(false, |any, pixel| any | counts(pixel))
}

/// The part of a tile that holds the pixels that count, from a block's corner, and their number; none without any.
fn counting(view: &View, corner: [u32; 2], size: [u32; 2]) -> Option<([u32; 2], [u32; 2], u32)> {
    let (mut low, mut high, mut count) = ([u32::MAX; 2], [0; 2], 0);
    for y in corner[1]..corner[1] + size[1] {
        let row = &view.pixels[y as usize * view.width as usize + corner[0] as usize..];
        let mut row = &row[..size[0] as usize];
        let counting: u32 = row.iter().map(|pixel| u32::from(counts(pixel))).sum();
        if counting == 0 {
            continue;
        }
        count += counting;
        let mut first = corner[0];
        // Many at once first, without a look at each.
        while let Some((few, rest)) = row.split_first_chunk::<AT_ONCE>()
            && !any_counts(few)
        {
            (row, first) = (rest, first + AT_ONCE as u32);
        }
        while let Some((few, rest)) = row.split_last_chunk::<AT_ONCE>().map(|(a, b)| (b, a))
            && !any_counts(few)
        {
            row = rest;
        }
        let before = row.iter().position(counts).unwrap_or(0);
        let last = row.iter().rposition(counts).unwrap_or(0);
        low = [low[0].min(first + before as u32), low[1].min(y)];
        high = [high[0].max(first + last as u32 + 1), high[1].max(y + 1)];
    }
    let low = low.map(|at| at / BLOCK * BLOCK);
    (count > 0).then(|| (low, [high[0] - low[0], high[1] - low[1]], count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_is_cut_to_the_blocks_of_what_counts() {
        let mut view = crate::bake::gpu::tests::view(0, 64, 48, 3.0, 0.0);
        view.pixels.fill([0, 0, 0, 255]);
        assert_eq!(
            counting(&view, [32, 16], [32, 32]),
            Some(([32, 16], [32, 32], 1024))
        );
        for (at, pixel) in (0..).zip(&mut view.pixels) {
            let inside = [(43, 25), (61, 29)].contains(&(at % 64, at / 64));
            pixel[3] = if inside { MIN_ALPHA } else { MIN_ALPHA - 1 };
        }
        assert_eq!(
            counting(&view, [32, 16], [32, 32]),
            Some(([40, 24], [22, 6], 2))
        );
        assert_eq!(counting(&view, [0, 16], [32, 32]), None);
    }

    #[test]
    fn tiles_are_as_large_as_a_pool_and_a_texture_allow() {
        assert_eq!(
            tile_edge(4, 1 << 25, 16384),
            Some(512),
            "512² pixels of 64 entries are half of it"
        );
        assert_eq!(tile_edge(4, (1 << 25) - 1, 16384), Some(256));
        assert_eq!(tile_edge(4, 1 << 25, 2047), Some(256));
        assert_eq!(tile_edge(4, 1 << 10, 16384), None);
    }
}
