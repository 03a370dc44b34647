//! An object store, or a folder with the same meaning → bytes by name beneath a prefix.
//!
//! Requests that fail are repeated by `object_store` itself: 5xx, lost connections and bodies that break off. Whole
//! objects that matter are checked against their SHA-256 here, and fetched anew if they differ.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutPayload, WriteMultipart,
};
use sha2::{Digest, Sha256};
use url::Url;

use crate::FleetError;

/// Bytes of one part of an upload; smaller files are sent in one request.
const PART: u64 = 8 << 20;
/// Parts of one upload under way at once.
const PARTS: usize = 4;
/// Largest object that is read whole.
const MOST: u64 = 64 << 20;
/// Transfers of one object before it counts as damaged.
const TRANSFERS: u32 = 3;
/// Time limits of a request, where the environment names none.
const LIMITS: [(&str, &str); 2] = [("timeout", "5 minutes"), ("connect_timeout", "10 seconds")];

/// A part of a store.
#[derive(Clone, Debug)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    base: Path,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name within the bucket.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

impl Bucket {
    /// Opens `s3://bucket/prefix`, `gs://…`, `az://…`, `file:///folder` or a folder's path. Keys and endpoints come from the variables
    /// that the store's own tools read: `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `GOOGLE_SERVICE_ACCOUNT`, …
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn open(address: &str) -> Result<Self, FleetError> {
        // Fails where a provider is set already, which is as well.
        drop(rustls::crypto::ring::default_provider().install_default());
        let bad = |why: String| FleetError::Usage(format!("the store {address}: {why}"));
        let url = match Url::parse(address) {
            Ok(url) => url,
            Err(_) => {
                let folder = std::path::absolute(PathBuf::from(address))
                    .map_err(|error| bad(error.to_string()))?;
                Url::from_directory_path(folder).map_err(|()| bad("is no folder".to_owned()))?
            }
        };
        let variables = std::env::vars().filter_map(|(name, value)| {
            let name = name.to_ascii_lowercase();
            let known = ["aws_", "google_", "azure_"];
            known
                .iter()
                .any(|start| name.starts_with(start))
                .then_some((name, value))
        });
        let limits = LIMITS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options = limits.into_iter().chain(variables);
        let (store, base) =
            object_store::parse_url_opts(&url, options).map_err(|error| bad(error.to_string()))?;
        Ok(Self {
            store: Arc::from(store),
            base,
        })
    }

    /// What lies beneath a folder of this one.
    #[must_use]
    pub fn within(&self, folder: &str) -> Self {
        Self {
            store: Arc::clone(&self.store),
            base: self.path(folder),
        }
    }

    fn path(&self, name: &str) -> Path {
        let base = self.base.as_ref();
        match base.is_empty() {
            true => Path::from(name),
            false => Path::from(format!("{base}/{name}")),
        }
    }

