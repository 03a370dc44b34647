//! Forecasts what a job's bake would take, without baking: `kiln bake --dry-run`.
//!
//! | module | input → output |
//! |---|---|
//! | `sample` | some of the views → what a pixel comes to |
//! | `seconds` | rows, texels, passes → seconds of each stage |
//!
//! The adapter is opened and its pipelines are compiled as for the bake, but no buffer is allocated. Mesh and atlas are
//! those of the bake, so what depends on them alone is exact; rows are counted in a sample of the views.

mod sample;
mod seconds;

use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::time::Instant;

use proto::job::{BakeJob, Product, TextureFormat};
use proto::message::{Code, Failure, Phase};
use proto::plan::{BakePlan, RowsHeld};
use proto::table::{LayerSet, Surface};

use super::atlas::Atlas;
use super::backend::BackendError;
use super::decimate::{Decimation, Decimator, Decision};
use super::error::failure;
use super::fit::passes;
use super::fit_context::ties;
use super::gpu::dry_run::{Counts, DryRun, account};
use super::plan::Plan;
use super::role::surface;
use super::row_cache::RowBudget;
use super::scene::Scene;
use super::subdomains::Subdomains;
use super::surface::Original;
use super::view_source::{HandedViews, Unwrapped, ViewSource};
use super::warm::Warm;
use super::window::Window;
use super::{gpu, layers, native, refine};
use crate::memory::peak_rss_kib;
use crate::pace;
use crate::progress::{Progress, each, unit};
use crate::session::Session;
use sample::Sample;
use seconds::Load;

/// Runs the role: receives the tables and the views, and sends no result table.
///
/// # Errors
/// Failures for the user: those of the bake, where the job does not fit its adapter.
pub fn run(
    session: &Session,
    warm: Warm,
    job: &BakeJob,
    format: TextureFormat,
    fds: Vec<OwnedFd>,
) -> Result<BakePlan, Failure> {
    if job.product != Product::Texture {
        return Err(Failure {
            code: Code::InvalidSpec,
            message: "a dry run plans a texture, and colours of vertices were asked for".to_owned(),
            hint: "leave out --vertex-colours, or --dry-run".to_owned(),
        });
    }
    let surface = surface(session, fds)?;
    let mut views = HandedViews::new(session);
    plan(surface, warm, job, format, session, &mut views)
}

