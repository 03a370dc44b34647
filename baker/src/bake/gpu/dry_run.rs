//! Plans a job without running it: the buffers that it would make, and which rows would be resident.
//!
//! The code that makes a bake's buffers also counts them here, with a [`super::memory::Maker`] that allocates nothing.
//! Views are cut into the same tiles. Rates estimate the rows of a tile, since only drawing would tell them.

use std::sync::Arc;

use proto::plan::{BufferBytes, BufferGroup, DriverAccount, RowsHeld};
use proto::table::View;

use super::device::{Device, GpuError};
use super::driver;
use super::fit::{self, Options};
use super::layout::{self, BOX, LISTED_MOST, PATCH_TEXELS};
use super::memory::{Budget, Counted, Held, Staging};
use super::pipelines::Pipelines;
use super::planes::{Planes, colour_planes};
use super::raster::{self, Samples};
use super::row_store::{self, Boxes, Forecast, Ground, Tile, TilePart, row_bins, seams};
use super::tiles::{self, Bounds, Drawn, Room, Shape, Taken, map_words};
use crate::bake::model::rows::Rows;
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::{BLOCK, RowMemory, Ties};

/// Average of what a pixel whose alpha counts adds to the row store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Rows, 0-1: the mesh does not cover every pixel.
    pub rows: f64,
    /// Entries.
    pub entries: f64,
    /// Listed patches; bins are not counted.
    pub patches: f64,
    /// Words of the row store.
    pub words: f64,
    /// Rows with a box, and their words.
    pub boxes: [f64; 2],
}

/// What a job would make.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Its buffers, in the order of [`BufferGroup`], without empty groups.
    pub buffers: Vec<BufferBytes>,
    /// Peak memory in bytes.
    pub peak: u64,
    /// Numbers of resident and redrawn rows.
    pub rows: RowsHeld,
}

/// A job that is only planned.
#[derive(Debug)]
pub struct DryRun<'a> {
    pipelines: &'a Pipelines,
    options: Options,
    budget: Arc<Budget>,
    bounds: Bounds,
    tile: u64,
    shape: Shape,
    tile_room: Room,
    pool: layout::Pool,
    /// Texels in a row.
    size: u32,
    texels: u32,
    /// Capacity of the planes in texels.
    planes: u32,
    groups: Vec<(BufferGroup, Group)>,
    /// Subdomains of the views, cut for the whole texture.
    cuts: Vec<Cut>,
    views: u32,
    blocks: u64,
    seams: u32,
    /// Share of a tile's pixels that shows the window.
    share: f64,
}

/// A part of a view: its pixels that count, its blocks, and the words of its map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    view: u32,
    counting: u32,
    blocks: u32,
    map: u32,
}

impl Cut {
    /// The parts that this becomes if a `share` of its blocks is shown, in tiles of `blocks` blocks.
    fn shown(self, share: f64, blocks: u32) -> impl Iterator<Item = Self> {
        let shown = (f64::from(self.blocks) * share).ceil() as u32;
        let parts = shown.div_ceil(blocks).max(1);
        let end = move |of: u32, nth: u32| {
            let part = u64::from(of) * u64::from(nth) / u64::from(parts);
            part as u32
        };
        (0..parts).map(move |nth| Self {
            counting: end(self.counting, nth + 1) - end(self.counting, nth),
            blocks: end(shown, nth + 1) - end(shown, nth),
            ..self
        })
    }
}

/// Counted buffers, freed on drop.
#[derive(Debug, Default)]
struct Group {
    count: u32,
    bytes: u64,
    held: Vec<Held<()>>,
}

impl<'a> DryRun<'a> {
    /// Counts what does not depend on the views.
    ///
    /// # Errors
    /// The texture does not fit the device: the error that a bake would end with.
    pub fn new(
        pipelines: &'a Pipelines,
        scene: &Scene,
        ties: &Ties,
        options: Options,
    ) -> Result<Self, GpuError> {
        Self::with_room(pipelines, scene, ties, options, 0)
    }

