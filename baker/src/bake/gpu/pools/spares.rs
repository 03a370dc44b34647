//! Views whose mesh has not come → the first pools of their rows, with nothing in them. A driver takes some ten milliseconds to make a
//! pool, and holds up meanwhile whoever sends the device anything: that is half of what drawing the views takes.

use std::sync::Arc;

use super::super::device::{Device, GpuError};
use super::super::driver;
use super::super::memory::{Budget, Buffer, OnDevice};
use super::super::tiles::Tiles;
use super::sizes::{SIZES, bytes_of, room};
use super::{Buffers, Mould, pool_buffers};

/// Where the texture's size is not known: entries that a pixel which counts comes to, at least. 400 views of 512² come to four in a texture
/// of 1024², since most of their pixels are left out.
const LEAST: f64 = 4.0;
/// Share of a texture that charts cover.
const COVERED: f64 = 0.5;
/// Pixels whose rows stay for each texel of a texture, at most: six of sixteen views and what is as fine as these, on what charts cover.
const STAYING: f64 = 5.0;
/// Share of the pixels that count that have a row that stays.
const KEPT: f64 = 0.8;
/// What the box of a pixel on a slope has more of texels than one that faces the camera.
const SLOPE: f64 = 1.2;
/// Of what the driver says is left, this share may be taken by pools of a job that may wait for others' bakes.
const SHARE: u64 = 16;

/// Views whose mesh has not come.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    /// How many.
    pub views: u64,
    /// Their pixels that count.
    pub pixels: u64,
    /// Edge of the texture in texels, if it is known.
    pub texture_size: Option<u32>,
}

impl Coming {
    /// Entries that their rows will come to, rather fewer.
    fn entries(self) -> f64 {
        let pixels = self.pixels as f64;
        let Some(size) = self.texture_size else {
            return LEAST * pixels;
        };
        let texels = f64::from(size).powi(2);
        // A view sees half of the surface. Texels along an edge of a pixel, and one more for the lookups around it.
        let along = (COVERED / 2.0 * texels * self.views as f64 / pixels.max(1.0)).sqrt();
        (KEPT * pixels).min(STAYING * texels) * SLOPE * (1.0 + along).powi(2)
    }

    /// How many pools are worth making for them, where so many bytes are left.
    fn pools(self, left: u64) -> u64 {
        let filled = (self.entries() / f64::from(SIZES[0])) as u64;
        filled.max(1).min(left / SHARE / bytes_of(room(SIZES[0])))
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(in crate::bake::gpu) struct Spares {
    pools: Vec<[Buffer; 6]>,
}

impl Spares {
    /// What goes wrong is told by whoever needs the device next.
    pub(in crate::bake::gpu) fn make(device: &Device, coming: Coming) -> Self {
        let left = driver::memory(&device.device).map_or(0, driver::DriverMemory::left);
        // They count against the job's own once they are taken.
        let budget = Budget::new(u64::MAX, device.limits.max_storage_buffer_binding_size);
        let make = OnDevice {
            device,
            budget: &budget,
        };
        let made = (0..coming.pools(left)).map(|_| pool_buffers(&make, room(SIZES[0])));
        Self {
            pools: made.map_while(Result::ok).collect(),
        }
    }

    /// What they take, in bytes.
    pub(in crate::bake::gpu) fn bytes(&self) -> u64 {
        let buffers = self.pools.iter().flatten();
        buffers.map(Buffer::bytes).sum()
    }

    /// As pools that are like `mould`'s, if they are, and as far as a budget has room for them; others are freed.
    pub(super) fn into_pools(
        self,
        device: &Device,
        budget: &Arc<Budget>,
        tiles: &Tiles,
        mould: &Mould,
    ) -> Vec<Arc<Buffers>> {
        if mould.room != room(SIZES[0]) {
            return Vec::new();
        }
        let pool = |buffers: [Buffer; 6]| {
            let mut taken = Vec::with_capacity(buffers.len());
            for buffer in buffers {
                taken.push(buffer.taken_from("a pool", budget)?);
            }
            let buffers = <[Buffer; 6]>::try_from(taken);
            let buffers = buffers.map_err(|_| device.lost("a buffer is missing"))?;
            Ok::<_, GpuError>(Arc::new(mould.pool(device, tiles, buffers)))
        };
        self.pools
            .into_iter()
            .map_while(|of| pool(of).ok())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_pools_are_made_than_are_filled_and_than_others_can_spare() {
        let plenty = 80 << 30;
        let of = |views, pixels, texture_size| Coming {
            views,
            pixels,
            texture_size,
        };
        // As measured: what the rows of such views filled in the end.
        for (coming, filled) in [
            (of(100, 30_560_000, Some(2048)), 9),
            (of(400, 30_560_000, Some(1024)), 4),
            (of(100, 7_640_000, Some(1024)), 3),
            (of(40, 3_060_000, Some(1024)), 1),
            (of(100, 30_560_000, None), 9),
            (of(0, 0, None), 1),
            (of(0, 0, Some(1024)), 1),
        ] {
            let made = coming.pools(plenty);
            assert!((filled / 3..=filled).contains(&made), "{coming:?}: {made}");
        }
        let large = of(100, 30_560_000, Some(2048));
        assert!(large.pools(plenty) >= 5, "most of them");
        let pool = bytes_of(room(SIZES[0]));
        assert_eq!(large.pools(2 * 16 * pool), 2);
        assert_eq!(large.pools(16 * pool - 1), 0);
        assert_eq!(large.pools(0), 0, "a driver that does not say");
    }
}
