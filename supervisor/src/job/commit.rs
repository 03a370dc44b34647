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

/// Complete files that wait for their names.
#[derive(Debug)]
pub(super) struct Batch {
    files: Vec<Staged>,
}

impl Batch {
    /// Names them all: the GLB last, so that who sees it sees the rest.
    pub(super) fn commit(self) -> Result<(), Box<JobError>> {
        for file in self.files.into_iter().rev() {
            file.commit()?;
        }
        Ok(())
    }
}

/// Writes every file beside its target, on a thread of its own: disks block. Enters them into the report.
pub(super) async fn stage(
    spec: &Spec,
    stock: &Stock,
    report: &mut Report,
    started: Instant,
) -> Result<Batch, Box<JobError>> {
    let blob = |table| stock.filled(table).map(Arc::clone);
    let mut jobs: Vec<(&'static str, Target, Arc<Blob>)> = Vec::new();
    jobs.extend(blob(Table::Glb).map(|blob| ("glb", spec.glb.clone(), blob)));
    jobs.extend(
        spec.preview
            .clone()
            .zip(blob(Table::Preview))
            .map(|(target, blob)| ("preview", target, blob)),
    );
    let staged = tokio::task::spawn_blocking(move || {
        jobs.into_iter()
            .map(|(kind, target, blob)| {
                let staged = target.stage(&mut blob.reader())?;
                let path = target.path().to_path_buf();
                Ok((
                    FileEntry {
                        kind,
                        path,
                        bytes: staged.size(),
                    },
                    staged,
                ))
            })
            .collect::<Result<Vec<_>, Box<JobError>>>()
    })
    .await
    .map_err(|error| JobError::own(Code::Internal, format!("writing the result: {error}"), ""))??;
    let (entries, mut files): (Vec<_>, Vec<_>) = staged.into_iter().unzip();
    report.files = entries;
    if let Some(target) = &spec.report {
        report.close(started.elapsed(), None);
        files.push(target.stage(&mut report.to_json().as_slice())?);
    }
    Ok(Batch { files })
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
