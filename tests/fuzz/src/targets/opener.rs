//! Names that prepare asks for: only regular files beneath the folder, of kinds that a mesh refers to, are opened.
//!
//! The folder is real. It has files that may be opened, files that may not, and links that stay inside or leave.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::OnceLock;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use proto::message::{Refusal, Root};
use supervisor::input::{self, Input};
use supervisor::process::opener::{Opened, Opener};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::harmless;

/// The contents of every file that may be opened, and of no other.
const GOOD: &[u8] = b"good";
/// The file that the user named: its ending is not listed.
const NAMED: &str = "mesh";

struct Place {
    runtime: Runtime,
    folder: TempDir,
    input: Input,
}

/// Parts of paths, since letters alone would hardly form ".ssh".
const PARTS: [&str; 16] = [
    "\0",
    "..",
    ".",
    "/",
    "sub",
    NAMED,
    "inner.bin",
    "b.png",
    "id.bin",
    ".ssh",
    "e.bin",
    ".d.png",
    "h.bin",
    "i.bin",
    "k.png",
    "root",
];

/// Input: two bytes of a limit, then the name: letters, and bytes from 128 on for [`PARTS`].
pub fn opener(bytes: &[u8]) -> bool {
    let Some((limit, name)) = bytes.split_first_chunk::<2>() else {
        return false;
    };
    let limit = u64::from(u16::from_le_bytes(*limit));
    let part = |byte: &u8| match byte.checked_sub(128) {
        Some(part) => PARTS[usize::from(part) % PARTS.len()].to_owned(),
        None => char::from(*byte).to_string(),
    };
    let name: String = name.iter().map(part).collect();
    let place = place();
    let mut opener = Opener::default();
    let input = Some(&place.input);
    let question = opener.admit(input, Root::Mesh, name.clone(), limit);
    let question = question.expect("the first question");
    let second = opener.admit(input, Root::Views, name.clone(), limit);
    assert!(second.is_err(), "one at a time");
    let Opened { outcome, file } = place.runtime.block_on(question.answer());
    let (size, file) = match (outcome, file) {
        (Ok(size), Some(file)) => (size, file),
        (Err(refusal), None) => {
            refused(&refusal, &name);
            return false;
        }
        (outcome, file) => panic!("{outcome:?} with {file:?}"),
    };
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("a link");
    let root = place.folder.path().join("root");
    assert!(path.starts_with(&root), "{name:?} is {path:?}");
    let metadata = File::from(file.try_clone().expect("a fd"))
        .metadata()
        .expect("metadata");
    assert!(metadata.is_file(), "{name:?} is no file");
    assert_eq!(metadata.size(), size);
    assert!(size <= limit, "{size} bytes where {limit} are taken");
    assert_eq!(fs::read(&path).expect("readable"), GOOD, "{name:?}");
    true
}

/// Asserts that the refusal is one line once the name is made printable.
fn refused(refusal: &Refusal, name: &str) {
    harmless(&refusal.to_string());
    if name == NAMED || name == "inner.bin" {
        let small = matches!(refusal, Refusal::TooLarge { .. });
        assert!(small, "{name} may be opened: {refusal}");
    }
}

fn place() -> &'static Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    PLACE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        for inner in ["sub", ".ssh", "a.png"] {
            fs::create_dir_all(root.join(inner)).expect("a folder");
        }
        for name in [NAMED, "inner.bin", "sub/b.png", "sub/.c"] {
            fs::write(root.join(name), GOOD).expect("a file");
        }
        for name in [
            "root/notes",
            "root/.ssh/id.bin",
            "root/.d.png",
            "e.bin",
            "root/sub/f.txt",
        ] {
            fs::write(folder.path().join(name), b"secret").expect("a file");
        }
        let links = [
            ("../inner.bin", "sub/g.bin"),
            ("../../e.bin", "sub/h.bin"),
            ("/proc/self/exe", "i.bin"),
            ("j.bin", "j.bin"),
        ];
        for (target, name) in links {
            symlink(target, root.join(name)).expect("a link");
        }
        mkfifo(&root.join("k.png"), Mode::S_IRWXU).expect("a pipe");
        let input = input::find("the mesh", &root.join(NAMED)).expect("there");
        let runtime = Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .build();
        Place {
            runtime: runtime.expect("a runtime"),
            folder,
            input,
        }
    })
}
