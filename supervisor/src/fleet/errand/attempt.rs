//! An attempt at a job: inputs into the sidecar, its job to the end, results into the store; meanwhile the message is kept.

use std::fs::File;
use std::io::{Seek, Write};
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use kiln_fleet::record::{Attempt, Order as JobOrder};
use kiln_fleet::{Delivery, FleetError};
use proto::message::Code;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, timeout};

use super::{Errand, LOOK};
use crate::error::JobError;
use crate::fleet::client::Passed;
use crate::fleet::worker::Order;
use crate::output::{self, Given, Target};
use crate::remote::RemoteError;
use crate::remote::http::Ask;
use crate::remote::jobs::{Job, Made};
use crate::remote::sse::ServerEvent;
use crate::serve::board::State;
use crate::store::Digest;

/// Between two looks at whether somebody cancelled the job, in looks. A wake-up comes earlier.
const CANCEL_LOOKS: u32 = 6;
/// How long the store may be silent, with its own retries.
const STORE: Duration = Duration::from_secs(180);

/// Why an attempt ended without a job that is over.
pub(super) enum Trouble {
    Store(FleetError),
    Sidecar(RemoteError),
    Cancelled,
    Leaving,
}

impl From<FleetError> for Trouble {
    fn from(error: FleetError) -> Self {
        Self::Store(error)
    }
}

impl From<RemoteError> for Trouble {
    fn from(error: RemoteError) -> Self {
        Self::Sidecar(error)
    }
}

