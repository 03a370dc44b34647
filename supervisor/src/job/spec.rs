//! A checked job: every path is opened or seen to be writable, every option within its range.

use std::path::PathBuf;
use std::time::Duration;

use proto::job::{Blend, Device, PrepareJob, Quality, Simplify};

use crate::input::Input;
use crate::output::Target;

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The mesh.
    pub mesh: Input,
    /// `transforms.json`.
    pub views: Input,
    /// The result.
    pub glb: Target,
    /// The contact sheet.
    pub preview: Option<Target>,
    /// The report.
    pub report: Option<Target>,
    /// Edge of the texture in texels.
    pub texture_size: u32,
    /// Triangles to keep.
    pub simplify: Simplify,
    /// Use the mesh's own texture coordinates.
    pub keep_uvs: bool,
    /// Work put into the fit.
    pub quality: Quality,
    /// Space of the footprint's average.
    pub blend: Blend,
    /// Adapter.
    pub device: Device,
    /// Chooses the held-out views.
    pub seed: u64,
    /// Views kept out of the fit.
    pub holdout: u32,
    /// For the whole job.
    pub timeout: Duration,
    /// In place of each role's own limit: for tests.
    pub stall: Option<Duration>,
    /// The worker program, by an absolute path.
    pub baker: PathBuf,
    /// What workers log.
    pub log_filter: String,
}

impl Spec {
    /// The part of it that prepare needs.
    #[must_use]
    pub fn prepare_job(&self) -> PrepareJob {
        PrepareJob {
            mesh_file: self.mesh.name.clone(),
            views_file: self.views.name.clone(),
            texture_size: self.texture_size,
            simplify: self.simplify,
            keep_uvs: self.keep_uvs,
            holdout: self.holdout,
            seed: self.seed,
            unwrap_deadline_ms: unwrap_deadline(self.quality),
        }
    }
}

/// After this, the linear-time fallback makes the atlas. A sane mesh of 100,000 triangles unwraps in about two seconds;
/// what takes longer is soup, for which waiting brings little.
fn unwrap_deadline(quality: Quality) -> u64 {
    match quality {
        Quality::Draft => 5_000,
        Quality::Standard => 20_000,
        Quality::Best => 90_000,
    }
}
