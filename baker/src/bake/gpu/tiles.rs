//! Views → rows, tile by tile: draws the mesh into triangle ids and depth, then collects footprints into a pool of
//! rows.
//!
//! | module | what it does |
//! |---|---|
//! | `cut` | splits a view into parts: its blocks with pixels that count, a number of them together |
//! | `together` | joins parts of several views into tiles |
//!
//! A tile takes a device as long as the slowest of its blocks does, and a device runs thousands of blocks at once. So
//! in compute a tile holds blocks from all over its regions, and only samples of those.

mod cut;
mod together;

use proto::table::{Camera, View};

use super::batch::Batch;
use super::device::{Device, GpuError};
use super::layout::{self, GROUPS_ACROSS, PIXELS};
use super::memory::{Budget, Buffer, Held, Maker, OnDevice, STORAGE, UNIFORM, write};
pub(super) use super::raster::Shape;
use super::raster::{Drawing, Raster, WORD, Way};
use super::stage::{Compiled, bind};
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::BLOCK;
pub(super) use cut::{Drawn, Part, parts};
pub(super) use together::{Room, Taken, map_words};

/// Possible numbers of blocks of a tile; the largest that fits is taken.
const BLOCKS: [u32; 14] = [
    8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1,
];
/// Words that most pixels stay below. A tile of such pixels takes half a pool at most, or else much of each pool would
/// stay empty.
const USUAL: u64 = 12;
/// Largest edge in pixels of a region whose tile holds scattered blocks: offsets from its corner keep their digits.
const REGION: u32 = 1024;

/// A part of a view, and its region except for its place in a tile.
pub(super) type PlacedPart = (layout::Region, Part);

/// A tile as the host keeps it: enough to redraw it.
#[derive(Debug)]
pub(super) struct TileWork {
    parts: Vec<PlacedPart>,
    /// Its pixels in the queue's memory, for the first draw.
    staged: Option<wgpu::QueueWriteBufferView>,
}

impl TileWork {
    fn of(parts: Vec<PlacedPart>) -> Self {
        Self {
            parts,
            staged: None,
        }
    }

    pub(super) fn views(&self) -> impl Iterator<Item = u32> {
        self.parts.iter().map(|(region, _)| region.view)
    }

    /// Pixels whose alpha is high enough to count.
    pub(super) fn counting_pixels(&self) -> u32 {
        self.parts.iter().map(|(_, part)| part.counting).sum()
    }

    /// The same by part.
    pub(super) fn counting_by_part(&self) -> impl ExactSizeIterator<Item = u32> {
        self.parts.iter().map(|(_, part)| part.counting)
    }

    /// Keeps the first `parts` of its parts and returns the others. Staged pixels stay valid: they begin with those of
    /// the parts kept, and the rest is not read.
    pub(super) fn split_off(&mut self, parts: usize) -> Self {
        Self::of(self.parts.split_off(parts))
    }

    fn blocks(&self) -> u32 {
        (self.parts.iter())
            .map(|(_, part)| part.corners.len() as u32)
            .sum()
    }

