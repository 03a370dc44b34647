//! A file of Gaussian splats → a [`Cloud`], and how it wants to be drawn.
//!
//! A PLY with `f_dc_0` or `packed_position` and an SPZ are told by their content; a `.splat` has no mark and is told by its
//! name. What the files hold in logarithms and logits is activated here. Splats whose numbers mean nothing are left out and
//! counted.

mod dense;
mod packed;
mod ply;
mod spz;
#[cfg(test)]
mod tests;

use kiln_splat::{Cloud, Dropped, Filter};

use crate::prepare::load::PlyError;

/// Most splats of a file.
pub(crate) const MAX_SPLATS: u64 = 1 << 23;
/// Constant of the harmonics of degree 0: `colour = 0.5 + C0 · coefficient`.
const C0: f64 = 0.282_094_791_773_878_14;

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Splats {
    pub(crate) cloud: Cloud,
    pub(crate) dropped: Dropped,
    pub(crate) origin: Origin,
}

/// What wrote the file, as far as it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// PLY of the reference code of 2023, or of a program that follows it.
    Inria,
    /// PLY without harmonics, as TRELLIS writes it.
    Trellis,
    /// PLY with two scales: flat discs (2DGS).
    Discs,
    /// PLY of `PlayCanvas`, compressed.
    Packed,
    /// `.splat`.
    Dense,
    /// SPZ.
    Spz {
        /// Trained with antialiasing.
        antialiased: bool,
    },
}

impl Origin {
    /// The filter that its splats were trained with, and why it is taken for that.
    pub(crate) const fn filter(self) -> (Filter, &'static str) {
        match self {
            Self::Trellis => (Filter::Mip(0.1), "its layout is that of TRELLIS"),
            Self::Spz { antialiased: true } => (Filter::Mip(0.3), "it is marked as antialiased"),
            Self::Spz { antialiased: false } => {
                (Filter::Classic(0.3), "it is marked as not antialiased")
            }
            Self::Inria | Self::Discs | Self::Packed | Self::Dense => {
                (Filter::Classic(0.3), "it names none")
            }
        }
    }
}

/// Why a file is refused.
#[derive(Debug, thiserror::Error, PartialEq)]
pub(crate) enum SplatError {
    #[error(transparent)]
    Ply(#[from] PlyError),
    #[error("its splats have no {0}")]
    Missing(&'static str),
    #[error("has {0} harmonics (f_rest) of each channel: 0, 3, 8, 15 and 24 are those of a degree")]
    Harmonics(usize),
    #[error("has {0} splats, more than the {MAX_SPLATS} that are taken")]
    TooMany(u64),
    #[error("is cut off: {needed} bytes are needed, {present} are there")]
    Truncated { needed: u64, present: u64 },
    #[error("is damaged: {0}")]
    Damaged(&'static str),
    #[error("is version {0} of SPZ: 1 to 3 are read")]
    Version(u32),
    #[error("has no splat that can be drawn: {0} have numbers without a meaning")]
    Empty(usize),
}

/// Reads a file; `name` tells a `.splat`. None where it is none of splats.
pub(crate) fn read(bytes: &[u8], name: &str) -> Option<Result<Splats, SplatError>> {
    let dense = name.rsplit('.').next();
    let read = if bytes.starts_with(b"ply") {
        ply::read(bytes).transpose()?
    } else if spz::is(bytes) {
        spz::read(bytes)
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

fn check_count(count: u64) -> Result<usize, SplatError> {
    match count {
        0..=MAX_SPLATS => Ok(count as usize),
        _ => Err(SplatError::TooMany(count)),
    }
}

/// A logit as a share; NaN where it is infinite.
fn share(logit: f64) -> f32 {
    match logit.is_finite() {
        true => (1.0 / (1.0 + (-logit).exp())) as f32,
        false => f32::NAN,
    }
}

/// The coefficient of a colour from 0 to 1.
fn constant(colour: f64) -> f32 {
    ((colour - 0.5) / C0) as f32
}
