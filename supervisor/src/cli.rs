//! Arguments → a checked command, or one line that says what is wrong with them (exit code 64, not clap's 2).

mod args;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::{ContextKind, ErrorKind};
use proto::job::{Blend, Quality, Simplify};
use proto::message::Code;

use self::args::{BakeArgs, BlendArg, Cli, DoctorArgs, QualityArg, Sub};
use crate::error::JobError;
use crate::input;
use crate::job::Spec;
use crate::output::Target;
use crate::screen::Voice;

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
    #[must_use]
    pub fn tone(&self) -> (bool, Voice) {
        match self {
            Self::Shown => (false, Voice::Normal),
            Self::Bake { json, voice, .. } => (*json, *voice),
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
}

/// Parses and checks arguments, the program's name among them.
///
/// # Errors
/// One line for people, with the exit code.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Refusal> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let wants_json = arguments.iter().any(|argument| argument == "--json");
    let refuse = |error| Refusal {
        error,
        json: wants_json,
    };
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            let shown = error.print();
            return shown.map(|()| Command::Shown).map_err(|error| {
                refuse(JobError::own(
                    Code::OutputError,
                    format!("cannot print: {error}"),
                    "",
                ))
            });
        }
        Err(error) => return Err(refuse(usage(&error))),
    };
    match cli.command {
        Sub::Bake(args) => bake(*args).map_err(refuse),
        Sub::Doctor(DoctorArgs { json, baker }) => Ok(Command::Doctor {
            baker: baker_path(baker).map_err(refuse)?,
            json,
        }),
    }
}

fn bake(args: BakeArgs) -> Result<Command, Box<JobError>> {
    let mesh = input::find("the mesh", &args.mesh)?;
    let views = if args.views.is_dir() {
        args.views.join("transforms.json")
    } else {
        args.views
    };
    let views = input::find("the views", &views)?;
    distinct(
        &[&args.mesh, &views.path],
        &[
            Some(&args.output),
            args.preview.as_ref(),
            args.report.as_ref(),
        ],
    )?;
    let glb = Target::check(&args.output)?;
    let preview = args.preview.as_deref().map(Target::check).transpose()?;
    let report = args.report.as_deref().map(Target::check).transpose()?;
    let voice = match (args.quiet, args.verbose) {
        (true, _) => Voice::Quiet,
        (false, true) => Voice::Verbose,
        (false, false) => Voice::Normal,
    };
    let spec = Spec {
        mesh,
        views,
        glb,
        preview,
        report,
        texture_size: args.texture_size,
        simplify: match (args.target_faces, args.simplify) {
            (Some(count), _) => Simplify::TargetFaces(count),
            (None, Some(share)) if share > 0.0 => Simplify::RemoveShare(share),
            (None, _) => Simplify::Keep,
        },
        keep_uvs: args.keep_uvs,
        quality: match args.quality {
            QualityArg::Draft => Quality::Draft,
            QualityArg::Standard => Quality::Standard,
            QualityArg::Best => Quality::Best,
        },
        blend: match args.blend {
            BlendArg::Linear => Blend::Linear,
            BlendArg::Srgb => Blend::Srgb,
        },
        device: args.device,
        seed: args.seed,
        holdout: args.holdout,
        timeout: args.timeout,
        stall: args.stall_timeout,
        baker: baker_path(args.baker)?,
        log_filter: if args.verbose {
            "warn,baker=debug"
        } else {
            "warn,baker=info"
        }
        .to_owned(),
    };
    Ok(Command::Bake {
        spec: Box::new(spec),
        json: args.json,
        voice,
    })
}

/// The outputs are different files, and none of them is an input.
fn distinct(inputs: &[&PathBuf], outputs: &[Option<&PathBuf>]) -> Result<(), Box<JobError>> {
    let place = |path: &Path| path.canonicalize().unwrap_or_else(|_absent| absolute(path));
    let mut taken: Vec<PathBuf> = inputs.iter().map(|path| place(path)).collect();
    for path in outputs.iter().flatten() {
        let place = place(path);
        if taken.contains(&place) {
            let message = format!("{} is named twice", path.display());
            return Err(JobError::own(
                Code::InvalidSpec,
                message,
                "give each input and output a file of its own",
            ));
        }
        taken.push(place);
    }
    Ok(())
}

/// A path that need not exist, by its folder's real place.
fn absolute(path: &Path) -> PathBuf {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let folder = folder
        .canonicalize()
        .unwrap_or_else(|_absent| folder.to_path_buf());
    path.file_name()
        .map_or_else(|| folder.clone(), |name| folder.join(name))
}

/// The worker: what was named, or `kiln-baker` beside this program. Absolute, since children start in `/`.
fn baker_path(named: Option<PathBuf>) -> Result<PathBuf, Box<JobError>> {
    let path = match named {
        Some(path) => std::path::absolute(path),
        None => std::env::current_exe().map(|program| program.with_file_name("kiln-baker")),
    };
    path.map_err(|error| {
        JobError::own(
            Code::SpawnFailed,
            format!("cannot find kiln-baker: {error}"),
            "",
        )
    })
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
    let mut hint = "kiln bake --help explains every option".to_owned();
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
        "a command is missing: bake or doctor".clone_into(&mut message);
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
