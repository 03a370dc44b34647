//! Opening repairs what a sudden end left, and refuses, unchanged, what is damaged, newer or not Kiln's.

use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;

use super::*;

/// All files beneath a folder, with their bytes.
fn all(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for name in entries(folder) {
        let path = folder.join(name);
        if path.is_dir() {
            files.extend(all(&path));
        } else {
            files.insert(path.clone(), fs::read(&path).expect("a file"));
        }
    }
    files
}

/// A copy of the open store's folder: what kill -9 leaves.
fn killed(folder: &Path) -> TempDir {
    let copy = super::folder();
    let mut folders = vec![String::new()];
    while let Some(inner) = folders.pop() {
        for name in entries(&folder.join(&inner)) {
            let path = Path::new(&inner).join(name);
            let from = folder.join(&path);
            if from.is_dir() {
                fs::create_dir(copy.path().join(&path)).expect("a folder");
                folders.push(path.to_string_lossy().into_owned());
            } else {
                fs::copy(&from, copy.path().join(&path)).expect("a copy");
            }
        }
    }
    copy
}

#[tokio::test]
async fn a_second_instance_is_refused_with_one_line() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let refused = Store::open(folder.path(), wide(), Clock::default()).expect_err("it is open");
    assert_eq!(refused, StoreError::Busy(folder.path().to_path_buf()));
    let other = store.clone();
    store.close().await.expect("open");
    open(folder.path());
    assert_eq!(other.probe().await, Err(StoreError::Closed));
    assert!(!other.healthy());
}

#[tokio::test]
async fn what_a_sudden_end_left_is_put_right() {
    let original = folder();
    let (store, _) = open(original.path());
    let (used, lost) = (upload(&store, b"used").await, upload(&store, b"lost").await);
    let mut asked = new("first");
    asked.inputs.insert("mesh.glb".into(), used);
    let Ok(Accepted::New { job: first, .. }) = store.accept(asked).await else {
        panic!("accepted")
    };
    let (second, done) = (accept(&store, "second").await, accept(&store, "done").await);
    let done = succeed(&store, done.id, b"glTF").await;
    store.begin(first.id).await.expect("queued");
    store.materialise(first.id).await.expect("inputs");
    result(&store, first.id, "model.glb", b"half a res").await;
    let mut half = store.upload(None).await.expect("room");
    half.write("half an upload").await.expect("room");

    let copy = killed(original.path());
    let stray = Digest::of("stray");
    let place = |digest: Digest| {
        let name = digest.to_string();
        copy.path().join("blobs").join(&name[..2]).join(name)
    };
    fs::write(place(stray), "stray").expect("a file");
    fs::remove_file(place(lost)).expect("it was there");
    let orphan = copy.path().join("jobs/0123456789ab70008000000000000000");
    fs::create_dir(&orphan).expect("a folder");
    fs::write(orphan.join("model.glb"), "x").expect("a file");

    let (store, recovered) = open(copy.path());
    let waiting: Vec<(JobId, u32)> = recovered
        .queued
        .iter()
        .map(|job| (job.id, job.starts))
        .collect();
    assert_eq!(
        waiting,
        [(first.id, 1), (second.id, 0)],
        "in order, its start counted"
    );
    let counts = (
        recovered.restarted,
        recovered.stored,
        recovered.uploads,
        recovered.folders,
    );
    assert_eq!(counts, (1, 3, 1, 2), "{recovered:?}");
    assert_eq!((recovered.stray_blobs, recovered.lost_blobs), (1, 1));
    assert!(!place(stray).exists() && !orphan.exists());
    assert_eq!(entries(&copy.path().join("spool")), [""; 0]);
    assert_eq!(entries(&copy.path().join("jobs")), [done.id.to_string()]);
    assert_eq!(store.blob(lost).await, Ok(None));
    assert_eq!(store.get(done.id).await, Ok(done));
    let again = store.begin(first.id).await.expect("queued again");
    assert_eq!(again.starts, 2);
    store
        .materialise(first.id)
        .await
        .expect("its inputs are kept");
    assert!(accept(&store, "next").await.id > second.id);
}

