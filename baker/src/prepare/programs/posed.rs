//! Rotations and places as programs write them → the pose of a [`Frame`].

use proto::limits::MAX_COORDINATE;

use super::wrong::{Read, Wrong};
use crate::prepare::transforms::{Frame, Lens, Pose};

/// World to camera with `OpenCV` axes, from a rotation of the same meaning, by rows, and the camera's place.
pub(super) fn placed(rotation: [[f64; 3]; 3], centre: [f64; 3]) -> Read<Pose> {
    let far = f64::from(MAX_COORDINATE) / 2.0;
    let mut numbers = rotation.iter().flatten().chain(&centre);
    if let Some(number) = numbers.find(|x| x.is_nan() || x.abs() > far) {
        return Err(Wrong::new(format!(
            "its pose contains {number}, which is out of range"
        )));
    }
    let pose = Pose::at(&rotation, centre);
    pose.map_err(|problem| Wrong::new(format!("its rotation {problem}")))
}

/// The same for axes of OpenGL: x right, y up, looking along -z.
pub(super) fn placed_opengl([x, y, z]: [[f64; 3]; 3], centre: [f64; 3]) -> Read<Pose> {
    placed([x, y.map(|k| -k), z.map(|k| -k)], centre)
}

/// Columns for rows.
pub(super) fn transposed(m: [[f64; 3]; 3]) -> [[f64; 3]; 3] {
    [0, 1, 2].map(|r| [0, 1, 2].map(|c| m[c][r]))
}

pub(super) fn product(a: &[[f64; 3]; 3], at: [f64; 3]) -> [f64; 3] {
    a.map(|row| (0..3).map(|k| row[k] * at[k]).sum())
}

/// The frame of a picture, after all of its numbers have been read.
pub(super) fn frame(file: &str, pose: Read<Pose>, lens: Read<Lens>) -> Read<Frame> {
    if file.is_empty() {
        return Err(Wrong::new("a camera names no picture"));
    }
    let shown: String = file.chars().take(80).collect();
    let pose = pose.map_err(|wrong| wrong.at(&shown))?;
    let lens = lens.map_err(|wrong| wrong.at(&shown))?;
    Ok(Frame::new(file.to_owned(), pose, lens))
}
