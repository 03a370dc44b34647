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
//! colours of their neighbours ([`super::fill`]).

mod samples;
mod view;

use proto::job::{Blend, Memory, Refine};
use proto::message::{BakeSummary, CameraFate, Failure, Phase, ViewFit};
use proto::plan::RowsHeld;
use proto::table::{Colours, Mesh, Refined, Surface, View};
use rayon::prelude::*;

use super::colour::to_byte;
use super::fill::diffuse;
use super::refine::Refiner;
use super::scene::Scene;
use super::surface::Original;
use super::{native, shares, unseen};
use crate::memory::peak_rss_kib;
use crate::pace;
use crate::progress::{PhaseClock, Progress, each, unit};

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
    let mut clock = PhaseClock::default();
    let step = each(mesh.triangles.len(), pace::TRIANGLE);
    progress.progress(Phase::Raster, 0, 0);
    progress.expect("points of the surface", step);
    let original = Original::new(surface);
    let scene = Scene::framed(mesh, 1, original.frame());
    let points = Points::new(mesh);
    unit();
    let mut samples = Samples::new(points.count);
    let mut views = Vec::new();
    // Memory is short where this fallback is used.
    let mut refiner = Refiner::new(refine, Memory::Small, &original, true);
    while let Some((view, _)) = refiner.next(progress, &mut clock, &mut next_view, None)? {
        progress.progress(Phase::Raster, views.len() as u64, 0);
        progress.expect(
            "a view's word on the vertices",
            step + each(view.pixels.len(), pace::LOOK_PIXEL),
        );
        let pixels = clock.time(Phase::Raster, || {
            let look = Look::new(&scene, &view);
            samples.add(&look.points(&scene, &points.of_vertex, points.count, blend));
            look.counted()
        });
        views.push(ViewFit {
            view: view.index,
            pixels: u32::try_from(pixels).unwrap_or(u32::MAX),
            psnr_db: 0.0,
            median_residual: 0.0,
            camera: CameraFate::Given,
            moved_px: 0.0,
            gain: 1.0,
            rejected: None,
        });
        progress.progress(Phase::Raster, views.len() as u64, 0);
    }
    progress.progress(Phase::Init, 0, 2);
    progress.expect(
        "agreement of the views",
        each(points.count, pace::AGREE_POINT),
    );
    let agreed = clock.time(Phase::Init, || samples.consensus(blend));
    drop(samples);
    progress.progress(Phase::Init, 1, 2);
    let observed = agreed.par_iter().flatten().count();
    if observed == 0 {
        return Err(unseen());
    }
    progress.expect("colours of the unseen", step);
    let of_points = clock.time(Phase::Init, || {
        diffuse(agreed, &mesh.triangles, &points.of_vertex)
    });
    progress.progress(Phase::Init, 2, 2);
    let colours = points
        .of_vertex
        .par_iter()
        .map(|&point| {
            let colour = of_points.get(point as usize).copied().unwrap_or_default();
            let [r, g, b] = colour.map(|value| to_byte(value, blend));
            [r, g, b, 255]
        })
        .collect();
    let mut summary = BakeSummary {
        adapter: native::adapter(),
        covered_pixels: views.iter().map(|view| u64::from(view.pixels)).sum(),
        chart_texels: points.count as u64,
        observed_texels: observed as u64,
        filled_texels: (points.count - observed) as u64,
        provenance: shares([observed, 0, points.count - observed].map(|count| count as u64)),
        iterations: 0,
        rows: RowsHeld::default(),
        train_psnr_db: 0.0,
        seam_residual: 0.0,
        views,
        refinement: None,
        channels: Vec::new(),
        gpu_times: Vec::new(),
        host_times: Vec::new(),
        pipeline_cache: None,
        from_mesh_ms: 0.0,
        driver_vram_kib: None,
        uploaded_kib: 0,
        read_back_kib: 0,
        times: clock.into_times(),
        peak_vram_kib: 0,
        peak_rss_kib: peak_rss_kib(),
    };
    refiner.enter(&mut summary);
    Ok(Coloured {
        colours: Colours { colours },
        refined: refiner.refined(),
        summary,
    })
}

#[cfg(test)]
mod tests;
