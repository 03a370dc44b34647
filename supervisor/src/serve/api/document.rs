//! The words of the `OpenAPI` document: operations, answers, parameters, and the schemas of what the routes take and give.
//!
//! The schema of a spec comes from [`crate::options`]; the rest is written by hand, since no type here stands for it.

use serde_json::{Value, json};

use crate::options;
use crate::serve::problem;

pub(super) const JSON: &str = "application/json";
pub(super) const BYTES: &str = "application/octet-stream";
/// Of a path or a header that every request to a job has.
const ID: &str = "^[0-9a-f]{32}$";

/// A digest and an id for examples.
pub(super) const DIGEST: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
const EXAMPLE_ID: &str = "0192f7c0a1b27c3d8e4f5a6b7c8d9e0f";

/// What a method of a route does. `more` has its parameters and body; who may not ask is told so by every route.
pub(super) fn operation(id: &str, summary: &str, more: Value, responses: Value) -> Value {
    let mut all = json!({
        "operationId": id,
        "summary": summary,
        "responses": {
            "401": problem("By TCP, without the token: unauthorized"),
            "403": problem("Not for this caller: forbidden"),
        },
    });
    extend(&mut all["responses"], responses);
    extend(&mut all, more);
    all
}

/// Adds the keys of one object to another.
pub(super) fn extend(to: &mut Value, more: Value) {
    if let (Value::Object(to), Value::Object(more)) = (to, more) {
        to.extend(more);
    }
}

/// A problem, and when.
pub(super) fn problem(when: &str) -> Value {
    answer(when, "application/problem+json", schema("Problem"))
}

/// Of a sidecar that cannot now.
pub(super) fn not_now() -> Value {
    problem("Not now: not_ready, draining")
}

/// What a route of one job answers beside its own.
pub(super) fn of_a_job(responses: Value) -> Value {
    let mut all = json!({
        "404": problem("Never was, or is another client's: not_found"),
        "410": problem("Forgotten or expired: gone"),
        "503": not_now(),
    });
    extend(&mut all, responses);
    all
}

/// A body of one kind.
pub(super) fn answer(description: &str, kind: &str, schema: Value) -> Value {
    json!({ "description": description, "content": { kind: { "schema": schema } } })
}

/// An answer without a body.
pub(super) fn bare(description: &str) -> Value {
    json!({ "description": description })
}

/// A job, whose place and whether it was answered before are told in headers.
pub(super) fn a_job(description: &str) -> Value {
    let mut answer = answer(description, JSON, schema("Job"));
    answer["headers"] = json!({
        "Location": { "schema": { "type": "string" } },
        "Idempotency-Replayed": { "schema": { "type": "string" }, "description": "true where an earlier request is answered again" },
    });
    answer
}

/// One of the schemas.
pub(super) fn schema(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Bytes of a kind.
pub(super) fn bytes(kind: &str) -> Value {
    json!({ "type": "string", "contentMediaType": kind })
}

pub(super) fn sha256() -> Value {
    json!({ "type": "string", "pattern": options::SHA256, "description": "SHA-256" })
}

/// A job's id.
pub(super) fn id() -> Value {
    json!({ "type": "string", "pattern": ID })
}

/// A part of a route's path.
pub(super) fn in_path(name: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": schema })
}

/// A part of the query that may be left out.
pub(super) fn in_query(name: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "schema": schema })
}

/// Headers that may be left out.
pub(super) fn headers(names: &[&str]) -> Vec<Value> {
    let header =
        |name: &&str| json!({ "name": name, "in": "header", "schema": { "type": "string" } });
    names.iter().map(header).collect()
}

/// An object with these keys, which are all there.
fn object(properties: Value) -> Value {
    let required: Vec<String> = match &properties {
        Value::Object(properties) => properties.keys().cloned().collect(),
        _ => Vec::new(),
    };
    json!({ "type": "object", "required": required, "properties": properties })
}

/// A type, and what it says.
fn told(kind: Value, description: &str) -> Value {
    json!({ "type": kind, "description": description })
}

