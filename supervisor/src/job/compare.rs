//! `kiln compare` as a kind of job: one prepare process gets finished meshes and views, and returns figures and a contact
//! sheet.
//!
//! The process is watched, confined, given files and started again as in a bake, so the exit codes are those of a bake. There
//! is no ladder, since there is no smaller plan.

use std::path::PathBuf;
use std::time::Duration;

use proto::job::{Blend, Up};
use proto::message::{Code, CompareSummary};

use crate::error::JobError;
use crate::input::Input;
use crate::output::Target;
use crate::report::Report;

/// The hint where memory was short.
const MORE_MEMORY: &str = "fewer or smaller views, or one mesh at a time, need less memory";

/// A comparison whose options are checked.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The first mesh.
    pub first: Input,
    /// The second mesh, if there is one.
    pub second: Option<Input>,
    /// The surface that they were simplified from, if normals are compared.
    pub normals_of: Option<Input>,
    /// `transforms.json`, or the file that replaces it.
    pub views: Input,
    /// Where to write the sheet.
    pub picture: Option<Target>,
    /// Colour space in which a pixel's footprint is averaged.
    pub blend: Blend,
    /// What points up in the views.
    pub up: Up,
    /// Whether the worker enters its sandbox.
    pub sandbox: bool,
    /// Bound of the worker's memory, in bytes.
    pub memory_limit: Option<u64>,
    /// Time allowed.
    pub timeout: Duration,
    /// Silence that the worker is allowed.
    pub stall: Option<Duration>,
    /// `kiln-baker`.
    pub baker: PathBuf,
    /// What the worker logs.
    pub log_filter: String,
}

/// The result of a comparison.
#[derive(Debug)]
pub struct Compared {
    /// The figures.
    pub summary: CompareSummary,
    /// The worker's warnings.
    pub warnings: Vec<String>,
}

/// What a comparison's report tells: its figures, or why there are none.
///
/// # Errors
/// The report's own, with a hint that suits a comparison, which makes nothing that could be smaller.
pub fn compared(report: Report) -> Result<Compared, Box<JobError>> {
    if let Some(mut error) = report.error {
        let short = error.code == Code::OutOfHostMemory || error.hint.contains("--texture-size");
        if short {
            error.hint = MORE_MEMORY.to_owned();
        }
        return Err(error);
    }
    let summary = report.compare;
    let summary =
        summary.ok_or_else(|| JobError::own(Code::Internal, "nothing was compared", ""))?;
    let warnings = report.warnings.into_iter();
    Ok(Compared {
        summary,
        warnings: warnings.map(|warning| warning.text).collect(),
    })
}
