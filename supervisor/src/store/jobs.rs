//! Turns requests on jobs into reads and writes of rows. Each function is one step of a transaction and changes nothing
//! if it refuses.

use std::collections::{BTreeSet, HashMap};
use std::fs;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::blobs::{self, Needed};
use super::clock::Moment;
use super::digest::Digest;
use super::error::{Bound, StoreError};
use super::id::JobId;
use super::job::{Accepted, Artifact, End, Job, NewJob, Outcome, Page, Queue, State, Waiting};
use super::limits::{Limits, Space};
use super::names;
use super::rows::{Sql, read_count, read_id, read_state, signed};
use super::schema::failed;
use super::writer::{Desk, Stray};

/// The columns that [`read_job`] reads.
const SELECT: &str =
    "SELECT seq, id, client, key, spec_digest, input_bytes, created_ms, started_ms, finished_ms,
    expires_ms, state, starts, spec, error, report, fetched FROM jobs JOIN texts ON texts.job = jobs.seq";

/// `sizes` are those of its blobs' files, as far as they are there.
pub(super) fn accept(
    desk: &mut Desk<'_>,
    new: &NewJob,
    sizes: &HashMap<Digest, u64>,
    now: Moment,
) -> Result<Accepted, StoreError> {
    let (db, limits) = (desk.db, &desk.shared.limits);
    let text = format!("{SELECT} WHERE client = ?1 AND key = ?2");
    if let Some(job) = one(db, &text, &[&new.client, &new.key]).map_err(bad)? {
        return Ok(if job.spec_digest == new.spec_digest {
            Accepted::Replayed(Box::new(job))
        } else {
            Accepted::KeyReused
        });
    }
    limits.admit(Space::of(desk.shared.place.root())?, 0)?;
    let waiting = one_more(db, limits, &new.client)?;
    let needed: BTreeSet<Digest> = new.inputs.values().copied().collect();
    let (mut missing, mut input_bytes) = (Vec::new(), new.path_bytes);
    for digest in needed {
        match blobs::find(db, digest)? {
            Some(kept) if sizes.get(&digest) == Some(&kept.bytes) => {
                input_bytes = input_bytes.saturating_add(kept.bytes);
            }
            _ => missing.push(digest),
        }
    }
    if !missing.is_empty() {
        return Err(StoreError::MissingBlobs(missing));
    }
    if waiting.bytes.saturating_add(input_bytes) > limits.queue_bytes {
        return Err(StoreError::QueueFull(Bound::Bytes(limits.queue_bytes)));
    }
    let id = desk.ids.next(now.wall_ms);
    insert(db, id, new, input_bytes, now.wall_ms).map_err(bad)?;
    let job = Job {
        id,
        client: new.client.clone(),
        key: new.key.clone(),
        spec_digest: new.spec_digest,
        spec: new.spec.clone(),
        input_bytes,
        state: State::Queued,
        starts: 0,
        created_ms: now.wall_ms,
        started_ms: None,
        finished_ms: None,
        expires_ms: None,
        fetched: false,
        error: None,
        report: None,
        artifacts: Vec::new(),
    };
    Ok(Accepted::New {
        job: Box::new(job),
        position: waiting.jobs,
    })
}

/// Whether a job of this client under this key would be queued, or exists already, as far as can be told without its
/// inputs.
pub(super) fn admits(
    db: &Connection,
    limits: &Limits,
    client: &str,
    key: &str,
) -> Result<(), StoreError> {
    let known = db
        .prepare_cached("SELECT 1 FROM jobs WHERE client = ?1 AND key = ?2")
        .and_then(|mut select| select.exists([client, key]))
        .map_err(bad)?;
    if known {
        return Ok(());
    }
    one_more(db, limits, client).map(|_waiting| ())
}

/// The queue's totals, if one more job of this client fits.
fn one_more(db: &Connection, limits: &Limits, client: &str) -> Result<Queue, StoreError> {
    let (waiting, own) = waiting(db, client).map_err(bad)?;
    if waiting.jobs >= limits.queue_jobs {
        return Err(StoreError::QueueFull(Bound::Jobs(limits.queue_jobs)));
    }
    if own >= limits.client_jobs {
        return Err(StoreError::QueueFull(Bound::ClientJobs(limits.client_jobs)));
    }
    Ok(waiting)
}

