//! Removes what is past its time or beyond the space limit.
//!
//! Finished jobs expire after their time, or after twice that if nobody fetched the result. Uploads expire when no job
//! has used them for long. While more than the limit is kept, the jobs that expire first go, with the uploads that only
//! they used: first those whose result was fetched. Unused uploads go last.

use rusqlite::{Connection, params};

use super::Expired;
use super::clock::Moment;
use super::digest::Digest;
use super::error::StoreError;
use super::id::JobId;
use super::jobs;
use super::limits::Space;
use super::rows::{Sql, read_count, read_id};
use super::schema::failed;
use super::writer::{Desk, Stray};

/// Jobs per transaction: their files are removed before the next request is served.
const JOBS: i64 = 16;
/// Blobs per transaction.
const BLOBS: usize = 64;
/// How long a removed job is reported as gone.
const GONE_MS: i64 = 7 * 24 * 60 * 60 * 1000;

const UNUSED: &str = "SELECT digest, bytes FROM blobs
    WHERE used_ms <= ?1 AND NOT EXISTS (SELECT 1 FROM inputs WHERE inputs.digest = blobs.digest) ORDER BY used_ms";

/// Removes one batch. The result is empty when nothing is left to remove.
pub(super) fn some(desk: &mut Desk<'_>, now: Moment) -> Result<Expired, StoreError> {
    let space = Space::of(desk.shared.place.root())?;
    let step = |desk: &mut Desk<'_>| {
        desk.shared.time.note(desk.db, now)?;
        step(desk, now.ms, space)
    };
    step(desk).map_err(|error| failed(&error))
}

fn step(desk: &mut Desk<'_>, now_ms: i64, space: Space) -> Sql<Expired> {
    let mut gone = Expired::default();
    desk.db
        .prepare_cached("DELETE FROM gone WHERE at_ms < ?1")?
        .execute([now_ms.saturating_sub(GONE_MS)])?;
    for (id, bytes) in finished(
        desk.db,
        "WHERE expires_ms <= ?1 AND (fetched OR expires_ms <= ?1 - ?3) ORDER BY expires_ms",
        now_ms,
        desk.shared.limits.keep_ms,
    )? {
        jobs::remove(desk, id, now_ms)?;
        gone.jobs.push(id);
        gone.bytes += bytes;
    }
    let unused_since = now_ms.saturating_sub(desk.shared.limits.keep_unused_ms);
    for (digest, bytes) in unused(desk, unused_since)? {
        remove_blob(desk, digest, bytes, &mut gone)?;
    }
    let kept = desk.shared.limits.kept(space);
    let mut total = bytes_kept(desk.db)?;
    if total <= kept {
        return Ok(gone);
    }
    for (id, bytes) in finished(
        desk.db,
        "WHERE expires_ms <= ?1 - ?3 ORDER BY fetched DESC, expires_ms",
        i64::MAX,
        0,
    )? {
        if total <= kept {
            return Ok(gone);
        }
        let used = jobs::read_inputs(desk.db, id)?;
        jobs::remove(desk, id, now_ms)?;
        gone.jobs.push(id);
        gone.bytes += bytes;
        let before = gone.bytes;
        for (_name, digest) in used {
            if let Some(bytes) = size_if_unused(desk, digest)? {
                remove_blob(desk, digest, bytes, &mut gone)?;
            }
        }
        total = total.saturating_sub(bytes + gone.bytes - before);
    }
    if total <= kept || !gone.jobs.is_empty() {
        return Ok(gone);
    }
    for (digest, bytes) in unused(desk, i64::MAX)? {
        if total <= kept {
            break;
        }
        remove_blob(desk, digest, bytes, &mut gone)?;
        total = total.saturating_sub(bytes);
    }
    Ok(gone)
}

/// One batch of finished jobs, with the bytes of their artifacts.
fn finished(db: &Connection, which: &str, bound: i64, grace: i64) -> Sql<Vec<(JobId, u64)>> {
    let mut select = db.prepare_cached(&format!(
        "SELECT id, (SELECT coalesce(sum(bytes), 0) FROM artifacts WHERE job = seq) FROM jobs {which} LIMIT ?2"
    ))?;
    let rows = select.query_map(params![bound, JOBS, grace], |row| {
        Ok((read_id(row, 0)?, read_count(row, 1)?))
    })?;
    rows.collect()
}

/// One batch of blobs that no job uses and no upload is about to bring again.
fn unused(desk: &Desk<'_>, used_before: i64) -> Sql<Vec<(Digest, u64)>> {
    let mut select = desk.db.prepare_cached(UNUSED)?;
    let rows = select.query_map([used_before], |row| {
        Ok((Digest::from_bytes(row.get(0)?), read_count(row, 1)?))
    })?;
    let free = |row: &Sql<(Digest, u64)>| {
        row.as_ref()
            .map_or(true, |(digest, _)| !desk.shared.is_pinned(*digest))
    };
    rows.filter(free).take(BLOBS).collect()
}

fn size_if_unused(desk: &Desk<'_>, digest: Digest) -> Sql<Option<u64>> {
    if desk.shared.is_pinned(digest) {
        return Ok(None);
    }
    let mut select = desk.db.prepare_cached(
        "SELECT bytes FROM blobs WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM inputs WHERE digest = ?1)",
    )?;
    let mut rows = select.query([digest.bytes()])?;
    rows.next()?.map(|row| read_count(row, 0)).transpose()
}

fn remove_blob(desk: &mut Desk<'_>, digest: Digest, bytes: u64, gone: &mut Expired) -> Sql<()> {
    desk.db
        .prepare_cached("DELETE FROM blobs WHERE digest = ?1")?
        .execute([digest.bytes()])?;
    desk.strays.push(Stray::Blob(digest));
    gone.blobs += 1;
    gone.bytes += bytes;
    Ok(())
}

/// Bytes of all results and uploads.
fn bytes_kept(db: &Connection) -> Sql<u64> {
    db.prepare_cached("SELECT (SELECT coalesce(sum(bytes), 0) FROM blobs) + (SELECT coalesce(sum(bytes), 0) FROM artifacts)")?
        .query_row([], |row| read_count(row, 0))
}
