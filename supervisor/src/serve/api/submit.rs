//! A new job in one of three bodies → in the store, on disk, and only then accepted.
//!
//! | content type | inputs |
//! |---|---|
//! | `application/json` | paths beneath the roots, or blobs sent before |
//! | `multipart/form-data` | `spec` (JSON), `mesh`, `views` and any number of `file` parts |
//! | `application/safetensors` | the body, with the spec in the query: `?spec={…}` |

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};

use super::{blobs, document as doc, form, job};
use crate::options::JobOptions;
use crate::serve::board::Now;
use crate::serve::listen::Peer;
use crate::serve::problem::{Code, Problem};
use crate::serve::service::Service;
use crate::serve::steady::Slow;
use crate::store::{Accepted, Job, NewJob, SPEC_BYTES};

/// Bytes of a refused body that are read all the same.
const DISCARDED: usize = 256 << 20;
/// The time that this may take.
const DISCARDING: Duration = Duration::from_secs(5);

/// While the sidecar leaves.
pub fn draining() -> Problem {
    Problem::new(
        Code::Draining,
        "try again: another takes its place, if it is restarted",
    )
    .after(20)
}

/// `POST /v1/jobs`.
pub async fn submit(
    State(service): State<Service>,
    Extension(peer): Extension<Peer>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    if service.draining() {
        return Err(draining());
    }
    let key = key(request.headers())?;
    let wait = wait(request.headers());
    let kind = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(|value| {
            value
                .split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .to_ascii_lowercase()
        });
    let client = peer.client();
    // A spec is small; what comes with one of the other bodies is not kept if the job would be refused.
    if kind.as_deref() != Some("application/json")
        && let Err(error) = service.store.admits(&client, &key).await
    {
        discard(request).await;
        return Err(error.into());
    }
    let spec = match kind.as_deref() {
        Some("application/json") => JobOptions::read(&bytes(request.into_body()).await?, true)?,
        Some("application/safetensors") => {
            let mut spec = in_query(query.as_deref().unwrap_or_default())?;
            let body = request.into_body();
            let announced = http_body::Body::size_hint(&body).exact();
            let digest = blobs::keep(&service, announced, blobs::whole(body), None).await?;
            spec.arrays = Some(digest);
            spec
        }
        Some("multipart/form-data") => form::read(&service, request).await?,
        _ => {
            let detail = "send application/json, multipart/form-data or application/safetensors";
            return Err(Problem::new(Code::UnsupportedMediaType, detail));
        }
    };
    service.roots.check(&spec)?;
    let new = NewJob {
        client,
        key,
        spec_digest: spec.digest(),
        spec: spec.canonical(),
        inputs: spec.uploads(),
        path_bytes: spec.path_bytes(),
    };
    // In a task of its own: a caller that goes away in this moment must not leave a job that nobody begins.
    let accepting = tokio::spawn({
        let service = service.clone();
        async move {
            let accepted = service.store.accept(new).await;
            if let Ok(Accepted::New { job, .. }) = &accepted {
                service.accepted(job);
            }
            accepted
        }
    });
    let accepted = accepting
        .await
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))??;
    let (job, replayed) = match accepted {
        Accepted::New { job, .. } => (job, false),
        Accepted::Replayed(job) => (job, true),
        Accepted::KeyReused => {
            let detail = "the key stands for a job with another spec; use a fresh one";
            return Err(Problem::new(Code::IdempotencyKeyReused, detail));
        }
    };
    let Some(live) = service.board.find(job.id) else {
        return Ok(answer(&job, None, replayed));
    };
    let Some(time) = wait else {
        return Ok(answer(&job, Some(&live.now()), replayed));
    };
    drop(tokio::time::timeout(time, live.ended()).await);
    let (job, now) = job::find(&service, &peer, &job.id.to_string()).await?;
    Ok(answer(&job, now.as_ref(), replayed))
}

