//! What of a job is data: its options, and where its inputs lie. A crash folder keeps it, and `kiln replay` takes it from there.
//!
//! Such a folder may come from anybody. So nothing here names a program, a sandbox or a place that is written to: there is no
//! field for it, and what has another field is refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use proto::job::{Container, Device, Form, Product, Repair, Simplify};
use serde::{Deserialize, Serialize};

use super::Spec;
use crate::cli::{LEAST_MEMORY, MOST_SECONDS};
use crate::input::Input;
use crate::serve::spec::{JobSpec, Source};

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Its options, and its inputs by absolute paths.
    pub options: JobSpec,
    /// The kind of the result.
    pub container: Container,
    /// Pictures are made of what was rejected of each view.
    pub rejected: bool,
    /// A report is left.
    pub report: bool,
    /// Nothing is made.
    pub dry_run: bool,
    /// Memory of each worker in bytes.
    pub memory_limit: Option<u64>,
    /// Silence that a worker is allowed, in seconds.
    pub stall_s: Option<f64>,
}

/// Where the inputs lie: the mesh, the views, and the pictures of a model of COLMAP.
pub type Inputs<'a> = (&'a Path, &'a Path, Option<&'a Path>);

impl Kept {
    /// Of a job.
    #[must_use]
    pub fn of(spec: &Spec) -> Self {
        // Without "..": a new option must find its place here.
        let Spec {
            name: _,
            mesh,
            views,
            glb: _,
            form,
            beside: _,
            preview,
            maps,
            rejected,
            report,
            dry_run,
            texture_size,
            texture_auto,
            product,
            repair,
            simplify,
            keep_uvs,
            uv_set,
            quality,
            blend,
            refine,
            vram_budget,
            gpu_times,
            device,
            seed,
            holdout,
            fallback,
            sandbox: _,
            memory_limit,
            crash_root: _,
            pipelines: _,
            timeout,
            stall,
            baker: _,
            log_filter: _,
            threads: _,
        } = spec;
        let Form {
            container,
            texture,
            quality: texture_quality,
            compress,
            provenance,
            pages,
            stem: _,
            alpha,
            alpha_cutoff,
        } = form;
        let Repair {
            weld,
            orient,
            remove_unseen,
            fill_holes,
            hole_edges,
            up,
        } = repair;
        let (target_faces, simplify) = match simplify {
            Simplify::Keep => (None, None),
            Simplify::TargetFaces(count) => (Some(*count), None),
            Simplify::RemoveShare(share) => (None, Some(f64::from(*share))),
        };
        let options = JobSpec {
            name: String::new(),
            mesh: Some(source(mesh)),
            views: Some(source(views)),
            arrays: None,
            texture_size: *texture_size,
            texture_auto: *texture_auto,
            pages: pages.count(),
            target_faces,
            simplify,
            remove_unseen: *remove_unseen,
            fill_holes: fill_holes.map(f64::from),
            hole_edges: *hole_edges,
            weld: weld.map(f64::from),
            orient: *orient,
            up: *up,
            keep_uvs: *keep_uvs,
            texture_format: *texture,
            texture_quality: (texture.has_quality()).then_some(u32::from(*texture_quality)),
            compress: *compress,
            vertex_colours: *product == Product::VertexColours,
            provenance_attribute: *provenance,
            alpha_mode: *alpha,
            alpha_cutoff: f64::from(*alpha_cutoff),
            uv_set: *uv_set,
            quality: *quality,
            blend: *blend,
            refine: *refine,
            device: match device {
                Device::Auto => "auto".to_owned(),
                Device::Gpu => "gpu".to_owned(),
                Device::Cpu => "cpu".to_owned(),
                Device::Name(name) => name.clone(),
            },
            holdout: *holdout,
            seed: *seed,
            vram_budget: *vram_budget,
            gpu_times: *gpu_times,
            fallback: *fallback,
            timeout_s: timeout.as_secs_f64(),
            preview: preview.is_some(),
            maps: maps.is_some(),
        };
        Self {
            options,
            container: *container,
            rejected: rejected.is_some(),
            report: report.is_some(),
            dry_run: *dry_run,
            memory_limit: *memory_limit,
            stall_s: stall.map(|stall| stall.as_secs_f64()),
        }
    }

    /// Checks that every value is in the range that the command line allows.
    ///
    /// # Errors
    /// The first key that is wrong, and why.
    pub fn check(&self) -> Result<(), String> {
        self.options.check(true).map_err(|problem| {
            let field = problem.field.unwrap_or_default();
            format!("options.{field}: {}", problem.detail)
        })?;
        if self.inputs().is_none() {
            return Err("options.mesh: mesh and views are named by their paths here".to_owned());
        }
        if self.memory_limit.is_some_and(|bytes| bytes < LEAST_MEMORY) {
            return Err(format!("memory_limit: must be at least {LEAST_MEMORY}"));
        }
        let range = |seconds: f64| seconds > 0.0 && seconds <= MOST_SECONDS;
        if !self.stall_s.is_none_or(range) {
            return Err(format!(
                "stall_s: must be above 0, and {MOST_SECONDS} at most"
            ));
        }
        Ok(())
    }

    /// Where its inputs lie.
    #[must_use]
    pub fn inputs(&self) -> Option<Inputs<'_>> {
        match (&self.options.mesh, &self.options.views) {
            (
                Some(Source::Path { path: mesh, .. }),
                Some(Source::Path {
                    path: views,
                    images,
                }),
            ) => Some((mesh, views, images.as_deref())),
            _ => None,
        }
    }

    /// Silence that a worker is allowed.
    #[must_use]
    pub fn stall(&self) -> Option<Duration> {
        self.stall_s.map(Duration::from_secs_f64)
    }
}

fn source(input: &Input) -> Source {
    // JSON is text: a name that is none is shown, and not found again.
    let absolute = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_else(|_gone| path.to_path_buf());
        PathBuf::from(path.to_string_lossy().into_owned())
    };
    Source::Path {
        path: absolute(&input.path),
        images: (input.pictures.as_ref()).map(|pictures| absolute(&pictures.path)),
    }
}
