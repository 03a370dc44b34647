//! Keeps jobs in a folder with the supervisor's store, and prints each answer as a line. Tests kill it, or make its
//! system calls fail. `keeper serve FOLDER` works until it is killed; `keeper script FOLDER` does everything once.
//!
//! ```text
//!  open RESTARTED        accepted KEY ID       finished ID        forgotten ID       healthy BOOL
//!  error STEP TEXT       what failed; the script goes on
//! ```

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use supervisor::output::Target;
use supervisor::store::{
    Accepted, Artifact, Clock, Digest, End, JobId, Limits, NewJob, Outcome, Store, StoreError,
};

/// Concurrent jobs.
const TASKS: usize = 4;
/// A time after which unused uploads have expired, and jobs have not.
const LATER_MS: i64 = 2 * 60 * 60 * 1000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, folder] = arguments.as_slice() else {
        say("usage: keeper serve|script FOLDER");
        return ExitCode::from(64);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    let limits = Limits {
        queue_jobs: 1_000_000,
        free_bytes: 0,
        free_percent: 0,
        keep_percent: 100,
        ..Limits::default()
    };
    let clock = Clock::default();
    let ahead = std::env::var("KEEPER_CLOCK_AHEAD_MS").unwrap_or_default();
    clock.set_wall(ahead.parse().unwrap_or(0));
    let (store, recovered) = match Store::open(Path::new(folder), limits, clock.clone()) {
        Ok(opened) => opened,
        Err(error) => {
            say(&format!("error open {error}"));
            return ExitCode::from(74);
        }
    };
    say(&format!("open {}", recovered.restarted));
    if mode == "script" {
        runtime.block_on(script(store, &clock));
        return ExitCode::SUCCESS;
    }
    let mut queued = recovered.queued.into_iter().map(|job| job.id);
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        let mut shares = vec![Vec::new(); TASKS];
        for place in (0..TASKS).cycle() {
            let Some(id) = queued.next() else { break };
            shares[place].push(id);
        }
        for (number, share) in shares.into_iter().enumerate() {
            tasks.spawn(serve(store.clone(), number, share));
        }
        // Runs until the process is killed or a task fails.
        match tasks.join_next().await {
            Some(Ok(error)) => say(&format!("error serve {error}")),
            other => panic!("{other:?}"),
        }
    });
    ExitCode::from(74)
}

/// Prints a line with one call, so that it is never partial.
fn say(line: &str) {
    let line = format!("{line}\n");
    if let Err(error) = io::stdout().write_all(line.as_bytes()) {
        panic!("nobody listens: {error}");
    }
}

/// Finishes the waiting jobs, then adds more; ends only with an error.
async fn serve(store: Store, number: usize, share: Vec<JobId>) -> StoreError {
    for id in share {
        if let Err(error) = carry_out(&store, id).await {
            return error;
        }
    }
    for round in 0.. {
        let key = format!("{}-{number}-{round}", std::process::id());
        let all = async {
            let id = accept(&store, &key).await?;
            // Nothing has expired, whatever the wall clock says.
            store.expire().await?;
            // One in three waits for the next process.
            if round % 3 != 0 {
                carry_out(&store, id).await?;
            }
            if round % 7 == 1 {
                store.forget(id).await?;
                say(&format!("forgotten {id}"));
            }
            Ok(())
        };
        if let Err(error) = all.await {
            return error;
        }
    }
    StoreError::Closed
}

async fn send_mesh(store: &Store, key: &str) -> Result<Digest, StoreError> {
    let mut upload = store.upload(None).await?;
    upload.write(format!("the mesh of {key}")).await?;
    Ok(upload.finish(None).await?.digest)
}

async fn accept(store: &Store, key: &str) -> Result<JobId, StoreError> {
    let mesh = send_mesh(store, key).await?;
    let spec = format!("{{\"name\":{key:?}}}");
    let job = NewJob {
        client: "1000".into(),
        key: key.into(),
        spec_digest: Digest::of(&spec),
        spec,
        inputs: [("mesh/mesh.glb".to_owned(), mesh)].into(),
        path_bytes: 100,
    };
    match store.accept(job).await? {
        Accepted::New { job, .. } => {
            say(&format!("accepted {key} {}", job.id));
            Ok(job.id)
        }
        other => panic!("{key} is new: {other:?}"),
    }
}

async fn carry_out(store: &Store, id: JobId) -> Result<(), StoreError> {
    let job = store.begin(id).await?;
    let input = match store.materialise(id).await {
        // As a client does after this error.
        Err(StoreError::MissingBlobs(_)) => {
            send_mesh(store, &job.key).await?;
            store.materialise(id).await?
        }
        made => made?,
    };
    let mesh = std::fs::read(input.join("mesh/mesh.glb")).map_err(|error| lost(&error))?;
    let folder = store.job_folder(id).await?;
    let bytes = [b"glTF of ".as_slice(), &mesh].concat();
    // As the supervisor commits results.
    let written = Target::check(&folder.join("model.glb"))
        .and_then(|target| target.stage(&mut bytes.as_slice()))
        .and_then(|staged| staged.commit());
    written.map_err(|error| lost(&error.message))?;
    let artifact = Artifact {
        name: "model.glb".into(),
        bytes: bytes.len() as u64,
        digest: Digest::of(&bytes),
        media_type: "model/gltf-binary".into(),
    };
    let end = End {
        outcome: Outcome::Succeeded,
        error: None,
        report: Some("{}".into()),
        artifacts: vec![artifact],
    };
    store.finish(id, end).await?;
    say(&format!("finished {id}"));
    Ok(())
}

fn lost(why: &impl ToString) -> StoreError {
    StoreError::BadArtifact {
        name: "model.glb".into(),
        why: why.to_string(),
    }
}

/// Does everything once, in order. Prints errors and continues.
async fn script(store: Store, clock: &Clock) {
    let told = |step: &str, result: Result<(), StoreError>| {
        if let Err(error) = result {
            say(&format!("error {step} {error}"));
        }
    };
    let mut ids = Vec::new();
    for key in ["a", "b", "c"] {
        match accept(&store, key).await {
            Ok(id) => ids.push(id),
            Err(error) => told("accept", Err(error)),
        }
    }
    for id in ids.iter().take(2) {
        told("carry_out", carry_out(&store, *id).await);
    }
    if let Some(id) = ids.first() {
        let forgotten = store.forget(*id).await;
        if forgotten.is_ok() {
            say(&format!("forgotten {id}"));
        }
        told("forget", forgotten.map(|_state| ()));
    }
    clock.pass(LATER_MS);
    told("expire", store.expire().await.map(|_gone| ()));
    // If everything keeps failing, this fails, too; if one call failed, the store has recovered.
    let mut last = store.probe().await;
    if last.is_err() {
        told("probe", last);
        last = store.probe().await;
    }
    assert_eq!(last.is_ok(), store.healthy(), "{last:?}");
    told("probe", last);
    say(&format!("healthy {}", store.healthy()));
    told("close", store.close().await);
}
