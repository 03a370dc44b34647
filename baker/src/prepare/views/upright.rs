//! Decides whether a picture is turned as its EXIF orientation says before its camera is used.
//!
//! Programs differ: viewers, `OpenCV` and ffmpeg (`ns-process-data`) turn pictures, COLMAP, PIL and stb read them as stored. The
//! camera tells which, where the picture is not square: `w` and `h`, or else twice the principal point, have the shape of
//! one of the two. Where it does not tell, a model of COLMAP belongs to the pixels as stored, and other cameras belong to
//! what a person sees. Either is reported.

use crate::prepare::picture::{Orientation, swaps};
use crate::prepare::transforms::Lens;

/// What is made of a picture's EXIF orientation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exif {
    /// There is none, or it changes nothing.
    None,
    /// The picture is turned.
    Applied,
    /// The picture is used as it is stored.
    Ignored,
}

/// Smallest ratio of a picture's edges at which its shape tells how it is meant.
const SQUARE: f64 = 1.02;

/// Width and height of a picture of the size `stored` once it is turned.
pub(super) fn shown([width, height]: [u32; 2], turn: Orientation) -> [u32; 2] {
    match swaps(turn) {
        true => [height, width],
        false => [width, height],
    }
}

/// Judges by the camera's `lens`, and by where it comes from: `model` is one of COLMAP.
pub(super) fn judge(turn: Orientation, stored: [u32; 2], lens: &Lens, model: bool) -> Exif {
    if turn == Orientation::NoTransforms {
        return Exif::None;
    }
    let aspect = |[width, height]: [f64; 2]| (width / height).ln();
    let picture = aspect(stored.map(f64::from));
    let camera = lens.shape().map_or(0.0, aspect);
    let tells = swaps(turn) && picture.abs() > SQUARE.ln() && camera.abs() > SQUARE.ln();
    match tells {
        // Wide and high have logarithms of different signs.
        true if (picture < 0.0) == (camera < 0.0) => Exif::Ignored,
        false if model => Exif::Ignored,
        _ => Exif::Applied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::transforms;

    fn lens(keys: &str) -> Lens {
        let pose = "[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]";
        let text = format!(
            r#"{{{keys}, "frames": [{{"file_path": "a.png", "transform_matrix": {pose}}}]}}"#
        );
        transforms::parse(text.as_bytes()).expect("sound").frames[0].lens
    }

    #[test]
    fn the_camera_tells_how_a_picture_is_meant() {
        let (quarter, half) = (Orientation::Rotate90, Orientation::Rotate180);
        let (applied, ignored) = (Exif::Applied, Exif::Ignored);
        // Orientation, stored size, the camera, and what is made of it for a transforms.json and for a model.
        let cases = [
            (
                quarter,
                [64, 48],
                r#""fl_x": 50, "w": 48, "h": 64"#,
                [applied; 2],
            ),
            (
                quarter,
                [64, 48],
                r#""fl_x": 50, "w": 640, "h": 480"#,
                [ignored; 2],
            ),
            (
                quarter,
                [64, 48],
                r#""fl_x": 50, "cx": 24.5, "cy": 32"#,
                [applied; 2],
            ),
            (
                quarter,
                [64, 48],
                r#""fl_x": 50, "cx": 31, "cy": 25"#,
                [ignored; 2],
            ),
            (
                quarter,
                [64, 48],
                r#""camera_angle_x": 0.7"#,
                [applied, ignored],
            ),
            (
                quarter,
                [64, 64],
                r#""fl_x": 50, "w": 64, "h": 64"#,
                [applied, ignored],
            ),
            (
                half,
                [64, 48],
                r#""fl_x": 50, "w": 64, "h": 48"#,
                [applied, ignored],
            ),
            (
                Orientation::NoTransforms,
                [64, 48],
                r#""fl_x": 50"#,
                [Exif::None; 2],
            ),
        ];
        for (turn, stored, keys, expected) in cases {
            let found = [false, true].map(|model| judge(turn, stored, &lens(keys), model));
            assert_eq!(found, expected, "{turn:?} {stored:?} {keys}");
        }
    }
}
