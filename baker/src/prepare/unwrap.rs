//! A surface → the mesh that is baked: charts in a square atlas, vertices split at their borders.
//!
//! Charts come from the `uvunwrap` crate ([`flatten`]) or, where it would take too long, from projections along
//! a few directions ([`planar`]); their places come from [`pack`], or from [`shelf`] where there are very many. Every way
//! ends: `uvunwrap` runs under a deadline, all else in time that grows with the number of triangles. No two triangles
//! overlap in the atlas, charts stay two texels apart and one inside the border.

use std::time::{Duration, Instant};

use proto::message::{Phase, UnwrapMethod};
use proto::table::Mesh;

use crate::prepare::clean::CleanMesh;
use crate::progress::Progress;

mod flatten;

mod planar;

mod mask;
mod page;

mod pack;

mod shelf;

mod coverage;

pub mod kept;

mod assemble;

use self::pack::{Atlas, Chart};

/// Triangles up to which several ways to cut are compared; above, the first is good enough and time is short.
const COMPARED_TRIANGLES: usize = 40_000;
/// Charts up to which the page packer works; above, shelves are nearly as dense and far faster.
const PACKED_CHARTS: usize = 4_000;

/// A chart and the part of the surface that it shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Piece {
    pub(crate) chart: Chart,
    /// The triangles of the surface, in the order of the chart's.
    pub(crate) faces: Vec<u32>,
    /// The point of the surface for each vertex of the chart.
    pub(crate) points: Vec<u32>,
}

/// The mesh with its atlas.
#[derive(Clone, Debug)]
pub struct Unwrapped {
    /// What is handed on.
    pub mesh: Mesh,
    /// Which way it was made.
    pub method: UnwrapMethod,
    /// Share of the atlas that charts cover.
    pub utilisation: f32,
}

/// Makes an atlas for textures of `texture_size` texels. `deadline` bounds the better of the two ways to cut.
pub fn unwrap(mesh: &CleanMesh, texture_size: u32, deadline: Duration, progress: &dyn Progress) -> Unwrapped {
    let end = Instant::now() + deadline.min(flatten::patience(mesh.triangles.len()));
    progress.progress(Phase::Unwrap, 0, 0);
    let mut best: Option<(Vec<Piece>, Atlas)> = None;
    if flatten::is_sane(mesh) {
        let ways = if mesh.triangles.len() <= COMPARED_TRIANGLES { &flatten::WAYS[..] } else { &flatten::WAYS[..1] };
        for way in ways {
            let Some(pieces) = flatten::flatten(mesh, way, end, progress) else { break };
            let atlas = arrange(&pieces, texture_size, false);
            eprintln!("  {way:?} {} {:.4}", pieces.len(), atlas.utilisation);
            if best.as_ref().is_none_or(|(_, best)| atlas.utilisation > best.utilisation) {
                best = Some((pieces, atlas));
            }
        }
    }
    let method = if best.is_some() { UnwrapMethod::Uvunwrap } else { UnwrapMethod::Fallback };
    let (pieces, atlas) = best.unwrap_or_else(|| {
        let pieces = planar::cut(mesh);
        let atlas = arrange(&pieces, texture_size, false);
        (pieces, atlas)
    });
    let searched = arrange(&pieces, texture_size, true);
    let atlas = if searched.utilisation > atlas.utilisation { searched } else { atlas };
    let utilisation = atlas.utilisation as f32;
    Unwrapped { mesh: assemble::assemble(mesh, &pieces, &atlas), method, utilisation }
}

/// Places the charts, by whichever packer suits their number.
fn arrange(pieces: &[Piece], texture_size: u32, search: bool) -> Atlas {
    let charts: Vec<Chart> = pieces.iter().map(|piece| piece.chart.clone()).collect();
    let packed = if charts.len() <= PACKED_CHARTS { pack::pack(&charts, texture_size, search) } else { None };
    packed.unwrap_or_else(|| shelf::pack(&charts, texture_size))
}
