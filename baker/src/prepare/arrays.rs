//! One safetensors file with a mesh and posed views of it, as image-to-3D programs hold them. Parts are read from where
//! they lie in the file, a few views at a time, never the whole file.
//!
//! ```text
//!   vertices      [N, 3]        F32 F64        in the world of the views; the frame is kept as given
//!   faces         [M, 3]        I32 I64 U32
//!   uvs           [N, 2]        F32            optional; v points up, and down from here on
//!   observations  [V, H, W, 3]  U8 F32         row 0 on top; floats are 0-1, clamped and rounded
//!   masks         [V, H, W]     U8 BOOL F32    optional; 0 is background; they become alpha
//!   extrinsics    [V, 4, 4]     F32 F64        world to camera, OpenCV axes: x right, y down, z forward
//!   intrinsics    [V, 3, 3]     F32 F64        in pixels, whose centres lie at ½; with the file's metadata
//!                                              {"intrinsics": "normalized"} in widths and heights of the picture
//!   channels.X    [V, H, W, 3]  U8 F32         optional; X as in transforms.json, normals as n/2 + ½ in the space that the
//!                                              metadata's "normal_space" names
//! ```
//!
//! [`header`] checks the description of all tensors against the file's length before anything else uses it. The first
//! three tensors are a mesh ([`mesh`]), the others views ([`views`]); each may be used without the other. A file is of
//! this kind if its name ends in `.safetensors`, or if it begins with the length of a short header and a brace, as no
//! other format does.

mod cameras;
mod error;
mod header;
mod mesh;
mod pictures;
#[cfg(test)]
mod tests;
mod views;

use proto::limits::MAX_ARRAYS_HEADER_BYTES;
use safetensors::Dtype;

use crate::worker::folder::{FolderError, Opened};
pub use error::{ArraysError, Problem};
pub(super) use mesh::read as read_mesh;
pub(super) use views::ArrayViews;

const FLOATS: [Dtype; 2] = [Dtype::F32, Dtype::F64];

/// Whether the opened file `name` is a safetensors file.
pub(super) fn are_in(file: &Opened, name: &str) -> Result<bool, FolderError> {
    let mut head = [0; 9];
    let whole = file.read_at(&mut head, 0)? == head.len();
    let [length @ .., brace] = head;
    let begins = whole && u64::from_le_bytes(length) <= MAX_ARRAYS_HEADER_BYTES && brace == b'{';
    let named = name
        .rsplit_once('.')
        .is_some_and(|(_, end)| end.eq_ignore_ascii_case("safetensors"));
    Ok(begins || named)
}
