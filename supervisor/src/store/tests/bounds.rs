//! Limits of the queue and of the disk: who is refused, and what is removed when too much is kept.

use super::*;

fn open_with(folder: &Path, limits: Limits) -> Store {
    Store::open(folder, limits, Clock::default())
        .expect("a store")
        .0
}

#[tokio::test]
async fn the_queue_is_bounded_by_jobs_bytes_and_client() {
    let folder = folder();
    let limits = Limits {
        queue_jobs: 3,
        queue_bytes: 100,
        client_jobs: 2,
        ..wide()
    };
    let store = open_with(folder.path(), limits);
    let of = |client: &str, key: &str, path_bytes| NewJob {
        client: client.into(),
        path_bytes,
        ..new(key)
    };
    let first = accept(&store, "a").await;
    accept(&store, "b").await;
    let full = |bound| Err(StoreError::QueueFull(bound));
    assert_eq!(
        store.accept(of("1000", "c", 1)).await,
        full(Bound::ClientJobs(2))
    );
    assert_eq!(
        store.accept(of("2000", "c", 81)).await,
        full(Bound::Bytes(100))
    );
    assert_eq!(
        store.accept(of("2000", "c", u64::MAX)).await,
        full(Bound::Bytes(100))
    );
    store.accept(of("2000", "c", 80)).await.expect("it fits");
    assert_eq!(store.accept(of("3000", "d", 0)).await, full(Bound::Jobs(3)));
    let replay = store.accept(new("a")).await;
    assert!(
        matches!(replay, Ok(Accepted::Replayed(_))),
        "it is in already: {replay:?}"
    );
    store
        .begin(first.id)
        .await
        .expect("the accepted are unharmed");
    store
        .accept(of("3000", "d", 0))
        .await
        .expect("one has left the queue");
}

#[tokio::test]
async fn a_disk_with_too_little_room_takes_no_new_work_and_ends_the_old() {
    let folder = folder();
    let store = open_with(folder.path(), wide());
    let job = accept(&store, "a").await;
    store.close().await.expect("open");
    for full in [
        Limits {
            free_bytes: u64::MAX,
            ..wide()
        },
        Limits {
            free_percent: 100,
            ..wide()
        },
    ] {
        let store = open_with(folder.path(), full);
        let refused = store.accept(new("b")).await;
        assert!(
            matches!(refused, Err(StoreError::Full { .. })),
            "{refused:?}"
        );
        let refused = store.upload(None).await.map(|_upload| ());
        assert!(
            matches!(refused, Err(StoreError::Full { .. })),
            "{refused:?}"
        );
        store.begin(job.id).await.expect("it was accepted");
        store.requeue(job.id).await.expect("it runs");
        assert!(store.healthy(), "a full disk is no failing one");
        store.close().await.expect("open");
    }
    let store = open_with(folder.path(), wide());
    let announced = store.upload(Some(1 << 60)).await.map(|_upload| ());
    assert!(
        matches!(announced, Err(StoreError::TooLarge { .. })),
        "{announced:?}"
    );
}

#[tokio::test]
async fn age_removes_finished_jobs_and_unused_uploads_and_nothing_else() {
    let folder = folder();
    let limits = wide();
    let (keep, unused) = (limits.keep_ms, limits.keep_unused_ms);
    let clock = Clock::still(1_000_000);
    let (store, _) = Store::open(folder.path(), limits, clock.clone()).expect("a store");
    let (used, idle) = (upload(&store, b"used").await, upload(&store, b"idle").await);
    let mut asked = new("a");
    asked.inputs.insert("mesh.glb".into(), used);
    let Ok(Accepted::New { job: done, .. }) = store.accept(asked.clone()).await else {
        panic!("accepted")
    };
    asked.key = "b".into();
    store.accept(asked).await.expect("room");
    let waits = accept(&store, "c").await;
    let runs = accept(&store, "d").await;
    store.begin(runs.id).await.expect("queued");
    succeed(&store, done.id, b"glTF").await;
    store.fetched(done.id).await.expect("a disk");

    assert_eq!(store.expire().await, Ok(Expired::default()));
    clock.pass(unused - 1);
    assert_eq!(store.expire().await, Ok(Expired::default()));
    clock.pass(1);
    let gone = store.expire().await.expect("a disk");
    assert_eq!(
        gone,
        Expired {
            jobs: vec![],
            blobs: 1,
            bytes: 4
        }
    );
    assert!(!store.blob_path(idle).exists() && store.blob_path(used).exists());
    assert_eq!(store.blob(idle).await, Ok(None));
    clock.pass(keep - unused - 1);
    assert_eq!(store.expire().await, Ok(Expired::default()));
    clock.pass(1);
    let gone = store.expire().await.expect("a disk");
    assert_eq!(
        gone,
        Expired {
            jobs: vec![done.id],
            blobs: 0,
            bytes: 4
        }
    );
    assert_eq!(store.get(done.id).await, Err(StoreError::Gone));
    assert_eq!(store.blob(used).await, Ok(Some(4)), "another job needs it");
    for id in [waits.id, runs.id] {
        assert!(store.get(id).await.is_ok(), "it has not finished");
    }
    clock.pass(8 * 24 * 60 * 60 * 1000);
    store.expire().await.expect("a disk");
    assert_eq!(
        store.get(done.id).await,
        Err(StoreError::NotFound),
        "not remembered for ever"
    );
}

