//! A file of Gaussian splats: refused with one line, or drawn.

use baker::prepare::alone;

use super::harmless;
use crate::files::One;
use crate::heap;

/// Names that tell the formats which have no mark.
const NAMES: [&str; 7] = [
    "a.ply",
    "a.spz",
    "a.splat",
    "a.sog",
    "meta.json",
    "a.glb",
    "a.gltf",
];
/// Memory per input byte: a splat of degree 3 takes 240 bytes, and its ellipse 64.
const BYTES_FOR_A_BYTE: usize = 512;
/// A picture, and what an archive may unpack to.
const DRAWING_BYTES: usize = 256 << 20;

/// Input: a byte for the name, and the file.
pub fn splats(bytes: &[u8]) -> bool {
    let Some((form, file)) = bytes.split_first() else {
        return false;
    };
    let name = NAMES[usize::from(*form) % NAMES.len()];
    let limit = DRAWING_BYTES + BYTES_FOR_A_BYTE * bytes.len();
    let files = One { name, bytes: file };
    let drawn = heap::within(limit, "drawing splats", || alone::draw_splats(&files, name));
    match drawn {
        Ok(picture) => {
            let [width, height] = [picture.width, picture.height];
            assert_eq!(picture.pixels.len(), (width * height) as usize);
            true
        }
        Err(failure) => {
            assert!(failure.message.starts_with(name), "{}", failure.message);
            harmless(&failure.message);
            false
        }
    }
}
