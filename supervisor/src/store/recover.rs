//! What a sudden end left → a store in which rows and files agree: rows are right, files follow.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use rusqlite::{Connection, Row};

use super::Recovered;
use super::digest::Digest;
use super::error::StoreError;
use super::id::{Ids, JobId};
use super::jobs::{self, Sql, read_id};
use super::place::Place;
use super::schema::told;

/// Puts the store right and tells what waits in it, and which ids may come next. No job is kept beyond `latest_ms`.
pub(super) fn recover(
    db: &mut Connection,
    place: &Place,
    latest_ms: i64,
) -> Result<(Recovered, Ids), StoreError> {
    let mut files: HashSet<Digest> = HashSet::new();
    for branch in names(&place.blobs())? {
        for name in names(&place.blobs().join(&branch))? {
            // Whatever else lies there is not ours.
            files.extend(name.to_str().and_then(|name| name.parse::<Digest>().ok()));
        }
    }
    let (mut recovered, rows, states) =
        rows(db, &files, latest_ms).map_err(|error| told(place, &error))?;
    for digest in files.difference(&rows) {
        recovered.stray_blobs += u64::from(clear(&place.blob(*digest)));
    }
    for name in names(&place.jobs())? {
        let id = name.to_str().and_then(|name| name.parse::<JobId>().ok());
        // Of a job that starts anew, the folder is made anew.
        if let Some(id) = id.filter(|id| states.get(id).is_none_or(|queued| *queued)) {
            recovered.folders += u64::from(clear(&place.job(id)));
        }
    }
    for name in names(&place.spool())? {
        recovered.uploads += u64::from(clear(&place.spool().join(name)));
    }
    let last = states.keys().max().copied();
    Ok((recovered, Ids::after(last)))
}

type Rows = (Recovered, HashSet<Digest>, HashMap<JobId, bool>);

/// Puts the rows right; gives the blobs that have one, and the jobs, with whether they wait.
fn rows(db: &mut Connection, files: &HashSet<Digest>, latest_ms: i64) -> Sql<Rows> {
    let batch = db.transaction()?;
    let mut recovered = Recovered::default();
    let restarted = batch.execute(
        "UPDATE jobs SET state = 'queued' WHERE state = 'running'",
        [],
    )?;
    recovered.restarted = restarted as u64;
    // A clock that was ahead, or a rule that was longer, keeps nothing for ever.
    let text = "UPDATE jobs SET expires_ms = ?1 WHERE expires_ms > ?1";
    batch.execute(text, [latest_ms])?;
    let mut blobs = all(&batch, "SELECT digest FROM blobs", |row| {
        row.get(0).map(Digest::from_bytes)
    })?
    .into_iter()
    .collect::<HashSet<Digest>>();
    for lost in blobs.difference(files) {
        batch.execute("DELETE FROM blobs WHERE digest = ?1", [lost.bytes()])?;
        recovered.lost_blobs += 1;
    }
    blobs.retain(|digest| files.contains(digest));
    let jobs = all(&batch, "SELECT id, state = 'queued' FROM jobs", |row| {
        Ok((read_id(row, 0)?, row.get(1)?))
    })?;
    recovered.stored = jobs.len() as u64;
    recovered.queued = jobs::queued(&batch)?;
    batch.commit()?;
    // A WAL that grew over many sudden ends is not read again and again.
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_row| Ok(()))?;
    Ok((recovered, blobs, jobs.into_iter().collect()))
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

/// Removes a file or a folder that no row tells of; one that stays is in nobody's way.
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
