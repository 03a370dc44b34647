//! Whether the sidecar lives, whether it can work, what it can do, and what it has done.
//!
//! Ready means proven: the last bake of the self-test ([`crate::serve::proof`]) gave the right bytes. Alive means only that the
//! scheduler's loop turns, so that a bad GPU restarts nothing.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::document as doc;
use crate::process::procfs::Holdings;
use crate::serve::problem::Problem;
use crate::serve::service::Service;

/// A loop that does not turn for so long is stuck: it turns each second.
const STUCK: Duration = Duration::from_secs(5);

/// A write that came through so lately tells enough.
const FRESH: Duration = Duration::from_secs(1);
/// For a disk to take a write.
const PATIENCE: Duration = Duration::from_secs(1);

/// `GET /livez`.
pub async fn livez(State(service): State<Service>) -> Response {
    if service.silent() < STUCK {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the scheduler is stuck\n").into_response()
    }
}

/// `GET /readyz`: 200, or 503 with what stands in the way.
pub async fn readyz(State(service): State<Service>) -> Response {
    let proof = service.proof();
    let mut reasons = Vec::new();
    if service.draining() {
        reasons.push("it is about to leave".to_owned());
    }
    if let Err(why) = writable(&service).await {
        reasons.push(why);
    }
    match &proof.outcome {
        None => reasons.push("the first bake of the self-test is under way".to_owned()),
        Some(Err(why)) => reasons.push(format!("the self-test failed: {why}")),
        Some(Ok(_)) => {}
    }
    let breakers = service.breakers();
    for rest in breakers.iter().filter(|rest| rest.all) {
        reasons.push(format!("{} fails: {}", rest.what, rest.last));
    }
    // A store that does not answer stands in the list already.
    if let Ok(Ok(queue)) = timeout(PATIENCE, service.store.queue()).await
        && queue.jobs >= service.options.queue_jobs
    {
        reasons.push("the queue is full".to_owned());
    }
    let ready = reasons.is_empty();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = json!({
        "ready": ready,
        "reasons": reasons,
        "self_test": proof.show(),
        "breakers": breakers,
        "sandbox": service.options.sandbox,
    });
    (status, Json(body)).into_response()
}

/// Whether the store takes a write: one is made, unless it was in the last moment, since a disk that fails says so only then.
async fn writable(service: &Service) -> Result<(), String> {
    service.store.check().map_err(|error| error.to_string())?;
    let proved = service.store.unproved();
    if service.store.healthy() && proved.is_some_and(|since| since < FRESH) {
        return Ok(());
    }
    match timeout(PATIENCE, service.store.probe()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("the store cannot be written: {error}")),
        Err(_late) => Err(format!(
            "the store has not taken a write for {} s",
            PATIENCE.as_secs()
        )),
    }
}

/// `GET /metrics`.
pub async fn metrics(State(service): State<Service>) -> Result<Response, Problem> {
    let queue = service.store.queue().await?;
    let holds = Holdings::count(service.unkillable());
    let text = service.metrics.text(queue, service.running(), &holds);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// `GET /v1/capabilities`.
pub async fn capabilities(State(service): State<Service>) -> Json<Value> {
    use proto::limits;
    let options = &service.options;
    Json(json!({
        "kiln": proto::BUILD_ID,
        "sandbox": options.sandbox,
        "adapters": service.adapters(),
        "parallel": options.parallel,
        "bakes": options.bakes,
        "spares": options.spares,
        "queue_jobs": options.queue_jobs,
        "client_jobs": options.client_jobs,
        "queue_bytes": options.queue_bytes,
        "self_test": service.proof().show(),
        "breakers": service.breakers(),
        "roots": !options.roots.is_empty(),
        "inputs": {
            "mesh": ["glb", "gltf", "ply", "obj", "safetensors"],
            "views": ["transforms.json", "images.bin", "images.txt", "cameras.json", "sfm", "mlp", "out", "xml", "safetensors", "ply", "spz", "sog", "splat", "glb", "gltf"],
            "pictures": ["png", "jpg", "webp", "tiff", "bmp", "pnm", "exr", "hdr"],
        },
        "limits": {
            "texture_size": [limits::MIN_TEXTURE_SIZE, limits::MAX_TEXTURE_SIZE],
            "triangles": limits::MAX_TRIANGLES,
            "views": limits::MAX_VIEWS,
            "view_edge": limits::MAX_VIEW_EDGE,
            "mesh_bytes": limits::MAX_MESH_FILE_BYTES,
        },
    }))
}

/// For the document: a route that gives one thing.
pub(super) fn about(id: &str, summary: &str, responses: Value) -> Value {
    json!({ "get": doc::operation(id, summary, json!({}), responses) })
}

pub(super) fn about_livez() -> Value {
    let answer = |description| doc::answer(description, "text/plain", json!({ "type": "string" }));
    let responses = json!({ "200": answer("Yes"), "503": answer("No") });
    let mut about = about("livez", "The scheduler turns", responses);
    about["get"]["security"] = json!([]);
    about
}

pub(super) fn about_readyz() -> Value {
    let answer = |description| doc::answer(description, doc::JSON, doc::schema("Readiness"));
    let responses = json!({ "200": answer("Yes"), "503": answer("No, and why") });
    let summary = "A bake was right, and there is room for more";
    about("readyz", summary, responses)
}

pub(super) fn about_metrics() -> Value {
    let text = json!({ "type": "string" });
    let answer = doc::answer("They", "application/openmetrics-text", text);
    let responses = json!({ "200": answer, "503": doc::not_now() });
    about("metrics", "OpenMetrics", responses)
}

pub(super) fn about_capabilities() -> Value {
    let answer = doc::answer("They", doc::JSON, doc::schema("Capabilities"));
    let summary = "Limits, formats, self-test";
    about("capabilities", summary, json!({ "200": answer }))
}
