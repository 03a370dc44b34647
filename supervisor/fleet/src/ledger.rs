//! The objects of a tenant's jobs: orders, attempts, results. What stands here is true, whatever the queue says.

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::bucket::{Bucket, hex};
use crate::fate::{MOST_ATTEMPTS, MOST_RESUMED};
use crate::record::{Attempt, Beat, Order, Outcome};
use crate::{FleetError, now_ms};

/// Attempts that one job may have, those that do not count among them.
const MOST_NUMBERS: u32 = 10_000;

/// Heartbeats that are read at once.
const AT_ONCE: usize = 64;

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// What lies beneath the tenant's prefix.
    pub bucket: Bucket,
}

/// What a host finds of a job that it was handed.
#[derive(Debug)]
pub enum Standing {
    /// Its result is there.
    Over,
    /// Nothing is there.
    Unknown,
    /// Nobody wants it any more.
    Cancelled(Order),
    /// So many hosts have failed that no other one is to try.
    Exhausted(Order, Vec<Attempt>),
    /// It is to be done: this host's attempt at it.
    Open(Order, Attempt),
}

impl Ledger {
    /// The jobs of a tenant.
    #[must_use]
    pub fn of(bucket: &Bucket, tenant: &str) -> Self {
        Self {
            bucket: bucket.within(&format!("tenants/{tenant}")),
        }
    }

