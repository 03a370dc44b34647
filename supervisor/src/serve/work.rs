//! Runs a stored job and stores its end, however long the disk takes. The job ends only once its end is stored.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use proto::message::Code;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::board::{Live, State, Writer};
use super::elsewhere::{Elsewhere, Task};
use super::service::{Service, Shared};
use crate::error::JobError;
use crate::host::Host;
use crate::job::{self, Kind, MapTargets, Order, Spec};
use crate::options::JobOptions;
use crate::output::Target;
use crate::process::verdict::RetryClass;
use crate::process::workers;
use crate::report::{Options, Report};
use crate::store::{Artifact, Digest, End, Job, JobId, Outcome, StoreError};

/// The files of a job that was done, and what they are.
pub(super) const ARTIFACTS: [(&str, &str); 7] = [
    ("model.glb", "model/gltf-binary"),
    ("preview.png", "image/png"),
    ("report.html", "text/html; charset=utf-8"),
    ("coverage.png", "image/png"),
    ("residual.png", "image/png"),
    ("provenance.png", "image/png"),
    ("report.json", "application/json"),
];
/// Delay between attempts to store a job's end.
const AGAIN: Duration = Duration::from_secs(1);

/// One running job.
pub(super) struct Work {
    pub(super) service: Service,
    pub(super) host: Rc<Host>,
    pub(super) elsewhere: Option<Rc<dyn Elsewhere>>,
    pub(super) live: Arc<Live>,
    pub(super) id: JobId,
    /// The sidecar is shutting down.
    pub(super) leaving: Rc<Cell<bool>>,
}

impl Work {
    /// Runs the job until it ends or is put back.
    pub(super) async fn run(self, orders: mpsc::Receiver<Order>) {
        let job = loop {
            match self.service.store.begin(self.id).await {
                Ok(job) => break job,
                Err(StoreError::NotFound | StoreError::Gone | StoreError::WrongState(_)) => return,
                Err(error) if self.leaving.get() => {
                    tracing::warn!("{} was not begun: {error}", self.id);
                    return;
                }
                Err(error) => {
                    tracing::warn!("{} is not begun yet: {error}", self.id);
                    sleep(AGAIN).await;
                }
            }
        };
        self.live.restart();
        let began = Instant::now();
        let end = match self.spec(&job).await {
            Ok(spec) => {
                let mut writer = Writer(Arc::clone(&self.live));
                let report = match self.elsewhere.as_deref() {
                    None => job::run(Kind::Bake(&spec), &self.host, &mut writer, orders).await,
                    Some(others) => self.pass_on(others, &spec, &mut writer, orders).await,
                };
                self.service.metrics.job(&report, began.elapsed());
                self.end(report).await
            }
            Err(error) => Some(Close::failed(&error)),
        };
        match end {
            Some(close) => self.service.close(self.id, &self.live, close).await,
            None => {
                self.live.enter(
                    State::Queued,
                    &json!({ "state": State::Queued, "requeued": true }),
                );
                if let Err(error) = self.service.store.requeue(self.id).await {
                    // On disk it still counts as running, so the next start runs it again.
                    tracing::warn!("{}: {error}", self.id);
                }
            }
        }
    }

    /// Converts the stored job for the supervisor.
    async fn spec(&self, job: &Job) -> Result<Spec, Box<JobError>> {
        let internal = |error: String| JobError::own(Code::Internal, error, "");
        let options = &self.service.options;
        let mut wish: JobOptions =
            serde_json::from_str(&job.spec).map_err(|error| internal(error.to_string()))?;
        let budgets = [options.vram_budget, wish.vram_budget];
        wish.vram_budget = budgets.into_iter().flatten().min();
        let failed = |error: StoreError| match &error {
            StoreError::MissingBlobs(_) => {
                let what = format!("uploads are gone from the store since: {error}");
                JobError::own(Code::MissingInput, what, "send them again, and the job")
            }
            _ => JobError::own(Code::OutputError, error.to_string(), "submit it again"),
        };
        let store = &self.service.store;
        let place = store.job_folder(self.id).await.map_err(failed)?;
        let uploads = store.materialise(self.id).await.map_err(failed)?;
        let (mesh, views, original) = self.service.roots.inputs(&wish, &uploads)?;
        let target = |name: &str| Target::check(&place.join(name));
        Ok(Spec {
            name: self.id.to_string().into(),
            mesh,
            views,
            original,
            glb: Some(target("model.glb")?),
            form: wish.form(),
            beside: Vec::new(),
            preview: wish.preview.then(|| target("preview.png")).transpose()?,
            html: wish.html.then(|| target("report.html")).transpose()?,
            maps: wish
                .maps
                .then(|| MapTargets::check(&place, Target::check))
                .transpose()?,
            rejected: None,
            report: Some(target("report.json")?),
            dry_run: false,
            options: wish,
            sandbox: options.sandbox,
            memory_limit: options.memory_limit,
            crash_root: Some(options.store.join("crashes")),
            pipelines: options.pipelines.clone(),
            stall: options.stall,
            baker: options.baker.clone(),
            log_filter: "warn,baker=info".to_owned(),
            threads: None,
        })
    }

