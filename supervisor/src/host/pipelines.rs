//! The pipeline cache: keeps on disk what a driver compiled for one process, and hands it to the next process on the
//! same adapter, driver and build.
//!
//! ```text
//!  Ready {key} ─► load ─► Pipelines + fd ─► the driver compiles what is missing ─► Allocate, Filled, Compiled ─► store
//!  a failure that the cached pipelines may have caused ─► they are removed; the retry gets none
//! ```
//!
//! Workers cannot reach the files. What they hand over is taken only before they get any data, so nothing that a mesh
//! or a picture does to a worker reaches the next job's driver. A job never fails because of its pipelines: any fault
//! of a file is one line of the log, and the file is replaced. See [`mod@file`] for what is checked.

pub mod file;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto::blob::Blob;
use proto::message::Code;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::home;
use crate::process::verdict::Exit;
use crate::process::workers;
use crate::store::Digest;
use crate::words::chain;

use self::file::Folder;

/// A bake waits for cached pipelines no longer than this: compiling takes about as long.
const PATIENCE: Duration = Duration::from_millis(500);
/// At the end, files that are still being written get this much time.
const SETTLE: Duration = Duration::from_secs(1);
/// After this many failures of processes that were given the same pipelines, nothing is cached under their key any
/// more.
const DEATHS: u32 = 2;

/// What pipelines depend on: adapter, driver and build.
pub type Key = Digest;

/// The key of the pipelines that a worker offers.
pub fn key(offer: &str) -> Key {
    Digest::of(format!("{}|{offer}", proto::BUILD_ID))
}

/// `$XDG_CACHE_HOME/kiln/pipelines`, by default beneath `~/.cache`.
pub fn default_folder() -> Option<PathBuf> {
    Some(home::folder("XDG_CACHE_HOME", ".cache")?.join("kiln/pipelines"))
}

/// The folder of the cache for the option `asked`; `none` switches it off.
pub fn folder(asked: Option<PathBuf>) -> Option<PathBuf> {
    match asked {
        Some(folder) if folder.as_os_str() == "none" => None,
        Some(folder) => Some(folder),
        None => default_folder(),
    }
}

/// Whether cached pipelines may have caused a bake's failure. Before its stages are compiled almost any failure may be
/// theirs; later only one of its driver.
pub fn suspected(code: Code, exit: &Exit, compiled: bool) -> bool {
    match code {
        Code::GpuDeviceLost | Code::GpuHang | Code::ShaderRejected | Code::IncompleteOutput => true,
        Code::WorkerCrashed => !compiled || exit.is_own_doing(),
        Code::WorkerStalled | Code::OutOfDeviceMemory | Code::Internal | Code::SandboxViolation => {
            !compiled
        }
        Code::InvalidSpec
        | Code::InvalidAsset
        | Code::MissingInput
        | Code::LimitExceeded
        | Code::UnsupportedFeature
        | Code::OutOfHostMemory
        | Code::NoAdapter
        | Code::DeadlineExceeded
        | Code::SpawnFailed
        | Code::ProtocolViolation
        | Code::OutputError
        | Code::Cancelled
        | Code::BinaryMismatch
        | Code::SandboxUnavailable
        | Code::IoError => false,
    }
}

/// The pipeline cache. Cheap to clone; off by default.
#[derive(Clone, Debug, Default)]
pub struct Vault(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    folder: Folder,
    /// Failures of processes that were given the pipelines of a key.
    deaths: Mutex<HashMap<Key, u32>>,
    /// Files that are being written.
    writing: Mutex<Vec<oneshot::Receiver<()>>>,
}

impl Vault {
    /// A cache in this folder, which need not exist; `None` switches it off.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self(folder.map(|path| {
            Arc::new(Shared {
                folder: Folder::new(path),
                deaths: Mutex::default(),
                writing: Mutex::default(),
            })
        }))
    }

    /// Whether pipelines of this key are cached.
    pub fn keeps(&self, key: &Key) -> bool {
        (self.0.as_ref()).is_some_and(|shared| {
            let deaths = lock(&shared.deaths);
            deaths.get(key).is_none_or(|&count| count < DEATHS)
        })
    }

    /// The cached pipelines, if there are any and they can be read in time.
    pub async fn load(self, key: Key) -> Option<Arc<Blob>> {
        let shared = self.0?;
        let loaded = workers::run(move || match shared.folder.load(&key) {
            Ok(blob) => blob.map(Arc::new),
            Err(doubt) => {
                tracing::debug!("kept pipelines are not used: {}", chain(&doubt));
                None
            }
        });
        match timeout(PATIENCE, loaded).await {
            Ok(loaded) => loaded.ok().flatten(),
            Err(_elapsed) => {
                tracing::debug!("kept pipelines are not used: their file system does not answer");
                None
            }
        }
    }

    /// Writes pipelines to the cache on another thread.
    pub fn store(&self, key: Key, pipelines: Arc<Blob>) {
        self.write(move |folder| folder.store(&key, &pipelines), "kept");
    }

    /// A process that was given the pipelines of this key has failed: removes them.
    pub fn blame(&self, key: Key) {
        if let Some(shared) = &self.0 {
            *lock(&shared.deaths).entry(key).or_default() += 1;
        }
        self.write(move |folder| folder.remove(&key), "removed");
    }

    /// Waits, for a bounded time, until all pending writes are done.
    pub async fn settle(&self) {
        let Some(shared) = &self.0 else { return };
        let writing = std::mem::take(&mut *lock(&shared.writing));
        let all = async {
            for one in writing {
                // A write that panicked is done, too.
                drop(one.await);
            }
        };
        if timeout(SETTLE, all).await.is_err() {
            tracing::debug!("pipelines are not kept: their file system does not answer");
        }
    }

    fn write(
        &self,
        work: impl FnOnce(&Folder) -> Result<(), file::Doubt> + Send + 'static,
        what: &'static str,
    ) {
        let Some(shared) = &self.0 else { return };
        let of = Arc::clone(shared);
        let done = workers::run(move || match work(&of.folder) {
            Ok(()) => tracing::debug!("pipelines {what}"),
            Err(doubt) => tracing::debug!("pipelines are not {what}: {}", chain(&doubt)),
        });
        let mut writing = lock(&shared.writing);
        writing.retain(|one| one.is_empty());
        writing.push(done);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
