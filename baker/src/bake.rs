//! The bake role: mesh and views into a texture, on a GPU or on the processor.
//!
//! | module | what it turns into what |
//! |---|---|
//! | `plan` | quality → taps, rounds, smoothness |
//! | `scene` | mesh → positions in a ball of radius 1, texel coordinates |
//! | `atlas` | scene → the triangle of each texel, its neighbours on the surface, seams |
//! | `surface` | mesh before simplification → views without the pixels that it shows elsewhere |
//! | `refine` | views → views whose cameras and exposures agree with the mesh and with each other |
//! | `raster` | scene, camera → the triangle that each sample hits |
//! | `rows` | what a pixel is: a weighted sum of texels |
//! | `footprint` | samples, picture → rows |
//! | `held` | views → their rows, kept or made again |
//! | `backend` | what the fit asks of an adapter: average, residuals, weights, solve |
//! | `colour` | bytes ↔ the space of the fit |
//! | `normal` | rows, weights → products with the normal matrix, conjugate gradients |
//! | `native`, `gpu` | the backend on the processor, and on a GPU with a shader for each stage |
//! | `pull_push` | texels with weights → every texel has a colour |
//! | `fill` | averaged texels → a start, unseen ones from their neighbours on the surface |
//! | `fit` | start → texels that explain the views: reweighted least squares over any backend |
//! | `seams` | texels → gutter that continues the charts, both sides of a seam alike at every mip level |
//! | `gutter` | texels → 8 bits, and what is known of each |
//! | `rejected` | views, the fit's last texels → what it did not believe of each view |
//! | `maps` | observed weights, residuals → how well each texel is seen, and how far the views are from it |
//! | `vertices` | mesh and views → colours of the vertices alone, where no texture can be had |

pub mod warm;

pub mod plan;

pub mod scene;

pub mod atlas;

pub mod surface;

mod refine;

pub mod raster;

pub mod rows;

pub mod footprint;

mod held;

pub mod backend;

pub mod colour;

mod normal;

pub mod native;

pub mod gpu;

pub mod pull_push;

pub mod fill;

pub mod fit;

pub mod seams;

pub mod gutter;

mod maps;

mod rejected;

pub mod vertices;

#[cfg(test)]
mod fixture;

use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;

use proto::blob::BlobFile;
use proto::job::{BakeJob, Blend, Product};
use proto::message::{
    AdapterInfo, BakeSummary, CameraFate, Code, Failure, Phase, ProvenanceShares, Table, ViewFit,
};
use proto::table::{Mesh, Surface, Texture, View};
use rayon::prelude::*;

use crate::pace;
use crate::progress::{PhaseClock, Progress, each, unit};
use crate::run::{internal, peak_rss_kib, take_fds};
use crate::session::Session;

use atlas::Atlas;
use backend::{Backend, BackendError, Ties, ViewResiduals};
use fit::Fitted;
use native::Native;
use plan::Plan;
use refine::Refiner;
use rejected::Doubts;
use scene::Scene;
use surface::Original;
use vertices::Coloured;
use warm::Warm;

