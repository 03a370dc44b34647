//! Prints the time to open a store of 10,000 jobs and to accept 1,000 queued jobs. Asserts nothing: the times are the
//! disk's.

use std::time::{Duration, Instant};

use super::*;

#[expect(clippy::print_stderr, reason = "the figures")]
fn said(line: &str) {
    eprintln!("{line}");
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn quantile(times: &[Duration], percent: usize) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    millis(times[(times.len() * percent / 100).min(times.len() - 1)])
}

/// A job of the usual size of spec and report.
fn sized(key: &str) -> NewJob {
    NewJob {
        spec: format!("{{\"name\": {key:?}, \"pad\": \"{}\"}}", "x".repeat(2_000)),
        ..new(key)
    }
}

#[tokio::test]
async fn ten_thousand_stored_jobs() {
    let folder = folder();
    let limits = || Limits {
        queue_jobs: 20_000,
        ..wide()
    };
    let (store, _) = Store::open(folder.path(), limits(), Clock::default()).expect("a store");
    let mut blobs = Vec::new();
    for number in 0..20_u8 {
        blobs.push(upload(&store, &[number; 100]).await);
    }
    let all: Vec<_> = (0..10_000)
        .map(|number| {
            let (store, digest) = (store.clone(), blobs[number % 20]);
            tokio::spawn(async move {
                let mut asked = sized(&number.to_string());
                asked.inputs = [
                    "mesh.glb",
                    "transforms.json",
                    "images/0.png",
                    "images/1.png",
                ]
                .map(|name| (name.to_owned(), digest))
                .into();
                let Ok(Accepted::New { job, .. }) = store.accept(asked).await else {
                    panic!("accepted")
                };
                store.begin(job.id).await.expect("queued");
                // The last hundred are running when the process ends.
                if number < 9_900 {
                    let mut end = end(Outcome::Succeeded);
                    end.artifacts = vec![result(&store, job.id, "model.glb", b"glTF").await];
                    end.report = Some(format!("\"{}\"", "y".repeat(8_000)));
                    store.finish(job.id, end).await.expect("runs");
                }
            })
        })
        .collect();
    for task in all {
        task.await.expect("no panic");
    }
    store.close().await.expect("open");
    let size = fs::metadata(folder.path().join("store.sqlite"))
        .expect("there")
        .len();
    let start = Instant::now();
    let (store, recovered) =
        Store::open(folder.path(), limits(), Clock::default()).expect("a store");
    let time = millis(start.elapsed());
    assert_eq!(
        (
            recovered.stored,
            recovered.queued.len(),
            recovered.restarted
        ),
        (10_000, 100, 100)
    );
    said(&format!(
        "10,000 jobs, {} MiB: open in {time:.0} ms",
        size >> 20
    ));
    let start = Instant::now();
    let page = store
        .list(Some(State::Succeeded), None, 100)
        .await
        .expect("a page");
    assert_eq!(page.jobs.len(), 100);
    said(&format!(
        "a page of 100 in {:.1} ms",
        millis(start.elapsed())
    ));
    let start = Instant::now();
    assert_eq!(store.expire().await, Ok(Expired::default()));
    said(&format!(
        "expire, nothing to do, in {:.1} ms",
        millis(start.elapsed())
    ));
}

#[tokio::test]
async fn a_thousand_queued_jobs() {
    let folder = folder();
    let limits = Limits {
        queue_jobs: 20_000,
        ..wide()
    };
    let (store, _) = Store::open(folder.path(), limits, Clock::default()).expect("a store");
    let accept = async |store: Store, number: usize| {
        let start = Instant::now();
        let accepted = store.accept(sized(&number.to_string())).await;
        assert!(matches!(accepted, Ok(Accepted::New { .. })), "{accepted:?}");
        start.elapsed()
    };
    for number in 0..1_000 {
        accept(store.clone(), number).await;
    }
    let mut alone = Vec::new();
    for number in 1_000..2_000 {
        alone.push(accept(store.clone(), number).await);
        store
            .finish(first(&store).await, end(Outcome::Cancelled))
            .await
            .expect("it waits");
    }
    assert_eq!(store.queue().await.expect("a disk").jobs, 1_000);
    let figures = |times: &[Duration]| {
        format!(
            "p50 {:.2} ms, p99 {:.2} ms",
            quantile(times, 50),
            quantile(times, 99)
        )
    };
    said(&format!(
        "accept at 1,000 queued, one by one: {}",
        figures(&alone)
    ));
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..16 {
        let store = store.clone();
        tasks.spawn(async move {
            let mut times = Vec::new();
            for number in 0..50 {
                times.push(accept(store.clone(), 2_000 + client * 50 + number).await);
            }
            times
        });
    }
    let together = tasks.join_all().await.concat();
    let rate = together.len() as f64 / start.elapsed().as_secs_f64();
    said(&format!(
        "16 at once: {}, {rate:.0} a second",
        figures(&together)
    ));
}

/// The job that has waited longest: the last of the last page.
async fn first(store: &Store) -> JobId {
    let page = store
        .list(Some(State::Queued), None, 5_000)
        .await
        .expect("a page");
    *page.jobs.last().expect("some wait")
}
