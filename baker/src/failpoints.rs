//! Places of a worker's life where `KILN_FAILPOINTS` lets it go wrong: each count of each phase, and the steps of the
//! conversation. Without the feature `failpoints` nothing of this is compiled.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;
use proto::failpoint::{Action, act, hit};
use proto::message::Role;

static ROLE: OnceLock<Role> = OnceLock::new();
static FLIP: AtomicBool = AtomicBool::new(false);

/// Says whose life this is; before that nothing goes wrong.
pub(crate) fn begin(role: Role) {
    ROLE.get_or_init(|| role);
}

/// A passage of `site`.
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
        Action::Syscall => trace(),
        Action::Flip => FLIP.store(true, Ordering::Relaxed),
        other => tracing::error!(?other, "a worker has no such failpoint"),
    }
}

/// Spoils a table that is about to be handed over, if that is wanted.
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
    // SAFETY: not at all.
    unsafe {
        std::ptr::null_mut::<u8>()
            .wrapping_add(64)
            .write_volatile(1)
    }
}

#[expect(unsafe_code, reason = "the fault is what is wanted")]
fn read_behind_the_end() {
    let file = proto::blob::Blob::create("short", 1).expect("memory");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(&file));
    let (pages, flags) = (64 << 10, libc::MAP_SHARED);
    // SAFETY: a new mapping.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            2 * pages,
            libc::PROT_READ,
            flags,
            fd,
            0,
        )
    };
    // SAFETY: not at all: the file ends before this page.
    let byte = unsafe { memory.cast::<u8>().add(pages).read_volatile() };
    tracing::error!(byte, "a read behind the end of a file");
}

fn no_instruction() {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the fault is what is wanted")]
    // SAFETY: not at all.
    unsafe {
        std::arch::asm!("ud2");
    }
    #[cfg(not(target_arch = "x86_64"))]
    drop(nix::sys::signal::raise(nix::sys::signal::Signal::SIGILL));
}

fn divide_by_zero() {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the fault is what is wanted")]
    // SAFETY: not at all.
    unsafe {
        std::arch::asm!("xor {zero:e}, {zero:e}", "mov eax, 1", "cdq", "idiv {zero:e}", zero = out(reg) _, out("eax") _, out("edx") _);
    }
    #[cfg(not(target_arch = "x86_64"))]
    drop(nix::sys::signal::raise(nix::sys::signal::Signal::SIGFPE));
}

fn breakpoint() {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the fault is what is wanted")]
    // SAFETY: not at all.
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
fn trace() {
    // SAFETY: process 0 is none: outside a sandbox nothing comes of it.
    let answer = unsafe { libc::ptrace(libc::PTRACE_CONT, 0, 0, 0) };
    tracing::warn!(answer, "ptrace went through");
}
