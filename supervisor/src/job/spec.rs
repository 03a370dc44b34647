//! A checked job: every path is opened or seen to be writable, every option within its range.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proto::job::{Container, Form, PrepareJob, Quality, Simplify, WarmJob};
use proto::message::Table;
use proto::splats;

use crate::error::JobError;
use crate::host::ladder::Rung;
use crate::input::Input;
use crate::options::JobOptions;
use crate::output::Target;

/// Where the maps of the texture go: all or none.
#[derive(Clone, Debug)]
pub struct MapTargets {
    /// How well each texel is seen.
    pub coverage: Target,
    /// How far the views are from the result.
    pub residual: Target,
    /// What is observed, weak, inferred.
    pub provenance: Target,
}

impl MapTargets {
    /// The pictures' names in a folder.
    pub fn within(folder: &Path) -> [PathBuf; 3] {
        ["coverage.png", "residual.png", "provenance.png"].map(|name| folder.join(name))
    }

    /// Checks each of the places in `folder`, by [`Target::check`] or [`Target::anywhere`].
    ///
    /// # Errors
    /// Those of the check.
    pub fn check(
        folder: &Path,
        check: impl Fn(&Path) -> Result<Target, Box<JobError>>,
    ) -> Result<Self, Box<JobError>> {
        let [coverage, residual, provenance] = Self::within(folder);
        Ok(Self {
            coverage: check(&coverage)?,
            residual: check(&residual)?,
            provenance: check(&provenance)?,
        })
    }
}

/// The picture of what was rejected of a view, in the folder for them.
///
/// # Errors
/// See [`Target::anywhere`].
pub fn rejected(folder: &Path, view: u32) -> Result<Target, Box<JobError>> {
    Target::anywhere(&folder.join(format!("rejected_{view:04}.png")))
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The job's name in logs, and in the events of many jobs at once.
    pub name: Arc<str>,
    /// The mesh.
    pub mesh: Input,
    /// `transforms.json`, or what stands in its place.
    pub views: Input,
    /// The surface that the mesh was simplified from, where it is given.
    pub original: Option<Input>,
    /// The result; a dry run needs none.
    pub glb: Option<Target>,
    /// Its form.
    pub form: Form,
    /// The files beside it, which a PLY or OBJ has.
    pub beside: Vec<(Table, Target)>,
    /// The contact sheet.
    pub preview: Option<Target>,
    /// The report as a page.
    pub html: Option<Target>,
    /// The maps of the texture.
    pub maps: Option<MapTargets>,
    /// The folder for what was rejected of each view.
    pub rejected: Option<PathBuf>,
    /// The report.
    pub report: Option<Target>,
    /// Make nothing, and tell what it would take.
    pub dry_run: bool,
    /// What was asked for. Its sources and `name` are those of a sidecar's job.
    pub options: JobOptions,
    /// Whether workers must be in their sandbox; otherwise they enter none.
    pub sandbox: bool,
    /// Memory of each worker in bytes.
    pub memory_limit: Option<u64>,
    /// Where folders about crashes go; none for nowhere.
    pub crash_root: Option<PathBuf>,
    /// Where what a driver compiled is kept, where the job runs alone; none for nowhere.
    pub pipelines: Option<PathBuf>,
    /// In place of the floor and of every announcement: for tests.
    pub stall: Option<Duration>,
    /// The worker program, by an absolute path.
    pub baker: PathBuf,
    /// What workers log.
    pub log_filter: String,
    /// Threads of each worker; none for as many as there are cores.
    pub threads: Option<usize>,
}

impl Spec {
    /// Every file that it makes.
    pub fn outputs(&self) -> impl Iterator<Item = &Target> {
        let maps = self.maps.as_ref();
        let maps = maps.map(|maps| [&maps.coverage, &maps.residual, &maps.provenance]);
        let more = [&self.preview, &self.html, &self.report];
        let beside = self.beside.iter().map(|(_, target)| target);
        (self.glb.iter())
            .chain(beside)
            .chain(more.into_iter().flatten())
            .chain(maps.into_iter().flatten())
    }

    /// Edge of the atlas that is baked, all pages together.
    pub fn atlas_size(&self) -> u32 {
        self.form.pages.atlas(self.options.texture_size)
    }

    /// What bake can do on a rung before there is data.
    pub fn warm_job(&self, rung: &Rung) -> WarmJob {
        WarmJob {
            device: rung.device.clone(),
            avoid: rung.avoid.clone(),
            nth: rung.nth,
            quality: self.options.quality,
            blend: self.options.blend(&self.views.name),
        }
    }

    /// The part of it that prepare needs.
    pub fn prepare_job(&self) -> PrepareJob {
        let options = &self.options;
        let surface = self.mesh.path == self.views.path && splats::are_in(&self.views.name);
        PrepareJob {
            mesh_file: self.mesh.name.clone(),
            original_file: self.original.as_ref().map(|file| file.name.clone()),
            views_file: self.views.name.clone(),
            texture_size: self.atlas_size(),
            pages: self.form.pages,
            texture_auto: options.texture_auto,
            splats: options.splats(),
            frame: options.frame,
            repair: options.repair(),
            simplify: match (options.simplify(), surface) {
                // The surface of splats is as fine as its voxels.
                (Simplify::Keep, true) => Simplify::TargetFaces(SPLAT_TRIANGLES),
                (simplify, _) => simplify,
            },
            surface,
            keep_uvs: options.keep_uvs,
            uv_set: options.uv_set,
            holdout: options.holdout,
            seed: options.seed,
            quality: options.quality,
            unwrap_deadline_ms: match self.dry_run {
                true => unwrap_deadline(options.quality).min(DRY_RUN_UNWRAP),
                false => unwrap_deadline(options.quality),
            },
            layers: self.form.container == Container::Glb,
            overview: self.dry_run && self.preview.is_some(),
        }
    }
}

/// Triangles of the surface of splats without a mesh, unless others are asked for.
const SPLAT_TRIANGLES: u32 = 30_000;

/// A dry run waits no longer: rows and planes are the same with any atlas, near enough, and only the seams' differ.
const DRY_RUN_UNWRAP: u64 = 5_000;

/// After this, the linear-time fallback makes the atlas. A sane mesh of 100,000 triangles unwraps in less than two seconds;
/// what takes longer is soup, for which waiting brings little.
fn unwrap_deadline(quality: Quality) -> u64 {
    match quality {
        Quality::Draft => 5_000,
        Quality::Standard => 20_000,
        Quality::Best => 90_000,
    }
}
