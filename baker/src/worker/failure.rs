//! Failures that no input causes, as every role reports them.

use std::io;

use proto::message::{Code, Failure};

/// A bug in Kiln, or the end of the supervisor. The message names every cause.
pub(crate) fn internal(error: &dyn std::error::Error) -> Failure {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(": ");
        message.push_str(&error.to_string());
        cause = error.source();
    }
    Failure {
        code: Code::Internal,
        message,
        hint: String::new(),
    }
}

/// The system gives no thread to do something with.
pub(crate) fn no_thread(to: &str, error: &io::Error) -> Failure {
    Failure {
        code: Code::SpawnFailed,
        message: format!("the system gave no thread to {to} with: {error}"),
        hint: "this host is short of processes or memory (ulimit -a): fewer jobs at once need less"
            .to_owned(),
    }
}