    /// [`Self::new`] with planes that have room for `room` texels, at least for those of its own window.
    fn with_room(
        pipelines: &'a Pipelines,
        scene: &Scene,
        ties: &Ties,
        options: Options,
        room: usize,
    ) -> Result<Self, GpuError> {
        let budget = fit::bounds(&pipelines.device, &options, pipelines.made());
        let words = fit::words(&budget, scene.window.size, scene.texels());
        let (way, taps) = (pipelines.drawing.way, pipelines.taps);
        let bounds = Bounds::new(way, &pipelines.device.limits, &budget, taps);
        let (shape, _) = bounds.shape(words, scene.window.share())?;
        let triangles = scene.triangles.len() as u32;
        let tile_room = Room::of(way, shape, triangles);
        let mut run = Self {
            pipelines,
            options,
            budget,
            bounds,
            tile: tiles::bytes(shape.blocks, taps),
            shape,
            tile_room,
            pool: layout::Pool::of_words(words),
            size: scene.window.size,
            texels: scene.texels() as u32,
            planes: scene.texels().max(room) as u32,
            groups: Vec::new(),
            cuts: Vec::new(),
            views: 0,
            blocks: 0,
            seams: 0,
            share: 1.0,
        };
        run.made(BufferGroup::Tile, |make| {
            let mut held = vec![tiles::regions(make)?];
            held.extend(tiles::blocks(make, shape, tile_room)?);
            Ok(held)
        })?;
        run.made(BufferGroup::Mesh, |make| {
            let mut held = vec![
                tiles::texel_coords(make, scene)?,
                tiles::squares(make, scene)?,
                tiles::visible(make, 0)?,
            ];
            held.extend(raster::mesh(make, scene)?);
            Ok(held)
        })?;
        run.made(BufferGroup::Tile, |make| {
            Ok(match Samples::made(make, way, (shape, taps), triangles)? {
                Samples::Words {
                    nearest,
                    listed,
                    groups,
                    dispatched,
                } => vec![nearest, listed, groups, dispatched],
                Samples::Targets { ids, depth } => vec![ids, depth],
            })
        })?;
        run.made(BufferGroup::Texture, |make| {
            Ok(Planes::made(make, &scene.window, room)?.into_buffers())
        })?;
        let pool = run.pool;
        let ground = Ground {
            size: run.size,
            texels: run.texels,
        };
        run.made(BufferGroup::Views, |make| {
            let mut held: Vec<_> = row_store::shared(make)?.into();
            held.extend(row_bins::buffers(make, ground, pool)?);
            Ok(held)
        })?;
        for packed in seams::parts(&ties.seams) {
            run.made(BufferGroup::Seams, |make| {
                Ok(seams::buffers(make, &packed)?.into())
            })?;
            run.seams += 1;
        }
        fit::passes_fit(&run.budget, run.texels)?;
        Ok(run)
    }

    /// Memory for rows before the first view, in a window of `texels` texels.
    pub fn row_memory(&self, texels: usize) -> RowMemory {
        let own = Planes::bytes(self.size, self.texels as usize) + self.tile;
        let others = self.budget.in_use() - own;
        fit::row_memory(
            &self.budget,
            self.bounds,
            self.size,
            texels,
            others + self.blocks * row_store::BLOCK_BYTES,
        )
    }

    /// The same job in a window of its texture that shows this share of the pixels; the largest window has `largest`
    /// texels.
    ///
    /// # Errors
    /// The window does not fit the device.
    pub fn part(
        &self,
        scene: &Scene,
        ties: &Ties,
        share: f64,
        largest: usize,
    ) -> Result<Self, GpuError> {
        let room = fit::room(scene.texels(), largest);
        let new = Self::with_room(self.pipelines, scene, ties, self.options, room)?;
        Ok(Self {
            cuts: self.cuts.clone(),
            views: self.views,
            blocks: self.blocks,
            share,
            ..new
        })
    }

    /// Adds a view.
    pub fn add_view(&mut self, view: &View) {
        let parts = tiles::parts(view, self.tile_room.piece(self.shape), Drawn::default());
        let nth = self.views;
        self.cuts.extend(parts.iter().map(|part| Cut {
            view: nth,
            counting: part.counting,
            blocks: part.corners.len() as u32,
            map: map_words(part.size),
        }));
        self.blocks += row_store::view_blocks(view)
            .into_iter()
            .map(u64::from)
            .product::<u64>();
        self.views += 1;
    }

    /// Bytes of the job's budget.
    pub fn budget(&self) -> u64 {
        self.budget.cap()
    }

