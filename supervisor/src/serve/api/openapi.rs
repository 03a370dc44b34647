//! The routes, with what stands beside each (`about`) → `/openapi.json`.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::document::{JSON, answer, schemas};
use super::health;
use crate::options;

/// `GET /openapi.json`.
pub(super) async fn openapi() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(|| format!("{:#}", document()));
    ([(header::CONTENT_TYPE, JSON)], TEXT.as_str()).into_response()
}

/// Of this route itself.
pub(super) fn about() -> Value {
    let answer = answer("This", JSON, json!({ "type": "object" }));
    health::about("openapi", "This", json!({ "200": answer }))
}

/// All routes, and all schemas.
pub(super) fn document() -> Value {
    let paths = super::routes().into_iter().map(|route| {
        let path = route.path.to_owned();
        (path, route.about)
    });
    let mut schemas = schemas();
    for (name, schema) in options::schemas() {
        schemas[name] = schema;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Kiln",
            "version": "1",
            "description": "Mesh and posed views in, textured GLB out; a job that was accepted is not lost. HTTP/1.1 over a Unix socket, or over loopback with a token. A job is its client's: the user that sent it by the socket, or whoever shows the token; for every other client but the sidecar's own user and root it is not there (404). Bytes are shared by their digest: whoever knows the SHA-256 of bytes that were sent may read them and name them in a job.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "security": [{}, { "token": [] }],
        "paths": paths.collect::<Map<_, _>>(),
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas,
        },
    })
}
