//! The sidecar's jobs: reads and checks their JSON; submits, finds, lists and cancels jobs.

use axum::body::Bytes;
use axum::http::{HeaderName, Method};
use proto::message::Code;
use serde::Deserialize;
use serde_json::Value;

use super::client::{Client, Later};
use super::error::RemoteError;
use super::http::{Ask, Payload};
use crate::error::JobError;
use crate::options::{JobOptions, bad_name};
use crate::process::verdict::RetryClass;
use crate::report::{Options, Report};
use crate::serve::board::State;
use crate::store::{Digest, JobId};
use crate::words::printable;

/// Jobs in one page of a list.
const PAGE: usize = 100;
/// Bytes that are kept of a line that a worker wrote.
const LINE: usize = 4096;

/// A job as the sidecar shows it.
#[derive(Clone, Debug)]
pub struct Job {
    /// The fields that this program uses.
    pub known: Known,
    /// The job's whole JSON.
    pub raw: Value,
}

/// See [`Job`]; the sidecar's `serve/api/job.rs` documents the fields.
#[derive(Clone, Debug, Deserialize)]
#[expect(
    missing_docs,
    reason = "the fields of the API, which openapi.json explains"
)]
pub struct Known {
    pub id: JobId,
    #[serde(default)]
    pub name: Option<String>,
    pub state: State,
    pub progress: f64,
    #[serde(default)]
    pub phase: Option<String>,
    #[serde(default)]
    pub position: Option<u64>,
    #[serde(default)]
    pub created_at: Option<String>,
    #[serde(default)]
    pub error: Option<Value>,
    #[serde(default)]
    pub report: Option<Value>,
    pub artifacts: Vec<Made>,
    #[serde(default)]
    pub spec: Value,
}

/// A file that a job made.
#[derive(Clone, Debug, Deserialize)]
pub struct Made {
    /// Its name; never a path.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
}

impl Job {
    /// Reads a job's JSON.
    ///
    /// # Errors
    /// It is not understood, or a file has an odd name.
    pub(crate) fn read(raw: Value) -> Result<Self, RemoteError> {
        let known: Known = Known::deserialize(&raw)
            .map_err(|error| RemoteError::Garbled(format!("a job: {error}")))?;
        // These become names of files here.
        let odd = |made: &&Made| bad_name(&made.name).is_some() || made.name.contains('/');
        if let Some(made) = known.artifacts.iter().find(odd) {
            let name = printable(&made.name, 80);
            return Err(RemoteError::Garbled(format!("a file called {name:?}")));
        }
        Ok(Self { known, raw })
    }

    /// Finds a file that the job made.
    ///
    /// # Errors
    /// The job made no such file.
    pub fn made(&self, name: &str) -> Result<&Made, Box<JobError>> {
        let made = &self.known.artifacts;
        made.iter().find(|made| made.name == name).ok_or_else(|| {
            let names: Vec<&str> = made.iter().map(|made| made.name.as_str()).collect();
            let others = match names.as_slice() {
                [] => "made no files".to_owned(),
                names => format!("made {} and no {name}", names.join(", ")),
            };
            let hint = match name {
                "preview.png" => "kiln submit --with-preview has it made",
                "report.html" => "kiln submit --with-html has it made",
                "coverage.png" | "residual.png" | "provenance.png" => {
                    "kiln submit --with-maps has it made"
                }
                _ => "kiln status tells how the job ended",
            };
            JobError::own(
                Code::MissingInput,
                format!("job {} {others}", self.known.id),
                hint,
            )
        })
    }

    /// Whether the spec has this option switched on: `preview`, `html`, `maps`.
    pub fn was_told(&self, option: &str) -> bool {
        self.known.spec[option] == true
    }

    /// Why it failed, as far as that can be read; `None` if it did not fail.
    pub fn failure(&self) -> Option<Box<JobError>> {
        if !matches!(self.known.state, State::Failed | State::Cancelled) {
            return None;
        }
        Some(failure(self.known.error.as_ref().unwrap_or(&Value::Null)))
    }

    /// The job's report. `place` replaces the sidecar's paths by the caller's.
    ///
    /// # Errors
    /// The report is of another version.
    pub fn report(&self, place: impl FnOnce(&mut Options)) -> Result<Report, RemoteError> {
        let mut report = match &self.known.report {
            Some(raw) => Report::read(raw.clone()),
            // The job ended before it began.
            None if self.known.state != State::Succeeded => {
                // A spec of another version is not needed for more than this.
                let spec = JobOptions::deserialize(&self.known.spec).unwrap_or_default();
                Some(Report::of(Options::of(&spec)))
            }
            None => None,
        }
        .ok_or_else(|| RemoteError::Garbled("the report of the job".to_owned()))?;
        place(&mut report.options);
        report.error = self.failure();
        Ok(report)
    }
}

