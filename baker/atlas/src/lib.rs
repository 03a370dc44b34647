#![doc = include_str!("../README.md")]

mod bits;
mod budget;
pub mod coverage;
mod detach;
mod divide;
mod effort;
mod flatten;
pub mod flow;
mod input;
mod mask;
mod merge;
mod pack;
mod page;
mod parts;
mod piece;
mod planar;
mod shelf;
pub mod surface;
mod work;

use std::io;
use std::time::Duration;

use rayon::prelude::*;

use effort::Effort;
pub use flatten::patience;
pub use input::{Mesh, Pages, Views, Wanted};
use pack::Placed;
use piece::{Chart, Piece};
use surface::surface_area;
pub use work::{Hooks, Listener, Silent, install};
use work::{Ticker, step, unit};

/// Smallest scale of a chart's edge: that of what no view sees.
pub const EDGE: f64 = budget::EDGE;

/// Up to this number of triangles several ways to cut are compared. Above, the first is good enough and time is short.
const COMPARED_TRIANGLES: usize = 40_000;
/// Up to this number of charts the page packer runs. Above, shelves are nearly as dense and far faster.
const PACKED_CHARTS: usize = 4_000;

/// Predicted duration of cutting, packing and splitting vertices on a slow machine, in nanoseconds per triangle.
const TRIANGLE: u64 = 4_000;
/// Predicted duration of the page packer for any mesh: bounded by the number of charts.
const PACKING: Duration = Duration::from_secs(3);
/// Predicted duration of merging charts for any mesh: bounded by a count of its work.
const MERGING: Duration = Duration::from_secs(6);

/// Why there is no atlas.
#[derive(Debug, thiserror::Error)]
pub enum AtlasError {
    /// The system gives no thread. The mesh may well be flattened, so another process can try.
    #[error("the system gives no thread")]
    NoThread(#[from] io::Error),
    /// A triangle names a point that is not there.
    #[error("triangle {0} names a point that is not there")]
    Corner(usize),
}

/// How much work goes into an atlas.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Number of ways to cut that are compared, where comparison is allowed.
    pub ways: usize,
    /// Number of cuts, densest first, that are packed with more effort: a fixed number of tests each, some tenths of a
    /// second.
    pub improved: usize,
}

impl Work {
    /// One cut, packed once: about a fifth of the time on two cores (catstatue, banana), for -0.15 and +0.2 dB.
    pub const DRAFT: Self = Self {
        ways: 1,
        improved: 0,
    };
    /// The densest of all ways to cut.
    pub const FULL: Self = Self {
        ways: flatten::WAYS.len(),
        improved: 2,
    };
}

/// How charts were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Flattened by `uvunwrap`, with little distortion.
    Flattened,
    /// Projected along a few directions.
    Projected,
}

/// A surface laid out in a square. Vertices at the borders of charts are split.
#[derive(Clone, Debug, PartialEq)]
pub struct Atlas {
    /// Texture coordinates of each vertex, within [0, 1], v down.
    pub uvs: Vec<[f32; 2]>,
    /// The surface's point of each vertex.
    pub points: Vec<u32>,
    /// Corners as indices of vertices, in the order of the surface's triangles.
    pub triangles: Vec<[u32; 3]>,
    /// Number of charts.
    pub charts: u32,
    /// How they were made.
    pub method: Method,
    /// Share of the square that charts cover; 0 where no atlas of this size holds them.
    pub utilisation: f32,
}

