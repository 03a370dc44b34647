//! Rows of blobs, and hard links to their files: what was uploaded once is on the disk once, however many jobs use it.

use std::fs;
use std::io;
use std::path::PathBuf;

use rusqlite::{Connection, OptionalExtension, params};

use super::digest::Digest;
use super::error::StoreError;
use super::id::JobId;
use super::jobs::{Sql, read_count, signed};
use super::place::{Place, make};
use super::schema::failed;
use super::writer::Desk;

/// A blob, as its row tells of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) bytes: u64,
    pub(super) used_ms: i64,
}

/// Keeps a blob whose file has its name, or keeps it anew.
pub(super) fn keep(
    desk: &Desk<'_>,
    digest: Digest,
    bytes: u64,
    now_ms: i64,
) -> Result<(), StoreError> {
    desk.db
        .prepare_cached(
            "INSERT INTO blobs (digest, bytes, used_ms) VALUES (?1, ?2, ?3)
             ON CONFLICT (digest) DO UPDATE SET used_ms = max(used_ms, excluded.used_ms)",
        )
        .and_then(|mut insert| insert.execute(params![digest.bytes(), signed(bytes), now_ms]))
        .map(|_rows| ())
        .map_err(|error| failed(&error))
}

pub(super) fn find(db: &Connection, digest: Digest) -> Result<Option<Kept>, StoreError> {
    let select = |db: &Connection| -> Sql<Option<Kept>> {
        db.prepare_cached("SELECT bytes, used_ms FROM blobs WHERE digest = ?1")?
            .query_row([digest.bytes()], |row| {
                Ok(Kept {
                    bytes: read_count(row, 0)?,
                    used_ms: row.get(1)?,
                })
            })
            .optional()
    };
    select(db).map_err(|error| failed(&error))
}

/// Counts a blob as used now; gives its size if it is there.
pub(super) fn touch(
    desk: &Desk<'_>,
    digest: Digest,
    now_ms: i64,
) -> Result<Option<u64>, StoreError> {
    let Some(kept) = find(desk.db, digest)? else {
        return Ok(None);
    };
    keep(desk, digest, kept.bytes, now_ms)?;
    Ok(Some(kept.bytes))
}

/// Makes the input folder of a job anew. It needs no sync: after a power cut it is made anew again.
pub(super) fn materialise(
    place: &Place,
    id: JobId,
    inputs: &[(String, Digest)],
) -> Result<PathBuf, StoreError> {
    place.make_job(id)?;
    let folder = place.input(id);
    let fail = |what: &str, path: &PathBuf, error: &io::Error| StoreError::io(what, path, error);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(fail("remove", &folder, &error));
        }
        _ => {}
    }
    make(&folder).map_err(|error| fail("make", &folder, &error))?;
    for (name, digest) in inputs {
        let mut path = folder.clone();
        let mut parts = name.split('/').peekable();
        while let Some(part) = parts.next() {
            path.push(part);
            if parts.peek().is_some() {
                make(&path).map_err(|error| fail("make", &path, &error))?;
            }
        }
        match fs::hard_link(place.blob(*digest), &path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::MissingBlobs(vec![*digest]));
            }
            Err(error) => return Err(fail("link", &path, &error)),
        }
    }
    Ok(folder)
}
