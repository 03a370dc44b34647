//! What may be wrong with the cameras of another program.

use proto::message::Code;

use crate::prepare::transforms::Problem;
use crate::worker::folder::FolderError;

/// What is wrong with a file. The message puts the file's name before it.
#[derive(Clone, Debug)]
pub(super) struct Wrong {
    pub(super) code: Code,
    pub(super) text: String,
    pub(super) hint: &'static str,
}

pub(super) type Read<T> = Result<T, Wrong>;

/// Hint for a lens or a projection that is not undone.
pub(super) const UNDISTORT: &str =
    "have the program export undistorted pictures with their cameras, or a COLMAP model";

impl Wrong {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            code: Code::InvalidAsset,
            text: text.into(),
            hint: "export the cameras again",
        }
    }

    /// Something that is sound and not taken.
    pub(super) fn unsupported(text: impl Into<String>, hint: &'static str) -> Self {
        Self {
            code: Code::UnsupportedFeature,
            hint,
            ..Self::new(text)
        }
    }

    /// Puts the place before the text.
    pub(super) fn at(self, place: &str) -> Self {
        Self {
            text: format!("{place}: {}", self.text),
            ..self
        }
    }
}

impl From<Problem> for Wrong {
    fn from(problem: Problem) -> Self {
        Self {
            code: problem.code(),
            text: problem.to_string(),
            hint: problem.hint(),
        }
    }
}

impl From<FolderError> for Wrong {
    fn from(error: FolderError) -> Self {
        Self {
            code: error.code(),
            hint: "",
            ..Self::new(error.to_string())
        }
    }
}
