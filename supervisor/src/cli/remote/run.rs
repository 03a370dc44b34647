//! A task → requests to a sidecar or to a fleet, what is shown of them, and an exit code.
//!
//! A signal ends this process and never the job: it was accepted, and can be waited for again.

use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use indicatif::MultiProgress;
use proto::exit;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{At, Delivery, Submit, Task, What, is_folder, show};
use crate::event::Event;
use crate::output::{self, Given, Target};
use crate::remote::collect::{self, collect};
use crate::remote::depot::Depot;
use crate::remote::error::Refused;
use crate::remote::jobs::Job;
use crate::remote::upload::upload;
use crate::remote::{Client, RemoteError};
use crate::report::FileEntry;
use crate::screen::{self, Voice};
use crate::serve::problem;
use crate::signals::Signals;
use crate::store::JobId;

type Done = Result<u8, RemoteError>;

/// See the head of this file.
pub async fn carry_out(task: Task, bars: &MultiProgress) -> u8 {
    let Task {
        json,
        voice,
        at,
        patience,
        what,
    } = task;
    match at {
        At::Sidecar(place) => {
            let depot = &Client::new(place, patience);
            let desk = Desk {
                depot,
                bars,
                json,
                voice,
                name: None,
            };
            desk.carry_out(what).await
        }
        #[cfg(feature = "fleet")]
        At::Fleet(place) => match crate::fleet::Fleet::open(&place) {
            Ok(depot) => {
                let desk = Desk {
                    depot: &depot,
                    bars,
                    json,
                    voice,
                    name: None,
                };
                desk.carry_out(what).await
            }
            Err(error) => fail(&error, json, bars),
        },
    }
}

/// Who is asked, and how that is shown.
pub(super) struct Desk<'a, D> {
    pub(super) depot: &'a D,
    pub(super) bars: &'a MultiProgress,
    pub(super) json: bool,
    pub(super) voice: Voice,
    /// The name of one of many jobs, which marks its lines.
    pub(super) name: Option<String>,
}

