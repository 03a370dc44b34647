//! Routes → what each does, and what all have in common: who may, what is logged, what an unknown route is told.
//!
//! | route | |
//! |---|---|
//! | `PUT`, `GET /v1/blobs/{sha256}` | [`blobs`]: bytes by their digest |
//! | `POST`, `GET /v1/jobs` | [`submit`], [`job`]: a new job, a list |
//! | `GET`, `DELETE /v1/jobs/{id}`, `POST …/cancel` | [`job`] |
//! | `GET /v1/jobs/{id}/events` | [`events`]: what happens, as it happens |
//! | `GET /v1/jobs/{id}/artifacts/{name}` | [`artifact`]: the files that a job made |
//! | `POST /v1/admin/…` | [`admin`]: drain, self-test, breaker/reset |
//! | `GET /openapi.json` | `openapi`, in the words of `document`: all of this, for programs |
//! | `GET /livez`, `/readyz`, `/metrics`, `/v1/capabilities` | [`health`] |
//! | `GET /`, `/page/…` | [`super::page`]: the page |

pub mod admin;

pub mod artifact;

pub mod blobs;

mod document;

pub mod events;

mod form;

pub mod health;

pub mod job;

mod openapi;

pub mod submit;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post, put};
use serde_json::Value;

use super::framing;
use super::guard::Guard;
use super::listen::Peer;
use super::page;
use super::problem::{self, Code, Problem};
use super::service::Service;
use super::slots::Seat;
use crate::store::{Bound, Fault, StoreError};

/// A route, and what the document says of it.
struct Route {
    path: &'static str,
    methods: MethodRouter<Service>,
    about: Value,
}

impl Route {
    fn new(path: &'static str, methods: MethodRouter<Service>, about: Value) -> Self {
        Self {
            path,
            methods,
            about,
        }
    }
}

/// All routes but those of the page.
fn routes() -> [Route; 14] {
    let (blob, jobs, job) = ("/v1/blobs/{digest}", "/v1/jobs", "/v1/jobs/{id}");
    let (cancel, events) = ("/v1/jobs/{id}/cancel", "/v1/jobs/{id}/events");
    let (file, can) = ("/v1/jobs/{id}/artifacts/{name}", "/v1/capabilities");
    let (test, reset) = ("/v1/admin/self-test", "/v1/admin/breaker/reset");
    let blobs = put(blobs::put).get(blobs::get);
    [
        Route::new(blob, blobs, blobs::about()),
        Route::new(jobs, post(submit::submit).get(job::list), submit::about()),
        Route::new(job, get(job::get).delete(job::forget), job::about()),
        Route::new(cancel, post(job::cancel), job::about_cancel()),
        Route::new(events, get(events::events), events::about()),
        Route::new(file, get(artifact::get), artifact::about()),
        Route::new("/v1/admin/drain", post(admin::drain), admin::about_drain()),
        Route::new(test, post(admin::self_test), admin::about_self_test()),
        Route::new(reset, post(admin::reset), admin::about_reset()),
        Route::new(can, get(health::capabilities), health::about_capabilities()),
        Route::new("/livez", get(health::livez), health::about_livez()),
        Route::new("/readyz", get(health::readyz), health::about_readyz()),
        Route::new("/metrics", get(health::metrics), health::about_metrics()),
        Route::new("/openapi.json", get(openapi::openapi), openapi::about()),
    ]
}

/// All of them, behind the guard.
pub fn router(service: Service, guard: Arc<Guard>) -> Router {
    let checked = middleware::from_fn_with_state((service.clone(), guard), check);
    let all = routes().into_iter();
    all.fold(Router::new(), |router, route| {
        router.route(route.path, route.methods)
    })
    .merge(page::routes())
    .fallback(async || Problem::new(Code::NotFound, "no such route; see /openapi.json"))
    .method_not_allowed_fallback(async || {
        Problem::new(
            Code::MethodNotAllowed,
            "see /openapi.json for what this route takes",
        )
    })
    // Each body has bounds of its own: of a spec, of an upload, of a job.
    .layer(DefaultBodyLimit::disable())
    .layer(checked)
    .with_state(service)
}

/// Lets in who may, and counts what was answered.
async fn check(
    State((service, guard)): State<(Service, Arc<Guard>)>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request
        .extensions()
        .get::<axum::extract::MatchedPath>()
        .map_or("unknown", |path| path.as_str())
        .to_owned();
    // No connection comes without a peer; one that did would be nobody's.
    let peer = request.extensions().get::<Peer>().cloned();
    let unclear = framing::check(&request).err();
    let last = unclear.is_some() || framing::is_last(request.headers());
    let refusal = unclear.or_else(|| match &peer {
        None => Some(Problem::new(Code::Forbidden, "nobody knows who asks")),
        Some(peer) => guard.check(peer, &request).err(),
    });
    let known = refusal.is_none() && !guard.is_open(&request);
    let other = guard.sites.other(request.headers());
    let preflight = guard.sites.is_preflight(&request);
    if let Some(seat) = request.extensions().get::<Arc<Seat>>().filter(|_| known) {
        seat.prove();
    }
    let mut response = match refusal {
        Some(problem) => problem.into_response(),
        None if preflight => StatusCode::NO_CONTENT.into_response(),
        None => in_words(next.run(request).await),
    };
    guard.sites.allow(other, response.headers_mut());
    // Who shows no token has one answer a connection: a row of requests at once costs more to answer than to send.
    if last || (!known && matches!(peer, Some(Peer::Tcp(_)))) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    tracing::debug!(%method, route, status = response.status().as_u16(), ms = began.elapsed().as_millis(), "answered");
    service.metrics.request(&route, response.status().as_u16());
    response
}

/// An answer in the words of the list: axum's own refusal, of a path that is no UTF-8, is plain text.
fn in_words(response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if response.status() == StatusCode::BAD_REQUEST && kind.is_none_or(|kind| kind != problem::TYPE)
    {
        return Problem::new(Code::InvalidRequest, "the path is no UTF-8").into_response();
    }
    response
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::NotFound => Self::new(Code::NotFound, "no such job"),
            StoreError::Gone => Self::new(Code::Gone, "the job was forgotten, or has expired"),
            StoreError::QueueFull(Bound::ClientJobs(_)) => {
                Self::new(Code::QuotaExceeded, error.to_string()).after(5)
            }
            StoreError::QueueFull(_) => Self::new(Code::QueueFull, error.to_string()).after(5),
            StoreError::Full { .. } => {
                Self::new(Code::InsufficientStorage, error.to_string()).after(30)
            }
            // It lies with the disk's room alone, and passes as that does.
            StoreError::Disk {
                fault: Fault::NoSpace,
                detail,
                ..
            } => {
                tracing::error!("{error}");
                let detail = format!("the disk of the store takes no more: {detail}");
                Self::new(Code::InsufficientStorage, detail).after(30)
            }
            StoreError::DigestMismatch { .. } => Self::new(Code::DigestMismatch, error.to_string()),
            StoreError::TooLarge { .. } | StoreError::SpecTooLarge { .. } => {
                Self::new(Code::PayloadTooLarge, error.to_string())
            }
            StoreError::WrongState(_) => Self::new(Code::JobRunning, error.to_string()),
            StoreError::MissingBlobs(_) | StoreError::BadName { .. } => {
                Self::field("files", error.to_string())
            }
            other => {
                tracing::error!("{other}");
                Self::new(Code::NotReady, "the store cannot take it now").after(5)
            }
        }
    }
}
