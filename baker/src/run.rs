//! One worker's life: role from the command line → sandbox → session → role → `Done` or `Failed` → exit.

use std::io::Write;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::OnceLock;

use proto::exit;
use proto::message::{Code, Done, Failure, Phase, Role, Start, Table};
use tracing_subscriber::EnvFilter;

use crate::bake::plan::warm::Warm;
use crate::worker::failure::internal;
use crate::worker::memory::peak_rss_kib;
use crate::worker::progress::Progress;
use crate::worker::sandbox::{self, Options};
use crate::worker::session::Session;
use crate::worker::{last_words, pace};
use crate::{bake, compare, encode, prepare};

/// The session, for the panic hook.
static SESSION: OnceLock<Session> = OnceLock::new();

/// Runs the role that the command line names. Returns 0 after `Done`, otherwise the exit code of the failure.
pub fn run() -> ExitCode {
    // Logs JSON lines to standard error. The supervisor parses them and adds job, role and pid.
    let filter = EnvFilter::try_from_env("KILN_LOG")
        .unwrap_or_else(|_unset| EnvFilter::new("warn,baker=info"));
    tracing_subscriber::fmt()
        .json()
        .with_writer(std::io::stderr)
        .with_env_filter(filter)
        .init();
    abort_on_panic();

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["doctor"] {
        return doctor();
    }
    let Some((role, options)) = parse(&arguments) else {
        tracing::error!(
            "usage: kiln-baker prepare|bake|encode [--no-sandbox] [--address-space BYTES], started by kiln with its socket as standard input"
        );
        return ExitCode::from(exit::USAGE);
    };
    #[cfg(feature = "failpoints")]
    crate::worker::failpoints::begin(role);
    let session = match begin(role, &options) {
        Ok(session) => session,
        Err((code, error)) => {
            tracing::error!(error = &*error, "{} does not begin", role.name());
            return ExitCode::from(code);
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

fn parse(arguments: &[String]) -> Option<(Role, Options)> {
    let (role, flags) = arguments.split_first()?;
    let roles = [Role::Prepare, Role::Bake, Role::Encode];
    let role = roles.into_iter().find(|known| known.name() == role)?;
    let mut options = Options::default();
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        match flag.as_str() {
            "--no-sandbox" => options.enabled = false,
            "--address-space" => options.address_space = Some(flags.next()?.parse().ok()?),
            _ => return None,
        }
    }
    Some((role, options))
}

/// Enters the sandbox while the process has one thread, and says hello from inside.
fn begin(
    role: Role,
    options: &Options,
) -> Result<Session, (u8, Box<dyn std::error::Error + Send + Sync>)> {
    sandbox::check_surroundings(role, options).map_err(|error| (exit::NOPERM, error.into()))?;
    let session = Session::connect().map_err(|error| (exit::USAGE, error.into()))?;
    // Both read files, which the sandbox forbids.
    peak_rss_kib();
    let threads = thread_count();
    let entered = sandbox::enter(role, options).map_err(|error| (exit::NOPERM, error.into()))?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .start_handler(|_| last_words::guard_thread());
    pool.build_global()
        .map_err(|error| (exit::OSERR, error.into()))?;
    #[cfg(feature = "failpoints")]
    crate::worker::failpoints::at("hello");
    session
        .hello(role, entered)
        .map_err(|error| (exit::USAGE, error.into()))?;
    Ok(session)
}

/// Cap on a requested thread count beyond the number of processors. More threads would only wait for each other, and a
/// limit on processes or memory may not allow them.
const ENOUGH_THREADS: usize = 16;

/// Threads of the pool: one for each processor available to this process, or `RAYON_NUM_THREADS` within reason. Reads
/// files, so it has to run before the sandbox is entered.
fn thread_count() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let wanted = std::env::var("RAYON_NUM_THREADS");
    let wanted = wanted.ok().and_then(|text| text.parse().ok());
    match wanted {
        None | Some(0) => processors,
        Some(count) => count.min(processors.max(ENOUGH_THREADS)),
    }
}

/// Sends the failure and ends the process. Standard error is unbuffered, so nothing is lost.
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

/// Prints what the bake role finds on this machine, in the sandbox that it has here.
#[expect(
    clippy::print_stdout,
    reason = "doctor has no session: its report is its output"
)]
fn doctor() -> ExitCode {
    // While there is one thread. A filter of ours that does not compile is told in a bake.
    let entered = sandbox::enter(Role::Bake, &Options::default());
    let mut report = crate::doctor::report();
    if let Ok(sandbox) = entered.and_then(|_| sandbox::seal_gpu()) {
        report["sandbox"] = serde_json::json!(sandbox);
    }
    println!("{report}");
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
            prepare::run(session, &job).map(Done::Prepare)
        }
        (Start::Compare(job), None) if role == Role::Prepare => {
            compare::run(session, &job).map(Done::Compare)
        }
        (Start::Encode(job), None) if role == Role::Encode => {
            encode::run(session, &job, fds).map(Done::Encode)
        }
        (Start::Bake(job), Some(warm)) => match job.dry_run {
            None => bake::run(session, warm, &job, fds).map(Done::Bake),
            Some(format) => {
                bake::plan::dry_run::run(session, warm, &job, format, fds).map(Done::Plan)
            }
        },
        _ => Err(Failure {
            code: Code::ProtocolViolation,
            message: format!("the supervisor sent another role's job to {}", role.name()),
            hint: String::new(),
        }),
    }
}

/// Opens the adapter, reports it and compiles its pipelines, reusing those of an earlier process. All of this ends
/// before the supervisor sends any data.
fn warm(session: &Session) -> Result<Warm, Failure> {
    let job = session.receive_warm().map_err(|error| internal(&error))?;
    session.progress(Phase::OpenDevice, 0, 0);
    session.expect("the adapter", pace::ADAPTER);
    let mut warm = Warm::up(&job, session)?;
    // Sealed before any data arrives.
    let sandbox = sandbox::seal_gpu().map_err(|error| Failure {
        code: Code::SandboxUnavailable,
        message: format!("bake cannot be confined: {error}"),
        hint: String::new(),
    })?;
    session
        .ready(warm.adapter(), warm.peers(), sandbox, warm.cache_key())
        .map_err(|error| internal(&error))?;
    if warm.cache_key().is_some() {
        let (keep, kept) = session
            .receive_pipelines()
            .map_err(|error| internal(&error))?;
        if keep {
            warm.keep(kept.as_deref());
        }
    }
    #[cfg(feature = "failpoints")]
    crate::worker::failpoints::at("compile");
    // Compiles while prepare works, or before there is a job.
    let mut warm = warm.compiled();
    if let Some(gained) = warm.gained() {
        let put = session.put(Table::Pipelines, gained.len() as u64, |out| {
            Ok(out.write_all(&gained)?)
        });
        put.map_err(|error| internal(&error))?;
    }
    session.compiled().map_err(|error| internal(&error))?;
    Ok(warm)
}

/// Makes a panic on any thread log its location and end the process, so that no destructor runs against a broken
/// driver. A panic of wgpu is a failure of the device and is sent as such. Any other panic ends the process by SIGABRT.
fn abort_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.payload_as_str().unwrap_or("no text");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        last_words::panicked(text, &place);
        tracing::error!(place, "panic: {text}");
        if let (Some(failure), Some(session)) = (bake::gpu::blame(info), SESSION.get()) {
            give_up(session, &failure);
        }
        std::process::abort();
    }));
}
