//! Limits of a store, and the space of its file system.

use std::path::Path;

use nix::sys::statvfs::statvfs;

use super::error::StoreError;

/// Largest spec in bytes: enough for 4,096 files with names of 180 bytes.
pub const SPEC_BYTES: usize = 1 << 20;

/// The limits of a store.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most queued jobs.
    pub queue_jobs: u64,
    /// Most bytes of inputs of queued jobs.
    pub queue_bytes: u64,
    /// Most queued jobs of one client.
    pub client_jobs: u64,
    /// Most bytes of one spec.
    pub spec_bytes: usize,
    /// Most bytes of one upload.
    pub upload_bytes: u64,
    /// How long finished jobs are kept; twice as long if nobody fetched the result.
    pub keep_ms: i64,
    /// How long an unused upload is kept.
    pub keep_unused_ms: i64,
    /// Most bytes of kept results and uploads. Queued and running jobs always keep theirs.
    pub keep_bytes: u64,
    /// The same as a percentage of the file system; the smaller limit applies.
    pub keep_percent: u64,
    /// New work is refused if the file system has fewer free bytes than this,
    pub free_bytes: u64,
    /// or a smaller percentage of its size.
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

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Its size.
    pub total: u64,
    /// Bytes that may still be written.
    pub free: u64,
}

impl Space {
    /// The space of the file system that holds `folder`.
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
    /// Refuses new work of `bytes` bytes if it would leave too little space.
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

    /// The limit on bytes of kept results and uploads.
    pub(super) fn kept(&self, space: Space) -> u64 {
        self.keep_bytes.min(share(space.total, self.keep_percent))
    }
}

fn share(total: u64, percent: u64) -> u64 {
    let share = u128::from(total) * u128::from(percent) / 100;
    u64::try_from(share).unwrap_or(u64::MAX)
}
