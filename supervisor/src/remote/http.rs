//! Sends one request over one connection and reads its answer, in bounded time and of bounded size.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use futures_util::{StreamExt, stream};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::{Refused, RemoteError};
use super::place::Place;
use crate::process::workers;

/// Longest wait for a connection, and longest silence within an answer.
const SILENCE: Duration = Duration::from_secs(60);
/// An upload that is slower than this counts as stalled.
const LEAST_BYTES_A_SECOND: u64 = 1 << 20;
/// Longest answer that is read whole, in bytes: a page of jobs with thousands of files each.
const MOST: usize = 64 << 20;
/// Bytes that are read from disk and sent at once.
const CHUNK: u64 = 256 << 10;

/// What is sent.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Nothing.
    None,
    /// JSON.
    Json(Bytes),
    /// A file, its size in bytes, and a counter of the bytes sent so far.
    File(Arc<File>, u64, Arc<AtomicU64>),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// `GET`, `PUT`, …
    pub method: Method,
    /// Path with its query.
    pub path: String,
    /// Headers beyond those of every request.
    pub headers: Vec<(HeaderName, String)>,
    /// Its body.
    pub payload: Payload,
}

/// An answer whose body is still to be read.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    body: BodyDataStream,
    place: String,
}

impl Ask {
    /// A request without a body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: Vec::new(),
            payload: Payload::None,
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sends the request.
    ///
    /// # Errors
    /// Nothing answers.
    pub async fn send(&self, place: &Place) -> Result<Answer, RemoteError> {
        let lost = |why: String| RemoteError::Unreachable {
            why: format!("the sidecar at {} is lost: {why}", place.shown()),
            absent: false,
        };
        let silent = |_| lost(format!("it was silent for {} s", SILENCE.as_secs()));
        let mut sender = timeout(SILENCE, place.connect()).await.map_err(silent)??;
        let patience = match &self.payload {
            Payload::File(_, bytes, _) => Duration::from_secs(bytes / LEAST_BYTES_A_SECOND),
            Payload::None | Payload::Json(_) => Duration::ZERO,
        };
        let answer = timeout(
            SILENCE + patience,
            sender.send_request(self.request(place)?),
        )
        .await
        .map_err(silent)?
        .map_err(|error| match error.is_parse() {
            true => RemoteError::Garbled(error.to_string()),
            false => lost(error.to_string()),
        })?;
        let (head, body) = answer.into_parts();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body: Body::new(body).into_data_stream(),
            place: place.shown(),
        })
    }

    fn request(&self, place: &Place) -> Result<Request<Body>, RemoteError> {
        let wrong = |error: String| RemoteError::Garbled(format!("{}: {error}", self.path));
        let body = match &self.payload {
            Payload::None => Body::empty(),
            Payload::Json(bytes) => Body::from(bytes.clone()),
            Payload::File(file, bytes, sent) => {
                contents(Arc::clone(file), *bytes, Arc::clone(sent))
            }
        };
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.path)
            .header(header::HOST, place.host())
            .header(header::CONNECTION, "close")
            .body(body)
            .map_err(|error| wrong(error.to_string()))?;
        let mut put = |name: HeaderName, value: &str| {
            let value = HeaderValue::from_str(value).map_err(|error| wrong(error.to_string()))?;
            request.headers_mut().insert(name, value);
            Ok::<(), RemoteError>(())
        };
        if let Place::Tcp { token, .. } = place {
            put(header::AUTHORIZATION, &format!("Bearer {token}"))?;
        }
        match &self.payload {
            Payload::None => {}
            Payload::Json(_) => put(header::CONTENT_TYPE, "application/json")?,
            Payload::File(_, bytes, _) => {
                put(header::CONTENT_TYPE, "application/octet-stream")?;
                put(header::CONTENT_LENGTH, &bytes.to_string())?;
            }
        }
        for (name, value) in &self.headers {
            put(name.clone(), value)?;
        }
        Ok(request)
    }
}

/// A body of the file's bytes, which other threads read as they are sent.
fn contents(file: Arc<File>, size: u64, sent: Arc<AtomicU64>) -> Body {
    sent.store(0, Ordering::Relaxed);
    Body::from_stream(stream::unfold(0, move |at| {
        let (file, sent) = (Arc::clone(&file), Arc::clone(&sent));
        async move {
            if at >= size {
                return None;
            }
            let length = CHUNK.min(size - at);
            let read = workers::run(move || {
                let mut chunk = vec![0; usize::try_from(length).unwrap_or(0)];
                file.read_exact_at(&mut chunk, at).map(|()| chunk)
            });
            let chunk = match read.await {
                Ok(Ok(chunk)) => chunk,
                Ok(Err(error)) => return Some((Err(error), size)),
                Err(gone) => return Some((Err(std::io::Error::other(gone)), size)),
            };
            sent.store(at + length, Ordering::Relaxed);
            Some((Ok(Bytes::from(chunk)), at + length))
        }
    }))
}

impl Answer {
    /// A header's text.
    pub fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The next bytes; `None` at the end. `silence` is how long they may take.
    ///
    /// # Errors
    /// The connection broke off.
    pub async fn chunk(&mut self, silence: Duration) -> Result<Option<Bytes>, RemoteError> {
        let lost = |why: String| RemoteError::Unreachable {
            why: format!("the sidecar at {} is lost: {why}", self.place),
            absent: false,
        };
        match timeout(silence, self.body.next()).await {
            Err(_) => Err(lost(format!("it was silent for {} s", silence.as_secs()))),
            Ok(None) => Ok(None),
            Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
            Ok(Some(Err(error))) => Err(lost(error.to_string())),
        }
    }

    /// The whole body.
    ///
    /// # Errors
    /// The connection broke off, or it is too large.
    pub async fn bytes(mut self) -> Result<Vec<u8>, RemoteError> {
        let mut all = Vec::new();
        while let Some(bytes) = self.chunk(SILENCE).await? {
            if all.len() + bytes.len() > MOST {
                return Err(RemoteError::Garbled(format!("more than {MOST} bytes")));
            }
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// The connection broke off, or the body is not JSON of this shape.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, RemoteError> {
        let bytes = self.bytes().await?;
        serde_json::from_slice(&bytes).map_err(|error| RemoteError::Garbled(error.to_string()))
    }

    /// The answer itself, if it is a success.
    ///
    /// # Errors
    /// The refusal, otherwise.
    pub async fn success(self) -> Result<Self, RemoteError> {
        if self.status.is_success() {
            return Ok(self);
        }
        let status = self.status;
        let after = self.header(header::RETRY_AFTER).map(str::to_owned);
        let body = self.bytes().await?;
        Err(RemoteError::Refused(Refused::read(
            status,
            after.as_deref(),
            &body,
        )))
    }
}
