//! Deadly signals → a note with stacks, then the death that the signal causes anyway.
//!
//! The thread that receives a signal writes its own stack. Where the signal came from outside, as SIGABRT from a
//! supervisor at the end of its patience, nobody knows which thread is stuck. Each thread is then asked for its stack
//! in turn, by a signal of our own. A sandbox may hide `/proc`, which lists the threads. So our own threads are noted
//! as they start, and those of drivers are found by trying thread ids, which the kernel hands out in rising order. A
//! driver that blocks all signals in its threads gets no stack.
//!
//! Handlers run on stacks of their own, so that stack overflows are reported too. Rust's own handler for them is kept:
//! after a memory fault it runs next, and names the thread before it aborts.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use nix::libc::{self, c_int};
use proto::recorder::Slot;

use crate::worker::last_words::stacks::{self, Stack};
use crate::worker::last_words::symbols::Named;
use crate::worker::last_words::text::Text;

/// Signals whose default action ends the process for something that it did; the last two enforce resource limits.
const DEADLY: [c_int; 9] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// Stack of a handler: unwinding and naming need about 10 KiB, the kernel up to 11 KiB for registers.
const STACK_BYTES: usize = 128 << 10;
/// Largest number of threads whose stacks are written.
const STACKS: usize = 96;
/// Function names in all stacks together.
const NAMES: usize = 1024;
/// Threads that can be noted as they start.
const NOTED: usize = 256;
/// Thread ids beyond the process id that are tried.
const TRIED: i32 = 1 << 16;

/// Time limit for one thread to answer.
const PATIENCE: Duration = Duration::from_millis(20);
/// Time limit for all of them: the supervisor kills 250 ms after it asked.
const ALL_PATIENCE: Duration = Duration::from_millis(120);
/// Time for another thread to end the process.
const OTHERS_TURN: Duration = Duration::from_secs(1);

/// The handlers replaced: Rust's, for stack overflows.
static BEFORE: OnceLock<[Option<libc::sigaction>; DEADLY.len()]> = OnceLock::new();
/// Ids of our own threads; 0 for a free slot.
static THREADS: [AtomicI32; NOTED] = [const { AtomicI32::new(0) }; NOTED];
/// The thread that writes the note: the first to get a deadly signal.
static WRITER: AtomicI32 = AtomicI32::new(0);
/// The thread asked for its stack; negated while it answers; 0 when done.
static ASKED: AtomicI32 = AtomicI32::new(0);

/// Memory of the thread in [`WRITER`], and of the thread that it asked.
struct Desk {
    stacks: [Stack; STACKS],
    names: [Named; NAMES],
    text: Text<{ 31 * 1024 }>,
}

struct Shared<T>(UnsafeCell<T>);

#[expect(unsafe_code, reason = "memory that a signal handler writes to")]
// SAFETY: only the thread that won `WRITER` touches `DESK`. Only the one named by `ASKED` touches `ANSWER`, until it
// returns it through `ASKED`.
unsafe impl<T> Sync for Shared<T> {}

static DESK: Shared<Desk> = Shared(UnsafeCell::new(Desk {
    stacks: [Stack::EMPTY; STACKS],
    names: [Named::at(0); NAMES],
    text: Text::new(),
}));
static ANSWER: Shared<Stack> = Shared(UnsafeCell::new(Stack::EMPTY));

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Our own signal to other threads. The C library uses the first ones of this range.
fn ask_signal() -> c_int {
    libc::SIGRTMIN() + 4
}

/// Installs the handlers.
pub(super) fn install() {
    BEFORE.get_or_init(|| DEADLY.map(|signal| set(signal, on_deadly)));
    set(ask_signal(), on_asked);
}

/// Sets a handler; returns the previous one.
fn set(signal: c_int, handler: Handler) -> Option<libc::sigaction> {
    let mut action = default_action();
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    let mut before = default_action();
    #[expect(unsafe_code, reason = "handlers of faults cannot be set safely")]
    // SAFETY: the handler does only what handlers may.
    let failed = unsafe { libc::sigaction(signal, &raw const action, &raw mut before) } != 0;
    (!failed).then_some(before)
}

/// The default action, no signals blocked.
fn default_action() -> libc::sigaction {
    #[expect(unsafe_code, reason = "a structure of the C library")]
    // SAFETY: integers and a nullable function pointer.
    unsafe {
        std::mem::zeroed()
    }
}

