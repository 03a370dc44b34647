//! Paths of the command line → places: what a name may be, whether two of them are one file, and which files are read and
//! written.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use proto::message::{Code, Table};

use crate::error::JobError;
use crate::input::{Input, companion};
use crate::output::{Target, named_twice};

/// The files beside a result, each of which can be written.
pub(super) fn targets(
    beside: Vec<(Table, PathBuf)>,
) -> Result<Vec<(Table, Target)>, Box<JobError>> {
    let check = |(table, path): (Table, PathBuf)| Ok((table, Target::anywhere(&path)?));
    beside.into_iter().map(check).collect()
}

/// The file of the surface that the mesh was simplified from, where one is named.
pub(super) fn original(path: Option<&Path>) -> Result<Option<Input>, Box<JobError>> {
    path.map(|path| crate::input::find("the original", path))
        .transpose()
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

/// A path that need not exist, by the real place of the nearest folder that does.
pub(super) fn absolute(path: &Path) -> PathBuf {
    let real = |folder: &Path| {
        let rest = path.strip_prefix(folder).ok()?;
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        Some(folder.canonicalize().ok()?.join(rest))
    };
    let mut above = path.ancestors().skip(1);
    above.find_map(real).unwrap_or_else(|| path.to_path_buf())
}

/// The parser of a file or folder that is named: `-` is none.
pub(super) fn named() -> impl TypedValueParser<Value = PathBuf> {
    file(&[])
}

/// The parser of a file of which the ending tells the form, of those that are known; of any ending where none is.
pub(super) fn file(endings: &'static [&'static str]) -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(move |path| {
        if path.as_os_str() == "-" {
            return Err("a file must be named (./- is one of that name): only --jobs reads standard input, \
                 and --json puts the report on standard output"
                .to_owned());
        }
        let ending = path.extension().unwrap_or_default();
        let known = |known: &&str| ending.eq_ignore_ascii_case(known);
        match endings.is_empty() || endings.iter().any(known) {
            true => Ok(path),
            false => Err(format!("the name must end in .{}", endings.join(", ."))),
        }
    })
}

/// The endings of a result.
pub(super) const MODELS: &[&str] = &["glb", "ply", "obj"];
/// The ending of what a sidecar makes.
pub(super) const GLB: &[&str] = &["glb"];
/// The ending of a page.
pub(super) const HTML: &[&str] = &["html"];
/// The ending of a picture.
pub(super) const PNG: &[&str] = &["png"];

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
