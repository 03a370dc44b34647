//! Orders of the operator, which are this user and root by the Unix socket → 202: they are carried out, and `/readyz` tells what came of them.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

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
