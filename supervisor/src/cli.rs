//! Arguments → a checked command, or one line that says what is wrong with them (exit code 64, not clap's 2).

mod args;

pub mod compare;

#[cfg(feature = "fleet")]
mod fleet;

mod form;

pub mod jobs;

pub mod remote;

mod paths;

mod refused;

mod replay;

mod serve;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory, Parser};
use proto::message::Code;

use self::args::{BakeArgs, Cli, DoctorArgs, HostArgs, JobArgs, ServeArgs, Sub};
use self::paths::{absolute, baker_path, distinct, read, targets};
use crate::error::JobError;
use crate::host::ladder::Policy;
use crate::input::{self, reason};
use crate::job::{MapTargets, Spec};
use crate::output::{Target, make_folder};
use crate::print::{kept, result};
use crate::screen::Voice;
use crate::serve::Options;

/// What to do, with everything checked that can be checked before any work.
#[derive(Debug)]
pub enum Command {
    /// Help or version, which has been printed.
    Shown,
    /// `kiln bake`.
    Bake {
        /// The job.
        spec: Box<Spec>,
        /// One JSON object per line.
        json: bool,
        /// How much to show.
        voice: Voice,
    },
    /// `kiln bake --jobs`.
    BakeMany {
        /// The jobs.
        specs: Vec<Spec>,
        /// How many at once.
        parallel: usize,
        /// Warm processes without a job.
        spares: usize,
        /// How many bake at once on each adapter.
        bakes: usize,
        /// For each worker, in bytes.
        memory_limit: Option<u64>,
        /// Where pipelines are kept.
        pipelines: Option<PathBuf>,
        /// One JSON object per line.
        json: bool,
        /// How much to show.
        voice: Voice,
        /// The fleet that does them, if not this process.
        #[cfg(feature = "fleet")]
        fleet: Option<crate::fleet::Place>,
    },
    /// `kiln serve`.
    Serve {
        /// How.
        options: Box<Options>,
        /// The fleet that does its jobs, if not this host.
        #[cfg(feature = "fleet")]
        fleet: Option<crate::fleet::Place>,
    },
    /// `kiln submit`, `status`, `wait`, `cancel`, `list`, `fetch`.
    Remote(Box<remote::Task>),
    /// `kiln worker`.
    #[cfg(feature = "fleet")]
    Worker(Box<crate::fleet::worker::Options>),
    /// `kiln fleet`.
    #[cfg(feature = "fleet")]
    Fleet {
        /// Which.
        place: crate::fleet::Place,
        /// How it is shown.
        form: crate::fleet::overview::Form,
    },
    /// `kiln compare`.
    Compare(Box<compare::Task>),
    /// `kiln doctor`.
    Doctor {
        /// `kiln-baker`.
        baker: PathBuf,
        /// One JSON object.
        json: bool,
    },
}

impl Command {
    /// JSON or not, and how much.
    pub fn tone(&self) -> (bool, Voice) {
        match self {
            Self::Shown | Self::Serve { .. } => (false, Voice::Normal),
            #[cfg(feature = "fleet")]
            Self::Worker(_) => (false, Voice::Normal),
            #[cfg(feature = "fleet")]
            Self::Fleet { form, .. } => {
                (*form == crate::fleet::overview::Form::Json, Voice::Normal)
            }
            Self::Bake { json, voice, .. } | Self::BakeMany { json, voice, .. } => (*json, *voice),
            Self::Remote(task) => (task.json, task.voice),
            Self::Compare(task) => (task.json, task.voice),
            Self::Doctor { json, .. } => (*json, Voice::Normal),
        }
    }
}

/// A command that cannot be run.
#[derive(Debug)]
pub struct Refusal {
    /// Why.
    pub error: Box<JobError>,
    /// JSON was asked for.
    pub json: bool,
    /// The jobs that it keeps from beginning.
    jobs: Vec<BakeArgs>,
}

