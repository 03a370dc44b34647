//! Splats and views → pictures: the twin of [`kiln_splat::draw`] on a device.
//!
//! ```text
//!   splats, all views ─ project, counting ─▶ what each view shows, and the pairs of each row of tiles ─▶ host
//!   splats, a view ─ project ─▶ ellipses, keys ─ sort ─▶ splats by depth
//!   of each band of rows of tiles: list, sum_pairs, list ─▶ pairs of a tile and a splat ─ sort ─▶ pairs by tile
//!                                  find_ranges, blend ─▶ pixels ─▶ host, while the next view is drawn
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `store` | holds the splats and the buffers of a view, within a budget |
//! | `survey` | counts what the views show |
//! | `bands` | cuts a window into bands whose pairs fit |
//! | `record` | records the stages of a view |
//!
//! The order of the splats in a pixel is unique: depth, then the order of the cloud. So a view has the same bytes
//! however it is cut into bands, and whatever is drawn beside it.

mod bands;
mod record;
mod store;
mod survey;

use std::sync::Arc;

use kiln_splat::{Cloud, Filter, View};
use proto::job::Blend;
use rayon::prelude::*;

use super::device::{Device, GpuError};
use super::error::under_way;
use super::memory::{Budget, Buffer, OnDevice};
use super::shaders::{
    SPLAT_BLEND, SPLAT_PROJECT, SPLAT_SORT, SPLAT_TILES, Shader, bind_layout, rows,
};
use super::stage::Compiled;
pub(super) use store::Room;
use store::Store;

/// Views that are counted together.
const TOGETHER: usize = 128;

/// How splats are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplatStyle {
    pub(crate) filter: Filter,
    /// Highest degree of the harmonics that count.
    pub(crate) degree: usize,
    /// Colours are blended as light and are encoded to sRGB in the end.
    pub(crate) linear: bool,
}

/// A view of splats, and the window of its picture that is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shot {
    pub(crate) view: View,
    /// Left, top, width, height in pixels.
    pub(crate) window: [u32; 4],
}

impl Shot {
    fn size(&self) -> [u32; 2] {
        [self.window[2], self.window[3]]
    }

    fn pixels(&self) -> usize {
        self.window[2] as usize * self.window[3] as usize
    }
}

/// The compiled stages.
#[derive(Debug)]
struct Stages {
    project: Compiled,
    sort: Compiled,
    tiles: Compiled,
    blend: Compiled,
}

impl Stages {
    fn new(device: &Device, linear: bool) -> Result<Self, GpuError> {
        let blend = if linear { Blend::Linear } else { Blend::Srgb };
        // No stage is over rows.
        let rows = bind_layout(&device.device, "rows", &rows());
        let shaders: [&'static Shader; 4] =
            [&SPLAT_PROJECT, &SPLAT_SORT, &SPLAT_TILES, &SPLAT_BLEND];
        let made = shaders
            .par_iter()
            .map(|shader| under_way(shader.name, || shader.compile(device, &rows, 1, blend)));
        let made: Vec<Result<Compiled, GpuError>> = made.collect();
        let (made, failed): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
        if let Some(Err(error)) = failed.into_iter().next() {
            // On a broken device destructors block or crash.
            Box::leak(Box::new(made));
            return Err(error);
        }
        let made: Vec<Compiled> = made.into_iter().flatten().collect();
        let [project, sort, tiles, blend] = <[Compiled; 4]>::try_from(made)
            .map_err(|_| GpuError::refused("splats", "a stage is missing"))?;
        Ok(Self {
            project,
            sort,
            tiles,
            blend,
        })
    }
}

/// Draws views of a cloud.
#[derive(Debug)]
pub(crate) struct SplatRenderer {
    /// None only during drop.
    renderer: Option<Box<Renderer>>,
}

impl Drop for SplatRenderer {
    fn drop(&mut self) {
        // On a broken device destructors block or crash. The end of the process frees the memory.
        if let Some(renderer) = self.renderer.take_if(|own| own.device.check().is_err()) {
            Box::leak(renderer);
        }
    }
}

impl SplatRenderer {
    /// Compiles the stages for a sibling of the device, and uploads the splats. None where `bytes` of device memory, or one
    /// binding, do not hold them and what drawing takes.
    pub(crate) fn new(
        device: &Device,
        cloud: &Cloud,
        style: SplatStyle,
        bytes: u64,
    ) -> Result<Option<Self>, GpuError> {
        let room = Room::of(device, bytes);
        let sibling = under_way("splats", || device.sibling())?;
        Self::within(sibling, cloud, style, room)
    }

