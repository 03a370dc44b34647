//! Bakes vertex colours: one colour for each vertex, the last fallback where no texture can be had.
//!
//! It needs no atlas, no fit and no GPU. Memory is one view at a time (some, while cameras and exposures are refined),
//! and a hundred bytes for each vertex.
//!
//! ```text
//!  view     one view → the mean colour of the pixels around each point of the surface, and its weight
//!  samples  the best views of each point → their consensus
//! ```
//!
//! Colours belong to points of the surface, so both sides of a chart border agree. Points that no view sees take the
//! colours of their neighbours ([`super::solve::fill`]).

mod samples;
mod view;

use proto::job::{Blend, Memory, Refine};
use proto::message::{BakeSummary, Failure, Phase};
use proto::table::{Colours, Mesh, Refined, Surface, View};
use rayon::prelude::*;

use super::error::unseen;
use crate::bake::finish::summary::{blank, blank_view};
use crate::bake::intake::refine::Refiner;
use crate::bake::intake::surface::Original;
use crate::bake::model::colour::to_byte;
use crate::bake::model::scene::Scene;
use crate::bake::solve::fill::diffuse;
use crate::bake::solve::native;
use crate::worker::pace;
use crate::worker::progress::{Progress, Stage, Stages, each, unit};

use samples::Samples;
use view::Look;

/// Vertex colours and their report.
#[derive(Clone, Debug)]
pub struct Coloured {
    /// The colours.
    pub colours: Colours,
    /// Cameras and exposures after refinement; none where all were taken as given.
    pub refined: Option<Refined>,
    /// The report. It counts points of the surface where a texture's report counts texels. PSNRs are 0, since no view
    /// is read twice here: encode measures how well the colours reproduce a view.
    pub summary: BakeSummary,
}

/// The point of the surface that each vertex is, numbered without gaps; [`NONE`] for vertices without a triangle.
struct Points {
    of_vertex: Vec<u32>,
    count: usize,
}

const NONE: u32 = u32::MAX;

impl Points {
    fn new(mesh: &Mesh) -> Self {
        let surface = &mesh.surface_vertices;
        let mut rank = vec![NONE; surface.len()];
        let mut count = 0;
        for corner in mesh.triangles.as_flattened() {
            let rank = &mut rank[surface[*corner as usize] as usize];
            if *rank == NONE {
                *rank = count;
                count += 1;
            }
        }
        Self {
            of_vertex: surface.iter().map(|&point| rank[point as usize]).collect(),
            count: count as usize,
        }
    }
}

/// Bakes all views that `next_view` yields.
///
/// # Errors
/// A failure for the user: views that do not come, or that see nothing.
pub fn bake(
    mesh: &Mesh,
    surface: Surface,
    blend: Blend,
    refine: Refine,
    progress: &dyn Progress,
    mut next_view: impl FnMut() -> Result<Option<View>, Failure>,
) -> Result<Coloured, Failure> {
    let stages = Stages::new(progress);
    let step = each(mesh.triangles.len(), pace::TRIANGLE);
    stages.announce(Stage {
        phase: Phase::Raster,
        total: 0,
        unit: ("points of the surface", step),
    });
    let original = Original::new(surface);
    let scene = Scene::framed(mesh, 1, original.frame());
    let points = Points::new(mesh);
    unit();
    let mut samples = Samples::new(points.count);
    let mut views = Vec::new();
    // Memory is short where this fallback is used.
    let mut refiner = Refiner::new(refine, Memory::Small, &original, true);
    while let Some((view, _)) =
        stages.lend(|progress, clock| refiner.next(progress, clock, &mut next_view, None))?
    {
        progress.progress(Phase::Raster, views.len() as u64, 0);
        let look = step + each(view.pixels.len(), pace::LOOK_PIXEL);
        progress.expect("a view's word on the vertices", look);
        let pixels = stages.time(Phase::Raster, || {
            let look = Look::new(&scene, &view);
            samples.add(&look.points(&scene, &points.of_vertex, points.count, blend));
            look.counted()
        });
        views.push(blank_view(view.index, pixels as u64));
        progress.progress(Phase::Raster, views.len() as u64, 0);
    }
    let (colours, observed) = colours(mesh, &points, samples, blend, &stages)?;
    let known = [observed, 0, points.count - observed].map(|count| count as u64);
    let mut summary = BakeSummary {
        covered_pixels: views.iter().map(|view| u64::from(view.pixels)).sum(),
        views,
        times: stages.take_times(),
        ..blank(native::adapter(), known)
    };
    summary.refinement = refiner.enter(&mut summary.views);
    Ok(Coloured {
        colours,
        refined: refiner.refined(),
        summary,
    })
}

/// The colour on which the views agree at each vertex, and the number of points that some view sees.
fn colours(
    mesh: &Mesh,
    points: &Points,
    samples: Samples,
    blend: Blend,
    stages: &Stages<'_>,
) -> Result<(Colours, usize), Failure> {
    let agreement = each(points.count, pace::AGREE_POINT);
    let stage = Stage {
        phase: Phase::Init,
        total: 2,
        unit: ("agreement of the views", agreement),
    };
    let agreed = stages.run(stage, || samples.consensus(blend));
    drop(samples);
    stages.progress.progress(Phase::Init, 1, 2);
    let observed = agreed.par_iter().flatten().count();
    if observed == 0 {
        return Err(unseen());
    }
    let step = each(mesh.triangles.len(), pace::TRIANGLE);
    stages.progress.expect("colours of the unseen", step);
    let of_points = stages.time(Phase::Init, || {
        diffuse(agreed, &mesh.triangles, &points.of_vertex)
    });
    stages.progress.progress(Phase::Init, 2, 2);
    let of_vertex = |&point: &u32| {
        let colour = of_points.get(point as usize).copied().unwrap_or_default();
        let [r, g, b] = colour.map(|value| to_byte(value, blend));
        [r, g, b, 255]
    };
    let colours = points.of_vertex.par_iter().map(of_vertex).collect();
    Ok((Colours { colours }, observed))
}

#[cfg(test)]
mod tests;
