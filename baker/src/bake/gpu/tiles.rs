//! View → rows, tile by tile: draws the mesh into ids and depth, then gathers footprints into a pool of rows.
//!
//! | module | what it turns into what |
//! |---|---|
//! | `cut` | a view → the blocks of it that count, as many together as a tile holds |
//!
//! A device takes as long for a tile as for the slowest of its blocks, and has room for thousands of them: the more of a tile
//! counts, the better. So in compute a tile holds blocks from all over its region, and samples of no other.

mod cut;

use std::sync::Arc;

use proto::table::{Camera, View};

use super::batch::Batch;
use super::device::{Device, GpuError};
use super::layout::{self, GROUPS_ACROSS};
use super::memory::{Budget, Buffer, Held, Maker, OnDevice, STORAGE, UNIFORM, write};
use super::pools;
use super::raster::{Drawing, Raster, WORD, Way};
use super::stage::{Compiled, bind};
use crate::bake::backend::BLOCK;
use crate::bake::scene::Scene;
use crate::bake::window::Window;
pub(super) use cut::{Drawn, PIXELS, Part, Shape, parts};

/// Blocks of a tile, the largest number that fits is taken.
const BLOCKS: [u32; 14] = [
    8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1,
];
/// Entries of a pixel, usually; a tile of them takes half a pool at most, or much of each pool would stay empty.
const USUAL: u64 = 12;
/// Edge of a tile's region in pixels where it holds blocks from wherever they lie: offsets from its corner keep their digits.
const REGION: u32 = 1024;

/// A tile as the host keeps it: enough to draw it again.
#[derive(Debug)]
pub(super) struct Work {
    tile: layout::Tile,
    part: Part,
    /// Its pixels where the queue copies them from, for the first time that it is drawn.
    staged: Option<wgpu::QueueWriteBufferView>,
}

impl Work {
    /// Position of its view among those added.
    pub(super) fn view(&self) -> u32 {
        self.tile.view
    }

    /// Pixels whose alpha lets them count.
    pub(super) fn counting_pixels(&self) -> u32 {
        self.part.counting
    }

    /// What was staged for its first drawing: to be let go just before that is sent.
    pub(super) fn take_staged(&mut self) -> Option<wgpu::QueueWriteBufferView> {
        self.staged.take()
    }

    /// Of each block of the region, its place among the tile's, 1 more, or 0; then of each of those its column and line in the
    /// region, lower and upper half.
    fn places(&self) -> Vec<u32> {
        let [across, down] = self.tile.size.map(|edge| edge.div_ceil(BLOCK));
        let mut places = vec![0; (across * down) as usize];
        for (nth, corner) in (1..).zip(&self.part.corners) {
            let [column, line] = self.column_and_line(*corner);
            places[(line * across + column) as usize] = nth;
            places.push(column | line << 16);
        }
        places
    }

    fn column_and_line(&self, corner: [u32; 2]) -> [u32; 2] {
        [0, 1].map(|axis| (corner[axis] - self.tile.origin[axis]) / BLOCK)
    }

    /// Pixels of its blocks that lie in the view, counting or not.
    fn units(&self) -> u32 {
        let end = [0, 1].map(|axis| self.tile.origin[axis] + self.tile.size[axis]);
        let inside = |corner: &[u32; 2]| -> u32 {
            [0, 1]
                .map(|axis| BLOCK.min(end[axis] - corner[axis]))
                .iter()
                .product()
        };
        self.part.corners.iter().map(inside).sum()
    }
}

/// Position of a view among those added, its first block among all, and how many it has across and down.
pub(super) type Place = (u32, u32, [u32; 2]);

/// Pipelines and buffers of the first two stages.
#[derive(Debug)]
pub(super) struct Tiles {
    pub(super) bounds: Bounds,
    shape: Shape,
    /// Any pool holds so many blocks.
    sure: u32,
    window: Window,
    raster: Raster,
    footprint: Compiled,
    tile: Buffer,
    places: Buffer,
    pixels: Buffer,
    texel_coords: Buffer,
    squares: Buffer,
    marks: Buffer,
    /// Blocks of all views whose marks are made.
    marked: u32,
}

/// Blocks of `taps`² samples a pixel of which a pool of so many entries holds twice as many, whatever they come to; none where
/// it holds not one.
pub(super) fn sure_blocks(taps: u32, pool: u32) -> Option<u32> {
    let entries = u64::from(4 * taps * taps) * PIXELS as u64;
    (BLOCKS.into_iter()).find(|&blocks| 2 * u64::from(blocks) * entries <= u64::from(pool))
}

/// What bounds tiles, beside the pools.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    taps: u32,
    way: Way,
    /// Samples of a tile: along an edge where it is drawn, in all where its triangles are found in compute.
    samples: u32,
}

impl Bounds {
    pub(super) fn new(way: Way, limits: &wgpu::Limits, binding: u64, taps: u32) -> Self {
        let samples = match way {
            Way::Compute => u32::try_from(binding / WORD).unwrap_or(u32::MAX),
            Way::Graphics => limits.max_texture_dimension_2d,
        };
        Self { taps, way, samples }
    }

