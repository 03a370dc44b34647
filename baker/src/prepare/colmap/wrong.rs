//! What both kinds of files hold, and what may be wrong with one.

use proto::limits::MAX_VIEWS;
use proto::message::{Code, Failure};

use crate::worker::folder::FolderError;

/// Upper bound of cameras: one for each image that COLMAP tried, registered or not.
pub(super) const MAX_CAMERAS: usize = 16 * MAX_VIEWS;

#[derive(Debug)]
pub(super) struct Image {
    pub(super) id: u64,
    pub(super) quaternion: [f64; 4],
    pub(super) translation: [f64; 3],
    pub(super) camera: u64,
    pub(super) name: String,
}

/// What is wrong with a file. The message puts the file's name before it.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) code: Code,
    pub(super) text: String,
    pub(super) hint: &'static str,
}

pub(super) type Read<T> = Result<T, Wrong>;

/// Hint for unsupported lenses.
pub(super) const UNDISTORT: &str =
    "run colmap image_undistorter, and give the model and the pictures that it writes";

impl Wrong {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            code: Code::InvalidAsset,
            text: text.into(),
            hint: "have COLMAP write the model again (colmap model_converter)",
        }
    }

    pub(super) fn ends(within: &str) -> Self {
        Self::new(format!("ends in the middle of {within}"))
    }

    pub(super) fn failure(self, file: &str) -> Failure {
        Failure {
            code: self.code,
            message: format!("{file}: {}", self.text),
            hint: self.hint.to_owned(),
        }
    }
}

impl From<FolderError> for Wrong {
    fn from(error: FolderError) -> Self {
        Self {
            code: error.code(),
            text: error.to_string(),
            hint: "",
        }
    }
}

/// Checks a count of records of at least `least` bytes each against the bytes `left` and the bound `most`.
pub(super) fn believed(count: u64, most: usize, what: &str, least: u64, left: u64) -> Read<usize> {
    if count > left / least {
        return Err(Wrong::new(format!(
            "promises {count} {what}, for which it is too short"
        )));
    }
    match usize::try_from(count) {
        Ok(count) if count <= most => Ok(count),
        _ => Err(too_many(count, most, what)),
    }
}

pub(super) fn too_many(count: u64, most: usize, what: &str) -> Wrong {
    Wrong {
        code: Code::LimitExceeded,
        text: format!("has {count} {what}, more than the {most} that are taken"),
        hint: "leave out images (colmap image_deleter); a few hundred are enough for any object",
    }
}
