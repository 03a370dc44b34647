//! Reads `transforms.json`, as instant-ngp, nerfstudio and Blender exporters write it, as [`Frame`]s: the picture's
//! file, its pose in `OpenCV` axes, and a lens that becomes a camera once the picture's size is known.
//!
//! - A key of a frame overrides the same key of the file.
//! - Keys that change what a pixel sees are either obeyed (`OpenCV`'s radial and tangential distortion) or refused by
//!   name (fisheye, thin prism, rolling shutter). They are never ignored. Other unknown keys are skipped unread,
//!   whatever their size.
//! - `applied_transform` and `applied_scale` (nerfstudio) say how the poses were moved out of another program's world.
//!   The poses already contain them and are taken as written. The file cannot tell whether the mesh is in the same
//!   world, so a warning does.
//! - `channels` of a frame names pictures of the material's other layers, see [`channels`].
//! - Named splits are nerfstudio's. `test_filenames` and `val_filenames` list the `file_path`s of frames that are held
//!   out. `train_filenames`, where given, lists all frames that may be fitted; the others are held out. A frame in
//!   lists of both kinds is held out with a warning, since a fitted view measures nothing. A name that no frame has is
//!   refused. Unlike in nerfstudio, no list needs the others, and every frame is read.

mod channels;
mod distortion;
mod keys;
mod lens;
mod pose;
mod split;
#[cfg(test)]
mod tests;

use proto::limits::{MAX_VIEW_EDGE, MAX_VIEWS};
use proto::message::Code;
use serde_json::error::Category;

pub(crate) use channels::{FrameLayers, NormalSpace};
pub(crate) use distortion::Distortion;
#[cfg(test)]
pub(in crate::prepare) use distortion::tests::lens as lens_of;
use keys::{File, Keys};
pub(crate) use lens::{Known, Lens};
pub(crate) use pose::{NoRotation, Pose};

/// One view as the file describes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// `file_path` as written; its ending may be missing.
    pub(crate) file: String,
    /// `mask_path` (nerfstudio): a picture that is white where the view counts.
    pub(crate) mask: Option<String>,
    /// `channels`: pictures of the view's other layers.
    pub(crate) layers: FrameLayers,
    /// World to camera.
    pub(crate) pose: Pose,
    /// Its intrinsics.
    pub(crate) lens: Lens,
    /// The file's named splits hold it out of the fit.
    pub(crate) held_out: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transforms {
    /// In the file's order, at least one.
    pub(crate) frames: Vec<Frame>,
    /// What the user should know.
    pub(crate) warnings: Vec<String>,
}

/// Hint for a file of another layout.
const LAYOUT: &str =
    "the file lists its views as {\"frames\": [{\"file_path\": …, \"transform_matrix\": …}]}";

