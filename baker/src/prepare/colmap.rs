//! Reads a COLMAP model (`cameras` and `images`, text or binary) as [`Frame`]s, like `transforms.json`.
//!
//! ```text
//!   cameras.bin   count, then each: id u32, model i32, width u64, height u64, parameters f64
//!   images.bin    count, then each: id u32, quaternion 4 f64, translation 3 f64, camera u32, name, 0,
//!                 points u64, 24 bytes each
//!   cameras.txt   CAMERA_ID MODEL WIDTH HEIGHT PARAMS[]
//!   images.txt    IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, and a line of points, which may be empty
//! ```
//!
//! Poses are world to camera with `OpenCV` axes, as here. The centre of the upper left pixel is at (0.5, 0.5), as here
//! and in `transforms.json`. Names are relative to the pictures' folder ([`Root::Pictures`]). Points are skipped unread
//! and `points3D` is not opened, so memory grows with images and cameras alone. A count is checked against the file's
//! length before it is used.
//!
//! [`Root::Pictures`]: proto::message::Root::Pictures

mod binary;
mod lens;
mod stream;
#[cfg(test)]
mod tests;
mod text;
mod wrong;

use std::collections::HashMap;

use proto::limits::{MAX_COLMAP_FILE_BYTES, MAX_COORDINATE, MAX_VIEWS};
use proto::message::Failure;

use super::transforms::{Frame, Lens, Pose, with_faces};
use crate::worker::folder::{Folder, Opened};
use lens::Camera;
use stream::Stream;
use wrong::{Image, Read, Wrong};

/// Whether `name` is a model's file of images.
pub(crate) fn is_model(name: &str) -> bool {
    cameras_of(name).is_some()
}

/// The name of the file of cameras beside the file of images.
fn cameras_of(name: &str) -> Option<String> {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let cameras = match file {
        "images.bin" => "cameras.bin",
        "images.txt" => "cameras.txt",
        _ => return None,
    };
    Some(match folder {
        "" => cameras.to_owned(),
        _ => format!("{folder}/{cameras}"),
    })
}

/// Reads the model whose images are in the opened file `name` beneath `folder`, without pictures.
pub(crate) fn read(
    folder: &Folder<'_>,
    images: &Opened,
    name: &str,
) -> Result<Vec<Frame>, Failure> {
    let cameras_name = cameras_of(name).unwrap_or_default();
    let binary = name.ends_with(".bin");
    let opened = folder
        .open(&cameras_name, MAX_COLMAP_FILE_BYTES)
        .map_err(|error| Wrong::from(error).failure(&cameras_name))?;
    let mut stream = Stream::new(&opened);
    let cameras = match binary {
        true => binary::cameras(&mut stream),
        false => text::cameras(&mut stream),
    };
    let cameras = cameras.map_err(|wrong| wrong.failure(&cameras_name))?;
    let mut stream = Stream::new(images);
    let images = match binary {
        true => binary::images(&mut stream),
        false => text::images(&mut stream),
    };
    images
        .and_then(|images| frames(images, &cameras, &cameras_name))
        .map_err(|wrong| wrong.failure(name))
}

fn frames(images: Vec<Image>, cameras: &HashMap<u64, Camera>, file: &str) -> Read<Vec<Frame>> {
    if images.is_empty() {
        return Err(Wrong {
            hint: "it holds the images that COLMAP could place: none, so its log says more",
            ..Wrong::new("has no images")
        });
    }
    let mut lenses: HashMap<u64, Lens> = HashMap::new();
    let frames = images.into_iter().map(|image| {
        let named = |text: String| format!("image {} ({}): {text}", image.id, image.name);
        let lens = match lenses.get(&image.camera) {
            Some(lens) => *lens,
            None => {
                let camera = cameras.get(&image.camera).ok_or_else(|| {
                    let text = format!("its camera {} is not in {file}", image.camera);
                    Wrong::new(named(text))
                })?;
                let lens = camera.lens().map_err(|wrong| Wrong {
                    text: named(format!("camera {}: {}", image.camera, wrong.text)),
                    ..wrong
                })?;
                lenses.insert(image.camera, lens);
                lens
            }
        };
        let pose = pose(image.quaternion, image.translation).map_err(|text| Wrong {
            hint: "a pose is a quaternion QW QX QY QZ and a translation, from world to camera",
            ..Wrong::new(named(text))
        })?;
        Ok(Frame::new(image.name, pose, lens))
    });
    let frames = with_faces(frames.collect::<Read<_>>()?);
    match frames.len() > MAX_VIEWS {
        true => Err(wrong::too_many(frames.len() as u64, MAX_VIEWS, "views")),
        false => Ok(frames),
    }
}

/// World to camera from a quaternion of any length but zero, and a translation.
fn pose(quaternion: [f64; 4], translation: [f64; 3]) -> Result<Pose, String> {
    let squared: f64 = quaternion.iter().map(|x| x * x).sum();
    let turns = (1e-12..=1e12).contains(&squared);
    if !turns {
        return Err(format!("the quaternion {quaternion:?} is no rotation"));
    }
    let far = f64::from(MAX_COORDINATE) / 2.0;
    if let Some(number) = translation.iter().find(|x| x.is_nan() || x.abs() > far) {
        return Err(format!(
            "its translation contains {number}, which is out of range"
        ));
    }
    let length = squared.sqrt();
    let [w, x, y, z] = quaternion.map(|part| part / length);
    Ok(Pose {
        rotation: [
            [
                1.0 - 2.0 * (y * y + z * z),
                2.0 * (x * y - w * z),
                2.0 * (x * z + w * y),
            ],
            [
                2.0 * (x * y + w * z),
                1.0 - 2.0 * (x * x + z * z),
                2.0 * (y * z - w * x),
            ],
            [
                2.0 * (x * z - w * y),
                2.0 * (y * z + w * x),
                1.0 - 2.0 * (x * x + y * y),
            ],
        ],
        translation,
    })
}
