//! Lenses beyond radial and tangential distortion: map rays to places on the sensor. What lies at 90° and more off the axis
//! is no part of a pinhole's picture and not mapped.
//!
//! ```text
//!    fisheye   (u, v) = θ / r · (x, y),  θ = atan r            r² = x² + y² on the plane at distance 1
//!              (a, b) = (u, v) · (1 + k1 θ² + k2 θ⁴ + …)       Kannala and Brandt, 2006
//!              x_d = a + 2 p1 u v + p2 (ρ² + 2 u²) + s1 ρ² + s2 ρ⁴     ρ² = u² + v²
//!              y_d = b + 2 p2 u v + p1 (ρ² + 2 v²) + s3 ρ² + s4 ρ⁴
//!    FOV       (x_d, y_d) = (x, y) · atan(2 r tan(ω / 2)) / (ω r)          Devernay and Faugeras, 2001
//!    EUCM      (x_d, y_d) = (x, y) / (α √(β r² + 1) + 1 - α)               Khomutenko, Garcia and Martinet, 2016
//!    division  (x_d, y_d) = (x, y) · 2 / (1 + √(1 - 4 k r²))               Fitzgibbon, 2001
//! ```
//!
//! Order and meaning of the parameters are those of COLMAP's `models.h`. Its `RAD_TAN_THIN_PRISM_FISHEYE`, which is Project
//! Aria's fisheye624, takes (a, b) for (u, v) in the tangential and prism terms, and names p1 and p2 the other way round.

/// A lens of one of these kinds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Curved {
    Fisheye(Fisheye),
    /// ω in radians.
    Fov(f64),
    /// α and β.
    Eucm([f64; 2]),
    /// k. No fisheye, but its formula is of this kind.
    Division(f64),
}

/// Coefficients, see the head of this file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fisheye {
    /// k1 to k6.
    pub(crate) radial: [f64; 6],
    /// p1, p2.
    pub(crate) tangential: [f64; 2],
    /// s1 to s4.
    pub(crate) prism: [f64; 4],
    /// Tangential and prism terms are of what the radial ones give.
    pub(crate) after: bool,
}

impl Curved {
    /// A fisheye with radial coefficients alone; the rest are 0.
    pub(crate) fn fisheye(coefficients: &[f64]) -> Self {
        let mut radial = [0.0; 6];
        let pairs = radial.iter_mut().zip(coefficients);
        pairs.for_each(|(k, coefficient)| *k = *coefficient);
        Self::Fisheye(Fisheye {
            radial,
            ..Fisheye::default()
        })
    }

    /// It reaches beyond what a pinhole shows well.
    pub(crate) fn is_fisheye(&self) -> bool {
        !matches!(self, Self::Division(_))
    }

    /// What it is called.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Fisheye(_) => "fisheye, as OPENCV_FISHEYE",
            Self::Fov(_) => "FOV",
            Self::Eucm(_) => "EUCM",
            Self::Division(_) => "DIVISION",
        }
    }

    /// Distance from the axis at which a ray lands, without terms that depend on its direction.
    pub(super) fn radius(&self, r: f64) -> f64 {
        match self {
            Self::Fisheye(fisheye) => {
                let angle = r.atan();
                angle * fisheye.factor(angle * angle)
            }
            Self::Fov(angle) => (2.0 * r * (angle / 2.0).tan()).atan() / angle,
            Self::Eucm([alpha, beta]) => r / (alpha * (beta * r * r + 1.0).sqrt() + 1.0 - alpha),
            Self::Division(k) => 2.0 * r / (1.0 + (1.0 - 4.0 * k * r * r).sqrt()),
        }
    }

    /// Maps `(x, y)` on the plane at distance 1 to its place.
    pub(super) fn distort(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let r = x.hypot(y);
        if r < 1e-9 {
            return self.near_axis([x, y]);
        }
        let Self::Fisheye(fisheye) = self else {
            return [x, y].map(|along| along * self.radius(r) / r);
        };
        let angle = r.atan();
        let plain = [x, y].map(|along| along * angle / r);
        let bent = plain.map(|along| along * fisheye.factor(angle * angle));
        let [u, v] = if fisheye.after { bent } else { plain };
        let square = u * u + v * v;
        let ([p1, p2], [s1, s2, s3, s4]) = (fisheye.tangential, fisheye.prism);
        [
            bent[0] + 2.0 * p1 * u * v + p2 * (square + 2.0 * u * u) + square * (s1 + s2 * square),
            bent[1] + 2.0 * p2 * u * v + p1 * (square + 2.0 * v * v) + square * (s3 + s4 * square),
        ]
    }

    /// The first order of the mapping.
    fn near_axis(&self, at: [f64; 2]) -> [f64; 2] {
        let by = match self {
            Self::Fov(angle) => 2.0 * (angle / 2.0).tan() / angle,
            Self::Fisheye(_) | Self::Eucm(_) | Self::Division(_) => 1.0,
        };
        at.map(|along| along * by)
    }
}

