//! Lens distortion, mostly with `OpenCV`'s radial and tangential coefficients: maps rays to places on the sensor and back.
//!
//! ```text
//!    x_d = x · radial + 2 p1 x y + p2 (r² + 2 x²)          radial = (1 + k1 r² + k2 r⁴ + k3 r⁶) / (1 + k4 r² + k5 r⁴ + k6 r⁶)
//!    y_d = y · radial + p1 (r² + 2 y²) + 2 p2 x y          x, y: on the plane at distance 1; r² = x² + y²
//! ```
//!
//! COLMAP's `SIMPLE_RADIAL`, `RADIAL`, `OPENCV` and `FULL_OPENCV` are such lenses; [`super::fisheye`] has others. `k4` has two meanings. In `OpenCV`
//! and COLMAP's `FULL_OPENCV` it belongs to the denominator. nerfstudio, which has no k5 and k6, multiplies it by r⁸ in
//! the numerator. It is read as nerfstudio's unless k5 or k6 is set or the model is `FULL_OPENCV`.

use super::error::Problem;
use super::fisheye::{Curved, Fisheye};
use super::keys::Keys;

/// A lens that is no pinhole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Distortion {
    /// Radial and tangential.
    Plane(Plane),
    /// Fisheyes and others.
    Curved(Curved),
}

/// Coefficients, see the head of this file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Plane {
    /// Numerator: k1, k2, k3, and nerfstudio's k4.
    above: [f64; 4],
    /// Denominator: k4, k5, k6.
    below: [f64; 3],
    /// p1, p2.
    tangential: [f64; 2],
}

/// Larger coefficients are taken for a mistake.
const LARGEST: f64 = 1e4;
/// Largest r considered: tan 80°.
const FARTHEST: f64 = 5.67;
/// Samples of r at which monotonicity is checked.
const PROBES: u32 = 4096;

impl Distortion {
    /// Brown's lens with k1 to k4 (of r², r⁴, r⁶ and r⁸), p1 and p2 of `OpenCV`; none where they are zeros.
    pub(crate) fn brown(radial: [f64; 4], tangential: [f64; 2]) -> Result<Option<Self>, Problem> {
        Self::plane(Plane {
            above: radial,
            below: [0.0; 3],
            tangential,
        })
    }

    /// The lens of `FULL_OPENCV` with k1 to k6, p1 and p2; none where they are zeros.
    pub(crate) fn full(
        [k1, k2, k3, k4, k5, k6]: [f64; 6],
        tangential: [f64; 2],
    ) -> Result<Option<Self>, Problem> {
        Self::plane(Plane {
            above: [k1, k2, k3, 0.0],
            below: [k4, k5, k6],
            tangential,
        })
    }

    fn plane(lens: Plane) -> Result<Option<Self>, Problem> {
        let all = lens.above.iter().chain(&lens.below).chain(&lens.tangential);
        let mut large = all.filter(|x| x.is_nan() || x.abs() > LARGEST);
        match large.next() {
            Some(&value) => Err(Problem::Range {
                key: "a coefficient",
                value,
                wanted: "one of a lens",
            }),
            None => Ok((lens != Plane::default()).then_some(Self::Plane(lens))),
        }
    }

