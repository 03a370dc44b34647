//! A list of jobs: refused with one harmless line, or arguments that express only what an entry's keys can.

use proto::message::Code;
use supervisor::cli::jobs as list;
use supervisor::error::JobError;

use super::harmless;
use crate::heap;

/// Memory per input byte: a byte may become a map entry, and each text is kept twice.
const BYTES_FOR_A_BYTE: usize = 512;
const READING_BYTES: usize = 64 << 10;
/// Longest name of a job.
const NAME_BYTES: usize = 80;
/// Options of the whole list, not of one job.
const SHARED: [&str; 6] = [
    "jobs",
    "parallel",
    "memory-limit",
    "json",
    "quiet",
    "verbose",
];

/// Input: the list.
pub fn jobs(bytes: &[u8]) -> bool {
    let limit = READING_BYTES + BYTES_FOR_A_BYTE * bytes.len();
    let entries = match heap::within(limit, "reading a list", || list::parse(bytes)) {
        Ok(entries) => entries,
        Err(line) => {
            // As it is shown.
            harmless(&JobError::own(Code::InvalidSpec, line, "").message);
            return false;
        }
    };
    assert!(!entries.is_empty(), "an empty list is refused");
    for list::Entry { name, arguments } in entries {
        harmless(&name);
        assert!(name.len() <= NAME_BYTES, "a name of {} bytes", name.len());
        let (flags, mesh) = arguments.split_at(arguments.len() - 2);
        assert_eq!(mesh[0], "--", "the mesh is never taken for a flag");
        for flag in flags {
            let flag = flag.strip_prefix("--").expect("a flag");
            let key = flag.split_once('=').map_or(flag, |(key, _)| key);
            assert!(!key.is_empty(), "without a name it would end the flags");
            assert!(!key.starts_with('-'), "{key:?}");
            assert!(!SHARED.contains(&key), "{key:?} is not one job's");
        }
    }
    true
}
