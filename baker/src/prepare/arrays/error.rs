//! Errors of safetensors files, as reported to the user.

use proto::message::Code;

use super::header::shown;
use crate::prepare::transforms::NoRotation;
use crate::worker::folder::FolderError;

/// Why a safetensors file is refused.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "its messages say what the fields are")]
pub enum ArraysError {
    /// The file itself cannot be read.
    #[error("{0}")]
    File(#[from] FolderError),
    /// The layout of the file is wrong.
    #[error("is no safetensors file: {0}")]
    Layout(String),
    /// A required tensor is missing.
    #[error("has no tensor {name}, only {present}")]
    Missing {
        name: &'static str,
        /// The tensors that are there.
        present: String,
    },
    /// A value of the metadata is not accepted.
    #[error("metadata {key} is {value}, which is not {wanted}")]
    Metadata {
        key: &'static str,
        value: String,
        wanted: &'static str,
    },
    /// Something is wrong with one tensor.
    #[error("tensor {name}: {problem}")]
    Tensor {
        name: String,
        #[source]
        problem: Problem,
    },
}

/// What is wrong with a tensor.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "its messages say what the fields are")]
pub enum Problem {
    /// No description, or an unknown dtype.
    #[error("its description cannot be read: {0}")]
    Description(#[source] serde_json::Error),
    /// The same name twice.
    #[error("is described twice")]
    Twice,
    /// Shape and dtype do not match the number of bytes.
    #[error("{shape:?} of {dtype} is not what its {bytes} bytes hold")]
    Size {
        shape: Vec<usize>,
        dtype: String,
        bytes: u64,
    },
    /// The tensor reaches beyond the end of the file.
    #[error("ends at byte {end} of the data, of which the file has {present}")]
    Outside {
        end: u64,
        /// Bytes of data in the file.
        present: u64,
    },
    /// It does not begin where the one before ends.
    #[error("overlaps another tensor, or does not begin where the one before ends")]
    Place,
    /// The dtype is not accepted.
    #[error("is {found}, not {wanted}")]
    Dtype { found: String, wanted: String },
    /// The shape is not accepted.
    #[error("has the shape {found:?}, not {wanted}")]
    Shape { found: Vec<usize>, wanted: String },
    /// Beyond a bound.
    #[error("has {count} {what}, more than the {limit} that are taken")]
    TooLarge {
        what: &'static str,
        count: u64,
        limit: u64,
    },
    /// Nothing in it.
    #[error("is empty")]
    Empty,
    /// A number out of range.
    #[error("{place:?} is {value}, which is not {wanted}")]
    Number {
        place: Vec<usize>,
        value: f64,
        wanted: &'static str,
    },
    /// A corner names a vertex that is not there.
    #[error("triangle {triangle} names vertex {vertex} of {vertices}")]
    Index {
        triangle: usize,
        vertex: i64,
        vertices: usize,
    },
    /// The last row of a matrix is not what it is in all matrices of its kind.
    #[error("matrix {view} ends in the row {row:?} instead of {wanted}")]
    LastRow {
        view: usize,
        row: Vec<f64>,
        wanted: &'static str,
    },
    /// The matrix is not a rotation.
    #[error("matrix {view} {problem}")]
    Rotation {
        view: usize,
        problem: String,
        mirrored: bool,
    },
    /// Normalised and pixel intrinsics confused.
    #[error(
        "matrix {view} has the focal length {focal} and the centre {centre}: not {stated}, it seems"
    )]
    Unit {
        view: usize,
        focal: f64,
        centre: f64,
        stated: &'static str,
    },
}

impl ArraysError {
    pub(super) fn tensor(name: &str, problem: Problem) -> Self {
        Self::Tensor {
            name: shown(name),
            problem,
        }
    }

    /// The code reported to the user.
    pub fn code(&self) -> Code {
        match self {
            Self::File(error) => error.code(),
            Self::Tensor {
                problem: Problem::TooLarge { .. },
                ..
            } => Code::LimitExceeded,
            _ => Code::InvalidAsset,
        }
    }

    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing { .. } => {
                "a mesh is vertices and faces; views are observations, extrinsics and intrinsics"
            }
            Self::Tensor { problem, .. } => problem.hint(),
            Self::Layout(_) => "write the file again with the safetensors library",
            Self::File(_) | Self::Metadata { .. } => "",
        }
    }
}

impl Problem {
    fn hint(&self) -> &'static str {
        match self {
            Self::Description(_)
            | Self::Twice
            | Self::Size { .. }
            | Self::Outside { .. }
            | Self::Place => {
                "the file is damaged or cut: write it again with the safetensors library"
            }
            Self::LastRow { .. } | Self::Rotation { mirrored: true, .. } => {
                "matrices are row by row; extrinsics are world to camera with OpenCV axes: x right, y down, z forward"
            }
            Self::Unit { .. } => {
                "with the metadata {\"intrinsics\": \"normalized\"} they are in widths and heights of the picture, without it in pixels"
            }
            _ => "",
        }
    }

    pub(super) fn rotation(view: usize, problem: NoRotation) -> Self {
        Self::Rotation {
            view,
            problem: problem.to_string(),
            mirrored: matches!(problem, NoRotation::Mirrored(_)),
        }
    }
}
