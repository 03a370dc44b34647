//! Reads the cameras of other programs as [`Frame`]s, like `transforms.json`.
//!
//! | file | program | what it holds |
//! |---|---|---|
//! | `.sfm` | Meshroom (`AliceVision`) | [`meshroom`] |
//! | `.mlp` | `MeshLab` | [`meshlab`] |
//! | `.out` with `list.txt` | Bundler | [`bundler`] |
//! | `.xml` | Agisoft Metashape | [`metashape`] |
//! | `cameras.json` | trainers of Gaussian splats | [`splatting`] |
//!
//! Each reader names the source of its convention. Poses become world to camera with `OpenCV` axes. What a file says and is
//! not obeyed (a skew, a rig, another projection) is refused by name. Pictures lie beneath the file's folder or
//! `--images` ([`Root::Pictures`]), found as those of a `transforms.json` are. Memory grows with the file, which is bounded.
//!
//! [`Root::Pictures`]: proto::message::Root::Pictures

mod bundler;
mod json;
mod meshlab;
mod meshroom;
mod metashape;
mod posed;
mod splatting;
#[cfg(test)]
mod tests;
mod wrong;
mod xml;

use proto::limits::{MAX_TRANSFORMS_BYTES, MAX_VIEWS};
use proto::message::{Code, Failure};
use proto::programs::{Program, of_name};

use super::foreign;
use super::transforms::{Frame, with_faces};
use crate::worker::folder::Folder;
use wrong::{Read, Wrong};

/// The program whose file `name` with these bytes is, where it is one of those that are read.
pub(crate) fn of(name: &str, bytes: &[u8]) -> Option<Program> {
    // A byte order mark may come first.
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let begins = |byte| text.trim_ascii_start().starts_with(&[byte]);
    of_name(name).filter(|program| match program {
        // A transforms.json of this name is an object.
        Program::Splatting => begins(b'['),
        Program::Meshroom => begins(b'{'),
        Program::Metashape | Program::Meshlab => begins(b'<'),
        Program::Bundler => {
            foreign::recognise(bytes).is_some_and(|found| found.what == foreign::BUNDLER)
        }
    })
}

/// Reads the file `name` beneath `folder`, which has these bytes, without pictures.
pub(crate) fn read(
    program: Program,
    bytes: &[u8],
    (folder, name): (&Folder<'_>, &str),
) -> Result<Vec<Frame>, Failure> {
    let frames = match program {
        Program::Meshroom => meshroom::read(bytes),
        Program::Meshlab => meshlab::read(bytes),
        Program::Metashape => metashape::read(bytes),
        Program::Splatting => splatting::read(bytes),
        Program::Bundler => {
            let list = proto::programs::list_of(name).unwrap_or_default();
            let names = folder.read(&list, MAX_TRANSFORMS_BYTES);
            let names = names.map_err(|error| Wrong {
                hint: "list.txt, which Bundler writes, names the pictures in the order of the cameras: put it beside the file, or give a COLMAP model",
                ..Wrong::from(error).at(&list)
            });
            names.and_then(|names| bundler::read(bytes, &names))
        }
    };
    frames.and_then(checked).map_err(|wrong| Failure {
        code: wrong.code,
        message: format!("{name}: {}", wrong.text),
        hint: wrong.hint.to_owned(),
    })
}

fn checked(frames: Vec<Frame>) -> Read<Vec<Frame>> {
    let frames = with_faces(frames);
    match frames.len() {
        0 => Err(Wrong {
            hint: "it holds the pictures that the program could place: none, so its log says more",
            ..Wrong::new("has no camera with a pose")
        }),
        1..=MAX_VIEWS => Ok(frames),
        count => Err(Wrong {
            code: Code::LimitExceeded,
            hint: "leave out views; a few hundred are enough for any object",
            ..Wrong::new(format!(
                "has {count} views, more than the {MAX_VIEWS} that are taken"
            ))
        }),
    }
}
