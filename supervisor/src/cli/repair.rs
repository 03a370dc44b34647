//! The flags that mend the mesh → [`Repair`], and back for `kiln replay`.

use clap::{Args, ValueEnum};
use proto::job::{Repair, Up};
use proto::limits::{MAX_HOLE_EDGES, MAX_HOLE_SIZE, MAX_WELD};

/// What `kiln bake` and `kiln submit` are told of the mesh's repair.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Mesh")]
pub(super) struct RepairArgs {
    /// Remove what no view from outside can see: inner shells, and the walls of cavities, cut off where that takes the
    /// shortest cut. What the job's own views show stays.
    #[arg(long)]
    remove_unseen: bool,
    /// Fill holes up to this area: a share of the square of the mesh's longest side, 0.04 without a value.
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "0.04", value_parser = hole_size, conflicts_with = "keep_uvs")]
    fill_holes: Option<f32>,
    /// Leave holes of more edges than this.
    #[arg(long, value_name = "N", default_value_t = Repair::HOLE_EDGES, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(3..=i64::from(MAX_HOLE_EDGES)))]
    hole_edges: u32,
    /// Put points of open borders together that are nearer than this: a share of the mesh's diagonal, 0.00001 without a value.
    #[arg(long, value_name = "DISTANCE", num_args = 0..=1, require_equals = true, default_missing_value = "0.00001", value_parser = weld)]
    weld: Option<f32>,
    /// Wind the triangles of each part one way, their front where it is seen from.
    #[arg(long)]
    orient: bool,
    /// The axis that points up in the mesh and its views: with `z`, both are turned, and the result has y up as glTF wants.
    #[arg(long, value_enum, default_value = "y")]
    up: UpArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum UpArg {
    /// Nothing is turned.
    Y,
    /// (x, y, z) becomes (x, z, -y).
    Z,
}

impl From<RepairArgs> for Repair {
    fn from(args: RepairArgs) -> Self {
        Self {
            weld: args.weld,
            orient: args.orient,
            remove_unseen: args.remove_unseen,
            fill_holes: args.fill_holes,
            hole_edges: args.hole_edges,
            up: args.up.into(),
        }
    }
}

impl From<UpArg> for Up {
    fn from(arg: UpArg) -> Self {
        match arg {
            UpArg::Y => Self::Y,
            UpArg::Z => Self::Z,
        }
    }
}

fn hole_size(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(size) if size > 0.0 && size <= MAX_HOLE_SIZE => Ok(size),
        _ => Err(format!("must be above 0, and {MAX_HOLE_SIZE} at most")),
    }
}

fn weld(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= MAX_WELD => Ok(share),
        _ => Err(format!("must be above 0, and {MAX_WELD} at most")),
    }
}