/// Makes an atlas. `limit` bounds the effort of flattening, the better of the two ways to cut; at zero, projections
/// make the charts. [`patience`] is enough for a sane mesh.
///
/// # Errors
/// A missing thread, or a triangle with a wrong corner.
pub fn unwrap<'a>(
    mesh: &Mesh<'_>,
    wanted: impl Into<Wanted<'a>>,
    limit: Duration,
    work: Work,
    listener: &dyn Listener,
) -> Result<Atlas, AtlasError> {
    let points = mesh.positions.len();
    let wrong = |corners: &[u32; 3]| corners.iter().any(|&corner| corner as usize >= points);
    if let Some(triangle) = mesh.triangles.iter().position(wrong) {
        return Err(AtlasError::Corner(triangle));
    }
    let Wanted {
        texture_size,
        pages,
        views,
    } = wanted.into();
    let effort = Effort::begin();
    listener.progress(0, 0);
    let predicted = Duration::from_nanos(mesh.triangles.len() as u64 * TRIANGLE);
    listener.expect("edges", predicted);
    let area = surface_area(mesh.positions, mesh.triangles);
    let cell = pack::cell(area, texture_size, pages);
    let mut cuts = Vec::new();
    let whole = || {
        let neighbours = planar::neighbours(mesh.triangles);
        flatten::is_sane(mesh, &neighbours).then(|| parts::parts(mesh, &neighbours))
    };
    let parts = (!limit.is_zero())
        .then(|| step(listener, "parts", whole))
        .flatten();
    if let Some(parts) = parts {
        let few = mesh.triangles.len() <= COMPARED_TRIANGLES;
        let ways = if few { work.ways } else { 1 };
        let exposure = views.map_or(&[][..], |views| &views.exposure);
        let cut = |way| -> io::Result<Option<Vec<Piece>>> {
            let flatten = || flatten::flatten((mesh, &parts), way, ways, (effort, limit), listener);
            let flat = step(listener, "flatten", flatten)?;
            listener.expect("merging charts", predicted + MERGING);
            Ok(flat.map(|pieces| merge::merge(mesh, pieces, (cell, exposure), listener)))
        };
        let made: Vec<_> = flatten::WAYS[..ways].par_iter().map(cut).collect();
        for pieces in made {
            let Some(pieces) = pieces? else {
                break;
            };
            // With many charts every cut packs alike.
            let last = pieces.len() > pack::SEARCHED_CHARTS;
            cuts.push(pieces);
            if last {
                break;
            }
        }
    }
    let mut method = Method::Flattened;
    if cuts.is_empty() {
        method = Method::Projected;
        listener.expect("cutting by directions", predicted);
        cuts.push(step(listener, "projection", || planar::cut(mesh)));
        unit();
    }
    if let Some(views) = views {
        let of_seen = |pieces| {
            let detach = || detach::detach(pieces, &views.best, (area, cell));
            let mut pieces = step(listener, "detach", detach);
            let shrink = || budget::shrink(&mut pieces, views, texture_size);
            step(listener, "budget", shrink);
            pieces
        };
        cuts = cuts.into_par_iter().map(of_seen).collect();
    }
    if pages != Pages::ONE {
        listener.expect("dividing charts", predicted);
        let divided = |pieces| divide::divide(pieces, pages.side());
        let all = || cuts.into_iter().map(divided).collect();
        cuts = step(listener, "divide", all);
        unit();
    }
    listener.expect("packing", predicted + PACKING);
    let pack = || densest(cuts, (texture_size, pages), work.improved);
    let (pieces, placed) = step(listener, "pack", pack);
    unit();
    let assemble = || assemble(mesh.triangles.len(), method, &pieces, &placed);
    let atlas = step(listener, "assemble", assemble);
    let triangles = mesh.triangles.len() as u64;
    listener.progress(triangles, triangles);
    Ok(atlas)
}

/// Splits vertices at chart borders. They come chart by chart.
fn assemble(triangles: usize, method: Method, pieces: &[Piece], placed: &Placed) -> Atlas {
    let mut atlas = Atlas {
        uvs: Vec::new(),
        points: Vec::new(),
        triangles: vec![[0; 3]; triangles],
        charts: u32::try_from(pieces.len()).unwrap_or(u32::MAX),
        method,
        utilisation: placed.utilisation as f32,
    };
    let mut ticker = Ticker::default();
    for (piece, uvs) in pieces.iter().zip(&placed.uvs) {
        ticker.did(piece.points.len() + piece.faces.len());
        let first = atlas.points.len() as u32;
        atlas.points.extend(&piece.points);
        atlas.uvs.extend(uvs.iter().map(|uv| uv.map(|x| x as f32)));
        for (&face, corners) in piece.faces.iter().zip(&piece.chart.triangles) {
            atlas.triangles[face as usize] = corners.map(|corner| first + corner);
        }
    }
    atlas
}

/// Packs all cuts and returns the densest with its atlas.
fn densest(
    cuts: Vec<Vec<Piece>>,
    (texture_size, pages): (u32, Pages),
    improved: usize,
) -> (Vec<Piece>, Placed) {
    let charts = |pieces: &[Piece]| -> Vec<Chart> {
        pieces.iter().map(|piece| piece.chart.clone()).collect()
    };
    let fits = |pieces: &[Piece]| pieces.len() <= PACKED_CHARTS;
    let packed = |(cut, pieces): (usize, &Vec<Piece>)| {
        let packed = if fits(pieces) {
            pack::pack(charts(pieces), texture_size, pages)
        } else {
            None
        };
        packed.map(|packed| (cut, packed))
    };
    let mut candidates: Vec<(usize, pack::Packed)> =
        cuts.par_iter().enumerate().filter_map(packed).collect();
    candidates.sort_by(|(_, a), (_, b)| b.density().total_cmp(&a.density()));
    candidates.truncate(improved.max(1));
    let improved = candidates.par_iter_mut().take(improved);
    improved.for_each(|(_, packed)| packed.improve());
    let best = candidates.into_iter().reduce(|best, other| {
        if other.1.density() > best.1.density() {
            other
        } else {
            best
        }
    });
    let (cut, atlas) = match best {
        Some((cut, packed)) => (cut, packed.atlas()),
        None => (0, shelf::pack(&charts(&cuts[0]), texture_size, pages)),
    };
    let pieces = cuts.into_iter().nth(cut).unwrap_or_default();
    (pieces, atlas)
}

#[cfg(test)]
mod tests;