    /// Reads the keys; returns none for a pinhole.
    pub(super) fn from_keys(keys: &Keys, top: &Keys) -> Result<Option<Self>, Problem> {
        const RADIAL: [&str; 6] = ["k1", "k2", "k3", "k4", "k5", "k6"];
        const TANGENTIAL: [&str; 2] = ["p1", "p2"];
        let number = |key, own: Option<f64>, general: Option<f64>| {
            let value = own.or(general).unwrap_or(0.0);
            if value.abs() <= LARGEST {
                return Ok(value);
            }
            Err(Problem::Range {
                key,
                value,
                wanted: "a coefficient of a lens",
            })
        };
        if keys.is_of(top, Keys::is_panorama) {
            return Ok(None);
        }
        let parameters = keys.parameters.as_ref().or(top.parameters.as_ref());
        if let Some(value) = parameters.and_then(|all| all.iter().find(|x| x.abs() > LARGEST)) {
            let (key, wanted) = ("distortion_params", "coefficients of a lens");
            return Err(Problem::Range {
                key,
                value: *value,
                wanted,
            });
        }
        if keys.is_of(top, Keys::is_fisheye624) {
            let parameters = parameters.ok_or(Problem::Missing("distortion_params"))?;
            let lens = Fisheye::of_aria(parameters);
            let lens = lens.ok_or(Problem::Parameters(parameters.len()))?;
            return Ok(Some(Self::Curved(Curved::Fisheye(lens))));
        }
        let mut k = [0.0; 6];
        for (at, k) in k.iter_mut().enumerate() {
            *k = number(RADIAL[at], keys.radial[at], top.radial[at])?;
        }
        let mut tangential = [0.0; 2];
        for (at, p) in tangential.iter_mut().enumerate() {
            *p = number(TANGENTIAL[at], keys.tangential[at], top.tangential[at])?;
        }
        match parameters.map(Vec::as_slice) {
            None | Some([]) => {}
            Some(&[k1, k2, k3, k4, p1, p2]) => {
                k = [k1, k2, k3, k4, 0.0, 0.0];
                tangential = [p1, p2];
            }
            Some(other) => return Err(Problem::Parameters(other.len())),
        }
        let model = keys.camera_model.as_ref().or(top.camera_model.as_ref());
        if keys.is_of(top, Keys::is_fisheye) {
            return Ok(Some(Self::Curved(Curved::fisheye(&k[..4]))));
        }
        let rational = k[4] != 0.0
            || k[5] != 0.0
            || model.is_some_and(|model| model.eq_ignore_ascii_case("FULL_OPENCV"));
        match rational {
            true => Self::full(k, tangential),
            false => Self::brown([k[0], k[1], k[2], k[3]], tangential),
        }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Plane(_) => "radial and tangential, as OPENCV",
            Self::Curved(lens) => lens.name(),
        }
    }

    /// Distance from the axis at which a ray lands, without terms that depend on its direction.
    fn radius(&self, r: f64) -> f64 {
        match self {
            Self::Plane(lens) => r * lens.radial(r * r),
            Self::Curved(lens) => lens.radius(r),
        }
    }

    /// Maps `(x, y)` on the plane at distance 1 to its distorted place.
    pub(crate) fn distort(&self, at: [f64; 2]) -> [f64; 2] {
        match self {
            Self::Plane(lens) => lens.distort(at),
            Self::Curved(lens) => lens.distort(at),
        }
    }

    /// The largest r up to which the distorted radius grows. Beyond it the polynomial folds back and shows nothing
    /// real.
    pub(crate) fn limit(&self) -> f64 {
        let mut before = 0.0;
        for probe in 1..=PROBES {
            let r = FARTHEST * f64::from(probe) / f64::from(PROBES);
            let lands = self.radius(r);
            // False for NaN.
            let outwards = lands > before;
            if !outwards {
                return FARTHEST * f64::from(probe - 1) / f64::from(PROBES);
            }
            before = lands;
        }
        FARTHEST
    }

    /// Finds the undistorted point that maps to `lands`, by Newton's method. Returns none where no point within `limit`
    /// does ([`Self::limit`]).
    pub(crate) fn undistort(&self, lands: [f64; 2], limit: f64) -> Option<[f64; 2]> {
        let mut at = lands;
        for _ in 0..30 {
            let length = at[0].hypot(at[1]);
            if length > limit {
                // Clamps to where the lens is monotonic.
                at = at.map(|x| x * 0.98 * limit / length);
            }
            let here = self.distort(at);
            let off = [lands[0] - here[0], lands[1] - here[1]];
            const H: f64 = 1e-6;
            let along = [[H, 0.0], [0.0, H]].map(|[dx, dy]| {
                let ahead = self.distort([at[0] + dx, at[1] + dy]);
                let behind = self.distort([at[0] - dx, at[1] - dy]);
                [0, 1].map(|axis| (ahead[axis] - behind[axis]) / (2.0 * H))
            });
            let [[a, c], [b, d]] = along;
            let determinant = a * d - b * c;
            let step = [
                (d * off[0] - b * off[1]) / determinant,
                (a * off[1] - c * off[0]) / determinant,
            ];
            at = [at[0] + step[0], at[1] + step[1]];
            let small = step[0].abs().max(step[1].abs()) < 1e-12 * (1.0 + length);
            if small {
                break;
            }
        }
        let here = self.distort(at);
        let near = (here[0] - lands[0]).hypot(here[1] - lands[1]) < 1e-7;
        (near && at[0].hypot(at[1]) <= limit).then_some(at)
    }
}

impl Plane {
    fn radial(&self, squared: f64) -> f64 {
        let [k1, k2, k3, k4] = self.above;
        let [k5, k6, k7] = self.below;
        let above = 1.0 + squared * (k1 + squared * (k2 + squared * (k3 + squared * k4)));
        let below = 1.0 + squared * (k5 + squared * (k6 + squared * k7));
        above / below
    }

