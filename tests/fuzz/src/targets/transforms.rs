//! `transforms.json`: refused with one line, or cameras that the next process accepts.

use baker::prepare::alone;
use proto::table::{Camera, View};

use crate::heap;

/// Memory per input byte: frames are small, a one-digit number becomes eight bytes, and names are kept a few times.
const BYTES_FOR_A_BYTE: usize = 256;
const PARSING_BYTES: usize = 1 << 20;
/// Picture sizes: usual, and extremely flat.
const SIZES: [[u32; 2]; 3] = [[256, 256], [1, 1], [16_384, 1]];

/// Input: the file.
pub fn transforms(bytes: &[u8]) -> bool {
    let mut accepted = false;
    for [width, height] in SIZES {
        let limit = PARSING_BYTES + BYTES_FOR_A_BYTE * bytes.len();
        let cameras = heap::within(limit, "reading cameras", || {
            alone::read_cameras(bytes, [width, height])
        });
        let Ok(cameras) = cameras else {
            continue;
        };
        accepted = true;
        assert!(!cameras.is_empty(), "a file without frames is refused");
        passes(&cameras);
    }
    accepted
}

/// Asserts that the next process accepts the cameras.
pub(super) fn passes(cameras: &[Camera]) {
    for &camera in cameras {
        let view = View {
            index: 0,
            width: 1,
            height: 1,
            crop: [0, 0],
            has_alpha: false,
            holdout: false,
            camera,
            pixels: vec![[0; 4]],
        };
        let mut table = Vec::new();
        view.write(&mut table).expect("memory takes all");
        let read = View::read(&mut table.as_slice());
        assert!(
            read.is_ok(),
            "{camera:?} passes here and not in bake: {read:?}"
        );
    }
}
