//! Opens the database: creates it if missing, and refuses it, unchanged, if it is damaged, newer or not Kiln's.
//!
//! The lock mode is exclusive, which keeps the WAL's index on the heap. So nothing here maps a file, and a failing disk
//! gives an error, not SIGBUS. `sqlite3` can read the database while the sidecar is not running.

use std::fs;
use std::io;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};

use super::error::{Fault, StoreError};
use super::place::Place;

/// The schema version that this build writes, in `user_version`.
const SCHEMA: i64 = 3;
/// `Kiln`, in `application_id`.
const OURS: i64 = 0x4b69_6c6e;
/// How long to wait for another program that reads the file.
const PATIENCE: Duration = Duration::from_secs(2);
/// Tables that are checked at open. `inputs` and `texts` are left out: they are by far the largest, and jobs are found
/// and started without them. Damage there shows as an error of the request that reads it.
const CHECKED: [&str; 4] = ["jobs", "artifacts", "blobs", "gone"];

/// `expires_ms`, `used_ms` and `gone.at_ms` are in the store's time ([`super::clock`]), other times in wall-clock time.
/// Digests are binary, since inputs are most of the rows. Ids are text, for people who use `sqlite3`.
const TABLES: &str = "
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, client TEXT NOT NULL, key TEXT NOT NULL, spec_digest BLOB NOT NULL,
    input_bytes INTEGER NOT NULL, created_ms INTEGER NOT NULL, started_ms INTEGER, finished_ms INTEGER, expires_ms INTEGER,
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    starts INTEGER NOT NULL DEFAULT 0, fetched INTEGER NOT NULL DEFAULT 0,
    UNIQUE (client, key),
    CHECK ((finished_ms IS NULL) = (state IN ('queued', 'running')))
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state, id, input_bytes, client);
CREATE INDEX jobs_by_expiry ON jobs (expires_ms) WHERE expires_ms IS NOT NULL;
CREATE TABLE texts (
    job INTEGER PRIMARY KEY REFERENCES jobs ON DELETE CASCADE, spec TEXT NOT NULL, error TEXT, report TEXT
) STRICT;
CREATE TABLE artifacts (
    job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE, place INTEGER NOT NULL, name TEXT NOT NULL,
    bytes INTEGER NOT NULL, digest BLOB NOT NULL, media_type TEXT NOT NULL,
    PRIMARY KEY (job, place), UNIQUE (job, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE blobs (
    digest BLOB PRIMARY KEY, bytes INTEGER NOT NULL, used_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE gone (id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE probe (place INTEGER PRIMARY KEY CHECK (place = 0), at_ms INTEGER NOT NULL) STRICT;
";

/// Apart from [`TABLES`], since schema 1 had another form. A job's rows are adjacent, and the indices hold no names.
const INPUTS: &str = "
CREATE TABLE inputs (
    job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE, name TEXT NOT NULL, digest BLOB NOT NULL
) STRICT;
CREATE INDEX inputs_by_job ON inputs (job);
CREATE INDEX inputs_by_digest ON inputs (digest);
";

/// Apart from [`TABLES`], since schema 2 lacks it.
const CLOCK: &str = "
CREATE TABLE clock (
    place INTEGER PRIMARY KEY CHECK (place = 0), machine TEXT, base_ms INTEGER NOT NULL, shift_ms INTEGER NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT;
";

/// Until the database is known to be good, not even its WAL is checkpointed.
const LEAVE: DbConfig = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;

/// Opens the database of a store whose lock is held, and lets `recover` read and repair it.
pub(super) fn open<T>(
    place: &Place,
    recover: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
) -> Result<(Connection, T), StoreError> {
    let wal = place.database().with_extension("sqlite-wal");
    let had = wal.exists();
    let attempt = || {
        let sql = |error: rusqlite::Error| told(place, &error);
        let mut db = Connection::open(place.database()).map_err(sql)?;
        db.set_db_config(LEAVE, true).map_err(sql)?;
        prepare(&db, place)?;
        let recovered = recover(&mut db)?;
        db.set_db_config(LEAVE, false).map_err(sql)?;
        Ok((db, recovered))
    };
    let opened = attempt();
    // `SQLite` created it to look.
    if opened.is_err() && !had && fs::metadata(&wal).is_ok_and(|wal| wal.len() == 0) {
        fs::remove_file(&wal).map_err(|error| StoreError::io("remove", &wal, &error))?;
    }
    opened
}

fn prepare(db: &Connection, place: &Place) -> Result<(), StoreError> {
    let sql = |error: rusqlite::Error| told(place, &error);
    db.busy_timeout(PATIENCE).map_err(sql)?;
    db.execute_batch(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON;",
    )
    .map_err(sql)?;
    let number = |text: &str| db.query_row(text, [], |row| row.get::<_, i64>(0));
    let tables = number("SELECT count(*) FROM sqlite_schema").map_err(sql)?;
    let (owner, found) = (
        number("PRAGMA application_id").map_err(sql)?,
        number("PRAGMA user_version").map_err(sql)?,
    );
    let new = (tables, owner, found) == (0, 0, 0);
    if new {
        if !is_empty(place).map_err(|error| StoreError::io("read", place.root(), &error))? {
            return Err(corrupt(
                place,
                "store.sqlite is empty, and there are results",
            ));
        }
    } else if owner != OURS {
        return Err(StoreError::Folder {
            folder: place.root().to_path_buf(),
            why: "its store.sqlite is not Kiln's: choose another folder".into(),
        });
    } else if found > SCHEMA {
        return Err(StoreError::Newer {
            folder: place.root().to_path_buf(),
            found,
            known: SCHEMA,
        });
    } else {
        for table in CHECKED {
            let said: String = db
                .query_row(&format!("PRAGMA quick_check('{table}')"), [], |row| {
                    row.get(0)
                })
                .map_err(sql)?;
            if said != "ok" {
                return Err(corrupt(place, &said));
            }
        }
    }
    // The writer runs checkpoints, after it has answered.
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;",
    )
    .map_err(sql)?;
    if new {
        db.execute_batch(&format!(
            "BEGIN; {TABLES} {INPUTS} {CLOCK} PRAGMA application_id = {OURS}; PRAGMA user_version = {SCHEMA}; COMMIT;"
        ))
        .map_err(sql)?;
    } else if found < SCHEMA {
        let inputs = if found < 2 {
            format!(
                "ALTER TABLE inputs RENAME TO former; DROP INDEX inputs_by_digest; {INPUTS}
                 INSERT INTO inputs (job, name, digest) SELECT job, name, digest FROM former; DROP TABLE former;"
            )
        } else {
            String::new()
        };
        db.execute_batch(&format!(
            "BEGIN; {inputs} {CLOCK} ALTER TABLE jobs ADD COLUMN fetched INTEGER NOT NULL DEFAULT 0;
             DROP INDEX jobs_by_end; PRAGMA user_version = {SCHEMA}; COMMIT;"
        ))
        .map_err(sql)?;
    }
    Ok(())
}

/// Whether no job and no blob has a file.
fn is_empty(place: &Place) -> io::Result<bool> {
    if fs::read_dir(place.jobs())?.next().is_some() {
        return Ok(false);
    }
    for branch in fs::read_dir(place.blobs())? {
        if fs::read_dir(branch?.path())?.next().is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn corrupt(place: &Place, detail: &str) -> StoreError {
    StoreError::Corrupt {
        folder: place.root().to_path_buf(),
        detail: detail.lines().next().unwrap_or_default().to_owned(),
    }
}

/// Translates an error of opening the store.
pub(super) fn told(place: &Place, error: &rusqlite::Error) -> StoreError {
    match (error.sqlite_error_code(), failed(error)) {
        (Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), _) => StoreError::Folder {
            folder: place.root().to_path_buf(),
            why: "another program reads or writes its store.sqlite: close it".into(),
        },
        (
            _,
            StoreError::Disk {
                fault: Fault::Corrupt,
                detail,
                ..
            },
        ) => corrupt(place, &detail),
        (_, other) => other,
    }
}

/// Translates an error of a request.
pub(super) fn failed(error: &rusqlite::Error) -> StoreError {
    let fault = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Fault::NoSpace,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Fault::Corrupt,
        Some(_) => Fault::Io,
        // A value of the wrong type was never written by us.
        None => Fault::Corrupt,
    };
    StoreError::Disk {
        fault,
        what: "the database of the store".into(),
        detail: error.to_string(),
    }
}
