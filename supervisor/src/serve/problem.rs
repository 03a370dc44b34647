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

/// The closed list of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// A job's spec is invalid.
    InvalidSpec,
    /// The request itself is invalid.
    InvalidRequest,
    /// No such route, job, blob or artifact.
    NotFound,
    /// It existed and has expired.
    Gone,
    /// The route does not take this method.
    MethodNotAllowed,
    /// The body has an unsupported type.
    UnsupportedMediaType,
    /// The body came too slowly.
    RequestTimeout,
    /// The body is too large.
    PayloadTooLarge,
    /// The bytes do not match their digest.
    DigestMismatch,
    /// `Idempotency-Key` is missing.
    IdempotencyKeyMissing,
    /// The key was used for another job.
    IdempotencyKeyReused,
    /// The job has no such artifact yet.
    JobNotFinished,
    /// A running job cannot be deleted.
    JobRunning,
    /// The queue is full.
    QueueFull,
    /// This client's share of the queue is full.
    QuotaExceeded,
    /// The disk is full.
    InsufficientStorage,
    /// The sidecar is shutting down.
    Draining,
    /// The sidecar cannot work.
    NotReady,
    /// The token is missing or wrong.
    Unauthorized,
    /// The caller has no permission.
    Forbidden,
    /// The byte range does not exist.
    RangeNotSatisfiable,
    /// A bug of the sidecar, or a broken disk.
    Internal,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 22] = [
        Self::InvalidSpec,
        Self::InvalidRequest,
        Self::NotFound,
        Self::Gone,
        Self::MethodNotAllowed,
        Self::UnsupportedMediaType,
        Self::RequestTimeout,
        Self::PayloadTooLarge,
        Self::DigestMismatch,
        Self::IdempotencyKeyMissing,
        Self::IdempotencyKeyReused,
        Self::JobNotFinished,
        Self::JobRunning,
        Self::QueueFull,
        Self::QuotaExceeded,
        Self::InsufficientStorage,
        Self::Draining,
        Self::NotReady,
        Self::Unauthorized,
        Self::Forbidden,
        Self::RangeNotSatisfiable,
        Self::Internal,
    ];

    /// The HTTP status and title.
    #[must_use]
    pub fn meaning(self) -> (StatusCode, &'static str) {
        match self {
            Self::InvalidSpec => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "the job cannot be done as it is described",
            ),
            Self::InvalidRequest => (StatusCode::BAD_REQUEST, "the request cannot be read"),
            Self::NotFound => (StatusCode::NOT_FOUND, "there is no such thing"),
            Self::Gone => (StatusCode::GONE, "it has expired"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "not with this method"),
            Self::UnsupportedMediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not with this content type",
            ),
            Self::RequestTimeout => (StatusCode::REQUEST_TIMEOUT, "the body came too slowly"),
            Self::PayloadTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too many bytes"),
            Self::DigestMismatch => (
                StatusCode::CONFLICT,
                "the bytes are not those that their digest promises",
            ),
            Self::IdempotencyKeyMissing => {
                (StatusCode::BAD_REQUEST, "the Idempotency-Key is missing")
            }
            Self::IdempotencyKeyReused => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "the Idempotency-Key was used for another job",
            ),
            Self::JobNotFinished => (StatusCode::CONFLICT, "the job is not finished"),
            Self::JobRunning => (StatusCode::CONFLICT, "the job is at work"),
            Self::QueueFull => (StatusCode::TOO_MANY_REQUESTS, "the queue is full"),
            Self::QuotaExceeded => (
                StatusCode::TOO_MANY_REQUESTS,
                "this client's share of the queue is full",
            ),
            Self::InsufficientStorage => (StatusCode::INSUFFICIENT_STORAGE, "the disk is full"),
            Self::Draining => (StatusCode::SERVICE_UNAVAILABLE, "the sidecar is leaving"),
            Self::NotReady => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the sidecar cannot work now",
            ),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "the token is missing or wrong"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "not for this caller"),
            Self::RangeNotSatisfiable => {
                (StatusCode::RANGE_NOT_SATISFIABLE, "there are no such bytes")
            }
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "kiln failed"),
        }
    }

    /// Whether the same request may succeed later.
    #[must_use]
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
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            field: None,
            retry_after: None,
        }
    }

    /// An invalid key of a spec.
    #[must_use]
    pub fn field(field: &str, detail: impl Into<String>) -> Self {
        Self {
            field: Some(field.to_owned()),
            ..Self::new(Code::InvalidSpec, detail)
        }
    }

    /// The problem of a body that ended early.
    #[must_use]
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
        let name = crate::words::word(&self.code);
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
    fn each_code_is_listed_once_and_has_the_status_of_an_error() {
        let mut codes = Code::ALL.to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Code::ALL.len());
        for code in codes {
            let (status, title) = code.meaning();
            assert!(status.is_client_error() || status.is_server_error());
            assert!(!title.is_empty());
        }
    }

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
