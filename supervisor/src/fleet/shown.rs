//! Order, attempts and result of a fleet's job → its JSON as a sidecar shows a job, with `host` and `hosts` beside it.

use std::time::{Duration, UNIX_EPOCH};

use kiln_fleet::record::{Attempt, End, Order, Outcome};
use serde_json::{Value, json};

/// Milliseconds since 1970 as RFC 3339 in UTC.
fn time(ms: Option<u64>) -> Value {
    let time = ms.and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
    json!(time.map(|time| humantime::format_rfc3339_millis(time).to_string()))
}

/// A job that is not over.
pub(super) fn open(order: &Order, attempts: &[Attempt]) -> Value {
    let running = attempts.iter().find(|attempt| attempt.ended_ms.is_none());
    json!({
        "id": order.id,
        "name": order.name,
        "state": if running.is_some() { "preparing" } else { "queued" },
        "progress": 0.0,
        "phase": null,
        "created_at": time(Some(order.created_ms)),
        "started_at": time(attempts.first().map(|first| first.begun_ms)),
        "finished_at": null,
        "starts": attempts.len(),
        "warnings": [],
        "artifacts": [],
        "error": null,
        "host": running.map(|attempt| &attempt.host),
        "hosts": attempts,
        "spec": order.spec,
    })
}

/// A job that is over: as its sidecar showed it, under the id and the times that it has here.
pub(super) fn over(order: &Order, outcome: &Outcome) -> Value {
    let mut job = open(order, &outcome.attempts);
    if let Value::Object(told) = &outcome.job {
        for key in [
            "report",
            "warnings",
            "artifacts",
            "error",
            "device",
            "attempts",
        ] {
            if let Some(value) = told.get(key) {
                job[key] = value.clone();
            }
        }
    }
    if let Some(artifacts) = job["artifacts"].as_array_mut() {
        for artifact in artifacts {
            // A path of the sidecar's, which nobody here can ask.
            if let Some(artifact) = artifact.as_object_mut() {
                artifact.remove("href");
            }
        }
    }
    job["state"] = json!(outcome.state);
    job["progress"] = json!(if outcome.state == End::Succeeded {
        1.0
    } else {
        0.0
    });
    job["finished_at"] = time(Some(outcome.finished_ms));
    job["host"] = json!(outcome.host);
    job
}
