//! The flags of each command, as clap parses them and `--help` explains them; those of a job are in [`JobOptions`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use super::compare::CompareArgs;
use super::paths::{HTML, MODELS, PNG, file, named};
use super::remote::args::{CancelArgs, FetchArgs, ListArgs, StatusArgs, SubmitArgs, WaitArgs};
use crate::error::JobError;
use crate::options::{JobOptions, TEXTURE_SIZE, bytes, flag, seconds};
use crate::serve::site::Origin;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use proto::job::Detail;
use proto::limits::MAX_TEXTURE_SIZE;
use proto::message::Code;

/// Ends the short help of a command with many options.
const MORE: &str = "--help shows every option, examples and the exit codes.";

const BAKE_USAGE: &str = "\
kiln bake <MESH> --views <FILE> --output <FILE> [OPTIONS]
       kiln bake <SPLATS> --output <FILE> [OPTIONS]
       kiln bake --jobs <FILE> [OPTIONS]";

const SUBMIT_USAGE: &str = "\
kiln submit <MESH> --views <FILE> [--wait --output <FILE>] [OPTIONS]
       kiln submit <SPLATS> [--wait --output <FILE>] [OPTIONS]";

/// What `--version` says: the build id, which kiln and kiln-baker must share, then the commit where it is known, and the target.
static VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{} ({})", proto::BUILD_ID, env!("KILN_BUILT")));

const EXAMPLES: &str = "\
Examples:
  kiln bake scan.glb --views transforms.json -o out.glb
      Unwrap scan.glb, fit a 1024×1024 texture to the views, write out.glb.
  kiln bake raw.ply --views views/transforms.json -o out.glb --simplify 0.95 --texture-size 2048
      Remove 95 % of the triangles first, and bake a larger texture.
  kiln bake chair.glb --views transforms.json -o out.glb --holdout 4 --report report.json --preview preview.png
      Keep four views out of the fit, measure with them, and write a report and a contact sheet.
  kiln bake scan.glb --views transforms.json --texture-size 4096 --vram-budget 2G --dry-run
      Say what that would take of the GPU and how long, and make nothing.
  kiln compare out.glb other.glb --views transforms_test.json --picture compare.png
      Say how well each explains the views, and draw both beside them.
  kiln serve --root /data
      Take jobs over a Unix socket, and keep them across restarts.
  kiln submit scan.glb --views transforms.json --wait -o out.glb
      Have the sidecar bake it, and fetch the result.
  kiln doctor
      Show what can bake on this machine.

Exit codes:
  0 done · 64 bad flags · 65 bad mesh or views, or a PSNR below the least
  66 mesh or views file, or job, missing
  69 no such device, or no sidecar · 70 a worker crashed twice · 71 a worker cannot be started
  73 cannot create the output there · 74 reading or writing failed
  75 the sidecar is full or leaves: try again · 76 the sidecar is of another version
  77 no sandbox here, or not let in · 78 kiln and kiln-baker do not match
  124 out of time · 130, 143 interrupted";

/// Bakes the colours of posed views of a mesh into a UV texture, and writes a GLB.
#[derive(Debug, Parser)]
#[command(
    name = "kiln",
    version = VERSION.as_str(),
    max_term_width = 100,
    after_help = MORE,
    after_long_help = EXAMPLES,
    subcommand_required = true
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Sub,
}