    /// Edge in pixels, whole blocks, of a region all of which is drawn.
    fn edge(self, blocks: u32) -> u32 {
        blocks.isqrt().min(self.samples / self.taps / BLOCK) * BLOCK
    }

    fn fits(self, blocks: u32) -> bool {
        match self.way {
            Way::Compute => blocks * PIXELS as u32 <= self.samples / self.taps.pow(2),
            Way::Graphics => self.edge(blocks) > 0,
        }
    }

    /// What tiles are that are drawn into pools of so many entries, and how many blocks any pool holds. Most pixels come to a few
    /// entries, and of a part of a texture most have no row, so tiles need not be such: they may take three fifths of
    /// a pool, and what does not fit is split.
    pub(super) fn shape(self, pool: u32) -> Result<(Shape, u32), GpuError> {
        let sure = sure_blocks(self.taps, pool).filter(|&blocks| self.fits(blocks));
        let sure = sure.ok_or_else(|| GpuError::OutOfMemory {
            what: "the smallest tile".to_owned(),
            bytes: 0,
            why: format!(
                "a pool holds {pool} entries here, and a tile {} samples",
                self.samples
            ),
        })?;
        let most = pools::bytes_of(pools::room(pool)) * 3 / 5;
        let fits = |&blocks: &u32| {
            let usual = u64::from(blocks) * PIXELS as u64 * USUAL;
            self.fits(blocks) && bytes(blocks, self.taps) <= most && 2 * usual <= u64::from(pool)
        };
        let blocks = BLOCKS.into_iter().find(fits).unwrap_or(sure).max(sure);
        let region = match self.way {
            Way::Compute => REGION,
            Way::Graphics => self.edge(blocks),
        };
        Ok((Shape { blocks, region }, sure))
    }

    /// What the tiles take, in bytes.
    pub(super) fn bytes(self, pool: u32) -> u64 {
        let shape = self.shape(pool);
        shape.map_or(0, |(shape, _)| bytes(shape.blocks, self.taps))
    }
}

/// What tiles of so many blocks take, in bytes: their samples, and their pixels.
pub(super) fn bytes(blocks: u32, taps: u32) -> u64 {
    u64::from(blocks) * PIXELS as u64 * (u64::from(taps * taps) * WORD + 4)
}

/// What a tile is drawn with.
pub(super) fn parameters<M: Maker>(make: &M) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer("tile", size_of::<layout::Tile>() as u64, UNIFORM)
}

