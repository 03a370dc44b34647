//! A file that a job made, or was given → its bytes, whole or a range of them (RFC 9110, section 14), under a tag that is their SHA-256.

use std::fs::File;
use std::future::ready;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Map, Value, json};

use super::{document as doc, job};
use crate::serve::listen::Peer;
use crate::serve::problem::{Code, Problem};
use crate::serve::service::Service;
use crate::serve::work;

/// Read and sent at once.
const CHUNK: u64 = 256 << 10;

/// `GET /v1/jobs/{id}/artifacts/{name}`.
pub async fn get(
    State(service): State<Service>,
    Extension(peer): Extension<Peer>,
    Path((id, name)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (stored, _) = job::find(&service, &peer, &id).await?;
    if !stored.state.is_terminal() {
        return Err(Problem::new(Code::JobNotFinished, "its events tell when it is").after(1));
    }
    let artifact = stored
        .artifacts
        .iter()
        .find(|artifact| artifact.name == name)
        .ok_or_else(|| {
            Problem::new(
                Code::NotFound,
                "the job made no such file; its artifacts name those it made",
            )
        })?;
    let given = Given {
        path: service.store.artifact_path(stored.id, artifact),
        name: &artifact.name,
        bytes: artifact.bytes,
        tag: format!("\"{}\"", artifact.digest),
        media_type: &artifact.media_type,
    };
    let answer = given
        .answer(&headers)
        .map_err(|error| unreadable(&name, &error))?;
    // The first one is the model; the page shows the others by itself.
    let model = stored
        .artifacts
        .first()
        .is_some_and(|first| first.name == name);
    if model
        && !stored.fetched
        && method == Method::GET
        && let Err(error) = service.store.fetched(stored.id).await
    {
        tracing::warn!("{} counts as not fetched: {error}", stored.id);
    }
    Ok(answer)
}

/// What should be there, and is not.
pub(super) fn unreadable(name: &str, error: &io::Error) -> Problem {
    Problem::new(Code::Internal, format!("{name} cannot be read: {error}"))
}

/// A file that never changes.
pub(super) struct Given<'a> {
    pub(super) path: PathBuf,
    /// Under which a browser would save it.
    pub(super) name: &'a str,
    pub(super) bytes: u64,
    /// In quotes.
    pub(super) tag: String,
    pub(super) media_type: &'a str,
}

impl Given<'_> {
    /// What the headers ask for of it.
    pub(super) fn answer(self, headers: &HeaderMap) -> io::Result<Response> {
        let Self { bytes, tag, .. } = self;
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        if text(header::IF_NONE_MATCH)
            .is_some_and(|tags| tags.split(',').any(|known| known.trim() == tag))
        {
            return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
        }
        let fresh = text(header::IF_RANGE).is_none_or(|known| known == tag);
        let range = text(header::RANGE)
            .filter(|_| fresh)
            .map(|text| range(text, bytes));
        let (status, from, to) = match range {
            Some(Range::Part { from, to }) => (StatusCode::PARTIAL_CONTENT, from, to),
            Some(Range::Beyond) => {
                let problem =
                    Problem::new(Code::RangeNotSatisfiable, format!("it has {bytes} bytes"));
                let all = format!("bytes */{bytes}");
                return Ok(([(header::CONTENT_RANGE, all)], problem).into_response());
            }
            Some(Range::Ignored) | None => (StatusCode::OK, 0, bytes),
        };
        let file = File::open(&self.path)?;
        let mut response = (status, body(file, from, to)).into_response();
        let mut put = |name: HeaderName, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        };
        put(header::CONTENT_LENGTH, (to - from).to_string());
        put(header::CONTENT_TYPE, self.media_type.to_owned());
        put(header::ETAG, tag);
        put(header::ACCEPT_RANGES, "bytes".to_owned());
        put(header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned());
        // A page that a job made is nothing in the sidecar's own origin, even where it is shown.
        put(header::CONTENT_SECURITY_POLICY, "sandbox".to_owned());
        put(
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{}\"", self.name),
        );
        if status == StatusCode::PARTIAL_CONTENT {
            put(
                header::CONTENT_RANGE,
                format!("bytes {from}-{}/{bytes}", to - 1),
            );
        }
        Ok(response)
    }
}

