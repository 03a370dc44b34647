//! One fit on a device: its stages and buffers; views in, texels out.
//!
//! | module | what it does |
//! |---|---|
//! | `plan` | derives the job's budget, and the memory for rows, from what is asked for and what is there |
//! | `preallocated` | preallocates the planes and pools that views will surely need, before the mesh is there |
//! | `passes` | computes average, residuals, weights and solution from rows |

mod passes;
mod plan;
mod preallocated;

use std::sync::Arc;
use std::thread;

use proto::job::Blend;
use proto::plan::RowsHeld;
use proto::table::View;

use super::device::{Device, GpuError};
use super::layout::{Judged, MOST_BLOCKS};
use super::memory::{
    Budget, Buffer, Held, Maker, OnDevice, STORAGE, Staging, read_as, read_plane, read_planes,
    write, write_planes,
};
use super::pipelines::{Pipelines, Stages};
use super::planes::{Colour, Planes, colour_planes};
use super::row_store::{Filling, Ground, PoolMaker, RowStore, Visit};
use super::shaders::DEVIATION;
use super::stage::bind;
use super::tiles::{self, Drawn, Place, Tiles, Work};
use super::visible::VisibleBlocks;
use crate::bake::ahead::ahead;
use crate::bake::backend::{BINS, RowMemory, Ties};
use crate::bake::colour::observed;
use crate::bake::pixel_mask::PixelMask;
use crate::bake::scene::Scene;
use crate::bake::window::Window;
use crate::pace;
use crate::progress::{each, expect, unit};
use plan::ROOMY;
pub use plan::{Options, options};
pub(super) use plan::{bounds, fits, others, passes_fit, reserve, room, row_memory, words};
pub use preallocated::Expected;
pub(super) use preallocated::Preallocated;

/// Words of [`super::super::backend::ViewResiduals`] on the device.
pub(super) const SUMS: usize = BINS + 4;

/// Label of the texels of the last reweighting.
pub(super) const WEIGHED: &str = "weighed x";

/// Buffers for the views' parameters and sums.
pub(super) fn view_buffers<M: Maker>(
    make: &M,
    views: usize,
) -> Result<[Held<M::Buffer>; 2], GpuError> {
    Ok([
        make.buffer("judged", (views * size_of::<Judged>()) as u64, STORAGE)?,
        make.buffer("sums", (views * SUMS * 4) as u64, STORAGE)?,
    ])
}

fn ground(planes: &Planes) -> Ground {
    Ground {
        size: planes.size,
        texels: planes.count,
    }
}

/// Bind groups that live as long as the planes.
#[derive(Debug)]
struct Groups {
    average: wgpu::BindGroup,
    tie: wgpu::BindGroup,
    bound: wgpu::BindGroup,
    diagonal: wgpu::BindGroup,
    defect: wgpu::BindGroup,
    apply: wgpu::BindGroup,
    regularise: wgpu::BindGroup,
    multilevel: wgpu::BindGroup,
    solve: wgpu::BindGroup,
}

/// Per-view numbers, and the bind groups of the texels they come from.
#[derive(Debug)]
struct ViewSums {
    judged: Buffer,
    sums: Buffer,
    /// For residuals of the current texels.
    now: wgpu::BindGroup,
    /// For residuals of the texels of the last reweighting, which redrawn rows need.
    then: Option<(wgpu::BindGroup, Colour)>,
}

#[derive(Debug)]
pub(super) struct Fit {
    pub(super) device: Device,
    taps: u32,
    blend: Blend,
    pub(super) budget: Arc<Budget>,
    scene: Scene,
    tiles: Tiles,
    stages: Stages,
    planes: Planes,
    groups: Groups,
    pub(super) pools: RowStore,
    /// Index of each view, in the order in which they were added.
    views: Vec<u32>,
    view_sums: Option<ViewSums>,
    known: Known,
    /// Buffers to read texels through, kept from the first read on.
    staging: Option<Staging>,
    /// The windows after this one, or this one and its peers, with their visible blocks.
    foreseen: Option<VisibleBlocks>,
    /// The bit of this window among those.
    shown: Option<u32>,
}