impl Refusal {
    fn new(error: Box<JobError>, json: bool) -> Self {
        Self {
            error,
            json,
            jobs: Vec::new(),
        }
    }

    /// Each of the jobs leaves a report with the error, if it asked for one in a place that can be had.
    pub fn leave_reports(&self) {
        refused::leave_reports(&self.jobs, &self.error);
    }
}

/// Parses and checks arguments, the program's name among them.
///
/// # Errors
/// One line for people, with the exit code.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Refusal> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let wants_json = arguments.iter().any(|argument| argument == "--json");
    let refuse = |error| Refusal::new(error, wants_json);
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            kept(error.print());
            return Ok(Command::Shown);
        }
        Err(error) => return Err(refuse(usage(&error))),
    };
    let remote = |task: Result<remote::Task, Box<JobError>>| {
        task.map(|task| Command::Remote(Box::new(task)))
            .map_err(refuse)
    };
    match cli.command {
        Sub::Submit(args) => remote(remote::submit(*args)),
        Sub::Status(args) => remote(remote::status(args)),
        Sub::Wait(args) => remote(remote::wait(args)),
        Sub::Cancel(args) => remote(remote::cancel(args)),
        Sub::List(args) => remote(remote::list(args)),
        Sub::Fetch(args) => remote(remote::fetch(args)),
        Sub::Bake(args) => bake(*args),
        Sub::Compare(args) => compare::task(*args)
            .map(|task| Command::Compare(Box::new(task)))
            .map_err(refuse),
        Sub::Replay(args) => {
            let json = args.json;
            let spec = replay::spec(args, own_name()).map_err(refuse)?;
            Ok(Command::Bake {
                spec: Box::new(spec),
                json,
                voice: Voice::Verbose,
            })
        }
        Sub::Serve(args) => serve(*args).map_err(refuse),
        #[cfg(feature = "fleet")]
        Sub::Worker(args) => fleet::worker(*args)
            .map(|options| Command::Worker(Box::new(options)))
            .map_err(refuse),
        #[cfg(feature = "fleet")]
        Sub::Fleet(args) => fleet::overview(args)
            .map(|(place, form)| Command::Fleet { place, form })
            .map_err(refuse),
        Sub::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "kiln", &mut script);
            result(String::from_utf8_lossy(&script).trim_end());
            Ok(Command::Shown)
        }
        Sub::Man { folder } => match man(&folder) {
            Ok(()) => Ok(Command::Shown),
            Err(error) => {
                let message = format!("cannot write {}: {}", folder.display(), reason(&error));
                Err(refuse(JobError::own(Code::OutputError, message, "")))
            }
        },
        Sub::Doctor(DoctorArgs { json, baker }) => Ok(Command::Doctor {
            baker: baker_path(baker).map_err(refuse)?,
            json,
        }),
    }
}

fn serve(args: ServeArgs) -> Result<Command, Box<JobError>> {
    #[cfg(feature = "fleet")]
    let fleet = args.fleet.then(fleet::of_variables).transpose()?;
    Ok(Command::Serve {
        options: Box::new(serve::options(args)?),
        #[cfg(feature = "fleet")]
        fleet,
    })
}

fn bake(args: BakeArgs) -> Result<Command, Refusal> {
    let (json, voice) = (args.json, voice(&args));
    #[cfg(feature = "fleet")]
    let fleet = (fleet::of_bake(&args)).map_err(|error| Refusal::new(error, json))?;
    if let Some(path) = &args.jobs {
        return Ok(Command::BakeMany {
            specs: many(path, &args)?,
            parallel: usize::from(args.parallel),
            spares: usize::from(args.spares),
            bakes: usize::from(args.bakes.unwrap_or(args.parallel)),
            memory_limit: args.memory_limit,
            pipelines: args.host.pipelines(),
            json,
            voice,
            #[cfg(feature = "fleet")]
            fleet,
        });
    }
    match spec(args.clone(), own_name()) {
        Ok(spec) => Ok(Command::Bake {
            spec: Box::new(spec),
            json,
            voice,
        }),
        Err(error) => Err(Refusal {
            error,
            json,
            jobs: vec![args],
        }),
    }
}