#[derive(Debug, Subcommand)]
pub(super) enum Sub {
    /// Turn a mesh and posed views of it into a textured GLB.
    #[command(override_usage = BAKE_USAGE, after_help = MORE, after_long_help = EXAMPLES)]
    Bake(Box<BakeArgs>),
    /// Hold one or two textured meshes against views: PSNR, SSIM, seams, what is unseen, and a picture side by side.
    Compare(Box<CompareArgs>),
    /// Run the job of a crash again, alone and without falling back, with all that its workers log.
    Replay(ReplayArgs),
    /// Take jobs over a socket, and keep them across restarts.
    Serve(Box<ServeArgs>),
    /// Take jobs of a fleet from a queue and a store, for the sidecar of this host.
    #[cfg(feature = "fleet")]
    Worker(Box<super::fleet::args::WorkerArgs>),
    /// Show a fleet: its queue, its hosts and what they do.
    #[cfg(feature = "fleet")]
    Fleet(super::fleet::args::OverviewArgs),
    /// Hand a job to a sidecar, and print its id or, with --wait, the result.
    #[command(override_usage = SUBMIT_USAGE, after_help = MORE, after_long_help = EXAMPLES)]
    Submit(Box<SubmitArgs>),
    /// Show a sidecar's job.
    Status(StatusArgs),
    /// Wait for a sidecar's job: progress, exit code and, with -o, files as with `kiln bake`. A signal ends the waiting alone.
    Wait(WaitArgs),
    /// End jobs of a sidecar.
    Cancel(CancelArgs),
    /// List a sidecar's jobs, newest first.
    List(ListArgs),
    /// Fetch the files that a sidecar's job made.
    Fetch(FetchArgs),
    /// Show adapters, drivers and limits, what is missing, and how to get it.
    Doctor(DoctorArgs),
    /// Print a script that completes kiln's commands and options in a shell.
    #[command(after_help = "In ~/.bashrc:  source <(kiln completions bash)")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write man pages into a folder.
    #[command(hide = true)]
    Man {
        /// The folder.
        #[arg(value_parser = named())]
        folder: PathBuf,
    },
}

#[derive(Clone, Debug, Args)]
pub(super) struct BakeArgs {
    /// The mesh, or Gaussian splats alone.
    ///
    /// GLB, glTF, PLY, OBJ or safetensors; or Gaussian splats alone, whose surface Kiln finds.
    #[arg(value_parser = named(), required_unless_present = "jobs")]
    pub(super) mesh: Option<PathBuf>,
    /// The views: transforms.json, COLMAP, splats.
    ///
    /// A transforms.json (instant-ngp, nerfstudio or Blender style), or the folder that holds one; or a model of
    /// COLMAP (cameras and images, .bin or .txt), by its folder, its project's folder or one of its files; or a
    /// safetensors file (observations, extrinsics, intrinsics), which may hold the mesh too; or cameras of Meshroom
    /// (.sfm), `MeshLab` (.mlp), Bundler (.out with list.txt), Metashape (.xml) or a trainer of splats (cameras.json); or
    /// Gaussian splats (PLY, SPZ, SOG, .splat, GLB, glTF), of which Kiln draws views itself.
    #[arg(value_parser = named(), long, value_name = "FILE")]
    pub(super) views: Option<PathBuf>,
    /// The result: .glb, .ply or .obj.
    ///
    /// A GLB, PLY (.ply, the texture beside it) or an OBJ (.obj, material and texture beside it). An existing file is
    /// replaced only by a complete new one.
    #[arg(value_parser = file(MODELS), short, long, value_name = "FILE", required_unless_present_any = ["jobs", "dry_run"])]
    pub(super) output: Option<PathBuf>,
    /// Make nothing, and print what it would take.
    ///
    /// Adapter and free memory, bytes of each group of buffers, rows, and the parts in which the texture is fitted
    /// where not all fit the memory, host memory, seconds (rough). The mesh is prepared and the views are read for
    /// it; a job that does not fit ends with the bake's own error. -o is not needed; --preview shows where the mesh
    /// stands in the views.
    #[arg(long, conflicts_with_all = ["jobs", "vertex_colours", "html"], help_heading = "Run")]
    pub(super) dry_run: bool,
    /// Pictures of what the fit did not believe.
    ///
    /// Puts a picture for each view into this folder, `rejected_0000.png` and so on by the views' numbers, of what
    /// the fit did not believe: black over red to pale yellow the further it was from being believed (occluders,
    /// highlights); blue where only part of a pixel lies on the mesh, teal where it is transparent, green where the
    /// mesh before simplification lies elsewhere. The report's `bake.views[].rejected` has the shares.
    #[arg(
        value_parser = named(),
        hide_short_help = true,
        long,
        value_name = "FOLDER",
        conflicts_with_all = ["jobs", "vertex_colours"],
        help_heading = "Result"
    )]
    pub(super) rejected: Option<PathBuf>,
    /// Many jobs: a JSON list; - is standard input.
    ///
    /// Of objects with the long flags as keys, `mesh` among them.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "mesh", "views", "output", "preview", "html", "maps", "report", "texture_format", "texture_quality", "compress",
        "vertex_colours", "provenance_attribute", "detail", "original", "min_psnr",
    ])]
    pub(super) jobs: Option<PathBuf>,
    /// How many of them run at once.
    ///
    /// Each worker then has its share of the cores, four threads at least; `RAYON_NUM_THREADS` says otherwise, up to
    /// 16 or the number of cores.
    #[arg(hide_short_help = true, long, value_name = "N", requires = "jobs", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) parallel: u16,
    /// Processes that wait with the GPU open.
    ///
    /// On each GPU, so that the next bake, or one that is repeated, need not open it.
    #[arg(hide_short_help = true, long, value_name = "N", requires = "jobs", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=8))]
    pub(super) spares: u16,

    /// How many bake at once on each adapter.
    ///
    /// The others are prepared or encoded meanwhile. By default all that run.
    #[arg(hide_short_help = true, long, value_name = "N", requires = "jobs", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) bakes: Option<u16>,

    #[command(flatten)]
    pub(super) job: JobArgs,

    /// Kill a worker that uses more memory.
    ///
    /// Such as 3G or 512M, where G is 2^30 bytes. The bake is then repeated with a smaller plan.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Run")]
    pub(super) memory_limit: Option<u64>,
    #[command(flatten)]
    pub(super) host: HostArgs,
    #[cfg(feature = "fleet")]
    #[command(flatten)]
    pub(super) fleet: super::fleet::args::FleetArgs,
    /// The worker program of one job of a list, by the job's name.
    #[arg(long, value_name = "JOB=PATH", requires = "jobs", value_parser = of_job, hide = true)]
    pub(super) baker_of: Vec<(String, PathBuf)>,
    /// Events, and report or error, as JSON lines.
    ///
    /// One object per line on standard output: progress, warnings, and the report or the error.
    #[arg(long, help_heading = "Run")]
    pub(super) json: bool,
    /// Say nothing but errors.
    ///
    /// Errors, and that a texture hardly explains its views.
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Run")]
    pub(super) quiet: bool,
    /// Show what the workers log.
    #[arg(hide_short_help = true, short, long, help_heading = "Run")]
    pub(super) verbose: bool,
    /// Silence that a worker is allowed, in seconds.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds, hide = true)]
    pub(super) stall_timeout: Option<Duration>,
}

