//! Bytes under their SHA-256 → a blob in the store, once, however often it is sent.

use std::io::ErrorKind;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};

use super::artifact::Given;

use crate::serve::problem::{Code, Problem};
use crate::serve::service::Service;
use crate::store::Digest;

/// What a path's last part must be.
fn digest(text: &str) -> Result<Digest, Problem> {
    text.parse().map_err(|_| {
        Problem::new(
            Code::InvalidRequest,
            "a blob is named by its SHA-256 in 64 small hex digits",
        )
    })
}

/// `PUT /v1/blobs/{sha256}`.
pub async fn put(
    State(service): State<Service>,
    Path(name): Path<String>,
    body: Body,
) -> Result<Response, Problem> {
    let digest = digest(&name)?;
    if service.draining() {
        return Err(super::submit::draining());
    }
    if service.store.blob(digest).await?.is_some() {
        return Ok(StatusCode::OK.into_response());
    }
    let announced = http_body::Body::size_hint(&body).exact();
    keep(&service, announced, whole(body), Some(digest)).await?;
    Ok(StatusCode::CREATED.into_response())
}

/// `GET`, `HEAD /v1/blobs/{sha256}`.
pub async fn get(
    State(service): State<Service>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let digest = digest(&name)?;
    let missing = || Problem::new(Code::NotFound, "no such blob: never sent, or expired");
    let bytes = service.store.blob(digest).await?.ok_or_else(missing)?;
    let given = Given {
        path: service.store.blob_path(digest),
        name: &name,
        bytes,
        tag: format!("\"{name}\""),
        media_type: "application/octet-stream",
    };
    given.answer(&headers).map_err(|error| match error.kind() {
        // It expired in this moment.
        ErrorKind::NotFound => missing(),
        _ => super::artifact::unreadable(&name, &error),
    })
}

/// A request's body alone.
pub fn whole(body: Body) -> impl Stream<Item = Result<Bytes, Problem>> {
    let chunks = body.into_data_stream();
    chunks.map(|chunk| chunk.map_err(|error| Problem::broken_off(&error)))
}

/// Takes all of the bytes into the store; gives its digest. A body that breaks off leaves nothing.
///
/// # Errors
/// It breaks off, is too large, or is not what was promised.
pub async fn keep<E: Into<Problem>>(
    service: &Service,
    announced: Option<u64>,
    chunks: impl Stream<Item = Result<Bytes, E>>,
    expected: Option<Digest>,
) -> Result<Digest, Problem> {
    let mut upload = service.store.upload(announced).await?;
    let mut chunks = std::pin::pin!(chunks);
    while let Some(chunk) = chunks.next().await {
        upload.write(chunk.map_err(Into::into)?).await?;
    }
    Ok(upload.finish(expected).await?.digest)
}
