//! View → rows, tile by tile: draws the mesh into ids and depth, then gathers footprints into a pool of rows.

use std::sync::Arc;

use proto::table::{Camera, View};

use super::batch::Batch;
use super::device::{Device, GpuError};
use super::fit::is_whole;
use super::layout;
use super::marks::Shown;
use super::memory::{Budget, Buffer, Held, Maker, OnDevice, STORAGE, UNIFORM, write};
use super::pools;
use super::raster::{Drawing, Raster, WORD, Way};
use super::stage::{Compiled, bind};
use crate::bake::backend::BLOCK;
use crate::bake::footprint::MIN_ALPHA;
use crate::bake::kept::KeptOfView;
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

/// Position of a view among those added, its first block among all, and how many it has across and down.
pub(super) type Place = (u32, u32, [u32; 2]);

/// Pipelines and buffers of the first two stages.
#[derive(Debug)]
pub(super) struct Tiles {
    pub(super) bounds: Bounds,
    edge: u32,
    /// Any pool holds a tile of this edge.
    sure: u32,
    window: Window,
    raster: Raster,
    footprint: Compiled,
    tile: Buffer,
    pixels: Buffer,
    texel_coords: Buffer,
    squares: Buffer,
    marks: Buffer,
    /// Blocks of all views whose marks are made.
    marked: u32,
}

/// Edge of the tiles for `taps`² samples a pixel: a pool of so many entries holds any of them (see `pools.rs`), and `samples`
/// along an edge are as many as there is room for.
pub(super) fn tile_edge(taps: u32, pool: u32, samples: u32) -> Option<u32> {
    EDGES.into_iter().find(|&edge| {
        let entries = u64::from(edge * edge) * u64::from(4 * taps * taps);
        2 * entries <= u64::from(pool) && edge * taps <= samples
    })
}

/// What bounds tiles, beside the pools.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    taps: u32,
    /// Along an edge.
    samples: u32,
}

impl Bounds {
    pub(super) fn new(way: Way, limits: &wgpu::Limits, binding: u64, taps: u32) -> Self {
        let samples = match way {
            Way::Compute => u32::try_from((binding / WORD).isqrt()).unwrap_or(u32::MAX),
            Way::Graphics => limits.max_texture_dimension_2d,
        };
        Self { taps, samples }
    }

    /// Edges of the tiles that are drawn into pools of so many entries, and of such as any pool holds. Of a part of a texture most
    /// pixels have no row, so tiles need not be such: they may take as much as a pool and a half, and what does not fit is
    /// split.
    pub(super) fn edges(self, pool: u32, whole: bool) -> Result<[u32; 2], GpuError> {
        let Self { taps, samples } = self;
        let sure = tile_edge(taps, pool, samples).ok_or_else(|| GpuError::OutOfMemory {
            what: "the smallest tile".to_owned(),
            bytes: 0,
            why: format!("a pool holds {pool} entries here, and a tile's edge {samples} samples"),
        })?;
        let most = pools::bytes_of(pools::room(pool)) * 3 / 2;
        let fits = |&edge: &u32| edge * taps <= samples && bytes(edge, taps) <= most;
        let edge = EDGES.into_iter().find(fits).filter(|_| !whole);
        Ok([edge.map_or(sure, |edge| edge.max(sure)), sure])
    }

    /// What the tiles take, in bytes.
    pub(super) fn bytes(self, pool: u32, whole: bool) -> u64 {
        let edges = self.edges(pool, whole);
        edges.map_or(0, |[edge, _]| bytes(edge, self.taps))
    }
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
        let [edge, sure] = bounds.edges(pool, is_whole(scene.window.size, scene.texels()))?;
        let make = OnDevice { device, budget };
        let (tile, tile_pixels) = (parameters(&make)?, pixels(&make, edge)?);
        let texel_coords = texel_coords(&make, scene)?;
        write(device, &texel_coords, &scene.texel_coords);
        let squares = squares(&make, scene)?;
        write(device, &squares, scene.window.squares());
        let marks = marks(&make, 0)?;
        let raster = Raster::new(device, budget, drawing, scene, &tile, edge, taps)?;
        Ok(Self {
            bounds,
            edge,
            sure,
            window: scene.window.clone(),
            raster,
            footprint,
            tile,
            pixels: tile_pixels,
            texel_coords,
            squares,
            marks,
            marked: 0,
        })
    }

    /// Edges of tiles, and of such as any pool holds: for tests.
    #[cfg(test)]
    pub(super) fn edges(&self) -> [u32; 2] {
        [self.edge, self.sure]
    }

    /// What the samples and pixels of a tile take.
    pub(super) fn bytes(&self) -> u64 {
        bytes(self.edge, self.bounds.taps)
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

    /// Cuts what is `drawn` of a view into tiles, leaving out those without a pixel that counts. `camera` is in scene units, `place`
    /// what the pools say of the view.
    pub(super) fn cut(
        &self,
        view: &View,
        camera: &Camera,
        (index, first_block, blocks): Place,
        drawn: Drawn<'_>,
    ) -> Vec<Work> {
        let (mut works, window) = (Vec::new(), &self.window);
        for ([left, top], size, counting) in parts(view, self.edge, drawn) {
            let pixels = pixels_of(view, [left, top], size, drawn);
            let counting = match drawn.kept {
                None => counting,
                Some(_) => opaque(&pixels),
            };
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
                squares_at: self.marked,
                unused: 0,
            };
            works.push(Work {
                tile,
                pixels,
                counting,
            });
        }
        works
    }

    /// Cuts a tile into such as any pool holds.
    pub(super) fn split(&self, work: &Work) -> Vec<Work> {
        let ([width, height], mut works) = (work.tile.size, Vec::new());
        for top in (0..height).step_by(self.sure as usize) {
            for left in (0..width).step_by(self.sure as usize) {
                let size = [self.sure.min(width - left), self.sure.min(height - top)];
                let lines = (top..top + size[1]).flat_map(|y| {
                    let start = (y * width + left) as usize;
                    &work.pixels[start..start + size[0] as usize]
                });
                let pixels: Vec<[u8; 4]> = lines.copied().collect();
                let counting = opaque(&pixels);
                if counting == 0 {
                    continue;
                }
                let ([x, y], [column, line]) = (work.tile.centre, work.tile.origin);
                let tile = layout::Tile {
                    centre: [x - left as f32, y - top as f32],
                    size,
                    origin: [column + left, line + top],
                    ..work.tile
                };
                works.push(Work {
                    tile,
                    pixels,
                    counting,
                });
            }
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

/// Corner, size, and the number of pixels that count.
pub(super) type Part = ([u32; 2], [u32; 2], u32);

/// What is drawn of a view: of its blocks those that are shown, and of these the pixels that are kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drawn<'a> {
    pub(super) shown: Option<Shown<'a>>,
    pub(super) kept: Option<KeptOfView<'a>>,
}

impl Drawn<'_> {
    fn is_all(self) -> bool {
        self.shown.is_none() && self.kept.is_none()
    }

    /// Whether anything is of the block around a pixel.
    fn holds(self, x: u32, y: u32) -> bool {
        self.shown.is_none_or(|shown| shown.holds(x, y))
            && self.kept.is_none_or(|kept| kept.any(x, y))
    }
}

