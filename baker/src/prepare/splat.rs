//! A file of Gaussian splats → a [`kiln_splat::Cloud`], and how it wants to be drawn.
//!
//! A PLY with `f_dc_0` or `packed_position`, an SPZ and a SOG in one archive are told by their content. A `.splat` has no mark
//! and is told by its name, as is the `meta.json` of a SOG in a folder. What the files hold in logarithms and logits is
//! activated here. Splats whose numbers mean nothing are left out and counted.

mod content;
mod dense;
mod packed;
mod ply;
mod sog;
mod spz;
#[cfg(test)]
mod tests;
mod views;
mod zip;

use content::{SplatError, Splats};
pub(crate) use views::SplatViews;

/// Reads a file; `name` tells a `.splat` and a `meta.json`, `beside` gives the bytes of a file in the same folder. None where
/// it is none of splats.
pub(crate) fn read(
    bytes: &[u8],
    name: &str,
    beside: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Option<Result<Splats, SplatError>> {
    let dense = name.rsplit('.').next();
    let read = if bytes.starts_with(b"ply") {
        ply::read(bytes).transpose()?
    } else if spz::is(bytes) {
        spz::read(bytes)
    } else if let Some(read) = sog::read(bytes, name, beside).transpose() {
        read
    } else if dense.is_some_and(|ending| ending.eq_ignore_ascii_case("splat")) {
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
