//! Converts a layer's decoded picture to its bytes in the tables: masked like its view, with normals in world axes.

use proto::job::Up;
use proto::table::{Camera, Layer};

use crate::prepare::picture::Picture;
use crate::prepare::transforms::NormalSpace;

/// Multiplies the layer's alpha by the view's alpha.
pub(super) fn mask(layer: &mut [[u8; 4]], view: &[[u8; 4]]) {
    for (pixel, of_view) in layer.iter_mut().zip(view) {
        let [one, other] = [pixel[3], of_view[3]].map(u32::from);
        pixel[3] = ((one * other + 127) / 255) as u8;
    }
}

/// Applies [`to_world`] to the pictures that are normals.
pub(super) fn turn(pictures: &mut [(Layer, Picture)], space: NormalSpace, camera: &Camera, up: Up) {
    for (layer, picture) in pictures {
        if *layer == Layer::Normal {
            to_world(&mut picture.pixels, space, camera, up);
        }
    }
}

/// Rotates normals from `space` to world axes; [`Up`] is already applied to `camera`. Lengths are kept, because pixels
/// on edges are means of several normals.
fn to_world(pixels: &mut [[u8; 4]], space: NormalSpace, camera: &Camera, up: Up) {
    let rows: [[f64; 3]; 3] = match (space, up) {
        (NormalSpace::World, Up::Y) => return,
        (NormalSpace::World, up) => {
            let columns = [0, 1, 2].map(|k| up.turned([0, 1, 2].map(|axis| f64::from(axis == k))));
            [0, 1, 2].map(|row| columns.map(|column| column[row]))
        }
        (NormalSpace::Camera, _) => {
            // The rows of the rotation are the camera's OpenCV axes in world space; OpenGL's y and z point the other
            // way.
            let [x, y, z] = camera.rotation;
            [0, 1, 2].map(|axis| [x[axis], -y[axis], -z[axis]])
        }
    };
    for pixel in pixels {
        let [x, y, z] = [0, 1, 2].map(|k| f64::from(pixel[k]) / 127.5 - 1.0);
        let turned = rows.map(|row| row[0] * x + row[1] * y + row[2] * z);
        for (byte, value) in pixel.iter_mut().zip(turned) {
            *byte = ((value + 1.0) * 127.5).round().clamp(0.0, 255.0) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn camera(rotation: [[f64; 3]; 3]) -> Camera {
        Camera {
            rotation,
            ..Camera::default()
        }
    }

    const X: [u8; 3] = [255, 128, 128];
    const Y: [u8; 3] = [128, 255, 128];
    const Z: [u8; 3] = [128, 128, 255];

    fn turned(normal: [u8; 3], space: NormalSpace, rotation: [[f64; 3]; 3], up: Up) -> [i32; 3] {
        let [r, g, b] = normal;
        let mut pixels = [[r, g, b, 77]];
        to_world(&mut pixels, space, &camera(rotation), up);
        assert_eq!(pixels[0][3], 77);
        // Rounded to the nearest of -1, 0, 1.
        [0, 1, 2].map(|k| (f64::from(pixels[0][k]) / 127.5 - 1.0).round() as i32)
    }

    #[test]
    fn normals_of_a_camera_are_turned_by_its_pose() {
        // The camera looks along the world's -x with y up: right is -z, down is -y, forward is -x.
        let looking = [[0.0, 0.0, -1.0], [0.0, -1.0, 0.0], [-1.0, 0.0, 0.0]];
        let of = |normal| turned(normal, NormalSpace::Camera, looking, Up::Y);
        assert_eq!(of(Z), [1, 0, 0], "what faces the camera");
        assert_eq!(of(Y), [0, 1, 0], "what faces up in the picture");
        assert_eq!(of(X), [0, 0, -1], "what faces right in the picture");
    }

    #[test]
    fn normals_of_the_world_are_turned_with_it() {
        let none = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        for (up, axes) in [
            (Up::Z, [[1, 0, 0], [0, 0, -1], [0, 1, 0]]),
            (Up::Down, [[1, 0, 0], [0, -1, 0], [0, 0, -1]]),
        ] {
            for (normal, wanted) in [X, Y, Z].into_iter().zip(axes) {
                assert_eq!(turned(normal, NormalSpace::World, none, up), wanted);
            }
        }
        let mut same = [[1, 2, 3, 4]];
        to_world(&mut same, NormalSpace::World, &camera(none), Up::Y);
        assert_eq!(same, [[1, 2, 3, 4]]);
    }

    #[test]
    fn both_alphas_count() {
        let mut pixels = [[9, 9, 9, 255], [9, 9, 9, 128], [9, 9, 9, 255], [9, 9, 9, 0]];
        mask(
            &mut pixels,
            &[[0, 0, 0, 255], [0, 0, 0, 128], [0; 4], [0, 0, 0, 255]],
        );
        assert_eq!(pixels.map(|pixel| pixel[3]), [255, 64, 0, 0]);
    }
}
