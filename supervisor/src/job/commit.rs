//! Sealed tables and the report → files in place. All files are written and synced before the first gets its name.

use std::sync::Arc;
use std::time::Instant;

use proto::blob::Blob;
use proto::message::{Code, Table};

use crate::error::JobError;
use crate::job::Spec;
use crate::output::{Staged, Target};
use crate::report::{FileEntry, Report};
use crate::stock::Stock;
use tokio::task::{JoinError, JoinHandle};

/// Complete files that wait for their names.
#[derive(Debug)]
pub struct Batch {
    files: Vec<Staged>,
}

impl Batch {
    /// Names them all: the GLB last, so that who sees it sees the rest.
    /// # Errors
    /// The system refuses one of them.
    pub fn commit(self) -> Result<(), Box<JobError>> {
        for file in self.files.into_iter().rev() {
            file.commit()?;
        }
        Ok(())
    }
}

/// Writes every file beside its target, on a thread of its own: disks block. Enters them into the report.
pub(super) fn stage(
    spec: &Spec,
    stock: &Stock,
    report: &mut Report,
    started: Instant,
) -> JoinHandle<Result<Batch, Box<JobError>>> {
    let blob = |table| stock.filled(table).map(Arc::clone);
    let mut files: Vec<(&'static str, Target, Arc<Blob>)> = Vec::new();
    files.extend(blob(Table::Glb).map(|blob| ("glb", spec.glb.clone(), blob)));
    files.extend(
        spec.preview
            .clone()
            .zip(blob(Table::Preview))
            .map(|(target, blob)| ("preview", target, blob)),
    );
    report.files = files
        .iter()
        .map(|(kind, target, blob)| FileEntry {
            kind,
            path: target.path().to_path_buf(),
            bytes: blob.len(),
        })
        .collect();
    let written_report = spec.report.clone().map(|target| {
        report.close(started.elapsed(), None);
        (target, report.to_json())
    });
    tokio::task::spawn_blocking(move || {
        let mut staged = Vec::new();
        for (_, target, blob) in files {
            staged.push(target.stage(&mut blob.reader())?);
        }
        if let Some((target, bytes)) = written_report {
            staged.push(target.stage(&mut bytes.as_slice())?);
        }
        Ok(Batch { files: staged })
    })
}

/// The writing thread's result; its panic is a failure of the job, not of the supervisor.
pub(super) fn joined(
    joined: Result<Result<Batch, Box<JobError>>, JoinError>,
) -> Result<Batch, Box<JobError>> {
    joined.map_err(|error| {
        JobError::own(Code::Internal, format!("writing the result: {error}"), "")
    })?
}

/// A failed job leaves its report, too, where one was asked for. Best effort: the failure itself is told anyway.
pub(super) fn failure_report(spec: &Spec, report: &Report) {
    let Some(target) = &spec.report else { return };
    if let Err(error) = target
        .stage(&mut report.to_json().as_slice())
        .and_then(Staged::commit)
    {
        tracing::warn!("{}", error.message);
    }
}
