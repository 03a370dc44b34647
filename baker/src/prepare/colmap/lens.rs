//! Converts a camera model with its parameters to a lens, where `OpenCV`'s radial and tangential model covers it.

use proto::message::Code;

use super::wrong::{Read, UNDISTORT, Wrong};
use crate::prepare::transforms::{Known, Lens};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// Index into [`MODELS`], which is its number in binary files.
    Listed(usize),
    Other(String),
}

/// Names and parameter counts, in the order of COLMAP's model numbers.
const MODELS: [(&str, usize); 12] = [
    ("SIMPLE_PINHOLE", 3),
    ("PINHOLE", 4),
    ("SIMPLE_RADIAL", 4),
    ("RADIAL", 5),
    ("OPENCV", 8),
    ("OPENCV_FISHEYE", 8),
    ("FULL_OPENCV", 12),
    ("FOV", 5),
    ("SIMPLE_RADIAL_FISHEYE", 4),
    ("RADIAL_FISHEYE", 5),
    ("THIN_PRISM_FISHEYE", 12),
    ("RAD_TAN_THIN_PRISM_FISHEYE", 16),
];

impl Model {
    pub(super) fn numbered(number: i32) -> Option<Self> {
        let at = usize::try_from(number).ok()?;
        (at < MODELS.len()).then_some(Self::Listed(at))
    }

    pub(super) fn named(name: &str) -> Self {
        let at = MODELS.iter().position(|(model, _)| *model == name);
        at.map_or_else(|| Self::Other(name.to_owned()), Self::Listed)
    }

    /// Number of parameters, where known.
    pub(super) fn parameters(&self) -> Option<usize> {
        match self {
            Self::Listed(at) => Some(MODELS[*at].1),
            Self::Other(_) => None,
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Listed(at) => MODELS[*at].0,
            Self::Other(name) => name,
        }
    }
}

#[derive(Debug)]
pub(super) struct Camera {
    pub(super) model: Model,
    pub(super) size: [f64; 2],
    pub(super) parameters: Vec<f64>,
}

impl Camera {
    pub(super) fn lens(&self) -> Read<Lens> {
        if let Some(number) = self.parameters.iter().find(|x| !x.is_finite()) {
            return Err(Wrong::new(format!("{number} is no parameter of a lens")));
        }
        let (focal, centre, radial, tangential) = match (self.model.name(), &self.parameters[..]) {
            ("SIMPLE_PINHOLE", &[f, x, y]) => ([f; 2], [x, y], [0.0; 6], [0.0; 2]),
            ("PINHOLE", &[fx, fy, x, y]) => ([fx, fy], [x, y], [0.0; 6], [0.0; 2]),
            ("SIMPLE_RADIAL", &[f, x, y, k]) => {
                ([f; 2], [x, y], [k, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0; 2])
            }
            ("RADIAL", &[f, x, y, k1, k2]) => {
                ([f; 2], [x, y], [k1, k2, 0.0, 0.0, 0.0, 0.0], [0.0; 2])
            }
            ("OPENCV", &[fx, fy, x, y, k1, k2, p1, p2]) => {
                ([fx, fy], [x, y], [k1, k2, 0.0, 0.0, 0.0, 0.0], [p1, p2])
            }
            ("FULL_OPENCV", &[fx, fy, x, y, k1, k2, p1, p2, k3, k4, k5, k6]) => {
                ([fx, fy], [x, y], [k1, k2, k3, k4, k5, k6], [p1, p2])
            }
            (model, _) => {
                return Err(Wrong {
                    code: Code::UnsupportedFeature,
                    text: format!(
                        "the model {model} is none of a lens with radial and tangential distortion, which alone are undone"
                    ),
                    hint: UNDISTORT,
                });
            }
        };
        let known = Known {
            size: self.size,
            focal,
            centre,
            radial,
            tangential,
        };
        Lens::known(&known).map_err(|problem| Wrong::new(problem.to_string()))
    }
}
