//! The commands of jobs, by a fleet's store: what stands there is the truth. The queue is asked only where a job is handed in
//! or ended, and for progress, without which waiting goes on all the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use futures_util::{StreamExt, TryStreamExt, stream};
use kiln_fleet::record::{End, Order};
use kiln_fleet::{Ledger, Queue, now_ms};
use proto::message::Code;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Place, shown};
use crate::error::JobError;
use crate::event::Listener;
use crate::options::JobOptions;
use crate::output::{Growing, Staged, Target};
use crate::remote::RemoteError;
use crate::remote::collect::{Collection, Found};
use crate::remote::depot::{Depot, Wanted, again, changed};
use crate::remote::error::Refused;
use crate::remote::follow::Teller;
use crate::remote::jobs::{Job, Made};
use crate::remote::sse::ServerEvent;
use crate::serve::problem;
use crate::store::JobId;

/// Between two looks at a result that is awaited: grows from the first to the last.
const LOOKS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];
/// Requests at once, where a list is read.
const AT_ONCE: usize = 16;
/// How far back lists of the newest jobs look, in milliseconds: a few minutes, an hour, a day, a month.
const WINDOWS: [u64; 4] = [300_000, 3_600_000, 86_400_000, 30 * 86_400_000];

/// A fleet, for one tenant.
#[derive(Debug)]
pub struct Fleet {
    place: Place,
    pub(super) ledger: Ledger,
    queue: OnceCell<Queue>,
}

/// An event on its way through the queue: as a sidecar sends it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Passed {
    pub(super) id: u64,
    pub(super) kind: String,
    pub(super) data: String,
}

impl Fleet {
    /// Opens the store; the queue is connected where it is needed.
    ///
    /// # Errors
    /// The store's address cannot be used.
    pub fn open(place: &Place) -> Result<Self, RemoteError> {
        Ok(Self {
            ledger: Ledger::of(&place.bucket()?, &place.tenant),
            place: place.clone(),
            queue: OnceCell::new(),
        })
    }

    async fn queue(&self) -> Result<&Queue, RemoteError> {
        let connect = || async {
            let access = (self.place).access(format!("_INBOX_{}", self.place.tenant), "kiln");
            Queue::connect(&access, false).await
        };
        Ok(self.queue.get_or_try_init(connect).await?)
    }

    /// Whether queue and store answer; gives the queue's address.
    pub(super) async fn reachable(&self) -> Result<String, RemoteError> {
        self.ledger.bucket.has("reachable").await?;
        self.queue().await?.check().await?;
        Ok(format!("the fleet at {}", self.place.queue))
    }

    /// A job whose files are there, of these sizes. With the same key it is the same job.
    pub(super) async fn hand_in(
        &self,
        spec: &JobOptions,
        key: &str,
        blobs: BTreeMap<String, u64>,
    ) -> Result<Job, RemoteError> {
        let queue = self.queue().await?;
        // A key that kiln chose is an id, and nobody else has it.
        let id = match key.parse::<JobId>() {
            Ok(id) => id,
            Err(_) => {
                let fresh = JobId::fresh().to_string();
                let known = self.ledger.id_of_key(key, &fresh).await?;
                let id = known.parse();
                id.map_err(|_| RemoteError::Damaged(format!("the key {key} stands for no id")))?
            }
        };
        let text = spec.canonical();
        let order = Order {
            id: id.to_string(),
            created_ms: now_ms(),
            name: spec.name.clone(),
            blobs,
            spec: serde_json::from_str(&text)
                .map_err(|error| RemoteError::Garbled(error.to_string()))?,
        };
        if !self.ledger.order(&order).await? {
            let known = self.ledger.find(&order.id).await?;
            if known.is_some_and(|known| known.spec != order.spec) {
                return Err(RemoteError::Refused(Refused {
                    status: StatusCode::CONFLICT,
                    code: Some(problem::Code::IdempotencyKeyReused),
                    detail: "the key stands for a job with another spec; use a fresh one"
                        .to_owned(),
                    field: None,
                    after: None,
                }));
            }
            if !self.ledger.attempts(&order.id).await?.is_empty() {
                // A host was handed it, so its message was sent.
                return Depot::job(self, id).await;
            }
        }
        queue.submit(&self.place.tenant, &order.id).await?;
        Depot::job(self, id).await
    }

    async fn order(&self, id: JobId) -> Result<Order, RemoteError> {
        let order = self.ledger.find(&id.to_string()).await?;
        order.ok_or_else(|| {
            RemoteError::Refused(Refused {
                status: StatusCode::NOT_FOUND,
                code: Some(problem::Code::NotFound),
                detail: "there is no such job".to_owned(),
                field: None,
                after: None,
            })
        })
    }

    /// The job if it is over.
    async fn over(&self, order: &Order) -> Result<Option<Job>, RemoteError> {
        let outcome = self.ledger.outcome(&order.id).await?;
        outcome
            .map(|outcome| Job::read(shown::over(order, &outcome)))
            .transpose()
    }

    async fn shown(&self, order: &Order) -> Result<Job, RemoteError> {
        match self.over(order).await? {
            Some(job) => Ok(job),
            None => Job::read(shown::open(order, &self.ledger.attempts(&order.id).await?)),
        }
    }

    /// The ids of all jobs not older than `window` milliseconds; of all if there is none. The newest first.
    async fn since(&self, window: Option<u64>) -> Result<Vec<JobId>, RemoteError> {
        let from = window.map(|window| JobId::first_of(now_ms().saturating_sub(window)));
        let from = from.map_or(String::new(), |id| id.to_string());
        let ids = self.ledger.ids(&from).await?;
        let ids = ids.iter().rev().filter_map(|id| id.parse().ok());
        Ok(ids.collect())
    }
}