    pub(super) fn within(
        device: Device,
        cloud: &Cloud,
        style: SplatStyle,
        room: Room,
    ) -> Result<Option<Self>, GpuError> {
        let made = under_way("splats", || Renderer::new(device, cloud, style, room))?;
        Ok(made.map(|renderer| Self {
            renderer: Some(Box::new(renderer)),
        }))
    }

    /// Bytes of device memory in use.
    pub(crate) fn bytes(&self) -> u64 {
        let renderer = self.renderer.as_ref();
        renderer.map_or(0, |renderer| renderer.budget.in_use())
    }

    /// Draws views: red, green, blue (not multiplied by alpha) and alpha of each pixel of the window, row by row from
    /// the top, 8 bits each.
    pub(crate) fn draw(&mut self, shots: &[Shot]) -> Result<Vec<Vec<[u8; 4]>>, GpuError> {
        let mut pictures = Vec::with_capacity(shots.len());
        under_way("splats", || {
            for shots in shots.chunks(TOGETHER) {
                if let Some(renderer) = &mut self.renderer {
                    renderer.draw(shots, &mut pictures)?;
                }
            }
            Ok(pictures)
        })
    }
}

/// Stages and buffers.
#[derive(Debug)]
struct Renderer {
    device: Device,
    budget: Arc<Budget>,
    room: Room,
    stages: Stages,
    store: Store,
    style: SplatStyle,
    /// Counters and parameters of the views that were surveyed last.
    views: Option<[Buffer; 2]>,
}

impl Renderer {
    fn new(
        device: Device,
        cloud: &Cloud,
        style: SplatStyle,
        room: Room,
    ) -> Result<Option<Self>, GpuError> {
        let degree = style.degree.min(cloud.degree);
        let Some(pairs) = Store::most_pairs(cloud.len(), degree, &room) else {
            return Ok(None);
        };
        let stages = Stages::new(&device, style.linear)?;
        let budget = Budget::new(room.bytes, room.binding);
        let on = OnDevice::new(&device, &budget);
        let store = Store::new(on, &stages.sort, cloud, degree, pairs)?;
        device.check()?;
        Ok(Some(Self {
            device,
            budget,
            room,
            stages,
            store,
            style,
            views: None,
        }))
    }

    /// Draws views that are surveyed together, and adds their pictures.
    fn draw(&mut self, shots: &[Shot], pictures: &mut Vec<Vec<[u8; 4]>>) -> Result<(), GpuError> {
        let seen = self.survey(shots)?;
        let on = OnDevice::new(&self.device, &self.budget);
        let largest = shots.iter().map(Shot::pixels).max().unwrap_or(0);
        self.store.provide_pixels(on, largest)?;
        // The picture under way through each inbox.
        let mut coming: [Option<usize>; 2] = [None; 2];
        for (nth, (shot, seen)) in shots.iter().zip(&seen).enumerate() {
            if seen.visible == 0 {
                pictures.push(vec![[0; 4]; shot.pixels()]);
                continue;
            }
            self.record(nth, shot, seen)?;
            // The one before the last, while the device draws the last one and this one.
            self.take(nth % 2, coming[nth % 2].take(), pictures)?;
            self.store.send(&self.device, nth % 2, shot.pixels())?;
            coming[nth % 2] = Some(pictures.len());
            pictures.push(Vec::new());
        }
        for (half, coming) in coming.into_iter().enumerate() {
            self.take(half, coming, pictures)?;
        }
        Ok(())
    }

    /// Takes a picture, if there is one, out of an inbox.
    fn take(
        &mut self,
        half: usize,
        coming: Option<usize>,
        pictures: &mut [Vec<[u8; 4]>],
    ) -> Result<(), GpuError> {
        let Some(coming) = coming else {
            return Ok(());
        };
        self.store.inboxes[half].arrive(&self.device, |bytes| {
            pictures[coming] = bytemuck::cast_slice(bytes).to_vec();
        })
    }
}