/// Runs the role: receives the tables, bakes, hands the texture over.
///
/// # Errors
/// What the user is told.
pub fn run(
    session: &Session,
    warm: Warm,
    job: &BakeJob,
    fds: Vec<OwnedFd>,
) -> Result<BakeSummary, Failure> {
    let session_failed = |error| internal(&error);
    let read = |fd| BlobFile::open(fd).map_err(|error| internal(&error));
    let (mesh, surface) = if job.has_surface {
        let [mesh, surface] = take_fds(fds)?;
        let surface = read(surface)?;
        session.expect(
            "reading the surface",
            each(surface.len() as usize, pace::TABLE_BYTE),
        );
        let surface = Surface::read(&mut surface.reader()).map_err(|error| internal(&error))?;
        unit();
        (mesh, Some(surface))
    } else {
        let [mesh] = take_fds(fds)?;
        (mesh, None)
    };
    let mesh = read(mesh)?;
    session.expect(
        "reading the mesh",
        each(mesh.len() as usize, pace::TABLE_BYTE),
    );
    let mesh = Mesh::read(&mut mesh.reader()).map_err(|error| internal(&error))?;
    let next_view = || session.receive_view().map_err(session_failed);
    let (put, summary) = match job.product {
        Product::Texture => {
            let Baked {
                texture,
                rejected,
                summary,
            } = bake(&mesh, surface, warm, job, session, next_view)?;
            for (view, picture) in &rejected {
                let put = session.put(Table::Rejected(*view), picture.len() as u64, |out| {
                    Ok(out.write_all(picture)?)
                });
                put.map_err(|error| internal(&error))?;
            }
            let put = session.put(Table::Texture, texture.byte_len(), |out| texture.write(out));
            (put, summary)
        }
        Product::VertexColours => {
            let blend = warm.blend;
            if job.rejected {
                session.warning(
                    "nothing is drawn of what was rejected: colours of vertices take every pixel",
                );
            }
            // An open adapter is let go: nothing of this rung may depend on it.
            drop(warm);
            let Coloured { colours, summary } =
                vertices::bake(&mesh, surface, blend, job.refine, session, next_view)?;
            let put = session.put(Table::Colours, colours.byte_len(), |out| colours.write(out));
            (put, summary)
        }
    };
    put.map_err(|error| internal(&error))?;
    Ok(BakeSummary {
        peak_rss_kib: peak_rss_kib(),
        ..summary
    })
}

/// A texture and what is to be said of it.
#[derive(Clone, Debug)]
pub struct Baked {
    /// The texture.
    pub texture: Texture,
    /// What was not believed of each view, by its index, as PNG; where that was asked for.
    pub rejected: Vec<(u32, Vec<u8>)>,
    /// The report.
    pub summary: BakeSummary,
}

/// Bakes the views that `next_view` yields, until it yields none.
///
/// # Errors
/// What the user is told: no adapter, the adapter's failures, or views that see nothing.
pub fn bake(
    mesh: &Mesh,
    surface: Option<Surface>,
    warm: Warm,
    job: &BakeJob,
    progress: &dyn Progress,
    next_view: impl FnMut() -> Result<Option<View>, Failure>,
) -> Result<Baked, Failure> {
    let plan = Plan::new(warm.quality);
    let blend = warm.blend;
    let open = |scene: &Scene, atlas: &Atlas| open(scene, atlas, &plan, warm, job);
    bake_on(open, mesh, surface, &plan, blend, job, progress, next_view)
}

