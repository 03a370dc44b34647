//! What the readers of splats share: what a file holds, why it is refused, and the meaning of its numbers.

use kiln_splat::{Cloud, Dropped, Filter};
use proto::limits::MAX_SPLATS;

use crate::prepare::load::{GltfError, PlyError};

/// Constant of the harmonics of degree 0: `colour = 0.5 + C0 · coefficient`.
pub(super) const C0: f64 = 0.282_094_791_773_878_14;

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
    /// PLY without harmonics in a cube about the origin, as TRELLIS writes it.
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
    /// SOG.
    Sog {
        /// Trained with antialiasing.
        antialiased: bool,
    },
    /// glTF.
    Gltf {
        /// Colours are linear light: what is drawn of them is encoded as sRGB.
        linear: bool,
        /// It holds triangles, too.
        solid: bool,
    },
}

impl Origin {
    /// The filter that its splats were trained with, and why it is taken for that.
    pub(crate) const fn filter(self) -> (Filter, &'static str) {
        match self {
            Self::Trellis => (Filter::Mip(0.1), "layout and size are those of TRELLIS"),
            Self::Spz { antialiased: true } | Self::Sog { antialiased: true } => {
                (Filter::Mip(0.3), "it is marked as antialiased")
            }
            Self::Spz { antialiased: false } => {
                (Filter::Classic(0.3), "it is marked as not antialiased")
            }
            Self::Sog { antialiased: false } => {
                (Filter::Classic(0.3), "it is not marked as antialiased")
            }
            Self::Inria | Self::Discs | Self::Packed | Self::Dense | Self::Gltf { .. } => {
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
    #[error("is version {0} of SPZ: 1 to 4 are read")]
    Version(u32),
    #[error(
        "has other axes than right, up and back (SPZ_ADOBE_coordinate_system): save it without that extension"
    )]
    Axes,
    #[error("is version {0} of SOG: 1 and 2 are read")]
    SogVersion(u64),
    /// One of several files.
    #[error("its {name} {reason}")]
    File { name: String, reason: String },
    #[error("gives a splat the harmonics of centroid {label}, where the last is {last}")]
    Label { label: usize, last: usize },
    /// A [`GltfError`] in words, without control characters of the file.
    #[error("{0}")]
    Gltf(String),
    #[error("mesh {mesh}, primitive {primitive}: {what}")]
    Primitive {
        mesh: usize,
        primitive: usize,
        what: String,
    },
    #[error("node {node} {what}")]
    Node { node: usize, what: &'static str },
    #[error("has no splat that can be drawn: {0} have numbers without a meaning")]
    Empty(usize),
}

impl From<GltfError> for SplatError {
    fn from(error: GltfError) -> Self {
        Self::Gltf(error.to_string().replace(char::is_control, "\u{fffd}"))
    }
}

pub(super) fn check_count(count: u64) -> Result<usize, SplatError> {
    match count {
        0..=MAX_SPLATS => Ok(count as usize),
        _ => Err(SplatError::TooMany(count)),
    }
}

/// A logit as a share; NaN where it is infinite.
pub(super) fn share(logit: f64) -> f32 {
    match logit.is_finite() {
        true => (1.0 / (1.0 + (-logit).exp())) as f32,
        false => f32::NAN,
    }
}

/// The coefficient of a colour from 0 to 1.
pub(super) fn constant(colour: f64) -> f32 {
    ((colour - 0.5) / C0) as f32
}

/// A unit quaternion of all components but the largest, which is positive and stands at this place.
pub(super) fn with_largest(place: usize, others: [f64; 3]) -> [f32; 4] {
    let square: f64 = others.iter().map(|x| x * x).sum();
    let largest = (1.0 - square).max(0.0).sqrt();
    let mut others = others.into_iter();
    std::array::from_fn(|k| match k == place {
        true => largest as f32,
        false => others.next().unwrap_or(0.0) as f32,
    })
}
