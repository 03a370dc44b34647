//! What happened in a job, as `report.json` (`"schema": 1`) and as closing lines for people.
//!
//! The fields below are the schema. A field may be added without a new number; none is renamed or removed. Times are
//! wall time in milliseconds, memory is in KiB, PSNR in dB over sRGB values. A number that does not exist is `null`.

mod html;
mod plan;
mod summary;

use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use proto::exit::DATAERR;
use proto::job::{
    AlphaMode, Blend, Compress, Device, Product, Quality, Refine, Repair, Simplify, TextureFormat,
};
use proto::limits::MAX_TEXT_BYTES;
use proto::message::{
    AdapterInfo, BakeSummary, Code, CompareSummary, Done, EncodeSummary, PhaseTime, PrepareSummary,
    Role,
};
use proto::pages::Pages;
use proto::plan::BakePlan;
use proto::sandbox::Sandbox;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::error::{Attempt, JobError};
use crate::host::ladder::{Policy, Step};
use crate::job::Spec;
use crate::output::{self, Given, Target};
use crate::words::{self, printable};

/// Number of the schema.
const SCHEMA: u32 = 1;
/// Every report begins with this, whatever its schema.
const HEAD: &[u8] = b"{\n  \"schema\": ";

/// Everything about one job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Number of this schema.
    pub schema: u32,
    /// Version and build of `kiln`.
    pub kiln: Cow<'static, str>,
    /// `done` or `failed`.
    pub outcome: Cow<'static, str>,
    /// What was asked for.
    pub options: Options,
    /// From the start until the results were in place.
    pub ms: f64,
    /// The adapter that baked; with `--device auto` it may be a fallback.
    pub device: Option<AdapterInfo>,
    /// How well the texture reproduces the views.
    pub psnr: Psnr,
    /// Memory.
    pub peak: Peak,
    /// Wall time of each role, from the start of the process whose work counted to its result.
    pub roles: Vec<RoleTime>,
    /// Wall time of each phase. Roles overlap, and so may phases.
    pub stages: Vec<Stage>,
    /// What retried bakes did differently, in order; empty if the first one succeeded.
    pub ladder: Vec<Step>,
    /// `texture`, or `vertex_colours` if no texture was possible and the caller allowed them.
    pub product: Product,
    /// What each role's latest process gave up before it got data; `off` with `--insecure-no-sandbox`.
    pub sandbox: Vec<Confinement>,
    /// Every process that ran, and how it ended.
    pub attempts: Vec<Attempt>,
    /// What the user should know.
    pub warnings: Vec<Warning>,
    /// Number of further warnings that were not kept.
    pub warnings_dropped: u64,
    /// The files made, except this one.
    pub files: Vec<FileEntry>,
    /// What prepare found in the input, and what it did with it.
    pub prepare: Option<PrepareSummary>,
    /// What the fit did, and how well it reproduces each view.
    pub bake: Option<BakeSummary>,
    /// The plan of `--dry-run`: the adapter and its memory, bytes of each group of buffers, rows, subdomains of the
    /// texture that are fitted one after the other, and resident memory and seconds of the bake that it stands for.
    /// `null` in other jobs, which have `bake` and `encode` instead.
    #[serde(default)]
    pub plan: Option<BakePlan>,
    /// Sizes, and how well the finished texture reproduces the held-out views.
    pub encode: Option<EncodeSummary>,
    /// The figures of a comparison, which is shown and not written.
    #[serde(skip)]
    pub compare: Option<CompareSummary>,
    /// Why the job failed; `null` otherwise.
    pub error: Option<Box<JobError>>,
}

/// The options of the job, with defaults filled in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Options {
    /// Path as given.
    #[serde(serialize_with = "path")]
    pub mesh: PathBuf,
    /// Path as given.
    #[serde(serialize_with = "path")]
    pub views: PathBuf,
    /// Path as given; empty for a dry run without one.
    #[serde(serialize_with = "path")]
    pub output: PathBuf,
    /// Edge of the texture, or of each of its pages, in texels.
    pub texture_size: u32,
    /// Pages that the atlas is cut into.
    #[serde(default)]
    pub pages: Pages,
    /// Requested repairs of the mesh.
    #[serde(default)]
    pub repair: Repair,
    /// `"keep"`, `{"target_faces": n}` or `{"remove_share": r}`.
    pub simplify: Simplify,
    /// The mesh's own texture coordinates were requested.
    pub keep_uvs: bool,
    /// `draft`, `standard` or `best`.
    pub quality: Quality,
    /// `linear` or `srgb`.
    pub blend: Blend,
    /// `off`, `auto` or `on`.
    #[serde(default)]
    pub refine: Refine,
    /// `auto`, `gpu`, `cpu` or `{"name": text}`.
    pub device: Device,
    /// Seed that chooses the held-out views.
    pub seed: u64,
    /// Number of views kept out of the fit.
    pub holdout: u32,
    /// How far up the ladder a failed bake may climb.
    pub fallback: Policy,
    /// Time allowed.
    pub timeout_ms: f64,
    /// `png`, `jpeg`, `webp`, `ktx2-etc1s` or `ktx2-uastc`.
    #[serde(default)]
    pub texture_format: TextureFormat,
    /// `none` or `meshopt`.
    #[serde(default)]
    pub compress: Compress,
    /// `auto`, `opaque`, `mask` or `blend`.
    #[serde(default)]
    pub alpha_mode: AlphaMode,
}

