//! Preallocated buffers: while the mesh is not there yet, views → the planes of the texture, and pools
//! for most of the rows, all empty.
//!
//! A driver takes some ten milliseconds to make a pool and blocks submissions meanwhile. Making all pools once the mesh
//! is there would take half as long as drawing the views.

use std::sync::Arc;

use super::plan::{Options, bounds, words};
use crate::bake::gpu::device::{Device, GpuError};
use crate::bake::gpu::driver::{self, DriverMemory};
use crate::bake::gpu::layout::Pool;
use crate::bake::gpu::memory::{Budget, Buffer, OnDevice};
use crate::bake::gpu::planes::Planes;
use crate::bake::gpu::row_store::{BUFFERS, pool_buffers};
use crate::bake::model::scene::Scene;
use crate::bake::plan::window::Window;
use crate::bake::solve::backend::PerRow;

/// Share of a texture that charts cover.
const COVERED: f64 = 0.5;
/// Largest number of pixels with a row for each texel of a texture: six of sixteen views, and equally fine ones, on the
/// part that charts cover.
const STAYING: f64 = 5.0;
/// Share of the pixels that count that get a resident row.
const KEPT: f64 = 0.8;
/// Factor by which a pixel on a slope has more texels in its box than one that faces the camera.
const SLOPE: f64 = 1.2;
/// A job may preallocate 1/`SHARE` of the memory that the driver says is left: it may wait while others bake.
const SHARE: u64 = 16;

/// Views whose mesh is not there yet.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Number of views.
    pub views: u64,
    /// Their pixels that count.
    pub pixels: u64,
    /// Edge of the texture in texels.
    pub texture_size: u32,
}

impl Expected {
    /// Expected rows and words with `taps`² samples a pixel; errs on the low side.
    fn rows(self, taps: u32) -> [f64; 2] {
        let pixels = self.pixels as f64;
        let texels = f64::from(self.texture_size).powi(2);
        // A view sees half of the surface. `along` is the texels along a pixel's edge; one more covers the bilinear
        // lookups.
        let along = (COVERED / 2.0 * texels * self.views as f64 / pixels.max(1.0)).sqrt();
        let box_of_pixel = SLOPE * (1.0 + along).powi(2);
        let lookups = f64::from(4 * taps * taps);
        let rows = (KEPT * pixels).min(STAYING * texels);
        let each = PerRow::from(box_of_pixel.min(lookups));
        [rows, rows * each.words]
    }

    /// Number of pools of this capacity worth making, with `left` bytes left.
    fn pools(self, taps: u32, room: Pool, left: u64) -> u64 {
        let [rows, words] = self.rows(taps);
        let filled = (rows / f64::from(room.rows)).max(words / f64::from(room.words)) as u64;
        filled.max(1).min(left / SHARE / room.bytes())
    }
}

/// Planes and pools made ahead, and the budget that counts them.
#[derive(Debug)]
pub(crate) struct Preallocated {
    pub(super) budget: Arc<Budget>,
    pub(super) planes: Planes,
    pub(super) pools: Vec<[Buffer; BUFFERS]>,
}

impl Preallocated {
    /// Makes the buffers of a job with these options; none where the driver does not say how much memory is left, or
    /// too little is.
    pub(crate) fn make(
        device: &Device,
        taps: u32,
        options: &Options,
        expected: Expected,
    ) -> Result<Option<Self>, GpuError> {
        let left = driver::memory(&device.device).map_or(0, DriverMemory::left);
        let window = Window::whole(expected.texture_size);
        let size = window.size;
        let planes = Planes::<()>::bytes(size, window.texels());
        let budget = bounds(device, options, 0);
        let room = Pool::of_words(words(&budget, size, window.texels()));
        let count = expected.pools(taps, room, left);
        if planes > left / SHARE || count == 0 {
            return Ok(None);
        }
        let on = OnDevice::new(device, &budget);
        let planes = Planes::new(on, &window, 0)?;
        let pools = (0..count).map(|_| pool_buffers(&on, room));
        let pools = pools.collect::<Result<_, _>>()?;
        Ok(Some(Self {
            budget,
            planes,
            pools,
        }))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.budget.in_use()
    }

    /// Whether a fit of this scene would make the same.
    pub(super) fn would_do(&self, scene: &Scene, options: &Options, room: usize) -> bool {
        let (window, planes) = (&scene.window, &self.planes);
        options.binding_limit.is_none()
            && window.is_whole()
            && (window.size, window.texels()) == (planes.size, planes.count as usize)
            && room <= window.texels()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_pools_are_made_than_are_filled_and_than_others_can_spare() {
        let plenty = 80 << 30;
        let room = Pool::of_words(1 << 25);
        let of = |views, pixels, texture_size| Expected {
            views,
            pixels,
            texture_size,
        };
        // Measured: pools that the rows of such views filled in the end.
        for (expected, filled) in [
            (of(100, 30_560_000, 2048), 6),
            (of(400, 30_560_000, 1024), 2),
            (of(100, 7_640_000, 1024), 2),
            (of(40, 3_060_000, 1024), 1),
            // Each lookup has texels of its own; a row has no more texels than lookups.
            (of(40, 190_000, 4096), 1),
            (of(0, 0, 1024), 1),
        ] {
            let made = expected.pools(4, room, plenty);
            assert!(
                (filled / 3..=filled).contains(&made),
                "{expected:?}: {made}"
            );
        }
        let large = of(100, 30_560_000, 2048);
        assert!(large.pools(4, room, plenty) >= 3, "most of them");
        let pool = room.bytes();
        assert_eq!(large.pools(4, room, 2 * 16 * pool), 2);
        assert_eq!(large.pools(4, room, 16 * pool - 1), 0);
        assert_eq!(large.pools(4, room, 0), 0, "a driver that does not say");
    }
}
