//! Jobs that cannot begin → their reports, as those of jobs that failed later.
//!
//! Where a report belongs is known from the flags alone, and they may be what is wrong: it takes a place that nothing else is
//! named for, and replaces nothing but an older report ([`Report::leave`]).

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args::BakeArgs;
use super::form;
use super::paths::{place, read};
use crate::error::JobError;
use crate::input::{self, Input};
use crate::job::MapTargets;
use crate::output::{Given, Target};
use crate::report::{Options, Report};

/// Leaves the report of each of `jobs` that asked for one: the error is that of them all, since none of a list begins where
/// one cannot.
pub(super) fn leave_reports(jobs: &[BakeArgs], error: &JobError) {
    if jobs.iter().all(|args| args.job.report.is_none()) {
        return;
    }
    let (mut named, mut given) = (HashMap::<PathBuf, u32>::new(), Given::default());
    for args in jobs {
        let inputs = inputs(args);
        for found in inputs.iter().filter_map(|path| fs::metadata(path).ok()) {
            given.add((&found).into());
        }
        for path in inputs.iter().chain(&outputs(args)) {
            *named.entry(place(path)).or_default() += 1;
        }
    }
    let alone = |path: &&PathBuf| named.get(&place(path)) == Some(&1);
    for args in jobs {
        let path = args.job.report.as_ref().filter(alone);
        if let Some(target) = path.and_then(|path| Target::anywhere(path).ok()) {
            report(args, error).leave(&target, &given);
        }
    }
}

/// All that is known of a job that has not begun.
fn report(args: &BakeArgs, error: &JobError) -> Report {
    let path = |path: &Option<PathBuf>| path.clone().unwrap_or_default();
    let mut report = Report::of(Options {
        mesh: path(&args.mesh),
        views: path(&args.views),
        output: path(&args.output),
        ..Options::of(&args.job.told())
    });
    report.close(Duration::ZERO, Some(Box::new(error.clone())));
    report
}

/// The files that it reads, as far as they are found, and as they are named.
fn inputs(args: &BakeArgs) -> Vec<PathBuf> {
    let mesh = args.mesh.as_deref();
    let views = args.views.as_deref();
    let original = args.job.original.as_deref();
    let found = [
        mesh.and_then(|path| input::find("the mesh", path).ok()),
        original.and_then(|path| input::find("the original", path).ok()),
        views.and_then(|path| input::find_views(path, args.job.images.as_deref()).ok()),
    ];
    let found: Vec<&Input> = found.iter().flatten().collect();
    let named = [mesh, views, original]
        .into_iter()
        .flatten()
        .map(Path::to_path_buf);
    named.chain(read(&found)).collect()
}

/// The files that it would make, its report among them.
fn outputs(args: &BakeArgs) -> Vec<PathBuf> {
    let job = &args.job;
    let output = args.output.as_deref();
    let form = output.map(|output| form::place(&job.told(), output));
    let beside = form.and_then(Result::ok).unwrap_or_default().1;
    let maps = job.maps.as_deref().map(MapTargets::within);
    let named = [&args.output, &job.preview, &job.html, &job.report];
    let named = named.into_iter().flatten().cloned();
    named
        .chain(maps.into_iter().flatten())
        .chain(beside.into_iter().map(|(_, path)| path))
        .collect()
}