/// PSNR in dB.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Psnr {
    /// Over all pixels of the fit, before the texture is rounded to 8 bits. `null` with vertex colours, which are no
    /// fit.
    pub train_db: Option<f32>,
    /// Mean over the held-out views, with the finished texture.
    pub holdout_db: Option<f32>,
}

/// Peak memory in KiB.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Peak {
    /// Resident memory of prepare.
    pub prepare_rss_kib: Option<u64>,
    /// Resident memory of bake, without the adapter's own.
    pub bake_rss_kib: Option<u64>,
    /// Resident memory of encode.
    pub encode_rss_kib: Option<u64>,
    /// GPU buffers and textures alive at once; 0 without a GPU.
    pub vram_kib: Option<u64>,
}

/// Wall time of one role.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RoleTime {
    /// The role.
    pub role: Role,
    /// Its time.
    pub ms: f64,
}

/// Wall time of one phase of a role.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Stage {
    /// Whose phase.
    pub role: Role,
    /// The phase and its time.
    #[serde(flatten)]
    pub time: PhaseTime,
}

/// A role's sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Confinement {
    /// The role.
    pub role: Role,
    /// What its process reported and the kernel confirmed.
    #[serde(flatten)]
    pub sandbox: Sandbox,
}

/// One warning to the user.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Warning {
    /// Which role warns.
    pub role: Role,
    /// The warning.
    pub text: String,
}

/// A file that was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileEntry {
    /// `glb`, `preview`, `html`, `coverage`, `residual`, `provenance`, or `rejected` for a folder.
    pub kind: Cow<'static, str>,
    /// Path as given.
    #[serde(serialize_with = "path")]
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

