//! Orders of the operator, which are this user and root by the Unix socket → 202: they are carried out, and `/readyz` tells what came of them.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::document as doc;
use crate::serve::listen::Peer;
use crate::serve::problem::{Code, Problem};
use crate::serve::service::Service;

/// `POST /v1/admin/drain`: no new jobs; the sidecar leaves once those at work are over, however long they take.
pub async fn drain(
    State(service): State<Service>,
    Extension(peer): Extension<Peer>,
) -> Result<Response, Problem> {
    operator(&peer)?;
    service.ask_to_leave();
    Ok(accepted(json!({ "running": service.running() })))
}

/// `POST /v1/admin/self-test`: the sample is baked anew.
pub async fn self_test(
    State(service): State<Service>,
    Extension(peer): Extension<Peer>,
) -> Result<Response, Problem> {
    operator(&peer)?;
    service.doubt();
    Ok(accepted(json!({ "self_test": service.proof().show() })))
}

/// `POST /v1/admin/breaker/reset`: what failed again and again is forgotten, and tried again.
pub async fn reset(
    State(service): State<Service>,
    Extension(peer): Extension<Peer>,
) -> Result<Response, Problem> {
    operator(&peer)?;
    let open = service.breakers();
    service.reset_breakers();
    Ok(accepted(json!({ "breakers": open })))
}

fn accepted(body: Value) -> Response {
    (StatusCode::ACCEPTED, Json(body)).into_response()
}

/// Whoever is admitted sends jobs; the user that the sidecar runs as, and root, rule it.
fn operator(peer: &Peer) -> Result<(), Problem> {
    if peer.rules() {
        return Ok(());
    }
    Err(Problem::new(
        Code::Forbidden,
        "orders are taken from the sidecar's own user and root, by the Unix socket alone",
    ))
}

/// For the document: an order, and what its answer holds.
fn about(id: &str, summary: &str, key: &str, value: Value) -> Value {
    let body = json!({ "type": "object", "required": [key], "properties": { key: value } });
    let description = "From the sidecar's own user and root, by the Unix socket alone.";
    let responses = json!({
        "202": doc::answer("It will be done", doc::JSON, body),
        "403": doc::problem("By TCP, or not for this caller: forbidden"),
    });
    json!({ "post": doc::operation(id, summary, json!({ "description": description }), responses) })
}

pub(super) fn about_drain() -> Value {
    let summary = "Take no more jobs, and leave once those at work are over";
    let running = json!({ "type": "integer", "minimum": 0 });
    about("drain", summary, "running", running)
}

pub(super) fn about_self_test() -> Value {
    let summary = "Bake the sample anew; /readyz tells how it went";
    about("selfTest", summary, "self_test", doc::schema("SelfTest"))
}

pub(super) fn about_reset() -> Value {
    let summary = "Try again what failed again and again; gives what that was";
    let breakers = json!({ "type": "array", "items": doc::schema("Breaker") });
    about("resetBreakers", summary, "breakers", breakers)
}
