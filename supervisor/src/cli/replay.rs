//! A crash folder → the job of it, to be run alone and without falling back.
//!
//! The folder is data, perhaps another's: options and the paths of inputs come from it ([`Kept`]). The program, the sandbox
//! and every place that is written to come from the command line, or are as everywhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto::job::{Container, Form};
use proto::message::{Code, Table};

use super::args::ReplayArgs;
use super::{baker_path, distinct, form, read};
use crate::crash;
use crate::error::JobError;
use crate::input;
use crate::job::{Kept, MapTargets, Spec};
use crate::ladder::Policy;
use crate::output::Target;

/// See the head of this file.
pub(super) fn spec(args: ReplayArgs, name: Arc<str>) -> Result<Spec, Box<JobError>> {
    let bad = |message| {
        let hint = "name a folder that a failed job named";
        JobError::own(Code::MissingInput, message, hint)
    };
    let kept = crash::job(&args.folder).map_err(bad)?;
    let (mesh, views, images) =
        (kept.inputs()).ok_or_else(|| bad("it names no inputs".to_owned()))?;
    let mesh = input::find("the mesh", mesh)?;
    let views = input::find_views(views, images)?;
    let folder = args.output.as_ref().unwrap_or(&args.folder);
    let ending = match kept.container {
        Container::Glb => "glb",
        Container::Ply => "ply",
        Container::Obj => "obj",
    };
    let output = folder.join(format!("replayed.{ending}"));
    let wanted = Form {
        container: kept.container,
        ..kept.options.form()
    };
    let provenance = wanted.provenance;
    let (mut form, beside) = form::place(wanted, &output)?;
    form::provenance(&mut form, provenance)?;
    let Outputs {
        preview,
        maps,
        report,
    } = outputs(&kept, folder)?;
    let options = kept.options.clone();
    let check = |(table, path): &(Table, PathBuf)| Ok((*table, Target::check(path)?));
    let beside: Result<Vec<_>, Box<JobError>> = beside.iter().map(check).collect();
    let spec = Spec {
        name,
        glb: (!kept.dry_run)
            .then(|| Target::check(&output))
            .transpose()?,
        form,
        beside: beside?,
        preview,
        maps,
        rejected: kept.rejected.then(|| folder.clone()),
        report,
        dry_run: kept.dry_run,
        texture_size: options.texture_size,
        texture_auto: options.texture_auto,
        product: options.product(),
        repair: options.repair(),
        simplify: options.simplify(),
        keep_uvs: options.keep_uvs,
        uv_set: options.uv_set,
        quality: options.quality,
        blend: options.blend,
        refine: options.refine,
        vram_budget: options.vram_budget,
        gpu_times: options.gpu_times,
        device: options.device(),
        seed: options.seed,
        holdout: options.holdout,
        fallback: Policy::SamePlan,
        sandbox: !args.host.insecure_no_sandbox,
        memory_limit: kept.memory_limit,
        crash_root: args.host.crash_root(),
        pipelines: args.host.pipelines(),
        timeout: options.timeout(),
        stall: kept.stall(),
        baker: baker_path(args.host.baker)?,
        log_filter: "warn,baker=debug".to_owned(),
        threads: None,
        mesh,
        views,
    };
    let written: Vec<_> = (spec.outputs())
        .map(|target| target.path().to_path_buf())
        .collect();
    let written: Vec<_> = written.iter().map(Some).collect();
    distinct(&read(&[&spec.mesh, &spec.views]), &written)?;
    Ok(spec)
}

/// What is made beside the result.
struct Outputs {
    preview: Option<Target>,
    maps: Option<MapTargets>,
    report: Option<Target>,
}

/// As the job had asked for them, under names that are this program's own.
fn outputs(kept: &Kept, folder: &Path) -> Result<Outputs, Box<JobError>> {
    let target = |name: &str| Target::check(&folder.join(format!("replayed_{name}")));
    let maps = || {
        Ok::<_, Box<JobError>>(MapTargets {
            coverage: target("coverage.png")?,
            residual: target("residual.png")?,
            provenance: target("provenance.png")?,
        })
    };
    let preview = kept.options.preview.then(|| target("preview.png"));
    Ok(Outputs {
        preview: preview.transpose()?,
        maps: kept.options.maps.then(maps).transpose()?,
        report: kept.report.then(|| target("report.json")).transpose()?,
    })
}

#[cfg(test)]
mod tests;