    fn regions(&self) -> Vec<layout::Region> {
        let listed = self.blocks();
        let mut map_at = listed;
        let mut placed = |&(region, _): &PlacedPart| {
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

    /// Takes what was staged for its first draw. The caller must drop it just before that draw is submitted.
    pub(super) fn take_staged(&mut self) -> Option<wgpu::QueueWriteBufferView> {
        self.staged.take()
    }

    /// For each block its column and line in its region, twelve bits each, with the region above. Then, for each block
    /// of each region, its place among the listed blocks plus 1, or 0.
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

    /// Number of pixels of its blocks that lie within their views, counting or not.
    fn units(&self) -> u32 {
        let of = |(region, part): &PlacedPart| -> u32 {
            let end = [0, 1].map(|axis| region.origin[axis] + region.size[axis]);
            let inside = |corner: &[u32; 2]| {
                let [across, down] = [0, 1].map(|axis| BLOCK.min(end[axis] - corner[axis]));
                across * down
            };
            part.corners.iter().map(inside).sum()
        };
        self.parts.iter().map(of).sum()
    }

    fn pixels(&self) -> impl Iterator<Item = &[u8]> {
        (self.parts.iter()).map(|(_, part)| bytemuck::cast_slice(part.pixels.as_slice()))
    }
}

/// Position of a view among those added, its first block among the blocks of all views, and its blocks across and down.
pub(super) type ViewPlace = (u32, u32, [u32; 2]);

#[derive(Debug)]
pub(super) struct Tiles {
    pub(super) bounds: Bounds,
    shape: Shape,
    room: Room,
    /// Number of blocks that fit any pool.
    sure: u32,
    window: Window,
    raster: Raster,
    footprint: Compiled,
    regions: Buffer,
    places: Buffer,
    pixels: Buffer,
    texel_coords: Buffer,
    squares: Buffer,
    visible: Buffer,
    /// Number of blocks of all views for which `visible` has room; 0 where visible blocks are not recorded.
    recorded: u32,
}

/// Number of blocks with `taps`² samples a pixel that fit a pool of `pool` words in the worst case: each lookup on
/// texels of its own, each with another word in a list. None where not even one fits.
pub(super) fn sure_blocks(taps: u32, pool: u32) -> Option<u32> {
    let entries = u64::from(4 * taps * taps) * PIXELS as u64;
    (BLOCKS.into_iter()).find(|&blocks| 2 * u64::from(blocks) * entries <= u64::from(pool))
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    taps: u32,
    way: Way,
    /// Samples of a tile: along an edge where it is drawn, in all in compute.
    samples: u32,
    /// Largest size in bytes of a tile most of whose pixels have no row.
    most: u64,
}

/// Such a tile may take one part in `SCATTERED` of a job's memory. A tile of strips with 1024 blocks, whose rows
/// fill a small pool, takes a device as long as one of three times as many.
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

    /// Edge in pixels of a fully drawn region, in whole blocks.
    fn edge(self, blocks: u32) -> u32 {
        blocks.isqrt().min(self.samples / self.taps / BLOCK) * BLOCK
    }

    fn fits(self, blocks: u32) -> bool {
        match self.way {
            Way::Compute => blocks * PIXELS as u32 <= self.samples / self.taps.pow(2),
            Way::Graphics => self.edge(blocks) > 0,
        }
    }

    /// Shape of tiles that are drawn into pools of `pool` words, and the number of blocks that fit any pool. Most
    /// pixels need few words, so tiles may exceed that number: they may take three fifths of a pool's bytes, and the
    /// host splits what does not fit. Where only a `share` of the pixels has rows, tiles may be larger.
    pub(super) fn shape(self, pool: u32, share: f64) -> Result<(Shape, u32), GpuError> {
        let sure = sure_blocks(self.taps, pool).filter(|&blocks| self.fits(blocks));
        let sure = sure.ok_or_else(|| {
            let samples = self.samples;
            let why = format!("a pool holds {pool} words here, and a tile {samples} samples");
            GpuError::out_of_memory("the smallest tile", 0, why)
        })?;
        let most = layout::Pool::of_words(pool).bytes() * 3 / 5;
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

    pub(super) fn bytes(self, pool: u32) -> u64 {
        let shape = self.shape(pool, 1.0);
        shape.map_or(0, |(shape, _)| bytes(shape.blocks, self.taps))
    }
}

/// Bytes of a tile's samples and pixels.
pub(super) fn bytes(blocks: u32, taps: u32) -> u64 {
    u64::from(blocks) * PIXELS as u64 * (u64::from(taps * taps) * WORD + 4)
}

pub(super) fn regions<M: Maker>(make: &M) -> Result<Held<M::Buffer>, GpuError> {
    let bytes = size_of::<[layout::Region; layout::REGIONS as usize]>();
    make.buffer("regions", bytes as u64, UNIFORM)
}

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

pub(super) fn texel_coords<M: Maker>(make: &M, scene: &Scene) -> Result<Held<M::Buffer>, GpuError> {
    let bytes = size_of_val(scene.texel_coords.as_slice());
    make.buffer("texel_coords", bytes as u64, STORAGE)
}

/// Where each square of the texture begins in the window.
pub(super) fn squares<M: Maker>(make: &M, scene: &Scene) -> Result<Held<M::Buffer>, GpuError> {
    let bytes = size_of_val(scene.window.squares());
    make.buffer("squares", bytes as u64, STORAGE)
}

/// Visible blocks, and the bits of squares (`visible.rs`).
pub(super) fn visible<M: Maker>(make: &M, bytes: u64) -> Result<Held<M::Buffer>, GpuError> {
    make.buffer("visible", bytes, STORAGE)
}

impl Tiles {
    /// Makes tiles of a scene with `taps`² samples a pixel, to be drawn into pools of `pool` words.
    pub(super) fn new(
        on: OnDevice<'_>,
        (drawing, footprint): (Drawing, Compiled),
        scene: &Scene,
        taps: u32,
        pool: u32,
    ) -> Result<Self, GpuError> {
        let (device, make) = (on.device, on);
        let bounds = Bounds::new(drawing.way, &device.limits, on.budget, taps);
        let (shape, sure) = bounds.shape(pool, scene.window.share())?;
        let room = Room::of(drawing.way, shape, scene.triangles.len() as u32);
        let regions = regions(&make)?;
        let [places, pixels] = blocks(&make, shape, room)?;
        let texel_coords = texel_coords(&make, scene)?;
        write(device, &texel_coords, &scene.texel_coords);
        let squares = squares(&make, scene)?;
        write(device, &squares, scene.window.squares());
        let visible = visible(&make, 0)?;
        let raster = Raster::new(on, drawing, scene, [&regions, &places], (shape, taps))?;
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
            visible,
            recorded: 0,
        })
    }