/// Bytes from `from` to before `to`, read as they are sent.
fn body(file: File, from: u64, to: u64) -> Body {
    Body::from_stream(stream::unfold((file, from), move |(file, at)| {
        if at >= to {
            return ready(None);
        }
        let mut chunk = vec![0; usize::try_from(CHUNK.min(to - at)).unwrap_or(0)];
        ready(match file.read_exact_at(&mut chunk, at) {
            Ok(()) => {
                let next = at + chunk.len() as u64;
                Some((Ok(Bytes::from(chunk)), (file, next)))
            }
            // The connection breaks off: the length that was promised tells the reader.
            Err(error) => Some((Err(error), (file, to))),
        })
    }))
}

/// What a `Range` header asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    /// One range.
    Part { from: u64, to: u64 },
    /// Nothing that there is.
    Beyond,
    /// Several ranges, another unit, or nothing that can be read: to be answered with all.
    Ignored,
}

fn range(text: &str, size: u64) -> Range {
    let Some(range) = text
        .strip_prefix("bytes=")
        .filter(|text| !text.contains(','))
    else {
        return Range::Ignored;
    };
    let Some((first, last)) = range.trim().split_once('-') else {
        return Range::Ignored;
    };
    let (from, to) = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => (first, last.saturating_add(1).min(size)),
        (Ok(first), Err(_)) if last.is_empty() => (first, size),
        (Err(_), Ok(last)) if first.is_empty() => (size.saturating_sub(last), size),
        _ => return Range::Ignored,
    };
    if from < to {
        Range::Part { from, to }
    } else {
        Range::Beyond
    }
}

/// The headers that say which bytes are wanted.
pub(super) const HEADERS: [&str; 3] = ["Range", "If-None-Match", "If-Range"];

/// For the document.
pub(super) fn about() -> Value {
    let names = work::ARTIFACTS.map(|(name, _)| name);
    let kinds = ["model/gltf-binary", "image/png", "text/html"];
    let whole = kinds.map(|kind| (kind.to_owned(), json!({ "schema": doc::bytes(kind) })));
    let part = kinds.map(|kind| (kind.to_owned(), json!({})));
    let [mut whole, mut part] = [whole, part].map(Map::from_iter);
    whole.insert(
        doc::JSON.to_owned(),
        json!({ "schema": { "type": "object" } }),
    );
    part.insert(doc::JSON.to_owned(), json!({}));
    json!({
        "parameters": [
            doc::in_path("id", doc::id()),
            doc::in_path("name", json!({ "enum": names })),
        ],
        "get": doc::operation(
            "artifact",
            "A file that the job made",
            json!({ "parameters": doc::headers(&HEADERS) }),
            doc::of_a_job(json!({
                "200": { "description": "All of it", "content": whole },
                "206": { "description": "A range", "content": part },
                "304": doc::bare("As the caller has it"),
                "409": doc::problem("Not yet: job_not_finished"),
                "416": doc::problem("No such bytes: range_not_satisfiable"),
                "500": doc::problem("The file cannot be read: internal"),
            })),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_understood_and_the_rest_is_answered_with_all() {
        for (text, wanted) in [
            ("bytes=0-0", Range::Part { from: 0, to: 1 }),
            ("bytes=2-5", Range::Part { from: 2, to: 6 }),
            ("bytes=2-", Range::Part { from: 2, to: 10 }),
            ("bytes=-3", Range::Part { from: 7, to: 10 }),
            ("bytes=-30", Range::Part { from: 0, to: 10 }),
            ("bytes=5-500", Range::Part { from: 5, to: 10 }),
            ("bytes=10-", Range::Beyond),
            ("bytes=-0", Range::Beyond),
            ("bytes=5-2", Range::Ignored),
            ("bytes=0-1,3-4", Range::Ignored),
            ("lines=0-1", Range::Ignored),
            ("bytes=x-", Range::Ignored),
        ] {
            assert_eq!(range(text, 10), wanted, "{text}");
        }
        assert_eq!(range("bytes=0-", 0), Range::Beyond);
    }
}