/// Gives the calling thread a stack for handlers and notes its id. Each thread calls it as it starts.
pub(crate) fn guard_thread() {
    static OFF: AtomicBool = AtomicBool::new(false);
    if crate::worker::last_words::recorder().is_none() || OFF.load(Ordering::Relaxed) {
        return;
    }
    // Leaked: a thread may get a signal until it is gone.
    let memory = Vec::<u8>::with_capacity(STACK_BYTES).leak().as_mut_ptr();
    let stack = libc::stack_t {
        ss_sp: memory.cast(),
        ss_flags: 0,
        ss_size: STACK_BYTES,
    };
    #[expect(unsafe_code, reason = "a stack for handlers")]
    // SAFETY: memory of this size that nothing else uses.
    let refused = unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) } != 0;
    OFF.fetch_or(refused, Ordering::Relaxed);
    let me = thread();
    for slot in &THREADS {
        let taken = slot.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_ok() {
            break;
        }
    }
}

fn thread() -> i32 {
    nix::unistd::gettid().as_raw()
}

fn process() -> i32 {
    nix::unistd::getpid().as_raw()
}

/// Sends a signal to a thread of this process; returns whether that succeeded.
fn send(thread: i32, signal: c_int) -> bool {
    #[expect(unsafe_code, reason = "a system call without a safe form")]
    // SAFETY: integers only; an unknown thread is an error.
    let failed = unsafe { libc::syscall(libc::SYS_tgkill, process(), thread, signal) } != 0;
    !failed
}

extern "C" fn on_deadly(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    #[expect(unsafe_code, reason = "the kernel's arguments are pointers")]
    // SAFETY: the pointer comes from the kernel.
    let info = unsafe { &*info };
    let me = thread();
    match WRITER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            #[expect(unsafe_code, reason = "the kernel's arguments are pointers")]
            // SAFETY: the pointer comes from the kernel, and this thread is the writer.
            unsafe {
                report(signal, info, context);
            }
        }
        // The note is written, or this is the writer's own death: Rust's handler aborting, or a fault on the way.
        Err(writer) if writer == me => {}
        Err(_) => pause(OTHERS_TURN, || false),
    }
    end(signal, info, me);
}

/// Lets the signal take its normal effect.
fn end(signal: c_int, info: &libc::siginfo_t, me: i32) {
    let fault = info.si_code > 0 && matches!(signal, libc::SIGSEGV | libc::SIGBUS);
    let place = DEADLY.iter().position(|&known| known == signal);
    let before = BEFORE.get().zip(place).and_then(|(all, place)| all[place]);
    let action = if fault { before } else { None }.unwrap_or_else(default_action);
    #[expect(unsafe_code, reason = "handlers of faults cannot be set safely")]
    // SAFETY: the previous handler or the default.
    let failed = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0;
    if failed {
        std::process::abort();
    }
    // A fault happens again and reaches Rust's handler. Any other signal stays pending until this handler has returned.
    if !fault {
        send(me, signal);
    }
}

/// Waits until `done`, at most `longest`. Does not sleep, since each further system call would have to be allowed by
/// the sandbox.
fn pause(longest: Duration, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() && start.elapsed() < longest {
        std::thread::yield_now();
    }
}

/// Writes the note in three steps, each of which may be the last.
///
/// # Safety
/// `context` comes from the kernel, and the calling thread is [`WRITER`].
#[expect(unsafe_code, reason = "memory that a signal handler writes to")]
unsafe fn report(signal: c_int, info: &libc::siginfo_t, context: *mut c_void) {
    let (number, value) = (signal.unsigned_abs(), value(signal, info));
    crate::worker::last_words::leave(Slot::Signal, number, value, b"");
    // SAFETY: this thread is the writer.
    let desk = unsafe { &mut *DESK.0.get() };
    // SAFETY: guaranteed by the caller.
    unsafe { desk.stacks[0].take(thread(), context) };
    let mut count = 1;
    stacks::write(&mut desk.text, &desk.stacks[..count], &[]);
    crate::worker::last_words::leave(Slot::Signal, number, value, desk.text.bytes());

    if is_from_outside(signal, info) {
        count += ask_all(&mut desk.stacks[1..]);
        desk.text.clear();
        stacks::write(&mut desk.text, &desk.stacks[..count], &[]);
        crate::worker::last_words::leave(Slot::Signal, number, value, desk.text.bytes());
    } else {
        crate::worker::last_words::blame_this_thread();
    }

    let names = stacks::name(&desk.stacks[..count], &mut desk.names);
    desk.text.clear();
    stacks::write(&mut desk.text, &desk.stacks[..count], &desk.names[..names]);
    crate::worker::last_words::leave(Slot::Signal, number, value, desk.text.bytes());
}