    /// Has others do it.
    async fn pass_on(
        &self,
        others: &dyn Elsewhere,
        spec: &Spec,
        writer: &mut Writer,
        orders: mpsc::Receiver<Order>,
    ) -> Report {
        let store = &self.service.store;
        let folder = match store.job_folder(self.id).await {
            Ok(folder) => folder,
            Err(error) => {
                let mut report = Report::of(Options::of(&spec.options));
                let message = error.to_string();
                report.error = Some(JobError::own(Code::OutputError, message, "submit it again"));
                return report;
            }
        };
        let uploads = spec.options.uploads().into_values();
        let task = Task {
            id: self.id,
            spec,
            uploads: uploads
                .map(|digest| (digest, store.blob_path(digest)))
                .collect(),
            folder: &folder,
            listener: writer,
        };
        others.carry_out(task, orders).await
    }

    /// What to store; `None` if the job is to run again.
    async fn end(&self, report: Report) -> Option<Close> {
        let Some(error) = &report.error else {
            let store = self.service.store.clone();
            let found = match store.job_folder(self.id).await {
                Ok(place) => match workers::run(move || artifacts(&place)).await {
                    Ok(found) => found.map_err(|error| error.to_string()),
                    Err(_) => Err("reading it ended without a word".to_owned()),
                },
                Err(error) => Err(error.to_string()),
            };
            return Some(match found {
                Ok(artifacts) => Close {
                    state: State::Succeeded,
                    error: None,
                    report: Some(json!(report)),
                    artifacts,
                },
                Err(error) => {
                    let what = format!("the result cannot be read back: {error}");
                    Close::failed(&JobError::own(Code::OutputError, what, "see to the disk"))
                }
            });
        };
        if error.is_unfinished() {
            return None;
        }
        if !matches!(error.class, RetryClass::Input) {
            self.service.doubtful.store(true, Ordering::Relaxed);
        }
        let mut close = Close::failed(error);
        close.report = Some(json!(report));
        Some(close)
    }
}

/// The end of a job.
#[derive(Clone)]
pub(super) struct Close {
    state: State,
    error: Option<Value>,
    report: Option<Value>,
    artifacts: Vec<Artifact>,
}

impl Close {
    /// A failure.
    pub(super) fn failed(error: &JobError) -> Self {
        Self {
            state: if error.code == Code::Cancelled {
                State::Cancelled
            } else {
                State::Failed
            },
            error: Some(json!(error)),
            report: None,
            artifacts: Vec::new(),
        }
    }
}

impl Shared {
    /// Stores a job's end, however long the disk takes, then shows it on the board.
    pub(super) async fn close(&self, id: JobId, live: &Live, mut close: Close) {
        loop {
            let outcome = match close.state {
                State::Succeeded => Outcome::Succeeded,
                State::Cancelled => Outcome::Cancelled,
                _ => Outcome::Failed,
            };
            let end = End {
                outcome,
                error: close.error.as_ref().map(Value::to_string),
                report: close.report.as_ref().map(Value::to_string),
                artifacts: close.artifacts.clone(),
            };
            match self.store.finish(id, end).await {
                Ok(job) => {
                    live.over(job.id, close.state);
                    return;
                }
                Err(
                    error @ (StoreError::NotFound | StoreError::Gone | StoreError::WrongState(_)),
                ) => {
                    tracing::error!("{id} has ended twice: {error}");
                    return;
                }
                Err(error @ StoreError::BadArtifact { .. }) => {
                    let what = format!("the result is not what was made: {error}");
                    close =
                        Close::failed(&JobError::own(Code::OutputError, what, "see to the disk"));
                }
                Err(error) => {
                    tracing::warn!("{id} has ended, and the store does not take it yet: {error}");
                    sleep(AGAIN).await;
                }
            }
        }
    }
}

/// The files that a job made, with their digests.
fn artifacts(place: &Path) -> std::io::Result<Vec<Artifact>> {
    let mut found = Vec::new();
    for (name, media_type) in ARTIFACTS {
        let file = match std::fs::File::open(place.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        found.push(Artifact {
            name: name.to_owned(),
            bytes: file.metadata()?.len(),
            digest: Digest::of_file(file)?,
            media_type: media_type.to_owned(),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_job_are_told_with_their_digests() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("model.glb"), "abc").expect("room");
        std::fs::write(folder.path().join("other"), "abc").expect("room");
        let found = artifacts(folder.path()).expect("readable");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].bytes), ("model.glb", 3));
        // SHA-256 of "abc": FIPS 180-2, appendix B.1.
        let digest = found[0].digest.to_string();
        assert!(
            digest.starts_with("ba7816bf8f01cfea414140de5dae2223"),
            "{digest}"
        );
    }
}
