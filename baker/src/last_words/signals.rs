//! Deadly signals → a note with the stacks, and then the death that the signal would have been without us.
//!
//! The thread that a signal meets writes its own stack. Where the signal came from outside, as SIGABRT does from a supervisor
//! whose patience is at its end, the process is stuck somewhere and nobody knows which thread it is: each is asked for its
//! stack in turn, by a signal of our own. `/proc` lists the threads, but a sandbox may not show it; so those of ours are noted
//! as they start, and those of drivers are found by trying numbers, which the kernel gives out in rising order. A driver that
//! blocks all signals in its threads gets no stack.
//!
//! Handlers run on stacks of their own, so that an overflow of a thread's stack is told, too. What Rust's own handler knows of
//! such an overflow is kept: after a fault of memory it gets its turn, and says which thread it was before it aborts.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use nix::libc::{self, c_int};
use proto::recorder::Slot;

use super::stacks::{self, Stack};
use super::symbols::Named;
use super::text::Text;

/// The signals whose default action ends the process for what it did itself; the last two are of limits on it.
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

/// Room for a handler: unwinding and naming need about 10 KiB, the kernel up to 11 for the registers.
const STACK_BYTES: usize = 128 << 10;
/// Threads of which a stack is told.
const STACKS: usize = 96;
/// Names of functions in all of them.
const NAMES: usize = 1024;
/// Threads that can be noted as they start.
const NOTED: usize = 256;
/// Numbers beyond the process's own that are tried for its threads.
const TRIED: i32 = 1 << 16;

/// For one thread to answer.
const PATIENCE: Duration = Duration::from_millis(20);
/// For all of them: the supervisor kills 250 ms after it asked.
const ALL_PATIENCE: Duration = Duration::from_millis(120);
/// For another thread to end the process.
const OTHERS_TURN: Duration = Duration::from_secs(1);

/// What was in place before: Rust's handlers for an overflow of the stack.
static BEFORE: OnceLock<[Option<libc::sigaction>; DEADLY.len()]> = OnceLock::new();
/// Threads of ours, 0 where there is none.
static THREADS: [AtomicI32; NOTED] = [const { AtomicI32::new(0) }; NOTED];
/// The thread that writes the note; the first to get a deadly signal.
static WRITER: AtomicI32 = AtomicI32::new(0);
/// The thread that is asked for its stack; its negative while it answers; 0 when it has.
static ASKED: AtomicI32 = AtomicI32::new(0);

/// Memory for the thread in [`WRITER`], and within it for the one that it asked.
struct Desk {
    stacks: [Stack; STACKS],
    names: [Named; NAMES],
    text: Text<{ 31 * 1024 }>,
}

struct Shared<T>(UnsafeCell<T>);

#[expect(unsafe_code, reason = "memory that a signal handler writes to")]
// SAFETY: only the thread that won `WRITER` touches `DESK`, and only the one that `ASKED` names touches `ANSWER`, until it
// hands it back through `ASKED`.
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

/// Takes the deadly signals over.
pub(super) fn install() {
    BEFORE.get_or_init(|| DEADLY.map(|signal| set(signal, on_deadly)));
    set(ask_signal(), on_asked);
}

/// Sets a handler; returns what was there.
fn set(signal: c_int, handler: Handler) -> Option<libc::sigaction> {
    let mut action = default_action();
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    let mut before = default_action();
    #[expect(unsafe_code, reason = "handlers of faults cannot be set safely")]
    // SAFETY: the handler does what handlers may.
    let failed = unsafe { libc::sigaction(signal, &raw const action, &raw mut before) } != 0;
    (!failed).then_some(before)
}

/// The default action, no signal blocked.
fn default_action() -> libc::sigaction {
    #[expect(unsafe_code, reason = "a structure of the C library")]
    // SAFETY: numbers and a nullable function.
    unsafe {
        std::mem::zeroed()
    }
}

/// Gives the calling thread a stack for handlers, and notes the thread. To be called as each thread starts.
pub(crate) fn guard_thread() {
    static OFF: AtomicBool = AtomicBool::new(false);
    if super::recorder().is_none() || OFF.load(Ordering::Relaxed) {
        return;
    }
    // For as long as the process lives: a thread may get a signal until it is gone.
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

/// Whether the signal could be sent to a thread of this process.
fn send(thread: i32, signal: c_int) -> bool {
    #[expect(unsafe_code, reason = "a system call without a safe form")]
    // SAFETY: numbers only; a thread that is not there is an error.
    let failed = unsafe { libc::syscall(libc::SYS_tgkill, process(), thread, signal) } != 0;
    !failed
}

extern "C" fn on_deadly(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    #[expect(unsafe_code, reason = "the kernel's arguments are pointers")]
    // SAFETY: the kernel's own.
    let info = unsafe { &*info };
    let me = thread();
    match WRITER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            #[expect(unsafe_code, reason = "the kernel's arguments are pointers")]
            // SAFETY: the kernel's own; and this thread is the writer.
            unsafe {
                report(signal, info, context);
            }
        }
        // Our note is written, or this is its own death: Rust's handler aborting, or a fault on the way.
        Err(writer) if writer == me => {}
        Err(_) => pause(OTHERS_TURN, || false),
    }
    end(signal, info, me);
}

