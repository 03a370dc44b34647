//! What the flight recorder keeps of a crash, for the supervisor to read when this process is gone.
//!
//! ```text
//!   panic hook ─────────────── Slot::Panic    text and place
//!   global allocator ───────── Slot::Memory   the size that the system refused       memory
//!   handler of a deadly signal Slot::Signal   number, address, stacks                signals → stacks → symbols
//! ```
//!
//! It does not change how the process ends: the wait status shows the same signal with or without it. Handlers allocate
//! nothing, take no locks and write with `pwrite` alone. Each first writes what cannot fail (number and address), then
//! raw frames, then names, so that a handler which crashes itself still leaves what it had.
//!
//! System calls that a filter must allow after [`install`]: `pwrite64`, `rt_sigaction`, `rt_sigprocmask`,
//! `rt_sigreturn`, `sigaltstack`, `getpid`, `gettid`, `sched_yield`, `clock_gettime`, and `tgkill` on this process.

use std::sync::OnceLock;

use proto::recorder::{Recorder, Slot};

mod memory;

mod signals;

mod stacks;

mod symbols;

mod text;

pub use memory::Noted;
pub(crate) use signals::guard_thread;

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// Makes `recorder` this process's own and installs the handlers. Opens files, which a sandbox forbids, so it has to
/// run before.
pub(crate) fn install(recorder: Recorder) {
    RECORDER.get_or_init(|| recorder);
    symbols::load();
    stacks::load();
    signals::install();
    guard_thread();
}

/// The process's recorder; none where no supervisor started it.
pub(crate) fn recorder() -> Option<&'static Recorder> {
    RECORDER.get()
}

/// Records a panic. Called first by the panic hook.
pub(crate) fn panicked(text: &str, place: &str) {
    let mut note = text::Text::<3072>::new();
    note.add(format_args!("{text}\nat {place}"));
    leave(Slot::Panic, 0, 0, note.bytes());
}

/// Safe in a signal handler, as [`Recorder::leave`] is.
fn leave(slot: Slot, number: u32, value: u64, text: &[u8]) {
    if let Some(recorder) = recorder() {
        recorder.leave(slot, number, value, text);
    }
}
