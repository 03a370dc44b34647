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
use std::time::{Duration, Instant};

use proto::job::{BakeJob, Product, TextureFormat};
use proto::message::{Code, Failure, Phase};
use proto::plan::{BakePlan, BufferBytes, BufferGroup, PhaseSeconds, RowsHeld};
use proto::table::{LayerSet, Surface};

use crate::bake::detail;
use crate::bake::error::failure;
use crate::bake::gpu;
use crate::bake::gpu::dry_run::{Counts, DryRun, Rates, account};
use crate::bake::gpu::pipelines::Pipelines;
use crate::bake::intake::decimate::{Decimation, Decimator, Decision};
use crate::bake::intake::refine;
use crate::bake::intake::surface::Original;
use crate::bake::intake::view_source::{Unwrapped, ViewSource};
use crate::bake::model::row_cache::RowBudget;
use crate::bake::plan::quality::Plan;
use crate::bake::plan::warm::Warm;
use crate::bake::plan::window::Window;
use crate::bake::role::{Views, inputs};
use crate::bake::solve::backend::{BackendError, RowMemory};
use crate::bake::solve::fit::passes;
use crate::bake::solve::fit_context::{Model, ties};
use crate::bake::solve::subdomains::Subdomains;
use crate::bake::solve::{layers, native};
use crate::worker::memory::peak_rss_kib;
use crate::worker::pace;
use crate::worker::progress::{Progress, Stages, each, unit};
use crate::worker::session::Session;
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
    let (surface, splats) = inputs(session, fds)?;
    let Views {
        mut views,
        job,
        drawing_bytes,
    } = Views::new(session, &warm, job, splats)?;
    let mut plan = plan(surface, warm, &job, format, session, &mut views)?;
    let raster = |stage: &&mut PhaseSeconds| stage.phase == Phase::Raster;
    if let (Some(drawn), Some(raster)) = (views.drawn(), plan.seconds.iter_mut().find(raster)) {
        raster.seconds += drawn.ms / 1e3;
    }
    if drawing_bytes > 0 {
        plan.buffers.push(BufferBytes {
            group: BufferGroup::Splats,
            count: 1,
            bytes: drawing_bytes,
        });
        plan.peak_vram_kib += drawing_bytes / 1024;
    }
    Ok(plan)
}

