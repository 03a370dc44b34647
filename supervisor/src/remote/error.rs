//! Errors between this process and a sidecar: each has a message, a hint and an exit code.

use std::time::Duration;

use axum::http::StatusCode;
use nix::sys::signal::Signal;
use proto::exit;
use proto::limits::MAX_TEXT_BYTES;
use serde::{Deserialize, Serialize};

use crate::error::JobError;
use crate::process::verdict::RetryClass;
use crate::serve::problem::Code;
use crate::words::printable;

/// The pause after a refusal that names no time.
const AGAIN: Duration = Duration::from_secs(1);
/// No sidecar may make a caller wait for longer.
const LONGEST: Duration = Duration::from_secs(300);

/// A request that the sidecar refused.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The status.
    pub status: StatusCode,
    /// A code of the closed list; `None` if the answer names none of it.
    pub code: Option<Code>,
    /// What is wrong, where, and how to fix it: one printable line.
    pub detail: String,
    /// The key of the spec that is wrong.
    pub field: Option<String>,
    /// When to try again.
    pub after: Option<Duration>,
}

/// An error of a remote call.
#[derive(Debug)]
pub enum RemoteError {
    /// An error on this side, reported as `kiln bake` reports it.
    Local(Box<JobError>),
    /// The sidecar refuses.
    Refused(Refused),
    /// Nothing answers, or not any more.
    Unreachable {
        /// The place, and the reason.
        why: String,
        /// Nothing listens there.
        absent: bool,
    },
    /// A fleet's queue or store does not answer.
    Away(String),
    /// Somebody answers whom this user does not trust.
    Untrusted {
        /// Who, or whose folder.
        why: String,
        /// How to mend it.
        hint: &'static str,
    },
    /// The answer is not understood.
    Garbled(String),
    /// What arrived differs from what was promised.
    Damaged(String),
    /// The caller's time is over. The job goes on.
    TimedOut(Duration),
    /// The caller was told to exit. The job goes on.
    Interrupted(Signal),
}

/// What lines and JSON say of an error.
#[derive(Debug, Serialize)]
pub struct ErrorReport {
    /// A code of the sidecar's closed list, or one of the causes below.
    pub code: String,
    /// What to expect of a retry.
    pub class: RetryClass,
    /// One printable line.
    pub message: String,
    /// One line; may be empty.
    pub hint: String,
    /// The exit code of `kiln`.
    pub exit_code: u8,
    /// Seconds until it may be retried.
    pub retry_after_s: Option<u64>,
}

/// `application/problem+json`.
#[derive(Deserialize)]
struct Problem {
    code: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    field: Option<String>,
}

