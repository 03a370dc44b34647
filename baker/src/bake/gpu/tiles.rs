//! Views → rows, tile by tile: draws the mesh into ids and depth, then gathers footprints into a pool of rows.
//!
//! | module | what it turns into what |
//! |---|---|
//! | `cut` | a view → parts of it: the blocks that count, so many together |
//! | `together` | what was cut of some views → tiles, of several views each |
//!
//! A device takes as long for a tile as for the slowest of its blocks, and has room for thousands of them: the more of a tile
//! counts, the better. So in compute a tile holds blocks from all over its regions, and samples of no other.

mod cut;
mod together;

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
pub(super) use together::{Room, Taken, map_words};

/// Blocks of a tile, the largest number that fits is taken.
const BLOCKS: [u32; 14] = [
    8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1,
];
/// Words of a pixel, usually no more; a tile of them takes half a pool at most, or much of each pool would stay empty.
const USUAL: u64 = 12;
/// Edge of a tile's region in pixels where it holds blocks from wherever they lie: offsets from its corner keep their digits.
const REGION: u32 = 1024;

/// A part of a view, and what the device is told of it but for its place in a tile.
type Placed = (layout::Region, Part);

/// A tile as the host keeps it: enough to draw it again.
#[derive(Debug)]
pub(super) struct Work {
    parts: Vec<Placed>,
    /// Its pixels where the queue copies them from, for the first time that it is drawn.
    staged: Option<wgpu::QueueWriteBufferView>,
}

impl Work {
    fn of(parts: Vec<Placed>) -> Self {
        Self {
            parts,
            staged: None,
        }
    }

    /// Positions of its views among those added.
    pub(super) fn views(&self) -> impl Iterator<Item = u32> {
        self.parts.iter().map(|(region, _)| region.view)
    }

    /// Pixels whose alpha lets them count.
    pub(super) fn counting_pixels(&self) -> u32 {
        self.parts.iter().map(|(_, part)| part.counting).sum()
    }

    /// The same of each of its parts.
    pub(super) fn counting_by_part(&self) -> impl ExactSizeIterator<Item = u32> {
        self.parts.iter().map(|(_, part)| part.counting)
    }

    /// Keeps so many of its parts, and gives the others. What was staged begins with those that are kept; behind them it is not read.
    pub(super) fn split_off(&mut self, parts: usize) -> Self {
        Self::of(self.parts.split_off(parts))
    }

    fn blocks(&self) -> u32 {
        let of = |(_, part): &Placed| part.corners.len() as u32;
        self.parts.iter().map(of).sum()
    }

    /// Its regions, as the device is told of them.
    fn regions(&self) -> Vec<layout::Region> {
        let listed = self.blocks();
        let mut map_at = listed;
        let mut placed = |&(region, _): &Placed| {
            let placed = layout::Region {
                listed,
                map_at,
                ..region
            };
            map_at += map_words(region.size);
            placed
        };
        self.parts.iter().map(&mut placed).collect()
    }

    /// What was staged for its first drawing: to be let go just before that is sent.
    pub(super) fn take_staged(&mut self) -> Option<wgpu::QueueWriteBufferView> {
        self.staged.take()
    }

    /// Of each of its blocks the column and line in its region, twelve bits each, and above them the region; then of each block of
    /// each region its place among those, 1 more, or 0.
    fn places(&self) -> Vec<u32> {
        let mut places = Vec::new();
        let mut maps = Vec::new();
        for (nth, (region, part)) in (0..).zip(&self.parts) {
            let first = maps.len();
            maps.resize(first + map_words(region.size) as usize, 0);
            let across = region.size[0].div_ceil(BLOCK);
            for corner in &part.corners {
                let [column, line] =
                    [0, 1].map(|axis| (corner[axis] - region.origin[axis]) / BLOCK);
                places.push(column | line << 12 | nth << 24);
                maps[first + (line * across + column) as usize] = places.len() as u32;
            }
        }
        places.extend(maps);
        places
    }