/// Plans the bake of the views that `source` yields.
fn plan(
    surface: Surface,
    warm: Warm,
    job: &BakeJob,
    format: TextureFormat,
    progress: &dyn Progress,
    source: &mut impl ViewSource,
) -> Result<BakePlan, Failure> {
    let compile_ms = warm.stages().map_or(0.0, |(_, ms)| ms);
    let (adapter, numbers) = (warm.adapter(), Plan::new(warm.quality));
    let original = Original::new(surface);
    let Unwrapped {
        mesh,
        texture_size: size,
        ..
    } = source.mesh()?;
    let begun = Instant::now();
    let model = Model::new(&mesh, size, original.frame(), &Stages::new(progress));
    // Never closed: with a broken driver that blocks, and the process frees everything anyway.
    let pipelines = ManuallyDrop::new(warm.into_pipelines()?);
    let pipelines = pipelines.as_ref();
    let driver = pipelines.and_then(|pipelines| account(pipelines.device()));
    let device = pipelines.map(|pipelines| Counting::new(pipelines, &model, job));
    let mut device = device.transpose()?;
    let opened = begun.elapsed().as_secs_f64() + compile_ms / 1e3;

    let (mut sample, sets) = sampled(progress, source)?;
    let texels = model.scene.texels();
    let decimator = Decimator {
        scene: &model.scene,
        atlas: &model.atlas,
        taps: numbers.taps,
        memory: memory(device.as_ref(), job, texels),
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
    let triangles = model.scene.triangles.len();
    progress.expect("the rows of a view", a_view(&sample, triangles, &numbers));
    let original = original.if_other();
    sample.draw(&model.scene, original, numbers.taps, |view| {
        if let Some(device) = &mut device {
            device.run.add_view(view);
        }
    });
    let too_many = matches!(decision, Decision::TooMany(_));
    let mut stored = Stored::of(&sample, device.as_ref(), decimator, job, too_many)?;
    stored.rows.left_out = decision.decimation().map_or(0, Decimation::left_out);
    let Stored { rows, parts, .. } = &stored;
    let textures = 1 + layers::sets(&sets) as u32;
    let detail = detail::forecast(job.detail, original, &model);
    let load = Load {
        views: f64::from(sample.views),
        pixels: sample.pixels as f64,
        rows: rows.rows,
        entries: sample.all_entries(),
        texels: texels as f64,
        parts: parts.as_ref().map_or([1.0; 2], |parts| {
            let visits = parts.windows().map(|(_, share)| share).sum();
            [f64::from(parts.count()) + 1.0, visits]
        }),
        textures: f64::from(textures),
        opened,
        drawn: sample.seconds(),
        slower: sample.slower(triangles, numbers.taps),
        detail: detail.seconds,
    };
    tracing::debug!(?load, rates = ?sample.rates(), "dry run");
    let passes = passes(&numbers, rows.rows);
    Ok(BakePlan {
        seconds: seconds::seconds(&adapter.kind, &numbers, job.refine, format, &load),
        texture_size: size,
        driver,
        budget_kib: device.map(|device| device.run.budget() / 1024),
        rows: *rows,
        sampled_views: sample.drawn,
        passes: passes.average + passes.fit,
        textures,
        bake_rss_kib: (stored.host_bytes(&adapter.kind, &sample, texels) + detail.bytes) / 1024,
        encode_rss_kib: (ENCODE
            + ENCODE_TEXEL * u64::from(textures + detail.layers) * texels as u64)
            / 1024,
        peak_rss_kib: peak_rss_kib(),
        peak_vram_kib: stored.counts.peak / 1024,
        buffers: stored.counts.buffers,
        adapter,
    })
}

/// The masks of all fitted views, and the channels of each.
fn sampled(
    progress: &dyn Progress,
    source: &mut impl ViewSource,
) -> Result<(Sample, Vec<LayerSet>), Failure> {
    let (mut sample, mut sets) = (Sample::default(), Vec::new());
    while let Some((layered, set)) = source.next(LayerSet::default())? {
        progress.progress(Phase::Raster, u64::from(sample.views), 0);
        if !layered.view.holdout {
            sets.push(set);
            sample.add(&layered.view);
        }
    }
    Ok((sample, sets))
}

/// Expected duration of drawing the rows of a view.
fn a_view(sample: &Sample, triangles: usize, numbers: &Plan) -> Duration {
    let pixels = (sample.pixels / u64::from(sample.views.max(1))) as usize;
    let samples = pixels * (numbers.taps as usize).pow(2);
    each(triangles, pace::TRIANGLE) + each(samples, pace::SAMPLE)
}

/// A device whose memory is counted, not allocated.
struct Counting<'a> {
    run: DryRun<'a>,
    model: &'a Model,
    /// The window that it starts with.
    window: Window,
}

impl<'a> Counting<'a> {
    fn new(pipelines: &'a Pipelines, model: &'a Model, job: &BakeJob) -> Result<Self, Failure> {
        let Model { scene, atlas, .. } = model;
        let options = gpu::options(pipelines, scene.size, job);
        let window = gpu::window(pipelines, scene, atlas, &options);
        let (within, ties) = (scene.within(&window), ties(atlas, &window));
        Ok(Self {
            run: DryRun::new(pipelines, &within, &ties, options)?,
            model,
            window,
        })
    }