impl Errand<'_> {
    /// The sidecar's job, over, with its files in the store.
    pub(super) async fn work(&self, order: &JobOrder, attempt: &Attempt) -> Result<Job, Trouble> {
        let client = &self.worker.client;
        let key = format!("{}-{}", order.id, attempt.number);
        let mut lacking = false;
        let job = loop {
            for (sha256, bytes) in &order.blobs {
                self.bring(sha256, *bytes).await?;
            }
            match client.submit(order.spec.to_string(), &key).await {
                Ok(job) => break job,
                // A file that was there has expired since.
                Err(RemoteError::Refused(refused))
                    if !lacking && refused.field.as_deref() == Some("files") =>
                {
                    lacking = true;
                }
                Err(error) => return Err(error.into()),
            }
        };
        let local = job.known.id;
        self.local.set(Some(local));
        let (events, mut heard) = mpsc::unbounded_channel();
        let pass = async {
            while let Some((id, kind, data)) = heard.recv().await {
                self.tell(id, kind, data).await;
            }
            std::future::pending::<()>().await;
        };
        let mut last = Instant::now() - LOOK;
        let mut take = |event: &ServerEvent| {
            let kind = match event.kind.as_str() {
                "state" => "state",
                "log" => "log",
                // Several in a second tell a person no more.
                "progress" if last.elapsed() > LOOK / 10 => {
                    last = Instant::now();
                    "progress"
                }
                _ => return Ok(()),
            };
            drop(events.send((event.id, kind, event.data.clone())));
            Ok(())
        };
        let job = tokio::select! {
            job = client.relay(local, &mut take) => job?,
            () = pass => unreachable!("it waits for ever"),
        };
        if job.known.state == State::Succeeded {
            self.local.set(None);
            self.running.pulse.set(Instant::now());
            for made in &job.known.artifacts {
                self.send(&job, made, attempt).await?;
            }
            self.local.set(Some(local));
        }
        Ok(job)
    }

    /// One input: from the store to the sidecar, unless it is there.
    async fn bring(&self, sha256: &str, bytes: u64) -> Result<(), Trouble> {
        let digest: Digest = sha256
            .parse()
            .map_err(|_| FleetError::Damaged("a digest in the store is none".to_owned()))?;
        let client = &self.worker.client;
        if client.has(&digest).await? {
            return Ok(());
        }
        let begin = || tempfile::tempfile_in(&self.worker.options.spool).map_err(spool);
        let push = |file: &mut File, chunk: &[u8]| {
            self.running.pulse.set(Instant::now());
            file.write_all(chunk).map_err(spool)
        };
        let name = format!("blobs/{sha256}");
        let fetched = (self.ledger.bucket).fetch(&name, bytes, sha256, begin, push);
        let mut file = fetched.await?;
        file.rewind().map_err(spool)?;
        let sent = client.put(&digest, file, bytes, |_| {
            self.running.pulse.set(Instant::now());
        });
        match sent.await {
            Ok(()) => Ok(()),
            Err(Some(error)) => Err(error.into()),
            Err(None) => Err(spool(std::io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// One result: from the sidecar to the store.
    async fn send(&self, job: &Job, made: &Made, attempt: &Attempt) -> Result<(), Trouble> {
        let spool_folder = tempfile::tempdir_in(&self.worker.options.spool).map_err(spool)?;
        let path = spool_folder.path().join(&made.name);
        let target = Target::check(&path).map_err(RemoteError::from)?;
        let staged = self
            .worker
            .client
            .fetch(job.known.id, made, &target)
            .await?;
        output::commit([staged], &Given::default()).map_err(RemoteError::from)?;
        let file = Arc::new(File::open(&path).map_err(spool)?);
        let name = self.file(attempt.number, &made.name);
        let sha256 = made.sha256.to_string();
        let bucket = &self.ledger.bucket;
        let sent = bucket.send(&name, &file, made.bytes, &sha256, |_| {
            self.running.pulse.set(Instant::now());
        });
        Ok(sent.await?)
    }

    fn file(&self, number: u32, name: &str) -> String {
        format!("jobs/{}/attempt-{number}/{name}", self.delivery.id)
    }

    /// Keeps the message while the job advances; returns why the work is to end.
    pub(super) async fn keep(&self) -> Trouble {
        let mut orders = self.running.orders.subscribe();
        let mut looks = interval(LOOK);
        let mut since = 0;
        // What came before counts, too.
        let mut order = *orders.borrow_and_update();
        loop {
            since += 1;
            if order == Order::Leave {
                return Trouble::Leaving;
            }
            if order == Order::Look || since >= CANCEL_LOOKS {
                since = 0;
                let asked = self.ledger.is_cancelled(&self.delivery.id);
                if let Ok(Ok(true)) = timeout(LOOK, asked).await {
                    return Trouble::Cancelled;
                }
            }
            if self.advances().await
                && let Err(error) = self.delivery.advances().await
            {
                tracing::debug!("{error}");
            }
            order = tokio::select! {
                _ = looks.tick() => Order::On,
                changed = orders.changed() => match changed {
                    Ok(()) => *orders.borrow_and_update(),
                    Err(_) => Order::Leave,
                },
            };
        }
    }

    async fn advances(&self) -> bool {
        // While files are on their way, their bytes tell.
        let Some(local) = self.local.get() else {
            return self.running.pulse.get().elapsed() < STORE;
        };
        // The sidecar ends what does not advance there. Whether it works itself, it tells by its answer.
        let ask = Ask::new(Method::GET, format!("/v1/jobs/{local}"));
        let asked = self.worker.client.once(&ask, None);
        let answers = timeout(LOOK, asked).await.is_ok_and(|told| told.is_ok());
        if answers {
            self.running.pulse.set(Instant::now());
        }
        answers
    }

    /// Ends the sidecar's job.
    pub(super) async fn stop(&self) {
        let Some(local) = self.local.get() else {
            return;
        };
        let stopped = timeout(LOOK, self.worker.client.cancel(local)).await;
        if !matches!(stopped, Ok(Ok(_))) {
            tracing::warn!(id = self.delivery.id, "its sidecar did not end the job");
        }
    }

    /// The store has all: the sidecar need not keep it.
    pub(super) async fn forget(&self) {
        let Some(local) = self.local.get() else {
            return;
        };
        let ask = Ask::new(Method::DELETE, format!("/v1/jobs/{local}"));
        if let Err(error) = self.worker.client.once(&ask, None).await {
            tracing::debug!("the sidecar keeps the job: {}", error.report().message);
        }
    }

    pub(super) async fn tell(&self, id: u64, kind: &str, data: String) {
        let kind = kind.to_owned();
        let passed = json!(Passed { id, kind, data });
        let Delivery { id, tenant, .. } = self.delivery;
        let queue = &self.worker.queue;
        queue
            .tell(tenant, id, passed.to_string().into_bytes())
            .await;
    }
}

/// The spool cannot be written: this host cannot work.
fn spool(error: std::io::Error) -> Trouble {
    let message = format!("the spool: {}", crate::input::reason(&error));
    let hint = "--spool names a folder with room";
    Trouble::Sidecar(JobError::own(Code::IoError, message, hint).into())
}
