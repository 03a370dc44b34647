//! Unwraps a surface into the mesh that is baked: charts in a square atlas, vertices split at their borders.
//!
//! ```text
//!   flatten ─► merge ─┐
//!   or planar ────────┴► detach ─► budget ─► divide ─► pack or shelf ─► assemble
//! ```
//!
//! - [`flatten`] runs the `uvunwrap` crate under a deadline, and [`merge`] lays small charts beside neighbours and
//!   moves borders.
//! - [`planar`] projects along a few directions where flattening takes too long.
//! - [`detach`] cuts off what no view sees, and [`budget`] makes it smaller.
//! - [`divide`] cuts charts that are larger than a page.
//! - [`pack`] places the charts, or [`shelf`] where there are very many.
//!
//! Everything but `uvunwrap` takes time bounded by the number of triangles. No two triangles overlap in the atlas.
//! Charts keep gaps for their gutters and stay inside the border of their page.

use std::io;
use std::time::Duration;

use proto::job::Quality;
use proto::message::{Phase, UnwrapMethod};
use proto::pages::Pages;
use proto::table::Mesh;
use rayon::prelude::*;

use crate::pace;
use crate::prepare::clean::CleanMesh;
use crate::prepare::normals::surface_area;
use crate::prepare::texels::Resolved;
use crate::progress::{Progress, each, unit};

mod effort;

mod flatten;

mod planar;

mod merge;

mod detach;

mod budget;

mod divide;

mod mask;
mod page;

mod pack;

mod shelf;

mod coverage;

pub mod kept;

mod assemble;

pub(crate) use self::budget::EDGE;
use self::effort::Effort;
use self::pack::{Atlas, Chart};

/// Up to this number of triangles several ways to cut are compared. Above, the first is good enough and time is short.
const COMPARED_TRIANGLES: usize = 40_000;
/// Up to this number of charts the page packer runs. Above, shelves are nearly as dense and far faster.
const PACKED_CHARTS: usize = 4_000;

/// Predicted duration of the page packer for any mesh: bounded by the number of charts.
const PACKING: Duration = Duration::from_secs(3);
/// Predicted duration of merging charts for any mesh: bounded by a count of its work.
const MERGING: Duration = Duration::from_secs(3);

/// A chart and the part of the surface that it shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Piece {
    pub(crate) chart: Chart,
    /// Triangles of the surface, in the order of the chart's triangles.
    pub(crate) faces: Vec<u32>,
    /// Points of the surface, one per vertex of the chart.
    pub(crate) points: Vec<u32>,
}

impl Piece {
    /// The part of the piece with the wanted triangles (by index in it), with unchanged coordinates.
    fn part(&self, wanted: impl Fn(usize) -> bool) -> Self {
        let mut part = Self::default();
        let mut numbers = vec![u32::MAX; self.points.len()];
        for (row, (&face, corners)) in self.faces.iter().zip(&self.chart.triangles).enumerate() {
            if !wanted(row) {
                continue;
            }
            let corners = corners.map(|corner| {
                let number = &mut numbers[corner as usize];
                if *number == u32::MAX {
                    *number = part.points.len() as u32;
                    part.points.push(self.points[corner as usize]);
                    part.chart.uvs.push(self.chart.uvs[corner as usize]);
                }
                *number
            });
            part.faces.push(face);
            part.chart.triangles.push(corners);
        }
        part
    }

    /// The part with the wanted triangles, by index in the surface.
    fn part_of(&self, wanted: impl Fn(u32) -> bool) -> Self {
        self.part(|row| wanted(self.faces[row]))
    }
}

/// The mesh with its atlas.
#[derive(Clone, Debug)]
pub struct Unwrapped {
    /// The mesh to bake.
    pub mesh: Mesh,
    /// How the charts were made.
    pub method: UnwrapMethod,
    /// Share of the atlas that charts cover.
    pub utilisation: f32,
}

/// What an atlas is made for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Edge of the atlas in texels, over all pages.
    pub texture_size: u32,
    /// Pages that the atlas is cut into.
    pub pages: Pages,
    /// What the views resolve of each triangle, where known.
    pub views: Option<&'a Resolved>,
}

impl From<(u32, Pages)> for Wanted<'_> {
    /// Nothing is known of the views.
    fn from((texture_size, pages): (u32, Pages)) -> Self {
        Self {
            texture_size,
            pages,
            views: None,
        }
    }
}

