//! Turns a panic in this process into a job's error: one line, exit code 70.
//!
//! No panic is meant to happen. But some libraries panic where a host is short of something: tokio does when no
//! descriptor is left for its signal pipe.

use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Mutex, PoisonError};

use proto::message::Code;

use crate::error::JobError;
use crate::words::printable;

/// A panic's text is cut at this many bytes.
const WORDS: usize = 400;

/// Runs `work`. A panic in it becomes an error that gives its message and place.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Box<JobError>> {
    let said = Arc::new(Mutex::new(String::new()));
    let hook = Arc::clone(&said);
    set_hook(Box::new(move |info| {
        let words = words(info);
        tracing::debug!("a panic: {words}");
        let mut first = hook.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_empty() {
            *first = words;
        }
    }));
    // What `work` borrowed is not used after a panic.
    let done = catch_unwind(AssertUnwindSafe(work));
    drop(take_hook());
    done.map_err(|_payload| {
        let words = said.lock().unwrap_or_else(PoisonError::into_inner);
        let hint = "short of descriptors, threads or memory (ulimit -a), this may be the host's doing; otherwise it is a bug";
        JobError::own(Code::Internal, format!("kiln itself failed: {words}"), hint)
    })
}

fn words(info: &PanicHookInfo<'_>) -> String {
    let words = printable(info.payload_as_str().unwrap_or("without a word"), WORDS);
    let place = info.location().map(|place| {
        // The folders above are those of the machine that built this.
        let file = place.file().rsplit('/').next().unwrap_or_default();
        format!(" ({file}:{})", place.line())
    });
    format!("{words}{}", place.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_words_and_place() {
        let error = caught(|| panic!("no\x1b[2J more")).expect_err("a panic");
        assert_eq!((error.code, error.exit_code), (Code::Internal, 70));
        let wanted = "kiln itself failed: no";
        assert!(error.message.starts_with(wanted), "{}", error.message);
        assert!(error.message.contains("(panics.rs:"), "{}", error.message);
        assert!(!error.message.contains('\x1b'), "{:?}", error.message);
        assert_eq!(caught(|| 7).expect("no panic"), 7);
    }
}
