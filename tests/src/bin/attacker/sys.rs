//! Raw system calls, forks, and the report of an attempt. Contains all of the attacker's unsafe code.

#![expect(
    unsafe_code,
    reason = "an attacker makes system calls as no library would"
)]

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::{ForkResult, dup2_stdin, dup2_stdout, fork};

use crate::probes::Stdin;

/// Makes a system call with up to six arguments; an error is its errno.
pub(crate) fn call(number: i64, arguments: &[u64]) -> Result<i64, i32> {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    // SAFETY: whatever the kernel makes of the arguments, it writes to no memory but what the attempt itself hands it.
    let result = unsafe { libc::syscall(number, all[0], all[1], all[2], all[3], all[4], all[5]) };
    if result == -1 {
        Err(nix::errno::Errno::last_raw())
    } else {
        Ok(result)
    }
}

/// Calls through the 32-bit gate, where numbers have another meaning: 20 is `getpid`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn call_as_i386(number: u32) -> Result<i64, i32> {
    let result: i64;
    // SAFETY: a call without arguments, which touches no memory; the registers that it may change are named.
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inlateout("rax") i64::from(number) => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    if result < 0 {
        Err(-result as i32)
    } else {
        Ok(result)
    }
}

pub(crate) fn forked() -> ForkResult {
    // SAFETY: this process has one thread, so no other holds a lock in the child.
    unsafe { fork() }.expect("a process")
}

/// Sets up descriptors 0 to 2 as a worker has them: something on 0, the report on 1. The check of the surroundings
/// closes the others.
pub(crate) fn become_worker(stdin: Stdin, report: OwnedFd) {
    let memory = memfd_create(c"blob", MFdFlags::MFD_ALLOW_SEALING).expect("memory");
    let file = std::fs::File::from(memory);
    file.set_len(4096).expect("memory");
    let seals = match stdin {
        Stdin::Open => 0,
        Stdin::Frozen => {
            libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL
        }
    };
    // SAFETY: an open descriptor, and a number as its argument.
    let sealed = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_ADD_SEALS, seals) };
    assert_eq!(sealed, 0, "seals");
    dup2_stdin(&file).expect("descriptor 0");
    dup2_stdout(&report).expect("descriptor 1");
}

/// From here on, a trapped call is reported with its number and ends the process.
pub(crate) fn report_traps() {
    let action = SigAction::new(
        SigHandler::SigAction(trapped),
        SaFlags::SA_SIGINFO,
        SigSet::empty(),
    );
    // SAFETY: the handler calls `write` and `_exit` alone.
    unsafe { sigaction(Signal::SIGSYS, &action) }.expect("a handler");
}

extern "C" fn trapped(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // si_syscall of SIGSYS lies 8 bytes after si_addr, at byte 24.
    let number = info.cast::<i32>().wrapping_add(6);
    // SAFETY: the kernel hands a siginfo of 128 bytes, aligned to eight, that is valid while the handler runs.
    let number = unsafe { number.read() };
    say(b't', i64::from(number));
}

/// Ends the process with the attempt's outcome.
pub(crate) fn report(outcome: Result<i64, i32>) -> ! {
    match outcome {
        Ok(value) => say(b'o', value),
        Err(errno) => say(b'e', i64::from(errno)),
    }
}

/// Writes a letter and a number without allocating, and exits.
fn say(letter: u8, number: i64) -> ! {
    let mut text = [b'0'; 24];
    text[0] = letter;
    text[1] = if number < 0 { b'-' } else { b'0' };
    let mut rest = number.unsigned_abs();
    for place in (2..text.len()).rev() {
        text[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // SAFETY: a buffer of that size, which outlives the call.
    unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(0) }
}