/// Reads an error's JSON key by key, so that a missing or unknown one does not hide the rest.
fn failure(raw: &Value) -> Box<JobError> {
    fn part<T: for<'de> Deserialize<'de>>(raw: &Value, key: &str) -> Option<T> {
        T::deserialize(raw.get(key)?).ok()
    }
    let code = part(raw, "code").unwrap_or(Code::Internal);
    let text = |key| part::<String>(raw, key).unwrap_or_default();
    let message = match text("message") {
        empty if empty.is_empty() => "the sidecar does not say why".to_owned(),
        message => message,
    };
    let mut error = JobError::own(code, message, text("hint"));
    error.class = part(raw, "class").unwrap_or(RetryClass::of(code));
    error.role = part(raw, "role");
    error.phase = part(raw, "phase");
    error.signal = part::<String>(raw, "signal").map(|signal| printable(&signal, 80));
    error.exit = part(raw, "exit");
    error.device = part(raw, "device").map(crate::words::adapter);
    error.crash_folder = part(raw, "crash_folder");
    error.attempts = part(raw, "attempts").unwrap_or_default();
    let lines: Vec<String> = part(raw, "log_tail").unwrap_or_default();
    error.log_tail = lines.iter().map(|line| printable(line, LINE)).collect();
    // A failure never exits with code 0.
    error.exit_code = part(raw, "exit_code")
        .filter(|code| *code != 0)
        .unwrap_or(error.exit_code);
    Box::new(*error)
}

#[derive(Deserialize)]
struct Page {
    jobs: Vec<Value>,
    cursor: Option<String>,
}

impl Client {
    /// Submits a job, whose spec is JSON, under an idempotency key.
    ///
    /// # Errors
    /// The sidecar refuses, or is gone.
    pub async fn submit(&self, spec: String, key: &str) -> Result<Job, RemoteError> {
        let mut ask = Ask::new(Method::POST, "/v1/jobs")
            .with(HeaderName::from_static("idempotency-key"), key);
        ask.payload = Payload::Json(Bytes::from(spec));
        Job::read(self.json(&ask, Later::Tell).await?)
    }

    /// The job as it is now.
    ///
    /// # Errors
    /// There is no such job, or the sidecar is gone.
    pub async fn job(&self, id: JobId) -> Result<Job, RemoteError> {
        let ask = Ask::new(Method::GET, format!("/v1/jobs/{id}"));
        Job::read(self.json(&ask, Later::Again).await?)
    }

    /// Cancels a job.
    ///
    /// # Errors
    /// There is no such job, or the sidecar is gone.
    pub async fn cancel(&self, id: JobId) -> Result<Job, RemoteError> {
        let ask = Ask::new(Method::POST, format!("/v1/jobs/{id}/cancel"));
        Job::read(self.json(&ask, Later::Again).await?)
    }

    /// Gives the newest jobs to `each`: at most `limit`, and only those of `state` if it is given.
    ///
    /// # Errors
    /// The sidecar refuses, or is gone.
    pub async fn list(
        &self,
        state: Option<&str>,
        limit: usize,
        mut each: impl FnMut(Job),
    ) -> Result<(), RemoteError> {
        let (mut left, mut cursor) = (limit, None::<String>);
        while left > 0 {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("limit", &left.min(PAGE).to_string());
            if let Some(state) = state {
                query.append_pair("state", state);
            }
            if let Some(cursor) = &cursor {
                query.append_pair("cursor", cursor);
            }
            let ask = Ask::new(Method::GET, format!("/v1/jobs?{}", query.finish()));
            let page: Page = self.json(&ask, Later::Again).await?;
            // An empty page with a cursor would lead to an endless loop.
            let empty = page.jobs.is_empty();
            for raw in page.jobs.into_iter().take(left) {
                left -= 1;
                each(Job::read(raw)?);
            }
            cursor = page.cursor;
            if cursor.is_none() || empty {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(more: &Value) -> Value {
        let mut job = json!({
            "id": "0".repeat(32), "name": "", "state": "failed", "progress": 0.5, "artifacts": [], "error": null,
            "spec": {},
        });
        for (key, value) in more.as_object().expect("an object") {
            job[key] = value.clone();
        }
        job
    }

    #[test]
    fn an_error_of_another_version_still_tells_what_it_can() {
        let error = failure(&json!({
            "code": "warp_core_breach", "message": "a\nb", "hint": 7, "exit_code": 99, "log_tail": ["\u{1b}[31m"],
            "role": "bake", "attempts": "many",
        }));
        assert_eq!(
            (error.code, error.message.as_str(), error.exit_code),
            (Code::Internal, "a\u{fffd}b", 99)
        );
        assert_eq!(error.log_tail, ["\u{fffd}[31m"]);
        assert_eq!(error.role, Some(proto::message::Role::Bake));
        let error = failure(&json!({ "code": "invalid_asset", "exit_code": 0 }));
        assert_eq!(error.exit_code, 65, "never 0");
        assert_eq!(failure(&Value::Null).exit_code, 70);
    }

    #[test]
    fn an_error_keeps_all_that_is_known() {
        let mut error = JobError::own(Code::WorkerCrashed, "bake died", "see");
        error.signal = Some("SIGSEGV".to_owned());
        error.log_tail = vec!["a".to_owned()];
        let again = failure(&json!(error));
        assert_eq!(json!(again), json!(error));
    }

    #[test]
    fn a_name_that_is_a_path_is_not_understood() {
        let made = |name: &str| json!({ "artifacts": [{ "name": name, "bytes": 1, "sha256": "a".repeat(64) }] });
        Job::read(job(&made("model.glb"))).expect("a name");
        for name in ["../model.glb", "/etc/passwd", "a/b", "", ".bashrc", "a\nb"] {
            let error = Job::read(job(&made(name))).expect_err(name);
            assert_eq!(error.report().exit_code, 76);
        }
        Job::read(job(&json!({ "state": "levitating" }))).expect_err("no such state");
        Job::read(json!([])).expect_err("no job");
    }
}