/// The value for [`Slot::Signal`].
fn value(signal: c_int, info: &libc::siginfo_t) -> u64 {
    #[repr(C)]
    struct Call {
        head: [c_int; 4],
        address: usize,
        number: c_int,
    }
    if info.si_code <= 0 {
        // Sent by a process: the other fields describe the sender.
        return 0;
    }
    match signal {
        libc::SIGSYS => {
            #[expect(unsafe_code, reason = "a part of the structure that has no accessor")]
            // SAFETY: the kernel's layout for this signal, within the structure's 128 bytes.
            let call = unsafe { &*std::ptr::from_ref(info).cast::<Call>() };
            u64::from(call.number.unsigned_abs())
        }
        libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP => {
            #[expect(unsafe_code, reason = "a union of the C library")]
            // SAFETY: these signals carry an address.
            let address = unsafe { info.si_addr() };
            address as u64
        }
        _ => 0,
    }
}

/// Whether another process sent it, or it reports time used up by any thread. Either way another thread's stack may be
/// the relevant one.
fn is_from_outside(signal: c_int, info: &libc::siginfo_t) -> bool {
    if signal == libc::SIGXCPU {
        return true;
    }
    #[expect(unsafe_code, reason = "a union of the C library")]
    // SAFETY: signals from processes carry the sender's id.
    let sender = unsafe { info.si_pid() };
    info.si_code <= 0 && sender != process()
}

/// Asks every other thread for its stack. Returns how many of `room` are used.
fn ask_all(room: &mut [Stack]) -> usize {
    let (me, first) = (thread(), process());
    let start = Instant::now();
    let noted = THREADS.iter().map(|slot| slot.load(Ordering::Relaxed));
    let tried = (0..TRIED).map(|step| first.wrapping_add(step));
    let mut count = 0;
    for thread in std::iter::once(first).chain(noted).chain(tried) {
        if count == room.len() || start.elapsed() > ALL_PATIENCE {
            break;
        }
        if thread <= 0 || thread == me || !send(thread, 0) {
            continue;
        }
        if room[..count].iter().any(|stack| stack.thread() == thread) {
            continue;
        }
        let Some(answer) = ask(thread) else {
            // It may still answer when nobody waits, so the memory is its own from here on.
            break;
        };
        room[count] = answer;
        count += 1;
    }
    count
}

/// Asks one thread for its stack; empty if it does not answer. None if it is still writing its answer.
fn ask(thread: i32) -> Option<Stack> {
    ASKED.store(thread, Ordering::Release);
    if send(thread, ask_signal()) {
        pause(PATIENCE, || ASKED.load(Ordering::Acquire) == 0);
    }
    let gone = ASKED.compare_exchange(thread, 0, Ordering::AcqRel, Ordering::Acquire);
    if gone.is_ok() {
        return Some(Stack::silent(thread));
    }
    pause(PATIENCE, || ASKED.load(Ordering::Acquire) == 0);
    if ASKED.load(Ordering::Acquire) != 0 {
        return None;
    }
    #[expect(unsafe_code, reason = "memory that a signal handler writes to")]
    // SAFETY: the thread has returned it.
    Some(unsafe { *ANSWER.0.get() })
}

extern "C" fn on_asked(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    let me = thread();
    let mine = ASKED.compare_exchange(me, -me, Ordering::AcqRel, Ordering::Relaxed);
    if mine.is_err() {
        return;
    }
    #[expect(unsafe_code, reason = "memory that a signal handler writes to")]
    // SAFETY: it belongs to this thread until `ASKED` changes.
    let answer = unsafe { &mut *ANSWER.0.get() };
    #[expect(unsafe_code, reason = "a signal handler is given a bare pointer")]
    // SAFETY: the context comes from the kernel.
    unsafe {
        answer.take(me, context);
    }
    ASKED.store(0, Ordering::Release);
}
