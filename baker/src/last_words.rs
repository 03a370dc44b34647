//! A death on its way → what the flight recorder keeps of it, for the supervisor to read when this process is gone.
//!
//! ```text
//!  panic hook ─────────────── Slot::Panic    text and place
//!  global allocator ───────── Slot::Memory   the size that the system refused       memory
//!  handler of a deadly signal Slot::Signal   number, address, stacks                signals → stacks → symbols
//! ```
//!
//! None of it changes how the process ends: the wait status tells the same signal with or without it. Handlers allocate
//! nothing, take no lock and write by `pwrite` alone; each writes first what cannot go wrong (number and address), then raw
//! frames, then names, so that a handler which dies itself still leaves what it had.
//!
//! What a filter of system calls must let through after [`install`]: `pwrite64`, `rt_sigaction`, `rt_sigprocmask`,
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

/// Makes `recorder` this process's own and watches over its deaths from here on. Opens files, which a sandbox forbids: call
/// it first.
pub(crate) fn install(recorder: Recorder) {
    RECORDER.get_or_init(|| recorder);
    symbols::load();
    stacks::load();
    signals::install();
    guard_thread();
}

/// The process's recorder; none where it was not started by a supervisor.
pub(crate) fn recorder() -> Option<&'static Recorder> {
    RECORDER.get()
}

/// From the panic hook, before anything else is tried.
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
