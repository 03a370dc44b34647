//! A stored job, and what it does now → its JSON; lists, cancelling and forgetting.

use std::time::{Duration, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::Deserialize;
use serde_json::{Value, json};

use super::document as doc;
use crate::serve::board::{self, Now};
use crate::serve::listen::Peer;
use crate::serve::problem::{Code, Problem};
use crate::serve::service::Service;
use crate::store::{self, Digest, Job, JobId, StoreError};

/// Jobs in one page of a list.
const PAGE: usize = 100;
/// The longest that an answer waits for a job's end: less than the minute after which proxies give a silent answer up.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(50);

/// The JSON of a job. What it does now is known only while it is on the board.
pub fn show(job: &Job, now: Option<&Now>) -> Value {
    let spec: Value = serde_json::from_str(&job.spec).unwrap_or(Value::Null);
    let mut shown = outline(job, now, &spec["name"]);
    shown["spec"] = spec;
    shown
}

/// The JSON of a job in a list: without its spec, which may name thousands of files.
fn brief(job: &Job, now: Option<&Now>) -> Value {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let named: Option<Named> = serde_json::from_str(&job.spec).ok();
    outline(job, now, &json!(named.map(|named| named.name)))
}

fn outline(job: &Job, now: Option<&Now>, name: &Value) -> Value {
    let text = |text: &Option<String>| -> Value {
        text.as_deref()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or(Value::Null)
    };
    let (report, error) = (text(&job.report), text(&job.error));
    let state = state(job, now);
    let warnings = match now.filter(|_| !state.is_over()) {
        Some(now) => now
            .warnings
            .iter()
            .map(|(role, text)| json!({ "role": role, "text": text }))
            .collect(),
        None => report["warnings"].as_array().cloned().unwrap_or_default(),
    };
    let progress = match state {
        board::State::Succeeded => 1.0,
        _ => now.map_or(0.0, |now| now.progress),
    };
    let artifacts: Vec<Value> = job
        .artifacts
        .iter()
        .map(|artifact| {
            json!({
                "name": artifact.name,
                "bytes": artifact.bytes,
                "sha256": artifact.digest,
                "media_type": artifact.media_type,
                "href": format!("/v1/jobs/{}/artifacts/{}", job.id, artifact.name),
            })
        })
        .collect();
    json!({
        "id": job.id,
        "name": name,
        "state": state,
        "progress": progress,
        "phase": now.filter(|_| !state.is_over()).and_then(|now| now.phase),
        "created_at": time(Some(job.created_ms)),
        "started_at": time(job.started_ms),
        "finished_at": time(job.finished_ms),
        "expires_at": time(job.expires_ms),
        "starts": job.starts,
        "attempts": if report.is_null() { error["attempts"].clone() } else { report["attempts"].clone() },
        "device": report["device"],
        "warnings": warnings,
        "artifacts": artifacts,
        "error": error,
    })
}

/// Where a job is: the store knows whether it is over, the board where it is on its way.
fn state(job: &Job, now: Option<&Now>) -> board::State {
    match job.state {
        store::State::Succeeded => board::State::Succeeded,
        store::State::Failed => board::State::Failed,
        store::State::Cancelled => board::State::Cancelled,
        store::State::Queued => board::State::Queued,
        store::State::Running => match now.map(|now| now.state) {
            Some(state) if !state.is_over() && state != board::State::Queued => state,
            _ => board::State::Preparing,
        },
    }
}

/// Milliseconds since 1970 as RFC 3339 in UTC.
fn time(ms: Option<i64>) -> Option<String> {
    let ms = u64::try_from(ms?).ok()?;
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(ms))?;
    Some(humantime::format_rfc3339_millis(time).to_string())
}

/// What a path calls a job.
///
/// # Errors
/// No job was ever called so.
pub fn id_of(text: &str) -> Result<JobId, Problem> {
    text.parse()
        .map_err(|_| Problem::new(Code::NotFound, "a job's id is 32 small hex digits"))
}