#[derive(Debug, thiserror::Error)]
pub(crate) enum TransformsError {
    #[error("is UTF-16, not UTF-8")]
    Utf16,
    #[error("is empty")]
    Empty,
    /// Not JSON, or a value of the wrong kind.
    #[error("is not readable: {0}")]
    Json(#[source] serde_json::Error),
    #[error("has no frames: the key is missing")]
    NoFrames,
    #[error("has no frames: the list is empty")]
    EmptyFrames,
    /// More than [`MAX_VIEWS`].
    #[error("has {0} frames, more than the {MAX_VIEWS} that are taken")]
    TooManyFrames(usize),
    /// More names in one list than there may be frames.
    #[error("{key} has {count} names, more than the {MAX_VIEWS} frames that are taken")]
    TooManyNames {
        /// The key of the list.
        key: &'static str,
        count: usize,
    },
    /// Names in a list that are no frame's `file_path`.
    #[error("{key} names {names}, and no frame has that file_path")]
    UnknownNames {
        /// The key of the list.
        key: &'static str,
        names: String,
    },
    /// The lists hold out all frames.
    #[error("holds every frame out of the fit by name: none is left to bake from")]
    AllHeldOut,
    #[error("frame {frame}: {problem}")]
    Frame {
        /// Its number in the list, from 0.
        frame: usize,
        #[source]
        problem: Problem,
    },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// A key that every frame needs.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Neither a focal length nor a field of view.
    #[error("neither fl_x nor camera_angle_x is given, here or at the top of the file")]
    NoFocalLength,
    /// A number outside its range.
    #[error("{key} is {value}, which is not {wanted}")]
    Range {
        key: &'static str,
        value: f64,
        wanted: &'static str,
    },
    /// Wrong rows or columns.
    #[error("transform_matrix has the shape {0}, not 4x4, 3x4 or 16 numbers in a row")]
    Shape(String),
    /// A number out of range for a camera.
    #[error("transform_matrix contains {0}, which is out of range")]
    Number(f64),
    /// Not `0 0 0 1`.
    #[error("transform_matrix ends in the row {0:?} instead of 0, 0, 0, 1")]
    LastRow([f64; 4]),
    /// The 3×3 part is no rotation.
    #[error("transform_matrix {0}")]
    NoRotation(#[from] NoRotation),
    #[error("{key} is {value}: a lens like a thin prism is not supported")]
    Prism {
        /// The key of the coefficient.
        key: &'static str,
        value: f64,
    },
    #[error("{key} is {value}: only pinhole cameras are supported")]
    NotPinhole {
        /// The key that says so.
        key: &'static str,
        value: String,
    },
    #[error("normal_space is {0:?}, neither \"world\" nor \"camera\"")]
    NormalSpace(String),
    /// The picture's shape is not the one that the lens was measured on.
    #[error(
        "the picture has {}x{} pixels, but w and h say {}x{}: another shape",
        picture[0], picture[1], stated[0], stated[1]
    )]
    Aspect {
        /// Width and height of the picture.
        picture: [u32; 2],
        stated: [f64; 2],
    },
    /// `w`, `fl_x` and `camera_angle_x` contradict each other.
    #[error(
        "w is {stated}, the picture has {picture} columns, and scaled to it fl_x contradicts camera_angle_x"
    )]
    Contradiction {
        /// The value of `w`.
        stated: f64,
        picture: u32,
    },
}

impl TransformsError {
    /// The code reported to the user.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::TooManyFrames(_) | Self::TooManyNames { .. } => Code::LimitExceeded,
            Self::Frame { problem, .. } => problem.code(),
            Self::Utf16
            | Self::Empty
            | Self::Json(_)
            | Self::NoFrames
            | Self::EmptyFrames
            | Self::UnknownNames { .. }
            | Self::AllHeldOut => Code::InvalidAsset,
        }
    }

    /// How to fix it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Utf16 => "save the file as UTF-8",
            Self::Json(error) => match error.classify() {
                Category::Eof => "the file ends early: write it again",
                Category::Data if !is_of_a_number(&error.to_string()) => LAYOUT,
                _ => "numbers are plain JSON numbers: NaN, Infinity and quoted numbers are not",
            },
            Self::NoFrames | Self::EmptyFrames | Self::Empty => LAYOUT,
            Self::TooManyFrames(_) => "leave out views; a few hundred are enough for any object",
            Self::TooManyNames { .. } => "name each frame once",
            Self::UnknownNames { .. } => {
                "test_filenames, val_filenames and train_filenames repeat file_path as the frames have it"
            }
            Self::AllHeldOut => {
                "take some frames out of test_filenames and val_filenames, or into train_filenames"
            }
            Self::Frame { problem, .. } => problem.hint(),
        }
    }
}

/// Whether a message of `serde_json` is about a number: of the wrong type, missing, or out of range.
fn is_of_a_number(words: &str) -> bool {
    ["f64", "expected value", "out of range"]
        .iter()
        .any(|part| words.contains(part))
}