/// What the rows hold now.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Resident rows hold their squared residual.
    residuals: bool,
    /// Rows hold their weight.
    weights: bool,
}

impl Fit {
    /// Makes a fit whose planes have room for `room` texels, at least for those of its own window.
    pub(super) fn new(
        pipelines: Pipelines,
        scene: Scene,
        ties: &Ties,
        options: &Options,
        room: usize,
    ) -> Result<Self, GpuError> {
        let Pipelines {
            mut device,
            taps,
            blend,
            rows: layout,
            drawing,
            footprint,
            row_bins,
            mut stages,
            preallocated,
        } = pipelines;
        let preallocated =
            preallocated.filter(|preallocated| preallocated.would_do(&scene, options, room));
        let (budget, planes, made) = match preallocated {
            Some(preallocated) => (
                preallocated.budget,
                Some(preallocated.planes),
                preallocated.pools,
            ),
            None => (bounds(&device, options, 0), None, Vec::new()),
        };
        if options.gpu_times {
            device.measure()?;
        }
        let words = words(&budget, scene.window.size, scene.texels());
        let tiles = Tiles::new(&device, &budget, drawing, footprint, &scene, taps, words)?;
        if options.maps && stages.deviation.is_none() {
            stages.deviation = Some(DEVIATION.compile(&device, &layout, taps, blend)?);
        }
        let planes = match planes {
            Some(planes) => planes,
            None => Planes::new(&device, &budget, &scene.window, room)?,
        };
        let normal = |v, out| planes.normal_group(&device, &stages.normal, v, out);
        let groups = Groups {
            average: planes.average_group(&device, &stages.average),
            tie: normal(&planes.lambda, &planes.q),
            bound: normal(&planes.x, &planes.q),
            diagonal: normal(&planes.x, &planes.diagonal),
            defect: normal(&planes.x, &planes.r),
            apply: normal(&planes.p, &planes.q),
            regularise: planes.solve_group(&device, &stages.regularise),
            multilevel: planes.solve_group(&device, &stages.multilevel),
            solve: planes.solve_group(&device, &stages.solve),
        };
        let table = observed(blend);
        let tones = std::array::from_fn(|byte| [table[byte].value, table[byte].slope_squared]);
        let stage = (layout, row_bins);
        let mut pools = RowStore::new(&device, &budget, stage, &tones, words, ground(&planes))?;
        pools.take(&device, &tiles, made);
        device.check()?;
        let mut fit = Self {
            device,
            taps,
            blend,
            budget,
            scene,
            tiles,
            stages,
            planes,
            groups,
            pools,
            views: Vec::new(),
            view_sums: None,
            staging: None,
            known: Known::default(),
            foreseen: None,
            shown: None,
        };
        fit.set_ties(ties)?;
        passes_fit(&fit.budget, fit.planes.count)?;
        Ok(fit)
    }

    /// Whether [`Self::renew`] would do as well as [`Self::new`] for this scene and window, with little more memory.
    pub(super) fn would_do(&self, scene: &Scene, taps: u32, blend: Blend) -> bool {
        let window = &scene.window;
        let (texels, room) = (window.texels(), self.planes.room as usize);
        let words = words(&self.budget, window.size, window.texels());
        (self.taps, self.blend, self.planes.size) == (taps, blend, window.size)
            && (texels..=texels * ROOMY).contains(&room)
            && self.pools.room_is(words)
            && self.tiles.would_do(window, words)
            && self.scene.triangles == scene.triangles
            && self.scene.positions == scene.positions
            && self.scene.texel_coords == scene.texel_coords
    }

    /// Starts over with another window of the same scene and drops the views. Buffers are kept: a driver takes 10-20 ms
    /// to make those of a window.
    pub(super) fn renew(&mut self, scene: Scene, ties: &Ties) -> Result<(), GpuError> {
        self.forget()?;
        self.scene = scene;
        self.planes.renew(&self.device, &self.scene.window)?;
        let ground = ground(&self.planes);
        self.pools.renew(&self.device, &self.budget, ground)?;
        self.tiles.renew(&self.device, &self.scene.window);
        let ready = |fit: &mut Self| {
            fit.set_ties(ties)?;
            passes_fit(&fit.budget, fit.planes.count)
        };
        match ready(self) {
            // This window may have more seam constraints than the last one.
            Err(GpuError::OutOfMemory { .. }) => {
                self.pools.let_go();
                ready(self)
            }
            done => done,
        }
    }

