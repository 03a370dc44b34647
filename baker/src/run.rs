//! One worker's life: role from the command line → session → role → `Done` or `Failed` → exit.

use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::OnceLock;

use proto::exit;
use proto::message::{Code, Done, Failure, Role, Start};
use tracing_subscriber::EnvFilter;

use crate::session::Session;
use crate::{bake, encode, prepare};

/// The conversation, for the panic hook.
static SESSION: OnceLock<Session> = OnceLock::new();

/// Runs the role that the command line names and returns its exit code: 0 after `Done`, otherwise the failure's.
#[must_use]
pub fn run() -> ExitCode {
    // JSON lines on standard error; the supervisor parses and re-emits them with job, role and pid.
    let filter = EnvFilter::try_from_env("KILN_LOG")
        .unwrap_or_else(|_unset| EnvFilter::new("warn,baker=info"));
    tracing_subscriber::fmt()
        .json()
        .with_writer(std::io::stderr)
        .with_env_filter(filter)
        .init();
    abort_on_panic();

    let role = match std::env::args().nth(1).as_deref() {
        Some("prepare") => Role::Prepare,
        Some("bake") => Role::Bake,
        Some("encode") => Role::Encode,
        Some("doctor") => return doctor(),
        _ => {
            tracing::error!(
                "usage: kiln-baker prepare|bake|encode, started by kiln with its socket as standard input"
            );
            return ExitCode::from(exit::USAGE);
        }
    };
    let session = match Session::connect(role) {
        Ok(session) => session,
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "no session");
            return ExitCode::from(exit::USAGE);
        }
    };
    let session = SESSION.get_or_init(|| session);
    match work(session, role) {
        Ok(done) => match session.done(done) {
            Ok(()) => exit::now(exit::OK),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the result was not sent"
                );
                ExitCode::from(exit::SOFTWARE)
            }
        },
        Err(failure) => give_up(session, &failure),
    }
}

/// Sends what went wrong and ends the process. Standard error has no buffer that would be lost.
fn give_up(session: &Session, failure: &Failure) -> ! {
    tracing::error!(code = ?failure.code, "{}", failure.message);
    if let Err(error) = session.failed(failure) {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "the failure was not sent"
        );
    }
    exit::now(exit::of(failure.code))
}

/// Prints what the GPU role would find here.
#[expect(
    clippy::print_stdout,
    reason = "doctor has no session: its report is its output"
)]
fn doctor() -> ExitCode {
    println!("{}", crate::doctor::report());
    ExitCode::from(exit::OK)
}

fn work(session: &Session, role: Role) -> Result<Done, Failure> {
    let (start, fds) = session.receive_start().map_err(|error| internal(&error))?;
    match (role, start) {
        (Role::Prepare, Start::Prepare(job)) => prepare::run(session, &job, fds).map(Done::Prepare),
        (Role::Bake, Start::Bake(job)) => bake::run(session, &job, fds).map(Done::Bake),
        (Role::Encode, Start::Encode(job)) => encode::run(session, &job, fds).map(Done::Encode),
        (role, _) => Err(Failure {
            code: Code::ProtocolViolation,
            message: format!("the supervisor sent another role's job to {}", role.name()),
            hint: String::new(),
        }),
    }
}

/// A failure that is nobody's input: a bug of ours, or the supervisor's end.
pub(crate) fn internal(error: &dyn std::error::Error) -> Failure {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(": ");
        message.push_str(&error.to_string());
        cause = error.source();
    }
    Failure {
        code: Code::Internal,
        message,
        hint: String::new(),
    }
}

/// Takes the first `N` descriptors of a job.
pub(crate) fn take_fds<const N: usize>(fds: Vec<OwnedFd>) -> Result<[OwnedFd; N], Failure> {
    fds.into_iter()
        .take(N)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|fds: Vec<OwnedFd>| Failure {
            code: Code::ProtocolViolation,
            message: format!("the job came with {} of {N} descriptors", fds.len()),
            hint: String::new(),
        })
}

/// Peak resident memory of this process in KiB.
pub(crate) fn peak_rss_kib() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| u64::try_from(usage.max_rss()).unwrap_or(0))
}

/// A panic on any thread logs where it was and ends the process: no destructor runs against a broken driver. A panic of wgpu at
/// work is the device's failure and is sent as such; any other ends the process by SIGABRT.
fn abort_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.payload_as_str().unwrap_or("no text");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panic: {text}");
        if let (Some(failure), Some(session)) = (bake::gpu::blame(info), SESSION.get()) {
            give_up(session, &failure);
        }
        std::process::abort();
    }));
}
