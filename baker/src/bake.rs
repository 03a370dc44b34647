//! The bake role: turns a mesh and posed views into a texture, on a GPU or on the processor.
//!
//! | module | input → output |
//! |---|---|
//! | `warm` | what was asked for → an open adapter, before any data comes |
//! | `opening` | that adapter, the views seen so far, the mesh → the adapter of the job |
//! | `plan` | quality → taps, rounds, smoothness |
//! | `scene` | mesh → positions in a ball of radius 1, texel coordinates |
//! | `window` | texture → the part of it that an adapter works on |
//! | `atlas` | scene → triangle of each texel, links to its neighbours on the surface, seams |
//! | `surface` | views → views without the pixels that show other surfaces than the simplified mesh |
//! | `refine` | views → views whose cameras and exposures agree with the mesh and with each other |
//! | `decimate` | masks of all views → decimation: which pixels get no row, for redundancy or lack of memory |
//! | `pixel_mask` | decimation → pixel masks, and views without the masked pixels |
//! | `ahead` | items that worker threads prepare → one consumer, in order |
//! | `raster` | scene, camera → the triangle that each sample hits |
//! | `rows` | the linear model: a pixel is a weighted sum of texels |
//! | `subset` | rows → the subset by which λ is found where there are very many |
//! | `footprint` | samples, picture → rows |
//! | `held` | row cache: views → their rows, stored or built again for each pass |
//! | `backend` | what the fit asks of an adapter: averages, residuals, weights, solutions |
//! | `colour` | bytes ↔ the space of the fit |
//! | `normal` | rows, weights → products with the normal matrix, conjugate gradients |
//! | `multilevel` | residuals → preconditioner on several scales, where links alone hold the texels |
//! | `native`, `gpu` | the backend on the processor, and on a GPU with a shader for each stage |
//! | `pull_push` | texels with weights → a colour for every texel |
//! | `fill` | averaged texels → start values; unseen texels take the colours of surface neighbours |
//! | `fit` | start values → texels that reproduce the views: reweighted least squares over any backend |
//! | `subdomains` | subdomains: fits the texture band by band where the rows do not fit the memory |
//! | `seams` | texels → gutters that continue the charts, both sides of a seam alike at every mip level |
//! | `gutter` | texels → 8 bits, and the provenance of each |
//! | `fit_texture` | views → texels: the steps above that every texture of a job goes through |
//! | `view_source` | view source: the supervisor → views, again on request; textures of channels → the supervisor |
//! | `layers` | views, read again → textures of their other channels, by the same fit |
//! | `rejected` | views, fitted texels → pictures of what the fit rejected of each view |
//! | `maps` | observed weights, residuals → coverage and deviation of each texel |
//! | `vertices` | mesh and views → vertex colours, without a texture |
//! | `dry_run` | mesh and views → forecast of memory and time |

pub mod warm;

mod opening;

pub mod plan;

pub mod scene;

pub mod window;

pub mod atlas;

pub mod surface;

mod refine;

mod decimate;

pub mod pixel_mask;

mod ahead;

pub mod raster;

pub mod rows;

pub mod subset;

pub mod footprint;

mod held;

pub mod backend;

pub mod colour;

mod normal;

mod multilevel;

pub mod native;

pub mod gpu;

pub mod pull_push;

pub mod fill;

pub mod fit;

mod subdomains;

pub mod seams;

pub mod gutter;

mod fit_texture;

mod view_source;

mod layers;

mod maps;

mod rejected;

pub mod vertices;

pub mod dry_run;

#[cfg(test)]
mod fixture;

use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use proto::blob::BlobFile;
use proto::job::{BakeJob, Blend, Product};
use proto::message::{
    AdapterInfo, BakeSummary, CameraFate, Code, Failure, Phase, ProvenanceShares, StageTime, Table,
    ViewFit,
};
use proto::plan::RowsHeld;
use proto::table::{LayerSet, Refined, Surface, Texture, View};
use rayon::prelude::*;

