//! Peak memory of this process, for the summaries of the roles.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Peak resident memory of this process in KiB. The first call opens the file and keeps it open, because the sandbox
/// opens none.
pub(crate) fn peak_rss_kib() -> u64 {
    static STATUS: OnceLock<Option<File>> = OnceLock::new();
    let read = || {
        let status = STATUS.get_or_init(|| File::open("/proc/self/status").ok());
        let mut text = [0; 4096];
        let length = status.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..length)?).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    read().unwrap_or(0)
}
