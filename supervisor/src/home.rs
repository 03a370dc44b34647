//! The user's own folders, where the XDG base directory specification has them.

use std::path::PathBuf;

/// The folder that the environment variable names by an absolute path; otherwise `below` the home folder, if there is one.
pub fn folder(variable: &str, below: &str) -> Option<PathBuf> {
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(below)))
}