/// How much work goes into an atlas.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Number of ways to cut that are compared, where comparison is allowed.
    pub ways: usize,
    /// Number of cuts, densest first, that are packed with more effort: a fixed tenth of a second each.
    pub improved: usize,
}

impl Work {
    /// One cut, packed once: 0.3 and 0.7 s instead of 1.1 and 3.4 on two cores (catstatue, banana), for -0.15 and +0.2
    /// dB.
    const DRAFT: Self = Self {
        ways: 1,
        improved: 0,
    };
    /// The densest of all ways to cut.
    pub const FULL: Self = Self {
        ways: flatten::WAYS.len(),
        improved: 2,
    };
}

impl From<Quality> for Work {
    fn from(quality: Quality) -> Self {
        match quality {
            Quality::Draft => Self::DRAFT,
            Quality::Standard | Quality::Best => Self::FULL,
        }
    }
}

/// Makes an atlas. The deadline bounds flattening, the better of the two ways to cut.
///
/// # Errors
///
/// The system gives no thread. The mesh may well be flattened, so another process can try.
pub fn unwrap<'a>(
    mesh: &CleanMesh,
    wanted: impl Into<Wanted<'a>>,
    (quality, deadline): (Quality, Duration),
    progress: &dyn Progress,
) -> io::Result<Unwrapped> {
    let limit = deadline.min(flatten::patience(mesh.triangles.len()));
    unwrap_with(mesh, wanted, limit, quality.into(), progress)
}

/// Like [`unwrap`], with this much work. With a limit of zero, projections make the charts.
///
/// # Errors
///
/// As [`unwrap`].
pub fn unwrap_with<'a>(
    mesh: &CleanMesh,
    wanted: impl Into<Wanted<'a>>,
    limit: Duration,
    work: Work,
    progress: &dyn Progress,
) -> io::Result<Unwrapped> {
    let Wanted {
        texture_size,
        pages,
        views,
    } = wanted.into();
    let exposure = views.map_or(&[][..], |views| &views.exposure);
    let effort = Effort::begin();
    progress.progress(Phase::Unwrap, 0, 0);
    let predicted = each(mesh.triangles.len(), pace::ATLAS_TRIANGLE);
    progress.expect("edges", predicted);
    let area = surface_area(&mesh.positions, &mesh.triangles);
    let cell = pack::cell(area, texture_size, pages);
    let mut cuts = Vec::new();
    if !limit.is_zero() && flatten::is_sane(mesh) {
        let few = mesh.triangles.len() <= COMPARED_TRIANGLES;
        let ways = if few { work.ways } else { 1 };
        let cut = |way| -> io::Result<Option<Vec<Piece>>> {
            let flat = flatten::flatten(mesh, way, ways, (effort, limit), progress)?;
            progress.expect("merging charts", predicted + MERGING);
            Ok(flat.map(|pieces| merge::merge(mesh, pieces, cell, exposure)))
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
    let method = if cuts.is_empty() {
        UnwrapMethod::Fallback
    } else {
        UnwrapMethod::Uvunwrap
    };
    if cuts.is_empty() {
        progress.expect("cutting by directions", predicted);
        cuts.push(planar::cut(mesh));
        unit();
    }
    if let Some(views) = views {
        let of_seen = |pieces| {
            let mut pieces = detach::detach(pieces, &views.best, (area, cell));
            budget::shrink(&mut pieces, views, texture_size);
            pieces
        };
        cuts = cuts.into_par_iter().map(of_seen).collect();
    }
    if pages != Pages::ONE {
        progress.expect("dividing charts", predicted);
        let divided = |pieces| divide::divide(pieces, pages.side());
        cuts = cuts.into_iter().map(divided).collect();
        unit();
    }
    progress.expect("packing", predicted + PACKING);
    let (pieces, atlas) = densest(cuts, (texture_size, pages), work.improved);
    unit();
    let utilisation = atlas.utilisation as f32;
    let assembled = assemble::assemble(mesh, &pieces, &atlas);
    let triangles = mesh.triangles.len() as u64;
    progress.progress(Phase::Unwrap, triangles, triangles);
    Ok(Unwrapped {
        mesh: assembled,
        method,
        utilisation,
    })
}

/// Packs all cuts and returns the densest with its atlas.
fn densest(
    cuts: Vec<Vec<Piece>>,
    (texture_size, pages): (u32, Pages),
    improved: usize,
) -> (Vec<Piece>, Atlas) {
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
pub(crate) mod tests;