    /// Pixels of its blocks that lie in their views, counting or not.
    fn units(&self) -> u32 {
        let of = |(region, part): &Placed| -> u32 {
            let end = [0, 1].map(|axis| region.origin[axis] + region.size[axis]);
            let inside = |corner: &[u32; 2]| -> u32 {
                [0, 1]
                    .map(|axis| BLOCK.min(end[axis] - corner[axis]))
                    .iter()
                    .product()
            };
            part.corners.iter().map(inside).sum()
        };
        self.parts.iter().map(of).sum()
    }

    /// Bytes of its pixels, part by part.
    fn pixels(&self) -> impl Iterator<Item = &[u8]> {
        (self.parts.iter()).map(|(_, part)| bytemuck::cast_slice(part.pixels.as_slice()))
    }
}

/// Position of a view among those added, its first block among all, and how many it has across and down.
pub(super) type Place = (u32, u32, [u32; 2]);

/// Pipelines and buffers of the first two stages.
#[derive(Debug)]
pub(super) struct Tiles {
    pub(super) bounds: Bounds,
    shape: Shape,
    room: Room,
    /// Any pool holds so many blocks.
    sure: u32,
    window: Window,
    raster: Raster,
    footprint: Compiled,
    regions: Buffer,
    places: Buffer,
    pixels: Buffer,
    texel_coords: Buffer,
    squares: Buffer,
    marks: Buffer,
    /// Blocks of all views whose marks are made.
    marked: u32,
}

/// Blocks of `taps`² samples a pixel of which a pool of so many words holds any, whatever they come to: each lookup on texels of its
/// own, which take another word each in a list; none where it holds not one.
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
    /// Bytes of a tile most of whose pixels have no row.
    most: u64,
}

/// Of a job's memory, this much may be such a tile: one of strips of 1024 blocks, as many as a small pool holds rows of, takes a device
/// as long as one of three times as many.
const SCATTERED: u64 = 12;