/// Where its blocks lie, and their pixels.
pub(super) fn blocks<M: Maker>(make: &M, shape: Shape) -> Result<[Held<M::Buffer>; 2], GpuError> {
    let region = u64::from(shape.region / BLOCK).pow(2);
    Ok([
        make.buffer("places", (region + u64::from(shape.blocks)) * 4, STORAGE)?,
        make.buffer(
            "pixels",
            u64::from(shape.blocks) * PIXELS as u64 * 4,
            STORAGE,
        )?,
    ])
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

/// Marks of blocks, and bits of squares, see `marks.rs`.
pub(super) fn marks<M: Maker>(make: &M, bytes: u64) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer("marks", bytes, STORAGE)
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
        let bounds = Bounds::new(drawing.way, &device.limits, budget.binding, taps);
        let (shape, sure) = bounds.shape(pool)?;
        let make = OnDevice { device, budget };
        let tile = parameters(&make)?;
        let [places, pixels] = blocks(&make, shape)?;
        let texel_coords = texel_coords(&make, scene)?;
        write(device, &texel_coords, &scene.texel_coords);
        let squares = squares(&make, scene)?;
        write(device, &squares, scene.window.squares());
        let marks = marks(&make, 0)?;
        let raster = Raster::new(
            device,
            budget,
            drawing,
            scene,
            [&tile, &places],
            shape,
            taps,
        )?;
        Ok(Self {
            bounds,
            shape,
            sure,
            window: scene.window.clone(),
            raster,
            footprint,
            tile,
            places,
            pixels,
            texel_coords,
            squares,
            marks,
            marked: 0,
        })
    }

    /// What tiles are, and how many blocks any pool holds: for tests.
    #[cfg(test)]
    pub(super) fn shape(&self) -> (Shape, u32) {
        (self.shape, self.sure)
    }

    /// What the samples and pixels of a tile take.
    pub(super) fn bytes(&self) -> u64 {
        bytes(self.shape.blocks, self.bounds.taps)
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
                self.marks.item.as_entire_binding(),
                self.places.item.as_entire_binding(),
            ],
        )
    }

    /// Makes marks of so many blocks in a buffer that has bits of squares behind them, before any pool is made.
    pub(super) fn learn(&mut self, marks: Buffer, blocks: u32) {
        (self.marks, self.marked) = (marks, blocks);
    }

    /// The marks that were made, and their number.
    pub(super) fn learnt(&self) -> Option<(&Buffer, usize)> {
        (self.marked > 0).then_some((&self.marks, self.marked as usize))
    }

    /// Cuts what is `drawn` of a view into tiles, leaving out blocks without a pixel that counts. `camera` is in scene units,
    /// `place` what the pools say of the view.
    pub(super) fn cut(
        &self,
        view: &View,
        camera: &Camera,
        (index, first_block, blocks): Place,
        drawn: Drawn<'_>,
    ) -> Vec<Work> {
        let window = &self.window;
        let row = |k: usize| {
            let [x, y, z] = camera.rotation[k];
            [x as f32, y as f32, z as f32, camera.translation[k] as f32]
        };
        let work = |part: Part| {
            let offset = |axis: usize| (camera.centre[axis] - f64::from(part.origin[axis])) as f32;
            let tile = layout::Tile {
                row_x: row(0),
                row_y: row(1),
                row_z: row(2),
                focal: camera.focal.map(|value| value as f32),
                centre: [0, 1].map(offset),
                size: part.size,
                origin: part.origin,
                texture_size: window.size,
                view: index,
                first_block,
                blocks: blocks[0] | (blocks[1] << 16),
                core: if window.is_whole() {
                    [0; 2]
                } else {
                    window.core
                },
                squares_at: self.marked,
                listed: part.corners.len() as u32,
            };
            Work {
                tile,
                part,
                staged: None,
            }
        };
        parts(view, self.shape, drawn)
            .into_iter()
            .map(work)
            .collect()
    }

    /// Copies the pixels of a tile to where the queue takes them from, from any thread.
    pub(super) fn stage(&self, device: &Device, work: &mut Work) {
        let bytes: &[u8] = bytemuck::cast_slice(&work.part.pixels);
        let size = wgpu::BufferSize::new(bytes.len() as u64);
        let staged = size.and_then(|size| {
            let queue = &device.queue;
            queue.write_buffer_with(&self.pixels.item, 0, size)
        });
        // Where it is refused, so is what is written when the tile is drawn, and that is told.
        work.staged = staged.map(|mut staged| {
            staged.copy_from_slice(bytes);
            staged
        });
    }

    /// Cuts a tile into such as any pool holds, of the same region.
    pub(super) fn split(&self, work: &Work) -> Vec<Work> {
        let piece = |part: Part| {
            let listed = part.corners.len() as u32;
            let tile = layout::Tile {
                listed,
                ..work.tile
            };
            Work {
                tile,
                part,
                staged: None,
            }
        };
        work.part.split(self.sure).map(piece).collect()
    }

    /// Draws a tile, whose pixels may be staged, and appends its rows to the pool that `pool` binds.
    pub(super) fn build(
        &self,
        device: &Device,
        work: &Work,
        staged: Option<wgpu::QueueWriteBufferView>,
        pool: &wgpu::BindGroup,
    ) -> Result<(), GpuError> {
        write(device, &self.tile, &[work.tile]);
        write(device, &self.places, &work.places());
        match staged {
            Some(staged) => {
                device.uploaded(staged.len());
                // The queue takes it now.
                drop(staged);
            }
            None => write(device, &self.pixels, &work.part.pixels),
        }
        let mut batch = Batch::new(device, "footprint");
        let listed = work.tile.listed;
        self.raster.record(&mut batch, work.tile.size, listed)?;
        let groups = [listed.min(GROUPS_ACROSS), listed.div_ceil(GROUPS_ACROSS)];
        // Each pixel on which something was drawn counts, and with the backdrop that is every one.
        self.footprint
            .dispatch(&mut batch, "footprint", pool, None, groups, work.units())?;
        batch.send()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_as_large_as_a_pool_and_a_device_allow() {
        assert_eq!(
            sure_blocks(4, 1 << 25),
            Some(4096),
            "of 64² entries, half of it"
        );
        assert_eq!(sure_blocks(4, (1 << 25) - 1), Some(2048));
        assert_eq!(sure_blocks(4, 1 << 12), None);
        let bounds = |way, samples| Bounds {
            taps: 4,
            way,
            samples,
        };
        let of = |bounds: Bounds, pool| bounds.shape(pool).expect("one fits");
        let shape = |blocks, region| Shape { blocks, region };
        let compute = bounds(Way::Compute, 1 << 24);
        assert_eq!(of(compute, 1 << 25), (shape(8192, REGION), 4096));
        assert_eq!(of(compute, 1 << 22), (shape(2048, REGION), 512));
        assert_eq!(
            of(bounds(Way::Compute, 1 << 20), 1 << 22),
            (shape(1024, REGION), 512)
        );
        assert_eq!(
            of(bounds(Way::Graphics, 8192), 1 << 25),
            (shape(8192, 720), 4096)
        );
        assert_eq!(
            of(bounds(Way::Graphics, 2048), 1 << 25),
            (shape(8192, 512), 4096)
        );
        let few = Bounds { taps: 2, ..compute };
        assert_eq!(of(few, 1 << 17), (shape(64, REGION), 64));
        assert!(bounds(Way::Compute, 1 << 9).shape(1 << 25).is_err());
    }
}
