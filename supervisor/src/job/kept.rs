//! What of a job is data: its options, and where its inputs lie. A crash folder keeps it, and `kiln replay` takes it from there.
//!
//! Such a folder may come from anybody. So nothing here names a program, a sandbox or a place that is written to: there is no
//! field for it, and what has another field is refused.

use std::path::{Path, PathBuf};

use proto::job::Container;
use serde::{Deserialize, Serialize};

use super::Spec;
use crate::input::Input;
use crate::options::{JobOptions, LEAST_MEMORY, MOST_SECONDS, Source};

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Its options, and its inputs by absolute paths.
    pub options: JobOptions,
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

impl Kept {
    /// Of a job.
    pub fn of(spec: &Spec) -> Self {
        Self {
            options: JobOptions {
                name: String::new(),
                mesh: Some(source(&spec.mesh)),
                views: Some(source(&spec.views)),
                original: spec.original.as_ref().map(source),
                arrays: None,
                ..spec.options.clone()
            },
            container: spec.form.container,
            rejected: spec.rejected.is_some(),
            report: spec.report.is_some(),
            dry_run: spec.dry_run,
            memory_limit: spec.memory_limit,
            stall_s: spec.stall.map(|stall| stall.as_secs_f64()),
        }
    }

    /// Checks that every value is in the range that the command line allows.
    ///
    /// # Errors
    /// The first key that is wrong, and why.
    pub fn check(&self) -> Result<(), String> {
        (self.options.check(true)).map_err(|wrong| format!("options.{wrong}"))?;
        let by_path = |source: &Option<Source>| matches!(source, Some(Source::Path { .. }));
        if !by_path(&self.options.mesh) || !by_path(&self.options.views) {
            return Err("options.mesh: mesh and views are named by their paths here".to_owned());
        }
        if self.options.original.is_some() && !by_path(&self.options.original) {
            return Err("options.original: it is named by its path here".to_owned());
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