use crate::failure::internal;
use crate::memory::peak_rss_kib;
use crate::pace;
use crate::progress::{PhaseClock, Progress, each, unit};
use crate::session::{Session, take_fds, unchanged};
use crate::step_times::{self, timed};

use atlas::Atlas;
use backend::{Backend, BackendError, ViewResiduals};
use decimate::{Decimation, Decimator};
use fit::Fitted;
use fit_texture::{Early, Fit, FitContext, FittedTexture, Taken};
use opening::{Opening, Ready};
use plan::Plan;
use refine::{Ahead, Refiner};
use rejected::Doubts;
use scene::Scene;
use subdomains::Subdomains;
use surface::Original;
use vertices::Coloured;
pub use view_source::{HandedViews, Unwrapped, ViewSource};
use warm::Warm;

/// Runs the role: receives the tables, bakes, and sends the texture back.
///
/// # Errors
/// A failure with a message and a hint for the user.
pub fn run(
    session: &Session,
    warm: Warm,
    job: &BakeJob,
    fds: Vec<OwnedFd>,
) -> Result<BakeSummary, Failure> {
    let stages = warm.stages();
    let surface = surface(session, fds)?;
    let mut views = HandedViews::new(session);
    let (put, summary, came) = match job.product {
        Product::Texture => {
            let baked = bake(surface, warm, job, session, &mut views)?;
            let Baked {
                texture,
                rejected,
                refined,
                came,
                summary,
            } = baked;
            put_refined(session, refined.as_ref())?;
            for (view, picture) in rejected {
                let unchanged = unchanged(&picture);
                session.put_file(Table::Rejected(view), picture, unchanged)?;
            }
            let put = session.put(Table::Texture, texture.byte_len(), |out| texture.write(out));
            (put, summary, came)
        }
        Product::VertexColours => {
            let blend = warm.blend;
            if job.rejected {
                session.warning(
                    "nothing is drawn of what was rejected: colours of vertices take every pixel",
                );
            }
            // The open adapter is dropped: nothing of this product may depend on it.
            drop(warm);
            let mut layers = LayerSet::default();
            let Unwrapped { mesh, came, .. } = views.mesh()?;
            let next_view = || {
                Ok(views.next(LayerSet::default())?.map(|(layered, set)| {
                    layers = layers.or(set);
                    layered.view
                }))
            };
            let Coloured {
                colours,
                refined,
                summary,
            } = vertices::bake(&mesh, surface, blend, job.refine, session, next_view)?;
            put_refined(session, refined.as_ref())?;
            if !layers.is_empty() {
                session.warning("no channels beside the base colour: colours of vertices have no texture for them");
            }
            let put = session.put(Table::Colours, colours.byte_len(), |out| colours.write(out));
            (put, summary, came)
        }
    };
    put.map_err(|error| internal(&error))?;
    let mut summary = BakeSummary {
        peak_rss_kib: peak_rss_kib(),
        pipeline_cache: stages.map(|(origin, _)| origin),
        from_mesh_ms: came.elapsed().as_secs_f64() * 1e3,
        ..summary
    };
    if let Some((_, ms)) = stages {
        let (stage, count) = ("stages".to_owned(), 1);
        (summary.host_times).insert(0, StageTime { stage, ms, count });
    }
    Ok(summary)
}

/// Sends the refined cameras and exposures, if any differ from what was given.
fn put_refined(session: &Session, refined: Option<&Refined>) -> Result<(), Failure> {
    let Some(refined) = refined else {
        return Ok(());
    };
    session
        .put(Table::Refined, refined.byte_len(), |out| refined.write(out))
        .map_err(|error| internal(&error))
}

/// Reads the surface that the views show.
fn surface(session: &Session, fds: Vec<OwnedFd>) -> Result<Surface, Failure> {
    let [surface] = take_fds(fds)?;
    let surface = BlobFile::open(surface).map_err(|error| internal(&error))?;
    session.expect(
        "reading the surface",
        each(surface.len() as usize, pace::TABLE_BYTE),
    );
    let surface = Surface::read(&mut surface.reader()).map_err(|error| internal(&error))?;
    unit();
    Ok(surface)
}

