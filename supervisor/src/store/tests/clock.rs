//! Setting the wall clock or rebooting shortens no retention, and keeps nothing for ever.

use super::*;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const NOON: i64 = 1_800_000_000_000;

fn open_by(folder: &Path, clock: &Clock) -> Store {
    Store::open(folder, wide(), clock.clone())
        .expect("a store")
        .0
}

/// A store with a finished job and an unused upload.
async fn filled(folder: &Path, clock: &Clock) -> (Store, JobId, Digest) {
    let store = open_by(folder, clock);
    let id = accept(&store, "a").await.id;
    let done = succeed(&store, id, b"glTF").await;
    assert_eq!(done.finished_ms, Some(clock.wall_ms()));
    assert_eq!(done.expires_ms, Some(clock.wall_ms() + wide().keep_ms));
    store.fetched(id).await.expect("a disk");
    let unused = upload(&store, b"unused").await;
    (store, id, unused)
}

async fn is_kept(store: &Store, id: JobId, unused: Digest, what: &str) {
    let gone = store.expire().await.expect("a disk");
    assert_eq!(gone, Expired::default(), "{what}");
    assert!(store.get(id).await.is_ok(), "{what}");
    assert_eq!(store.blob(unused).await, Ok(Some(6)), "{what}");
}

/// The rest of their retention passes, and they are removed.
async fn goes(store: &Store, clock: &Clock, id: JobId) {
    clock.pass(wide().keep_ms);
    let gone = store.expire().await.expect("a disk");
    assert_eq!((gone.jobs, gone.blobs), (vec![id], 1));
}

#[tokio::test]
async fn a_wall_clock_that_jumps_shortens_nothing_and_lengthens_nothing() {
    for jump in [25 * DAY_MS / 24, 400 * DAY_MS, -DAY_MS, -NOON] {
        let (folder, clock) = (folder(), Clock::still(NOON));
        let (store, id, unused) = filled(folder.path(), &clock).await;
        clock.set_wall(jump);
        is_kept(&store, id, unused, "at once").await;
        let expires = store.get(id).await.expect("there").expires_ms;
        assert_eq!(
            expires,
            Some(NOON + jump + wide().keep_ms),
            "as people count now"
        );
        store.close().await.expect("open");
        // And back, while nobody looks.
        clock.set_wall(-2 * jump);
        let store = open_by(folder.path(), &clock);
        is_kept(&store, id, unused, "after a restart").await;
        assert!(accept(&store, "b").await.id > id, "ids rise nevertheless");
        goes(&store, &clock, id).await;
    }
}

#[tokio::test]
async fn time_passes_while_the_sidecar_is_not_there_and_not_while_the_machine_is_off() {
    let (folder, clock) = (folder(), Clock::still(NOON));
    let (store, id, _) = filled(folder.path(), &clock).await;
    store.close().await.expect("open");
    clock.pass(wide().keep_ms - 1);
    let store = open_by(folder.path(), &clock);
    let kept = store.expire().await.expect("a disk");
    assert!(kept.jobs.is_empty(), "{kept:?}");
    store.close().await.expect("open");
    clock.pass(1);
    let store = open_by(folder.path(), &clock);
    assert_eq!(store.expire().await.expect("a disk").jobs, [id]);

    let (folder, clock) = (super::folder(), Clock::still(NOON));
    let (store, id, unused) = filled(folder.path(), &clock).await;
    store.close().await.expect("open");
    // The machine boots with a wrong clock, which is set later.
    clock.boot();
    clock.set_wall(500 * DAY_MS);
    let store = open_by(folder.path(), &clock);
    is_kept(&store, id, unused, "a wrong clock").await;
    clock.set_wall(-499 * DAY_MS);
    is_kept(&store, id, unused, "the right one").await;
    goes(&store, &clock, id).await;
}

/// What asks for the removed job must not get another.
#[tokio::test]
async fn an_id_is_given_once_even_by_a_clock_that_went_back() {
    let (folder, clock) = (folder(), Clock::still(NOON));
    let store = open_by(folder.path(), &clock);
    let kept = accept(&store, "a").await.id;
    clock.set_wall(-DAY_MS);
    let removed = accept(&store, "b").await.id;
    succeed(&store, removed, b"glTF").await;
    store.forget(removed).await.expect("a disk");
    store.close().await.expect("open");
    let store = open_by(folder.path(), &clock);
    let next = accept(&store, "c").await.id;
    assert!(kept < removed && removed < next, "{removed} and {next}");
    assert_eq!(store.get(removed).await, Err(StoreError::Gone));
}

#[tokio::test]
async fn a_machine_that_goes_down_forgets_minutes_of_a_time_of_hours() {
    let (folder, clock) = (folder(), Clock::still(NOON));
    let (store, id, _) = filled(folder.path(), &clock).await;
    let half = wide().keep_ms / 2;
    clock.pass(half);
    store.expire().await.expect("a disk");
    // Too soon to be saved.
    clock.pass(5 * 60 * 1000);
    store.expire().await.expect("a disk");
    store.close().await.expect("open");
    clock.boot();
    let store = open_by(folder.path(), &clock);
    clock.pass(half - 1);
    assert!(store.expire().await.expect("a disk").jobs.is_empty());
    clock.pass(1);
    assert_eq!(store.expire().await.expect("a disk").jobs, [id]);
}

#[tokio::test]
async fn a_rule_that_was_longer_keeps_nothing_for_ever() {
    let (folder, clock) = (folder(), Clock::still(NOON));
    let longer = Limits {
        keep_ms: 1000 * DAY_MS,
        ..wide()
    };
    let (store, _) = Store::open(folder.path(), longer, clock.clone()).expect("a store");
    let id = accept(&store, "a").await.id;
    succeed(&store, id, b"glTF").await;
    store.close().await.expect("open");
    let store = open_by(folder.path(), &clock);
    let expires = store.get(id).await.expect("there").expires_ms;
    assert_eq!(expires, Some(NOON + wide().keep_ms));
}
