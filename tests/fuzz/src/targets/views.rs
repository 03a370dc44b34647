//! Posed pictures through all of prepare, from `transforms.json`, a COLMAP model, another program's cameras or a safetensors file: decoded,
//! masked, undistorted and cropped. Refused with an error, or tables that the next process accepts.

use std::os::fd::OwnedFd;

use baker::prepare::alone;
use baker::worker::folder::{Files, FolderError};
use proto::message::{Failure, Root};
use proto::table::LayeredView;

use super::mesh;
use crate::{files, heap};

/// Larger pictures and further views are refused here, for speed.
const MOST_PIXELS: usize = 1 << 12;
const MOST_VIEWS: usize = 4;
/// Memory of decoders besides a share of the file: tables, windows, and for WebP a few frames.
const DECODING_BYTES: usize = 80 << 20;
/// Memory per input byte: a one-digit number becomes eight bytes, and an image of ten words a frame.
const BYTES_FOR_A_BYTE: usize = 256;
/// A square in front of the usual cameras; they look along the axes, and some are inside.
const MESH: [[f32; 3]; 4] = [
    [-1.0, -1.0, 0.0],
    [1.0, -1.0, 0.0],
    [1.0, 1.0, 0.0],
    [-1.0, 1.0, 0.5],
];
const NAMES: [&str; 8] = [
    "transforms.json",
    "images.txt",
    "images.bin",
    "cameras.sfm",
    "project.mlp",
    "bundle.out",
    "cameras.xml",
    "cameras.json",
];

/// The files of a set of views.
#[derive(Debug)]
struct Set<'a> {
    name: &'static str,
    description: &'a [u8],
    /// A model's cameras, or Bundler's list.
    cameras: &'a [u8],
    /// The second is used for names with a `b`.
    pictures: [&'a [u8]; 2],
}

impl Files for Set<'_> {
    fn open(&self, _root: Root, name: &str, limit: u64) -> Result<(OwnedFd, u64), FolderError> {
        files::judge(name)?;
        let bytes = match name {
            _ if name == self.name => self.description,
            "cameras.bin" | "cameras.txt" | "list.txt" => self.cameras,
            _ => self.pictures[usize::from(name.contains('b'))],
        };
        files::opened(bytes, limit)
    }
}

/// Input: a byte for the form, two each for the lengths of the description, the cameras and the first picture, then
/// these three, and the second picture.
pub fn views(bytes: &[u8]) -> bool {
    let Some((head, rest)) = bytes.split_first_chunk::<7>() else {
        return false;
    };
    let [form, lengths @ ..] = *head;
    let mut rest = rest;
    let parts = lengths.as_chunks().0.iter().map(|&length| {
        let length = usize::from(u16::from_le_bytes(length)).min(rest.len());
        let (part, after) = rest.split_at(length);
        rest = after;
        part
    });
    let [description, cameras, picture] = parts.collect::<Vec<_>>()[..] else {
        return false;
    };
    let pictures = [picture, rest];
    if pictures
        .iter()
        .any(|picture| alone::pixels(picture) > Some(MOST_PIXELS))
    {
        return false;
    }
    let name = NAMES[usize::from(form) % NAMES.len()];
    let set = Set {
        name,
        description,
        cameras,
        pictures,
    };
    judge(read(&set, name, bytes.len()))
}

/// Input: a safetensors file with mesh, views, or both.
pub fn arrays(bytes: &[u8]) -> bool {
    const NAME: &str = "set.safetensors";
    let mesh = mesh::mesh(bytes, NAME);
    let one = files::One { name: NAME, bytes };
    judge(read(&one, NAME, bytes.len())) || mesh
}

fn read(files: &dyn Files, name: &str, size: usize) -> Result<Vec<LayeredView>, Failure> {
    let limit = DECODING_BYTES + BYTES_FOR_A_BYTE * size;
    heap::within(limit, "reading views", || {
        alone::read_views(files, name, &MESH, MOST_VIEWS)
    })
}

fn judge(read: Result<Vec<LayeredView>, Failure>) -> bool {
    let views = match read {
        Ok(views) => views,
        Err(failure) => {
            assert!(!failure.message.is_empty(), "a refusal says why");
            return false;
        }
    };
    assert!(!views.is_empty(), "a file without views is refused");
    for view in views {
        let mut table = Vec::new();
        view.write(&mut table).expect("memory takes all");
        assert_eq!(
            table.len() as u64,
            view.byte_len(),
            "the size that is asked for"
        );
        let all = view.set();
        let (back, set) = LayeredView::read(&mut table.as_slice(), all)
            .expect("prepare's table passes bake's checks");
        assert_eq!((back, set), (view, all), "and holds the same");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_come_through_to_tables() {
        let all = crate::seed::all();
        let of = |target: &'static str| all.iter().filter(move |(name, ..)| *name == target);
        assert!(of("views").count() > 4 && of("arrays").count() > 2);
        for (_, name, bytes) in of("arrays").filter(|(_, name, _)| !name.contains("mesh")) {
            let one = files::One {
                name: "a.safetensors",
                bytes,
            };
            let read = read(&one, "a.safetensors", bytes.len());
            assert!(judge(read), "{name}");
        }
    }
}
