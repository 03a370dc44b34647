//! Rows of blobs, and hard links to their files. Equal uploads are stored once, however many jobs use them. A row alone
//! proves nothing: a blob exists if its file has the size that the row states.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};

use super::clock::Moment;
use super::digest::Digest;
use super::error::StoreError;
use super::id::JobId;
use super::place::{Place, make};
use super::rows::{Sql, read_count, signed};
use super::schema::failed;
use super::writer::Desk;

/// A blob's row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) bytes: u64,
    pub(super) used_ms: i64,
}

/// A file that a job needs.
#[derive(Clone, Debug)]
pub(super) struct Needed {
    pub(super) name: String,
    pub(super) digest: Digest,
    pub(super) bytes: Option<u64>,
}

/// Keeps a blob whose file has its name, or keeps it anew.
pub(super) fn keep(
    desk: &Desk<'_>,
    digest: Digest,
    bytes: u64,
    now: Moment,
) -> Result<(), StoreError> {
    desk.db
        .prepare_cached(
            "INSERT INTO blobs (digest, bytes, used_ms) VALUES (?1, ?2, ?3)
             ON CONFLICT (digest) DO UPDATE SET used_ms = max(used_ms, excluded.used_ms)",
        )
        .and_then(|mut insert| insert.execute(params![digest.bytes(), signed(bytes), now.ms]))
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

/// Sizes of those blobs' files that exist.
pub(super) fn sizes(place: &Place, digests: impl Iterator<Item = Digest>) -> HashMap<Digest, u64> {
    let mut sizes = HashMap::new();
    for digest in digests {
        if let Entry::Vacant(vacant) = sizes.entry(digest)
            && let Some(bytes) = size(&place.blob(digest))
        {
            vacant.insert(bytes);
        }
    }
    sizes
}

/// The size of a file, if it exists.
fn size(path: &Path) -> Option<u64> {
    let there = fs::symlink_metadata(path).ok()?;
    there.is_file().then_some(there.len())
}

/// Rebuilds a job's input folder. No sync is needed: after a power cut it is rebuilt again.
pub(super) fn materialise(
    place: &Place,
    id: JobId,
    inputs: &[Needed],
) -> Result<PathBuf, StoreError> {
    place.make_job(id)?;
    let folder = place.input(id);
    let fail = |what: &str, path: &Path, error: &io::Error| StoreError::io(what, path, error);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(fail("remove", &folder, &error));
        }
        _ => {}
    }
    make(&folder).map_err(|error| fail("make", &folder, &error))?;
    let mut missing = Vec::new();
    for Needed {
        name,
        digest,
        bytes,
    } in inputs
    {
        let mut path = folder.clone();
        let mut parts = name.split('/').peekable();
        while let Some(part) = parts.next() {
            path.push(part);
            if parts.peek().is_some() {
                make(&path).map_err(|error| fail("make", &path, &error))?;
            }
        }
        match put(&place.blob(*digest), &path, |from, to| {
            fs::hard_link(from, to)
        }) {
            Ok(()) if bytes.is_some() && size(&path) == *bytes => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(fail("link", &path, &error));
            }
            _ => missing.push(*digest),
        }
    }
    if missing.is_empty() {
        return Ok(folder);
    }
    missing.sort();
    missing.dedup();
    Err(StoreError::MissingBlobs(missing))
}

/// Gives a file a second name. Where the file system allows no link, or no more of them, copies it, sharing blocks
/// where possible (`copy_file_range`).
fn put(from: &Path, to: &Path, link: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    match link(from, to) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::TooManyLinks
                    | io::ErrorKind::CrossesDevices
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::Unsupported
            ) =>
        {
            fs::copy(from, to).map(|_bytes| ())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use nix::errno::Errno;

    use super::*;

    #[test]
    fn where_no_link_can_be_had_the_file_is_copied() {
        let folder = tempfile::tempdir().expect("temp dir");
        let from = folder.path().join("blob");
        fs::write(&from, "a mesh").expect("room");
        let inode = |path: &Path| fs::metadata(path).expect("there").ino();
        for (number, errno) in [
            Errno::EMLINK,
            Errno::EXDEV,
            Errno::EPERM,
            Errno::EACCES,
            Errno::EOPNOTSUPP,
        ]
        .into_iter()
        .enumerate()
        {
            let to = folder.path().join(number.to_string());
            put(&from, &to, |_, _| Err(errno.into())).expect("a copy");
            assert_eq!(fs::read(&to).expect("there"), b"a mesh", "{errno}");
            assert_ne!(inode(&to), inode(&from), "{errno}");
        }
        let to = folder.path().join("link");
        put(&from, &to, |from, to| fs::hard_link(from, to)).expect("a link");
        assert_eq!(inode(&to), inode(&from));
        for errno in [Errno::ENOSPC, Errno::EIO, Errno::ENOENT] {
            let to = folder.path().join("none");
            let error = put(&from, &to, |_, _| Err(errno.into())).expect_err("no link");
            assert_eq!(error.raw_os_error(), Some(errno as i32));
            assert!(!to.exists());
        }
    }
}
