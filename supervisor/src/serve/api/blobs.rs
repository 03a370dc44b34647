//! Bytes under their SHA-256 → a blob in the store, once, however often it is sent.

use std::io::ErrorKind;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use serde_json::{Value, json};

use super::artifact::{self, Given};
use super::document as doc;

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
        _ => artifact::unreadable(&name, &error),
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

/// For the document.
pub(super) fn about() -> Value {
    let given = |description| {
        let link = json!({ "operationId": "headBlob", "parameters": { "digest": "$request.path.digest" } });
        json!({ "description": description, "links": { "headBlob": link } })
    };
    let all = doc::bytes(doc::BYTES);
    json!({
        "parameters": [doc::in_path("digest", doc::sha256())],
        "put": doc::operation(
            "putBlob",
            "Send bytes under their SHA-256",
            json!({ "requestBody": { "required": true, "content": { (doc::BYTES): { "schema": all } } } }),
            json!({
                "200": given("There already"),
                "201": given("Kept"),
                "400": doc::problem("No SHA-256, or the body broke off: invalid_request"),
                "408": doc::problem("The body came too slowly: request_timeout"),
                "409": doc::problem("Other bytes: digest_mismatch"),
                "413": doc::problem("Too large: payload_too_large"),
                "503": doc::not_now(),
                "507": doc::problem("The disk has no room for more bytes, or for another file: insufficient_storage"),
            }),
        ),
        "get": doc::operation(
            "getBlob",
            "Bytes that were sent, for as long as they are kept",
            json!({ "parameters": doc::headers(&artifact::HEADERS) }),
            json!({
                "200": doc::answer("All of it", doc::BYTES, all.clone()),
                "206": doc::answer("A range", doc::BYTES, all),
                "304": doc::bare("As the caller has it"),
                "400": doc::problem("No SHA-256: invalid_request"),
                "404": doc::problem("Never sent, or expired: not_found"),
                "416": doc::problem("No such bytes: range_not_satisfiable"),
                "500": doc::problem("The file cannot be read: internal"),
                "503": doc::not_now(),
            }),
        ),
        // Which has no bodies.
        "head": {
            "operationId": "headBlob",
            "summary": "Whether the bytes are there",
            "responses": {
                "200": doc::bare("They are"),
                "400": doc::bare("No SHA-256"),
                "401": doc::bare("By TCP, without the token"),
                "403": doc::bare("Not for this caller"),
                "404": doc::bare("They are not"),
                "503": doc::bare("Not now"),
            },
        },
    })
}
