//! One delivery of a job → its attempt here, and the message acked, put back or ended.
//!
//! ```text
//!  inputs: store → file → sidecar, unless it has them       POST /v1/jobs with the key ID-K: a worker that was killed finds its job
//!  events: sidecar → queue                                  every 5 s, while the sidecar answers for the job: "in progress"
//!  files: sidecar → file → store, attempt-K/NAME            then result.json, if there is none yet; only then the ack
//! ```

mod attempt;

use std::cell::Cell;
use std::time::Duration;

use kiln_fleet::fate::MOST_ATTEMPTS;
use kiln_fleet::ledger::{self, Standing};
use kiln_fleet::record::{Attempt, End, Order, Outcome};
use kiln_fleet::{Delivery, Fate, FleetError, Ledger, now_ms};
use proto::message::Code;
use serde_json::{Value, json};

use self::attempt::Trouble;
use super::worker::{Running, Worker};
use crate::error::JobError;
use crate::remote::jobs::Job;
use crate::serve::board::State;
use crate::store::JobId;

/// Between two looks at whether the job advances; a third of the time after which it goes to another host.
const LOOK: Duration = Duration::from_secs(5);
/// Tries to have an ack confirmed; then the job is handed out once more, and found to be over.
const ACKS: u32 = 3;

/// What becomes of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    Done,
    Ended,
    Later(Duration),
}

struct Errand<'a> {
    worker: &'a Worker,
    delivery: &'a Delivery,
    running: &'a Running,
    ledger: Ledger,
    /// The sidecar's job, once it has one.
    local: Cell<Option<JobId>>,
}

/// Carries out one delivery; see the head of this file.
pub(super) async fn run(worker: &Worker, delivery: &Delivery, running: &Running) {
    let known = delivery.id.parse::<JobId>().is_ok() && super::name(&delivery.tenant).is_ok();
    let errand = Errand {
        worker,
        delivery,
        running,
        ledger: Ledger::of(&worker.bucket, &delivery.tenant),
        local: Cell::new(None),
    };
    let settled = match known {
        // Names become paths in the store.
        false => Settled::Ended,
        true => errand.carry_out().await,
    };
    for _ in 0..ACKS {
        let told = match settled {
            Settled::Done => delivery.done().await,
            Settled::Ended => delivery.term().await,
            Settled::Later(delay) => delivery.later(delay).await,
        };
        match told {
            Ok(()) => break,
            Err(error) => tracing::warn!(id = delivery.id, "{error}"),
        }
    }
    tracing::info!(
        id = delivery.id,
        tenant = delivery.tenant,
        ?settled,
        "settled"
    );
    if !matches!(settled, Settled::Later(_)) {
        errand.tell(0, "done", String::new()).await;
        errand.forget().await;
    }
}