    /// What a window makes that shows this share of the pixels, where the largest one has `largest` texels.
    fn count(
        &self,
        window: &Window,
        share: f64,
        largest: usize,
        rates: Rates,
    ) -> Result<Counts, Failure> {
        let Model { scene, atlas, .. } = self.model;
        let (scene, ties) = (scene.within(window), ties(atlas, window));
        let part = self.run.part(&scene, &ties, share, largest);
        let counts = part.and_then(|part| part.finish(rates));
        counts.map_err(|error| failure(BackendError::from(error)))
    }

    /// What the window makes that needs the most.
    fn most(&self, parts: &Subdomains, rates: Rates) -> Result<Counts, Failure> {
        let bands = parts.windows().skip(1);
        let largest = bands.map(|(window, _)| window.texels()).max().unwrap_or(0);
        let mut most = Counts::default();
        for (nth, (window, share)) in parts.windows().enumerate() {
            // The pilot fit comes before any window is announced.
            let largest = if nth == 0 { window.texels() } else { largest };
            let part = self.count(window, share, largest, rates)?;
            if most.peak < part.peak {
                most = part;
            }
            unit();
        }
        Ok(most)
    }
}

/// Memory for rows in a window of so many texels.
fn memory(device: Option<&Counting<'_>>, job: &BakeJob, texels: usize) -> RowMemory {
    match device {
        Some(device) => device.run.row_memory(texels),
        None => RowBudget::of(job.memory).memory(),
    }
}

/// Where the rows are stored.
struct Stored {
    rows: RowsHeld,
    /// The subdomains, where the rows do not fit at once.
    parts: Option<Subdomains>,
    /// What a device makes at most.
    counts: Counts,
    /// What the processor stores.
    room: RowBudget,
}

impl Stored {
    /// Decides as the bake does. If there are `too_many` rows, it knows before it has drawn any.
    fn of(
        sample: &Sample,
        device: Option<&Counting<'_>>,
        decimator: Decimator<'_>,
        job: &BakeJob,
        too_many: bool,
    ) -> Result<Self, Failure> {
        let (rates, mut room) = (sample.rates(), RowBudget::of(job.memory));
        let mut rows = processor_rows(sample, &mut room);
        let mut counts = Counts::default();
        let whole = device.is_none_or(|device| device.window.is_whole());
        if let Some(device) = device.filter(|_| whole) {
            let window = &device.window;
            counts = device.count(window, 1.0, window.texels(), rates)?;
            rows = counts.rows;
        }
        let foreseen = !whole || too_many;
        let in_parts = foreseen || rows.kept < rows.rows;
        let least = if foreseen { 1 } else { 2 };
        let memory = |texels| memory(device, job, texels);
        let parts = in_parts.then(|| sample.parts(decimator, memory, least));
        if let Some(parts) = &parts {
            rows.parts = parts.count();
            (rows.kept, rows.views_redrawn) = (rows.rows, 0);
            if let Some(device) = device {
                counts = device.most(parts, rates)?;
            }
        }
        Ok(Self {
            rows,
            parts,
            counts,
            room,
        })
    }

    /// Host memory of the bake in bytes.
    fn host_bytes(&self, kind: &str, sample: &Sample, texels: usize) -> u64 {
        let mut bytes = peak_rss_kib() * 1024;
        if self.parts.is_some() {
            // The host keeps the views, for all subdomains.
            bytes += sample.pixels * 4;
        }
        match kind {
            "native" => {
                let largest = self.parts.as_ref().map_or(1.0, |parts| {
                    parts.windows().map(|(_, share)| share).fold(0.0, f64::max)
                });
                let kept = (self.room.taken() as f64).max(sample.bytes() * largest) as u64;
                let weighed = self.rows.rows * native::WEIGHED_BYTES;
                bytes + native::texture_bytes(texels) + kept + weighed
            }
            "software" => bytes + HOST_TEXEL * texels as u64 + self.counts.peak,
            _ => bytes + HOST_TEXEL * texels as u64,
        }
    }
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