/// Writes a man page for kiln and one for each command.
fn man(folder: &Path) -> std::io::Result<()> {
    make_folder(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}

/// Of the one job of this process.
fn own_name() -> Arc<str> {
    format!("{:08x}", std::process::id()).into()
}

/// Each entry of a list as if it had been typed, but for what only the command line says. One that cannot begin keeps all
/// from beginning.
fn many(path: &Path, own: &BakeArgs) -> Result<Vec<Spec>, Refusal> {
    let json = own.json;
    let entries = jobs::read(path).map_err(|message| Refusal::new(bad_list(message), json))?;
    let host = |name: &str| {
        let mut bakers = own.baker_of.iter();
        let baker = bakers.find(|(job, _)| job == name).map(|(_, path)| path);
        let mut host: HostArgs = own.host.clone();
        host.baker = baker.cloned().or(host.baker);
        host
    };
    let entry = |entry: jobs::Entry| {
        let args = typed(&entry.arguments).map(|args| BakeArgs {
            host: host(&entry.name),
            memory_limit: own.memory_limit,
            ..args
        });
        (entry.name, args)
    };
    let entries: Vec<Typed> = entries.into_iter().map(entry).collect();
    let jobs = entries.iter().flat_map(|(_, args)| args.iter().cloned());
    let jobs = jobs.collect();
    checked(path, entries).map_err(|error| Refusal { error, json, jobs })
}

/// An entry's name, and its flags if they parse.
type Typed = (String, Result<BakeArgs, Box<JobError>>);

fn bad_list(message: String) -> Box<JobError> {
    let hint = "kiln bake --help names the flags";
    JobError::own(Code::InvalidSpec, message, hint)
}

/// The jobs of the list at `path`, each by itself and beside the others.
fn checked(path: &Path, entries: Vec<Typed>) -> Result<Vec<Spec>, Box<JobError>> {
    let mut specs = Vec::new();
    let mut outputs: HashMap<PathBuf, String> = HashMap::new();
    for (name, args) in entries {
        let place = format!("{}: job {name}: ", path.display());
        if specs.iter().any(|known: &Spec| *known.name == *name) {
            return Err(bad_list(format!("{place}another job has this name")));
        }
        let named = |mut error: Box<JobError>| {
            error.message.insert_str(0, &place);
            error
        };
        let spec = spec(args.map_err(named)?, name.as_str().into()).map_err(named)?;
        for target in spec.outputs() {
            if let Some(other) = outputs.insert(absolute(target.path()), name.clone()) {
                let message = format!(
                    "{} is also an output of job {other}",
                    target.path().display()
                );
                return Err(named(bad_list(message)));
            }
        }
        specs.push(spec);
    }
    Ok(specs)
}

fn typed(arguments: &[String]) -> Result<BakeArgs, Box<JobError>> {
    let words = ["kiln", "bake"].into_iter().map(str::to_owned);
    match Cli::try_parse_from(words.chain(arguments.iter().cloned())) {
        Ok(Cli {
            command: Sub::Bake(args),
        }) => Ok(*args),
        Ok(_) => Err(JobError::own(Code::InvalidSpec, "not a bake", "")),
        Err(error) => Err(usage(&error)),
    }
}

fn voice(args: &BakeArgs) -> Voice {
    match (args.quiet, args.verbose) {
        (true, _) => Voice::Quiet,
        (false, true) => Voice::Verbose,
        (false, false) => Voice::Normal,
    }
}

fn spec(args: BakeArgs, name: Arc<str>) -> Result<Spec, Box<JobError>> {
    let (mesh, views, output) = (args.mesh, args.views, args.output.as_deref());
    let alone = mesh.as_deref().filter(|_| views.is_none());
    let (mesh, views) = match alone.and_then(input::splats_of) {
        Some(splats) => (Some(splats.clone()), Some(splats)),
        None => (mesh, views),
    };
    let (Some(mesh), Some(views), true) = (mesh, views, output.is_some() || args.dry_run) else {
        return Err(JobError::own(
            Code::InvalidSpec,
            "mesh, --views and --output are needed; Gaussian splats alone need no --views",
            "see kiln bake --help",
        ));
    };
    let mesh = input::find("the mesh", &mesh)?;
    let views = input::find_views(&views, args.job.images.as_deref())?;
    let mut options = args.job.options()?;
    let original = paths::original(args.job.original.as_deref())?;
    if args.dry_run && options.fallback == Policy::VertexColours {
        // It plans textures.
        options.fallback = Policy::Adapters;
    }
    // Where nothing is to be made, it would be a GLB.
    let (form, beside) = form::place(&options, output.unwrap_or(Path::new("out.glb")))?;
    let JobArgs {
        preview,
        html,
        maps,
        report,
        ..
    } = &args.job;
    let named = [&args.output, preview, html, report].into_iter().flatten();
    let maps_at = maps.iter().flat_map(|folder| MapTargets::within(folder));
    let named = named.cloned().chain(maps_at);
    let outputs: Vec<_> = (named.chain(beside.iter().map(|(_, path)| path.clone()))).collect();
    let inputs: Vec<_> = ([&mesh, &views].into_iter()).chain(&original).collect();
    distinct(&read(&inputs), &outputs)?;
    let target = |path: Option<&Path>| path.map(Target::anywhere).transpose();
    let spec = Spec {
        name,
        mesh,
        views,
        original,
        glb: target(output)?,
        form,
        beside: targets(beside)?,
        preview: target(preview.as_deref())?,
        html: target(html.as_deref())?,
        maps: (maps.as_deref())
            .map(|folder| MapTargets::check(folder, Target::anywhere))
            .transpose()?,
        rejected: args.rejected,
        report: target(report.as_deref())?,
        dry_run: args.dry_run,
        options,
        sandbox: !args.host.insecure_no_sandbox,
        memory_limit: args.memory_limit,
        crash_root: args.host.crash_root(),
        pipelines: args.host.pipelines(),
        stall: args.stall_timeout,
        baker: baker_path(args.host.baker)?,
        log_filter: match args.verbose {
            true => "warn,baker=debug".to_owned(),
            false => "warn,baker=info".to_owned(),
        },
        threads: None,
    };
    if let Some(folder) = &spec.rejected {
        crate::job::rejected(folder, 0)?;
    }
    Ok(spec)
}

/// Clap's own words on one line, and its tip as the hint.
fn usage(error: &clap::Error) -> Box<JobError> {
    let rendered = error.render().to_string();
    let mut lines = rendered.lines().map(str::trim).take_while(|line| {
        !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    let mut message = lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned();
    let mut hint = "--help after the command explains every option".to_owned();
    for line in lines.filter(|line| !line.is_empty()) {
        match line.strip_prefix("tip: ") {
            Some(tip) => tip.clone_into(&mut hint),
            None => message.push_str(&format!(" {line}")),
        }
    }
    if matches!(
        error.kind(),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        "a command is missing: bake, compare, replay, serve, submit, status, wait, cancel, list, fetch, doctor or completions".clone_into(&mut message);
        "kiln --help shows examples".clone_into(&mut hint);
    } else if error.kind() == ErrorKind::MissingRequiredArgument
        && error.get(ContextKind::InvalidArg).is_some()
    {
        message = message.replace(
            "the following required arguments were not provided:",
            "missing:",
        );
    }
    JobError::own(Code::InvalidSpec, message, hint)
}