/// A texture and its report.
#[derive(Clone, Debug)]
pub struct Baked {
    /// The texture.
    pub texture: Texture,
    /// PNG of what the fit rejected, with the view's index; empty unless the job asks for it.
    pub rejected: Vec<(u32, Vec<u8>)>,
    /// Cameras and exposures after refinement; none where all were taken as given.
    pub refined: Option<Refined>,
    /// Time at which the mesh arrived.
    pub came: Instant,
    /// The report.
    pub summary: BakeSummary,
}

/// Bakes all views of a surface that `view_source` yields, and their other channels, onto the mesh that it yields.
///
/// # Errors
/// A failure for the user: no adapter, the adapter's failures, or views that see nothing.
pub fn bake(
    surface: Surface,
    warm: Warm,
    job: &BakeJob,
    progress: &dyn Progress,
    supply: &mut impl ViewSource,
) -> Result<Baked, Failure> {
    let plan = Plan::new(warm.quality);
    let blend = warm.blend;
    let opening = Ready {
        warm,
        plan: &plan,
        job,
    };
    bake_on(opening, surface, &plan, blend, job, progress, supply)
}

/// [`bake`] on the adapter that `opening` gives.
fn bake_on(
    mut opening: impl Opening,
    surface: Surface,
    plan: &Plan,
    blend: Blend,
    job: &BakeJob,
    progress: &dyn Progress,
    supply: &mut impl ViewSource,
) -> Result<Baked, Failure> {
    let mut clock = PhaseClock::default();
    step_times::take();
    let original = Original::new(surface);
    // Pictures of what was rejected need unmasked views; they are masked when they are cut.
    let masked = !job.rejected;
    let mut refiner = Refiner::new(job.refine, job.memory, &original, masked);
    let mut sets: Vec<LayerSet> = Vec::new();
    refiner.look_early(progress, &mut clock, || {
        let next = supply.early()?;
        Ok(next.map(|(view, set)| noted(view, set, &mut sets)))
    })?;
    if supply.all_came() {
        if let Some((views, pixels)) = refiner.opaque_pixels() {
            opening.foresee(views, pixels);
        }
        refiner.settle(progress, &mut clock);
    }
    let Unwrapped {
        mesh,
        texture_size: size,
        came,
    } = supply.mesh()?;
    let mesh = &mesh;

    progress.progress(Phase::OpenDevice, 0, 0);
    let texels = (size as usize).pow(2);
    let step = each(texels, pace::TEXEL) + each(mesh.triangles.len(), pace::TRIANGLE);
    progress.expect("the map of the texture", step);
    let scene = timed("scene", || Scene::framed(mesh, size, original.frame()));
    unit();
    let atlas = timed("atlas", || Atlas::new(&scene));
    unit();
    // Never dropped: a driver that crashes in teardown would take a finished texture with it.
    let (opened, looked) = clock.time(Phase::OpenDevice, || {
        let look = || refiner.look_settled(progress, &scene, &atlas);
        // Runs while the buffers are allocated.
        let beside = || (look(), step_times::take());
        thread::scope(|threads| {
            let builder = thread::Builder::new().name("looks".to_owned());
            let looking = builder.spawn_scoped(threads, beside).ok();
            let opened = timed("buffers", || opening.open(&scene, &atlas));
            let looked = match looking.map(ScopedJoinHandle::join) {
                Some(Ok((looked, steps))) => {
                    step_times::add(steps);
                    looked
                }
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                None => look(),
            };
            (opened, looked)
        })
    });
    let (backend, window) = opened?;
    let mut backend = ManuallyDrop::new(backend);

    let context = FitContext {
        scene: &scene,
        atlas: &atlas,
        original: original.if_other(),
        plan,
        progress,
        step,
    };
    let mut doubts = job.rejected.then(Doubts::default);
    // Views for the subdomains, which the adapter is given one subdomain at a time.
    let mut apart = (!window.is_whole()).then(Vec::new);
    let decimator = Decimator {
        scene: &scene,
        atlas: &atlas,
        taps: plan.taps,
        memory: backend.row_memory(scene.texels()),
    };
    refiner.decimate(decimator, looked);
    progress.progress(refiner.phase(), 0, 0);
    let mut next_view = || {
        let next = supply.next(LayerSet::default())?;
        Ok(next.map(|(layered, set)| noted(layered.view, set, &mut sets)))
    };
    let mut views = 0;
    loop {
        // Drawing rejected pixels needs each view as it is taken in, so views are not taken ahead.
        let ahead = backend.is_apart() && doubts.is_none() && apart.is_none();
        let mut early = Early {
            backend: &mut **backend,
        };
        let ahead = ahead.then_some(&mut early as &mut dyn Ahead);
        let Some((view, taken)) = refiner.next(progress, &mut clock, &mut next_view, ahead)? else {
            break;
        };
        if refiner.too_many() || apart.is_some() {
            apart.get_or_insert_default().push(view);
        } else if backend.overflows() {
            // All views will come again, but what is rejected is drawn on this first copy.
            if doubts.is_some() {
                context.cut(view, masked, refiner.decimation(), doubts.as_mut());
            }
        } else if !taken {
            let decimation = refiner.decimation();
            context.take_in(
                &mut **backend,
                view,
                masked,
                views,
                decimation,
                doubts.as_mut(),
                &mut clock,
            )?;
        }
        views += 1;
    }
    let unforeseen = apart.is_none() && backend.overflows();
    if unforeseen {
        backend.forget().map_err(failure)?;
        apart = Some(again(&refiner, supply)?);
    }
    let apart = apart.map(|views| {
        // Views that came again were kept for the rejected pictures the first time.
        let doubts = doubts.as_mut().filter(|_| !unforeseen);
        let masked = masked && !unforeseen;
        context.cut_all(views, masked, refiner.decimation(), doubts, &mut clock)
    });
    let blocks = |view: &View| {
        let edges = [view.width, view.height].map(|edge| u64::from(edge.div_ceil(backend::BLOCK)));
        edges[0] * edges[1]
    };
    let parts = apart.as_ref().map(|views| {
        backend.await_blocks(views.iter().map(blocks).sum());
        let memory = |texels| backend.row_memory(texels);
        let least = if unforeseen { 2 } else { 1 };
        clock.time(Phase::Raster, || {
            Subdomains::of(&scene, &atlas, plan.taps, memory, least, views)
        })
    });
    let taken = match (&parts, &apart) {
        (Some(parts), Some(views)) => Taken::InParts(parts, views),
        _ => Taken::All,
    };
    let explained = context.explain(
        &mut **backend,
        &taken,
        blend.into(),
        job.maps,
        doubts,
        &mut clock,
    )?;
    clock.time(Phase::Gutter, || timed("views let go", || drop(apart)));
    let FittedTexture {
        fit,
        seam_residual,
        drawn,
        ..
    } = explained;
    let Fit {
        texels,
        observed,
        fitted,
        deviations,
        rows,
        ..
    } = fit;
    if let Some(doubted) = fit_texture::doubted(&fitted) {
        progress.warning(&doubted);
    }
    let mut texture = clock.time(Phase::Gutter, || {
        gutter::finish(&texels, &observed, &atlas, size, blend)
    });
    drop(texels);
    if let Some(deviations) = deviations {
        progress.expect("the maps", step);
        let maps = clock.time(Phase::Gutter, || {
            maps::encode(&texture.provenance, &observed, &deviations)
        });
        texture.maps = Some(maps);
    }
    progress.progress(Phase::Gutter, 1, 1);

    let mut summary = summary(backend.adapter(), &fitted, &texture, seam_residual);
    refiner.enter(&mut summary);
    summary.channels = layers::bake(
        &context,
        &mut **backend,
        &refiner,
        parts.as_ref(),
        &sets,
        blend,
        supply,
        &mut clock,
    )?;
    summary.times = clock.into_times();
    summary.rows = RowsHeld {
        left_out: refiner.decimation().map_or(0, Decimation::left_out),
        ..rows
    };
    summary.peak_vram_kib = backend.peak_memory() / 1024;
    summary.gpu_times = backend.gpu_times().map_err(failure)?;
    summary.driver_vram_kib = backend.driver_memory().map(|bytes| bytes / 1024);
    [summary.uploaded_kib, summary.read_back_kib] = backend.moved().map(|bytes| bytes / 1024);
    summary.host_times = step_times::take();
    let mut rejected = Vec::new();
    for drawn in drawn {
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
        refined: refiner.refined(),
        came,
        summary,
    })
}