/// JSON is UTF-8, but a path need not be: other bytes become U+FFFD.
fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Whether overwriting the file loses nothing: it is absent, empty or a report.
fn replaceable(path: &Path) -> bool {
    let mut head = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(HEAD.len() as u64).read_to_end(&mut head));
    match read {
        Ok(_) => head.is_empty() || head == HEAD,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

impl Options {
    /// The options of a request, without its paths.
    pub fn of(options: &crate::options::JobOptions) -> Self {
        Self {
            mesh: PathBuf::new(),
            views: PathBuf::new(),
            output: PathBuf::new(),
            texture_size: options.texture_size,
            pages: options.pages(),
            repair: options.repair(),
            simplify: options.simplify(),
            keep_uvs: options.keep_uvs,
            quality: options.quality,
            blend: options.blend(""),
            refine: options.refine,
            device: options.device(),
            seed: options.seed,
            holdout: options.holdout,
            fallback: options.fallback,
            timeout_ms: options.timeout_s * 1e3,
            texture_format: options.texture_format,
            compress: options.compress,
            alpha_mode: options.alpha_mode,
        }
    }
}

impl Report {
    /// The report of a job that has not begun.
    pub fn new(spec: &Spec) -> Self {
        Self::of(Options {
            mesh: spec.mesh.path.clone(),
            views: spec.views.path.clone(),
            output: (spec.glb.as_ref()).map_or_else(PathBuf::new, |glb| glb.path().to_path_buf()),
            blend: spec.options.blend(&spec.views.name),
            refine: spec.options.refine(&spec.views.name),
            ..Options::of(&spec.options)
        })
    }

    /// The report of a job with these options that has not begun.
    pub fn of(options: Options) -> Self {
        Self {
            schema: SCHEMA,
            kiln: proto::BUILD_ID.into(),
            outcome: "failed".into(),
            options,
            ms: 0.0,
            device: None,
            psnr: Psnr::default(),
            peak: Peak::default(),
            roles: Vec::new(),
            stages: Vec::new(),
            ladder: Vec::new(),
            product: Product::Texture,
            sandbox: Vec::new(),
            attempts: Vec::new(),
            warnings: Vec::new(),
            warnings_dropped: 0,
            files: Vec::new(),
            prepare: None,
            bake: None,
            plan: None,
            encode: None,
            compare: None,
            error: None,
        }
    }

    /// Reads a report that another process wrote as JSON; `None` if its schema differs. A section with a number that
    /// JSON cannot express (an infinite PSNR reads `null`) is left out.
    pub fn read(mut json: Value) -> Option<Self> {
        fn keep<T: for<'de> Deserialize<'de>>(section: &mut Value) {
            if T::deserialize(&*section).is_err() {
                *section = Value::Null;
            }
        }
        let sections = json.as_object_mut()?;
        for (name, section) in sections {
            match name.as_str() {
                "prepare" => keep::<PrepareSummary>(section),
                "bake" => keep::<BakeSummary>(section),
                "plan" => keep::<BakePlan>(section),
                "encode" => keep::<EncodeSummary>(section),
                _ => {}
            }
        }
        let report: Self = serde_json::from_value(json).ok()?;
        (report.schema == SCHEMA).then_some(report)
    }

    /// Adds a warning.
    pub fn warning(&mut self, role: Role, text: String) {
        self.warnings.push(Warning { role, text });
    }

    /// Records what a process gave up, in place of its predecessor's record.
    pub fn confined(&mut self, role: Role, sandbox: Sandbox) {
        self.sandbox.retain(|known| known.role != role);
        self.sandbox.push(Confinement { role, sandbox });
    }

    /// Records a role's summary. A retried role replaces its predecessor's.
    pub fn role_done(&mut self, done: Done, time: Duration) {
        let (role, times) = match &done {
            Done::Prepare(summary) => (Role::Prepare, &summary.times),
            Done::Bake(summary) => (Role::Bake, &summary.times),
            Done::Encode(summary) => (Role::Encode, &summary.times),
            Done::Compare(summary) => (Role::Prepare, &summary.times),
            Done::Plan(_) => (Role::Bake, &Vec::new()),
        };
        self.roles.retain(|entry| entry.role != role);
        self.stages.retain(|entry| entry.role != role);
        self.roles.push(RoleTime {
            role,
            ms: time.as_secs_f64() * 1e3,
        });
        self.stages
            .extend(times.iter().map(|&time| Stage { role, time }));
        match done {
            Done::Prepare(summary) => {
                self.peak.prepare_rss_kib = Some(summary.peak_rss_kib);
                self.prepare = Some(summary);
            }
            Done::Bake(mut summary) => {
                summary.adapter = words::adapter(summary.adapter);
                self.peak.bake_rss_kib = Some(summary.peak_rss_kib);
                self.peak.vram_kib = Some(summary.peak_vram_kib);
                self.psnr.train_db = Some(summary.train_psnr_db);
                self.device = Some(summary.adapter.clone());
                self.bake = Some(summary);
            }
            Done::Plan(mut plan) => {
                plan.adapter = words::adapter(plan.adapter);
                self.peak.bake_rss_kib = Some(plan.peak_rss_kib);
                self.device = Some(plan.adapter.clone());
                self.plan = Some(plan);
            }
            Done::Encode(summary) => {
                self.peak.encode_rss_kib = Some(summary.peak_rss_kib);
                self.psnr.holdout_db = summary.holdout_psnr_db;
                self.encode = Some(summary);
            }
            Done::Compare(summary) => self.compare = Some(summary),
        }
    }

    /// Records what bake made. Vertex colours are no fit, so they have no PSNR.
    pub fn made(&mut self, product: Product) {
        self.product = product;
        if product == Product::VertexColours {
            self.psnr.train_db = None;
        }
    }

    /// Records how the job ended.
    pub fn close(&mut self, time: Duration, error: Option<Box<JobError>>) {
        self.ms = time.as_secs_f64() * 1e3;
        self.outcome = if error.is_none() { "done" } else { "failed" }.into();
        self.error = error.map(|mut error| {
            error.attempts.clone_from(&self.attempts);
            // Prepare names the file at fault. Later roles get no names: what they refuse is the pair of inputs.
            if error.exit_code == DATAERR && matches!(error.role, Some(Role::Bake | Role::Encode)) {
                let pair = [&self.options.mesh, &self.options.views].map(|path| {
                    let name = path.file_name().unwrap_or_default();
                    printable(&name.to_string_lossy(), MAX_TEXT_BYTES)
                });
                error.message = format!("{} with {}: {}", pair[0], pair[1], error.message);
            }
            error
        });
        if self.error.is_some() {
            self.files.clear();
        }
    }

    /// Writes the report of a failed job, unless that would overwrite something other than an older report. The job may
    /// not have learnt which files are its inputs. Best effort: the failure itself is reported anyway.
    pub fn leave(&self, target: &Target, given: &Given) {
        if let Err(error) = self.put(target, given) {
            tracing::warn!("{}", error.message);
        }
    }

    fn put(&self, target: &Target, given: &Given) -> Result<(), Box<JobError>> {
        if !replaceable(target.path()) {
            let message = format!(
                "{} is no report: that of the failed job does not take its place",
                target.path().display()
            );
            return Err(JobError::own(Code::OutputError, message, ""));
        }
        let staged = target.stage(&mut self.to_json().as_slice())?;
        output::commit([staged], given)
    }

    /// The report as bytes of a JSON file.
    pub fn to_json(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_else(|error| {
            tracing::error!(%error, "the report cannot be written as JSON");
            b"{}".to_vec()
        });
        bytes.push(b'\n');
        bytes
    }
}
