//! The flags, as clap parses them and `--help` explains them, and the range of each value.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::compare::CompareArgs;
use super::form;
use super::remote::args::{CancelArgs, FetchArgs, ListArgs, StatusArgs, SubmitArgs, WaitArgs};
use super::repair::RepairArgs;
use crate::error::JobError;
use crate::ladder::Policy;
use clap::{Args, Parser, Subcommand, ValueEnum};
use proto::job::{AlphaMode, Blend, Compress, Device, Quality, Refine, TextureFormat};
use proto::limits::{MAX_TEXTURE_SIZE, MAX_TRIANGLES, MAX_VIEWS, MIN_TEXTURE_SIZE};
use proto::message::Code;
use proto::pages::Pages;

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
  0 done · 64 bad flags · 65 bad mesh or views · 66 mesh or views file, or job, missing
  69 no such device, or no sidecar · 70 a worker crashed twice · 71 a worker cannot be started
  73 cannot create the output there · 74 reading or writing failed
  75 the sidecar is full or leaves: try again · 76 the sidecar is of another version
  77 no sandbox here, or not let in · 78 kiln and kiln-baker do not match
  124 out of time · 130, 143 interrupted";

/// Bakes the colours of posed views of a mesh into a UV texture, and writes a GLB.
#[derive(Debug, Parser)]
#[command(name = "kiln", version, max_term_width = 100, after_help = EXAMPLES, subcommand_required = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Sub,
}

#[derive(Debug, Subcommand)]
pub(super) enum Sub {
    /// Turn a mesh and posed views of it into a textured GLB.
    #[command(after_help = EXAMPLES)]
    Bake(Box<BakeArgs>),
    /// Hold one or two textured meshes against views: PSNR, SSIM, seams, what is unseen, and a picture side by side.
    Compare(Box<CompareArgs>),
    /// Run the job of a crash again, alone and without falling back, with all that its workers log.
    Replay(ReplayArgs),
    /// Take jobs over a socket, and keep them across restarts.
    Serve(Box<ServeArgs>),
    /// Hand a job to a sidecar, and print its id or, with --wait, the result.
    #[command(after_help = EXAMPLES)]
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
}

