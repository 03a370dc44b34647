//! The bounds of a store, and the room that its file system has.

use std::path::Path;

use nix::sys::statvfs::statvfs;

use super::error::StoreError;

/// Bytes of one spec: it names 4,096 files by names of 180 bytes.
pub const SPEC_BYTES: usize = 1 << 20;

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Jobs that wait, at most.
    pub queue_jobs: u64,
    /// Bytes of the inputs of jobs that wait, at most.
    pub queue_bytes: u64,
    /// Jobs of one client that wait, at most.
    pub client_jobs: u64,
    /// Bytes of one spec, at most.
    pub spec_bytes: usize,
    /// Bytes of one upload, at most.
    pub upload_bytes: u64,
    /// How long finished jobs are kept; results that nobody has fetched, as long again.
    pub keep_ms: i64,
    /// How long an upload that no job uses is kept.
    pub keep_unused_ms: i64,
    /// Bytes of results and uploads that are kept, at most; queued and running jobs keep theirs in any case.
    pub keep_bytes: u64,
    /// The same as a share of the file system; the smaller bound holds.
    pub keep_percent: u64,
    /// New work is refused when the file system has fewer bytes free,
    pub free_bytes: u64,
    /// or a smaller share of its size.
    pub free_percent: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const GIB: u64 = 1 << 30;
        const HOUR_MS: i64 = 60 * 60 * 1000;
        Self {
            queue_jobs: 1_000,
            queue_bytes: 64 * GIB,
            client_jobs: u64::MAX,
            spec_bytes: SPEC_BYTES,
            upload_bytes: 4 * GIB,
            keep_ms: 24 * HOUR_MS,
            keep_unused_ms: HOUR_MS,
            keep_bytes: u64::MAX,
            keep_percent: 20,
            free_bytes: GIB / 4,
            free_percent: 5,
        }
    }
}

/// Bytes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Its size.
    pub total: u64,
    /// What may still be written.
    pub free: u64,
}

impl Space {
    /// Of the file system that holds `folder`.
    pub(super) fn of(folder: &Path) -> Result<Self, StoreError> {
        let stat = statvfs(folder)
            .map_err(|errno| StoreError::io("measure the disk of", folder, &errno.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.fragment_size());
        Ok(Self {
            total: bytes(stat.blocks()),
            free: bytes(stat.blocks_available()),
        })
    }
}

impl Limits {
    /// Refuses new work of so many bytes where it would leave too little room.
    pub(super) fn admit(&self, space: Space, bytes: u64) -> Result<(), StoreError> {
        let kept = self.free_bytes.max(share(space.total, self.free_percent));
        if space.free < kept.saturating_add(bytes) {
            return Err(StoreError::Full {
                free: space.free,
                kept,
            });
        }
        Ok(())
    }

    /// Bytes of results and uploads that are kept.
    pub(super) fn kept(&self, space: Space) -> u64 {
        self.keep_bytes.min(share(space.total, self.keep_percent))
    }
}

fn share(total: u64, percent: u64) -> u64 {
    let share = u128::from(total) * u128::from(percent) / 100;
    u64::try_from(share).unwrap_or(u64::MAX)
}