/// What runs a job, and where this program's own files lie: the caller's word alone. Neither a list of jobs nor a crash folder
/// has a say in it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run")]
pub(super) struct HostArgs {
    /// Run the workers without their sandbox.
    ///
    /// Where this system has none and the input is trusted. Every result says so.
    #[arg(hide_short_help = true, long)]
    pub(super) insecure_no_sandbox: bool,
    /// Where crashes are kept for `kiln replay`.
    ///
    /// What is known of a worker's death; `none` for nowhere. By default `$XDG_STATE_HOME/kiln/crashes`, of which the
    /// newest 32 are kept.
    #[arg(value_parser = named(), hide_short_help = true, long, value_name = "FOLDER")]
    crash_folder: Option<PathBuf>,
    /// Where compiled GPU stages are kept.
    ///
    /// What a GPU's driver has compiled, for the next bake on the same adapter, driver and build; `none` for nowhere.
    /// By default `$XDG_CACHE_HOME/kiln/pipelines`; the newest 16 are kept, none larger than 32 MiB.
    #[arg(value_parser = named(), hide_short_help = true, long, value_name = "FOLDER")]
    pipeline_cache: Option<PathBuf>,
    /// The worker program.
    #[arg(value_parser = named(), long, value_name = "PATH", hide = true)]
    pub(super) baker: Option<PathBuf>,
}

impl HostArgs {
    /// Where folders about crashes go.
    pub(super) fn crash_root(&self) -> Option<PathBuf> {
        match &self.crash_folder {
            Some(folder) if folder.as_os_str() == "none" => None,
            Some(folder) => Some(folder.clone()),
            None => crate::job::crash::default_root(),
        }
    }