impl<D: Depot> Desk<'_, D> {
    pub(super) async fn carry_out(&self, what: What) -> u8 {
        let done = match Signals::listen() {
            Ok(mut signals) => tokio::select! {
                biased;
                signal = signals.any() => Err::<u8, _>(RemoteError::Interrupted(signal)),
                done = self.work(what) => done,
            },
            Err(error) => Err(error.into()),
        };
        done.unwrap_or_else(|error| {
            if self.bars.clear().is_err() {
                tracing::debug!("the bars stay");
            }
            self.fail(&error)
        })
    }

    /// The error that is told, and its exit code.
    pub(super) fn fail(&self, error: &RemoteError) -> u8 {
        match (&self.name, error) {
            (Some(name), _) if !self.json => {
                let told = error.report();
                let line = format!("{name}: {}", told.message);
                self.bars.suspend(|| screen::refuse(&line, &told.hint));
                told.exit_code
            }
            _ => fail(error, self.json, self.bars),
        }
    }

    async fn work(&self, what: What) -> Done {
        match what {
            What::Submit(submit) => self.submit(*submit).await,
            What::Status(id) => {
                let id = self.depot.find(&id).await?;
                let job = self.depot.job(id).await?;
                show::one(&job, self.json);
                Ok(exit::OK)
            }
            What::Wait(id, limit, delivery) => {
                let id = self.depot.find(&id).await?;
                let given = Given::default();
                let wait = self.wait(id, &delivery, None, &given);
                match limit {
                    None => wait.await,
                    Some(limit) => timeout(limit, wait)
                        .await
                        .unwrap_or(Err(RemoteError::TimedOut(limit))),
                }
            }
            What::Cancel(ids) => self.cancel(&ids).await,
            What::List(state, limit) => {
                let mut table = show::Table::new(self.json, self.voice);
                let each = |job: Job| table.row(&job);
                self.depot.list(state, limit, each).await?;
                Ok(exit::OK)
            }
            What::Fetch(id, names, output) => self.fetch(&id, names, &output).await,
        }
    }

    fn say(&self, line: &str) {
        if !self.json && self.voice != Voice::Quiet {
            let name = self.name.iter();
            let mark: String = name.map(|name| format!("{name}: ")).collect();
            self.bars.suspend(|| screen::say(&format!("{mark}{line}")));
        }
    }

    async fn submit(&self, submit: Submit) -> Done {
        let Submit {
            inputs,
            mut options,
            key,
            retry,
            delivery,
        } = submit;
        let mut collection = None;
        if options.mesh.is_none() {
            let collected = collect(&inputs).await?;
            collected.name_in(&mut options);
            collection = Some(collected);
        }
        let given = match (&collection, &delivery) {
            (Some(collection), _) => collection.given.clone(),
            // What this user may not read, the sidecar may.
            (None, Some(_)) => (collect::given(&inputs).await).unwrap_or_default(),
            (None, None) => Given::default(),
        };
        if let Some(delivery) = &delivery {
            (delivery.targets()).try_for_each(|target| target.spares(&given))?;
        }
        let mut lacking = false;
        let job = loop {
            let attempt = async {
                if let Some(collection) = &collection {
                    // Of many jobs, the events alone are told.
                    let voice = self.name.as_ref().map_or(self.voice, |_| Voice::Quiet);
                    let mut shown = show::Sending::new(self.bars, self.json, voice);
                    let sent = upload(self.depot, collection, |sent| shown.tell(sent)).await?;
                    // Without --wait the one line is the job.
                    let more_follows = delivery.is_some() && self.name.is_none();
                    shown.end(sent, more_follows, D::NAME);
                }
                let files = (collection.as_ref()).map_or(&[][..], |sent| &sent.files);
                self.depot.submit(&options, &key, files).await
            };
            match attempt.await {
                Ok(job) => break job,
                Err(RemoteError::Refused(refused)) if retry && refused.is_for_later() => {
                    let seconds = refused.pause().as_secs();
                    self.say(&format!("{}: trying again in {seconds} s", refused.detail));
                    sleep(refused.pause()).await;
                }
                // A blob that was there has expired since.
                Err(RemoteError::Refused(Refused { field, .. }))
                    if !lacking && field.as_deref() == Some("files") =>
                {
                    lacking = true;
                }
                Err(error) => return Err(error),
            }
        };
        let id = job.known.id;
        let Some(delivery) = delivery else {
            match self.json {
                true => screen::result(&job.raw.to_string()),
                false => screen::result(&id.to_string()),
            }
            return Ok(exit::OK);
        };
        match self.json {
            true => {
                let mut line = json!({ "event": "accepted", "job": id });
                if let Some(name) = &self.name {
                    // As its other lines have it; the id is its name in the fleet.
                    line = json!({ "event": "accepted", "job": name, "id": id });
                }
                screen::result(&line.to_string());
            }
            false => self.say(&format!("job {id}")),
        }
        let inputs = Some([inputs.mesh.path, inputs.views.path]);
        self.wait(id, &delivery, inputs, &given).await
    }

    /// Until the job is over and its files are in place; `inputs` are the caller's own, where they are
    /// known, and `given` all that they name.
    async fn wait(
        &self,
        id: JobId,
        delivery: &Delivery,
        inputs: Option<[PathBuf; 2]>,
        given: &Given,
    ) -> Done {
        if delivery.preview.is_some() || delivery.html.is_some() || delivery.maps.is_some() {
            let job = self.depot.job(id).await?;
            for (wanted, option, name) in [
                (delivery.preview.is_some(), "preview", "preview.png"),
                (delivery.html.is_some(), "html", "report.html"),
                (delivery.maps.is_some(), "maps", "coverage.png"),
            ] {
                if wanted && !job.was_told(option) {
                    job.made(name)?;
                }
            }
        }
        let mut listener = match &self.name {
            Some(name) => screen::listener_of(self.json, self.voice, name),
            None => screen::listener(self.json, self.voice, self.bars),
        };
        let job = self.depot.follow(id, &mut *listener).await?;
        let output = delivery.glb.as_ref().map(Target::path);
        let mut report = job.report(|options| {
            options.output = output.unwrap_or(Path::new("model.glb")).to_path_buf();
            if let Some([mesh, views]) = inputs {
                (options.mesh, options.views) = (mesh, views);
            }
        })?;
        if let Some(error) = &report.error {
            let code = error.exit_code;
            if let Some(target) = &delivery.report {
                report.leave(target, given);
            }
            listener.event(&Event::Failed(&report));
            return Ok(code);
        }
        let mut staged = Vec::new();
        let files: Vec<FileEntry> = std::mem::take(&mut report.files);
        let maps = delivery.maps.as_ref();
        let provenance = maps.map(|maps| &maps.provenance);
        for (name, kind, target) in [
            ("provenance.png", "provenance", provenance),
            ("residual.png", "residual", maps.map(|maps| &maps.residual)),
            ("coverage.png", "coverage", maps.map(|maps| &maps.coverage)),
            ("report.html", "html", delivery.html.as_ref()),
            ("preview.png", "preview", delivery.preview.as_ref()),
            ("model.glb", "glb", delivery.glb.as_ref()),
        ] {
            let Some(target) = target else { continue };
            // Vertex colours in place of a texture have no maps; a warning says so.
            if matches!(kind, "coverage" | "residual" | "provenance") && job.made(name).is_err() {
                continue;
            }
            let made = job.made(name)?;
            staged.push(self.depot.fetch(&job, made, target).await?);
            let entry = files.iter().find(|file| file.kind == kind).cloned();
            let mut entry = entry.unwrap_or_else(|| FileEntry {
                kind: kind.into(),
                path: PathBuf::new(),
                bytes: made.bytes,
            });
            entry.path = target.path().to_path_buf();
            report.files.insert(0, entry);
        }
        if report.files.is_empty() {
            report.files = files;
        }
        if let Some(target) = &delivery.report {
            staged.insert(0, target.stage(&mut report.to_json().as_slice())?);
        }
        // The GLB last, so that who sees it sees the rest.
        output::commit(staged, given)?;
        match (output, self.json) {
            (Some(_), _) => listener.event(&Event::Done(&report)),
            (None, true) => {
                let line = json!({ "event": "done", "output": null, "report": report });
                screen::result(&line.to_string());
            }
            (None, false) => {
                for line in report.summary() {
                    self.say(&line);
                }
            }
        }
        Ok(exit::OK)
    }

    async fn cancel(&self, ids: &[String]) -> Done {
        let mut code = exit::OK;
        for text in ids {
            let cancelled = async {
                let id = self.depot.find(text).await?;
                self.depot.cancel(id).await
            };
            match cancelled.await {
                Ok(job) => show::cancelled(&job, self.json, self.voice),
                // The others are to be ended all the same.
                Err(error) => {
                    let failed = self.fail(&error);
                    code = if code == exit::OK { failed } else { code };
                }
            }
        }
        Ok(code)
    }

    async fn fetch(&self, id: &str, names: Vec<String>, output: &Path) -> Done {
        let id = self.depot.find(id).await?;
        let job = self.depot.job(id).await?;
        if !job.known.state.is_over() {
            return Err(RemoteError::Refused(Refused {
                status: StatusCode::CONFLICT,
                code: Some(problem::Code::JobNotFinished),
                detail: format!("job {id} is not over"),
                field: None,
                after: None,
            }));
        }
        // Several files go into a folder, be it there or not.
        let folder = names.len() > 1 || is_folder(output);
        let names = match (names.is_empty(), folder) {
            (true, true) if !job.known.artifacts.is_empty() => {
                let all = job.known.artifacts.iter();
                all.map(|made| made.name.clone()).collect()
            }
            (true, _) => vec!["model.glb".to_owned()],
            (false, _) => names,
        };
        let all: Vec<_> = names
            .iter()
            .map(|name| job.made(name))
            .collect::<Result<_, _>>()?;
        let (mut staged, mut lines) = (Vec::new(), Vec::new());
        for made in all {
            let path = match folder {
                true => output.join(&made.name),
                false => output.to_path_buf(),
            };
            let target = Target::anywhere(&path)?;
            staged.push(self.depot.fetch(&job, made, &target).await?);
            lines.push((made, path));
        }
        output::commit(staged, &Given::default())?;
        for (made, path) in lines {
            match self.json {
                true => {
                    let (name, bytes, sha256) = (&made.name, made.bytes, made.sha256);
                    let path = path.to_string_lossy();
                    let line = json!({ "event": "fetched", "name": name, "output": path, "bytes": bytes, "sha256": sha256 });
                    screen::result(&line.to_string());
                }
                false => screen::place(&path),
            }
        }
        Ok(exit::OK)
    }
}

/// The error that is told, and its exit code.
pub(super) fn fail(error: &RemoteError, json: bool, bars: &MultiProgress) -> u8 {
    let told = error.report();
    match error {
        RemoteError::Local(error) if json => {
            screen::result(&screen::error_line(error).to_string());
        }
        RemoteError::Local(error) => bars.suspend(|| screen::complain("", error)),
        _ if json => {
            let mut line = json!(told);
            line["event"] = "error".into();
            screen::result(&line.to_string());
        }
        _ => bars.suspend(|| screen::refuse(&told.message, &told.hint)),
    }
    told.exit_code
}