impl Fisheye {
    /// Project Aria's coefficients: k0 to k5, p0 and p1, s0 to s3.
    pub(crate) fn of_aria(coefficients: &[f64]) -> Option<Self> {
        let &[k0, k1, k2, k3, k4, k5, p0, p1, s0, s1, s2, s3] = coefficients else {
            return None;
        };
        Some(Self {
            radial: [k0, k1, k2, k3, k4, k5],
            // Its p0 is of x.
            tangential: [p1, p0],
            prism: [s0, s1, s2, s3],
            after: true,
        })
    }

    fn factor(&self, square: f64) -> f64 {
        let terms = self.radial.iter().rev();
        1.0 + terms.fold(0.0, |sum, k| (sum + k) * square)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::transforms::Distortion;

    /// Where models land a ray at 45° in the direction (0.6, 0.8), by their formulas with numbers put in.
    #[test]
    fn each_model_lands_where_its_formula_says() {
        let angle = std::f64::consts::FRAC_PI_4;
        let (a2, a4) = (angle * angle, angle.powi(4));
        let [u, v] = [0.6 * angle, 0.8 * angle];
        let full = Fisheye {
            radial: [0.1, 0.02, 0.0, 0.0, 0.0, 0.0],
            tangential: [0.01, -0.02],
            prism: [0.003, 0.0, -0.004, 0.0],
            after: false,
        };
        let factor = 1.0 + 0.1 * a2 + 0.02 * a4;
        let thin = [
            u * factor + 0.02 * u * v - 0.02 * (a2 + 2.0 * u * u) + 0.003 * a2,
            v * factor - 0.04 * u * v + 0.01 * (a2 + 2.0 * v * v) - 0.004 * a2,
        ];
        let [a, b] = [u * factor, v * factor];
        let square = a * a + b * b;
        let after = [
            a + 0.02 * a * b - 0.02 * (square + 2.0 * a * a) + 0.003 * square,
            b - 0.04 * a * b + 0.01 * (square + 2.0 * b * b) - 0.004 * square,
        ];
        let half: f64 = 0.45;
        let fov = (2.0 * half.tan()).atan() / 0.9;
        let division = 2.0 / (1.0 + 2.2_f64.sqrt());
        let eucm = 1.0 / (0.6 * 2.1_f64.sqrt() + 0.4);
        for (lens, lands) in [
            (Curved::fisheye(&[]), [u, v]),
            (Curved::fisheye(&[0.1, 0.02]), [a, b]),
            (Curved::Fisheye(full), thin),
            (
                Curved::Fisheye(Fisheye {
                    after: true,
                    ..full
                }),
                after,
            ),
            (Curved::Fov(0.9), [0.6 * fov, 0.8 * fov]),
            (Curved::Eucm([0.6, 1.1]), [0.6 * eucm, 0.8 * eucm]),
            (Curved::Division(-0.3), [0.6 * division, 0.8 * division]),
        ] {
            let found = lens.distort([0.6, 0.8]);
            let off = (found[0] - lands[0]).hypot(found[1] - lands[1]);
            assert!(off < 1e-12, "{lens:?}: {found:?}, not {lands:?}");
            // The way back, from the axis to 70° off it.
            let lens = Distortion::Curved(lens);
            let limit = lens.limit();
            for step in 0..100_u8 {
                let turn = 2.4 * f64::from(step);
                let r = 2.7 * f64::from(step) / 100.0;
                let at = [r * turn.cos(), r * turn.sin()];
                let back = lens.undistort(lens.distort(at), limit).expect("a ray");
                let off = (back[0] - at[0]).hypot(back[1] - at[1]);
                assert!(off < 1e-6, "{lens:?}: {at:?} {back:?}");
            }
        }
    }
}
