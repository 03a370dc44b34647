//! Uploads files as blobs: each is sent once, and only if the sidecar lacks it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use proto::message::Code;
use tokio::time::interval;

use super::client::{Client, Later};
use super::collect::{Collection, Found, open};
use super::error::RemoteError;
use super::http::{Ask, Payload};
use crate::error::JobError;
use crate::process::opener::Opener;

/// Between two reports about a file under way.
const TICK: Duration = Duration::from_millis(100);

/// Progress of the upload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Files that are done.
    pub files: usize,
    /// Files that the sidecar had already.
    pub known: usize,
    /// Bytes that are done, sent or there already.
    pub bytes: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Sends what is missing, and reports the progress.
///
/// # Errors
/// The sidecar refuses or is gone, or a file has changed.
pub async fn upload(
    client: &Client,
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
        let known = one(client, collection, file, |bytes| {
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

/// Sends one file; returns whether the sidecar had it already.
async fn one(
    client: &Client,
    collection: &Collection,
    file: &Found,
    mut tell: impl FnMut(u64),
) -> Result<bool, RemoteError> {
    let path = format!("/v1/blobs/{}", file.digest);
    let head = Ask::new(Method::HEAD, &path);
    let missing = Some(StatusCode::NOT_FOUND);
    let answer = client.ask(&head, missing, Later::Again).await?;
    if answer.status.is_success() {
        return Ok(true);
    }
    let changed = || {
        let message = format!("{} has changed since it was read", file.name);
        JobError::own(Code::IoError, message, "submit it again")
    };
    let mut opener = Opener::default();
    let content = open(
        &collection.inputs,
        &mut opener,
        file.root,
        &file.name,
        u64::MAX,
    );
    let content = content.await.map_err(|_| changed())?;
    let count = Arc::new(AtomicU64::new(0));
    let content = Arc::new(content);
    let mut put = Ask::new(Method::PUT, &path);
    put.payload = Payload::File(Arc::clone(&content), file.bytes, Arc::clone(&count));
    let mut ticks = interval(TICK);
    let mut putting = std::pin::pin!(client.ask(&put, None, Later::Tell));
    loop {
        tokio::select! {
            answer = &mut putting => {
                let shorter = content.metadata().is_ok_and(|metadata| metadata.len() < file.bytes);
                return match answer {
                    Ok(_) => Ok(false),
                    // The file became shorter, so its end could not be read.
                    Err(RemoteError::Unreachable { .. }) if shorter => Err(changed().into()),
                    Err(error) => Err(error),
                };
            }
            _ = ticks.tick() => tell(count.load(Ordering::Relaxed).min(file.bytes)),
        }
    }
}
