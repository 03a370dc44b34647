//! Uploads files as blobs: each is sent once, and only if it is not there.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use tokio::time::interval;

use super::client::{Client, Later};
use super::collect::{Collection, Found};
use super::depot::Depot;
use super::error::RemoteError;
use super::http::{Ask, Payload};
use crate::store::Digest;

/// Between two reports about a file under way.
const TICK: Duration = Duration::from_millis(100);

/// Progress of the upload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Files that are done.
    pub files: usize,
    /// Files that were there already.
    pub known: usize,
    /// Bytes that are done, sent or there already.
    pub bytes: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Sends what is missing, and reports the progress.
///
/// # Errors
/// It is refused, nothing answers, or a file has changed.
pub(crate) async fn upload(
    depot: &impl Depot,
    collection: &Collection,
    mut tell: impl FnMut(Sent),
) -> Result<Sent, RemoteError> {
    let mut seen = BTreeSet::new();
    let files: Vec<&Found> = (collection.files.iter())
        .filter(|file| seen.insert(file.digest))
        .collect();
    let mut sent = Sent {
        total: files.iter().map(|file| file.bytes).sum(),
        ..Sent::default()
    };
    for file in files {
        tell(sent);
        let begun = sent;
        let known = depot.put(collection, file, |bytes| {
            tell(Sent {
                bytes: begun.bytes + bytes,
                ..begun
            });
        });
        sent.known += usize::from(known.await?);
        sent.files += 1;
        sent.bytes += file.bytes;
    }
    tell(sent);
    Ok(sent)
}

impl Client {
    /// Whether the sidecar has a file.
    ///
    /// # Errors
    /// The sidecar refuses, or is gone.
    pub(crate) async fn has(&self, digest: &Digest) -> Result<bool, RemoteError> {
        let head = Ask::new(Method::HEAD, format!("/v1/blobs/{digest}"));
        let missing = Some(StatusCode::NOT_FOUND);
        let answer = self.ask(&head, missing, Later::Again).await?;
        Ok(answer.status.is_success())
    }

    /// Sends one file. `tell` gets the bytes sent so far.
    ///
    /// # Errors
    /// `None` if the file became shorter; otherwise the sidecar refuses, or is gone.
    pub(crate) async fn put(
        &self,
        digest: &Digest,
        content: File,
        bytes: u64,
        mut tell: impl FnMut(u64),
    ) -> Result<(), Option<RemoteError>> {
        let count = Arc::new(AtomicU64::new(0));
        let content = Arc::new(content);
        let mut put = Ask::new(Method::PUT, format!("/v1/blobs/{digest}"));
        put.payload = Payload::File(Arc::clone(&content), bytes, Arc::clone(&count));
        let mut ticks = interval(TICK);
        let mut putting = std::pin::pin!(self.ask(&put, None, Later::Tell));
        loop {
            tokio::select! {
                answer = &mut putting => {
                    let shorter = content.metadata().is_ok_and(|metadata| metadata.len() < bytes);
                    return match answer {
                        Ok(_) => Ok(()),
                        // The file became shorter, so its end could not be read.
                        Err(RemoteError::Unreachable { .. }) if shorter => Err(None),
                        Err(error) => Err(Some(error)),
                    };
                }
                _ = ticks.tick() => tell(count.load(Ordering::Relaxed).min(bytes)),
            }
        }
    }
}