    /// Frees everything but the device and its stages.
    pub(super) fn into_pipelines(self) -> Result<Pipelines, GpuError> {
        let Self {
            device,
            taps,
            blend,
            tiles,
            stages,
            pools,
            ..
        } = self;
        let (drawing, footprint) = tiles.into_stages();
        let (rows, row_bins) = pools.into_stage();
        // The device frees dropped buffers once it has been polled.
        device.wait()?;
        Ok(Pipelines {
            device,
            taps,
            blend,
            rows,
            drawing,
            footprint,
            row_bins,
            stages,
            preallocated: None,
        })
    }

    fn reserve(&self) -> u64 {
        reserve(self.planes.count) + self.pools.block_bytes()
    }

    pub(super) fn held(&self) -> RowsHeld {
        self.pools.held()
    }

    /// Memory for rows before the first view, in a window of `texels` texels.
    pub(super) fn row_memory(&self, texels: usize) -> RowMemory {
        let (size, count) = (self.planes.size, self.planes.count as usize);
        let own = Planes::<()>::bytes(size, count) + self.tiles.bytes();
        let others = self.budget.in_use() - own;
        row_memory(
            &self.budget,
            self.tiles.bounds,
            size,
            texels,
            others + self.pools.block_bytes(),
        )
    }

    pub(super) fn overflows(&self) -> bool {
        self.pools.streamed()
    }

    pub(super) fn add_view(&mut self, view: &View) -> Result<(), GpuError> {
        self.add_views(&[view], None)
    }

    /// Adds views, decimated as `pixel_mask` says. While the device draws some, threads cut and stage the next.
    pub(super) fn add_views(
        &mut self,
        views: &[&View],
        kept: Option<&PixelMask>,
    ) -> Result<(), GpuError> {
        let bytes = views.iter().map(|view| size_of_val(view.pixels.as_slice()));
        expect(
            "cutting views",
            each(bytes.max().unwrap_or(0), pace::TABLE_BYTE),
        );
        let placed: Vec<(&View, Place)> = (views.iter())
            .map(|&view| (view, self.pools.add_view(view)))
            .collect();
        if self.pools.blocks() > MOST_BLOCKS {
            return Err(GpuError::OutOfMemory {
                what: "the views' blocks".to_owned(),
                bytes: self.pools.block_bytes(),
                why: format!("rows name {MOST_BLOCKS} of them at most"),
            });
        }
        let reserve = self.reserve();
        let Self {
            device,
            budget,
            scene,
            tiles,
            pools,
            foreseen,
            shown: bit,
            ..
        } = self;
        let (tiles, bit) = (&*tiles, *bit);
        let cut = |&(view, place): &(&View, Place)| {
            let (_, first, blocks) = place;
            let shown = || foreseen.as_ref()?.shown(bit?, first, blocks);
            let drawn = Drawn {
                shown: shown(),
                kept: kept.and_then(|kept| kept.of(view)),
            };
            let parts = tiles.cut(view, &scene.camera(&view.camera), place, drawn);
            unit();
            parts
        };
        let cut = |some: &&[(&View, Place)]| -> (usize, Vec<Work>) {
            let mut works = tiles.together(some.iter().flat_map(cut));
            works.iter_mut().for_each(|work| tiles.stage(device, work));
            (some.len(), works)
        };
        let blocks: u64 = (placed.iter())
            .map(|(_, (_, _, [across, down]))| u64::from(across * down))
            .sum();
        let share = match (bit, foreseen.as_ref()) {
            (Some(_), Some(foreseen)) => 1.0 / foreseen.count() as f64,
            _ => 1.0,
        };
        let blocks = blocks as f64 / placed.len().max(1) as f64;
        let at_once = tiles.views_at_once(blocks, share, placed.len());
        let some: Vec<&[(&View, Place)]> = placed.chunks(at_once).collect();
        let mould = Arc::clone(pools.mould());
        thread::scope(|scope| {
            let make = || mould.buffers(device, budget, tiles);
            // A few views do not fill a pool.
            let maker = (placed.len() > 1).then(|| PoolMaker::begin(scope, make));
            let filling = Filling::new(pools, device, budget, tiles, reserve);
            let mut filling = filling.of_views(maker.flatten(), placed.len());
            ahead(&some, cut, |(views, works)| filling.add(works, views))
        })?;
        self.views.extend(views.iter().map(|view| view.index));
        self.view_sums = None;
        self.known = Known::default();
        self.device.check()
    }

