//! Splits a path that the user named into its folder, opened without the right to list or read it, and the name beneath
//! it.
//!
//! Files are opened for prepare only beneath these folders ([`crate::process::opener`]). A link that the user named himself is
//! resolved here: if it leads out of its folder, the target's folder is opened, too. Other links may lead there, as in a
//! Hugging Face cache, and names that its own folder lacks are looked for there.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use proto::message::Code;
use proto::place;

use crate::error::JobError;

mod views;

mod whole;

pub use views::{
    Pictures, companion, exporter, find_uploaded, find_views, is_model, likely, list_around,
    splats_of,
};
pub use whole::{Chosen, whole};

/// A file beneath an opened folder.
#[derive(Clone, Debug)]
pub struct Input {
    /// The path as the user wrote it.
    pub path: PathBuf,
    /// Its folder.
    pub folder: Arc<OwnedFd>,
    /// Its name in the folder.
    pub name: String,
    /// Folder of the pictures, if the views are a COLMAP model.
    pub pictures: Option<Pictures>,
    /// Where links may lead that leave the folder.
    pub beyond: Option<Beyond>,
}

/// A folder beneath which links of another may lead.
#[derive(Clone, Debug)]
pub struct Beyond {
    /// Opened without the right to list it.
    pub folder: Arc<OwnedFd>,
    /// It is one that a sidecar's operator allows, not where a link leads that the user named: nothing but links looks
    /// into it, and no message says where a link leads.
    pub served: bool,
}

/// Finds a file and opens its folder. `what` names it in messages: `the mesh`.
///
/// # Errors
/// One line that says which file is missing or unusable.
pub fn find(what: &str, path: &Path) -> Result<Input, Box<JobError>> {
    let shown = path.display();
    let missing = |why: &str| {
        JobError::own(
            Code::MissingInput,
            format!("{what} {shown}: {why}"),
            "check the path; it is relative to the folder you are in",
        )
    };
    let failed = |error: io::Error| match place::is_wrong(&error) {
        true => missing(&reason(&error)),
        false => unread(&format!("{what} {shown}"), &error),
    };
    let metadata = fs::metadata(path).map_err(failed)?;
    if metadata.is_dir() {
        let message = format!("{what} {shown}: is a folder, not a file");
        return Err(JobError::own(
            Code::MissingInput,
            message,
            "name the file in it",
        ));
    }
    if !metadata.is_file() {
        return Err(missing("is not a file"));
    }
    let target = leaves_folder(path);
    // The endings tell formats, and files of a cache have none.
    let place = match (&target, path.extension()) {
        (Some(target), None) => target,
        _ => path,
    };
    let name = place
        .file_name()
        .ok_or_else(|| missing("has no file name"))?;
    let Some(name) = name.to_str() else {
        // The file exists, so it is not missing. But workers get names as UTF-8 text.
        return Err(JobError::own(
            Code::UnsupportedFeature,
            format!("{what} {shown}: the file name is not UTF-8"),
            "rename the file",
        ));
    };
    let around = |file: &Path| {
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let opened = open(folder, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        Ok::<_, Box<JobError>>(Arc::new(opened))
    };
    let beyond = |target: &PathBuf| {
        let folder = around(target)?;
        let served = false;
        Ok::<_, Box<JobError>>(Beyond { folder, served })
    };
    Ok(Input {
        path: path.to_path_buf(),
        folder: around(place)?,
        name: name.to_owned(),
        pictures: None,
        beyond: target.as_ref().map(beyond).transpose()?,
    })
}

/// The target of a link that leads out of its folder.
fn leaves_folder(path: &Path) -> Option<PathBuf> {
    if !fs::symlink_metadata(path).ok()?.is_symlink() {
        return None;
    }
    let target = fs::canonicalize(path).ok()?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).ok()?;
    (!target.starts_with(folder)).then_some(target)
}

/// The error of a read that failed for another reason than the file's name.
pub(crate) fn unread(what: &str, error: &io::Error) -> Box<JobError> {
    let message = format!("{what} cannot be read: {}", reason(error));
    let hint =
        "the disk or its server may be at fault, or this process is short of something (ulimit -a)";
    JobError::own(Code::IoError, message, hint)
}

/// The message for a limit that people set themselves and rarely think of.
const TOO_LARGE: &str =
    "it is larger than a file may be here (ulimit -f, or the file system's own bound)";

/// The system's reason in plain words.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "no such file or folder".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::NotADirectory => "a part of the path is not a folder".to_owned(),
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        ErrorKind::StorageFull => "the disk is full".to_owned(),
        ErrorKind::FileTooLarge => TOO_LARGE.to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_out_of_its_folder_is_followed_and_one_within_is_left_to_prepare() {
        let root = tempfile::tempdir().expect("temp dir");
        let (far, near) = (root.path().join("far"), root.path().join("near"));
        fs::create_dir(&far).expect("dir");
        fs::create_dir(&near).expect("dir");
        fs::write(far.join("real.glb"), b"x").expect("file");
        fs::write(near.join("own.glb"), b"x").expect("file");
        symlink(far.join("real.glb"), near.join("out.glb")).expect("link");
        symlink("own.glb", near.join("in.glb")).expect("link");
        symlink(far.join("real.glb"), near.join("bare")).expect("link");
        for (named, name) in [("out.glb", "out.glb"), ("bare", "real.glb")] {
            let found = find("the mesh", &near.join(named)).expect("there");
            assert_eq!(found.name, name);
            assert!(found.beyond.is_some_and(|beyond| !beyond.served));
        }
        assert_eq!(
            find("the mesh", &near.join("in.glb")).expect("there").name,
            "in.glb"
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = find("the mesh", Path::new("/nowhere/a.glb")).expect_err("missing");
        assert_eq!(error.code, Code::MissingInput);
        assert!(
            error
                .message
                .contains("the mesh /nowhere/a.glb: no such file"),
            "{}",
            error.message
        );
        assert!(
            find("the mesh", Path::new("/")).is_err(),
            "a folder is no mesh"
        );
    }
}
