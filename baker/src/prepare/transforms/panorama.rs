//! A panorama of the whole sphere (equirectangular) → the six faces of a cube, each the picture of a pinhole.
//!
//! ```text
//!    x = (θ / 2π + ½) · width       θ = atan2(X, Z): 0 forwards, ½π to the right       camera with OpenCV axes (X, Y, Z)
//!    y = (½ - φ / π) · height       φ = atan2(-Y, √(X² + Z²)): ½π upwards
//! ```
//!
//! So have it COLMAP's `EQUIRECTANGULAR` (`sensor/models.h`), nerfstudio's (`cameras.py`) and instant-ngp's `latlong`
//! (`latlong_to_dir`). A face has as many pixels for an angle at its centre as the panorama has at its horizon, and shows
//! a pixel more than its quarter on each side, so that no place lies between two faces.

use std::f64::consts::{PI, TAU};

/// A face of the cube about a panorama's camera.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Face {
    Front,
    Right,
    Back,
    Left,
    Up,
    Down,
}

impl Face {
    /// All of them; the first one stands for the panorama where it is counted.
    pub(crate) const ALL: [Self; 6] = [
        Self::Front,
        Self::Right,
        Self::Back,
        Self::Left,
        Self::Up,
        Self::Down,
    ];

    /// Its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Front => "front",
            Self::Right => "right",
            Self::Back => "back",
            Self::Left => "left",
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    /// The axes of its camera in those of the panorama's, one a row.
    pub(crate) fn axes(self) -> [[f64; 3]; 3] {
        match self {
            Self::Front => [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            Self::Right => [[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
            Self::Back => [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]],
            Self::Left => [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]],
            Self::Up => [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]],
            Self::Down => [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]],
        }
    }

    /// Focal length and edge, in pixels, of the faces of a panorama of this width.
    pub(crate) fn lens(width: u32) -> (f64, u32) {
        let focal = f64::from(width) / TAU;
        (focal, 2 * (focal + 1.0).ceil() as u32)
    }

    /// Where a ray through `(x, y)` on the face's plane at distance 1 lands in a panorama of this width and height.
    pub(crate) fn lands(self, [x, y]: [f64; 2], [width, height]: [f64; 2]) -> [f64; 2] {
        let axes = self.axes();
        let [u, v, w] = [0, 1, 2].map(|k| axes[0][k] * x + axes[1][k] * y + axes[2][k]);
        let (turn, rise) = (u.atan2(w), (-v).atan2(u.hypot(w)));
        [(turn / TAU + 0.5) * width, (0.5 - rise / PI) * height]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directions and where they land, by words: forwards is the middle, the right edge of the picture is behind.
    #[test]
    fn each_face_looks_where_its_name_says() {
        let size = [400.0, 200.0];
        for (face, middle) in [
            (Face::Front, [200.0, 100.0]),
            (Face::Right, [300.0, 100.0]),
            (Face::Left, [100.0, 100.0]),
            (Face::Up, [200.0, 0.0]),
            (Face::Down, [200.0, 200.0]),
            (Face::Back, [400.0, 100.0]),
        ] {
            let at = face.lands([0.0, 0.0], size);
            let off = (at[0] - middle[0])
                .abs()
                .min(400.0 - (at[0] - middle[0]).abs());
            // At a pole every column is the same place.
            let pole = matches!(face, Face::Up | Face::Down);
            assert!(pole || off < 1e-9, "{face:?} {at:?}");
            assert!((at[1] - middle[1]).abs() < 1e-9, "{face:?} {at:?}");
        }
        // A place to the right of the axis of each side face lies further right, one below it further down.
        for face in [Face::Front, Face::Right, Face::Left] {
            let [middle, right, below] = [[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]];
            let [middle, right, below] = [middle, right, below].map(|at| face.lands(at, size));
            assert!(right[0] > middle[0] && below[1] > middle[1], "{face:?}");
        }
        // What lies towards the front is at the lower border of the face that looks up, and at the upper one of the other.
        assert!((Face::Up.lands([0.0, 1.0], size)[0] - 200.0).abs() < 1e-9);
        assert!((Face::Down.lands([0.0, -1.0], size)[0] - 200.0).abs() < 1e-9);
        for face in Face::ALL {
            let [x, y, z] = face.axes();
            let cross = [0, 1, 2]
                .map(|k| x[(k + 1) % 3] * y[(k + 2) % 3] - x[(k + 2) % 3] * y[(k + 1) % 3]);
            assert_eq!(cross, z, "{face:?} is a turn");
        }
    }
}
