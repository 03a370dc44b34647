//! Exit codes of `kiln`: sysexits(3), timeout(1) and 128 + signal, one documented number for each cause.

use crate::message::Code;

/// The result is verified and in place.
pub const OK: u8 = 0;
/// Bad flags (`EX_USAGE`).
pub const USAGE: u8 = 64;
/// The asset is invalid, beyond a limit or not supported, or names a file that cannot be read (`EX_DATAERR`).
pub const DATAERR: u8 = 65;
/// A file that the command line names is missing (`EX_NOINPUT`).
pub const NOINPUT: u8 = 66;
/// No adapter fits, or no sidecar answers (`EX_UNAVAILABLE`).
pub const UNAVAILABLE: u8 = 69;
/// A worker crashed after its retries, or there is a bug in Kiln (`EX_SOFTWARE`).
pub const SOFTWARE: u8 = 70;
/// A worker could not be started (`EX_OSERR`).
pub const OSERR: u8 = 71;
/// The output cannot be created there (`EX_CANTCREAT`).
pub const CANTCREAT: u8 = 73;
/// Reading or writing failed, and not because of the name: the disk is full, broken or gone (`EX_IOERR`).
pub const IOERR: u8 = 74;
/// A sidecar accepts nothing now: its queue is full, or it is shutting down (`EX_TEMPFAIL`).
pub const TEMPFAIL: u8 = 75;
/// A sidecar's answer is not understood: it has another version, or is no sidecar (`EX_PROTOCOL`).
pub const PROTOCOL: u8 = 76;
/// The sandbox is not available, or a sidecar refuses this caller (`EX_NOPERM`).
pub const NOPERM: u8 = 77;
/// The two binaries are of different builds (`EX_CONFIG`).
pub const CONFIG: u8 = 78;
/// The deadline passed; the code is that of timeout(1).
pub const TIMEOUT: u8 = 124;
/// Ended by SIGINT.
pub const SIGINT: u8 = 130;
/// Ended by SIGTERM.
pub const SIGTERM: u8 = 143;

/// Ends this process at once, without destructors and without what `exit` would still run: a broken driver's clean-up
/// may block or crash.
#[expect(unsafe_code, reason = "std has no way out that runs nothing")]
pub fn now(code: u8) -> ! {
    // SAFETY: no precondition; the kernel ends every thread and closes everything.
    unsafe { nix::libc::_exit(i32::from(code)) }
}

/// The exit code of a terminal failure.
pub fn of(code: Code) -> u8 {
    match code {
        Code::InvalidSpec => USAGE,
        Code::InvalidAsset | Code::LimitExceeded | Code::UnsupportedFeature => DATAERR,
        Code::MissingInput => NOINPUT,
        Code::NoAdapter => UNAVAILABLE,
        Code::OutOfHostMemory
        | Code::OutOfDeviceMemory
        | Code::GpuDeviceLost
        | Code::ShaderRejected
        | Code::IncompleteOutput
        | Code::WorkerCrashed
        | Code::WorkerStalled
        | Code::ProtocolViolation
        | Code::GpuHang
        | Code::SandboxViolation
        | Code::Internal => SOFTWARE,
        Code::SandboxUnavailable => NOPERM,
        Code::DeadlineExceeded => TIMEOUT,
        Code::SpawnFailed => OSERR,
        Code::OutputError => CANTCREAT,
        Code::IoError => IOERR,
        Code::Cancelled => SIGINT,
        Code::BinaryMismatch => CONFIG,
    }
}