    /// Writes a job's order. Returns whether it is new.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn order(&self, order: &Order) -> Result<bool, FleetError> {
        let name = format!("jobs/{}/spec.json", order.id);
        self.bucket.create(&name, json(order)).await
    }

    /// The id that stands for an idempotency key: `id`, if the key is new.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn id_of_key(&self, key: &str, id: &str) -> Result<String, FleetError> {
        let name = format!("keys/{}", hex(&Sha256::digest(key)));
        if self.bucket.create(&name, id.to_owned()).await? {
            return Ok(id.to_owned());
        }
        let known = self.bucket.get(&name).await?.unwrap_or_default();
        String::from_utf8(known.to_vec())
            .map_err(|_| FleetError::Damaged(format!("{name} in the store is no id")))
    }

    /// A job's order; `None` if there is no such job.
    ///
    /// # Errors
    /// The store does not answer, or it is not understood.
    pub async fn find(&self, id: &str) -> Result<Option<Order>, FleetError> {
        self.read(&format!("jobs/{id}/spec.json")).await
    }

    /// How a job ended; `None` if it has not.
    ///
    /// # Errors
    /// The store does not answer, or it is not understood.
    pub async fn outcome(&self, id: &str) -> Result<Option<Outcome>, FleetError> {
        self.read(&format!("jobs/{id}/result.json")).await
    }

    /// Asks whoever works on a job to end it.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn cancel(&self, id: &str) -> Result<(), FleetError> {
        let name = format!("jobs/{id}/cancel");
        self.bucket.create(&name, "").await.map(drop)
    }

    /// Whether a job is to be ended.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn is_cancelled(&self, id: &str) -> Result<bool, FleetError> {
        self.bucket.has(&format!("jobs/{id}/cancel")).await
    }

    /// All attempts at a job, the first first.
    ///
    /// # Errors
    /// The store does not answer, or one is not understood.
    pub async fn attempts(&self, id: &str) -> Result<Vec<Attempt>, FleetError> {
        let mut attempts: Vec<Attempt> = Vec::new();
        let entries = self.bucket.list(&format!("jobs/{id}/attempts"), "").await?;
        for entry in entries {
            attempts.extend(self.read(&entry.name).await?);
        }
        attempts.sort_by_key(|attempt| attempt.number);
        Ok(attempts)
    }

    /// How a job stands for `host`, which was handed it. An attempt of this host that has not ended is taken up again: it
    /// was killed and is back. An attempt that ended its host each time is over, and a new one begins.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn take(&self, id: &str, host: &str) -> Result<Standing, FleetError> {
        if self.bucket.has(&format!("jobs/{id}/result.json")).await? {
            return Ok(Standing::Over);
        }
        let Some(order) = self.find(id).await? else {
            return Ok(Standing::Unknown);
        };
        if self.is_cancelled(id).await? {
            return Ok(Standing::Cancelled(order));
        }
        let mut attempts = self.attempts(id).await?;
        let own = |attempt: &&mut Attempt| attempt.host == host && attempt.ended_ms.is_none();
        if let Some(attempt) = attempts.iter_mut().find(own) {
            attempt.resumed += 1;
            let goes_on = attempt.resumed <= MOST_RESUMED;
            if !goes_on {
                attempt.ended_ms = Some(now_ms());
                attempt.error = Some("its host was lost with it again and again".into());
            }
            self.note(id, attempt).await?;
            if goes_on {
                return Ok(Standing::Open(order, attempt.clone()));
            }
        }
        if attempts.iter().filter(|attempt| attempt.counts).count() >= MOST_ATTEMPTS {
            return Ok(Standing::Exhausted(order, attempts));
        }
        let mut number = attempts.last().map_or(1, |last| last.number + 1);
        while number < MOST_NUMBERS {
            let attempt = Attempt {
                number,
                host: host.to_owned(),
                begun_ms: now_ms(),
                resumed: 0,
                ended_ms: None,
                counts: true,
                exit_code: None,
                error: None,
            };
            let name = format!("jobs/{id}/attempts/{number}.json");
            if self.bucket.create(&name, json(&attempt)).await? {
                return Ok(Standing::Open(order, attempt));
            }
            // Another host took it in this moment.
            number += 1;
        }
        Ok(Standing::Exhausted(order, attempts))
    }

    /// Writes how an attempt stands.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn note(&self, id: &str, attempt: &Attempt) -> Result<(), FleetError> {
        let name = format!("jobs/{id}/attempts/{}.json", attempt.number);
        self.bucket.put(&name, json(attempt)).await
    }

    /// Writes how a job ended, unless that is known. Returns whether it was not.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn conclude(&self, id: &str, outcome: &Outcome) -> Result<bool, FleetError> {
        let name = format!("jobs/{id}/result.json");
        self.bucket.create(&name, json(outcome)).await
    }

    /// The ids of all jobs from `from` on, the oldest first; of all if it is empty.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn ids(&self, from: &str) -> Result<Vec<String>, FleetError> {
        let entries = self.bucket.list("jobs", from).await?;
        let ids = entries.into_iter().filter_map(|entry| {
            let (id, file) = entry.name.strip_prefix("jobs/")?.split_once('/')?;
            (file == "spec.json").then(|| id.to_owned())
        });
        Ok(ids.collect())
    }

    async fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, FleetError> {
        read(&self.bucket, name).await
    }
}

/// Writes a host's heartbeat.
///
/// # Errors
/// The store does not take it.
pub async fn beat(bucket: &Bucket, beat: &Beat) -> Result<(), FleetError> {
    let name = format!("hosts/{}.json", beat.host);
    bucket.put(&name, json(beat)).await
}

/// Removes the heartbeat of a host that leaves.
///
/// # Errors
/// The store does not answer.
pub async fn leave(bucket: &Bucket, host: &str) -> Result<(), FleetError> {
    bucket.remove(&format!("hosts/{host}.json")).await
}

/// The last heartbeat of each host.
///
/// # Errors
/// The store does not answer, or one is not understood.
pub async fn hosts(bucket: &Bucket) -> Result<Vec<Beat>, FleetError> {
    let entries = stream::iter(bucket.list("hosts", "").await?);
    let beats = entries.map(|entry| async move { read(bucket, &entry.name).await });
    let beats: Vec<Option<Beat>> = beats.buffered(AT_ONCE).try_collect().await?;
    Ok(beats.into_iter().flatten().collect())
}