    fn distort(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let squared = x * x + y * y;
        let radial = self.radial(squared);
        let [p1, p2] = self.tangential;
        [
            x * radial + 2.0 * p1 * x * y + p2 * (squared + 2.0 * x * x),
            y * radial + p1 * (squared + 2.0 * y * y) + 2.0 * p2 * x * y,
        ]
    }
}

#[cfg(test)]
pub(in crate::prepare) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::prepare::transforms::parse;

    /// The lens of a file with these keys.
    pub(in crate::prepare) fn lens(keys: &Value) -> Option<Distortion> {
        let mut file = json!({"fl_x": 500.0, "frames": [{
            "file_path": "a",
            "transform_matrix": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
        }]});
        for (key, value) in keys.as_object().expect("keys") {
            file[key] = value.clone();
        }
        let read = parse(file.to_string().as_bytes()).expect("readable");
        read.frames[0].lens.distortion
    }

    #[test]
    fn keys_become_the_models_that_wrote_them() {
        assert_eq!(lens(&json!({"k1": 0, "p2": 0.0, "k4": null})), None);
        let at = [0.3, -0.2];
        let r2: f64 = 0.13;
        for (keys, wanted) in [
            (
                json!({"k1": 0.1}),
                [0.3 * (1.0 + 0.1 * r2), -0.2 * (1.0 + 0.1 * r2)],
            ),
            (
                json!({"camera_model": "OPENCV", "k1": 0.1, "k2": -0.2, "p1": 0.01, "p2": 0.03}),
                {
                    let radial = 1.0 + 0.1 * r2 - 0.2 * r2 * r2;
                    [
                        0.3 * radial + 2.0 * 0.01 * 0.3 * -0.2 + 0.03 * (r2 + 2.0 * 0.09),
                        -0.2 * radial + 0.01 * (r2 + 2.0 * 0.04) + 2.0 * 0.03 * 0.3 * -0.2,
                    ]
                },
            ),
            // nerfstudio's k4 multiplies r⁸; OpenCV's is in the denominator.
            (
                json!({"camera_model": "OPENCV", "k3": 0.5, "k4": 2.0}),
                [0.3, -0.2].map(|x| x * (1.0 + 0.5 * r2.powi(3) + 2.0 * r2.powi(4))),
            ),
            (
                json!({"camera_model": "FULL_OPENCV", "k3": 0.5, "k4": 2.0}),
                [0.3, -0.2].map(|x| x * (1.0 + 0.5 * r2.powi(3)) / (1.0 + 2.0 * r2)),
            ),
            (
                json!({"k4": 0.4, "k6": 0.1}),
                [0.3, -0.2].map(|x| x / (1.0 + 0.4 * r2 + 0.1 * r2.powi(3))),
            ),
        ] {
            let found = lens(&keys).expect("distorted").distort(at);
            for axis in 0..2 {
                assert!(
                    (found[axis] - wanted[axis]).abs() < 1e-12,
                    "{keys}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn what_lands_somewhere_came_from_there() {
        for keys in [
            json!({"k1": 0.3, "k2": 0.1}),
            json!({"k1": -0.28, "k2": 0.08, "p1": 0.002, "p2": -0.001}),
            json!({"k1": -0.2, "k2": 0.05, "k3": -0.01, "k4": 0.001, "p1": 0.01}),
            json!({"camera_model": "FULL_OPENCV", "k1": 0.1, "k2": 0.2, "k4": 0.3, "k5": 0.1}),
        ] {
            let lens = lens(&keys).expect("distorted");
            let limit = lens.limit();
            assert!(limit > 0.9, "{keys}: {limit}");
            for step in 0..200 {
                let turn = f64::from(step) * 2.4;
                let r = 0.85 * f64::from(step) / 200.0;
                let at = [r * turn.cos(), r * turn.sin()];
                let back = lens.undistort(lens.distort(at), limit).expect("a ray");
                assert!(
                    (back[0] - at[0]).hypot(back[1] - at[1]) < 1e-9,
                    "{keys}: {at:?} {back:?}"
                );
            }
        }
    }

    #[test]
    fn beyond_its_turning_point_a_lens_shows_nothing() {
        // r (1 - 0.3 r²) turns at r = 1 / √0.9, where it reaches 0.7027.
        let lens = lens(&json!({"k1": -0.3})).expect("distorted");
        let turn = 1.0 / 0.9_f64.sqrt();
        assert!((lens.limit() - turn).abs() < 2e-3, "{}", lens.limit());
        assert!(lens.undistort([0.70, 0.0], lens.limit()).is_some());
        assert_eq!(lens.undistort([0.71, 0.0], lens.limit()), None);
    }
}
