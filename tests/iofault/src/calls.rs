//! The functions of the C library that this library replaces, and the raw system calls beneath.
//!
//! The optional arguments of `open` and `fcntl` are passed like named ones on x86-64 and aarch64, the only machines
//! that this supports.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::mem::{MaybeUninit, transmute};

use libc::{mode_t, off_t, size_t, ssize_t, timespec};

use crate::{Call, Deed, decide};

/// A raw system call. It needs no other symbol of the C library, so none of the replaced functions is called.
macro_rules! bare {
    ($number:expr $(, $argument:expr)*) => {
        // SAFETY: the arguments are those that the caller gave to the replaced function. Or they are our own:
        // descriptors, numbers, and pointers to memory that outlives the call.
        unsafe { libc::syscall($number $(, $argument)*) }
    };
}

pub(crate) fn openat_raw(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    int(bare!(libc::SYS_openat, at, path, flags, mode))
}

pub(crate) fn fcntl_raw(fd: c_int, command: c_int, argument: usize) -> c_int {
    int(bare!(libc::SYS_fcntl, fd, command, argument))
}

pub(crate) fn close_raw(fd: c_int) {
    bare!(libc::SYS_close, fd);
}

pub(crate) fn write_raw(fd: c_int, bytes: &[u8]) {
    bare!(libc::SYS_write, fd, bytes.as_ptr(), bytes.len());
}

pub(crate) fn readlink_raw(name: &[u8], target: &mut [u8]) -> usize {
    let count = bare!(
        libc::SYS_readlinkat,
        libc::AT_FDCWD,
        name.as_ptr(),
        target.as_mut_ptr(),
        target.len()
    );
    usize::try_from(count).unwrap_or(0)
}

pub(crate) fn inode_raw(fd: c_int) -> i64 {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: writes a stat, for which there is room. This function is not replaced.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return 0;
    }
    // SAFETY: filled by the call above, and zero before.
    let stat = unsafe { stat.assume_init() };
    i64::try_from(stat.st_ino).unwrap_or(0)
}

/// Ends the process as kill -9 from outside does: nothing is flushed, dropped or unwound.
pub(crate) fn die() -> ! {
    let own = bare!(libc::SYS_getpid);
    bare!(libc::SYS_kill, own, libc::SIGKILL);
    loop {
        bare!(libc::SYS_sched_yield);
    }
}

/// Converts results that are descriptors or zeros.
fn int(result: c_long) -> c_int {
    c_int::try_from(result).unwrap_or(-1)
}

fn refuse(errno: c_int) {
    // SAFETY: returns the address of this thread's errno, which always exists.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the address is valid for this thread, and no other thread writes it.
    unsafe { *place = errno };
}

fn path<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: a path that the caller gives to the kernel: it ends with a zero and outlives the call.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

fn bytes<'a>(data: *const c_void, count: size_t) -> &'a [u8] {
    // SAFETY: the memory that the caller gives to the kernel to read.
    unsafe { std::slice::from_raw_parts(data.cast(), count) }
}

fn asked(
    kind: (&'static str, usize),
    fd: c_int,
    first: *const c_char,
    second: *const c_char,
) -> Deed {
    let paths = [path(first), path(second)];
    decide(&Call {
        kind,
        fd,
        paths,
        data: &[],
    })
}

/// Opening and creating are two kinds: on a full disk only creating fails.
fn open_as(at: c_int, name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    let makes = flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE;
    let kind = if makes { ("create", 0) } else { ("open", 1) };
    match asked(kind, -1, name, NONE) {
        Deed::Fail(errno) => {
            refuse(errno);
            -1
        }
        Deed::Call | Deed::Cut => openat_raw(at, name, flags, mode),
    }
}

#[unsafe(no_mangle)]
extern "C" fn open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_as(libc::AT_FDCWD, name, flags, mode)
}

#[unsafe(no_mangle)]
extern "C" fn open64(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_as(libc::AT_FDCWD, name, flags, mode)
}

#[unsafe(no_mangle)]
extern "C" fn openat(at: c_int, name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_as(at, name, flags, mode)
}

#[unsafe(no_mangle)]
extern "C" fn openat64(at: c_int, name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_as(at, name, flags, mode)
}

