//! Views → rows in the store, and which blocks of the views show the windows to come.

use std::sync::Arc;
use std::thread;

use proto::table::View;

use super::{Fit, RowState};
use crate::bake::gpu::device::{Device, GpuError};
use crate::bake::gpu::layout::MOST_BLOCKS;
use crate::bake::gpu::memory::{OnDevice, read_as, write};
use crate::bake::gpu::row_store::{Filling, PoolMaker};
use crate::bake::gpu::tiles::{self, Drawn, PlacedPart, TileWork, Tiles, ViewPlace};
use crate::bake::gpu::visible::VisibleBlocks;
use crate::bake::intake::ahead::ahead;
use crate::bake::intake::pixel_mask::PixelMask;
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::Window;
use crate::worker::pace;
use crate::worker::progress::{each, expect, unit};

/// A view, and its place among those of the store.
type PlacedView<'a> = (&'a View, ViewPlace);

/// Cuts views into tiles.
#[derive(Clone, Copy, Debug)]
struct Cutter<'a> {
    device: &'a Device,
    tiles: &'a Tiles,
    scene: &'a Scene,
    /// The visible blocks, and the bit of the window, where they are known.
    visible: Option<(&'a VisibleBlocks, u32)>,
    kept: Option<&'a PixelMask>,
}

impl Cutter<'_> {
    fn parts(&self, &(view, place): &PlacedView<'_>) -> Vec<PlacedPart> {
        let (_, first, blocks) = place;
        let shown = || {
            let (visible, bit) = self.visible?;
            visible.shown(bit, first, blocks)
        };
        let drawn = Drawn {
            shown: shown(),
            kept: self.kept.and_then(|kept| kept.of(view)),
        };
        let camera = self.scene.camera(&view.camera);
        let parts = self.tiles.cut(view, &camera, place, drawn);
        unit();
        parts
    }

    fn works(&self, some: &[PlacedView<'_>]) -> Vec<TileWork> {
        let parts = some.iter().flat_map(|view| self.parts(view));
        let mut works = self.tiles.together(parts);
        (works.iter_mut()).for_each(|work| self.tiles.stage(self.device, work));
        works
    }

    /// Number of views to cut at once.
    fn at_once(&self, placed: &[PlacedView<'_>]) -> usize {
        let blocks: u64 = (placed.iter())
            .map(|(_, (_, _, [across, down]))| u64::from(across * down))
            .sum();
        let share = self
            .visible
            .map_or(1.0, |(visible, _)| 1.0 / visible.count() as f64);
        let blocks = blocks as f64 / placed.len().max(1) as f64;
        self.tiles.views_at_once(blocks, share, placed.len())
    }
}

impl Fit {
    pub(crate) fn add_view(&mut self, view: &View) -> Result<(), GpuError> {
        self.add_views(&[view], None)
    }

    /// Adds views, of which `kept` masks pixels. While the device draws some, threads cut and stage the next.
    pub(crate) fn add_views(
        &mut self,
        views: &[&View],
        kept: Option<&PixelMask>,
    ) -> Result<(), GpuError> {
        let bytes = views.iter().map(|view| size_of_val(view.pixels.as_slice()));
        let bytes = bytes.max().unwrap_or(0);
        expect("cutting views", each(bytes, pace::TABLE_BYTE));
        let placed: Vec<PlacedView<'_>> = (views.iter())
            .map(|&view| (view, self.store.add_view(view)))
            .collect();
        if self.store.blocks() > MOST_BLOCKS {
            let why = format!("rows name {MOST_BLOCKS} of them at most");
            let bytes = self.store.block_bytes();
            return Err(GpuError::out_of_memory("the views' blocks", bytes, why));
        }
        self.draw(&placed, kept)?;
        self.views.extend(views.iter().map(|view| view.index));
        self.view_sums = None;
        self.known = RowState::default();
        self.device.check()
    }

    fn draw(
        &mut self,
        placed: &[PlacedView<'_>],
        kept: Option<&PixelMask>,
    ) -> Result<(), GpuError> {
        let reserve = self.reserve();
        let on = OnDevice::new(&self.device, &self.budget);
        let (tiles, store) = (&self.tiles, &mut self.store);
        let cutter = Cutter {
            device: &self.device,
            tiles,
            scene: &self.scene,
            visible: self.visible.as_ref().zip(self.window_bit),
            kept,
        };
        let some: Vec<&[PlacedView<'_>]> = placed.chunks(cutter.at_once(placed)).collect();
        let cut = |some: &&[PlacedView<'_>]| (some.len(), cutter.works(some));
        let mould = Arc::clone(store.mould());
        thread::scope(|scope| {
            let make = || mould.buffers(on, tiles);
            // A few views do not fill a pool.
            let maker = (placed.len() > 1).then(|| PoolMaker::begin(scope, make));
            let filling = Filling::new(store, on, tiles, reserve);
            let mut filling = filling.of_views(maker.flatten(), placed.len());
            ahead(&some, cut, |(views, works)| filling.add(works, views))
        })
    }

    /// Records from now on which blocks of the views show anything of these windows, if there is memory for it.
    pub(crate) fn record_visible(&mut self, windows: &[Window]) -> Result<(), GpuError> {
        (self.visible, self.window_bit) = (None, None);
        let visible = VisibleBlocks::new(windows);
        let blocks = self.store.awaited;
        let mut bits = vec![0u32; blocks as usize];
        bits.extend(visible.squares());
        let bytes = size_of_val(bits.as_slice()) as u64;
        let needed = self.reserve() + 2 * self.store.pool_bytes() + bytes;
        if blocks == 0 || bytes > self.budget.binding || needed > self.budget.left() {
            return Ok(());
        }
        let buffer = tiles::visible(&self.on(), bytes)?;
        write(&self.device, &buffer, &bits);
        self.tiles.record_visible(buffer, blocks as u32);
        self.visible = Some(visible);
        self.device.check()
    }

    /// Takes the windows recorded for, with their visible blocks.
    pub(crate) fn take_visible(&mut self) -> Result<Option<VisibleBlocks>, GpuError> {
        let Some(mut visible) = self.visible.take() else {
            return Ok(None);
        };
        if let Some((recorded, count)) = self.tiles.recorded() {
            visible.bits = read_as(self.on(), recorded, count)?;
        }
        Ok(Some(visible))
    }

    /// Restores recorded windows. If this window is among them, only blocks that show it are drawn.
    pub(crate) fn set_visible(&mut self, visible: Option<VisibleBlocks>) {
        let window = &self.scene.window;
        self.window_bit = (visible.as_ref()).and_then(|visible| visible.of(window));
        self.visible = visible;
    }

    /// Drops the views, none of which may have been visited.
    pub(crate) fn forget(&mut self) -> Result<(), GpuError> {
        // The budget counts their buffers as free, so pending draws into them must end first.
        self.device.wait()?;
        self.store.forget();
        self.views.clear();
        self.view_sums = None;
        self.known = RowState::default();
        self.device.check()
    }
}
