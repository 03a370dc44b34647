//! Keeps a record of a process that died of a likely bug, in a folder that `kiln replay` can run again.
//!
//! ```text
//!  FOLDER/crash.json   build, job (options and inputs: [`Kept`]), adapter, rung, phase, exit, fault, last words, log
//! tail  FOLDER/stacks.txt   stacks of all threads, if the process could still write them
//! ```
//!
//! Folders hold small text files that only their owner can read. The newest [`KEPT`] are kept. No input is copied: the
//! job names its files by absolute paths.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proto::message::Code;
use serde_json::{Value, json};

use crate::home;
use crate::host::ladder::Rung;
use crate::input::{Chosen, whole};
use crate::job::{Kept, Spec};
use crate::process::reserve::lend;
use crate::process::verdict::{Ending, Fault};
use crate::words::{printable, printable_lines};

/// Schema version of `crash.json`.
const SCHEMA: u32 = 2;
/// Largest `crash.json` that is read: its texts are bounded, and escapes at most double them.
const MAX_RECORD_BYTES: u64 = 4 << 20;
/// Most folders kept; older ones are removed.
pub const KEPT: usize = 32;
/// Most bytes of stacks and other texts.
const TEXT_BYTES: usize = 64 * 1024;

/// Longest message about a bad folder.
const TEXT_LINE: usize = 300;

/// Whether an end deserves a folder: not one that the input, the caller or the installation explains.
pub fn worth_keeping(code: Code) -> bool {
    matches!(
        code,
        Code::WorkerCrashed
            | Code::WorkerStalled
            | Code::GpuDeviceLost
            | Code::GpuHang
            | Code::ShaderRejected
            | Code::IncompleteOutput
            | Code::ProtocolViolation
            | Code::SandboxViolation
            | Code::OutOfHostMemory
            | Code::OutOfDeviceMemory
            | Code::Internal
    )
}

/// The default root: `$XDG_STATE_HOME/kiln/crashes`, by default beneath `~/.local/state`.
pub fn default_root() -> Option<PathBuf> {
    Some(home::folder("XDG_STATE_HOME", ".local/state")?.join("kiln/crashes"))
}

/// All that there is to keep.
#[derive(Debug)]
pub struct Death<'a> {
    /// The job.
    pub spec: &'a Spec,
    /// How the process ended.
    pub ending: &'a Ending,
    /// What is wrong.
    pub fault: &'a Fault,
    /// The rung that it worked on.
    pub rung: &'a Rung,
    /// Its process id.
    pub pid: u32,
    /// Its last lines.
    pub tail: &'a [String],
}

/// Writes the folder. Best effort: none where there is no place for it.
pub fn keep(death: &Death<'_>) -> Option<PathBuf> {
    let root = death.spec.crash_root.as_ref()?;
    write(root, death)
        .map_err(|error| tracing::warn!(%error, "no crash folder in {}", root.display()))
        .ok()
}

fn write(root: &Path, death: &Death<'_>) -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    DirBuilder::new().recursive(true).mode(0o700).create(root)?;
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // Sorts by time; unique by process and number.
    let name = format!(
        "{:013}-{}-{number}-{}",
        time.as_millis(),
        std::process::id(),
        death.ending.role.name()
    );
    let folder = root.join(name);
    DirBuilder::new().mode(0o700).create(&folder)?;
    let text = serde_json::to_vec_pretty(&record(death, time))?;
    file(&folder.join("crash.json"), &text)?;
    if let Some(signal) = &death.ending.last.signal {
        let stacks = printable_lines(&signal.text, TEXT_BYTES);
        file(&folder.join("stacks.txt"), stacks.as_bytes())?;
    }
    forget_old(root)?;
    Ok(folder)
}

fn record(death: &Death<'_>, time: Duration) -> Value {
    let Death {
        spec,
        ending,
        fault,
        rung,
        pid,
        tail,
    } = death;
    let note = |note: &Option<proto::recorder::Note>| {
        note.as_ref().map(|note| {
            json!({
                "number": note.number,
                "value": note.value,
                "text": printable_lines(&note.text, TEXT_BYTES),
            })
        })
    };
    json!({
        "schema": SCHEMA,
        "kiln": proto::BUILD_ID,
        "time_unix_ms": u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        "job": Kept::of(spec),
        "role": ending.role,
        "pid": pid,
        "phase": ending.phase,
        "label": printable_lines(&ending.last.label, 200),
        "rung": rung,
        "device": ending.adapter,
        "exit": ending.exit.code(),
        "signal": ending.exit.signal_name(),
        "code": fault.code,
        "class": fault.class,
        "message": fault.message,
        "hint": fault.hint,
        "panic": note(&ending.last.panic),
        "signal_note": note(&ending.last.signal),
        "failed_allocation": note(&ending.last.memory),
        "log_tail": tail,
    })
}

fn file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = lend(|| options.open(path))?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(bytes)
}

/// Removes the oldest folders, and only those that look like crash folders.
fn forget_old(root: &Path) -> io::Result<()> {
    let mut folders: Vec<PathBuf> = lend(|| fs::read_dir(root))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("crash.json").is_file())
        .collect();
    folders.sort();
    let surplus = folders.len().saturating_sub(KEPT);
    for folder in folders.into_iter().take(surplus) {
        // Another supervisor may have removed it already.
        if let Err(error) = lend(|| fs::remove_dir_all(&folder))
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
    }
    Ok(())
}

/// Reads a folder's job and checks every value: the folder may come from anybody.
///
/// # Errors
/// One line that says what is wrong with the folder.
pub fn job(folder: &Path) -> Result<Kept, String> {
    let path = folder.join("crash.json");
    let named = |why: &str| format!("{}: {why}", path.display());
    let read = whole(&path, MAX_RECORD_BYTES, Chosen::ByFolder);
    let (text, _) = read.map_err(|why| named(&why))?;
    let mut record: Value =
        serde_json::from_slice(&text).map_err(|error| named(&error.to_string()))?;
    if record["schema"] != SCHEMA {
        let schema = &record["schema"];
        return Err(named(&format!(
            "it is of schema {schema}, and this build reads {SCHEMA}"
        )));
    }
    let job = record["job"].take();
    let kept: Kept = serde_path_to_error::deserialize(job).map_err(|error| {
        let why = printable(&error.inner().to_string(), TEXT_LINE);
        named(&format!("job.{}: {why}", error.path()))
    })?;
    kept.check().map_err(|why| named(&format!("job.{why}")))?;
    Ok(kept)
}