#[derive(Clone, Debug, Args)]
pub(super) struct BakeArgs {
    /// The mesh: GLB, glTF, PLY, OBJ or safetensors.
    #[arg(required_unless_present = "jobs")]
    pub(super) mesh: Option<PathBuf>,
    /// The views: a transforms.json (instant-ngp, nerfstudio or Blender style), or the folder that holds one; or a model of
    /// COLMAP (cameras and images, .bin or .txt), by its folder, its project's folder or one of its files; or a
    /// safetensors file (observations, extrinsics, intrinsics), which may hold the mesh too.
    #[arg(long, value_name = "FILE", required_unless_present = "jobs")]
    pub(super) views: Option<PathBuf>,
    /// Where to put the result: a GLB; or, by its ending, a PLY (.ply, the texture beside it) or an OBJ (.obj, material and
    /// texture beside it). An existing file is replaced only by a complete new one.
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["jobs", "dry_run"])]
    pub(super) output: Option<PathBuf>,
    /// Make nothing, and print what the bake would take: adapter and free memory, bytes of each group of buffers, rows, and the
    /// parts in which the texture is fitted where not all fit the memory, host memory, seconds (rough). The mesh is
    /// prepared and the views are read for it; a job that does not fit ends with the bake's own error. -o is not needed.
    #[arg(long, conflicts_with_all = ["jobs", "vertex_colours"], help_heading = "Run")]
    pub(super) dry_run: bool,
    /// Put a picture for each view into this folder, `rejected_0000.png` and so on by the views' numbers, of what the fit did
    /// not believe: black over red to pale yellow the further it was from being believed (occluders, highlights); blue
    /// where only part of a pixel lies on the mesh, teal where it is transparent, green where the mesh before simplification
    /// lies elsewhere. The report's `bake.views[].rejected` has the shares.
    #[arg(
        long,
        value_name = "FOLDER",
        conflicts_with_all = ["jobs", "vertex_colours"],
        help_heading = "Result"
    )]
    pub(super) rejected: Option<PathBuf>,
    /// Many jobs in one go: a JSON list of objects with the flags above and below as keys, `mesh` among them; see the README.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "mesh", "views", "output", "preview", "maps", "report", "texture_format", "texture_quality", "compress",
        "vertex_colours", "provenance_attribute",
    ])]
    pub(super) jobs: Option<PathBuf>,
    /// How many of them run at once. Each worker then has its share of the cores, four threads at least; `RAYON_NUM_THREADS`
    /// says otherwise, up to 16 or the number of cores.
    #[arg(long, value_name = "N", requires = "jobs", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) parallel: u16,
    /// How many processes wait on each GPU with it opened, so that the next bake, or one that is repeated, need not open it.
    #[arg(long, value_name = "N", requires = "jobs", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=8))]
    pub(super) spares: u16,

    /// How many of them bake at once on each adapter; the others are prepared or encoded meanwhile. By default all that run.
    #[arg(long, value_name = "N", requires = "jobs", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) bakes: Option<u16>,

    #[command(flatten)]
    pub(super) job: JobArgs,

    /// Kill a worker that uses more memory than this, such as 3G or 512M, and bake again with a smaller plan.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Run")]
    pub(super) memory_limit: Option<u64>,
    #[command(flatten)]
    pub(super) host: HostArgs,
    /// The worker program of one job of a list, by the job's name.
    #[arg(long, value_name = "JOB=PATH", requires = "jobs", value_parser = of_job, hide = true)]
    pub(super) baker_of: Vec<(String, PathBuf)>,
    /// One JSON object per line on standard output: progress, warnings, and the report or the error.
    #[arg(long, help_heading = "Run")]
    pub(super) json: bool,
    /// Say nothing but errors.
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Run")]
    pub(super) quiet: bool,
    /// Show what the workers log.
    #[arg(short, long, help_heading = "Run")]
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
    /// Run the workers without their sandbox, where this system has none and the input is trusted. Every result says so.
    #[arg(long)]
    pub(super) insecure_no_sandbox: bool,
    /// Where to keep what is known of a worker's death, for `kiln replay`; `none` for nowhere. By default
    /// `$XDG_STATE_HOME/kiln/crashes`, of which the newest 32 are kept.
    #[arg(long, value_name = "FOLDER")]
    crash_folder: Option<PathBuf>,
    /// Where to keep what a GPU's driver has compiled, for the next bake on the same adapter, driver and build; `none` for
    /// nowhere. By default `$XDG_CACHE_HOME/kiln/pipelines`; the newest 16 are kept, none larger than 32 MiB.
    #[arg(long, value_name = "FOLDER")]
    pipeline_cache: Option<PathBuf>,
    /// The worker program.
    #[arg(long, value_name = "PATH", hide = true)]
    pub(super) baker: Option<PathBuf>,
}

impl HostArgs {
    /// Where folders about crashes go.
    pub(super) fn crash_root(&self) -> Option<PathBuf> {
        match &self.crash_folder {
            Some(folder) if folder.as_os_str() == "none" => None,
            Some(folder) => Some(folder.clone()),
            None => crate::crash::default_root(),
        }
    }

    /// Where compiled pipelines are kept.
    pub(super) fn pipelines(&self) -> Option<PathBuf> {
        crate::pipelines::folder(self.pipeline_cache.clone())
    }
}