/// Notes which channels a view has, unless it is held out.
fn noted(view: View, set: LayerSet, sets: &mut Vec<LayerSet>) -> View {
    if !view.holdout {
        sets.push(set);
    }
    view
}

/// Requests all fitted views again, with the same refinement as the first time.
fn again(refiner: &Refiner<'_>, supply: &mut impl ViewSource) -> Result<Vec<View>, Failure> {
    let mut views = Vec::new();
    supply.again()?;
    while let Some((layered, _)) = supply.next(LayerSet::default())? {
        let mut view = layered.view;
        if !view.holdout {
            refiner.repeat(&mut view);
            views.push(view);
        }
    }
    Ok(views)
}

/// Averages, then fills unobserved texels. Returns the texels and the observed weight of each.
fn start(
    backend: &mut dyn Backend,
    scene: &Scene,
    atlas: &Atlas,
) -> Result<(Vec<[f32; 4]>, Vec<f32>), BackendError> {
    timed("average", || backend.average())?;
    unit();
    let mut texels = timed("read texels", || read_finite(backend))?;
    let observed = texels.par_iter().map(|texel| texel[3]).collect();
    unit();
    timed("fill", || fill::fill(scene, atlas, &mut texels));
    timed("write texels", || backend.write_texels(&texels))?;
    Ok((texels, observed))
}