fn insert(db: &Connection, id: JobId, new: &NewJob, input_bytes: u64, now_ms: i64) -> Sql<()> {
    db.prepare_cached(
        "INSERT INTO jobs (id, client, key, spec_digest, input_bytes, created_ms, state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'queued')",
    )?
    .execute(params![
        id.to_string(),
        new.client,
        new.key,
        new.spec_digest.bytes(),
        signed(input_bytes),
        now_ms,
    ])?;
    let seq = db.last_insert_rowid();
    db.prepare_cached("INSERT INTO texts (job, spec) VALUES (?1, ?2)")?
        .execute(params![seq, new.spec])?;
    let mut input =
        db.prepare_cached("INSERT INTO inputs (job, name, digest) VALUES (?1, ?2, ?3)")?;
    for (name, digest) in &new.inputs {
        input.execute(params![seq, name, digest.bytes()])?;
    }
    Ok(())
}

pub(super) fn begin(desk: &Desk<'_>, id: JobId, now: Moment) -> Result<Job, StoreError> {
    let job = get(desk.db, id)?;
    if job.state != State::Queued {
        return Err(StoreError::WrongState(job.state));
    }
    desk.db
        .prepare_cached(
            "UPDATE jobs SET state = 'running', starts = starts + 1, started_ms = ?2 WHERE id = ?1",
        )
        .and_then(|mut update| update.execute(params![id.to_string(), now.wall_ms]))
        .map_err(bad)?;
    Ok(Job {
        state: State::Running,
        starts: job.starts.saturating_add(1),
        started_ms: Some(now.wall_ms),
        ..job
    })
}

pub(super) fn requeue(desk: &Desk<'_>, id: JobId) -> Result<(), StoreError> {
    let state = state_of(desk.db, id)?;
    if state != State::Running {
        return Err(StoreError::WrongState(state));
    }
    desk.db
        .prepare_cached("UPDATE jobs SET state = 'queued' WHERE id = ?1")
        .and_then(|mut update| update.execute([id.to_string()]))
        .map_err(bad)?;
    Ok(())
}

pub(super) fn finish(
    desk: &mut Desk<'_>,
    id: JobId,
    end: &End,
    now: Moment,
) -> Result<Job, StoreError> {
    let job = get(desk.db, id)?;
    let fits = match end.outcome {
        Outcome::Succeeded => job.state == State::Running,
        Outcome::Failed | Outcome::Cancelled => !job.state.is_terminal(),
    };
    if !fits {
        return Err(StoreError::WrongState(job.state));
    }
    for artifact in &end.artifacts {
        is_there(desk, id, artifact)?;
    }
    let expires_ms = now.ms.saturating_add(desk.shared.limits.keep_ms);
    end_rows(desk.db, id, end, now.wall_ms, expires_ms).map_err(bad)?;
    // A file has a limited number of hard links: thousands of kept jobs would use up those of a blob.
    desk.strays.push(Stray::Inputs(id));
    Ok(Job {
        state: end.outcome.state(),
        finished_ms: Some(now.wall_ms),
        expires_ms: Some(expires_ms),
        fetched: end.artifacts.is_empty(),
        error: end.error.clone(),
        report: end.report.clone(),
        artifacts: end.artifacts.clone(),
        ..job
    })
}

fn end_rows(db: &Connection, id: JobId, end: &End, now_ms: i64, expires_ms: i64) -> Sql<()> {
    let seq: i64 = db
        .prepare_cached(
            "UPDATE jobs SET state = ?2, finished_ms = ?3, expires_ms = ?4, fetched = ?5 WHERE id = ?1 RETURNING seq",
        )?
        .query_row(
            // Without a file there is nothing to fetch.
            params![id.to_string(), end.outcome.state().name(), now_ms, expires_ms, end.artifacts.is_empty()],
            |row| row.get(0),
        )?;
    db.prepare_cached("UPDATE texts SET error = ?2, report = ?3 WHERE job = ?1")?
        .execute(params![seq, end.error, end.report])?;
    let mut insert = db.prepare_cached(
        "INSERT INTO artifacts (job, place, name, bytes, digest, media_type) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (place, artifact) in (0_i64..).zip(&end.artifacts) {
        insert.execute(params![
            seq,
            place,
            artifact.name,
            signed(artifact.bytes),
            artifact.digest.bytes(),
            artifact.media_type,
        ])?;
    }
    Ok(())
}

/// Checks that the caller has written the artifact: a row must refer to an existing file.
fn is_there(desk: &Desk<'_>, id: JobId, artifact: &Artifact) -> Result<(), StoreError> {
    let bad = |why: String| StoreError::BadArtifact {
        name: artifact.name.clone(),
        why,
    };
    if artifact.name.contains('/') || names::check_one(&artifact.name).is_err() {
        return Err(bad("is not a plain file name".into()));
    }
    let path = desk.shared.place.job(id).join(&artifact.name);
    match fs::symlink_metadata(&path) {
        Ok(metadata) if !metadata.is_file() => Err(bad("is not a file".into())),
        Ok(metadata) if metadata.len() != artifact.bytes => Err(bad(format!(
            "has {} bytes, not {}",
            metadata.len(),
            artifact.bytes
        ))),
        Ok(_) => Ok(()),
        Err(error) => Err(bad(format!("cannot be found: {error}"))),
    }
}