    /// Counts what the views make at these rates, once all are added.
    ///
    /// # Errors
    /// Not even one pool of their rows fits the device.
    pub fn finish(mut self, rates: Rates) -> Result<Counts, GpuError> {
        let budget = Arc::clone(&self.budget);
        let make = Counted(&budget);
        let reserve = fit::reserve(self.texels) + self.blocks * row_store::BLOCK_BYTES;
        let mut forecast = Forecast::new(&make, &budget, self.pool, reserve);
        for cuts in self.tiles() {
            let part = |cut: &Cut| {
                let counting = f64::from(cut.counting) * self.share;
                let of = |rate: f64| (counting * rate).round() as u32;
                TilePart {
                    view: cut.view,
                    counting: cut.counting,
                    holds: layout::Pool {
                        patches: of(rates.patches),
                        rows: of(rates.rows),
                        words: of(rates.words),
                    },
                }
            };
            forecast.add(Tile(cuts.iter().map(part).collect()))?;
        }
        let share = self.share;
        let rows = forecast.complete(self.views, |pixels| {
            let of = |rate: f64| (pixels as f64 * share * rate).round() as u32;
            let [rows, words] = rates.boxes.map(of);
            Boxes { rows, words }
        })?;
        let Forecast {
            kept,
            scratch,
            beside,
            pools,
            ..
        } = forecast;
        let streamed = scratch.is_some();
        let kept = kept.into_iter().flatten();
        let beside = beside.into_iter().flatten();
        self.enter(BufferGroup::RowsKept, kept.chain(beside).collect());
        self.enter(
            BufferGroup::RowsRedrawn,
            scratch.into_iter().flatten().collect(),
        );
        let (blocks, bound) = (self.blocks, 2 * pools + self.seams);
        self.made(BufferGroup::Views, |make| {
            let mut held = vec![row_store::blocks(make, blocks)?];
            for _ in 0..bound {
                held.push(row_store::visited(make)?);
            }
            for _ in 0..pools {
                held.push(row_bins::ordering(make)?);
            }
            Ok(held)
        })?;
        let (views, texels, maps) = (self.views.max(1) as usize, self.texels, self.options.maps);
        self.made(BufferGroup::Views, |make| {
            Ok(fit::view_buffers(make, views)?.into())
        })?;
        if streamed {
            self.made(BufferGroup::WeighedTexels, |make| {
                Ok(colour_planes(make, fit::WEIGHED, texels)?.into())
            })?;
        }
        // The larger of the views' sums and a plane of deviations.
        let planes = self.planes;
        let once = (views * fit::SUMS * 4).max(if maps { texels as usize * 4 } else { 0 });
        self.made(BufferGroup::ReadBack, |make| {
            let mut held = Staging::made(make, 4, planes as usize * 4)?.halves;
            held.extend(Staging::made(make, 1, once)?.halves);
            Ok(held)
        })?;
        self.groups.sort_by_key(|(group, _)| *group as u32);
        let of = |(group, held): &(BufferGroup, Group)| BufferBytes {
            group: *group,
            count: held.count,
            bytes: held.bytes,
        };
        let some = self.groups.iter().filter(|(_, held)| held.count > 0);
        Ok(Counts {
            buffers: some.map(of).collect(),
            peak: self.budget.peak(),
            rows,
        })
    }

    fn tiles(&self) -> Vec<Vec<Cut>> {
        let count = self.views as usize;
        let blocks = self.blocks as f64 / f64::from(self.views.max(1));
        let at_once = self.tile_room.views(blocks, self.share, count) as u32;
        let takes = |cut: &Cut| Taken {
            blocks: cut.blocks,
            map: cut.map,
        };
        let some = (self.cuts).chunk_by(|one, other| one.view / at_once == other.view / at_once);
        let tiles = some.flat_map(|cuts| {
            let shown = |cut: &Cut| cut.shown(self.share, self.shape.blocks);
            self.tile_room.together(cuts.iter().flat_map(shown), takes)
        });
        tiles.collect()
    }