    /// Writes a small object, over an older one.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn put(&self, name: &str, bytes: impl Into<Bytes>) -> Result<(), FleetError> {
        let payload = PutPayload::from_bytes(bytes.into());
        let put = self.store.put(&self.path(name), payload).await;
        put.map(drop).map_err(|error| failed(name, &error))
    }

    /// Writes a small object if there is none. Returns whether there was none.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn create(&self, name: &str, bytes: impl Into<Bytes>) -> Result<bool, FleetError> {
        let payload = PutPayload::from_bytes(bytes.into());
        let path = self.path(name);
        let put = self.store.put_opts(&path, payload, PutMode::Create.into());
        match put.await {
            Ok(_) => Ok(true),
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => Ok(false),
            Err(error) => Err(failed(name, &error)),
        }
    }

    /// Reads a small object; `None` if there is none.
    ///
    /// # Errors
    /// The store does not answer, or the object is too large.
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>, FleetError> {
        let got = match self.store.get(&self.path(name)).await {
            Ok(got) => got,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed(name, &error)),
        };
        if got.meta.size > MOST {
            let message = format!("{name} in the store has {} bytes", got.meta.size);
            return Err(FleetError::Damaged(message));
        }
        let bytes = got.bytes().await.map_err(|error| failed(name, &error))?;
        Ok(Some(bytes))
    }

    /// Whether there is such an object.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn has(&self, name: &str) -> Result<bool, FleetError> {
        match self.store.head(&self.path(name)).await {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(failed(name, &error)),
        }
    }

    /// Removes an object, be it there or not.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn remove(&self, name: &str) -> Result<(), FleetError> {
        match self.store.delete(&self.path(name)).await {
            Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(name, &error)),
        }
    }

    /// The objects beneath a folder, by name; only those after `from` within it, if it is not empty.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn list(&self, folder: &str, from: &str) -> Result<Vec<Entry>, FleetError> {
        let path = self.path(folder);
        let all = match from {
            "" => self.store.list(Some(&path)),
            from => {
                let from = self.path(&format!("{folder}/{from}"));
                self.store.list_with_offset(Some(&path), &from)
            }
        };
        let base = self.base.as_ref();
        let entries = all.map_ok(|meta| {
            let whole = meta.location.as_ref();
            let within = whole.strip_prefix(base).unwrap_or(whole);
            Entry {
                name: within.trim_start_matches('/').to_owned(),
                bytes: meta.size,
            }
        });
        let mut entries: Vec<Entry> = entries
            .try_collect()
            .await
            .map_err(|error| failed(folder, &error))?;
        entries.sort_by(|one, next| one.name.cmp(&next.name));
        Ok(entries)
    }

    /// Sends a file of this size and SHA-256, in parts if it is large. `tell` gets the bytes sent so far. Nothing appears if the
    /// file has changed.
    ///
    /// # Errors
    /// The file cannot be read or has changed, or the store does not take it.
    pub async fn send(
        &self,
        name: &str,
        file: &Arc<File>,
        bytes: u64,
        sha256: &str,
        mut tell: impl FnMut(u64),
    ) -> Result<(), FleetError> {
        let changed = || FleetError::Damaged(format!("{name} has changed since it was read"));
        if bytes <= PART {
            let whole = read(name, file, 0, bytes).await?;
            if hex(&Sha256::digest(&whole)) != sha256 {
                return Err(changed());
            }
            self.put(name, whole).await?;
            tell(bytes);
            return Ok(());
        }
        let wrong = |error: StoreError| failed(name, &error);
        let upload = self.store.put_multipart(&self.path(name)).await;
        let mut parts = WriteMultipart::new_with_chunk_size(
            upload.map_err(wrong)?,
            usize::try_from(PART).unwrap_or(usize::MAX),
        );
        let (mut at, mut hash) = (0, Sha256::new());
        let sent = loop {
            if at == bytes {
                break match hex(&hash.finalize()) == sha256 {
                    true => Ok(()),
                    false => Err(changed()),
                };
            }
            let length = PART.min(bytes - at);
            let step = async {
                parts.wait_for_capacity(PARTS).await.map_err(wrong)?;
                read(name, file, at, length).await
            };
            match step.await {
                Ok(chunk) => {
                    hash.update(&chunk);
                    parts.put(chunk);
                }
                Err(error) => break Err(error),
            }
            at += length;
            tell(at);
        };
        if let Err(error) = sent {
            // What stays behind of it is the store's to expire.
            drop(parts.abort().await);
            return Err(error);
        }
        parts.finish().await.map(drop).map_err(wrong)
    }

    /// Fetches an object that must have this size and SHA-256. `begin` makes what `push` fills, anew for each transfer.
    ///
    /// # Errors
    /// It differs each time, the store does not answer, or `begin` or `push` fails.
    pub async fn fetch<T, E: From<FleetError>>(
        &self,
        name: &str,
        bytes: u64,
        sha256: &str,
        mut begin: impl FnMut() -> Result<T, E>,
        mut push: impl FnMut(&mut T, &[u8]) -> Result<(), E>,
    ) -> Result<T, E> {
        let mut last = FleetError::Damaged(String::new());
        for _ in 0..TRANSFERS {
            let mut copy = begin()?;
            let (mut hash, mut at) = (Sha256::new(), 0);
            let got = self.store.get(&self.path(name)).await;
            let got = match got {
                Ok(got) => got,
                Err(error) => return Err(failed(name, &error).into()),
            };
            let mut chunks = got.into_stream();
            let broken = loop {
                match chunks.next().await {
                    None => break None,
                    Some(Err(error)) => break Some(failed(name, &error)),
                    Some(Ok(chunk)) => {
                        at += chunk.len() as u64;
                        if at > bytes {
                            break None;
                        }
                        hash.update(&chunk);
                        push(&mut copy, &chunk)?;
                    }
                }
            };
            if broken.is_none() && at == bytes && hex(&hash.finalize()) == sha256 {
                return Ok(copy);
            }
            last = broken.unwrap_or_else(|| {
                let message =
                    format!("{name} came from the store with other bytes than it was put there");
                FleetError::Damaged(message)
            });
            tracing::warn!(name, "a transfer is repeated: {last}");
        }
        Err(last.into())
    }
}