#[tokio::test]
async fn share_removes_what_finished_first_then_uploads() {
    let folder = folder();
    let clock = Clock::still(1_000_000);
    let limits = Limits {
        keep_bytes: 250,
        ..wide()
    };
    let (store, _) = Store::open(folder.path(), limits, clock.clone()).expect("a store");
    let (mine, both) = (
        upload(&store, &[1; 30]).await,
        upload(&store, &[2; 40]).await,
    );
    let mut ids = Vec::new();
    for number in 0..4 {
        let mut asked = new(&number.to_string());
        let digest = if number == 0 { mine } else { both };
        asked.inputs.insert("mesh.glb".into(), digest);
        let Ok(Accepted::New { job, .. }) = store.accept(asked).await else {
            panic!("accepted")
        };
        ids.push(job.id);
    }
    // The last to be accepted finishes first.
    for id in [3, 0, 1].map(|place| ids[place]) {
        succeed(&store, id, &[0; 100]).await;
        // The order of two ends is known only if the clock moves between them.
        clock.pass(1);
    }
    let idle = upload(&store, &[3; 5]).await;
    // 300 bytes of results, 75 of uploads.
    let gone = store.expire().await.expect("a disk");
    assert_eq!(
        gone,
        Expired {
            jobs: vec![ids[3], ids[0]],
            blobs: 1,
            bytes: 230
        }
    );
    assert_eq!(
        store.blob(mine).await,
        Ok(None),
        "with the only job that used it"
    );
    assert_eq!(store.blob(both).await, Ok(Some(40)));
    assert_eq!(store.blob(idle).await, Ok(Some(5)));
    assert_eq!(entries(&folder.path().join("jobs")), [ids[1].to_string()]);
    store.close().await.expect("open");

    let limits = Limits {
        keep_bytes: 40,
        ..wide()
    };
    let (store, _) = Store::open(folder.path(), limits, clock).expect("a store");
    let gone = store.expire().await.expect("a disk");
    assert_eq!(
        gone,
        Expired {
            jobs: vec![ids[1]],
            blobs: 1,
            bytes: 105
        }
    );
    assert_eq!(store.blob(both).await, Ok(Some(40)), "a job waits for it");
    assert_eq!(store.expire().await, Ok(Expired::default()));
}

#[tokio::test]
async fn more_than_one_transaction_of_it_goes_at_once() {
    let folder = folder();
    let clock = Clock::still(1_000_000);
    let (store, _) = Store::open(folder.path(), wide(), clock.clone()).expect("a store");
    for number in 0..100_u8 {
        upload(&store, &[number]).await;
        let job = accept(&store, &number.to_string()).await;
        succeed(&store, job.id, &[number; 2]).await;
    }
    clock.pass(2 * wide().keep_ms);
    let gone = store.expire().await.expect("a disk");
    assert_eq!((gone.jobs.len(), gone.blobs, gone.bytes), (100, 100, 300));
    assert_eq!(entries(&folder.path().join("jobs")), [""; 0]);
}

#[tokio::test]
async fn a_spec_is_options_and_no_data() {
    let folder = folder();
    let limits = Limits {
        spec_bytes: 100,
        ..wide()
    };
    let store = open_with(folder.path(), limits);
    let of = |bytes| NewJob {
        spec: "x".repeat(bytes),
        ..new("a")
    };
    let refused = store.accept(of(101)).await;
    assert_eq!(refused, Err(StoreError::SpecTooLarge { limit: 100 }));
    store.accept(of(100)).await.expect("just as many");
}

#[tokio::test]
async fn what_nobody_has_fetched_is_kept_as_long_again() {
    let folder = folder();
    let clock = Clock::still(1_000_000);
    let (store, _) = Store::open(folder.path(), wide(), clock.clone()).expect("a store");
    let mut ids = Vec::new();
    for key in ["fetched", "unfetched", "failed"] {
        let id = accept(&store, key).await.id;
        match key {
            "failed" => store.finish(id, end(Outcome::Failed)).await.expect("waits"),
            _ => succeed(&store, id, b"glTF").await,
        };
        ids.push(id);
    }
    store.fetched(ids[0]).await.expect("a disk");
    assert!(store.get(ids[0]).await.expect("there").fetched);
    clock.pass(wide().keep_ms);
    let mut gone = store.expire().await.expect("a disk").jobs;
    gone.sort();
    assert_eq!(
        gone,
        [ids[0], ids[2]],
        "there was nothing to fetch of the last"
    );
    clock.pass(wide().keep_ms - 1);
    assert_eq!(store.expire().await, Ok(Expired::default()));
    clock.pass(1);
    assert_eq!(store.expire().await.expect("a disk").jobs, [ids[1]]);
}
