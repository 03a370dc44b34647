//! Command line flags, as clap parses them; the doc comments are the text of `--help`.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::gpu::Axis;

/// Bakes sets of views with the kiln beside this program and prints a table: quality, seconds per stage, peak memory.
///
/// A set is a folder with `mesh_nouv.glb` (and `mesh_uv.glb` for --keep-uvs), `transforms.json` with the views to bake
/// from, and `transforms_test.json` with the views to measure with. A file kiln.json with {"blend": "srgb"} states that
/// its views blend encoded colours, as Gaussian splats do; a set with "splat" in its name is taken to do so.
#[derive(Debug, Parser)]
#[command(name = "bench", max_term_width = 100)]
pub(crate) struct Args {
    /// A folder of sets, or one set. Without it, the sets in the repository.
    pub(crate) folder: Option<PathBuf>,
    /// Work put into the fit.
    #[arg(long, value_enum, default_value = "standard")]
    pub(crate) quality: QualityArg,
    /// Bake onto the mesh's own texture coordinates, where a set has them.
    #[arg(long)]
    pub(crate) keep_uvs: bool,
    /// Where everything that was measured goes.
    #[arg(long, value_name = "FILE", default_value = "bench.json")]
    pub(crate) json: PathBuf,
    /// Make the input here, from the sample in this program, and bake it on the GPU at many sizes: each stage by the device's
    /// clock, what is moved, memory, quality, and jobs an hour. Needs kiln and kiln-baker beside this program and no file else.
    #[arg(long, conflicts_with_all = ["folder", "keep_uvs"])]
    pub(crate) gpu: bool,
    /// With --gpu: what to vary, separated by commas. By default everything but photographs and the largest, which take minutes to half an hour.
    #[arg(long, value_enum, value_delimiter = ',', requires = "gpu")]
    pub(crate) axes: Vec<Axis>,
    /// With --gpu: only the smallest size of each, to see that it runs.
    #[arg(long, requires = "gpu")]
    pub(crate) smallest: bool,
    /// Keep the GLBs and reports in this folder; with --gpu, also their inputs.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,
    /// The program under test.
    #[arg(long, value_name = "PATH", hide = true)]
    pub(crate) program: Option<PathBuf>,
    /// Further flags for kiln bake, after `--`: for instance `-- --device cpu --texture-size 2048`.
    #[arg(last = true, value_name = "KILN FLAGS", allow_hyphen_values = true)]
    pub(crate) kiln: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum QualityArg {
    /// Takes seconds on two cores.
    Draft,
    /// The default.
    Standard,
    /// More samples and iterations.
    Best,
    /// One row per quality.
    All,
}

impl QualityArg {
    /// The values of `kiln bake --quality`.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Draft => &["draft"],
            Self::Standard => &["standard"],
            Self::Best => &["best"],
            Self::All => &["draft", "standard", "best"],
        }
    }
}
