//! Jobs are accepted, begun and ended exactly once, and survive a close and a sudden end.

use super::*;

#[tokio::test]
async fn a_job_passes_through_its_states_and_has_one_end() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let job = accept(&store, "a").await;
    assert_eq!((job.state, job.starts), (State::Queued, 0));
    assert_eq!(store.get(job.id).await.as_ref(), Ok(&job));
    let early = store.finish(job.id, end(Outcome::Succeeded)).await;
    assert_eq!(early, Err(StoreError::WrongState(State::Queued)));

    let begun = store.begin(job.id).await.expect("queued");
    assert_eq!((begun.state, begun.starts), (State::Running, 1));
    assert!(begun.started_ms.is_some());
    assert_eq!(
        store.begin(job.id).await,
        Err(StoreError::WrongState(State::Running))
    );
    assert_eq!(
        store.forget(job.id).await,
        Err(StoreError::WrongState(State::Running))
    );
    store.requeue(job.id).await.expect("running");
    assert_eq!(
        store.requeue(job.id).await,
        Err(StoreError::WrongState(State::Queued))
    );

    let done = succeed(&store, job.id, b"glTF").await;
    assert_eq!(
        (done.state, done.starts, done.artifacts.len()),
        (State::Succeeded, 2, 1)
    );
    assert_eq!(
        done.expires_ms,
        done.finished_ms.map(|ms| ms + wide().keep_ms)
    );
    for outcome in [Outcome::Succeeded, Outcome::Failed, Outcome::Cancelled] {
        let again = store.finish(job.id, end(outcome)).await;
        assert_eq!(again, Err(StoreError::WrongState(State::Succeeded)));
    }
    assert_eq!(
        store.get(job.id).await.as_ref(),
        Ok(&done),
        "nothing was changed"
    );
    let path = store.artifact_path(job.id, &done.artifacts[0]);
    assert_eq!(fs::read(path).expect("there"), b"glTF");

    store.close().await.expect("open");
    let (store, recovered) = open(folder.path());
    assert_eq!((recovered.stored, recovered.queued.len()), (1, 0));
    assert_eq!(store.get(job.id).await, Ok(done));
}

#[tokio::test]
async fn a_key_is_one_job_of_one_client() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let job = accept(&store, "a").await;
    let same = store.accept(new("a")).await.expect("the same");
    assert_eq!(same, Accepted::Replayed(Box::new(job.clone())));
    let mut other = new("a");
    other.spec_digest = Digest::of("another");
    assert_eq!(store.accept(other.clone()).await, Ok(Accepted::KeyReused));
    other.client = "1001".into();
    let other = store.accept(other).await.expect("another client");
    assert!(
        matches!(other, Accepted::New { position: 1, .. }),
        "{other:?}"
    );

    let done = store
        .finish(job.id, end(Outcome::Cancelled))
        .await
        .expect("it waited");
    let same = store.accept(new("a")).await.expect("the same");
    assert_eq!(
        same,
        Accepted::Replayed(Box::new(done)),
        "as long as the job is kept"
    );
    assert_eq!(store.forget(job.id).await, Ok(State::Cancelled));
    assert_ne!(accept(&store, "a").await.id, job.id);
}

#[tokio::test]
async fn a_hundred_at_once_under_one_key_are_one_job() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            tokio::spawn({
                let store = store.clone();
                async move { store.accept(new("a")).await }
            })
        })
        .collect();
    let (mut made, mut ids) = (0, Vec::new());
    for task in tasks {
        match task.await.expect("no panic").expect("accepted") {
            Accepted::New { job, .. } => {
                made += 1;
                ids.push(job.id);
            }
            Accepted::Replayed(job) => ids.push(job.id),
            Accepted::KeyReused => panic!("it is the same"),
        }
    }
    ids.dedup();
    assert_eq!((made, ids.len()), (1, 1));
}