/// 200 with a job that is over, 202 with one that is not.
fn answer(job: &Job, now: Option<&Now>, replayed: bool) -> Response {
    let body = job::show(job, now);
    let place = format!("/v1/jobs/{}", job.id);
    let mut response = if job.state.is_terminal() {
        (StatusCode::OK, Json(body)).into_response()
    } else {
        (
            StatusCode::ACCEPTED,
            [(header::RETRY_AFTER, "1")],
            Json(body),
        )
            .into_response()
    };
    let headers = response.headers_mut();
    if let Ok(place) = HeaderValue::from_str(&place) {
        headers.insert(header::LOCATION, place);
    }
    if replayed {
        let name = HeaderName::from_static("idempotency-replayed");
        headers.insert(name, HeaderValue::from_static("true"));
    }
    response
}

/// Reads a body that nobody wants to nowhere, as far as that is cheap: who is still sending it sees the answer. Who asked
/// first (`Expect: 100-continue`) sends nothing.
async fn discard(request: Request) {
    if request.headers().contains_key(header::EXPECT) {
        return;
    }
    let mut chunks = request.into_body().into_data_stream();
    let all = async {
        let mut bytes = 0;
        while let Some(Ok(chunk)) = chunks.next().await {
            bytes += chunk.len();
            if bytes > DISCARDED {
                break;
            }
        }
    };
    drop(tokio::time::timeout(DISCARDING, all).await);
}

fn key(headers: &HeaderMap) -> Result<String, Problem> {
    let missing = "send an Idempotency-Key of your own for each job: repeating the request then repeats no work";
    let value = headers
        .get("idempotency-key")
        .ok_or_else(|| Problem::new(Code::IdempotencyKeyMissing, missing))?;
    match value.to_str() {
        Ok(key) if (1..=255).contains(&key.len()) && !key.contains('\t') => Ok(key.to_owned()),
        _ => {
            let detail = "the Idempotency-Key must be 1 to 255 printable ASCII characters";
            Err(Problem::new(Code::InvalidRequest, detail))
        }
    }
}

/// `Prefer: wait=N` (RFC 7240).
fn wait(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all("prefer").into_iter();
    let mut wishes = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split([',', ';']));
    let seconds = wishes.find_map(|wish| wish.trim().strip_prefix("wait=")?.parse().ok())?;
    Some(Duration::from_secs(seconds).min(job::LONGEST_WAIT))
}

/// The connection is at fault, or how the caller framed or sent the body, and not its length.
fn broken(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<hyper::Error>() || error.is::<Slow>() || error.source().is_some_and(broken)
}

/// Of a spec beyond its bound.
pub(super) fn too_long() -> Problem {
    let detail =
        format!("a spec has {SPEC_BYTES} bytes at most: name fewer files, or shorter names");
    Problem::new(Code::PayloadTooLarge, detail)
}

async fn bytes(body: Body) -> Result<axum::body::Bytes, Problem> {
    let read = axum::body::to_bytes(body, SPEC_BYTES).await;
    read.map_err(|error| match broken(&error) {
        true => Problem::broken_off(&error),
        false => too_long(),
    })
}

fn in_query(query: &str) -> Result<JobOptions, Problem> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    match pairs.find(|(key, _)| key == "spec") {
        Some((_, text)) => Ok(JobOptions::read(text.as_bytes(), false)?),
        None => Ok(JobOptions::default()),
    }
}

