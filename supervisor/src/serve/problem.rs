//! Errors of requests as `application/problem+json` (RFC 9457), with a closed list of codes.
//!
//! A failed job is not a failed request: it is reported as data, with status 200.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use super::steady::Slow;
use crate::options::Wrong;

/// The media type of each.
pub(super) const TYPE: &str = "application/problem+json";

proto::worded! {
    /// The closed list of codes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    pub enum Code {
        /// A job's spec is invalid.
        InvalidSpec = "invalid_spec",
        /// The request itself is invalid.
        InvalidRequest = "invalid_request",
        /// No such route, job, blob or artifact.
        NotFound = "not_found",
        /// It existed and has expired.
        Gone = "gone",
        /// The route does not take this method.
        MethodNotAllowed = "method_not_allowed",
        /// The body has an unsupported type.
        UnsupportedMediaType = "unsupported_media_type",
        /// The body came too slowly.
        RequestTimeout = "request_timeout",
        /// The body is too large.
        PayloadTooLarge = "payload_too_large",
        /// The bytes do not match their digest.
        DigestMismatch = "digest_mismatch",
        /// `Idempotency-Key` is missing.
        IdempotencyKeyMissing = "idempotency_key_missing",
        /// The key was used for another job.
        IdempotencyKeyReused = "idempotency_key_reused",
        /// The job has no such artifact yet.
        JobNotFinished = "job_not_finished",
        /// A running job cannot be deleted.
        JobRunning = "job_running",
        /// The queue is full.
        QueueFull = "queue_full",
        /// This client's share of the queue is full.
        QuotaExceeded = "quota_exceeded",
        /// The disk is full.
        InsufficientStorage = "insufficient_storage",
        /// The sidecar is shutting down.
        Draining = "draining",
        /// The sidecar cannot work.
        NotReady = "not_ready",
        /// The token is missing or wrong.
        Unauthorized = "unauthorized",
        /// The caller has no permission.
        Forbidden = "forbidden",
        /// The byte range does not exist.
        RangeNotSatisfiable = "range_not_satisfiable",
        /// A bug of the sidecar, or a broken disk.
        Internal = "internal",
    }
}

impl Code {
    /// The HTTP status and title.
    pub fn meaning(self) -> (StatusCode, &'static str) {
        let (status, title) = match self {
            Self::InvalidSpec => (422, "the job cannot be done as it is described"),
            Self::InvalidRequest => (400, "the request cannot be read"),
            Self::NotFound => (404, "there is no such thing"),
            Self::Gone => (410, "it has expired"),
            Self::MethodNotAllowed => (405, "not with this method"),
            Self::UnsupportedMediaType => (415, "not with this content type"),
            Self::RequestTimeout => (408, "the body came too slowly"),
            Self::PayloadTooLarge => (413, "too many bytes"),
            Self::DigestMismatch => (409, "the bytes are not those that their digest promises"),
            Self::IdempotencyKeyMissing => (400, "the Idempotency-Key is missing"),
            Self::IdempotencyKeyReused => (422, "the Idempotency-Key was used for another job"),
            Self::JobNotFinished => (409, "the job is not finished"),
            Self::JobRunning => (409, "the job is at work"),
            Self::QueueFull => (429, "the queue is full"),
            Self::QuotaExceeded => (429, "this client's share of the queue is full"),
            Self::InsufficientStorage => (507, "the disk is full"),
            Self::Draining => (503, "the sidecar is leaving"),
            Self::NotReady => (503, "the sidecar cannot work now"),
            Self::Unauthorized => (401, "the token is missing or wrong"),
            Self::Forbidden => (403, "not for this caller"),
            Self::RangeNotSatisfiable => (416, "there are no such bytes"),
            Self::Internal => (500, "kiln failed"),
        };
        let status = StatusCode::from_u16(status);
        (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), title)
    }

    /// Whether the same request may succeed later.
    pub fn retryable(self) -> bool {
        matches!(
            self,
            Self::RequestTimeout
                | Self::JobNotFinished
                | Self::QueueFull
                | Self::QuotaExceeded
                | Self::InsufficientStorage
                | Self::Draining
                | Self::NotReady
        )
    }
}

/// An error answer.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Its code.
    pub code: Code,
    /// What is wrong, where, and how to fix it.
    pub detail: String,
    /// The key of the spec that is wrong.
    pub field: Option<String>,
    /// Seconds after which to retry.
    pub retry_after: Option<u32>,
}

impl Problem {
    /// A problem with this detail.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            field: None,
            retry_after: None,
        }
    }

    /// An invalid key of a spec.
    pub fn field(field: &str, detail: impl Into<String>) -> Self {
        Self {
            field: Some(field.to_owned()),
            ..Self::new(Code::InvalidSpec, detail)
        }
    }

    /// The problem of a body that ended early.
    pub fn broken_off(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        match cause.downcast_ref::<Slow>() {
            Some(slow) => Self::new(Code::RequestTimeout, slow.to_string()).after(1),
            None => Self::new(Code::InvalidRequest, format!("the body broke off: {cause}")),
        }
    }

    /// Sets the seconds after which to retry.
    #[must_use]
    pub fn after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<Wrong> for Problem {
    fn from(Wrong { key, why }: Wrong) -> Self {
        Self::field(&key, why)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, title) = self.code.meaning();
        let name = self.code.name();
        let mut body = json!({
            "type": format!("urn:kiln:problem:{name}"),
            "title": title,
            "status": status.as_u16(),
            "detail": self.detail,
            "code": name,
            "retryable": self.code.retryable(),
        });
        if let (Some(field), Some(body)) = (self.field, body.as_object_mut()) {
            body.insert("field".to_owned(), field.into());
        }
        let mut response =
            (status, [(header::CONTENT_TYPE, TYPE)], body.to_string()).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == Code::Unauthorized {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"kiln\""),
            );
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_tried_again_says_when() {
        let response = Problem::new(Code::QueueFull, "64 jobs wait")
            .after(3)
            .into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[header::RETRY_AFTER], "3");
        assert_eq!(
            response.headers()[header::CONTENT_TYPE],
            "application/problem+json"
        );
    }
}
