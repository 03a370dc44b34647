//! Sealed tables and the report → files in place. All files are written and synced before the first gets its name.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use proto::blob::{Blob, BlobReader};
use proto::job::Container;
use proto::message::{Code, Sha256, Table};
use sha2::{Digest as _, Sha256 as Hash};
use tokio::sync::oneshot;

use super::kind::Kind;
use super::spec::{MapTargets, Spec, rejected};
use crate::error::JobError;
use crate::output::{self, Given, Staged, Target};
use crate::process::table_store::TableStore;
use crate::process::workers;
use crate::report::{FileEntry, Report};

/// Complete files that wait for their names.
#[derive(Debug)]
pub struct Batch {
    files: Vec<Staged>,
}

impl Batch {
    /// Names them all or none: the GLB last, so that who sees it sees the rest.
    /// # Errors
    /// The system refuses one of them, or it would replace a file that the job was given.
    pub fn commit(self, given: &Given) -> Result<(), Box<JobError>> {
        output::commit(self.files.into_iter().rev(), given)
    }
}

/// Writes every file beside its target, on another thread: disks block. Enters them into the report.
pub(super) fn stage(
    kind: Kind<'_>,
    tables: &TableStore,
    report: &mut Report,
    started: Instant,
) -> Staging {
    let (mut files, mut drawn) = (Vec::new(), Vec::new());
    let (mut page, mut written_report) = (None, None);
    match kind {
        Kind::Bake(spec) => {
            baked(spec, &mut files);
            if let Some(folder) = &spec.rejected {
                drawn = rejections(folder, tables);
            }
            page = spec.html.clone().zip(tables.file(Table::Gallery));
            written_report = spec.report.clone();
        }
        Kind::Compare(spec) => {
            let picture = spec.picture.clone();
            files.extend(picture.map(|target| ("preview", target, Table::Preview)));
        }
    }
    let files: Vec<(&'static str, Target, File)> = (files.into_iter())
        .filter_map(|(kind, target, table)| Some((kind, target, tables.file(table)?)))
        .collect();
    enter(report, &files, &drawn);
    if page.is_some() || written_report.is_some() {
        report.close(started.elapsed(), None);
    }
    // The page tells of all files but itself.
    let page = page.map(|(target, (blob, sha256))| {
        let around = report.page();
        report.files.push(FileEntry {
            kind: "html".into(),
            path: target.path().to_path_buf(),
            bytes: blob.len() + around.iter().map(|text| text.len() as u64).sum::<u64>(),
        });
        (target, (blob, sha256), around)
    });
    let written_report = written_report.map(|target| (target, report.to_json()));
    workers::run(move || {
        let mut staged = Vec::new();
        for (folder, view, file) in drawn {
            staged.push(copy(&rejected(&folder, view)?, &file, BARE)?);
        }
        for (_, target, file) in files {
            staged.push(copy(&target, &file, BARE)?);
        }
        if let Some((target, file, [head, tail])) = page {
            staged.push(copy(&target, &file, [&head, &tail])?);
        }
        if let Some((target, bytes)) = written_report {
            staged.push(target.stage(&mut bytes.as_slice())?);
        }
        Ok(Batch { files: staged })
    })
}

/// The files of a bake, and the tables that hold them.
fn baked(spec: &Spec, files: &mut Vec<(&'static str, Target, Table)>) {
    let kind = match spec.form.container {
        Container::Glb => "glb",
        Container::Ply => "ply",
        Container::Obj => "obj",
    };
    let glb = spec.glb.clone();
    files.extend(glb.map(|target| (kind, target, Table::Glb)));
    files.extend(spec.beside.iter().map(|(table, target)| {
        let kind = match table {
            Table::Material => "material",
            _ => "texture",
        };
        (kind, target.clone(), *table)
    }));
    let preview = spec.preview.clone();
    files.extend(preview.map(|target| ("preview", target, Table::Preview)));
    if let Some(MapTargets {
        coverage,
        residual,
        provenance,
    }) = spec.maps.clone()
    {
        files.extend([
            ("coverage", coverage, Table::Coverage),
            ("residual", residual, Table::Residual),
            ("provenance", provenance, Table::Provenance),
        ]);
    }
}

/// A picture of what was rejected of a view, the folder for it and the view's index.
type Rejection = (PathBuf, u32, File);

fn rejections(folder: &Path, tables: &TableStore) -> Vec<Rejection> {
    let views = tables.views().iter().map(|(view, _)| *view);
    let drawn = views.filter_map(|view| {
        let file = tables.file(Table::Rejected(view))?;
        Some((folder.to_path_buf(), view, file))
    });
    drawn.collect()
}

/// Enters the files into the report; the pictures of what was rejected as their folder.
fn enter(report: &mut Report, files: &[(&'static str, Target, File)], drawn: &[Rejection]) {
    let entries = files.iter().map(|(kind, target, (blob, _))| FileEntry {
        kind: (*kind).into(),
        path: target.path().to_path_buf(),
        bytes: blob.len(),
    });
    report.files = entries.collect();
    report
        .files
        .extend(drawn.first().map(|(folder, ..)| FileEntry {
            kind: "rejected".into(),
            path: folder.clone(),
            bytes: drawn.iter().map(|(.., (blob, _))| blob.len()).sum(),
        }));
}

/// A finished file, and the digest that its maker has read back.
type File = (Arc<Blob>, Sha256);

/// Nothing before and after a file.
const BARE: [&str; 2] = [""; 2];

/// Copies a file beside its target, between two texts, and holds the bytes that it copies against what its maker has read.
fn copy(
    target: &Target,
    (blob, sha256): &File,
    [head, tail]: [&str; 2],
) -> Result<Staged, Box<JobError>> {
    let mut bytes = Hashed {
        bytes: blob.reader(),
        hash: Hash::new(),
    };
    let whole = head.as_bytes().chain(bytes.by_ref());
    let staged = target.stage(&mut whole.chain(tail.as_bytes()))?;
    if *bytes.hash.finalize() == *sha256 {
        return Ok(staged);
    }
    let message = format!(
        "{} would hold other bytes than those that its worker has read back",
        target.path().display()
    );
    let hint = "nothing has been put in place: try again, and see to this machine's memory if it comes again";
    Err(JobError::own(Code::ProtocolViolation, message, hint))
}

/// Bytes, and the digest of those that were read.
struct Hashed<'a> {
    bytes: BlobReader<'a>,
    hash: Hash,
}

impl Read for Hashed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        self.hash.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

/// What a writing thread gives.
pub(super) type Staging = oneshot::Receiver<Result<Batch, Box<JobError>>>;

/// The writing thread's result; its panic is a failure of the job, not of the supervisor.
pub(super) async fn written(staging: &mut Staging) -> Result<Batch, Box<JobError>> {
    staging.await.unwrap_or_else(|_gone| {
        let message = "writing the result ended without a word";
        Err(JobError::own(Code::Internal, message, ""))
    })
}