/// Plans the bake of the views that `view_source` yields.
fn plan(
    surface: Surface,
    warm: Warm,
    job: &BakeJob,
    format: TextureFormat,
    progress: &dyn Progress,
    supply: &mut impl ViewSource,
) -> Result<BakePlan, Failure> {
    let compile_ms = warm.stages().map_or(0.0, |(_, ms)| ms);
    let (adapter, numbers) = (warm.adapter(), Plan::new(warm.quality));
    let original = Original::new(surface);
    let Unwrapped {
        mesh,
        texture_size: size,
        ..
    } = supply.mesh()?;
    let begun = Instant::now();
    let texels = (size as usize).pow(2);
    progress.progress(Phase::OpenDevice, 0, 0);
    progress.expect(
        "the map of the texture",
        each(texels, pace::TEXEL) + each(mesh.triangles.len(), pace::TRIANGLE),
    );
    let scene = Scene::framed(&mesh, size, original.frame());
    unit();
    let atlas = Atlas::new(&scene);
    unit();
    // Never closed: with a broken driver that blocks, and the process frees everything anyway.
    let pipelines = ManuallyDrop::new(warm.into_pipelines()?);
    let driver = pipelines
        .as_ref()
        .and_then(|pipelines| account(pipelines.device()));
    let options = pipelines
        .as_ref()
        .map(|pipelines| gpu::options(pipelines, size, job));
    let mut window = scene.window.clone();
    let mut device = None;
    if let (Some(pipelines), Some(options)) = (&*pipelines, &options) {
        window = gpu::window(pipelines, &scene, &atlas, options);
        let ties = ties(&atlas, &window);
        device = Some(DryRun::new(
            pipelines,
            &scene.within(&window),
            &ties,
            options,
        )?);
    }
    let opened = begun.elapsed().as_secs_f64() + compile_ms / 1e3;

    let mut sample = Sample::default();
    let mut sets = Vec::new();
    while let Some((layered, set)) = supply.next(LayerSet::default())? {
        progress.progress(Phase::Raster, u64::from(sample.views), 0);
        let view = layered.view;
        if view.holdout {
            continue;
        }
        sets.push(set);
        sample.add(&view);
    }
    let memory = |device: &Option<DryRun>, texels: usize| match device {
        Some(device) => device.row_memory(texels),
        None => RowBudget::of(job.memory).memory(),
    };
    let decimator = Decimator {
        scene: &scene,
        atlas: &atlas,
        taps: numbers.taps,
        memory: memory(&device, texels),
    };
    // Of larger jobs the bake takes the first view in before it knows them all.
    let known = sample.pixels * 4 < refine::held_bytes(job.memory) as u64;
    let decision = match known {
        true => sample.decide(decimator),
        false => Decision::AllFit,
    };
    if let Some(decimation) = decision.decimation() {
        sample.decimate(decimation);
    }
    let pixels = (sample.pixels / u64::from(sample.views.max(1))) as usize;
    progress.expect(
        "the rows of a view",
        each(scene.triangles.len(), pace::TRIANGLE)
            + each(pixels * (numbers.taps as usize).pow(2), pace::SAMPLE),
    );
    sample.draw(&scene, original.if_other(), numbers.taps, |view| {
        if let Some(device) = &mut device {
            device.add_view(view);
        }
    });
    let memory = |texels: usize| memory(&device, texels);
    let slower = sample.slower(scene.triangles.len(), numbers.taps);
    let rates = sample.rates();
    let mut room = RowBudget::of(job.memory);
    let mut rows = processor_rows(&sample, &mut room);
    let count = |window: &Window, share: f64, largest: usize| {
        let (Some(device), Some(pipelines), Some(options)) = (&device, &*pipelines, &options)
        else {
            return Ok(Counts::default());
        };
        let (scene, ties) = (scene.within(window), ties(&atlas, window));
        let part = device.part(pipelines, &scene, &ties, options, share, largest);
        let counts = part.and_then(|part| part.finish(rates));
        counts.map_err(|error| failure(BackendError::from(error)))
    };
    let mut counts = Counts::default();
    if device.is_some() && window.is_whole() {
        counts = count(&window, 1.0, window.texels())?;
        rows = counts.rows;
    }
    let foreseen = !window.is_whole() || matches!(decision, Decision::TooMany(_));
    let in_parts = foreseen || rows.kept < rows.rows;
    let least = if foreseen { 1 } else { 2 };
    let parts = in_parts.then(|| sample.parts(decimator, memory, least));
    if let Some(parts) = &parts {
        rows.parts = parts.count();
        (rows.kept, rows.views_redrawn) = (rows.rows, 0);
    }
    let mut most: Option<Counts> = None;
    for (nth, (window, share)) in parts.iter().flat_map(Subdomains::windows).enumerate() {
        // The pilot fit comes before any window is announced.
        let others = parts.iter().flat_map(Subdomains::windows).skip(1);
        let largest = match nth {
            0 => window.texels(),
            _ => (others.map(|(window, _)| window.texels()).max()).unwrap_or(0),
        };
        let part = count(window, share, largest)?;
        rows.kept -= (part.rows.rows - part.rows.kept).min(rows.kept);
        rows.views_redrawn = rows.views_redrawn.max(part.rows.views_redrawn);
        if most.as_ref().is_none_or(|most| most.peak < part.peak) {
            most = Some(part);
        }
        unit();
    }
    let counts = most.unwrap_or(counts);
    let budget_kib = device.as_ref().map(|device| device.budget() / 1024);
    let mut host_bytes = peak_rss_kib() * 1024;
    // The host keeps the views, for all subdomains.
    host_bytes += if in_parts { sample.pixels * 4 } else { 0 };
    if adapter.kind == "native" {
        let largest = parts.as_ref().map_or(1.0, |parts| {
            parts.windows().map(|(_, share)| share).fold(0.0, f64::max)
        });
        let kept = (room.taken() as f64).max(sample.bytes() * largest) as u64;
        host_bytes += native::texture_bytes(texels) + kept + rows.rows * 4;
    } else {
        host_bytes += HOST_TEXEL * texels as u64;
        if adapter.kind == "software" {
            host_bytes += counts.peak;
        }
    }
    rows.left_out = decision.decimation().map_or(0, Decimation::left_out);
    let textures = 1 + layers::sets(&sets) as u32;
    let load = Load {
        views: f64::from(sample.views),
        pixels: sample.pixels as f64,
        rows: rows.rows,
        entries: sample.all_entries(),
        texels: texels as f64,
        redrawn: 1.0 - rows.kept as f64 / rows.rows.max(1) as f64,
        parts: parts.as_ref().map_or([1.0; 2], |parts| {
            let visits = parts.windows().map(|(_, share)| share).sum();
            [f64::from(parts.count()) + 1.0, visits]
        }),
        textures: f64::from(textures),
        opened,
        drawn: sample.seconds(),
        slower,
    };
    tracing::debug!(?load, rates = ?sample.rates(), "dry run");
    let passes = passes(&numbers, rows.rows);
    Ok(BakePlan {
        seconds: seconds::seconds(&adapter.kind, &numbers, job.refine, format, &load),
        adapter,
        texture_size: size,
        driver,
        budget_kib,
        buffers: counts.buffers,
        peak_vram_kib: counts.peak / 1024,
        rows,
        sampled_views: sample.drawn,
        passes: passes.average + passes.fit,
        textures,
        bake_rss_kib: host_bytes / 1024,
        encode_rss_kib: (ENCODE + ENCODE_TEXEL * u64::from(textures) * texels as u64) / 1024,
        peak_rss_kib: peak_rss_kib(),
    })
}

/// Host memory for each texel while a device bakes: what the processor reads, fills and mends.
const HOST_TEXEL: u64 = 130;

/// Memory of encode: fixed, and for each texel.
const ENCODE: u64 = 14 << 20;
const ENCODE_TEXEL: u64 = 25;

/// What the processor stores of the rows.
fn processor_rows(sample: &Sample, room: &mut RowBudget) -> RowsHeld {
    let mut held = RowsHeld {
        views: sample.views,
        ..RowsHeld::default()
    };
    for (rows, bytes) in sample.kept() {
        held.rows += rows;
        match room.take(bytes) {
            true => held.kept += rows,
            false => held.views_redrawn += 1,
        }
    }
    held
}

#[cfg(test)]
mod tests;
