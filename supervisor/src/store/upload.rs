//! Receives an upload in chunks and makes it a blob, or nothing.
//!
//! Chunks are hashed and bounded on their way into a spool file. The file is synced, then named after its SHA-256, then
//! gets a row. It has a temporary name from the start, since not all file systems support files without one. The spool
//! is emptied at open, so a killed upload leaves nothing. A failed sync is never repeated on the same file.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use super::blobs;
use super::digest::Digest;
use super::error::StoreError;
use super::limits::Space;
use super::writer::{Pin, Shared, Writer};
use crate::output::sync_folder;

/// Bytes between checks of free space.
const LOOK: u64 = 16 << 20;

/// A stored upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its SHA-256.
    pub digest: Digest,
    /// Its size.
    pub bytes: u64,
    /// Whether it was not stored before.
    pub new: bool,
}

/// An upload in progress. Dropping it leaves nothing.
#[derive(Debug)]
pub struct Upload {
    writer: Writer,
    /// `None` after a failure.
    part: Option<Part>,
    size: u64,
}

impl Upload {
    pub(super) async fn begin(
        writer: Writer,
        shared: Arc<Shared>,
        announced: Option<u64>,
    ) -> Result<Self, StoreError> {
        let part = blocking(move || Part::create(shared, announced.unwrap_or(0))).await?;
        Ok(Self {
            writer,
            part: Some(part),
            size: 0,
        })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// The upload exceeds its limit; space is short; the disk fails. The upload is lost then.
    pub async fn write(
        &mut self,
        chunk: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<(), StoreError> {
        // If this future is dropped, the part is removed once the chunk is written.
        let mut part = self.part.take().ok_or(StoreError::Closed)?;
        let part = blocking(move || part.write(chunk.as_ref()).map(|()| part)).await?;
        self.size = part.size;
        self.part = Some(part);
        Ok(())
    }

    /// Bytes so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Syncs the bytes and stores them, provided that they match `expected`, if given.
    ///
    /// # Errors
    /// The digest differs; the disk fails.
    pub async fn finish(self, expected: Option<Digest>) -> Result<Blob, StoreError> {
        let part = self.part.ok_or(StoreError::Closed)?;
        let (blob, pin) = blocking(move || part.finish(expected)).await?;
        let keep = move |desk: &mut super::writer::Desk<'_>| {
            let kept = blobs::keep(desk, blob.digest, blob.bytes, desk.shared.time.now());
            drop(pin);
            kept
        };
        self.writer.write(keep).await?;
        Ok(blob)
    }
}

/// The spool file; dropping this removes it.
#[derive(Debug)]
struct Part {
    shared: Arc<Shared>,
    file: File,
    path: PathBuf,
    hash: Sha256,
    size: u64,
    /// Bytes since the last check of free space.
    unseen: u64,
}

impl Part {
    fn create(shared: Arc<Shared>, announced: u64) -> Result<Self, StoreError> {
        let limit = shared.limits.upload_bytes;
        if announced > limit {
            return Err(StoreError::TooLarge { limit });
        }
        let spool = shared.place.spool();
        shared.limits.admit(Space::of(&spool)?, announced)?;
        let chance = RandomState::new().hash_one(std::process::id());
        let path = spool.join(format!("{chance:016x}.part"));
        // Read-only: jobs' inputs will be hard links to it.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(&path)
            .map_err(|error| StoreError::io("write", &path, &error))?;
        Ok(Self {
            shared,
            file,
            path,
            hash: Sha256::new(),
            size: 0,
            unseen: 0,
        })
    }

    fn write(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        let limits = &self.shared.limits;
        let more = chunk.len() as u64;
        self.size += more;
        if self.size > limits.upload_bytes {
            return Err(StoreError::TooLarge {
                limit: limits.upload_bytes,
            });
        }
        self.unseen += more;
        if self.unseen >= LOOK {
            self.unseen = 0;
            limits.admit(Space::of(self.shared.place.root())?, more)?;
        }
        self.hash.update(chunk);
        self.file
            .write_all(chunk)
            .map_err(|error| StoreError::io("write", &self.path, &error))
    }

    /// Syncs the file and gives it its final name. The returned pin keeps it until it has a row.
    fn finish(mut self, expected: Option<Digest>) -> Result<(Blob, Pin), StoreError> {
        let found = Digest::from_bytes(std::mem::take(&mut self.hash).finalize().into());
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            return Err(StoreError::DigestMismatch { expected, found });
        }
        self.file
            .sync_all()
            .map_err(|error| StoreError::io("sync", &self.path, &error))?;
        let pin = Pin::new(&self.shared, found);
        let path = self.shared.place.blob(found);
        let new = self
            .name(found, &path)
            .map_err(|error| StoreError::io("write", &path, &error))?;
        let blob = Blob {
            digest: found,
            bytes: self.size,
            new,
        };
        Ok((blob, pin))
    }

    /// Names the file. Returns `false` if the same bytes were stored already.
    fn name(&self, digest: Digest, path: &Path) -> io::Result<bool> {
        let new = !self.is_at(digest, path);
        if new {
            fs::rename(&self.path, path)?;
        }
        // Also if they were: whoever named them may have died before the sync.
        if let Some(folder) = path.parent() {
            sync_folder(folder)?;
        }
        Ok(new)
    }

    /// Whether the same bytes are stored at `path`. Reads them all, so that an upload repairs what the disk damaged.
    fn is_at(&self, digest: Digest, path: &Path) -> bool {
        let same = || -> io::Result<bool> {
            let file = File::open(path)?;
            Ok(file.metadata()?.len() == self.size && Digest::of_file(file)? == digest)
        };
        match same() {
            Ok(true) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            other => {
                let path = path.display();
                tracing::error!("{path} is damaged, and is replaced by what was sent: {other:?}");
                false
            }
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.path.display(), %error, "cannot be removed");
            }
            _ => {}
        }
    }
}

/// Runs file work off the runtime's thread. It completes even if nobody awaits it.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_cancelled) => Err(StoreError::Closed),
        },
    }
}
