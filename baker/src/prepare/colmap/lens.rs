//! Converts a camera model with its parameters to a lens. Order and meaning of the parameters: COLMAP's `models.h`.

use proto::message::Code;

use super::wrong::{Read, UNDISTORT, Wrong};
use crate::prepare::transforms::{Curved, Distortion, Fisheye, Known, Lens, MAX_PIXELS};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// Index into [`MODELS`], which is its number in binary files.
    Listed(usize),
    Other(String),
}

/// Names and parameter counts, in the order of COLMAP's model numbers.
const MODELS: [(&str, usize); 18] = [
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
    ("SIMPLE_DIVISION", 4),
    ("DIVISION", 5),
    ("SIMPLE_FISHEYE", 3),
    ("FISHEYE", 4),
    ("EUCM", 6),
    ("EQUIRECTANGULAR", 2),
];
/// Largest ω of an FOV lens in radians.
const WIDEST: f64 = 3.1;
/// Larger coefficients are taken for a mistake.
const LARGEST: f64 = 1e4;

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
    /// Its lens.
    pub(super) fn lens(&self) -> Read<Lens> {
        if let Some(number) = self.parameters.iter().find(|x| !x.is_finite()) {
            return Err(Wrong::new(format!("{number} is no parameter of a lens")));
        }
        if let ("EQUIRECTANGULAR", size) = (self.model.name(), &self.parameters[..]) {
            return match size == self.size.as_slice() {
                true if size.iter().all(|edge| (1.0..=MAX_PIXELS).contains(edge)) => {
                    Ok(Lens::panorama(self.size))
                }
                true => Err(Wrong::new(format!("a panorama of {size:?} pixels"))),
                false => Err(Wrong::new(format!(
                    "a panorama of {size:?} pixels in a picture of {:?}",
                    self.size
                ))),
            };
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
            _ => {
                let curved = self.curved().ok_or_else(|| self.unsupported())?;
                return self.with(curved);
            }
        };
        let distortion = Distortion::full(radial, tangential)
            .map_err(|problem| Wrong::new(problem.to_string()))?;
        self.known(focal, centre, distortion)
    }

    fn known(
        &self,
        focal: [f64; 2],
        centre: [f64; 2],
        distortion: Option<Distortion>,
    ) -> Read<Lens> {
        let known = Known {
            size: Some(self.size),
            focal,
            centre: Some(centre),
            distortion,
        };
        Lens::known(&known).map_err(|problem| Wrong::new(problem.to_string()))
    }

    /// The fisheye or other lens, where it is one that is undone.
    fn curved(&self) -> Option<Curved> {
        let rest = self.parameters.get(self.lengths() + 2..)?;
        let small = rest.iter().all(|x| x.abs() <= LARGEST);
        let curved = match (self.model.name(), rest) {
            (
                "OPENCV_FISHEYE"
                | "FISHEYE"
                | "SIMPLE_FISHEYE"
                | "SIMPLE_RADIAL_FISHEYE"
                | "RADIAL_FISHEYE",
                radial,
            ) => Curved::fisheye(radial),
            ("THIN_PRISM_FISHEYE", &[k1, k2, p1, p2, k3, k4, s1, s3]) => Curved::Fisheye(Fisheye {
                radial: [k1, k2, k3, k4, 0.0, 0.0],
                tangential: [p1, p2],
                prism: [s1, 0.0, s3, 0.0],
                after: false,
            }),
            ("RAD_TAN_THIN_PRISM_FISHEYE", aria) => Curved::Fisheye(Fisheye::of_aria(aria)?),
            ("SIMPLE_DIVISION" | "DIVISION", &[k]) => Curved::Division(k),
            ("FOV", &[angle]) if (1e-6..WIDEST).contains(&angle) => Curved::Fov(angle),
            ("EUCM", &[alpha, beta]) if (0.0..=1.0).contains(&alpha) && beta > 0.0 => {
                Curved::Eucm([alpha, beta])
            }
            _ => return None,
        };
        small.then_some(curved)
    }

    /// Number of focal lengths among the parameters, which come first; the principal point follows.
    fn lengths(&self) -> usize {
        match self.model.name().starts_with("SIMPLE_") || self.model.name() == "RADIAL_FISHEYE" {
            true => 1,
            false => 2,
        }
    }

    fn with(&self, curved: Curved) -> Read<Lens> {
        let (focal, centre) = match self.parameters[..] {
            [f, x, y, ..] if self.lengths() == 1 => ([f; 2], [x, y]),
            [fx, fy, x, y, ..] => ([fx, fy], [x, y]),
            _ => return Err(self.unsupported()),
        };
        self.known(focal, centre, Some(Distortion::Curved(curved)))
    }

    fn unsupported(&self) -> Wrong {
        let model = self.model.name();
        Wrong {
            code: Code::UnsupportedFeature,
            text: format!(
                "the model {model} with these parameters is none of those that are undone"
            ),
            hint: UNDISTORT,
        }
    }
}
