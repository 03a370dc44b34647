//! Slowly reads uploads again and compares them with their names, so that damage on disk is found before a job fails by
//! it. A damaged file moves to the spool until the next open, and its row is removed. Its client must upload it again.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use rusqlite::OptionalExtension;
use sha2::{Digest as _, Sha256};

use super::Store;
use super::digest::Digest;
use super::error::StoreError;
use super::place::Place;
use super::rows::Sql;
use super::schema::failed;
use super::upload::blocking;
use super::writer::{Desk, Stray};

const STEP: u64 = 16 << 20;
/// Cost of opening a file, expressed in bytes read.
const OPENING: u64 = 256 << 10;
const CHUNK: u64 = 1 << 20;

/// Progress of one pass over all uploads.
#[derive(Debug, Default)]
pub struct Round {
    /// The current or last upload.
    last: Option<Digest>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    inode: u64,
    seen: u64,
    hash: Sha256,
}

/// The result of reading a file.
enum Found {
    /// There is more to read.
    Part,
    Whole,
    /// The file holds other bytes, or cannot be read.
    Damaged(u64),
    Absent,
}

impl Store {
    /// Continues a pass by up to 16 MiB. Returns `false` if the pass is complete; the next call begins another.
    ///
    /// # Errors
    /// The disk fails other than by damage to a file.
    pub async fn scrub(&self, round: &mut Round) -> Result<bool, StoreError> {
        let mut left = STEP;
        while left > 0 {
            if round.open.is_none() {
                let last = round.last;
                let next = self.writer.read(move |db, _| {
                    let text = "SELECT digest FROM blobs WHERE digest > ?1 ORDER BY digest LIMIT 1";
                    let after = last.as_ref().map_or(&[][..], |last| last.bytes());
                    let select = || -> Sql<Option<[u8; 32]>> {
                        let mut select = db.prepare_cached(text)?;
                        select.query_row([after], |row| row.get(0)).optional()
                    };
                    select().map_err(|error| failed(&error))
                });
                round.last = next.await?.map(Digest::from_bytes);
            }
            let Some(digest) = round.last else {
                return Ok(false);
            };
            let (shared, open, most) = (Arc::clone(&self.shared), round.open.take(), left);
            let step = move || look(&shared.place, digest, open, most);
            let (found, open, read) = blocking(step).await?;
            round.open = open;
            left = left.saturating_sub(read + OPENING);
            match found {
                Found::Part | Found::Whole => {}
                Found::Damaged(inode) => self.set_aside(digest, Some(inode)).await?,
                Found::Absent => self.set_aside(digest, None).await?,
            }
        }
        Ok(true)
    }

    /// Removes the row of a blob whose file is missing or has this inode, unless an upload has just replaced it.
    async fn set_aside(&self, digest: Digest, inode: Option<u64>) -> Result<(), StoreError> {
        let work = move |desk: &mut Desk<'_>| {
            let path = desk.shared.place.blob(digest);
            let there = std::fs::symlink_metadata(&path).ok();
            if desk.shared.is_pinned(digest) || there.map(|there| there.ino()) != inode {
                return Ok(());
            }
            tracing::error!(
                "{} is {}: it must be sent again",
                path.display(),
                inode.map_or("gone", |_inode| "damaged, and set aside in the spool")
            );
            desk.db
                .prepare_cached("DELETE FROM blobs WHERE digest = ?1")
                .and_then(|mut delete| delete.execute([digest.bytes()]))
                .map_err(|error| failed(&error))?;
            if let Some(inode) = inode {
                desk.strays.push(Stray::Damaged(digest, inode));
            }
            Ok(())
        };
        self.writer.write(work).await
    }
}

/// Reads on in a file, up to a given number of bytes, and returns how many were read.
fn look(
    place: &Place,
    digest: Digest,
    open: Option<Open>,
    most: u64,
) -> Result<(Found, Option<Open>, u64), StoreError> {
    let path = place.blob(digest);
    let open = open.map_or_else(
        || {
            let file = File::open(&path)?;
            let inode = file.metadata()?.ino();
            Ok(Open {
                file,
                inode,
                seen: 0,
                hash: Sha256::new(),
            })
        },
        Ok,
    );
    let mut open = match open {
        Ok(open) => open,
        Err(error) if is_absent(&error) => return Ok((Found::Absent, None, 0)),
        Err(error) => return Err(StoreError::io("read", &path, &error)),
    };
    let mut read = 0;
    let mut chunk = Vec::new();
    while read < most {
        chunk.clear();
        let piece = (&mut open.file).take(CHUNK.min(most - read));
        match { piece }.read_to_end(&mut chunk) {
            Ok(0) => {
                let whole = Digest::from_bytes(open.hash.finalize().into()) == digest;
                let found = if whole {
                    Found::Whole
                } else {
                    Found::Damaged(open.inode)
                };
                return Ok((found, None, read));
            }
            Ok(count) => {
                open.hash.update(&chunk);
                let (from, length) = (open.seen, count as u64);
                open.seen += length;
                read += length;
                // Drops the pages from the cache: nobody else needs them, and the next pass must read from the disk.
                if let (Ok(from), Ok(length)) = (i64::try_from(from), i64::try_from(length))
                    && let Err(errno) = posix_fadvise(
                        &open.file,
                        from,
                        length,
                        PosixFadviseAdvice::POSIX_FADV_DONTNEED,
                    )
                {
                    tracing::debug!(%errno, "what was read stays in memory");
                }
            }
            // A bad block.
            Err(error) if error.raw_os_error() == Some(nix::libc::EIO) => {
                return Ok((Found::Damaged(open.inode), None, read));
            }
            Err(error) => return Err(StoreError::io("read", &path, &error)),
        }
    }
    Ok((Found::Part, Some(open), read))
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}
