//! `kiln serve --fleet`: the jobs of a sidecar → a fleet, and their files back into its store.
//!
//! Whoever speaks HTTP to a sidecar (the page, Python, curl) has its jobs done by many hosts. An accepted job is on the
//! sidecar's disk, and its id is its key in the fleet: a sidecar that is killed finds it there again.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use proto::message::Code;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::client::Fleet;
use super::job_error;
use crate::error::JobError;
use crate::job::Order;
use crate::options::Source;
use crate::output::{self, Given, Target};
use crate::remote::RemoteError;
use crate::remote::collect::{Inputs, collect};
use crate::remote::depot::Depot;
use crate::remote::upload::upload;
use crate::report::{Options, Report};
use crate::serve::elsewhere::{Elsewhere, Task};

/// Between two attempts at a queue or store that is away.
const AGAIN: Duration = Duration::from_secs(2);

impl Elsewhere for Fleet {
    fn carry_out<'a>(
        &'a self,
        task: Task<'a>,
        orders: mpsc::Receiver<Order>,
    ) -> LocalBoxFuture<'a, Report> {
        async move {
            let options = Options::of(&task.spec.options);
            let done = self.obey(task, orders).await;
            done.unwrap_or_else(|error| {
                let mut report = Report::of(options);
                report.error = Some(job_error(error));
                report
            })
        }
        .boxed_local()
    }

    fn prove(&self) -> LocalBoxFuture<'_, Result<String, String>> {
        let proof = self.reachable();
        proof
            .map(|told| told.map_err(|error| error.report().message))
            .boxed_local()
    }
}

impl Fleet {
    /// Has the job done unless an order ends it. While queue or store are away, it waits.
    async fn obey(
        &self,
        mut task: Task<'_>,
        mut orders: mpsc::Receiver<Order>,
    ) -> Result<Report, RemoteError> {
        let id = task.id;
        let mut handed = false;
        loop {
            let order = tokio::select! {
                biased;
                order = orders.recv() => order,
                done = self.step(&mut task, &mut handed) => match done {
                    Err(RemoteError::Away(why)) => {
                        tracing::warn!("{id} waits for the fleet: {why}");
                        sleep(AGAIN).await;
                        continue;
                    }
                    done => return done,
                },
            };
            let Some(Order::Cancel(_)) = order else {
                return Err(JobError::unfinished().into());
            };
            loop {
                match Depot::cancel(self, id).await {
                    Err(RemoteError::Away(why)) => {
                        tracing::warn!("{id} is cancelled later: {why}");
                        sleep(AGAIN).await;
                    }
                    // What was never handed in need not be ended.
                    _ => return Err(JobError::withdrawn().into()),
                }
            }
        }
    }

    /// The job, from wherever it stands to its end.
    async fn step(&self, task: &mut Task<'_>, handed: &mut bool) -> Result<Report, RemoteError> {
        if !*handed {
            self.hand_over(task).await?;
            *handed = true;
        }
        let job = self.follow(task.id, task.listener).await?;
        let report = job.report(|_| ())?;
        if report.error.is_some() {
            return Ok(report);
        }
        let mut staged = Vec::new();
        for made in &job.known.artifacts {
            let target = Target::check(&task.folder.join(&made.name))?;
            staged.push(Depot::fetch(self, &job, made, &target).await?);
        }
        output::commit(staged, &Given::default())?;
        Ok(report)
    }

    /// The job's inputs and its order.
    async fn hand_over(&self, task: &Task<'_>) -> Result<(), RemoteError> {
        let (mut spec, key) = (task.spec.options.clone(), task.id.to_string());
        let paths = |source: Option<&Source>| matches!(source, Some(Source::Path { .. }));
        let sources = [&spec.mesh, &spec.views, &spec.original];
        if sources.iter().any(|source| paths(source.as_ref())) {
            let inputs = Inputs {
                mesh: task.spec.mesh.clone(),
                views: task.spec.views.clone(),
                original: task.spec.original.clone(),
            };
            let found = collect(&inputs).await?;
            upload(self, &found, |_| ()).await?;
            found.name_in(&mut spec);
            return Depot::submit(self, &spec, &key, &found.files)
                .await
                .map(drop);
        }
        let sizes = self.send_uploads(task).await?;
        self.hand_in(&spec, &key, sizes).await.map(drop)
    }

    /// Sends what was sent to the sidecar; gives the size of each.
    async fn send_uploads(&self, task: &Task<'_>) -> Result<BTreeMap<String, u64>, RemoteError> {
        let mut sizes = BTreeMap::new();
        for (digest, path) in &task.uploads {
            let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
            let (bytes, file) = opened.map_err(|error| {
                let why = crate::input::reason(&error);
                let message = format!("an upload is gone from the store since: {why}");
                JobError::own(Code::MissingInput, message, "send it again, and the job")
            })?;
            let sha256 = digest.to_string();
            let (bucket, name) = (&self.ledger.bucket, format!("blobs/{sha256}"));
            if !bucket.has(&name).await? {
                bucket
                    .send(&name, &Arc::new(file), bytes, &sha256, |_| ())
                    .await?;
            }
            sizes.insert(sha256, bytes);
        }
        Ok(sizes)
    }
}
