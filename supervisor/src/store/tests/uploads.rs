//! Uploads are kept whole under their SHA-256 or not at all, once on disk, and linked into job folders.

use std::os::unix::fs::MetadataExt;

use super::*;

fn spool(folder: &Path) -> Vec<String> {
    entries(&folder.join("spool"))
}

#[tokio::test]
async fn bytes_are_kept_once_under_their_digest() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let bytes: Vec<u8> = (0..100_000_u32)
        .map(|number| (number % 251) as u8)
        .collect();
    let digest = Digest::of(&bytes);
    for new in [true, false] {
        let mut upload = store.upload(Some(100_000)).await.expect("room");
        for chunk in bytes.chunks(7_777) {
            upload.write(chunk.to_vec()).await.expect("room");
        }
        assert_eq!((upload.size(), spool(folder.path()).len()), (100_000, 1));
        let blob = upload.finish(Some(digest)).await.expect("the right bytes");
        assert_eq!(
            blob,
            Blob {
                digest,
                bytes: 100_000,
                new
            }
        );
        assert_eq!(spool(folder.path()), [""; 0]);
    }
    let path = store.blob_path(digest);
    assert_eq!(fs::read(&path).expect("there"), bytes);
    let metadata = fs::metadata(&path).expect("there");
    assert_eq!((metadata.mode() & 0o777, metadata.nlink()), (0o400, 1));
    assert_eq!(
        path.parent()
            .and_then(Path::file_name)
            .expect("a folder")
            .to_str(),
        digest.to_string().get(..2)
    );
    assert_eq!(store.blob(digest).await, Ok(Some(100_000)));
}

#[tokio::test]
async fn wrong_large_and_dropped_uploads_leave_nothing() {
    let folder = folder();
    let limits = Limits {
        upload_bytes: 10,
        ..wide()
    };
    let (store, _) = Store::open(folder.path(), limits, Clock::default()).expect("a store");
    let expected = Digest::of("announced");
    let mut upload = store.upload(None).await.expect("room");
    upload.write("received").await.expect("room");
    let wrong = upload.finish(Some(expected)).await;
    let found = Digest::of("received");
    assert_eq!(wrong, Err(StoreError::DigestMismatch { expected, found }));
    assert_eq!(
        (store.blob(found).await, store.blob(expected).await),
        (Ok(None), Ok(None))
    );

    let mut upload = store.upload(None).await.expect("room");
    upload.write([0; 10]).await.expect("just as many");
    let large = upload.write([0]).await;
    assert_eq!(large, Err(StoreError::TooLarge { limit: 10 }));
    assert_eq!(
        upload.write([0]).await,
        Err(StoreError::Closed),
        "it is lost"
    );
    let announced = store.upload(Some(11)).await.map(|_upload| ());
    assert_eq!(announced, Err(StoreError::TooLarge { limit: 10 }));

    let mut upload = store.upload(None).await.expect("room");
    upload.write("half").await.expect("room");
    drop(upload);
    assert_eq!(spool(folder.path()), [""; 0]);
    for branch in entries(&folder.path().join("blobs")) {
        assert_eq!(entries(&folder.path().join("blobs").join(branch)), [""; 0]);
    }
}

#[tokio::test]
async fn inputs_are_links_under_their_names() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let (mesh, view) = (
        upload(&store, b"a mesh").await,
        upload(&store, b"a view").await,
    );
    let mut asked = new("a");
    let names = [
        ("mesh.glb", mesh),
        ("images/0.png", view),
        ("images/deep/1.png", view),
    ];
    asked.inputs = names.map(|(name, digest)| (name.to_owned(), digest)).into();
    let Ok(Accepted::New { job, .. }) = store.accept(asked).await else {
        panic!("accepted")
    };
    // Twice, as after a restart, over existing files.
    for _ in 0..2 {
        let input = store.materialise(job.id).await.expect("all are there");
        assert_eq!(input, folder.path().join(format!("jobs/{}/input", job.id)));
        for (name, digest) in names {
            let (one, other) = (input.join(name), store.blob_path(digest));
            let inode = |path: &Path| fs::metadata(path).expect("there").ino();
            assert_eq!(inode(&one), inode(&other), "{name}");
        }
        fs::write(input.join("stale"), "x").expect("a file");
    }
    store.forget(job.id).await.expect("it waits");
    assert_eq!(
        fs::read(store.blob_path(view)).expect("not the job's own"),
        b"a view"
    );
    assert_eq!(
        fs::metadata(store.blob_path(view)).expect("there").nlink(),
        1
    );
}

#[tokio::test]
async fn a_job_names_only_blobs_that_are_there_and_plain_names() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let there = upload(&store, b"there").await;
    let mut absent = [Digest::of("one"), Digest::of("other")];
    absent.sort();
    let mut asked = new("a");
    let names = [
        ("a", absent[0]),
        ("b", there),
        ("c", absent[1]),
        ("d", absent[0]),
    ];
    asked.inputs = names.map(|(name, digest)| (name.to_owned(), digest)).into();
    let refused = store.accept(asked.clone()).await;
    assert_eq!(refused, Err(StoreError::MissingBlobs(absent.to_vec())));
    asked.inputs = [("../lock".to_owned(), there)].into();
    let refused = store.accept(asked.clone()).await;
    assert!(
        matches!(refused, Err(StoreError::BadName { .. })),
        "{refused:?}"
    );
    assert_eq!(store.queue().await, Ok(Queue::default()));

    asked.inputs = [("b".to_owned(), there)].into();
    let Ok(Accepted::New { job, .. }) = store.accept(asked).await else {
        panic!("accepted")
    };
    fs::remove_file(store.blob_path(there)).expect("ours");
    let lost = store.materialise(job.id).await;
    assert_eq!(lost, Err(StoreError::MissingBlobs(vec![there])));
}

#[tokio::test]
async fn what_is_uploaded_while_it_expires_stays_or_goes_wholly() {
    let folder = folder();
    let limits = Limits {
        keep_unused_ms: 0,
        ..wide()
    };
    let (store, _) = Store::open(folder.path(), limits, Clock::default()).expect("a store");
    let (mut stayed, mut went) = (0, 0);
    for round in 0..200 {
        let bytes = format!("round {}", round / 4);
        let (digest, _gone) =
            tokio::join!(async { upload(&store, bytes.as_bytes()).await }, async {
                store.expire().await.expect("a disk")
            });
        let row = store.blob(digest).await.expect("a disk").is_some();
        assert_eq!(row, store.blob_path(digest).exists(), "round {round}");
        if row { stayed += 1 } else { went += 1 }
    }
    assert!(stayed > 0, "{stayed} stayed, {went} went");
}