    /// Where compiled pipelines are kept.
    pub(super) fn pipelines(&self) -> Option<PathBuf> {
        crate::host::pipelines::folder(self.pipeline_cache.clone())
    }
}

/// What `kiln bake` and `kiln submit` are told of a job alike: its options, and what JSON says in another way.
#[derive(Clone, Debug, Args)]
pub(super) struct JobArgs {
    /// The pictures of a COLMAP model.
    ///
    /// If not in `images` beside it or up to three folders above it; or those of another program's cameras, if not beside
    /// their file. Masks lie in `masks` beside this folder.
    #[arg(value_parser = named(), long, value_name = "FOLDER")]
    pub(super) images: Option<PathBuf>,
    /// What the mesh was simplified from.
    ///
    /// A mesh file as `MESH` is, in the same place, size and axes: what `--detail` bakes is its shape, and a pixel where
    /// it lies elsewhere than the mesh does not count. Without it, the mesh before Kiln's own simplification.
    #[arg(value_parser = named(), hide_short_help = true, long, value_name = "FILE", help_heading = "Result")]
    pub(super) original: Option<PathBuf>,
    /// Edge of the texture in texels.
    ///
    /// Or of each of its pages: 256 to 8192, a multiple of 4; or `auto` for what the views resolve: the edge at which
    /// half of the seen surface has no more texels than pixels in the view that shows it largest. The report's
    /// `prepare.texture` says what was chosen and why.
    #[arg(long, value_name = "N|auto", default_value = "1024", allow_negative_numbers = true, value_parser = texture_edge, help_heading = "Result")]
    texture_size: TextureEdge,
    /// The most that `--texture-size auto` chooses.
    ///
    /// 4096 unless given.
    #[arg(hide_short_help = true, long, value_name = "N", allow_negative_numbers = true, value_parser = flag(TEXTURE_SIZE), help_heading = "Result")]
    max_texture_size: Option<u32>,
    /// Contact sheet to judge the result by: .png.
    ///
    /// Input beside result, coverage, residuals. With `--dry-run`, the outline of the mesh over some views: whether
    /// frame, units, lens, masks and order of the pictures were understood.
    #[arg(value_parser = file(PNG), long, value_name = "FILE", help_heading = "Result")]
    pub(super) preview: Option<PathBuf>,
    /// The report as one page: .html.
    ///
    /// Any browser shows it, without a network: up to 32 views, held-out ones first, each under a line that is dragged
    /// between input and result, with its error; the texture, warnings, figures and times. Its pictures take 7 MiB at most.
    #[arg(value_parser = file(HTML), long, value_name = "FILE", help_heading = "Result")]
    pub(super) html: Option<PathBuf>,
    /// Pictures of coverage, residual, provenance.
    ///
    /// Puts three pictures in the texture's layout into this folder: coverage.png says how many pixels see each
    /// texel, and which none sees; residual.png, how far the views are from the result there; provenance.png, what is
    /// observed (green), weak (yellow: less than one pixel in all views together) and inferred (pink).
    #[arg(
        value_parser = named(),
        long,
        value_name = "FOLDER",
        conflicts_with = "vertex_colours",
        help_heading = "Result"
    )]
    pub(super) maps: Option<PathBuf>,
    /// What happened, as JSON.
    ///
    /// Device, times, memory, PSNR, warnings, and the error if there is one.
    #[arg(value_parser = named(), long, value_name = "FILE", help_heading = "Result")]
    pub(super) report: Option<PathBuf>,
    #[command(flatten)]
    options: JobOptions,
}

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// A folder that a failed job named: it holds a crash.json. Its options and the paths of its inputs are taken, and nothing else.
    #[arg(value_parser = named())]
    pub(super) folder: PathBuf,
    /// The folder for what it makes.
    ///
    /// Should it succeed this time: `replayed.glb`, and beside it what else the job had
    /// made. By default the folder itself.
    #[arg(value_parser = named(), short, long, value_name = "FOLDER")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) host: HostArgs,
    /// Events, and report or error, as JSON lines.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Where to listen.
    ///
    /// By default `$XDG_RUNTIME_DIR/kiln/kiln.sock`; sockets of systemd are used where it hands some over.
    #[arg(value_parser = named(), long, value_name = "PATH", help_heading = "Access")]
    pub(super) socket: Option<PathBuf>,
    /// Listen by TCP, too.
    ///
    /// 127.0.0.1:8017, for a browser on this machine. Another address needs --public-url: 0.0.0.0:8017 in a container,
    /// whose network a proxy with TLS faces.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        requires = "token_file",
        help_heading = "Access"
    )]
    pub(super) tcp: Option<SocketAddr>,
    /// The token that callers by TCP must show.
    ///
    /// A file that is readable by its owner alone.
    #[arg(value_parser = named(), long, value_name = "FILE", help_heading = "Access")]
    pub(super) token_file: Option<PathBuf>,
    /// The name by which a proxy shows this sidecar.
    ///
    /// Scheme and host, such as `https://kiln.example.org`: requests to that name, and from its page, are taken as well as
    /// those of this machine.
    #[arg(long, value_name = "URL", help_heading = "Access")]
    pub(super) public_url: Option<Origin>,
    /// Let pages of another site ask by TCP.
    ///
    /// Such as `https://app.example.org`; they show the token, too. Repeatable.
    #[arg(
        long,
        value_name = "ORIGIN",
        requires = "token_file",
        help_heading = "Access"
    )]
    pub(super) cors_origin: Vec<Origin>,
    /// Let this user in by the Unix socket.
    ///
    /// Beside the one who runs this and root. Repeatable.
    #[arg(long, value_name = "UID", help_heading = "Access")]
    pub(super) allow_uid: Vec<u32>,
    /// Where jobs and results are kept.
    ///
    /// By default `$XDG_STATE_HOME/kiln/store`.
    #[arg(value_parser = named(), long, value_name = "FOLDER", help_heading = "Store")]
    pub(super) store: Option<PathBuf>,
    /// Jobs may name inputs beneath this folder.
    ///
    /// By their path. Repeatable; without any, inputs must be sent.
    #[arg(value_parser = named(), long = "root", value_name = "FOLDER", help_heading = "Access")]
    pub(super) roots: Vec<PathBuf>,
    /// How many jobs are at work at once.
    ///
    /// By default two for each adapter.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Work")]
    pub(super) parallel: Option<u16>,
    /// How many bake at once on each adapter.
    ///
    /// The others are prepared or encoded meanwhile.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Work")]
    pub(super) bakes: u16,
    /// Have the jobs done by a fleet.
    ///
    /// Its queue and store are those of `$KILN_QUEUE` and `$KILN_STORE`, with `$KILN_CREDENTIALS` and `$KILN_TENANT`. This host bakes
    /// nothing.
    #[cfg(feature = "fleet")]
    #[arg(hide_short_help = true, long, help_heading = "Work")]
    pub(super) fleet: bool,
    /// Processes that wait with the GPU open.
    ///
    /// On each GPU.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=8), help_heading = "Work")]
    pub(super) spares: u16,
    /// The workers' niceness.
    ///
    /// How far they leave the processor to this sidecar and to the program that it serves.
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=19), help_heading = "Work")]
    pub(super) nice: u8,
    /// Kill a worker that uses more memory than this.
    ///
    /// Such as 3G or 512M, where G is 2^30 bytes.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Work")]
    pub(super) memory_limit: Option<u64>,
    /// Plan each bake with at most this much memory of its GPU.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Work")]
    pub(super) vram_budget: Option<u64>,
    /// Refuse jobs while so many wait.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000), help_heading = "Store")]
    pub(super) queue_jobs: u64,
    /// Refuse jobs of who has so many waiting.
    ///
    /// A user of the Unix socket, or all who come by TCP.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000), help_heading = "Store")]
    pub(super) client_jobs: Option<u64>,
    /// Refuse jobs while so many bytes wait.
    ///
    /// Those of the inputs of the jobs that wait.
    #[arg(long, value_name = "BYTES", default_value = "64G", value_parser = bytes, help_heading = "Store")]
    pub(super) queue_bytes: u64,
    /// Keep finished jobs for so many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "86400", value_parser = seconds, help_heading = "Store")]
    pub(super) keep: Duration,
    /// Keep so many bytes of results and uploads.
    ///
    /// Or a fifth of the disk; the oldest go first.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Store")]
    pub(super) keep_bytes: Option<u64>,
    /// Where compiled GPU stages are kept.
    ///
    /// What a GPU's driver has compiled, for the next bake on the same adapter, driver and build; `none` for nowhere.
    /// By default `$XDG_CACHE_HOME/kiln/pipelines`; the newest 16 are kept, none larger than 32 MiB.
    #[arg(value_parser = named(), hide_short_help = true, long, value_name = "FOLDER", help_heading = "Work")]
    pub(super) pipeline_cache: Option<PathBuf>,
    /// Run the workers without their sandbox.
    ///
    /// Where this system has none and the input is trusted. Every result says so.
    #[arg(hide_short_help = true, long, help_heading = "Work")]
    pub(super) insecure_no_sandbox: bool,
    /// The worker program.
    #[arg(value_parser = named(), long, value_name = "PATH", hide = true)]
    pub(super) baker: Option<PathBuf>,
    /// Silence that a worker is allowed, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, hide = true)]
    pub(super) stall_timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// One JSON object on standard output.
    #[arg(long)]
    pub(super) json: bool,
    /// The worker program.
    #[arg(value_parser = named(), long, value_name = "PATH", hide = true)]
    pub(super) baker: Option<PathBuf>,
}

