//! Jobs of many hosts: a work queue (NATS `JetStream`) and an object store → each job done once, or failed for a reason that is told.
//!
//! There is no scheduler. A job is an object that says what to do, and a small message that says that it is to be done. What is
//! true stands in the store: a job whose result exists is over, whatever the queue says. Results appear by *create if
//! absent*, so two hosts with the same job make one result. Specs and reports are JSON that nothing here looks into.
//!
//! ```text
//!  PREFIX/hosts/HOST.json                          a heartbeat of each worker
//!  PREFIX/tenants/TENANT/blobs/SHA256              an input, by its content
//!  PREFIX/tenants/TENANT/keys/SHA256               of an idempotency key: the job's id
//!  PREFIX/tenants/TENANT/jobs/ID/spec.json         what to do              created by who submits
//!                               /cancel            do it no more           created by who cancels
//!                               /attempts/K.json   a host that took it     created, then written by that host
//!                               /attempt-K/NAME    a file that it made
//!                               /result.json       how it ended            created once
//!
//!  kiln.jobs.TENANT      stream KILN_JOBS, a work queue: ids      consumer `kiln`
//!  kiln.dead.TENANT      stream KILN_DEAD: results of jobs that no host could do
//!  kiln.events.TENANT.ID, kiln.cancel.TENANT.ID                    without a stream: progress, and a wake-up
//! ```
//!
//! - [`bucket`]: bytes in the store; [`ledger`]: the objects of a job; [`record`]: their JSON
//! - [`queue`]: messages; [`fate`]: an exit code → what becomes of the message

#![forbid(unsafe_code)]

pub mod bucket;

pub mod fate;

pub mod ledger;

pub mod queue;

pub mod record;

use std::time::{SystemTime, UNIX_EPOCH};

pub use bucket::Bucket;
pub use fate::Fate;
pub use ledger::Ledger;
pub use queue::{Delivery, Queue};

/// Why the queue or the store did not do as asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FleetError {
    /// An address or a file of credentials cannot be used.
    #[error("{0}")]
    Usage(String),
    /// Nothing answers, or not in time.
    #[error("{0}")]
    Unreachable(String),
    /// These credentials may not do that.
    #[error("{0}")]
    Denied(String),
    /// What arrived differs from what was promised.
    #[error("{0}")]
    Damaged(String),
}

/// Milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Checks a name that becomes a part of subjects and of paths: a tenant, a host.
///
/// # Errors
/// What it must be.
pub fn checked_name(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match (1..=64).contains(&text.len()) && text.bytes().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("must be 1 to 64 letters, digits, - and _".to_owned()),
    }
}
