//! What the flight recorder keeps of a crash, for the supervisor to read when this process is gone.
//!
//! ```text
//!   panic hook ─────────────── Slot::Panic    text and place
//!   global allocator ───────── Slot::Memory   the size that the system refused       memory
//!   handler of a deadly signal Slot::Signal   number, address, stacks                signals → stacks → symbols
//!   that handler, and exit ─── State          what the thread that ends the process was doing
//! ```
//!
//! It does not change how the process ends: the wait status shows the same signal with or without it. Handlers allocate
//! nothing, wait for no lock for long and write with `pwrite` alone. Each first writes what cannot fail (number and address), then
//! raw frames, then names, so that a handler which crashes itself still leaves what it had.
//!
//! System calls that a filter must allow after [`install`]: `pwrite64`, `rt_sigaction`, `rt_sigprocmask`,
//! `rt_sigreturn`, `sigaltstack`, `getpid`, `gettid`, `sched_yield`, `clock_gettime`, and `tgkill` on this process.

use std::sync::OnceLock;

use nix::libc;
use proto::recorder::{Recorder, Slot, State};

mod memory;

mod signals;

mod stacks;

mod symbols;

mod text;

pub use memory::Noted;
pub(crate) use signals::guard_thread;

static RECORDER: OnceLock<Recorder> = OnceLock::new();
/// See [`install`].
static OWN: OnceLock<fn() -> Option<State>> = OnceLock::new();

/// Makes `recorder` this process's own and installs the handlers. `own` gives what the calling thread is doing, where
/// that is not simply what was announced last; handlers call it. Opens files, which a sandbox forbids, so it has to run
/// before.
pub(crate) fn install(recorder: Recorder, own: fn() -> Option<State>) {
    RECORDER.get_or_init(|| recorder);
    OWN.get_or_init(|| own);
    symbols::load();
    stacks::load();
    signals::install();
    guard_thread();
    #[expect(unsafe_code, reason = "the standard library has no such hook")]
    // SAFETY: the function lives as long as the process. Where it cannot be noted, the last announcement counts.
    unsafe {
        libc::atexit(blame_this_thread);
    }
}

/// Closes the record with the state of the calling thread, which ends the process. Without it, the last announcement
/// counts, and that may be another thread's.
extern "C" fn blame_this_thread() {
    let Some(recorder) = recorder() else { return };
    recorder.close(|state| {
        if let Some(own) = OWN.get().and_then(|own| own()) {
            state.resume(&own);
        }
    });
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
