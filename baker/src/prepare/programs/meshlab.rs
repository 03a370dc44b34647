//! `.mlp` of `MeshLab`: the rasters of a project, each with a `VCGCamera` and a `Plane` that names its picture.
//!
//! ```text
//!    X_cam = R (X + TranslationVector)            x right, y up, looking along -z; R by rows
//!    pixel = FocalMm / PixelSizeMm · (x / -z, y / -z) + CenterPx                 y upwards from the lower border
//! ```
//!
//! From `vcglib` (`wrap/qt/shot_qt.h`, `vcg/math/shot.ipp`, `vcg/math/camera.ipp`). Its lens distortion is about a centre that the
//! file does not hold, so it is refused. `MeshLab` writes six digits of each number.

use roxmltree::Node;

use super::posed::{frame, placed_opengl};
use super::wrong::{Read, UNDISTORT, Wrong};
use super::xml::{self, attribute, child};
use crate::prepare::transforms::{Frame, Known, Lens, Pose};

pub(super) fn read(bytes: &[u8]) -> Read<Vec<Frame>> {
    let tree = xml::parse(bytes)?;
    let rasters = tree
        .descendants()
        .filter(|node| node.has_tag_name("MLRaster"));
    let frames: Vec<Frame> = rasters.map(one).collect::<Read<_>>()?;
    match frames.is_empty() {
        true => Err(Wrong {
            hint: "import the pictures and their cameras as rasters, and save the project",
            ..Wrong::new("is a project without rasters")
        }),
        false => Ok(frames),
    }
}

fn one(raster: Node<'_, '_>) -> Read<Frame> {
    let label = raster.attribute("label").unwrap_or_default();
    let plane = child(raster, "Plane").and_then(|plane| plane.attribute("fileName"));
    let file = plane.unwrap_or(label);
    let camera = child(raster, "VCGCamera");
    let camera = camera.ok_or_else(|| Wrong::new(format!("the raster {label} has no camera")))?;
    frame(file, pose(camera), lens(camera))
}

fn pose(camera: Node<'_, '_>) -> Read<Pose> {
    if camera.attribute("BinaryData") == Some("1") {
        let hint = "save the project without binary data";
        return Err(Wrong::unsupported(
            "its camera is written as binary data",
            hint,
        ));
    }
    let r: [f64; 16] = attribute(camera, "RotationMatrix")?;
    let [x, y, z] = attribute(camera, "TranslationVector")?;
    let rows = [[r[0], r[1], r[2]], [r[4], r[5], r[6]], [r[8], r[9], r[10]]];
    placed_opengl(rows, [-x, -y, -z])
}

fn lens(camera: Node<'_, '_>) -> Read<Lens> {
    if !matches!(camera.attribute("CameraType"), None | Some("0")) {
        let text = "its camera is orthographic, or of another projection than perspective";
        return Err(Wrong::unsupported(
            text,
            "take the views with perspective cameras",
        ));
    }
    let distortion: [f64; 2] = match camera.attribute("LensDistortion") {
        Some(_) => attribute(camera, "LensDistortion")?,
        None => [0.0; 2],
    };
    if distortion != [0.0; 2] {
        let text = format!(
            "LensDistortion is {distortion:?}, about a centre that the project does not say"
        );
        return Err(Wrong::unsupported(text, UNDISTORT));
    }
    let size: [f64; 2] = attribute(camera, "ViewportPx")?;
    let pixel: [f64; 2] = attribute(camera, "PixelSizeMm")?;
    let [length] = attribute(camera, "FocalMm")?;
    let [x, y] = attribute(camera, "CenterPx")?;
    let known = Known {
        size: Some(size),
        focal: pixel.map(|pixel| length / pixel),
        centre: Some([x, size[1] - y]),
        distortion: None,
    };
    Ok(Lens::known(&known)?)
}
