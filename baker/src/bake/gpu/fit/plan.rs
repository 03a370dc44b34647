//! The memory asked for, and what the driver says is left → a job's plan: its budget, the room of its planes, and the
//! memory for rows.

use std::sync::Arc;

use proto::job::{BakeJob, Memory};

use crate::bake::gpu::device::{Device, GpuError};
use crate::bake::gpu::driver::{self, DriverMemory};
use crate::bake::gpu::layout;
use crate::bake::gpu::memory::Budget;
use crate::bake::gpu::planes::Planes;
use crate::bake::gpu::row_store::{self, pool_words};
use crate::bake::gpu::tiles::Bounds;
use crate::bake::model::atlas::Atlas;
use crate::bake::model::scene::Scene;
use crate::bake::solve::backend::RowMemory;

/// How a job uses the device.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of device memory that the job may use. Rows beyond it are redrawn for each pass.
    pub vram_budget: u64,
    /// Largest binding in bytes, if it is to be less than the adapter's: for tests of splitting.
    pub binding_limit: Option<u64>,
    /// Whether the texture's maps are asked for.
    pub maps: bool,
    /// Whether the device's clock times every stage.
    pub gpu_times: bool,
}

/// Planes of a texture: 26 permanent ones, two of them for the coarse levels, and five temporary ones of passes.
const PLANES: u64 = 31;

/// Planes have room for at most this multiple of their own window's texels.
pub(super) const ROOMY: usize = 2;

/// Capacity in texels for the planes of a window of `texels`, where the largest window to come has `largest`.
pub(crate) fn room(texels: usize, largest: usize) -> usize {
    largest.min(ROOMY * texels)
}

/// Bytes of what does not grow with the texture: tiles, read-back and others.
const FIXED: u64 = 64 << 20;

/// Bytes of a texture, whatever the views.
const fn texture_bytes(texels: usize) -> u64 {
    PLANES * texels as u64 * 4
}

/// Bytes for rows where the driver does not say what is left: four times what forty views of 512² need.
const ROWS: u64 = 2 << 30;
/// Bytes for rows at most where it does; up to this, they get half of what is left.
const MOST_ROWS: u64 = 16 << 30;

/// Bytes of device memory that are left; as many as rows get where the driver does not say.
pub(crate) fn left(device: &Device) -> u64 {
    driver::memory(&device.device).map_or(ROWS, DriverMemory::left)
}

/// How a job uses a device, of whose memory `made` bytes were preallocated for it.
pub(crate) fn options(device: &Device, made: u64, texture_size: u32, job: &BakeJob) -> Options {
    let left = driver::memory(&device.device).map(|memory| memory.left() + made);
    Options {
        vram_budget: planned(texture_size, job.vram_budget, job.memory, left),
        binding_limit: None,
        maps: job.maps,
        gpu_times: job.gpu_times,
    }
}

/// Bytes that a job plans with: `asked`, or else what its texture needs and ample memory for rows, which grow into it as
/// needed. `left` is what the driver says. [`Memory::Small`] leaves a quarter of it for rows.
fn planned(texture_size: u32, asked: Option<u64>, memory: Memory, left: Option<u64>) -> u64 {
    let texture = texture_bytes((texture_size as usize).pow(2)) + FIXED;
    let rows = left.map_or(ROWS, |left| {
        (left.saturating_sub(texture) / 2).min(MOST_ROWS)
    });
    let all = asked.unwrap_or(texture + rows);
    match memory {
        Memory::Full => all,
        Memory::Small => all.min(texture + all.saturating_sub(texture) / 4),
    }
}

/// An empty budget for a job on a device; `made` bytes were preallocated for it.
pub(crate) fn bounds(device: &Device, options: &Options, made: u64) -> Arc<Budget> {
    let adapters = device.limits.max_storage_buffer_binding_size;
    let binding = options
        .binding_limit
        .map_or(adapters, |limit| limit.min(adapters));
    // Memory that other programs have taken is not available.
    let left = driver::memory(&device.device).map(DriverMemory::left);
    let there = left.map_or(u64::MAX, |left| left + made);
    Budget::new(options.vram_budget.min(there), binding)
}

/// Words of a pool for a window of `texels` texels in rows of `size`.
pub(crate) fn words(budget: &Budget, size: u32, texels: usize) -> u32 {
    let left = budget.cap().saturating_sub(texture_bytes(texels));
    pool_words(left, budget.binding, is_whole(size, texels))
}

pub(crate) fn is_whole(size: u32, texels: usize) -> bool {
    texels == (size as usize).pow(2)
}

/// Memory for rows in a window of `texels` texels in rows of `size`. Nothing of it is allocated yet, and `others`
/// bytes are in use besides its tiles. Nothing where its planes do not fit.
pub(crate) fn row_memory(
    budget: &Budget,
    bounds: Bounds,
    size: u32,
    texels: usize,
    others: u64,
) -> RowMemory {
    let pool = words(budget, size, texels);
    let own = Planes::<()>::bytes(size, texels) + bounds.bytes(pool);
    let left = match texels as u64 * 4 <= budget.binding {
        true => budget.cap().saturating_sub(others + own),
        false => 0,
    };
    row_store::memory(layout::Pool::of_words(pool), left, reserve(texels as u32))
}

/// Approximate bytes of a job's mesh and seams.
pub(crate) fn others(scene: &Scene, atlas: &Atlas) -> u64 {
    let seams = &atlas.seams;
    let mesh = size_of_val(scene.positions.as_slice())
        + size_of_val(scene.texel_coords.as_slice())
        + 2 * size_of_val(scene.triangles.as_slice());
    // Patches, rows, weights; then entries and lists of texels, which are fewer.
    let seams = seams.len() * (size_of::<layout::Row>() + 8) + seams.entries.len() * 8;
    (mesh + seams) as u64
}

/// Bytes that passes still need once all views are added, beside the block sums: the texels of the last reweighting
/// (three planes), read-back (four permanent planes and one of deviations, or pieces of them), and per-view numbers.
pub(crate) fn reserve(texels: u32) -> u64 {
    let plane = u64::from(texels) * 4;
    3 * plane + (5 * plane).min(64 << 20) + (4 << 20)
}

pub(crate) fn passes_fit(budget: &Budget, texels: u32) -> Result<(), GpuError> {
    let (bytes, left) = (reserve(texels), budget.left());
    if bytes <= left {
        return Ok(());
    }
    let why = format!("{left} bytes are left of a budget of {}", budget.cap());
    Err(GpuError::out_of_memory(
        "the passes over the texels",
        bytes,
        why,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_takes_what_is_asked_or_what_is_there_and_the_smaller_a_quarter_for_rows() {
        let texture = texture_bytes(1024 * 1024) + FIXED;
        let plan = |asked, memory, left| planned(1024, asked, memory, left);
        assert_eq!(plan(Some(7 << 20), Memory::Full, Some(1 << 30)), 7 << 20);
        assert_eq!(plan(None, Memory::Full, None), texture + ROWS);
        assert_eq!(plan(None, Memory::Small, None), texture + ROWS / 4);
        let left = texture + (6 << 30);
        assert_eq!(plan(None, Memory::Full, Some(left)), texture + (3 << 30));
        assert_eq!(plan(None, Memory::Full, Some(1 << 40)), texture + MOST_ROWS);
        assert_eq!(
            plan(None, Memory::Full, Some(5)),
            texture,
            "told where it does not fit"
        );
        assert_eq!(plan(Some(texture / 2), Memory::Small, None), texture / 2);
    }
}
