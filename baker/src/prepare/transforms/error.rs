//! Why a `transforms.json` is refused, with the way out.

use proto::limits::MAX_VIEWS;
use proto::message::Code;
use serde_json::error::Category;

use crate::prepare::foreign::{Class, Foreign};

/// Hint for a file of another layout.
const LAYOUT: &str =
    "the file lists its views as {\"frames\": [{\"file_path\": …, \"transform_matrix\": …}]}";

/// Hint for the cameras of another program.
const OTHERS: &str = "views are a transforms.json ({\"frames\": [{\"file_path\": …, \"transform_matrix\": …}]}, as ns-process-data \
    makes it from other programs' cameras) or a COLMAP model";

/// Hint for JSON of another program: some is read under its own name.
const PROGRAMS: &str = "Meshroom's is read as .sfm, that of splats as cameras.json; of others make a transforms.json (ns-process-data) or a COLMAP model";

#[derive(Debug, thiserror::Error)]
pub(crate) enum TransformsError {
    /// A file of another kind.
    #[error(transparent)]
    Foreign(Foreign),
    /// Text that is no JSON object.
    #[error("is text, but no JSON: it begins with {0:?}")]
    NoJson(String),
    #[error("is UTF-16, not UTF-8")]
    Utf16,
    #[error("is empty")]
    Empty,
    /// Not JSON, or a value of the wrong kind.
    #[error("is not readable: {0}")]
    Json(#[source] serde_json::Error),
    #[error("has no frames: the key is missing")]
    NoFrames,
    /// Cameras of another program.
    #[error("is {0}, and has no frames")]
    Program(&'static str),
    #[error("has no frames: the list is empty")]
    EmptyFrames,
    /// More than [`MAX_VIEWS`].
    #[error("has {0} views, more than the {MAX_VIEWS} that are taken (a panorama is six)")]
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
    /// One picture cannot be seen from several places.
    #[error("all {count} frames name the same picture, {name}")]
    SamePicture {
        /// The `file_path` of all.
        name: String,
        count: usize,
    },
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
    #[error("{key} is {value}: cameras are pinholes, fisheyes or panoramas of the whole sphere")]
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
    /// A panorama of a part of the sphere, or of another projection.
    #[error(
        "the picture has {}x{} pixels: a panorama of the whole sphere is twice as wide as high",
        picture[0], picture[1]
    )]
    NoSphere { picture: [u32; 2] },
    #[error(
        "distortion_params are {0} numbers: FISHEYE624 has 12 (k0-k5, p0, p1, s0-s3), other models of nerfstudio 6 (k1-k4, p1, p2)"
    )]
    Parameters(usize),
    /// The principal point lies outside a picture whose size is not stated.
    #[error(
        "cx, cy are {}, {}, outside the picture of {}x{} pixels: they and fl_x are of another size",
        centre[0], centre[1], picture[0], picture[1]
    )]
    OtherSize { centre: [f64; 2], picture: [u32; 2] },
    /// `w`, `fl_x` and `camera_angle_x` contradict each other.
    #[error(
        "w is {stated}, the picture has {picture} columns, and scaled to it fl_x contradicts camera_angle_x"
    )]
    Contradiction { stated: f64, picture: u32 },
}

impl TransformsError {
    /// The code reported to the user.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::TooManyFrames(_) | Self::TooManyNames { .. } => Code::LimitExceeded,
            Self::Frame { problem, .. } => problem.code(),
            Self::Foreign(_)
            | Self::NoJson(_)
            | Self::Utf16
            | Self::Empty
            | Self::Json(_)
            | Self::NoFrames
            | Self::Program(_)
            | Self::EmptyFrames
            | Self::UnknownNames { .. }
            | Self::SamePicture { .. }
            | Self::AllHeldOut => Code::InvalidAsset,
        }
    }

    /// How to fix it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Foreign(Foreign { class, hint, .. }) => match class {
                Class::Mesh => "if mesh and views are swapped: kiln bake MESH --views VIEWS",
                Class::Picture => {
                    "--views names the cameras: a transforms.json, which names its pictures, or a COLMAP model"
                }
                Class::Cameras | Class::Other => hint,
            },
            Self::NoJson(_) => OTHERS,
            Self::Utf16 => "save the file as UTF-8",
            Self::Json(error) => match error.classify() {
                Category::Eof => "the file ends early: write it again",
                Category::Data if !is_of_a_number(&error.to_string()) => LAYOUT,
                _ => "numbers are plain JSON numbers: NaN, Infinity and quoted numbers are not",
            },
            Self::NoFrames => OTHERS,
            Self::Program(_) => PROGRAMS,
            Self::EmptyFrames | Self::Empty => LAYOUT,
            Self::TooManyFrames(_) => "leave out views; a few hundred are enough for any object",
            Self::TooManyNames { .. } => "name each frame once",
            Self::UnknownNames { .. } => {
                "test_filenames, val_filenames and train_filenames repeat file_path as the frames have it"
            }
            Self::SamePicture { .. } => "each frame names the picture that its camera took",
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
            Self::Prism { .. } | Self::NotPinhole { .. } | Self::NoSphere { .. } => {
                Code::UnsupportedFeature
            }
            _ => Code::InvalidAsset,
        }
    }

    /// How to fix it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Prism { .. } => {
                "undistort the pictures first (colmap image_undistorter, ns-process-data) and set the coefficients to 0"
            }
            Self::NotPinhole { value, .. } if value.to_ascii_uppercase().starts_with("ORTHO") => {
                "render or take the views with perspective cameras; a distant camera with a long focal length shows nearly the same"
            }
            Self::NoSphere { .. } => {
                "give panoramas of 360° by 180°, or cut pinhole views out of them"
            }
            Self::NotPinhole { .. } => {
                "undistort the pictures to a pinhole camera first (colmap image_undistorter, cv2.fisheye.undistortImage)"
            }
            Self::NoFocalLength => "give fl_x in pixels or camera_angle_x in radians",
            Self::Aspect { .. } => {
                "the camera belongs to a picture of another shape: w and h, or the file, are wrong"
            }
            Self::OtherSize { .. } => {
                "give w and h, the size of the pictures that fl_x, cx and cy were measured on"
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
            Self::Range { .. } | Self::Parameters(_) => "",
            Self::Shape(_) | Self::Number(_) | Self::LastRow(_) | Self::NoRotation(_) => {
                "transform_matrix is camera-to-world: a rotation, a position, and the last row 0, 0, 0, 1"
            }
        }
    }
}

/// Why a matrix is not a rotation with a uniform scale.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub(crate) enum NoRotation {
    #[error("is mirrored (determinant {0:.3})")]
    Mirrored(f64),
    /// No volume.
    #[error("is singular (determinant {0:.3e}): it turns space into a plane or less")]
    Singular(f64),
    /// Axes that are not orthogonal or not equally long.
    #[error("is sheared or stretched: its axes are off by {0:.4}")]
    Sheared(f64),
}