/// [`bake`] on the adapter that `open` gives.
fn bake_on(
    open: impl FnOnce(&Scene, &Atlas) -> Result<Box<dyn Backend>, Failure>,
    mesh: &Mesh,
    surface: Option<Surface>,
    plan: &Plan,
    blend: Blend,
    job: &BakeJob,
    progress: &dyn Progress,
    mut next_view: impl FnMut() -> Result<Option<View>, Failure>,
) -> Result<Baked, Failure> {
    let mut clock = PhaseClock::default();
    let size = job.texture_size;

    progress.progress(Phase::OpenDevice, 0, 0);
    let texels = (size as usize).pow(2);
    let step = each(texels, pace::TEXEL) + each(mesh.triangles.len(), pace::TRIANGLE);
    progress.expect("the map of the texture", step);
    let scene = Scene::new(mesh, size);
    unit();
    let atlas = Atlas::new(&scene);
    unit();
    let original = surface.map(|surface| Original::new(&scene, surface));
    // Never torn down: a driver that breaks then would take a finished texture with it.
    let mut backend = ManuallyDrop::new(clock.time(Phase::OpenDevice, || open(&scene, &atlas))?);

    let mut views = 0;
    let mut doubts = job.rejected.then(Doubts::default);
    let mut refiner = Refiner::new(job.refine, job.memory, &scene, original.as_ref());
    progress.progress(refiner.phase(), 0, 0);
    while let Some(mut view) = refiner.next(progress, &mut clock, &mut next_view)? {
        progress.progress(Phase::Raster, views, 0);
        let opaque = doubts.as_ref().map(|_| rejected::opaque(&view));
        clock
            .time(Phase::Raster, || {
                if let Some(original) = &original {
                    progress.expect(
                        "the surface before simplification",
                        each(original.triangles() + mesh.triangles.len(), pace::TRIANGLE),
                    );
                    original.mask(&scene, &mut view);
                }
                backend.add_view(&view)
            })
            .map_err(failure)?;
        if let (Some(doubts), Some(opaque)) = (&mut doubts, opaque) {
            doubts.keep(view, opaque);
        }
        views += 1;
        progress.progress(Phase::Raster, views, 0);
    }

    progress.progress(Phase::Init, 0, 1);
    progress.expect("averages", step);

    let observed = clock
        .time(Phase::Init, || start(&mut **backend, &scene, &atlas))
        .map_err(failure)?;
    progress.progress(Phase::Init, 1, 1);

    progress.progress(Phase::Fit, 0, 0);
    progress.expect("a step of the fit", step);
    let fitted = clock
        .time(Phase::Fit, || {
            fit::fit(&mut **backend, plan, |done, total| {
                progress.progress(Phase::Fit, u64::from(done), u64::from(total));
                progress.expect("a step of the fit", step);
            })
        })
        .map_err(failure)?;
    if fitted.residuals.iter().all(|view| view.rows == 0) {
        return Err(unseen());
    }

    progress.progress(Phase::Gutter, 0, 1);
    progress.expect("the gutter", step);
    let mut texels = read_finite(&mut **backend).map_err(failure)?;
    unit();
    let drawn = doubts.map(|doubts| {
        clock.time(Phase::Gutter, || {
            doubts.draw(&scene, &texels, plan.taps, fitted.scale, blend, progress)
        })
    });
    let drawn = drawn.transpose().map_err(|error| internal(&error))?;
    clock.time(Phase::Gutter, || {
        seams::mend(&mut texels, &observed, &scene, &atlas, blend);
    });
    let seam_residual = gutter::seam_residual(&texels, &atlas, blend);
    unit();
    let mut texture = clock.time(Phase::Gutter, || {
        gutter::finish(&texels, &observed, &atlas, size, blend)
    });
    drop(texels);
    if job.maps {
        progress.expect("the maps", step);
        let maps = clock.time(Phase::Gutter, || {
            let deviations = backend.deviations()?;
            Ok(maps::encode(&texture.provenance, &observed, &deviations))
        });
        texture.maps = Some(maps.map_err(failure)?);
    }
    progress.progress(Phase::Gutter, 1, 1);

    let mut summary = summary(
        backend.adapter(),
        &fitted,
        &texture,
        seam_residual,
        backend.peak_memory() / 1024,
        clock,
    );
    refiner.enter(&mut summary);
    summary.gpu_times = backend.gpu_times().map_err(failure)?;
    let mut rejected = Vec::new();
    for drawn in drawn.into_iter().flatten() {
        if let Some(view) = summary
            .views
            .iter_mut()
            .find(|view| view.view == drawn.view)
        {
            view.rejected = Some(drawn.shares);
        }
        rejected.push((drawn.view, drawn.picture));
    }
    Ok(Baked {
        texture,
        rejected,
        summary,
    })
}

/// Makes the adapter's buffers for the job; where they do not fit a GPU that nobody insisted on, the processor bakes.
fn open(
    scene: &Scene,
    atlas: &Atlas,
    plan: &Plan,
    warm: Warm,
    job: &BakeJob,
) -> Result<Box<dyn Backend>, Failure> {
    let ties = Ties {
        links: atlas.links.clone(),
        seams: atlas.seams.clone(),
    };
    let blend = warm.blend;
    let Some(kit) = warm.into_kit()? else {
        return Ok(Box::new(Native::new(scene.clone(), ties, plan.taps, blend)));
    };
    let options = gpu::Options {
        vram_budget: gpu::default_budget(job.texture_size),
        binding_limit: None,
        maps: job.maps,
        gpu_times: job.gpu_times,
    };
    // The surface before simplification has masked the views already.
    let gpu = gpu::Gpu::new(kit, scene.clone(), &ties, &options)?;
    Ok(Box::new(gpu))
}

/// Averages, then fills what no pixel observes; returns the weight with which each texel is observed.
fn start(
    backend: &mut dyn Backend,
    scene: &Scene,
    atlas: &Atlas,
) -> Result<Vec<f32>, BackendError> {
    backend.average()?;
    unit();
    let mut texels = read_finite(backend)?;
    let observed = texels.iter().map(|texel| texel[3]).collect();
    unit();
    fill::fill(scene, atlas, &mut texels);
    backend.write_texels(&texels)?;
    Ok(observed)
}

