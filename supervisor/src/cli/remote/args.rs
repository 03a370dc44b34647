//! The flags of the commands that speak with a sidecar, as clap parses them and `--help` explains them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::args::JobArgs;
use crate::cli::paths::{GLB, HTML, PNG, file, named};
use crate::options::seconds;
use crate::remote::place;

/// Where the sidecar is, and how much is said.
#[derive(Debug, Args)]
pub(in crate::cli) struct PlaceArgs {
    /// The sidecar's socket.
    ///
    /// By default `$KILN_SOCKET`, or else where `kiln serve` listens by default.
    #[arg(
        value_parser = named(),
        long,
        value_name = "PATH",
        conflicts_with = "url",
        help_heading = "Sidecar"
    )]
    pub(super) socket: Option<PathBuf>,
    /// The sidecar's port in place of its socket.
    ///
    /// On this machine, such as `http://127.0.0.1:8017`.
    #[arg(long, value_name = "URL", value_parser = place::address, requires = "token_file", help_heading = "Sidecar")]
    pub(super) url: Option<SocketAddr>,
    /// The file with the token for that port.
    ///
    /// Readable by its owner alone.
    #[arg(value_parser = named(), long, value_name = "FILE", requires = "url", help_heading = "Sidecar")]
    pub(super) token_file: Option<PathBuf>,
    /// Trust a sidecar of this user.
    ///
    /// At the socket, beside one of one's own and of root. Repeatable.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "UID",
        help_heading = "Sidecar"
    )]
    pub(super) allow_uid: Vec<u32>,
    #[cfg(feature = "fleet")]
    #[command(flatten)]
    pub(super) fleet: crate::cli::fleet::args::FleetArgs,
    /// How long a sidecar may be away.
    ///
    /// One that was there, as while it is restarted.
    #[arg(hide_short_help = true, long, value_name = "SECONDS", default_value = "60", value_parser = seconds, help_heading = "Sidecar")]
    pub(super) patience: Duration,
    /// JSON on standard output, one object per line.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    /// Say nothing but errors.
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub(super) quiet: bool,
    /// Show each request.
    #[arg(hide_short_help = true, short, long, help_heading = "Output")]
    pub(super) verbose: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SubmitArgs {
    /// The mesh, or Gaussian splats alone.
    ///
    /// GLB, glTF, PLY, OBJ or safetensors; or Gaussian splats alone.
    #[arg(value_parser = named())]
    pub(super) mesh: PathBuf,
    /// The views: transforms.json, COLMAP, splats.
    ///
    /// A transforms.json or a model of COLMAP, or the folder that holds one, or a safetensors file; or Gaussian
    /// splats; as for `kiln bake`.
    #[arg(value_parser = named(), long, value_name = "FILE")]
    pub(super) views: Option<PathBuf>,
    /// Wait for the result, and fetch it.
    ///
    /// Files, progress and exit code as with `kiln bake`. A signal ends the waiting, not the job.
    #[arg(long, requires = "output")]
    pub(super) wait: bool,
    /// Where to put the GLB.
    ///
    /// An existing file is replaced only by a complete new one.
    #[arg(value_parser = file(GLB), short, long, value_name = "FILE", requires = "wait")]
    pub(super) output: Option<PathBuf>,
    /// For people, in lists.
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = name)]
    pub(super) name: String,
    /// Have the contact sheet made, for `kiln fetch`.
    #[arg(hide_short_help = true, long)]
    pub(super) with_preview: bool,
    /// Have the report made as a page, for `kiln fetch`.
    #[arg(hide_short_help = true, long)]
    pub(super) with_html: bool,
    /// Have the maps of the texture made, for `kiln fetch`.
    #[arg(hide_short_help = true, long)]
    pub(super) with_maps: bool,
    /// Let the sidecar read the inputs in place.
    ///
    /// Beneath a --root of its own, in place of sending them.
    #[arg(hide_short_help = true, long)]
    pub(super) by_path: bool,
    /// Names this job.
    ///
    /// Submitted again with the same key, it is the same job. By default a new one.
    #[arg(hide_short_help = true, long, value_name = "KEY", value_parser = key)]
    pub(super) key: Option<String>,
    /// Where the sidecar is full, try again later.
    ///
    /// Where the sidecar is full or leaves, wait as long as it says and try again.
    #[arg(hide_short_help = true, long)]
    pub(super) retry: bool,
    #[command(flatten)]
    pub(super) job: JobArgs,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StatusArgs {
    /// Its id, the beginning of it, or `latest`.
    pub(super) id: String,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WaitArgs {
    /// Its id, the beginning of it, or `latest`.
    pub(super) id: String,
    /// Wait no longer than so many seconds.
    ///
    /// The job goes on.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    pub(super) timeout: Option<Duration>,
    /// Where to put the GLB.
    #[arg(value_parser = file(GLB), short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Where to put the contact sheet: .png.
    ///
    /// Of a job that was told to make one.
    #[arg(value_parser = file(PNG), long, value_name = "FILE")]
    pub(super) preview: Option<PathBuf>,
    /// Where to put the report as a page: .html.
    ///
    /// Of a job that was told to make one.
    #[arg(value_parser = file(HTML), long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// The folder to put the maps into.
    ///
    /// Of a job that was told to make them.
    #[arg(value_parser = named(), long, value_name = "FOLDER")]
    pub(super) maps: Option<PathBuf>,
    /// What happened, as JSON.
    #[arg(value_parser = named(), long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CancelArgs {
    /// Their ids, the beginnings of them, or `latest`.
    #[arg(value_name = "ID", required = true)]
    pub(super) ids: Vec<String>,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    /// Only jobs in this state.
    #[arg(long, value_enum)]
    pub(super) state: Option<StateArg>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) limit: u32,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct FetchArgs {
    /// Its id, the beginning of it, or `latest`.
    pub(super) id: String,
    /// The files; by default all that there are.
    ///
    /// model.glb, preview.png, report.html, coverage.png, residual.png, provenance.png, report.json.
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// The folder for the files, or the one file.
    ///
    /// A folder that is there, or a new one with a slash at its end or for several files, which keep their names; or
    /// where to put the one file (model.glb, if none is named).
    #[arg(value_parser = named(), short, long, value_name = "FOLDER|FILE", default_value = ".")]
    pub(super) output: PathBuf,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

/// The states that the store knows; a job that runs is in one of several.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::cli) enum StateArg {
    /// Accepted, and not begun.
    Queued,
    /// At work.
    Running,
    /// The result is there.
    Succeeded,
    /// There is none.
    Failed,
    /// Nobody wanted it any more.
    Cancelled,
}

fn name(text: &str) -> Result<String, String> {
    match text == crate::words::printable(text, 80) {
        true => Ok(text.to_owned()),
        false => Err("must be printable, and at most 80 bytes".to_owned()),
    }
}

fn key(text: &str) -> Result<String, String> {
    match (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err("must be 1 to 255 printable ASCII characters without spaces".to_owned()),
    }
}