/// For the document: `/v1/jobs`.
pub(super) fn about() -> Value {
    let longest = job::LONGEST_WAIT.as_secs();
    let longest =
        format!("wait=N: answer when the job is over, or after N seconds ({longest} at most)");
    let parameters = json!([
        { "name": "Idempotency-Key", "in": "header", "required": true, "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$" } },
        { "name": "Prefer", "in": "header", "schema": { "type": "string" }, "description": longest },
        { "name": "spec", "in": "query", "schema": { "type": "string" }, "description": "With a safetensors body: the JSON of the spec, without inputs" },
    ]);
    let file = doc::bytes(doc::BYTES);
    let form = json!({
        "type": "object",
        "required": ["mesh", "views"],
        "properties": {
            "spec": { "type": "string", "contentMediaType": doc::JSON, "description": "The JSON of the spec, without inputs" },
            "mesh": file,
            "views": file,
            "original": file,
            "file": { "type": "array", "items": file },
        },
        "additionalProperties": false,
        "description": "Filenames are those by which the views name their pictures: ./train/r_0.png is train/r_0.png; none goes up, is absolute or comes twice",
    });
    let body = json!({ "required": true, "content": {
        (doc::JSON): { "schema": doc::schema("Spec"), "examples": {
            "paths": { "summary": "Files beneath a --root of the sidecar", "value": {
                "mesh": { "path": "/data/chair/chair.glb" },
                "views": { "path": "/data/chair/transforms.json" },
                "texture_size": 2048,
            } },
            "blobs": { "summary": "Bytes that were sent before", "value": {
                "mesh": { "files": { "chair.glb": doc::DIGEST }, "main": "chair.glb" },
                "views": { "files": { "transforms.json": doc::DIGEST, "train/r_0.png": doc::DIGEST }, "main": "transforms.json" },
                "quality": "draft",
            } },
        } },
        "multipart/form-data": { "schema": form },
        "application/safetensors": { "schema": file },
    } });
    let links = ["job", "events", "cancel", "forget", "artifact"].map(|id| {
        let link = json!({ "operationId": id, "parameters": { "id": "$response.body#/id" } });
        (id.to_owned(), link)
    });
    let links = Map::from_iter(links);
    let accepted = |description| {
        let mut answer = doc::a_job(description);
        answer["links"] = json!(links);
        answer
    };
    let too_large = format!(
        "Too large, a spec, a file or all of them: payload_too_large. A spec has {SPEC_BYTES} bytes at most, with its defaults filled in"
    );
    let responses = json!({
        "200": accepted("It is over"),
        "202": accepted("Accepted"),
        "400": doc::problem("Cannot be read: invalid_request, idempotency_key_missing"),
        "408": doc::problem("The body came too slowly: request_timeout"),
        "413": doc::problem(&too_large),
        "415": doc::problem("Another kind of body: unsupported_media_type"),
        "422": doc::problem("Cannot be done as described: invalid_spec, idempotency_key_reused"),
        "429": doc::problem("The queue is full: queue_full, or this client's share of it: quota_exceeded"),
        "503": doc::not_now(),
        "507": doc::problem("The disk has no room for more bytes, or for another file: insufficient_storage"),
    });
    let more = json!({ "parameters": parameters, "requestBody": body });
    json!({
        "post": doc::operation("submit", "A new job: on disk before this answers", more, responses),
        "get": job::about_list(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        pairs.collect()
    }

    #[test]
    fn a_key_is_needed_and_bounded() {
        assert_eq!(
            key(&headers(&[("idempotency-key", "a b")])).expect("a key"),
            "a b"
        );
        let code = |pairs: &[_]| key(&headers(pairs)).expect_err("no key").code;
        assert_eq!(code(&[]), Code::IdempotencyKeyMissing);
        for key in ["", "a\tb"] {
            assert_eq!(code(&[("idempotency-key", key)]), Code::InvalidRequest);
        }
    }

    #[test]
    fn a_caller_may_wait_for_a_while() {
        let time = |value| wait(&headers(&[("prefer", value)]));
        assert_eq!(time("wait=5"), Some(Duration::from_secs(5)));
        assert_eq!(time("respond-async, wait=600"), Some(job::LONGEST_WAIT));
        assert_eq!(time("respond-async"), None);
        assert_eq!(time("wait=-1"), None);
    }

    #[test]
    fn a_spec_may_come_in_the_query() {
        let spec = in_query("a=b&spec=%7B%22texture_size%22%3A512%7D").expect("a spec");
        assert_eq!(spec.texture_size, 512);
        assert_eq!(in_query("").expect("defaults"), JobOptions::default());
        in_query("spec=%7B%22mesh%22%3A5%7D").expect_err("a number is no mesh");
    }
}
