//! The routes, with what stands beside each (`about`) → `/openapi.json`.

use std::sync::OnceLock;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::document::{JSON, answer, schemas};
use super::health;
use crate::options;
use crate::serve::service::Service;
use crate::serve::site::Origin;

/// What operations belong to; the first part of a route's path after `/v1/` tells.
const TAGS: [(&str, &str); 4] = [
    ("jobs", "Send a job, follow it, fetch what it made"),
    ("blobs", "Send inputs before their jobs, by their SHA-256"),
    (
        "admin",
        "For the sidecar's own user and root, by the Unix socket",
    ),
    (
        "health",
        "Whether it lives and can work, what it can do, and this document",
    ),
];

/// `GET /openapi.json`.
pub(super) async fn openapi(State(service): State<Service>) -> Response {
    static TEXT: OnceLock<String> = OnceLock::new();
    let public = service.options.sites.public.as_ref();
    let text = TEXT.get_or_init(|| format!("{:#}", document(public)));
    ([(header::CONTENT_TYPE, JSON)], text.as_str()).into_response()
}

/// Of this route itself.
pub(super) fn about() -> Value {
    let answer = answer("This", JSON, json!({ "type": "object" }));
    health::about("openapi", "This", json!({ "200": answer }))
}

/// All routes, and all schemas, at the place that browsers know.
pub(super) fn document(public: Option<&Origin>) -> Value {
    let paths = super::routes().into_iter().map(|route| {
        let mut about = route.about;
        let mut tags = TAGS.iter().map(|(name, _)| *name);
        let tag = tags.find(|tag| route.path.starts_with(&format!("/v1/{tag}")));
        for (method, operation) in about.as_object_mut().into_iter().flatten() {
            if method != "parameters" {
                operation["tags"] = json!([tag.unwrap_or("health")]);
            }
        }
        (route.path.to_owned(), about)
    });
    let mut schemas = schemas();
    for (name, schema) in options::schemas() {
        schemas[name] = schema;
    }
    let server = match public {
        Some(public) => json!({ "url": public.url(), "description": "Through the proxy" }),
        None => json!({ "url": "/", "description": "Where this document is" }),
    };
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Kiln",
            "version": "1",
            "description": "Mesh and posed views in, textured GLB out; a job that was accepted is not lost. HTTP/1.1 over a Unix socket, or by TCP with a token. A job is its client's: the user that sent it by the socket, or whoever shows the token; for every other client but the sidecar's own user and root it is not there (404). Bytes are shared by their digest: whoever knows the SHA-256 of bytes that were sent may read them and name them in a job.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [server],
        "tags": TAGS.map(|(name, description)| json!({ "name": name, "description": description })),
        "security": [{}, { "token": [] }],
        "paths": paths.collect::<Map<_, _>>(),
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas,
        },
    })
}