    fn made(
        &mut self,
        group: BufferGroup,
        make: impl FnOnce(&Counted<'_>) -> Result<Vec<Held<()>>, GpuError>,
    ) -> Result<(), GpuError> {
        let budget = Arc::clone(&self.budget);
        let held = make(&Counted(&budget))?;
        self.enter(group, held);
        Ok(())
    }

    fn enter(&mut self, group: BufferGroup, held: Vec<Held<()>>) {
        let known = self.groups.iter().position(|(known, _)| *known == group);
        let at = known.unwrap_or_else(|| {
            self.groups.push((group, Group::default()));
            self.groups.len() - 1
        });
        let to = &mut self.groups[at].1;
        to.count += held.len() as u32;
        to.bytes += held.iter().map(Held::bytes).sum::<u64>();
        to.held.extend(held);
    }
}

/// Device memory by the driver's account, if it gives one.
pub fn account(device: &Device) -> Option<DriverAccount> {
    let memory = driver::memory(&device.device)?;
    Some(DriverAccount {
        used_kib: memory.used / 1024,
        free_kib: memory.left() / 1024,
    })
}

/// What rows take in the row store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InPools {
    /// Listed patches; bins are not counted.
    pub patches: u64,
    /// Words of entries, boxes and lists of texels.
    pub words: u64,
    /// Rows with a box, and their words.
    pub boxes: [u64; 2],
}

/// What the device makes of some rows of a view of this width. Rows whose texels lie in a small box become boxes. The
/// other rows of a block become patches, those of the subset apart: one patch if their texels fit, else the number of
/// rows is halved, down to what always fits.
pub fn in_pools(rows: &Rows, width: u32, window: &Window, taps: u32) -> InPools {
    let few = (PATCH_TEXELS / (4 * taps * taps)).max(1);
    let mut pools = InPools::default();
    let mut order: Vec<((u32, bool), u32, usize)> = Vec::new();
    for row in 0..rows.len() {
        if let Some(texels) = box_around(rows, row, window.size) {
            let words = u64::from(texels.div_ceil(2));
            pools.words += words;
            pools.boxes[0] += 1;
            pools.boxes[1] += words;
            continue;
        }
        let (x, y) = (rows.pixels[row] % width, rows.pixels[row] / width);
        let block = y / BLOCK * width.div_ceil(BLOCK) + x / BLOCK;
        let kind = (block, window.row_in_subset(rows.row(row)));
        order.push((kind, y % BLOCK * BLOCK + x % BLOCK, row));
    }
    order.sort_unstable();
    let mut texels: Vec<u32> = Vec::new();
    for block in order.chunk_by(|one, other| one.0 == other.0) {
        let (mut start, mut at_once) = (0, LISTED_MOST);
        while start < LISTED_MOST {
            let mine =
                (block.iter()).filter(|(_, lane, _)| (start..start + at_once).contains(lane));
            texels.clear();
            for &(_, _, row) in mine {
                texels.extend(rows.row(row).iter().map(|entry| entry.texel));
            }
            let entries = texels.len() as u64;
            texels.sort_unstable();
            texels.dedup();
            if texels.len() > PATCH_TEXELS as usize && at_once > few {
                at_once = (at_once / 2).max(few);
                continue;
            }
            pools.patches += u64::from(!texels.is_empty());
            pools.words += entries + texels.len() as u64;
            start += at_once;
        }
    }
    pools
}

/// Texels of the bounding box of a row's texels, if a bin takes it.
fn box_around(rows: &Rows, row: usize, size: u32) -> Option<u32> {
    let (mut low, mut high) = ([u32::MAX; 2], [0; 2]);
    for entry in rows.row(row) {
        let at = [entry.texel % size, entry.texel / size];
        for axis in 0..2 {
            low[axis] = low[axis].min(at[axis]);
            high[axis] = high[axis].max(at[axis]);
        }
    }
    let [across, down] = [0, 1].map(|axis| high[axis] - low[axis] + 1);
    (across <= BOX && down <= BOX).then_some(across * down)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_drawn_in_parts_of_what_it_shows() {
        let cut = Cut {
            view: 3,
            counting: 1000,
            blocks: 256,
            map: 300,
        };
        let counting = |share, blocks| {
            let shown = cut.shown(share, blocks);
            shown.map(|cut| cut.counting).collect::<Vec<_>>()
        };
        assert_eq!(counting(1.0, 256), [1000]);
        assert_eq!(counting(0.7, 64), [333, 333, 334], "180 blocks");
        assert_eq!(counting(0.0, 64), [1000]);
        let blocks: u32 = cut.shown(0.7, 64).map(|cut| cut.blocks).sum();
        assert_eq!(blocks, 180);
    }
}