/// A job by its id, for who asks.
///
/// # Errors
/// There is none, or it is another client's, which is told alike.
pub async fn find(service: &Service, peer: &Peer, id: &str) -> Result<(Job, Option<Now>), Problem> {
    let id = id_of(id)?;
    let job = service.store.get(id).await?;
    if !peer.sees(&job.client) {
        return Err(StoreError::NotFound.into());
    }
    let now = service.board.find(id).map(|live| live.now());
    Ok((job, now))
}

/// `GET /v1/jobs/{id}?wait=`.
pub async fn get(
    State(service): State<Service>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let wait = wait(query.as_deref().unwrap_or_default())?;
    let (mut job, mut now) = find(&service, &peer, &id).await?;
    if !wait.is_zero() && !job.state.is_terminal() {
        let live = service.board.place(job.id);
        // At its end or after that time alike: the store says how far it is.
        drop(tokio::time::timeout(wait, live.ended()).await);
        (job, now) = find(&service, &peer, &id).await?;
    }
    let mut body = show(&job, now.as_ref());
    if let Some(report) = job.report.as_deref() {
        body["report"] = serde_json::from_str(report).unwrap_or(Value::Null);
    }
    if job.state == store::State::Queued {
        body["position"] = json!(service.store.position(job.id).await?);
    }
    Ok(tagged(&body, &headers))
}

/// How long an answer may wait for the job's end, in a query.
fn wait(query: &str) -> Result<Duration, Problem> {
    let bad = |what: String| Problem::new(Code::InvalidRequest, what);
    let mut wait = Duration::ZERO;
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        if key != "wait" {
            let key = crate::words::printable(&key, 80);
            return Err(bad(format!("{key:?} is not wait")));
        }
        let seconds = value.parse().map(Duration::from_secs);
        wait = (seconds.ok().filter(|wait| *wait <= LONGEST_WAIT))
            .ok_or_else(|| bad(format!("wait is 0 to {} seconds", LONGEST_WAIT.as_secs())))?;
    }
    Ok(wait)
}

/// With its `ETag`, or 304 where the caller has it.
fn tagged(body: &Value, headers: &HeaderMap) -> Response {
    let text = body.to_string();
    let tag = format!("\"{}\"", &Digest::of(&text).to_string()[..32]);
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|tags| {
            tags.split(',')
                .any(|known| known.trim() == tag || known.trim() == "*")
        });
    let mut response = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, "application/json")], text).into_response()
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// `GET /v1/jobs?state=&cursor=&limit=`, newest first: the caller's own, and to the sidecar's owner those of all clients.
pub async fn list(
    State(service): State<Service>,
    Extension(peer): Extension<Peer>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let bad = |what: String| Problem::new(Code::InvalidRequest, what);
    let (mut state, mut cursor, mut limit) = (None, None, PAGE);
    for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match key.as_ref() {
            "state" => {
                let known = store::State::ALL
                    .into_iter()
                    .find(|state| state.name() == value);
                let names = "state is queued, running, succeeded, failed or cancelled";
                state = Some(known.ok_or_else(|| bad(names.to_owned()))?);
            }
            "cursor" => {
                let read = value
                    .parse()
                    .map_err(|_| bad("cursor is none of ours".to_owned()))?;
                cursor = Some(read);
            }
            "limit" => match value.parse() {
                Ok(wanted @ 1..=PAGE) => limit = wanted,
                _ => return Err(bad(format!("limit is 1 to {PAGE}"))),
            },
            other => {
                let key = crate::words::printable(other, 80);
                return Err(bad(format!("{key:?} is none of state, cursor, limit")));
            }
        }
    }
    let whose = (!peer.rules()).then(|| peer.client());
    let page = service.store.list_of(whose, state, cursor, limit).await?;
    Ok(pages(service, page))
}

