//! `.sfm` of Meshroom (`AliceVision`) in JSON: `views`, `intrinsics` and `poses`, joined by identifiers.
//!
//! ```text
//!    X_cam = R (X - center)      transform.rotation lists R column by column, as Eigen stores it
//!    pixel = scale · distorted(X_cam / Z) + size / 2 + principalPoint          OpenCV axes
//! ```
//!
//! From `AliceVision`'s own reader and models (`sfmDataIO/jsonIO.cpp`, `geometry/Pose3.hpp`, `camera/IntrinsicScaleOffset.cpp`,
//! `camera/Distortion*.cpp`). What `focalLength`, `pixelRatio` and `principalPoint` mean depends on the file's version. Views
//! without a pose were not placed, and are left out.

use std::collections::HashMap;

use serde::Deserialize;

use super::json::{self, Id, Number};
use super::posed::{frame, placed, transposed};
use super::wrong::{Read, UNDISTORT, Wrong};
use crate::prepare::transforms::{Curved, Distortion, Frame, Known, Lens, Pose};

#[derive(Deserialize)]
struct Scene {
    #[serde(default)]
    version: Vec<Number>,
    #[serde(default)]
    views: Vec<View>,
    #[serde(default)]
    intrinsics: Vec<Intrinsic>,
    #[serde(default)]
    poses: Vec<Placed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct View {
    path: String,
    #[serde(default)]
    pose_id: Id,
    #[serde(default)]
    intrinsic_id: Id,
    rig_id: Option<Id>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Intrinsic {
    intrinsic_id: Id,
    width: Number,
    height: Number,
    sensor_width: Option<Number>,
    r#type: String,
    #[serde(default)]
    distortion_type: String,
    #[serde(default)]
    undistortion_type: String,
    focal_length: Option<Number>,
    px_focal_length: Option<OneOrMore>,
    pixel_ratio: Option<Number>,
    principal_point: Vec<Number>,
    #[serde(default)]
    distortion_params: Parameters,
}

/// A number, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(Number),
    More(Vec<Number>),
}

/// An empty list is written as an empty text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Parameters {
    List(Vec<Number>),
    Empty(String),
}