/// Lets the signal do what it would have done.
fn end(signal: c_int, info: &libc::siginfo_t, me: i32) {
    let fault = info.si_code > 0 && matches!(signal, libc::SIGSEGV | libc::SIGBUS);
    let place = DEADLY.iter().position(|&known| known == signal);
    let before = BEFORE.get().zip(place).and_then(|(all, place)| all[place]);
    let action = if fault { before } else { None }.unwrap_or_else(default_action);
    #[expect(unsafe_code, reason = "handlers of faults cannot be set safely")]
    // SAFETY: what was there before us, or the default.
    let failed = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0;
    if failed {
        std::process::abort();
    }
    // A fault happens again, and meets Rust's handler. Any other signal waits until this one's handler has returned.
    if !fault {
        send(me, signal);
    }
}

/// Waits until `done`, at most so long; sleeps nowhere, since every call more is one that a sandbox must allow.
fn pause(longest: Duration, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() && start.elapsed() < longest {
        std::thread::yield_now();
    }
}

/// Writes the note: in three steps, each of which may be the last.
///
/// # Safety
/// `context` is the kernel's, and the calling thread is [`WRITER`].
#[expect(unsafe_code, reason = "memory that a signal handler writes to")]
unsafe fn report(signal: c_int, info: &libc::siginfo_t, context: *mut c_void) {
    let (number, value) = (signal.unsigned_abs(), value(signal, info));
    super::leave(Slot::Signal, number, value, b"");
    // SAFETY: the writer's.
    let desk = unsafe { &mut *DESK.0.get() };
    // SAFETY: the caller's promise.
    unsafe { desk.stacks[0].take(thread(), context) };
    let mut count = 1;
    stacks::write(&mut desk.text, &desk.stacks[..count], &[]);
    super::leave(Slot::Signal, number, value, desk.text.bytes());

    if is_from_outside(signal, info) {
        count += ask_all(&mut desk.stacks[1..]);
        desk.text.clear();
        stacks::write(&mut desk.text, &desk.stacks[..count], &[]);
        super::leave(Slot::Signal, number, value, desk.text.bytes());
    }

    let names = stacks::name(&desk.stacks[..count], &mut desk.names);
    desk.text.clear();
    stacks::write(&mut desk.text, &desk.stacks[..count], &desk.names[..names]);
    super::leave(Slot::Signal, number, value, desk.text.bytes());
}

/// See [`Slot::Signal`].
fn value(signal: c_int, info: &libc::siginfo_t) -> u64 {
    #[repr(C)]
    struct Call {
        head: [c_int; 4],
        address: usize,
        number: c_int,
    }
    if info.si_code <= 0 {
        // From a process: what else it says is about the sender.
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

/// Sent by somebody else, so that this thread's stack need not be the one that matters; or for time used up by any thread.
fn is_from_outside(signal: c_int, info: &libc::siginfo_t) -> bool {
    if signal == libc::SIGXCPU {
        return true;
    }
    #[expect(unsafe_code, reason = "a union of the C library")]
    // SAFETY: signals from processes carry the sender's number.
    let sender = unsafe { info.si_pid() };
    info.si_code <= 0 && sender != process()
}

/// Asks every other thread for its stack; returns how many of `room` are used.
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
            // It answers at a time when nobody waits any more: the memory is its own from here on.
            break;
        };
        room[count] = answer;
        count += 1;
    }
    count
}

/// One thread's stack, empty if it does not answer. None if it is caught in the middle of its answer.
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
    // SAFETY: the thread has handed it back.
    Some(unsafe { *ANSWER.0.get() })
}

extern "C" fn on_asked(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    let me = thread();
    let mine = ASKED.compare_exchange(me, -me, Ordering::AcqRel, Ordering::Relaxed);
    if mine.is_err() {
        return;
    }
    #[expect(unsafe_code, reason = "memory that a signal handler writes to")]
    // SAFETY: it is this thread's until `ASKED` says otherwise.
    let answer = unsafe { &mut *ANSWER.0.get() };
    #[expect(unsafe_code, reason = "a signal handler is given a bare pointer")]
    // SAFETY: the context is the kernel's.
    unsafe {
        answer.take(me, context);
    }
    ASKED.store(0, Ordering::Release);
}
