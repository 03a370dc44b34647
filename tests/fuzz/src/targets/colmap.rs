//! A COLMAP model in text or binary: refused with one line, or cameras that the next process accepts.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use baker::prepare::alone;
use baker::worker::folder::{Files, FolderError};
use nix::sys::memfd::{MFdFlags, memfd_create};
use proto::message::{Refusal, Root};

use super::transforms::passes;
use crate::heap;

/// Memory per input byte: a one-digit number becomes eight bytes, and an image of ten words a frame.
const BYTES_FOR_A_BYTE: usize = 256;
const PARSING_BYTES: usize = 1 << 20;
const SIZE: [u32; 2] = [64, 48];

/// The two files.
#[derive(Debug)]
struct Model<'a> {
    cameras: &'a [u8],
    images: &'a [u8],
}

impl Files for Model<'_> {
    fn open(&self, _root: Root, name: &str, limit: u64) -> Result<(OwnedFd, u64), FolderError> {
        let bytes = match name {
            "cameras.bin" | "cameras.txt" => self.cameras,
            "images.bin" | "images.txt" => self.images,
            _ => return Err(Refusal::Missing.into()),
        };
        let size = bytes.len() as u64;
        assert!(size <= limit, "no input is so large");
        let mut file = File::from(memfd_create("file", MFdFlags::MFD_CLOEXEC).expect("memory"));
        file.write_all(bytes)?;
        Ok((file.into(), size))
    }
}

/// Input: a byte for the form, two for the length of the cameras, the cameras, and the images.
pub fn colmap(bytes: &[u8]) -> bool {
    let Some(([form, low, high], rest)) = bytes.split_first_chunk() else {
        return false;
    };
    let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
    let (cameras, images) = rest.split_at(length);
    let name = match form % 2 {
        0 => "images.txt",
        _ => "images.bin",
    };
    let limit = PARSING_BYTES + BYTES_FOR_A_BYTE * bytes.len();
    let read = heap::within(limit, "reading a model", || {
        alone::read_model(&Model { cameras, images }, name, SIZE)
    });
    match read {
        Ok(cameras) => {
            assert!(!cameras.is_empty(), "a model without images is refused");
            passes(&cameras);
            true
        }
        Err(failure) => {
            let named = ["cameras.", "images."];
            let message = &failure.message;
            // The error of a lens that suits no picture of this size does not name the file.
            let lens = message.contains("pixels") || message.contains("fl_x");
            assert!(
                lens || named.iter().any(|name| message.starts_with(name)),
                "{message}"
            );
            false
        }
    }
}
