//! `cameras.json`, as the reference code of 3D Gaussian splatting and its descendants write it beside their splats.
//!
//! ```text
//!    [{"img_name": "a", "width": 64, "height": 48, "position": [x, y, z], "rotation": [[…], […], […]], "fx": 50, "fy": 51}, …]
//! ```
//!
//! `rotation` is camera to world with `OpenCV` axes, `position` the camera's place, and the principal point the picture's middle
//! (`camera_to_JSON` in graphdeco-inria/gaussian-splatting, `utils/camera_utils.py`). Names mostly lack their ending, and the
//! pictures lie where they did for the training: `--images` names their folder.

use serde::Deserialize;

use super::json::{self, Number};
use super::posed::{frame, placed, transposed};
use super::wrong::{Read, Wrong};
use crate::prepare::transforms::{Frame, Known, Lens};

#[derive(Deserialize)]
struct Camera {
    img_name: String,
    width: Number,
    height: Number,
    position: Vec<Number>,
    rotation: Vec<Vec<Number>>,
    fx: Number,
    fy: Number,
}

pub(super) fn read(bytes: &[u8]) -> Read<Vec<Frame>> {
    let cameras: Vec<Camera> = json::parse(bytes)?;
    cameras.iter().map(one).collect()
}

fn one(camera: &Camera) -> Read<Frame> {
    let pose = || {
        let rows = camera.rotation.iter();
        let rows: Vec<[f64; 3]> = rows
            .map(|row| json::numbers(row, "a row of rotation"))
            .collect::<Read<_>>()?;
        let rows = rows.try_into();
        let rotation = rows.map_err(|_| Wrong::new("rotation has not three rows"))?;
        placed(
            transposed(rotation),
            json::numbers(&camera.position, "position")?,
        )
    };
    let size = [camera.width.0, camera.height.0];
    let known = Known {
        size: Some(size),
        focal: [camera.fx.0, camera.fy.0],
        centre: Some(size.map(|edge| edge / 2.0)),
        distortion: None,
    };
    frame(
        &camera.img_name,
        pose(),
        Lens::known(&known).map_err(Into::into),
    )
}
