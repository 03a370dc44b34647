//! Places of a worker's life where `KILN_FAILPOINTS` makes it fail: each progress count of each phase, and the steps of
//! the protocol. Compiled with the feature `failpoints` alone.

pub(crate) mod silence;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;
use proto::failpoint::{Action, act, hit};
use proto::message::Role;

/// A page beyond the end of a mapped file. Mapped early, since a sandbox would forbid it later.
static BEHIND: OnceLock<usize> = OnceLock::new();
static ROLE: OnceLock<Role> = OnceLock::new();
static FLIP: AtomicBool = AtomicBool::new(false);

/// Sets the role; before that nothing fails.
pub(crate) fn begin(role: Role) {
    BEHIND.get_or_init(map_short_file);
    ROLE.get_or_init(|| role);
    at("spawn");
}

/// Passes the failpoint `site`.
pub(crate) fn at(site: &str) {
    let Some(role) = ROLE.get() else { return };
    let Some(action) = hit(role.name(), site).and_then(act) else {
        return;
    };
    match action {
        Action::Segv => write_to_nothing(),
        Action::Bus => read_behind_the_end(),
        Action::Ill => no_instruction(),
        Action::Fpe => divide_by_zero(),
        Action::Trap => breakpoint(),
        Action::Overflow => drop(recurse(1)),
        Action::Oom => allocate(),
        Action::Syscall(number) => call(number),
        Action::Flip => FLIP.store(true, Ordering::Relaxed),
        other => tracing::error!(?other, "a worker has no such failpoint"),
    }
}

/// Flips a bit of a texture that is about to be handed over, if asked for.
pub(crate) fn spoil(blob: &proto::blob::BlobFile) {
    use std::io::{Read, Write};
    if !FLIP.swap(false, Ordering::Relaxed) {
        return;
    }
    let mut bytes = Vec::new();
    let read = blob.reader().read_to_end(&mut bytes);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let written = read.and_then(|_| blob.writer().write_all(&bytes));
    written.expect("granted memory");
}

#[expect(unsafe_code, reason = "the fault is what is wanted")]
fn write_to_nothing() {
    // SAFETY: none; the fault is the purpose.
    unsafe {
        std::ptr::null_mut::<u8>()
            .wrapping_add(64)
            .write_volatile(1)
    }
}

fn map_short_file() -> usize {
    use std::os::fd::{AsFd, AsRawFd};
    let file = proto::blob::Blob::create("short", 1).expect("memory");
    let (page, flags, fd) = (64 << 10, libc::MAP_SHARED, file.as_fd().as_raw_fd());
    #[expect(unsafe_code, reason = "a mapping")]
    // SAFETY: a new mapping that nothing else uses.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            2 * page,
            libc::PROT_READ,
            flags,
            fd,
            0,
        )
    };
    memory as usize + page
}

fn read_behind_the_end() {
    let place = *BEHIND.get_or_init(map_short_file) as *const u8;
    #[expect(unsafe_code, reason = "the fault is what is wanted")]
    // SAFETY: none; the file ends before this page.
    let byte = unsafe { place.read_volatile() };
    tracing::error!(byte, "a read behind the end of a file");
}

fn no_instruction() {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the fault is what is wanted")]
    // SAFETY: none; the fault is the purpose.
    unsafe {
        std::arch::asm!("ud2");
    }
    #[cfg(not(target_arch = "x86_64"))]
    drop(nix::sys::signal::raise(nix::sys::signal::Signal::SIGILL));
}

fn divide_by_zero() {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the fault is what is wanted")]
    // SAFETY: none; the fault is the purpose.
    unsafe {
        std::arch::asm!("xor {zero:e}, {zero:e}", "mov eax, 1", "cdq", "idiv {zero:e}", zero = out(reg) _, out("eax") _, out("edx") _);
    }
    #[cfg(not(target_arch = "x86_64"))]
    drop(nix::sys::signal::raise(nix::sys::signal::Signal::SIGFPE));
}

fn breakpoint() {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the fault is what is wanted")]
    // SAFETY: none; the fault is the purpose.
    unsafe {
        std::arch::asm!("int3");
    }
    #[cfg(not(target_arch = "x86_64"))]
    drop(nix::sys::signal::raise(nix::sys::signal::Signal::SIGTRAP));
}

#[expect(unconditional_recursion, reason = "the fault is what is wanted")]
fn recurse(depth: u64) -> u64 {
    let page = std::hint::black_box([depth; 64]);
    recurse(depth + 1) + std::hint::black_box(page)[7]
}

fn allocate() {
    let mut bytes = 1 << 30;
    loop {
        Vec::<u8>::with_capacity(bytes).leak();
        bytes *= 2;
    }
}

#[expect(unsafe_code, reason = "the fault is what is wanted")]
fn call(number: i64) {
    // SAFETY: with arguments of 0, outside a sandbox, the calls that tests name have no effect.
    let answer = unsafe { libc::syscall(number, 0, 0, 0, 0) };
    tracing::warn!(number, answer, "a system call went through");
}
