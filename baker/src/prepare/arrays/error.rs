//! What can be wrong with a safetensors file → the line that the user is told.

use proto::message::Code;

use super::header::shown;
use crate::prepare::folder::FolderError;
use crate::prepare::transforms::NoRotation;

/// Why a safetensors file is refused.
#[derive(Debug, thiserror::Error)]
pub enum ArraysError {
    /// The file itself cannot be read.
    #[error("{0}")]
    File(#[from] FolderError),
    /// The file as a whole is wrong.
    #[error("is no safetensors file: {0}")]
    Layout(String),
    /// A tensor that is needed.
    #[error("has no tensor {name}, only {present}")]
    Missing {
        /// The tensor.
        name: &'static str,
        /// What is there.
        present: String,
    },
    /// What the metadata says.
    #[error("metadata {key} is {value}, which is not {wanted}")]
    Metadata {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// Something is wrong with one tensor.
    #[error("tensor {name}: {problem}")]
    Tensor {
        /// The tensor.
        name: String,
        /// What.
        #[source]
        problem: Problem,
    },
}

/// What is wrong with a tensor.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// No description, or an unknown dtype.
    #[error("its description cannot be read: {0}")]
    Description(#[source] serde_json::Error),
    /// The same name again.
    #[error("is described twice")]
    Twice,
    /// Shape and dtype against the bytes.
    #[error("{shape:?} of {dtype} is not what its {bytes} bytes hold")]
    Size {
        /// Its shape.
        shape: Vec<usize>,
        /// Its dtype.
        dtype: String,
        /// `data_offsets`, one from the other.
        bytes: u64,
    },
    /// Beyond the end of the file.
    #[error("ends at byte {end} of the data, of which the file has {present}")]
    Outside {
        /// Where it ends.
        end: u64,
        /// How much there is.
        present: u64,
    },
    /// Not where the one before ends.
    #[error("overlaps another tensor, or does not begin where the one before ends")]
    Place,
    /// Another dtype.
    #[error("is {found}, not {wanted}")]
    Dtype {
        /// The file's.
        found: String,
        /// Ours.
        wanted: String,
    },
    /// Another shape.
    #[error("has the shape {found:?}, not {wanted}")]
    Shape {
        /// The file's.
        found: Vec<usize>,
        /// Ours.
        wanted: String,
    },
    /// Beyond a bound.
    #[error("has {count} {what}, more than the {limit} that are taken")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many.
        count: u64,
        /// The bound.
        limit: u64,
    },
    /// Nothing in it.
    #[error("is empty")]
    Empty,
    /// A number that cannot be computed with.
    #[error("{place:?} is {value}, which is not {wanted}")]
    Number {
        /// Its indices.
        place: Vec<usize>,
        /// Its value.
        value: f64,
        /// What it should be.
        wanted: &'static str,
    },
    /// A corner without a vertex.
    #[error("triangle {triangle} names vertex {vertex} of {vertices}")]
    Index {
        /// The triangle.
        triangle: usize,
        /// What it names.
        vertex: i64,
        /// How many there are.
        vertices: usize,
    },
    /// A row that is the same in every matrix of the kind.
    #[error("matrix {view} ends in the row {row:?} instead of {wanted}")]
    LastRow {
        /// The view.
        view: usize,
        /// The row.
        row: Vec<f64>,
        /// What it should be.
        wanted: &'static str,
    },
    /// Not a rotation.
    #[error("matrix {view} {problem}")]
    Rotation {
        /// The view.
        view: usize,
        /// What it is instead.
        problem: String,
        /// Left hand instead of right hand.
        mirrored: bool,
    },
    /// Pixels and shares of the picture confused.
    #[error(
        "matrix {view} has the focal length {focal} and the centre {centre}: not {stated}, it seems"
    )]
    Unit {
        /// The view.
        view: usize,
        /// Horizontal.
        focal: f64,
        /// Horizontal.
        centre: f64,
        /// What the metadata says.
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

    /// The code under which the user is told.
    #[must_use]
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

    /// How to mend it.
    #[must_use]
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
