//! One worker's life: role from the command line → session → role → `Done` or `Failed` → exit.

use std::os::fd::OwnedFd;
use std::process::ExitCode;

use proto::exit;
use proto::message::{Code, Done, Failure, Phase, Role, Start};
use tracing_subscriber::EnvFilter;

use crate::bake::warm::Warm;
use crate::progress::Progress;
use crate::session::Session;
use crate::{bake, encode, last_words, prepare};

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
    #[cfg(feature = "failpoints")]
    {
        crate::failpoints::begin(role);
        crate::failpoints::at("spawn");
    }
    let session = match Session::connect(role) {
        Ok(session) => session,
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "no session");
            return ExitCode::from(exit::USAGE);
        }
    };
    #[cfg(feature = "failpoints")]
    crate::failpoints::at("hello");
    let pool = rayon::ThreadPoolBuilder::new().start_handler(|_| last_words::guard_thread());
    if let Err(error) = pool.build_global() {
        tracing::error!(error = &error as &dyn std::error::Error, "no threads");
        return ExitCode::from(exit::OSERR);
    }
    match work(&session, role) {
        Ok(done) => match session.done(done) {
            Ok(()) => ExitCode::from(exit::OK),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the result was not sent"
                );
                ExitCode::from(exit::SOFTWARE)
            }
        },
        Err(failure) => {
            tracing::error!(code = ?failure.code, "{}", failure.message);
            if let Err(error) = session.failed(&failure) {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the failure was not sent"
                );
            }
            ExitCode::from(exit::of(failure.code))
        }
    }
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
    let warm = match role {
        Role::Prepare | Role::Encode => None,
        Role::Bake => Some(warm(session)?),
    };
    let (start, fds) = session.receive_start().map_err(|error| internal(&error))?;
    match (start, warm) {
        (Start::Prepare(job), None) if role == Role::Prepare => {
            prepare::run(session, &job, fds).map(Done::Prepare)
        }
        (Start::Encode(job), None) if role == Role::Encode => {
            encode::run(session, &job, fds).map(Done::Encode)
        }
        (Start::Bake(job), Some(warm)) => bake::run(session, warm, &job, fds).map(Done::Bake),
        _ => Err(Failure {
            code: Code::ProtocolViolation,
            message: format!("the supervisor sent another role's job to {}", role.name()),
            hint: String::new(),
        }),
    }
}

/// Opens the adapter, and says so.
fn warm(session: &Session) -> Result<Warm, Failure> {
    let job = session.receive_warm().map_err(|error| internal(&error))?;
    session.progress(Phase::OpenDevice, 0, 0);
    let warm = Warm::up(&job, session)?;
    session
        .ready(warm.adapter())
        .map_err(|error| internal(&error))?;
    Ok(warm)
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

/// A panic on any thread logs where it was and ends the process by SIGABRT: no destructor runs against a broken driver.
fn abort_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.payload_as_str().unwrap_or("no text");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        last_words::panicked(text, &place);
        tracing::error!(place, "panic: {text}");
        std::process::abort();
    }));
}