    /// Records from now on which blocks of the views show anything of these windows, if there is memory for it.
    pub(super) fn foresee(&mut self, windows: &[Window]) -> Result<(), GpuError> {
        (self.foreseen, self.shown) = (None, None);
        let foreseen = VisibleBlocks::new(windows);
        let (mut marks, blocks) = (vec![0u32; self.pools.awaited as usize], self.pools.awaited);
        marks.extend(foreseen.squares());
        let bytes = size_of_val(marks.as_slice()) as u64;
        let needed = self.reserve() + 2 * self.pools.pool_bytes() + bytes;
        if blocks == 0 || bytes > self.budget.binding || needed > self.budget.left() {
            return Ok(());
        }
        let make = OnDevice {
            device: &self.device,
            budget: &self.budget,
        };
        let buffer = tiles::marks(&make, bytes)?;
        write(&self.device, &buffer, &marks);
        self.tiles.learn(buffer, blocks as u32);
        self.foreseen = Some(foreseen);
        self.device.check()
    }

    /// Takes the windows recorded for, with their visible blocks.
    pub(super) fn foreseen(&mut self) -> Result<Option<VisibleBlocks>, GpuError> {
        let Some(mut foreseen) = self.foreseen.take() else {
            return Ok(None);
        };
        if let Some((marks, count)) = self.tiles.learnt() {
            foreseen.marks = read_as(&self.device, &self.budget, marks, count)?;
        }
        Ok(Some(foreseen))
    }

    /// Restores recorded windows. If this window is among them, only blocks that show it are drawn.
    pub(super) fn recall(&mut self, foreseen: Option<VisibleBlocks>) {
        self.shown = foreseen
            .as_ref()
            .and_then(|foreseen| foreseen.of(&self.scene.window));
        self.foreseen = foreseen;
    }

    /// Drops the views, none of which may have been visited.
    pub(super) fn forget(&mut self) -> Result<(), GpuError> {
        // The budget counts their buffers as free, so pending draws into them must end first.
        self.device.wait()?;
        self.pools.forget();
        self.views.clear();
        self.view_sums = None;
        self.known = Known::default();
        self.device.check()
    }

    /// Prepares the rows for passes, once views have been added.
    pub(super) fn complete(&mut self) -> Result<(), GpuError> {
        let reserve = self.reserve();
        let count = Visit {
            stage: &self.stages.average,
            entry: "count",
            own: &self.groups.average,
        };
        self.pools
            .complete(&self.device, &self.budget, &self.tiles, count, reserve)
    }

    pub(super) fn read_texels(&mut self) -> Result<Vec<[f32; 4]>, GpuError> {
        let (count, staging) = (self.planes.count as usize, self.staging()?);
        let [r, g, b] = &self.planes.x;
        let planes = [r, g, b, &self.planes.weight];
        let texels = read_planes(&self.device, &staging, planes, count)?;
        self.staging = Some(staging);
        Ok(texels)
    }

    /// Takes the buffers to read texels through, or makes them while the device still works; the caller puts them back.
    fn staging(&mut self) -> Result<Staging, GpuError> {
        if let Some(staging) = self.staging.take() {
            return Ok(staging);
        }
        let make = OnDevice {
            device: &self.device,
            budget: &self.budget,
        };
        Staging::made(&make, 4, self.planes.room as usize * 4)
    }

    pub(super) fn read_weights(&mut self) -> Result<Vec<f32>, GpuError> {
        let (count, staging) = (self.planes.count as usize, self.staging()?);
        let weights = read_plane(&self.device, &staging, &self.planes.weight, count)?;
        self.staging = Some(staging);
        Ok(weights)
    }