    /// Shape of tiles, and the number of blocks that fit any pool.
    #[cfg(test)]
    pub(super) fn shape(&self) -> (Shape, u32) {
        (self.shape, self.sure)
    }

    pub(super) fn bytes(&self) -> u64 {
        bytes(self.shape.blocks, self.bounds.taps)
    }

    /// Frees the buffers and keeps what was compiled.
    pub(super) fn into_stages(self) -> (Drawing, Compiled) {
        (self.raster.into_drawing(), self.footprint)
    }

    /// Bind group of the footprints for writing into a pool: counters, room, patches, rows, words.
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
                self.visible.item.as_entire_binding(),
                self.places.item.as_entire_binding(),
            ],
        )
    }

    /// Whether tiles for this window and pools of `pool` words would be identical to these.
    pub(super) fn would_do(&self, window: &Window, pool: u32) -> bool {
        let shape = self.bounds.shape(pool, window.share());
        let squares = |window: &Window| window.squares().len();
        let alike = squares(window) == squares(&self.window);
        alike && shape.is_ok_and(|shape| shape == (self.shape, self.sure))
    }

    /// Switches to another window; [`Self::would_do`] must hold for it.
    pub(super) fn renew(&mut self, device: &Device, window: &Window) {
        write(device, &self.squares, window.squares());
        self.window = window.clone();
        self.recorded = 0;
    }

    /// Records visible blocks from now on in `visible`, which has room for `blocks` blocks and holds the bits of squares
    /// behind them. Must precede the first pool.
    pub(super) fn record_visible(&mut self, visible: Buffer, blocks: u32) {
        (self.visible, self.recorded) = (visible, blocks);
    }

    /// The visible blocks that are recorded, and their number.
    pub(super) fn recorded(&self) -> Option<(&Buffer, usize)> {
        (self.recorded > 0).then_some((&self.visible, self.recorded as usize))
    }

    /// Number of views to cut at once, of `count` views with `blocks` blocks on average, `share` of which are drawn.
    pub(super) fn views_at_once(&self, blocks: f64, share: f64, count: usize) -> usize {
        self.room.views(blocks, share, count)
    }

    pub(super) fn together(&self, parts: impl IntoIterator<Item = PlacedPart>) -> Vec<TileWork> {
        let takes = |(region, part): &PlacedPart| Taken {
            blocks: part.corners.len() as u32,
            map: map_words(region.size),
        };
        let tiles = self.room.together(parts, takes);
        tiles.into_iter().map(TileWork::of).collect()
    }

    /// Cuts what is `drawn` of a view into parts that fit a tile, without blocks that have no pixel that counts.
    /// `camera` is in scene units, `place` is the view's place in the pools.
    pub(super) fn cut(
        &self,
        view: &View,
        camera: &Camera,
        (index, first_block, blocks): ViewPlace,
        drawn: Drawn<'_>,
    ) -> Vec<PlacedPart> {
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
                squares_at: self.recorded,
                ..layout::Region::default()
            };
            (region, part)
        };
        parts(view, self.room.piece(self.shape), drawn)
            .into_iter()
            .map(placed)
            .collect()
    }

    pub(super) fn stage(&self, device: &Device, work: &mut TileWork) {
        work.staged = self.staged(device, work);
    }

    /// Copies a tile's pixels to the queue's memory; none where the queue refuses, as later calls will report.
    fn staged(&self, device: &Device, work: &TileWork) -> Option<wgpu::QueueWriteBufferView> {
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

    /// Splits a tile into tiles that fit any pool, with the same regions.
    pub(super) fn split(&self, work: &TileWork) -> Vec<TileWork> {
        let pieces = |(region, part): &PlacedPart| {
            let region = *region;
            let of = move |part| TileWork::of(vec![(region, part)]);
            part.split(self.sure).map(of).collect::<Vec<_>>()
        };
        work.parts.iter().flat_map(pieces).collect()
    }

    /// Draws a tile, whose pixels may be staged, and appends its rows to the pool that `pool` binds.
    pub(super) fn build(
        &self,
        device: &Device,
        work: &TileWork,
        staged: Option<wgpu::QueueWriteBufferView>,
        pool: &wgpu::BindGroup,
    ) -> Result<(), GpuError> {
        let (regions, listed) = (work.regions(), work.blocks());
        write(device, &self.regions, &regions);
        write(device, &self.places, &work.places());
        if let Some(staged) = staged.or_else(|| self.staged(device, work)) {
            device.uploaded(staged.len());
            // Dropping it hands it to the queue.
            drop(staged);
        }
        let mut batch = Batch::new(device, "footprint");
        self.raster.record(&mut batch, &regions, listed)?;
        let groups = [listed.min(GROUPS_ACROSS), listed.div_ceil(GROUPS_ACROSS)];
        // A pixel counts as done if anything was drawn there, and the backdrop is everywhere.
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
