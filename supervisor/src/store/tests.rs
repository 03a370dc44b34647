//! The store from outside: its answers, its files, and what the next open finds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

mod bounds;
mod clock;
mod jobs;
mod open;
mod scale;
mod scrub;
mod uploads;

/// Limits that neither the disk nor a test reaches by accident.
fn wide() -> Limits {
    Limits {
        keep_percent: 100,
        free_bytes: 0,
        free_percent: 0,
        ..Limits::default()
    }
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("temp dir");
    fs::set_permissions(
        folder.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .expect("ours");
    folder
}

fn open(folder: &Path) -> (Store, Recovered) {
    Store::open(folder, wide(), Clock::default()).expect("a store")
}

fn new(key: &str) -> NewJob {
    let spec = format!("{{\"name\": {key:?}}}");
    NewJob {
        client: "1000".into(),
        key: key.into(),
        spec_digest: Digest::of(&spec),
        spec,
        inputs: BTreeMap::new(),
        path_bytes: 10,
    }
}

async fn accept(store: &Store, key: &str) -> Job {
    accept_with(store, key, []).await
}

async fn accept_with<const N: usize>(
    store: &Store,
    key: &str,
    inputs: [(String, Digest); N],
) -> Job {
    let new = NewJob {
        inputs: inputs.into(),
        ..new(key)
    };
    match store.accept(new).await.expect("accepted") {
        Accepted::New { job, .. } => *job,
        other => panic!("{key}: {other:?}"),
    }
}

fn end(outcome: Outcome) -> End {
    End {
        outcome,
        error: None,
        report: Some("{}".into()),
        artifacts: Vec::new(),
    }
}

/// Writes a result into a job's folder.
async fn result(store: &Store, id: JobId, name: &str, bytes: &[u8]) -> Artifact {
    let folder = store.job_folder(id).await.expect("a folder");
    fs::write(folder.join(name), bytes).expect("a file");
    Artifact {
        name: name.into(),
        bytes: bytes.len() as u64,
        digest: Digest::of(bytes),
        media_type: "model/gltf-binary".into(),
    }
}

/// Brings a job to success, with one result.
async fn succeed(store: &Store, id: JobId, bytes: &[u8]) -> Job {
    store.begin(id).await.expect("begun");
    let artifact = result(store, id, "model.glb", bytes).await;
    let end = End {
        artifacts: vec![artifact],
        ..end(Outcome::Succeeded)
    };
    store.finish(id, end).await.expect("finished")
}

async fn upload(store: &Store, bytes: &[u8]) -> Digest {
    let mut upload = store.upload(None).await.expect("room");
    upload.write(bytes.to_vec()).await.expect("room");
    upload.finish(None).await.expect("kept").digest
}

fn entries(folder: &Path) -> Vec<String> {
    let list = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = list
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}