impl Depot for Fleet {
    const NAME: &'static str = "the store";

    async fn put(
        &self,
        collection: &Collection,
        file: &Found,
        tell: impl FnMut(u64),
    ) -> Result<bool, RemoteError> {
        let (bucket, sha256) = (&self.ledger.bucket, file.digest.to_string());
        let name = format!("blobs/{sha256}");
        if bucket.has(&name).await? {
            return Ok(true);
        }
        let content = Arc::new(again(collection, file).await?);
        let sent = bucket.send(&name, &content, file.bytes, &sha256, tell);
        match sent.await {
            Ok(()) => Ok(false),
            Err(kiln_fleet::FleetError::Damaged(_)) => Err(changed(file).into()),
            Err(error) => Err(error.into()),
        }
    }

    async fn submit(
        &self,
        spec: &JobOptions,
        key: &str,
        files: &[Found],
    ) -> Result<Job, RemoteError> {
        let sizes = files
            .iter()
            .map(|file| (file.digest.to_string(), file.bytes));
        self.hand_in(spec, key, sizes.collect()).await
    }

    async fn job(&self, id: JobId) -> Result<Job, RemoteError> {
        self.shown(&self.order(id).await?).await
    }

    async fn cancel(&self, id: JobId) -> Result<Job, RemoteError> {
        let order = self.order(id).await?;
        if let Some(job) = self.over(&order).await? {
            return Ok(job);
        }
        self.ledger.cancel(&order.id).await?;
        match self.queue().await {
            Ok(queue) => queue.wake(&self.place.tenant, &order.id).await,
            // Its host sees it in the store a little later.
            Err(error) => tracing::debug!("nobody is woken: {}", error.report().message),
        }
        self.shown(&order).await
    }

    async fn list(
        &self,
        state: Option<&str>,
        limit: usize,
        mut each: impl FnMut(Job),
    ) -> Result<(), RemoteError> {
        let mut ids = Vec::new();
        let windows = WINDOWS.map(Some).into_iter().chain([None]);
        for window in windows {
            ids = self.since(window).await?;
            if state.is_none() && ids.len() >= limit {
                break;
            }
        }
        let jobs = stream::iter(ids).map(|id| Depot::job(self, id));
        let mut jobs = std::pin::pin!(jobs.buffered(AT_ONCE));
        let mut left = limit;
        while left > 0
            && let Some(job) = jobs.try_next().await?
        {
            let is = match job.known.state {
                over if over.is_over() => crate::words::word(&over),
                crate::serve::board::State::Queued => "queued".to_owned(),
                _ => "running".to_owned(),
            };
            if state.is_none_or(|state| state == is) {
                left -= 1;
                each(job);
            }
        }
        Ok(())
    }

    async fn ids(&self, wanted: Wanted<'_>) -> Result<Vec<JobId>, RemoteError> {
        let begins = match wanted {
            Wanted::Begins(text) => text,
            Wanted::Latest => {
                for window in WINDOWS.map(Some).into_iter().chain([None]) {
                    let mut ids = self.since(window).await?;
                    if !ids.is_empty() {
                        ids.truncate(1);
                        return Ok(ids);
                    }
                }
                return Ok(Vec::new());
            }
        };
        let mut ids = self.since(None).await?;
        ids.retain(|id| id.to_string().starts_with(begins));
        Ok(ids)
    }

    async fn follow(&self, id: JobId, listener: &mut dyn Listener) -> Result<Job, RemoteError> {
        let order = self.order(id).await?;
        let mut events = match self.queue().await {
            Ok(queue) => queue.events(&self.place.tenant, &order.id).await.ok(),
            Err(error) => {
                tracing::warn!("no progress is shown: {}", error.report().message);
                None
            }
        };
        let mut teller = Teller::new(listener);
        let mut pause = LOOKS[0];
        loop {
            if let Some(job) = self.over(&order).await? {
                return Ok(job);
            }
            let mut until = Instant::now() + pause;
            pause = (pause * 3 / 2).min(LOOKS[1]);
            loop {
                let Some(open) = &mut events else {
                    sleep_until(until).await;
                    break;
                };
                match timeout_at(until, open.next()).await {
                    Err(_) => break,
                    Ok(None) => events = None,
                    Ok(Some(message)) => {
                        let Ok(Passed { id, kind, data }) =
                            serde_json::from_slice(&message.payload)
                        else {
                            continue;
                        };
                        if kind == "done" {
                            (until, pause) = (Instant::now(), LOOKS[0]);
                        } else {
                            teller.take(&ServerEvent { id, kind, data })?;
                        }
                    }
                }
            }
        }
    }

    async fn fetch(&self, job: &Job, made: &Made, target: &Target) -> Result<Staged, RemoteError> {
        let id = job.known.id.to_string();
        let outcome = self.ledger.outcome(&id).await?;
        let attempt = outcome
            .filter(|outcome| outcome.state == End::Succeeded)
            .and_then(|outcome| outcome.attempt);
        let Some(attempt) = attempt else {
            let message = format!("job {id} made no files");
            return Err(JobError::own(Code::MissingInput, message, "").into());
        };
        let begin = || target.begin().map_err(RemoteError::from);
        let push = |growing: &mut Growing, chunk: &[u8]| Ok(growing.push(chunk)?);
        let name = format!("jobs/{id}/attempt-{attempt}/{}", made.name);
        let sha256 = made.sha256.to_string();
        let bucket = &self.ledger.bucket;
        let fetched = bucket
            .fetch(&name, made.bytes, &sha256, begin, push)
            .await?;
        Ok(fetched.finish()?)
    }
}
