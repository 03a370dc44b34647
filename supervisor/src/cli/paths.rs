//! Paths of the command line → places: whether two of them are one file, and which files are read and written.

use std::path::{Path, PathBuf};

use proto::message::{Code, Table};

use crate::error::JobError;
use crate::input::{Input, companion};
use crate::output::{Target, named_twice};

/// The files beside a result, each of which can be written.
pub(super) fn targets(
    beside: Vec<(Table, PathBuf)>,
) -> Result<Vec<(Table, Target)>, Box<JobError>> {
    let check = |(table, path): (Table, PathBuf)| Ok((table, Target::check(&path)?));
    beside.into_iter().map(check).collect()
}

/// The files that are known to be read before any of them is.
pub(super) fn read(inputs: &[&Input]) -> Vec<PathBuf> {
    let beside = |input: &&Input| {
        let cameras = companion(&input.name)?;
        Some(input.path.with_file_name(cameras))
    };
    let named = inputs.iter().map(|input| input.path.clone());
    named.chain(inputs.iter().filter_map(beside)).collect()
}

/// The outputs are different files, and none of them is an input. Inputs that others name are told apart when they are opened:
/// see [`Given`](crate::output::Given).
pub(super) fn distinct(inputs: &[PathBuf], outputs: &[PathBuf]) -> Result<(), Box<JobError>> {
    let mut taken: Vec<PathBuf> = inputs.iter().map(|path| place(path)).collect();
    for path in outputs {
        let place = place(path);
        if taken.contains(&place) {
            return Err(named_twice(path));
        }
        taken.push(place);
    }
    Ok(())
}

/// A path's real place, whether it exists or not.
pub(super) fn place(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_absent| absolute(path))
}

/// A path that need not exist, by its folder's real place.
pub(super) fn absolute(path: &Path) -> PathBuf {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let folder = folder
        .canonicalize()
        .unwrap_or_else(|_absent| folder.to_path_buf());
    path.file_name()
        .map_or_else(|| folder.clone(), |name| folder.join(name))
}

/// The worker: what was named, or `kiln-baker` beside this program. Absolute, since children start in `/`.
pub(super) fn baker_path(named: Option<PathBuf>) -> Result<PathBuf, Box<JobError>> {
    let path = match named {
        Some(path) => std::path::absolute(path),
        None => std::env::current_exe().map(|program| program.with_file_name("kiln-baker")),
    };
    path.map_err(|error| {
        JobError::own(
            Code::SpawnFailed,
            format!("cannot find kiln-baker: {error}"),
            "",
        )
    })
}