/// A caller that learns that the store is closed finds all of it closed, however the thread ended.
#[tokio::test]
async fn a_store_that_is_closed_is_closed_in_every_respect() {
    let folder = folder();
    let lock = fs::File::create(folder.path().join("lock")).expect("a file");
    for round in 0..25 {
        let (store, _) = open(folder.path());
        let (closes, asks, reads) = (store.clone(), store.clone(), store.clone());
        let closed = async {
            closes.close().await.expect("open");
            assert!(!store.healthy(), "round {round}");
            lock.try_lock().expect("free at once");
            lock.unlock().expect("ours");
            let wal = folder.path().join("store.sqlite-wal");
            assert!(!wal.exists(), "round {round}: carried over at the end");
        };
        let refused = async {
            while asks.probe().await != Err(StoreError::Closed) {}
            assert!(!asks.healthy(), "round {round}");
        };
        let unread = async {
            while reads.queue().await != Err(StoreError::Closed) {}
            assert!(!reads.healthy(), "round {round}");
        };
        tokio::join!(closed, refused, unread);
    }
}

#[tokio::test]
async fn a_store_whose_thread_a_bug_ends_is_unwell_to_who_was_not_answered() {
    let folder = folder();
    for _ in 0..10 {
        let (store, _) = open(folder.path());
        let bug = |_: &mut Desk<'_>| -> Result<(), StoreError> { panic!("a bug, for a test") };
        assert_eq!(store.writer.write(bug).await, Err(StoreError::Closed));
        assert!(!store.healthy());
    }
}

#[tokio::test]
async fn a_store_that_was_moved_removed_or_replaced_says_so() {
    let base = folder();
    let (here, there) = (base.path().join("store"), base.path().join("other"));
    let (store, _) = open(&here);
    store.check().expect("it is there");
    let lost = |what: &str| match store.check() {
        Err(StoreError::Lost(why)) => assert!(why.contains(what), "{why}"),
        other => panic!("{what}: {other:?}"),
    };
    for name in ["", "lock", "store.sqlite", "spool", "blobs", "jobs"] {
        let place = here.join(name);
        fs::rename(&place, &there).expect("ours");
        lost("no such file");
        if name == "lock" {
            fs::write(&place, "").expect("room");
            lost("is another file");
        }
        fs::rename(&there, &place).expect("ours");
        store.check().expect("it is there again");
    }
    fs::remove_dir_all(&here).expect("ours");
    lost("no such file");
}

#[tokio::test]
async fn a_store_of_schema_1_is_taken_over() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let digest = upload(&store, b"a mesh").await;
    let job = accept_with(&store, "a", [("mesh.glb".to_owned(), digest)]).await;
    store.close().await.expect("open");
    let db = Connection::open(folder.path().join("store.sqlite")).expect("sqlite");
    db.execute_batch(
        "DROP TABLE clock; ALTER TABLE jobs DROP COLUMN fetched;
         CREATE INDEX jobs_by_end ON jobs (finished_ms) WHERE finished_ms IS NOT NULL;
         ALTER TABLE inputs RENAME TO later; DROP INDEX inputs_by_digest; DROP INDEX inputs_by_job;
         CREATE TABLE inputs (
             job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE, name TEXT NOT NULL, digest BLOB NOT NULL,
             PRIMARY KEY (job, name)
         ) STRICT, WITHOUT ROWID;
         CREATE INDEX inputs_by_digest ON inputs (digest);
         INSERT INTO inputs SELECT job, name, digest FROM later; DROP TABLE later; PRAGMA user_version = 1;",
    )
    .expect("as it was");
    db.close().expect("closed");
    let (store, recovered) = open(folder.path());
    assert_eq!(recovered.queued.len(), 1);
    let input = store.materialise(job.id).await.expect("its blob is known");
    assert_eq!(fs::read(input.join("mesh.glb")).expect("there"), b"a mesh");
    store.close().await.expect("open");
    let db = Connection::open(folder.path().join("store.sqlite")).expect("sqlite");
    let version: i64 = db
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .expect("a number");
    assert_eq!(version, 3);
}