/// The parts of a view that are drawn, each within a tile of this edge.
pub(super) fn parts(view: &View, edge: u32, drawn: Drawn<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    for top in (0..view.height).step_by(edge as usize) {
        for left in (0..view.width).step_by(edge as usize) {
            let size = [edge.min(view.width - left), edge.min(view.height - top)];
            parts.extend(match drawn.is_all() {
                true => counting(view, [left, top], size),
                false => counting_of(view, [left, top], size, drawn),
            });
        }
    }
    parts
}

/// Pixels that are looked at together.
const AT_ONCE: usize = 32;

fn counts(pixel: &[u8; 4]) -> bool {
    pixel[3] >= MIN_ALPHA
}

/// How many of them count.
fn opaque(pixels: &[[u8; 4]]) -> u32 {
    pixels.iter().map(|pixel| u32::from(counts(pixel))).sum()
}

fn any_counts(pixels: &[[u8; 4]; AT_ONCE]) -> bool {
    pixels.iter().fold(false, |any, pixel| any | counts(pixel))
}

/// The part of a tile that holds the pixels that count, from a block's corner, and their number; none without any.
fn counting(view: &View, corner: [u32; 2], size: [u32; 2]) -> Option<Part> {
    let (mut low, mut high, mut count) = ([u32::MAX; 2], [0; 2], 0);
    for y in corner[1]..corner[1] + size[1] {
        let row = &view.pixels[y as usize * view.width as usize + corner[0] as usize..];
        let mut row = &row[..size[0] as usize];
        let counting = opaque(row);
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

/// [`counting`] of the blocks of which anything is `drawn`, as far as blocks go, and of all their pixels.
fn counting_of(
    view: &View,
    [left, top]: [u32; 2],
    size: [u32; 2],
    drawn: Drawn<'_>,
) -> Option<Part> {
    let end = [left + size[0], top + size[1]];
    let (mut low, mut high, mut count) = ([u32::MAX; 2], [0; 2], 0);
    for y in (top..end[1]).step_by(BLOCK as usize) {
        for x in (left..end[0]).step_by(BLOCK as usize) {
            if !drawn.holds(x, y) {
                continue;
            }
            let past = [(x + BLOCK).min(end[0]), (y + BLOCK).min(end[1])];
            let own: u32 = (y..past[1])
                .map(|y| {
                    let line = y as usize * view.width as usize;
                    opaque(&view.pixels[line + x as usize..line + past[0] as usize])
                })
                .sum();
            if own > 0 {
                count += own;
                low = [low[0].min(x), low[1].min(y)];
                high = [high[0].max(past[0]), high[1].max(past[1])];
            }
        }
    }
    (count > 0).then(|| (low, [high[0] - low[0], high[1] - low[1]], count))
}

/// Pixels of a part of a view; of those that are not `drawn` none counts.
fn pixels_of(view: &View, [left, top]: [u32; 2], size: [u32; 2], drawn: Drawn<'_>) -> Vec<[u8; 4]> {
    let mut pixels = Vec::with_capacity(size[0] as usize * size[1] as usize);
    for y in top..top + size[1] {
        let line = y as usize * view.width as usize;
        let own = &view.pixels[line + left as usize..line + (left + size[0]) as usize];
        if drawn.is_all() {
            pixels.extend_from_slice(own);
            continue;
        }
        let first = pixels.len();
        for (x, few) in (left..)
            .step_by(BLOCK as usize)
            .zip(own.chunks(BLOCK as usize))
        {
            match drawn.holds(x, y) {
                true => pixels.extend_from_slice(few),
                false => pixels.resize(pixels.len() + few.len(), [0; 4]),
            }
        }
        if let Some(kept) = drawn.kept {
            kept.thin_row([left, y], &mut pixels[first..]);
        }
    }
    pixels
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