/// A write of some kind. `number` is the raw call for a given number of bytes.
fn written(
    kind: (&'static str, usize),
    fd: c_int,
    data: *const c_void,
    count: size_t,
    number: impl FnOnce(size_t) -> c_long,
) -> ssize_t {
    let call = Call {
        kind,
        fd,
        paths: [&[], &[]],
        data: bytes(data, count),
    };
    let result = match decide(&call) {
        Deed::Fail(errno) => {
            refuse(errno);
            return -1;
        }
        Deed::Cut => number(count / 2),
        Deed::Call => number(count),
    };
    ssize_t::try_from(result).unwrap_or(-1)
}

#[unsafe(no_mangle)]
extern "C" fn write(fd: c_int, data: *const c_void, count: size_t) -> ssize_t {
    written(("write", 2), fd, data, count, |count| {
        bare!(libc::SYS_write, fd, data, count)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pwrite64(fd: c_int, data: *const c_void, count: size_t, at: off_t) -> ssize_t {
    written(("pwrite", 3), fd, data, count, |count| {
        bare!(libc::SYS_pwrite64, fd, data, count, at)
    })
}

/// Replaces functions that return a number, or -1 for an error: name, kind, descriptor, paths, raw call.
macro_rules! stand_in {
    ($($name:ident ( $($argument:ident : $kind_of:ty),* ) -> $result:ty : $kind:literal $place:literal,
        $fd:expr, $first:expr, $second:expr => $number:ident $(, $passed:expr)*;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $kind_of),*) -> $result {
            match asked(($kind, $place), $fd, $first, $second) {
                Deed::Fail(errno) => {
                    refuse(errno);
                    -1
                }
                Deed::Call | Deed::Cut => {
                    <$result>::try_from(bare!(libc::$number $(, $passed)*)).unwrap_or(-1)
                }
            }
        }
    )*};
}

const NONE: *const c_char = std::ptr::null();

stand_in! {
    read(fd: c_int, data: *mut c_void, count: size_t) -> ssize_t: "read" 4, fd, NONE, NONE => SYS_read, fd, data, count;
    pread64(fd: c_int, data: *mut c_void, count: size_t, at: off_t) -> ssize_t: "pread" 5, fd, NONE, NONE => SYS_pread64, fd, data, count, at;
    writev(fd: c_int, parts: *const libc::iovec, count: c_int) -> ssize_t: "writev" 6, fd, NONE, NONE => SYS_writev, fd, parts, count;
    fsync(fd: c_int) -> c_int: "fsync" 7, fd, NONE, NONE => SYS_fsync, fd;
    fdatasync(fd: c_int) -> c_int: "fsync" 7, fd, NONE, NONE => SYS_fdatasync, fd;
    ftruncate64(fd: c_int, size: off_t) -> c_int: "ftruncate" 8, fd, NONE, NONE => SYS_ftruncate, fd, size;
    rename(from: *const c_char, to: *const c_char) -> c_int: "rename" 9, -1, from, to => SYS_renameat2, libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0;
    renameat(at: c_int, from: *const c_char, to_at: c_int, to: *const c_char) -> c_int: "rename" 9, -1, from, to => SYS_renameat2, at, from, to_at, to, 0;
    unlink(name: *const c_char) -> c_int: "unlink" 11, -1, name, NONE => SYS_unlinkat, libc::AT_FDCWD, name, 0;
    mkdir(name: *const c_char, mode: mode_t) -> c_int: "mkdir" 13, -1, name, NONE => SYS_mkdirat, libc::AT_FDCWD, name, mode;
    memfd_create(name: *const c_char, flags: libc::c_uint) -> c_int: "memfd_create" 14, -1, name, NONE => SYS_memfd_create, name, flags;
    socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int: "socketpair" 15, -1, NONE, NONE => SYS_socketpair, domain, kind, protocol, pair;
    pipe2(pair: *mut c_int, flags: c_int) -> c_int: "pipe" 16, -1, NONE, NONE => SYS_pipe2, pair, flags;
    eventfd(value: libc::c_uint, flags: c_int) -> c_int: "eventfd" 17, -1, NONE, NONE => SYS_eventfd2, value, flags;
    epoll_create1(flags: c_int) -> c_int: "epoll_create" 18, -1, NONE, NONE => SYS_epoll_create1, flags;
    epoll_ctl(queue: c_int, operation: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int: "epoll_ctl" 19, -1, NONE, NONE => SYS_epoll_ctl, queue, operation, fd, event;
    dup(fd: c_int) -> c_int: "dup" 21, fd, NONE, NONE => SYS_dup, fd;
    sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t: "sendmsg" 22, fd, NONE, NONE => SYS_sendmsg, fd, message, flags;
    recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t: "recvmsg" 23, fd, NONE, NONE => SYS_recvmsg, fd, message, flags;
}

/// Only the commands that can fail on a good descriptor count.
#[unsafe(no_mangle)]
extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    let counts = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_ADD_SEALS].contains(&command);
    if counts && let Deed::Fail(errno) = asked(("fcntl", 20), fd, NONE, NONE) {
        refuse(errno);
        return -1;
    }
    fcntl_raw(fd, command, argument)
}

#[unsafe(no_mangle)]
extern "C" fn linkat(
    at: c_int,
    from: *const c_char,
    to_at: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // A file without a name is linked by its descriptor, from which its inode is known.
    let digits = path(from).strip_prefix(b"/proc/self/fd/");
    let fd = digits.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    match asked(("link", 12), fd.unwrap_or(-1), from, to) {
        Deed::Fail(errno) => {
            refuse(errno);
            -1
        }
        Deed::Call | Deed::Cut => int(bare!(libc::SYS_linkat, at, from, to_at, to, flags)),
    }
}

#[unsafe(no_mangle)]
extern "C" fn renameat2(
    at: c_int,
    from: *const c_char,
    to_at: c_int,
    to: *const c_char,
    flags: libc::c_uint,
) -> c_int {
    let exchange = flags & libc::RENAME_EXCHANGE != 0;
    let kind = if exchange {
        ("exchange", 10)
    } else {
        ("rename", 9)
    };
    match asked(kind, -1, from, to) {
        Deed::Fail(errno) => {
            refuse(errno);
            -1
        }
        Deed::Call | Deed::Cut => int(bare!(libc::SYS_renameat2, at, from, to_at, to, flags)),
    }
}

/// The C library's own function, for functions that are more than one system call.
fn next(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() { die() } else { found }
}

type Spawn = extern "C" fn(
    *mut libc::pid_t,
    *const c_char,
    *const c_void,
    *const c_void,
    *const *mut c_char,
    *const *mut c_char,
) -> c_int;
type Thread = extern "C" fn(
    *mut libc::pthread_t,
    *const c_void,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

#[unsafe(no_mangle)]
extern "C" fn posix_spawnp(
    pid: *mut libc::pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // This function returns the errno.
    if let Deed::Fail(errno) = asked(("spawn", 24), -1, NONE, NONE) {
        return errno;
    }
    // SAFETY: the function of this name has this signature; pointers to opaque structures are passed on as they are.
    let real = unsafe { transmute::<*mut c_void, Spawn>(next(c"posix_spawnp")) };
    real(pid, file, actions, attributes, arguments, environment)
}

#[unsafe(no_mangle)]
extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const c_void,
    body: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    if let Deed::Fail(errno) = asked(("thread", 25), -1, NONE, NONE) {
        return errno;
    }
    // SAFETY: as above.
    let real = unsafe { transmute::<*mut c_void, Thread>(next(c"pthread_create")) };
    real(thread, attributes, body, argument)
}

#[unsafe(no_mangle)]
extern "C" fn fork() -> libc::pid_t {
    if let Deed::Fail(errno) = asked(("spawn", 24), -1, NONE, NONE) {
        refuse(errno);
        return -1;
    }
    // SAFETY: the function of this name has this signature.
    let real = unsafe { transmute::<*mut c_void, extern "C" fn() -> libc::pid_t>(next(c"fork")) };
    real()
}

/// The wall clock. With `IOFAULT_CLOCK` it is a day ahead at every second call.
#[unsafe(no_mangle)]
extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut timespec) -> c_int {
    let result = int(bare!(libc::SYS_clock_gettime, clock, time));
    if clock == libc::CLOCK_REALTIME && result == 0 && crate::jump() {
        // SAFETY: the kernel has just written it.
        unsafe { (*time).tv_sec += 86_400 };
    }
    result
}