/// What `kiln bake` and `kiln submit` are told of a job alike.
#[derive(Clone, Debug, Args)]
pub(super) struct JobArgs {
    /// The pictures of a model of COLMAP, if not in `images` beside it or up to two folders above it.
    #[arg(long, value_name = "FOLDER")]
    pub(super) images: Option<PathBuf>,
    /// Edge of the texture in texels, or of each of its pages: 256 to 8192, a multiple of 4; or `auto` for what the views resolve: the edge at which
    /// half of the seen surface has no more texels than pixels in the view that shows it largest. The report's
    /// `prepare.texture` says what was chosen and why.
    #[arg(long, value_name = "N|auto", default_value = "1024", allow_negative_numbers = true, value_parser = texture_edge, help_heading = "Result")]
    pub(super) texture_size: TextureEdge,
    /// The most that `--texture-size auto` chooses; 4096 unless given.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = texture_size, help_heading = "Result")]
    pub(super) max_texture_size: Option<u32>,
    /// Textures in place of one, each of `--texture-size`²: 1, 4, 9 or 16, side by side 8192 texels at most (4 pages of 4096², 9 of
    /// 2728², 16 of 2048²). A GLB has a material for each; an OBJ has UDIM tiles, 1001, 1002, 1011 and on, named so.
    /// With `--keep-uvs` the mesh's coordinates lie in these tiles.
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = pages, help_heading = "Result")]
    pub(super) pages: Pages,
    /// Simplify the mesh to at most this many triangles.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = target_faces, conflicts_with = "simplify", help_heading = "Result")]
    pub(super) target_faces: Option<u32>,
    /// Share of the triangles to remove, 0 to 1: 0.95 keeps one in twenty.
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = remove_share, help_heading = "Result")]
    pub(super) simplify: Option<f32>,
    /// The texture's picture: `png` and `webp` are lossless, `jpeg` is small, `webp-lossy` is smaller where the texture is
    /// smooth. `ktx2-etc1s` and `ktx2-uastc` (Basis Universal,
    /// a GLB only) stay compressed on the device, with mips in the file: ETC1S is smallest, UASTC close to lossless; what is no
    /// colour is UASTC in both. Not every viewer reads WebP (`EXT_texture_webp`) or KTX2 (`KHR_texture_basisu`).
    #[arg(long, value_enum, default_value = "png", help_heading = "Result")]
    pub(super) texture_format: TextureFormatArg,
    /// Quality of a JPEG, a lossy WebP or of ETC1S, 1 to 100; by default 90, 90 and 75.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100), help_heading = "Result")]
    pub(super) texture_quality: Option<u8>,
    /// How a GLB stores its mesh: `meshopt` quantises and compresses it (`KHR_mesh_quantization`, `EXT_meshopt_compression`).
    #[arg(long, value_enum, default_value = "none", help_heading = "Result")]
    pub(super) compress: CompressArg,
    /// Make no texture: give each vertex a colour (`COLOR_0` of a GLB). The processor does it, whatever --device says.
    #[arg(long, conflicts_with_all = ["maps", "provenance_attribute"], help_heading = "Result")]
    pub(super) vertex_colours: bool,
    /// Give the vertices of a GLB the attribute `_PROVENANCE` (scalar, normalised byte): the share, 0 to 1, of what lies
    /// around each that the views have shown; weakly observed texels count half, inferred ones not.
    #[arg(long, help_heading = "Result")]
    pub(super) provenance_attribute: bool,
    /// Keep the texture coordinates that the mesh brings instead of unwrapping it anew.
    #[arg(long, help_heading = "Result")]
    pub(super) keep_uvs: bool,
    /// How viewers take the opacity that views bring as a channel: `auto` goes by what it holds.
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        value_name = "MODE",
        help_heading = "Result"
    )]
    pub(super) alpha_mode: AlphaModeArg,
    /// What is less opaque than this is not there, with `--alpha-mode mask`.
    #[arg(long, value_name = "A", default_value_t = 0.5, allow_negative_numbers = true, value_parser = alpha_cutoff, help_heading = "Result")]
    pub(super) alpha_cutoff: f32,
    /// With --keep-uvs: take the set `TEXCOORD_N` of a glTF; by default the one that each material's base colour uses.
    #[arg(long, value_name = "N", requires = "keep_uvs", help_heading = "Result")]
    pub(super) uv_set: Option<u32>,
    #[command(flatten)]
    pub(super) repair: RepairArgs,
    /// Contact sheet to judge the result by: input beside result, coverage, residuals.
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    pub(super) preview: Option<PathBuf>,
    /// Put three pictures in the texture's layout into this folder: coverage.png says how many pixels see each texel, and
    /// which none sees; residual.png, how far the views are from the result there; provenance.png, what is observed
    /// (green), weak (yellow: less than one pixel in all views together) and inferred (pink).
    #[arg(long, value_name = "FOLDER", help_heading = "Result")]
    pub(super) maps: Option<PathBuf>,
    /// What happened, as JSON: device, times, memory, PSNR, warnings, and the error if there is one.
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    pub(super) report: Option<PathBuf>,

    /// Work put into the fit.
    #[arg(long, value_enum, default_value = "standard", help_heading = "Fit")]
    pub(super) quality: QualityArg,
    /// How the views blend colours within a pixel: `linear` for renders and photographs, `srgb` for Gaussian splats.
    #[arg(long, value_enum, default_value = "linear", help_heading = "Fit")]
    pub(super) blend: BlendArg,
    /// Move cameras to where the mesh's silhouette fits the views' alpha, and even out exposures: `auto` only where they are
    /// clearly off, `on` wherever it helps at all. The report says what was moved, and what was not and why.
    #[arg(long, value_enum, default_value = "auto", help_heading = "Fit")]
    pub(super) refine: RefineArg,
    /// What bakes: `auto` takes a GPU if there is one, `gpu` insists on one, `cpu` needs no driver; or a part of an
    /// adapter's name as `kiln doctor` shows it.
    #[arg(long, value_name = "auto|gpu|cpu|NAME", default_value = "auto", value_parser = device, help_heading = "Fit")]
    pub(super) device: Device,
    /// Keep N views out of the fit and report how well the texture explains them. Views that the transforms.json names in
    /// `test_filenames` or `val_filenames` are kept out anyway.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = holdout, help_heading = "Fit")]
    pub(super) holdout: u32,
    /// Chooses the held-out views.
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        default_value_t = 0,
        help_heading = "Fit"
    )]
    pub(super) seed: u64,

    /// Plan with at most this much memory of the GPU, such as 1G or 512M; what does not fit is fitted in parts of the texture, one
    /// after the other, which takes longer and gives a result nearly as good. By default what is fastest, as far as the device has it.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Run")]
    pub(super) vram_budget: Option<u64>,
    /// Measure every GPU stage by the device's own clock, into the report's `bake.gpu_times`. Slows the bake a little.
    #[arg(long, help_heading = "Run")]
    pub(super) gpu_times: bool,
    /// What a bake that failed may do differently when it is repeated. Each step allows those before it, and the report says
    /// which were taken.
    #[arg(long, value_enum, default_value = "adapters", help_heading = "Run")]
    pub(super) fallback: FallbackArg,
    /// Give up after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "3600", allow_negative_numbers = true, value_parser = seconds, help_heading = "Run")]
    pub(super) timeout: Duration,
}

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// A folder that a failed job named: it holds a crash.json. Its options and the paths of its inputs are taken, and nothing else.
    pub(super) folder: PathBuf,
    /// The folder for what it makes, should it succeed this time: `replayed.glb`, and beside it what else the job had made. By
    /// default the folder itself.
    #[arg(short, long, value_name = "FOLDER")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) host: HostArgs,
    /// One JSON object per line on standard output.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Where to listen. By default `$XDG_RUNTIME_DIR/kiln/kiln.sock`; sockets of systemd are used where it hands some over.
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// Listen by TCP, too, on this machine alone: 127.0.0.1:8017, for a browser.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "token_file")]
    pub(super) tcp: Option<SocketAddr>,
    /// The file with the token that callers by TCP must show; readable by its owner alone.
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// Let this user in by the Unix socket, beside the one who runs this and root. Repeatable.
    #[arg(long, value_name = "UID")]
    pub(super) allow_uid: Vec<u32>,
    /// Where jobs and results are kept. By default `$XDG_STATE_HOME/kiln/store`.
    #[arg(long, value_name = "FOLDER")]
    pub(super) store: Option<PathBuf>,
    /// A folder beneath which jobs may name their inputs by path. Repeatable; without any, inputs must be sent.
    #[arg(long = "root", value_name = "FOLDER")]
    pub(super) roots: Vec<PathBuf>,
    /// How many jobs are at work at once. By default two for each adapter.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) parallel: Option<u16>,
    /// How many of them bake at once on each adapter; the others are prepared or encoded meanwhile.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) bakes: u16,
    /// How many processes wait on each GPU with it opened.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=8))]
    pub(super) spares: u16,
    /// The workers' niceness: how far they leave the processor to this sidecar and to the program that it serves.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=19))]
    pub(super) nice: u8,
    /// Kill a worker that uses more memory than this.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(super) memory_limit: Option<u64>,
    /// Plan each bake with at most this much memory of its GPU.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(super) vram_budget: Option<u64>,
    /// Refuse jobs while so many wait.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) queue_jobs: u64,
    /// Refuse jobs of a client of whom so many wait already: a user of the Unix socket, or all who come by TCP.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) client_jobs: Option<u64>,
    /// Refuse jobs while the inputs of those that wait have so many bytes.
    #[arg(long, value_name = "BYTES", default_value = "64G", value_parser = bytes)]
    pub(super) queue_bytes: u64,
    /// Keep finished jobs for this many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "86400", value_parser = seconds)]
    pub(super) keep: Duration,
    /// Keep no more bytes of results and uploads than this, or a fifth of the disk; the oldest go first.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(super) keep_bytes: Option<u64>,
    /// Where to keep what a GPU's driver has compiled, for the next bake on the same adapter, driver and build; `none` for
    /// nowhere. By default `$XDG_CACHE_HOME/kiln/pipelines`; the newest 16 are kept, none larger than 32 MiB.
    #[arg(long, value_name = "FOLDER")]
    pub(super) pipeline_cache: Option<PathBuf>,
    /// Run the workers without their sandbox, where this system has none and the input is trusted. Every result says so.
    #[arg(long)]
    pub(super) insecure_no_sandbox: bool,
    /// The worker program.
    #[arg(long, value_name = "PATH", hide = true)]
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
    #[arg(long, value_name = "PATH", hide = true)]
    pub(super) baker: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum QualityArg {
    /// Seconds on two cores.
    Draft,
    /// The default.
    Standard,
    /// More samples and iterations.
    Best,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum BlendArg {
    /// In linear light.
    Linear,
    /// In encoded colours.
    Srgb,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum RefineArg {
    /// Cameras are taken as given.
    Off,
    /// Where they are clearly off.
    Auto,
    /// Wherever it helps at all.
    On,
}

/// See [`bytes`].
pub(crate) const LEAST_MEMORY: u64 = 16 << 20;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum TextureFormatArg {
    Png,
    Jpeg,
    Webp,
    WebpLossy,
    #[value(name = "ktx2-etc1s")]
    Ktx2Etc1s,
    #[value(name = "ktx2-uastc")]
    Ktx2Uastc,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum CompressArg {
    /// Plain floats.
    None,
    /// Quantised and compressed.
    Meshopt,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum AlphaModeArg {
    /// As the opacity is: `opaque`, `mask` or `blend`.
    Auto,
    /// It is left out.
    Opaque,
    /// There or not.
    Mask,
    /// As a share.
    Blend,
}

impl From<AlphaModeArg> for AlphaMode {
    fn from(arg: AlphaModeArg) -> Self {
        match arg {
            AlphaModeArg::Auto => Self::Auto,
            AlphaModeArg::Opaque => Self::Opaque,
            AlphaModeArg::Mask => Self::Mask,
            AlphaModeArg::Blend => Self::Blend,
        }
    }
}

impl From<TextureFormatArg> for TextureFormat {
    fn from(arg: TextureFormatArg) -> Self {
        match arg {
            TextureFormatArg::Png => Self::Png,
            TextureFormatArg::Jpeg => Self::Jpeg,
            TextureFormatArg::Webp => Self::Webp,
            TextureFormatArg::WebpLossy => Self::WebpLossy,
            TextureFormatArg::Ktx2Etc1s => Self::Ktx2Etc1s,
            TextureFormatArg::Ktx2Uastc => Self::Ktx2Uastc,
        }
    }
}

impl From<CompressArg> for Compress {
    fn from(arg: CompressArg) -> Self {
        match arg {
            CompressArg::None => Self::None,
            CompressArg::Meshopt => Self::Meshopt,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum FallbackArg {
    /// A fresh process at most.
    SamePlan,
    /// A quarter of the memory.
    SmallerPlan,
    /// Another adapter or the processor, where `--device auto` leaves the choice.
    Adapters,
    /// A colour for each vertex, before nothing.
    VertexColours,
}

pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.strip_suffix(['K', 'M', 'G', 'T']) {
        Some(number) => (
            number,
            10 * ("KMGT".find(&text[number.len()..]).unwrap_or(0) + 1),
        ),
        None => (text, 0),
    };
    let bytes = number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if bytes >= LEAST_MEMORY => Ok(bytes),
        Some(_) => Err("must be at least 16M: a worker that does nothing needs as much".to_owned()),
        None => Err("must be a whole number of bytes, or of K, M, G or T".to_owned()),
    }
}

/// Edge of a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextureEdge {
    /// What the views resolve.
    Auto,
    /// In texels.
    Texels(u32),
}

/// The most that is chosen where nobody says how much.
const MOST_CHOSEN: u32 = 4096;

impl JobArgs {
    /// What the picture and the mesh are to be like.
    pub(super) fn form(&self) -> form::Wish {
        (self.texture_format, self.texture_quality, self.compress)
    }

    /// Edge of each page of the texture, or the most that it may be, which the flag says.
    pub(super) fn texture(&self) -> Result<(u32, bool), Box<JobError>> {
        let most = self.pages.largest();
        let edge = self.edge();
        let auto = self.texture_size == TextureEdge::Auto;
        if !auto && self.max_texture_size.is_some() {
            return Err(JobError::own(
                Code::InvalidSpec,
                "--max-texture-size is for --texture-size auto",
                "leave one of them out",
            ));
        }
        if edge > most {
            let count = self.pages.count();
            let message = format!(
                "{count} pages of {edge} texels are too large: together they have {MAX_TEXTURE_SIZE} along an edge at most"
            );
            let hint = format!("--pages {count} goes with a --texture-size of {most} at most");
            return Err(JobError::own(Code::InvalidSpec, message, hint));
        }
        Ok((edge, auto))
    }

    /// The edge that was asked for, possible or not.
    pub(super) fn edge(&self) -> u32 {
        match self.texture_size {
            TextureEdge::Auto => {
                (self.max_texture_size).unwrap_or_else(|| MOST_CHOSEN.min(self.pages.largest()))
            }
            TextureEdge::Texels(edge) => edge,
        }
    }
}

fn pages(text: &str) -> Result<Pages, String> {
    let count: u32 = text.parse().map_err(|_| "not a whole number".to_owned())?;
    Pages::try_from(count).map_err(|error| error.to_string())
}

fn texture_edge(text: &str) -> Result<TextureEdge, String> {
    match text {
        "auto" => Ok(TextureEdge::Auto),
        _ => texture_size(text).map(TextureEdge::Texels),
    }
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

fn alpha_cutoff(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(cutoff) if (0.0..=1.0).contains(&cutoff) => Ok(cutoff),
        _ => Err("must be a share of opacity: 0 to 1".to_owned()),
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

/// A year is as good as for ever, and far from where clocks overflow.
pub(crate) const MOST_SECONDS: f64 = 31_536_000.0;

/// `JOB=PATH`.
fn of_job(text: &str) -> Result<(String, PathBuf), String> {
    let (job, path) = text.split_once('=').ok_or("must be JOB=PATH")?;
    Ok((job.to_owned(), path.into()))
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= MOST_SECONDS => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("must be a number of seconds above 0, and 31536000 (a year) at most".to_owned()),
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

impl From<QualityArg> for Quality {
    fn from(arg: QualityArg) -> Self {
        match arg {
            QualityArg::Draft => Self::Draft,
            QualityArg::Standard => Self::Standard,
            QualityArg::Best => Self::Best,
        }
    }
}

impl From<BlendArg> for Blend {
    fn from(arg: BlendArg) -> Self {
        match arg {
            BlendArg::Linear => Self::Linear,
            BlendArg::Srgb => Self::Srgb,
        }
    }
}

impl From<RefineArg> for Refine {
    fn from(arg: RefineArg) -> Self {
        match arg {
            RefineArg::Off => Self::Off,
            RefineArg::Auto => Self::Auto,
            RefineArg::On => Self::On,
        }
    }
}

impl From<FallbackArg> for Policy {
    fn from(arg: FallbackArg) -> Self {
        match arg {
            FallbackArg::SamePlan => Self::SamePlan,
            FallbackArg::SmallerPlan => Self::SmallerPlan,
            FallbackArg::Adapters => Self::Adapters,
            FallbackArg::VertexColours => Self::VertexColours,
        }
    }
}
