//! Bytes under their SHA-256 → a blob in the store, once, however often it is sent.

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};

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
    keep(&service, announced, body.into_data_stream(), Some(digest)).await?;
    Ok(StatusCode::CREATED.into_response())
}

/// `HEAD /v1/blobs/{sha256}`.
pub async fn head(
    State(service): State<Service>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    Ok(if service.store.blob(digest(&name)?).await?.is_some() {
        StatusCode::OK
    } else {
        StatusCode::NOT_FOUND
    })
}

/// Takes a whole body into the store; gives its digest. A body that breaks off leaves nothing.
///
/// # Errors
/// It breaks off, is too large, or is not what was promised.
pub async fn keep<E: std::fmt::Display>(
    service: &Service,
    announced: Option<u64>,
    chunks: impl Stream<Item = Result<Bytes, E>>,
    expected: Option<Digest>,
) -> Result<Digest, Problem> {
    let mut upload = service.store.upload(announced).await?;
    let mut chunks = std::pin::pin!(chunks);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| {
            Problem::new(Code::InvalidRequest, format!("the body broke off: {error}"))
        })?;
        upload.write(chunk).await?;
    }
    Ok(upload.finish(expected).await?.digest)
}