#[tokio::test]
async fn what_is_forgotten_is_gone_and_what_never_was_is_not_found() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let (kept, removed) = (accept(&store, "a").await, accept(&store, "b").await);
    succeed(&store, removed.id, b"glTF").await;
    assert_eq!(store.forget(removed.id).await, Ok(State::Succeeded));
    assert_eq!(store.get(removed.id).await, Err(StoreError::Gone));
    assert_eq!(store.forget(removed.id).await, Err(StoreError::Gone));
    assert_eq!(entries(&folder.path().join("jobs")), [""; 0]);
    let stranger: JobId = "00000000000070008000000000000000".parse().expect("an id");
    assert_eq!(store.get(stranger).await, Err(StoreError::NotFound));
    assert_eq!(store.begin(stranger).await, Err(StoreError::NotFound));
    assert_eq!(store.get(kept.id).await, Ok(kept));
}

#[tokio::test]
async fn pages_lead_through_all_jobs_even_past_one_that_is_gone() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let mut ids = Vec::new();
    for number in 0..25 {
        ids.push(accept(&store, &number.to_string()).await.id);
    }
    for id in ids.iter().step_by(2) {
        store
            .finish(*id, end(Outcome::Failed))
            .await
            .expect("it waited");
    }
    let walk = async |state: Option<State>| {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = store.list(state, cursor, 4).await.expect("a page");
            found.extend(page.jobs);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return found,
            }
        }
    };
    let newest = |ids: Vec<JobId>| ids.into_iter().rev().collect::<Vec<JobId>>();
    assert_eq!(walk(None).await, newest(ids.clone()));
    let failed: Vec<JobId> = ids.iter().copied().step_by(2).collect();
    assert_eq!(walk(Some(State::Failed)).await, newest(failed));
    let page = store.list(None, None, 4).await.expect("a page");
    let cursor = page.next.expect("more");
    store.forget(cursor).await.expect("it does not run");
    let page = store.list(None, Some(cursor), 30).await.expect("a page");
    assert_eq!(
        (page.jobs.len(), page.jobs[0], page.next),
        (21, ids[20], None)
    );
    let all = store.list(None, None, 24).await.expect("a page");
    assert_eq!(
        (all.jobs.len(), all.next),
        (24, None),
        "no empty page at the end"
    );
}

#[tokio::test]
async fn a_result_that_is_not_there_is_not_told_of() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let job = accept(&store, "a").await;
    store.begin(job.id).await.expect("queued");
    let good = result(&store, job.id, "model.glb", b"glTF").await;
    fs::create_dir(folder.path().join(format!("jobs/{}/folder", job.id))).expect("a folder");
    let named = |name: &str, bytes| Artifact {
        name: name.into(),
        bytes,
        ..good.clone()
    };
    for bad in [
        named("model.glb", 5),
        named("preview.png", 4),
        named("folder", 4),
        named("../../lock", 0),
        named(".hidden", 4),
    ] {
        let name = bad.name.clone();
        let artifacts = vec![good.clone(), bad];
        let end = End {
            artifacts,
            ..end(Outcome::Succeeded)
        };
        let error = store.finish(job.id, end).await.expect_err("refused");
        assert!(
            matches!(&error, StoreError::BadArtifact { name: told, .. } if *told == name),
            "{error}"
        );
    }
    let job = store.get(job.id).await.expect("there");
    assert_eq!((job.state, job.artifacts.len()), (State::Running, 0));
    // The same name twice violates a constraint in the midst of the rows.
    let artifacts = vec![good.clone(), good];
    let twice = End {
        artifacts,
        ..end(Outcome::Succeeded)
    };
    store.finish(job.id, twice).await.expect_err("refused");
    assert_eq!(store.get(job.id).await, Ok(job), "undone wholly");
}

#[tokio::test]
async fn positions_count_those_before() {
    let folder = folder();
    let (store, _) = open(folder.path());
    let mut ids = Vec::new();
    for place in 0..3 {
        let accepted = store.accept(new(&place.to_string())).await.expect("room");
        let Accepted::New { job, position } = accepted else {
            panic!("{accepted:?}")
        };
        assert_eq!(position, place);
        ids.push(job.id);
    }
    store.begin(ids[0]).await.expect("queued");
    assert_eq!(store.position(ids[0]).await, Ok(None));
    assert_eq!(store.position(ids[2]).await, Ok(Some(1)));
    assert_eq!(store.queue().await, Ok(Queue { jobs: 2, bytes: 20 }));
    store.requeue(ids[0]).await.expect("running");
    assert_eq!(
        store.position(ids[0]).await,
        Ok(Some(0)),
        "it keeps its place"
    );
}
