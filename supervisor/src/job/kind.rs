//! The kinds of job: what each starts its processes with, may be asked for by them, and leaves behind.
//!
//! The engine in [`super`] runs all of them alike: a process for each role, retries, deadlines, staged files.

use std::sync::Arc;
use std::time::Duration;

use proto::job::{BakeJob, CompareJob, Device, EncodeJob, Product};
use proto::message::{PrepareSummary, Role, Root, Start, Table};

use super::compare::Comparison;
use super::spec::Spec;
use crate::event::{Event, Listener};
use crate::host::ladder::{Policy, Rung};
use crate::input::Input;
use crate::job::life::Life;
use crate::output::{Given, Target};
use crate::process::child::Launcher;
use crate::process::dispatcher::{Assignment, shown_views};
use crate::process::table_store::TableStore;
use crate::report::{Options, Report};

/// What a job is to do.
#[derive(Clone, Copy, Debug)]
pub enum Kind<'a> {
    /// A mesh and views into a textured mesh; or what that would take, for a dry run.
    Bake(&'a Spec),
    /// Finished meshes and views into figures.
    Compare(&'a Comparison),
}

impl<'a> Kind<'a> {
    /// The job's name in logs, and at the gate.
    pub(super) fn name(self) -> Arc<str> {
        match self {
            Self::Bake(spec) => Arc::clone(&spec.name),
            Self::Compare(_) => "compare".into(),
        }
    }

    /// How its processes are started, with this bound of the address space of those that use no driver.
    pub(super) fn launcher(self, address_space: Option<u64>) -> Launcher<'a> {
        let (program, log_filter, threads) = match self {
            Self::Bake(spec) => (&spec.baker, &spec.log_filter, spec.threads),
            Self::Compare(spec) => (&spec.baker, &spec.log_filter, None),
        };
        Launcher {
            program,
            log_filter,
            threads,
            sandbox: self.sandbox(),
            address_space,
            job: self.name(),
        }
    }

    /// Whether its workers must be in their sandbox.
    pub(super) fn sandbox(self) -> bool {
        match self {
            Self::Bake(spec) => spec.sandbox,
            Self::Compare(spec) => spec.sandbox,
        }
    }

    /// Time for the whole job.
    pub(super) fn timeout(self) -> Duration {
        match self {
            Self::Bake(spec) => spec.options.timeout(),
            Self::Compare(spec) => spec.timeout,
        }
    }

    /// Silence that a worker is allowed, if it is not what is usual.
    pub(super) fn silence(self) -> Option<Duration> {
        match self {
            Self::Bake(spec) => spec.stall,
            Self::Compare(spec) => spec.stall,
        }
    }

    /// Bound of each worker's memory in bytes.
    pub fn memory_limit(self) -> Option<u64> {
        match self {
            Self::Bake(spec) => spec.memory_limit,
            Self::Compare(spec) => spec.memory_limit,
        }
    }

    /// Its state before it begins.
    pub(super) fn life(self) -> Life {
        match self {
            Self::Bake(spec) => {
                let rung = Rung {
                    device: match spec.options.product() {
                        Product::Texture => spec.options.device(),
                        // The processor makes vertex colours, so no adapter is opened.
                        Product::VertexColours => Device::Cpu,
                    },
                    product: spec.options.product(),
                    ..Rung::default()
                };
                let last = match spec.dry_run {
                    true => Role::Bake,
                    false => Role::Encode,
                };
                Life::new(rung, spec.options.fallback).until(last)
            }
            Self::Compare(_) => Life::new(Rung::default(), Policy::default()).until(Role::Prepare),
        }
    }

    /// The store of its tables, empty.
    pub(super) fn tables(self) -> TableStore {
        match self {
            Self::Bake(spec) => TableStore::new(spec.atlas_size())
                .with_maps(spec.maps.is_some())
                .with_detail(spec.options.detail)
                .with_html(spec.html.is_some())
                .with_rejected(spec.rejected.is_some())
                .with_dry_run(spec.dry_run)
                .with_container(spec.form.container, spec.form.pages),
            Self::Compare(spec) => TableStore::of_comparison(
                1 + usize::from(spec.second.is_some()),
                spec.picture.is_some(),
            ),
        }
    }

    /// What a process of `role` is for: a bake works on this rung, and an encode with these tables, of the mesh that
    /// prepare has summed up.
    pub fn assignment(
        self,
        role: Role,
        rung: &Rung,
        tables: &TableStore,
        prepared: Option<&PrepareSummary>,
    ) -> Assignment {
        match (self, role) {
            (Self::Compare(spec), _) => Assignment::Prepare(Start::Compare(compare_job(spec))),
            (Self::Bake(spec), Role::Prepare) => {
                Assignment::Prepare(Start::Prepare(spec.prepare_job()))
            }
            (Self::Bake(spec), Role::Bake) => {
                Assignment::Bake(spec.warm_job(rung), Some(bake_job(spec, rung)))
            }
            (Self::Bake(spec), Role::Encode) => {
                Assignment::Encode(encode_job(spec, tables, prepared))
            }
        }
    }

    /// The input beneath which prepare may ask for files.
    pub(super) fn input(self, root: Root) -> Option<&'a Input> {
        match (self, root) {
            (Self::Bake(spec), Root::Mesh) => Some(&spec.mesh),
            (Self::Bake(spec), Root::Original) => spec.original.as_ref(),
            (Self::Bake(_), Root::Second) => None,
            (Self::Bake(spec), Root::Views | Root::Pictures | Root::Masks) => Some(&spec.views),
            (Self::Compare(spec), Root::Mesh) => Some(&spec.first),
            (Self::Compare(spec), Root::Second) => spec.second.as_ref(),
            (Self::Compare(spec), Root::Original) => spec.normals_of.as_ref(),
            (Self::Compare(spec), Root::Views | Root::Pictures | Root::Masks) => Some(&spec.views),
        }
    }

    /// Whether prepare may choose this edge for the atlas.
    pub(super) fn may_choose(self, texture_size: u32) -> bool {
        match self {
            Self::Bake(spec) => {
                let fits = texture_size <= spec.atlas_size() && spec.form.pages.fit(texture_size);
                spec.options.texture_auto && fits
            }
            Self::Compare(_) => false,
        }
    }

    /// Every file that it makes.
    pub(super) fn outputs(self) -> Vec<&'a Target> {
        match self {
            Self::Bake(spec) => spec.outputs().collect(),
            Self::Compare(spec) => spec.picture.iter().collect(),
        }
    }

    /// Whether it makes a contact sheet.
    pub(super) fn preview(self) -> bool {
        match self {
            Self::Bake(spec) => spec.preview.is_some(),
            Self::Compare(spec) => spec.picture.is_some(),
        }
    }

    /// How many views of the fit encode shows.
    pub(super) fn shown_views(self) -> usize {
        match self {
            Self::Bake(spec) => shown_views(spec.preview.is_some(), spec.html.is_some()),
            Self::Compare(_) => 0,
        }
    }

    /// The hint where its time is over.
    pub(super) fn more_time(self) -> &'static str {
        match self {
            Self::Bake(_) => "--timeout SECONDS allows more; --quality draft needs less",
            Self::Compare(_) => "--timeout SECONDS allows more",
        }
    }

    /// Its report before it begins.
    pub fn report(self) -> Report {
        match self {
            Self::Bake(spec) => Report::new(spec),
            Self::Compare(spec) => Report::of(Options {
                mesh: spec.first.path.clone(),
                views: spec.views.path.clone(),
                blend: spec.blend,
                timeout_ms: spec.timeout.as_secs_f64() * 1e3,
                ..Options::default()
            }),
        }
    }

    /// Says how it ended; a bake that failed leaves its report. Whoever compares shows the figures himself.
    pub fn close(self, report: &Report, given: &Given, listener: &mut dyn Listener) {
        let Self::Bake(spec) = self else { return };
        if report.error.is_none() {
            listener.event(&Event::Done(report));
            return;
        }
        if let Some(target) = &spec.report {
            report.leave(target, given);
        }
        listener.event(&Event::Failed(report));
    }
}