impl Problem {
    /// The code reported to the user.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Prism { .. } | Self::NotPinhole { .. } => Code::UnsupportedFeature,
            _ => Code::InvalidAsset,
        }
    }

    /// How to fix it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Prism { .. } => {
                "undistort the pictures first (colmap image_undistorter, ns-process-data) and set the coefficients to 0"
            }
            Self::NotPinhole { .. } => "convert the pictures to a pinhole camera first",
            Self::NoFocalLength => "give fl_x in pixels or camera_angle_x in radians",
            Self::Aspect { .. } => {
                "the camera belongs to a picture of another shape: w and h, or the file, are wrong"
            }
            Self::Contradiction { .. } => {
                "make w, h and fl_x those of one picture size, or leave camera_angle_x out"
            }
            Self::NoRotation(NoRotation::Mirrored(_)) => {
                "the matrix is camera-to-world with OpenGL axes (x right, y up, looking along -z)"
            }
            Self::Missing(_) => LAYOUT,
            Self::NormalSpace(_) => {
                "world: the axes of the mesh; camera: x right, y up, z towards the viewer"
            }
            Self::Range { .. } => "",
            Self::Shape(_) | Self::Number(_) | Self::LastRow(_) | Self::NoRotation(_) => {
                "transform_matrix is camera-to-world: a rotation, a position, and the last row 0, 0, 0, 1"
            }
        }
    }
}

/// Parses the bytes of `transforms.json`.
///
/// # Errors
/// The first problem found.
pub(crate) fn parse(bytes: &[u8]) -> Result<Transforms, TransformsError> {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match text {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] | [0, _, ..] | [_, 0, ..] => {
            return Err(TransformsError::Utf16);
        }
        _ if text.iter().all(u8::is_ascii_whitespace) => return Err(TransformsError::Empty),
        _ => {}
    }
    let file: File = serde_json::from_slice(text).map_err(TransformsError::Json)?;
    let Some(list) = file.frames else {
        return Err(TransformsError::NoFrames);
    };
    if list.count > MAX_VIEWS {
        return Err(TransformsError::TooManyFrames(list.count));
    }
    if list.count == 0 {
        return Err(TransformsError::EmptyFrames);
    }

    let mut warnings = Vec::new();
    if let Some(key) = file.keys.applied {
        warnings.push(format!(
            "{key} is present: the poses are taken as written, so the mesh has to be in the same world as they are"
        ));
    }
    let mut scaled = 0_usize;
    let mut disagreeing = 0_usize;
    let frames = list.frames.into_iter().enumerate().map(|(number, keys)| {
        let (frame, notes) =
            read_frame(keys, &file.keys).map_err(|problem| TransformsError::Frame {
                frame: number,
                problem,
            })?;
        scaled += usize::from(notes.scaled);
        disagreeing += usize::from(notes.disagreeing);
        Ok(frame)
    });
    let mut frames = frames.collect::<Result<Vec<_>, _>>()?;
    let lists = split::Lists {
        train: file.train_filenames,
        val: file.val_filenames,
        test: file.test_filenames,
    };
    warnings.extend(split::hold_out(&mut frames, &lists)?);
    if scaled > 0 {
        warnings.push(format!(
            "transform_matrix of {scaled} frames contains a scale, which is taken out"
        ));
    }
    if disagreeing > 0 {
        warnings.push(format!(
            "fl_x and camera_angle_x of {disagreeing} frames disagree: fl_x is used"
        ));
    }
    Ok(Transforms { frames, warnings })
}

struct Notes {
    scaled: bool,
    disagreeing: bool,
}

fn read_frame(keys: Keys, top: &Keys) -> Result<(Frame, Notes), Problem> {
    keys.check_pinhole()?;
    top.check_pinhole()?;
    let file = keys
        .file_path
        .clone()
        .ok_or(Problem::Missing("file_path"))?;
    let matrix = keys
        .transform_matrix
        .as_ref()
        .ok_or(Problem::Missing("transform_matrix"))?;
    let (pose, scaled) = Pose::from_matrix(matrix)?;
    let (lens, disagreeing) = Lens::from_keys(&keys, top)?;
    let layers = FrameLayers::from_keys(keys.channels, keys.normal_space, &top.normal_space)?;
    Ok((
        Frame {
            file,
            mask: keys.mask_path,
            layers,
            pose,
            lens,
            held_out: false,
        },
        Notes {
            scaled,
            disagreeing,
        },
    ))
}

/// Upper bound of `w`, `h`, focal lengths and principal points in pixels: a thousand times the largest view.
pub(crate) const MAX_PIXELS: f64 = MAX_VIEW_EDGE as f64 * 1000.0;