/// Records that the job's model was fetched.
pub(super) fn fetched(desk: &Desk<'_>, id: JobId) -> Result<(), StoreError> {
    desk.db
        .prepare_cached("UPDATE jobs SET fetched = 1 WHERE id = ?1")
        .and_then(|mut update| update.execute([id.to_string()]))
        .map(|_rows| ())
        .map_err(bad)
}

pub(super) fn forget(desk: &mut Desk<'_>, id: JobId, now: Moment) -> Result<State, StoreError> {
    let state = state_of(desk.db, id)?;
    if state == State::Running {
        return Err(StoreError::WrongState(state));
    }
    remove(desk, id, now.ms).map_err(bad)?;
    Ok(state)
}

/// Removes a job's rows, schedules its folder for removal, and records its id as gone.
pub(super) fn remove(desk: &mut Desk<'_>, id: JobId, now_ms: i64) -> Sql<()> {
    let text = id.to_string();
    desk.db
        .prepare_cached("DELETE FROM jobs WHERE id = ?1")?
        .execute([&text])?;
    desk.db
        .prepare_cached("INSERT OR REPLACE INTO gone (id, at_ms) VALUES (?1, ?2)")?
        .execute(params![text, now_ms])?;
    desk.strays.push(Stray::Job(id));
    Ok(())
}

pub(super) fn get(db: &Connection, id: JobId) -> Result<Job, StoreError> {
    let text = id.to_string();
    match one(db, &format!("{SELECT} WHERE id = ?1"), &[&text]).map_err(bad)? {
        Some(job) => Ok(job),
        None => Err(absent(db, id)?),
    }
}

fn state_of(db: &Connection, id: JobId) -> Result<State, StoreError> {
    let state = db
        .prepare_cached("SELECT state FROM jobs WHERE id = ?1")
        .and_then(|mut select| {
            select
                .query_row([id.to_string()], |row| read_state(row, 0))
                .optional()
        })
        .map_err(bad)?;
    match state {
        Some(state) => Ok(state),
        None => Err(absent(db, id)?),
    }
}

fn absent(db: &Connection, id: JobId) -> Result<StoreError, StoreError> {
    let gone = db
        .prepare_cached("SELECT 1 FROM gone WHERE id = ?1")
        .and_then(|mut select| select.exists([id.to_string()]))
        .map_err(bad)?;
    Ok(if gone {
        StoreError::Gone
    } else {
        StoreError::NotFound
    })
}

pub(super) fn list(
    db: &Connection,
    client: Option<&str>,
    state: Option<State>,
    before: Option<JobId>,
    limit: usize,
) -> Result<Page, StoreError> {
    let filter = if state.is_some() {
        "state = ?1"
    } else {
        "?1 = ''"
    };
    let of = if client.is_some() {
        "client = ?4"
    } else {
        "?4 = ''"
    };
    let text = format!(
        "SELECT id FROM jobs WHERE {filter} AND {of} AND id < ?2 ORDER BY id DESC LIMIT ?3"
    );
    // Sorts after any id.
    let before = before.map_or_else(|| "g".to_owned(), |id| id.to_string());
    // One more than asked for shows whether there is another page.
    let more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let word = state.map_or("", State::name);
    let select = || -> Sql<Vec<JobId>> {
        let mut select = db.prepare_cached(&text)?;
        let rows = select.query_map(params![word, before, more, client.unwrap_or("")], |row| {
            read_id(row, 0)
        })?;
        rows.collect()
    };
    let mut jobs = select().map_err(bad)?;
    let full = jobs.len() > limit;
    jobs.truncate(limit);
    let next = jobs.last().filter(|_| full).copied();
    Ok(Page { jobs, next })
}

/// Queued jobs, in the order of acceptance.
pub(super) fn queued(db: &Connection) -> Sql<Vec<Waiting>> {
    let mut select =
        db.prepare("SELECT id, client, starts FROM jobs WHERE state = 'queued' ORDER BY id")?;
    let rows = select.query_map([], |row| {
        Ok(Waiting {
            id: read_id(row, 0)?,
            client: row.get(1)?,
            starts: row.get(2)?,
        })
    })?;
    rows.collect()
}

pub(super) fn queue(db: &Connection) -> Result<Queue, StoreError> {
    waiting(db, "").map(|(queue, _own)| queue).map_err(bad)
}

