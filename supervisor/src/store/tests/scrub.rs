//! Uploads that the disk lost, truncated or changed are found and reported, and sending them again repairs them.

use super::*;

type Harm = fn(&Path);

/// Damage to a file of six bytes that its row and inputs do not reflect.
const HARM: [(&str, Harm); 3] = [
    ("lost", |path| fs::remove_file(path).expect("ours")),
    ("cut", |path| replace(path, b"a me")),
    ("changed", |path| replace(path, b"a mess")),
];

fn replace(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).expect("ours");
    fs::write(path, bytes).expect("room");
}

async fn round(store: &Store) {
    let mut round = Round::default();
    while store.scrub(&mut round).await.expect("a disk") {}
}

#[tokio::test]
async fn an_upload_that_is_gone_or_short_is_not_there_and_comes_back_with_its_bytes() {
    for (what, harm) in HARM.iter().take(2) {
        let folder = folder();
        let (store, _) = open(folder.path());
        let digest = upload(&store, b"a mesh").await;
        let inputs = || [("mesh.glb".to_owned(), digest)];
        let waits = accept_with(&store, "a", inputs()).await;
        harm(&store.blob_path(digest));
        assert_eq!(store.blob(digest).await, Ok(None), "{what}");
        let missing = Err(StoreError::MissingBlobs(vec![digest]));
        let mut asked = new("b");
        asked.inputs = inputs().into();
        assert_eq!(store.accept(asked).await, missing, "{what}");
        assert_eq!(
            store.materialise(waits.id).await.map(|_| ()),
            missing.map(|_| ()),
            "{what}"
        );
        assert_eq!(upload(&store, b"a mesh").await, digest);
        assert_eq!(store.blob(digest).await, Ok(Some(6)), "{what}");
        accept_with(&store, "b", inputs()).await;
        let input = store
            .materialise(waits.id)
            .await
            .expect("it is there again");
        let found = fs::read(input.join("mesh.glb")).expect("a file");
        assert_eq!(found, b"a mesh", "{what}");
    }
}

#[tokio::test]
async fn an_open_finds_what_was_lost_and_cut_since() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let mut digests = Vec::new();
    for bytes in [b"mesh 0", b"mesh 1", b"mesh 2"] {
        digests.push(upload(&store, bytes).await);
    }
    let paths: Vec<PathBuf> = digests
        .iter()
        .map(|digest| store.blob_path(*digest))
        .collect();
    store.close().await.expect("open");
    fs::remove_file(&paths[0]).expect("ours");
    replace(&paths[1], b"me");
    let (store, recovered) = open(folder.path());
    assert_eq!((recovered.lost_blobs, recovered.stray_blobs), (2, 1));
    assert!(!paths[1].exists());
    for (digest, wanted) in digests.into_iter().zip([None, None, Some(6)]) {
        assert_eq!(store.blob(digest).await, Ok(wanted));
    }
}

#[tokio::test]
async fn a_round_finds_every_harm_and_spares_what_is_whole() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let large = vec![7; 40 << 20];
    let whole = [upload(&store, b"whole").await, upload(&store, &large).await];
    for (what, harm) in HARM {
        let digest = upload(&store, b"a mesh").await;
        round(&store).await;
        assert_eq!(store.blob(digest).await, Ok(Some(6)), "{what}");
        harm(&store.blob_path(digest));
        let harmed = fs::read(store.blob_path(digest)).ok();
        round(&store).await;
        assert_eq!(store.blob(digest).await, Ok(None), "{what}");
        assert!(!store.blob_path(digest).exists(), "{what}");
        let aside = folder.path().join(format!("spool/{digest}.damaged"));
        assert_eq!(fs::read(&aside).ok(), harmed, "{what}");
        assert_eq!(upload(&store, b"a mesh").await, digest);
        assert_eq!(store.blob(digest).await, Ok(Some(6)), "{what}");
    }
    for (digest, bytes) in whole.into_iter().zip([5, 40 << 20]) {
        assert_eq!(store.blob(digest).await, Ok(Some(bytes)));
    }
    store.close().await.expect("open");
    open(folder.path());
    assert_eq!(entries(&folder.path().join("spool")), [""; 0]);
}

/// An upload does not trust a file just because its size is right.
#[tokio::test]
async fn sending_a_changed_upload_again_mends_it() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let digest = upload(&store, b"a mesh").await;
    replace(&store.blob_path(digest), b"a mess");
    let mut again = store.upload(None).await.expect("room");
    again.write("a mesh").await.expect("room");
    assert!(again.finish(None).await.expect("kept").new);
    assert_eq!(fs::read(store.blob_path(digest)).expect("there"), b"a mesh");
}

#[tokio::test]
async fn the_inputs_of_a_job_go_with_its_end() {
    use std::os::unix::fs::MetadataExt;
    let folder = folder();
    let (store, _) = open(folder.path());
    let digest = upload(&store, b"a mesh").await;
    let links = || {
        fs::metadata(store.blob_path(digest))
            .expect("there")
            .nlink()
    };
    for outcome in [Outcome::Succeeded, Outcome::Failed, Outcome::Cancelled] {
        let key = format!("{outcome:?}");
        let job = accept_with(&store, &key, [("mesh.glb".to_owned(), digest)]).await;
        store.begin(job.id).await.expect("queued");
        let input = store.materialise(job.id).await.expect("inputs");
        assert_eq!(links(), 2);
        store.finish(job.id, end(outcome)).await.expect("it runs");
        assert!(!input.exists() && links() == 1, "{outcome:?}");
    }
    // Left by a version that kept them, or by a sudden end.
    let ids = store.list(None, None, 9).await.expect("a page").jobs;
    let left = folder.path().join(format!("jobs/{}/input", ids[0]));
    fs::create_dir(&left).expect("a folder");
    fs::hard_link(store.blob_path(digest), left.join("mesh.glb")).expect("a link");
    store.close().await.expect("open");
    let (store, _) = open(folder.path());
    assert!(!left.exists() && store.get(ids[0]).await.is_ok());
}