async fn read<T: DeserializeOwned>(bucket: &Bucket, name: &str) -> Result<Option<T>, FleetError> {
    let Some(bytes) = bucket.get(name).await? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| FleetError::Damaged(format!("{name} in the store: {error}")))
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Maps with names as keys, numbers and texts: these always have a JSON.
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::End;

    fn ledger() -> (tempfile::TempDir, Ledger) {
        let folder = tempfile::tempdir().expect("a folder");
        let bucket = Bucket::open(&folder.path().to_string_lossy()).expect("a folder is a store");
        (folder, Ledger::of(&bucket, "tenant"))
    }

    fn order(id: &str) -> Order {
        Order {
            id: id.to_owned(),
            created_ms: 1,
            name: String::new(),
            blobs: [("ab".to_owned(), 1)].into(),
            spec: json!({}),
        }
    }

    fn number(standing: Standing) -> u32 {
        match standing {
            Standing::Open(_, attempt) => attempt.number,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn three_hosts_try_a_job_and_one_that_is_back_goes_on() {
        let (_folder, ledger) = ledger();
        let take = |host| ledger.take("a", host);
        assert!(matches!(take("h").await, Ok(Standing::Unknown)));
        assert!(ledger.order(&order("a")).await.expect("room"));
        assert!(!ledger.order(&order("a")).await.expect("room"));
        assert_eq!(number(take("one").await.expect("there")), 1);
        for _ in 0..MOST_RESUMED {
            assert_eq!(number(take("one").await.expect("there")), 1, "it is back");
        }
        assert_eq!(number(take("two").await.expect("there")), 2);
        let mut full = match take("three").await.expect("there") {
            Standing::Open(_, attempt) => attempt,
            other => panic!("{other:?}"),
        };
        // A host that is full does not count.
        (full.ended_ms, full.counts) = (Some(2), false);
        ledger.note("a", &full).await.expect("room");
        assert_eq!(number(take("four").await.expect("there")), 4);
        let Standing::Exhausted(_, attempts) = take("five").await.expect("there") else {
            panic!("three attempts count");
        };
        assert_eq!(attempts.len(), 4);
    }

    #[tokio::test]
    async fn a_job_that_ends_its_host_each_time_comes_to_an_end() {
        let (_folder, ledger) = ledger();
        ledger.order(&order("a")).await.expect("room");
        let mut takes = 0;
        let attempts = loop {
            match ledger.take("a", "one").await.expect("there") {
                Standing::Open(..) => takes += 1,
                Standing::Exhausted(_, attempts) => break attempts,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(takes, MOST_ATTEMPTS * (1 + MOST_RESUMED as usize));
        assert!(attempts.iter().all(|attempt| attempt.error.is_some()));
    }

    #[tokio::test]
    async fn a_job_ends_once_and_a_cancelled_one_is_not_begun() {
        let (_folder, ledger) = ledger();
        ledger.order(&order("a")).await.expect("room");
        ledger.order(&order("b")).await.expect("room");
        ledger.cancel("a").await.expect("room");
        ledger.cancel("a").await.expect("room");
        let standing = ledger.take("a", "h").await.expect("there");
        assert!(matches!(standing, Standing::Cancelled(_)), "{standing:?}");
        let outcome = |host: &str| Outcome {
            state: End::Succeeded,
            finished_ms: 1,
            attempt: Some(1),
            host: Some(host.to_owned()),
            job: json!({}),
            attempts: Vec::new(),
        };
        assert!(ledger.conclude("b", &outcome("one")).await.expect("room"));
        assert!(!ledger.conclude("b", &outcome("two")).await.expect("room"));
        let known = ledger.outcome("b").await.expect("there").expect("there");
        assert_eq!(known.host.as_deref(), Some("one"));
        assert!(matches!(ledger.take("b", "h").await, Ok(Standing::Over)));
        assert_eq!(ledger.ids("").await.expect("a list"), ["a", "b"]);
        assert_eq!(ledger.ids("aa").await.expect("a list"), ["b"]);
        assert_eq!(ledger.id_of_key("k", "a").await.expect("room"), "a");
        assert_eq!(ledger.id_of_key("k", "b").await.expect("there"), "a");
    }
}