impl Bounds {
    pub(super) fn new(way: Way, limits: &wgpu::Limits, budget: &Budget, taps: u32) -> Self {
        let samples = match way {
            Way::Compute => u32::try_from(budget.binding / WORD).unwrap_or(u32::MAX),
            Way::Graphics => limits.max_texture_dimension_2d,
        };
        let most = budget.cap() / SCATTERED;
        Self {
            taps,
            way,
            samples,
            most,
        }
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

    /// What tiles are that are drawn into pools of so many words, and how many blocks any pool holds. Most pixels come to a few
    /// words, so tiles need not be such: they may take three fifths of a pool, and what does not fit is split. Where but a `share`
    /// of the pixels has rows they may be larger.
    pub(super) fn shape(self, pool: u32, share: f64) -> Result<(Shape, u32), GpuError> {
        let sure = sure_blocks(self.taps, pool).filter(|&blocks| self.fits(blocks));
        let sure = sure.ok_or_else(|| GpuError::OutOfMemory {
            what: "the smallest tile".to_owned(),
            bytes: 0,
            why: format!(
                "a pool holds {pool} words here, and a tile {} samples",
                self.samples
            ),
        })?;
        let most = pools::bytes_of(pools::room(pool)) * 3 / 5;
        let most = if share < 1.0 {
            most.max(self.most)
        } else {
            most
        };
        let fits = |&blocks: &u32| {
            let usual = share * (u64::from(blocks) * PIXELS as u64 * USUAL) as f64;
            self.fits(blocks) && bytes(blocks, self.taps) <= most && 2.0 * usual <= f64::from(pool)
        };
        let blocks = BLOCKS.into_iter().find(fits).unwrap_or(sure).max(sure);
        let region = match self.way {
            Way::Compute => REGION,
            Way::Graphics => self.edge(blocks),
        };
        Ok((Shape { blocks, region }, sure))
    }

    /// What tiles take all of whose pixels have rows, in bytes.
    pub(super) fn bytes(self, pool: u32) -> u64 {
        let shape = self.shape(pool, 1.0);
        shape.map_or(0, |(shape, _)| bytes(shape.blocks, self.taps))
    }
}

/// What tiles of so many blocks take, in bytes: their samples, and their pixels.
pub(super) fn bytes(blocks: u32, taps: u32) -> u64 {
    u64::from(blocks) * PIXELS as u64 * (u64::from(taps * taps) * WORD + 4)
}

/// What a tile is drawn with.
pub(super) fn regions<M: Maker>(make: &M) -> Result<Held<M::Buffer>, GpuError> {
    let bytes = size_of::<[layout::Region; layout::REGIONS as usize]>();
    make.buffer("regions", bytes as u64, UNIFORM)
}

/// Where its blocks lie, and their pixels.
pub(super) fn blocks<M: Maker>(
    make: &M,
    shape: Shape,
    room: Room,
) -> Result<[Held<M::Buffer>; 2], GpuError> {
    let places = u64::from(room.map) + u64::from(shape.blocks);
    Ok([
        make.buffer("places", places * 4, STORAGE)?,
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
        let bounds = Bounds::new(drawing.way, &device.limits, budget, taps);
        let (shape, sure) = bounds.shape(pool, scene.window.share())?;
        let make = OnDevice { device, budget };
        let room = Room::of(drawing.way, shape, scene.triangles.len() as u32);
        let regions = regions(&make)?;
        let [places, pixels] = blocks(&make, shape, room)?;
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
            [&regions, &places],
            shape,
            taps,
        )?;
        Ok(Self {
            bounds,
            shape,
            room,
            sure,
            window: scene.window.clone(),
            raster,
            footprint,
            regions,
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

    /// What the footprints' stage binds to write into a pool: counters, room, patches, rows, words.
    pub(super) fn bind(&self, device: &Device, pool: [&Buffer; 5]) -> wgpu::BindGroup {
        let [counters, room, patches, rows, words] = pool;
        bind(
            device,
            "footprint",
            &self.footprint.layout,
            &[
                self.regions.item.as_entire_binding(),
                self.raster.mesh[0].item.as_entire_binding(),
                self.raster.mesh[1].item.as_entire_binding(),
                self.texel_coords.item.as_entire_binding(),
                self.pixels.item.as_entire_binding(),
                self.raster.ids(),
                counters.item.as_entire_binding(),
                room.item.as_entire_binding(),
                patches.item.as_entire_binding(),
                rows.item.as_entire_binding(),
                words.item.as_entire_binding(),
                self.squares.item.as_entire_binding(),
                self.marks.item.as_entire_binding(),
                self.places.item.as_entire_binding(),
            ],
        )
    }

    /// Whether tiles for a window with a pool of so many words would be as these are.
    pub(super) fn would_do(&self, window: &Window, pool: u32) -> bool {
        let shape = self.bounds.shape(pool, window.share());
        let squares = |window: &Window| window.squares().len();
        let alike = squares(window) == squares(&self.window);
        alike && shape.is_ok_and(|shape| shape == (self.shape, self.sure))
    }

    /// Draws for this window from now on, for which they would do.
    pub(super) fn renew(&mut self, device: &Device, window: &Window) {
        write(device, &self.squares, window.squares());
        self.window = window.clone();
        self.marked = 0;
    }

    /// Makes marks of so many blocks in a buffer that has bits of squares behind them, before any pool is made.
    pub(super) fn learn(&mut self, marks: Buffer, blocks: u32) {
        (self.marks, self.marked) = (marks, blocks);
    }

    /// The marks that were made, and their number.
    pub(super) fn learnt(&self) -> Option<(&Buffer, usize)> {
        (self.marked > 0).then_some((&self.marks, self.marked as usize))
    }

    /// How many views of so many blocks on the mean, of which this `share` is drawn, are to be cut at once where `count` are there.
    pub(super) fn views_at_once(&self, blocks: f64, share: f64, count: usize) -> usize {
        self.room.views(blocks, share, count)
    }

    /// Puts what was cut of some views together in tiles.
    pub(super) fn together(&self, parts: impl IntoIterator<Item = Placed>) -> Vec<Work> {
        let takes = |(region, part): &Placed| Taken {
            blocks: part.corners.len() as u32,
            map: map_words(region.size),
        };
        let tiles = self.room.together(parts, takes);
        tiles.into_iter().map(Work::of).collect()
    }

    /// Cuts what is `drawn` of a view into parts that a tile holds, leaving out blocks without a pixel that counts. `camera` is in
    /// scene units, `place` what the pools say of the view.
    pub(super) fn cut(
        &self,
        view: &View,
        camera: &Camera,
        (index, first_block, blocks): Place,
        drawn: Drawn<'_>,
    ) -> Vec<Placed> {
        let window = &self.window;
        let row = |k: usize| {
            let [x, y, z] = camera.rotation[k];
            [x as f32, y as f32, z as f32, camera.translation[k] as f32]
        };
        let placed = |part: Part| {
            let offset = |axis: usize| (camera.centre[axis] - f64::from(part.origin[axis])) as f32;
            let region = layout::Region {
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
                listed: 0,
                map_at: 0,
                unused_0: 0,
                unused_1: 0,
                unused_2: 0,
            };
            (region, part)
        };
        parts(view, self.room.piece(self.shape), drawn)
            .into_iter()
            .map(placed)
            .collect()
    }

    /// Copies the pixels of a tile to where the queue takes them from, from any thread.
    pub(super) fn stage(&self, device: &Device, work: &mut Work) {
        work.staged = self.staged(device, work);
    }

    /// Where the pixels of a tile were copied to; none where the queue refuses it, and so what comes after.
    fn staged(&self, device: &Device, work: &Work) -> Option<wgpu::QueueWriteBufferView> {
        let bytes: usize = work.pixels().map(<[u8]>::len).sum();
        let size = wgpu::BufferSize::new(bytes as u64);
        let mut staged = device
            .queue
            .write_buffer_with(&self.pixels.item, 0, size?)?;
        let mut at = 0;
        for pixels in work.pixels() {
            staged.slice(at..at + pixels.len()).copy_from_slice(pixels);
            at += pixels.len();
        }
        Some(staged)
    }

    /// Cuts a tile into such as any pool holds, of the same regions.
    pub(super) fn split(&self, work: &Work) -> Vec<Work> {
        let pieces = |(region, part): &Placed| {
            let region = *region;
            let of = move |part| Work::of(vec![(region, part)]);
            part.split(self.sure).map(of).collect::<Vec<_>>()
        };
        work.parts.iter().flat_map(pieces).collect()
    }

    /// Draws a tile, whose pixels may be staged, and appends its rows to the pool that `pool` binds.
    pub(super) fn build(
        &self,
        device: &Device,
        work: &Work,
        staged: Option<wgpu::QueueWriteBufferView>,
        pool: &wgpu::BindGroup,
    ) -> Result<(), GpuError> {
        let (regions, listed) = (work.regions(), work.blocks());
        write(device, &self.regions, &regions);
        write(device, &self.places, &work.places());
        if let Some(staged) = staged.or_else(|| self.staged(device, work)) {
            device.uploaded(staged.len());
            // The queue takes it now.
            drop(staged);
        }
        let mut batch = Batch::new(device, "footprint");
        self.raster.record(&mut batch, &regions, listed)?;
        let groups = [listed.min(GROUPS_ACROSS), listed.div_ceil(GROUPS_ACROSS)];
        // Each pixel on which something was drawn counts, and with the backdrop that is every one.
        self.footprint
            .dispatch(&mut batch, "footprint", pool, groups, work.units())?;
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
            most: 64 << 20,
        };
        let of = |bounds: Bounds, pool| bounds.shape(pool, 1.0).expect("one fits");
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
        assert!(bounds(Way::Compute, 1 << 9).shape(1 << 25, 1.0).is_err());
        let strips = |share| compute.shape(1 << 21, share).expect("one fits").0.blocks;
        assert_eq!([1.0, 0.5, 0.125].map(strips), [1024, 2048, 4096]);
        let tight = Bounds {
            most: 1 << 20,
            ..compute
        };
        assert_eq!(tight.shape(1 << 21, 0.1).expect("one fits").0.blocks, 1024);
    }
}
