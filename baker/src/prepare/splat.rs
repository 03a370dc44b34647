//! A file of Gaussian splats → a [`kiln_splat::Cloud`], and how it wants to be drawn.
//!
//! A PLY with `f_dc_0` or `packed_position`, an SPZ, a GLB and a SOG in one archive are told by their content. A `.splat` has no
//! mark and is told by its name, as are a `.gltf` and the `meta.json` of a SOG in a folder. What the files hold in logarithms
//! and logits is activated here. Splats whose numbers mean nothing are left out and counted.

mod content;
mod dense;
mod gltf;
mod packed;
mod ply;
mod sog;
mod spz;
#[cfg(test)]
mod tests;
mod views;
mod zip;

use content::{SplatError, Splats};
use proto::limits::MAX_IMAGE_FILE_BYTES;
pub(crate) use views::SplatViews;

use crate::worker::folder::Folder;

/// Reads the bytes of the file `name` of a folder, which may hold others that belong to it. None where it is none of splats.
pub(crate) fn read(
    bytes: &[u8],
    name: &str,
    folder: &Folder<'_>,
) -> Option<Result<Splats, SplatError>> {
    let ending = name.rsplit('.').next().map(str::to_ascii_lowercase);
    let beside = name.rfind('/').map_or("", |slash| &name[..=slash]);
    let plane = |file: &str| {
        let read = folder.read(&format!("{beside}{file}"), MAX_IMAGE_FILE_BYTES);
        read.ok()
    };
    let read = if bytes.starts_with(b"ply") {
        ply::read(bytes).transpose()?
    } else if spz::is(bytes) {
        spz::read(bytes)
    } else if let Some(read) = sog::read(bytes, name, &plane).transpose() {
        read
    } else if bytes.starts_with(gltf::MARK) || matches!(ending.as_deref(), Some("glb" | "gltf")) {
        gltf::read(bytes, (folder, beside)).transpose()?
    } else if ending.as_deref() == Some("splat") {
        dense::read(bytes)
    } else {
        return None;
    };
    Some(read.and_then(finished))
}

fn finished(mut splats: Splats) -> Result<Splats, SplatError> {
    splats.dropped.huge = splats.cloud.drop_huge();
    match splats.cloud.is_empty() {
        true => Err(SplatError::Empty(splats.dropped.count())),
        false => Ok(splats),
    }
}