/// Reads a part of a file on another thread.
async fn read(name: &str, file: &Arc<File>, at: u64, length: u64) -> Result<Bytes, FleetError> {
    let file = Arc::clone(file);
    let read = tokio::task::spawn_blocking(move || {
        let mut chunk = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut chunk, at).map(|()| chunk)
    });
    let wrong = |why: String| FleetError::Damaged(format!("{name} cannot be read: {why}"));
    let chunk = read.await.map_err(|error| wrong(error.to_string()))?;
    chunk
        .map(Bytes::from)
        .map_err(|error| wrong(error.to_string()))
}

fn failed(name: &str, error: &StoreError) -> FleetError {
    let message = format!("the store at {name}: {error}");
    match error {
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
            FleetError::Denied(message)
        }
        StoreError::NotFound { .. } => FleetError::Damaged(message),
        _ => FleetError::Unreachable(message),
    }
}

/// Hexadecimal digits in lower case.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn open() -> (tempfile::TempDir, Bucket) {
        let folder = tempfile::tempdir().expect("a folder");
        let bucket = Bucket::open(&folder.path().join("a store").to_string_lossy());
        (folder, bucket.expect("a folder is a store"))
    }

    #[tokio::test]
    async fn an_object_is_created_once_and_listed_after_a_name() {
        let (_folder, bucket) = open();
        let bucket = bucket.within("tenant");
        assert!(bucket.create("jobs/b/spec.json", "1").await.expect("room"));
        assert!(!bucket.create("jobs/b/spec.json", "2").await.expect("room"));
        bucket.put("jobs/a/spec.json", "3").await.expect("room");
        let got = bucket.get("jobs/b/spec.json").await.expect("there");
        assert_eq!(got.as_deref(), Some(&b"1"[..]));
        assert_eq!(bucket.get("jobs/c").await.expect("an answer"), None);
        let names = |entries: Vec<Entry>| -> Vec<String> {
            entries.into_iter().map(|entry| entry.name).collect()
        };
        let all = bucket.list("jobs", "").await.expect("a list");
        assert_eq!(names(all), ["jobs/a/spec.json", "jobs/b/spec.json"]);
        let after = bucket.list("jobs", "b").await.expect("a list");
        assert_eq!(names(after), ["jobs/b/spec.json"]);
        bucket.remove("jobs/a/spec.json").await.expect("gone");
        bucket.remove("jobs/a/spec.json").await.expect("gone");
        assert!(!bucket.has("jobs/a/spec.json").await.expect("an answer"));
    }

    #[tokio::test]
    async fn a_large_file_goes_in_parts_and_comes_back_only_as_it_was() {
        let (_folder, bucket) = open();
        let mut file = tempfile::tempfile().expect("a file");
        let bytes: Vec<u8> = (0..PART * 2 + 7).map(|at| (at % 251) as u8).collect();
        file.write_all(&bytes).expect("room");
        let (file, size) = (Arc::new(file), bytes.len() as u64);
        let digest = hex(&Sha256::digest(&bytes));
        let mut told = Vec::new();
        let wrong = "0".repeat(64);
        let other = bucket.send("blobs/x", &file, size, &wrong, |_| ());
        other.await.expect_err("other bytes than were promised");
        assert!(!bucket.has("blobs/x").await.expect("an answer"));
        bucket
            .send("blobs/x", &file, size, &digest, |sent| told.push(sent))
            .await
            .expect("sent");
        assert_eq!(told, [PART, PART * 2, size]);
        let fetch = |size, digest: String| {
            let bucket = bucket.clone();
            async move {
                let push = |copy: &mut Vec<u8>, chunk: &[u8]| {
                    copy.extend_from_slice(chunk);
                    Ok::<_, FleetError>(())
                };
                bucket
                    .fetch("blobs/x", size, &digest, || Ok(Vec::new()), push)
                    .await
            }
        };
        assert!(fetch(size, digest.clone()).await.expect("there") == bytes);
        for (size, digest) in [(size, "0".repeat(64)), (size - 1, digest)] {
            let error = fetch(size, digest).await.expect_err("other bytes");
            assert!(matches!(error, FleetError::Damaged(_)), "{error}");
        }
    }
}