impl Refused {
    /// Reads a refusal from an answer that is not a success.
    pub fn read(status: StatusCode, after: Option<&str>, body: &[u8]) -> Self {
        // `Retry-After` may also be a date; then the default pause applies.
        let after = after
            .and_then(|text| text.trim().parse().ok())
            .map(|seconds| Duration::from_secs(seconds).min(LONGEST));
        let Ok(problem) = serde_json::from_slice::<Problem>(body) else {
            return Self {
                status,
                code: None,
                detail: format!("it answers {status} and does not say why"),
                field: None,
                after,
            };
        };
        let detail = match problem.detail.is_empty() {
            true => &problem.title,
            false => &problem.detail,
        };
        Self {
            status,
            code: (Code::ALL.into_iter()).find(|code| code.name() == problem.code),
            detail: printable(detail, MAX_TEXT_BYTES),
            field: problem.field.map(|field| printable(&field, 80)),
            after,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_for_later(&self) -> bool {
        self.exit_code() == exit::TEMPFAIL
    }

    /// How long to wait before that.
    pub fn pause(&self) -> Duration {
        self.after.unwrap_or(AGAIN).max(AGAIN)
    }

    fn report(&self) -> ErrorReport {
        let message = match &self.field {
            Some(field) if !field.is_empty() => format!("{field}: {}", self.detail),
            _ => self.detail.clone(),
        };
        let later = self.is_for_later().then(|| self.pause().as_secs());
        let (class, message) = match later {
            Some(seconds) => (
                RetryClass::Transient,
                format!("the sidecar takes it later: {message} (in {seconds} s)"),
            ),
            None => (RetryClass::Input, format!("the sidecar refuses: {message}")),
        };
        ErrorReport {
            code: self.code.map_or("unknown", Code::name).to_owned(),
            class,
            message: printable(&message, MAX_TEXT_BYTES),
            hint: hint(self).to_owned(),
            exit_code: self.exit_code(),
            retry_after_s: later,
        }
    }

    fn exit_code(&self) -> u8 {
        match (self.code, self.status) {
            (Some(code), _) => of(code),
            (None, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) => {
                exit::TEMPFAIL
            }
            (None, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => exit::NOPERM,
            (None, _) => exit::PROTOCOL,
        }
    }
}

/// The exit code of each problem.
pub fn of(code: Code) -> u8 {
    match code {
        Code::InvalidSpec | Code::IdempotencyKeyReused => exit::USAGE,
        Code::PayloadTooLarge => exit::DATAERR,
        Code::NotFound | Code::Gone => exit::NOINPUT,
        Code::DigestMismatch => exit::IOERR,
        Code::RequestTimeout
        | Code::JobNotFinished
        | Code::JobRunning
        | Code::QueueFull
        | Code::QuotaExceeded
        | Code::InsufficientStorage
        | Code::Draining
        | Code::NotReady => exit::TEMPFAIL,
        Code::Unauthorized | Code::Forbidden => exit::NOPERM,
        // This program sends no such request to a sidecar of its own version.
        Code::InvalidRequest
        | Code::MethodNotAllowed
        | Code::UnsupportedMediaType
        | Code::IdempotencyKeyMissing
        | Code::RangeNotSatisfiable => exit::PROTOCOL,
        Code::Internal => exit::SOFTWARE,
    }
}

fn hint(refused: &Refused) -> &'static str {
    match refused.code {
        Some(
            Code::RequestTimeout
            | Code::QueueFull
            | Code::QuotaExceeded
            | Code::InsufficientStorage
            | Code::Draining
            | Code::NotReady,
        ) => "--retry of kiln submit waits and tries again",
        Some(Code::NotFound | Code::Gone) => "kiln list shows the jobs that there are",
        Some(Code::Unauthorized) => "--token-file names the file that kiln serve was given",
        Some(Code::DigestMismatch) => "a file changed while it was sent: submit it again",
        Some(Code::JobNotFinished) => "kiln wait waits for it",
        Some(Code::IdempotencyKeyReused) => "give each job a --key of its own, or none",
        _ => "",
    }
}

impl RemoteError {
    /// What a person or a program is told of it.
    pub fn report(&self) -> ErrorReport {
        let (code, class, exit_code, message, hint) = match self {
            Self::Local(error) => return ErrorReport::of(error),
            Self::Refused(refused) => return refused.report(),
            Self::Unreachable { why, absent } => (
                "unreachable",
                RetryClass::Transient,
                exit::UNAVAILABLE,
                why.clone(),
                match absent {
                    true => "kiln serve starts one; --socket or $KILN_SOCKET says where it is",
                    false => {
                        "a job that it accepted is not lost: kiln list shows it once kiln serve runs again"
                    }
                },
            ),
            Self::Away(why) => (
                "unreachable",
                RetryClass::Transient,
                exit::UNAVAILABLE,
                why.clone(),
                "a job that was accepted is not lost: its hosts go on once they are back",
            ),
            Self::Untrusted { why, hint } => (
                "untrusted",
                RetryClass::Config,
                exit::NOPERM,
                why.clone(),
                *hint,
            ),
            Self::Garbled(why) => (
                "not_understood",
                RetryClass::Config,
                exit::PROTOCOL,
                format!("the sidecar's answer is not understood: {why}"),
                concat!(
                    "is it a kiln serve of another version? this is ",
                    env!("CARGO_PKG_VERSION")
                ),
            ),
            Self::Damaged(why) => (
                "damaged",
                RetryClass::Transient,
                exit::IOERR,
                why.clone(),
                "nothing was put in place; fetch it again",
            ),
            Self::TimedOut(time) => (
                "deadline_exceeded",
                RetryClass::Input,
                exit::TIMEOUT,
                format!("not over after {} s of waiting", time.as_secs_f64()),
                "the job goes on: kiln wait waits on, kiln cancel ends it",
            ),
            Self::Interrupted(signal) => (
                "cancelled",
                RetryClass::Input,
                u8::try_from(128 + *signal as i32).unwrap_or(exit::SIGINT),
                format!("ended by {}", signal.as_str()),
                "a job that was accepted goes on: kiln wait waits on, kiln cancel ends it",
            ),
        };
        ErrorReport {
            code: code.to_owned(),
            class,
            message: printable(&message, MAX_TEXT_BYTES),
            hint: hint.to_owned(),
            exit_code,
            retry_after_s: None,
        }
    }
}

impl ErrorReport {
    fn of(error: &JobError) -> Self {
        Self {
            code: error.code.name().to_owned(),
            class: error.class,
            message: printable(&error.message, MAX_TEXT_BYTES),
            hint: error.hint.clone(),
            exit_code: error.exit_code,
            retry_after_s: None,
        }
    }
}

impl From<Box<JobError>> for RemoteError {
    fn from(error: Box<JobError>) -> Self {
        Self::Local(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_has_an_exit_code_and_what_can_be_repeated_has_75() {
        let listed = [0, 64, 65, 66, 69, 70, 73, 74, 75, 76, 77];
        for code in Code::ALL {
            assert!(listed.contains(&of(code)) && of(code) != 0, "{code:?}");
            if code.retryable() {
                assert_eq!(of(code), exit::TEMPFAIL, "{code:?}");
            }
            let body = format!(r#"{{"code": "{}", "detail": "x"}}"#, code.name());
            let refused = Refused::read(code.meaning().0, Some("7"), body.as_bytes());
            assert_eq!(refused.code, Some(code));
            assert_eq!(RemoteError::Refused(refused).report().exit_code, of(code));
        }
        assert_eq!(of(Code::QueueFull), 75);
        assert_eq!(of(Code::Unauthorized), 77);
        assert_eq!(of(Code::InvalidRequest), 76);
    }

    #[test]
    fn an_unknown_problem_is_judged_by_its_status_and_said_on_one_line() {
        let read = |status: u16, body: &str| {
            let status = StatusCode::from_u16(status).expect("a status");
            RemoteError::Refused(Refused::read(status, None, body.as_bytes())).report()
        };
        assert_eq!(read(503, "<html>").exit_code, 75);
        assert_eq!(read(401, "").exit_code, 77);
        assert_eq!(read(418, r#"{"code": "teapot"}"#).exit_code, 76);
        let told = read(500, r#"{"code": "internal", "detail": "a\u001b[31m\nb"}"#);
        assert_eq!(told.exit_code, 70);
        assert!(told.message.ends_with("a\u{fffd}[31m\u{fffd}b"));
    }

    #[test]
    fn nobody_is_made_to_wait_for_ever() {
        let refused = |after| {
            Refused::read(
                StatusCode::TOO_MANY_REQUESTS,
                Some(after),
                br#"{"code": "queue_full", "detail": "64 jobs wait"}"#,
            )
        };
        assert_eq!(refused("5").pause(), Duration::from_secs(5));
        assert_eq!(refused("0").pause(), AGAIN);
        assert_eq!(refused("99999999").pause(), LONGEST);
        assert_eq!(refused("Fri, 01 Jan 2027 00:00:00 GMT").pause(), AGAIN);
        let told = RemoteError::Refused(refused("5")).report();
        assert_eq!((told.exit_code, told.retry_after_s), (75, Some(5)));
        assert!(told.message.contains("64 jobs wait"), "{}", told.message);
    }
}