fn compare_job(spec: &Comparison) -> CompareJob {
    CompareJob {
        first: spec.first.name.clone(),
        second: spec.second.as_ref().map(|second| second.name.clone()),
        normals_of: (spec.normals_of.as_ref()).map(|original| original.name.clone()),
        views_file: spec.views.name.clone(),
        blend: spec.blend,
        up: spec.up,
        picture: spec.picture.is_some(),
    }
}

fn bake_job(spec: &Spec, rung: &Rung) -> BakeJob {
    BakeJob {
        product: rung.product,
        memory: rung.memory,
        texture_size: (!spec.options.texture_auto).then(|| spec.atlas_size()),
        maps: spec.maps.is_some(),
        detail: spec.options.detail,
        refine: spec.options.refine(&spec.views.name),
        vram_budget: spec.options.vram_budget,
        gpu_times: spec.options.gpu_times,
        rejected: spec.rejected.is_some(),
        dry_run: spec.dry_run.then_some(spec.form.texture),
    }
}

fn encode_job(spec: &Spec, tables: &TableStore, prepared: Option<&PrepareSummary>) -> EncodeJob {
    let mut form = spec.form.clone();
    if let Some(prepared) = prepared {
        form.offset = prepared.offset;
        form.labels = prepared.labels.clone();
    }
    EncodeJob {
        product: match tables.filled(Table::Texture) {
            Some(_) => Product::Texture,
            None => Product::VertexColours,
        },
        blend: spec.options.blend(&spec.views.name),
        preview: spec.preview.is_some(),
        html: spec.html.is_some(),
        view_names: prepared
            .filter(|_| spec.html.is_some())
            .map_or_else(Vec::new, |prepared| prepared.view_names.clone()),
        maps: spec.maps.is_some(),
        has_refined: tables.filled(Table::Refined).is_some(),
        form,
        layers: tables.baked_layers().collect(),
    }
}