/// The texels, all of them numbers: what is none would become a colour like any other.
fn read_finite(backend: &mut dyn Backend) -> Result<Vec<[f32; 4]>, BackendError> {
    let texels = backend.read_texels()?;
    let wrong = texels
        .par_iter()
        .filter(|texel| !texel.iter().all(|value| value.is_finite()))
        .count();
    if wrong > 0 {
        let all = texels.len();
        return Err(BackendError::Incomplete(format!(
            "{wrong} of {all} texels are no numbers"
        )));
    }
    Ok(texels)
}

/// What the user is told where no view sees anything.
fn unseen() -> Failure {
    Failure {
        code: Code::InvalidAsset,
        message: "no view shows the mesh: not one pixel lies wholly on it and is opaque".to_owned(),
        hint: "check that mesh and transforms share one coordinate frame, and that alpha is 255 on the object".to_owned(),
    }
}

fn failure(error: BackendError) -> Failure {
    let code = match error {
        BackendError::OutOfMemory(_) => Code::OutOfDeviceMemory,
        BackendError::Lost(_) => Code::GpuDeviceLost,
        BackendError::Shader(_) => Code::ShaderRejected,
        BackendError::Incomplete(_) => Code::IncompleteOutput,
    };
    Failure {
        code,
        message: error.to_string(),
        hint: "try --device cpu".to_owned(),
    }
}

/// 8-bit rounding ends near 59 dB; a view that is explained exactly is given this.
const LARGEST_PSNR: f32 = 100.0;

/// PSNR of a mean square of residuals in sRGB, 0-1. What is no number is as bad as black for white: 0 dB.
fn psnr(mean_square: f64) -> f32 {
    if mean_square.is_nan() {
        return 0.0;
    }
    ((-10.0 * mean_square.log10()) as f32).clamp(0.0, LARGEST_PSNR)
}

/// What is known of so many texels: observed, weakly observed, filled in.
fn shares(counts: [u64; 3]) -> ProvenanceShares {
    let all = counts.iter().sum::<u64>().max(1);
    let [observed, weak, inferred] = counts.map(|count| (count as f64 / all as f64) as f32);
    ProvenanceShares {
        observed,
        weak,
        inferred,
    }
}

fn summary(
    adapter: AdapterInfo,
    fitted: &Fitted,
    texture: &Texture,
    seam_residual: f32,
    peak_vram_kib: u64,
    clock: PhaseClock,
) -> BakeSummary {
    use proto::table::Provenance;
    let count = |of: &[Provenance]| {
        texture
            .provenance
            .iter()
            .filter(|&&value| of.iter().any(|&wanted| value == wanted as u8))
            .count() as u64
    };
    let rows: u64 = fitted.residuals.iter().map(|view| view.rows).sum();
    let squares: f64 = fitted.residuals.iter().map(|view| view.sum_squares).sum();
    let view_fit = |view: &ViewResiduals| ViewFit {
        view: view.view,
        pixels: u32::try_from(view.rows).unwrap_or(u32::MAX),
        psnr_db: if view.rows > 0 {
            psnr(view.sum_squares / view.rows as f64)
        } else {
            0.0
        },
        median_residual: fit::quantile([view], 0.5),
        camera: CameraFate::Given,
        moved_px: 0.0,
        gain: 1.0,
        rejected: None,
    };
    BakeSummary {
        adapter,
        covered_pixels: rows,
        chart_texels: count(&[Provenance::Filled, Provenance::Weak, Provenance::Observed]),
        observed_texels: count(&[Provenance::Weak, Provenance::Observed]),
        filled_texels: count(&[Provenance::Filled]),
        provenance: shares(
            [Provenance::Observed, Provenance::Weak, Provenance::Filled].map(|of| count(&[of])),
        ),
        iterations: fitted.iterations,
        train_psnr_db: psnr(squares / rows.max(1) as f64),
        seam_residual,
        views: fitted.residuals.iter().map(view_fit).collect(),
        refinement: None,
        times: clock.into_times(),
        gpu_times: Vec::new(),
        peak_vram_kib,
        peak_rss_kib: peak_rss_kib(),
    }
}

#[cfg(test)]
mod tests;