impl Errand<'_> {
    async fn carry_out(&self) -> Settled {
        let id = &self.delivery.id;
        let standing = self.ledger.take(id, &self.worker.options.host).await;
        let standing = match standing {
            Ok(standing) => standing,
            Err(error) => return self.store_failed(&error),
        };
        let settled = match standing {
            Standing::Over => Ok(Settled::Done),
            Standing::Unknown => {
                tracing::warn!(id, "a message without a job");
                let laid = json!({ "id": id, "error": "there is no such job in the store" });
                self.bury(laid).await.map(|()| Settled::Ended)
            }
            Standing::Cancelled(_) => self.cancelled().await,
            Standing::Exhausted(_, attempts) => self.exhausted(attempts, None).await,
            Standing::Open(order, _) if self.delivery.too_often() => {
                tracing::warn!(id, name = order.name, "handed out too often");
                self.exhausted(Vec::new(), None).await
            }
            Standing::Open(order, attempt) => self.attempt(&order, attempt).await,
        };
        settled.unwrap_or_else(|error| self.store_failed(&error))
    }

    fn store_failed(&self, error: &FleetError) -> Settled {
        tracing::warn!(id = self.delivery.id, "{error}");
        Settled::Later(Fate::Later.delay(self.delivery.delivered))
    }

    /// Bakes the job here, and says what becomes of the message.
    async fn attempt(&self, order: &Order, attempt: Attempt) -> Result<Settled, FleetError> {
        let ended = {
            let work = self.work(order, &attempt);
            tokio::select! {
                ended = work => ended,
                trouble = self.keep() => Err(trouble),
            }
        };
        match ended {
            Ok(job) if job.known.state == State::Succeeded => {
                let (state, attempts) = (End::Succeeded, Vec::new());
                self.conclude(state, Some(&attempt), shown(&job), attempts)
                    .await?;
                self.worker.fit();
                self.worker.succeeded.set(self.worker.succeeded.get() + 1);
                Ok(Settled::Done)
            }
            Ok(job) if job.known.state == State::Cancelled => {
                self.conclude(End::Cancelled, Some(&attempt), shown(&job), Vec::new())
                    .await?;
                Ok(Settled::Done)
            }
            Ok(job) => {
                let error = job.failure();
                let code = error.as_ref().map_or(70, |error| error.exit_code);
                let told = json!(error);
                self.failed(attempt, code, told, shown(&job)).await
            }
            Err(Trouble::Cancelled) => {
                self.stop().await;
                self.cancelled().await
            }
            Err(Trouble::Leaving) => {
                self.stop().await;
                self.put_back(attempt, json!("its host left")).await
            }
            Err(Trouble::Store(FleetError::Damaged(why))) => {
                let error = JobError::own(Code::IoError, why, "submit the job again");
                let code = error.exit_code;
                let job = json!({ "error": error });
                self.failed(attempt, code, json!(error), job).await
            }
            Err(Trouble::Store(error)) => {
                let settled = self.store_failed(&error);
                self.put_back(attempt, json!(error.to_string())).await?;
                Ok(settled)
            }
            Err(Trouble::Sidecar(error)) => {
                let error = super::job_error(error);
                let code = error.exit_code;
                let job = json!({ "error": error });
                self.failed(attempt, code, json!(error), job).await
            }
        }
    }

    /// The attempt failed: the job has, or another host tries.
    async fn failed(
        &self,
        mut attempt: Attempt,
        code: u8,
        error: Value,
        job: Value,
    ) -> Result<Settled, FleetError> {
        let fate = Fate::of(code);
        tracing::warn!(id = self.delivery.id, code, ?fate, %error, "an attempt failed");
        self.worker.failed.set(self.worker.failed.get() + 1);
        if fate == Fate::Unfit {
            let why = error["message"].as_str().unwrap_or("a job found it unfit");
            self.worker.rest(&crate::words::printable(why, 400));
        }
        if fate == Fate::Later {
            self.put_back(attempt, error).await?;
            return Ok(Settled::Later(fate.delay(self.delivery.delivered)));
        }
        attempt.ended_ms = Some(now_ms());
        (attempt.exit_code, attempt.error) = (Some(code), Some(error));
        self.ledger.note(&self.delivery.id, &attempt).await?;
        if fate == Fate::Failed {
            self.conclude(End::Failed, Some(&attempt), job, Vec::new())
                .await?;
            return Ok(Settled::Ended);
        }
        let attempts = self.ledger.attempts(&self.delivery.id).await?;
        match attempts.iter().filter(|attempt| attempt.counts).count() >= MOST_ATTEMPTS {
            true => self.exhausted(attempts, Some(job)).await,
            false => Ok(Settled::Later(fate.delay(self.delivery.delivered))),
        }
    }

    /// The attempt was none: another one does not count more for it.
    async fn put_back(&self, mut attempt: Attempt, error: Value) -> Result<Settled, FleetError> {
        (attempt.ended_ms, attempt.counts) = (Some(now_ms()), false);
        attempt.error = Some(error);
        self.ledger.note(&self.delivery.id, &attempt).await?;
        Ok(Settled::Later(Duration::ZERO))
    }

    /// No host could do the job: it has failed, and lies in `KILN_DEAD`, unless one is still at it.
    async fn exhausted(
        &self,
        attempts: Vec<Attempt>,
        job: Option<Value>,
    ) -> Result<Settled, FleetError> {
        let id = &self.delivery.id;
        if job.is_none() {
            let (hosts, now) = (ledger::hosts(&self.worker.bucket).await?, now_ms());
            if hosts.iter().any(|beat| beat.works_on(id, now)) {
                return Ok(Settled::Later(LOOK * 3));
            }
        }
        let job = job.unwrap_or_else(|| {
            let told = attempts
                .iter()
                .rev()
                .find_map(|attempt| attempt.error.clone());
            let lost = || {
                let hosts: Vec<&str> = attempts.iter().map(|one| one.host.as_str()).collect();
                let message = format!("every host that took it was lost: {}", hosts.join(", "));
                json!(JobError::own(Code::WorkerCrashed, message, ""))
            };
            json!({ "error": told.filter(Value::is_object).unwrap_or_else(lost) })
        });
        let laid = json!({ "id": id, "tenant": self.delivery.tenant, "error": job["error"], "attempts": attempts });
        self.conclude(End::Failed, attempts.last(), job, attempts.clone())
            .await?;
        self.bury(laid).await?;
        Ok(Settled::Ended)
    }

    async fn bury(&self, result: Value) -> Result<(), FleetError> {
        let Delivery { id, tenant, .. } = self.delivery;
        let queue = &self.worker.queue;
        queue
            .bury(tenant, id, result.to_string().into_bytes())
            .await
    }

    async fn cancelled(&self) -> Result<Settled, FleetError> {
        let job = json!({ "error": JobError::withdrawn() });
        self.conclude(End::Cancelled, None, job, Vec::new()).await?;
        Ok(Settled::Done)
    }

    /// Writes the result, unless there is one; then the files of this attempt go.
    async fn conclude(
        &self,
        state: End,
        attempt: Option<&Attempt>,
        job: Value,
        attempts: Vec<Attempt>,
    ) -> Result<(), FleetError> {
        let id = &self.delivery.id;
        let attempts = match attempts.is_empty() {
            true => attempt.cloned().into_iter().collect(),
            false => attempts,
        };
        let outcome = Outcome {
            state,
            finished_ms: now_ms(),
            attempt: attempt.map(|attempt| attempt.number),
            host: attempt.map(|attempt| attempt.host.clone()),
            job,
            attempts,
        };
        if self.ledger.conclude(id, &outcome).await? || state != End::Succeeded {
            return Ok(());
        }
        // A lost answer to the same write looks like another's result.
        let known = self.ledger.outcome(id).await?;
        let own = |known: &Outcome| known.attempt == outcome.attempt;
        if let Some(attempt) = attempt
            && !known.as_ref().is_some_and(own)
        {
            let folder = format!("jobs/{id}/attempt-{}", attempt.number);
            for entry in self.ledger.bucket.list(&folder, "").await? {
                self.ledger.bucket.remove(&entry.name).await?;
            }
        }
        Ok(())
    }
}

/// A sidecar's job as the store keeps it: without the spec, which lies beside it.
fn shown(job: &Job) -> Value {
    let mut job = job.raw.clone();
    if let Some(job) = job.as_object_mut() {
        job.remove("spec");
    }
    job
}