/// Edge of a texture.
#[derive(Clone, Copy, Debug)]
enum TextureEdge {
    /// What the views resolve.
    Auto,
    /// In texels.
    Texels(u32),
}

/// The most that is chosen where nobody says how much.
const MOST_CHOSEN: u32 = 4096;

impl JobArgs {
    /// The options, possible together or not.
    pub(super) fn told(&self) -> JobOptions {
        let most = || MOST_CHOSEN.min(self.options.pages().largest());
        let (texture_size, texture_auto) = match self.texture_size {
            TextureEdge::Auto => (self.max_texture_size.unwrap_or_else(most), true),
            TextureEdge::Texels(edge) => (edge, false),
        };
        JobOptions {
            texture_size,
            texture_auto,
            preview: self.preview.is_some(),
            html: self.html.is_some(),
            maps: self.maps.is_some(),
            ..self.options.clone()
        }
    }

    /// The options, refused in the words of the flags where they do not go together.
    pub(super) fn options(&self) -> Result<JobOptions, Box<JobError>> {
        let bad = |message: &str, hint: &str| Err(JobError::own(Code::InvalidSpec, message, hint));
        let options = self.told();
        let (edge, count, most) = (
            options.texture_size,
            options.pages,
            options.pages().largest(),
        );
        if options.texture_quality.is_some() && !options.texture_format.has_quality() {
            return bad(
                "--texture-quality is for JPEG, lossy WebP and ETC1S: the other formats lose nothing, or always as little",
                "add --texture-format jpeg, webp-lossy or ktx2-etc1s",
            );
        }
        if self.original.is_some() && options.detail == Detail::Off {
            return bad(
                "--original does nothing without --detail",
                "add --detail normal, occlusion or normal,occlusion",
            );
        }
        if options.vertex_colours && count != 1 {
            return bad(
                "--pages is for a texture, and --vertex-colours makes none",
                "leave one of them out",
            );
        }
        if !options.texture_auto && self.max_texture_size.is_some() {
            return bad(
                "--max-texture-size is for --texture-size auto",
                "leave one of them out",
            );
        }
        if edge > most {
            return bad(
                &format!(
                    "{count} pages of {edge} texels are too large: together they have {MAX_TEXTURE_SIZE} along an edge at most"
                ),
                &format!("--pages {count} goes with a --texture-size of {most} at most"),
            );
        }
        Ok(options)
    }
}

fn texture_edge(text: &str) -> Result<TextureEdge, String> {
    match text {
        "auto" => Ok(TextureEdge::Auto),
        _ => flag(TEXTURE_SIZE)(text).map(TextureEdge::Texels),
    }
}

/// `JOB=PATH`.
fn of_job(text: &str) -> Result<(String, PathBuf), String> {
    let (job, path) = text.split_once('=').ok_or("must be JOB=PATH")?;
    Ok((job.to_owned(), path.into()))
}
