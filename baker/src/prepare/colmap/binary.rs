//! Reads `cameras.bin` and `images.bin`. Numbers are little-endian and unpadded.

use std::collections::HashMap;

use proto::limits::{MAX_NAME_BYTES, MAX_VIEWS};

use super::lens::{Camera, Model};
use super::stream::Stream;
use super::wrong::{Image, MAX_CAMERAS, Read, UNDISTORT, Wrong, believed};

/// Bytes of a camera without parameters.
const CAMERA_BYTES: u64 = 4 + 4 + 8 + 8;
/// Bytes of an image with an empty name and no points.
const IMAGE_BYTES: u64 = 4 + 7 * 8 + 4 + 1 + 8;
/// Bytes of a point: x, y and the id of its 3D point.
const POINT_BYTES: u64 = 8 + 8 + 8;

pub(super) fn cameras(file: &mut Stream<'_>) -> Read<HashMap<u64, Camera>> {
    let count = u64::from_le_bytes(file.bytes("the number of cameras")?);
    let count = believed(count, MAX_CAMERAS, "cameras", CAMERA_BYTES, file.left())?;
    let mut cameras = HashMap::new();
    for number in 0..count {
        let within = &format!("camera {} of {count}", number + 1);
        let id = u32::from_le_bytes(file.bytes(within)?);
        let model = i32::from_le_bytes(file.bytes(within)?);
        let model = Model::numbered(model).ok_or_else(|| Wrong {
            hint: UNDISTORT,
            ..Wrong::new(format!(
                "camera {id} has the model number {model}, which is not known"
            ))
        })?;
        let mut size = [0.0; 2];
        for edge in &mut size {
            *edge = u64::from_le_bytes(file.bytes(within)?) as f64;
        }
        let mut parameters = vec![0.0; model.parameters().unwrap_or(0)];
        for parameter in &mut parameters {
            *parameter = f64::from_le_bytes(file.bytes(within)?);
        }
        let camera = Camera {
            model,
            size,
            parameters,
        };
        cameras.insert(u64::from(id), camera);
    }
    Ok(cameras)
}

pub(super) fn images(file: &mut Stream<'_>) -> Read<Vec<Image>> {
    let count = u64::from_le_bytes(file.bytes("the number of images")?);
    let count = believed(count, MAX_VIEWS, "images", IMAGE_BYTES, file.left())?;
    let mut images = Vec::with_capacity(count);
    for number in 0..count {
        let within = &format!("image {} of {count}", number + 1);
        let id = u32::from_le_bytes(file.bytes(within)?);
        let mut pose = [0.0; 7];
        for part in &mut pose {
            *part = f64::from_le_bytes(file.bytes(within)?);
        }
        let [w, x, y, z, translation @ ..] = pose;
        let camera = u32::from_le_bytes(file.bytes(within)?);
        let (name, ended) = file.until(0, MAX_NAME_BYTES)?;
        if !ended {
            return Err(Wrong::ends(within));
        }
        let name = String::from_utf8(name).map_err(|_other| Wrong {
            hint: "rename the picture, and have COLMAP do its work again",
            ..Wrong::new(format!("image {id} has a name that is not UTF-8"))
        })?;
        let points = u64::from_le_bytes(file.bytes(within)?);
        let bytes = points.checked_mul(POINT_BYTES);
        let bytes = bytes.ok_or_else(|| Wrong::ends(within))?;
        file.skip(bytes, within)?;
        images.push(Image {
            id: u64::from(id),
            quaternion: [w, x, y, z],
            translation,
            camera: u64::from(camera),
            name,
        });
    }
    Ok(images)
}
