//! A crash folder → the job of it, to be run alone and without falling back.
//!
//! The folder is data, perhaps another's: options and the paths of inputs come from it ([`Kept`]). The program, the sandbox
//! and every place that is written to come from the command line, or are as everywhere.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proto::job::Container;
use proto::message::Code;

use super::args::ReplayArgs;
use super::form;
use super::paths::{baker_path, distinct, read, targets};
use crate::error::JobError;
use crate::host::ladder::Policy;
use crate::input;
use crate::job::{Kept, MapTargets, Spec, crash};
use crate::options::Source;
use crate::output::Target;

/// See the head of this file.
pub(super) fn spec(args: ReplayArgs, name: Arc<str>) -> Result<Spec, Box<JobError>> {
    let bad = |message| {
        let hint = "name a folder that a failed job named";
        JobError::own(Code::MissingInput, message, hint)
    };
    let Kept {
        mut options,
        container,
        rejected,
        report,
        dry_run,
        memory_limit,
        stall_s,
    } = crash::job(&args.folder).map_err(bad)?;
    let (Some(mesh), Some(views)) = (options.mesh.take(), options.views.take()) else {
        return Err(bad("it names no inputs".to_owned()));
    };
    let [(mesh, _), (views, images)] = [mesh, views].map(at);
    let mesh = input::find("the mesh", &mesh)?;
    let original = options.original.take().map(|source| at(source).0);
    let original = super::paths::original(original.as_deref())?;
    let views = input::find_views(&views, images.as_deref())?;
    let folder = args.output.as_ref().unwrap_or(&args.folder);
    let ending = match container {
        Container::Glb => "glb",
        Container::Ply => "ply",
        Container::Obj => "obj",
    };
    let output = folder.join(format!("replayed.{ending}"));
    let (form, beside) = form::place(&options, &output)?;
    let target = |name: &str| Target::anywhere(&folder.join(format!("replayed_{name}")));
    let maps = || {
        Ok::<_, Box<JobError>>(MapTargets {
            coverage: target("coverage.png")?,
            residual: target("residual.png")?,
            provenance: target("provenance.png")?,
        })
    };
    options.fallback = Policy::SamePlan;
    let spec = Spec {
        name,
        mesh,
        views,
        original,
        glb: (!dry_run).then(|| Target::anywhere(&output)).transpose()?,
        form,
        beside: targets(beside)?,
        preview: (options.preview)
            .then(|| target("preview.png"))
            .transpose()?,
        html: (options.html).then(|| target("report.html")).transpose()?,
        maps: options.maps.then(maps).transpose()?,
        rejected: rejected.then(|| folder.clone()),
        report: report.then(|| target("report.json")).transpose()?,
        dry_run,
        options,
        sandbox: !args.host.insecure_no_sandbox,
        memory_limit,
        crash_root: args.host.crash_root(),
        pipelines: args.host.pipelines(),
        stall: stall_s.map(Duration::from_secs_f64),
        baker: baker_path(args.host.baker)?,
        log_filter: "warn,baker=debug".to_owned(),
        threads: None,
    };
    let written: Vec<_> = (spec.outputs())
        .map(|target| target.path().to_path_buf())
        .collect();
    let inputs: Vec<_> = ([&spec.mesh, &spec.views].into_iter())
        .chain(&spec.original)
        .collect();
    distinct(&read(&inputs), &written)?;
    Ok(spec)
}

/// Where an input lies, and its pictures.
fn at(source: Source) -> (PathBuf, Option<PathBuf>) {
    match source {
        Source::Path { path, images } => (path, images),
        // Refused when the folder is read.
        Source::Files { main, .. } => (main.into(), None),
    }
}

#[cfg(test)]
mod tests;
