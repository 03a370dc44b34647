//! Runs the command line: sets up logging and the runtime, runs the command, and returns the exit code.

use std::io::IsTerminal;
use std::process::ExitCode;

use indicatif::MultiProgress;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use proto::exit;
use proto::message::Code;
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::cli::{self, Command, Refusal};
use crate::error::JobError;
use crate::job::many;
use crate::process::child::kin;
use crate::process::reserve;
use crate::screen::{self, Voice};
use crate::{doctor, panics, serve, signals};

/// Runs the command that the arguments name, and returns the program's exit code.
pub fn run() -> ExitCode {
    let bars = MultiProgress::new();
    let command = match cli::parse(std::env::args_os()) {
        Ok(Command::Shown) => return end(exit::OK),
        Ok(command) => command,
        Err(refusal) => return end(refused(&refusal)),
    };
    let (json, voice) = command.tone();
    log(json, voice, &bars);
    raise_file_limit();
    reserve::start();
    kin::adopt();
    if let Err(error) = proto::channel::close_inherited_on_exec() {
        tracing::warn!(%error, "workers may inherit descriptors of whoever started kiln");
    }
    // The exit code of a job tells of the job, whose files are in place.
    let of_job = match &command {
        Command::Bake { .. } | Command::BakeMany { .. } => true,
        Command::Remote(task) => task.is_of_job(),
        _ => false,
    };
    // Unwinding drops the children's handles, which kills them.
    let code = panics::caught(|| carry_out(command, &bars));
    let code = code.unwrap_or_else(|error| fail(&error, json));
    if !of_job {
        return end(code);
    }
    if let Some(error) = screen::lost() {
        screen::say(&format!("warning: {}", error.message));
    }
    ExitCode::from(code)
}

/// The exit code of a command that makes nothing but output: that of its work, unless this succeeded and its output is lost.
fn end(code: u8) -> ExitCode {
    let lost = screen::lost().filter(|_| code == exit::OK);
    ExitCode::from(lost.map_or(code, |error| fail(&error, false)))
}

fn carry_out(command: Command, bars: &MultiProgress) -> u8 {
    let (json, voice) = command.tone();
    // Single-threaded, on the main thread: see the crate's head.
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error, json),
    };
    let code = match command {
        Command::Shown => exit::OK,
        Command::Bake { spec, .. } => {
            let mut listener = screen::listener(json, voice, bars);
            let report = runtime.block_on(many::one(&spec, &mut *listener));
            report.error.map_or(exit::OK, |error| error.exit_code)
        }
        Command::BakeMany {
            specs,
            parallel,
            spares,
            bakes,
            memory_limit,
            pipelines,
            #[cfg(feature = "fleet")]
            fleet,
            ..
        } => {
            #[cfg(feature = "fleet")]
            if let Some(place) = fleet {
                let all = cli::remote::many::all(specs, &place, json, voice, bars);
                let sum = runtime.block_on(all);
                screen::sum(json, voice, &sum);
                runtime.shutdown_background();
                return sum.code;
            }
            let listener = |name: &str| screen::listener_of(json, voice, name);
            let plan = many::Plan {
                parallel,
                spares,
                bakes,
                memory_limit,
                pipelines,
            };
            let sum = runtime.block_on(many::all(specs, plan, listener));
            screen::sum(json, voice, &sum);
            sum.code
        }
        Command::Remote(task) => runtime.block_on(cli::remote::carry_out(*task, bars)),
        Command::Compare(task) => runtime.block_on(cli::compare::carry_out(*task, bars)),
        Command::Serve {
            options,
            #[cfg(feature = "fleet")]
            fleet,
        } => {
            #[cfg(not(feature = "fleet"))]
            let elsewhere = None;
            #[cfg(feature = "fleet")]
            let elsewhere = match fleet.map(|place| crate::fleet::front(&place)).transpose() {
                Ok(elsewhere) => elsewhere,
                Err(error) => {
                    let told = error.report();
                    screen::refuse(&told.message, &told.hint);
                    return told.exit_code;
                }
            };
            runtime.block_on(serve::run(*options, elsewhere))
        }
        #[cfg(feature = "fleet")]
        Command::Fleet { place, form } => {
            runtime.block_on(crate::fleet::overview::show(&place, form))
        }
        #[cfg(feature = "fleet")]
        Command::Worker(options) => runtime.block_on(crate::fleet::worker::run(*options)),
        Command::Doctor { baker, .. } => runtime.block_on(doctor::run(&baker, json)),
    };
    // Waits for nothing: a thread on a network file system, or a process that cannot be killed, may never end.
    runtime.shutdown_background();
    code
}

/// Creates the runtime. Writes beyond the file size limit become errors instead of a deadly signal.
fn runtime() -> Result<Runtime, Box<JobError>> {
    let built = Builder::new_current_thread().enable_all().build();
    let runtime =
        built.map_err(|error| JobError::own(Code::Internal, format!("no runtime: {error}"), ""))?;
    let outlived = {
        let _entered = runtime.enter();
        signals::outlive_large_files()
    };
    if let Err(error) = outlived {
        tracing::warn!(%error, "a file that grows too large would end kiln");
    }
    Ok(runtime)
}

/// Reports why a command does not start, after its jobs have written their reports.
fn refused(refusal: &Refusal) -> u8 {
    match runtime() {
        Ok(_runtime) => refusal.leave_reports(),
        Err(error) => tracing::warn!("no report is left: {}", error.message),
    }
    fail(&refusal.error, refusal.json)
}

fn fail(error: &JobError, json: bool) -> u8 {
    if json {
        screen::result(&screen::error_line(error).to_string());
    } else {
        screen::complain("", error);
    }
    error.exit_code
}

/// Raises the soft limit: each view needs a descriptor, and the usual limit is 1024.
fn raise_file_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(errno) = raised {
        tracing::debug!(%errno, "the limit of open files stays as it is");
    }
}

/// Sends log events to standard error, past the progress bars. `KILN_LOG` overrides the flags.
fn log(json: bool, voice: Voice, bars: &MultiProgress) {
    let preset = match voice {
        Voice::Quiet => "off",
        // Workers' warnings arrive as packets, and their last lines with an error: not shown twice.
        Voice::Normal => "error,child=off",
        Voice::Verbose => "debug",
    };
    let filter =
        EnvFilter::try_from_env("KILN_LOG").unwrap_or_else(|_unset| EnvFilter::new(preset));
    let writer = PastBars(bars.clone());
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Whoever reads it may leave.
        .log_internal_errors(false)
        .with_writer(writer);
    if json {
        builder.json().init();
    } else {
        builder.with_target(false).with_ansi(colours).init();
    }
}

/// Writes to standard error while the bars are hidden.
struct PastBars(MultiProgress);

impl<'a> MakeWriter<'a> for PastBars {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self(self.0.clone())
    }
}

impl std::io::Write for PastBars {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.suspend(|| std::io::stderr().write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