pub(super) fn schemas() -> Value {
    let text = || json!({ "type": "string" });
    let maybe = |kind: &str| json!({ "type": [kind, "null"] });
    let count = || json!({ "type": "integer", "minimum": 0 });
    let time = || json!({ "type": ["string", "null"], "format": "date-time" });
    let list = |items: Value| json!({ "type": "array", "items": items });
    let number = json!({ "type": "number", "minimum": 0 });
    let with = |mut schema: Value, more: Value| {
        extend(&mut schema, more);
        schema
    };
    let mut job = object(json!({
        "id": id(),
        "name": maybe("string"),
        "state": { "enum": ["queued", "preparing", "baking", "encoding", "retrying", "succeeded", "failed", "cancelled"] },
        "progress": { "type": "number", "minimum": 0, "maximum": 1 },
        "created_at": { "type": "string", "format": "date-time" },
        "starts": with(count(), json!({ "description": "How often the sidecar began it" })),
        "artifacts": list(object(json!({ "name": text(), "bytes": count(), "sha256": sha256(), "media_type": text(), "href": text() }))),
        "error": told(json!(["object", "null"]), "Why it failed, with what is known of the process at fault"),
    }));
    extend(
        &mut job["properties"],
        json!({
            "phase": maybe("string"),
            "position": { "type": ["integer", "null"], "minimum": 0, "description": "Jobs before it while it waits; only of a single job" },
            "started_at": time(),
            "finished_at": time(),
            "expires_at": with(time(), json!({ "description": "Kept until then at least; a model that nobody has fetched, as long again" })),
            "attempts": { "type": ["array", "null"], "items": { "type": "object" } },
            "device": maybe("object"),
            "warnings": list(json!({ "type": "object", "properties": { "role": text(), "text": text() } })),
            "report": told(json!(["object", "null"]), "What report.json holds, also of a job that failed; only of a single job that is over"),
            "spec": told(json!("object"), "Defaults filled in; only of a single job"),
        }),
    );
    job["examples"] = json!([{
        "id": EXAMPLE_ID,
        "name": "chair-1",
        "state": "succeeded",
        "progress": 1,
        "created_at": "2026-01-31T12:00:00.000Z",
        "finished_at": "2026-01-31T12:00:04.200Z",
        "starts": 1,
        "artifacts": [{
            "name": "model.glb",
            "bytes": 1_234_567,
            "sha256": DIGEST,
            "media_type": "model/gltf-binary",
            "href": format!("/v1/jobs/{EXAMPLE_ID}/artifacts/model.glb"),
        }],
        "error": null,
    }]);
    let mut problem = object(json!({
        "type": text(),
        "title": text(),
        "status": { "type": "integer" },
        "detail": text(),
        "code": { "enum": problem::Code::ALL },
        "retryable": { "type": "boolean" },
    }));
    problem["properties"]["field"] = text();
    problem["examples"] = json!([{
        "type": "urn:kiln:problem:invalid_spec",
        "title": "the job cannot be done as it is described",
        "status": 422,
        "detail": "texture_size is 256 to 8192",
        "code": "invalid_spec",
        "retryable": false,
        "field": "texture_size",
    }]);
    let adapter = object(json!({
        "name": told(json!("string"), "As `device` takes it"),
        "backend": text(),
        "kind": told(json!("string"), "discrete, integrated, virtual, software or native (the processor)"),
        "driver": text(),
    }));
    let mut event = object(json!({
        "id": { "type": "string", "pattern": "^[1-9][0-9]*$", "description": "For Last-Event-ID" },
        "event": { "enum": ["state", "progress", "log", "done"] },
        "data": { "type": "string", "contentMediaType": JSON, "description": "done: the Job" },
    }));
    event["properties"]["retry"] = with(
        count(),
        json!({ "description": "Milliseconds, with the first one" }),
    );
    let inputs = "Endings of meshes and pictures; names or endings of files that list or hold views, those of models of COLMAP among them";
    json!({
        "Job": job,
        "Problem": problem,
        "SelfTest": with(object(json!({
            "passed": told(json!(["boolean", "null"]), "null before the first"),
            "adapter": told(json!(["string", "null"]), "What baked"),
            "error": maybe("string"),
            "age_s": { "type": ["integer", "null"], "minimum": 0 },
            "ms": number,
        })), json!({ "description": "The latest bake of the sample" })),
        "Breaker": with(object(json!({
            "what": text(),
            "rests_s": with(number.clone(), json!({ "description": "Until it is tried again" })),
            "probes": with(count(), json!({ "description": "Tries that failed since" })),
            "last": told(json!("string"), "The latest failure"),
        })), json!({ "description": "What failed again and again, and is not tried for a while" })),
        "Readiness": object(json!({
            "ready": { "type": "boolean" },
            "reasons": with(list(text()), json!({ "description": "What stands in the way" })),
            "self_test": schema("SelfTest"),
            "breakers": list(schema("Breaker")),
            "sandbox": { "type": "boolean" },
        })),
        "Capabilities": object(json!({
            "kiln": told(json!("string"), "Version and build"),
            "sandbox": { "type": "boolean" },
            "adapters": with(list(adapter), json!({ "description": "Adapters that bakes have opened, each by now" })),
            "parallel": told(json!(["integer", "null"]), "Jobs at work at once; null: two for each adapter"),
            "bakes": told(json!("integer"), "Of them bake at once on each adapter"),
            "spares": { "type": "integer" },
            "queue_jobs": { "type": "integer" },
            "client_jobs": maybe("integer"),
            "queue_bytes": { "type": "integer" },
            "self_test": schema("SelfTest"),
            "breakers": list(schema("Breaker")),
            "roots": told(json!("boolean"), "Whether inputs may be named by path"),
            "inputs": { "type": "object", "description": inputs, "additionalProperties": list(text()) },
            "limits": { "type": "object" },
        })),
        "Event": with(event, json!({ "description": "Each event of the stream" })),
    })
}