impl Default for Parameters {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Placed {
    pose_id: Id,
    pose: Transformed,
}

#[derive(Deserialize)]
struct Transformed {
    transform: Transform,
}

#[derive(Deserialize)]
struct Transform {
    rotation: Vec<Number>,
    center: Vec<Number>,
}

/// Major, minor, revision.
type Version = [f64; 3];

pub(super) fn read(bytes: &[u8]) -> Read<Vec<Frame>> {
    let scene: Scene = json::parse(bytes)?;
    let version = json::numbers(&scene.version, "version")?;
    let by_id = |intrinsic: &Intrinsic| (intrinsic.intrinsic_id.clone(), lens(intrinsic, version));
    let lenses: HashMap<Id, Read<Lens>> = scene.intrinsics.iter().map(by_id).collect();
    let by_id = |placed: &Placed| (placed.pose_id.clone(), pose(&placed.pose.transform));
    let mut poses: HashMap<Id, _> = scene.poses.iter().map(by_id).collect();
    let mut frames = Vec::new();
    for view in &scene.views {
        let Some(pose) = poses.remove(&view.pose_id) else {
            continue;
        };
        if view.rig_id.is_some() {
            let text = format!("{}: is of a rig of cameras, which is not taken", view.path);
            return Err(Wrong::unsupported(text, UNDISTORT));
        }
        let lens = lenses.get(&view.intrinsic_id).cloned();
        let lens =
            lens.unwrap_or_else(|| Err(Wrong::new("its intrinsicId is that of no intrinsic")));
        frames.push(frame(&view.path, pose, lens)?);
    }
    match frames.is_empty() {
        true => Err(Wrong {
            hint: "give the .sfm that StructureFromMotion writes, not that of CameraInit",
            ..Wrong::new("no view has a pose")
        }),
        false => Ok(frames),
    }
}

fn pose(transform: &Transform) -> Read<Pose> {
    let [a, b, c, d, e, f, g, h, i] = json::numbers(&transform.rotation, "rotation")?;
    let columns = [[a, b, c], [d, e, f], [g, h, i]];
    placed(
        transposed(columns),
        json::numbers(&transform.center, "center")?,
    )
}

fn lens(intrinsic: &Intrinsic, version: Version) -> Read<Lens> {
    let older = |than: Version| version < than;
    let size = [intrinsic.width.0, intrinsic.height.0];
    let [x, y]: [f64; 2] = json::numbers(&intrinsic.principal_point, "principalPoint")?;
    let centre = match older([1.0, 2.0, 1.0]) {
        true => [x, y],
        false => [x + size[0] / 2.0, y + size[1] / 2.0],
    };
    let known = Known {
        size: Some(size),
        focal: focal(intrinsic, version)?,
        centre: Some(centre),
        distortion: distortion(intrinsic, older([1.0, 2.0, 8.0]))?,
    };
    Ok(Lens::known(&known)?)
}

/// Focal lengths in pixels.
fn focal(intrinsic: &Intrinsic, version: Version) -> Read<[f64; 2]> {
    if version < [1.0, 2.0, 2.0] {
        let lengths = intrinsic.px_focal_length.as_ref();
        return match lengths.ok_or_else(|| Wrong::new("pxFocalLength is missing"))? {
            OneOrMore::One(length) => Ok([length.0; 2]),
            OneOrMore::More(lengths) => json::numbers(lengths, "pxFocalLength"),
        };
    }
    let sensor = intrinsic.sensor_width.map_or(36.0, |width| width.0);
    let ratio = intrinsic.pixel_ratio.map_or(1.0, |ratio| ratio.0);
    let length = intrinsic.focal_length;
    let length = length
        .ok_or_else(|| Wrong::new("focalLength is missing"))?
        .0;
    let pixels = length / sensor * intrinsic.width.0;
    Ok(if version < [1.0, 2.0, 5.0] {
        [pixels, pixels / ratio]
    } else if version < [1.0, 2.0, 11.0] {
        [pixels, pixels * ratio]
    } else {
        [pixels / ratio, pixels]
    })
}

fn distortion(intrinsic: &Intrinsic, older: bool) -> Read<Option<Distortion>> {
    let refused = |what: &str| {
        Wrong::unsupported(
            format!("its lens is {what}, which is not undone"),
            UNDISTORT,
        )
    };
    let kind = match older {
        true => intrinsic.r#type.to_ascii_lowercase(),
        false => {
            let kind = intrinsic.r#type.to_ascii_lowercase();
            if kind != "pinhole" {
                return Err(refused(&kind));
            }
            intrinsic.distortion_type.to_ascii_lowercase()
        }
    };
    let undone = intrinsic.undistortion_type.to_ascii_lowercase();
    if !["", "none"].contains(&undone.as_str()) {
        return Err(refused(&undone));
    }
    let list: Vec<f64> = match &intrinsic.distortion_params {
        Parameters::List(list) => list.iter().map(|number| number.0).collect(),
        Parameters::Empty(text) if text.is_empty() => Vec::new(),
        Parameters::Empty(_) => return Err(Wrong::new("distortionParams are no list of numbers")),
    };
    Ok(match (kind.as_str(), &list[..]) {
        // A list of another length is one of zeros, as for AliceVision.
        ("none" | "pinhole" | "", _) | (_, []) => None,
        ("radialk1" | "radial1", &[k1]) => Distortion::brown([k1, 0.0, 0.0, 0.0], [0.0; 2])?,
        ("radialk3" | "radial3", &[k1, k2, k3]) => Distortion::brown([k1, k2, k3, 0.0], [0.0; 2])?,
        ("brown", &[k1, k2, k3, t1, t2]) => Distortion::brown([k1, k2, k3, 0.0], [t1, t2])?,
        ("fisheye" | "fisheye4", &[k1, k2, k3, k4]) => {
            // The bounds are those of the other lenses.
            Distortion::brown([k1, k2, k3, k4], [0.0; 2])?;
            Some(Distortion::Curved(Curved::fisheye(&list)))
        }
        (kind, _) => return Err(refused(kind)),
    })
}
