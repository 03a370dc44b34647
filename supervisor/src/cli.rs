//! Arguments → a checked command, or one line that says what is wrong with them (exit code 64, not clap's 2).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum};
use proto::job::{Blend, Device, Quality, Simplify};
use proto::limits::{MAX_TEXTURE_SIZE, MAX_TRIANGLES, MAX_VIEWS, MIN_TEXTURE_SIZE};
use proto::message::Code;

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

const EXAMPLES: &str = "\
Examples:
  kiln bake scan.glb --views transforms.json -o out.glb
      Unwrap scan.glb, fit a 1024×1024 texture to the views, write out.glb.
  kiln bake raw.ply --views views/transforms.json -o out.glb --simplify 0.95 --texture-size 2048
      Remove 95 % of the triangles first, and bake a larger texture.
  kiln bake chair.glb --views transforms.json -o out.glb --holdout 4 --report report.json --preview preview.png
      Keep four views out of the fit, measure with them, and write a report and a contact sheet.
  kiln doctor
      Show what can bake on this machine.

Exit codes:
  0 done · 64 bad flags · 65 bad mesh or views · 66 file missing · 69 no such device · 70 a worker crashed twice
  71 a worker cannot be started · 73 cannot write the output · 78 kiln and kiln-baker do not match
  124 out of time · 130, 143 interrupted";

/// Bakes the colours of posed views of a mesh into a UV texture, and writes a GLB.
#[derive(Debug, Parser)]
#[command(name = "kiln", version, max_term_width = 100, after_help = EXAMPLES, subcommand_required = true)]
struct Cli {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Debug, Subcommand)]
enum Sub {
    /// Turn a mesh and posed views of it into a textured GLB.
    #[command(after_help = EXAMPLES)]
    Bake(Box<BakeArgs>),
    /// Show adapters, drivers and limits, what is missing, and how to get it.
    Doctor(DoctorArgs),
}

#[derive(Debug, Args)]
struct BakeArgs {
    /// The mesh: GLB, glTF, PLY or OBJ.
    mesh: PathBuf,
    /// The views: a transforms.json (instant-ngp, nerfstudio or Blender style), or the folder that holds one.
    #[arg(long, value_name = "FILE")]
    views: PathBuf,
    /// Where to put the GLB. An existing file is replaced only by a complete new one.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Edge of the texture in texels: 256 to 8192, a multiple of 4.
    #[arg(long, value_name = "N", default_value_t = 1024, allow_negative_numbers = true, value_parser = texture_size, help_heading = "Result")]
    texture_size: u32,
    /// Simplify the mesh to at most this many triangles.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = target_faces, conflicts_with = "simplify", help_heading = "Result")]
    target_faces: Option<u32>,
    /// Share of the triangles to remove, 0 to 1: 0.95 keeps one in twenty.
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = remove_share, help_heading = "Result")]
    simplify: Option<f32>,
    /// Keep the texture coordinates that the mesh brings instead of unwrapping it anew.
    #[arg(long, help_heading = "Result")]
    keep_uvs: bool,
    /// Contact sheet to judge the result by: input beside result, coverage, residuals.
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    preview: Option<PathBuf>,
    /// What happened, as JSON: device, times, memory, PSNR, warnings, and the error if there is one.
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    report: Option<PathBuf>,

    /// Work put into the fit.
    #[arg(long, value_enum, default_value = "standard", help_heading = "Fit")]
    quality: QualityArg,
    /// How the views blend colours within a pixel: `linear` for renders and photographs, `srgb` for Gaussian splats.
    #[arg(long, value_enum, default_value = "linear", help_heading = "Fit")]
    blend: BlendArg,
    /// What bakes: `auto` takes a GPU if there is one, `gpu` insists on one, `cpu` needs no driver; or a part of an
    /// adapter's name as `kiln doctor` shows it.
    #[arg(long, value_name = "auto|gpu|cpu|NAME", default_value = "auto", value_parser = device, help_heading = "Fit")]
    device: Device,
    /// Keep N views out of the fit and report how well the texture explains them.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = holdout, help_heading = "Fit")]
    holdout: u32,
    /// Chooses the held-out views.
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        default_value_t = 0,
        help_heading = "Fit"
    )]
    seed: u64,

    /// Give up after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "3600", allow_negative_numbers = true, value_parser = seconds, help_heading = "Run")]
    timeout: Duration,
    /// One JSON object per line on standard output: progress, warnings, and the report or the error.
    #[arg(long, help_heading = "Run")]
    json: bool,
    /// Say nothing but errors.
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Run")]
    quiet: bool,
    /// Show what the workers log.
    #[arg(short, long, help_heading = "Run")]
    verbose: bool,
    /// The worker program.
    #[arg(long, value_name = "PATH", hide = true)]
    baker: Option<PathBuf>,
    /// Silence that a worker is allowed, in seconds.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds, hide = true)]
    stall_timeout: Option<Duration>,
}

#[derive(Debug, Args)]
struct DoctorArgs {
    /// One JSON object on standard output.
    #[arg(long)]
    json: bool,
    /// The worker program.
    #[arg(long, value_name = "PATH", hide = true)]
    baker: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum QualityArg {
    /// Seconds on two cores.
    Draft,
    /// The default.
    Standard,
    /// More samples and iterations.
    Best,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum BlendArg {
    /// In linear light.
    Linear,
    /// In encoded colours.
    Srgb,
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

fn texture_size(text: &str) -> Result<u32, String> {
    let size: u32 = text.parse().map_err(|_| "not a whole number".to_owned())?;
    if !(MIN_TEXTURE_SIZE..=MAX_TEXTURE_SIZE).contains(&size) || !size.is_multiple_of(4) {
        return Err(format!(
            "must be {MIN_TEXTURE_SIZE} to {MAX_TEXTURE_SIZE} and a multiple of 4"
        ));
    }
    Ok(size)
}

fn target_faces(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if (1..=MAX_TRIANGLES).contains(&(count as usize)) => Ok(count),
        _ => Err(format!("must be a whole number from 1 to {MAX_TRIANGLES}")),
    }
}

fn remove_share(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(share) if (0.0..1.0).contains(&share) => Ok(share),
        _ => Err("must be the share of triangles to remove: at least 0, less than 1".to_owned()),
    }
}

fn holdout(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if (count as usize) < MAX_VIEWS => Ok(count),
        _ => Err(format!("must be a whole number below {MAX_VIEWS}")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    // A year is as good as for ever, and far from where clocks overflow.
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 31_536_000.0 => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("must be a number of seconds above 0".to_owned()),
    }
}

fn device(text: &str) -> Result<Device, String> {
    Ok(match text {
        "" => return Err("must not be empty".to_owned()),
        "auto" => Device::Auto,
        "gpu" => Device::Gpu,
        "cpu" => Device::Cpu,
        // Names of adapters are short; proto bounds a packet, not this text.
        name if name.len() > 256 => return Err("is too long for an adapter's name".to_owned()),
        name => Device::Name(name.to_owned()),
    })
}