#[tokio::test]
async fn a_newer_or_foreign_database_is_refused_and_left_as_it_is() {
    for (pragma, says) in [
        ("user_version = 99", "schema 99"),
        ("application_id = 7", "not Kiln's"),
    ] {
        let folder = folder();
        let (store, _) = open(folder.path());
        accept(&store, "a").await;
        store.close().await.expect("open");
        let path = folder.path().join("store.sqlite");
        let db = Connection::open(path).expect("sqlite");
        db.execute_batch(&format!("PRAGMA {pragma}"))
            .expect("written");
        db.close().expect("closed");
        let before = all(folder.path());
        let error = Store::open(folder.path(), wide(), Clock::default())
            .expect_err("refused")
            .to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
        assert!(before == all(folder.path()), "{pragma}: it was changed");
    }
}

#[tokio::test]
async fn a_damaged_database_is_refused_and_left_as_it_is() {
    let original = folder();
    let (store, _) = open(original.path());
    for number in 0..100 {
        let job = accept(&store, &number.to_string()).await;
        succeed(&store, job.id, b"glTF").await;
    }
    store.close().await.expect("open");
    let (store, _) = open(original.path());
    accept(&store, "in the WAL").await;
    let copy = killed(original.path());
    let file = |name: &str| fs::read(original.path().join(name)).expect("there");
    let (whole, wal) = (file("store.sqlite"), file("store.sqlite-wal"));
    assert!(!wal.is_empty());
    let mut refused = 0;
    // Overwrites the head of each page in turn, as a misdirected write would.
    for start in (0..whole.len()).step_by(4096) {
        let mut bytes = whole.clone();
        bytes[start..start + 64].fill(0xa5);
        fs::write(copy.path().join("store.sqlite"), &bytes).expect("ours");
        fs::write(copy.path().join("store.sqlite-wal"), &wal).expect("ours");
        match Store::open(copy.path(), wide(), Clock::default()) {
            Ok((store, _)) => store.close().await.expect("open"),
            Err(error) => {
                refused += 1;
                let line = error.to_string();
                assert!(
                    line.contains("damaged") || line.contains("not Kiln's"),
                    "{line}"
                );
                assert!(!line.contains('\n'), "{line}");
                let left = |name: &str| fs::read(copy.path().join(name)).expect("there");
                let same = left("store.sqlite") == bytes && left("store.sqlite-wal") == wal;
                assert!(same, "page {}: it was changed", start / 4096);
                let jobs = entries(&copy.path().join("jobs"));
                assert_eq!(jobs.len(), 100, "page {}: {line}", start / 4096);
            }
        }
    }
    let pages = whole.len() / 4096;
    assert!(refused * 2 > pages, "{refused} of {pages} pages");
    for (text, keep) in [("no database at all, but some text", true), ("", false)] {
        let copy = killed(original.path());
        fs::write(copy.path().join("store.sqlite"), text).expect("ours");
        if !keep {
            fs::remove_file(copy.path().join("store.sqlite-wal")).expect("it was there");
        }
        let before = all(copy.path());
        let error = Store::open(copy.path(), wide(), Clock::default())
            .expect_err("refused")
            .to_string();
        assert!(error.contains("damaged"), "{error}");
        assert!(before == all(copy.path()), "it was changed: {text:?}");
    }
}

#[tokio::test]
async fn a_database_that_another_program_holds_is_refused_with_one_line() {
    let folder = folder();
    open(folder.path()).0.close().await.expect("open");
    let db = Connection::open(folder.path().join("store.sqlite")).expect("sqlite");
    db.execute_batch("BEGIN IMMEDIATE").expect("held");
    let error = Store::open(folder.path(), wide(), Clock::default())
        .expect_err("held")
        .to_string();
    assert!(error.contains("another program"), "{error}");
    drop(db);
    open(folder.path());
    let mode = fs::metadata(folder.path())
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}