    pub(super) fn write_texels(&mut self, texels: &[[f32; 4]]) -> Result<(), GpuError> {
        self.known.residuals = false;
        let [r, g, b] = &self.planes.x;
        write_planes(&self.device, [r, g, b, &self.planes.weight], texels)
    }

    fn set_ties(&mut self, ties: &Ties) -> Result<(), GpuError> {
        let mut links = ties.links.clone();
        links.resize(self.planes.count as usize, 0);
        write(&self.device, &self.planes.links, &links);
        self.pools
            .add_seams(&self.device, &self.budget, &ties.seams)
    }

    /// Makes the per-view buffers once all views are added.
    fn view_sums(&mut self) -> Result<(), GpuError> {
        self.complete()?;
        if self.view_sums.is_some() {
            return Ok(());
        }
        let views = self.views.len().max(1);
        let make = OnDevice {
            device: &self.device,
            budget: &self.budget,
        };
        let [judged, sums] = view_buffers(&make, views)?;
        let mut none = self.pools.judged(|_| [0.0; 2]);
        none.resize(views, Judged::default());
        write(&self.device, &judged, &none);
        let group = |x: &Colour| {
            let buffers = [&x[0], &x[1], &x[2], &judged, &sums];
            let resources = buffers.map(|buffer| buffer.item.as_entire_binding());
            bind(
                &self.device,
                "residual",
                &self.stages.residual.layout,
                &resources,
            )
        };
        let now = group(&self.planes.x);
        let then = if self.pools.streamed() {
            let x = colour_planes(&make, WEIGHED, self.planes.count)?;
            Some((group(&x), x))
        } else {
            None
        };
        self.view_sums = Some(ViewSums {
            judged,
            sums,
            now,
            then,
        });
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn tile_shape(&self) -> (tiles::Shape, u32) {
        self.tiles.shape()
    }

    /// `count` values of a buffer from `first` on.
    #[cfg(test)]
    fn read_end<T: bytemuck::Pod>(
        &self,
        from: &Buffer,
        first: usize,
        count: usize,
    ) -> Result<Vec<T>, GpuError> {
        let [first, bytes] = [first, count].map(|count| (count * size_of::<T>()) as u64);
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let make = OnDevice {
            device: &self.device,
            budget: &self.budget,
        };
        let end = make.buffer("end", bytes, STORAGE)?;
        let mut batch = super::batch::Batch::new(&self.device, "end");
        (batch.encoder()).copy_buffer_to_buffer(&from.item, first, &end.item, 0, Some(bytes));
        batch.send()?;
        read_as(&self.device, &self.budget, &end, count)
    }

    /// The rows of a view, with their pixels, drawn into a pool of their own.
    #[cfg(test)]
    pub(super) fn rows_of(&self, view: &View) -> Result<crate::bake::rows::Rows, GpuError> {
        use super::layout::{
            self, Patch, ROW_BIN, Row, box_of, box_weights, entry_parts, row_bin_of,
        };
        use super::row_store::COUNTERS;
        use crate::bake::rows::{Entry, Rows};
        let camera = self.scene.camera(&view.camera);
        let across = view.width.div_ceil(crate::bake::backend::BLOCK);
        let size = [view.width, view.height].map(|edge| edge.div_ceil(crate::bake::backend::BLOCK));
        let mut rows = Rows {
            view: view.index,
            starts: vec![0],
            ..Rows::default()
        };
        let mould = self.pools.mould();
        let pool = mould.buffers(&self.device, &self.budget, &self.tiles)?;
        let parts = (self.tiles).cut(view, &camera, (0, 0, size), Drawn::default());
        let mut works = self.tiles.together(parts);
        while let Some(work) = works.pop() {
            write(&self.device, &pool.counters, &[0u32; COUNTERS]);
            self.tiles.build(&self.device, &work, None, &pool.drawn)?;
            let counts: Vec<u32> = read_as(&self.device, &self.budget, &pool.counters, COUNTERS)?;
            if counts[4] != 0 {
                works.extend(self.tiles.split(&work));
                continue;
            }
            let room = self.pools.room().patches as usize;
            let patches: Vec<Patch> = read_as(&self.device, &self.budget, &pool.patches, room)?;
            let (few, rest) = (counts[5] as usize, counts[7] as usize);
            assert_eq!(few + rest, counts[0] as usize);
            // Boxes are at the beginning of the buffers, other rows at the end.
            let [few_rows, other_rows] = [counts[3], counts[13]].map(|count| count as usize);
            let [few_words, other_words] = [counts[8], counts[14]].map(|count| count as usize);
            assert_eq!(few_rows + other_rows, counts[1] as usize);
            assert_eq!(few_words + other_words, counts[2] as usize);
            let ends = self.pools.room();
            let [last_row, last_word] = [
                ends.rows as usize - other_rows,
                ends.words as usize - other_words,
            ];
            let boxed: Vec<Row> = read_as(&self.device, &self.budget, &pool.rows, few_rows)?;
            let box_words: Vec<u32> = read_as(&self.device, &self.budget, &pool.words, few_words)?;
            let listed: Vec<Row> = self.read_end(&pool.rows, last_row, other_rows)?;
            let words: Vec<u32> = self.read_end(&pool.words, last_word, other_words)?;
            let found: Vec<Row> = boxed.iter().chain(&listed).copied().collect();
            let mut told = vec![false; found.len()];
            let mut of_subset = 0;
            let mut tell =
                |at: usize, in_subset: bool, entries: &mut dyn Iterator<Item = Entry>| {
                    assert!(!std::mem::replace(&mut told[at], true), "a row once");
                    let row = found[at];
                    rows.entries.extend(entries);
                    rows.starts.push(rows.entries.len() as u32);
                    let last = rows.starts.len() - 2;
                    assert_eq!(self.scene.window.row_in_subset(rows.row(last)), in_subset);
                    assert_eq!(row.shape & 1 == 1, in_subset);
                    of_subset += u32::from(in_subset);
                    rows.colours.push(row.colour.to_le_bytes());
                    let (block, within) = (row.place >> 6, row.place & 63);
                    let x = block % across * 8 + within % 8;
                    let y = block / across * 8 + within / 8;
                    rows.pixels.push(y * view.width + x);
                };
            let subset = (patches[..few].iter()).zip(std::iter::repeat(true));
            let others = patches[room - rest..].iter().zip(std::iter::repeat(false));
            for (patch, in_subset) in subset.chain(others) {
                assert!(patch.counts >> 16 <= layout::PATCH_TEXELS);
                let first = patch.first_row as usize - last_row + few_rows;
                for at in first..first + (patch.counts & 0xffff) as usize {
                    let Row { start, shape, .. } = found[at];
                    assert!(box_of(shape).is_none());
                    let start = start as usize - last_word;
                    let mut entries =
                        words[start..][..(shape >> 6) as usize]
                            .iter()
                            .map(|&entry| {
                                let (weight, place) = entry_parts(entry);
                                assert!(place < patch.counts >> 16, "a place within the list");
                                Entry {
                                    texel: words[(patch.first_texel + place) as usize - last_word],
                                    weight,
                                }
                            });
                    tell(at, in_subset, &mut entries);
                }
            }
            let pitch = self.planes.size;
            for (at, row) in boxed.iter().enumerate() {
                let (size, corner) = box_of(row.shape).expect("a box");
                let row_bin = row_bin_of(row.shape);
                let row_bins = pitch.div_ceil(ROW_BIN);
                let first = [row_bin % row_bins, row_bin / row_bins];
                let [x, y] = [0, 1].map(|axis| first[axis] * ROW_BIN + corner[axis]);
                let weights = box_weights(&box_words[row.start as usize..], size[0] * size[1]);
                let mut entries =
                    (0..)
                        .zip(weights)
                        .filter(|(_, weight)| *weight > 0.0)
                        .map(|(nth, weight)| Entry {
                            texel: (y + nth / size[0]) * pitch + x + nth % size[0],
                            weight,
                        });
                tell(at, row.shape & 1 == 1, &mut entries);
            }
            assert_eq!(of_subset, counts[6]);
            assert!(told.into_iter().all(|told| told), "every row");
        }
        Ok(rows)
    }
}