/// The queue's totals, and how many of its jobs are this client's.
fn waiting(db: &Connection, client: &str) -> Sql<(Queue, u64)> {
    // total(), not sum(): `path_bytes` may be any number, and sum() fails on overflow.
    db.prepare_cached(
        "SELECT count(*), total(input_bytes), total(client = ?1) FROM jobs WHERE state = 'queued'",
    )?
    .query_row([client], |row| {
        let queue = Queue {
            jobs: read_count(row, 0)?,
            bytes: row.get::<_, f64>(1)? as u64,
        };
        Ok((queue, row.get::<_, f64>(2)? as u64))
    })
}

pub(super) fn position(db: &Connection, id: JobId) -> Result<Option<u64>, StoreError> {
    if state_of(db, id)? != State::Queued {
        return Ok(None);
    }
    db.prepare_cached("SELECT count(*) FROM jobs WHERE state = 'queued' AND id < ?1")
        .and_then(|mut select| select.query_row([id.to_string()], |row| read_count(row, 0)))
        .map(Some)
        .map_err(bad)
}

/// A job's blobs by their names in its input folder, with their sizes. A blob without a size is missing.
pub(super) fn inputs(db: &Connection, id: JobId) -> Result<Vec<Needed>, StoreError> {
    state_of(db, id)?;
    let select = || -> Sql<Vec<Needed>> {
        let mut select = db.prepare_cached(
            "SELECT name, digest, (SELECT bytes FROM blobs WHERE blobs.digest = inputs.digest) FROM inputs
             WHERE job = (SELECT seq FROM jobs WHERE id = ?1) ORDER BY name",
        )?;
        let rows = select.query_map([id.to_string()], |row| {
            let bytes: Option<i64> = row.get(2)?;
            Ok(Needed {
                name: row.get(0)?,
                digest: Digest::from_bytes(row.get(1)?),
                bytes: bytes.map(|_there| read_count(row, 2)).transpose()?,
            })
        })?;
        rows.collect()
    };
    select().map_err(bad)
}

/// A job's blobs by their names in its input folder; empty if the job does not exist.
pub(super) fn read_inputs(db: &Connection, id: JobId) -> Sql<Vec<(String, Digest)>> {
    let mut select = db.prepare_cached(
        "SELECT name, digest FROM inputs WHERE job = (SELECT seq FROM jobs WHERE id = ?1) ORDER BY name",
    )?;
    let rows = select.query_map([id.to_string()], |row| {
        Ok((row.get(0)?, Digest::from_bytes(row.get(1)?)))
    })?;
    rows.collect()
}

fn one(db: &Connection, text: &str, values: &[&dyn rusqlite::ToSql]) -> Sql<Option<Job>> {
    Ok(many(db, text, values)?.pop())
}

fn many(db: &Connection, text: &str, values: &[&dyn rusqlite::ToSql]) -> Sql<Vec<Job>> {
    let mut select = db.prepare_cached(text)?;
    let rows = select.query_map(values, |row| Ok((row.get::<_, i64>(0)?, read_job(row)?)))?;
    let mut jobs = Vec::new();
    for row in rows {
        let (seq, mut job) = row?;
        if job.state.is_terminal() {
            job.artifacts = artifacts(db, seq)?;
        }
        jobs.push(job);
    }
    Ok(jobs)
}

fn artifacts(db: &Connection, seq: i64) -> Sql<Vec<Artifact>> {
    let mut select = db.prepare_cached(
        "SELECT name, bytes, digest, media_type FROM artifacts WHERE job = ?1 ORDER BY place",
    )?;
    let rows = select.query_map([seq], |row| {
        Ok(Artifact {
            name: row.get(0)?,
            bytes: read_count(row, 1)?,
            digest: Digest::from_bytes(row.get(2)?),
            media_type: row.get(3)?,
        })
    })?;
    rows.collect()
}

fn read_job(row: &Row<'_>) -> Sql<Job> {
    Ok(Job {
        id: read_id(row, 1)?,
        client: row.get(2)?,
        key: row.get(3)?,
        spec_digest: Digest::from_bytes(row.get(4)?),
        input_bytes: read_count(row, 5)?,
        created_ms: row.get(6)?,
        started_ms: row.get(7)?,
        finished_ms: row.get(8)?,
        expires_ms: row.get(9)?,
        state: read_state(row, 10)?,
        starts: row.get(11)?,
        spec: row.get(12)?,
        error: row.get(13)?,
        report: row.get(14)?,
        fetched: row.get(15)?,
        artifacts: Vec::new(),
    })
}

fn bad(error: rusqlite::Error) -> StoreError {
    failed(&error)
}
