//! Makes rows and files agree after a sudden end. Rows are right; files follow.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use rusqlite::{Connection, Row};

use super::Recovered;
use super::clock::{Clock, Time};
use super::digest::Digest;
use super::error::StoreError;
use super::id::{Ids, JobId};
use super::jobs;
use super::place::Place;
use super::rows::{Sql, read_count, read_id};
use super::schema::told;

/// Repairs the store. Returns its queued jobs, the generator of ids and the store's time. No finished job expires later
/// than `keep_ms` from now.
pub(super) fn recover(
    db: &mut Connection,
    place: &Place,
    clock: Clock,
    keep_ms: i64,
) -> Result<(Recovered, Ids, Time), StoreError> {
    let mut files: HashMap<Digest, u64> = HashMap::new();
    for branch in names(&place.blobs())? {
        for name in names(&place.blobs().join(&branch))? {
            // Files with other names are not ours.
            let Some(digest) = name.to_str().and_then(|name| name.parse::<Digest>().ok()) else {
                continue;
            };
            // A file whose size cannot be read counts as truncated.
            let bytes = fs::symlink_metadata(place.blob(digest)).map_or(0, |file| file.len());
            files.insert(digest, bytes);
        }
    }
    let Rows {
        mut recovered,
        blobs,
        states,
        removed,
        time,
    } = rows(db, &files, clock, keep_ms).map_err(|error| told(place, &error))?;
    for digest in files.keys().filter(|digest| !blobs.contains(*digest)) {
        recovered.stray_blobs += u64::from(clear(&place.blob(*digest)));
    }
    for name in names(&place.jobs())? {
        let id = name.to_str().and_then(|name| name.parse::<JobId>().ok());
        // A job that starts afresh gets a new folder.
        match id {
            Some(id) if states.get(&id).is_none_or(|queued| *queued) => {
                recovered.folders += u64::from(clear(&place.job(id)));
            }
            // Left by a process that ended at this moment, or by a version that kept them.
            Some(id) if place.input(id).exists() => _ = clear(&place.input(id)),
            _ => {}
        }
    }
    for name in names(&place.spool())? {
        recovered.uploads += u64::from(clear(&place.spool().join(name)));
    }
    // With a clock that went back, the next id is the last plus one: that of a removed job must not be another's.
    let last = states.keys().max().copied().max(removed);
    Ok((recovered, Ids::after(last), time))
}

struct Rows {
    recovered: Recovered,
    /// Blobs that have a row.
    blobs: HashSet<Digest>,
    /// Whether each job is queued.
    states: HashMap<JobId, bool>,
    /// The greatest id of those that were removed.
    removed: Option<JobId>,
    time: Time,
}

/// Repairs the rows.
fn rows(
    db: &mut Connection,
    files: &HashMap<Digest, u64>,
    clock: Clock,
    keep_ms: i64,
) -> Sql<Rows> {
    let batch = db.transaction()?;
    let time = Time::resume(&batch, clock)?;
    let mut recovered = Recovered::default();
    let restarted = batch.execute(
        "UPDATE jobs SET state = 'queued' WHERE state = 'running'",
        [],
    )?;
    recovered.restarted = restarted as u64;
    // A longer retention in the past, or a clock that was ahead, must not keep a job for ever.
    let text = "UPDATE jobs SET expires_ms = ?1 WHERE expires_ms > ?1";
    batch.execute(text, [time.now().ms.saturating_add(keep_ms)])?;
    let mut blobs = HashSet::new();
    let known = all(&batch, "SELECT digest, bytes FROM blobs", |row| {
        Ok((Digest::from_bytes(row.get(0)?), read_count(row, 1)?))
    })?;
    for (digest, bytes) in known {
        if files.get(&digest) == Some(&bytes) {
            blobs.insert(digest);
            continue;
        }
        tracing::warn!(%digest, "the file of an upload is gone or cut short: it must be sent again");
        batch.execute("DELETE FROM blobs WHERE digest = ?1", [digest.bytes()])?;
        recovered.lost_blobs += 1;
    }
    let jobs = all(&batch, "SELECT id, state = 'queued' FROM jobs", |row| {
        Ok((read_id(row, 0)?, row.get(1)?))
    })?;
    let text = "SELECT id FROM gone ORDER BY id DESC LIMIT 1";
    let removed = all(&batch, text, |row| read_id(row, 0))?.pop();
    recovered.stored = jobs.len() as u64;
    recovered.queued = jobs::queued(&batch)?;
    batch.commit()?;
    // Otherwise a WAL that grew over many sudden ends would be read at each open.
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_row| Ok(()))?;
    Ok(Rows {
        recovered,
        blobs,
        states: jobs.into_iter().collect(),
        removed,
        time,
    })
}

fn all<T>(db: &Connection, text: &str, read: impl FnMut(&Row<'_>) -> Sql<T>) -> Sql<Vec<T>> {
    db.prepare(text)?.query_map([], read)?.collect()
}

fn names(folder: &Path) -> Result<Vec<OsString>, StoreError> {
    let list = || -> io::Result<Vec<OsString>> {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.file_name()))
            .collect()
    };
    list().map_err(|error| StoreError::io("list", folder, &error))
}

/// Removes a file or folder that no row refers to. A failure is harmless.
fn clear(path: &Path) -> bool {
    let done = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        _ => fs::remove_file(path),
    };
    match done {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot be removed");
            false
        }
    }
}
