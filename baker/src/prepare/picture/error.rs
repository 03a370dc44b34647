//! Why a picture is refused.

use proto::limits::{MAX_VIEW_EDGE, MAX_VIEW_PIXELS};
use proto::message::Code;

use crate::prepare::foreign::Foreign;

/// Why a picture is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PictureError {
    #[error("the file is empty")]
    Empty,
    #[error("is no picture")]
    Unknown,
    /// A format that is not read.
    #[error("is {0}, which is not read")]
    Format(&'static str),
    /// No picture, but something known.
    #[error(transparent)]
    Foreign(Foreign),
    /// An unsupported variant of a format.
    #[error("is {0}, which is not supported")]
    Flavour(&'static str),
    /// Its transfer function.
    #[error("is an HDR picture ({0}), which is not supported: views are 8 or 16 bits of SDR")]
    Hdr(&'static str),
    #[error("is {width}x{height} pixels large")]
    NoPixels {
        /// In pixels, as the height.
        width: u32,
        height: u32,
    },
    #[error(
        "is {width}x{height} pixels large, more than {MAX_VIEW_EDGE} on an edge or {MAX_VIEW_PIXELS} in all"
    )]
    TooLarge {
        /// In pixels, as the height.
        width: u32,
        height: u32,
    },
    #[error("is cut off: the file ends before the picture does")]
    Truncated,
    /// The decoder's message.
    #[error("is damaged: {0}")]
    Damaged(String),
    #[error("there is no memory for its pixels")]
    Memory,
}

impl PictureError {
    /// The code reported to the user.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Format(_) | Self::Flavour(_) | Self::Hdr(_) => Code::UnsupportedFeature,
            Self::TooLarge { .. } => Code::LimitExceeded,
            Self::Memory => Code::OutOfHostMemory,
            Self::Empty
            | Self::Unknown
            | Self::Foreign(_)
            | Self::NoPixels { .. }
            | Self::Truncated
            | Self::Damaged(_) => Code::InvalidAsset,
        }
    }
}
