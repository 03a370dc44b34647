//! A library for `LD_PRELOAD` that makes the Nth call of a kind fail. As in `SQLite`'s tests, one first counts the
//! calls and then loops over them.
//!
//! ```text
//!  IOFAULT_LOG=FILE      writes a line per call: kind, number, injected errno, inode, first and second path, bytes
//!  IOFAULT_UNDER=FOLDER  only calls on paths and descriptors of this folder count; without it, all calls
//!  IOFAULT_DATA=1        the log also holds the written bytes, in hexadecimal
//!  IOFAULT_CALL=KIND     the kind that fails (`any`: every kind); kinds are those of calls.rs
//!  IOFAULT_NTH=N         its Nth call fails, from 1
//!  IOFAULT_STICKY=1      every later one fails, too
//!  IOFAULT_ERRNO=E       the errno, without doing the call; or `kill`: SIGKILL instead; or `cut`: a write of half the bytes
//!  IOFAULT_CLOCK=1       the wall clock jumps a day ahead at every second call
//! ```
//!
//! It acts on the process that it is preloaded into; `kiln` clears the environment of its children. It makes system
//! calls directly, and neither allocates nor locks, since `write` is also called from signal handlers.

#![expect(
    unsafe_code,
    reason = "it stands in for functions of the C library, with their raw arguments"
)]

mod calls;
mod line;

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::line::Line;

/// What to do instead of a call.
pub(crate) enum Deed {
    /// The call itself.
    Call,
    /// Fail with this errno, without the call.
    Fail(c_int),
    /// Write half of the bytes.
    Cut,
}

#[derive(Clone, Copy)]
enum Fault {
    Errno(c_int),
    Kill,
    Cut,
}

struct Plan {
    under: Option<&'static [u8]>,
    call: Option<&'static [u8]>,
    nth: u32,
    sticky: bool,
    fault: Fault,
    data: bool,
    log: c_int,
    clock: bool,
}

static PLAN: OnceLock<Plan> = OnceLock::new();
const KINDS: usize = 32;
static COUNTS: [AtomicU32; KINDS] = [const { AtomicU32::new(0) }; KINDS];
static ALL: AtomicU32 = AtomicU32::new(0);

/// Runs before `main`, while the process has one thread.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let log = variable(c"IOFAULT_LOG").map_or(-1, |path| {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
        let fd = calls::openat_raw(libc::AT_FDCWD, path.as_ptr(), flags, 0o644);
        // Moves away from the low numbers, which a limit of descriptors counts.
        let high = calls::fcntl_raw(fd, libc::F_DUPFD_CLOEXEC, 900);
        if high < 0 {
            return fd;
        }
        calls::close_raw(fd);
        high
    });
    let text = |name| variable(name).map(CStr::to_bytes);
    let number = |name| text(name).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let plan = Plan {
        under: text(c"IOFAULT_UNDER"),
        call: text(c"IOFAULT_CALL"),
        nth: number(c"IOFAULT_NTH").unwrap_or(0),
        sticky: text(c"IOFAULT_STICKY").is_some(),
        fault: match text(c"IOFAULT_ERRNO") {
            Some(b"kill") => Fault::Kill,
            Some(b"cut") => Fault::Cut,
            _ => number(c"IOFAULT_ERRNO").map_or(Fault::Kill, |number| {
                Fault::Errno(c_int::try_from(number).unwrap_or(libc::EIO))
            }),
        },
        data: text(c"IOFAULT_DATA").is_some(),
        log,
        clock: text(c"IOFAULT_CLOCK").is_some(),
    };
    // This is the only time.
    if PLAN.set(plan).is_err() {
        calls::die();
    }
}

fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a zero, and nothing changes the environment before `main`.
    let value: *mut c_char = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a string of the environment, which kiln never changes, so it lives as long as the process.
    Some(unsafe { CStr::from_ptr(value) })
}

/// Whether the wall clock is ahead at this call.
pub(crate) fn jump() -> bool {
    static LOOKS: AtomicU32 = AtomicU32::new(0);
    PLAN.get().is_some_and(|plan| plan.clock) && LOOKS.fetch_add(1, Ordering::Relaxed) % 2 == 1
}

/// One call, before it is made.
pub(crate) struct Call<'a> {
    /// Name, and index of the counter.
    pub(crate) kind: (&'static str, usize),
    /// Its descriptor, or -1.
    pub(crate) fd: c_int,
    /// Its paths.
    pub(crate) paths: [&'a [u8]; 2],
    /// What it writes.
    pub(crate) data: &'a [u8],
}

/// Counts the call, logs it, and returns what to do.
pub(crate) fn decide(call: &Call<'_>) -> Deed {
    let Some(plan) = PLAN.get() else {
        return Deed::Call;
    };
    let mut target = [0; 512];
    let fd_path = if call.fd >= 0 && call.fd != plan.log {
        line::path_of(call.fd, &mut target)
    } else {
        &[]
    };
    // Event counters: their reads and writes can fail only with EAGAIN, and a runtime's wake-ups depend on them.
    if fd_path.starts_with(b"anon_inode:") {
        return Deed::Call;
    }
    if let Some(under) = plan.under {
        let inside = |path: &[u8]| path.starts_with(under);
        if !inside(fd_path) && !call.paths.iter().any(|path| inside(path)) {
            return Deed::Call;
        }
    }
    let (name, place) = call.kind;
    let nth = COUNTS[place].fetch_add(1, Ordering::Relaxed) + 1;
    let all = ALL.fetch_add(1, Ordering::Relaxed) + 1;
    let count = match plan.call {
        Some(b"any") => all,
        Some(wanted) if wanted == name.as_bytes() => nth,
        _ => 0,
    };
    let hit = plan.nth > 0 && (count == plan.nth || (plan.sticky && count > plan.nth));
    let errno = match (hit, plan.fault) {
        (false, _) => 0,
        (true, Fault::Errno(number)) => number,
        (true, Fault::Kill | Fault::Cut) => -1,
    };
    if plan.log >= 0 {
        let mut line = Line::new(plan.log);
        line.text(name.as_bytes());
        line.number(i64::from(nth));
        line.number(i64::from(errno));
        line.number(line::inode_of(call.fd));
        line.text(if call.paths[0].is_empty() {
            fd_path
        } else {
            call.paths[0]
        });
        line.text(call.paths[1]);
        if plan.data {
            line.hex(call.data);
        }
        line.end();
    }
    match (hit, plan.fault) {
        (false, _) => Deed::Call,
        (true, Fault::Errno(number)) => Deed::Fail(number),
        (true, Fault::Cut) => Deed::Cut,
        (true, Fault::Kill) => calls::die(),
    }
}