/// Reads the texels, and fails if any is not finite: NaN would become a colour like any other.
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

/// The failure when no view sees anything.
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

/// dB given to a view that is reproduced exactly; 8-bit rounding ends near 59 dB.
const LARGEST_PSNR: f32 = 100.0;

/// PSNR in dB of a mean squared residual in sRGB, 0-1. NaN is as bad as black for white: 0 dB.
fn psnr(mean_square: f64) -> f32 {
    if mean_square.is_nan() {
        return 0.0;
    }
    ((-10.0 * mean_square.log10()) as f32).clamp(0.0, LARGEST_PSNR)
}

/// Counts the bytes of each kind.
fn counted<const KINDS: usize>(bytes: &[u8], kinds: [u8; KINDS]) -> [u64; KINDS] {
    let of_block =
        |bytes: &[u8]| kinds.map(|kind| bytes.iter().filter(|&&byte| byte == kind).count() as u64);
    let sum = |a: [u64; KINDS], b: [u64; KINDS]| std::array::from_fn(|kind| a[kind] + b[kind]);
    bytes
        .par_chunks(1 << 16)
        .map(of_block)
        .reduce(|| [0; KINDS], sum)
}

/// Turns counts of observed, weakly observed and filled texels into shares.
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
) -> BakeSummary {
    use proto::table::Provenance;
    const KINDS: [Provenance; 3] = [Provenance::Observed, Provenance::Weak, Provenance::Filled];
    let known = counted(&texture.provenance, KINDS.map(|kind| kind as u8));
    let [observed, weak, filled] = known;
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
        chart_texels: observed + weak + filled,
        observed_texels: observed + weak,
        filled_texels: filled,
        provenance: shares(known),
        iterations: fitted.iterations,
        rows: RowsHeld::default(),
        train_psnr_db: psnr(squares / rows.max(1) as f64),
        seam_residual,
        views: fitted.residuals.iter().map(view_fit).collect(),
        refinement: None,
        channels: Vec::new(),
        times: Vec::new(),
        gpu_times: Vec::new(),
        host_times: Vec::new(),
        pipeline_cache: None,
        from_mesh_ms: 0.0,
        peak_vram_kib: 0,
        driver_vram_kib: None,
        uploaded_kib: 0,
        read_back_kib: 0,
        peak_rss_kib: peak_rss_kib(),
    }
}

#[cfg(test)]
mod tests;