/// A page, job by job as the caller reads it: all at once would take as much memory as their specs and reports.
fn pages(service: Service, page: store::Page) -> Response {
    let end = format!("],\"cursor\":{}}}", json!(page.next));
    let jobs = stream::iter(page.jobs).filter_map(move |id| {
        let service = service.clone();
        async move {
            match service.store.get(id).await {
                Ok(job) => {
                    let now = service.board.find(id).map(|live| live.now());
                    Some(Ok(brief(&job, now.as_ref()).to_string()))
                }
                // It was removed in this moment.
                Err(StoreError::NotFound | StoreError::Gone) => None,
                Err(error) => Some(Err(error)),
            }
        }
    });
    let mut first = true;
    let jobs = jobs.map_ok(move |text| match std::mem::take(&mut first) {
        true => text,
        false => format!(",{text}"),
    });
    let begin = stream::iter([Ok("{\"jobs\":[".to_owned())]);
    let all = begin.chain(jobs).chain(stream::iter([Ok(end)]));
    let body = Body::from_stream(all);
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// `POST /v1/jobs/{id}/cancel`.
pub async fn cancel(
    State(service): State<Service>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (job, now) = find(&service, &peer, &id).await?;
    let status = if state(&job, now.as_ref()).is_over() {
        StatusCode::OK
    } else {
        service.cancel(job.id);
        StatusCode::ACCEPTED
    };
    Ok((status, Json(show(&job, now.as_ref()))).into_response())
}

/// `DELETE /v1/jobs/{id}`: record and files.
pub async fn forget(
    State(service): State<Service>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let (job, _) = find(&service, &peer, &id).await?;
    if !job.state.is_terminal() {
        return Err(Problem::new(Code::JobRunning, "cancel it first"));
    }
    service.store.forget(job.id).await?;
    service.board.remove(job.id);
    Ok(StatusCode::NO_CONTENT)
}

/// For the document: `/v1/jobs/{id}`.
pub(super) fn about() -> Value {
    json!({
        "parameters": [doc::in_path("id", doc::id())],
        "get": doc::operation(
            "job",
            "One job, at once or at its end",
            json!({ "parameters": [
                doc::in_query("wait", json!({
                    "type": "integer",
                    "minimum": 0,
                    "maximum": LONGEST_WAIT.as_secs(),
                    "description": "Seconds for which the answer waits for the job's end, and is then the job as it is",
                })),
                doc::headers(&["If-None-Match"])[0],
            ] }),
            doc::of_a_job(json!({
                "200": doc::a_job("The job"),
                "304": doc::bare("As the caller has it"),
                "400": doc::problem("Not so long: invalid_request"),
            })),
        ),
        "delete": doc::operation(
            "forget",
            "Forget a job that is over, and its files",
            json!({}),
            doc::of_a_job(json!({
                "204": doc::bare("Forgotten"),
                "409": doc::problem("It is not over: job_running"),
            })),
        ),
    })
}

/// For the document: `/v1/jobs/{id}/cancel`.
pub(super) fn about_cancel() -> Value {
    let answers = doc::of_a_job(json!({
        "200": doc::a_job("It was over"),
        "202": doc::a_job("It will end"),
    }));
    json!({
        "parameters": [doc::in_path("id", doc::id())],
        "post": doc::operation("cancel", "End a job", json!({}), answers),
    })
}

/// For the document: `GET /v1/jobs`.
pub(super) fn about_list() -> Value {
    let states = store::State::ALL.map(|state| state.name());
    let page = json!({
        "type": "object",
        "required": ["jobs", "cursor"],
        "properties": {
            "jobs": { "type": "array", "items": doc::schema("Job") },
            "cursor": { "type": ["string", "null"] },
        },
    });
    doc::operation(
        "list",
        "The caller's jobs, newest first; to the sidecar's own user and root, those of all clients",
        json!({ "parameters": [
            doc::in_query("state", json!({ "enum": states })),
            doc::in_query("cursor", doc::id()),
            doc::in_query("limit", json!({ "type": "integer", "minimum": 1, "maximum": PAGE })),
        ] }),
        json!({
            "200": doc::answer("A page", doc::JSON, page),
            "400": doc::problem("Cannot be read: invalid_request"),
            "503": doc::not_now(),
        }),
    )
}
