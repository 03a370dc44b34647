//! A name on whose way a symbolic link leaves the folder → the file, where the job allows what the link leads to, or what
//! is said of the link.
//!
//! A data set may be links alone: in a Hugging Face cache every file of `snapshots/REVISION` leads into `blobs`. The way is
//! resolved here and opened beneath the other folder without any link, so that nothing that is renamed meanwhile leads out
//! of it. A hidden part that the folder itself does not lie beneath is not entered.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::ResolveFlag;
use proto::message::Refusal;

use crate::input::Beyond;
use crate::process::opener::resolved;
use crate::words::printable;

/// Bytes of a message, a link's name and target among them.
const SHOWN: usize = 1000;

/// The path of an opened folder.
pub(super) fn path_of(folder: &impl AsFd) -> Option<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd())).ok()
}

/// Opens what `name` in `folder` leads to beneath `beyond`. `named`: the user gave the name, so hidden parts are his.
pub(super) fn follow(
    folder: &impl AsFd,
    name: &str,
    beyond: Option<&Beyond>,
    named: bool,
) -> Option<OwnedFd> {
    let (folder, beyond) = (path_of(folder)?, &beyond?.folder);
    let real = folder.join(name).canonicalize().ok()?;
    let rest = real.strip_prefix(path_of(beyond)?).ok()?;
    if !named && is_hidden(&folder, &real) {
        return None;
    }
    resolved(beyond, rest.to_str()?, ResolveFlag::RESOLVE_NO_SYMLINKS).ok()
}

/// What the link is that leads out of the folder or to nothing, where one lies on the way. `told`: with its target. A file on
/// the way to another may be a link that was copied as text.
pub(super) fn describe(folder: &impl AsFd, name: &str, told: bool) -> Option<Refusal> {
    let folder = path_of(folder)?;
    let mut way = folder.clone();
    for part in Path::new(name) {
        way.push(part);
        let itself = way == folder.join(name);
        let link = way.strip_prefix(&folder).unwrap_or(&way).display();
        let Ok(target) = fs::read_link(&way) else {
            if !itself && way.is_file() {
                let said = format!(
                    "lies behind {link}, which is a file and no folder, as a symbolic link copied as text is"
                );
                return Some(Refusal::Link(printable(&said, SHOWN)));
            }
            continue;
        };
        let target = target.display();
        let leads = match (way.canonicalize(), told) {
            (Ok(real), _) if real.starts_with(&folder) => continue,
            (Ok(_), true) => format!("to {target}, outside its folder"),
            (Ok(_), false) => "that leads out of its folder".to_owned(),
            (Err(_), true) => format!("to {target}, where nothing is"),
            (Err(_), false) => "to nothing".to_owned(),
        };
        let subject = match itself {
            true => "is a symbolic link".to_owned(),
            false => format!("lies behind the symbolic link {link}"),
        };
        let said = printable(&format!("{subject} {leads}"), SHOWN);
        return Some(Refusal::Link(said));
    }
    None
}

/// Whether the file lies in a hidden folder, or is one, that does not hold the folder as well.
fn is_hidden(folder: &Path, file: &Path) -> bool {
    let mut around = folder.components();
    let mut parts = file.components();
    let mut rest = parts
        .by_ref()
        .skip_while(|part| around.next() == Some(*part));
    rest.any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."))
}
